/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_loose.c - draws what is sent without acknowledgements; see plan.h. */
#include "core/limits.h"
#include "sim/plan/plan.h"

static bool often(struct uro_rng *rng)
{
    return uro_rng_below(rng, 2) == 0;
}

static void draw_uc(struct sim_plan_uc *uc, struct uro_rng *rng, bool clean)
{
    *uc = (struct sim_plan_uc){
        .seed = uro_rng_u64(rng),
        .path_mtu = 256u << uro_rng_below(rng, 5),
        .send_capacity = sim_world_between(rng, 1, 16),
        .recv_capacity = clean ? 64 : sim_world_between(rng, 1, 16),
        .sges = sim_world_between(rng, 1, 5),
        .inline_max = often(rng) ? sim_world_between(rng, 1, URO_INLINE_MAX) : 0,
        .signal_all = uro_rng_below(rng, 4) == 0,
        .v6 = often(rng),
        .sends = sim_world_between(rng, 4, 40),
        .batch_max = sim_world_between(rng, 1, 8),
        .post_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000),
        .recv_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000),
        .resume_wait_max = uro_rng_below(rng, 50000),
        .life_max = sim_world_between(rng, 100, 10000),
        .inject_share = often(rng) ? uro_rng_below(rng, 8000) : 0,
    };
    uc->message_max = uc->path_mtu * sim_world_between(rng, 1, 4) - uro_rng_below(rng, 64);
    uc->sides[0] = uro_rng_below(rng, 2);
    uc->sides[1] = uro_rng_below(rng, 4) == 0 ? uc->sides[0] : !uc->sides[0];
}

static void draw_party(struct sim_plan_party *party, struct uro_rng *rng, bool clean)
{
    *party = (struct sim_plan_party){
        .seed = uro_rng_u64(rng),
        .side = uro_rng_below(rng, 2),
        .message_max = often(rng) ? 256 : URO_PATH_MTU_MAX,
        .send_capacity = sim_world_between(rng, 1, 12),
        .recv_capacity = clean ? 64 : sim_world_between(rng, 1, 12),
        .sges = sim_world_between(rng, 1, 5),
        .inline_max = often(rng) ? sim_world_between(rng, 1, URO_INLINE_MAX) : 0,
        .signal_all = uro_rng_below(rng, 4) == 0,
        .sends = sim_world_between(rng, 4, 40),
        .batch_max = sim_world_between(rng, 1, 8),
        .post_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000),
        .recv_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000),
        .resume_wait_max = uro_rng_below(rng, 50000),
        .life_max = sim_world_between(rng, 200, 10000),
        .inject_share = often(rng) ? uro_rng_below(rng, 8000) : 0,
    };
}

void sim_plan_draw_loose(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x6c6f6f7365));
    plan->uc_count = often(&rng) ? sim_world_between(&rng, 1, SIM_PLAN_UCS_MAX) : 0;
    for (uint32_t i = 0; i < plan->uc_count; i++)
        draw_uc(&plan->ucs[i], &rng, plan->clean);
    plan->party_count = often(&rng) ? sim_world_between(&rng, 1, SIM_PLAN_PARTIES_MAX) : 0;
    for (uint32_t i = 0; i < plan->party_count; i++)
        draw_party(&plan->parties[i], &rng, plan->clean);
    for (uint32_t i = 0; i < 2 && i < plan->party_count; i++)
        plan->parties[i].side = i;
    plan->pauses = uro_rng_below(&rng, 3) == 0;
    plan->revokes = often(&rng);
    plan->groups = !plan->clean && often(&rng);
}
