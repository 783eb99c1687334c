/* SPDX-License-Identifier: BSD-3-Clause */
/* swarm_trouble.c - draws what happens to links, clocks, transmit rings, readers and their queues, and
 * strangers; see swarm.h.
 *
 * From numbers of its own, so that seeds without them keep their meaning.
 */
#include "io/sim/swarm.h"

#define ONE_IN          4u
#define STALL_SHARE_MAX 8000u  /* of 65536 bursts */
#define DOZE_SHARE_MAX  10000u /* of 65536 polls */
#define OLDER_HABITS    4u     /* are drawn where they were before there were more */
#define VICTIM_ONE_IN   16u
#define OTHERS_ONE_IN   8u
#define SPEAKER_ONE_IN  6u
#define TIGHT_ONE_IN    8u
#define TIGHT_MAX       12u
#define RESIZE_MAX      6000u /* of 65536 polls */

static bool chosen(struct uro_rng *rng)
{
    return uro_rng_below(rng, ONE_IN) == 0;
}

static void draw_victim(struct uro_swarm *swarm)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x76696374696d));
    if (swarm->clean || uro_rng_below(&rng, VICTIM_ONE_IN) != 0)
        return;
    swarm->victim = (struct uro_swarm_victim){ .type = URO_QPT_RC,
                                               .seed = uro_rng_u64(&rng),
                                               .wait_max = uro_world_between(&rng, 10, 400),
                                               .path_mtu = 256u << uro_rng_below(&rng, 4),
                                               .v6 = uro_rng_below(&rng, 2) == 0 };
}

/* Of another type; there is one at most. */
static void draw_other_victim(struct uro_swarm *swarm)
{
    static const enum uro_qp_type types[] = { URO_QPT_UC, URO_QPT_UD, URO_QPT_XRC_INI };
    struct uro_rng rng;

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x6f7468657273));
    if (swarm->clean || swarm->victim.wait_max > 0 || uro_rng_below(&rng, OTHERS_ONE_IN) != 0)
        return;
    swarm->victim = (struct uro_swarm_victim){ .type = types[uro_rng_below(&rng, 3)],
                                               .seed = uro_rng_u64(&rng),
                                               .wait_max = uro_world_between(&rng, 5, 200),
                                               .path_mtu = 256u << uro_rng_below(&rng, 4),
                                               .v6 = uro_rng_below(&rng, 2) == 0 };
}

static void draw_habits(struct uro_swarm *swarm)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x686162697473));
    for (unsigned side = 0; side < 2; side++) {
        uint32_t habits = uro_rng_below(&rng, 1u << (URO_FOREIGN_HABITS - OLDER_HABITS));
        if (!chosen(&rng))
            continue;
        swarm->cables[side].foreign |= habits << OLDER_HABITS;
        if (swarm->clean)
            swarm->cables[side].foreign &= ~URO_FOREIGN_LOSSY;
    }
}

static void set_tight(struct uro_swarm *swarm, uint32_t room)
{
    swarm->cq_tight = room;
    for (uint32_t i = 0; i < swarm->pair_count; i++)
        if (swarm->pairs[i].lives < 2)
            swarm->pairs[i].lives = 2; /* a last one does without */
}

static void draw_tight_all(struct uro_swarm *swarm)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x7469676874));
    if (swarm->clean || uro_rng_below(&rng, TIGHT_ONE_IN) != 0)
        return;
    swarm->cq_tight_all = true;
    if (swarm->cq_tight == 0)
        set_tight(swarm, uro_world_between(&rng, 1, TIGHT_MAX));
}

/* Completion queues that change their size, and those that are too small. */
static void draw_queues(struct uro_swarm *swarm)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x717565756573));
    if (chosen(&rng))
        swarm->resize_share = uro_world_between(&rng, 1, RESIZE_MAX);
    if (swarm->clean || uro_rng_below(&rng, TIGHT_ONE_IN) != 0)
        return;
    set_tight(swarm, uro_world_between(&rng, 1, TIGHT_MAX));
}

static void draw_faults(struct uro_swarm *swarm)
{
    struct uro_swarm_trouble *trouble = &swarm->trouble;
    struct uro_rng rng;

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x74726f75626c65));
    trouble->seed = uro_rng_u64(&rng);
    for (unsigned side = 0; side < 2; side++)
        if (chosen(&rng))
            swarm->cables[side].foreign = 1 + uro_rng_below(&rng, (1u << OLDER_HABITS) - 1);
    draw_habits(swarm);
    if (swarm->clean)
        return;
    if (chosen(&rng)) {
        trouble->down_wait_max = uro_world_between(&rng, 500, 30000);
        trouble->down_max = uro_world_between(&rng, 1, 3000);
    }
    if (chosen(&rng)) {
        trouble->jump_wait_max = uro_world_between(&rng, 500, 20000);
        trouble->jump_max = uro_world_between(&rng, 10, 40000);
    }
    if (chosen(&rng)) {
        trouble->doze_share = uro_world_between(&rng, 1, DOZE_SHARE_MAX);
        trouble->doze_max = uro_world_between(&rng, 10, 5000);
    }
    if (chosen(&rng))
        swarm->hostile =
            (struct uro_hostile_config){ .seed = uro_rng_u64(&rng),
                                         .wait_max = uro_world_between(&rng, 20, 500) };
    for (unsigned side = 0; side < 2; side++) {
        struct uro_station_config *station = &swarm->stations[side];
        if (!chosen(&rng))
            continue;
        station->tx_stall_share = uro_world_between(&rng, 1, STALL_SHARE_MAX);
        station->tx_stall_max = URO_US(uro_world_between(&rng, 10, 2000));
    }
}

/* Somebody who meddles with connections that are made. */
static void draw_speaker(struct uro_swarm *swarm)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, swarm->seed ^ UINT64_C(0x737065616b6572));
    if (swarm->clean || swarm->cm.callers[0] + swarm->cm.callers[1] == 0 ||
        uro_rng_below(&rng, SPEAKER_ONE_IN) != 0)
        return;
    if (swarm->hostile.wait_max == 0)
        swarm->hostile =
            (struct uro_hostile_config){ .seed = uro_rng_u64(&rng),
                                         .wait_max = uro_world_between(&rng, 20, 500) };
    swarm->hostile.speaks = true;
}

void uro_swarm_draw_trouble(struct uro_swarm *swarm)
{
    draw_queues(swarm);
    draw_tight_all(swarm);
    draw_victim(swarm);
    draw_other_victim(swarm);
    draw_faults(swarm);
    draw_speaker(swarm);
}

uro_time uro_swarm_trouble_max(const struct uro_swarm *swarm, uint32_t occasions)
{
    uro_time stall = 0;

    for (unsigned side = 0; side < 2; side++)
        if (swarm->stations[side].tx_stall_max > stall)
            stall = swarm->stations[side].tx_stall_max;
    return stall * occasions + URO_SWARM_JUMPS_MAX * URO_US(swarm->trouble.jump_max);
}
