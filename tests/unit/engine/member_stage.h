/* SPDX-License-Identifier: BSD-3-Clause */
/* member_stage.h - an engine whose reports are heard, and which can be asked. */
#pragma once

#include "engine/engine.h"
#include "wire/membership.h"

#define RECORDS_MAX 16384u

/* What the reports seen so far say. */
struct heard {
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
    struct heard heard;
};

struct uro_gid gid(const char *text);

/* 10.0.0.1, fd00::1:2:3 and the link-local address of 02:00:00:00:00:01. */
struct stage *open_stage(void);
/* With another MTU, another IPv4 address or none. */
struct stage *open_with(uint32_t mtu, const char *ip4);
void close_stage(struct stage *s);

void join(struct stage *s, const char *group, uro_time now);
void leave(struct stage *s, const char *group, uro_time now);

/* A query of IGMPv3 or MLDv2; of all groups when @group is NULL. */
void ask(struct stage *s, bool v6, const char *group, uint8_t code, uro_time now);
/* The same; its @length says the version. */
void ask_in(struct stage *s, bool v6, uint32_t length, const char *group, uint8_t code,
            uro_time now);

/* All frames that leave at @now must be reports: s->heard has their records, and no others, an
 * older version's with the type of the message; the last frame is in s->frame. Returns how many. */
uint32_t listen_to(struct stage *s, uro_time now);
bool heard(const struct stage *s, unsigned what, const char *group);
void expect_frame(const struct stage *s, const char *hex);

/* When the engine does something by itself; NEVER when it does not. */
uro_time next(const struct stage *s);

uint64_t counted(const struct stage *s, enum uro_counter counter);
