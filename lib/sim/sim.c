/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.c - see sim.h for the contract. */
#include "sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/pcap/pcap_write.h"
#include "sim/net/attacker.h"
#include "sim/net/cable.h"
#include "sim/plan/plan.h"
#include "sim/work/cm.h"
#include "sim/work/workload.h"

/* Longer than every delay, so that the last frames have arrived. */
#define SETTLE      URO_MS(200)
#define IDLE        URO_MS(100000) /* neighbours are resolved again every 30 s */
#define IDLE_ROUNDS 64u            /* maximum rounds of an idle host, for each neighbour */

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

/* Two hosts that are linked. */
struct link {
    struct sim_workload workload;
    struct sim_cable cables[2]; /* cables[i]: from host i to the other host */
    struct sim_attacker attacker;
    const struct sim_plan *plan;
};

struct sim {
    struct sim_net_plan net;
    struct uro_pcap_write *pcap;
    struct sim_options options;
    struct sim_host hosts[SIM_NET_HOSTS_MAX];
    struct sim_switch switches[SIM_NET_HOSTS_MAX];
    struct sim_host_workloads host_workloads[SIM_NET_HOSTS_MAX];
    struct link links[SIM_NET_LINKS_MAX];
    struct sim_outages outages;
    struct sim_world world;
};

static struct sim *running; /* for sim_crashed() only */

static void build_host(struct sim *sim, unsigned number)
{
    struct sim_host *host = &sim->hosts[number];

    sim_host_init(host, &sim->world, &sim->net.hosts[number]);
    host->pcap = sim->pcap;
    sim_switch_init(&sim->switches[number], &sim->world);
    host->out = &sim->switches[number].node;
    sim_host_workloads_init(&sim->host_workloads[number], host);
}

static void build_link(struct sim *sim, uint32_t number)
{
    struct link *link = &sim->links[number];
    const struct sim_plan *plan = &sim->net.links[number];
    struct sim_host *ends[2] = { &sim->hosts[plan->hosts[0]], &sim->hosts[plan->hosts[1]] };

    link->plan = plan;
    for (unsigned i = 0; i < 2; i++) {
        sim_cable_init(&link->cables[i], &sim->world, &plan->cables[i], &ends[!i]->node);
        sim_switch_add(&sim->switches[plan->hosts[i]], &ends[!i]->mac, &link->cables[i].node);
    }
    sim_attacker_init(&link->attacker, &sim->world, &plan->attacker, ends[0], ends[1],
                      sim_cm_service(number));
    for (unsigned i = 0; i < 2 && plan->attacker.wait_max > 0; i++) {
        ends[i]->tap = sim_attacker_overhear;
        ends[i]->tapper = &link->attacker;
    }
    sim_workload_init(&link->workload, &sim->world, plan, number,
                      &sim->host_workloads[plan->hosts[0]], &sim->host_workloads[plan->hosts[1]]);
}

static void add_cables(struct sim_outage_link *outage, struct link *link)
{
    for (unsigned i = 0; i < 2; i++)
        outage->cables[outage->cable_count++] = &link->cables[i];
}

/* Chooses the cables that go down together: all cables of a host, or both cables of one link. With
 * more than two hosts, the engines get no report about a single link. Clean links stay up. */
static void build_faults(struct sim *sim)
{
    const struct sim_net_plan *net = &sim->net;
    const struct sim_plan_faults *faults = &net->faults;
    struct sim_outage_link *outage;

    if (faults->jump_wait_max > 0)
        sim_world_let_jump(&sim->world, faults->seed, SIM_PLAN_JUMPS_MAX, faults->jump_wait_max,
                           faults->jump_max);
    sim_outages_init(&sim->outages, &sim->world, faults->seed + 1, faults->down_wait_max,
                     faults->down_max);
    for (unsigned i = 0; i < net->host_count && net->host_count > 2; i++) {
        if (sim_net_plan_is_calm(net, i))
            continue;
        outage = sim_outages_add(&sim->outages);
        outage->hosts[outage->host_count++] = &sim->hosts[i];
        for (uint32_t j = 0; j < net->link_count; j++)
            if (net->links[j].hosts[0] == i || net->links[j].hosts[1] == i)
                add_cables(outage, &sim->links[j]);
    }
    for (uint32_t i = 0; i < net->link_count; i++) {
        if (net->links[i].clean)
            continue;
        outage = sim_outages_add(&sim->outages);
        add_cables(outage, &sim->links[i]);
        for (unsigned j = 0; j < 2 && net->host_count == 2; j++)
            outage->hosts[outage->host_count++] = &sim->hosts[j];
    }
}

