/* SPDX-License-Identifier: BSD-3-Clause */
/* sock.h - a UDP socket bound to port 4791 of one address. */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "engine/port.h"
#include "io/udp/ip_id.h"
#include "wire/bth.h"
#include "wire/cm_msg.h"
#include "wire/ext.h"

#define URO_SOCK_HOP_LIMIT 64 /* of packets that do not say */

union uro_sock_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct uro_recent_peers;
struct uro_share;
struct uro_undelivered;
struct uro_raw_tap;

struct uro_sock {
    int fd;                      /* -1: an address whose broker is gone */
    struct uro_share *share;     /* other processes have the address too, or NULL */
    struct uro_raw_tap *raw_tap; /* sees the headers that it hides, or NULL: raw_tap.h */
    struct uro_undelivered
        *undelivered; /* takes what the connection manager must hear of, or NULL */
    const struct uro_recent_peers *recent_peers; /* where the process sent to; NULL: not known */
    bool verbose;                                /* somebody watches what is told */
    bool group;                                  /* its address is that of a multicast group */
    int said_why;       /* that the kernel takes no packet was told, with this error */
    bool said_narrow;   /* that a path carries less than was sent was told */
    bool said_down;     /* that it is gone was said */
    bool absent;        /* its address is not there: addresses.h */
    bool had_carrier;   /* the interface of its address, at some time */
    uint32_t interface; /* the kernel's number of it; 0: not known */
    struct uro_gid address;
    bool v6;
    bool segments;           /* the kernel cuts a long send into packets */
    bool coalesces;          /* the kernel joins received packets of one size */
    uint8_t traffic_class;   /* of packets that do not say */
    uint32_t receive_octets; /* the kernel's buffer */
};

struct uro_sock_options {
    bool segments;
    bool coalesces;
    uint32_t busy_poll; /* us; 0: as the system does */
    enum uro_ip_id_rule idents;
};

union uro_sock_address uro_sock_address_of(const struct uro_gid *gid, uint16_t port);
socklen_t uro_sock_address_length(const union uro_sock_address *address);
struct uro_gid uro_sock_gid_of(const union uro_sock_address *address);
uint16_t uro_sock_port_of(const union uro_sock_address *address);

/* The kernel's number of the interface that has the IPv6 address; 0: none. */
uint32_t uro_sock_interface(const struct uro_gid *address);

/* Sends to groups by the interface that has @address now. */
void uro_sock_set_multicast(int fd, const struct uro_gid *address);

/* A socket that is bound to nothing yet, or -1. */
int uro_sock_make(bool v6);

/* A socket on port 4791 of @address, alone or, @shared, beside others of the same user. Returns it,
 * or -1 with a sentence in @error. */
URO_NODISCARD int uro_sock_bind(const struct uro_gid *address, bool shared,
                                char error[static URO_PORT_ERROR_MAX]);

/* Makes a bound socket ready for packets. It is @sock's from now on. */
void uro_sock_start(struct uro_sock *sock, int fd, const struct uro_gid *address,
                    const struct uro_sock_options *options);

/* Has the kernel look at the card itself for so long, @us, before it says that nothing is there
 * (SO_BUSY_POLL). False: it may not, and @error says what is missing. 0 changes nothing. */
bool uro_sock_busy_poll(struct uro_sock *sock, uint32_t us, char error[static URO_PORT_ERROR_MAX]);

/* The raw tap, too. */
void uro_sock_close(struct uro_sock *sock);

/* As much of a packet as a datagram of the connection manager has. */
#define URO_SOCK_QUOTED_MAX (URO_BTH_LEN + URO_DETH_LEN + URO_MAD_LEN)

/* What is said of a packet that was sent. */
struct uro_sock_report {
    uint32_t error;         /* errno */
    uint32_t info;          /* with EMSGSIZE: octets that the path carries */
    bool network;           /* by the network, of anybody's packet; else by the kernel, of ours */
    uint32_t quoted_length; /* octets of the packet that came back, from the BTH on */
    uint8_t quoted[URO_SOCK_QUOTED_MAX];
    union uro_sock_address to; /* where it was to go; of no family when that is not said */
};

/* Takes the next of what is reported (a port or host that cannot be reached, a packet too long),
 * which else would be the error of some call. False when there is no more. */
bool uro_sock_take_report(int fd, struct uro_sock_report *report);
