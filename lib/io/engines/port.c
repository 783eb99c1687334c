/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - see port.h. */
#define _GNU_SOURCE /* PTHREAD_MUTEX_ADAPTIVE_NP */
#include "io/engines/port.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "io/engines/frame_ring.h"
#include "io/engines/steer.h"
#include "wire/ether.h"

/* Number of times that arm() is refused while frames wait for space. A peer that has stopped leaves
 * no space for ever. The thread then sleeps, and each round of the host tries again. */
#define ARM_REFUSALS 65536u

/* A frame that an engine sends, and that did not fit everywhere yet. */
struct waiting {
    uint32_t targets; /* engines and URO_STEER_WIRE that have not got the frame */
    uint32_t length;
    uint8_t *octets;
};

/* The port of an engine. Used by the thread that runs the engine, except `ring`. */
struct port {
    struct uro_frame_ring ring; /* frames to this engine; first, because it is aligned */
    struct uro_port port;
    struct device *device;
    struct waiting waiting[URO_PORT_BURST];
    uint8_t *waiting_octets; /* memory of the frames of `waiting` */
    uint32_t waiting_count;
    uint32_t arm_refusals; /* since frames were sent */
    uint32_t index;
    bool lends_inner; /* the frames of receive() are of the inner port */
};

/* The state that all ports of a device use. */
struct device {
    uint32_t engines;     /* entries of `ports` */
    uint32_t frame_max;   /* bytes */
    atomic_bool up, gone; /* state of the inner port, for all engines */
    atomic_uint mtu;

    pthread_mutex_t lock;   /* protects the members below, except `ports` */
    struct uro_port *inner; /* NULL: the first port was closed */
    uint32_t open;          /* number of open ports */
    bool asleep;            /* the thread of the first engine sleeps on the inner port */
    struct uro_pkt received[URO_PORT_BURST]; /* frames that the inner port lends */
    uint32_t received_count;
    struct uro_mac *macs; /* groups of all engines: URO_ENGINE_MACS_MAX for each */
    uint32_t mac_counts[URO_STEER_ENGINES_MAX];
    struct uro_mac *all_macs; /* `macs` without repetitions */

    struct port *ports[URO_STEER_ENGINES_MAX]; /* all exist as long as the device */
};

static struct port *port_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct port, port);
}

static void lock_inner(struct device *device)
{
    (void)pthread_mutex_lock(&device->lock);
}

static void unlock_inner(struct device *device)
{
    (void)pthread_mutex_unlock(&device->lock);
}

/* Returns those of the engines @targets that the device has. Frames for no engine go to the first
 * engine, which counts them as dropped. */
static uint32_t existing(const struct device *device, uint32_t targets)
{
    const uint32_t engines = targets & ((1u << device->engines) - 1);
    const uint32_t wire = targets & URO_STEER_WIRE;

    return engines == 0 && wire == 0 ? URO_STEER_FIRST : engines | wire;
}

/* ---- receiving ------------------------------------------------------------ */

/* Returns how many frames the ring of each other engine accepts. Frames that do not fit stay in the
 * inner port. Inner port locked, so until the frames are handed over, no engine uses this space. */
static uint32_t ring_space(struct device *device, uint32_t except)
{
    uint32_t least = URO_PORT_BURST;

    for (uint32_t i = 0; i < device->engines; i++) {
        const uint32_t space = uro_frame_ring_free_count(&device->ports[i]->ring);
        if (i != except && space < least)
            least = space;
    }
    return least;
}

/* Copies a frame to the rings of the engines @targets. Frames that are longer than the MTU of the
 * link are dropped. */
static void hand_over(struct device *device, const struct uro_pkt *pkt, uint32_t targets)
{
    for (uint32_t i = 0; i < device->engines && pkt->length <= device->frame_max; i++) {
        struct uro_frame_ring *ring = &device->ports[i]->ring;
        uint8_t *slot = (targets >> i & 1) != 0 ? uro_frame_ring_begin(ring, pkt->length, 0) : NULL;
        if (slot == NULL)
            continue;
        uro_pkt_copy(pkt, slot, pkt->length);
        uro_frame_ring_commit(ring, pkt->length, pkt->summed, pkt->weak);
    }
}

