/* SPDX-License-Identifier: BSD-3-Clause */
/* swarm_shared.c - draws shared receive queues and who uses them, pairs of a station with
 * itself, and the newer operations.
 *
 * From numbers of its own, so that seeds without them keep their meaning.
 */
#include "io/sim/swarm.h"

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

static void draw_srq(struct uro_swarm_srq *srq, struct uro_rng *rng, bool clean)
{
    uint32_t most = often(rng) ? 8 : 64;

    *srq = (struct uro_swarm_srq){
        .wild = !clean && uro_rng_below(rng, 4) == 0,
        .capacity_max = uro_world_between(rng, 1, most),
        .spare = LIVES_OF_ALL + uro_rng_below(rng, 32),
        .sges = uro_world_between(rng, 1, 6),
        .batch_max = uro_world_between(rng, 1, 16),
        .wait_max = often(rng) ? 0 : uro_rng_below(rng, 100000),
        .limit_share = often(rng) ? uro_rng_below(rng, 65537) : 0,
        .resize_share = !clean && often(rng) ? uro_rng_below(rng, 20000) : 0,
        .wrong_share = 1 + uro_rng_below(rng, WRONG_SHARE_MAX),
    };
    srq->capacity = uro_world_between(rng, 1, srq->capacity_max);
    if (!clean)
        return;
    srq->capacity = srq->capacity_max = srq->batch_max = CLEAN_CAPACITY;
    srq->wait_max = 0;
}

static void add(struct uro_swarm *swarm, unsigned side, struct uro_rng *rng, bool xrc)
{
    bool is_first =
        swarm->srq_count[side] == 0 || !swarm->srqs[side][swarm->srq_count[side] - 1].xrc;
    struct uro_swarm_srq *srq = &swarm->srqs[side][swarm->srq_count[side]++];

    draw_srq(srq, rng, swarm->clean);
    srq->xrc = xrc;
    if (!xrc)
        srq->replace_share = srq->resize_share; /* from the same numbers: as often */
    if (!xrc)
        return;
    srq->wild = false;
    /* One of them stays, for lives that must not fail. */
    if (!swarm->clean && !is_first && uro_rng_below(rng, 2) == 0)
        srq->replace_share = uro_rng_below(rng, 20000);
}

/* Operations of the newer kind. */
static void draw_weights(struct uro_swarm *swarm, struct uro_rng *rng)
{
    bool words = often(rng);
    bool windows = often(rng);

    for (uint32_t i = 0; i < 2 * swarm->pair_count; i++) {
        struct uro_swarm_pair *pair = &swarm->pairs[i / 2];
        uint32_t *weights = pair->ends[i % 2].weights;
        if (words) {
            weights[URO_SWARM_FLUSH] = uro_rng_below(rng, 8);
            weights[URO_SWARM_ATOMIC_WRITE] = uro_rng_below(rng, 8);
        }
        for (unsigned k = URO_SWARM_BIND; windows && k < URO_SWARM_KINDS; k++)
            weights[k] = pair->xrc ? 0 : uro_rng_below(rng, 12);
    }
}

void uro_swarm_draw_shared(struct uro_swarm *swarm)
{
    struct uro_rng rng;
    uint32_t basic[2] = { 0 };

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x73686172));
    bool srqs = often(&rng);
    bool xrc = often(&rng);
    for (unsigned side = 0; side < 2; side++) {
        if (srqs)
            basic[side] = uro_world_between(&rng, 1, BASIC_MAX);
        for (uint32_t i = 0; i < basic[side]; i++)
            add(swarm, side, &rng, false);
        for (uint32_t i = xrc ? uro_world_between(&rng, 1, XRC_MAX) : 0; i > 0; i--)
            add(swarm, side, &rng, true);
    }
    for (uint32_t i = 0; i < swarm->pair_count; i++) {
        struct uro_swarm_pair *pair = &swarm->pairs[i];
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
    draw_weights(swarm, &rng);
    /* Nobody can promise that what is not acknowledged finds a shared receive. */
    for (uint32_t i = 0; i < swarm->uc_count && srqs && !swarm->clean; i++)
        swarm->ucs[i].shared = often(&rng);
    for (uint32_t i = 0; i < swarm->party_count && srqs && !swarm->clean; i++)
        swarm->parties[i].shared = often(&rng);
}
