/* SPDX-License-Identifier: BSD-3-Clause */
/* twins.h - one engine and two RC queue pairs that are connected to each other. */
#pragma once

#include "core/key.h"
#include "core/qp.h"
#include "engine/engine.h"
#include "support/check.h"

#define TWINS_MEMORY (512u * 1024)
#define TWINS_BURST  32u
#define TWINS_SHARE  5u /* upper bits of queue pair numbers, with twins_open_shared() */

/* A queue pair, its CQ and its memory. */
struct end {
    void *qp_memory;
    struct uro_qp *qp;
    struct uro_cq *cq;
    uint8_t *memory;
    struct uro_key key;
};

struct twins {
    void *engine_memory;
    struct uro_engine *engine;
    uro_time now;
    struct uro_tx tx[2 * TWINS_BURST];
    struct end a, b;
};

extern const struct uro_mac twins_mac;

/* Fixtures: the engine's addresses are its link-local one, 10.0.0.1/24 and 10.9.9.9/24. */
int twins_open(void **state);
/* Does the same with addresses that other processes share. */
int twins_open_shared(void **state);
int twins_close(void **state);

struct uro_gid twins_gid(const char *text);

/* Moves @end to RTS, connected to queue pair @qpn at @dest. */
void twins_connect_to(struct twins *s, struct end *end, uint8_t sgid_index, struct uro_gid dest,
                      uint32_t qpn);
/* Connects a and b to each other, both at 10.0.0.1. */
void twins_connect(struct twins *s);
void twins_destroy_qp(struct twins *s, struct end *end);

/* Writes the test pattern to the memory of @end. */
void twins_fill(struct end *end, uint32_t at, uint32_t length);
void twins_post_recv(struct end *end, uint64_t id, uint32_t at, uint32_t length);
/* Posts a signalled request with one element at @at of the memory of @end. */
void twins_post(struct twins *s, struct end *end, const struct uro_wqe *request, uint32_t at);
void twins_post_send(struct twins *s, struct end *end, uint64_t id, uint32_t at, uint32_t length);

/* Calls the engine once and writes all frames, as a driver does. Returns how many frames left. */
uint32_t twins_output(struct twins *s, uint32_t room);
/* Calls the engine until nothing is due at this time. Returns how many frames left. */
uint32_t twins_settle(struct twins *s);
/* Advances the time to @until and handles all that is due before. Returns how many frames left. */
uint32_t twins_pass_time(struct twins *s, uro_time until);

void twins_expect(struct end *end, uint64_t id, enum uro_wc_status status);
void twins_expect_nothing(struct end *end);
uint64_t twins_counter(const struct twins *s, enum uro_counter which);
