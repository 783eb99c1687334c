/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.c - see stage.h. */
#include "stage.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/device.h"
#include "support/patience.h"

struct uro_device *device;

void stage_start(const char *devices)
{
    assert_int_equal(setenv("UROCE_DEVICES", devices, 1), 0);
    device = uro_host_devices()[0];
    assert_non_null(device);
    assert_int_equal(uro_device_start(device), 0);
    fake_reset();
}

/* Replaces uro_device_now() through the linker. */
uro_time __wrap_uro_device_now(void);
uro_time __real_uro_device_now(void);

static atomic_uint_least64_t stopped_at; /* time of the stopped clock; 0: the clock runs */

uro_time __wrap_uro_device_now(void)
{
    uro_time at = atomic_load(&stopped_at);

    return at != 0 ? at : __real_uro_device_now();
}

void stage_stop_clock(void)
{
    atomic_store(&stopped_at,
                 __real_uro_device_now() + URO_MS(1)); /* later than any read in progress */
}

void stage_pass(uro_time ns)
{
    (void)atomic_fetch_add(&stopped_at, ns);
}

static void await_asleep(void)
{
    while (atomic_load(&device->shared.wake_at) == 0)
        (void)sched_yield();
}

/* Resets the send statistics of the device, which were measured with the real clock. */
static void forget_start(void)
{
    uro_device_lock(device);
    atomic_store(&device->shared.silence,
                 URO_MS(1000)); /* long, so that the program runs the engine even if it is slow */
    atomic_store(&device->shared.send_cost, 0);
    atomic_store(&device->shared.sent_at, 0);
    uro_device_unlock(device);
}

void stage_start_polling(bool call_per_send)
{
    fake.flags = call_per_send ? URO_PORT_CALL_PER_SEND : 0;
    stage_start("a:fake0" IP);
    stage_stop_clock();
    do {
        uro_device_progress(device, false);
        (void)sched_yield();
    } while (atomic_load(&device->shared.poll_round_at) != uro_device_now());
    forget_start();
    await_asleep(); /* the thread may have decided earlier to run a round */
    forget_start();
    await_asleep();
    fake_reset();
}

void stage_find(uint32_t sent)
{
    fake_inject_echo(&fake.port.mac);
    uro_device_progress(device, false);
    assert_int_equal(fake_read(&fake.head), fake_read(&fake.tail));
    assert_int_equal(fake_read(&fake.sent), sent);
}

void stage_each_frame_completes_something(void)
{
    fake_count_in(&uro_engine_counters(uro_device_engine(device))->value[URO_COUNT_COMPLETIONS]);
}

struct uro_qp *stage_make_qp(void)
{
    static _Alignas(64) uint8_t memory[16384];
    const struct uro_qp_init init = { .type = URO_QPT_RC };

    assert_in_range(uro_qp_size(&init), 1, sizeof memory);
    uro_device_lock(device);
    struct uro_qp *qp = uro_qp_create(uro_device_shard(device), &init, memory);
    uro_device_unlock(device);
    return qp;
}

bool stage_sent_by_service(void)
{
    return fake.sender == fake.opener;
}

/* Runs the test in a child, because cmocka's assertions use longjmp(). */
static void in_child(void **state)
{
    const struct CMUnitTest *test = *state;
    int status;

    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct CMUnitTest one[] = { *test };
        if (freopen("/dev/null", "w", stdout) == NULL)
            _exit(2);
        (void)alarm(patience(60)); /* ends the process if it hangs */
        exit(cmocka_run_group_tests_name("one", one, NULL, NULL));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int stage_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    struct CMUnitTest outer[32];

    assert_true(count <= URO_ARRAY_LEN(outer));
    for (size_t i = 0; i < count; i++)
        outer[i] = (struct CMUnitTest){ .name = tests[i].name,
                                        .test_func = in_child,
                                        .initial_state = (void *)(uintptr_t)&tests[i] };
    return _cmocka_run_group_tests(name, outer, count, NULL, NULL);
}