static void wake_others(struct device *device, uint32_t targets)
{
    for (uint32_t i = 0; i < device->engines; i++)
        if ((targets >> i & 1) != 0)
            uro_frame_ring_wake(&device->ports[i]->ring);
}

/* Distributes the frames of the inner port. Returns the number of frames for engine @index, which
 * are in @pkts. Inner port locked. */
static uint32_t distribute(struct device *device, uint32_t index, struct uro_pkt *pkts)
{
    const uint32_t own = 1u << index;
    uint32_t kept = 0, others = 0;

    for (uint32_t i = 0; i < device->received_count; i++) {
        const uint32_t targets = existing(device, uro_steer_received(&device->received[i]));
        if ((targets & own) != 0)
            pkts[kept++] = device->received[i];
        if ((targets & ~own) != 0)
            hand_over(device, &device->received[i], targets & ~own);
        others |= targets & ~own;
    }
    wake_others(device, others);
    return kept;
}

/* Receives from the inner port. If frames for this engine are lent, the lock is held until
 * release(). */
static uint32_t receive_inner(struct port *port, struct uro_pkt *pkts, uint32_t max)
{
    struct device *device = port->device;
    const uint32_t space = ring_space(device, port->index);

    device->received_count =
        uro_port_receive(device->inner, device->received, space < max ? space : max);
    if (device->received_count == 0)
        return 0;
    const uint32_t count = distribute(device, port->index, pkts);
    if (count == 0)
        uro_port_release(device->inner, device->received, device->received_count);
    return count;
}

/* Locks the inner port if the engine may receive from it. While another engine has the lock, that
 * engine hands over the frames of this engine. While the thread of the first engine sleeps on the
 * inner port, only that thread may receive. */
static bool may_receive(struct port *port)
{
    struct device *device = port->device;

    if (pthread_mutex_trylock(&device->lock) != 0)
        return false;
    if (device->inner != NULL && (port->index == 0 || !device->asleep))
        return true;
    unlock_inner(device);
    return false;
}

/* Frames in the ring are older than the frames of the inner port. Frames enter the ring from the
 * inner port only under its lock, so the ring is checked again under the lock. */
static uint32_t receive(struct uro_port *uro, struct uro_pkt *pkts, uint32_t max)
{
    struct port *port = port_of(uro);
    uint32_t count = uro_frame_ring_lend(&port->ring, pkts, max);

    if (count > 0 || !may_receive(port))
        return count;
    count = uro_frame_ring_lend(&port->ring, pkts, max);
    if (count == 0) {
        count = receive_inner(port, pkts, max);
        port->lends_inner = count > 0;
    }
    if (!port->lends_inner)
        unlock_inner(port->device);
    return count;
}

static void release(struct uro_port *uro, struct uro_pkt *pkts, uint32_t count)
{
    struct port *port = port_of(uro);
    struct device *device = port->device;

    (void)pkts;
    if (!port->lends_inner) {
        uro_frame_ring_release(&port->ring, count);
        return;
    }
    port->lends_inner = false;
    uro_port_release(device->inner, device->received, device->received_count);
    unlock_inner(device);
}

/* ---- sending -------------------------------------------------------------- */

/* Puts a frame into the rings of the engines @targets. Returns the engines whose rings are full. A
 * burst of slots stays free for frames that another engine receives from the inner port now. */
static uint32_t send_to_engines(struct device *device, const struct uro_tx *tx, uint32_t targets)
{
    const uint32_t length = uro_tx_length(tx);
    uint32_t full = 0;

    for (uint32_t i = 0; i < device->engines; i++) {
        if ((targets >> i & 1) == 0)
            continue;
        uint8_t *slot = uro_frame_ring_begin(&device->ports[i]->ring, length, URO_PORT_BURST);
        if (slot == NULL) {
            full |= 1u << i;
            continue;
        }
        uro_tx_write(tx, slot);
        uro_frame_ring_commit(&device->ports[i]->ring, length, false, false);
    }
    return full;
}

