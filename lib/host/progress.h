/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - the state that callers and the service thread of a device share: struct
 * uro_sched_vars (sched.h) in atomic variables. progress.c has the rounds of callers, service.c
 * has the service thread.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/probe.h"
#include "host/sched.h"
#include "host/waiter.h"

/* Maximum number of descriptors of a runner in addition to those of the port: its wake-up
 * descriptor, and the descriptors that a waiting thread waits for. */
#define URO_RUNNER_FDS_OWN (1u + URO_WAIT_FDS_MAX)

/* Atomic variables: the members of struct uro_sched_vars, with comments in sched.h, and others. */
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
    atomic_uint contended_polls; /* polls so far that found the engine lock taken */
    atomic_bool caller_in_round;
    atomic_bool rx_armed; /* the thread with the role sleeps or will sleep; a frame wakes it */
    atomic_uint_least64_t sent_at; /* time when a round last sent something */

    /* The service role; service.c. */
    atomic_int role;                        /* enum uro_service_role */
    atomic_uint_least64_t role_returned_at; /* when a waiting thread last returned the role */
    atomic_uint_least64_t thread_wake_at;   /* when the sleeping service thread wakes; 0: awake */
    atomic_bool run_at_once;                /* the woken service thread runs at once */
    atomic_bool role_wanted;                /* a waiting thread requests the role */
    atomic_uint waiters;                    /* threads that wait for events */
    atomic_uint waits;                      /* number of waits with the role so far */
};

/* The thread that has the service role. It runs the engine while no caller does, and sleeps on the
 * port's descriptors. service.c has the table of changes. */
enum uro_service_role {
    URO_ROLE_THREAD_AWAKE,
    URO_ROLE_THREAD_ASLEEP,
    URO_ROLE_WAITER_AWAKE,
    URO_ROLE_WAITER_ASLEEP,
};

/* A thread that has, or can get, the service role. */
struct uro_runner {
    struct uro_device *device;
    nfds_t own_count;      /* number of descriptors that are not the port's; first in `fds` */
    nfds_t count;          /* number of all descriptors in `fds` */
    bool removal_reported; /* the service thread has reported that the port was removed */
    const sigset_t *mask;  /* signals that are blocked while the thread sleeps; NULL: no change */
    struct pollfd fds[URO_RUNNER_FDS_OWN + URO_PORT_FDS_MAX]; /* fds[0] wakes the thread */
};

struct uro_service_sleep {
    uro_time now;
    uro_time until;
    bool armed; /* frames end the sleep */
};

/* Copies the variables. wake_at and takeover need sequentially consistent loads, because the
 * service thread announces its sleep and then checks for doorbells. */
static inline struct uro_sched_vars uro_sched_load(const struct uro_sched_shared *shared)
{
#define LOAD(var) .var = atomic_load_explicit(&shared->var, memory_order_relaxed)
    return (struct uro_sched_vars){
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

/* Stores one variable of the copy. */
#define URO_SCHED_STORE(shared, vars, var)                                                         \
    atomic_store_explicit(&(shared)->var, (vars)->var, memory_order_relaxed)

/* Stores the balance and the takeover after a round. Engine lock held. */
static inline void uro_sched_store_takeover(struct uro_sched_shared *shared,
                                            const struct uro_sched_vars *before,
                                            const struct uro_sched_vars *vars)
{
    if (before->balance == vars->balance && before->takeover == vars->takeover)
        return; /* the program may have stored other values when it announced a wait */
    if (before->takeover != vars->takeover)
        URO_PROBE1(takeover, vars->takeover);
    URO_SCHED_STORE(shared, vars, balance);
    URO_SCHED_STORE(shared, vars, takeover);
}

/* Wakes the thread that has the service role, if it sleeps. Thread: any. */
void uro_service_wake(struct uro_device *device);
/* Wakes the service thread and the waiting thread. For the end of a device. Thread: any. */
void uro_service_wake_all(struct uro_device *device);
/* Wakes the service thread, which then checks whether to take the role. Thread: any. */
void uro_service_look(struct uro_device *device);

/* Returns whether a waiting thread has the service role. Thread: any. */
URO_NODISCARD bool uro_service_has_waiter(struct uro_device *device);
/* Changes the role from @from to @to. Returns false if the role was not @from. */
bool uro_service_move_role(struct uro_device *device, enum uro_service_role from,
                           enum uro_service_role to);
/* Runs a round, unless callers run the engine. Returns whether the thread must sleep now, and
 * stores the sleep. Thread: the thread with the service role, while it is awake. */
URO_NODISCARD bool uro_service_work(struct uro_runner *runner, struct uro_service_sleep *sleep);
/* Sleeps. Returns the result of ppoll(), or -errno. A cancellation point. */
int uro_service_sleep(struct uro_runner *runner, const struct uro_service_sleep *sleep);

/* Takes the engine lock. While this thread waits, uro_progress_try_lock() fails, so that polls and
 * posts do not take the lock first. */
void uro_progress_lock(struct uro_device *device);
/* Takes the engine lock if it is free and no thread waits for it. Returns whether it took the
 * lock. */
URO_NODISCARD bool uro_progress_try_lock(struct uro_device *device);
/* Takes the engine lock of a device that ends. Returns false, without the lock, if a thread still
 * keeps it at the time @until. With a common port, that is also so if a thread keeps the lock of
 * another engine, because that thread may keep the lock of the port, too. It may be this thread,
 * which then runs a signal handler. */
URO_NODISCARD bool uro_progress_lock_until(struct uro_device *device, const struct timespec *until);

/* Returns whether the engines of the device have a common port: io/engines/port.h. */
bool uro_device_shares_port(const struct uro_device *device);

/* Runs the service thread until the device stops. The port and the engine exist. */
void uro_service_run(struct uro_device *device);