static void build(struct sim *sim)
{
    struct sim_world *world = &sim->world;

    sim_net_plan_draw(&sim->net, sim->options.seed, sim->options.without, sim->options.less);
    sim_world_init(world, sim->options.seed, SIM_PLAN_START);
    world->follow = sim->options.trace;
    if (sim->options.pcap != NULL) {
        int result = uro_pcap_write_open(sim->options.pcap, "sim", 0, &sim->pcap);
        if (result != 0)
            sim_world_fail(world, "%s: %s", sim->options.pcap, strerror(-result));
    }
    for (unsigned i = 0; i < sim->net.host_count; i++)
        build_host(sim, i);
    for (uint32_t i = 0; i < sim->net.link_count; i++)
        build_link(sim, i);
    build_faults(sim);
}

static void tear_down(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->net.link_count; i++)
        for (unsigned j = 0; j < 2; j++)
            sim_cable_fini(&sim->links[i].cables[j]);
    for (uint32_t i = 0; i < sim->net.link_count; i++)
        sim_workload_fini(&sim->links[i].workload);
    for (unsigned i = 0; i < sim->net.host_count; i++)
        sim_host_fini(&sim->hosts[i]);
    uro_pcap_write_close(sim->pcap);
    sim_world_fini(&sim->world);
}

static void calm(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->net.link_count; i++)
        for (unsigned j = 0; j < 2; j++)
            sim_cable_calm(&sim->links[i].cables[j]);
    for (unsigned i = 0; i < sim->net.host_count; i++)
        sim_host_calm(&sim->hosts[i]);
    sim_outages_calm(&sim->outages);
    sim_world_calm(&sim->world);
    for (uint32_t i = 0; i < sim->net.link_count; i++) {
        sim_attacker_calm(&sim->links[i].attacker);
        sim_workload_calm(&sim->links[i].workload);
    }
    sim_world_note(&sim->world, "faults stop");
}

static bool all(const struct sim *sim, bool (*holds)(const struct sim_workload *))
{
    for (uint32_t i = 0; i < sim->net.link_count; i++)
        if (!holds(&sim->links[i].workload))
            return false;
    return true;
}

/* Runs the world step by step until @done holds or @until is reached. */
static bool run_until(struct sim *sim, bool (*done)(const struct sim_workload *), uro_time until)
{
    struct sim_world *world = &sim->world;

    while (!world->failed && !all(sim, done)) {
        uro_time next = sim_world_next(world);
        if (next > until)
            return false;
        sim_world_run(world, next > world->now ? next : world->now);
    }
    return !world->failed;
}

static char name_of(const struct sim *sim, uint32_t link, unsigned side)
{
    return sim->hosts[sim->net.links[link].hosts[side]].config.name;
}

/* Runs until all work is done. Every request must complete within a time limit after faults have
 * stopped. */
static uro_time live(struct sim *sim)
{
    uro_time from = sim->world.now;
    char explanation[400];

    uro_time patience = sim_net_plan_patience(&sim->net);
    bool done = run_until(sim, sim_workload_idle, from + patience);
    for (uint32_t i = 0; i < sim->net.link_count && !done && !sim->world.failed; i++) {
        if (sim_workload_idle(&sim->links[i].workload))
            continue;
        sim_workload_explain(&sim->links[i].workload, explanation, sizeof explanation);
        sim_world_fail(&sim->world, "%c and %c are not done %" PRIu64 " ms after faults stopped:%s",
                       name_of(sim, i, 0), name_of(sim, i, 1), patience / 1000000, explanation);
    }
    return sim->world.now - from;
}

static bool all_arrived(const struct sim_workload *workload)
{
    return workload->world->frames_alive == 0;
}

/* Checks that idle engines send nothing and do not wake, except to resolve neighbours again. */
static void idle(struct sim *sim)
{
    uint64_t roce[SIM_NET_HOSTS_MAX] = { 0 };
    uint64_t rounds[SIM_NET_HOSTS_MAX] = { 0 };

    sim_world_run(&sim->world, sim->world.now + SETTLE);
    /* A second group report may have been sent a moment ago. */
    bool arrived = run_until(sim, all_arrived, sim->world.now + SETTLE);
    for (unsigned i = 0; i < sim->net.host_count; i++) {
        roce[i] = sim->hosts[i].roce_sent;
        rounds[i] = sim->hosts[i].wakeups;
    }
    if (!sim->world.failed && !arrived)
        sim_world_fail(&sim->world, "%u frames are still on their way", sim->world.frames_alive);
    sim_world_run(&sim->world, sim->world.now + IDLE);
    for (unsigned i = 0; i < sim->net.host_count; i++) {
        if (sim->hosts[i].roce_sent != roce[i])
            sim_world_fail(&sim->world, "%c sends although there is nothing to do",
                           sim->hosts[i].config.name);
        if (sim->hosts[i].wakeups - rounds[i] > IDLE_ROUNDS * (sim->net.host_count - 1))
            sim_world_fail(&sim->world, "%c woke %" PRIu64 " times with nothing to do",
                           sim->hosts[i].config.name, sim->hosts[i].wakeups - rounds[i]);
    }
}

