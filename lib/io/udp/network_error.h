/* SPDX-License-Identifier: BSD-3-Clause */
/* network_error.h - handles ICMP errors about undelivered packets. Keeps the error "port
 * unreachable" for the engine. Prints errors with verbose=yes. Prints a small MTU of a path once,
 * also without verbose=yes. The transport detects losses without these reports.
 *
 * The kernel does not examine the packet that an ICMP error quotes. On a shared address, the kernel
 * reports the error to any of the sockets. So each process sends its reports to the broker, and the
 * broker reads the sockets that no process has. A process prints only reports about destinations to
 * which it has sent packets.
 */
#pragma once

#include "io/udp/hub.h"
#include "io/udp/sock.h"
#include "wire/gid.h"

/* Maximum number of reports that wait for the engine. Such reports are about datagrams to hosts
 * where no process has the port. Further reports are dropped, because the connection manager
 * retransmits and gets another report. For other queue pairs, one report at a time is enough. */
#define URO_UNDELIVERED_MAX 8u
struct uro_undelivered {
    uint32_t count;
    struct uro_sock_report reports[URO_UNDELIVERED_MAX];
    const struct uro_sock *by[URO_UNDELIVERED_MAX];
};

/* Takes all reports at @sock. @tried is the destination of a send that the kernel refuses now, or
 * NULL. Returns the number of reports from the network. Reports of the local kernel do not
 * count. */
uint32_t uro_network_error_take(struct uro_sock *sock, const union uro_sock_address *tried);

/* Handles a report that the broker forwarded, in a record from the broker of @sock. */
void uro_network_error_receive(struct uro_sock *sock, const struct uro_hub_header *header,
                               uint32_t octets);

/* ---- recent destinations ----------------------------------------------- */

/* Recent destinations of a process. On a shared address a process gets reports about the packets of
 * all processes, and prints no reports about destinations that it does not use. */

#define URO_RECENT_PEERS_MAX 256u /* slots; a newer destination replaces an older one in its slot */

struct uro_recent_peers {
    struct uro_gid to[URO_RECENT_PEERS_MAX];
};

static inline uint32_t uro_recent_peers_slot(const struct uro_gid *to)
{
    uint64_t hash = uro_gid_hash(to);

    return (uint32_t)(hash ^ hash >> 32 ^ hash >> 56) % URO_RECENT_PEERS_MAX;
}

static inline void uro_recent_peers_note(struct uro_recent_peers *recent_peers,
                                         const struct uro_gid *to)
{
    struct uro_gid *slot = &recent_peers->to[uro_recent_peers_slot(to)];

    if (!uro_gid_equal(slot, to))
        *slot = *to;
}

static inline bool uro_recent_peers_has(const struct uro_recent_peers *recent_peers,
                                        const struct uro_gid *to)
{
    return uro_gid_equal(&recent_peers->to[uro_recent_peers_slot(to)], to);
}
