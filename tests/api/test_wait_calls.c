/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the waits of liburoce-paths.so. Functions of this test take the place of libibverbs. */
#include "support/check.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/wait_hook.h"

uroce_install_wait_hooks_fn uroce_install_wait_hooks;

static struct {
    int fd;    /* the descriptor of libibverbs */
    int waits; /* calls of wait() so far */
    int empty; /* number of these calls that return although nothing is ready */
    int last_ms;
} state_of;

static bool owns(int fd)
{
    return fd == state_of.fd;
}

static void *begin(void)
{
    return &state_of;
}

static void end(void *device)
{
    assert_ptr_equal(device, &state_of);
}

/* The first waits end without an event, as if another thread had taken it. The next wait has an
 * event. */
static bool wait_in_test(void *device, struct pollfd *fds, nfds_t count, int ms,
                         const sigset_t *mask, int *ready)
{
    const uint64_t one = 1;

    (void)device;
    (void)mask;
    assert_int_equal(count, 1);
    state_of.last_ms = ms;
    if (state_of.waits++ >= state_of.empty)
        assert_int_equal(write(state_of.fd, &one, sizeof one), sizeof one);
    fds[0].revents = POLLIN;
    *ready = 1;
    return true;
}

static int open_all(int empty)
{
    static const struct uro_wait_hooks hooks = { owns, begin, end, wait_in_test };
    struct epoll_event event = { .events = EPOLLIN };

    state_of.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    state_of.waits = 0;
    state_of.empty = empty;
    uroce_install_wait_hooks(&hooks);
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, state_of.fd, &event), 0);
    return epoll;
}

static void close_all(int epoll)
{
    assert_int_equal(close(epoll), 0);
    assert_int_equal(close(state_of.fd), 0);
    uroce_install_wait_hooks(NULL);
}

static void epoll_wait__another_thread_took_the_event__waits_on(void **state)
{
    const int epoll = open_all(2);
    struct epoll_event event;

    (void)state;
    assert_int_equal(epoll_wait(epoll, &event, 1, -1), 1);
    assert_int_equal(state_of.waits, 3);
    assert_int_equal(state_of.last_ms, -1);
    close_all(epoll);
}

static void epoll_pwait__another_thread_took_the_event__waits_for_the_rest(void **state)
{
    const int epoll = open_all(1);
    struct epoll_event event;

    (void)state;
    assert_int_equal(epoll_pwait(epoll, &event, 1, INT_MAX, NULL), 1);
    assert_int_equal(state_of.waits, 2);
    assert_true(state_of.last_ms > 0 && state_of.last_ms <= INT_MAX);
    close_all(epoll);
}

/* The time limit still applies if each wait ends without an event. */
static void epoll_wait__other_threads_take_every_event__ends_at_the_timeout(void **state)
{
    const int epoll = open_all(INT_MAX);
    struct epoll_event event;

    (void)state;
    assert_int_equal(epoll_wait(epoll, &event, 1, 5), 0);
    assert_true(state_of.waits > 0);
    close_all(epoll);
}

static void poll__longest_timeout__returns_the_event(void **state)
{
    const int epoll = open_all(0);
    const int longest = INT_MAX;
    struct pollfd fd = { .fd = state_of.fd, .events = POLLIN };

    (void)state;
    assert_int_equal(poll(&fd, 1, longest), 1);
    assert_int_equal(fd.revents, POLLIN);
    assert_int_equal(state_of.waits, 1);
    close_all(epoll);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epoll_wait__another_thread_took_the_event__waits_on),
        cmocka_unit_test(epoll_pwait__another_thread_took_the_event__waits_for_the_rest),
        cmocka_unit_test(epoll_wait__other_threads_take_every_event__ends_at_the_timeout),
        cmocka_unit_test(poll__longest_timeout__returns_the_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
