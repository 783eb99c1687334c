/* SPDX-License-Identifier: BSD-3-Clause */
/* swarm_net.c - see swarm_net.h for the contract. */
#include "io/sim/swarm_net.h"

void uro_swarm_net_draw(struct uro_swarm_net *net, uint64_t seed, uint32_t without, uint32_t less)
{
    struct uro_swarm_couple *couple = &net->couples[0];

    net->station_count = 2;
    net->couple_count = 1;
    couple->stations[0] = 0;
    couple->stations[1] = 1;
    uro_swarm_draw(&couple->swarm, seed);
    uro_swarm_less(&couple->swarm, less);
    uro_swarm_without(&couple->swarm, without);
    for (unsigned side = 0; side < 2; side++)
        net->stations[side] = couple->swarm.stations[side];
    net->clean = couple->swarm.clean;
    net->calm_at = couple->swarm.calm_at;
    net->trouble = couple->swarm.trouble;
}

uro_time uro_swarm_net_patience(const struct uro_swarm_net *net)
{
    uro_time sum = 0;

    for (uint32_t i = 0; i < net->couple_count; i++)
        sum += uro_swarm_patience(&net->couples[i].swarm);
    return sum;
}

void uro_swarm_net_text(const struct uro_swarm_net *net, char text[static URO_SWARM_NET_TEXT_MAX])
{
    uro_swarm_text(&net->couples[0].swarm, text);
}
