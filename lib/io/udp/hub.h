/* SPDX-License-Identifier: BSD-3-Clause */
/* hub.h - what the processes that share an address and its broker, `uroce hub`, say to each other.
 *
 * The broker makes a socket for each share, all on port 4791 of the address (SO_REUSEPORT), with a filter
 * of the kernel's that picks one by the upper bits of the destination QPN, and gives each process one. So
 * it is in nobody's way but that of queue pair 1 (share 0): connection management, which it passes on by
 * service ID or by communication ID, and that of datagrams that the kernel joined and gave to the wrong
 * process.
 *
 * What the network reports of packets that it could not deliver comes to any of the sockets. Who reads one, a process
 * or for what nobody has the broker, has all the others told.
 *
 * They meet at an abstract Unix socket (SOCK_SEQPACKET), of the network namespace like the port itself, and
 * each makes sure that the other is of the same user. A record is a header and what follows it.
 */
#pragma once

#include <stdio.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/shard.h"
#include "engine/engine.h"
#include "io/udp/sock.h"
#include "wire/bth.h"
#include "wire/bytes.h"

#define URO_HUB_VERSION 1u
#define URO_HUB_RECORD  66000u /* octets, at most */
#define URO_HUB_AT_QPN  5u     /* in the BTH */

enum uro_hub_kind {
    URO_HUB_HELLO,    /* process: may I have `share` (0: any)? */
    URO_HUB_WELCOME,  /* broker: `share` is yours, and here is its socket */
    URO_HUB_FULL,     /* broker: all, or that one, are taken */
    URO_HUB_SERVICES, /* process: struct uro_listened[], what is listened for from now on */
    URO_HUB_DATAGRAM, /* either way: from `from`, for whoever it names */
    URO_HUB_REPORT,   /* either way: struct uro_hub_report, of something that was sent to `from` */
};

struct uro_hub_header {
    uint32_t version;
    uint32_t kind;
    uint32_t share;
    uint32_t traffic_class;
    union uro_sock_address from;
};

/* Of the network's. Which process it is for is not known: the broker passes it on to all others. */
struct uro_hub_report {
    uint32_t error; /* as in struct uro_sock_report */
    uint32_t info;
};

/* Whose the packet is. */
static inline uint32_t uro_hub_share_of(const uint8_t *bth)
{
    return bth[URO_HUB_AT_QPN] >> (8 - URO_SHARE_BITS);
}

/* Where the broker of @address, run by the same user, is met. */
static inline socklen_t uro_hub_address(const struct uro_gid *address, struct sockaddr_un *out)
{
    char text[URO_GID_TEXT_MAX];

    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    int used = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "uroce-hub-%u-%s",
                        (unsigned)geteuid(), uro_gid_text(address, text));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used);
}
