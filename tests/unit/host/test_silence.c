/* SPDX-License-Identifier: BSD-3-Clause */
/* test_silence.c - tests how long the program may make no call until the service thread runs the
 * engine. */
#include <sched.h>

#include "host/device.h"
#include "stage.h"

/* Makes a call, and then advances the stopped clock by @gap. Work of the thread takes no time on
 * this clock. */
static void call_again_after(uro_time gap)
{
    do
        uro_device_progress(device, false);
    while (atomic_load(&device->shared.poll_round_at) !=
           uro_device_now()); /* the thread had the lock */
    uro_device_lock(device);
    uro_device_unlock(device); /* wakes the thread, which finds that it is not needed */
    while (fake_is_armed())
        (void)sched_yield();
    stage_pass(gap);
}

static void wait_until_it_takes_over(void)
{
    while (!fake_is_armed())
        fake_wait(&fake.arms, fake_read(&fake.arms) + 1);
}

/* On a slow machine each call takes long. If the service thread runs the engine as well, the
 * program is even slower. */
static void hybrid__program_is_slow__service_thread_waits_longer(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    fake_wait(&fake.reports,
              2); /* membership reports would keep the thread awake while the clock is stopped */
    stage_stop_clock();
    call_again_after(URO_US(300));
    wait_until_it_takes_over();
    call_again_after(URO_US(300));
    assert_int_equal(atomic_load(&device->shared.silence), URO_US(600));
    while (atomic_load(&device->shared.wake_at) !=
           uro_device_now() +
               URO_MS(1)) /* the thread checked, and left the engine to the program */
        (void)sched_yield();
    assert_false(fake_is_armed());

    for (uint32_t i = 0; i < 5; i++) { /* the program is idle, not slow */
        call_again_after(URO_MS(5));
        wait_until_it_takes_over();
    }
    call_again_after(URO_US(60));
    assert_int_equal(atomic_load(&device->shared.silence), URO_US(50));
    wait_until_it_takes_over();
}

/* A program that waits for a peer's WRITE is not slow: it needs the service thread to receive the
 * WRITE. */
static void hybrid__peer_writes_to_a_silent_program__service_thread_waits_no_longer(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    fake_wait(&fake.reports,
              2); /* membership reports would keep the thread awake while the clock is stopped */
    stage_stop_clock();
    for (uint32_t i = 0; i < 2; i++) {
        call_again_after(URO_US(300));
        if (i == 0)
            wait_until_it_takes_over();
    }
    assert_int_equal(atomic_load(&device->shared.silence), URO_US(600));
    stage_pass(URO_MS(5));
    wait_until_it_takes_over();

    fake_count_in(&uro_engine_counters(uro_device_engine(device))->value[URO_COUNT_RX_WRITES]);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
    uro_device_lock(device); /* waits for the end of the thread's round */
    uro_device_unlock(device);
    assert_int_equal(atomic_load(&device->shared.silence), URO_US(50));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hybrid__program_is_slow__service_thread_waits_longer),
        cmocka_unit_test(hybrid__peer_writes_to_a_silent_program__service_thread_waits_no_longer),
    };
    return stage_run("host/silence", tests, URO_ARRAY_LEN(tests));
}
