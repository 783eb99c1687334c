/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests uro_device_wait(): a thread that waits for an event runs the engine. In this test, each
 * frame that the device sends is an event. */
#include "support/check.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/device.h"
#include "host/limits.h"
#include "host/progress.h"
#include "host/waiter.h"
#include "stage.h"

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER
#endif
#endif

static struct {
    int fd;
    atomic_uint waiting;
    atomic_bool collecting;
} events;

static int event; /* its address is the result of a wait */

static void collect(void *queue)
{
    (void)queue;
    atomic_store(&events.collecting, true);
}

static const void *collected(void *queue)
{
    uint64_t count;

    (void)queue;
    atomic_store(&events.collecting, false);
    if (atomic_load(&events.waiting) == 0)
        return NULL;
    atomic_fetch_sub(&events.waiting, 1);
    (void)!read(events.fd, &count, sizeof count);
    return &event;
}

static struct uro_event_source source = { .collect = collect, .collected = collected };

static void put_event(void)
{
    const uint64_t one = 1;

    atomic_fetch_add(&events.waiting, 1);
    if (!atomic_load(&events.collecting))
        (void)!write(events.fd, &one, sizeof one);
}

static void start(void)
{
    events.fd = source.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    atomic_store(&events.waiting, 0);
    stage_start("a:fake0" IP);
    fake_wait(&fake.reports, 2); /* afterwards the device sends no reports */
    fake.sends = put_event;
}

/* Waits like ibv_get_cq_event(). Tries again while the service thread is in a round. */
static void wait_for_event(void)
{
    bool interrupted = false;
    const void *got;

    do {
        uro_device_wait_begin(device);
        got = uro_device_wait(device, &source, &interrupted);
        uro_device_wait_end(device);
        assert_false(interrupted);
    } while (got == NULL && collected(NULL) == NULL);
}

/* Waits once. Tries again while the service thread keeps the role, because it is in a round. */
static const void *wait_with_role(bool *interrupted)
{
    const uint32_t waits = atomic_load(&device->shared.waits);
    const void *got;

    do
        got = uro_device_wait(device, &source, interrupted);
    while (atomic_load(&device->shared.waits) == waits);
    return got;
}

static bool role_is(enum uro_service_role role)
{
    return atomic_load(&device->shared.role) == (int)role;
}

/* Starts a thread that waits, and returns when it sleeps. */
static pthread_t start_waiter(void *(*body)(void *))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, body, NULL), 0);
    while (!role_is(URO_ROLE_WAITER_ASLEEP))
        (void)sched_yield();
    return thread;
}

static void *wait_once(void *unused)
{
    wait_for_event();
    return unused;
}

/* ---- which thread runs the engine --------------------------------------------- */

/* The service thread may send the first responses, because it may be in a round. */
static void wait__frame_arrives__waiting_thread_responds(void **state)
{
    uint32_t in_a_row = 0;

    (void)state;
    start();
    for (uint32_t i = 1; i <= 20000 && in_a_row < 100; i++) {
        fake_inject_echo(&fake.port.mac);
        wait_for_event();
        assert_int_equal(fake_read(&fake.sent), i);
        in_a_row = stage_sent_by_service() ? 0 : in_a_row + 1;
    }
    assert_int_equal(in_a_row, 100);
}

static void wait__no_frame__sleeps_on_the_port(void **state)
{
    (void)state;
    start();
    pthread_t waiter = start_waiter(wait_once);
    while (!fake_is_armed())
        (void)sched_yield();
    fake_inject_echo(&fake.port.mac);
    assert_int_equal(pthread_join(waiter, NULL), 0);
    assert_false(stage_sent_by_service());
    assert_true(role_is(URO_ROLE_THREAD_ASLEEP) || role_is(URO_ROLE_THREAD_AWAKE));
}

