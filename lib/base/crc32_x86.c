/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32_x86.c - CRC-32 by carry-less multiplication, 16 or 64 bytes at a time.
 *
 * Folding. A block of 128 bits, loaded from memory without a byte swap, is a polynomial: bit i is
 * the coefficient of x^(127-i). So the block is L*x^64 + H, with its low half L and its high half
 * H. Moving the block n bits towards the end of the message multiplies it by x^n, and only the
 * remainder modulo P matters:
 *
 *     (L*x^64 + H) * x^n  =  L * (x^(n+64) mod P) + H * (x^n mod P)      (mod P)
 *
 * The instruction's product of two reflected 64-bit factors is one bit too low: it is multiplied by
 * x. So the powers in crc32_fold.h are lower by 1. A factor of degree below 32 is in the upper
 * half of its 64 bits.
 */
#include "base/crc32_method.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "base/crc32_fold.h"

#define TARGET_128 __attribute__((target("sse4.1,ssse3,pclmul")))
#define TARGET_512 __attribute__((target("sse4.1,ssse3,pclmul,vpclmulqdq,avx512f,avx512bw")))
#define INLINE_128 static inline __attribute__((always_inline)) TARGET_128
#define INLINE_512 static inline __attribute__((always_inline)) TARGET_512

/* The two factors that move a block; powers n+63 and n-1. */
#define FACTORS(low, high)                                                                         \
    _mm_set_epi64x((int64_t)((uint64_t)(high) << 32), (int64_t)((uint64_t)(low) << 32))
#define MOVE_128  FACTORS(URO_CRC32_X191, URO_CRC32_X127)
#define MOVE_256  FACTORS(URO_CRC32_X319, URO_CRC32_X255)
#define MOVE_384  FACTORS(URO_CRC32_X447, URO_CRC32_X383)
#define MOVE_512  FACTORS(URO_CRC32_X575, URO_CRC32_X511)
#define MOVE_1024 FACTORS(URO_CRC32_X1087, URO_CRC32_X1023)
#define MOVE_1536 FACTORS(URO_CRC32_X1599, URO_CRC32_X1535)
#define MOVE_2048 FACTORS(URO_CRC32_X2111, URO_CRC32_X2047)

/* The remaining input and output. `to` is NULL if nothing is copied. The functions that take a
 * cursor are inlined, so that the compiler then omits the stores. */
struct cursor {
    uint8_t *to;
    const uint8_t *from;
    size_t left;
};

/* Loads the next block, and stores it if the string is copied. The empty statement keeps the value
 * in its register: the compiler may not read memory again that another thread may be writing. */
INLINE_128 __m128i take_16(struct cursor *c)
{
    __m128i block = _mm_loadu_si128((const void *)c->from);

    if (c->to != NULL) {
        __asm__("" : "+x"(block));
        _mm_storeu_si128((void *)c->to, block);
        c->to += 16;
    }
    c->from += 16;
    c->left -= 16;
    return block;
}

INLINE_128 __m128i move(__m128i block, __m128i factors)
{
    return _mm_xor_si128(_mm_clmulepi64_si128(block, factors, 0x00),
                         _mm_clmulepi64_si128(block, factors, 0x11));
}

/* The 16 bytes from index 16 + n on are a shuffle that moves a block n bytes down (n < 0: up) and
 * fills with 0. */
static const int8_t slide[48] = {
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, /* up */
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, /* not moved */
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, /* down */
};

INLINE_128 __m128i slid(__m128i block, ptrdiff_t bytes_down)
{
    return _mm_shuffle_epi8(block, _mm_loadu_si128((const void *)&slide[16 + bytes_down]));
}

/* Stores the first 1..15 bytes of a block, in ascending order. */
INLINE_128 void put_front(uint8_t *to, __m128i block, size_t count)
{
    uint64_t low = (uint64_t)_mm_cvtsi128_si64(block);

    if (count & 8) {
        memcpy(to, &low, 8);
        low = (uint64_t)_mm_extract_epi64(block, 1);
        to += 8;
    }
    if (count & 4) {
        memcpy(to, &low, 4);
        low >>= 32;
        to += 4;
    }
    if (count & 2) {
        memcpy(to, &low, 2);
        low >>= 16;
        to += 2;
    }
    if (count & 1)
        *to = (uint8_t)low;
}

/* Feeds the last 1..15 bytes, which follow at least 16 bytes. The bytes of @sum and the last bytes
 * form one string. Its last 16 bytes become the last block. */
