/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h - where the cables of a station begin: a frame goes over the one to its destination; a frame
 * to a group, or to nobody known, goes over all.
 */
#pragma once

#include "io/sim/world.h"
#include "wire/gid.h"

#define URO_FORK_WAYS_MAX 8u

struct uro_fork {
    struct uro_node node; /* takes frames, and is no node of the world */
    struct uro_world *world;
    uint32_t way_count;
    struct uro_fork_way {
        struct uro_mac mac; /* of the station at the other end */
        struct uro_node *to;
    } ways[URO_FORK_WAYS_MAX];
};

void uro_fork_init(struct uro_fork *fork, struct uro_world *world);
void uro_fork_add(struct uro_fork *fork, const struct uro_mac *mac, struct uro_node *to);
