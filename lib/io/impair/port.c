/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - see port.h.
 *
 * A frame without a fault passes at once, without a copy, unless frames of its direction wait.
 */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include "io/impair/port.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "impair/queue.h"
#include "wire/bytes.h"
#include "wire/icrc.h"

#define ETHER_OVERHEAD 18u /* Ethernet header and one VLAN tag */
#define ICRC_LEN       4u
#define LINE_SIZE      64u /* bytes of a cache line */
#define FRAME_MAX      (URO_PORT_MTU_MAX + ETHER_OVERHEAD + URO_TX_HEAD_MAX)

/* A delayed frame to send. The inner port computes its ICRC. */
struct held {
    enum uro_tx_way way;
    uint16_t head_length;
    uint8_t pad_count, network_at;
    bool icrc, icrc_v6, icrc_doubled;
    uint32_t icrc_wrong;
    uint32_t payload_length;
    _Alignas(16) uint8_t head[URO_TX_HEAD_MAX];
    uint8_t payload[];
};

/* A delayed frame that was received. */
struct arrived {
    bool summed, weak;
    bool changed; /* the frame has effects, which `line` describes */
    struct uro_impair_trace_line line;
    _Alignas(16) uint8_t octets[];
};

struct port {
    struct uro_port port;
    struct uro_port_ops ops;
    struct uro_port *inner;
    struct uro_impair_port_config config;
    struct uro_impair_plan plan;
    /* `changed_plan` is not on the stack, because the stacks of threads may be small. */
    struct uro_impair_plan changed_plan;
    uro_time began; /* time at which the plan began */
    struct uro_impair_links links;
    struct uro_impair_flows *flows;
    uint64_t counts[URO_IMPAIR_COUNTS];

    struct uro_impair_queue tx, rx;
    struct uro_impair_entry *rings; /* entries of both queues */
    void *memory;                   /* slots of both queues */
    size_t memory_size;

    struct uro_pkt received[URO_PORT_BURST]; /* frames that the inner port lends */
    uint32_t received_count;
    uint32_t lent;                                         /* frames of the queue that are lent */
    struct uro_tx sending[URO_PORT_BURST];                 /* frames of the queue that are sent */
    struct uro_impair_trace_line tx_lines[URO_PORT_BURST]; /* fates of the last frames to send */
    bool tx_changed[URO_PORT_BURST];                       /* which entries of tx_lines are valid */
    uint8_t scratch[FRAME_MAX];
};

static struct port *port_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct port, port);
}

/* ---- fates ---------------------------------------------------------------- */

static void count_fate(struct port *port, const struct uro_impair_fate *fate)
{
    port->counts[URO_IMPAIR_COUNT_LOST] += fate->lost;
    port->counts[URO_IMPAIR_COUNT_DUPLICATED] += fate->duplicated;
    port->counts[URO_IMPAIR_COUNT_REORDERED] += fate->overtaken;
    port->counts[URO_IMPAIR_COUNT_CORRUPTED] += fate->corrupted;
    port->counts[URO_IMPAIR_COUNT_MARKED] += fate->marked;
    port->counts[URO_IMPAIR_COUNT_DELAYED] += fate->delay != 0;
}

static void write_trace(const struct port *port, const struct uro_impair_trace_line *line)
{
    if (port->config.trace != NULL && line->kind != URO_IMPAIR_OTHER)
        uro_impair_trace_write(port->config.trace, line);
}

/* Finds the fate of a frame of @length bytes. Returns false if the frame passes as it is. */
static bool find_fate(struct port *port, struct uro_impair_packet *packet, uint32_t length,
                      uro_time now, struct uro_impair_trace_line *line)
{
    struct uro_impair_flow *flow = uro_impair_flow_find(port->flows, &port->plan, packet);
    struct uro_impair_fate *fate = &line->fate;

    if (port->config.replays) {
        uro_impair_trace_replay(port->config.replay.lines, port->config.replay.count, flow, fate);
    } else {
        uro_impair_fate_draw(&port->plan, flow, fate);
        uro_impair_fate_pass(&port->plan, &port->links, flow, length, now - port->began, fate);
    }
    line->direction = flow->direction;
    line->kind = flow->kind;
    line->number = flow->number;
    line->packet = flow->count;
    port->counts[URO_IMPAIR_COUNT_PACKETS]++;
    if (uro_impair_fate_is_plain(fate))
        return false;
    count_fate(port, fate);
    write_trace(port, line);
    return true;
}