/* Ends all queue pairs, and checks that an engine without objects has no timer. */
static void end(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->net.link_count; i++)
        sim_workload_end_all(&sim->links[i].workload);
    if (!run_until(sim, sim_workload_over, sim->world.now + URO_MS(1000)))
        sim_world_fail(&sim->world, "queue pairs in ERR did not flush everything");
    sim_world_run(&sim->world, sim->world.now + IDLE);
    for (unsigned i = 0; i < sim->net.host_count; i++)
        if (uroce_engine_next(sim->hosts[i].engine) != URO_TIME_NEVER)
            sim_world_fail(&sim->world, "%c has no objects, but still has a next time to run",
                           sim->hosts[i].config.name);
    if (sim->world.frames_alive != 0)
        sim_world_fail(&sim->world, "%u frames were not returned", sim->world.frames_alive);
    for (uint32_t i = 0; i < sim->net.link_count; i++)
        sim_workload_check(&sim->links[i].workload);
}

/* Returns whether the packets of a host look like those of Linux rxe. The peer's engine then sends
 * some ACKs twice. */
static bool looks_like_rxe(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->net.link_count; i++)
        for (unsigned side = 0; side < 2; side++)
            if (sim->links[i].workload.plan->cables[side].quirks & SIM_QUIRK_MIGREQ)
                return true;
    return false;
}

static void check_counters(struct sim *sim)
{
    for (unsigned i = 0; i < sim->net.host_count && sim->net.clean; i++) {
        const struct sim_host *host = &sim->hosts[i];
        for (size_t j = 0; j < URO_ARRAY_LEN(never_when_clean); j++) {
            enum uro_counter counter = never_when_clean[j];
            /* Neighbour discovery is sent to a group, so every host gets it. */
            bool may = (counter == URO_COUNT_DROP_ETHER_DEST && sim->net.host_count > 2) ||
                       (counter == URO_COUNT_DROP_STALE_RESPONSE && looks_like_rxe(sim));
            if (sim_host_count(host, counter) != 0 && !may)
                sim_world_fail(&sim->world, "%c counts %s %" PRIu64 " on a perfect network",
                               host->config.name, uro_counter_name(counter),
                               sim_host_count(host, counter));
        }
    }
}

static void count(const struct sim *sim, struct sim_result *result)
{
    for (unsigned i = 0; i < sim->net.host_count; i++)
        result->frames += sim->hosts[i].frames_sent;
    for (uint32_t i = 0; i < sim->net.link_count; i++) {
        const struct sim_workload *workload = &sim->links[i].workload;
        result->operations += workload->ops_done;
        result->lives += workload->lives_begun;
        result->failures += workload->failures;
    }
}

static void note_setting(struct sim *sim, const char *setting)
{
    for (const char *line = setting; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        sim_world_note(&sim->world, "%.*s", (int)strcspn(line, "\n"), line);
    }
}

bool sim_run(const struct sim_options *options, struct sim_result *result)
{
    struct sim *sim = sim_alloc(sizeof *sim);

    memset(result, 0, sizeof *result);
    sim->options = *options;
    build(sim);
    running = sim;
    sim_net_plan_text(&sim->net, result->setting, sizeof result->setting);
    note_setting(sim, result->setting);

    sim_world_run(&sim->world, sim->net.calm_at);
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
    result->hosts = sim->net.host_count;
    result->duration = sim->world.now - SIM_PLAN_START;
    if (!result->passed && options->print != NULL)
        sim_world_print(&sim->world, options->print);
    tear_down(sim);
    free(sim);
    return result->passed;
}

void sim_crashed(void)
{
    struct sim *sim = running;

    running = NULL;
    if (sim == NULL)
        return;
    if (sim->options.print != NULL)
        sim_world_print(&sim->world, sim->options.print);
    uro_pcap_write_close(sim->pcap);
}
