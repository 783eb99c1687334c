/* SPDX-License-Identifier: BSD-3-Clause */
/* swarm_net.c - see swarm_net.h for the contract.
 *
 * How many stations there are comes from numbers of its own: a seed with two of them means what it
 * meant when there were never more, and so does any seed without "nodes".
 */
#include "io/sim/swarm_net.h"

#include <stdio.h>

#define TWO_OF_TEN     6u
#define STARS_ONE_IN   3u /* the first station talks to all others */
#define EXTRA_MAX      2u /* couples beyond those that tie all stations together */
#define CLEAN_ONE_IN   8u
#define MIXED_ONE_IN   2u
#define SPARED_ONE_IN  3u
#define CQS_MAX        2u
#define PARTIES_MAX    3u
#define SHARED_MAX     256u /* receives of a shared queue: still more than all pairs send */
#define NO_CONNECTIONS 16u  /* of an engine whose loads do not ask for any */

static bool one_in(struct uro_rng *rng, uint32_t count)
{
    return uro_rng_below(rng, count) == 0;
}

static bool talk(const struct uro_swarm_net *net, unsigned a, unsigned b)
{
    for (uint32_t i = 0; i < net->couple_count; i++) {
        const unsigned *stations = net->couples[i].stations;
        if ((stations[0] == a && stations[1] == b) || (stations[0] == b && stations[1] == a))
            return true;
    }
    return false;
}

static void add_couple(struct uro_swarm_net *net, unsigned a, unsigned b)
{
    if (a == b || talk(net, a, b) || net->couple_count == URO_SWARM_COUPLES_MAX)
        return;
    net->couples[net->couple_count].stations[0] = a;
    net->couples[net->couple_count++].stations[1] = b;
}

/* Each station talks to one before it, some to others as well. */
static void draw_couples(struct uro_swarm_net *net, struct uro_rng *rng)
{
    bool star = one_in(rng, STARS_ONE_IN);

    for (unsigned i = 1; i < net->station_count; i++)
        add_couple(net, star ? 0 : uro_rng_below(rng, i), i);
    for (uint32_t i = uro_rng_below(rng, EXTRA_MAX + 1); i > 0; i--)
        add_couple(net, uro_rng_below(rng, net->station_count),
                   uro_rng_below(rng, net->station_count));
}

static uint32_t part(uint32_t number, uint32_t of)
{
    return (number + of - 1) / of;
}

/* About as much work as two stations have, divided among all couples. */
static void thin(struct uro_swarm *swarm, uint32_t couples)
{
    uint32_t of = couples > 2 ? 4 : 2;
    uint32_t parties = couples > 3 ? PARTIES_MAX - 1 : PARTIES_MAX;

    swarm->pair_count = part(swarm->pair_count, couples);
    swarm->uc_count = part(swarm->uc_count, couples);
    swarm->party_count = swarm->party_count > parties ? parties : swarm->party_count;
    swarm->cq_count = swarm->cq_count > CQS_MAX ? CQS_MAX : swarm->cq_count;
    for (unsigned side = 0; side < 2; side++)
        swarm->cm.callers[side] = swarm->cm.callers[side] > 0;
    swarm->cm.attempts = part(swarm->cm.attempts, of);
    for (uint32_t i = 0; i < swarm->pair_count; i++) {
        struct uro_swarm_pair *pair = &swarm->pairs[i];
        uint32_t longest =
            2 * pair->path_mtu + pair->path_mtu / 2; /* memory costs more than packets */
        if (pair->message_max > longest)
            pair->message_max = longest;
        pair->lives = part(pair->lives, of);
        for (unsigned j = 0; j < 2; j++)
            pair->ends[j].sends = part(pair->ends[j].sends, of);
    }
    for (uint32_t i = 0; i < swarm->uc_count; i++)
        swarm->ucs[i].sends = part(swarm->ucs[i].sends, of);
    for (uint32_t i = 0; i < swarm->party_count; i++)
        swarm->parties[i].sends = part(swarm->parties[i].sends, of);
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < swarm->srq_count[side]; i++) {
            struct uro_swarm_srq *srq = &swarm->srqs[side][i];
            if (srq->capacity > SHARED_MAX)
                srq->capacity = srq->capacity_max = srq->batch_max = SHARED_MAX;
        }
    }
}

bool uro_swarm_net_calm(const struct uro_swarm_net *net, unsigned station)
{
    for (uint32_t i = 0; i < net->couple_count; i++) {
        const struct uro_swarm_couple *couple = &net->couples[i];
        if (couple->swarm.clean &&
            (couple->stations[0] == station || couple->stations[1] == station))
            return true;
    }
    return false;
}

/* One engine for all that a station does: what its couples need, and who is there only once. */
static void join_station(struct uro_swarm_net *net, unsigned number)
{
    struct uro_station_config *station = &net->stations[number];
    bool calm = uro_swarm_net_calm(net, number);
    uint32_t connections = 0;
    bool any = false;

    for (uint32_t i = net->couple_count; i-- > 0;) {
        const struct uro_swarm_couple *couple = &net->couples[i];
        for (unsigned side = 0; side < 2; side++) {
            if (couple->stations[side] != number)
                continue;
            bool forever = any && station->engine.retry_7_forever;
            any = true;
            *station = couple->swarm.stations[side];
            station->engine.retry_7_forever |= forever;
            if (couple->swarm.cm.callers[0] + couple->swarm.cm.callers[1] > 0)
                connections += couple->swarm.cm.connections;
        }
    }
    uro_swarm_identify(station, number);
    station->engine.connections = connections > 0 ? connections : NO_CONNECTIONS;
    if (!calm)
        return;
    station->engine.connections = URO_SWARM_CALM_CONNECTIONS;
    station->rx_ring = UINT32_MAX;
    station->tx_stall_share = 0;
    station->tx_stall_max = 0;
}

