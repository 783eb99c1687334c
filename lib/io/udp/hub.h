/* SPDX-License-Identifier: BSD-3-Clause */
/* hub.h - what the processes that share an address and its broker, `uroce hub`, say to each other.
 *
 * The broker makes a socket for each share, all on port 4791 of the address (SO_REUSEPORT), with a
 * filter of the kernel's that picks one by the upper bits of the destination QPN, and gives each
 * process one. So it is in nobody's way but that of queue pair 1 (share 0): connection management,
 * which it passes on by service ID or by communication ID, and that of datagrams that the kernel
 * joined and gave to the wrong process.
 *
 * What the network reports of packets that it could not deliver comes to any of the sockets. Who
 * reads one, a process or for what nobody has the broker, has all the others told.
 *
 * They meet at a Unix socket (SOCK_SEQPACKET) in a directory of the user's (hub_directory.h), and
 * each makes sure that the other is of the same user. A record is a header and what follows it.
 */
#pragma once

#include <string.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "core/shard.h"
#include "engine/engine.h"
#include "io/udp/hub_directory.h"
#include "io/udp/sock.h"
#include "wire/bth.h"
#include "wire/bytes.h"

#define URO_HUB_VERSION 2u
#define URO_HUB_RECORD  66000u /* octets, at most */
#define URO_HUB_AT_QPN  5u     /* in the BTH */
static_assert(URO_PORT_SERVICES_MAX * sizeof(struct uro_listened) <= URO_HUB_RECORD,
              "all services of an address are one record");

enum uro_hub_kind {
    URO_HUB_HELLO,         /* process: may I have `share` (0: any)? */
    URO_HUB_WELCOME,       /* broker: `share` is yours, and here is its socket */
    URO_HUB_FULL,          /* broker: all, or that one, are taken */
    URO_HUB_NO_DESCRIPTOR, /* broker: it can open no more files */
    URO_HUB_SERVICES,      /* process: struct uro_listened[], what is listened for from now on */
    URO_HUB_DATAGRAM,      /* either way: from `from`, for whoever it names */
    URO_HUB_REPORT, /* either way: struct uro_hub_report, of something that was sent to `from` */
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
    uint32_t quoted_length;
    uint8_t quoted[URO_SOCK_QUOTED_MAX];
};

static inline struct uro_hub_report uro_hub_report_of(const struct uro_sock_report *report)
{
    struct uro_hub_report out = { .error = report->error,
                                  .info = report->info,
                                  .quoted_length = report->quoted_length };

    memcpy(out.quoted, report->quoted, sizeof out.quoted);
    return out;
}

/* Whose the packet is. */
static inline uint32_t uro_hub_share_of(const uint8_t *bth)
{
    return bth[URO_HUB_AT_QPN] >> (8 - URO_SHARE_BITS);
}

/* Where the broker of @address is met in that directory. Returns false when the name is too
 * long. */
static inline bool uro_hub_address(const struct uro_hub_directory *directory,
                                   const struct uro_gid *address, struct sockaddr_un *out)
{
    char path[URO_HUB_DIRECTORY_PATH_MAX];

    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    if (!uro_hub_directory_path(directory, "hub", address, "", path) ||
        strlen(path) >= sizeof out->sun_path)
        return false;
    memcpy(out->sun_path, path, strlen(path));
    return true;
}
