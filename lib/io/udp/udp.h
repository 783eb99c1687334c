/* SPDX-License-Identifier: BSD-3-Clause */
/* udp.h - the inside of a port over UDP sockets, for lib/io/udp only.
 *
 * RoCEv2 is UDP from and to port 4791, so a socket for each address carries it, and the kernel does
 * what the engine's neighbours do elsewhere. The engine's frames keep their shape: what a socket
 * does not give (Ethernet, IP and UDP headers) is made here.
 *
 *   port.c    opens and closes
 *   link_options.c  name and options of a link
 *   sock.c    one socket: options, errors that the network reports
 *   network_error.c  to whom these are told; recent_peers.h, who sent there
 *   addresses.c  whether they are still there
 *   share.c   an address that several processes use, by the broker `uroce hub` (hub.h)
 *   hub_directory.c   the directory where these processes find each other
 *   service_lock.c  what a process listens for there, and no other
 *   route.c   how long packets may be on the way to a peer
 *   rx.c      datagrams -> frames
 *   tx.c      frames -> datagrams, those of one message in one call
 *   group.c   multicast: a socket for each group
 *   raw_tap.c a raw socket that sees it, when there may be one
 *   ip_id.c  the identification of IPv4, which the ICRC covers
 *   port_owner.c  which process has the port
 */
#pragma once

#include "engine/port.h"
#include "io/udp/addresses.h"
#include "io/udp/group.h"
#include "io/udp/network_error.h"
#include "io/udp/route.h"
#include "io/udp/rx.h"
#include "io/udp/service_lock.h"
#include "io/udp/share.h"
#include "io/udp/sock.h"
#include "io/udp/tx.h"

#define URO_UDP_SOCKS_MAX 16u

/* Options of a link. */
struct uro_udp_options {
    struct uro_sock_options sock;
    uint32_t ident; /* sock.idents, as the parser stores it */
    uint32_t alone; /* 1: hub=no, no other process shares the addresses */
};

struct uro_udp_port {
    struct uro_port port;
    struct uro_sock socks[URO_UDP_SOCKS_MAX];
    uint32_t sock_count;
    struct uro_share shares[URO_UDP_SOCKS_MAX]; /* of socks[i], when that has one */
    struct uro_service_locks service_locks;
    struct uro_sock_options options;
    struct uro_addresses addresses; /* of socks */
    uint32_t mtu;                   /* as configured */
    uint32_t mtu_then; /* the least of the interfaces when it was opened; 0: not known */
    struct uro_groups groups;
    struct uro_undelivered undelivered;
    uint32_t rounds; /* brokers are listened to in some of them */
    struct uro_rx rx;
    struct uro_udp_tx tx;
};

static inline struct uro_udp_port *uro_udp_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_udp_port, port);
}

/* Reads the options of @link. Returns 0, or -1 with a sentence in @error. */
URO_NODISCARD int uro_udp_options_read(const char *link, struct uro_udp_options *into,
                                       char error[static URO_PORT_ERROR_MAX]);

uro_port_open_fn uro_udp_open;

extern const struct uro_port_plugin uro_port_plugin __attribute__((visibility("default")));
