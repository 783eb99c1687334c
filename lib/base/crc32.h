/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32.h - computes CRC-32 (reflected 0xEDB88320, as zlib), also while copying.
 *
 * The functions take and return the register: start with URO_CRC32_START, feed bytes in pieces of
 * any size, and finish with uro_crc32_finish(). The first call chooses the fastest method of the
 * CPU.
 */
#pragma once

#include "base/defs.h"

#define URO_CRC32_START 0xffffffffu

/* Feeds @length bytes. Returns the new register. */
uint32_t uro_crc32(uint32_t reg, const void *from, size_t length);

/* Copies @length bytes from @from to @to, which do not overlap. Feeds exactly the bytes that are
 * written to @to, even if another thread changes @from at the same time. Returns the new
 * register. */
uint32_t uro_crc32_copy(uint32_t reg, void *restrict to, const void *restrict from, size_t length);

/* Masks for the head of a string, its first @head_length bytes. Byte i of the head is fed as (byte
 * | ones[PAD + i]) ^ flip[PAD + i]. The initial register is part of flip. Before PAD, ones and flip
 * are all ones. Behind the head they are all zeros. */
#define URO_CRC32_MASK_PAD 64u
#define URO_CRC32_MASK_MAX 112u
struct uro_crc32_mask {
    uint8_t ones[URO_CRC32_MASK_PAD + 128];
    uint8_t flip[URO_CRC32_MASK_PAD + 128];
};

/* Feeds a masked head and the @length bytes that follow it in memory. @head_length is a multiple of
 * 4, from 16 to 64. No other byte is read. */
uint32_t uro_crc32_masked(const struct uro_crc32_mask *mask, const uint8_t *head,
                          size_t head_length, size_t length);

/* Feeds a masked head of at most MASK_MAX bytes, which is not copied. Then copies and feeds @length
 * bytes from @from to @to, as uro_crc32_copy() does. */
uint32_t uro_crc32_masked_copy(const struct uro_crc32_mask *mask, const uint8_t *head,
                               size_t head_length, void *restrict to, const void *restrict from,
                               size_t length);

static inline uint32_t uro_crc32_finish(uint32_t reg)
{
    return ~reg;
}

/* Returns the name of the method in use: "vpclmulqdq" or "pclmulqdq" on x86-64, "pmull" or
 * "armv8-crc32" on arm64, "table" on any processor. */
const char *uro_crc32_method(void);

/* Makes every later call use the named method. Returns false when this CPU lacks it. For tests and
 * bench. Not thread safe. */
bool uro_crc32_use(const char *method);
