/* SPDX-License-Identifier: BSD-3-Clause */
/* packet.h - the private header of a port over a packet socket, only for lib/io/packet.
 *
 *   port.c    opens and closes the port; sleeping
 *   link_options.c  name and options of a link
 *   socket.c  the socket, its filter, and the ring in which the kernel stores received frames
 *   rx.c      receives frames
 *   tx.c      sends frames
 */
#pragma once

#include "engine/port.h"
#include "io/kernel/iface.h"
#include "io/packet/rx.h"
#include "io/packet/socket.h"
#include "io/packet/tx.h"

/* Options of a link. If `slot`, `slots` or `block` is 0, the port chooses it. */
struct uro_packet_options {
    char iface[URO_IFACE_NAME_MAX];
    uint32_t slot;  /* size of a slot of the receive ring, in bytes */
    uint32_t slots; /* number of slots */
    uint32_t block; /* size of a block of slots, which the kernel allocates in one piece, bytes */
    bool gso;       /* packets of one flow may be sent as one frame */
    uint32_t qdisc_bypass; /* 1: frames bypass the queueing discipline of the interface */
    bool qdisc_given;      /* the link has qdisc_bypass= */
};

struct uro_packet {
    struct uro_port port;
    struct uro_iface iface;
    struct uro_icmp_suppress icmp_suppress;
    uint32_t mtu; /* MTU of the port at opening */
    bool up;      /* whether the link was up at the last check */
    bool verbose;
    char device[16]; /* name of the device, truncated if it is longer */
    int fd;
    uint32_t idle;    /* receive() calls that found no frame */
    uint64_t dropped; /* frames that the kernel dropped */
    struct uro_packet_ring ring;
    struct uro_packet_rx rx;
    struct uro_packet_tx tx;
};

static inline struct uro_packet *uro_packet_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_packet, port);
}

/* Reads the options of @link. Returns 0, or -1 with a sentence in @error. */
URO_NODISCARD int uro_packet_options_read(const char *link, struct uro_packet_options *into,
                                          char error[static URO_PORT_ERROR_MAX]);

uro_port_open_fn uro_packet_open;

extern const struct uro_port_plugin uro_port_plugin __attribute__((visibility("default")));
