/* SPDX-License-Identifier: BSD-3-Clause */
/* touch.h - copies to and from registered memory, of which an on-demand region may vanish during the copy.
 *
 * The key was checked before, and that its memory is there. For ordinary memory nothing is added but a look at one
 * number. On-demand memory is touched by an attempt that ends where the memory ends (uro_shard.attempt), and is
 * copied before it is sent, because a port could not say that it met a hole.
 */
#pragma once

#include "base/defs.h"
#include "core/limits.h"

struct uro_shard;

/* Frames of one output whose payload may be copied. */
#define URO_TOUCH_FRAMES 64u

/* Returns the bytes of memory for the copies. */
static inline size_t uro_touch_size(void)
{
    return (size_t)URO_TOUCH_FRAMES * URO_PATH_MTU_MAX;
}

/* Runs @touch, which touches nothing that may fault but the @length octets @at. Returns false when it was cut short
 * because they are not there or may not be touched so. Without this function nothing faults. */
typedef bool uro_touch_attempt(void (*touch)(void *argument), void *argument, const uint8_t *at,
                               size_t length);

/* Copies into the memory of key @number, in ascending order. False when it is gone; a part may have been written. */
URO_NODISCARD bool uro_touch_write(const struct uro_shard *shard, uint32_t number, uint8_t *to,
                                   const uint8_t *from, uint32_t length);

/* The octets @at of key @number where they can be read until the next output: there or in a copy. NULL when they are
 * gone. */
URO_NODISCARD const uint8_t *uro_touch_read(struct uro_shard *shard, uint32_t number,
                                            const uint8_t *at, uint32_t length);

/* Runs @touch of the 8 octets @at of key @number. False when they are gone. */
URO_NODISCARD bool uro_touch_word(const struct uro_shard *shard, uint32_t number,
                                  void (*touch)(void *argument), void *argument, const uint8_t *at);
