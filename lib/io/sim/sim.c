/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.c - see sim.h for the contract. */
#include "io/sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/pcap/pcap_write.h"
#include "io/sim/fork.h"
#include "io/sim/hostile.h"
#include "io/sim/load_cm.h"
#include "io/sim/load_site.h"
#include "io/sim/swarm_net.h"
#include "io/sim/trouble.h"

_Static_assert(URO_SIM_SETTING_MAX >= URO_SWARM_NET_TEXT_MAX, "a setting fits");

#define SETTLE         URO_MS(200)    /* beyond every delay: the last frames have arrived */
#define IDLE           URO_MS(100000) /* neighbours are asked again every 30 s */
#define IDLE_ROUNDS    64u            /* of a station, for each neighbour */
#define CLEAN_COUNTERS URO_ARRAY_LEN(never_when_clean)

static const enum uro_counter never_when_clean[] = {
    URO_COUNT_DROP_SHORT,        URO_COUNT_DROP_ETHER_TYPE,
    URO_COUNT_DROP_ETHER_DEST,   URO_COUNT_DROP_IP_HEADER,
    URO_COUNT_DROP_IP_CHECKSUM,  URO_COUNT_DROP_IP_OPTIONS,
    URO_COUNT_DROP_IP_FRAGMENT,  URO_COUNT_DROP_IP_DEST,
    URO_COUNT_DROP_IP_PROTOCOL,  URO_COUNT_DROP_UDP_PORT,
    URO_COUNT_DROP_UDP_LENGTH,   URO_COUNT_DROP_UDP_CHECKSUM,
    URO_COUNT_DROP_ICRC,         URO_COUNT_DROP_OPCODE,
    URO_COUNT_DROP_LENGTH,       URO_COUNT_DROP_VERSION,
    URO_COUNT_DROP_QPN,          URO_COUNT_DROP_SERVICE,
    URO_COUNT_DROP_STATE,        URO_COUNT_DROP_ADDRESS,
    URO_COUNT_DROP_PKEY,         URO_COUNT_DROP_QKEY,
    URO_COUNT_DROP_GHOST_ACK,    URO_COUNT_DROP_STALE_RESPONSE,
    URO_COUNT_DROP_BAD_RESPONSE, URO_COUNT_DROP_AFTER_NAK,
    URO_COUNT_DROP_REPLAY,       URO_COUNT_DROP_MALFORMED_ARP,
    URO_COUNT_TX_NO_NEIGHBOR,    URO_COUNT_RX_DUPLICATE,
    URO_COUNT_RX_EARLY,          URO_COUNT_RX_MARKED,
    URO_COUNT_CNP_SENT,          URO_COUNT_CNP_RECEIVED,
    URO_COUNT_RX_OUT_OF_SEQ,     URO_COUNT_RNR_SENT,
    URO_COUNT_RNR_RECEIVED,      URO_COUNT_SEQ_NAK_RECEIVED,
    URO_COUNT_TIMEOUTS,          URO_COUNT_PROBES,
    URO_COUNT_RETRY_ROUNDS,      URO_COUNT_RETRY_EXCEEDED,
    URO_COUNT_RNR_EXCEEDED,      URO_COUNT_ACCESS_REFUSED,
    URO_COUNT_CQ_OVERRUN,
};

/* Two stations that talk. */
struct couple {
    struct uro_load load;
    struct uro_cable cables[2]; /* from each to the other one */
    struct uro_hostile hostile;
    const struct uro_swarm_couple *plan;
};

struct sim {
    struct uro_swarm_net net;
    struct uro_pcap_write *pcap;
    struct uro_sim_options options;
    struct uro_station stations[URO_SWARM_STATIONS_MAX];
    struct uro_fork forks[URO_SWARM_STATIONS_MAX];
    struct uro_load_site sites[URO_SWARM_STATIONS_MAX];
    struct couple couples[URO_SWARM_COUPLES_MAX];
    struct uro_trouble trouble;
    struct uro_world world;
};

