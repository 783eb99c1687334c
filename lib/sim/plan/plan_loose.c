/* SPDX-License-Identifier: BSD-3-Clause */
/* plan_loose.c - draws what is sent without acknowledgements; see plan.h. */
#include "core/limits.h"
#include "sim/plan/plan.h"

static bool often(struct uro_rng *rng)
{
    return uro_rng_below(rng, 2) == 0;
}

/* The same for both ends of a connection. */
static void draw_ends(struct sim_plan_pair *pair, struct uro_rng *rng, bool clean, bool datagrams)
{
    struct sim_plan_end *end = &pair->ends[0];
    uint32_t capacity = datagrams ? 12 : 16;

    *end = (struct sim_plan_end){ .srq = SIM_PLAN_NO_SRQ };
    end->send_capacity = sim_world_between(rng, 1, capacity);
    end->recv_capacity = clean ? 64 : sim_world_between(rng, 1, capacity);
    end->send_sges = end->recv_sges = sim_world_between(rng, 1, 5);
    end->inline_max = often(rng) ? sim_world_between(rng, 1, URO_INLINE_MAX) : 0;
    end->signal_all = uro_rng_below(rng, 4) == 0;
    if (!datagrams)
        pair->v6 = often(rng);
    end->sends = sim_world_between(rng, 4, 40);
    end->batch_max = end->recv_batch_max = sim_world_between(rng, 1, 8);
    end->post_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000);
    end->recv_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000);
    end->resume_wait_max = uro_rng_below(rng, 50000);
    pair->life_max = sim_world_between(rng, datagrams ? 200 : 100, 10000);
    pair->inject_share = often(rng) ? uro_rng_below(rng, 8000) : 0;
    pair->ends[1] = *end;
}

static void draw_uc(struct sim_plan_pair *uc, struct uro_rng *rng, bool clean)
{
    uc->seed = uro_rng_u64(rng);
    uc->path_mtu = 256u << uro_rng_below(rng, 5);
    draw_ends(uc, rng, clean, false);
    uc->message_max = uc->path_mtu * sim_world_between(rng, 1, 4);
    uc->message_max -= uro_rng_below(rng, 64);
    uc->sides[0] = uro_rng_below(rng, 2);
    uc->sides[1] = uro_rng_below(rng, 4) == 0 ? uc->sides[0] : !uc->sides[0];
}

static void draw_datagrams(struct sim_plan_pair *party, struct uro_rng *rng, bool clean)
{
    party->seed = uro_rng_u64(rng);
    party->sides[0] = uro_rng_below(rng, 2);
    party->message_max = often(rng) ? 256 : URO_PATH_MTU_MAX;
    draw_ends(party, rng, clean, true);
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
        draw_datagrams(&plan->parties[i], &rng, plan->clean);
    for (uint32_t i = 0; i < 2 && i < plan->party_count; i++)
        plan->parties[i].sides[0] = i;
    plan->pauses = uro_rng_below(&rng, 3) == 0;
    plan->revokes = often(&rng);
    plan->groups = !plan->clean && often(&rng);
}
