/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32.c - the table method, which runs on every processor, and the choice of the fastest method.
 *
 * Slicing by eight: the register after eight bytes is a sum of eight table entries, because the CRC
 * is linear. Entry slice[k][v] is the contribution of byte v when k more bytes follow in the group:
 * bit b of v is x^(7-b) of that byte, so slice[k][1 << b] = x^(7-b+8k+32) mod P. The code below has
 * those 64 powers, and the compiler computes the other entries. crc32_sparse.c first shortens long
 * strings.
 */
#include "base/crc32.h"

#include <stdatomic.h>
#include <string.h>

#include "base/crc32_method.h"

#define SLICES 8u

/* Entry v of a slice: the powers of its set bits, added. */
#define BIT(v, b, power) (((v) >> (b)&1u) * (power))
#define ENTRY(v, b0, b1, b2, b3, b4, b5, b6, b7)                                                   \
    (BIT(v, 0, b0) ^ BIT(v, 1, b1) ^ BIT(v, 2, b2) ^ BIT(v, 3, b3) ^ BIT(v, 4, b4) ^               \
     BIT(v, 5, b5) ^ BIT(v, 6, b6) ^ BIT(v, 7, b7))
#define ENTRIES_4(v, ...)                                                                          \
    ENTRY(v, __VA_ARGS__), ENTRY((v) + 1u, __VA_ARGS__), ENTRY((v) + 2u, __VA_ARGS__),             \
        ENTRY((v) + 3u, __VA_ARGS__)
#define ENTRIES_16(v, ...)                                                                         \
    ENTRIES_4(v, __VA_ARGS__), ENTRIES_4((v) + 4u, __VA_ARGS__), ENTRIES_4((v) + 8u, __VA_ARGS__), \
        ENTRIES_4((v) + 12u, __VA_ARGS__)
#define ENTRIES_64(v, ...)                                                                         \
    ENTRIES_16(v, __VA_ARGS__), ENTRIES_16((v) + 16u, __VA_ARGS__),                                \
        ENTRIES_16((v) + 32u, __VA_ARGS__), ENTRIES_16((v) + 48u, __VA_ARGS__)
#define ENTRIES(...)                                                                               \
    {                                                                                              \
        ENTRIES_64(0u, __VA_ARGS__), ENTRIES_64(64u, __VA_ARGS__), ENTRIES_64(128u, __VA_ARGS__),  \
            ENTRIES_64(192u, __VA_ARGS__)                                                          \
    }

/* Row k, column b: x^(39 - b + 8k) mod P, reflected. The unit test divides bit by bit. */
/* clang-format off */
static const uint32_t slice[SLICES][256] = {
    ENTRIES(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832, 0x1db71064, 0x3b6e20c8, 0x76dc4190, 0xedb88320),
    ENTRIES(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08, 0x4ac21251, 0x958424a2, 0xf0794f05, 0x3b83984b),
    ENTRIES(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8, 0x1c26a370, 0x384d46e0, 0x709a8dc0, 0xe1351b80),
    ENTRIES(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef, 0x5019579f, 0xa032af3e, 0x9b14583d, 0xed59b63b),
    ENTRIES(0x3d6029b0, 0x7ac05360, 0xf580a6c0, 0x30704bc1, 0x60e09782, 0xc1c12f04, 0x58f35849, 0xb1e6b092),
    ENTRIES(0xcb5cd3a5, 0x4dc8a10b, 0x9b914216, 0xec53826d, 0x03d6029b, 0x07ac0536, 0x0f580a6c, 0x1eb014d8),
    ENTRIES(0xa6770bb4, 0x979f1129, 0xf44f2413, 0x33ef4e67, 0x67de9cce, 0xcfbd399c, 0x440b7579, 0x8816eaf2),
    ENTRIES(0xccaa009e, 0x4225077d, 0x844a0efa, 0xd3e51bb5, 0x7cbb312b, 0xf9766256, 0x299dc2ed, 0x533b85da),
};
/* clang-format on */

static inline uint32_t step_1(uint32_t reg, uint8_t octet)
{
    return reg >> 8 ^ slice[0][(uint8_t)reg ^ octet];
}

static inline uint32_t step_4(uint32_t reg, uint32_t loaded)
{
    const uint32_t v = uro_crc32_first_lowest_4(loaded) ^ reg;

    return slice[3][v & 0xff] ^ slice[2][v >> 8 & 0xff] ^ slice[1][v >> 16 & 0xff] ^
           slice[0][v >> 24];
}

static inline uint32_t step_8(uint32_t reg, uint64_t loaded)
{
    const uint64_t v = uro_crc32_first_lowest_8(loaded) ^ reg;

    return slice[7][v & 0xff] ^ slice[6][v >> 8 & 0xff] ^ slice[5][v >> 16 & 0xff] ^
           slice[4][v >> 24 & 0xff] ^ slice[3][v >> 32 & 0xff] ^ slice[2][v >> 40 & 0xff] ^
           slice[1][v >> 48 & 0xff] ^ slice[0][v >> 56];
}

static uint32_t table_feed(uint32_t reg, const uint8_t *from, size_t length)
{
    if (length >= URO_CRC32_SPARSE_LEAST) {
        size_t fed = uro_crc32_sparse(&reg, from, length);
        from += fed, length -= fed;
    }
    for (; length >= 8; from += 8, length -= 8)
        reg = step_8(reg, uro_crc32_load_8(from));
    if (length >= 4) {
        reg = step_4(reg, uro_crc32_load_4(from));
        from += 4, length -= 4;
    }
    for (; length > 0; from++, length--)
        reg = step_1(reg, *from);
    return reg;
}

