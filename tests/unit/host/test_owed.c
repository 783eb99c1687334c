/* SPDX-License-Identifier: BSD-3-Clause */
/* test_owed.c - what a peer waits for while the program has it in its hands, and who is trusted with that. */
#include "core/schedule.h"
#include "core/shard.h"
#include "host/device.h"
#include "stage.h"

#define STEP 100u /* ns, from one call of a program to the next */

static const struct uro_mac others = { { 2, 0, 0, 0, 0, 99 } };

static void start_completing(void)
{
    stage_start_polling(false);
    stage_each_frame_completes_something();
}

static void start_gathering(void)
{
    stage_start_polling(true);
    stage_each_frame_completes_something();
}

/* A frame comes that a program waited for, as if its memory had been written: it may have something to send itself. */
static void any_link__poll_finds_what_a_peer_wrote__program_gets_it_first(void **state)
{
    (void)state;
    stage_start_polling(false);
    fake_count_in(&uro_engine_counters(uro_device_engine(device))->value[URO_COUNT_RX_WRITES]);
    stage_find(0);
    stage_pass(URO_US(1));
    uro_device_progress(device, true);
    assert_int_equal(fake_read(&fake.sent), 1);
}

static void any_link__poll_finds_much__it_is_answered_at_once(void **state)
{
    (void)state;
    start_completing();
    for (uint32_t i = 1; i < 5; i++)
        fake_inject_echo(&fake.port.mac);
    stage_find(5);
    for (uint32_t i = 1; i < 4; i++)
        fake_inject_echo(&fake.port.mac);
    stage_find(5);
}

static void any_link__poll_finds_much_while_it_owes__all_is_answered_at_once(void **state)
{
    (void)state;
    start_completing();
    stage_find(0);
    for (uint32_t i = 1; i < 5; i++)
        fake_inject_echo(&fake.port.mac);
    stage_find(6);
}

static int prompt(void)
{
    uro_device_lock(device);
    int so = device->prompt;
    uro_device_unlock(device);
    return so;
}

/* Its peers would wait for what it is in no hurry to ask for. */
static void program_that_came_late__is_given_nothing_before_the_answer_for_a_while(void **state)
{
    uint32_t sent = 0;

    (void)state;
    start_completing();
    for (; prompt() >= 0; sent++) {
        assert_in_range(sent, 0, 1);
        stage_find(sent);
        stage_pass(URO_US(20));
        uro_device_progress(device, false);
    }
    for (uint32_t found = 0; found < 63; found++)
        stage_find(++sent);
    stage_find(sent + 1); /* from here on it is trusted */
    stage_find(sent + 1);
}

/* It was told of what it sent itself: nobody waits for an answer. */
static void program_that_owes_nothing__is_not_late(void **state)
{
    (void)state;
    start_completing();
    for (uint32_t i = 0; i < 3; i++) {
        fake_inject_echo(&others);
        uro_device_progress(device, false);
        stage_pass(URO_US(20));
        uro_device_progress(device, true);
    }
    assert_int_equal(prompt(), 16);
}

static void take_20_us(void)
{
    stage_pass(URO_US(20));
}

/* One that polls on and on and then computes makes its peers wait all the same. */
static void program_that_polls_before_it_is_late__is_late(void **state)
{
    uint32_t sent = 0;

    (void)state;
    start_completing();
    for (; prompt() >= 0; sent++) {
        assert_in_range(sent, 0, 1);
        stage_find(sent);
        for (uint32_t polls = 0; polls < 9; polls++) {
            stage_pass(STEP);
            uro_device_progress(device, false);
        }
        stage_pass(URO_US(20));
        uro_device_progress(device, false);
    }
}

/* Whether what is owed for a frame left with a poll so long after it. */
static bool poll_answers(uint32_t sent, uro_time after)
{
    stage_pass(URO_US(15)); /* the last send is long ago */
    stage_find(sent);
    stage_pass(after);
    uro_device_progress(device, false);
    bool so = fake_read(&fake.sent) > sent;
    uro_device_progress(device, true);
    assert_int_equal(fake_read(&fake.sent), sent + 1);
    return so;
}

/* Where a send takes long, so do the steps of a program before its answer: it has half as long. */
static void sends_take_long__program_has_longer_for_its_answer(void **state)
{
    (void)state;
    start_gathering();
    assert_false(poll_answers(0, URO_US(1)));
    assert_true(poll_answers(1, URO_US(2)));
    fake.sends = take_20_us;
    assert_true(poll_answers(2, URO_US(9)));
    assert_false(poll_answers(3, URO_US(9)));
    assert_true(poll_answers(4, URO_US(10)));
}

static void take_60_us(void)
{
    stage_pass(URO_US(60));
}

static void sends_take_very_long__program_has_as_long_as_the_thread_holds(void **state)
{
    (void)state;
    start_gathering();
    fake.sends = take_60_us;
    assert_true(poll_answers(0, URO_US(2)));
    assert_false(poll_answers(1, URO_US(19)));
    assert_true(poll_answers(2, URO_US(20)));
}

