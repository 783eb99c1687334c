/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - what callers and the service thread of a device share: the words of sched.h, as atomic variables.
 *
 *   lock.c       the engine lock and the doorbell
 *   progress.c   rounds of callers
 *   service.c    the service thread: its rounds, and how it sleeps
 */
#pragma once

#include <stdatomic.h>

#include "host/sched.h"

/* The words of struct uro_sched_words, with its comments. */
struct uro_sched_shared {
    atomic_int takeover;
    atomic_int balance;
    atomic_uint_least64_t silence;
    atomic_uint_least64_t poll_round_at;
    atomic_uint_least64_t post_round_at;
    atomic_uint_least64_t polled_at;
    atomic_uint_least64_t contended_at;
    atomic_uint_least64_t wake_at;
    atomic_uint_least64_t send_cost;
    atomic_uint held_posts;
    atomic_uint post_burst;
    atomic_uint empty_polls;
    atomic_bool caller_in_round;
    atomic_bool rx_armed;          /* the thread sleeps, or is about to, and a frame wakes it */
    atomic_uint_least64_t sent_at; /* when a round last sent something */
};

/* Copies the words. wake_at and takeover are read in the one order of all threads: a thread that announces its sleep
 * checks for doorbells afterwards. */
static inline struct uro_sched_words uro_sched_load(const struct uro_sched_shared *shared)
{
#define LOAD(word) .word = atomic_load_explicit(&shared->word, memory_order_relaxed)
    return (struct uro_sched_words){
        .wake_at = atomic_load(&shared->wake_at),
        .takeover = (enum uro_takeover)atomic_load(&shared->takeover),
        LOAD(balance),
        LOAD(silence),
        LOAD(poll_round_at),
        LOAD(post_round_at),
        LOAD(polled_at),
        LOAD(contended_at),
        LOAD(send_cost),
        LOAD(held_posts),
        LOAD(post_burst),
        LOAD(empty_polls),
        LOAD(caller_in_round),
    };
#undef LOAD
}

/* Stores one word of the copy. */
#define URO_SCHED_STORE(shared, words, word)                                                       \
    atomic_store_explicit(&(shared)->word, (words)->word, memory_order_relaxed)

/* Engine lock held. Stores what a round of a caller or of the thread teaches. */
static inline void uro_sched_store_takeover(struct uro_sched_shared *shared,
                                            const struct uro_sched_words *before,
                                            const struct uro_sched_words *words)
{
    if (before->balance == words->balance && before->takeover == words->takeover)
        return; /* a program that announces a wait stores them, too, without the lock */
    URO_SCHED_STORE(shared, words, balance);
    URO_SCHED_STORE(shared, words, takeover);
}

/* Wakes the service thread if it sleeps. Thread: any. */
void uro_progress_wake(struct uro_device *device);

/* Takes the engine lock. Callers that could only try it stand back meanwhile. */
void uro_progress_lock(struct uro_device *device);
/* Returns whether the lock was free, and nobody waits for it. */
URO_NODISCARD bool uro_progress_try_lock(struct uro_device *device);

/* Engine lock held. Requests of peers so far that no completion reports. */
uint64_t uro_progress_served(const struct uro_device *device);

/* The service thread's body, once the port and the engine are there. */
void uro_service_run(struct uro_device *device);
