/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - who drives the engine.
 *
 * Whoever holds the engine lock drives. Two kinds of threads do:
 *
 *   callers   ibv_poll_cq on an empty CQ and ibv_post_* try the lock and run a round. A program
 *             that polls gets its packets with no thread switch at all.
 *   service   one thread per device, for programs that wait for events, spin on their own memory
 *             (the target of a WRITE), or do nothing while a peer reads from them.
 *
 * On two cores shared by two programs the service thread must not run while callers do, and must
 * run at once when they do not. What it goes by:
 *
 *   callers drive   it sleeps, and looks every STAND_BACK_MIN .. URO_STAND_BACK_MAX whether the last caller's
 *                   round is so old that the program is silent. If so it runs rounds itself until there
 *                   is nothing to do, and asks the port for a wake-up. How old that is, is learned: a
 *                   program that comes back soon is only slow, on a slow machine above all.
 *   in charge       it sleeps on the port's descriptor, so that the scheduler runs it as soon as a
 *                   frame arrives.
 *
 * A round may take long. A caller that is in one is not silent, and the thread does not wait for the lock, unless it is
 * in charge or drives alone; a program that polls while the thread is in one has its turn next.
 *
 * Which of the two is learned, and how old the last call must be: learn.h.
 *
 * Before it sleeps it looks for frames a little longer, but only when the program has not called for
 * a while, and is not being woken: one that posts and then spins on its own memory needs the processor more than
 * we do, and a frame wakes us anyway. While callers drive, no wake-up is asked for: peers would pay for it.
 *
 * Which posts leave with the next call instead of at once: gather.h.
 *
 * A caller that polls in vain lets other threads run from time to time: on a machine with fewer
 * processors than pollers it would otherwise spend its time slice waiting for a peer that waits for
 * a processor.
 *
 * Nobody polls when nothing happens: with no frame, no post and no timer due the thread sleeps
 * until the next look at the link.
 */
#define _GNU_SOURCE /* ppoll */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/device.h"
#include "host/gather.h"
#include "host/learn.h"

#define SLICE          URO_US(100) /* the shortest there is */
#define STAND_BACK_MIN URO_US(50)
#define SPIN           URO_US(100) /* without a frame, before sleeping, when the program is away */
#define AWAY           URO_MS(2)   /* no call for so long: it will not miss the processor */
#define POLLED_SLEEP   URO_US(50)  /* of a port without a descriptor, while there is traffic */
#define POLLED_IDLE    URO_MS(1)
#define POLLED_REST    URO_MS(5)   /* when nothing has moved for ... */
#define POLLED_AWAKE   URO_MS(200) /* ... so long: below 1 % of a processor */
#define MANY           8u  /* frames: handling them takes longer than looking at the clock */
#define EMPTY_ROUNDS   64u /* of callers in a row, about 10 us: then somebody else may need ... */
#define YIELD_EVERY    8u  /* ... the processor, the peer on the same machine above all */
#define CALLER_ROUNDS  3u  /* a caller that keeps finding new posts of others goes on so often */
#define REPLY_WAIT                                                                                 \
    URO_US(2) /* for a peer's WRITE behind its ACK, besides the time that both take to send */

/* ---- the lock ----------------------------------------------------------- */

static void lock(struct uro_device *device)
{
    atomic_fetch_add(&device->waiters, 1);
    (void)pthread_mutex_lock(&device->mutex);
    atomic_fetch_sub(&device->waiters, 1);
}

void uro_device_lock(struct uro_device *device)
{
    lock(device);
    if (atomic_load_explicit(&device->life, memory_order_acquire) == URO_DEVICE_RUNNING &&
        uro_engine_rung(device->engine))
        (void)uro_round_send(device, uro_device_now()); /* before a command takes its sender away */
}

void uro_device_unlock(struct uro_device *device)
{
    bool runs = atomic_load_explicit(&device->life, memory_order_acquire) == URO_DEVICE_RUNNING;

    if (runs)
        uro_engine_deliver(device->engine); /* a command may have flushed a queue pair */
    (void)pthread_mutex_unlock(&device->mutex);
    if (runs)
        uro_progress_wake(device); /* a command may have made work */
}

static bool try_lock(struct uro_device *device)
{
    return atomic_load_explicit(&device->waiters, memory_order_relaxed) == 0 &&
           pthread_mutex_trylock(&device->mutex) == 0;
}

/* ---- callers ------------------------------------------------------------ */

void uro_progress_wake(struct uro_device *device)
{
    const uint64_t one = 1;

    if (atomic_load(&device->wakes) == 0)
        return; /* awake: it looks before it sleeps */
    atomic_store(&device->wakes, 0);
    if (write(device->doorbell, &one, sizeof one) < 0)
        return; /* full: it is readable already */
}

