/* SPDX-License-Identifier: BSD-3-Clause */
/* udp.h - internal interfaces of a port over UDP sockets, for lib/io/udp only.
 *
 * RoCEv2 is UDP to port 4791, so one socket for each address carries the packets, and the kernel
 * does the work of ARP and neighbour discovery. The engine still reads and writes whole frames. A
 * socket does not deliver Ethernet, IP and UDP headers, so this port makes them.
 *
 *   port.c             opens and closes the port
 *   link_options.c     name and options of a link
 *   sock.c             one socket: its options, and the errors that the network reports; finds the
 *                      process that uses the port if bind() fails
 *   network_error.c    prints these errors, and keeps some of them for the engine
 *   addresses.c        whether the addresses of the port are usable
 *   share.c            an address that several processes share with the help of the broker,
 *                      `uroce hub` (hub.h); locks a service ID for one of these processes
 *   hub_directory.c    the directory where these processes find each other
 *   rx.c               converts datagrams to frames
 *   tx.c               converts frames to datagrams, and sends those of one message in one call
 *   group.c            multicast: a socket for each group
 *   raw_tap.c          a raw socket that reads IPv4 headers, if the process may open one
 *   ip_id.c            the IPv4 identification, which the ICRC covers
 */
#pragma once

#include "engine/port.h"
#include "io/udp/group.h"
#include "io/udp/network_error.h"
#include "io/udp/rx.h"
#include "io/udp/share.h"
#include "io/udp/sock.h"
#include "io/udp/tx.h"

#define URO_UDP_SOCKS_MAX 16u

/* Options of a link. */
struct uro_udp_options {
    struct uro_sock_options sock;
    uint32_t ip_id_rule; /* sock.idents, as the parser stores it */
    uint32_t alone;      /* 1: hub=no, no other process shares the addresses */
};

/* Whether the addresses of a port are usable: on a kernel interface that is up and has not lost its
 * carrier.
 *
 * The kernel announces each change over rtnetlink, and all interfaces are examined only after an
 * announcement. An address on no interface counts as present if a socket can be bound to it, as
 * with addresses of 127.0.0.0/8. An interface that never had a carrier, such as a bridge without
 * ports, counts as up, because this machine can be reached there. */
struct uro_addresses {
    int fd;       /* rtnetlink socket; -1: none, every address counts as present */
    bool changed; /* an announcement came since the interfaces were last examined */
    uint32_t mtu; /* minimum MTU of the interfaces of all addresses; 0: unknown */
};

struct uro_udp_port {
    struct uro_port port;
    struct uro_sock socks[URO_UDP_SOCKS_MAX];
    uint32_t sock_count;
    /* shares[i] is for socks[i], if its address is shared */
    struct uro_share shares[URO_UDP_SOCKS_MAX];
    struct uro_service_locks service_locks;
    struct uro_sock_options options;
    struct uro_addresses addresses; /* state of the addresses of all socks */
    uint32_t mtu;                   /* MTU from the configuration */
    uint32_t mtu_then;              /* minimum MTU of the interfaces at opening; 0: unknown */
    struct uro_groups groups;
    struct uro_undelivered undelivered;
    uint32_t rounds;   /* calls of receive(); every 16th call also reads from brokers and groups */
    uint32_t unlooked; /* number of the next calls of arm() that skip the check for packets */
    struct uro_rx rx;
    struct uro_udp_tx tx;
};

static inline struct uro_udp_port *uro_udp_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_udp_port, port);
}

void uro_addresses_open(struct uro_addresses *addresses);
void uro_addresses_close(struct uro_addresses *addresses);

/* Updates `absent` of @socks and `mtu`. Returns the number of addresses that came back, or moved to
 * another interface, since the last call. Cheap while nothing changes. */
uint32_t uro_addresses_look(struct uro_addresses *addresses, struct uro_sock *socks,
                            uint32_t count);

/* Implements route_mtu of struct uro_port_ops: returns the MTU from the kernel's routing table.
 * Ignores path MTUs from ICMP messages, because these are easy to forge. */
uint32_t uro_route_mtu(struct uro_port *port, const struct uro_gid *from, const struct uro_gid *to);

/* Reads the options of @link. Returns 0, or -1 with a sentence in @error. */
URO_NODISCARD int uro_udp_options_read(const char *link, struct uro_udp_options *into,
                                       char error[static URO_PORT_ERROR_MAX]);

uro_port_open_fn uro_udp_open;

extern const struct uro_port_plugin uro_port_plugin __attribute__((visibility("default")));
