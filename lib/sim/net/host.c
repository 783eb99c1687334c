/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c - see host.h for the contract. */
#include "sim/net/host.h"

#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/oracle/memory.h"
#include "sim/oracle/model.h"
#include "wire/ether.h"
#include "wire/frame.h"

#define OUT        '>' /* mark of a frame that leaves over the cable, in the journal */
#define GROUP_BIT  1u  /* multicast bit in the first byte of a MAC address */
#define TO_ITSELF  '@'
#define CANARY_ROW 8u
#define HOPS       512u /* more than any host needs */
#define FRAME_MAX  (URO_ETHER_LEN_MAX + URO_ICRC_LEN + 9600u)

static void host_accept(struct sim_node *node, struct sim_world_frame *frame)
{
    struct sim_host *host = URO_CONTAINER_OF(node, struct sim_host, node);

    if (host->waiting_count >= host->config.rx_ring) {
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

static uro_time next_due(const struct sim_host *host)
{
    uro_time next = host->looped ? 0 : uroce_engine_next(host->engine);

    return next < host->tx_free ? host->tx_free : next;
}

static uro_time host_next(const struct sim_node *node)
{
    const struct sim_host *host = URO_CONTAINER_OF(node, struct sim_host, node);

    if (host->config.threads)
        return sim_threads_next(&host->threads);
    if (host->waiting != NULL || host->looped)
        return 0;
    return uroce_engine_rung(host->engine) ? host->tx_free : next_due(host);
}

/* Counters of arrived datagrams. Each datagram increases at least one of them. Later drops are
 * counted by further counters. */
static const enum uro_counter names[] = {
    URO_COUNT_RX_ROCE,       URO_COUNT_DROP_ETHER_DEST, URO_COUNT_DROP_IP_DEST,
    URO_COUNT_DROP_UDP_PORT, URO_COUNT_DROP_ICRC,       URO_COUNT_DROP_OPCODE,
    URO_COUNT_DROP_LENGTH,   URO_COUNT_DROP_VERSION,    URO_COUNT_DROP_QPN,
    URO_COUNT_DROP_SERVICE,  URO_COUNT_DROP_STATE,      URO_COUNT_DROP_ADDRESS,
    URO_COUNT_DROP_PKEY,     URO_COUNT_DROP_QKEY,       URO_COUNT_CM_DROP_MALFORMED,
};

/* Counts the UDP datagrams among the frames. */
static uint32_t count_datagrams(const struct uroce_packet *packets, uint32_t count)
{
    struct uro_frame frame;
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        found += uro_frame_network(packets[i].bytes, packets[i].length, &frame) == URO_FRAME_OK &&
                 frame.ether.type != URO_ETHERTYPE_ARP && frame.ip.protocol == URO_IPPROTO_UDP;
    return found;
}

static uint64_t named(const struct sim_host *host)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++)
        sum += sim_host_count(host, names[i]);
    return sum;
}

/* Gives received frames to the engine. Returns their number. */
static uint32_t receive(struct sim_host *host)
{
    struct sim_world_frame *frames[SIM_HOST_BURST_MAX];
    struct uroce_packet packets[SIM_HOST_BURST_MAX];
    uint32_t count = 0;

    while (host->waiting != NULL && count < host->config.rx_burst) {
        struct sim_world_frame *frame = host->waiting;
        host->waiting = frame->next;
        host->waiting_count--;
        frames[count] = frame;
        packets[count] = (struct uroce_packet){ .bytes = frame->bytes, .length = frame->length };
        count++;
    }
    if (count == 0)
        return 0;
    uint64_t due = named(host) + count_datagrams(packets, count);
    sim_must(uroce_engine_input(host->engine, packets, count, host->world->now));
    if (named(host) < due)
        sim_world_fail(host->world, "%c received a frame that no counter counts",
                       host->config.name);
    for (uint32_t i = 0; i < count; i++)
        sim_world_free_frame(host->world, frames[i]);
    return count;
}

/* Returns whether a frame has a long run of equal bytes of memory that must never be sent.
 * SIM_MEMORY_UNZEROED fills new memory of the engine, and the memory around registered ranges.
 * SIM_MEMORY_CANARY fills the memory around a message in its slot. A READ may read that memory, so
 * READ responses may contain that byte. */