INLINE_128 __m128i feed_tail(__m128i sum, const struct cursor *c)
{
    const ptrdiff_t count = (ptrdiff_t)c->left;
    __m128i last = _mm_loadu_si128((const void *)(c->from + count - 16));

    if (c->to != NULL) {
        __asm__("" : "+x"(last));
        put_front(c->to, slid(last, 16 - count), c->left);
    }
    const __m128i first = slid(sum, count - 16);
    const __m128i from_last = _mm_loadu_si128((const void *)&slide[16 + count]); /* < 0: take */
    const __m128i second = _mm_blendv_epi8(slid(sum, count), last, from_last);
    return _mm_xor_si128(move(first, MOVE_128), second);
}

/* Returns the register: 128 bits times x^32, modulo P.
 *
 * The first product reduces L*x^96 to a degree below 96, the second reduces the rest to a degree
 * below 64. Let A be the upper 32 of the remaining 64 bits. A is removed by division: the quotient
 * of A*x^32 / P is the upper part of A * (x^64 / P), and the quotient times P is subtracted. In a
 * reflected product, the upper part is the low 32 bits, which depend only on the low 32 bits of the
 * factors. */
INLINE_128 uint32_t reduce(__m128i sum)
{
    const __m128i factors = FACTORS(URO_CRC32_X95, URO_CRC32_X63);
    const __m128i divisors = _mm_set_epi64x(URO_CRC32_QUOTIENT, URO_CRC32_POLYNOMIAL);
    const __m128i low_32 = _mm_set_epi32(0, 0, 0, -1);

    const __m128i under_96 = _mm_xor_si128(_mm_slli_si128(_mm_srli_si128(sum, 8), 4),
                                           _mm_clmulepi64_si128(sum, factors, 0x00));
    const __m128i under_64 = _mm_xor_si128(under_96, _mm_clmulepi64_si128(under_96, factors, 0x10));

    const __m128i times = _mm_and_si128(_mm_clmulepi64_si128(under_64, divisors, 0x11), low_32);
    const __m128i rest =
        _mm_xor_si128(_mm_srli_si128(under_64, 8), _mm_clmulepi64_si128(times, divisors, 0x00));
    return (uint32_t)_mm_extract_epi32(rest, 1);
}

INLINE_128 uint32_t finish(__m128i sum, struct cursor *c)
{
    while (c->left >= 16)
        sum = _mm_xor_si128(move(sum, MOVE_128), take_16(c));
    if (c->left > 0)
        sum = feed_tail(sum, c);
    return reduce(sum);
}

INLINE_128 __m128i placed_128(uint32_t reg)
{
    return _mm_cvtsi32_si128((int)reg);
}

/* Feeds blocks of 128 bits. @before is added to the first block: the register, or the moved block
 * before it. */
INLINE_128 uint32_t run_128(__m128i before, struct cursor *c)
{
    __m128i a = _mm_xor_si128(take_16(c), before);

    if (c->left >= 48) {
        __m128i b = take_16(c), d = take_16(c), e = take_16(c);

        while (c->left >= 64) {
            a = _mm_xor_si128(move(a, MOVE_512), take_16(c));
            b = _mm_xor_si128(move(b, MOVE_512), take_16(c));
            d = _mm_xor_si128(move(d, MOVE_512), take_16(c));
            e = _mm_xor_si128(move(e, MOVE_512), take_16(c));
        }
        a = _mm_xor_si128(_mm_xor_si128(move(a, MOVE_384), move(b, MOVE_256)),
                          _mm_xor_si128(move(d, MOVE_128), e));
    }
    return finish(a, c);
}

TARGET_128 static uint32_t feed_128(uint32_t reg, const uint8_t *from, size_t length)
{
    struct cursor c = { NULL, from, length };

    return length < 16 ? uro_crc32_table.feed(reg, from, length) : run_128(placed_128(reg), &c);
}

TARGET_128 static uint32_t copy_128(uint32_t reg, uint8_t *restrict to,
                                    const uint8_t *restrict from, size_t length)
{
    struct cursor c = { to, from, length };

    URO_HOT_ASSERT(to != NULL);
    return length < 16 ? uro_crc32_table.copy(reg, to, from, length) : run_128(placed_128(reg), &c);
}

/* Loads @head from @pad bytes before it. Those bytes are not read, and are zeros in the block. */
INLINE_128 __m128i load_padded(const uint8_t *head, size_t pad)
{
    static const uint8_t order[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                     0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                     0,    1,    2,    3,    4,    5,    6,    7,
                                     8,    9,    10,   11,   12,   13,   14,   15 };

    return _mm_shuffle_epi8(_mm_loadu_si128((const void *)head),
                            _mm_loadu_si128((const void *)(order + 16 - pad)));
}