/* Describes a frame whose bytes are complete. */
static void describe(struct uro_tx *tx, const struct waiting *frame)
{
    const uint32_t head = frame->length < URO_TX_HEAD_MAX ? frame->length : URO_TX_HEAD_MAX;

    *tx = (struct uro_tx){ .way = URO_TX_WIRE,
                           .head_length = (uint16_t)head,
                           .payload_length = frame->length - head,
                           .span_count = frame->length > head };
    tx->spans[0] = (struct uro_span){ frame->octets + head, frame->length - head };
    memcpy(tx->head, frame->octets, head);
}

static void wait_for_space(struct port *port, const struct uro_tx *tx, uint32_t targets)
{
    struct waiting *frame = &port->waiting[port->waiting_count];

    URO_ASSERT(port->waiting_count < URO_PORT_BURST);
    frame->targets = targets;
    frame->length = uro_tx_length(tx);
    frame->octets = port->waiting_octets + (size_t)port->waiting_count * port->device->frame_max;
    uro_tx_write(tx, frame->octets);
    port->waiting_count++;
}

/* Sends a burst on the link, as much as has space. The other frames wait. */
static void send_to_link(struct port *port, const struct uro_tx *tx, uint32_t count)
{
    struct device *device = port->device;
    uint32_t space = 0;

    lock_inner(device);
    if (device->inner == NULL)
        space = count; /* the link is down: the frames are dropped */
    else if (port->waiting_count == 0)
        space = uro_port_tx_free_count(device->inner);
    if (space > count)
        space = count;
    if (device->inner != NULL && space > 0)
        uro_port_transmit(device->inner, tx, space);
    unlock_inner(device);
    for (uint32_t i = space; i < count; i++)
        wait_for_space(port, &tx[i], URO_STEER_WIRE);
}

/* Sends a frame to engines of this device, and to the link if it is to a group. The engine has
 * looped a frame to a group to itself already. */
static void send_one(struct port *port, const struct uro_tx *tx, uint32_t targets)
{
    const uint32_t wire = targets & URO_STEER_WIRE;
    uint32_t engines = targets & URO_STEER_ALL;

    if (wire != 0)
        engines &= ~(1u << port->index);
    const uint32_t full =
        port->waiting_count == 0 ? send_to_engines(port->device, tx, engines) : engines;
    wake_others(port->device, engines);
    if (full != 0)
        wait_for_space(port, tx, full | wire);
    else if (wire != 0)
        send_to_link(port, tx, 1);
}

static void transmit(struct uro_port *uro, const struct uro_tx *tx, uint32_t count)
{
    struct port *port = port_of(uro);
    uint32_t from = 0;

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t targets = existing(port->device, uro_steer_sent(&tx[i]));
        if (targets == URO_STEER_WIRE)
            continue;
        if (i > from)
            send_to_link(port, tx + from, i - from);
        from = i + 1;
        send_one(port, &tx[i], targets);
    }
    if (count > from)
        send_to_link(port, tx + from, count - from);
}

/* Sends the frame again to the targets that had no space. Returns whether all have it now. */
static bool try_again(struct port *port, struct waiting *frame)
{
    struct device *device = port->device;
    const uint32_t engines = frame->targets & URO_STEER_ALL;
    bool waits = (frame->targets & URO_STEER_WIRE) != 0;
    struct uro_tx tx;

    describe(&tx, frame);
    frame->targets = send_to_engines(device, &tx, engines);
    wake_others(device, engines);
    lock_inner(device);
    if (device->inner == NULL)
        waits = false; /* the link is down: the frame is dropped */
    if (waits && uro_port_tx_free_count(device->inner) > 0) {
        uro_port_transmit(device->inner, &tx, 1);
        waits = false;
    }
    unlock_inner(device);
    frame->targets |= waits ? URO_STEER_WIRE : 0;
    return frame->targets == 0;
}

/* While frames wait, the port accepts no more frames, so that all of a burst can wait. */
static uint32_t tx_free_count(struct uro_port *uro)
{
    struct port *port = port_of(uro);
    struct device *device = port->device;
    uint32_t sent = 0, space = URO_PORT_BURST;

    while (sent < port->waiting_count && try_again(port, &port->waiting[sent]))
        sent++;
    port->waiting_count -= sent;
    if (sent > 0)
        port->arm_refusals = 0;
    memmove(port->waiting, port->waiting + sent, port->waiting_count * sizeof *port->waiting);
    if (port->waiting_count > 0)
        return 0;
    if (pthread_mutex_trylock(&device->lock) != 0)
        return space; /* frames that then find no space wait */
    if (device->inner != NULL)
        space = uro_port_tx_free_count(device->inner);
    unlock_inner(device);
    return space;
}