/* Where a couple is clean nobody forges frames, and the time of all goes on evenly. */
static void join_troubles(struct uro_swarm_net *net)
{
    bool has_hostile = false;
    bool has_clean = false;

    for (uint32_t i = net->couple_count; i-- > 0;) {
        const struct uro_swarm_couple *couple = &net->couples[i];
        has_clean |= couple->swarm.clean;
        if (!couple->swarm.clean)
            net->trouble = couple->swarm.trouble;
    }
    if (has_clean)
        net->trouble.jump_wait_max = net->trouble.jump_max = 0;
    for (uint32_t i = 0; i < net->couple_count; i++) {
        struct uro_swarm_couple *couple = &net->couples[i];
        couple->swarm.trouble.jump_wait_max = net->trouble.jump_wait_max;
        couple->swarm.trouble.jump_max = net->trouble.jump_max;
        couple->swarm.trouble.down_wait_max = net->trouble.down_wait_max;
        couple->swarm.trouble.down_max = net->trouble.down_max;
        if (has_hostile || uro_swarm_net_calm(net, couple->stations[0]) ||
            uro_swarm_net_calm(net, couple->stations[1]))
            couple->swarm.hostile.wait_max = 0;
        if (uro_swarm_net_calm(net, couple->stations[0]) ||
            uro_swarm_net_calm(net, couple->stations[1]))
            couple->swarm.victim.wait_max = 0;
        has_hostile |= couple->swarm.hostile.wait_max > 0;
    }
}

/* Frames that all other couples may have on their way from the stations of one. */
static void share_stations(struct uro_swarm_net *net)
{
    uint64_t frames[URO_SWARM_STATIONS_MAX] = { 0 };

    for (uint32_t i = 0; i < net->couple_count; i++)
        for (unsigned side = 0; side < 2; side++)
            frames[net->couples[i].stations[side]] +=
                uro_swarm_frames(&net->couples[i].swarm, side);
    for (uint32_t i = 0; i < net->couple_count; i++) {
        struct uro_swarm_couple *couple = &net->couples[i];
        uint64_t others[2];
        for (unsigned side = 0; side < 2; side++) {
            unsigned station = couple->stations[side];
            couple->swarm.stations[side] = net->stations[station];
            others[side] = frames[station] - uro_swarm_frames(&couple->swarm, side);
        }
        uro_swarm_share(&couple->swarm, others);
    }
}

static void draw_many(struct uro_swarm_net *net, uint64_t seed, struct uro_rng *rng)
{
    bool clean = one_in(rng, CLEAN_ONE_IN);
    bool mixed = one_in(rng, MIXED_ONE_IN);

    draw_couples(net, rng);
    for (uint32_t i = 0; i < net->couple_count; i++) {
        bool spared = clean || (mixed && one_in(rng, SPARED_ONE_IN));
        struct uro_swarm *swarm = &net->couples[i].swarm;
        uro_swarm_draw(swarm, i == 0 ? seed : uro_rng_u64(rng),
                       spared ? URO_SWARM_CLEAN : URO_SWARM_FAULTY);
        thin(swarm, net->couple_count);
    }
    for (unsigned i = 0; i < net->station_count; i++)
        join_station(net, i);
    join_troubles(net);
    share_stations(net);
}

static void draw_two(struct uro_swarm_net *net, uint64_t seed)
{
    struct uro_swarm *swarm = &net->couples[0].swarm;

    net->station_count = 2;
    add_couple(net, 0, 1);
    uro_swarm_draw(swarm, seed, URO_SWARM_ANY);
    net->trouble = swarm->trouble;
}

void uro_swarm_net_draw(struct uro_swarm_net *net, uint64_t seed, uint32_t without, uint32_t less)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, seed ^ UINT64_C(0x6e6f646573));
    if (uro_rng_below(&rng, 10) < TWO_OF_TEN || without & URO_SWARM_PART(NODES)) {
        draw_two(net, seed);
    } else {
        net->station_count = uro_world_between(&rng, 3, uro_world_between(&rng, 3, 8));
        draw_many(net, seed, &rng);
    }
    net->clean = true;
    for (uint32_t i = 0; i < net->couple_count; i++) {
        struct uro_swarm_couple *couple = &net->couples[i];
        uro_swarm_less(&couple->swarm, less);
        uro_swarm_without(&couple->swarm, without);
        net->clean &= couple->swarm.clean;
        if (couple->swarm.calm_at > net->calm_at)
            net->calm_at = couple->swarm.calm_at;
        for (unsigned side = 0; side < 2; side++)
            net->stations[couple->stations[side]] = couple->swarm.stations[side];
    }
    if (without & URO_SWARM_PART(DOWN))
        net->trouble.down_wait_max = 0;
    if (without & URO_SWARM_PART(JUMP))
        net->trouble.jump_wait_max = 0;
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
    size_t used = 0;

    if (net->station_count > 2)
        used = (size_t)snprintf(text, URO_SWARM_NET_TEXT_MAX, "%u stations:", net->station_count);
    for (uint32_t i = 0; i < net->couple_count; i++) {
        const struct uro_swarm_couple *couple = &net->couples[i];
        if (net->station_count > 2)
            used += (size_t)snprintf(text + used, URO_SWARM_NET_TEXT_MAX - used,
                                     "\n  %c-%c: ", net->stations[couple->stations[0]].name,
                                     net->stations[couple->stations[1]].name);
        char line[URO_SWARM_TEXT_MAX];
        uro_swarm_text(&couple->swarm, line);
        used += (size_t)snprintf(text + used, URO_SWARM_NET_TEXT_MAX - used, "%s", line);
    }
}