/* Returns a block of the head as it is fed. @ones, @flip: the masks of the block. */
INLINE_128 __m128i masked_block(__m128i bytes, const uint8_t *ones, const uint8_t *flip)
{
    return _mm_xor_si128(_mm_or_si128(bytes, _mm_loadu_si128((const void *)ones)),
                         _mm_loadu_si128((const void *)flip));
}

/* Feeds a masked head, cut so that its last byte ends a block. Zeros before its first byte change
 * nothing, because the register starts from zero. */
INLINE_128 __m128i masked_head(const struct uro_crc32_mask *mask, const uint8_t *head,
                               size_t length)
{
    const size_t pad = -length & 15u;
    const uint8_t *ones = &mask->ones[URO_CRC32_MASK_PAD] - pad;
    const uint8_t *flip = &mask->flip[URO_CRC32_MASK_PAD] - pad;
    __m128i sum = masked_block(load_padded(head, pad), ones, flip);

    URO_HOT_ASSERT(length >= 16 && length <= URO_CRC32_MASK_MAX && pad <= 12);
    for (size_t offset = 16; offset < length + pad; offset += 16) {
        const __m128i bytes = _mm_loadu_si128((const void *)(head - pad + offset));
        sum = _mm_xor_si128(move(sum, MOVE_128), masked_block(bytes, ones + offset, flip + offset));
    }
    return sum;
}

/* Feeds and copies fewer than 16 bytes after @sum. The bytes before them cannot be read. */
INLINE_128 uint32_t copy_few(__m128i sum, uint8_t *to, const uint8_t *from, size_t length)
{
    uint8_t last[32] = { 0 };
    struct cursor c = { NULL, last + 16, length };

    if (length == 0)
        return reduce(sum);
    memcpy(last + 16, from, length);
    __asm__("" : : : "memory"); /* the source is read once */
    memcpy(to, last + 16, length);
    return reduce(feed_tail(sum, &c));
}

TARGET_128 static uint32_t masked_128(const struct uro_crc32_mask *mask, const uint8_t *head,
                                      size_t head_length, size_t length)
{
    const __m128i sum = masked_head(mask, head, head_length);
    struct cursor c = { NULL, head + head_length, length };

    return length < 16 ? finish(sum, &c) : run_128(move(sum, MOVE_128), &c);
}

TARGET_128 static uint32_t masked_copy_128(const struct uro_crc32_mask *mask, const uint8_t *head,
                                           size_t head_length, uint8_t *restrict to,
                                           const uint8_t *restrict from, size_t length)
{
    const __m128i sum = masked_head(mask, head, head_length);
    struct cursor c = { to, from, length };

    return length < 16 ? copy_few(sum, to, from, length) : run_128(move(sum, MOVE_128), &c);
}

INLINE_512 __m512i take_64(struct cursor *c)
{
    __m512i block = _mm512_loadu_si512(c->from);

    if (c->to != NULL) {
        __asm__("" : "+v"(block));
        _mm512_storeu_si512(c->to, block);
        c->to += 64;
    }
    c->from += 64;
    c->left -= 64;
    return block;
}

/* Moves four blocks at once, and adds them to @add. */
INLINE_512 __m512i move_add(__m512i blocks, __m512i factors, __m512i add)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(blocks, factors, 0x00),
                                     _mm512_clmulepi64_epi128(blocks, factors, 0x11), add, 0x96);
}

INLINE_512 __m512i factors_512(__m128i factors)
{
    return _mm512_broadcast_i32x4(factors);
}

