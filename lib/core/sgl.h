/* SPDX-License-Identifier: BSD-3-Clause */
/* sgl.h - access to registered memory: scatter/gather lists, and copies during which memory may be
 * unmapped.
 *
 * The functions on a list check each element by its key. uro_touch_*() access memory after its key
 * was checked. At that time the memory was present, but the program may unmap the memory of an
 * on-demand region later. Such memory is accessed through uro_shard.attempt, which stops at a
 * missing page. It is copied before it is sent, because a port could not report a missing page.
 * While no region is on demand, this costs one comparison.
 */
#pragma once

#include "core/limits.h"
#include "core/tx.h"
#include "core/work.h"

struct uro_shard;

/* ---- scatter/gather lists --------------------------------------------------- */

struct uro_sgl {
    const struct uro_sge *elements;
    uint32_t count;
    uint32_t pd;
};

/* Returns whether every element may be used with the rights in @access. */
bool uro_sgl_usable(const struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t access);

/* Describes [offset, offset + length) of the list as spans of @tx. The list must be long enough.
 * Returns false when the key of an element does not allow reading, or its memory is missing. */
bool uro_sgl_gather(struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t offset,
                    uint32_t length, struct uro_tx *tx);

/* Copies @length bytes to [offset, ...) of the list, in ascending order. The list must be long
 * enough. Returns false when the key of an element does not allow writing, or its memory is
 * missing. The bytes before that element are then written, and perhaps a part of its bytes. */
bool uro_sgl_scatter(const struct uro_shard *shard, const struct uro_sgl *sgl, uint32_t offset,
                     const uint8_t *from, uint32_t length);

/* ---- memory of one key ------------------------------------------------------ */

/* Maximum number of frames in one output whose payload may be copied. */
#define URO_TOUCH_FRAMES 64u

/* Returns the number of bytes of memory for the copies. */
static inline size_t uro_touch_size(void)
{
    return (size_t)URO_TOUCH_FRAMES * URO_PATH_MTU_MAX;
}

/* Runs @touch, in which only accesses to the @length bytes at @memory may fault. Returns false when
 * @touch was stopped because bytes are missing or protected. Without such a function in
 * uro_shard.attempt, no registered memory may fault. */
typedef bool uro_touch_attempt(void (*touch)(void *argument), void *argument, const uint8_t *memory,
                               size_t length);

/* Copies into the memory of key @number, in ascending order. Returns false when the memory is
 * missing; a part may have been written. */
URO_NODISCARD bool uro_touch_write(const struct uro_shard *shard, uint32_t number, uint8_t *to,
                                   const uint8_t *from, uint32_t length);

/* Returns the address at which the bytes at @memory, of key @number, can be read until the next
 * output: @memory or a copy. Returns NULL when the memory is missing. */
URO_NODISCARD const uint8_t *uro_touch_read(struct uro_shard *shard, uint32_t number,
                                            const uint8_t *memory, uint32_t length);

/* Runs @touch on the 8 bytes at @memory, of key @number. Returns false when the memory is
 * missing. */
URO_NODISCARD bool uro_touch_word(const struct uro_shard *shard, uint32_t number,
                                  void (*touch)(void *argument), void *argument,
                                  const uint8_t *memory);
