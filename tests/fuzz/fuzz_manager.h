/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_manager.h - connections of the stage's engine: messages of the peer come as packets to QP1,
 * an application listens and does what the script says.
 */
#pragma once

#include "fuzz_stage.h"

#define MANAGED_CONNS 8u

struct managed {
    struct uro_listener listener;
    struct uro_conn *conns[MANAGED_CONNS];
    uint32_t count;
};

void fuzz_manager_open(struct managed *managed, struct stage *stage);
void fuzz_manager_close(struct managed *managed, struct stage *stage);

/* Events are heard. */
void fuzz_manager_listen(struct managed *managed, struct stage *stage);

/* Octet 0: the kind; 1: which connection it is about, of those that the application has; then
 * pairs: a field and what it is instead of what fits. */
void fuzz_manager_message(struct managed *managed, struct stage *stage, const uint8_t *octets,
                          uint32_t length);

/* Low 3 bits: what; the others: to which connection, and for connecting how. */
void fuzz_manager_act(struct managed *managed, struct stage *stage, uint8_t argument);