static void wait__event_of_another_thread__ends_the_wait(void **state)
{
    (void)state;
    start();
    pthread_t waiter = start_waiter(wait_once);
    put_event();
    assert_int_equal(pthread_join(waiter, NULL), 0);
    assert_int_equal(fake_read(&fake.sent), 0);
}

static void wait__ended_and_program_makes_no_calls__service_thread_responds(void **state)
{
    (void)state;
    start();
    for (uint32_t i = 0; i < 20; i++) {
        fake_inject_echo(&fake.port.mac);
        wait_for_event();
        fake_inject_echo(&fake.port.mac);
        fake_wait(&fake.sent, 2 * i + 2);
        assert_true(stage_sent_by_service());
        (void)collected(NULL);
    }
}

static void wait__post_with_the_lock_taken__waiting_thread_transmits(void **state)
{
    (void)state;
    start();
    pthread_t waiter = start_waiter(wait_once);
    const uint32_t receives = fake_read(&fake.receives);
    uro_service_wake(device); /* like a thread that found the lock taken */
    fake_wait(&fake.receives, receives + 1);
    assert_true(uro_service_has_waiter(device));
    put_event();
    assert_int_equal(pthread_join(waiter, NULL), 0);
}

/* If the second thread took the role, threads that wait for different events would take the role
 * from each other again and again. */
static void wait__others_wait__does_not_take_the_role(void **state)
{
    bool interrupted;

    (void)state;
    start();
    uro_device_wait_begin(device);
    uro_device_wait_begin(device);
    assert_null(uro_device_wait(device, &source, &interrupted));
    assert_false(interrupted);
    assert_int_equal(atomic_load(&device->shared.waits), 0);
    uro_device_wait_end(device);
    uro_device_wait_end(device);
}

static void wait__second_thread__blocks_and_service_thread_follows(void **state)
{
    bool interrupted;

    (void)state;
    start();
    pthread_t waiter = start_waiter(wait_once);
    uro_device_wait_begin(device);
    assert_null(uro_device_wait(device, &source, &interrupted));
    assert_false(interrupted);
    fake_inject_echo(&fake.port.mac);
    assert_int_equal(pthread_join(waiter, NULL), 0);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 2);
    assert_true(stage_sent_by_service());
    uro_device_wait_end(device);
}

/* ---- descriptors of the program ------------------------------------------------- */

/* Waits like poll() with one descriptor. */
static int wait_readable(int fd, int ms)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    int ready = 0;
    bool over;

    do {
        uro_device_wait_begin(device);
        over = uro_device_wait_fds(device, &wait, 1, ms, NULL, &ready);
        uro_device_wait_end(device);
    } while (!over);
    assert_int_equal(ready > 0, (wait.revents & POLLIN) != 0);
    return ready;
}

static void wait_fds__event_of_a_frame__waiting_thread_responds(void **state)
{
    uint32_t in_a_row = 0;

    (void)state;
    start();
    for (uint32_t i = 1; i <= 20000 && in_a_row < 100; i++) {
        fake_inject_echo(&fake.port.mac);
        assert_int_equal(wait_readable(events.fd, -1), 1);
        assert_ptr_equal(collected(NULL), &event);
        in_a_row = stage_sent_by_service() ? 0 : in_a_row + 1;
    }
    assert_int_equal(in_a_row, 100);
}

/* For a millisecond after a wait, this thread counts as waiting. If this thread got no processor in
 * that time, the test repeats the wait. */
static void wait_fds__no_event__ends_at_the_timeout(void **state)
{
    (void)state;
    start();
    assert_int_equal(wait_readable(events.fd, 0), 0);
    do
        assert_int_equal(wait_readable(events.fd, 30), 0);
    while (!uro_device_had_waiter(device));
    assert_false(uro_service_has_waiter(device));
}

static void wait_fds__too_many__caller_waits_itself(void **state)
{
    struct pollfd fds[URO_WAIT_FDS_MAX + 1];
    int ready;

    (void)state;
    start();
    memset(fds, -1, sizeof fds);
    assert_false(uro_device_wait_fds(device, fds, URO_WAIT_FDS_MAX + 1, -1, NULL, &ready));
}