static void check_plan(struct port *port, uro_time now)
{
    if (port->config.changed == NULL ||
        !port->config.changed(port->config.context, &port->changed_plan))
        return;
    port->plan = port->changed_plan;
    port->config.replays = false;
    port->began = now;
    port->links = (struct uro_impair_links){ 0 };
    uro_impair_flow_replan(port->flows, &port->plan);
}

/* Repeats the last frame of the queue, or lets the next frame overtake it, as @fate requires. */
static void finish_put(struct uro_impair_queue *queue, const struct uro_impair_fate *fate)
{
    if (fate->duplicated)
        uro_impair_queue_repeat(queue);
    if (fate->overtaken)
        uro_impair_queue_hold(queue);
}

/* Returns the number of frames that the queue takes, each of which may be duplicated. */
static uint32_t space(const struct uro_impair_queue *queue)
{
    const uint32_t frames = uro_impair_queue_free(queue) / 2;

    return frames < URO_PORT_BURST ? frames : URO_PORT_BURST;
}

/* ---- sending -------------------------------------------------------------- */

/* Describes a delayed frame. */
static void describe(struct uro_tx *tx, const struct held *held)
{
    tx->way = held->way;
    tx->head_length = held->head_length;
    tx->pad_count = held->pad_count;
    tx->icrc = held->icrc;
    tx->icrc_v6 = held->icrc_v6;
    tx->icrc_doubled = held->icrc_doubled;
    tx->network_at = held->network_at;
    tx->icrc_wrong = held->icrc_wrong;
    tx->payload_length = held->payload_length;
    tx->span_count = held->payload_length > 0;
    tx->spans[0] = (struct uro_span){ held->payload, held->payload_length };
    memcpy(tx->head, held->head, held->head_length);
}

/* Sends the delayed frames that are due, as far as the link has space. */
static void send_due(struct port *port, uro_time now)
{
    uint32_t length;

    while (uro_impair_queue_due(&port->tx) <= now) {
        const uint32_t tx_free = uro_port_tx_free_count(port->inner);
        const uint32_t most = tx_free < URO_PORT_BURST ? tx_free : URO_PORT_BURST;
        const uint32_t count = uro_impair_queue_ready(&port->tx, now, most);
        if (count == 0)
            return;
        for (uint32_t i = 0; i < count; i++)
            describe(&port->sending[i],
                     (const void *)uro_impair_queue_frame(&port->tx, i, &length));
        uro_port_transmit(port->inner, port->sending, count);
        uro_impair_queue_drop(&port->tx, count);
    }
}

/* Changes bits of the frame. The inner port computes the right ICRC of the changed frame, and flips
 * the bits in which this ICRC differs from the ICRC in the changed frame. */
static void corrupt(struct port *port, const struct uro_impair_packet *packet,
                    const struct uro_impair_fate *fate, struct held *held)
{
    const uint32_t length = held->head_length + held->payload_length + held->pad_count + ICRC_LEN;
    const uint32_t end = length - ICRC_LEN;
    uint8_t *frame = port->scratch;

    describe(&port->sending[0], held);
    uro_tx_write(&port->sending[0], frame);
    uro_impair_fate_corrupt(fate, packet, frame, length);
    memcpy(held->head, frame, held->head_length);
    held->payload_length += held->pad_count; /* the padding may have changed, too */
    held->pad_count = 0;
    memcpy(held->payload, frame + held->head_length, held->payload_length);
    const uint8_t *network = frame + held->network_at;
    const uint32_t right = held->icrc_doubled
                               ? uro_icrc_rxe_flush(network, held->icrc_v6, end - held->network_at)
                               : uro_icrc(network, held->icrc_v6, end - held->network_at);
    held->icrc_wrong = right ^ uro_get_le32(frame + end);
}

/* Puts a frame to send into the queue. */
static void hold_tx(struct port *port, const struct uro_tx *tx,
                    const struct uro_impair_packet *packet, const struct uro_impair_fate *fate,
                    uro_time now)
{
    const uint32_t length = (uint32_t)sizeof(struct held) + tx->payload_length + tx->pad_count;
    struct held *held = (void *)uro_impair_queue_put(&port->tx, length, now + fate->delay);
    uint8_t *payload = held->payload;

    held->way = tx->way;
    held->head_length = tx->head_length;
    held->pad_count = tx->pad_count;
    held->network_at = tx->network_at;
    held->icrc = tx->icrc;
    held->icrc_v6 = tx->icrc_v6;
    held->icrc_doubled = tx->icrc_doubled;
    held->icrc_wrong = 0;
    held->payload_length = tx->payload_length;
    memcpy(held->head, tx->head, tx->head_length);
    for (uint16_t i = 0; i < tx->span_count; i++) {
        memcpy(payload, tx->spans[i].data, tx->spans[i].length);
        payload += tx->spans[i].length;
    }
    if (fate->marked)
        uro_impair_fate_mark(packet, held->head);
    if (fate->corrupted && tx->icrc)
        corrupt(port, packet, fate, held);
    finish_put(&port->tx, fate);
}

