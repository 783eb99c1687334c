/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_manager.h - connections of the stage's engine. Messages of the peer arrive as packets to
 * QP1. An application listens, and acts as the input says.
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

/* Delivers a message. Byte 0 is its kind. Byte 1 says which message it answers, counted from the
 * last message that the engine sent. Then come pairs of a field and a value, which replaces the
 * fitting value. */
void fuzz_manager_message(struct managed *managed, struct stage *stage, const uint8_t *octets,
                          uint32_t length);

/* Runs an action of the application. The low 3 bits of @argument select the action. The other bits
 * select the connection, and the kind of a connect. Without a connection, every action is a
 * connect. */
void fuzz_manager_act(struct managed *managed, struct stage *stage, uint8_t argument);
