/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_cm.c - draws applications that connect by messages, and says how long they may take; see
 * plan.h.
 */
#include "core/limits.h"
#include "sim/plan/plan.h"

#define CALLERS_MAX     3u
#define TRIES           8u /* of a last attempt that is turned away */
#define MRA_EXPONENT    24u
#define EXPONENT_OF_MS  8u /* 4.096 us * 2^8 is 1 ms, as Linux counts it */
#define MESSAGES_OF_ONE 24u
#define RETRIES_MAX     15u
#define NS_PER_US       1000u

static bool often(struct uro_rng *rng)
{
    return uro_rng_below(rng, 2) == 0;
}

static uint32_t share(struct uro_rng *rng, uint32_t most)
{
    return often(rng) ? 1 + uro_rng_below(rng, most) : 0;
}

void sim_plan_draw_cm(struct sim_plan *plan)
{
    struct sim_plan_cm *cm = &plan->cm;
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x636d));
    *cm = (struct sim_plan_cm){ .seed = uro_rng_u64(&rng) };
    if (!often(&rng))
        return;
    cm->callers[0] = sim_world_between(&rng, 1, CALLERS_MAX);
    cm->callers[1] = uro_rng_below(&rng, CALLERS_MAX + 1);
    cm->connections = often(&rng) ? sim_world_between(&rng, 4, 12) : 64;
    cm->backlog = often(&rng) ? sim_world_between(&rng, 1, 3) : 16;
    cm->notices = often(&rng);
    cm->v6 = often(&rng);
    cm->path_mtu = 256u << uro_rng_below(&rng, 5);
    cm->message_max = cm->path_mtu * sim_world_between(&rng, 1, 4) - uro_rng_below(&rng, 64);
    cm->message_count = uro_rng_below(&rng, 9);
    cm->call_wait_max = NS_PER_US * sim_world_between(&rng, 1, 3000);
    cm->turn_wait_max = NS_PER_US * sim_world_between(&rng, 1, 2000);
    cm->stay_max = sim_world_between(&rng, 100, 30000);
    cm->query_share = share(&rng, 40000);
    cm->self_share = share(&rng, 20000);
    cm->response_timeout = (uint8_t)sim_world_between(&rng, EXPONENT_OF_MS, EXPONENT_OF_MS + 3);
    cm->retries = (uint8_t)sim_world_between(&rng, 3, RETRIES_MAX);
    cm->ack_more = (uint8_t)uro_rng_below(&rng, 3);
    if (!plan->clean) {
        cm->attempts = sim_world_between(&rng, 1, 12);
        cm->shut_wait_max = share(&rng, 20000);
        cm->leave_share = share(&rng, 40000);
        cm->reject_share = share(&rng, 20000);
        cm->nobody_share = share(&rng, 10000);
        cm->absent_share = share(&rng, 10000) * uro_rng_below(&rng, 2);
        cm->patient_share = often(&rng) ? uro_rng_below(&rng, 65537) : 0;
        cm->slow_share = share(&rng, 30000);
    }
    for (unsigned side = 0; side < 2; side++)
        plan->hosts[side].engine.connections =
            plan->clean ? SIM_PLAN_CALM_CONNECTIONS : cm->connections;
}

uro_time sim_plan_cm_time(uint32_t exponent)
{
    return URO_MS(1) << (exponent < EXPONENT_OF_MS ? 0 : exponent - EXPONENT_OF_MS);
}

uint64_t sim_plan_cm_frames(const struct sim_plan *plan)
{
    const struct sim_plan_cm *cm = &plan->cm;
    uint32_t callers = cm->callers[0] + cm->callers[1];

    if (callers == 0)
        return 0;
    return 2 * callers *
           (MESSAGES_OF_ONE + cm->message_count * (cm->message_max / cm->path_mtu + UINT64_C(2)));
}

/* What goes on when faults stop, then a last attempt of each caller, which may find no room a few
 * times; whoever is asked to wait waits. */
uro_time sim_plan_cm_patience(const struct sim_plan *plan)
{
    const struct sim_plan_cm *cm = &plan->cm;
    uint32_t callers = cm->callers[0] + cm->callers[1];
    uro_time asking =
        (SIM_PLAN_CM_PATIENT_RETRIES + UINT64_C(1)) *
        (2 * sim_plan_cm_time(cm->ack_timeout) + sim_plan_cm_time(SIM_PLAN_CM_PATIENT_TIMEOUT));
    uro_time one = 3 * asking + 2 * sim_plan_cm_time(MRA_EXPONENT) + 4 * cm->turn_wait_max +
                   cm->call_wait_max + URO_US(cm->stay_max) + SIM_PLAN_CM_SLOW +
                   SIM_PLAN_CM_STAY_LONG + cm->message_count * 4 * sim_plan_flight_max(plan);

    return callers == 0 ? 0 : 2 * one + callers * TRIES * one;
}
