/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests how a device starts, and how it stops when the process ends.
 *
 * A process reads its list of devices once, so each case runs in its own child.
 */
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm/conn_inside.h"
#include "core/shard.h"
#include "fake_port.h"
#include "host/host.h"
#include "support/must.h"
#include "support/patience.h"
#include "support/stderr_text.h"

#define DEVICE "one:fake0;ip=10.0.0.1/24"

static struct uro_device *first(const char *devices)
{
    MUST(setenv("UROCE_DEVICES", devices, 1) == 0);
    MUST(uro_host_devices()[0] != NULL);
    return uro_host_devices()[0];
}

static void starts_once(void)
{
    struct uro_device *device = first(DEVICE);

    MUST(!uro_device_started(device));
    MUST(uro_device_link_up(device));
    MUST(fake.opens == 0);
    MUST(uro_device_start(device) == 0);
    MUST(uro_device_start(device) == 0);
    MUST(uro_device_started(device));
    MUST(fake.opens == 1);
    MUST(uro_device_engine(device) != NULL);
    MUST(uro_device_shard(device) != NULL);
    MUST(strcmp(uro_device_problem(device), "") == 0);
}

static void start__twice__opens_one_port(void **state)
{
    (void)state;
    assert_int_equal(must_status(starts_once), 0);
}

static void *start_in_thread(void *device)
{
    MUST(uro_device_start(device) == 0);
    MUST(uro_device_started(device));
    return NULL;
}

static void starts_from_many_threads(void)
{
    struct uro_device *device = first(DEVICE);
    pthread_t threads[8];

    for (int i = 0; i < 8; i++)
        MUST(pthread_create(&threads[i], NULL, start_in_thread, device) == 0);
    for (int i = 0; i < 8; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    MUST(fake.opens == 1);
}

static void start__from_many_threads__all_wait_for_the_one_port(void **state)
{
    (void)state;
    assert_int_equal(must_status(starts_from_many_threads), 0);
}

static void opens_on_its_thread(void)
{
    MUST(uro_device_start(first(DEVICE)) == 0);
    MUST(fake.opener != gettid());
    MUST(strcmp(fake.opener_name, "uroce:one") == 0);
    MUST(sigismember(&fake.opener_signals, SIGALRM) == 1);
    MUST(sigismember(&fake.opener_signals, SIGINT) == 1);
    MUST(sigismember(&fake.opener_signals, SIGTERM) == 1);
    MUST(sigismember(&fake.opener_signals, SIGSEGV) == 0); /* host/unmapped.c handles SIGSEGV */

    sigset_t ours;
    MUST(pthread_sigmask(SIG_BLOCK, NULL, &ours) == 0);
    MUST(sigismember(&ours, SIGALRM) == 0);
}

static void start__port__is_opened_on_a_thread_without_signals(void **state)
{
    (void)state;
    assert_int_equal(must_status(opens_on_its_thread), 0);
}

static void gives_qpns_one_prefix(void)
{
    struct uro_device *device = first(DEVICE);

    fake.flags = URO_PORT_ONE_QPN_PREFIX;
    MUST(uro_device_start(device) == 0);
    uro_device_lock(device);
    const uint32_t number = uro_shard_unused_qpn(uro_device_shard(device));
    for (int i = 0; i < 20; i++)
        MUST(uro_shard_unused_qpn(uro_device_shard(device)) >> URO_QPN_OWN_BITS ==
             number >> URO_QPN_OWN_BITS);
    uro_device_unlock(device);
}

static void start__port_with_one_qpn_prefix__engine_has_the_prefix(void **state)
{
    (void)state;
    assert_int_equal(must_status(gives_qpns_one_prefix), 0);
}

static void keeps_the_reason(void)
{
    struct uro_device *device = first("one:broken0;ip=10.0.0.1/24");

    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(device) == -ENODEV);
    MUST(uro_device_start(device) == -ENODEV);
    MUST(!uro_device_started(device));
    MUST(strcmp(uro_device_problem(device), "broken0 is broken; mend it") == 0);
}

static void start__port_does_not_open__the_reason_is_kept(void **state)
{
    (void)state;
    assert_int_equal(must_status(keeps_the_reason), 0);
}

