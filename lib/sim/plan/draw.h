/* SPDX-License-Identifier: BSD-3-Clause */
/* draw.h - helpers of plan/draw*.c: how a seed becomes numbers.
 *
 * Each part of a plan is drawn from numbers of its own, so that a part that is added later leaves the others as
 * they were.
 */
#pragma once

#include "sim/plan/plan.h"

/* draw_work.c: pairs, what is sent without acknowledgements, connections that messages make, shared queues. */
void sim_draw_pairs(struct sim_plan *plan, struct uro_rng *rng);
void sim_draw_unreliable(struct sim_plan *plan);
void sim_draw_cm(struct sim_plan *plan);
void sim_draw_shared(struct sim_plan *plan);

/* draw_faults.c: links, clocks, transmit rings, readers and their queues, attackers. */
void sim_draw_faults(struct sim_plan *plan);

static inline bool sim_draw_one_in(struct uro_rng *rng, uint32_t count)
{
    return uro_rng_below(rng, count) == 0;
}

static inline bool sim_draw_often(struct uro_rng *rng)
{
    return sim_draw_one_in(rng, 2);
}

/* @low .. @high, small numbers more often than large ones. */
static inline uint32_t sim_draw_skewed(struct uro_rng *rng, uint32_t low, uint32_t high)
{
    uint32_t most = sim_world_between(rng, low, high);

    return sim_world_between(rng, low, most);
}
