/* SPDX-License-Identifier: BSD-3-Clause */
/* waiter.c - a thread of the program that waits for an event. While it waits, it has the service
 * role (service.c) and runs the engine, so that a frame wakes the program directly.
 *
 * ibv_get_cq_event() must treat signals like read(): a handler with SA_RESTART does not end the
 * wait, any other handler ends it with EINTR. But every signal ends ppoll(). So the thread blocks
 * its signals while it waits. A signalfd wakes it when a signal comes. The thread then checks the
 * flags of the handler, and unblocks the signals.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "host/device.h"
#include "host/limits.h"
#include "host/progress.h"
#include "host/waiter.h"

/* Descriptors of a thread in uro_device_wait(). */
enum own_fd { OWN_WAKE, OWN_EVENTS, OWN_SIGNALS, OWN_COUNT };

struct wait {
    struct uro_device *device;
    struct uro_runner runner;
    const struct uro_event_source *source; /* NULL: in uro_device_wait_fds() */
    sigset_t before;                       /* the signals that the program blocks */
    bool has_role;
    bool interrupted;
    int woken;        /* result of the last ppoll(), or -errno */
    uro_time busy_at; /* time of the first round since the last ppoll(); 0: none */
};

/* ---- signals ---------------------------------------------------------------- */

/* Fills in the signals that are blocked during the wait. These are all signals except those that
 * the thread itself may cause, for example by an access to registered memory that was unmapped. */
static void fill_blocked(sigset_t *set)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };

    (void)sigfillset(set);
    for (size_t i = 0; i < URO_ARRAY_LEN(own); i++)
        (void)sigdelset(set, own[i]);
}

/* Fills in the signals that end the sleep: those that are not in @ignored. */
static void fill_awaited(sigset_t *set, const sigset_t *ignored)
{
    fill_blocked(set);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(ignored, number) == 1)
            (void)sigdelset(set, number);
}

