/* SPDX-License-Identifier: BSD-3-Clause */
/* draw_faults.c - draws what happens to links, clocks, transmit rings, readers and their queues, and who attacks;
 * see draw.h.
 */
#include "sim/plan/draw.h"

#define ONE_IN                4u
#define STALL_PROBABILITY_MAX 8000u  /* of 65536 bursts */
#define DOZE_PROBABILITY_MAX  10000u /* of 65536 polls */
#define OLDER_HABITS          4u     /* drawn from the older numbers */
#define ATTACKED_ONE_IN       6u
#define SPEAKER_ONE_IN        6u
#define TIGHT_ONE_IN          8u
#define TIGHT_MAX             12u
#define RESIZE_MAX            6000u /* of 65536 polls */

/* Draws the endpoints that are attacked: RC, or sometimes another type. */
static void draw_attacked(struct sim_plan *plan)
{
    static const enum uro_qp_type types[] = { URO_QPT_RC,      URO_QPT_RC,     URO_QPT_UC,
                                              URO_QPT_UC,      URO_QPT_UD,     URO_QPT_UD,
                                              URO_QPT_XRC_INI, URO_QPT_XRC_INI };
    struct sim_plan_attacked *attacked = &plan->attacked;
    struct sim_plan_pair *pair = &attacked->pair;
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x76696374696d));
    if (plan->clean || uro_rng_below(&rng, ATTACKED_ONE_IN) != 0)
        return;
    *attacked = (struct sim_plan_attacked){ .type = types[uro_rng_below(&rng, 8)],
                                            .seed = uro_rng_u64(&rng),
                                            .wait_max = sim_world_between(&rng, 5, 400) };
    pair->seed = attacked->seed ^ 1;
    pair->sides[1] = 1;
    pair->path_mtu = 256u << uro_rng_below(&rng, 4);
    pair->message_max = sim_world_between(&rng, 8, 2048);
    pair->lives = UINT32_MAX;
    pair->life_max = 5000;
    pair->v6 = sim_draw_often(&rng);
    pair->ends[0] = (struct sim_plan_end){ .send_capacity = sim_world_between(&rng, 1, 8),
                                           .recv_capacity = sim_world_between(&rng, 1, 8),
                                           .send_sges = sim_world_between(&rng, 1, 4),
                                           .recv_sges = sim_world_between(&rng, 1, 4),
                                           .batch_max = 1,
                                           .recv_batch_max = 8,
                                           .post_wait_max = 100000,
                                           .srq = SIM_PLAN_NO_SRQ,
                                           .rd_atomic = 4,
                                           .min_rnr_timer = 1,
                                           .timeout = 8,
                                           .retry_count = 3,
                                           .rnr_retry = 3 };
    pair->ends[1] = pair->ends[0];
    plan->srqs[1][SIM_PLAN_SRQS_MAX] = (struct sim_plan_srq){
        .xrc = true, .capacity = 8, .capacity_max = 8, .spare = 8, .sges = 4, .batch_max = 8
    };
}

static void draw_quirks(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x686162697473));
    for (unsigned side = 0; side < 2; side++) {
        uint32_t habits = uro_rng_below(&rng, 1u << (SIM_QUIRKS_COUNT - OLDER_HABITS));
        if (!sim_draw_one_in(&rng, ONE_IN))
            continue;
        plan->cables[side].quirks |= habits << OLDER_HABITS;
        if (plan->clean)
            plan->cables[side].quirks &= ~SIM_QUIRK_LOSSY;
    }
}

static void set_tight(struct sim_plan *plan, uint32_t room)
{
    plan->cq_tight = room;
    for (uint32_t i = 0; i < plan->pair_count; i++)
        if (plan->pairs[i].lives < 2)
            plan->pairs[i].lives = 2; /* the last life does not use it */
}

static void draw_tight_all(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x7469676874));
    if (plan->clean || uro_rng_below(&rng, TIGHT_ONE_IN) != 0)
        return;
    plan->cq_tight_all = true;
    if (plan->cq_tight == 0)
        set_tight(plan, sim_world_between(&rng, 1, TIGHT_MAX));
}

/* Completion queues that change their size, and those that are too small. */
static void draw_queues(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x717565756573));
    if (sim_draw_one_in(&rng, ONE_IN))
        plan->resize_probability = sim_world_between(&rng, 1, RESIZE_MAX);
    if (plan->clean || uro_rng_below(&rng, TIGHT_ONE_IN) != 0)
        return;
    set_tight(plan, sim_world_between(&rng, 1, TIGHT_MAX));
}

static void draw_links_and_clocks(struct sim_plan *plan)
{
    struct sim_plan_faults *faults = &plan->faults;
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x74726f75626c65));
    faults->seed = uro_rng_u64(&rng);
    for (unsigned side = 0; side < 2; side++)
        if (sim_draw_one_in(&rng, ONE_IN))
            plan->cables[side].quirks = 1 + uro_rng_below(&rng, (1u << OLDER_HABITS) - 1);
    draw_quirks(plan);
    if (plan->clean)
        return;
    if (sim_draw_one_in(&rng, ONE_IN)) {
        faults->down_wait_max = sim_world_between(&rng, 500, 30000);
        faults->down_max = sim_world_between(&rng, 1, 3000);
    }
    if (sim_draw_one_in(&rng, ONE_IN)) {
        faults->jump_wait_max = sim_world_between(&rng, 500, 20000);
        faults->jump_max = sim_world_between(&rng, 10, 40000);
    }
    if (sim_draw_one_in(&rng, ONE_IN)) {
        faults->doze_probability = sim_world_between(&rng, 1, DOZE_PROBABILITY_MAX);
        faults->doze_max = sim_world_between(&rng, 10, 5000);
    }
    if (sim_draw_one_in(&rng, ONE_IN))
        plan->attacker =
            (struct sim_attacker_config){ .seed = uro_rng_u64(&rng),
                                          .wait_max = sim_world_between(&rng, 20, 500) };
    for (unsigned side = 0; side < 2; side++) {
        struct sim_host_config *host = &plan->hosts[side];
        if (!sim_draw_one_in(&rng, ONE_IN))
            continue;
        host->tx_stall_probability = sim_world_between(&rng, 1, STALL_PROBABILITY_MAX);
        host->tx_stall_max = URO_US(sim_world_between(&rng, 10, 2000));
    }
}

/* Draws an attacker that sends the messages of connections again. */
static void draw_speaker(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x737065616b6572));
    if (plan->clean || plan->cm.callers[0] + plan->cm.callers[1] == 0 ||
        uro_rng_below(&rng, SPEAKER_ONE_IN) != 0)
        return;
    if (plan->attacker.wait_max == 0)
        plan->attacker =
            (struct sim_attacker_config){ .seed = uro_rng_u64(&rng),
                                          .wait_max = sim_world_between(&rng, 20, 500) };
    plan->attacker.speaks = true;
}

void sim_draw_faults(struct sim_plan *plan)
{
    draw_queues(plan);
    draw_tight_all(plan);
    draw_attacked(plan);
    draw_links_and_clocks(plan);
    draw_speaker(plan);
}
