/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32_sparse.c - shortens strings without a table, for CPUs that cannot multiply polynomials.
 *
 * P, the polynomial of the CRC, divides Q = x^300 + x^155 + x^117 + x^89 + 1. Q is the only
 * multiple of P with five terms, a term 1 and a degree below 420. Modulo Q, a bit equals the sum of
 * itself moved 145, 183, 211 and 300 bits towards the end. This file moves each bit in this way,
 * from the first bit on, until only the last 300 bits (here 320) are left. Their CRC is the CRC of
 * the whole string.
 *
 * All four distances are longer than two words of 64 bits, so whole words move at once, by shifts
 * of registers. No load depends on another load. This is three times as fast as a table, on real
 * and on emulated processors. Moving by a sparse multiple is the idea of Chorba (K. Kadatch, S.
 * Russell: arXiv 2412.16398).
 */
#include <string.h>

#include "base/crc32_method.h"

#define WORD  8u
#define WORDS 5u /* number of words that hold 300 bits */
#define STEP  (WORDS * WORD)

_Static_assert(URO_CRC32_SPARSE_LEAST >= 2 * STEP, "some words are moved");

static inline uint64_t take_word(uint8_t *restrict to, const uint8_t *from)
{
    uint64_t octets = uro_crc32_load_8(from);

    if (to != NULL)
        memcpy(to, &octets, sizeof octets);
    return uro_crc32_first_lowest_8(octets);
}

static inline void put_word(uint8_t *to, uint64_t value)
{
    for (unsigned i = 0; i < WORD; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/* Returns the bits that move into a word from the words 5, 4, 3 and 2 before it. Later bits are
 * higher bits. */
static inline uint64_t comes(uint64_t five, uint64_t four, uint64_t three, uint64_t two)
{
    return two << 17 ^ three >> 47 ^ two << 55 ^ three >> 9 ^ three << 19 ^ four >> 45 ^
           four << 44 ^ five >> 20;
}

/* Feeds bytes into *@reg, and copies them unless @to is NULL. Returns their number, a multiple of
 * STEP. */
__attribute__((always_inline)) static inline size_t move_words(uint32_t *reg, uint8_t *restrict to,
                                                               const uint8_t *restrict from,
                                                               size_t length)
{
    const size_t end = length / STEP * STEP - STEP;
    uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, first = *reg;
    uint8_t rest[STEP];

#define TAKE(i) take_word(to != NULL ? to + offset + (i)*WORD : NULL, from + offset + (i)*WORD)
    for (size_t offset = 0; offset < end; offset += STEP) {
        a = TAKE(0) ^ comes(a, b, c, d) ^ first;
        b = TAKE(1) ^ comes(b, c, d, e);
        c = TAKE(2) ^ comes(c, d, e, a);
        d = TAKE(3) ^ comes(d, e, a, b);
        e = TAKE(4) ^ comes(e, a, b, c);
        first = 0;
    }
    const size_t offset = end;
    put_word(rest, TAKE(0) ^ comes(a, b, c, d));
    put_word(rest + WORD, TAKE(1) ^ comes(b, c, d, e));
    put_word(rest + 2 * WORD, TAKE(2) ^ comes(c, d, e, 0));
    put_word(rest + 3 * WORD, TAKE(3) ^ comes(d, e, 0, 0));
    put_word(rest + 4 * WORD, TAKE(4) ^ comes(e, 0, 0, 0));
#undef TAKE
    *reg = uro_crc32_table.feed(0, rest, STEP);
    return end + STEP;
}

/* Feeds bytes without a copy. There are two functions so that the compiler removes the check for a
 * copy from each loop. */
size_t uro_crc32_sparse(uint32_t *reg, const uint8_t *from, size_t length)
{
    return move_words(reg, NULL, from, length);
}

size_t uro_crc32_sparse_copy(uint32_t *reg, uint8_t *restrict to, const uint8_t *restrict from,
                             size_t length)
{
    return move_words(reg, to, from, length);
}