static uint32_t tx_free_count(struct uro_port *uro)
{
    struct port *port = port_of(uro);

    send_due(port, port->config.now());
    const uint32_t frames = space(&port->tx);
    const uint32_t direct = uro_port_tx_free_count(port->inner);
    return frames < direct ? frames : direct;
}

/* Decides about frame @index of a burst. Returns whether it passes at once. */
static bool passes(struct port *port, const struct uro_tx *tx, uint32_t index, uro_time now)
{
    const uint32_t length = uro_tx_length(tx);
    struct uro_impair_trace_line *line = &port->tx_lines[index];
    struct uro_impair_packet packet;

    uro_impair_packet_read(&packet, URO_IMPAIR_TX, tx->head, tx->head_length);
    port->tx_changed[index] = find_fate(port, &packet, length, now, line);
    if (!port->tx_changed[index] && port->tx.count == 0)
        return true;
    if (!line->fate.lost)
        hold_tx(port, tx, &packet, &line->fate, now);
    return false;
}

static void transmit(struct uro_port *uro, const struct uro_tx *tx, uint32_t count)
{
    struct port *port = port_of(uro);
    const uro_time now = port->config.now();
    uint32_t from = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (passes(port, &tx[i], i, now))
            continue;
        if (i > from)
            uro_port_transmit(port->inner, tx + from, i - from);
        from = i + 1;
    }
    if (count > from)
        uro_port_transmit(port->inner, tx + from, count - from);
    send_due(port, now);
}

/* ---- receiving ------------------------------------------------------------ */

/* Puts a received frame into the queue. */
static void hold_rx(struct port *port, const struct uro_pkt *pkt,
                    const struct uro_impair_packet *packet,
                    const struct uro_impair_trace_line *line, bool changed, uro_time now)
{
    const struct uro_impair_fate *fate = &line->fate;
    const uint32_t length = (uint32_t)sizeof(struct arrived) + pkt->length;
    struct arrived *arrived = (void *)uro_impair_queue_put(&port->rx, length, now + fate->delay);

    arrived->summed = pkt->summed;
    arrived->weak = pkt->weak;
    arrived->changed = changed;
    arrived->line = *line;
    uro_pkt_copy(pkt, arrived->octets, pkt->length);
    if (fate->marked)
        uro_impair_fate_mark(packet, arrived->octets);
    if (fate->corrupted) {
        uro_impair_fate_corrupt(fate, packet, arrived->octets, pkt->length);
        arrived->summed = fate->resummed;
        arrived->weak = false;
    }
    finish_put(&port->rx, fate);
}

/* Lends the delayed frames that are due, at most @max. */
static uint32_t lend_due(struct port *port, struct uro_pkt *pkts, uint32_t max, uro_time now)
{
    uint32_t length;

    port->lent = uro_impair_queue_ready(&port->rx, now, max);
    for (uint32_t i = 0; i < port->lent; i++) {
        const struct arrived *arrived = (const void *)uro_impair_queue_frame(&port->rx, i, &length);
        pkts[i] = (struct uro_pkt){ .octets = arrived->octets,
                                    .length = length - (uint32_t)sizeof *arrived,
                                    .summed = arrived->summed,
                                    .weak = arrived->weak };
    }
    return port->lent;
}

static void lose_rx(struct port *port, const struct uro_pkt *pkt,
                    const struct uro_impair_trace_line *line)
{
    if (port->config.lost != NULL)
        port->config.lost(port->config.context, pkt, line);
}

/* Takes frames from the inner port. Returns how many of them are lent to the host at once, in
 * @pkts. */
