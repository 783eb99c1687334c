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

static inline uint32_t uro_crc32_finish(uint32_t reg)
{
    return ~reg;
}

/* Name of the method in use: "vpclmulqdq", "pclmulqdq", "table". */
const char *uro_crc32_method(void);

/* Makes every later call use the named method; false when this CPU lacks it. For tests and bench;
 * not thread safe. */
bool uro_crc32_use(const char *method);
