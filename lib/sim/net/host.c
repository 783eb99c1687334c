/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c - see host.h for the contract. */
#include "sim/net/host.h"

#include <stdlib.h>
#include <string.h>

#include "sim/oracle/memory.h"
#include "sim/oracle/model.h"
#include "wire/ether.h"
#include "wire/frame.h"

#define OUT        '>' /* mark in the journal of a frame that went over the cable */
#define GROUP_BIT  1u  /* multicast bit in the first byte of a MAC address */
#define TO_ITSELF  '@'
#define CANARY_ROW 8u

static struct sim_host *host_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_host, node);
}

static void host_accept(struct sim_node *node, struct sim_world_frame *frame)
{
    struct sim_host *host = host_of(node);

    if (host->waiting_count >= host->config.rx_ring) {
        host->ring_drops++;
        sim_world_free_frame(host->world, frame);
        return;
    }
    frame->next = NULL;
    frame->due = host->world->now;
    if (host->waiting == NULL)
        host->waiting = frame;
    else
        host->last->next = frame;
    host->last = frame;
    host->waiting_count++;
    if (host->config.threads)
        sim_threads_on_frame(&host->threads);
}

static bool has_looped(const struct sim_host *host)
{
    uint32_t kept;

    (void)uro_engine_looped(host->engine, &kept);
    return kept > 0;
}

static uro_time next_due(const struct sim_host *host)
{
    uro_time next = has_looped(host) ? 0 : uro_engine_next(host->engine);

    return next < host->tx_free ? host->tx_free : next;
}

static uro_time host_next(const struct sim_node *node)
{
    const struct sim_host *host = host_of(node);

    if (host->config.threads)
        return sim_threads_next(&host->threads);
    if (host->waiting != NULL || has_looped(host))
        return 0;
    uro_time next = uro_engine_rung(host->engine) ? 0 : uro_engine_next(host->engine);
    return next < host->tx_free ? host->tx_free : next;
}

/* Counters of arrived datagrams. Each datagram increases exactly one of them. Later drops are
 * counted by further counters. */
static const enum uro_counter names[] = {
    URO_COUNT_RX_ROCE,       URO_COUNT_DROP_ETHER_DEST, URO_COUNT_DROP_IP_DEST,
    URO_COUNT_DROP_UDP_PORT, URO_COUNT_DROP_ICRC,       URO_COUNT_DROP_OPCODE,
    URO_COUNT_DROP_LENGTH,   URO_COUNT_DROP_VERSION,    URO_COUNT_DROP_QPN,
    URO_COUNT_DROP_SERVICE,  URO_COUNT_DROP_STATE,      URO_COUNT_DROP_ADDRESS,
    URO_COUNT_DROP_PKEY,     URO_COUNT_DROP_QKEY,       URO_COUNT_CM_DROP_MALFORMED,
};

/* Counts the UDP datagrams among the frames. */
static uint32_t count_datagrams(const struct uro_pkt *pkts, uint32_t count)
{
    struct uro_frame frame;
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        found += uro_frame_network(pkts[i].octets, pkts[i].length, &frame) == URO_FRAME_OK &&
                 frame.ether.type != URO_ETHERTYPE_ARP && frame.ip.protocol == URO_IPPROTO_UDP;
    return found;
}

static uint64_t named(const struct sim_host *host)
{
    const struct uro_counters *counters = uro_engine_counters(host->engine);
    uint64_t sum = 0;

    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++)
        sum += counters->value[names[i]];
    return sum;
}

/* Returns the number of frames. */
static uint32_t receive(struct sim_host *host)
{
    struct sim_world_frame *frames[SIM_HOST_BURST_MAX];
    struct uro_pkt pkts[SIM_HOST_BURST_MAX];
    uint32_t count = 0;

    while (host->waiting != NULL && count < host->config.rx_burst) {
        struct sim_world_frame *frame = host->waiting;
        host->waiting = frame->next;
        host->waiting_count--;
        frames[count] = frame;
        pkts[count] = (struct uro_pkt){ .octets = frame->octets, .length = frame->length };
        count++;
    }
    uint64_t due = named(host) + count_datagrams(pkts, count);
    if (count > 0)
        uro_engine_input(host->engine, pkts, count, host->world->now);
    if (named(host) < due)
        sim_world_fail(host->world, "%c received a frame, and nothing says what became of it",
                       host->config.name);
    for (uint32_t i = 0; i < count; i++)
        sim_world_free_frame(host->world, frames[i]);
    return count;
}

/* Returns whether a frame has a long row of SIM_MEMORY_UNZEROED (initial memory of the engine) or
 * SIM_MEMORY_CANARY (memory around registered ranges). The gaps of a region are SIM_MEMORY_CANARY
 * too, and a READ may send those bytes. */
static bool leaks(const struct sim_world_frame *frame, bool read_response)
{
    const uint8_t *octets = frame->octets;

    /* no row misses all of these places */
    for (uint32_t at = CANARY_ROW - 1; at < frame->length; at += CANARY_ROW) {
        uint8_t octet = octets[at];
        uint32_t from = at, to = at + 1;
        if (octet != SIM_MEMORY_UNZEROED && (octet != SIM_MEMORY_CANARY || read_response))
            continue;
        while (from > 0 && octets[from - 1] == octet)
            from--;
        while (to < frame->length && octets[to] == octet)
            to++;
        if (to - from >= CANARY_ROW)
            return true;
    }
    return false;
}

