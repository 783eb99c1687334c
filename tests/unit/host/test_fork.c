/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests devices in a forked child.
 *
 * A process reads its list of devices once, so each case runs in its own child.
 */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_port.h"
#include "host/fork.h"
#include "host/host.h"
#include "support/must.h"
#include "support/patience.h"

#define DEVICE "one:fake0;ip=10.0.0.1/24"
#define SLOW   "one:slow0;ip=10.0.0.1/24"

/* If a thread calls fork(), the child does not have the stack of its parent's main thread. Memory
 * that only this stack points to counts as leaked in the child. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static struct uro_device *first(const char *devices)
{
    MUST(setenv("UROCE_DEVICES", devices, 1) == 0);
    MUST(uro_host_devices()[0] != NULL);
    return uro_host_devices()[0];
}

/* Runs @body in a child, which must end normally. */
static void in_child(void (*body)(void))
{
    int status;

    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        body();
        exit(0);
    }
    MUST(child > 0 && waitpid(child, &status, 0) == child);
    MUST(status == 0);
}

static void moves_frames(void)
{
    const uint32_t before = fake_read(&fake.sent);

    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, before + 1);
}

static struct uro_device *parents;

/* ---- before a start ------------------------------------------------------ */

static void starts_its_own(void)
{
    MUST(!uro_device_dead(parents));
    MUST(uro_host_devices()[0] == parents);
    MUST(fake.forks == 0);
    MUST(uro_device_start(parents) == 0);
    moves_frames();
}

static void forks_before_start(void)
{
    parents = first(DEVICE);
    in_child(starts_its_own);
    MUST(uro_device_start(parents) == 0);
    moves_frames();
}

static void fork__before_start__both_have_a_device_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_before_start), 0);
}

static void starts_what_failed(void)
{
    fake.mended = true;
    MUST(!uro_device_dead(parents));
    MUST(uro_device_start(parents) == 0);
}

static void forks_after_a_failure(void)
{
    parents = first("one:broken0;ip=10.0.0.1/24");
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(parents) == -ENODEV);
    in_child(starts_what_failed);
}

static void fork__after_a_start_that_failed__the_child_tries_again(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_after_a_failure), 0);
}

/* ---- after a start ------------------------------------------------------- */

static void starts_another(void)
{
    struct uro_device *own = uro_host_devices()[0];

    MUST(own != parents);
    MUST(uro_device_dead(parents) && !uro_device_dead(own));
    MUST(!uro_device_started(parents) && !uro_device_started(own));
    MUST(fake.forks == 1 && fake.closes == 0 && fake.opens == 1);
    MUST(uro_device_start(parents) == -EIO);
    MUST(uro_device_start(own) == 0);
    MUST(fake.opens == 2);
    moves_frames();
}

static void forks_after_start(void)
{
    parents = first(DEVICE);
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(parents) == 0);
    in_child(starts_another);
    in_child(starts_another);
    MUST(!uro_device_dead(parents) && uro_host_devices()[0] == parents);
    MUST(fake.forks == 0);
    moves_frames();
}

static void fork__after_start__child_starts_a_new_device_and_parent_continues(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_after_start), 0);
}

static void forks_on(void)
{
    starts_another();
    parents = uro_host_devices()[0];
    fake.forks = 0;
    fake.opens = 1;
    in_child(starts_another);
    MUST(!uro_device_dead(parents));
    moves_frames();
}

static void forks_twice(void)
{
    parents = first(DEVICE);
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(parents) == 0);
    in_child(forks_on);
    moves_frames();
}

static void fork__a_child_of_a_child__starts_a_new_device(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_twice), 0);
}

static void *fork_in_thread(void *unused)
{
    in_child(starts_another);
    return unused;
}

static atomic_bool polled_enough; /* a sanitizer fails on a cancelled thread */

static void *poll_until_enough(void *device)
{
    while (!atomic_load(&polled_enough)) {
        uro_device_progress(device, false);
        uro_device_lock(device);
        uro_device_unlock(device);
    }
    return NULL;
}

static void forks_in_a_thread(void)
{
    pthread_t polls, forks;

    parents = first(DEVICE);
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(parents) == 0);
    MUST(pthread_create(&polls, NULL, poll_until_enough, parents) == 0);
    for (int i = 0; i < 20; i++) {
        MUST(pthread_create(&forks, NULL, fork_in_thread, NULL) == 0);
        MUST(pthread_join(forks, NULL) == 0);
    }
    atomic_store(&polled_enough, true);
    MUST(pthread_join(polls, NULL) == 0);
    moves_frames();
}

static void fork__in_a_thread_while_another_one_drives__the_child_starts_a_new_device(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_in_a_thread), 0);
}

static void *start_in_thread(void *device)
{
    MUST(uro_device_start(device) == 0);
    return NULL;
}

static void forks_during_a_start(void)
{
    pthread_t starts;

    parents = first(SLOW);
    MUST(pthread_atfork(fake_let_open, NULL, NULL) ==
         0); /* fork() calls this handler before the handler of the library */
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(pthread_create(&starts, NULL, start_in_thread, parents) == 0);
    fake_wait(&fake.begins, 1);
    in_child(starts_another); /* the start was released, so fork() had waited for it */
    MUST(pthread_join(starts, NULL) == 0);
    moves_frames();
}

static void fork__during_a_start__waits_for_the_start(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_during_a_start), 0);
}

/* ---- resources of the child ---------------------------------------------- */

static int open_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int descriptors_before;

/* The fake port closes no descriptor: its only descriptor belongs to the test. */
static void has_no_descriptor_more(void)
{
    MUST(open_descriptors() == descriptors_before + 1);
}

