/* SPDX-License-Identifier: BSD-3-Clause */
/* service.c - the service role of a device: its rounds and its sleep. One thread has the role:
 * the service thread, or a thread of the program that waits for an event (waiter.c). sched.h makes
 * the decisions.
 *
 * An idle device costs almost no processor time: without frames, posts and timers, the thread
 * sleeps until the next check of the link.
 *
 * How the role moves (enum uro_service_role). A thread changes it only by compare and exchange.
 *
 *   from           to             by
 *   THREAD_AWAKE   THREAD_ASLEEP  the service thread, before it sleeps
 *   THREAD_ASLEEP  THREAD_AWAKE   the service thread, after it slept
 *   THREAD_ASLEEP  WAITER_AWAKE   a thread that begins to wait for an event
 *   WAITER_AWAKE   WAITER_ASLEEP  that thread, before it sleeps
 *   WAITER_ASLEEP  WAITER_AWAKE   that thread, after it slept
 *   WAITER_AWAKE   THREAD_ASLEEP  that thread, when its wait ends
 *   WAITER_ASLEEP  THREAD_ASLEEP  that thread, when it is cancelled
 *   WAITER_ASLEEP  THREAD_AWAKE   the service thread, when that thread does not wake in time: a
 *                                 signal handler runs, or has left the wait by longjmp()
 */
#define _GNU_SOURCE /* ppoll */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/probe.h"
#include "host/device.h"
#include "host/limits.h"
#include "host/progress.h"

/* ---- sleep --------------------------------------------------------------- */

static struct timespec time_left(uro_time now, uro_time until)
{
    struct timespec left = { 0 };

    if (until > now) {
        left.tv_sec = (time_t)((until - now) / 1000000000u);
        left.tv_nsec = (long)((until - now) % 1000000000u);
    }
    return left;
}

bool uro_service_move_role(struct uro_device *device, enum uro_service_role from,
                           enum uro_service_role to)
{
    int expected = (int)from;

    return atomic_compare_exchange_strong(&device->shared.role, &expected, to);
}

static void drain(int fd)
{
    uint64_t count;

    (void)!read(fd, &count, sizeof count);
}

int uro_service_sleep(struct uro_runner *runner, const struct uro_service_sleep *sleep)
{
    struct timespec left = time_left(sleep->now, sleep->until);
    nfds_t count = sleep->armed ? runner->count : runner->own_count;

    URO_PROBE3(thread_sleep, runner->fds[0].fd, sleep->until - sleep->now, sleep->armed);
    int woken = ppoll(runner->fds, count, &left, runner->mask);
    if (woken > 0 && runner->fds[0].revents != 0)
        drain(runner->fds[0].fd);
    return woken < 0 ? -errno : woken;
}

/* Disarms the port. While the port is armed, each frame costs the sending peer a system call. If a
 * caller has the lock, the next check disarms the port. */
static void disarm(struct uro_device *device)
{
    if (!device->armed || !uro_progress_try_lock(device))
        return;
    uro_port_disarm(device->port);
    device->armed = false;
    (void)pthread_mutex_unlock(&device->mutex);
}

/* Prepares to sleep while callers run the engine; frames do not wake the thread. Returns false if
 * the thread must run instead. */
static bool stand_back(struct uro_device *device, const struct uro_service_sleep *sleep)
{
    disarm(device);
    atomic_store(&device->shared.wake_at, sleep->until);
    if (atomic_load(&device->shared.takeover) != URO_TAKEOVER_THREAD)
        return true;
    atomic_store(&device->shared.wake_at, 0);
    return false;
}

