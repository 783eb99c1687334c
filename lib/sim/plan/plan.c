/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - draws a simulation from a seed; see plan.h. */
#include "sim/plan/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "core/psn.h"

#define FAULT_SHARE_MAX 6000u /* of 65536: about one frame in eleven */
#define CLEAN_ONE_IN    8u
#define RNR_FOREVER     7u
#define RETRY_MAX       7u
#define ACK_TIMEOUT(t)  (UINT64_C(4096) << (t))
#define VICTIM_WAIT     URO_MS(1000) /* for its last messages */
#define NEIGHBOUR_WAIT  URO_MS(9000) /* an address that was not found is asked for again */
#define PS_PER_NS       1000u
#define ENOUGH_EARLY    64u
#define HOPS            512u /* more than any host needs */

static bool often(struct uro_rng *rng)
{
    return uro_rng_below(rng, 2) == 0;
}

static bool rarely(struct uro_rng *rng)
{
    return uro_rng_below(rng, 4) == 0;
}

static uint32_t share(struct uro_rng *rng)
{
    return rarely(rng) ? 1 + uro_rng_below(rng, FAULT_SHARE_MAX) : 0;
}

/* Small numbers more often than large ones. */
static uint32_t skewed(struct uro_rng *rng, uint32_t low, uint32_t high)
{
    uint32_t most = sim_world_between(rng, low, high);
    return sim_world_between(rng, low, most);
}

static void draw_cable(struct sim_cable_config *cable, struct uro_rng *rng, bool clean)
{
    *cable = (struct sim_cable_config){ .delay = URO_US(skewed(rng, 1, 50)), .keep_order = true };
    if (often(rng))
        cable->ps_per_octet = sim_world_between(rng, 40, 800); /* 200 .. 10 Gbit/s */
    if (clean)
        return;
    cable->faults_from = rarely(rng) ? 0 : SIM_PLAN_START + URO_MS(1);
    cable->lose = share(rng);
    cable->lose_run = skewed(rng, 1, 20);
    cable->duplicate = share(rng);
    cable->corrupt = share(rng);
    cable->truncate = share(rng);
    cable->mark_ce = share(rng);
    cable->late = share(rng);
    cable->late_max = URO_US(skewed(rng, 1, 300));
    cable->keep_order = often(rng);
    if (often(rng))
        cable->jitter = URO_US(skewed(rng, 1, 100));
    if (cable->ps_per_octet != 0 && often(rng))
        cable->queue_octets = sim_world_between(rng, 5000, 65536);
    if (rarely(rng)) {
        cable->partition_from = URO_US(uro_rng_below(rng, 5000));
        cable->partition_every = URO_US(sim_world_between(rng, 1000, 20000));
        cable->partition_for = URO_US(sim_world_between(rng, 10, 800));
    }
}

void sim_plan_identify(struct sim_host_config *host, unsigned number)
{
    struct uro_engine_config *engine = &host->engine;
    const uint8_t ipv4[4] = { 10, 0, 0, (uint8_t)(number + 1) };
    const struct uro_mac mac = { { 0x02, 0, 0, 0, 0, (uint8_t)(number + 1) } };

    host->name = (char)('A' + (char)number);
    engine->mac = mac;
    engine->address_count = 2;
    engine->addresses[0] =
        (struct uro_engine_address){ .gid = uro_gid_link_local(&mac), .prefix = 64 };
    engine->addresses[1] =
        (struct uro_engine_address){ .gid = uro_gid_from_ipv4(ipv4), .prefix = 24 };
}

static void draw_host(struct sim_host_config *host, struct uro_rng *rng, unsigned side, bool clean)
{
    struct uro_engine_config *engine = &host->engine;

    *host = (struct sim_host_config){ .rx_burst = skewed(rng, 1, SIM_HOST_BURST_MAX),
                                      .rx_ring = UINT32_MAX,
                                      .tx_burst = skewed(rng, 1, SIM_HOST_BURST_MAX) };
    if (!clean && rarely(rng))
        host->rx_ring = sim_world_between(rng, 8, 256);
    if (often(rng))
        host->tx_gap_max = uro_rng_below(rng, 3000);
    sim_plan_identify(host, side);
    engine->connections = 16;
    engine->hops = HOPS;
    engine->mtu = URO_PATH_MTU_MAX + URO_ROCE_OVERHEAD + uro_rng_below(rng, 5000);
    for (size_t i = 0; i < sizeof engine->seed; i++)
        engine->seed[i] = (uint8_t)uro_rng_u32(rng);
    engine->window = often(rng) ? 0 : skewed(rng, 1, 300);
    engine->table_bits = (uint8_t)sim_world_between(rng, 4, 8);
}

