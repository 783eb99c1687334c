/* SPDX-License-Identifier: BSD-3-Clause */
/* trouble.h - what happens to the whole of a simulation: links go down and come up again, and the clock
 * jumps, as for a process that was stopped.
 */
#pragma once

#include "io/sim/cable.h"
#include "io/sim/station.h"
#include "io/sim/swarm.h"

#define URO_TROUBLE_CABLES_MAX 16u
#define URO_TROUBLE_PLUGS_MAX  16u

/* What goes down together. */
struct uro_trouble_plug {
    uint32_t cable_count;
    struct uro_cable *cables[URO_TROUBLE_CABLES_MAX]; /* borrowed */
    uint32_t station_count;
    struct uro_station *stations[2]; /* that notice; borrowed */
};

struct uro_trouble {
    struct uro_node link;
    struct uro_node clock;
    struct uro_world *world;
    const struct uro_swarm_trouble *plan;
    struct uro_rng rng;
    uint32_t plug_count;
    struct uro_trouble_plug plugs[URO_TROUBLE_PLUGS_MAX];
    const struct uro_trouble_plug *down; /* NULL: all are up */
    uro_time link_at;                    /* one goes down or comes up */
    uro_time jump_at;
    uint32_t jumps_left;
};

/* Adds the nodes to @world. */
void uro_trouble_init(struct uro_trouble *trouble, struct uro_world *world,
                      const struct uro_swarm_trouble *plan);
/* One more that may go down: empty until the caller fills it. */
struct uro_trouble_plug *uro_trouble_add(struct uro_trouble *trouble);

/* Faults stop: all links are up and stay, the clock goes on evenly. */
void uro_trouble_calm(struct uro_trouble *trouble);