static void refuses_the_capture(void)
{
    struct uro_device *device = first(DEVICE ";pcap=/no/such/directory/x.pcap");

    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(device) == -ENODEV);
    MUST(strcmp(uro_device_problem(device),
                "pcap=/no/such/directory/x.pcap: No such file or directory") == 0);
    MUST(fake.opens == 0);
}

static void start__capture_cannot_be_written__is_not_started(void **state)
{
    (void)state;
    assert_int_equal(must_status(refuses_the_capture), 0);
}

/* ---- operations of the port ----------------------------------------------- */

static const struct uro_listened service = { .id = 0x1061d37, .address = { { 10, 0, 0, 1 } } };

static void asks(void)
{
    struct uro_device *device = first(DEVICE);

    MUST(uro_device_start(device) == 0);
    uro_device_lock(device);
    MUST(uro_device_lock_service(device, &service) == 0);
    MUST(fake.service_locks == 1 && memcmp(&fake.locked_service, &service, sizeof service) == 0);
    fake.lock_error = -EADDRINUSE;
    MUST(uro_device_lock_service(device, &service) == -EADDRINUSE);
    MUST(fake.service_unlocks == 0);
    uro_device_unlock_service(device, &service);
    MUST(fake.service_unlocks == 1 && memcmp(&fake.locked_service, &service, sizeof service) == 0);
    fake.carries = 1400;
    MUST(uro_device_route_mtu(device, &service.address, &service.address) == 1400);
    uro_device_unlock(device);
}

static void port_operations__called__return_the_values_of_the_port(void **state)
{
    (void)state;
    assert_int_equal(must_status(asks), 0);
}

/* ---- connections -------------------------------------------------------- */

static uint32_t make_connections(const char *devices, uint32_t wanted)
{
    static const struct uro_cm_route nowhere;
    struct uro_device *device = first(devices);
    uint32_t made = 0;

    MUST(uro_device_start(device) == 0);
    uro_device_lock(device);
    while (made < wanted &&
           uro_conn_new(uro_engine_cm(uro_device_engine(device)), &nowhere) != NULL)
        made++;
    uro_device_unlock(device);
    return made;
}

static void makes_many(void)
{
    MUST(make_connections(DEVICE, 20000) == 20000);
}

static void connections__no_max_conn__allows_20000(void **state)
{
    (void)state;
    assert_int_equal(must_status(makes_many), 0);
}

static void makes_seven(void)
{
    MUST(make_connections(DEVICE ";max_conn=7", 20) == 7);
}

static void connections__max_conn__no_more_can_be_made(void **state)
{
    (void)state;
    assert_int_equal(must_status(makes_seven), 0);
}

/* A bound of "*" applies to each device separately, and the message names "*". */
static void refuses_by_the_bound_of_all(void)
{
    struct stderr_capture capture = capture_stderr_begin();
    struct uro_device *device;

    MUST(make_connections(DEVICE ";max_conn=9 *;max_conn=7", 20) == 7);
    device = uro_host_devices()[0];
    uro_device_lock(device);
    uro_quota_check_bounds(device);
    uro_device_unlock(device);
    MUST(strcmp(capture_stderr_text(capture),
                "uroce: one: the limit of 7 connections of rdma_cm is reached, so requests for "
                "more fail (ENOMEM); destroy some in the program, or raise max_conn= of *\n") == 0);
    capture_stderr_end(capture);
}

static void connections__max_conn_of_star__limits_each_device(void **state)
{
    (void)state;
    assert_int_equal(must_status(refuses_by_the_bound_of_all), 0);
}

/* ---- listeners ---------------------------------------------------------- */

#define LISTENERS 2048u /* listeners at one address */

static struct uro_listener listeners[LISTENERS + 1];

static struct uro_listener *listen_to(struct uro_device *device, uint32_t number, int expected)
{
    struct uro_listener *listener = &listeners[number];

    *listener = (struct uro_listener){ .service_id = number,
                                       .address = uro_device_config(device)->gids[1],
                                       .backlog = 1 };
    uro_device_lock(device);
    MUST(uro_conn_listen(uro_engine_cm(uro_device_engine(device)), listener) == expected);
    uro_device_unlock(device);
    return listener;
}

