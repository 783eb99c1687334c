/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.h - the frames of an engine leave as datagrams; those that follow each other to one peer and
 * are of one length leave in one, which the kernel, or the card, cuts into packets. */
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/port.h"
#include "io/udp/recent_peers.h"
#include "io/udp/sock.h"

/* Frames handed over and not taken by the kernel yet, as one or more datagrams. */
struct uro_udp_tx {
    struct uro_sock *socks;
    uint32_t sock_count;
    uint8_t *memory;
    struct mmsghdr messages[URO_PORT_BURST];
    struct iovec octets[URO_PORT_BURST];
    union uro_sock_address to[URO_PORT_BURST];
    _Alignas(size_t) uint8_t control[URO_PORT_BURST][96];
    struct uro_sock *by[URO_PORT_BURST];
    uint32_t packets[URO_PORT_BURST]; /* in the datagram */
    uint32_t segment[URO_PORT_BURST]; /* octets of each but the last */
    uint8_t traffic_class[URO_PORT_BURST];
    uint8_t hop_limit[URO_PORT_BURST];
    uint8_t share[URO_PORT_BURST]; /* whose it may be, if the peer shares its address; see hub.h */
    uint32_t first;
    uint32_t count;
    uint64_t dropped;
    struct uro_recent_peers recent_peers; /* by sockets of shared addresses */
};

/* @socks stays the caller's. False when there is no memory. */
URO_NODISCARD bool uro_udp_tx_open(struct uro_udp_tx *tx, struct uro_sock *socks,
                                   uint32_t sock_count, uint32_t mtu);
void uro_udp_tx_close(struct uro_udp_tx *tx);

/* True when everything has left, so that a burst may follow. */
bool uro_udp_tx_flush(struct uro_udp_tx *tx);

/* At most URO_PORT_BURST frames, after uro_udp_tx_flush() was true. What is not RoCE is the
 * kernel's business and does not leave. */
void uro_udp_tx_send(struct uro_udp_tx *tx, const struct uro_tx *frames, uint32_t count);