static void draw_weights(uint32_t weights[SIM_PLAN_KINDS], struct uro_rng *rng, bool clean)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < SIM_PLAN_FLUSH; i++) {
        weights[i] = often(rng) ? sim_world_between(rng, 1, 10) : 0;
        if (clean && (i == SIM_PLAN_SEND_IMM || i == SIM_PLAN_WRITE_IMM))
            weights[i] = 0;
        sum += weights[i];
    }
    if (sum == 0)
        weights[SIM_PLAN_SEND] = 1;
}

static void draw_end(struct sim_plan_end *end, struct uro_rng *rng, const struct sim_plan *plan)
{
    bool clean = plan->clean;

    *end = (struct sim_plan_end){
        .send_capacity = skewed(rng, 1, 48),
        .recv_capacity = clean ? 64 : skewed(rng, 1, 32),
        .send_sges = skewed(rng, 1, rarely(rng) ? URO_SGE_MAX : 6),
        .recv_sges = skewed(rng, 1, rarely(rng) ? URO_SGE_MAX : 6),
        .inline_max = often(rng) ? skewed(rng, 1, URO_INLINE_MAX) : 0,
        .signal_all = rarely(rng),
        .signal_share = uro_rng_below(rng, 65537),
        .inline_share = uro_rng_below(rng, 65537),
        .fence_share = rarely(rng) ? uro_rng_below(rng, 65537) : 0,
        .solicit_share = often(rng) ? uro_rng_below(rng, 65537) : 0,
        .batch_max = skewed(rng, 1, 16),
        .recv_batch_max = clean ? 64 : skewed(rng, 1, 16),
        .post_wait_max = often(rng) ? 0 : skewed(rng, 0, 50000),
        .recv_wait_max = clean || often(rng) ? 0 : skewed(rng, 0, 200000),
        .first_psn = often(rng) ? URO_PSN_MASK - uro_rng_below(rng, 200)
                                : uro_rng_below(rng, URO_PSN_MASK + 1),
        .sends = sim_world_between(rng, 8, 60),
        .srq = SIM_PLAN_NO_SRQ,
        .rd_atomic = (uint8_t)skewed(rng, 1, 16),
        .min_rnr_timer = (uint8_t)sim_world_between(rng, 1, 10),
        .retry_count = (uint8_t)(plan->forever ? RETRY_MAX : sim_world_between(rng, 3, RETRY_MAX)),
        .rnr_retry = (uint8_t)(plan->forever || often(rng) ? RNR_FOREVER : uro_rng_below(rng, 7)),
    };
    draw_weights(end->weights, rng, clean);
}