/* The engine wants to be called long before the sleeping thread would wake. One that stands back only looks
 * whether callers drive: while they do, they call in time. Engine lock held. */
static bool too_late(struct uro_device *device, uro_time now)
{
    uint64_t wakes = atomic_load_explicit(&device->wakes, memory_order_relaxed);
    uro_time next = uro_engine_next(device->engine);

    return wakes != 0 && next != URO_TIME_NEVER &&
           (next > now ? next : now) + URO_STAND_BACK_MAX < wakes;
}

/* Engine lock held. */
static void note_found(struct uro_device *device, uint32_t received)
{
    if (received == 0) {
        device->caller_empty++;
        return;
    }
    device->caller_empty = 0;
    uro_learn_caller(device);
}

/* A poll while somebody else drives. */
static void knock(struct uro_device *device)
{
    uro_learn_poll(device, false);
    if (atomic_load_explicit(&device->knocked, memory_order_relaxed) == 0)
        atomic_store_explicit(&device->knocked, uro_device_now(), memory_order_relaxed);
}

/* Engine lock held. When the round ended that began at @now, if it may have been long: who was in it was not silent. */
static uro_time end_of(const struct uro_device *device, uro_time now, uint32_t received)
{
    uro_time sent = atomic_load_explicit(&device->sent_at, memory_order_relaxed);

    if (sent > now)
        return sent;
    return received < MANY ? now : uro_device_now();
}

static uint64_t completions(const struct uro_device *device)
{
    return uro_engine_counters(device->engine)->value[URO_COUNT_COMPLETIONS];
}

/* Engine lock held. A poll found the ACK of a program that then looks at its memory, for what the peer is about to
 * write: this is more than @served. Receives for a little longer, and once more when the peer may have had this
 * processor. Returns how many frames came. */
static uint32_t await_reply(struct uro_device *device, uint64_t served)
{
    uro_time until = uro_device_now() + REPLY_WAIT +
                     2 * atomic_load_explicit(&device->send_took, memory_order_relaxed);
    uint32_t received, all = 0;
    bool last = false;

    while (!last && uro_learn_served(device) == served) {
        last = uro_device_now() >= until;
        if (last)
            (void)sched_yield();
        (void)uro_round_run(device, true, uro_device_now(), &received);
        all += received;
    }
    uro_learn_reply(device, uro_learn_served(device) != served);
    return all;
}

/* Engine lock held. Returns how many frames came. */
static uint32_t caller_round(struct uro_device *device, bool posted, uro_time now)
{
    uint32_t received;
    uint64_t completed = completions(device);
    uint64_t served = uro_learn_served(device);

    (void)uro_round_run(device, uro_gather_receives(device, posted, now), now, &received);
    if (!posted && device->reply_score > 0 && completions(device) != completed &&
        uro_learn_served(device) == served)
        received += await_reply(device, served);
    return received;
}

void uro_device_progress(struct uro_device *device, bool posted)
{
    if (posted && uro_gather_post(device, uro_device_now()))
        return;
    for (uint32_t i = 0; i < CALLER_ROUNDS; i++) {
        if (!try_lock(device)) {
            if (!posted)
                knock(device);
            return; /* whoever holds it looks for rung bells after letting go */
        }
        atomic_store_explicit(&device->caller_in, true, memory_order_relaxed);
        uro_time now = uro_device_now();
        if (device->took_over)
            uro_learn_silence(device, now);
        bool carries = uro_gather_leave(device, posted, now);
        uint32_t received = caller_round(device, posted, now);
        note_found(device, received);
        uro_time end = end_of(device, now, received);
        if (carries)
            atomic_store_explicit(&device->posted, end, memory_order_relaxed);
        if (!posted) {
            atomic_store_explicit(&device->called, end, memory_order_relaxed);
            atomic_store_explicit(&device->polled, end, memory_order_relaxed);
            uro_learn_poll(device, received > 0);
        }
        bool late = too_late(device, now);
        bool in_vain = !posted && device->caller_empty >= EMPTY_ROUNDS &&
                       device->caller_empty % YIELD_EVERY == 0;
        atomic_store_explicit(&device->caller_in, false, memory_order_relaxed);
        (void)pthread_mutex_unlock(&device->mutex);
        if (late)
            uro_progress_wake(device);
        if (in_vain)
            (void)sched_yield();
        if (!uro_engine_rung(device->engine))
            return;
    }
    uro_progress_wake(device);
}

