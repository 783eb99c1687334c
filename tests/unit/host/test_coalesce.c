/* SPDX-License-Identifier: BSD-3-Clause */
/* test_coalesce.c - tests which posts wait for the next call of the program. This matters mainly
 * for links where each send is a system call. The service thread must send waiting posts in
 * time. */
#include <sched.h>

#include "host/device.h"
#include "stage.h"

#define STEP 100u /* time from one call of a program to the next, ns */

static void start_polled(void)
{
    stage_start_polling(true);
}

static void call_per_send__post_follows_a_post__leaves_with_the_next_poll(void **state)
{
    (void)state;
    start_polled();
    for (uint32_t i = 0; i < 40; i++) {
        stage_pass(URO_US(15));
        stage_find(i + 1);
        uro_device_progress(device, true);
        assert_int_equal(atomic_load(&device->shared.held_posts), 0);
        uro_device_progress(device, true);
        assert_int_equal(atomic_load(&device->shared.held_posts), 1);
        uro_device_polled(device);
        assert_int_equal(atomic_load(&device->shared.held_posts), 0);
    }
}

/* After the ACK, the program posts its reply. The reply must not wait, because no other post may
 * follow for a long time. */
static void answer_leaves_at_once(bool call_per_send)
{
    stage_start_polling(call_per_send);
    stage_find(1);
    stage_pass(STEP);
    uro_device_progress(device, true);
    assert_int_equal(atomic_load(&device->shared.held_posts), 0);
}

static void call_per_send__post_follows_an_acknowledgement__leaves_at_once(void **state)
{
    (void)state;
    answer_leaves_at_once(true);
}

static void memory_link__post_follows_an_acknowledgement__leaves_at_once(void **state)
{
    (void)state;
    answer_leaves_at_once(false);
}

static void take_20_us(void)
{
    stage_pass(URO_US(20));
}

static void take_1_ms(void)
{
    stage_pass(URO_MS(1));
}

/* Polls, which receives and acknowledges @frames, posts, and posts again after @after. Returns
 * whether the second post waits for more posts. */
static bool waits_after(uint32_t frames, uro_time after)
{
    stage_pass(URO_US(15)); /* long after the last send; the program still makes calls */
    for (uint32_t i = 0; i < frames; i++)
        fake_inject_echo(&fake.port.mac);
    uro_device_progress(device, false);
    stage_pass(STEP);
    uro_device_progress(device, true);
    assert_int_equal(atomic_load(&device->shared.held_posts), 0);
    stage_pass(after);
    uro_device_progress(device, true);
    bool so = atomic_load(&device->shared.held_posts) == 1;
    uro_device_polled(device);
    assert_int_equal(atomic_load(&device->shared.held_posts), 0);
    return so;
}

static bool waits(uro_time after)
{
    return waits_after(1, after);
}

static void start_completing(void)
{
    start_polled();
    stage_each_frame_completes_something();
}

/* If a send takes long, the program may also need long between its posts. The posts of this time
 * are sent together. */
static void call_per_send__send_takes_long__posts_of_a_burst_wait_as_long(void **state)
{
    (void)state;
    start_completing();
    assert_true(waits(URO_US(3)));
    assert_false(waits(URO_US(10)));
    fake.sends = take_20_us;
    assert_true(waits(URO_US(10)));
    assert_false(waits(URO_US(30)));
}

/* A single post must be sent at once. It must not wait until the service thread sends it. */
static void call_per_send__send_takes_long__a_post_alone_does_not_wait(void **state)
{
    (void)state;
    start_polled();
    fake.sends = take_20_us;
    for (uint32_t i = 0; i < 2; i++) {
        stage_find(i + 1);
        stage_pass(URO_US(10));
        uro_device_progress(device, true);
        assert_int_equal(atomic_load(&device->shared.held_posts), 0);
    }
}

/* Only the receive part of the round takes long. */
static void call_per_send__receiving_takes_long__posts_do_not_wait(void **state)
{
    (void)state;
    start_polled();
    fake_call_receiving(take_20_us);
    stage_find(1);
    stage_pass(URO_US(5));
    uro_device_progress(device, true);
    stage_pass(URO_US(10));
    uro_device_progress(device, true);
    assert_int_equal(atomic_load(&device->shared.held_posts), 0);
}

/* The duration of an interrupted send does not count. */
static void call_per_send__send_is_interrupted__posts_do_not_wait(void **state)
{
    (void)state;
    start_completing();
    fake.sends = take_1_ms;
    assert_false(waits(URO_US(10)));
}

/* A send of many packets may take long on any link. */
static void call_per_send__send_of_three_takes_long__posts_do_not_wait(void **state)
{
    (void)state;
    start_completing();
    assert_true(waits(0));
    fake.sends = take_20_us;
    assert_false(waits_after(3, URO_US(10)));
    assert_true(waits(0));
    for (uint32_t i = 0; i < 8; i++)
        assert_true(waits_after(3, 0));
    assert_false(waits_after(3, URO_US(10)));
}

/* Most sends consist of two frames: the ACK and the program's reply. */
static void call_per_send__send_of_two_takes_long__posts_of_a_burst_wait_as_long(void **state)
{
    (void)state;
    start_completing();
    fake.sends = take_20_us;
    for (uint32_t i = 0; i < 20; i++)
        assert_true(waits_after(2, URO_US(10)));
}

/* A program that posts many requests has not polled for a long time. */
static void call_per_send__many_posts__wait_as_long_as_the_program_polls_soon(void **state)
{
    (void)state;
    start_completing();
    for (uint32_t slow = 0; slow < 2; slow++) {
        fake.sends = slow ? take_20_us : NULL;
        assert_true(waits(0));
        uro_device_progress(device, true);
        stage_pass(URO_US(300));
        uro_device_progress(device, true); /* does not wait, but has nothing to send */
        uro_device_progress(device, true);
        assert_int_equal(atomic_load(&device->shared.held_posts), slow);
        uro_device_polled(device);
    }
}

