/* SPDX-License-Identifier: BSD-3-Clause */
/* twins.h - one engine and two RC queue pairs that are connected to each other. */
#pragma once

#include <uroce/objects.h>

#include "base/time.h"
#include "support/check.h"

#define TWINS_MEMORY (512u * 1024)
#define TWINS_BURST  32u
#define TWINS_SHARE  5u /* upper bits of queue pair numbers, with twins_open_shared() */
#define TWINS_MAC                                                                                  \
    {                                                                                              \
        2, 0, 0, 0, 0, 1                                                                           \
    }
#define TWINS_MAC_GID "fe80::ff:fe00:1" /* link-local address of that MAC address */

/* A queue pair, its CQ and its memory. */
struct end {
    struct uroce_qp *qp;
    struct uroce_cq *cq;
    uint8_t *memory;
    struct uroce_mr *mr;
};

struct twins {
    struct uroce_engine *engine;
    struct uroce_pd *pd;
    uro_time now;
    struct end a, b;
};

/* Fixtures. The engine has its link-local address, 10.0.0.1/24 and 10.9.9.9/24. */
int twins_open(void **state);
/* Does the same for an engine that shares its address with other processes. */
int twins_open_shared(void **state);
int twins_close(void **state);

/* Moves @end to RTS, connected to queue pair @qpn at @dest. */
void twins_connect_to(struct twins *s, struct end *end, uint8_t sgid_index, const char *dest,
                      uint32_t qpn);
/* Connects a and b to each other, both at 10.0.0.1. */
void twins_connect(struct twins *s);
void twins_destroy_qp(struct twins *s, struct end *end);

/* Writes the test pattern to the memory of @end. */
void twins_fill(struct end *end, uint32_t at, uint32_t length);
void twins_post_recv(struct end *end, uint64_t id, uint32_t at, uint32_t length);
/* Registers the memory of @end again with @access, in @pd or, if it is NULL, in s->pd. The key
 * changes. */
void twins_register(struct twins *s, struct end *end, struct uroce_pd *pd, unsigned access);
/* Posts a signalled request. If the operation has an element, the element is @length bytes at
 * offset @at in the memory of @end. */
void twins_post(struct end *end, const struct uroce_send *request, uint32_t at, uint32_t length);
void twins_post_send(struct end *end, uint64_t id, uint32_t at, uint32_t length);

/* Calls the engine once, as a driver does. Returns the number of sent frames. */
uint32_t twins_output(struct twins *s, uint32_t room);
/* Returns frame @index of the last twins_output(). */
const struct uroce_buffer *twins_frame(uint32_t index);
/* Calls the engine until nothing is due at this time. Returns the number of sent frames. */
uint32_t twins_settle(struct twins *s);
/* Advances the time to @until and runs everything that is due before. Returns the number of sent
 * frames. */
uint32_t twins_pass_time(struct twins *s, uro_time until);

void twins_expect(struct twins *s, struct end *end, uint64_t id, enum uroce_status status);
void twins_expect_nothing(struct twins *s, struct end *end);
uint64_t twins_counter(const struct twins *s, const char *counter);