static uint32_t take(struct port *port, struct uro_pkt *pkts, uint32_t max, uro_time now)
{
    struct uro_impair_packet packet;
    struct uro_impair_trace_line line;
    uint32_t direct = 0;

    port->received_count = uro_port_receive(port->inner, port->received, max);
    for (uint32_t i = 0; i < port->received_count; i++) {
        const struct uro_pkt *pkt = &port->received[i];
        const uint32_t head = pkt->length < URO_FRAME_HEAD ? pkt->length : URO_FRAME_HEAD;
        uro_impair_packet_read(&packet, URO_IMPAIR_RX, pkt->octets, head);
        const bool changed = find_fate(port, &packet, pkt->length, now, &line);
        /* A longer frame does not fit into a slot. */
        const bool fits = pkt->length + sizeof(struct arrived) <= port->rx.slot_size;
        if (line.fate.lost)
            lose_rx(port, pkt, &line);
        else if (!fits || (!changed && port->rx.count == port->lent))
            pkts[direct++] = *pkt;
        else
            hold_rx(port, pkt, &packet, &line, changed, now);
    }
    return direct;
}

static void release(struct uro_port *uro, struct uro_pkt *pkts, uint32_t count)
{
    struct port *port = port_of(uro);

    (void)pkts;
    (void)count;
    uro_impair_queue_drop(&port->rx, port->lent);
    port->lent = 0;
    if (port->received_count > 0)
        uro_port_release(port->inner, port->received, port->received_count);
    port->received_count = 0;
}

static uint32_t receive(struct uro_port *uro, struct uro_pkt *pkts, uint32_t max)
{
    struct port *port = port_of(uro);
    const uro_time now = port->config.now();

    check_plan(port, now);
    send_due(port, now);
    uint32_t count = lend_due(port, pkts, max, now);
    const uint32_t most = space(&port->rx) < max - count ? space(&port->rx) : max - count;
    if (most > 0)
        count += take(port, pkts + count, most, now);
    if (count == 0)
        release(uro, NULL, 0); /* all frames were lost or delayed */
    return count;
}

/* ---- sleeping ------------------------------------------------------------- */

/* While the queue is full, frames that arrive must not wake the host. */
static uint32_t wait_fds(struct uro_port *uro, int fds[static URO_PORT_FDS_MAX])
{
    const struct port *port = port_of(uro);

    return space(&port->rx) > 0 ? uro_port_wait_fds(port->inner, fds) : 0;
}

static bool arm(struct uro_port *uro)
{
    struct port *port = port_of(uro);

    return uro_impair_queue_due(&port->rx) > port->config.now() && uro_port_arm(port->inner);
}

static void disarm(struct uro_port *uro)
{
    uro_port_disarm(port_of(uro)->inner);
}

static uro_time next(struct uro_port *uro)
{
    const struct port *port = port_of(uro);
    const uro_time tx = uro_impair_queue_due(&port->tx), rx = uro_impair_queue_due(&port->rx);
    const uro_time inner = uro_port_next(port->inner), first = tx < rx ? tx : rx;

    return first < inner ? first : inner;
}

/* ---- the link ------------------------------------------------------------- */

static bool link_up(struct uro_port *uro)
{
    struct port *port = port_of(uro);
    const uro_time now = port->config.now();
    const bool up = uro_port_link_up(port->inner);

    check_plan(port, now);
    port->port.mtu = port->inner->mtu;
    if (port->config.trace != NULL)
        uro_impair_trace_flush(port->config.trace);
    return up && !uro_impair_fate_flaps(&port->plan, now - port->began);
}

static bool gone(struct uro_port *uro)
{
    return uro_port_gone(port_of(uro)->inner);
}

static void multicast(struct uro_port *uro, const struct uro_mac *macs, uint32_t count)
{
    uro_port_multicast(port_of(uro)->inner, macs, count);
}

static void groups(struct uro_port *uro, const struct uro_gid *all, uint32_t count)
{
    uro_port_groups(port_of(uro)->inner, all, count);
}

static void services(struct uro_port *uro, const struct uro_listened *all, uint32_t count)
{
    uro_port_services(port_of(uro)->inner, all, count);
}

static int lock_service(struct uro_port *uro, const struct uro_listened *service)
{
    return uro_port_lock_service(port_of(uro)->inner, service);
}

static void unlock_service(struct uro_port *uro, const struct uro_listened *service)
{
    uro_port_unlock_service(port_of(uro)->inner, service);
}

static bool lost_broker(struct uro_port *uro)
{
    return uro_port_lost_broker(port_of(uro)->inner);
}

static uint32_t route_mtu(struct uro_port *uro, const struct uro_gid *from,
                          const struct uro_gid *to)
{
    return uro_port_route_mtu(port_of(uro)->inner, from, to);
}

/* ---- opening and closing -------------------------------------------------- */

static void free_port(struct port *port)
{
    if (port->memory != NULL)
        (void)munmap(port->memory, port->memory_size);
    free(port->rings);
    free(port->flows);
    free(port);
}

