/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign.h - frames rewritten as other implementations would have sent them: Linux rxe, and NICs.
 * Nothing that we send ourselves looks so. Most is allowed; what is not loses an answer, as a network may.
 */
#pragma once

#include "io/sim/world.h"

#define URO_FOREIGN_ACK_REQ (1u << 0) /* in the middle of messages, and on datagrams: rxe */
#define URO_FOREIGN_PORT    (1u << 1) /* another UDP source port with every frame */
#define URO_FOREIGN_FLUSH   (1u << 2) /* FLUSH with the ICRC that rxe computes */
#define URO_FOREIGN_CREDITS (1u << 3) /* an ACK that grants a number of requests: NICs */
#define URO_FOREIGN_MIGREQ  (1u << 4) /* never set: rxe */
#define URO_FOREIGN_TAIL    (1u << 5) /* a READ that is answered again goes on with MIDDLE: rxe */
#define URO_FOREIGN_OPERATIONAL                                                                    \
    (1u << 6)                          /* NAK 0x63 for an invalid request: rxe, for too long ones */
#define URO_FOREIGN_BARE_ACK (1u << 7) /* now and then, for a READ */
#define URO_FOREIGN_HABITS   9u

/* It loses an answer, as a fault does. */
#define URO_FOREIGN_LOSSY URO_FOREIGN_BARE_ACK

#define URO_FOREIGN_READS 32u

/* What a sender remembers of what it sent; zeroed to begin with. */
struct uro_foreign {
    struct uro_foreign_read {
        uint32_t qpn;
        uint32_t first; /* PSN */
        uint32_t count; /* answers until now */
    } reads[URO_FOREIGN_READS];
    uint32_t next_read;
};

/* A whole RoCE frame, which may become shorter; others are left alone. @number is another one with each
 * frame. */
void uro_foreign_rewrite(struct uro_foreign *foreign, struct uro_world_frame *frame,
                         unsigned habits, uint32_t number);
