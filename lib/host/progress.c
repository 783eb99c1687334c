/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - the engine lock, whose holder runs the engine, and the rounds of callers of verbs.
 *
 * ibv_poll_cq on an empty CQ and ibv_post_* try the lock and run a round, so that a polling program
 * receives without a thread switch. sched.h decides when the service thread runs rounds instead.
 */
#define _GNU_SOURCE /* pthread_mutex_timedlock */
#include "host/progress.h"

#include <pthread.h>
#include <sched.h>

#include "base/doorbell.h"
#include "host/device.h"
#include "host/limits.h"

/* ---- the engine lock ------------------------------------------------------ */

void uro_progress_lock(struct uro_device *device)
{
    atomic_fetch_add(&device->waiters, 1);
    (void)pthread_mutex_lock(&device->mutex);
    atomic_fetch_sub(&device->waiters, 1);
}

void uro_device_lock(struct uro_device *device)
{
    uro_progress_lock(device);
    if (uro_device_started(device) && uro_engine_rung(device->engine))
        (void)uro_round_send(device, uro_device_now()); /* a command may destroy the queue pair */
}

void uro_device_unlock(struct uro_device *device)
{
    bool runs = uro_device_started(device);

    if (runs)
        uro_engine_deliver(device->engine); /* a command may have flushed a queue pair */
    (void)pthread_mutex_unlock(&device->mutex);
    if (runs)
        uro_service_wake(device); /* the command may have queued packets */
}

/* A caller that posts rings the doorbell before this load of `waiters`. A thread that waits for the
 * lock checks for doorbells after it has the lock, so it sends the request. */
bool uro_progress_try_lock(struct uro_device *device)
{
    return atomic_load(&device->waiters) == 0 && pthread_mutex_trylock(&device->mutex) == 0;
}

bool uro_device_shares_port(const struct uro_device *device)
{
    return device->config.engines > 1 &&
           !uro_port_driver_has(device->config.driver, URO_DRIVER_ENGINES);
}

bool uro_progress_lock_until(struct uro_device *device, const struct timespec *until)
{
    struct uro_device *engine = uro_device_shares_port(device) ? device->first_engine : NULL;

    for (; engine != NULL; engine = engine->next_engine) {
        if (engine == device)
            continue;
        if (pthread_mutex_timedlock(&engine->mutex, until) != 0)
            return false;
        (void)pthread_mutex_unlock(&engine->mutex);
    }
    return pthread_mutex_timedlock(&device->mutex, until) == 0;
}

/* ---- rounds of callers ----------------------------------------------------- */

/* Returns the end of the round that started at @now. The clock is read again only after a long
 * round, so that the caller inside it does not count as silent. Engine lock held. */
static uro_time end_of_round(const struct uro_device *device, uro_time now, uint32_t received)
{
    uro_time sent = atomic_load_explicit(&device->shared.sent_at, memory_order_relaxed);

    if (sent > now)
        return sent;
    return received < URO_LONG_ROUND ? now : uro_device_now();
}

static void store_poll(struct uro_sched_shared *shared, bool found)
{
    if (found)
        atomic_store_explicit(&shared->empty_polls, 0, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&shared->empty_polls, 1, memory_order_relaxed);
}

/* Runs one round for a caller. Engine lock held. */
static struct uro_sched_caller_result caller_round(struct uro_device *device, bool posted)
{
    struct uro_sched_shared *shared = &device->shared;
    struct uro_sched_caller_round round = { .began = uro_device_now(), .posted = posted };
    struct uro_sched_vars vars = uro_sched_load(shared);
    vars.held_posts = atomic_exchange_explicit(&shared->held_posts, 0, memory_order_relaxed);
    round.sends = posted || vars.held_posts > 0;
    bool receive = uro_sched_on_caller(&device->sched, &vars, posted, round.began).receive;
    URO_SCHED_STORE(shared, &vars, silence);
    URO_SCHED_STORE(shared, &vars, post_burst);
    if (posted)
        (void)uro_round_run(device, receive, round.began, &round.received);
    else
        round.received = uro_round_of_poll(device, receive, round.began);
    round.ended = end_of_round(device, round.began, round.received);
    round.next = uro_round_next(device);