static void sends_take_long__program_that_does_not_answer__peers_do_not_wait(void **state)
{
    (void)state;
    start_gathering();
    fake.sends = take_20_us;
    assert_true(poll_answers(0, URO_US(2)));
    assert_false(poll_answers(1, URO_US(2)));
    for (uint32_t sent = 2; sent < 5; sent++) {
        stage_pass(URO_US(150)); /* what it posted last is no answer to what comes now */
        stage_find(sent);
        stage_pass(sent == 2 ? URO_US(10) : URO_US(2));
        uro_device_progress(device, false);
        assert_int_equal(fake_read(&fake.sent), sent + 1);
    }
}

static struct uro_qp *pair;

static void frame_asks_pair(void)
{
    if (fake_read(&fake.head) != fake_read(&fake.tail))
        uro_schedule_response(pair);
}

static void frame_lets_pair_send(void)
{
    if (fake_read(&fake.head) != fake_read(&fake.tail))
        uro_schedule_request(pair);
}

/* A poll finds what completes something, and makes @pair ask for its turn. Whether that waits. */
static bool pair_waits(void (*receiving)(void))
{
    start_completing();
    struct uro_shard *shard = uro_device_shard(device);
    pair = stage_make_qp();
    fake_call_receiving(receiving);
    fake_inject_echo(&others);
    uro_device_progress(device, false);
    bool so = device->owes;
    assert_int_equal(so, !uro_list_empty(&shard->responses));
    assert_true(uro_list_empty(&shard->requests));
    return so;
}

static void any_link__poll_finds_what_a_queue_pair_answers__program_gets_it_first(void **state)
{
    (void)state;
    assert_true(pair_waits(frame_asks_pair));
}

/* The window was full: what the program posted long ago waits for nothing else. */
static void any_link__poll_finds_room_for_more__that_leaves_at_once(void **state)
{
    (void)state;
    assert_false(pair_waits(frame_lets_pair_send));
}

/* Another thread had the processor, in the middle of the round. */
static void program_that_is_interrupted_while_it_polls__is_not_late(void **state)
{
    (void)state;
    start_completing();
    fake_call_receiving(take_20_us);
    for (uint32_t i = 0; i < 3; i++) {
        stage_find(i);
        uro_device_progress(device, true);
    }
    assert_int_equal(prompt(), 16 + 3);
}

/* Whoever is interrupted once is not slow. */
static void program_that_came_late_once__is_still_given_things_first(void **state)
{
    (void)state;
    start_completing();
    for (uint32_t i = 0; i < 100; i++) {
        stage_pass(URO_US(1));
        stage_find(i);
        stage_pass(i == 50 ? URO_US(25) : STEP);
        uro_device_progress(device, true);
        assert_int_equal(fake_read(&fake.sent), i + 1);
    }
}

static void program_that_went__is_late(void **state)
{
    (void)state;
    start_completing();
    stage_find(0);
    atomic_store(&device->silence, URO_US(50));
    stage_pass(URO_US(50));
    fake_wait(&fake.sent, 1);
    assert_true(stage_sent_by_service());
    assert_int_equal(prompt(), 8);
}

/* ---- the service thread ------------------------------------------------- */

static uint32_t found_in, answered_in; /* rounds */

static void note_found(void)
{
    if (fake_read(&fake.head) != fake_read(&fake.tail))
        found_in = fake_read(&fake.receives);
}

static void note_answered(void)
{
    answered_in = fake_read(&fake.receives);
}

/* A program posted, and does nothing now; the service thread may look. A frame comes for @mac. */
static void leave_to_service(const struct uro_mac *mac, uro_time after)
{
    stage_each_frame_completes_something();
    atomic_store(&device->posted, uro_device_now());
    stage_pass(after);
    fake_call_receiving(note_found);
    fake.sends = note_answered;
    atomic_store(&device->silence, 0);
    fake_inject_echo(mac);
}

/* Whether the program had time to answer what the service thread found. */
static bool service_waits(uro_time after_post)
{
    leave_to_service(&fake.port.mac, after_post);
    fake_wait(&fake.sent, 1);
    uro_device_lock(device);
    bool so = answered_in != found_in;
    uro_device_unlock(device);
    return so;
}

static void service_finds_something__program_posted_of_late__it_may_answer(void **state)
{
    (void)state;
    stage_start_polling(false);
    assert_true(service_waits(URO_US(199)));
    assert_int_equal(atomic_load(&device->gathered), 1); /* its next call sends, of any kind */
    assert_int_equal(device->prompt, 0);
}

static void service_finds_something__program_posts_no_more__it_is_answered_at_once(void **state)
{
    (void)state;
    stage_start_polling(false);
    assert_false(service_waits(URO_US(200)));
}

static void service_finds_something__program_comes_late__it_is_answered_at_once(void **state)
{
    (void)state;
    stage_start_polling(false);
    device->prompt = -1;
    assert_false(service_waits(0));
}

/* One that has a processor of its own would only look again. */
static void thread__service_finds_something__it_is_answered_at_once(void **state)
{
    (void)state;
    stage_start("a:fake0;progress=thread" IP);
    stage_stop_clock();
    assert_false(service_waits(0));
}

