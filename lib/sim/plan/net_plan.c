/* SPDX-License-Identifier: BSD-3-Clause */
/* net_plan.c - see plan.h for the contract.
 *
 * The number of hosts comes from a separate random sequence. So a seed with two hosts still has its plan from the time
 * before larger networks existed. The same holds for any seed without "nodes".
 */
#include "sim/plan/plan.h"

#include <stdio.h>

#define TWO_OF_TEN     6u
#define STARS_ONE_IN   3u /* the first host is linked to all others */
#define EXTRA_MAX      2u /* links beyond those that connect all hosts */
#define CLEAN_ONE_IN   8u
#define MIXED_ONE_IN   2u
#define SPARED_ONE_IN  3u
#define CQS_MAX        2u
#define PARTIES_MAX    3u
#define SHARED_MAX     256u /* receives of a shared queue: still more than all connections send */
#define NO_CONNECTIONS 16u  /* of an engine whose workloads need none */

static bool one_in(struct uro_rng *rng, uint32_t count)
{
    return uro_rng_below(rng, count) == 0;
}

static bool talk(const struct sim_net_plan *net, unsigned a, unsigned b)
{
    for (uint32_t i = 0; i < net->link_count; i++) {
        const unsigned *hosts = net->links[i].hosts;
        if ((hosts[0] == a && hosts[1] == b) || (hosts[0] == b && hosts[1] == a))
            return true;
    }
    return false;
}

static void add_link(struct sim_net_plan *net, unsigned a, unsigned b)
{
    if (a == b || talk(net, a, b) || net->link_count == SIM_NET_LINKS_MAX)
        return;
    net->links[net->link_count].hosts[0] = a;
    net->links[net->link_count++].hosts[1] = b;
}

/* Links each host to an earlier one, and some to others as well. */
static void draw_links(struct sim_net_plan *net, struct uro_rng *rng)
{
    bool star = one_in(rng, STARS_ONE_IN);

    for (unsigned i = 1; i < net->host_count; i++)
        add_link(net, star ? 0 : uro_rng_below(rng, i), i);
    for (uint32_t i = uro_rng_below(rng, EXTRA_MAX + 1); i > 0; i--)
        add_link(net, uro_rng_below(rng, net->host_count), uro_rng_below(rng, net->host_count));
}

static uint32_t part(uint32_t number, uint32_t of)
{
    return (number + of - 1) / of;
}

/* Divides about the work of two hosts among all links. */
static void thin(struct sim_plan *plan, uint32_t links)
{
    uint32_t of = links > 2 ? 4 : 2;
    uint32_t parties = links > 3 ? PARTIES_MAX - 1 : PARTIES_MAX;

    plan->pair_count = part(plan->pair_count, links);
    plan->uc_count = part(plan->uc_count, links);
    plan->party_count = plan->party_count > parties ? parties : plan->party_count;
    plan->cq_count = plan->cq_count > CQS_MAX ? CQS_MAX : plan->cq_count;
    for (unsigned side = 0; side < 2; side++)
        plan->cm.callers[side] = plan->cm.callers[side] > 0;
    plan->cm.attempts = part(plan->cm.attempts, of);
    for (uint32_t i = 0; i < plan->pair_count; i++) {
        struct sim_plan_pair *pair = &plan->pairs[i];
        uint32_t longest =
            2 * pair->path_mtu + pair->path_mtu / 2; /* memory costs more than packets */
        if (pair->message_max > longest)
            pair->message_max = longest;
        pair->lives = part(pair->lives, of);
        for (unsigned j = 0; j < 2; j++)
            pair->ends[j].sends = part(pair->ends[j].sends, of);
    }
    for (uint32_t i = 0; i < plan->uc_count; i++)
        plan->ucs[i].ends[0].sends = plan->ucs[i].ends[1].sends =
            part(plan->ucs[i].ends[0].sends, of);
    for (uint32_t i = 0; i < plan->party_count; i++)
        plan->parties[i].ends[0].sends = part(plan->parties[i].ends[0].sends, of);
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < plan->srq_count[side]; i++) {
            struct sim_plan_srq *srq = &plan->srqs[side][i];
            if (srq->capacity > SHARED_MAX)
                srq->capacity = srq->capacity_max = srq->batch_max = SHARED_MAX;
        }
    }
}

bool sim_net_plan_is_calm(const struct sim_net_plan *net, unsigned host)
{
    for (uint32_t i = 0; i < net->link_count; i++) {
        const struct sim_net_link *link = &net->links[i];
        if (link->plan.clean && (link->hosts[0] == host || link->hosts[1] == host))
            return true;
    }
    return false;
}

/* Joins the configurations that the links of a host need into one engine. */
static void join_host(struct sim_net_plan *net, unsigned number)
{
    struct sim_host_config *host = &net->hosts[number];
    bool calm = sim_net_plan_is_calm(net, number);
    uint32_t connections = 0;
    bool any = false;

    for (uint32_t i = net->link_count; i-- > 0;) {
        const struct sim_net_link *link = &net->links[i];
        for (unsigned side = 0; side < 2; side++) {
            if (link->hosts[side] != number)
                continue;
            bool forever = any && host->engine.retry_7_forever;
            any = true;
            *host = link->plan.hosts[side];
            host->engine.retry_7_forever |= forever;
            if (link->plan.cm.callers[0] + link->plan.cm.callers[1] > 0)
                connections += link->plan.cm.connections;
        }
    }
    sim_plan_identify(host, number);
    host->engine.connections = connections > 0 ? connections : NO_CONNECTIONS;
    if (!calm)
        return;
    host->engine.connections = SIM_PLAN_CALM_CONNECTIONS;
    host->rx_ring = UINT32_MAX;
    host->tx_stall_probability = 0;
    host->tx_stall_max = 0;
    host->threads_wait = false;
}