/* Reduces four blocks to one: the first three move to the place of the fourth. */
INLINE_512 __m128i narrow(__m512i blocks)
{
    const __m512i factors = _mm512_inserti32x4(
        _mm512_inserti32x4(_mm512_inserti32x4(_mm512_setzero_si512(), MOVE_384, 0), MOVE_256, 1),
        MOVE_128, 2);
    const __m512i fourth = _mm512_maskz_mov_epi64(0xc0, blocks);
    const __m512i moved = move_add(blocks, factors, fourth);
    const __m256i half =
        _mm256_xor_si256(_mm512_castsi512_si256(moved), _mm512_extracti64x4_epi64(moved, 1));

    return _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* Feeds four blocks at once. @before is added to the first four blocks, as in run_128(). */
INLINE_512 uint32_t run_512(__m512i before, struct cursor *c)
{
    const __m512i by_512 = factors_512(MOVE_512);
    __m512i a = _mm512_xor_si512(take_64(c), before);

    if (c->left >= 192) {
        const __m512i by_2048 = factors_512(MOVE_2048);
        __m512i b = take_64(c), d = take_64(c), e = take_64(c);

        while (c->left >= 256) {
            a = move_add(a, by_2048, take_64(c));
            b = move_add(b, by_2048, take_64(c));
            d = move_add(d, by_2048, take_64(c));
            e = move_add(e, by_2048, take_64(c));
        }
        e = move_add(d, by_512, e);
        e = move_add(b, factors_512(MOVE_1024), e);
        a = move_add(a, factors_512(MOVE_1536), e);
    }
    while (c->left >= 64)
        a = move_add(a, by_512, take_64(c));
    return finish(narrow(a), c);
}

INLINE_512 __m512i placed_512(uint32_t reg)
{
    return _mm512_zextsi128_si512(placed_128(reg));
}

/* As masked_head(), by 64 bytes: @pad, below 64, is the number of bytes that the first block has
 * before the head. They are not read. Bytes after the head, up to a whole block, are part of the
 * string. */
INLINE_512 __m512i masked_head_512(const struct uro_crc32_mask *mask, const uint8_t *head,
                                   size_t length, size_t pad)
{
    const uint8_t *ones = &mask->ones[URO_CRC32_MASK_PAD - pad];
    const uint8_t *flip = &mask->flip[URO_CRC32_MASK_PAD - pad];
    __m512i octets = _mm512_maskz_loadu_epi8(UINT64_MAX << pad, head - pad);
    __m512i sum = _mm512_setzero_si512();

    for (size_t offset = 0; offset < length + pad; offset += 64) {
        if (offset > 0)
            octets = _mm512_loadu_si512(head - pad + offset);
        const __m512i raised = _mm512_or_si512(octets, _mm512_loadu_si512(ones + offset));
        const __m512i block = _mm512_xor_si512(raised, _mm512_loadu_si512(flip + offset));
        sum = move_add(sum, factors_512(MOVE_512), block);
    }
    return sum;
}

TARGET_512 static uint32_t feed_512(uint32_t reg, const uint8_t *from, size_t length)
{
    struct cursor c = { NULL, from, length };

    return length < 64 ? feed_128(reg, from, length) : run_512(placed_512(reg), &c);
}

TARGET_512 static uint32_t copy_512(uint32_t reg, uint8_t *restrict to,
                                    const uint8_t *restrict from, size_t length)
{
    struct cursor c = { to, from, length };

    URO_HOT_ASSERT(to != NULL);
    return length < 64 ? copy_128(reg, to, from, length) : run_512(placed_512(reg), &c);
}

INLINE_512 __m512i moved_512(__m512i blocks)
{
    return move_add(blocks, factors_512(MOVE_512), _mm512_setzero_si512());
}

/* Feeds a masked string. The whole string is cut so that its last byte ends a block. */
TARGET_512 static uint32_t masked_512(const struct uro_crc32_mask *mask, const uint8_t *head,
                                      size_t head_length, size_t length)
{
    const size_t pad = -(head_length + length) & 63u;
    const size_t blocks = (head_length + pad + 63) / 64 * 64;

    const __m512i sum = masked_head_512(mask, head, head_length, pad);
    struct cursor c = { NULL, head - pad + blocks, head_length + length + pad - blocks };
    return c.left == 0 ? reduce(narrow(sum)) : run_512(moved_512(sum), &c);
}

TARGET_512 static uint32_t masked_copy_512(const struct uro_crc32_mask *mask, const uint8_t *head,
                                           size_t head_length, uint8_t *restrict to,
                                           const uint8_t *restrict from, size_t length)
{
    struct cursor c = { to, from, length };

    if (length < 64)
        return masked_copy_128(mask, head, head_length, to, from, length);
    return run_512(moved_512(masked_head_512(mask, head, head_length, -head_length & 63u)), &c);
}

static const struct uro_crc32_method method_512 = { "vpclmulqdq", feed_512, copy_512, masked_512,
                                                    masked_copy_512 };
static const struct uro_crc32_method method_128 = { "pclmulqdq", feed_128, copy_128, masked_128,
                                                    masked_copy_128 };

static bool cpu_has_128(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("ssse3") &&
           __builtin_cpu_supports("sse4.1");
}

static bool cpu_has_512(void)
{
    return cpu_has_128() && __builtin_cpu_supports("vpclmulqdq") &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

const struct uro_crc32_method *uro_crc32_x86_method(unsigned nth)
{
    const struct uro_crc32_method *methods[2];
    unsigned count = 0;

    __builtin_cpu_init();
    if (cpu_has_512())
        methods[count++] = &method_512;
    if (cpu_has_128())
        methods[count++] = &method_128;
    return nth < count ? methods[nth] : NULL;
}

#else

const struct uro_crc32_method *uro_crc32_x86_method(unsigned nth)
{
    (void)nth;
    return NULL;
}

#endif
