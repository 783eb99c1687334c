/* SPDX-License-Identifier: BSD-3-Clause */
/* crc32_arm64.c - CRC-32 by the instructions of ARMv8: CRC32 alone, or together with PMULL.
 *
 * CRC32X feeds eight bytes to the register, and depends on the register of the CRC32X before it.
 * PMULL multiplies polynomials, so that long strings are folded in four independent blocks, as
 * crc32_x86.c explains. CRC32X then reduces the last block to a register. uro_crc32_arm64_method()
 * asks Linux which instructions the CPU has. The instructions are assembly: gcc and clang differ in
 * how a single function may use intrinsics.
 */
#include "base/crc32_method.h"

#if defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

#include <arm_neon.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/crc32_fold.h"

#if defined(__clang__)
#define TARGET_CRC  __attribute__((target("crc")))
#define TARGET_FOLD __attribute__((target("crc,aes")))
#else
#define TARGET_CRC  __attribute__((target("+crc")))
#define TARGET_FOLD __attribute__((target("+crc+crypto")))
#endif
#define INLINE_CRC  static inline __attribute__((always_inline)) TARGET_CRC
#define INLINE_FOLD static inline __attribute__((always_inline)) TARGET_FOLD

/* Shorter strings are not folded, because setting up and joining four blocks would take longer. */
#define FOLD_LEAST 128u

/* The two factors that move a block; powers n+63 and n-1. */
#define FACTORS(low, high)                                                                         \
    vcombine_u64(vcreate_u64((uint64_t)(low) << 32), vcreate_u64((uint64_t)(high) << 32))
#define MOVE_128 FACTORS(URO_CRC32_X191, URO_CRC32_X127)
#define MOVE_256 FACTORS(URO_CRC32_X319, URO_CRC32_X255)
#define MOVE_384 FACTORS(URO_CRC32_X447, URO_CRC32_X383)
#define MOVE_512 FACTORS(URO_CRC32_X575, URO_CRC32_X511)

/* The remaining input and output. `to` is NULL if nothing is copied. The functions that take a
 * cursor are inlined, so that the compiler then omits the stores. */
struct cursor {
    uint8_t *to;
    const uint8_t *from;
    size_t left;
};

/* ---- bytes by CRC32 ----------------------------------------------------- */

INLINE_CRC uint32_t step_8(uint32_t reg, uint64_t octets)
{
    __asm__("crc32x %w0, %w0, %x1" : "+r"(reg) : "r"(octets));
    return reg;
}

INLINE_CRC uint32_t step_4(uint32_t reg, uint32_t octets)
{
    __asm__("crc32w %w0, %w0, %w1" : "+r"(reg) : "r"(octets));
    return reg;
}

INLINE_CRC uint32_t step_1(uint32_t reg, uint8_t octet)
{
    __asm__("crc32b %w0, %w0, %w1" : "+r"(reg) : "r"((uint32_t)octet));
    return reg;
}

/* Moves the cursor past @count bytes. Stores the bytes if the string is copied. */
INLINE_CRC void pass(struct cursor *c, const void *octets, size_t count)
{
    if (c->to != NULL) {
        memcpy(c->to, octets, count);
        c->to += count;
    }
    c->from += count;
    c->left -= count;
}

/* Feeds all bytes that are left. */
INLINE_CRC uint32_t run_crc(uint32_t reg, struct cursor *c)
{
    while (c->left >= 8) {
        const uint64_t octets = uro_crc32_load_8(c->from);
        pass(c, &octets, 8);
        reg = step_8(reg, octets);
    }
    if (c->left >= 4) {
        const uint32_t octets = uro_crc32_load_4(c->from);
        pass(c, &octets, 4);
        reg = step_4(reg, octets);
    }
    while (c->left > 0) {
        const uint8_t octet = uro_crc32_load_1(c->from);
        pass(c, &octet, 1);
        reg = step_1(reg, octet);
    }
    return reg;
}

/* Feeds a masked head, whose length is a multiple of 4. */
INLINE_CRC uint32_t masked_head(const struct uro_crc32_mask *mask, const uint8_t *head,
                                size_t length)
{
    const uint8_t *ones = &mask->ones[URO_CRC32_MASK_PAD], *flip = &mask->flip[URO_CRC32_MASK_PAD];
    uint32_t reg = 0;
    size_t at = 0;

    URO_HOT_ASSERT(length >= 16 && length <= URO_CRC32_MASK_MAX && length % 4 == 0);
    for (; at + 8 <= length; at += 8)
        reg = step_8(reg, (uro_crc32_load_8(head + at) | uro_crc32_load_8(ones + at)) ^
                              uro_crc32_load_8(flip + at));
    if (at < length)
        reg = step_4(reg, (uro_crc32_load_4(head + at) | uro_crc32_load_4(ones + at)) ^
                              uro_crc32_load_4(flip + at));
    return reg;
}

TARGET_CRC static uint32_t feed_crc(uint32_t reg, const uint8_t *from, size_t length)
{
    struct cursor c = { NULL, from, length };

    return run_crc(reg, &c);
}