/* Reads the file descriptors of the port. Returns whether there are any. Engine lock held. */
static bool read_descriptors(struct uro_runner *runner)
{
    int fds[URO_PORT_FDS_MAX];
    const uint32_t count = uro_port_wait_fds(runner->device->port, fds);

    for (uint32_t i = 0; i < count; i++)
        runner->fds[runner->own_count + i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    runner->count = runner->own_count + count;
    return count > 0;
}

/* Arms the port, and announces the sleep to other threads. Returns false when frames are waiting.
 * Engine lock held. */
static bool announce_sleep(struct uro_runner *runner, struct uro_service_sleep *sleep)
{
    struct uro_device *device = runner->device;
    const struct uro_sched_idle idle = {
        .now = sleep->now,
        .next = uro_round_next(device),
        .link_interval =
            uro_show_in_progress(device) ? URO_SHOW_INTERVAL : uro_round_link_interval(device),
        .link_up = device->link_up,
        /* The descriptor of a link that is down may be readable for ever. */
        .has_descriptor = (device->link_up || uro_port_has(device->port, URO_PORT_WAKES_DOWN)) &&
                          read_descriptors(runner),
    };
    const struct uro_sched_decision decision = uro_sched_on_idle(&device->sched, &idle);

    sleep->until = decision.until;
    sleep->armed = device->armed = decision.arm && uro_port_arm(device->port);
    atomic_store(&device->shared.rx_armed, device->armed);
    atomic_store(&device->shared.wake_at, decision.until);
    return !decision.arm || device->armed;
}

/* Wakes the thread that sleeps on the descriptor @fd. */
static void ring(int fd)
{
    const uint64_t one = 1;

    URO_PROBE1(thread_wake, fd);
    if (write(fd, &one, sizeof one) < 0)
        return; /* the eventfd is full, so it is readable */
}

bool uro_service_has_waiter(struct uro_device *device)
{
    int role = atomic_load(&device->shared.role);

    return role == URO_ROLE_WAITER_AWAKE || role == URO_ROLE_WAITER_ASLEEP;
}

void uro_service_wake_all(struct uro_device *device)
{
    atomic_store(&device->shared.run_at_once, true);
    ring(device->wake_fd);
    ring(device->waiter_fd);
}

void uro_service_look(struct uro_device *device)
{
    ring(device->wake_fd);
}

void uro_service_wake(struct uro_device *device)
{
    struct uro_sched_shared *shared = &device->shared;
    uint_least64_t wake_at = atomic_load(&shared->wake_at);
    uro_time now = 0;
    bool waiter;

    do {
        if (wake_at == 0)
            return; /* the thread is awake, and checks for doorbells before it sleeps */
        waiter = uro_service_has_waiter(device);
        if (waiter)
            now = uro_device_now();
        if (waiter && wake_at <= now)
            return; /* another thread has woken the waiting thread, or it wakes by itself */
        /* The waiting thread may have left the wait. Then the waiting thread is overdue soon after
         * @now. */
    } while (!atomic_compare_exchange_weak(&shared->wake_at, &wake_at, waiter ? now : 0));
    if (!waiter)
        atomic_store(&shared->run_at_once, true);
    ring(waiter ? device->waiter_fd : device->wake_fd);
}

/* ---- rounds --------------------------------------------------------------- */

/* Runs one round of the service thread. Engine lock held. */
static struct uro_sched_decision round_of_thread(struct uro_device *device, uro_time now)
{
    struct uro_sched_shared *shared = &device->shared;
    struct uro_sched_thread_round round = { .began = now };

    atomic_store_explicit(&shared->contended_at, 0, memory_order_relaxed);
    if (device->armed)
        uro_port_disarm(device->port);
    device->armed = false;
    round.moved = uro_round_run(device, true, now, &round.received);
    round.served = uro_round_served(device);
    round.ended = uro_device_now();

    const struct uro_sched_vars before = uro_sched_load(shared);
    struct uro_sched_vars vars = before;
    struct uro_sched_decision decision = uro_sched_on_thread_round(&device->sched, &vars, &round);
    uro_sched_store_takeover(shared, &before, &vars);
    URO_SCHED_STORE(shared, &vars, silence);
    if (round.received > 0)
        URO_SCHED_STORE(shared, &vars, empty_polls);
    return decision;
}

/* Runs one round under the lock. Returns whether the thread has nothing to do and may sleep. */
static bool work(struct uro_runner *runner, struct uro_service_sleep *sleep)
{
    struct uro_device *device = runner->device;

    uro_progress_lock(device);
    sleep->now = uro_device_now();
    if (device->closed) { /* the device has ended */
        (void)pthread_mutex_unlock(&device->mutex);
        sleep->until = sleep->now + URO_LINK_CHECK_INTERVAL;
        return true;
    }
    struct uro_sched_decision decision = round_of_thread(device, sleep->now);
    bool is_ready = decision.action == URO_SCHED_SLEEP && announce_sleep(runner, sleep);
    (void)pthread_mutex_unlock(&device->mutex);
    /* After this fence, a thread that rings the doorbell sees that this thread must be woken. */
    atomic_thread_fence(memory_order_seq_cst);
    bool rung = uro_engine_rung(device->engine);
    /* A post rang the doorbell and did not get the lock, so this thread must send its request. */
    device->sched.doorbell_missed = rung && decision.action == URO_SCHED_DEFER;
    if (!rung && is_ready)
        return true;
    atomic_store(&device->shared.wake_at, 0);
    atomic_store(&device->shared.rx_armed, false);
    return false;
}

bool uro_service_work(struct uro_runner *runner, struct uro_service_sleep *sleep)
{
    struct uro_device *device = runner->device;
    const struct uro_sched_vars vars = uro_sched_load(&device->shared);

    *sleep = (struct uro_service_sleep){ .now = uro_device_now() };
    struct uro_sched_decision decision = uro_sched_on_thread(&device->sched, &vars, sleep->now);
    if (decision.action != URO_SCHED_SLEEP)
        return work(runner, sleep) && device->sched.mode != URO_PROGRESS_THREAD;
    sleep->until = decision.until;
    return stand_back(device, sleep);
}

/* struct sched_attr of <linux/sched/types.h>, which conflicts with <sched.h>. */
struct scheduling {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* SCHED_OTHER: time slice in ns, since Linux 6.12 */
    uint64_t deadline;
    uint64_t period;
};

/* Requests short time slices. Each round of the thread is short, and programs wait for it. With
 * short slices, the Linux scheduler prefers the thread to a program that spins on its memory. Linux
 * before 6.12 ignores the request. */
static void request_short_slices(void)
{
    struct scheduling now = { .size = sizeof now };

    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.policy != SCHED_OTHER)
        return;
    now.runtime = URO_TIME_SLICE;
    (void)syscall(SYS_sched_setattr, 0, &now, 0);
}