/* What the peer does next is heard, too. */
static void service_finds_something__nothing_to_answer__it_listens(void **state)
{
    (void)state;
    stage_start_polling(false);
    leave_to_service(&others, 0);
    fake_wait(&fake.head, 1);
    fake_wait(&fake.arms, 1);
    uro_device_lock(device);
    assert_int_equal(atomic_load(&device->gathered), 0);
    uro_device_unlock(device);
}

/* Whether the thread was seen holding what it owes for the frame, before it answered; this one's processor may have
 * been taken away meanwhile. */
static bool seen_holding(uint32_t frame)
{
    while (fake_read(&fake.sent) < frame) {
        assert_int_equal(pthread_mutex_lock(&device->mutex), 0);
        uro_time wakes = atomic_load(&device->wakes);
        bool holds = device->holds && wakes != 0;
        if (holds)
            assert_int_equal(wakes - device->owes_since, URO_US(20));
        assert_int_equal(pthread_mutex_unlock(&device->mutex), 0);
        if (holds)
            return true;
    }
    return false;
}

/* The thread sleeps, and can be woken, as long as it holds, whatever the link's sends took. */
static void service_holds__for_20_us(void **state)
{
    bool seen = false;

    (void)state;
    stage_start_polling(true);
    atomic_store(&device->send_took, URO_US(99));
    for (uint32_t i = 1; i <= 1000 && !seen; i++) {
        leave_to_service(&fake.port.mac, 0);
        seen = seen_holding(i);
        fake_wait(&fake.sent, i);
    }
    assert_true(seen);
}

/* A caller that came meanwhile, and left what is owed, does not come again. */
static void service_held__callers_seem_to_drive__it_answers(void **state)
{
    (void)state;
    stage_start_polling(false);
    uro_device_lock(device);
    device->owes = device->holds = true;
    device->owes_since = uro_device_now();
    atomic_store(&device->gathered, 1);
    atomic_store(&device->called, uro_device_now());
    fake_inject_echo(&fake.port.mac);
    uro_device_unlock(device);
    fake_wait(&fake.sent, 1);
    assert_true(stage_sent_by_service());
}

/* Peers do not wait for more and more of them. */
static void service_finds_more__what_was_owed_before_is_answered(void **state)
{
    (void)state;
    stage_start_polling(false);
    uro_device_lock(device);
    device->owes = true;
    leave_to_service(&fake.port.mac, 0);
    uro_device_unlock(device);
    fake_wait(&fake.sent, 1);
    uro_device_lock(device);
    assert_int_equal(answered_in, found_in);
    uro_device_unlock(device);
}

/* Peers waited as long as they may. */
static void service_answers_after_all__program_is_late(void **state)
{
    (void)state;
    stage_start_polling(false);
    uro_device_lock(device);
    atomic_store(&device->silence, 0);
    device->prompt = 16;
    device->owes = true;
    device->owes_since = uro_device_now() - URO_US(20);
    uint32_t looks = fake_read(&fake.receives);
    uro_device_unlock(device);
    fake_wait(&fake.receives, looks + 1);
    assert_int_equal(prompt(), 8);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_link__poll_finds_what_a_peer_wrote__program_gets_it_first),
    cmocka_unit_test(any_link__poll_finds_much__it_is_answered_at_once),
    cmocka_unit_test(any_link__poll_finds_much_while_it_owes__all_is_answered_at_once),
    cmocka_unit_test(program_that_came_late__is_given_nothing_before_the_answer_for_a_while),
    cmocka_unit_test(program_that_came_late_once__is_still_given_things_first),
    cmocka_unit_test(program_that_went__is_late),
    cmocka_unit_test(program_that_owes_nothing__is_not_late),
    cmocka_unit_test(program_that_polls_before_it_is_late__is_late),
    cmocka_unit_test(sends_take_long__program_has_longer_for_its_answer),
    cmocka_unit_test(sends_take_very_long__program_has_as_long_as_the_thread_holds),
    cmocka_unit_test(sends_take_long__program_that_does_not_answer__peers_do_not_wait),
    cmocka_unit_test(any_link__poll_finds_what_a_queue_pair_answers__program_gets_it_first),
    cmocka_unit_test(any_link__poll_finds_room_for_more__that_leaves_at_once),
    cmocka_unit_test(program_that_is_interrupted_while_it_polls__is_not_late),
    cmocka_unit_test(service_finds_something__program_posted_of_late__it_may_answer),
    cmocka_unit_test(service_finds_something__program_posts_no_more__it_is_answered_at_once),
    cmocka_unit_test(service_finds_something__program_comes_late__it_is_answered_at_once),
    cmocka_unit_test(service_finds_something__nothing_to_answer__it_listens),
    cmocka_unit_test(service_holds__for_20_us),
    cmocka_unit_test(service_held__callers_seem_to_drive__it_answers),
    cmocka_unit_test(service_finds_more__what_was_owed_before_is_answered),
    cmocka_unit_test(thread__service_finds_something__it_is_answered_at_once),
    cmocka_unit_test(service_answers_after_all__program_is_late),
};

int main(void)
{
    return stage_run("host/owed", tests, URO_ARRAY_LEN(tests));
}
