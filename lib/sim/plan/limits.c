/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.c - how long everything may take under a plan; see plan.h. */
#include "core/limits.h"
#include "sim/plan/plan.h"

#define RETRY_MAX       7u
#define ATTACKED_WAIT   URO_MS(1000) /* for the last messages after an attack */
#define NEIGHBOUR_WAIT  URO_MS(9000) /* an address that was not found is resolved again */
#define PS_PER_NS       1000u
#define TRIES           8u /* of a last attempt that is turned away */
#define MRA_EXPONENT    24u
#define EXPONENT_OF_MS  8u /* 4.096 us * 2^8 is 1 ms, as Linux counts it */
#define MESSAGES_OF_ONE 24u

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static const struct sim_host_config *host_of(const struct sim_plan *plan, unsigned side)
{
    return &plan->net->hosts[plan->hosts[side]];
}

static uint64_t cm_frames(const struct sim_plan *plan)
{
    const struct sim_plan_cm *cm = &plan->cm;
    uint32_t callers = cm->callers[0] + cm->callers[1];

    if (callers == 0)
        return 0;
    return 2 * callers *
           (MESSAGES_OF_ONE + cm->message_count * (cm->message_max / cm->path_mtu + UINT64_C(2)));
}

/* Returns the most requests and answers that may be in flight from a host because of one link. */
static uint64_t link_frames(const struct sim_plan *plan, unsigned side)
{
    uint32_t window = host_of(plan, side)->engine.window;
    if (window == 0)
        window = URO_WINDOW_DEFAULT;
    uint64_t frames = (uint64_t)window * plan->pair_count * 2; /* requests and READ responses */

    for (uint32_t i = 0; i < plan->uc_count; i++) {
        const struct sim_plan_pair *uc = &plan->ucs[i];
        frames += 4 * (uc->ends[0].sends * (uc->message_max / uc->path_mtu + 1));
    }
    for (uint32_t i = 0; i < plan->party_count; i++)
        frames += 2 * plan->parties[i].ends[0].sends;
    return frames + cm_frames(plan);
}

static uint32_t largest_frame(const struct sim_plan *plan)
{
    uint32_t mtu = plan->cm.path_mtu;

    for (uint32_t i = 0; i < plan->uc_count; i++)
        mtu = larger(mtu, plan->ucs[i].path_mtu);
    for (uint32_t i = 0; i < plan->pair_count; i++)
        mtu = larger(mtu, plan->pairs[i].path_mtu);
    if (plan->party_count > 0 || plan->net->link_count > 1)
        mtu = URO_PATH_MTU_MAX;
    return mtu + URO_ROCE_OVERHEAD;
}

/* Returns the most frames that may be in flight from a host, over all its links. */
static uint64_t host_frames(const struct sim_net_plan *net, unsigned host)
{
    uint64_t frames = 0;

    for (uint32_t i = 0; i < net->link_count; i++)
        for (unsigned side = 0; side < 2; side++)
            if (net->links[i].hosts[side] == host)
                frames += link_frames(&net->links[i], side);
    return frames;
}

uro_time sim_plan_compute_flight(const struct sim_plan *plan)
{
    uint32_t largest = largest_frame(plan);
    uro_time longest = 0;

    for (unsigned side = 0; side < 2; side++) {
        const struct sim_cable_config *cable = &plan->cables[side];
        uint64_t frames = host_frames(plan->net, plan->hosts[side]);
        uro_time time = cable->one_way_delay + cable->jitter + cable->late_max +
                        frames * largest * cable->ps_per_octet / PS_PER_NS +
                        frames * host_of(plan, side)->tx_gap_max +
                        (host_of(plan, side)->threads ? SIM_THREADS_USUAL : 0) +
                        (host_of(plan, !side)->threads ? SIM_THREADS_USUAL : 0);
        if (time > longest)
            longest = time;
    }
    return longest;
}

uro_time sim_plan_cm_time(uint32_t exponent)
{
    return URO_MS(1) << (exponent < EXPONENT_OF_MS ? 0 : exponent - EXPONENT_OF_MS);
}

/* Returns the time for open connections when faults stop, for the last attempt of each caller with a few rejections, and for
 * MRAs. */
static uro_time cm_patience(const struct sim_plan *plan)
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

/* The limit is generous: the simulator looks for work that never ends, not for slow work. */
static uro_time link_patience(const struct sim_plan *plan)
{
    uro_time sum = NEIGHBOUR_WAIT;
    uro_time flight = sim_plan_flight_max(plan);

    for (uint32_t i = 0; i < plan->pair_count; i++) {
        const struct sim_plan_pair *pair = &plan->pairs[i];
        for (unsigned side = 0; side < 2; side++) {
            const struct sim_plan_end *end = &pair->ends[side];
            const struct sim_plan_end *peer = &pair->ends[!side];
            uro_time each = 2 * flight + end->post_wait_max + 2 * plan->poll_wait_max +
                            peer->recv_wait_max + URO_MS(2); /* one or two RNR waits */
            if (peer->srq != SIM_PLAN_NO_SRQ || pair->xrc)
                each *= 2 * plan->pair_count; /* other queue pairs may be served first */
            sum += (pair->lives + 1) * (URO_US(pair->life_max) + end->sends * each +
                                        (RETRY_MAX + 2) * SIM_PLAN_ACK_TIMEOUT(end->timeout) * 2);
        }
    }
    for (uint32_t i = 0; i < plan->uc_count; i++) {
        const struct sim_plan_pair *uc = &plan->ucs[i];
        sum += URO_MS(100) + 2 * uc->ends[0].sends *
                                 (2 * flight + 2 * plan->poll_wait_max + uc->ends[0].post_wait_max +
                                  uc->ends[0].recv_wait_max);
    }
    for (uint32_t i = 0; i < plan->party_count; i++) {
        const struct sim_plan_pair *party = &plan->parties[i];
        sum += URO_MS(100) + 2 * party->ends[0].sends *
                                 (2 * flight + 2 * plan->poll_wait_max +
                                  party->ends[0].post_wait_max + party->ends[0].recv_wait_max);
    }
    return sum + cm_patience(plan) + (plan->attacked.wait_max > 0 ? ATTACKED_WAIT : 0);
}

uro_time sim_net_plan_patience(const struct sim_net_plan *net)
{
    uro_time sum = 0;

    for (uint32_t i = 0; i < net->link_count; i++)
        sum += link_patience(&net->links[i]);
    return sum;
}

uro_time sim_plan_faults_max(const struct sim_plan *plan, uint32_t occasions)
{
    uro_time stall = 0;

    for (unsigned side = 0; side < 2; side++)
        if (host_of(plan, side)->tx_stall_max > stall)
            stall = host_of(plan, side)->tx_stall_max;
    for (unsigned side = 0; side < 2; side++)
        stall += host_of(plan, side)->threads ? SIM_THREADS_LATE : 0;
    return stall * occasions + SIM_PLAN_JUMPS_MAX * URO_US(plan->net->faults.jump_max);
}
