/* SPDX-License-Identifier: BSD-3-Clause */
/* switch.c - see switch.h for the contract. */
#include "sim/net/switch.h"

#include <string.h>

static void fork_accept(struct sim_node *node, struct sim_world_frame *frame)
{
    struct sim_switch *sw = URO_CONTAINER_OF(node, struct sim_switch, node);
    struct sim_node *last = sw->ways[sw->way_count - 1].to;

    for (uint32_t i = 0; i < sw->way_count; i++) {
        struct sim_switch_port *way = &sw->ways[i];
        if (memcmp(frame->octets, way->mac.octets, sizeof way->mac.octets) == 0) {
            way->to->accept(way->to, frame);
            return;
        }
    }
    for (uint32_t i = 0; i + 1 < sw->way_count; i++) {
        struct sim_world_frame *copy = sim_world_make_frame(sw->world, frame->length);
        memcpy(copy->octets, frame->octets, frame->length);
        sw->ways[i].to->accept(sw->ways[i].to, copy);
    }
    last->accept(last, frame);
}

void sim_switch_init(struct sim_switch *sw, struct sim_world *world)
{
    *sw = (struct sim_switch){ .node.accept = fork_accept, .world = world };
}

void sim_switch_add(struct sim_switch *sw, const struct uro_mac *mac, struct sim_node *to)
{
    URO_ASSERT(sw->way_count < SIM_SWITCH_PORTS_MAX);
    sw->ways[sw->way_count++] = (struct sim_switch_port){ *mac, to };
}