/* ---- sleeping ------------------------------------------------------------- */

static uint32_t wait_fds(struct uro_port *uro, int fds[static URO_PORT_FDS_MAX])
{
    struct port *port = port_of(uro);
    struct device *device = port->device;
    uint32_t count = 0;

    if (port->index == 0) {
        lock_inner(device);
        count = uro_port_wait_fds(device->inner, fds);
        unlock_inner(device);
        if (count == 0 || count == URO_PORT_FDS_MAX)
            return 0;
    }
    fds[count] = port->ring.fd;
    return count + 1;
}

/* A frame that waits for space must be sent again soon. */
static bool arm(struct uro_port *uro)
{
    struct port *port = port_of(uro);
    struct device *device = port->device;

    if (port->waiting_count > 0 && port->arm_refusals < ARM_REFUSALS) {
        port->arm_refusals++;
        return false;
    }
    if (!uro_frame_ring_arm(&port->ring))
        return false;
    if (port->index != 0)
        return true;
    lock_inner(device);
    device->asleep = uro_port_arm(device->inner);
    const bool armed = device->asleep;
    unlock_inner(device);
    if (!armed)
        uro_frame_ring_disarm(&port->ring);
    return armed;
}

static void disarm(struct uro_port *uro)
{
    struct port *port = port_of(uro);
    struct device *device = port->device;

    uro_frame_ring_disarm(&port->ring);
    if (port->index != 0)
        return;
    lock_inner(device);
    uro_port_disarm(device->inner);
    device->asleep = false;
    unlock_inner(device);
}

/* ---- the link ------------------------------------------------------------- */

/* The first engine asks the inner port, and the others see its answer. */
static bool link_up(struct uro_port *uro)
{
    struct port *port = port_of(uro);
    struct device *device = port->device;

    if (port->index == 0) {
        lock_inner(device);
        atomic_store(&device->up, uro_port_link_up(device->inner));
        atomic_store(&device->gone, uro_port_gone(device->inner));
        atomic_store(&device->mtu, device->inner->mtu);
        unlock_inner(device);
    }
    port->port.mtu = atomic_load(&device->mtu);
    return atomic_load(&device->up);
}

static bool gone(struct uro_port *uro)
{
    return atomic_load(&port_of(uro)->device->gone);
}

static bool has_mac(const struct uro_mac *macs, uint32_t count, const struct uro_mac *mac)
{
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(&macs[i], mac, sizeof *mac) == 0)
            return true;
    return false;
}

static void multicast(struct uro_port *uro, const struct uro_mac *macs, uint32_t count)
{
    struct port *port = port_of(uro);
    struct device *device = port->device;
    uint32_t all = 0;

    URO_ASSERT(count <= URO_ENGINE_MACS_MAX);
    lock_inner(device);
    memcpy(device->macs + (size_t)port->index * URO_ENGINE_MACS_MAX, macs, count * sizeof *macs);
    device->mac_counts[port->index] = count;
    for (uint32_t i = 0; i < device->engines; i++)
        for (uint32_t k = 0; k < device->mac_counts[i]; k++) {
            const struct uro_mac *mac = &device->macs[(size_t)i * URO_ENGINE_MACS_MAX + k];
            if (!has_mac(device->all_macs, all, mac))
                device->all_macs[all++] = *mac;
        }
    if (device->inner != NULL)
        uro_port_multicast(device->inner, device->all_macs, all);
    unlock_inner(device);
}

/* ---- opening and closing -------------------------------------------------- */

static void free_device(struct device *device)
{
    for (uint32_t i = 0; i < device->engines; i++) {
        if (device->ports[i] == NULL)
            continue;
        uro_frame_ring_free(&device->ports[i]->ring);
        free(device->ports[i]->waiting_octets);
        free(device->ports[i]);
    }
    free(device->macs);
    free(device->all_macs);
    (void)pthread_mutex_destroy(&device->lock);
    free(device);
}