static void forks_with_a_capture(void)
{
    char file[] = "/tmp/uroce-fork-XXXXXX", devices[256];

    int fd = mkstemp(file);
    MUST(fd >= 0);
    (void)snprintf(devices, sizeof devices, DEVICE ";pcap=%s", file);
    parents = first(devices);
    descriptors_before = open_descriptors();
    MUST(uro_device_start(parents) == 0);
    MUST(open_descriptors() > descriptors_before + 1);
    in_child(has_no_descriptor_more);
    MUST(unlink(file) == 0);
}

static void fork__a_child_that_uses_nothing__has_no_descriptor_of_the_device(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_with_a_capture), 0);
}

static void counts_from_zero(void)
{
    struct uro_device *own = uro_host_devices()[0];

    uro_quota_give(parents, URO_QUOTA_PD,
                   2); /* frees an object of the parent: the counts of the child do not change */
    MUST(uro_quota_take(own, URO_QUOTA_PD, 2));
    MUST(!uro_quota_take(own, URO_QUOTA_PD, 1));
    uro_quota_give(own, URO_QUOTA_PD, 1);
    MUST(uro_quota_take(own, URO_QUOTA_PD, 1));
}

static void forks_with_all_it_may_have(void)
{
    parents = first(DEVICE ";max_pd=2 *;max_pd=2");
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(parents) == 0);
    MUST(uro_quota_take(parents, URO_QUOTA_PD, 2));
    in_child(counts_from_zero);
    MUST(!uro_quota_take(parents, URO_QUOTA_PD, 1));
}

static void fork__parent_uses_its_whole_quota__child_has_a_full_quota(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_with_all_it_may_have), 0);
}

static uint64_t number_of_a_new_qp(void)
{
    struct uro_device *own = uro_host_devices()[0];
    static _Alignas(64) uint8_t memory[16384];
    const struct uro_qp_init init = { .type = URO_QPT_RC };
    uint64_t drawn;

    MUST(uro_device_start(own) == 0);
    uro_device_lock(own);
    drawn = uro_qp_number(uro_qp_create(uro_device_shard(own), &init, memory));
    uro_device_unlock(own);
    return drawn;
}

static uint64_t drawn_by_parent;

static void draws_another_number(void)
{
    MUST(number_of_a_new_qp() != drawn_by_parent);
}

static void forks_with_a_seed(void)
{
    parents = first(DEVICE ";seed=7");
    drawn_by_parent = number_of_a_new_qp();
    in_child(draws_another_number);
}

static void fork__the_configuration_has_a_seed__the_child_draws_other_numbers(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_with_a_seed), 0);
}

/* ---- drivers that work in one process only ------------------------------- */

static void stays_dead(void)
{
    MUST(uro_device_dead(parents));
    MUST(uro_host_devices()[0] == parents);
    MUST(fake.forks == 1);
    MUST(!uro_device_started(parents));
    MUST(uro_device_start(parents) == -EIO);
    MUST(fake.opens == 1);
}

static void forks_with_dpdk(void)
{
    fake_drivers[0].flags |= URO_DRIVER_ONE_PROCESS; /* like the DPDK driver */
    parents = first(DEVICE);
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    MUST(uro_device_start(parents) == 0);
    in_child(stays_dead);
    moves_frames();
}

static void fork__after_dpdk_was_started__child_is_refused_and_parent_continues(void **state)
{
    (void)state;
    assert_int_equal(must_status(forks_with_dpdk), 0);
}

/* Forks by a system call, so that no fork handler runs. */
static void clones(void)
{
    int status;

    parents = first(DEVICE);
    MUST(uro_device_start(parents) == 0);
    MUST(freopen("/dev/null", "w", stderr) != NULL);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        MUST(uro_host_cloned());
        MUST(uro_device_dead(parents));
        MUST(uro_device_start(parents) == -EIO);
        MUST(uro_host_devices()[0] == parents);
        MUST(fake.opens == 1 && fake.closes == 0);
        exit(0);
    }
    MUST(child > 0 && waitpid(child, &status, 0) == child);
    MUST(status == 0);
    MUST(!uro_host_cloned() && !uro_device_dead(parents));
    moves_frames();
}

static void clone__without_the_handlers_of_fork__every_device_is_dead(void **state)
{
    (void)state;
    assert_int_equal(must_status(clones), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork__before_start__both_have_a_device_of_their_own),
        cmocka_unit_test(fork__after_a_start_that_failed__the_child_tries_again),
        cmocka_unit_test(fork__after_start__child_starts_a_new_device_and_parent_continues),
        cmocka_unit_test(fork__a_child_of_a_child__starts_a_new_device),
        cmocka_unit_test(fork__in_a_thread_while_another_one_drives__the_child_starts_a_new_device),
        cmocka_unit_test(fork__during_a_start__waits_for_the_start),
        cmocka_unit_test(fork__a_child_that_uses_nothing__has_no_descriptor_of_the_device),
        cmocka_unit_test(fork__parent_uses_its_whole_quota__child_has_a_full_quota),
        cmocka_unit_test(fork__the_configuration_has_a_seed__the_child_draws_other_numbers),
        cmocka_unit_test(fork__after_dpdk_was_started__child_is_refused_and_parent_continues),
        cmocka_unit_test(clone__without_the_handlers_of_fork__every_device_is_dead),
    };
    (void)alarm(patience(60)); /* ends the process if it hangs */
    return cmocka_run_group_tests_name("host/fork", tests, NULL, NULL);
}
