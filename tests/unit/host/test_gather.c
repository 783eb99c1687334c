/* SPDX-License-Identifier: BSD-3-Clause */
/* test_gather.c - a link where each send costs a system call: what waits for the next call of the program, and that it
 * does not wait for ever. */
#include <sched.h>

#include "host/device.h"
#include "stage.h"

#define STEP 100u /* ns, from one call of a program to the next */

static bool stands_back(void)
{
    uro_time wakes = atomic_load(&device->wakes);

    return wakes != 0 && wakes <= uro_device_now() + URO_MS(1);
}

/* A program that polls, at a time that passes as the test says, and a service thread that stands back for it. */
static void start_polled(void)
{
    fake.gathers = true;
    stage_start("a:fake0" IP);
    stage_stop_clock();
    do {
        uro_device_progress(device, false);
        (void)sched_yield();
    } while (!stands_back());
    atomic_store(&device->silence, URO_MS(1000)); /* and goes on to, however slow the program is */
    uro_device_lock(device);                      /* it has let go */
    uro_device_unlock(device);
    fake_reset();
}

static void gathering_link__post_follows_a_send__leaves_with_the_next_poll(void **state)
{
    (void)state;
    start_polled();
    for (uint32_t sent = 0; sent < 40;) {
        fake_inject_echo(&fake.port.mac);
        uro_device_progress(device, false);
        assert_int_equal(fake_read(&fake.sent), ++sent);
        fake_inject_echo(&fake.port.mac);
        uro_device_progress(device, true);
        assert_int_equal(fake_read(&fake.sent), sent);
        uro_device_polled(device);
        assert_int_equal(fake_read(&fake.sent), ++sent);
        assert_false(stage_sent_by_service());
    }
}

static void take_20_us(void)
{
    stage_pass(URO_US(20));
}

static void take_1_ms(void)
{
    stage_pass(URO_MS(1));
}

/* What a program posts @after so long that it sent @frames; whether that waits for more. */
static bool waits_after(uint32_t frames, uro_time after)
{
    for (uint32_t i = 0; i < frames; i++)
        fake_inject_echo(&fake.port.mac);
    uro_device_progress(device, false);
    stage_pass(after);
    uro_device_progress(device, true);
    bool so = atomic_load(&device->gathered) == 1;
    uro_device_polled(device);
    assert_int_equal(atomic_load(&device->gathered), 0);
    return so;
}

static bool waits(uro_time after)
{
    return waits_after(1, after);
}

/* Where a send takes long, so do the program's own steps: what it posts meanwhile leaves together. */
static void gathering_link__send_takes_long__a_post_waits_as_long(void **state)
{
    (void)state;
    start_polled();
    assert_true(waits(URO_US(3)));
    assert_false(waits(URO_US(10)));
    fake.sends = take_20_us;
    assert_true(waits(URO_US(10)));
    assert_false(waits(URO_US(30)));
}

/* Not as long as one takes that was interrupted. */
static void gathering_link__send_takes_very_long__a_post_waits_no_longer(void **state)
{
    (void)state;
    start_polled();
    fake.sends = take_1_ms;
    assert_true(waits(URO_US(30)));
    assert_false(waits(URO_US(50)));
}

/* A send of many packets may take long anywhere. */
static void gathering_link__send_of_more_takes_long__a_post_does_not_wait(void **state)
{
    (void)state;
    start_polled();
    assert_true(waits(0));
    fake.sends = take_20_us;
    assert_false(waits_after(2, URO_US(10)));
    assert_true(waits(0));
    fake.sends = NULL;
    assert_true(waits_after(2, 0));
    assert_false(waits_after(2, URO_US(10)));
}

/* A program that posts many has not polled for long. */
static void gathering_link__many_posts__wait_as_long_as_the_program_polls_soon(void **state)
{
    (void)state;
    start_polled();
    for (uint32_t slow = 0; slow < 2; slow++) {
        fake.sends = slow ? take_20_us : NULL;
        assert_true(waits(0));
        stage_pass(URO_US(300));
        uro_device_progress(device, true); /* leaves at once, but has nothing to send */
        atomic_store(&device->sent_at, uro_device_now());
        uro_device_progress(device, true);
        assert_int_equal(atomic_load(&device->gathered), slow);
        uro_device_polled(device);
    }
}

