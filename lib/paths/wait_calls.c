/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_calls.c - waits for descriptors. While the program waits for one of libibverbs, its thread
 * runs the engine. Other waits go to the C library. */
#include "paths/next_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/defs.h"
#include "base/wait_hook.h"
#include "paths/wait_calls.h"

/* A wait for an epoll instance with a higher number does not run the engine. */
#define EPOLLS 4096

/* The function that programs built with _FORTIFY_SOURCE call instead of poll(). No header declares
 * it. */
int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t limit);

uroce_install_wait_hooks_fn uroce_install_wait_hooks;

static _Atomic(const struct uro_wait_hooks *) hooks;
static atomic_bool watched[EPOLLS]; /* epoll instances that got a descriptor of libibverbs */

URO_PATHS_EXPORT void uroce_install_wait_hooks(const struct uro_wait_hooks *installed)
{
    atomic_store(&hooks, installed);
}

void uro_wait_forget(int epoll)
{
    if (epoll >= 0 && epoll < EPOLLS && atomic_load_explicit(&watched[epoll], memory_order_relaxed))
        atomic_store(&watched[epoll], false);
}

static bool owns(int fd)
{
    const struct uro_wait_hooks *installed = atomic_load_explicit(&hooks, memory_order_acquire);

    return installed != NULL && installed->owns(fd);
}

URO_PATHS_EXPORT int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    URO_NEXT(epoll_ctl);

    const int result = next(epoll, operation, fd, event);
    if (result == 0 && operation == EPOLL_CTL_ADD && epoll < EPOLLS && owns(fd))
        atomic_store(&watched[epoll], true);
    return result;
}

/* ---- time ------------------------------------------------------------------------ */

#define NS_PER_MS 1000000

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * NS_PER_MS + now.tv_nsec;
}

/* Returns when a wait of @ms ends, ns. @ms < 0: never. */
static int64_t end_of(int ms)
{
    return ms < 0 ? INT64_MAX : now_ns() + (int64_t)ms * NS_PER_MS;
}

/* Returns the rest of a wait that ends at @end, in ms. */
static int rest_of(int64_t end)
{
    if (end == INT64_MAX)
        return -1;
    const int64_t rest = end - now_ns();
    return rest > 0 ? (int)((rest + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

/* ---- engine ------------------------------------------------------------------------ */

/* Waits, and runs the engine meanwhile. Returns true if the wait is over, with its result in
 * *@ready. Returns false if the caller must call the original function. The macros nest.
 * NOLINTNEXTLINE(readability-function-size) */
static bool wait_with_engine(struct pollfd *fds, nfds_t count, int ms, const sigset_t *mask,
                             int *ready)
{
    const struct uro_wait_hooks *installed = atomic_load_explicit(&hooks, memory_order_acquire);
    void *device = installed->begin();
    bool over;

    if (device == NULL)
        return false;
    pthread_cleanup_push(installed->end, device);
    over = installed->wait(device, fds, count, ms, mask, ready);
    pthread_cleanup_pop(1);
    return over;
}

/* ---- epoll ---------------------------------------------------------------------- */

static bool is_watched(int epoll, int ms)
{
    return ms != 0 && epoll >= 0 && epoll < EPOLLS &&
           atomic_load_explicit(&watched[epoll], memory_order_relaxed);
}

typedef int epoll_pwait_fn(int epoll, struct epoll_event *events, int count, int ms,
                           const sigset_t *mask);

/* Waits for an epoll instance that has a descriptor of libibverbs. */
static int wait_for_epoll(epoll_pwait_fn *next, int epoll, struct epoll_event *events, int count,
                          int ms, const sigset_t *mask)
{
    const int64_t end = end_of(ms);
    int ready = next(epoll, events, count, 0, mask);

    for (int rest = ms; ready == 0 && rest != 0; rest = rest_of(end)) {
        struct pollfd fd = { .fd = epoll, .events = POLLIN };
        if (!wait_with_engine(&fd, 1, rest, mask, &ready))
            return next(epoll, events, count, rest_of(end), mask);
        if (ready < 0) {
            errno = -ready;
            return -1;
        }
        /* Another thread may take the event first. */
        ready = next(epoll, events, count, 0, mask);
    }
    return ready;
}

URO_PATHS_EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int count, int ms,
                                 const sigset_t *mask)
{
    URO_NEXT(epoll_pwait);

    return is_watched(epoll, ms) ? wait_for_epoll(next, epoll, events, count, ms, mask)
                                 : next(epoll, events, count, ms, mask);
}

URO_PATHS_EXPORT int epoll_wait(int epoll, struct epoll_event *events, int count, int ms)
{
    URO_NEXT(epoll_wait);

    if (!is_watched(epoll, ms))
        return next(epoll, events, count, ms);
    URO_NEXT_AS(epoll_pwait, pwait);
    return wait_for_epoll(pwait, epoll, events, count, ms, NULL);
}

/* ---- poll ------------------------------------------------------------------------ */

/* Returns whether poll() would wait for a descriptor of libibverbs. */
static bool has_ours(const struct pollfd *fds, nfds_t count, int ms)
{
    if (ms == 0 || atomic_load_explicit(&hooks, memory_order_relaxed) == NULL)
        return false;
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].fd >= 0 && owns(fds[i].fd))
            return true;
    return false;
}

typedef int poll_fn(struct pollfd *fds, nfds_t count, int ms);

static int wait_for_any(poll_fn *next, struct pollfd *fds, nfds_t count, int ms)
{
    const int64_t end = end_of(ms);
    int ready = next(fds, count, 0);

    if (ready != 0)
        return ready;
    if (!wait_with_engine(fds, count, ms, NULL, &ready))
        return next(fds, count, rest_of(end));
    if (ready < 0) {
        errno = -ready;
        return -1;
    }
    return ready;
}

URO_PATHS_EXPORT int poll(struct pollfd *fds, nfds_t count, int ms)
{
    URO_NEXT(poll);

    return has_ours(fds, count, ms) ? wait_for_any(next, fds, count, ms) : next(fds, count, ms);
}

URO_PATHS_EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t limit)
{
    URO_NEXT(__poll_chk);

    if (!has_ours(fds, count, ms) || limit / sizeof *fds < count)
        return next(fds, count, ms, limit);
    URO_NEXT_AS(poll, plain);
    return wait_for_any(plain, fds, count, ms);
}
