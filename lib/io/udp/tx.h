/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.h - sends the frames of an engine as datagrams. Consecutive frames of one length to one peer
 * are sent by one call. The kernel or the NIC segments the datagram into packets. */
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/port.h"
#include "io/udp/network_error.h"
#include "io/udp/sock.h"

/* Frames that the kernel has not accepted yet, as one or more datagrams. */
struct uro_udp_tx {
    struct uro_sock *socks;
    uint32_t sock_count;
    uint8_t *memory;
    struct mmsghdr messages[URO_PORT_BURST];
    struct iovec octets[URO_PORT_BURST];
    union uro_sock_address to[URO_PORT_BURST];
    _Alignas(size_t) uint8_t control[URO_PORT_BURST][96];
    struct uro_sock *by[URO_PORT_BURST];
    uint32_t packets[URO_PORT_BURST]; /* number of packets in the datagram */
    uint32_t segment[URO_PORT_BURST]; /* length of each packet but the last, bytes */
    uint8_t traffic_class[URO_PORT_BURST];
    uint8_t hop_limit[URO_PORT_BURST];
    uint8_t prefix
        [URO_PORT_BURST]; /* QPN prefix of the destination, if the peer shares its address; hub.h */
    uint32_t first;
    uint32_t count;
    uint64_t dropped;
    struct uro_recent_peers recent_peers; /* recent destinations of packets from shared addresses */
};

/* Allocates the buffers. @socks remains property of the caller. Returns false when there is no
 * memory. */
URO_NODISCARD bool uro_udp_tx_open(struct uro_udp_tx *tx, struct uro_sock *socks,
                                   uint32_t sock_count, uint32_t mtu);
void uro_udp_tx_close(struct uro_udp_tx *tx);

/* Sends the pending datagrams. Returns true when all have left, so that a burst may follow. */
bool uro_udp_tx_flush(struct uro_udp_tx *tx);

/* Sends at most URO_PORT_BURST frames, after uro_udp_tx_flush() returned true. Drops frames that
 * are not RoCE, because the kernel itself sends all other protocols. */
void uro_udp_tx_send(struct uro_udp_tx *tx, const struct uro_tx *frames, uint32_t count);