static void *wait_fds_interrupted(void *unused)
{
    struct pollfd wait = { .fd = events.fd, .events = POLLIN };
    int ready = 0;

    (void)unused;
    uro_device_wait_begin(device);
    while (!uro_device_wait_fds(device, &wait, 1, -1, NULL, &ready))
        (void)sched_yield(); /* the service thread is in a round */
    uro_device_wait_end(device);
    return ready == -EINTR ? &event : NULL;
}

/* ---- an engine that is never idle ----------------------------------------------- */

static void inject_one_more(void)
{
    fake_inject_echo(&fake.port.mac);
}

/* From now on, each round receives a frame, which causes no event. A thread must wait already. */
static void keep_engine_busy(void)
{
    const uint32_t receives = fake_read(&fake.receives);

    fake.sends = NULL;
    fake_call_receiving(inject_one_more);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.receives, receives + 100);
}

static const uint64_t one = 1;
static int own_fd; /* a descriptor of the program */

static void *wait_for_own_fd(void *unused)
{
    assert_int_equal(wait_readable(own_fd, -1), 1);
    return unused;
}

static void wait_fds__engine_always_busy__own_descriptor_ends_the_wait(void **state)
{
    (void)state;
    start();
    own_fd = eventfd(0, EFD_CLOEXEC);
    pthread_t waiter = start_waiter(wait_for_own_fd);
    keep_engine_busy();
    assert_true(uro_service_has_waiter(device));
    assert_int_equal(write(own_fd, &one, sizeof one), sizeof one);
    assert_int_equal(pthread_join(waiter, NULL), 0);
    fake_call_receiving(NULL);
}

/* ---- the end of the port ----------------------------------------------------------- */

static int removals; /* eventfd */

static void count_removal(struct uro_device *gone)
{
    assert_ptr_equal(gone, device);
    assert_int_equal(write(removals, &one, sizeof one), sizeof one);
}

/* rdma_cm reports the removal. The program may wait for that event only. */
static void wait_fds__port_removed__handlers_are_called(void **state)
{
    static const struct uro_conn_handlers handlers = { .removed = count_removal };

    (void)state;
    start();
    removals = eventfd(0, EFD_CLOEXEC);
    uro_host_set_conn_handlers(&handlers);
    fake.gone = true;
    fake_set_link(false);
    assert_int_equal(wait_readable(removals, -1), 1);
    uro_host_set_conn_handlers(NULL);
}

/* ---- the end of a waiting thread ------------------------------------------------ */

