/* SPDX-License-Identifier: BSD-3-Clause */
/* bells.h - "look at me": any thread rings an object's bell, the engine takes all that rang.
 *
 * A lock-free stack that is only ever emptied whole, so it has no ABA problem. Ringing a bell
 * that already rings costs one exchange.
 */
#pragma once

#include <stdatomic.h>

#include "base/defs.h"

struct uro_bell {
    struct uro_bell *next; /* valid while rung and on the way to the engine */
    atomic_bool rung;
};

struct uro_bells {
    _Atomic(struct uro_bell *) first;
};

/* Thread: any. Everything that the ringing thread wrote before is visible to the engine after
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

/* Thread: the engine's. All bells that rang, linked by ->next, last rung first. */
static inline struct uro_bell *uro_bells_take(struct uro_bells *bells)
{
    if (uro_bells_silent(bells))
        return NULL;
    return atomic_exchange(&bells->first, NULL);
}

/* Returns the bell after @bell, which was taken and may ring again from now on. Thread: the
 * engine's. */
static inline struct uro_bell *uro_bell_hear(struct uro_bell *bell)
{
    struct uro_bell *next = bell->next;
    atomic_store_explicit(&bell->rung, false, memory_order_release);
    return next;
}

/* Thread: the engine's, once between hearing bells and looking at their objects: who found one
 * still ringing is seen. */
static inline void uro_bells_heard(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}