static struct sim *running; /* for uro_sim_crashed() alone */

static void build_station(struct sim *sim, unsigned number)
{
    struct uro_station *station = &sim->stations[number];

    uro_station_init(station, &sim->world, &sim->net.stations[number]);
    station->pcap = sim->pcap;
    uro_fork_init(&sim->forks[number], &sim->world);
    station->out = &sim->forks[number].node;
    uro_load_site_init(&sim->sites[number], station);
}

static void build_cables(struct sim *sim, struct couple *couple)
{
    const unsigned *ends = couple->plan->stations;

    for (unsigned i = 0; i < 2; i++) {
        struct uro_station *to = &sim->stations[ends[!i]];
        uro_cable_init(&couple->cables[i], &sim->world, &couple->plan->swarm.cables[i], &to->node);
        uro_fork_add(&sim->forks[ends[i]], &to->config.engine.mac, &couple->cables[i].node);
    }
}

static void build_hostile(struct sim *sim, struct couple *couple, uint32_t number)
{
    const unsigned *ends = couple->plan->stations;

    uro_hostile_init(&couple->hostile, &sim->world, &couple->plan->swarm.hostile,
                     &sim->stations[ends[0]], &sim->stations[ends[1]], uro_load_cm_service(number));
    for (unsigned i = 0; i < 2; i++) {
        if (couple->plan->swarm.hostile.wait_max == 0)
            break;
        sim->stations[ends[i]].tap = uro_hostile_overhear;
        sim->stations[ends[i]].tapper = &couple->hostile;
    }
}

static void plug_cables(struct uro_trouble_plug *plug, struct couple *couple)
{
    for (unsigned i = 0; i < 2; i++)
        plug->cables[plug->cable_count++] = &couple->cables[i];
}

/* What can go down: a station with all its cables; or what is between two, which no engine notices.
 * Not where a couple is clean. */
static void build_trouble(struct sim *sim)
{
    const struct uro_swarm_net *net = &sim->net;
    struct uro_trouble_plug *plug;

    uro_trouble_init(&sim->trouble, &sim->world, &net->trouble);
    for (unsigned i = 0; i < net->station_count && net->station_count > 2; i++) {
        if (uro_swarm_net_calm(net, i))
            continue;
        plug = uro_trouble_add(&sim->trouble);
        plug->stations[plug->station_count++] = &sim->stations[i];
        for (uint32_t j = 0; j < net->couple_count; j++)
            if (net->couples[j].stations[0] == i || net->couples[j].stations[1] == i)
                plug_cables(plug, &sim->couples[j]);
    }
    for (uint32_t i = 0; i < net->couple_count; i++) {
        if (net->couples[i].swarm.clean)
            continue;
        plug = uro_trouble_add(&sim->trouble);
        plug_cables(plug, &sim->couples[i]);
        for (unsigned j = 0; j < 2 && net->station_count == 2; j++)
            plug->stations[plug->station_count++] = &sim->stations[j];
    }
}

static void build(struct sim *sim)
{
    struct uro_world *world = &sim->world;

    uro_swarm_net_draw(&sim->net, sim->options.seed, sim->options.without, sim->options.less);
    uro_world_init(world, sim->options.seed, URO_SWARM_START);
    uro_journal_follow(world->journal, sim->options.trace);
    if (sim->options.pcap != NULL) {
        int result = uro_pcap_write_open(sim->options.pcap, 0, &sim->pcap);
        if (result != 0)
            uro_world_fail(world, "%s: %s", sim->options.pcap, strerror(-result));
    }
    for (unsigned i = 0; i < sim->net.station_count; i++)
        build_station(sim, i);
    for (uint32_t i = 0; i < sim->net.couple_count; i++) {
        sim->couples[i].plan = &sim->net.couples[i];
        build_cables(sim, &sim->couples[i]);
    }
    build_trouble(sim);
    for (uint32_t i = 0; i < sim->net.couple_count; i++)
        build_hostile(sim, &sim->couples[i], i);
    for (uint32_t i = 0; i < sim->net.couple_count; i++) {
        const struct uro_swarm_couple *plan = &sim->net.couples[i];
        uro_load_init(&sim->couples[i].load, world, &plan->swarm, i, &sim->sites[plan->stations[0]],
                      &sim->sites[plan->stations[1]]);
    }
}

