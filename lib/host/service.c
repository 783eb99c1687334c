/* SPDX-License-Identifier: BSD-3-Clause */
/* service.c - the service thread of a device: its rounds and its sleep. sched.h makes the
 * decisions.
 *
 * An idle device costs almost no processor time: without frames, posts and timers, the thread
 * sleeps until the next check of the link.
 */
#define _GNU_SOURCE /* ppoll */
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

/* Sleeps until the time @until or uro_service_wake(). With @armed, a frame also wakes the
 * thread. */
static void sleep_until(struct uro_device *device, uro_time now, uro_time until, bool armed)
{
    struct timespec left = { 0 };
    uint64_t count;

    if (until > now) {
        left.tv_sec = (time_t)((until - now) / 1000000000u);
        left.tv_nsec = (long)((until - now) % 1000000000u);
    }
    URO_PROBE3(thread_sleep, device->wake_fd, until - now, armed);
    int woken = ppoll(device->poll_fds, armed ? device->poll_fd_count : 1, &left, NULL);
    atomic_store(&device->shared.wake_at, 0);
    atomic_store(&device->shared.rx_armed, false);
    if (woken > 0 && device->poll_fds[0].revents != 0)
        (void)!read(device->wake_fd, &count, sizeof count);
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

/* Sleeps while callers run the engine; frames do not wake the thread. */
static void stand_back(struct uro_device *device, uro_time now, uro_time until)
{
    disarm(device);
    atomic_store(&device->shared.wake_at, until);
    if (atomic_load(&device->shared.takeover) == URO_TAKEOVER_THREAD) {
        atomic_store(&device->shared.wake_at, 0);
        return;
    }
    sleep_until(device, now, until, false);
}

/* Reads the file descriptors of the port. Returns whether there are any. Engine lock held. */
static bool read_descriptors(struct uro_device *device)
{
    int fds[URO_PORT_FDS_MAX];
    const uint32_t count = uro_port_wait_fds(device->port, fds);

    for (uint32_t i = 0; i < count; i++)
        device->poll_fds[1 + i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    device->poll_fd_count = 1 + count;
    return count > 0;
}

/* Arms the port, and announces the sleep to other threads. Returns false when frames are waiting.
 * Engine lock held. */
static bool announce_sleep(struct uro_device *device, uro_time now, uro_time *until)
{
    const struct uro_sched_idle idle = {
        .now = now,
        .next = uro_engine_next(device->engine),
        .link_interval =
            uro_show_in_progress(device) ? URO_SHOW_INTERVAL : uro_round_link_interval(device),
        .link_up = device->link_up,
        /* The descriptor of a dead link may be readable for ever. */
        .has_descriptor = (device->link_up || uro_port_has(device->port, URO_PORT_WAKES_DOWN)) &&
                          read_descriptors(device),
    };
    const struct uro_sched_decision sleep = uro_sched_on_idle(&device->sched, &idle);

    *until = sleep.until;
    device->armed = sleep.arm && uro_port_arm(device->port);
    atomic_store(&device->shared.rx_armed, device->armed);
    atomic_store(&device->shared.wake_at, sleep.until);
    return !sleep.arm || device->armed;
}

void uro_service_wake(struct uro_device *device)
{
    const uint64_t one = 1;

    if (atomic_load(&device->shared.wake_at) == 0)
        return; /* the thread is awake, and checks for doorbells before it sleeps */
    URO_PROBE1(thread_wake, device->wake_fd);
    atomic_store(&device->shared.wake_at, 0);
    if (write(device->wake_fd, &one, sizeof one) < 0)
        return; /* the eventfd is full, so it is readable */
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

    const struct uro_sched_words before = uro_sched_load(shared);
    struct uro_sched_words words = before;
    struct uro_sched_decision decision = uro_sched_on_thread_round(&device->sched, &words, &round);
    uro_sched_store_takeover(shared, &before, &words);
    URO_SCHED_STORE(shared, &words, silence);
    if (round.received > 0)
        URO_SCHED_STORE(shared, &words, empty_polls);
    return decision;
}

/* Runs one round under the lock. Returns whether the thread has nothing to do and may sleep until
 * *@until. */
static bool work(struct uro_device *device, uro_time *now, uro_time *until)
{
    uro_progress_lock(device);
    *now = uro_device_now();
    struct uro_sched_decision decision = round_of_thread(device, *now);
    bool is_ready = decision.action == URO_SCHED_SLEEP && announce_sleep(device, *now, until);
    (void)pthread_mutex_unlock(&device->mutex);
    /* From here on, a thread that rings the doorbell sees that this thread must be woken. */
    atomic_thread_fence(memory_order_seq_cst);
    bool rung = uro_engine_rung(device->engine);
    /* The posting thread rang the doorbell, but could not lock. */
    device->sched.doorbell_missed = rung && decision.action == URO_SCHED_DEFER;
    if (!rung && is_ready)
        return true;
    atomic_store(&device->shared.wake_at, 0);
    atomic_store(&device->shared.rx_armed, false);
    return false;
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

/* Requests short time slices. Each round of the thread is short, and programs wait for it. The
 * scheduler then prefers the thread to a program that spins on its memory. Linux before 6.12
 * ignores the request. */
static void request_short_slices(void)
{
    struct scheduling now = { .size = sizeof now };

    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.policy != SCHED_OTHER)
        return;
    now.runtime = URO_TIME_SLICE;
    (void)syscall(SYS_sched_setattr, 0, &now, 0);
}

void uro_service_run(struct uro_device *device)
{
    bool removal_reported = false;

    atomic_store(&device->shared.silence, URO_SILENCE_MIN);
    device->poll_fds[0] = (struct pollfd){ .fd = device->wake_fd, .events = POLLIN };
    (void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    request_short_slices();
    while (!atomic_load(&device->stopping)) {
        uro_time now = uro_device_now(), until = 0;
        uro_round_report_removal(device, &removal_reported);
        const struct uro_sched_words words = uro_sched_load(&device->shared);
        struct uro_sched_decision decision = uro_sched_on_thread(&device->sched, &words, now);
        if (decision.action == URO_SCHED_SLEEP)
            stand_back(device, now, decision.until);
        else if (work(device, &now, &until) && device->sched.mode != URO_PROGRESS_THREAD)
            sleep_until(device, now, until, device->armed);
    }
}
