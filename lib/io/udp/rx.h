/* SPDX-License-Identifier: BSD-3-Clause */
/* rx.h - converts received datagrams to the frames that an engine reads.
 *
 * The kernel may coalesce consecutive packets of one size (UDP GRO). The kernel writes such a
 * message into slots of the size of most packets. Each slot has space for headers before it, so
 * most payload is not copied again. The first and the last packet of an RDMA message may have other
 * sizes. While no packets are coalesced, a datagram has one slot.
 *
 * Over IPv4, a socket does not show the identification, which the ICRC covers. The pattern of uroce
 * is known (ip_id.h). For another sender, the identification is computed from the ICRC, and the raw
 * tap shows whether the packet had this identification. Without a raw tap, only 15 of the 32 bits
 * of protection remain, and a sender that has followed uroce's pattern for long must keep to it.
 */
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/port.h"
#include "io/udp/ip_id.h"
#include "io/udp/sock.h"

#define URO_RX_MESSAGES 8u  /* maximum number of messages that one call receives */
#define URO_RX_SEGMENTS 64u /* maximum number of packets in a message */
#define URO_RX_SOURCES  256u

/* The identification history of a sender. */
struct uro_rx_source {
    struct uro_gid address;
    struct uro_ip_id_history habit;
};

struct uro_undelivered;

struct uro_rx {
    struct uro_mac mac;         /* MAC address of the port, the destination of frames */
    const struct uro_sock *own; /* sockets of the port's addresses */
    uint32_t own_count;
    enum uro_ip_id_rule idents;
    bool many;         /* request several messages: the last call filled all, or the port slept */
    uint32_t slot;     /* payload of a slot, in bytes */
    uint32_t fitted;   /* bytes in slots of the right size, minus bytes in slots of a wrong size */
    uint32_t unjoined; /* calls since a message with several packets */
    uint8_t *memory;   /* a region for each message */
    uint8_t *spare;    /* buffer to rearrange a region */
    uint64_t moved;    /* bytes that were moved, for tests */
    struct mmsghdr messages[URO_RX_MESSAGES];
    struct iovec slots[URO_RX_MESSAGES][URO_RX_SEGMENTS];
    union uro_sock_address from[URO_RX_MESSAGES];
    _Alignas(size_t) uint8_t control[URO_RX_MESSAGES][96];
    struct uro_pkt frames[URO_RX_MESSAGES * URO_RX_SEGMENTS]; /* not yet lent: [first, count) */
    uint32_t first;
    uint32_t count;
    struct uro_rx_source sources[URO_RX_SOURCES];
};

/* Allocates the buffers. @own has the sockets of the port's addresses, and belongs to the caller.
 * Returns false if there is no memory. */
URO_NODISCARD bool uro_rx_open(struct uro_rx *rx, const struct uro_mac *mac,
                               const struct uro_sock *own, uint32_t own_count,
                               enum uro_ip_id_rule idents);
void uro_rx_close(struct uro_rx *rx);

/* Receives from @sock, if all earlier frames have been lent. Returns false if there are ICMP
 * errors. The kernel returns such an error from the next call on the socket, and keeps the reports
 * for uro_network_error_take(). */
bool uro_rx_take(struct uro_rx *rx, const struct uro_sock *sock);

/* Receives the records of the broker of a shared address, if all earlier frames have been lent.
 * Makes frames of the datagrams, and handles the reports. Returns false if the broker has ended. */
URO_NODISCARD bool uro_rx_take_passed(struct uro_rx *rx, struct uro_sock *sock);

/* Makes ICMP frames from the reports @undelivered, if all earlier frames have been lent. */
void uro_rx_take_undelivered(struct uro_rx *rx, struct uro_undelivered *undelivered);

/* Lends at most @max frames until the next uro_rx_take...(). Returns their number. */
uint32_t uro_rx_lend(struct uro_rx *rx, struct uro_pkt *pkts, uint32_t max);
