/* SPDX-License-Identifier: BSD-3-Clause */
/* copy.c - see copy.h. Copies bytes up to the first aligned unit, then units, then the other bytes.
 *
 * One instruction stores a unit. x86 keeps the order of stores, so there only the compiler must not
 * change the order. On other processors each store is a release.
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

/* Copies a line. All loads come before the stores, because a load behind a store to an address with
 * the same low bits has to wait. */
static void store_line(uint8_t *to, const uint8_t *from)
{
    unit a = load(from), b = load(from + UNIT), c = load(from + 2 * UNIT),
         d = load(from + 3 * UNIT);

    store(to, a);
    store(to + UNIT, b);
    store(to + 2 * UNIT, c);
    store(to + 3 * UNIT, d);
}

static void store_bytes(uint8_t *to, const uint8_t *from, size_t length)
{
    for (size_t i = 0; i < length; i++)
        atomic_store_explicit((_Atomic uint8_t *)(to + i), from[i], memory_order_release);
}

/* rule RSP.IN.ORDER */
void uro_copy_in_order(void *restrict to, const void *restrict from, size_t length)
{
    uint8_t *dest = to;
    const uint8_t *source = from;
    size_t head = (size_t)(-(uintptr_t)dest % UNIT);

    if (head > length)
        head = length;
    store_bytes(dest, source, head);
    dest += head, source += head, length -= head;
    for (; length >= LINE; dest += LINE, source += LINE, length -= LINE)
        store_line(dest, source);
    for (; length >= UNIT; dest += UNIT, source += UNIT, length -= UNIT)
        store(dest, load(source));
    store_bytes(dest, source, length);
}
