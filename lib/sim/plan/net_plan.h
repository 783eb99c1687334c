/* SPDX-License-Identifier: BSD-3-Clause */
/* net_plan.h - the plan of a whole run: how many hosts there are, which of them are linked, and what happens on each
 * link.
 */
#pragma once

#include "sim/plan/plan.h"

#define SIM_NET_HOSTS_MAX 8u
#define SIM_NET_LINKS_MAX 8u

/* Two hosts, the cables between them, and a workload of their own. */
struct sim_net_link {
    unsigned hosts[2];
    struct sim_plan plan; /* its hosts are copies of those of the whole plan */
};

struct sim_net_plan {
    uint32_t host_count;
    struct sim_host_config hosts[SIM_NET_HOSTS_MAX];
    uint32_t link_count;
    struct sim_net_link links[SIM_NET_LINKS_MAX];
    bool clean;       /* every link is */
    uro_time calm_at; /* faults stop everywhere */
    struct sim_plan_faults faults;
};

/* With parts taken out and work halved as sim_plan_without() and sim_plan_less() say. */
void sim_net_plan_draw(struct sim_net_plan *net, uint64_t seed, uint32_t without, uint32_t less);

/* Whether the host has a link with perfect cables: nothing may delay the host. */
bool sim_net_plan_is_calm(const struct sim_net_plan *net, unsigned host);

/* ns after which everything must be done once faults have stopped. */
uro_time sim_net_plan_patience(const struct sim_net_plan *net);

#define SIM_NET_PLAN_TEXT_MAX (SIM_NET_LINKS_MAX * (SIM_PLAN_TEXT_MAX + 8) + 32)
/* A line for each link. */
void sim_net_plan_text(const struct sim_net_plan *net, char text[static SIM_NET_PLAN_TEXT_MAX]);
