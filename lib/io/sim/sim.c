/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.c - see sim.h for the contract. */
#include "io/sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/pcap/pcap_write.h"
#include "io/sim/hostile.h"
#include "io/sim/load.h"
#include "io/sim/trouble.h"

#define SETTLE         URO_MS(200)    /* beyond every delay: the last frames have arrived */
#define IDLE           URO_MS(100000) /* neighbours are asked again every 30 s */
#define IDLE_ROUNDS    64u            /* of a station, for its neighbours */
#define CLEAN_COUNTERS URO_ARRAY_LEN(never_when_clean)

static const enum uro_counter never_when_clean[] = {
    URO_COUNT_DROP_SHORT,         URO_COUNT_DROP_ETHER_TYPE,  URO_COUNT_DROP_ETHER_DEST,
    URO_COUNT_DROP_IP_HEADER,     URO_COUNT_DROP_IP_CHECKSUM, URO_COUNT_DROP_IP_OPTIONS,
    URO_COUNT_DROP_IP_FRAGMENT,   URO_COUNT_DROP_IP_DEST,     URO_COUNT_DROP_IP_PROTOCOL,
    URO_COUNT_DROP_UDP_PORT,      URO_COUNT_DROP_UDP_LENGTH,  URO_COUNT_DROP_UDP_CHECKSUM,
    URO_COUNT_DROP_ICRC,          URO_COUNT_DROP_OPCODE,      URO_COUNT_DROP_LENGTH,
    URO_COUNT_DROP_VERSION,       URO_COUNT_DROP_QPN,         URO_COUNT_DROP_SERVICE,
    URO_COUNT_DROP_STATE,         URO_COUNT_DROP_ADDRESS,     URO_COUNT_DROP_PKEY,
    URO_COUNT_DROP_QKEY,          URO_COUNT_DROP_GHOST_ACK,   URO_COUNT_DROP_STALE_RESPONSE,
    URO_COUNT_DROP_BAD_RESPONSE,  URO_COUNT_DROP_AFTER_NAK,   URO_COUNT_DROP_REPLAY,
    URO_COUNT_DROP_MALFORMED_ARP, URO_COUNT_TX_NO_NEIGHBOR,   URO_COUNT_RX_DUPLICATE,
    URO_COUNT_RX_OUT_OF_SEQ,      URO_COUNT_RNR_SENT,         URO_COUNT_RNR_RECEIVED,
    URO_COUNT_SEQ_NAK_RECEIVED,   URO_COUNT_TIMEOUTS,         URO_COUNT_PROBES,
    URO_COUNT_RETRY_ROUNDS,       URO_COUNT_RETRY_EXCEEDED,   URO_COUNT_RNR_EXCEEDED,
    URO_COUNT_ACCESS_REFUSED,     URO_COUNT_CQ_OVERRUN,
};

struct sim {
    struct uro_load load;
    struct uro_pcap_write *pcap;
    struct uro_sim_options options;
    struct uro_cable cables[2]; /* from station i to the other one */
    struct uro_station stations[2];
    struct uro_hostile hostile;
    struct uro_trouble trouble;
    struct uro_world world;
    struct uro_swarm swarm;
};

static struct sim *running; /* for uro_sim_crashed() alone */

static void build(struct sim *sim)
{
    uro_swarm_draw(&sim->swarm, sim->options.seed);
    uro_swarm_less(&sim->swarm, sim->options.less);
    uro_swarm_without(&sim->swarm, sim->options.without);
    uro_world_init(&sim->world, sim->options.seed, URO_SWARM_START);
    uro_journal_follow(sim->world.journal, sim->options.trace);
    if (sim->options.pcap != NULL) {
        int result = uro_pcap_write_open(sim->options.pcap, 0, &sim->pcap);
        if (result != 0)
            uro_world_fail(&sim->world, "%s: %s", sim->options.pcap, strerror(-result));
    }
    for (unsigned i = 0; i < 2; i++) {
        uro_station_init(&sim->stations[i], &sim->world, &sim->swarm.stations[i]);
        sim->stations[i].pcap = sim->pcap;
    }
    for (unsigned i = 0; i < 2; i++) {
        uro_cable_init(&sim->cables[i], &sim->world, &sim->swarm.cables[i],
                       &sim->stations[!i].node);
        sim->stations[i].out = &sim->cables[i].node;
    }
    uro_trouble_init(&sim->trouble, &sim->world, &sim->swarm.trouble, sim->stations, sim->cables);
    uro_hostile_init(&sim->hostile, &sim->world, &sim->swarm.hostile, sim->stations);
    for (unsigned i = 0; i < 2; i++) {
        sim->stations[i].tap = uro_hostile_overhear;
        sim->stations[i].tapper = &sim->hostile;
    }
    uro_load_init(&sim->load, &sim->world, &sim->swarm, &sim->stations[0], &sim->stations[1]);
}

static void tear_down(struct sim *sim)
{
    for (unsigned i = 0; i < 2; i++)
        uro_cable_fini(&sim->cables[i]);
    for (unsigned i = 0; i < 2; i++)
        uro_station_fini(&sim->stations[i]);
    uro_load_fini(&sim->load);
    uro_pcap_write_close(sim->pcap);
    uro_world_fini(&sim->world);
}

static void calm(struct sim *sim)
{
    for (unsigned i = 0; i < 2; i++) {
        uro_cable_calm(&sim->cables[i]);
        uro_station_calm(&sim->stations[i]);
    }
    uro_trouble_calm(&sim->trouble);
    uro_hostile_calm(&sim->hostile);
    uro_load_calm(&sim->load);
    uro_journal_note(sim->world.journal, sim->world.now, "faults stop");
}