/* Posts every 10 us. That is too rarely for a post to wait for more posts. */
static void post_for(uint32_t posts)
{
    for (uint32_t i = 0; i < posts; i++) {
        stage_pass(URO_US(10));
        uro_device_progress(device, true);
    }
}

/* Returns whether the second of two posts waits. Polls afterwards. */
static bool next_waits(void)
{
    stage_pass(URO_US(10));
    uro_device_progress(device, true); /* does not wait, but has nothing to send */
    uro_device_progress(device, true);
    bool so = atomic_load(&device->shared.held_posts) == 1;
    uro_device_polled(device);
    return so;
}

/* The program posts to many queue pairs without a pause. Without coalescing, each frame would be
 * sent alone. */
static void any_link__very_many_posts__are_coalesced_for_any_time(void **state)
{
    (void)state;
    stage_start_polling(false);
    stage_each_frame_completes_something();
    assert_true(waits(0));
    post_for(3);
    assert_true(next_waits());
    post_for(50);
    assert_false(next_waits());
    post_for(64);
    assert_true(next_waits());
}

/* The program sometimes posts twice and does not poll. So no further post is expected soon. */
static void any_link__very_many_posts_and_a_pause__the_next_leave_at_once(void **state)
{
    (void)state;
    stage_start_polling(false);
    post_for(64);
    stage_pass(URO_US(60));
    assert_false(next_waits());
    for (uint32_t i = 0; i < 40; i++) {
        stage_pass(URO_US(60));
        uro_device_progress(device, true);
        uro_device_progress(device, true);
    }
    assert_false(next_waits());
    post_for(64);
    stage_pass(URO_US(60));
    uro_device_progress(device, true);
    assert_int_equal(atomic_load(&device->shared.held_posts), 0);
}

static void any_link__very_many_posts_and_a_poll__the_next_leave_at_once(void **state)
{
    (void)state;
    stage_start_polling(false);
    post_for(64);
    uro_device_progress(device, false);
    post_for(30);
    assert_false(next_waits());
    uro_device_progress(device, false);
    atomic_store(&device->shared.post_round_at,
                 0); /* no post waits, so the next poll need not run the engine */
    for (uint32_t i = 0; i < 64; i++)
        uro_device_progress(device, true);
    uro_device_polled(device);
    post_for(30);
    assert_false(next_waits());
}

/* A program that posts one message after another needs more time for each post than a frame
 * takes. */
static void any_link__posts_of_a_burst__wait_for_each_other(void **state)
{
    (void)state;
    stage_start_polling(false);
    stage_each_frame_completes_something();
    assert_true(waits(URO_US(1)));
    assert_false(waits(URO_US(2)));
}

static void call_per_send__caller_alone_drives__every_post_leaves_at_once(void **state)
{
    (void)state;
    fake.flags = URO_PORT_CALL_PER_SEND;
    stage_start("a:fake0;progress=caller" IP);
    for (uint32_t i = 1; i <= 50; i++) {
        uro_device_progress(device, false);
        fake_inject_echo(&fake.port.mac);
        uro_device_progress(device, true);
        assert_int_equal(fake_read(&fake.sent), i);
    }
}

/* A request that was posted before a command uses the state of the queue pair before the
 * command. */
static void post__command_follows__engine_takes_the_doorbell_first(void **state)
{
    (void)state;
    stage_start("a:fake0;progress=caller" IP);
    struct uro_qp *qp = stage_make_qp();
    uro_qp_ring(uro_device_shard(device), qp);
    assert_true(uro_engine_rung(uro_device_engine(device)));
    uro_device_lock(device);
    assert_false(uro_engine_rung(uro_device_engine(device)));
    uro_engine_qp_destroy(uro_device_engine(device), qp);
    uro_device_unlock(device);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(call_per_send__post_follows_a_post__leaves_with_the_next_poll),
    cmocka_unit_test(call_per_send__post_follows_an_acknowledgement__leaves_at_once),
    cmocka_unit_test(memory_link__post_follows_an_acknowledgement__leaves_at_once),
    cmocka_unit_test(call_per_send__send_takes_long__posts_of_a_burst_wait_as_long),
    cmocka_unit_test(call_per_send__send_takes_long__a_post_alone_does_not_wait),
    cmocka_unit_test(call_per_send__receiving_takes_long__posts_do_not_wait),
    cmocka_unit_test(call_per_send__send_is_interrupted__posts_do_not_wait),
    cmocka_unit_test(call_per_send__send_of_three_takes_long__posts_do_not_wait),
    cmocka_unit_test(call_per_send__send_of_two_takes_long__posts_of_a_burst_wait_as_long),
    cmocka_unit_test(call_per_send__many_posts__wait_as_long_as_the_program_polls_soon),
    cmocka_unit_test(any_link__very_many_posts__are_coalesced_for_any_time),
    cmocka_unit_test(any_link__very_many_posts_and_a_pause__the_next_leave_at_once),
    cmocka_unit_test(any_link__very_many_posts_and_a_poll__the_next_leave_at_once),
    cmocka_unit_test(any_link__posts_of_a_burst__wait_for_each_other),
    cmocka_unit_test(call_per_send__caller_alone_drives__every_post_leaves_at_once),
    cmocka_unit_test(post__command_follows__engine_takes_the_doorbell_first),
};

int main(void)
{
    return stage_run("host/coalesce", tests, URO_ARRAY_LEN(tests));
}
