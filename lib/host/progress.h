/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - the state that callers and the service thread of a device share: struct
 * uro_sched_words (sched.h) in atomic variables. progress.c has the rounds of callers, service.c
 * has the service thread.
 */
#pragma once

#include <stdatomic.h>

#include "base/probe.h"
#include "host/sched.h"

/* The members of struct uro_sched_words as atomic variables; comments are in sched.h. */
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
    atomic_bool rx_armed; /* the service thread sleeps or is about to sleep, and a frame wakes it */
    atomic_uint_least64_t sent_at; /* time when a round last sent something */
};

/* Copies the words. wake_at and takeover need sequentially consistent loads: the service thread
 * announces its sleep, and then checks for doorbells. */
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

/* Stores the results of a round of a caller or of the service thread. Engine lock held. */
static inline void uro_sched_store_takeover(struct uro_sched_shared *shared,
                                            const struct uro_sched_words *before,
                                            const struct uro_sched_words *words)
{
    if (before->balance == words->balance && before->takeover == words->takeover)
        return; /* the program may have stored other values when it announced a wait */
    if (before->takeover != words->takeover)
        URO_PROBE1(takeover, words->takeover);
    URO_SCHED_STORE(shared, words, balance);
    URO_SCHED_STORE(shared, words, takeover);
}

/* Wakes the service thread if it sleeps. Thread: any. */
void uro_service_wake(struct uro_device *device);

/* Takes the engine lock. Meanwhile uro_progress_try_lock() fails, so that this thread is next. */
void uro_progress_lock(struct uro_device *device);
/* Takes the engine lock if it is free and no thread waits for it. Returns whether it did. */
URO_NODISCARD bool uro_progress_try_lock(struct uro_device *device);

/* Runs the service thread until the device stops. The port and the engine exist. */
void uro_service_run(struct uro_device *device);
