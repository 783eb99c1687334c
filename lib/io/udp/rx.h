/* SPDX-License-Identifier: BSD-3-Clause */
/* rx.h - datagrams become the frames that an engine reads.
 *
 * The kernel may join packets of one size that came one after the other; they are scattered into
 * slots of the size that most of them have, with room for headers before each, so that these are
 * not copied twice. The first and the last packet of a message have other sizes and come alone, or
 * the last with the next first. While nothing is joined, a message is one slot.
 *
 * IPv4: a socket does not see the identification, which the ICRC covers. Ours is known (ip_id.h); a
 * foreign sender's is worked out, and a raw tap asked whether it came with that. Without one 15 of
 * the 32 bits of protection are left, and a sender that never needed it is not granted it any more.
 */
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/port.h"
#include "io/udp/ip_id.h"
#include "io/udp/sock.h"

#define URO_RX_MESSAGES 8u  /* taken by one call */
#define URO_RX_SEGMENTS 64u /* packets in one of them, at most */
#define URO_RX_SOURCES  256u

/* What the ICRCs of a sender have been like. */
struct uro_rx_source {
    struct uro_gid address;
    struct uro_ip_id_history habit;
};

struct uro_undelivered;

struct uro_rx {
    struct uro_mac mac; /* ours: where frames go */
    const struct uro_sock *own;
    uint32_t own_count;
    enum uro_ip_id_rule idents;
    bool many;     /* the last call brought all that it could */
    uint32_t slot; /* octets of payload a slot holds */
    uint32_t
        fitted; /* octets of several packets in slots of their size, less those that were not */
    uint32_t unjoined; /* calls since a message was of several packets */
    uint8_t *memory;   /* a region for each message */
    uint8_t *spare;    /* to lay out a region anew */
    uint64_t moved;    /* octets that did not come to lie where they belong; tests look at it */
    struct mmsghdr messages[URO_RX_MESSAGES];
    struct iovec slots[URO_RX_MESSAGES][URO_RX_SEGMENTS];
    union uro_sock_address from[URO_RX_MESSAGES];
    _Alignas(size_t) uint8_t control[URO_RX_MESSAGES][96];
    struct uro_pkt frames[URO_RX_MESSAGES * URO_RX_SEGMENTS]; /* not yet lent: [first, count) */
    uint32_t first;
    uint32_t count;
    struct uro_rx_source sources[URO_RX_SOURCES];
};

/* The sockets of our addresses, @own, stay the caller's. False when there is no memory. */
URO_NODISCARD bool uro_rx_open(struct uro_rx *rx, const struct uro_mac *mac,
                               const struct uro_sock *own, uint32_t own_count,
                               enum uro_ip_id_rule idents);
void uro_rx_close(struct uro_rx *rx);

/* Takes what waits at @sock when everything taken earlier was lent. False when the network reported
 * errors: the kernel says so once, to whoever calls it next, and keeps the reports
 * (uro_network_error_take()). */
bool uro_rx_take(struct uro_rx *rx, const struct uro_sock *sock);

/* Likewise what the broker of a shared address passes on; reports among it are told. False when the
 * broker is gone. */
URO_NODISCARD bool uro_rx_take_passed(struct uro_rx *rx, struct uro_sock *sock);

/* Makes frames of ICMP of these, when everything taken earlier was lent. */
void uro_rx_take_undelivered(struct uro_rx *rx, struct uro_undelivered *undelivered);

/* At most @room frames; they are lent until the next uro_rx_take(). */
uint32_t uro_rx_lend(struct uro_rx *rx, struct uro_pkt *pkts, uint32_t room);
