/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32_method.h - the interface of a method to compute the CRC. For the files crc32*.c only.
 *
 * Arithmetic, for all methods. A register or a byte string is a polynomial over GF(2); "reflected"
 * means that bit 0 of the first byte is the coefficient of the highest power. In the 32-bit
 * register bit i is the coefficient of x^(31-i). Feeding bytes M to register R gives (R added to
 * M's first four bytes) * x^32 mod P, with P = x^32 + ... = 0x104c11db7.
 */
#pragma once

#include <string.h>

#include "base/crc32.h"

struct uro_crc32_method {
    const char *name;
    uint32_t (*feed)(uint32_t reg, const uint8_t *from, size_t length);
    uint32_t (*copy)(uint32_t reg, uint8_t *restrict to, const uint8_t *restrict from,
                     size_t length);
    uint32_t (*masked)(const struct uro_crc32_mask *mask, const uint8_t *head, size_t head_length,
                       size_t length);
    uint32_t (*masked_copy)(const struct uro_crc32_mask *mask, const uint8_t *head,
                            size_t head_length, uint8_t *restrict to, const uint8_t *restrict from,
                            size_t length);
};

/* Feed, or copy and feed, the first bytes of a string of at least URO_CRC32_SPARSE_LEAST bytes.
 * Return the number of these bytes. */
#define URO_CRC32_SPARSE_LEAST 80u /* a call for a shorter string is not worthwhile */
size_t uro_crc32_sparse(uint32_t *reg, const uint8_t *from, size_t length);
size_t uro_crc32_sparse_copy(uint32_t *reg, uint8_t *restrict to, const uint8_t *restrict from,
                             size_t length);

/* The table method: uro_crc32_sparse(), then slicing by eight. It runs on every CPU. The methods of
 * x86 use its feed and copy for less than 16 bytes. */
extern const struct uro_crc32_method uro_crc32_table;

/* Loads bytes from memory that another thread may be writing. The empty statement keeps the value
 * in a register: the compiler may not read the memory a second time. */
static inline uint64_t uro_crc32_load_8(const uint8_t *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof value);
    __asm__("" : "+r"(value));
    return value;
}

static inline uint32_t uro_crc32_load_4(const uint8_t *from)
{
    uint32_t value;

    memcpy(&value, from, sizeof value);
    __asm__("" : "+r"(value));
    return value;
}

static inline uint8_t uro_crc32_load_1(const uint8_t *from)
{
    uint8_t value = *from;

    __asm__("" : "+r"(value));
    return value;
}

/* Returns loaded bytes in an order where the first byte is the lowest, for any byte order of the
 * machine. */
static inline uint32_t uro_crc32_first_lowest_4(uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = v >> 24 | (v >> 8 & 0xff00) | (v & 0xff00) << 8 | v << 24;
#endif
    return v;
}

static inline uint64_t uro_crc32_first_lowest_8(uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = (uint64_t)uro_crc32_first_lowest_4((uint32_t)v) << 32 |
        uro_crc32_first_lowest_4((uint32_t)(v >> 32));
#endif
    return v;
}

/* Return the @nth best method of this CPU besides the table method, counted from 0. Return NULL
 * when there are no more methods, or when the CPU is of another kind. */
const struct uro_crc32_method *uro_crc32_x86_method(unsigned nth);
const struct uro_crc32_method *uro_crc32_arm64_method(unsigned nth);