    struct uro_sched_vars before = vars = uro_sched_load(shared);
    struct uro_sched_caller_result result = uro_sched_on_caller_done(&device->sched, &vars, &round);
    uro_sched_store_takeover(shared, &before, &vars);
    URO_SCHED_STORE(shared, &vars, post_round_at);
    if (!posted) {
        URO_SCHED_STORE(shared, &vars, poll_round_at);
        URO_SCHED_STORE(shared, &vars, polled_at);
        store_poll(shared, round.received > 0);
    }
    return result;
}

/* Returns whether the posted requests wait for a later call. */
static bool is_deferred(struct uro_device *device)
{
    struct uro_sched_vars vars = uro_sched_load(&device->shared);

    return uro_sched_on_post(&device->sched, &vars, uro_device_now()).action == URO_SCHED_DEFER &&
           atomic_fetch_add_explicit(&device->shared.held_posts, 1, memory_order_relaxed) <
               URO_COALESCE_POSTS;
}

/* Records a poll while another thread runs the engine. Returns whether the caller must yield. */
static bool note_contended(struct uro_sched_shared *shared)
{
    store_poll(shared, false);
    if (atomic_load_explicit(&shared->contended_at, memory_order_relaxed) == 0)
        atomic_store_explicit(&shared->contended_at, uro_device_now(), memory_order_relaxed);
    return uro_sched_on_contended(
        1 + atomic_fetch_add_explicit(&shared->contended_polls, 1, memory_order_relaxed));
}

void uro_device_progress(struct uro_device *device, bool posted)
{
    if (posted && is_deferred(device))
        return;
    for (uint32_t i = 0; i < URO_CALLER_ROUNDS; i++) {
        if (!uro_progress_try_lock(device)) {
            if (!posted && note_contended(&device->shared))
                (void)sched_yield();
            return; /* the lock holder checks for doorbells after unlocking */
        }
        atomic_store_explicit(&device->shared.caller_in_round, true, memory_order_relaxed);
        struct uro_sched_caller_result result = caller_round(device, posted);
        atomic_store_explicit(&device->shared.caller_in_round, false, memory_order_relaxed);
        (void)pthread_mutex_unlock(&device->mutex);
        if (result.wake_thread)
            uro_service_wake(device);
        if (result.yield)
            (void)sched_yield();
        uro_doorbell_released();
        if (!uro_engine_rung(device->engine))
            return;
    }
    uro_service_wake(device);
}

void uro_device_polled(struct uro_device *device)
{
    struct uro_sched_vars vars = uro_sched_load(&device->shared);
    struct uro_sched_decision decision = uro_sched_on_poll(&vars, uro_device_now());

    URO_SCHED_STORE(&device->shared, &vars, empty_polls);
    URO_SCHED_STORE(&device->shared, &vars, polled_at);
    URO_SCHED_STORE(&device->shared, &vars, post_burst);
    if (decision.action == URO_SCHED_RUN)
        uro_device_progress(device, false);
}

void uro_device_hand_over(struct uro_device *device)
{
    /* A waiting thread has the role and runs the engine. When it returns the role, it wakes the
     * service thread if other threads wait. */
    if (uro_service_has_waiter(device))
        return;
    struct uro_sched_vars vars = uro_sched_load(&device->shared);
    struct uro_sched_decision decision =
        uro_sched_on_wait(&vars, atomic_load(&device->shared.rx_armed));

    atomic_store(&device->shared.balance, vars.balance);
    atomic_store(&device->shared.takeover, vars.takeover);
    if (decision.action == URO_SCHED_RUN)
        uro_service_wake(device);
}