int uro_waiter_signal_fd(const struct uro_device *device)
{
    sigset_t awaited;

    fill_awaited(&awaited, &device->ignored);
    return signalfd(-1, &awaited, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Blocks the signals. Signals that the program blocks stay blocked, except for the signals of
 * faults on registered memory, which unmapped.c handles. */
static void block(struct wait *wait)
{
    sigset_t blocked, faults;

    fill_blocked(&blocked);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, &wait->before);
    if (sigismember(&wait->before, SIGSEGV) != 1 && sigismember(&wait->before, SIGBUS) != 1)
        return;
    (void)sigemptyset(&faults);
    (void)sigaddset(&faults, SIGSEGV);
    (void)sigaddset(&faults, SIGBUS);
    (void)pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

/* Blocks the signals. signal_fd then reports all of them except those that the program blocks
 * itself. */
static void block_signals(struct wait *wait)
{
    struct uro_device *device = wait->device;
    sigset_t awaited;

    block(wait);
    if (memcmp(&device->ignored, &wait->before, sizeof wait->before) == 0)
        return;
    device->ignored = wait->before;
    fill_awaited(&awaited, &device->ignored);
    (void)signalfd(device->signal_fd, &awaited, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Returns whether a signal is pending whose handler ends system calls. */
static bool is_interrupted(const struct wait *wait)
{
    sigset_t pending;
    struct sigaction action;

    (void)sigpending(&pending);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&pending, number) == 1 && sigismember(&wait->before, number) != 1 &&
            sigaction(number, NULL, &action) == 0 && (action.sa_flags & SA_RESTART) == 0 &&
            action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
            return true;
    return false;
}

/* Runs the handlers of the signals that came. */
static void handle_signals(struct wait *wait)
{
    sigset_t blocked;

    wait->interrupted = is_interrupted(wait);
    (void)pthread_sigmask(SIG_SETMASK, &wait->before, &blocked);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

/* ---- the role ---------------------------------------------------------------- */

/* Moves the role from the service thread to this thread. A service thread that is awake gives up
 * the role after its round. */
static bool move_role(struct uro_device *device)
{
    struct uro_sched_shared *shared = &device->shared;
    bool moved = uro_service_move_role(device, URO_ROLE_THREAD_ASLEEP, URO_ROLE_WAITER_AWAKE);

    for (uint32_t i = 0;
         !moved && i < URO_ROLE_TRIES && atomic_load(&shared->role) <= URO_ROLE_THREAD_ASLEEP;
         i++) {
        atomic_store(&shared->role_wanted, true);
        (void)sched_yield();
        moved = uro_service_move_role(device, URO_ROLE_THREAD_ASLEEP, URO_ROLE_WAITER_AWAKE);
    }
    atomic_store(&shared->role_wanted, false);
    return moved;
}

/* Takes the service role. Returns false if other threads wait too, if the service thread keeps the
 * role, or if the device ends. */
static bool take_role(struct wait *wait)
{
    struct uro_device *device = wait->device;
    struct uro_sched_shared *shared = &device->shared;

    if (device->sched.mode == URO_PROGRESS_THREAD || atomic_load(&shared->waiters) > 1 ||
        atomic_load(&device->stopping) || !move_role(device))
        return false;
    struct uro_sched_vars vars = uro_sched_load(shared);
    uro_sched_on_role_taken(&vars);
    atomic_store(&shared->balance, vars.balance);
    atomic_store(&shared->takeover, vars.takeover);
    atomic_store(&shared->wake_at, 0);
    atomic_fetch_add(&shared->waits, 1);
    if (atomic_exchange(&shared->rx_armed, false))
        uro_service_look(device); /* frames must not wake the service thread any more */
    return true;
}

/* Returns the role to the service thread. */
static void return_role(struct wait *wait)
{
    struct uro_device *device = wait->device;
    struct uro_sched_shared *shared = &device->shared;
    struct uro_sched_vars vars = uro_sched_load(shared);
    struct uro_sched_role_end end = { .now = uro_device_now() };
    uint_least64_t announced = atomic_load(&shared->thread_wake_at);

    atomic_store(&shared->rx_armed, false);
    atomic_store(&shared->role_returned_at, end.now);
    atomic_store(&shared->wake_at, announced);
    if (!uro_service_move_role(device, URO_ROLE_WAITER_AWAKE, URO_ROLE_THREAD_ASLEEP) &&
        !uro_service_move_role(device, URO_ROLE_WAITER_ASLEEP, URO_ROLE_THREAD_ASLEEP)) {
        uro_service_look(device); /* the service thread has taken the role already */
        return;
    }
    /* From here on, the service thread may have the role. It stores thread_wake_at before it checks
     * the role. If the service thread, or a thread that woke it, has changed wake_at, that value
     * stays. */
    end.thread_wake_at = atomic_load(&shared->thread_wake_at);
    const bool is_woken =
        !atomic_compare_exchange_strong(&shared->wake_at, &announced, end.thread_wake_at);
    atomic_thread_fence(memory_order_seq_cst); /* a thread that posts rings, then loads wake_at */
    end.rung = is_woken || uro_engine_rung(device->engine);
    end.others_wait = atomic_load(&shared->waiters) > 1;
    const enum uro_role_action action = uro_sched_on_role_returned(&vars, &end);
    URO_SCHED_STORE(shared, &vars, poll_round_at);
    URO_SCHED_STORE(shared, &vars, polled_at);
    if (action == URO_ROLE_WAKE)
        atomic_store(&shared->run_at_once, true);
    if (action != URO_ROLE_LEAVE)
        uro_service_look(device);
}

/* Ends the wait. Also runs when the thread is cancelled while it sleeps. */
static void end(void *argument)
{
    struct wait *wait = argument;

    if (wait->has_role)
        return_role(wait);
    (void)pthread_sigmask(SIG_SETMASK, &wait->before, NULL);
}

/* ---- the wait ---------------------------------------------------------------- */

/* Sleeps. Sets wait->has_role to false if the service thread took the role. The service thread does
 * that if the waiting thread sleeps too long, because a signal handler takes long or has left the
 * wait by longjmp(). */
static void sleep_with_role(struct wait *wait, const struct uro_service_sleep *sleep)
{
    struct uro_device *device = wait->device;
    struct uro_runner *runner = &wait->runner;

    wait->busy_at = 0;
    (void)uro_service_move_role(device, URO_ROLE_WAITER_AWAKE, URO_ROLE_WAITER_ASLEEP);
    wait->woken = uro_service_sleep(runner, sleep);
    if (wait->source != NULL && wait->woken > 0 && runner->fds[OWN_SIGNALS].revents != 0)
        handle_signals(wait);
    wait->has_role = uro_service_move_role(device, URO_ROLE_WAITER_ASLEEP, URO_ROLE_WAITER_AWAKE);
    if (!wait->has_role)
        return;
    atomic_store(&device->shared.wake_at, 0);
    atomic_store(&device->shared.rx_armed, false);
}

/* Returns whether the thread must check its descriptors and signals although the engine is busy.
 * Otherwise traffic without a pause would delay these checks for ever. If true, also sets *@sleep
 * to a sleep of no length. */
static bool must_look(struct wait *wait, struct uro_service_sleep *sleep, uro_time until)
{
    const uro_time now = sleep->now;

    if (wait->busy_at == 0)
        wait->busy_at = now;
    if (now < wait->busy_at + URO_WAIT_LOOK && now < until)
        return false;
    *sleep = (struct uro_service_sleep){ .now = now, .until = now };
    /* Not 0, so that the service thread can take the role if a signal handler leaves the wait. */
    atomic_store(&wait->device->shared.wake_at, now);
    return true;
}

/* Returns whether the wait must end. It ends if the device ends, or if this process is a child that
 * a signal handler has forked. */
static bool is_over(const struct uro_device *device)
{
    return atomic_load(&device->stopping) || uro_device_dead(device);
}

/* Runs the engine until there is an event or a signal, or until the wait must end. */
static const void *run_until_event(struct wait *wait)
{
    const struct uro_event_source *source = wait->source;
    struct uro_service_sleep sleep;

    while (wait->has_role && !wait->interrupted && !is_over(wait->device)) {
        source->collect(source->queue);
        const bool is_ready = uro_service_work(&wait->runner, &sleep);
        const void *event = source->collected(source->queue);
        if (event != NULL)
            return event;
        if (is_ready || must_look(wait, &sleep, URO_TIME_NEVER))
            sleep_with_role(wait, &sleep);
    }
    return NULL;
}

/* The macros nest. NOLINTNEXTLINE(readability-function-size) */
const void *uro_device_wait(struct uro_device *device, const struct uro_event_source *source,
                            bool *interrupted)
{
    struct wait wait = {
        .device = device,
        .source = source,
        .has_role = true,
        .runner = { .device = device,
                    .own_count = OWN_COUNT,
                    .fds = { [OWN_WAKE] = { .fd = device->waiter_fd, .events = POLLIN },
                             [OWN_EVENTS] = { .fd = source->fd, .events = POLLIN },
                             [OWN_SIGNALS] = { .fd = device->signal_fd, .events = POLLIN } } },
    };
    const void *event;

    *interrupted = false;
    if (!take_role(&wait)) {
        uro_device_hand_over(device);
        return NULL;
    }
    block_signals(&wait);
    pthread_cleanup_push(end, &wait);
    event = run_until_event(&wait);
    pthread_cleanup_pop(1);
    *interrupted = wait.interrupted;
    return event;
}

/* ---- the wait for descriptors of the program ---------------------------------- */

/* Returns the descriptors of the program. */
static struct pollfd *users(struct wait *wait)
{
    return &wait->runner.fds[OWN_WAKE + 1];
}

static nfds_t user_count(const struct wait *wait)
{
    return wait->runner.own_count - 1;
}

/* Returns how many descriptors of the program are ready. */
static int count_ready(struct wait *wait)
{
    int ready = 0;

    for (nfds_t i = 0; i < user_count(wait); i++)
        ready += users(wait)[i].revents != 0;
    return ready;
}

static uro_time earlier(uro_time a, uro_time b)
{
    return a < b ? a : b;
}

/* Runs the engine until a descriptor is ready, a signal comes or the time @until. Returns the
 * number of ready descriptors, or -errno. Also returns 0 if the device ends, or if the service
 * thread took the role; wait->has_role is then false. */
static int run_until_ready(struct wait *wait, uro_time until)
{
    struct uro_device *device = wait->device;
    struct uro_service_sleep sleep = { 0 };

    while (wait->has_role && !is_over(device)) {
        const uint64_t events = device->events_delivered;
        const bool is_ready = uro_service_work(&wait->runner, &sleep);
        if (device->events_delivered != events && poll(users(wait), user_count(wait), 0) > 0)
            return count_ready(wait);
        if (!is_ready && !must_look(wait, &sleep, until))
            continue;
        sleep.until = earlier(sleep.until, until);
        sleep_with_role(wait, &sleep);
        if (wait->woken < 0)
            return wait->woken;
        const int ready = wait->woken > 0 ? count_ready(wait) : 0;
        if (ready > 0 || (wait->has_role && uro_device_now() >= until))
            return ready;
    }
    return 0;
}

/* The macros nest. NOLINTNEXTLINE(readability-function-size) */
bool uro_device_wait_fds(struct uro_device *device, struct pollfd *fds, nfds_t count, int ms,
                         const sigset_t *mask, int *ready)
{
    struct wait wait = { .device = device, .has_role = true };
    const uro_time until = ms < 0 ? URO_TIME_NEVER : uro_device_now() + (uro_time)ms * URO_MS(1);

    if (count > URO_WAIT_FDS_MAX || !take_role(&wait))
        return false;
    wait.runner = (struct uro_runner){ .device = device, .own_count = 1 + count };
    wait.runner.fds[OWN_WAKE] = (struct pollfd){ .fd = device->waiter_fd, .events = POLLIN };
    memcpy(users(&wait), fds, count * sizeof *fds);
    block(&wait);
    wait.runner.mask = mask != NULL ? mask : &wait.before;
    pthread_cleanup_push(end, &wait);
    *ready = run_until_ready(&wait, until);
    pthread_cleanup_pop(1);
    memcpy(fds, users(&wait), count * sizeof *fds);
    return *ready != 0 || (wait.has_role && !is_over(device));
}

bool uro_device_had_waiter(const struct uro_device *device)
{
    const uro_time returned_at = atomic_load(&device->shared.role_returned_at);

    return returned_at != 0 && uro_device_now() < returned_at + URO_ROLE_GRACE;
}

/* ---- threads that wait --------------------------------------------------------- */

void uro_device_wait_begin(struct uro_device *device)
{
    atomic_fetch_add(&device->shared.waiters, 1);
}

void uro_device_wait_end(void *device)
{
    atomic_fetch_sub(&((struct uro_device *)device)->shared.waiters, 1);
}