static bool leaks(const struct sim_world_frame *frame, bool read_response)
{
    const uint8_t *bytes = frame->bytes;

    /* a step this long cannot jump over a run */
    for (uint32_t i = CANARY_ROW - 1; i < frame->length; i += CANARY_ROW) {
        uint8_t byte = bytes[i];
        uint32_t from = i, to = i + 1;
        if (byte != SIM_MEMORY_UNZEROED && (byte != SIM_MEMORY_CANARY || read_response))
            continue;
        while (from > 0 && bytes[from - 1] == byte)
            from--;
        while (to < frame->length && bytes[to] == byte)
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
    sim_world_digest(world, frame->bytes, frame->length);
    sim_world_note_frame(world, where, frame->bytes, frame->length);
    if (host->pcap != NULL) {
        struct uro_pkt pkt = { .octets = frame->bytes, .length = frame->length };
        if (uro_pcap_write_pkt(host->pcap, &pkt, world->now) != 0)
            sim_world_note(world, "the capture cannot be written");
    }

    if (!sim_codec_check(frame->bytes, frame->length, &codec))
        sim_world_fail(world, "%c sent a malformed frame: %s", host->config.name, codec.problem);
    if (frame->length > URO_ETHER_LEN_MAX + host->config.engine.mtu)
        sim_world_fail(world, "%c sent %u bytes over a link with MTU %u", host->config.name,
                       frame->length, host->config.engine.mtu);
    if (leaks(frame, codec.read_response))
        sim_world_fail(world, "%c sent memory that is not registered", host->config.name);
    host->frames_sent++;
    if (codec.roce && host->tap != NULL)
        host->tap(host->tapper, host, frame);
    host->roce_sent += codec.roce;
    bool copy = way == TO_ITSELF && (frame->bytes[0] & GROUP_BIT) != 0;
    if (codec.roce && !copy && host->sent != NULL)
        host->sent(host->user, host, frame);
}

/* Checks frames that the host sends to itself. */
static void judge_looped(struct sim_host *host)
{
    struct uroce_packet packets[SIM_HOST_BURST_MAX];
    const int count = uroce_engine_looped(host->engine, packets, SIM_HOST_BURST_MAX);

    host->looped = count > 0;
    for (int i = 0; i < count; i++) {
        struct sim_world_frame *frame =
            sim_world_copy_frame(host->world, packets[i].bytes, packets[i].length);
        judge(host, frame, TO_ITSELF);
        sim_world_free_frame(host->world, frame);
    }
}

static void transmit(struct sim_host *host)
{
    static uint8_t memory[SIM_HOST_BURST_MAX][FRAME_MAX];
    struct uroce_buffer buffers[SIM_HOST_BURST_MAX];
    uro_time now = host->world->now;
    uint32_t most = now >= host->tx_free ? host->config.tx_burst : 0;
    struct sim_world_frame *frames[SIM_HOST_BURST_MAX];

    for (uint32_t i = 0; i < most; i++)
        buffers[i] = (struct uroce_buffer){ .bytes = memory[i], .size = FRAME_MAX };
    const int count = uroce_engine_output(host->engine, buffers, most, now);
    URO_ASSERT(count >= 0 && count <= (int)most);
    for (int i = 0; i < count; i++)
        frames[i] = sim_world_copy_frame(host->world, buffers[i].bytes, buffers[i].length);
    for (int i = 0; i < count; i++) {
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
    struct uroce_event event;

    while (uroce_engine_event(host->engine, &event) > 0)
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
    struct sim_host *host = URO_CONTAINER_OF(node, struct sim_host, node);
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
    host->node.accept = host_accept;
    host->world = world;
    host->config = *config;
    uro_rng_init_number(&host->rng, uro_rng_u64(&world->rng));

    memcpy(host->mac.octets, config->engine.mac, sizeof host->mac.octets);
    host->gids[0] = uro_gid_link_local(&host->mac);
    memcpy(host->gids[1].octets, config->engine.addresses[0].gid, sizeof host->gids[1].octets);
    sim_must(
        sim_inside_create(&config->engine, HOPS, config->table_bits, world->now, &host->engine));
    static const struct sim_threads_engine engine = { run_round, next_due };
    if (config->threads)
        sim_threads_init(&host->threads, host, &engine);
    sim_world_add(world, &host->node, host_next, host_run);
}

void sim_host_fini(struct sim_host *host)
{
    while (host->waiting != NULL) {
        struct sim_world_frame *frame = host->waiting;
        host->waiting = frame->next;
        sim_world_free_frame(host->world, frame);
    }
    for (uint32_t i = 0; i < host->domain_count; i++) {
        const struct sim_host_domain *domain = &host->domains[i];
        sim_must(domain->pd != NULL ? uroce_pd_destroy(domain->pd)
                                    : uroce_xrcd_destroy(domain->xrcd));
    }
    free(host->domains);
    sim_must(uroce_engine_destroy(host->engine));
}

/* Returns the domain with this number. Creates the domain on the first call. */
static const struct sim_host_domain *domain_of(struct sim_host *host, uint32_t number, bool xrc)
{
    for (uint32_t i = 0; i < host->domain_count; i++)
        if (host->domains[i].number == number && (host->domains[i].pd == NULL) == xrc)
            return &host->domains[i];
    host->domains = sim_realloc(host->domains, (host->domain_count + 1) * sizeof *host->domains);
    struct sim_host_domain *domain = &host->domains[host->domain_count++];
    *domain = (struct sim_host_domain){ .number = number };
    sim_must(xrc ? uroce_xrcd_create(host->engine, &domain->xrcd)
                 : uroce_pd_create(host->engine, &domain->pd));
    return domain;
}

struct uroce_pd *sim_host_pd(struct sim_host *host, uint32_t number)
{
    return domain_of(host, number, false)->pd;
}

struct uroce_xrcd *sim_host_xrcd(struct sim_host *host, uint32_t number)
{
    return domain_of(host, number, true)->xrcd;
}

bool sim_host_swallows(const struct sim_host *host)
{
    return sim_host_count(host, URO_COUNT_TX_NO_NEIGHBOR) > 0;
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
