/* SPDX-License-Identifier: BSD-3-Clause */
/* copy.c - see copy.h. Copies bytes and words up to the first aligned unit, then units,
 * then the rest.
 *
 * One instruction stores a unit. An x86 processor keeps the order of stores, so only the compiler
 * must be stopped from changing it. On other processors each store is a release.
 */
#include "base/copy.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#define UNIT 16u
typedef __m128i unit;

static unit load(const uint8_t *from)
{
    return _mm_loadu_si128((const unit *)(const void *)from);
}

static void store(uint8_t *to, unit value)
{
    _mm_store_si128((unit *)(void *)to, value);
    atomic_signal_fence(memory_order_seq_cst);
}
#else
#define UNIT 8u
typedef uint64_t unit;

static unit load(const uint8_t *from)
{
    unit value;

    memcpy(&value, from, sizeof value);
    return value;
}

static void store(uint8_t *to, unit value)
{
    atomic_store_explicit((_Atomic unit *)(void *)to, value, memory_order_release);
}
#endif

#define LINE (4 * UNIT)
#define WORD 8u

/* Copies LINE bytes, on x86 a cache line. All loads come before the stores: a load that follows a
 * store to an address with the same low bits has to wait. */
static void store_line(uint8_t *to, const uint8_t *from)
{
    unit a = load(from), b = load(from + UNIT), c = load(from + 2 * UNIT),
         d = load(from + 3 * UNIT);

    store(to, a);
    store(to + UNIT, b);
    store(to + 2 * UNIT, c);
    store(to + 3 * UNIT, d);
}

static void store_byte(uint8_t *to, const uint8_t *from)
{
    atomic_store_explicit((_Atomic uint8_t *)to, *from, memory_order_release);
}

static void store_word(uint8_t *to, const uint8_t *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof word);
    atomic_store_explicit((_Atomic uint64_t *)(void *)to, word, memory_order_release);
}

/* Copies less than one unit: bytes up to the first aligned word, then words, then bytes. */
static void store_rest(uint8_t *to, const uint8_t *from, size_t length)
{
    for (; length > 0 && (uintptr_t)to % WORD != 0; to++, from++, length--)
        store_byte(to, from);
    for (; length >= WORD; to += WORD, from += WORD, length -= WORD)
        store_word(to, from);
    for (; length > 0; to++, from++, length--)
        store_byte(to, from);
}

/* rule RSP.IN.ORDER */
void uro_copy_in_order(void *restrict to, const void *restrict from, size_t length)
{
    uint8_t *dest = to;
    const uint8_t *source = from;
    size_t head = (size_t)(-(uintptr_t)dest % UNIT);

    if (head > length)
        head = length;
    store_rest(dest, source, head);
    dest += head, source += head, length -= head;
    for (; length >= LINE; dest += LINE, source += LINE, length -= LINE)
        store_line(dest, source);
    for (; length >= UNIT; dest += UNIT, source += UNIT, length -= UNIT)
        store(dest, load(source));
    store_rest(dest, source, length);
}
