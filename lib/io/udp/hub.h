/* SPDX-License-Identifier: BSD-3-Clause */
/* hub.h - the protocol between the processes that share an address and the broker of the address,
 * `uroce hub`.
 *
 * The broker makes a socket for each QPN prefix, all on port 4791 of the address (SO_REUSEPORT). A
 * kernel filter chooses the socket of a packet by the upper bits of its destination QPN, the
 * prefix. The broker gives each process the socket of one prefix. So packets of most queue pairs do
 * not pass through the broker. The broker passes on only two kinds of packets: packets to queue
 * pair 1 (prefix 0), by service ID or communication ID, and datagrams that the kernel coalesced and
 * gave to the wrong process, by QPN.
 *
 * If an ICMP error reports an undelivered packet, the kernel gives the report to any of the
 * sockets. The process that reads the report sends it to the broker, which sends it to all other
 * processes. The broker itself reads the sockets that no process has.
 *
 * Processes connect to the broker at a Unix socket (SOCK_SEQPACKET) in a directory of the user
 * (below). Each side checks that the other side runs as the same user. A record is a header and a
 * body.
 */
#pragma once

#include <stddef.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "core/shard.h"
#include "engine/engine.h"
#include "io/udp/sock.h"
#include "wire/bth.h"
#include "wire/bytes.h"

#define URO_HUB_VERSION 2u
#define URO_HUB_RECORD  66000u /* largest body, in bytes */
#define URO_HUB_AT_QPN  5u     /* byte of the BTH with the upper 8 bits of the QPN */
static_assert(URO_PORT_SERVICES_MAX * sizeof(struct uro_listened) <= URO_HUB_RECORD,
              "all services of an address are one record");

enum uro_hub_kind {
    URO_HUB_HELLO,         /* process: requests `prefix` (0: any) */
    URO_HUB_WELCOME,       /* broker: grants `prefix`, with its socket attached */
    URO_HUB_FULL,          /* broker: no prefix is free, or the requested prefix is taken */
    URO_HUB_NO_DESCRIPTOR, /* broker: it has no file descriptor left */
    URO_HUB_SERVICES,      /* process: struct uro_listened[], all services it listens for */
    URO_HUB_DATAGRAM,      /* both sides: a datagram from address `from` */
    URO_HUB_REPORT,        /* both sides: struct uro_hub_report of a packet sent to `from` */
};

struct uro_hub_header {
    uint32_t version;
    uint32_t kind;
    uint32_t prefix;
    uint32_t traffic_class;
    union uro_sock_address from;
};

/* A report about an undelivered packet. The process that sent the packet is unknown, so the broker
 * passes the report on to all other processes. */
struct uro_hub_report {
    uint32_t error; /* errno, as in struct uro_sock_report */
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

/* Returns the QPN prefix that a packet is for. */
static inline uint32_t uro_hub_prefix_of(const uint8_t *bth)
{
    return bth[URO_HUB_AT_QPN] >> (8 - URO_QPN_PREFIX_BITS);
}

/* ---- the directory of the hub ------------------------------------------------ */

/* The processes of one user that share an address use this directory. It has the socket of the
 * broker, and a file for each service that a process listens for. Only the user can create or open
 * files in it, so no other user can take a name first or make a process wait. Names contain the
 * network namespace, because a UDP port belongs to a namespace, but a directory does not. */

#define URO_HUB_DIRECTORY_PLACES   4u
#define URO_HUB_DIRECTORY_PATH_MAX 192u

struct uro_hub_directory {
    char directory[64]; /* path; "": none */
    uint64_t net;       /* inode number of the calling thread's network namespace */
};

/* Examines the directory at place @number of URO_HUB_DIRECTORY_PLACES: below XDG_RUNTIME_DIR, below
 * /run/user, in /tmp or in /var/tmp. @make: creates the directory if it is missing. Returns 0, or
 *   -ENOENT  there is no directory, or its name is too long
 *   -EPERM   another user owns the directory or may write to it; @directory names it
 *   another -errno of the kernel */
URO_NODISCARD int uro_hub_directory_find(struct uro_hub_directory *directory, unsigned number,
                                         bool make);

/* Writes the path of the file @kind for @address. @suffix: "", or a suffix that makes the name
 * unique. Returns false when the path is too long. */
URO_NODISCARD bool uro_hub_directory_path(const struct uro_hub_directory *directory,
                                          const char *kind, const struct uro_gid *address,
                                          const char *suffix,
                                          char path[static URO_HUB_DIRECTORY_PATH_MAX]);

/* Creates the file and locks it until the descriptor is closed in all processes. Never waits.
 * Returns the descriptor, -EWOULDBLOCK when another process has the lock, or another -errno. */
URO_NODISCARD int uro_hub_directory_lock(const char *path, bool shared);

/* Removes the file of a lock that no other process shares, and releases the lock. */
void uro_hub_directory_unlock(int fd, const char *path);

/* Removes the files of processes that were killed. */
void uro_hub_directory_sweep(const struct uro_hub_directory *directory);

/* Writes the name of the Unix socket of @address's broker in that directory. Returns false when the
 * name is too long. */
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