static uint32_t table_copy(uint32_t reg, uint8_t *restrict to, const uint8_t *restrict from,
                           size_t length)
{
    if (length >= URO_CRC32_SPARSE_LEAST) {
        size_t fed = uro_crc32_sparse_copy(&reg, to, from, length);
        from += fed, to += fed, length -= fed;
    }
    for (; length >= 8; from += 8, to += 8, length -= 8) {
        uint64_t octets = uro_crc32_load_8(from);
        memcpy(to, &octets, sizeof octets);
        reg = step_8(reg, octets);
    }
    if (length >= 4) {
        uint32_t octets = uro_crc32_load_4(from);
        memcpy(to, &octets, sizeof octets);
        reg = step_4(reg, octets);
        from += 4, to += 4, length -= 4;
    }
    for (; length > 0; from++, to++, length--) {
        *to = uro_crc32_load_1(from);
        reg = step_1(reg, *to);
    }
    return reg;
}

static uint32_t table_head(const struct uro_crc32_mask *mask, const uint8_t *head, size_t length)
{
    uint32_t reg = 0;

    for (size_t i = 0; i < length; i++)
        reg = step_1(reg, (uint8_t)((head[i] | mask->ones[URO_CRC32_MASK_PAD + i]) ^
                                    mask->flip[URO_CRC32_MASK_PAD + i]));
    return reg;
}

static uint32_t table_masked(const struct uro_crc32_mask *mask, const uint8_t *head,
                             size_t head_length, size_t length)
{
    return table_feed(table_head(mask, head, head_length), head + head_length, length);
}

static uint32_t table_masked_copy(const struct uro_crc32_mask *mask, const uint8_t *head,
                                  size_t head_length, uint8_t *restrict to,
                                  const uint8_t *restrict from, size_t length)
{
    return table_copy(table_head(mask, head, head_length), to, from, length);
}

const struct uro_crc32_method uro_crc32_table = { "table", table_feed, table_copy, table_masked,
                                                  table_masked_copy };

/* Returns the @nth best method of this CPU; the table method is the last. NULL when there are no
 * more. */
static const struct uro_crc32_method *method_at(unsigned nth)
{
    const struct uro_crc32_method *method = NULL;

    for (unsigned i = 0; i <= nth; i++) {
        method = uro_crc32_x86_method(i);
        if (method == NULL)
            method = uro_crc32_arm64_method(i);
        if (method == NULL)
            return i == nth ? &uro_crc32_table : NULL;
    }
    return method;
}

static uint32_t choose_and_feed(uint32_t reg, const uint8_t *from, size_t length);
static uint32_t choose_and_copy(uint32_t reg, uint8_t *restrict to, const uint8_t *restrict from,
                                size_t length);

static uint32_t choose_and_mask(const struct uro_crc32_mask *mask, const uint8_t *head,
                                size_t head_length, size_t length);
static uint32_t choose_and_mask_copy(const struct uro_crc32_mask *mask, const uint8_t *head,
                                     size_t head_length, uint8_t *restrict to,
                                     const uint8_t *restrict from, size_t length);

/* The initial method. Its first call replaces it by the best method. Every thread chooses the same
 * method. */
static const struct uro_crc32_method undecided = { "", choose_and_feed, choose_and_copy,
                                                   choose_and_mask, choose_and_mask_copy };
static _Atomic(const struct uro_crc32_method *) in_use = &undecided;

static const struct uro_crc32_method *choose(void)
{
    const struct uro_crc32_method *best = method_at(0);
    atomic_store_explicit(&in_use, best, memory_order_relaxed);
    return best;
}

static uint32_t choose_and_feed(uint32_t reg, const uint8_t *from, size_t length)
{
    return choose()->feed(reg, from, length);
}

static uint32_t choose_and_copy(uint32_t reg, uint8_t *restrict to, const uint8_t *restrict from,
                                size_t length)
{
    return choose()->copy(reg, to, from, length);
}

static uint32_t choose_and_mask(const struct uro_crc32_mask *mask, const uint8_t *head,
                                size_t head_length, size_t length)
{
    return choose()->masked(mask, head, head_length, length);
}

static uint32_t choose_and_mask_copy(const struct uro_crc32_mask *mask, const uint8_t *head,
                                     size_t head_length, uint8_t *restrict to,
                                     const uint8_t *restrict from, size_t length)
{
    return choose()->masked_copy(mask, head, head_length, to, from, length);
}

uint32_t uro_crc32_masked(const struct uro_crc32_mask *mask, const uint8_t *head,
                          size_t head_length, size_t length)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed)
        ->masked(mask, head, head_length, length);
}

uint32_t uro_crc32_masked_copy(const struct uro_crc32_mask *mask, const uint8_t *head,
                               size_t head_length, void *restrict to, const void *restrict from,
                               size_t length)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed)
        ->masked_copy(mask, head, head_length, to, from, length);
}

uint32_t uro_crc32(uint32_t reg, const void *from, size_t length)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed)->feed(reg, from, length);
}

uint32_t uro_crc32_copy(uint32_t reg, void *restrict to, const void *restrict from, size_t length)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed)->copy(reg, to, from, length);
}

const char *uro_crc32_method(void)
{
    const struct uro_crc32_method *method = atomic_load_explicit(&in_use, memory_order_relaxed);
    return (method == &undecided ? choose() : method)->name;
}

bool uro_crc32_use(const char *name)
{
    const struct uro_crc32_method *method;

    for (unsigned i = 0; (method = method_at(i)) != NULL; i++) {
        if (strcmp(method->name, name) == 0) {
            atomic_store_explicit(&in_use, method, memory_order_relaxed);
            return true;
        }
    }
    return false;
}