static void tear_down(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->net.couple_count; i++)
        for (unsigned j = 0; j < 2; j++)
            uro_cable_fini(&sim->couples[i].cables[j]);
    for (unsigned i = 0; i < sim->net.station_count; i++)
        uro_station_fini(&sim->stations[i]);
    for (uint32_t i = 0; i < sim->net.couple_count; i++)
        uro_load_fini(&sim->couples[i].load);
    uro_pcap_write_close(sim->pcap);
    uro_world_fini(&sim->world);
}

static void calm(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->net.couple_count; i++)
        for (unsigned j = 0; j < 2; j++)
            uro_cable_calm(&sim->couples[i].cables[j]);
    for (unsigned i = 0; i < sim->net.station_count; i++)
        uro_station_calm(&sim->stations[i]);
    uro_trouble_calm(&sim->trouble);
    for (uint32_t i = 0; i < sim->net.couple_count; i++) {
        uro_hostile_calm(&sim->couples[i].hostile);
        uro_load_calm(&sim->couples[i].load);
    }
    uro_journal_note(sim->world.journal, sim->world.now, "faults stop");
}

static bool all(const struct sim *sim, bool (*holds)(const struct uro_load *))
{
    for (uint32_t i = 0; i < sim->net.couple_count; i++)
        if (!holds(&sim->couples[i].load))
            return false;
    return true;
}

/* Runs, one instant after the other, until @done or @until. */
static bool run_until(struct sim *sim, bool (*done)(const struct uro_load *), uro_time until)
{
    struct uro_world *world = &sim->world;

    while (!world->failed && !all(sim, done)) {
        uro_time next = uro_world_next(world);
        if (next > until)
            return false;
        uro_world_run(world, next > world->now ? next : world->now);
    }
    return !world->failed;
}

static char name_of(const struct sim *sim, uint32_t couple, unsigned side)
{
    return sim->stations[sim->net.couples[couple].stations[side]].config.name;
}

