/* SPDX-License-Identifier: BSD-3-Clause */
/* station.c - see station.h for the contract. */
#include "io/sim/station.h"

#include <stdlib.h>
#include <string.h>

#include "io/sim/arena.h"
#include "io/sim/recode.h"
#include "wire/ether.h"
#include "wire/frame.h"

#define ALIGNMENT  64u
#define OUT        '>' /* in the journal: over the cable */
#define GROUP_BIT  1u  /* of the first octet of a MAC address: it went over the cable, too */
#define TO_ITSELF  '@'
#define CANARY     0xa5u
#define CANARY_ROW 8u

static struct uro_station *station_of(const struct uro_node *node)
{
    return URO_CONTAINER_OF(node, struct uro_station, node);
}

static void station_accept(struct uro_node *node, struct uro_world_frame *frame)
{
    struct uro_station *station = station_of(node);

    if (station->waiting_count >= station->config.rx_ring) {
        station->ring_drops++;
        uro_world_free_frame(station->world, frame);
        return;
    }
    frame->next = NULL;
    if (station->waiting == NULL)
        station->waiting = frame;
    else
        station->last->next = frame;
    station->last = frame;
    station->waiting_count++;
}

static uro_time station_next(const struct uro_node *node)
{
    const struct uro_station *station = station_of(node);

    uint32_t kept;

    (void)uro_engine_looped(station->engine, &kept);
    if (station->waiting != NULL || kept > 0)
        return 0;
    uro_time next = uro_engine_rung(station->engine) ? 0 : uro_engine_next(station->engine);
    return next < station->tx_free ? station->tx_free : next;
}

/* One of these says what became of a datagram that arrived; what is refused later is counted again. */
static const enum uro_counter names[] = {
    URO_COUNT_RX_ROCE,       URO_COUNT_DROP_ETHER_DEST, URO_COUNT_DROP_IP_DEST,
    URO_COUNT_DROP_UDP_PORT, URO_COUNT_DROP_ICRC,       URO_COUNT_DROP_OPCODE,
    URO_COUNT_DROP_LENGTH,   URO_COUNT_DROP_VERSION,    URO_COUNT_DROP_QPN,
    URO_COUNT_DROP_SERVICE,  URO_COUNT_DROP_STATE,      URO_COUNT_DROP_ADDRESS,
    URO_COUNT_DROP_PKEY,     URO_COUNT_DROP_QKEY,       URO_COUNT_CM_DROP_MALFORMED,
};

/* What is no UDP is not looked at so closely. */
static uint32_t count_datagrams(const struct uro_pkt *pkts, uint32_t count)
{
    struct uro_frame frame;
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        found += uro_frame_network(pkts[i].octets, pkts[i].length, &frame) == URO_FRAME_OK &&
                 frame.ether.type != URO_ETHERTYPE_ARP && frame.ip.protocol == URO_IPPROTO_UDP;
    return found;
}

static uint64_t named(const struct uro_station *station)
{
    const struct uro_counters *counters = uro_engine_counters(station->engine);
    uint64_t sum = 0;

    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++)
        sum += counters->value[names[i]];
    return sum;
}

static void receive(struct uro_station *station)
{
    struct uro_world_frame *frames[URO_STATION_BURST_MAX];
    struct uro_pkt pkts[URO_STATION_BURST_MAX];
    uint32_t count = 0;

    while (station->waiting != NULL && count < station->config.rx_burst) {
        struct uro_world_frame *frame = station->waiting;
        station->waiting = frame->next;
        station->waiting_count--;
        frames[count] = frame;
        pkts[count] = (struct uro_pkt){ .octets = frame->octets, .length = frame->length };
        count++;
    }
    uint64_t due = named(station) + count_datagrams(pkts, count);
    if (count > 0)
        uro_engine_input(station->engine, pkts, count, station->world->now);
    if (named(station) < due)
        uro_world_fail(station->world, "%c received a frame, and nothing says what became of it",
                       station->config.name);
    for (uint32_t i = 0; i < count; i++)
        uro_world_free_frame(station->world, frames[i]);
}

/* The engine's memory begins as CANARY and memory around registered ranges is URO_ARENA_CANARY:
 * neither may be sent, in so many octets that they are no accident. The gaps of a region are
 * URO_ARENA_CANARY too, and a READ may show them. */
