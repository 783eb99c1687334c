/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_shared.c - draws shared receive queues and who uses them, pairs of a host with
 * itself, and the newer operations.
 *
 * From numbers of its own, so that seeds without them keep their meaning.
 */
#include "sim/plan/plan.h"

#define BASIC_MAX       2u
#define XRC_MAX         3u
#define CLEAN_CAPACITY  1024u /* more than all pairs ever send: no RNR */
#define LIVES_OF_ALL    64u   /* a receive may be lost with each */
#define WRONG_SHARE_MAX 2000u
#define SELF_ONE_IN     6u

static bool often(struct uro_rng *rng)
{
    return uro_rng_below(rng, 2) == 0;
}

static void draw_srq(struct sim_plan_srq *srq, struct uro_rng *rng, bool clean)
{
    uint32_t most = often(rng) ? 8 : 64;

    *srq = (struct sim_plan_srq){
        .wild = !clean && uro_rng_below(rng, 4) == 0,
        .capacity_max = sim_world_between(rng, 1, most),
        .spare = LIVES_OF_ALL + uro_rng_below(rng, 32),
        .sges = sim_world_between(rng, 1, 6),
        .batch_max = sim_world_between(rng, 1, 16),
        .wait_max = often(rng) ? 0 : uro_rng_below(rng, 100000),
        .limit_share = often(rng) ? uro_rng_below(rng, 65537) : 0,
        .resize_share = !clean && often(rng) ? uro_rng_below(rng, 20000) : 0,
        .wrong_share = 1 + uro_rng_below(rng, WRONG_SHARE_MAX),
    };
    srq->capacity = sim_world_between(rng, 1, srq->capacity_max);
    if (!clean)
        return;
    srq->capacity = srq->capacity_max = srq->batch_max = CLEAN_CAPACITY;
    srq->wait_max = 0;
}

static void add(struct sim_plan *plan, unsigned side, struct uro_rng *rng, bool xrc)
{
    bool is_first = plan->srq_count[side] == 0 || !plan->srqs[side][plan->srq_count[side] - 1].xrc;
    struct sim_plan_srq *srq = &plan->srqs[side][plan->srq_count[side]++];

    draw_srq(srq, rng, plan->clean);
    srq->xrc = xrc;
    if (!xrc)
        srq->replace_share = srq->resize_share; /* from the same numbers: as often */
    if (!xrc)
        return;
    srq->wild = false;
    /* One of them stays, for lives that must not fail. */
    if (!plan->clean && !is_first && uro_rng_below(rng, 2) == 0)
        srq->replace_share = uro_rng_below(rng, 20000);
}

/* Operations of the newer kind. */
static void draw_weights(struct sim_plan *plan, struct uro_rng *rng)
{
    bool words = often(rng);
    bool windows = often(rng);

    for (uint32_t i = 0; i < 2 * plan->pair_count; i++) {
        struct sim_plan_pair *pair = &plan->pairs[i / 2];
        uint32_t *weights = pair->ends[i % 2].weights;
        if (words) {
            weights[SIM_PLAN_FLUSH] = uro_rng_below(rng, 8);
            weights[SIM_PLAN_ATOMIC_WRITE] = uro_rng_below(rng, 8);
        }
        for (unsigned k = SIM_PLAN_BIND; windows && k < SIM_PLAN_KINDS; k++)
            weights[k] = pair->xrc ? 0 : uro_rng_below(rng, 12);
    }
}

void sim_plan_draw_shared(struct sim_plan *plan)
{
    struct uro_rng rng;
    uint32_t basic[2] = { 0 };

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x73686172));
    bool srqs = often(&rng);
    bool xrc = often(&rng);
    for (unsigned side = 0; side < 2; side++) {
        if (srqs)
            basic[side] = sim_world_between(&rng, 1, BASIC_MAX);
        for (uint32_t i = 0; i < basic[side]; i++)
            add(plan, side, &rng, false);
        for (uint32_t i = xrc ? sim_world_between(&rng, 1, XRC_MAX) : 0; i > 0; i--)
            add(plan, side, &rng, true);
    }
    for (uint32_t i = 0; i < plan->pair_count; i++) {
        struct sim_plan_pair *pair = &plan->pairs[i];
        pair->xrc = xrc && often(&rng);
        pair->xrc_target = uro_rng_below(&rng, 2);
        pair->sides[0] = 0;
        pair->sides[1] = 1;
        if (uro_rng_below(&rng, SELF_ONE_IN) == 0)
            pair->sides[0] = pair->sides[1] = uro_rng_below(&rng, 2);
        for (unsigned j = 0; j < 2 && srqs && !pair->xrc; j++)
            if (uro_rng_below(&rng, 3) > 0)
                pair->ends[j].srq = uro_rng_below(&rng, basic[pair->sides[j]]);
    }
    draw_weights(plan, &rng);
    /* Nobody can promise that what is not acknowledged finds a shared receive. */
    for (uint32_t i = 0; i < plan->uc_count && srqs && !plan->clean; i++)
        if (often(&rng))
            plan->ucs[i].ends[0].srq = plan->ucs[i].ends[1].srq = 0;
    for (uint32_t i = 0; i < plan->party_count && srqs && !plan->clean; i++)
        if (often(&rng))
            plan->parties[i].ends[0].srq = 0;
}
