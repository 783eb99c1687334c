/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - a port over a packet socket: its operations, and how it is opened. */
#define _GNU_SOURCE /* Linux's socket options */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_packet.h>

#include "io/packet/packet.h"
#include "io/packet/socket.h"
#include "wire/ether.h"
#include "wire/gso.h"

#define LOOK_EVERY  1024u /* receive() calls without a frame between checks of the interface */
#define KERNELS     128u  /* bytes before the frame in a slot, which the kernel uses */
#define SLOTS       1024u
#define SLOTS_LONG  512u /* number of slots if each has room for coalesced packets */
#define SLOT_LEAST  2048u
#define SLOTS_LEAST 64u
#define SLOTS_MOST  16384u
#define MEMORY_MOST (1u << 30)

/* Replaces the ring if it has stopped. It has stopped if no frame came and no frame waits, although
 * the kernel drops frames. See uro_packet_ring_renew(). */
static void look_for_drops(struct uro_packet *packet)
{
    struct uro_packet_ring *ring = &packet->ring;
    const uint32_t drops = uro_packet_socket_drops(packet->fd);
    const bool moved = ring->moved || ring->held > 0 || uro_packet_rx_waits(&packet->rx);

    packet->dropped += drops;
    ring->moved = false;
    if (drops == 0 || moved)
        return;
    const int status = uro_packet_ring_renew(ring, packet->fd);
    if (packet->verbose)
        (void)fprintf(
            stderr,
            "uroce: %s: the receive ring stopped at a frame that the kernel cannot describe; %s\n",
            packet->device,
            status == 0 ? "it works again with a new ring" : "there is no memory for a new ring");
}

static bool link_up(struct uro_port *port)
{
    struct uro_packet *packet = uro_packet_of(port);

    packet->up = uro_iface_running(&packet->iface);
    if (packet->iface.mtu != 0)
        port->mtu = packet->iface.mtu < packet->mtu ? packet->iface.mtu : packet->mtu;
    if (!packet->up)
        uro_packet_tx_drop(&packet->tx);
    look_for_drops(packet);
    return packet->up;
}

static bool gone(struct uro_port *port)
{
    return uro_packet_of(port)->iface.gone;
}

/* ---- frames ---------------------------------------------------------------- */

static uint32_t receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    struct uro_packet *packet = uro_packet_of(port);
    const uint32_t count = uro_packet_rx_lend(&packet->rx, pkts, max);

    if (count == 0 && ++packet->idle % LOOK_EVERY == 0)
        (void)link_up(port);
    return count;
}

static void release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)pkts;
    uro_packet_rx_release(&uro_packet_of(port)->rx, count);
}

static uint32_t tx_free_count(struct uro_port *port)
{
    struct uro_packet *packet = uro_packet_of(port);

    return uro_packet_tx_flush(&packet->tx) ? URO_PORT_BURST : 0;
}

static void transmit(struct uro_port *port, const struct uro_tx *frames, uint32_t count)
{
    struct uro_packet *packet = uro_packet_of(port);

    if (!packet->up && !link_up(port)) {
        packet->tx.dropped += count;
        return;
    }
    uro_packet_tx_send(&packet->tx, frames, count, port->mtu + URO_ETHER_LEN_MAX);
}

/* ---- sleeping -------------------------------------------------------------- */

static uint32_t wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    fds[0] = uro_packet_of(port)->fd;
    return 1;
}

static bool arm(struct uro_port *port)
{
    struct uro_packet *packet = uro_packet_of(port);

    uro_packet_socket_forget_error(packet->fd);
    return !uro_packet_rx_waits(&packet->rx);
}

/* ---- opening and closing --------------------------------------------------- */

/* Prints the drop counters that are not 0, when verbose. */
static void report_drops(const struct uro_packet *packet)
{
    const struct {
        uint64_t count;
        const char *what;
    } drops[] = { { packet->dropped, "on receive, because the ring was full" },
                  { packet->rx.dropped, "on receive, because they were cut off or not readable" },
                  { packet->tx.dropped, "on transmit, because the interface refused them" } };

    for (size_t i = 0; packet->verbose && i < URO_ARRAY_LEN(drops); i++)
        if (drops[i].count > 0)
            (void)fprintf(stderr, "uroce: %s: %" PRIu64 " frames dropped: %s\n", packet->device,
                          drops[i].count, drops[i].what);
}

