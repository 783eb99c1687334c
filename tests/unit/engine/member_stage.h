/* SPDX-License-Identifier: BSD-3-Clause */
/* member_stage.h - an engine for the tests of multicast membership: a test sends it queries and
 * reads its reports. */
#pragma once

#include "engine/engine.h"
#include "wire/membership.h"

#define RECORDS_MAX 16384u

/* Contents of the reports that the last listen_to() read. */
struct reports {
    uint32_t count;
    uint32_t frames;
    uint32_t longest;
    uint8_t type[RECORDS_MAX];
    struct uro_gid group[RECORDS_MAX];
};

struct stage {
    struct uro_engine_config config;
    void *memory;
    struct uro_engine *engine;
    uint8_t frame[16384];
    uint32_t length;
    struct reports reports;
};

struct uro_gid gid(const char *text);

/* Opens an engine with 10.0.0.1, fd00::1:2:3 and the link-local address of 02:00:00:00:00:01. */
struct stage *open_stage(void);
/* Opens an engine with another MTU, and with another IPv4 address or none. */
struct stage *open_with(uint32_t mtu, const char *ip4);
void close_stage(struct stage *s);

void join(struct stage *s, const char *group, uro_time now);
void leave(struct stage *s, const char *group, uro_time now);

/* Sends a query of IGMPv3 or MLDv2; for all groups when @group is NULL. */
void ask(struct stage *s, bool v6, const char *group, uint8_t code, uro_time now);
/* Does the same in the version that the message length @length selects. */
void ask_in(struct stage *s, bool v6, uint32_t length, const char *group, uint8_t code,
            uro_time now);

/* Reads all frames that the engine sends at @now, which must be reports. Writes their records to
 * s->reports. A report of an older version counts as a record with its message type. The last frame
 * is in s->frame. Returns the number of records. */
uint32_t listen_to(struct stage *s, uro_time now);
bool reported(const struct stage *s, unsigned what, const char *group);
void expect_frame(const struct stage *s, const char *hex);

/* Returns the time of the engine's next timer, or URO_TIME_NEVER. */
uro_time next(const struct stage *s);

uint64_t counted(const struct stage *s, enum uro_counter counter);
