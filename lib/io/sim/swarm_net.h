/* SPDX-License-Identifier: BSD-3-Clause */
/* swarm_net.h - what a seed stands for as a whole: how many stations there are, which of them talk,
 * and what happens between each such couple.
 */
#pragma once

#include "io/sim/swarm.h"

#define URO_SWARM_STATIONS_MAX 8u
#define URO_SWARM_COUPLES_MAX  8u

/* Two stations, the cables between them, and a load of their own. */
struct uro_swarm_couple {
    unsigned stations[2];
    struct uro_swarm swarm; /* its stations are copies of those of the net */
};

struct uro_swarm_net {
    uint32_t station_count;
    struct uro_station_config stations[URO_SWARM_STATIONS_MAX];
    uint32_t couple_count;
    struct uro_swarm_couple couples[URO_SWARM_COUPLES_MAX];
    bool clean;       /* every couple is */
    uro_time calm_at; /* faults stop everywhere */
    struct uro_swarm_trouble trouble;
};

/* With parts taken out and work halved as uro_swarm_without() and uro_swarm_less() say. */
void uro_swarm_net_draw(struct uro_swarm_net *net, uint64_t seed, uint32_t without, uint32_t less);

/* A station that some couple with perfect cables needs: nothing may delay it. */
bool uro_swarm_net_calm(const struct uro_swarm_net *net, unsigned station);

/* ns after which everything must be done once faults have stopped. */
uro_time uro_swarm_net_patience(const struct uro_swarm_net *net);

#define URO_SWARM_NET_TEXT_MAX (URO_SWARM_COUPLES_MAX * (URO_SWARM_TEXT_MAX + 8) + 32)
/* A line for each couple. */
void uro_swarm_net_text(const struct uro_swarm_net *net, char text[static URO_SWARM_NET_TEXT_MAX]);
