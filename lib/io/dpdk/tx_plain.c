/* SPDX-License-Identifier: BSD-3-Clause */
/* tx_plain.c - writes frames that have no ICRC, until lib/core has the whole uro_tx_write(). */
#include <string.h>

#include "core/tx.h"

void uro_tx_write(const struct uro_tx *tx, uint8_t *out)
{
    memcpy(out, tx->head, tx->head_length);
    out += tx->head_length;
    for (uint16_t i = 0; i < tx->span_count; i++) {
        memcpy(out, tx->spans[i].at, tx->spans[i].length);
        out += tx->spans[i].length;
    }
    memset(out, 0, tx->pad_count + (tx->icrc ? 4u : 0u));
}
