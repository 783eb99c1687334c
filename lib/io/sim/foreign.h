/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign.h - frames rewritten as other implementations would have sent them: Linux rxe, and NICs.
 * Everything is allowed, and nothing that we send ourselves looks so.
 */
#pragma once

#include "io/sim/world.h"

#define URO_FOREIGN_ACK_REQ (1u << 0) /* in the middle of messages, and on datagrams: rxe */
#define URO_FOREIGN_PORT    (1u << 1) /* another UDP source port with every frame */
#define URO_FOREIGN_FLUSH   (1u << 2) /* FLUSH with the ICRC that rxe computes */
#define URO_FOREIGN_CREDITS (1u << 3) /* an ACK that grants a number of requests: NICs */
#define URO_FOREIGN_HABITS  4u

/* A whole RoCE frame; others are left alone. @number is another one with each frame. */
void uro_foreign_rewrite(struct uro_world_frame *frame, unsigned habits, uint32_t number);
