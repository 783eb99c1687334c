/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.h - the description of a frame to send: the headers, and spans of registered memory as
 * payload.
 *
 * The engine describes frames, and the port writes them: uro_tx_write() copies the payload into the
 * buffer of the port and computes the ICRC of exactly the bytes it copied, in one pass. A uro_tx is
 * valid only inside the round that made it, while the memory of its spans is known to be
 * registered.
 */
#pragma once

#include "base/defs.h"

#define URO_TX_HEAD_MAX  128u
#define URO_TX_SPANS_MAX 33u /* more than the scatter/gather elements of a request */

/* The destination of a frame. */
enum uro_tx_way {
    URO_TX_WIRE,
    URO_TX_LOCAL,   /* an address of our own: the engine delivers the frame itself */
    URO_TX_SHARED,  /* an address of our own, for another engine or process with this address */
    URO_TX_BOTH,    /* multicast */
    URO_TX_NOWHERE, /* the next hop does not answer: counted, not sent */
};

struct uro_span {
    const uint8_t *data;
    uint32_t length;
};

struct uro_tx {
    enum uro_tx_way way;
    uint16_t head_length; /* Ethernet header up to the last extension header */
    uint8_t pad_count;    /* zero bytes after the payload, 0..3 */
    bool icrc;            /* an ICRC follows; false for frames other than RoCE */
    bool icrc_v6;         /* the ICRC is of a packet over IPv6 */
    /* the ICRC covers the bytes behind the UDP header twice; only without payload */
    bool icrc_doubled;
    uint8_t network_at;      /* offset of the IP header in head; valid with icrc */
    uint32_t icrc_wrong;     /* bits of the ICRC that are wrong on purpose; valid with icrc */
    uint32_t payload_length; /* sum of the spans */
    uint16_t span_count;
    struct uro_span spans[URO_TX_SPANS_MAX];
    _Alignas(16) uint8_t head[URO_TX_HEAD_MAX];
};

/* Returns the length of the whole frame in bytes. */
static inline uint32_t uro_tx_length(const struct uro_tx *tx)
{
    return tx->head_length + tx->payload_length + tx->pad_count + (tx->icrc ? 4u : 0u);
}

/* Writes the whole frame, uro_tx_length() bytes. */
void uro_tx_write(const struct uro_tx *tx, uint8_t *out);

/* Writes the frame without its first @skip bytes, which are the headers up to UDP. The ICRC is that
 * of a packet with the IPv4 identification @ident; 0 with IPv6. Only for frames with icrc. */
void uro_tx_write_from(const struct uro_tx *tx, uint32_t skip, uint16_t ident, uint8_t *out);
