/* SPDX-License-Identifier: BSD-3-Clause */
/* doorbell.h - lock-free list of objects with new work. Any thread adds an object by ringing its
 * doorbell; the engine takes the whole list.
 *
 * The list is a stack that is only ever emptied whole, so it has no ABA problem. Ringing a doorbell
 * that already rings costs one exchange.
 */
#pragma once

#include <stdatomic.h>

#include "base/defs.h"

struct uro_doorbell {
    struct uro_doorbell *next; /* next entry of the list; valid until uro_doorbell_clear() */
    atomic_bool rung;
};

struct uro_doorbell_list {
    _Atomic(struct uro_doorbell *) first;
};

/* Adds @doorbell to the list unless the list has it. Any thread may call this. All earlier writes
 * of the calling thread are visible to the engine after uro_doorbell_fence(). If the doorbell was
 * still ringing, only the exchange orders the writes: on x86 and ARMv8, no processor sees it
 * before earlier writes. On other processors the compiler adds a barrier. */
static inline void uro_doorbell_ring(struct uro_doorbell_list *doorbells,
                                     struct uro_doorbell *doorbell)
{
    if (atomic_exchange(&doorbell->rung, true))
        return;
    struct uro_doorbell *first = atomic_load_explicit(&doorbells->first, memory_order_relaxed);
    do
        doorbell->next = first;
    while (!atomic_compare_exchange_weak(&doorbells->first, &first, doorbell));
}

static inline bool uro_doorbell_list_empty(const struct uro_doorbell_list *doorbells)
{
    return atomic_load_explicit(&doorbells->first, memory_order_relaxed) == NULL;
}

/* Orders memory: call after releasing a lock, before uro_doorbell_list_empty(). A thread that finds
 * the lock held has already rung, and relies on the lock holder to check the list after the
 * release. On x86-64 the release of a mutex is a full barrier. On other processors, the check could
 * come before the release. */
static inline void uro_doorbell_released(void)
{
#if defined(__x86_64__)
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Takes and returns all doorbells that rang, linked by ->next, last rung first. Called by the
 * engine thread. */
static inline struct uro_doorbell *uro_doorbell_list_take(struct uro_doorbell_list *doorbells)
{
    if (uro_doorbell_list_empty(doorbells))
        return NULL;
    return atomic_exchange(&doorbells->first, NULL);
}

/* Lets @doorbell ring again and returns the next entry of the taken list. Called by the engine
 * thread. */
static inline struct uro_doorbell *uro_doorbell_clear(struct uro_doorbell *doorbell)
{
    struct uro_doorbell *next = doorbell->next;
    atomic_store_explicit(&doorbell->rung, false, memory_order_release);
    return next;
}

/* Orders memory: call once after the last uro_doorbell_clear() and before reading the objects. The
 * engine then sees the writes of threads that found a doorbell still ringing. Called by the engine
 * thread. */
static inline void uro_doorbell_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}