/* Runs, one instant after the other, until @done or @until. */
static bool run_until(struct sim *sim, bool (*done)(const struct uro_load *), uro_time until)
{
    struct uro_world *world = &sim->world;

    while (!world->failed && !done(&sim->load)) {
        uro_time next = uro_world_next(world);
        if (next > until)
            return false;
        uro_world_run(world, next > world->now ? next : world->now);
    }
    return !world->failed;
}

/* Faults stopped: everything that was posted must complete. */
static uro_time live(struct sim *sim)
{
    uro_time from = sim->world.now;
    char blame[400];

    if (!run_until(sim, uro_load_quiet, from + uro_swarm_patience(&sim->swarm)) &&
        !sim->world.failed) {
        uro_load_blame(&sim->load, blame, sizeof blame);
        uro_world_fail(&sim->world, "not done %" PRIu64 " ms after faults stopped:%s",
                       uro_swarm_patience(&sim->swarm) / 1000000, blame);
    }
    return sim->world.now - from;
}

static bool all_arrived(const struct uro_load *load)
{
    return load->world->frames_alive == 0;
}

/* Nothing to do: nothing is sent, nobody wakes up, but to ask for neighbours again. */
static void idle(struct sim *sim)
{
    uint64_t roce[2];
    uint64_t rounds[2];

    uro_world_run(&sim->world, sim->world.now + SETTLE);
    /* A group may have been reported a moment ago, for the second time. */
    bool arrived = run_until(sim, all_arrived, sim->world.now + SETTLE);
    for (unsigned i = 0; i < 2; i++) {
        roce[i] = sim->stations[i].roce_sent;
        rounds[i] = sim->stations[i].rounds;
    }
    if (!sim->world.failed && !arrived)
        uro_world_fail(&sim->world, "%u frames are still on their way", sim->world.frames_alive);
    uro_world_run(&sim->world, sim->world.now + IDLE);
    for (unsigned i = 0; i < 2; i++) {
        if (sim->stations[i].roce_sent != roce[i])
            uro_world_fail(&sim->world, "%c sends although there is nothing to do", 'A' + (char)i);
        if (sim->stations[i].rounds - rounds[i] > IDLE_ROUNDS)
            uro_world_fail(&sim->world, "%c woke %" PRIu64 " times with nothing to do",
                           'A' + (char)i, sim->stations[i].rounds - rounds[i]);
    }
}

/* All queue pairs are gone: an engine without objects sleeps for ever. */
static void end(struct sim *sim)
{
    uro_load_end_all(&sim->load);
    if (!run_until(sim, uro_load_over, sim->world.now + URO_MS(1000)))
        uro_world_fail(&sim->world, "queue pairs in ERR did not flush everything");
    uro_world_run(&sim->world, sim->world.now + IDLE);
    for (unsigned i = 0; i < 2; i++)
        if (uro_engine_next(sim->stations[i].engine) != URO_TIME_NEVER)
            uro_world_fail(&sim->world, "%c has no objects but wants to be called", 'A' + (char)i);
    if (sim->world.frames_alive != 0)
        uro_world_fail(&sim->world, "%u frames were not returned", sim->world.frames_alive);
    uro_load_check(&sim->load);
}

static void check_counters(struct sim *sim)
{
    for (unsigned i = 0; i < 2 && sim->swarm.clean; i++) {
        const struct uro_counters *counters = uro_engine_counters(sim->stations[i].engine);
        for (size_t j = 0; j < CLEAN_COUNTERS; j++)
            if (counters->value[never_when_clean[j]] != 0)
                uro_world_fail(&sim->world, "%c counts %s %" PRIu64 " on a perfect network",
                               'A' + (char)i, uro_counter_name(never_when_clean[j]),
                               counters->value[never_when_clean[j]]);
    }
}

bool uro_sim_run(const struct uro_sim_options *options, struct uro_sim_result *result)
{
    struct sim *sim = calloc(1, sizeof *sim);

    URO_ASSERT(sim != NULL);
    memset(result, 0, sizeof *result);
    sim->options = *options;
    build(sim);
    running = sim;
    uro_swarm_text(&sim->swarm, result->setting);
    uro_journal_note(sim->world.journal, sim->world.now, "%s", result->setting);

    uro_world_run(&sim->world, sim->swarm.calm_at);
    calm(sim);
    result->patience_used = live(sim);
    if (!sim->world.failed)
        idle(sim);
    if (!sim->world.failed)
        check_counters(sim);
    if (!sim->world.failed)
        end(sim);

    running = NULL;
    result->passed = !sim->world.failed;
    snprintf(result->failure, sizeof result->failure, "%s", sim->world.failure);
    result->digest = sim->world.digest;
    result->frames = sim->stations[0].frames_sent + sim->stations[1].frames_sent;
    result->operations = sim->load.ops_done;
    result->lives = sim->load.lives;
    result->failures = sim->load.failures;
    result->duration = sim->world.now - URO_SWARM_START;
    if (!result->passed && options->tell != NULL)
        uro_journal_tell(sim->world.journal, options->tell);
    tear_down(sim);
    free(sim);
    return result->passed;
}

void uro_sim_crashed(void)
{
    struct sim *sim = running;

    running = NULL;
    if (sim == NULL)
        return;
    if (sim->options.tell != NULL)
        uro_journal_tell(sim->world.journal, sim->options.tell);
    uro_pcap_write_close(sim->pcap);
}