/* If processes share an address, the port announces the services of this process to the hub. A port
 * can announce LISTENERS services at one address, so further listeners are refused. */
static void listens_to_many(void)
{
    struct uro_device *device = first(DEVICE);
    struct uro_listener *last = NULL;

    MUST(uro_device_start(device) == 0);
    for (uint32_t i = 0; i < LISTENERS; i++)
        last = listen_to(device, i, 0);
    fake_wait(&fake.services, LISTENERS);
    struct stderr_capture capture = capture_stderr_begin();
    (void)listen_to(device, LISTENERS, -ENOMEM);
    uro_device_lock(device);
    uro_quota_check_bounds(device);
    uro_quota_check_bounds(device);
    uro_conn_unlisten(uro_engine_cm(uro_device_engine(device)), last);
    uro_device_unlock(device);
    MUST(strcmp(capture_stderr_text(capture),
                "uroce: one: 2048 services have listeners at one address: requests for more fail "
                "(ENOMEM); destroy unused listeners, or use several processes\n") == 0);
    capture_stderr_end(capture);
    (void)listen_to(device, LISTENERS, 0);
}

static void listeners__as_many_as_a_port_announces__more_are_refused(void **state)
{
    (void)state;
    assert_int_equal(must_status(listens_to_many), 0);
}

/* ---- the end ------------------------------------------------------------ */

/* Runs @body in a child. Returns how often the child called the port's close(), which writes a byte
 * to a pipe. */
static int closes_of(void (*body)(void), int *status)
{
    int ends[2], closes = 0;
    char octet;

    assert_int_equal(pipe(ends), 0);
    fake.close_pipe = ends[1];
    *status = must_status(body);
    fake.close_pipe = -1;
    assert_int_equal(close(ends[1]), 0);
    while (read(ends[0], &octet, 1) == 1)
        closes++;
    assert_int_equal(close(ends[0]), 0);
    return closes;
}

static void just_starts(void)
{
    MUST(uro_device_start(first(DEVICE)) == 0);
}

static void exit__device_ran__port_is_closed_once(void **state)
{
    int status;

    (void)state;
    assert_int_equal(closes_of(just_starts, &status), 1);
    assert_int_equal(status, 0);
}

static void only_lists(void)
{
    MUST(!uro_device_started(first(DEVICE)));
}

static void exit__device_never_started__nothing_to_close(void **state)
{
    int status;

    (void)state;
    assert_int_equal(closes_of(only_lists, &status), 0);
    assert_int_equal(status, 0);
}

static void forks_and_leaves_the_port_to_the_parent(void)
{
    int status;

    MUST(uro_device_start(first(DEVICE)) == 0);
    pid_t child = fork();
    if (child == 0)
        exit(0);
    MUST(waitpid(child, &status, 0) == child);
    MUST(status == 0);
}

static void exit__of_a_forked_child__closes_nothing(void **state)
{
    int status;

    (void)state;
    assert_int_equal(closes_of(forks_and_leaves_the_port_to_the_parent, &status), 1);
    assert_int_equal(status, 0);
}

static void leave(int number)
{
    (void)number;
    exit(3);
}

/* Exits inside the lock, as perftest does on SIGINT or SIGALRM. */
static void exits_inside_the_lock(void)
{
    struct uro_device *device = first(DEVICE);

    MUST(uro_device_start(device) == 0);
    MUST(signal(SIGALRM, leave) != SIG_ERR);
    uro_device_lock(device);
    MUST(raise(SIGALRM) == 0);
}

static void exit__in_a_signal_handler_inside_the_lock__does_not_hang(void **state)
{
    int status;

    (void)state;
    assert_int_equal(closes_of(exits_inside_the_lock, &status), 0);
    assert_int_equal(status, 3);
}

static struct uro_device *left;

/* A program's own exit handler, registered before the device started, runs after the library's
 * handler. */
