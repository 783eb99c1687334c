/* SPDX-License-Identifier: BSD-3-Clause */
/* attacked.h - two connected queue pairs under attack by an attacker that reads all frames. The
 * attacker knows the addresses, the QPNs, the keys, and PSNs near the expected PSNs.
 *
 * No protocol without secrets stops such an attacker. Messages that arrive may be forged, and queue
 * pairs of RC and XRC may fail. Queue pairs of UC and UD never fail. Memory without a key is
 * neither changed nor sent. Other queue pairs are not affected. A life of UC or UD that survives
 * the attack is the last life. When faults have stopped, its ends send each other one more message,
 * which must arrive.
 */
#pragma once

#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define SIM_ATTACKED_FRAMES 8u    /* frames that the attacker keeps */
#define SIM_ATTACKED_FRAME  4600u /* bytes of such a frame */
#define SIM_ATTACKED_RANGE  4096u /* bytes of a range of memory, with or without access for peers */
#define SIM_ATTACKED_QKEY   0x11223344u
#define SIM_ATTACKED_SRQ    SIM_PLAN_SRQS_MAX /* index of an XRC target's queue */

struct sim_attacked {
    struct sim_node attacker;
    struct sim_workload *workload;
    const struct sim_plan_attacked *plan;
    struct uro_rng rng;
    struct sim_life life;
    struct sim_plan_end last_plan; /* plan of each end in its last life */
    struct sim_attacked_end {
        struct uroce_ah *ah; /* UD: handle of the other end; owned; NULL: none */
        uint32_t seen[2];    /* last PSN sent to this end, by role */
        uint32_t gone_key;   /* key of a range of the previous life; 0: none */
        uint64_t gone_range; /* address of that range */
    } ends[2];               /* numbers of life.ends[] that the attacker has */
    bool over;               /* the attack has ended */
    bool finishing;          /* the ends send their last messages, which must arrive */
    uro_time finishing_since;
    uro_time forge_at;
    struct sim_attacked_frame {
        uint8_t bytes[SIM_ATTACKED_FRAME];
        uint32_t length; /* 0: none yet */
        const struct sim_endpoint *to;
    } frames[SIM_ATTACKED_FRAMES];
    uint32_t frame_count; /* frames stored so far */
};

/* Creates the queue pairs. Returns NULL when the plan has no attack. */
struct sim_attacked *sim_attacked_make(struct sim_workload *workload);
/* @attacked may be NULL in the functions below. */
void sim_attacked_free(struct sim_attacked *attacked);
/* Stops the attack. */
void sim_attacked_calm(struct sim_attacked *attacked);
/* Returns true when the frame is from one of these queue pairs to the other. */
bool sim_attacked_wire(struct sim_attacked *attacked, const struct sim_host *host,
                       const struct uro_frame *frame);
/* Checks the shared receive queue after all work has ended. */
void sim_attacked_check(struct sim_attacked *attacked);