/* Closes all descriptors without sending anything and without changing the socket, because a forked
 * child closes its copies. The socket exists as long as its ring is mapped in any process. */
static void close_descriptors(struct uro_port *port)
{
    struct uro_packet *packet = uro_packet_of(port);

    uro_icmp_suppress_stop(&packet->icmp_suppress);
    uro_packet_ring_close(&packet->ring);
    if (packet->fd >= 0)
        (void)close(packet->fd);
    packet->fd = -1;
    uro_iface_close(&packet->iface);
}

static void close_port(struct uro_port *port)
{
    struct uro_packet *packet = uro_packet_of(port);

    if (packet->fd >= 0)
        packet->dropped += uro_packet_socket_drops(packet->fd);
    report_drops(packet);
    uro_packet_rx_close(&packet->rx);
    uro_packet_tx_close(&packet->tx);
    close_descriptors(port);
    free(packet);
}

static const struct uro_port_ops ops = {
    .datapath = { .receive = receive, .release = release, .tx_free_count = tx_free_count, .transmit = transmit },
    .sleep = { .wait_fds = wait_fds, .arm = arm },
    .control = {
        .close = close_port,
        .forked = close_descriptors,
        .link_up = link_up,
        .gone = gone,
    },
};

static int refuse(const struct uro_packet *packet, const char *what, int reason,
                  char error[static URO_PORT_ERROR_MAX])
{
    (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_af_packet, interface %s: %s: %s",
                   packet->iface.name, what, strerror(-reason));
    return -1;
}

static int open_socket(struct uro_packet *packet, char error[static URO_PORT_ERROR_MAX])
{
    packet->fd = uro_packet_socket();
    if (packet->fd == -EPERM || packet->fd == -EACCES) {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link net_af_packet: a packet socket on %s needs root, or the capability "
                       "CAP_NET_RAW; link udp needs neither",
                       packet->iface.name);
        return -1;
    }
    return packet->fd >= 0 ? 0 : refuse(packet, "cannot open a packet socket", packet->fd, error);
}

static uint32_t slots_in(uint32_t mib, uint32_t slot)
{
    const uint64_t slots = ((uint64_t)mib << 20) / slot;

    return slots < SLOTS_LEAST ? SLOTS_LEAST : slots > SLOTS_MOST ? SLOTS_MOST : (uint32_t)slots;
}

/* Returns whether the ring is wrong for the interface. Then @error has a sentence. */
static bool is_wrong(const struct uro_packet *packet, uint32_t slot, uint32_t slots,
                     char error[static URO_PORT_ERROR_MAX])
{
    const uint32_t least = packet->mtu + URO_ETHER_LEN_MAX + KERNELS;

    if (slot < least)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link net_af_packet: framesz=%u does not hold a frame of %s, whose MTU is "
                       "%u; make it %u, or leave it out",
                       slot, packet->iface.name, packet->mtu, (least + 15) / 16 * 16);
    else if ((uint64_t)slot * slots > MEMORY_MOST)
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link net_af_packet: framecnt=%u slots of %u bytes are more than 1 GiB; "
                       "make framecnt= or framesz= smaller",
                       slots, slot);
    else
        return false;
    return true;
}

/* Opens the ring. The socket is not bound yet, so no frame arrives before there is a ring. */
static int open_ring(struct uro_packet *packet, const struct uro_packet_options *options,
                     bool joins, uint32_t memory_mib, char error[static URO_PORT_ERROR_MAX])
{
    uint32_t slot = packet->mtu + URO_ETHER_LEN_MAX + KERNELS, slots = SLOTS;

    if (joins) {
        slot = URO_GSO_OCTETS_MAX + URO_ETHER_LEN + KERNELS;
        slots = SLOTS_LONG;
    }
    if (slot < SLOT_LEAST)
        slot = SLOT_LEAST;
    if (options->slot != 0)
        slot = options->slot;
    if (memory_mib != 0)
        slots = slots_in(memory_mib, slot);
    if (options->slots != 0)
        slots = options->slots;
    if (is_wrong(packet, slot, slots, error))
        return -1;
    int status =
        uro_packet_ring_open(&packet->ring, packet->fd, slot, slots, options->block, joins);
    return status == 0
               ? 0
               : refuse(
                     packet,
                     "cannot create the receive ring (make it smaller with memory= or framecnt=)",
                     status, error);
}

