/* SPDX-License-Identifier: BSD-3-Clause */
/* bells.h - lock-free list of objects with new work. Any thread adds an object by ringing its bell;
 * the engine takes the whole list.
 *
 * The list is a stack that is only ever emptied whole, so it has no ABA problem. Ringing a bell
 * that already rings costs one exchange.
 */
#pragma once

#include <stdatomic.h>

#include "base/defs.h"

struct uro_bell {
    struct uro_bell *next; /* next bell of the list; valid until uro_bell_hear() */
    atomic_bool rung;
};

struct uro_bells {
    _Atomic(struct uro_bell *) first;
};

/* Adds the bell to the list unless it is there. Any thread may call this. All earlier writes of the
 * calling thread are visible to the engine after
 * uro_bells_heard(). If the bell was still ringing, this follows from the exchange: on x86 and
 * ARMv8 no processor sees the exchange before earlier writes, and on other processors the compiler
 * adds a barrier. */
static inline void uro_bell_ring(struct uro_bells *bells, struct uro_bell *bell)
{
    if (atomic_exchange(&bell->rung, true))
        return;
    struct uro_bell *first = atomic_load_explicit(&bells->first, memory_order_relaxed);
    do
        bell->next = first;
    while (!atomic_compare_exchange_weak(&bells->first, &first, bell));
}

static inline bool uro_bells_silent(const struct uro_bells *bells)
{
    return atomic_load_explicit(&bells->first, memory_order_relaxed) == NULL;
}

/* Takes and returns all bells that rang, linked by ->next, last rung first. Engine thread. */
static inline struct uro_bell *uro_bells_take(struct uro_bells *bells)
{
    if (uro_bells_silent(bells))
        return NULL;
    return atomic_exchange(&bells->first, NULL);
}

/* Returns the bell after @bell. @bell was taken and may ring again from now on. Engine thread. */
static inline struct uro_bell *uro_bell_hear(struct uro_bell *bell)
{
    struct uro_bell *next = bell->next;
    atomic_store_explicit(&bell->rung, false, memory_order_release);
    return next;
}

/* Orders memory: call once after the last uro_bell_hear() and before reading the objects. The
 * engine then sees the writes of threads that found a bell still ringing. Engine thread. */
static inline void uro_bells_heard(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}