/* Who finds completions that others brought drives now and then, or the service thread believes that it
 * must. */
void uro_device_polled(struct uro_device *device)
{
    uro_time now = uro_device_now();
    uro_learn_poll(device, true);
    atomic_store_explicit(&device->polled, now, memory_order_relaxed);
    uro_gather_polled(device);
    if (atomic_load_explicit(&device->gathered, memory_order_relaxed) > 0 ||
        now - atomic_load_explicit(&device->called, memory_order_relaxed) >= URO_SILENCE_MIN / 2)
        uro_device_progress(device, false);
}

void uro_device_hand_over(struct uro_device *device)
{
    bool was_in_charge = uro_learn_waits(device);
    /* It hears frames already, and nothing was left for it to send. */
    if (was_in_charge && atomic_load(&device->hears) && atomic_load(&device->gathered) == 0)
        return;
    uro_progress_wake(device);
}

/* ---- the service thread ------------------------------------------------- */

/* Sleeps until @until, the doorbell, or, with @armed, a frame. */
static void sleep_until(struct uro_device *device, uro_time now, uro_time until, bool armed)
{
    struct timespec left = { 0 };
    uint64_t rings;

    if (until > now) {
        left.tv_sec = (time_t)((until - now) / 1000000000u);
        left.tv_nsec = (long)((until - now) % 1000000000u);
    }
    int woken = ppoll(device->sleeps_on, armed ? device->sleeps_on_count : 1, &left, NULL);
    atomic_store(&device->wakes, 0);
    atomic_store(&device->hears, false);
    if (woken > 0 && device->sleeps_on[0].revents != 0)
        (void)!read(device->doorbell, &rings, sizeof rings);
}

/* Each frame of a peer that was asked to wake us costs it a system call. Where a caller drives, the next look will do. */
static void disarm(struct uro_device *device)
{
    if (!device->armed || !try_lock(device))
        return;
    device->port->ops->disarm(device->port);
    device->armed = false;
    (void)pthread_mutex_unlock(&device->mutex);
}

/* Callers drive: look again later, less often the longer it goes on. */
static void stand_back(struct uro_device *device, uro_time now, uro_time *interval)
{
    disarm(device);
    atomic_store(&device->wakes, now + *interval);
    if (atomic_load(&device->in_charge)) {
        atomic_store(&device->wakes, 0);
        return;
    }
    sleep_until(device, now, now + *interval, false);
    *interval = *interval * 2 < URO_STAND_BACK_MAX ? *interval * 2 : URO_STAND_BACK_MAX;
}

/* Whether to look once more instead of sleeping. A program that is woken waits for a processor, often for ours. */
static bool spins(struct uro_device *device, uro_time now, bool moved)
{
    uro_time called = atomic_load_explicit(&device->called, memory_order_relaxed);
    uro_time posted = atomic_load_explicit(&device->posted, memory_order_relaxed);

    if (moved)
        device->moved_at = now;
    if (device->told) {
        device->told = false;
        device->moved_at = now - SPIN;
        return false;
    }
    return moved || (now - device->moved_at < SPIN && now - called > AWAY && now - posted > AWAY);
}

/* How long a port without a descriptor is left alone. */
static uro_time polled_nap(const struct uro_device *device, uro_time now)
{
    return now - device->moved_at < POLLED_AWAKE ? POLLED_IDLE : POLLED_REST;
}