/* ---- the service thread ----------------------------------------------------- */

/* Sleeps with the role. Returns whether the thread must then run at once. */
static bool sleep_with_role(struct uro_runner *runner, const struct uro_service_sleep *sleep)
{
    struct uro_device *device = runner->device;

    atomic_store(&device->shared.thread_wake_at, sleep->until);
    /* From here on, a thread that waits for an event may take the role. */
    (void)uro_service_move_role(device, URO_ROLE_THREAD_AWAKE, URO_ROLE_THREAD_ASLEEP);
    const int woken = uro_service_sleep(runner, sleep);
    const bool by_wake_fd = woken > 0 && runner->fds[0].revents != 0;
    return atomic_exchange(&device->shared.run_at_once, false) || (woken > 0 && !by_wake_fd);
}

/* Sleeps without the role. Returns whether the thread must then run at once. */
static bool sleep_without_role(struct uro_runner *runner, uro_time now, uro_time until)
{
    const struct uro_service_sleep sleep = { .now = now, .until = until };

    (void)uro_service_sleep(runner, &sleep);
    return atomic_exchange(&runner->device->shared.run_at_once, false);
}

/* Takes the role after the thread slept. Returns false if the thread must continue to sleep until
 * *@until. @at_once: run unless another thread has the role. */
static bool take_role(struct uro_device *device, bool at_once, uro_time now, uro_time *until)
{
    const struct uro_sched_role role = {
        .waiter = uro_service_has_waiter(device),
        .wake_at = atomic_load(&device->shared.wake_at),
        .returned_at = atomic_load(&device->shared.role_returned_at),
        .waits = atomic_load(&device->shared.waits),
    };
    const struct uro_sched_decision decision = uro_sched_on_role(&device->sched, &role, now);

    *until = decision.until;
    if (decision.action == URO_SCHED_SLEEP && (role.waiter || !at_once))
        return false;
    *until = now;
    return uro_service_move_role(device,
                                 role.waiter ? URO_ROLE_WAITER_ASLEEP : URO_ROLE_THREAD_ASLEEP,
                                 URO_ROLE_THREAD_AWAKE);
}

/* Publishes that this thread sleeps until @until without the role. Returns whether it may sleep. It
 * may sleep while a waiting thread has the role, because that thread wakes it when it returns the
 * role. If the role is free, this thread may sleep only if no doorbell was rung and @until is
 * within the grace time. */
static bool publish_sleep_without_role(struct uro_device *device, uro_time now, uro_time until)
{
    atomic_store(&device->shared.thread_wake_at, until);
    if (uro_service_has_waiter(device))
        return true; /* the waiting thread reads thread_wake_at when it returns the role */
    atomic_store(&device->shared.wake_at, until);
    atomic_thread_fence(memory_order_seq_cst);
    return until <= now + URO_ROLE_GRACE && !uro_engine_rung(device->engine);
}

/* Sleeps until the thread has the role again. */
static void regain_role(struct uro_runner *runner, bool at_once)
{
    struct uro_device *device = runner->device;
    uro_time now = uro_device_now(), until;

    while (!atomic_load(&device->stopping) && !take_role(device, at_once, now, &until)) {
        uro_round_report_removal(
            device, &runner->removal_reported); /* a waiting thread may have detected the removal */
        at_once = publish_sleep_without_role(device, now, until)
                      ? sleep_without_role(runner, now, until)
                      : true;
        now = uro_device_now();
    }
    atomic_store(&device->shared.thread_wake_at, 0);
    atomic_store(&device->shared.wake_at, 0);
    atomic_store(&device->shared.rx_armed, false);
}

/* Lets a thread that waits for an event take the role. */
static void give_role_up(struct uro_runner *runner)
{
    const uro_time now = uro_device_now();
    const struct uro_service_sleep sleep = { .now = now, .until = now + URO_ROLE_GRACE };
    struct uro_sched_shared *shared = &runner->device->shared;

    atomic_store(&shared->role_wanted, false);
    atomic_store(&shared->wake_at, sleep.until);
    regain_role(runner, sleep_with_role(runner, &sleep));
}

void uro_service_run(struct uro_device *device)
{
    struct uro_runner runner = {
        .device = device,
        .own_count = 1,
        .fds[0] = { .fd = device->wake_fd, .events = POLLIN },
    };
    struct uro_service_sleep sleep;

    atomic_store(&device->shared.silence, URO_SILENCE_MIN);
    (void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    request_short_slices();
    while (!atomic_load(&device->stopping)) {
        uro_round_report_removal(device, &runner.removal_reported);
        if (atomic_load(&device->shared.role_wanted))
            give_role_up(&runner);
        else if (uro_service_work(&runner, &sleep))
            regain_role(&runner, sleep_with_role(&runner, &sleep));
    }
}
