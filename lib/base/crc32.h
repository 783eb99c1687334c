/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32.h - CRC-32 (reflected 0xEDB88320, as zlib) kept as a register, alone or while copying.
 *
 * The functions carry the register: start with URO_CRC32_START, feed octets in any pieces, and
 * finish with uro_crc32_finish(). The fastest method the CPU offers is chosen once.
 */
#pragma once

#include "base/defs.h"

#define URO_CRC32_START 0xffffffffu

/* Feeds @length octets; returns the new register. */
uint32_t uro_crc32(uint32_t reg, const void *from, size_t length);

/* Copies @length octets from @from to @to, which do not overlap, and feeds exactly the octets
 * written, even when another thread changes @from meanwhile. Returns the new register. */
uint32_t uro_crc32_copy(uint32_t reg, void *restrict to, const void *restrict from, size_t length);

/* A string begins with @head_length octets that do not count as they stand but octet i as (octet |
 * ones[PAD + i]) ^ flip[PAD + i]; the register to start with is part of flip. Before PAD, ones and
 * flip are all ones, and behind the head all zeros. */
#define URO_CRC32_MASK_PAD 64u
#define URO_CRC32_MASK_MAX 112u
struct uro_crc32_mask {
    uint8_t ones[URO_CRC32_MASK_PAD + 128];
    uint8_t flip[URO_CRC32_MASK_PAD + 128];
};

/* Feeds such a head and the @length octets that follow it in memory. @head_length is a multiple of
 * 4, 16 to 64; 12 octets before @head can be read and do not count. */
uint32_t uro_crc32_masked(const struct uro_crc32_mask *mask, const uint8_t *head,
                          size_t head_length, size_t length);

/* Does the same, and copies @length octets from @from to @to, as uro_crc32_copy() does. The head of
 * at most MASK_MAX octets is not copied. */
uint32_t uro_crc32_masked_copy(const struct uro_crc32_mask *mask, const uint8_t *head,
                               size_t head_length, void *restrict to, const void *restrict from,
                               size_t length);

static inline uint32_t uro_crc32_finish(uint32_t reg)
{
    return ~reg;
}

/* Name of the method in use: "vpclmulqdq", "pclmulqdq", "table". */
const char *uro_crc32_method(void);

/* Makes every later call use the named method; false when this CPU lacks it. For tests and bench;
 * not thread safe. */
bool uro_crc32_use(const char *method);
