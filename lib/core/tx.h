/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.h - a frame to send: header octets we own, payload that is somebody else's memory.
 *
 * The engine describes, the port writes: uro_tx_write() copies the payload into the port's own
 * buffer and sums the ICRC of exactly the octets it copied, in one pass. A uro_tx is valid only
 * inside the round that made it, while the memory its spans name is known to be registered.
 */
#pragma once

#include "base/defs.h"

#define URO_TX_HEAD_MAX  128u
#define URO_TX_SPANS_MAX 33u /* 32 scatter/gather elements, and one for a split at its end */

/* Where a frame goes. */
enum uro_tx_way {
    URO_TX_WIRE,
    URO_TX_LOCAL,   /* to an address of our own: the engine delivers it itself */
    URO_TX_BOTH,    /* multicast */
    URO_TX_NOWHERE, /* the next hop does not answer: counted, not sent */
};

struct uro_span {
    const uint8_t *at;
    uint32_t length;
};

struct uro_tx {
    enum uro_tx_way way;
    uint16_t head_length;    /* Ethernet header up to the last extension header */
    uint8_t pad_count;       /* zero octets after the payload, 0..3 */
    bool icrc;               /* an ICRC follows; false for ARP, ND and ICMP */
    bool icrc_v6;            /* of a packet over IPv6 */
    bool icrc_doubled;       /* what follows the UDP header counts twice; no payload then */
    uint8_t network_at;      /* the IP header in head; when icrc */
    uint32_t payload_length; /* sum of the spans */
    uint16_t span_count;
    struct uro_span spans[URO_TX_SPANS_MAX];
    _Alignas(16) uint8_t head[URO_TX_HEAD_MAX];
};

/* Octets of the whole frame. */
static inline uint32_t uro_tx_length(const struct uro_tx *tx)
{
    return tx->head_length + tx->payload_length + tx->pad_count + (tx->icrc ? 4u : 0u);
}

/* Writes the whole frame, uro_tx_length() octets. */
void uro_tx_write(const struct uro_tx *tx, uint8_t *out);

/* Writes it without its first @skip octets, which are the headers up to UDP, and with the ICRC of a
 * packet with the IPv4 identification @ident; 0 with IPv6. Only when icrc. */
void uro_tx_write_from(const struct uro_tx *tx, uint32_t skip, uint16_t ident, uint8_t *out);