static void draw_pair(struct sim_plan_pair *pair, struct uro_rng *rng, const struct sim_plan *plan)
{
    *pair = (struct sim_plan_pair){
        .path_mtu = 256u << uro_rng_below(rng, 5),
        .lives = plan->clean ? 1 : skewed(rng, 1, 5),
        .inject_share = !plan->clean && often(rng) ? uro_rng_below(rng, 4000) : 0,
        .v6 = often(rng),
    };
    pair->message_max = pair->path_mtu * sim_world_between(rng, 1, 5);
    if (often(rng))
        pair->message_max -= uro_rng_below(rng, pair->path_mtu / 2);
    pair->life_max = sim_world_between(rng, 100, 20000);
    for (unsigned i = 0; i < 2; i++)
        draw_end(&pair->ends[i], rng, plan);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

uint64_t sim_plan_frames(const struct sim_plan *plan, unsigned side)
{
    uint32_t window = plan->hosts[side].engine.window;
    if (window == 0)
        window = URO_WINDOW_DEFAULT;
    uint64_t frames = (uint64_t)window * plan->pair_count * 2; /* requests and READ answers */

    for (uint32_t i = 0; i < plan->uc_count; i++) {
        const struct sim_plan_pair *uc = &plan->ucs[i];
        frames += 4 * (uc->ends[0].sends * (uc->message_max / uc->path_mtu + 1));
    }
    for (uint32_t i = 0; i < plan->party_count; i++)
        frames += 2 * plan->parties[i].ends[0].sends;
    return frames + sim_plan_cm_frames(plan);
}

static uint32_t largest_frame(const struct sim_plan *plan)
{
    uint32_t mtu = plan->cm.path_mtu;

    for (uint32_t i = 0; i < plan->uc_count; i++)
        mtu = larger(mtu, plan->ucs[i].path_mtu);
    for (uint32_t i = 0; i < plan->pair_count; i++)
        mtu = larger(mtu, plan->pairs[i].path_mtu);
    if (plan->party_count > 0 || plan->others[0] + plan->others[1] > 0)
        mtu = URO_PATH_MTU_MAX;
    return mtu + URO_ROCE_OVERHEAD;
}

uro_time sim_plan_flight_max(const struct sim_plan *plan)
{
    uint32_t largest = largest_frame(plan);
    uro_time longest = 0;

    for (unsigned side = 0; side < 2; side++) {
        const struct sim_cable_config *cable = &plan->cables[side];
        uint64_t frames = sim_plan_frames(plan, side) + plan->others[side];
        uro_time time = cable->delay + cable->jitter + cable->late_max +
                        frames * largest * cable->ps_per_octet / PS_PER_NS +
                        frames * plan->hosts[side].tx_gap_max;
        if (time > longest)
            longest = time;
    }
    return longest;
}

/* An ACK timeout shorter than the longest round trip would resend what is only slow. */
static uint8_t least_timeout(const struct sim_plan *plan)
{
    uint8_t least = 6;

    while (ACK_TIMEOUT(least) < 3 * sim_plan_flight_max(plan))
        least++;
    return least;
}

static void draw_timeouts(struct sim_plan *plan, struct uro_rng *rng)
{
    uint8_t least = least_timeout(plan);

    for (uint32_t i = 0; i < plan->pair_count; i++)
        for (unsigned side = 0; side < 2; side++)
            plan->pairs[i].ends[side].timeout =
                (uint8_t)(least + uro_rng_below(rng, 3) + (plan->clean ? 2 : 0));
    plan->cm.ack_timeout = (uint8_t)(least + plan->cm.ack_more + (plan->clean ? 2 : 0));
}

void sim_plan_share(struct sim_plan *plan, const uint64_t others[static 2])
{
    uint8_t before = least_timeout(plan);

    for (unsigned side = 0; side < 2; side++)
        plan->others[side] = others[side];
    uint8_t more = (uint8_t)(least_timeout(plan) - before);
    for (uint32_t i = 0; i < 2 * plan->pair_count; i++)
        plan->pairs[i / 2].ends[i % 2].timeout =
            (uint8_t)(plan->pairs[i / 2].ends[i % 2].timeout + more);
    plan->cm.ack_timeout = (uint8_t)(plan->cm.ack_timeout + more);
}

/* How many packets that come before their turn an engine keeps: none, few, or enough for most windows. */
static void draw_early(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(
        &rng, plan->seed ^ UINT64_C(0x6561726c79)); /* the others draw what they drew before */
    for (unsigned side = 0; side < 2; side++)
        plan->hosts[side].engine.early = often(&rng) ? ENOUGH_EARLY : skewed(&rng, 0, 16);
}

void sim_plan_draw(struct sim_plan *plan, uint64_t seed, enum sim_plan_manner manner)
{
    struct uro_rng rng;

    memset(plan, 0, sizeof *plan);
    uro_rng_init_number(&rng, seed ^ UINT64_C(0x7377726d)); /* not the world's own numbers */
    plan->seed = seed;
    plan->clean = uro_rng_below(&rng, CLEAN_ONE_IN) == 0;
    if (manner != SIM_PLAN_ANY)
        plan->clean = manner == SIM_PLAN_CLEAN;
    plan->forever = plan->clean || often(&rng);
    plan->pair_count = skewed(&rng, 1, SIM_PLAN_PAIRS_MAX);
    plan->cq_count = sim_world_between(&rng, 1, 4);
    plan->cq_events = often(&rng);
    plan->poll_wait_max = often(&rng) ? 0 : skewed(&rng, 0, 20000);
    plan->calm_at = SIM_PLAN_START + URO_MS(1) + URO_US(skewed(&rng, 100, 60000));
    for (unsigned side = 0; side < 2; side++) {
        draw_cable(&plan->cables[side], &rng, plan->clean);
        draw_host(&plan->hosts[side], &rng, side, plan->clean);
        plan->hosts[side].engine.retry_7_forever = plan->forever;
    }
    for (uint32_t i = 0; i < plan->pair_count; i++)
        draw_pair(&plan->pairs[i], &rng, plan);
    sim_plan_draw_loose(plan);
    sim_plan_draw_cm(plan);
    draw_timeouts(plan, &rng);
    sim_plan_draw_shared(plan);
    sim_plan_draw_trouble(plan);
    draw_early(plan);
}

/* Generous: what is looked for is work that never ends, not work that is slow. */
uro_time sim_plan_patience(const struct sim_plan *plan)
{
    uro_time sum = NEIGHBOUR_WAIT;
    uro_time flight = sim_plan_flight_max(plan);

    for (uint32_t i = 0; i < plan->pair_count; i++) {
        const struct sim_plan_pair *pair = &plan->pairs[i];
        for (unsigned side = 0; side < 2; side++) {
            const struct sim_plan_end *end = &pair->ends[side];
            const struct sim_plan_end *peer = &pair->ends[!side];
            uro_time each = 2 * flight + end->post_wait_max + 2 * plan->poll_wait_max +
                            peer->recv_wait_max + URO_MS(2); /* an RNR wait or two */
            if (peer->srq != SIM_PLAN_NO_SRQ || pair->xrc)
                each *= 2 * plan->pair_count; /* others are served first */
            sum += (pair->lives + 1) * (URO_US(pair->life_max) + end->sends * each +
                                        (RETRY_MAX + 2) * ACK_TIMEOUT(end->timeout) * 2);
        }
    }
    for (uint32_t i = 0; i < plan->uc_count; i++) {
        const struct sim_plan_pair *uc = &plan->ucs[i];
        sum += URO_MS(100) + 2 * uc->ends[0].sends *
                                 (2 * flight + 2 * plan->poll_wait_max + uc->ends[0].post_wait_max +
                                  uc->ends[0].recv_wait_max);
    }
    for (uint32_t i = 0; i < plan->party_count; i++) {
        const struct sim_plan_pair *party = &plan->parties[i];
        sum += URO_MS(100) + 2 * party->ends[0].sends *
                                 (2 * flight + 2 * plan->poll_wait_max +
                                  party->ends[0].post_wait_max + party->ends[0].recv_wait_max);
    }
    return sum + sim_plan_cm_patience(plan) + (plan->attacked.wait_max > 0 ? VICTIM_WAIT : 0);
}

void sim_plan_text(const struct sim_plan *plan, char text[static SIM_PLAN_TEXT_MAX])
{
    size_t used = (size_t)snprintf(
        text, SIM_PLAN_TEXT_MAX, "%u pairs, %s, %s, calm at %" PRIu64 " us", plan->pair_count,
        plan->clean ? "clean" : "faulty", plan->forever ? "retries for ever" : "retries run out",
        plan->calm_at / 1000);
    used += (size_t)snprintf(text + used, SIM_PLAN_TEXT_MAX - used,
                             "; %u UC, %u UD%s, %u and %u CM, %u and %u shared queues%s%s",
                             plan->uc_count, plan->party_count, plan->groups ? " with groups" : "",
                             plan->cm.callers[0], plan->cm.callers[1], plan->srq_count[0],
                             plan->srq_count[1], plan->pauses ? ", drains" : "",
                             plan->revokes ? ", revokes" : "");
    const struct sim_plan_faults *faults = &plan->faults;
    used += (size_t)snprintf(text + used, SIM_PLAN_TEXT_MAX - used,
                             "; down %u jump %u doze %u hostile %u tight %u%s victim %u",
                             faults->down_max, faults->jump_max, faults->doze_max,
                             plan->attacker.wait_max, plan->cq_tight,
                             plan->cq_tight_all ? " for all" : "", plan->attacked.wait_max);
    for (unsigned side = 0; side < 2 && !plan->clean; side++) {
        const struct sim_cable_config *c = &plan->cables[side];
        used += (size_t)snprintf(text + used, SIM_PLAN_TEXT_MAX - used,
                                 "; %c>: lose %u dup %u corrupt %u cut %u late %u ce %u queue %u "
                                 "partition %u stall %u foreign %x",
                                 plan->hosts[side].name, c->lose, c->duplicate, c->corrupt,
                                 c->truncate, c->keep_order ? 0 : c->late, c->mark_ce,
                                 c->queue_octets, (unsigned)(c->partition_for / 1000),
                                 (unsigned)(plan->hosts[side].tx_stall_max / 1000), c->quirks);
        URO_ASSERT(used < SIM_PLAN_TEXT_MAX);
    }
}
