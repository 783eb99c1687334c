/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_manager.h - connections of the stage's engine: messages of the peer arrive as packets to
 * QP1. An application listens and acts as the script demands.
 */
#pragma once

#include "fuzz_stage.h"

#define MANAGED_CONNS 8u

struct managed {
    struct uroce_listener *listener;
    struct uroce_conn *conns[MANAGED_CONNS];
    uint32_t count;
};

void fuzz_manager_open(struct managed *managed, struct stage *stage);
void fuzz_manager_close(struct managed *managed, struct stage *stage);

/* Takes the events of the connection manager, and keeps the connection requests. */
void fuzz_manager_listen(struct managed *managed, struct stage *stage);

/* Delivers a message. Byte 0: the kind; byte 1: how many messages ago the engine sent the message
 * that this one answers; then pairs: a field and its value in place of the fitting value. */
void fuzz_manager_message(struct managed *managed, struct stage *stage, const uint8_t *octets,
                          uint32_t length);

/* Runs an action of the application. Low 3 bits of @argument: the action; the others: the
 * connection, and the kind of a connect. */
void fuzz_manager_act(struct managed *managed, struct stage *stage, uint8_t argument);
