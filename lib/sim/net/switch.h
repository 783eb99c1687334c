/* SPDX-License-Identifier: BSD-3-Clause */
/* switch.h - where the cables of a host begin: a frame goes over the one to its destination; a frame
 * to a group, or to nobody known, goes over all.
 */
#pragma once

#include "sim/net/world.h"
#include "wire/gid.h"

#define SIM_SWITCH_PORTS_MAX 8u

struct sim_switch {
    struct sim_node node; /* takes frames, and is no node of the world */
    struct sim_world *world;
    uint32_t way_count;
    struct sim_switch_port {
        struct uro_mac mac; /* of the host at the other end */
        struct sim_node *to;
    } ways[SIM_SWITCH_PORTS_MAX];
};

void sim_switch_init(struct sim_switch *sw, struct sim_world *world);
void sim_switch_add(struct sim_switch *sw, const struct uro_mac *mac, struct sim_node *to);