static bool leaks(const struct uro_world_frame *frame, bool read_response)
{
    const uint8_t *octets = frame->octets;

    /* no row misses all of these places */
    for (uint32_t at = CANARY_ROW - 1; at < frame->length; at += CANARY_ROW) {
        uint8_t octet = octets[at];
        uint32_t from = at, to = at + 1;
        if (octet != CANARY && (octet != URO_ARENA_CANARY || read_response))
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

/* What must hold for every frame an engine sends. */
static void judge(struct uro_station *station, const struct uro_world_frame *frame, char way)
{
    struct uro_world *world = station->world;
    struct uro_recode recode;
    char where[3] = { station->config.name, way, '\0' };

    uro_world_digest(world, &world->now, sizeof world->now);
    uro_world_digest(world, where, 1);
    uro_world_digest(world, frame->octets, frame->length);
    uro_journal_frame(world->journal, world->now, where, frame->octets, frame->length);
    if (station->pcap != NULL) {
        struct uro_pkt pkt = { .octets = frame->octets, .length = frame->length };
        if (uro_pcap_write_pkt(station->pcap, &pkt, world->now) != 0)
            uro_journal_note(world->journal, world->now, "the capture cannot be written");
    }

    if (!uro_recode_check(frame->octets, frame->length, &recode))
        uro_world_fail(world, "%c sent a frame that is not right: %s", station->config.name,
                       recode.problem);
    if (frame->length > URO_ETHER_LEN_MAX + station->config.engine.mtu)
        uro_world_fail(world, "%c sent %u octets over a link with MTU %u", station->config.name,
                       frame->length, station->config.engine.mtu);
    if (leaks(frame, recode.read_response))
        uro_world_fail(world, "%c sent memory that is not registered", station->config.name);
    station->frames_sent++;
    if (recode.roce && station->tap != NULL)
        station->tap(station->tapper, station, frame);
    station->roce_sent += recode.roce;
    bool copy = way == TO_ITSELF && (frame->octets[0] & GROUP_BIT) != 0;
    if (recode.roce && !copy && station->sent != NULL)
        station->sent(station->user, station, frame);
}

/* What it sends to itself is seen here and nowhere else. */
static void judge_looped(struct uro_station *station)
{
    uint32_t count;
    const struct uro_pkt *pkts = uro_engine_looped(station->engine, &count);

    for (uint32_t i = 0; i < count; i++) {
        struct uro_world_frame *frame = uro_world_make_frame(station->world, pkts[i].length);
        memcpy(frame->octets, pkts[i].octets, pkts[i].length);
        judge(station, frame, TO_ITSELF);
        uro_world_free_frame(station->world, frame);
    }
}

static void transmit(struct uro_station *station)
{
    struct uro_tx tx[URO_STATION_BURST_MAX];
    uro_time now = station->world->now;
    uint32_t room = now >= station->tx_free ? station->config.tx_burst : 0;
    struct uro_world_frame *frames[URO_STATION_BURST_MAX];

    uint32_t count = uro_engine_output(station->engine, tx, room, now);
    URO_ASSERT(count <= room);
    for (uint32_t i = 0; i < count; i++) {
        frames[i] = uro_world_make_frame(station->world, uro_tx_length(&tx[i]));
        uro_tx_write(&tx[i], frames[i]->octets);
    }
    for (uint32_t i = 0; i < count; i++) {
        judge(station, frames[i], OUT);
        station->out->accept(station->out, frames[i]);
    }
    judge_looped(station);
    if (count > 0 && station->config.tx_gap_max > 0)
        station->tx_free = now + uro_rng_below(&station->rng, station->config.tx_gap_max);
    if (count > 0 && uro_world_chance(&station->rng, station->config.tx_stall_share))
        station->tx_free = now + uro_rng_u64(&station->rng) % station->config.tx_stall_max;
}

void uro_station_events(struct uro_station *station)
{
    struct uro_event event;

    while (uro_engine_event(station->engine, &event))
        if (station->event != NULL)
            station->event(station->user, &event);
}

static void station_run(struct uro_node *node)
{
    struct uro_station *station = station_of(node);

    station->rounds++;
    receive(station);
    transmit(station);
    uro_station_events(station);
    if (station->after_round != NULL)
        station->after_round(station->user, station);
}

void uro_station_init(struct uro_station *station, struct uro_world *world,
                      const struct uro_station_config *config)
{
    memset(station, 0, sizeof *station);
    station->node = (struct uro_node){ station_accept, station_next, station_run };
    station->world = world;
    station->config = *config;
    uro_rng_init_number(&station->rng, uro_rng_u64(&world->rng));

    size_t size = uro_engine_size(&config->engine);
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    station->memory = aligned_alloc(ALIGNMENT, size);
    URO_ASSERT(station->memory != NULL);
    memset(station->memory, CANARY, size); /* an engine may not count on zeroed memory */
    int result = uro_engine_init(station->memory, &config->engine, world->now, &station->engine);
    URO_ASSERT(result == 0);
    uro_world_add(world, &station->node);
}

void uro_station_fini(struct uro_station *station)
{
    while (station->waiting != NULL) {
        struct uro_world_frame *frame = station->waiting;
        station->waiting = frame->next;
        uro_world_free_frame(station->world, frame);
    }
    free(station->memory);
}

void uro_station_calm(struct uro_station *station)
{
    station->config.rx_ring = UINT32_MAX;
    station->config.tx_stall_share = 0;
}