static void close_port(struct uro_port *uro)
{
    struct port *port = port_of(uro);
    struct device *device = port->device;

    uro_frame_ring_close(&port->ring);
    lock_inner(device);
    if (port->index == 0) {
        uro_port_close(device->inner);
        device->inner = NULL;
        atomic_store(&device->up, false);
    }
    device->mac_counts[port->index] = 0;
    const bool last = --device->open == 0;
    unlock_inner(device);
    if (last)
        free_device(device);
}

/* The child leaves the memory as it is, because a thread of the parent may have the lock. */
static void forked(struct uro_port *uro)
{
    const struct port *port = port_of(uro);
    const struct device *device = port->device;

    if (port->index != 0)
        return;
    uro_port_forked(device->inner);
    for (uint32_t i = 0; i < device->engines; i++)
        (void)close(device->ports[i]->ring.fd);
}

static const struct uro_port_ops ops = {
    .datapath = { .receive = receive,
                  .release = release,
                  .tx_free_count = tx_free_count,
                  .transmit = transmit },
    .sleep = { .wait_fds = wait_fds, .arm = arm, .disarm = disarm },
    .control = { .close = close_port,
                 .forked = forked,
                 .link_up = link_up,
                 .gone = gone,
                 .multicast = multicast },
};

static struct port *new_port(struct device *device, uint32_t index)
{
    struct port *port = aligned_alloc(_Alignof(struct port), sizeof *port);

    if (port == NULL)
        return NULL;
    memset(port, 0, sizeof *port);
    port->device = device;
    port->index = index;
    port->waiting_octets = malloc((size_t)URO_PORT_BURST * device->frame_max);
    if (port->waiting_octets == NULL || uro_frame_ring_init(&port->ring, device->frame_max) != 0) {
        free(port->waiting_octets);
        free(port);
        return NULL;
    }
    return port;
}

static bool make_ports(struct device *device)
{
    device->macs = calloc((size_t)device->engines * URO_ENGINE_MACS_MAX, sizeof *device->macs);
    device->all_macs =
        calloc((size_t)device->engines * URO_ENGINE_MACS_MAX, sizeof *device->all_macs);
    if (device->macs == NULL || device->all_macs == NULL)
        return false;
    for (uint32_t i = 0; i < device->engines; i++)
        if ((device->ports[i] = new_port(device, i)) == NULL)
            return false;
    return true;
}

/* Opens a port that exists already, for the first time or again. The thread of the first engine
 * alone knows that a link comes up, so the others ask for it from time to time. */
static struct uro_port *open_port(struct device *device, uint32_t index)
{
    struct port *port = device->ports[index];

    lock_inner(device);
    port->port = *device->inner;
    device->open++;
    unlock_inner(device);
    port->port.ops = &ops;
    port->port.qpn_prefix = uro_steer_prefix(index);
    if (index != 0)
        port->port.flags &= ~(unsigned)URO_PORT_WAKES_DOWN;
    port->waiting_count = port->arm_refusals = 0;
    port->lends_inner = false;
    uro_frame_ring_open(&port->ring);
    return &port->port;
}

static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    (void)pthread_mutex_init(lock, &attr);
    (void)pthread_mutexattr_destroy(&attr);
}

struct uro_port *uro_engines_port_open(struct uro_port *inner, uint32_t engines)
{
    struct device *device = calloc(1, sizeof *device);

    if (device == NULL)
        return NULL;
    URO_ASSERT(engines <= URO_STEER_ENGINES_MAX);
    init_lock(&device->lock);
    device->inner = inner;
    device->engines = engines;
    device->frame_max = URO_ETHER_LEN_MAX + inner->mtu;
    atomic_store(&device->mtu, inner->mtu);
    atomic_store(&device->up, uro_port_link_up(inner));
    if (!make_ports(device)) {
        free_device(device);
        return NULL;
    }
    return open_port(device, 0);
}

struct uro_port *uro_engines_port_join(struct uro_port *first, uint32_t index)
{
    return open_port(port_of(first)->device, index);
}