TARGET_CRC static uint32_t copy_crc(uint32_t reg, uint8_t *restrict to,
                                    const uint8_t *restrict from, size_t length)
{
    struct cursor c = { to, from, length };

    return run_crc(reg, &c);
}

TARGET_CRC static uint32_t masked_crc(const struct uro_crc32_mask *mask, const uint8_t *head,
                                      size_t head_length, size_t length)
{
    return feed_crc(masked_head(mask, head, head_length), head + head_length, length);
}

TARGET_CRC static uint32_t masked_copy_crc(const struct uro_crc32_mask *mask, const uint8_t *head,
                                           size_t head_length, uint8_t *restrict to,
                                           const uint8_t *restrict from, size_t length)
{
    return copy_crc(masked_head(mask, head, head_length), to, from, length);
}

/* ---- blocks by PMULL ---------------------------------------------------- */

/* Loads the next block, and stores it if the string is copied. The empty statement keeps the value
 * in its register: the compiler may not read memory again that another thread may be writing. */
INLINE_FOLD uint64x2_t take_16(struct cursor *c)
{
    uint8x16_t block = vld1q_u8(c->from);

    if (c->to != NULL) {
        __asm__("" : "+w"(block));
        vst1q_u8(c->to, block);
        c->to += 16;
    }
    c->from += 16;
    c->left -= 16;
    return vreinterpretq_u64_u8(block);
}

/* Moves @block by @factors, and adds @to. */
INLINE_FOLD uint64x2_t move_add(uint64x2_t block, uint64x2_t factors, uint64x2_t to)
{
    uint64x2_t low, high;

    __asm__("pmull %0.1q, %1.1d, %2.1d" : "=w"(low) : "w"(block), "w"(factors));
    __asm__("pmull2 %0.1q, %1.2d, %2.2d" : "=w"(high) : "w"(block), "w"(factors));
    return veorq_u64(veorq_u64(low, high), to);
}

/* Feeds all bytes that are left, at least 64. */
INLINE_FOLD uint32_t run_fold(uint32_t reg, struct cursor *c)
{
    uint64x2_t a = take_16(c), b = take_16(c), d = take_16(c), e = take_16(c);

    a = veorq_u64(a, vcombine_u64(vcreate_u64(reg), vcreate_u64(0)));
    while (c->left >= 64) {
        a = move_add(a, MOVE_512, take_16(c));
        b = move_add(b, MOVE_512, take_16(c));
        d = move_add(d, MOVE_512, take_16(c));
        e = move_add(e, MOVE_512, take_16(c));
    }
    e = move_add(a, MOVE_384, move_add(b, MOVE_256, move_add(d, MOVE_128, e)));
    while (c->left >= 16)
        e = move_add(e, MOVE_128, take_16(c));
    return run_crc(step_8(step_8(0, vgetq_lane_u64(e, 0)), vgetq_lane_u64(e, 1)), c);
}

TARGET_FOLD static uint32_t feed_fold(uint32_t reg, const uint8_t *from, size_t length)
{
    struct cursor c = { NULL, from, length };

    return length < FOLD_LEAST ? run_crc(reg, &c) : run_fold(reg, &c);
}

TARGET_FOLD static uint32_t copy_fold(uint32_t reg, uint8_t *restrict to,
                                      const uint8_t *restrict from, size_t length)
{
    struct cursor c = { to, from, length };

    return length < FOLD_LEAST ? run_crc(reg, &c) : run_fold(reg, &c);
}

TARGET_FOLD static uint32_t masked_fold(const struct uro_crc32_mask *mask, const uint8_t *head,
                                        size_t head_length, size_t length)
{
    return feed_fold(masked_head(mask, head, head_length), head + head_length, length);
}

TARGET_FOLD static uint32_t masked_copy_fold(const struct uro_crc32_mask *mask, const uint8_t *head,
                                             size_t head_length, uint8_t *restrict to,
                                             const uint8_t *restrict from, size_t length)
{
    return copy_fold(masked_head(mask, head, head_length), to, from, length);
}

/* ---- the choice --------------------------------------------------------- */

static const struct uro_crc32_method method_fold = { "pmull", feed_fold, copy_fold, masked_fold,
                                                     masked_copy_fold };
static const struct uro_crc32_method method_crc = { "armv8-crc32", feed_crc, copy_crc, masked_crc,
                                                    masked_copy_crc };

const struct uro_crc32_method *uro_crc32_arm64_method(unsigned nth)
{
    const unsigned long has = getauxval(AT_HWCAP);
    const struct uro_crc32_method *methods[2];
    unsigned count = 0;

    if ((has & HWCAP_CRC32) != 0 && (has & HWCAP_PMULL) != 0)
        methods[count++] = &method_fold;
    if ((has & HWCAP_CRC32) != 0)
        methods[count++] = &method_crc;
    return nth < count ? methods[nth] : NULL;
}

#else

const struct uro_crc32_method *uro_crc32_arm64_method(unsigned nth)
{
    (void)nth;
    return NULL;
}

#endif
