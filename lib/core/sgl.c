/* SPDX-License-Identifier: BSD-3-Clause */
/* sgl.c - accesses the memory of scatter/gather lists, and memory that may be missing. */
#include "core/sgl.h"

#include <string.h>

#include "base/copy.h"
#include "base/mark.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/shard.h"

/* A part of one element in the range [offset, offset + length). */
struct piece {
    const struct uro_sge *element;
    uint32_t skip;
    uint32_t length;
};

/* Moves to the next piece. Returns false when @left is 0. */
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
        const uint8_t *memory = resolve(shard, sgl, &piece, 0);
        if (memory != NULL)
            memory = uro_touch_read(shard, piece.element->lkey, memory, piece.length);
        if (memory == NULL)
            return false;
        tx->spans[tx->span_count++] = (struct uro_span){ .data = memory, .length = piece.length };
    }
    return true;
}

bool uro_sgl_scatter(const struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t offset,
                     const uint8_t *from, uint32_t length)
{
    struct piece piece = { 0 };

    while (next_piece(sgl, &piece, &offset, &length)) {
        uint8_t *memory = resolve(shard, sgl, &piece, URO_ACCESS_LOCAL_WRITE);
        if (memory == NULL ||
            !uro_touch_write(shard, piece.element->lkey, memory, from, piece.length))
            return false;
        from += piece.length;
    }
    return true;
}

/* ---- memory of one key -------------------------------------------------------- */

#define WORD 8u

static bool may_fault(const struct uro_shard *shard, uint32_t number)
{
    return shard->keys->on_demand > 0 && shard->attempt != NULL && uro_key_may_fault(shard, number);
}

struct copy {
    uint8_t *to;
    const uint8_t *from;
    uint32_t length;
};

static void copy_in_order(void *argument)
{
    const struct copy *copy = argument;

    uro_copy_in_order(copy->to, copy->from, copy->length);
}

/* Runs @touch on memory that may be missing. Returns false when @touch was stopped. */
static bool attempt(const struct uro_shard *shard, void (*touch)(void *argument), void *argument,
                    const uint8_t *memory, uint32_t length)
{
    if (shard->attempt(touch, argument, memory, length))
        return true;
    URO_MARK("KEY.VANISHED");
    return false;
}

bool uro_touch_write(const struct uro_shard *shard, uint32_t number, uint8_t *to,
                     const uint8_t *from, uint32_t length)
{
    struct copy copy = { to, from, length };

    if (may_fault(shard, number))
        return attempt(shard, copy_in_order, &copy, to, length);
    uro_copy_in_order(to, from, length);
    return true;
}

/* Returns memory for a copy of @length bytes. The memory is a ring: the copies of the last output
 * are not needed any more. */
static uint8_t *reserve_copy(struct uro_shard *shard, uint32_t length)
{
    if (length > uro_touch_size() - shard->copied)
        shard->copied = 0;
    uint8_t *slot = shard->copies + shard->copied;
    shard->copied += length;
    return slot;
}

const uint8_t *uro_touch_read(struct uro_shard *shard, uint32_t number, const uint8_t *memory,
                              uint32_t length)
{
    if (!may_fault(shard, number))
        return memory;
    struct copy copy = { reserve_copy(shard, length), memory, length };
    return attempt(shard, copy_in_order, &copy, memory, length) ? copy.to : NULL;
}

bool uro_touch_word(const struct uro_shard *shard, uint32_t number, void (*touch)(void *argument),
                    void *argument, const uint8_t *memory)
{
    if (may_fault(shard, number))
        return attempt(shard, touch, argument, memory, WORD);
    touch(argument);
    return true;
}