/* Enables virtio headers in front of received and sent frames. Returns whether the kernel supports
 * them. */
static bool describes(const struct uro_packet *packet)
{
    const int one = 1;

    return uro_packet_socket_can_join() &&
           setsockopt(packet->fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) == 0;
}

/* Reads the properties of the interface before anything is opened. */
static int read_iface(struct uro_packet *packet, const struct uro_port_config *config,
                      const struct uro_packet_options *options, struct uro_iface_state *state,
                      char error[static URO_PORT_ERROR_MAX])
{
    (void)snprintf(packet->iface.name, sizeof packet->iface.name, "%s", options->iface);
    const bool there = uro_iface_read(-1, packet->iface.name, state) == 0;
    if (!there || !state->ethernet) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_af_packet: %s %s%s",
                       there ? "frames of" : "there is no network interface", packet->iface.name,
                       there ? " are not Ethernet frames: use link udp over it"
                             : " in this network namespace");
        return -1;
    }
    packet->iface.index = state->index;
    packet->mtu = config->mtu != 0 && config->mtu < state->mtu ? config->mtu : state->mtu;
    packet->mtu = packet->mtu < URO_PORT_MTU_MAX ? packet->mtu : URO_PORT_MTU_MAX;
    packet->port.mtu = packet->mtu;
    packet->port.mac = config->has_mac ? config->mac : state->mac;
    return 0;
}

static int open_port(struct uro_packet *packet, const struct uro_port_config *config,
                     const struct uro_packet_options *options,
                     char error[static URO_PORT_ERROR_MAX])
{
    struct uro_iface_state state;
    int status;

    if (read_iface(packet, config, options, &state, error) != 0 || open_socket(packet, error) != 0)
        return -1;
    const bool joins = describes(packet);
    const bool sends_joined = joins && options->gso && options->qdisc_bypass == 0;
    /* Without the queueing discipline, the kernel does not segment frames, and a send does not
     * queue. */
    const bool bypass = options->qdisc_given ? options->qdisc_bypass == 1 : !sends_joined;
    packet->port.flags = URO_PORT_CALL_PER_SEND;
    if (open_ring(packet, options, joins, config->memory_mib, error) != 0)
        return -1;
    uro_packet_socket_teach(packet->fd, state.index,
                            memcmp(&packet->port.mac, &state.mac, sizeof state.mac) != 0, bypass);
    status = uro_packet_socket_bind(packet->fd, state.index);
    if (status != 0)
        return refuse(packet, "cannot receive from the interface", status, error);
    if (!uro_packet_rx_open(&packet->rx, &packet->ring) ||
        !uro_packet_tx_open(&packet->tx, packet->fd, packet->mtu + URO_ETHER_LEN_MAX, joins,
                            sends_joined)) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_af_packet: out of memory");
        return -1;
    }
    uro_iface_open(&packet->iface);
    uro_icmp_suppress_start(&packet->icmp_suppress, config, (uint32_t)state.index);
    return 0;
}

struct uro_port *uro_packet_open(const struct uro_port_config *config,
                                 char error[static URO_PORT_ERROR_MAX])
{
    struct uro_packet *packet = calloc(1, sizeof *packet);
    struct uro_packet_options options;

    error[0] = '\0';
    if (packet == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link net_af_packet: out of memory");
        return NULL;
    }
    packet->port.ops = &ops;
    packet->iface = URO_IFACE_INIT;
    packet->fd = -1;
    packet->verbose = config->verbose;
    (void)snprintf(packet->device, sizeof packet->device, "%s", config->device);
    if (uro_packet_options_read(config->link, &options, error) != 0 ||
        open_port(packet, config, &options, error) != 0) {
        close_port(&packet->port);
        return NULL;
    }
    return &packet->port;
}
