/* SPDX-License-Identifier: BSD-3-Clause */
/* sgl.h - octets of a message in scatter/gather lists, each element checked by its key. */
#pragma once

#include "core/tx.h"
#include "core/work.h"

struct uro_shard;

struct uro_sgl {
    const struct uro_sge *elements;
    uint32_t count;
    uint32_t pd;
};

/* Every element may be used with the rights in @access. */
bool uro_sgl_usable(const struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t access);

/* Names [offset, offset + length) of the list, which is at least that long, as spans of @tx. False
 * when an element may not be read by its key. */
bool uro_sgl_gather(struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t offset,
                    uint32_t length, struct uro_tx *tx);

/* Copies @length octets to [offset, ...) of the list, which is long enough, in ascending order.
 * False when an element may not be written by its key; what lies before it is then written. */
bool uro_sgl_scatter(const struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t offset,
                     const uint8_t *from, uint32_t length);