/* Checks a frame that the engine sends. */
static void judge(struct sim_host *host, const struct sim_world_frame *frame, char way)
{
    struct sim_world *world = host->world;
    struct sim_codec codec;
    char where[3] = { host->config.name, way, '\0' };

    sim_world_digest(world, &world->now, sizeof world->now);
    sim_world_digest(world, where, 1);
    sim_world_digest(world, frame->octets, frame->length);
    sim_journal_frame(world->journal, world->now, where, frame->octets, frame->length);
    if (host->pcap != NULL) {
        struct uro_pkt pkt = { .octets = frame->octets, .length = frame->length };
        if (uro_pcap_write_pkt(host->pcap, &pkt, world->now) != 0)
            sim_journal_note(world->journal, world->now, "the capture cannot be written");
    }

    if (!sim_codec_check(frame->octets, frame->length, &codec))
        sim_world_fail(world, "%c sent a frame that is not right: %s", host->config.name,
                       codec.problem);
    if (frame->length > URO_ETHER_LEN_MAX + host->config.engine.mtu)
        sim_world_fail(world, "%c sent %u octets over a link with MTU %u", host->config.name,
                       frame->length, host->config.engine.mtu);
    if (leaks(frame, codec.read_response))
        sim_world_fail(world, "%c sent memory that is not registered", host->config.name);
    host->frames_sent++;
    if (codec.roce && host->tap != NULL)
        host->tap(host->tapper, host, frame);
    host->roce_sent += codec.roce;
    bool copy = way == TO_ITSELF && (frame->octets[0] & GROUP_BIT) != 0;
    if (codec.roce && !copy && host->sent != NULL)
        host->sent(host->user, host, frame);
}

/* Checks frames that the host sends to itself. */
static void judge_looped(struct sim_host *host)
{
    uint32_t count;
    const struct uro_pkt *pkts = uro_engine_looped(host->engine, &count);

    for (uint32_t i = 0; i < count; i++) {
        struct sim_world_frame *frame = sim_world_make_frame(host->world, pkts[i].length);
        memcpy(frame->octets, pkts[i].octets, pkts[i].length);
        judge(host, frame, TO_ITSELF);
        sim_world_free_frame(host->world, frame);
    }
}

static void transmit(struct sim_host *host)
{
    struct uro_tx tx[SIM_HOST_BURST_MAX];
    uro_time now = host->world->now;
    uint32_t room = now >= host->tx_free ? host->config.tx_burst : 0;
    struct sim_world_frame *frames[SIM_HOST_BURST_MAX];

    uint32_t count = uro_engine_output(host->engine, tx, room, now);
    URO_ASSERT(count <= room);
    for (uint32_t i = 0; i < count; i++) {
        frames[i] = sim_world_make_frame(host->world, uro_tx_length(&tx[i]));
        uro_tx_write(&tx[i], frames[i]->octets);
    }
    for (uint32_t i = 0; i < count; i++) {
        judge(host, frames[i], OUT);
        host->out->accept(host->out, frames[i]);
    }
    judge_looped(host);
    if (count > 0 && host->config.tx_gap_max > 0)
        host->tx_free = now + uro_rng_below(&host->rng, host->config.tx_gap_max);
    if (count > 0 && sim_world_chance(&host->rng, host->config.tx_stall_probability))
        host->tx_free = now + uro_rng_u64(&host->rng) % host->config.tx_stall_max;
}

void sim_host_events(struct sim_host *host)
{
    struct uro_event event;

    while (uro_engine_event(host->engine, &event))
        if (host->event != NULL)
            host->event(host->user, &event);
}

static uint32_t run_round(struct sim_host *host, bool receives, uint32_t *moved)
{
    uint64_t sent = host->frames_sent;

    uint32_t received = receives ? receive(host) : 0;
    transmit(host);
    sim_host_events(host);
    if (host->after_round != NULL)
        host->after_round(host->user, host);
    *moved = received + (uint32_t)(host->frames_sent - sent);
    return received;
}

static void host_run(struct sim_node *node)
{
    struct sim_host *host = host_of(node);
    uint32_t moved;

    if (host->config.threads) {
        sim_threads_run(&host->threads);
    } else {
        host->wakeups++;
        (void)run_round(host, true, &moved);
    }
}

void sim_host_init(struct sim_host *host, struct sim_world *world,
                   const struct sim_host_config *config)
{
    memset(host, 0, sizeof *host);
    host->node = (struct sim_node){ host_accept, host_next, host_run };
    host->world = world;
    host->config = *config;
    uro_rng_init_number(&host->rng, uro_rng_u64(&world->rng));

    host->memory = sim_memory_unzeroed(uro_engine_size(&config->engine));
    static const struct sim_threads_engine engine = { run_round, next_due };
    int result = uro_engine_init(host->memory, &config->engine, world->now, &host->engine);
    URO_ASSERT(result == 0);
    if (config->threads)
        sim_threads_init(&host->threads, host, &engine);
    sim_world_add(world, &host->node);
}

void sim_host_fini(struct sim_host *host)
{
    while (host->waiting != NULL) {
        struct sim_world_frame *frame = host->waiting;
        host->waiting = frame->next;
        sim_world_free_frame(host->world, frame);
    }
    free(host->memory);
}

bool sim_host_swallows(const struct sim_host *host)
{
    return uro_engine_counters(host->engine)->value[URO_COUNT_TX_NO_NEIGHBOR] > 0;
}

bool sim_host_has_older(const struct sim_host *host, uro_time arrived)
{
    return host->waiting != NULL && host->waiting->due < arrived;
}

void sim_host_calm(struct sim_host *host)
{
    host->config.rx_ring = UINT32_MAX;
    host->config.tx_stall_probability = 0;
}