static void each_frame_completes_something(void)
{
    fake_count_in(&uro_engine_counters(uro_device_engine(device))->value[URO_COUNT_COMPLETIONS]);
}

/* A call of the program, of some kind. */
static void call(uint32_t kind)
{
    stage_pass(STEP);
    if (kind == 0)
        uro_device_progress(device, false);
    else if (kind == 1)
        uro_device_progress(device, true);
    else if (kind == 2)
        uro_device_polled(device);
    else
        uro_device_lock(device); /* a command may take away what was to send it */
    if (kind == 3)
        uro_device_unlock(device);
}

/* The answers leave with a call of the program soon after, of whatever kind: it may have something to send itself. */
static void gathering_link__poll_finds_something__program_gets_it_first(void **state)
{
    (void)state;
    start_polled();
    each_frame_completes_something();
    for (uint32_t i = 0; i < 40; i++) {
        fake_inject_echo(&fake.port.mac);
        uro_device_progress(device, false);
        assert_int_equal(fake_read(&fake.head), fake_read(&fake.tail));
        assert_int_equal(fake_read(&fake.sent), i);
        for (uint32_t calls = 0; fake_read(&fake.sent) == i; calls++) {
            assert_in_range(calls, 0, 40);
            call(i % 4);
        }
        assert_int_equal(fake_read(&fake.sent), i + 1);
        assert_false(stage_sent_by_service());
    }
}

/* Somebody else does when the program does not come again. */
static void gathering_link__poll_finds_something_and_program_goes__it_is_answered(void **state)
{
    (void)state;
    fake.gathers = true;
    stage_start("a:fake0" IP);
    each_frame_completes_something();
    for (uint32_t i = 1; i <= 50; i++) {
        fake_inject_echo(&fake.port.mac);
        while (fake_read(&fake.head) != fake_read(&fake.tail))
            uro_device_progress(device, false);
        fake_wait(&fake.sent, i);
    }
}

static void gathering_link__caller_alone_drives__every_post_leaves_at_once(void **state)
{
    (void)state;
    fake.gathers = true;
    stage_start("a:fake0;progress=caller" IP);
    for (uint32_t i = 1; i <= 50; i++) {
        uro_device_progress(device, false);
        fake_inject_echo(&fake.port.mac);
        uro_device_progress(device, true);
        assert_int_equal(fake_read(&fake.sent), i);
    }
}

/* What was posted before a command was posted to the queue pair as it was then. */
static void posted__and_a_command_follows__the_engine_hears_it_before(void **state)
{
    const struct uro_qp_init init = { .type = URO_QPT_RC };
    static _Alignas(64) uint8_t memory[16384];

    (void)state;
    stage_start("a:fake0;progress=caller" IP);
    assert_in_range(uro_qp_size(&init), 1, sizeof memory);
    uro_device_lock(device);
    struct uro_qp *qp = uro_qp_create(uro_device_shard(device), &init, memory);
    uro_device_unlock(device);
    uro_qp_ring(uro_device_shard(device), qp);
    assert_true(uro_engine_rung(uro_device_engine(device)));
    uro_device_lock(device);
    assert_false(uro_engine_rung(uro_device_engine(device)));
    uro_engine_qp_destroy(uro_device_engine(device), qp);
    uro_device_unlock(device);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gathering_link__post_follows_a_send__leaves_with_the_next_poll),
    cmocka_unit_test(gathering_link__send_takes_long__a_post_waits_as_long),
    cmocka_unit_test(gathering_link__send_takes_very_long__a_post_waits_no_longer),
    cmocka_unit_test(gathering_link__send_of_more_takes_long__a_post_does_not_wait),
    cmocka_unit_test(gathering_link__many_posts__wait_as_long_as_the_program_polls_soon),
    cmocka_unit_test(gathering_link__poll_finds_something__program_gets_it_first),
    cmocka_unit_test(gathering_link__poll_finds_something_and_program_goes__it_is_answered),
    cmocka_unit_test(gathering_link__caller_alone_drives__every_post_leaves_at_once),
    cmocka_unit_test(posted__and_a_command_follows__the_engine_hears_it_before),
};

int main(void)
{
    return stage_run("host/gather", tests, URO_ARRAY_LEN(tests));
}
