/* SPDX-License-Identifier: BSD-3-Clause */
/* bells.h - "look at me": any thread rings an object's bell, the engine takes all that rang.
 *
 * A lock-free stack that is only ever emptied whole, so it has no ABA problem. Ringing a bell
 * that already rings costs one atomic load.
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

/* Thread: any. What the ringer wrote before is visible to who takes the bell. */
static inline void uro_bell_ring(struct uro_bells *bells, struct uro_bell *bell)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&bell->rung, memory_order_relaxed))
        return;
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

/* Thread: the engine's, for a taken bell, before looking at the object; returns the next one. */
static inline struct uro_bell *uro_bell_hear(struct uro_bell *bell)
{
    struct uro_bell *next = bell->next;
    atomic_store(&bell->rung, false);
    return next;
}
