/* SPDX-License-Identifier: BSD-3-Clause */
/* swarm_loose.c - draws what is sent without acknowledgements; see swarm.h. */
#include "core/limits.h"
#include "io/sim/swarm.h"

static bool often(struct uro_rng *rng)
{
    return uro_rng_below(rng, 2) == 0;
}

static void draw_uc(struct uro_swarm_uc *uc, struct uro_rng *rng, bool clean)
{
    *uc = (struct uro_swarm_uc){
        .seed = uro_rng_u64(rng),
        .path_mtu = 256u << uro_rng_below(rng, 5),
        .send_capacity = uro_world_between(rng, 1, 16),
        .recv_capacity = clean ? 64 : uro_world_between(rng, 1, 16),
        .sges = uro_world_between(rng, 1, 5),
        .inline_max = often(rng) ? uro_world_between(rng, 1, URO_INLINE_MAX) : 0,
        .signal_all = uro_rng_below(rng, 4) == 0,
        .v6 = often(rng),
        .sends = uro_world_between(rng, 4, 40),
        .batch_max = uro_world_between(rng, 1, 8),
        .post_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000),
        .recv_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000),
        .resume_wait_max = uro_rng_below(rng, 50000),
        .life_max = uro_world_between(rng, 100, 10000),
        .inject_share = often(rng) ? uro_rng_below(rng, 8000) : 0,
    };
    uc->message_max = uc->path_mtu * uro_world_between(rng, 1, 4) - uro_rng_below(rng, 64);
    uc->sides[0] = uro_rng_below(rng, 2);
    uc->sides[1] = uro_rng_below(rng, 4) == 0 ? uc->sides[0] : !uc->sides[0];
}

static void draw_party(struct uro_swarm_party *party, struct uro_rng *rng, bool clean)
{
    *party = (struct uro_swarm_party){
        .seed = uro_rng_u64(rng),
        .side = uro_rng_below(rng, 2),
        .message_max = often(rng) ? 256 : URO_PATH_MTU_MAX,
        .send_capacity = uro_world_between(rng, 1, 12),
        .recv_capacity = clean ? 64 : uro_world_between(rng, 1, 12),
        .sges = uro_world_between(rng, 1, 5),
        .inline_max = often(rng) ? uro_world_between(rng, 1, URO_INLINE_MAX) : 0,
        .signal_all = uro_rng_below(rng, 4) == 0,
        .sends = uro_world_between(rng, 4, 40),
        .batch_max = uro_world_between(rng, 1, 8),
        .post_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000),
        .recv_wait_max = often(rng) ? 0 : uro_rng_below(rng, 50000),
        .resume_wait_max = uro_rng_below(rng, 50000),
        .life_max = uro_world_between(rng, 200, 10000),
        .inject_share = often(rng) ? uro_rng_below(rng, 8000) : 0,
    };
}

void uro_swarm_draw_loose(struct uro_swarm *swarm)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x6c6f6f7365));
    swarm->uc_count = often(&rng) ? uro_world_between(&rng, 1, URO_SWARM_UCS_MAX) : 0;
    for (uint32_t i = 0; i < swarm->uc_count; i++)
        draw_uc(&swarm->ucs[i], &rng, swarm->clean);
    swarm->party_count = often(&rng) ? uro_world_between(&rng, 1, URO_SWARM_PARTIES_MAX) : 0;
    for (uint32_t i = 0; i < swarm->party_count; i++)
        draw_party(&swarm->parties[i], &rng, swarm->clean);
    for (uint32_t i = 0; i < 2 && i < swarm->party_count; i++)
        swarm->parties[i].side = i;
    swarm->pauses = uro_rng_below(&rng, 3) == 0;
    swarm->revokes = often(&rng);
    swarm->groups = !swarm->clean && often(&rng);
}
