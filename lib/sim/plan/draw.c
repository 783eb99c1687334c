/* SPDX-License-Identifier: BSD-3-Clause */
/* draw.c - draws the plan of two hosts from a seed; see plan.h. */
#include "sim/plan/draw.h"

#include <string.h>

#include "core/limits.h"

#define FAULT_PROBABILITY_MAX 6000u /* of 65536: about one frame in eleven */
#define CLEAN_ONE_IN          8u
#define ENOUGH_EARLY          64u
#define THREADS_ONE_IN        6u
#define HOPS                  512u /* more than any host needs */

static uint32_t fault_probability(struct uro_rng *rng)
{
    return sim_draw_one_in(rng, 4) ? 1 + uro_rng_below(rng, FAULT_PROBABILITY_MAX) : 0;
}

static void draw_cable(struct sim_cable_config *cable, struct uro_rng *rng, bool clean)
{
    *cable = (struct sim_cable_config){ .one_way_delay = URO_US(sim_draw_skewed(rng, 1, 50)),
                                        .keep_order = true };
    if (sim_draw_often(rng))
        cable->ps_per_octet = sim_world_between(rng, 40, 800); /* 200 .. 10 Gbit/s */
    if (clean)
        return;
    cable->faults_from = sim_draw_one_in(rng, 4) ? 0 : SIM_PLAN_START + URO_MS(1);
    cable->loss_probability = fault_probability(rng);
    cable->lose_run = sim_draw_skewed(rng, 1, 20);
    cable->duplicate_probability = fault_probability(rng);
    cable->corrupt_probability = fault_probability(rng);
    cable->truncate_probability = fault_probability(rng);
    cable->ce_probability = fault_probability(rng);
    cable->late_probability = fault_probability(rng);
    cable->late_max = URO_US(sim_draw_skewed(rng, 1, 300));
    cable->keep_order = sim_draw_often(rng);
    if (sim_draw_often(rng))
        cable->jitter = URO_US(sim_draw_skewed(rng, 1, 100));
    if (cable->ps_per_octet != 0 && sim_draw_often(rng))
        cable->queue_octets = sim_world_between(rng, 5000, 65536);
    if (sim_draw_one_in(rng, 4)) {
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

    *host = (struct sim_host_config){ .rx_burst = sim_draw_skewed(rng, 1, SIM_HOST_BURST_MAX),
                                      .rx_ring = UINT32_MAX,
                                      .tx_burst = sim_draw_skewed(rng, 1, SIM_HOST_BURST_MAX) };
    if (!clean && sim_draw_one_in(rng, 4))
        host->rx_ring = sim_world_between(rng, 8, 256);
    if (sim_draw_often(rng))
        host->tx_gap_max = uro_rng_below(rng, 3000);
    sim_plan_identify(host, side);
    engine->connections = 16;
    engine->hops = HOPS;
    engine->mtu = URO_PATH_MTU_MAX + URO_ROCE_OVERHEAD + uro_rng_below(rng, 5000);
    for (size_t i = 0; i < sizeof engine->seed; i++)
        engine->seed[i] = (uint8_t)uro_rng_u32(rng);
    engine->window = sim_draw_often(rng) ? 0 : sim_draw_skewed(rng, 1, 300);
    engine->table_bits = (uint8_t)sim_world_between(rng, 4, 8);
}

/* Returns the least ACK timeout: a shorter one would retransmit packets that are only slow. */
static uint8_t least_timeout(const struct sim_plan *plan)
{
    uint8_t least = 6;

    while (SIM_PLAN_ACK_TIMEOUT(least) < 3 * sim_plan_flight_max(plan))
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

void sim_plan_set_host(struct sim_plan *plan, unsigned side, const struct sim_host_config *host,
                       uint64_t others)
{
    uint8_t before = least_timeout(plan);

    plan->hosts[side] = *host;
    plan->others[side] = others;
    uint8_t after = least_timeout(plan);
    uint8_t more = after > before ? (uint8_t)(after - before) : 0;
    for (uint32_t i = 0; i < 2 * plan->pair_count; i++)
        plan->pairs[i / 2].ends[i % 2].timeout =
            (uint8_t)(plan->pairs[i / 2].ends[i % 2].timeout + more);
    plan->cm.ack_timeout = (uint8_t)(plan->cm.ack_timeout + more);
}

/* Draws the size of the reorder buffer: none, few packets, or enough for most windows. */
static void draw_early(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^
                                  UINT64_C(0x6561726c79)); /* the other parts stay as they were */
    for (unsigned side = 0; side < 2; side++)
        plan->hosts[side].engine.early =
            sim_draw_often(&rng) ? ENOUGH_EARLY : sim_draw_skewed(&rng, 0, 16);
}

/* Draws which hosts have threads (net/threads.h). */
static void draw_threads(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x74687265616473));
    for (unsigned side = 0; side < 2; side++) {
        plan->hosts[side].threads = sim_draw_one_in(&rng, THREADS_ONE_IN);
        plan->hosts[side].threads_wait = !plan->clean;
        plan->hosts[side].call_per_send = sim_draw_often(&rng);
        plan->hosts[side].thread_seed = uro_rng_u64(&rng);
    }
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
    plan->forever = plan->clean || sim_draw_often(&rng);
    plan->pair_count = sim_draw_skewed(&rng, 1, SIM_PLAN_PAIRS_MAX);
    plan->cq_count = sim_world_between(&rng, 1, 4);
    plan->cq_events = sim_draw_often(&rng);
    plan->poll_wait_max = sim_draw_often(&rng) ? 0 : sim_draw_skewed(&rng, 0, 20000);
    plan->calm_at = SIM_PLAN_START + URO_MS(1) + URO_US(sim_draw_skewed(&rng, 100, 60000));
    for (unsigned side = 0; side < 2; side++) {
        draw_cable(&plan->cables[side], &rng, plan->clean);
        draw_host(&plan->hosts[side], &rng, side, plan->clean);
        plan->hosts[side].engine.retry_7_forever = plan->forever;
    }
    draw_threads(plan);
    sim_draw_pairs(plan, &rng);
    sim_draw_unreliable(plan);
    sim_draw_cm(plan);
    draw_timeouts(plan, &rng);
    sim_draw_shared(plan);
    sim_draw_faults(plan);
    draw_early(plan);
}