static void close_port(struct uro_port *uro)
{
    struct port *port = port_of(uro);

    uro_port_close(port->inner);
    uro_impair_trace_close(port->config.trace);
    uro_impair_trace_free(&port->config.replay);
    free_port(port);
}

static void forked(struct uro_port *uro)
{
    struct port *port = port_of(uro);

    uro_port_forked(port->inner);
    uro_impair_trace_abandon(port->config.trace);
    port->config.trace = NULL;
    (void)munmap(port->memory, port->memory_size);
    port->memory = NULL;
}

/* Returns the operations of a port around a port with @inner. An operation is NULL if @inner lacks
 * it and the host then behaves differently. */
static struct uro_port_ops ops_around(const struct uro_port_ops *inner)
{
    const struct uro_port_control *control = &inner->control;

    return (struct uro_port_ops){
        .datapath = { .receive = receive,
                      .release = release,
                      .tx_free_count = tx_free_count,
                      .transmit = transmit },
        .sleep = { .wait_fds = wait_fds, .arm = arm, .disarm = disarm, .next = next },
        .control = { .close = close_port,
                     .forked = forked,
                     .link_up = link_up,
                     .gone = gone,
                     .multicast = multicast,
                     .groups = control->groups != NULL ? groups : NULL,
                     .services = control->services != NULL ? services : NULL,
                     .lock_service = control->lock_service != NULL ? lock_service : NULL,
                     .unlock_service = control->unlock_service != NULL ? unlock_service : NULL,
                     .route_mtu = route_mtu,
                     .lost_broker = lost_broker },
    };
}

/* Allocates both queues. The kernel allocates each page of the slots at its first use. */
static bool make_queues(struct port *port)
{
    const size_t frame = port->inner->mtu + ETHER_OVERHEAD + ICRC_LEN;
    const size_t header =
        sizeof(struct held) > sizeof(struct arrived) ? sizeof(struct held) : sizeof(struct arrived);
    const size_t slot = (header + frame + LINE_SIZE - 1) / LINE_SIZE * LINE_SIZE;

    port->memory_size = 2 * slot * URO_IMPAIR_PORT_SLOTS;
    void *memory = mmap(NULL, port->memory_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    port->memory = memory != MAP_FAILED ? memory : NULL;
    port->rings = calloc(2 * URO_IMPAIR_PORT_SLOTS, sizeof *port->rings);
    if (port->memory == NULL || port->rings == NULL)
        return false;
    uint8_t *slots = port->memory;
    uro_impair_queue_init(&port->tx, port->rings, slots, URO_IMPAIR_PORT_SLOTS, (uint32_t)slot);
    uro_impair_queue_init(&port->rx, port->rings + URO_IMPAIR_PORT_SLOTS,
                          slots + slot * URO_IMPAIR_PORT_SLOTS, URO_IMPAIR_PORT_SLOTS,
                          (uint32_t)slot);
    return true;
}

struct uro_port *uro_impair_port_open(struct uro_port *inner,
                                      const struct uro_impair_port_config *config)
{
    struct port *port = calloc(1, sizeof *port);

    if (port == NULL)
        return NULL;
    port->inner = inner;
    port->ops = ops_around(inner->ops);
    port->port = *inner;
    port->port.ops = &port->ops;
    port->config = *config;
    port->plan = *config->plan;
    port->began = config->now();
    port->flows = calloc(1, sizeof *port->flows);
    if (port->flows != NULL && make_queues(port))
        return &port->port;
    free_port(port);
    return NULL;
}

const uint64_t *uro_impair_port_counts(const struct uro_port *port)
{
    const struct port *found = (const void *)port; /* @port is the first member */

    return found->counts;
}

const struct uro_impair_trace_line *uro_impair_port_line(const struct uro_port *uro,
                                                         enum uro_impair_direction direction,
                                                         uint32_t index)
{
    const struct port *port = (const void *)uro; /* @uro is the first member */
    uint32_t length;

    if (direction == URO_IMPAIR_TX)
        return port->tx_changed[index] ? &port->tx_lines[index] : NULL;
    if (index >= port->lent)
        return NULL;
    const struct arrived *arrived = (const void *)uro_impair_queue_frame(&port->rx, index, &length);
    return arrived->changed ? &arrived->line : NULL;
}

int uro_impair_port_trace_error(struct uro_port *uro)
{
    const struct port *port = port_of(uro);

    return port->config.trace != NULL ? uro_impair_trace_error(port->config.trace) : 0;
}