/* Faults stopped: everything that was posted must complete. */
static uro_time live(struct sim *sim)
{
    uro_time from = sim->world.now;
    char blame[400];

    uro_time patience = uro_swarm_net_patience(&sim->net);
    bool done = run_until(sim, uro_load_quiet, from + patience);
    for (uint32_t i = 0; i < sim->net.couple_count && !done && !sim->world.failed; i++) {
        if (uro_load_quiet(&sim->couples[i].load))
            continue;
        uro_load_blame(&sim->couples[i].load, blame, sizeof blame);
        uro_world_fail(&sim->world, "%c and %c are not done %" PRIu64 " ms after faults stopped:%s",
                       name_of(sim, i, 0), name_of(sim, i, 1), patience / 1000000, blame);
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
    uint64_t roce[URO_SWARM_STATIONS_MAX] = { 0 };
    uint64_t rounds[URO_SWARM_STATIONS_MAX] = { 0 };

    uro_world_run(&sim->world, sim->world.now + SETTLE);
    /* A group may have been reported a moment ago, for the second time. */
    bool arrived = run_until(sim, all_arrived, sim->world.now + SETTLE);
    for (unsigned i = 0; i < sim->net.station_count; i++) {
        roce[i] = sim->stations[i].roce_sent;
        rounds[i] = sim->stations[i].rounds;
    }
    if (!sim->world.failed && !arrived)
        uro_world_fail(&sim->world, "%u frames are still on their way", sim->world.frames_alive);
    uro_world_run(&sim->world, sim->world.now + IDLE);
    for (unsigned i = 0; i < sim->net.station_count; i++) {
        if (sim->stations[i].roce_sent != roce[i])
            uro_world_fail(&sim->world, "%c sends although there is nothing to do",
                           sim->stations[i].config.name);
        if (sim->stations[i].rounds - rounds[i] > IDLE_ROUNDS * (sim->net.station_count - 1))
            uro_world_fail(&sim->world, "%c woke %" PRIu64 " times with nothing to do",
                           sim->stations[i].config.name, sim->stations[i].rounds - rounds[i]);
    }
}

/* All queue pairs are gone: an engine without objects sleeps for ever. */
static void end(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->net.couple_count; i++)
        uro_load_end_all(&sim->couples[i].load);
    if (!run_until(sim, uro_load_over, sim->world.now + URO_MS(1000)))
        uro_world_fail(&sim->world, "queue pairs in ERR did not flush everything");
    uro_world_run(&sim->world, sim->world.now + IDLE);
    for (unsigned i = 0; i < sim->net.station_count; i++)
        if (uro_engine_next(sim->stations[i].engine) != URO_TIME_NEVER)
            uro_world_fail(&sim->world, "%c has no objects but wants to be called",
                           sim->stations[i].config.name);
    if (sim->world.frames_alive != 0)
        uro_world_fail(&sim->world, "%u frames were not returned", sim->world.frames_alive);
    for (uint32_t i = 0; i < sim->net.couple_count; i++)
        uro_load_check(&sim->couples[i].load);
}

/* Whether a station's packets look like those of Linux rxe, which is sent some ACKs twice. */
static bool looks_like_rxe(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->net.couple_count; i++)
        for (unsigned side = 0; side < 2; side++)
            if (sim->couples[i].load.swarm->cables[side].foreign & URO_FOREIGN_MIGREQ)
                return true;
    return false;
}

/* Who asks for a neighbour's MAC asks a group, and over every cable. */
static bool may_count(const struct sim *sim, enum uro_counter counter)
{
    return (counter == URO_COUNT_DROP_ETHER_DEST && sim->net.station_count > 2) ||
           (counter == URO_COUNT_DROP_STALE_RESPONSE && looks_like_rxe(sim));
}

static void check_counters(struct sim *sim)
{
    for (unsigned i = 0; i < sim->net.station_count && sim->net.clean; i++) {
        const struct uro_counters *counters = uro_engine_counters(sim->stations[i].engine);
        for (size_t j = 0; j < CLEAN_COUNTERS; j++)
            if (counters->value[never_when_clean[j]] != 0 && !may_count(sim, never_when_clean[j]))
                uro_world_fail(&sim->world, "%c counts %s %" PRIu64 " on a perfect network",
                               sim->stations[i].config.name, uro_counter_name(never_when_clean[j]),
                               counters->value[never_when_clean[j]]);
    }
}

static void count(const struct sim *sim, struct uro_sim_result *result)
{
    for (unsigned i = 0; i < sim->net.station_count; i++)
        result->frames += sim->stations[i].frames_sent;
    for (uint32_t i = 0; i < sim->net.couple_count; i++) {
        const struct uro_load *load = &sim->couples[i].load;
        result->operations += load->ops_done;
        result->lives += load->lives;
        result->failures += load->failures;
    }
}

static void note_setting(const struct sim *sim, const char *setting)
{
    for (const char *line = setting; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        uro_journal_note(sim->world.journal, sim->world.now, "%.*s", (int)strcspn(line, "\n"),
                         line);
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
    uro_swarm_net_text(&sim->net, result->setting);
    note_setting(sim, result->setting);

    uro_world_run(&sim->world, sim->net.calm_at);
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
    count(sim, result);
    result->stations = sim->net.station_count;
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