#ifndef ADDRESS_SANITIZER
static void wait__cancelled__service_thread_responds(void **state)
{
    void *result;

    (void)state;
    start();
    pthread_t waiter = start_waiter(wait_once);
    assert_int_equal(pthread_cancel(waiter), 0);
    assert_int_equal(pthread_join(waiter, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
    assert_true(stage_sent_by_service());
}
#endif

static sigjmp_buf away;

static void jump(int number)
{
    siglongjmp(away, number);
}

static void *wait_and_jump(void *unused)
{
    if (sigsetjmp(away, 1) == 0)
        wait_for_event();
    return unused;
}

static void wait__left_by_longjmp__service_thread_responds(void **state)
{
    const struct sigaction action = { .sa_handler = jump };

    (void)state;
    start();
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t waiter = start_waiter(wait_and_jump);
    assert_int_equal(pthread_kill(waiter, SIGUSR1), 0);
    assert_int_equal(pthread_join(waiter, NULL), 0);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
    assert_true(stage_sent_by_service());
}

/* A thread that wakes the waiting thread does not notice that the waiting thread has gone. */
static void wait__left_by_longjmp_and_woken__service_thread_responds(void **state)
{
    const struct sigaction action = { .sa_handler = jump };

    (void)state;
    start();
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t waiter = start_waiter(wait_and_jump);
    assert_int_equal(pthread_kill(waiter, SIGUSR1), 0);
    assert_int_equal(pthread_join(waiter, NULL), 0);
    assert_true(role_is(URO_ROLE_WAITER_ASLEEP));
    uro_service_wake(device);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
    assert_true(stage_sent_by_service());
}

static pid_t child;

static void make_child(int number)
{
    (void)number;
    child = fork();
}

static void *wait_in_two_processes(void *unused)
{
    bool interrupted = true;

    uro_device_wait_begin(device);
    const void *got = wait_with_role(&interrupted);
    if (child == 0)
        _exit(got != NULL || interrupted);
    uro_device_wait_end(device);
    return unused;
}

/* The handler forks and returns in the child, whose device is that of the parent. */
static void wait__handler_forks__child_does_not_run_the_engine(void **state)
{
    const struct sigaction action = { .sa_handler = make_child, .sa_flags = SA_RESTART };
    int status;

    (void)state;
    start();
    child = -1;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t waiter = start_waiter(wait_in_two_processes);
    assert_int_equal(pthread_kill(waiter, SIGUSR1), 0);
    while (waitpid(-1, &status, 0) < 0)
        (void)sched_yield();
    assert_int_equal(status, 0);
    put_event();
    assert_int_equal(pthread_join(waiter, NULL), 0);
}

/* ---- signals --------------------------------------------------------------------- */

static atomic_uint handled;

static void handle(int number)
{
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void *wait_interrupted(void *unused)
{
    bool interrupted;

    (void)unused;
    uro_device_wait_begin(device);
    const void *got = wait_with_role(&interrupted);
    uro_device_wait_end(device);
    return got == NULL && interrupted ? &event : NULL;
}

static void install(int number, int flags)
{
    const struct sigaction action = { .sa_handler = handle, .sa_flags = flags };

    atomic_store(&handled, 0);
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

static void wait__handler_without_sa_restart__is_interrupted(void **state)
{
    void *interrupted;

    (void)state;
    start();
    install(SIGUSR1, 0);
    pthread_t waiter = start_waiter(wait_interrupted);
    assert_int_equal(pthread_kill(waiter, SIGUSR1), 0);
    assert_int_equal(pthread_join(waiter, &interrupted), 0);
    assert_int_equal(atomic_load(&handled), 1);
    assert_ptr_equal(interrupted, &event);
}

static void wait__handler_with_sa_restart__waits_on(void **state)
{
    (void)state;
    start();
    install(SIGUSR1, SA_RESTART);
    pthread_t waiter = start_waiter(wait_once);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(pthread_kill(waiter, SIGUSR1), 0);
        while (atomic_load(&handled) < i)
            (void)sched_yield();
    }
    put_event();
    assert_int_equal(pthread_join(waiter, NULL), 0);
}

static void wait__engine_always_busy__is_interrupted(void **state)
{
    void *interrupted;

    (void)state;
    start();
    install(SIGUSR1, 0);
    pthread_t waiter = start_waiter(wait_interrupted);
    keep_engine_busy();
    assert_int_equal(pthread_kill(waiter, SIGUSR1), 0);
    assert_int_equal(pthread_join(waiter, &interrupted), 0);
    assert_int_equal(atomic_load(&handled), 1);
    assert_ptr_equal(interrupted, &event);
    fake_call_receiving(NULL);
}

/* The wait acts like poll() and epoll_wait(), which SA_RESTART does not restart. */
static void wait_fds__signal__is_eintr(void **state)
{
    void *interrupted;

    (void)state;
    start();
    install(SIGUSR1, SA_RESTART);
    pthread_t waiter = start_waiter(wait_fds_interrupted);
    assert_int_equal(pthread_kill(waiter, SIGUSR1), 0);
    assert_int_equal(pthread_join(waiter, &interrupted), 0);
    assert_int_equal(atomic_load(&handled), 1);
    assert_ptr_equal(interrupted, &event);
}

static void *wait_with_blocked_signal(void *unused)
{
    sigset_t blocked, now;

    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    assert_int_equal(raise(SIGUSR1), 0);
    wait_for_event();
    (void)pthread_sigmask(SIG_BLOCK, NULL, &now);
    assert_int_equal(sigismember(&now, SIGUSR1), 1);
    assert_int_equal(sigismember(&now, SIGUSR2), 0);
    return unused;
}

static void *wait_with_blocked_trap(void *unused)
{
    sigset_t blocked, pending;

    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGTRAP);
    (void)pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    wait_for_event();
    (void)sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGTRAP), 1);
    return unused;
}