/* Joins faults: a clean link has no attacker, and with one the clock does not jump. */
static void join_faults(struct sim_net_plan *net)
{
    bool has_attacker = false;
    bool has_clean = false;

    for (uint32_t i = net->link_count; i-- > 0;) {
        const struct sim_net_link *link = &net->links[i];
        has_clean |= link->plan.clean;
        if (!link->plan.clean)
            net->faults = link->plan.faults;
    }
    if (has_clean)
        net->faults.jump_wait_max = net->faults.jump_max = 0;
    for (uint32_t i = 0; i < net->link_count; i++) {
        struct sim_net_link *link = &net->links[i];
        link->plan.faults.jump_wait_max = net->faults.jump_wait_max;
        link->plan.faults.jump_max = net->faults.jump_max;
        link->plan.faults.down_wait_max = net->faults.down_wait_max;
        link->plan.faults.down_max = net->faults.down_max;
        if (has_attacker || sim_net_plan_is_calm(net, link->hosts[0]) ||
            sim_net_plan_is_calm(net, link->hosts[1]))
            link->plan.attacker.wait_max = 0;
        if (sim_net_plan_is_calm(net, link->hosts[0]) || sim_net_plan_is_calm(net, link->hosts[1]))
            link->plan.attacked.wait_max = 0;
        has_attacker |= link->plan.attacker.wait_max > 0;
    }
}

/* Gives each link the hosts, with the frames that other links may have on their way from the same hosts. */
static void add_others(struct sim_net_plan *net)
{
    uint64_t frames[SIM_NET_HOSTS_MAX] = { 0 };

    for (uint32_t i = 0; i < net->link_count; i++)
        for (unsigned side = 0; side < 2; side++)
            frames[net->links[i].hosts[side]] += sim_plan_frames(&net->links[i].plan, side);
    for (uint32_t i = 0; i < net->link_count; i++) {
        struct sim_net_link *link = &net->links[i];
        for (unsigned side = 0; side < 2; side++) {
            unsigned host = link->hosts[side];
            sim_plan_set_host(&link->plan, side, &net->hosts[host],
                              frames[host] - sim_plan_frames(&link->plan, side));
        }
    }
}

static void draw_many(struct sim_net_plan *net, uint64_t seed, struct uro_rng *rng)
{
    bool clean = one_in(rng, CLEAN_ONE_IN);
    bool mixed = one_in(rng, MIXED_ONE_IN);

    draw_links(net, rng);
    for (uint32_t i = 0; i < net->link_count; i++) {
        bool spared = clean || (mixed && one_in(rng, SPARED_ONE_IN));
        struct sim_plan *plan = &net->links[i].plan;
        sim_plan_draw(plan, i == 0 ? seed : uro_rng_u64(rng),
                      spared ? SIM_PLAN_CLEAN : SIM_PLAN_FAULTY);
        thin(plan, net->link_count);
    }
    for (unsigned i = 0; i < net->host_count; i++)
        join_host(net, i);
    join_faults(net);
    add_others(net);
}

static void draw_two(struct sim_net_plan *net, uint64_t seed)
{
    struct sim_plan *plan = &net->links[0].plan;

    net->host_count = 2;
    add_link(net, 0, 1);
    sim_plan_draw(plan, seed, SIM_PLAN_ANY);
    net->faults = plan->faults;
}

void sim_net_plan_draw(struct sim_net_plan *net, uint64_t seed, uint32_t without, uint32_t less)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, seed ^ UINT64_C(0x6e6f646573));
    if (uro_rng_below(&rng, 10) < TWO_OF_TEN || without & SIM_PLAN_PART(HOSTS)) {
        draw_two(net, seed);
    } else {
        net->host_count = sim_world_between(&rng, 3, sim_world_between(&rng, 3, 8));
        draw_many(net, seed, &rng);
    }
    net->clean = true;
    for (uint32_t i = 0; i < net->link_count; i++) {
        struct sim_net_link *link = &net->links[i];
        sim_plan_less(&link->plan, less);
        sim_plan_without(&link->plan, without);
        net->clean &= link->plan.clean;
        if (link->plan.calm_at > net->calm_at)
            net->calm_at = link->plan.calm_at;
        for (unsigned side = 0; side < 2; side++)
            net->hosts[link->hosts[side]] = link->plan.hosts[side];
    }
    if (without & SIM_PLAN_PART(DOWN))
        net->faults.down_wait_max = 0;
    if (without & SIM_PLAN_PART(JUMP))
        net->faults.jump_wait_max = 0;
}

uro_time sim_net_plan_patience(const struct sim_net_plan *net)
{
    uro_time sum = 0;

    for (uint32_t i = 0; i < net->link_count; i++)
        sum += sim_plan_patience(&net->links[i].plan);
    return sum;
}

void sim_net_plan_text(const struct sim_net_plan *net, char text[static SIM_NET_PLAN_TEXT_MAX])
{
    size_t used = 0;

    if (net->host_count > 2)
        used = (size_t)snprintf(text, SIM_NET_PLAN_TEXT_MAX, "%u hosts:", net->host_count);
    for (uint32_t i = 0; i < net->link_count; i++) {
        const struct sim_net_link *link = &net->links[i];
        if (net->host_count > 2)
            used += (size_t)snprintf(text + used, SIM_NET_PLAN_TEXT_MAX - used,
                                     "\n  %c-%c: ", net->hosts[link->hosts[0]].name,
                                     net->hosts[link->hosts[1]].name);
        char line[SIM_PLAN_TEXT_MAX];
        sim_plan_text(&link->plan, line);
        used += (size_t)snprintf(text + used, SIM_NET_PLAN_TEXT_MAX - used, "%s", line);
    }
}
