/* SPDX-License-Identifier: BSD-3-Clause */
/* sgl.c - walks over scatter/gather lists. */
#include "core/sgl.h"

#include "base/mark.h"
#include "core/key.h"
#include "core/shard.h"
#include "core/touch.h"

/* A piece of one element that a walk over [offset, offset + length) comes to. */
struct piece {
    const struct uro_sge *element;
    uint32_t skip;
    uint32_t length;
};

/* Moves to the next piece; false when @left is 0. */
static bool next_piece(const struct uro_sgl *sgl, struct piece *piece, uint32_t *offset,
                       uint32_t *left)
{
    const struct uro_sge *element = piece->element == NULL ? sgl->elements : piece->element + 1;

    if (*left == 0)
        return false;
    for (;; element++) {
        URO_ASSERT(element < sgl->elements + sgl->count);
        if (*offset < element->length)
            break;
        *offset -= element->length;
    }
    uint32_t there = element->length - *offset;
    *piece = (struct piece){ element, *offset, there < *left ? there : *left };
    *offset = 0;
    *left -= piece->length;
    return true;
}

static uint8_t *resolve(const struct uro_shard *shard, const struct uro_sgl *sgl,
                        const struct piece *piece, uint32_t access)
{
    return uro_key_local(shard, piece->element->lkey, sgl->pd, access,
                         piece->element->address + piece->skip, piece->length);
}

bool uro_sgl_usable(const struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t access)
{
    for (uint32_t i = 0; i < sgl->count; i++) {
        const struct uro_sge *element = &sgl->elements[i];
        if (element->length > 0 && uro_key_local(shard, element->lkey, sgl->pd, access,
                                                 element->address, element->length) == NULL)
            return false;
    }
    return true;
}

bool uro_sgl_gather(struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t offset,
                    uint32_t length, struct uro_tx *tx)
{
    struct piece piece = { 0 };
    uint32_t left = length;

    URO_MARK("SGE.SUM");
    tx->payload_length = length;
    tx->span_count = 0;
    while (next_piece(sgl, &piece, &offset, &left)) {
        const uint8_t *at = resolve(shard, sgl, &piece, 0);
        if (at != NULL)
            at = uro_touch_read(shard, piece.element->lkey, at, piece.length);
        if (at == NULL)
            return false;
        tx->spans[tx->span_count++] = (struct uro_span){ .at = at, .length = piece.length };
    }
    return true;
}

bool uro_sgl_scatter(const struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t offset,
                     const uint8_t *from, uint32_t length)
{
    struct piece piece = { 0 };

    while (next_piece(sgl, &piece, &offset, &length)) {
        uint8_t *at = resolve(shard, sgl, &piece, URO_ACCESS_LOCAL_WRITE);
        if (at == NULL || !uro_touch_write(shard, piece.element->lkey, at, from, piece.length))
            return false;
        from += piece.length;
    }
    return true;
}