/* Another thread of the program may wait for the signal with sigwait(). */
static void wait__program_blocks_a_fault_signal__signal_remains_blocked(void **state)
{
    (void)state;
    start();
    install(SIGTRAP, 0);
    pthread_t waiter = start_waiter(wait_with_blocked_trap);
    assert_int_equal(pthread_kill(waiter, SIGTRAP), 0);
    put_event();
    assert_int_equal(pthread_join(waiter, NULL), 0);
    assert_int_equal(atomic_load(&handled), 0);
}

/* The descriptor of signals must not keep the thread awake. */
static void wait__program_blocks_a_pending_signal__sleeps(void **state)
{
    (void)state;
    start();
    install(SIGUSR1, 0);
    pthread_t waiter = start_waiter(wait_with_blocked_signal);
    const uint32_t receives = fake_read(&fake.receives);
    const uint32_t looks = fake_read(&fake.link_looks);
    while (fake_read(&fake.link_looks) < looks + 3)
        (void)sched_yield();
    assert_true(fake_read(&fake.receives) < receives + 20);
    put_event();
    assert_int_equal(pthread_join(waiter, NULL), 0);
    assert_int_equal(atomic_load(&handled), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait__frame_arrives__waiting_thread_responds),
        cmocka_unit_test(wait__no_frame__sleeps_on_the_port),
        cmocka_unit_test(wait__event_of_another_thread__ends_the_wait),
        cmocka_unit_test(wait__ended_and_program_makes_no_calls__service_thread_responds),
        cmocka_unit_test(wait__post_with_the_lock_taken__waiting_thread_transmits),
        cmocka_unit_test(wait__others_wait__does_not_take_the_role),
        cmocka_unit_test(wait__second_thread__blocks_and_service_thread_follows),
        cmocka_unit_test(wait_fds__event_of_a_frame__waiting_thread_responds),
        cmocka_unit_test(wait_fds__no_event__ends_at_the_timeout),
        cmocka_unit_test(wait_fds__too_many__caller_waits_itself),
        cmocka_unit_test(wait_fds__signal__is_eintr),
        cmocka_unit_test(wait_fds__engine_always_busy__own_descriptor_ends_the_wait),
        cmocka_unit_test(wait__engine_always_busy__is_interrupted),
        cmocka_unit_test(wait_fds__port_removed__handlers_are_called),
#ifndef ADDRESS_SANITIZER /* this sanitizer does not see that a cancelled thread's stack is gone */
        cmocka_unit_test(wait__cancelled__service_thread_responds),
#endif
        cmocka_unit_test(wait__left_by_longjmp__service_thread_responds),
        cmocka_unit_test(wait__left_by_longjmp_and_woken__service_thread_responds),
#ifndef __SANITIZE_THREAD__ /* this sanitizer reports each fork() in a signal handler */
        cmocka_unit_test(wait__handler_forks__child_does_not_run_the_engine),
#endif
        cmocka_unit_test(wait__handler_without_sa_restart__is_interrupted),
        cmocka_unit_test(wait__handler_with_sa_restart__waits_on),
        cmocka_unit_test(wait__program_blocks_a_fault_signal__signal_remains_blocked),
        cmocka_unit_test(wait__program_blocks_a_pending_signal__sleeps),
    };

    return stage_run("host/waiter", tests, URO_ARRAY_LEN(tests));
}