/* Engine lock held. False: the port has nothing to sleep on. */
static bool ask_port(struct uro_device *device)
{
    int fds[URO_PORT_FDS_MAX];
    const uint32_t count = device->port->ops->wait_fds(device->port, fds);

    for (uint32_t i = 0; i < count; i++)
        device->sleeps_on[1 + i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    device->sleeps_on_count = 1 + count;
    return count > 0;
}

/* Engine lock held. Asks the port for a wake-up; false: there is more to do after all. */
static bool settle(struct uro_device *device, uro_time now, uro_time *until)
{
    uro_time next = uro_engine_next(device->engine);
    /* The descriptor of a dead link may be readable for ever: it is not waited for. */
    bool waits = (device->link_up || device->port->wakes_down) && ask_port(device);
    bool polled = device->link_up && !waits;

    *until = now + (polled ? polled_nap(device, now) : uro_round_link_interval(device));
    if (next <= now)
        *until = now + POLLED_SLEEP; /* the link is full: it will take more soon */
    else if (next < *until)
        *until = next;
    device->armed = waits && device->port->ops->arm(device->port);
    atomic_store(&device->hears, device->armed);
    atomic_store(&device->wakes, *until);
    return !waits || device->armed;
}

/* Engine lock held. Whether somebody polled while the thread had it: who does drives from here on. */
static bool lets_in(struct uro_device *device)
{
    uro_time knocked = atomic_load_explicit(&device->knocked, memory_order_relaxed);
    uro_time called = atomic_load_explicit(&device->called, memory_order_relaxed);
    uro_time posted = atomic_load_explicit(&device->posted, memory_order_relaxed);

    /* An older one came late, of somebody who has driven since. */
    if (knocked <= called || knocked <= posted ||
        atomic_load_explicit(&device->in_charge, memory_order_relaxed))
        return false;
    if (device->took_over)
        uro_learn_silence(device, knocked);
    device->let_in = uro_device_now();
    return true;
}

/* A caller that is in a round is not waited for. Who has the lock for a command is: peers wait meanwhile. */
static bool is_kept_out(const struct uro_device *device)
{
    return device->config.progress == URO_PROGRESS_HYBRID &&
           !atomic_load_explicit(&device->in_charge, memory_order_relaxed) &&
           atomic_load_explicit(&device->caller_in, memory_order_relaxed);
}

/* One round, and more while something moves. Then gets ready to sleep, or returns false when there is more to do after
 * all, or the program drives. */
static bool work(struct uro_device *device, uro_time *now, uro_time *until)
{
    uint32_t received, moved;
    lock(device);
    *now = uro_device_now();
    device->must_look = false;
    atomic_store_explicit(&device->knocked, 0, memory_order_relaxed);
    if (device->armed)
        device->port->ops->disarm(device->port);
    device->armed = false;
    moved = uro_round_run(device, true, *now, &received);
    if (received > 0)
        uro_learn_thread(device, *now);
    device->took_over =
        !device->was_needed && !atomic_load_explicit(&device->in_charge, memory_order_relaxed);
    bool spin = spins(device, *now, moved > 0);
    bool program = lets_in(device);
    bool ready = !program && !spin && settle(device, *now, until); /* to sleep */
    (void)pthread_mutex_unlock(&device->mutex);
    atomic_thread_fence(
        memory_order_seq_cst); /* who rings from here on sees that it is to wake us */
    bool rung = uro_engine_rung(device->engine);
    device->must_look = rung && program; /* who rang did not get the lock */
    if (rung || !ready) {
        atomic_store(&device->wakes, 0);
        atomic_store(&device->hears, false);
        return false;
    }
    return true;
}

static bool callers_drive(struct uro_device *device, uro_time now)
{
    uro_time called = atomic_load_explicit(&device->called, memory_order_relaxed);
    uro_time posted = atomic_load_explicit(&device->posted, memory_order_relaxed);
    uro_time silence = atomic_load_explicit(&device->silence, memory_order_relaxed);

    return device->config.progress != URO_PROGRESS_THREAD && !device->must_look &&
           !atomic_load_explicit(&device->in_charge, memory_order_relaxed) &&
           (device->config.progress == URO_PROGRESS_CALLER || now < called + silence ||
            now < posted + silence || now < device->let_in + silence);
}

/* struct sched_attr of <linux/sched/types.h>, which cannot stand beside <sched.h>. */
struct scheduling {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* of SCHED_OTHER: the slice, ns, since Linux 6.12 */
    uint64_t deadline;
    uint64_t period;
};

/* The thread has little to do at a time, and others wait for what it does. A scheduler that knows
 * lets it run before a program that spins on its memory; older ones do not listen. */
static void ask_for_short_slices(void)
{
    struct scheduling now = { .size = sizeof now };

    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.policy != SCHED_OTHER)
        return;
    now.runtime = SLICE;
    (void)syscall(SYS_sched_setattr, 0, &now, 0);
}

void uro_progress_serve(struct uro_device *device)
{
    uro_time interval = STAND_BACK_MIN;
    uro_time until = 0;
    bool told_gone = false;

    atomic_store(&device->silence, URO_SILENCE_MIN);
    device->sleeps_on[0] = (struct pollfd){ .fd = device->doorbell, .events = POLLIN };
    (void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    ask_for_short_slices();
    while (!atomic_load(&device->stopping)) {
        uro_time now = uro_device_now();
        uro_round_tell_gone(device, &told_gone);
        if (is_kept_out(device) || callers_drive(device, now)) {
            stand_back(device, now, &interval);
            continue;
        }
        if (interval != STAND_BACK_MIN) /* callers drove */
            device->was_needed = false;
        interval = STAND_BACK_MIN;
        if (work(device, &now, &until) && device->config.progress != URO_PROGRESS_THREAD)
            sleep_until(device, now, until, device->armed);
    }
}