static void clean_up_late(void)
{
    uro_device_lock(left);
    uro_device_unlock(left);
    for (int i = 0; i < 10; i++)
        uro_device_progress(left, true);
    MUST(uro_device_link_up(left) == fake.link_up);
    MUST(fake.closes == 1);
    uro_device_lock(left);
    MUST(uro_device_lock_service(left, &service) == 0);
    uro_device_unlock_service(left, &service);
    MUST(uro_device_route_mtu(left, &service.address, &service.address) == 0);
    uro_device_unlock(left);
    MUST(fake.service_locks == 0 && fake.service_unlocks == 0 && fake.ways == 0);
    _exit(7);
}

static void cleans_up_late(void)
{
    left = first(DEVICE);
    MUST(atexit(clean_up_late) == 0);
    MUST(uro_device_start(left) == 0);
}

static void exit__program_uses_the_device_after_its_shutdown__calls_return(void **state)
{
    int status;

    (void)state;
    assert_int_equal(closes_of(cleans_up_late, &status), 1);
    assert_int_equal(status, 7);
}

static void *poll_for_ever(void *device)
{
    for (;;)
        uro_device_progress(device, false);
    return NULL;
}

static void exits_while_others_poll(void)
{
    struct uro_device *device = first(DEVICE);
    pthread_t thread;

    MUST(uro_device_start(device) == 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&thread, NULL, poll_for_ever, device) == 0);
    fake_wait(&fake.receives, fake_read(&fake.receives) + 100);
}

static void exit__while_threads_poll__closes_and_does_not_crash(void **state)
{
    int status;

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(closes_of(exits_while_others_poll, &status), 1);
        assert_int_equal(status, 0);
    }
}

/* ---- capture ------------------------------------------------------------ */

static char capture[] = "/tmp/uroce-capture-XXXXXX";

static void records_an_echo(void)
{
    char devices[256];

    fake.link_up = false; /* so that no membership report is sent */
    (void)snprintf(devices, sizeof devices, DEVICE ";pcap=%s", capture);
    MUST(uro_device_start(first(devices)) == 0);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
}

static void capture__echo__request_and_reply_are_in_the_file(void **state)
{
    uint8_t octets[4096];
    const size_t echo = 14 + 20 + 8 + 4, answer = 60; /* the device pads short frames */

    (void)state;
    int fd = mkstemp(capture);
    assert_true(fd >= 0);
    assert_int_equal(must_status(records_an_echo), 0);
    ssize_t length = read(fd, octets, sizeof octets);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(capture), 0);
    assert_int_equal(length, 24 + 16 + echo + 16 + answer);
    assert_int_equal(octets[24 + 16 + 14 + 20], 8);             /* echo request */
    assert_int_equal(octets[24 + 16 + echo + 16 + 14 + 20], 0); /* echo reply */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start__twice__opens_one_port),
        cmocka_unit_test(start__from_many_threads__all_wait_for_the_one_port),
        cmocka_unit_test(start__port__is_opened_on_a_thread_without_signals),
        cmocka_unit_test(start__port_with_one_qpn_prefix__engine_has_the_prefix),
        cmocka_unit_test(start__port_does_not_open__the_reason_is_kept),
        cmocka_unit_test(start__capture_cannot_be_written__is_not_started),
        cmocka_unit_test(port_operations__called__return_the_values_of_the_port),
        cmocka_unit_test(connections__no_max_conn__allows_20000),
        cmocka_unit_test(connections__max_conn__no_more_can_be_made),
        cmocka_unit_test(connections__max_conn_of_star__limits_each_device),
        cmocka_unit_test(listeners__as_many_as_a_port_announces__more_are_refused),
        cmocka_unit_test(exit__device_ran__port_is_closed_once),
        cmocka_unit_test(exit__device_never_started__nothing_to_close),
        cmocka_unit_test(exit__of_a_forked_child__closes_nothing),
        cmocka_unit_test(exit__in_a_signal_handler_inside_the_lock__does_not_hang),
        cmocka_unit_test(exit__program_uses_the_device_after_its_shutdown__calls_return),
        cmocka_unit_test(exit__while_threads_poll__closes_and_does_not_crash),
        cmocka_unit_test(capture__echo__request_and_reply_are_in_the_file),
    };
    (void)alarm(patience(60)); /* a test that hangs fails */
    return cmocka_run_group_tests_name("host/lifetime", tests, NULL, NULL);
}
