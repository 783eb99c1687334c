/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.c - turns the description of a frame into its octets. */
#include "core/tx.h"

#include <string.h>

#include "base/crc32.h"
#include "wire/bytes.h"

static const uint8_t zeros[4];

static void write_plain(const struct uro_tx *tx, uint8_t *out)
{
    memcpy(out, tx->head, tx->head_length);
    out += tx->head_length;
    for (uint16_t i = 0; i < tx->span_count; i++) {
        memcpy(out, tx->spans[i].at, tx->spans[i].length);
        out += tx->spans[i].length;
    }
    memset(out, 0, tx->pad_count);
}

void uro_tx_write(const struct uro_tx *tx, uint8_t *out)
{
    if (tx->icrc)
        uro_tx_write_from(tx, 0, tx->crc, out);
    else
        write_plain(tx, out);
}

/* rule TX.COPY, ICRC.ORDER */
void uro_tx_write_from(const struct uro_tx *tx, uint32_t skip, uint32_t crc, uint8_t *out)
{
    memcpy(out, tx->head + skip, tx->head_length - skip);
    out += tx->head_length - skip;
    for (uint16_t i = 0; i < tx->span_count; i++) {
        crc = uro_crc32_copy(crc, out, tx->spans[i].at, tx->spans[i].length);
        out += tx->spans[i].length;
    }
    if (tx->pad_count > 0) {
        crc = uro_crc32_copy(crc, out, zeros, tx->pad_count);
        out += tx->pad_count;
    }
    uro_put_le32(out, uro_crc32_finish(crc));
}
