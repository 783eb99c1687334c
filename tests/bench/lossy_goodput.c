/* SPDX-License-Identifier: BSD-3-Clause */
/* lossy_goodput.c - measures the goodput of a stream of WRITEs on a link that loses or reorders
 * frames, in virtual time.
 *
 *   lossy_goodput LOSE LATE OCTETS MESSAGES SEED [QUEUE MARK]
 *
 *   LOSE, LATE   frames in 65536 that are lost, or overtaken
 *   QUEUE, MARK  a switch on the path has 10 Gb/s and a queue of QUEUE bytes. It marks frames that
 *                arrive while the queue holds more than MARK bytes (0: marks no frame)
 *
 * The link has 25 Gb/s, a delay of 25 us in each direction, and a transmit ring of a few frames,
 * like a card. So the engine cannot send into an endless queue. Processors take no time. The
 * program prints one line of JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/embed.h"
#include "sides.h"
#include "sim/net/cable.h"
#include "sim/net/host.h"

#define ONE_WAY        URO_US(25)
#define PS_BYTE        320u       /* 25 Gb/s */
#define PS_BYTE_NARROW 800u       /* 10 Gb/s */
#define RING           URO_US(20) /* longest queue of frames for the cable, as time */
#define LATE_MAX       URO_US(20) /* extra delay of a frame that is overtaken */
#define START          URO_MS(1)
#define STEP           URO_MS(1)
#define LONGEST        URO_MS(600000)

struct run {
    struct sim_world world;
    struct sim_host hosts[2];
    struct sim_cable cables[2];
    struct side sides[2];
    struct plan plan;
    uint32_t posted;
    uint32_t sent;
    uro_time finished;
};

static struct run run;

static void after_round(void *user, struct sim_host *host)
{
    struct sim_cable *cable = user;
    uint32_t received = 0;

    if (cable->config.queue_bytes == 0 && cable->busy_until > run.world.now + RING)
        host->tx_free = cable->busy_until - RING;
    if (host != &run.hosts[0] || run.sides[0].engine == NULL)
        return;
    run.sent += sides_poll(&run.sides[0], &received);
    for (; run.posted < run.plan.messages && run.posted - run.sent < SIDES_WINDOW; run.posted++)
        sides_post(run.sides, 0, 0, &run.plan);
    if (run.sent == run.plan.messages && run.finished == 0)
        run.finished = run.world.now;
}

static void build(uint32_t lose, uint32_t late, uint64_t seed, uint32_t queue, uint32_t mark)
{
    const struct sim_cable_config cable = { .loss_probability = lose,
                                            .late_probability = late,
                                            .late_max = LATE_MAX,
                                            .one_way_delay = ONE_WAY,
                                            .ps_per_byte = queue != 0 ? PS_BYTE_NARROW : PS_BYTE,
                                            .queue_bytes = queue,
                                            .mark_above = mark };
    sim_world_init(&run.world, seed, START);
    for (unsigned i = 0; i < 2; i++) {
        const struct uro_engine_config sides = sides_config(i + 1);
        struct uroce_engine_config config = { .size = sizeof config,
                                              .mtu = sides.mtu,
                                              .reorder_buffer = sides.reorder_buffer,
                                              .address_count = 1,
                                              .addresses = { { .prefix = 24 } } };
        memcpy(config.mac, sides.mac.octets, sizeof config.mac);
        memcpy(config.seed, sides.seed, sizeof config.seed);
        memcpy(config.addresses[0].gid, sides.addresses[0].gid.octets, UROCE_GID_SIZE);
        const struct sim_host_config host = { .engine = config,
                                              .name = i == 0 ? 'a' : 'b',
                                              .rx_burst = SIM_HOST_BURST_MAX,
                                              .rx_ring = 4096,
                                              .tx_burst = 8 };
        sim_host_init(&run.hosts[i], &run.world, &host);
        run.plan.engines[i] = run.hosts[i].engine->engine;
    }
    for (unsigned i = 0; i < 2; i++) {
        sim_cable_init(&run.cables[i], &run.world, &cable, &run.hosts[1 - i].node);
        run.hosts[i].out = &run.cables[i].node;
        run.hosts[i].after_round = after_round;
        run.hosts[i].user = &run.cables[i];
    }
    run.plan.now = START;
    sides_connect(run.sides, &run.plan);
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 8) {
        (void)fprintf(stderr, "usage: lossy_goodput LOSE LATE OCTETS MESSAGES SEED [QUEUE MARK]\n");
        return 2;
    }
    sides_kind(&run.plan, "write");
    run.plan.active = 1;
    run.plan.receives = 1;
    run.plan.octets = (uint32_t)strtoul(argv[3], NULL, 0);
    run.plan.messages = (uint32_t)strtoul(argv[4], NULL, 0);
    build((uint32_t)strtoul(argv[1], NULL, 0), (uint32_t)strtoul(argv[2], NULL, 0),
          strtoull(argv[5], NULL, 0), argc == 8 ? (uint32_t)strtoul(argv[6], NULL, 0) : 0,
          argc == 8 ? (uint32_t)strtoul(argv[7], NULL, 0) : 0);
    after_round(&run.cables[0], &run.hosts[0]); /* the first posts */
    while (run.finished == 0 && !run.world.failed && run.world.now < LONGEST)
        (void)sim_world_run(&run.world, run.world.now + STEP);
    if (run.world.failed || run.finished == 0) {
        (void)fprintf(stderr, "%s\n", run.world.failed ? run.world.failure : "never done");
        return 1;
    }
    const struct uro_counters *counters = uro_engine_counters(run.sides[0].engine);
    double octets = (double)run.plan.messages * run.plan.octets;
    printf("{\"gbit_per_s\": %.3f, \"frames\": %llu, \"lost\": %llu, \"timeouts\": %llu}\n",
           octets * 8 / (double)(run.finished - START),
           (unsigned long long)run.cables[0].counts.frames,
           (unsigned long long)run.cables[0].counts.lost,
           (unsigned long long)counters->value[URO_COUNT_TIMEOUTS]);
    return 0;
}
