/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.c - writes the bytes of a described frame. */
#include "core/tx.h"

#include <string.h>

#include "base/mark.h"
#include "wire/bytes.h"
#include "wire/icrc.h"

#define AT_IPV4_IDENT 4u

static const uint8_t zeros[4];

static void write_plain(const struct uro_tx *tx, uint8_t *out)
{
    memcpy(out, tx->head, tx->head_length);
    out += tx->head_length;
    for (uint16_t i = 0; i < tx->span_count; i++) {
        memcpy(out, tx->spans[i].data, tx->spans[i].length);
        out += tx->spans[i].length;
    }
    memset(out, 0, tx->pad_count);
}

/* Writes the payload, the padding and the ICRC behind the headers @head, which are written already.
 */
static void write_summed(const struct uro_tx *tx, const uint8_t *head, uint8_t *out)
{
    const struct uro_span none = { zeros, 0 }, *first = tx->span_count > 0 ? &tx->spans[0] : &none;
    uint32_t crc =
        uro_crc32_masked_copy(uro_icrc_mask(tx->icrc_v6), head + tx->network_at,
                              tx->head_length - tx->network_at, out, first->data, first->length);

    URO_MARK("TX.COPY");
    out += first->length;
    for (uint16_t i = 1; i < tx->span_count; i++) {
        crc = uro_crc32_copy(crc, out, tx->spans[i].data, tx->spans[i].length);
        out += tx->spans[i].length;
    }
    if (tx->pad_count > 0) {
        crc = uro_crc32_copy(crc, out, zeros, tx->pad_count);
        out += tx->pad_count;
    }
    if (tx->icrc_doubled) {
        uint32_t bth = tx->network_at + (tx->icrc_v6 ? URO_IPV6_LEN : URO_IPV4_LEN) + URO_UDP_LEN;
        crc = uro_crc32(crc, head + bth, tx->head_length - bth);
    }
    URO_MARK("ICRC.ORDER");
    uro_put_le32(out, uro_crc32_finish(crc) ^ tx->icrc_wrong);
}

void uro_tx_write(const struct uro_tx *tx, uint8_t *out)
{
    if (!tx->icrc) {
        write_plain(tx, out);
        return;
    }
    memcpy(out, tx->head, tx->head_length);
    write_summed(tx, tx->head, out + tx->head_length);
}

void uro_tx_write_from(const struct uro_tx *tx, uint32_t skip, uint16_t ident, uint8_t *out)
{
    uint8_t head[URO_TX_HEAD_MAX];

    memcpy(out, tx->head + skip, tx->head_length - skip);
    out += tx->head_length - skip;
    if (ident == 0) {
        write_summed(tx, tx->head, out);
        return;
    }
    memcpy(head, tx->head, sizeof head);
    uro_put_be16(head + tx->network_at + AT_IPV4_IDENT, ident);
    write_summed(tx, head, out);
}
