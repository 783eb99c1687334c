/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.c - see fork.h for the contract. */
#include "io/sim/fork.h"

#include <string.h>

static void fork_accept(struct uro_node *node, struct uro_world_frame *frame)
{
    struct uro_fork *fork = URO_CONTAINER_OF(node, struct uro_fork, node);
    struct uro_node *last = fork->ways[fork->way_count - 1].to;

    for (uint32_t i = 0; i < fork->way_count; i++) {
        struct uro_fork_way *way = &fork->ways[i];
        if (memcmp(frame->octets, way->mac.octets, sizeof way->mac.octets) == 0) {
            way->to->accept(way->to, frame);
            return;
        }
    }
    for (uint32_t i = 0; i + 1 < fork->way_count; i++) {
        struct uro_world_frame *copy = uro_world_make_frame(fork->world, frame->length);
        memcpy(copy->octets, frame->octets, frame->length);
        fork->ways[i].to->accept(fork->ways[i].to, copy);
    }
    last->accept(last, frame);
}

void uro_fork_init(struct uro_fork *fork, struct uro_world *world)
{
    *fork = (struct uro_fork){ .node.accept = fork_accept, .world = world };
}

void uro_fork_add(struct uro_fork *fork, const struct uro_mac *mac, struct uro_node *to)
{
    URO_ASSERT(fork->way_count < URO_FORK_WAYS_MAX);
    fork->ways[fork->way_count++] = (struct uro_fork_way){ *mac, to };
}
