/* SPDX-License-Identifier: BSD-3-Clause */
/* trouble.h - what happens to the whole of a simulation: the link goes down and comes up again, and the
 * clock jumps, as for a process that was stopped.
 */
#pragma once

#include "io/sim/cable.h"
#include "io/sim/station.h"
#include "io/sim/swarm.h"

struct uro_trouble {
    struct uro_node link;
    struct uro_node clock;
    struct uro_world *world;
    const struct uro_swarm_trouble *plan;
    struct uro_rng rng;
    struct uro_station *stations; /* two, borrowed */
    struct uro_cable *cables;     /* likewise */
    bool down;
    uro_time link_at; /* it goes down or comes up */
    uro_time jump_at;
    uint32_t jumps_left;
};

/* Adds the nodes to @world. */
void uro_trouble_init(struct uro_trouble *trouble, struct uro_world *world,
                      const struct uro_swarm_trouble *plan, struct uro_station stations[static 2],
                      struct uro_cable cables[static 2]);

/* Faults stop: the link is up and stays, the clock goes on evenly. */
void uro_trouble_calm(struct uro_trouble *trouble);
