/* SPDX-License-Identifier: BSD-3-Clause */
/* quirks.h - rewrites frames to look like frames of other implementations: Linux rxe, and NICs.
 *
 * uroce itself sends no such frames. The standard allows most of these changes. SIM_QUIRK_BARE_ACK
 * loses a response, as a network may do, too.
 */
#pragma once

#include "sim/net/world.h"

#define SIM_QUIRK_ACK_REQ (1u << 0) /* AckReq inside messages and on datagrams: rxe */
#define SIM_QUIRK_PORT    (1u << 1) /* another UDP source port with every frame */
#define SIM_QUIRK_FLUSH   (1u << 2) /* FLUSH with the ICRC that rxe computes */
#define SIM_QUIRK_CREDITS (1u << 3) /* an ACK that grants a number of requests: NICs */
#define SIM_QUIRK_MIGREQ  (1u << 4) /* MigReq is never set: rxe */
#define SIM_QUIRK_TAIL    (1u << 5) /* a repeated READ response goes on with MIDDLE or LAST: rxe */
#define SIM_QUIRK_OPERATIONAL                                                                      \
    (1u << 6) /* NAK 0x63 for an invalid request: rxe, if the request is too long */
#define SIM_QUIRK_BARE_ACK (1u << 7) /* an occasional ACK without data for a READ */
#define SIM_QUIRKS_COUNT   8u

/* Quirks that lose a response, as a fault does. */
#define SIM_QUIRK_LOSSY SIM_QUIRK_BARE_ACK

#define SIM_QUIRKS_READS 32u

/* The READ responses that a sender sent; zeroed at the beginning. */
struct sim_quirks {
    struct sim_quirks_read {
        uint32_t qpn;
        uint32_t first; /* PSN */
        uint32_t count; /* responses until now */
    } reads[SIM_QUIRKS_READS];
    uint32_t next_read;
};

/* Rewrites a whole RoCE frame, which may become shorter; leaves other frames alone. @number differs
 * from frame to frame. */
void sim_quirks_rewrite(struct sim_quirks *seen, struct sim_world_frame *frame, unsigned quirks,
                        uint32_t number);
