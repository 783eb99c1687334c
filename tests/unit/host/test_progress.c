/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests which thread runs the engine. Frames get a response whatever the program does. Each thread
 * gets the lock. No thread runs while there is no work. Each test runs in its own process.
 */
#include "support/check.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/device.h"
#include "stage.h"

/* Numbers of events that a program would get. */
static atomic_uint downs, ups, speeds, gones, removals;

static void ignore(struct uro_device *of, const struct uro_event *event)
{
    (void)of;
    (void)event;
}

static void count(struct uro_device *of, enum uro_port_event event)
{
    assert_ptr_equal(of, device);
    switch (event) {
    case URO_PORT_ACTIVE:
        atomic_fetch_add(&ups, 1);
        break;
    case URO_PORT_ERR:
        assert_int_equal(atomic_load(&gones), 0);
        atomic_fetch_add(&downs, 1);
        break;
    case URO_PORT_SPEED:
        atomic_fetch_add(&speeds, 1);
        break;
    case URO_PORT_GIDS:
        fail_msg("no address has changed");
        break;
    case URO_PORT_GONE:
        assert_int_equal(atomic_load(&downs), 1);
        atomic_fetch_add(&gones, 1);
        break;
    }
}

static const struct uro_event_handlers sink = { ignore, count };

static void hybrid__program_makes_no_calls__service_thread_responds(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    for (uint32_t i = 1; i <= 50; i++) {
        fake_inject_echo(&fake.port.mac);
        fake_wait(&fake.sent, i);
        assert_true(stage_sent_by_service());
    }
}

/* The service thread may run the engine before the program until the scheduler has learned that the
 * program polls, and whenever the program loses its processor. The test repeats until the program
 * sends 200 responses in a row. */
static void hybrid__program_polls__poll_sends_the_response(void **state)
{
    uint32_t in_a_row = 0;

    (void)state;
    stage_start("a:fake0" IP);
    for (uint32_t i = 1; i <= 200000 && in_a_row < 200; i++) {
        fake_inject_echo(&fake.port.mac);
        while (fake_read(&fake.sent) < i)
            uro_device_progress(device, false);
        in_a_row = stage_sent_by_service() ? 0 : in_a_row + 1;
    }
    assert_int_equal(in_a_row, 200);
}

/* To wake this side, the peer needs a system call. A program that polls or posts all the time needs
 * no wake-up, so the port is not armed. */
static void hybrid__program_runs_rounds__port_is_not_armed(void **state)
{
    uint32_t sent = 0;

    (void)state;
    stage_start("a:fake0" IP);
    for (int posted = 0; posted < 2; posted++) {
        while (!fake_is_armed()) /* the program makes no call for a moment */
            fake_wait(&fake.arms, fake_read(&fake.arms) + 1);
        while (fake_is_armed()) {
            fake_inject_echo(&fake.port.mac);
            for (sent++; fake_read(&fake.sent) < sent;)
                uro_device_progress(device, posted == 1);
        }
    }
}

static void hybrid__program_stops_polling__service_thread_takes_over(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    for (uint32_t i = 1; i <= 500; i++) {
        fake_inject_echo(&fake.port.mac);
        while (fake_read(&fake.sent) < i)
            uro_device_progress(device, false);
    }
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 501);
    assert_true(stage_sent_by_service());
}

static void hybrid__program_waits_for_an_event__service_thread_responds(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    for (uint32_t i = 1; i <= 200; i++) {
        uro_device_progress(device, false);
        uro_device_hand_over(device);
        fake_inject_echo(&fake.port.mac);
        fake_wait(&fake.sent, i);
    }
}

/* A program is about to wait. If the service thread ran now, it could use the processor that the
 * program needs when it wakes. */
static void hybrid__post_while_port_is_armed__thread_is_not_woken(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    fake_wait(&fake.reports,
              2); /* now the device sends no more reports, and each sleep ends at another time */
    uro_device_hand_over(device);
    for (uint32_t in_a_row = 0; in_a_row < 10;) { /* the thread may wake for another reason */
        uro_time wakes = atomic_load(&device->shared.wake_at);
        bool armed = atomic_load(&device->shared.rx_armed);
        uro_device_hand_over(device);
        if (armed && wakes != 0 && wakes == atomic_load(&device->shared.wake_at))
            in_a_row++;
        else
            in_a_row = 0;
        (void)sched_yield();
    }
}

static void hybrid__program_waits_with_a_send_pending__send_is_transmitted(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    uro_device_hand_over(device);
    uint32_t looks = fake_read(&fake.link_looks);
    for (uint32_t i = 0; i < 50; i++) {
        while (!atomic_load(&device->shared.rx_armed))
            (void)sched_yield();
        uint32_t arms = fake_read(&fake.arms);
        atomic_store(&device->shared.held_posts, 1);
        uro_device_hand_over(device);
        fake_wait(&fake.arms, arms + 1);
    }
    assert_true(fake_read(&fake.link_looks) - looks <
                25); /* the thread wakes for each check of the link */
}

/* The clock is stopped. If the thread spun for the next frame, it would spin for ever. */
static void hybrid__program_is_woken__service_thread_sleeps(void **state)
{
    static _Alignas(64) uint8_t memory[4096];
    const struct uro_cqe cqe = { .status = URO_WC_SUCCESS };

    (void)state;
    assert_true(uro_cq_size(4) <= sizeof memory);
    struct uro_cq *cq = uro_cq_init(memory, 4, NULL);
    uro_cq_arm(cq, false);
    uro_host_set_event_handlers(&sink);
    stage_start("a:fake0" IP);
    fake_wait(&fake.reports,
              2); /* membership reports would keep the thread awake while the clock is stopped */
    uro_device_lock(device); /* so that the clock does not stop during a round */
    stage_stop_clock();
    stage_pass(URO_MS(10));
    uro_device_unlock(device);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
    uint32_t arms = fake_read(&fake.arms);
    fake_wait(&fake.receives, fake_read(&fake.receives) + 100);
    assert_int_equal(fake_read(&fake.arms), arms);

    uro_device_lock(device);
    assert_true(uro_cq_push(uro_engine_shard(uro_device_engine(device)), cq, &cqe, true));
    uro_device_unlock(device);
    fake_wait(&fake.arms, arms + 1);
}

static void thread__program_makes_no_calls__service_thread_responds(void **state)
{
    (void)state;
    stage_start("a:fake0;progress=thread" IP);
    for (uint32_t i = 1; i <= 50; i++) {
        fake_inject_echo(&fake.port.mac);
        fake_wait(&fake.sent, i);
        assert_true(stage_sent_by_service());
    }
}

static void caller__program_polls__poll_sends_the_response(void **state)
{
    (void)state;
    stage_start("a:fake0;progress=caller" IP);
    for (uint32_t i = 1; i <= 50; i++) {
        fake_inject_echo(&fake.port.mac);
        uro_device_progress(device, false);
        assert_int_equal(fake_read(&fake.sent), i);
        assert_false(stage_sent_by_service());
    }
}

static void polled_port__program_makes_no_calls__service_thread_responds(void **state)
{
    (void)state;
    stage_start("a:polled0" IP);
    for (uint32_t i = 1; i <= 20; i++) {
        fake_inject_echo(&fake.port.mac);
        fake_wait(&fake.sent, i);
    }
}

static void burst__larger_than_a_round__all_packets_are_answered(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    uro_device_lock(device); /* so that one round receives all frames */
    for (uint32_t i = 0; i < FAKE_QUEUE; i++)
        fake_inject_echo(&fake.port.mac);
    uro_device_unlock(device);
    fake_wait(&fake.receives, 3);
    for (uint32_t i = 0; i < 200 && fake_read(&fake.head) < FAKE_QUEUE; i++)
        fake_wait(&fake.receives, fake_read(&fake.receives) + 1);
    assert_int_equal(fake_read(&fake.head), FAKE_QUEUE);
}

static void full_link__no_free_slot__response_is_sent_later(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    uro_device_lock(device);
    fake.tx_free_count = 0;
    fake_inject_echo(&fake.port.mac);
    uro_device_unlock(device);
    fake_wait(&fake.receives, fake_read(&fake.receives) + 3);
    assert_int_equal(fake_read(&fake.sent), 0);
    uro_device_lock(device);
    fake.tx_free_count = URO_PORT_BURST;
    uro_device_unlock(device);
    fake_wait(&fake.sent, 1);
}

/* ---- the lock ----------------------------------------------------------- */

static void engine_lock__taken__poll_does_not_wait(void **state)
{
    (void)state;
    stage_start("a:fake0;progress=caller" IP);
    uro_device_lock(device);
    uint32_t before = fake_read(&fake.receives);
    uro_device_progress(device, false); /* would hang here */
    uro_device_progress(device, true);
    assert_int_equal(fake_read(&fake.receives), before);
    uro_device_unlock(device);
}

static atomic_bool enough;
static atomic_uint polls;

static void *poll_until_enough(void *argument)
{
    (void)argument;
    while (!atomic_load(&enough)) {
        uro_device_progress(device, false);
        atomic_fetch_add(&polls, 1);
    }
    return NULL;
}

/* A command must get the lock while threads poll without a pause. Otherwise the test never ends. */
static void engine_lock__threads_poll_without_pause__commands_get_the_lock(void **state)
{
    pthread_t threads[4];

    (void)state;
    stage_start("a:fake0" IP);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, poll_until_enough, NULL), 0);
    while (atomic_load(&polls) < 1000)
        uro_device_progress(device, false);
    for (int i = 0; i < 2000; i++) {
        uro_device_lock(device);
        uro_device_unlock(device);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* ---- idle --------------------------------------------------------------- */

/* The device reads the link state ten times a second. A wake-up for another reason would show as a
 * round without that read. The test counts and does not measure time, so a slow machine changes
 * neither number. */
static void idle__no_work__thread_checks_only_the_link(void **state)
{
    (void)state;
    stage_start("a:fake0" IP);
    fake_wait(&fake.reports, 2); /* afterwards the device sends no reports */
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
    fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 3);
    uint32_t looks = fake_read(&fake.link_looks), rounds = fake_read(&fake.receives);
    fake_wait(&fake.link_looks, looks + 4);
    assert_true(fake_read(&fake.receives) - rounds <= 8);
}

/* A port without a descriptor is polled less and less often. */
static void idle__port_without_descriptor__is_polled_rarely(void **state)
{
    (void)state;
    stage_start("a:polled0" IP);
    fake_wait(&fake.reports, 2); /* afterwards the device sends no reports */
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
    fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 4);
    uint32_t looks = fake_read(&fake.link_looks), rounds = fake_read(&fake.receives);
    fake_wait(&fake.link_looks, looks + 4);
    assert_true(fake_read(&fake.receives) - rounds <= 4 * 30);
}

/* ---- the link ----------------------------------------------------------- */

/* rule PORT.EVENT */
static void link__down_and_up__one_event_each(void **state)
{
    (void)state;
    uro_host_set_event_handlers(&sink);
    stage_start("a:fake0" IP);
    assert_true(uro_device_link_up(device));

    fake_set_link(false);
    while (atomic_load(&downs) == 0)
        fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 1);
    assert_false(uro_device_link_up(device));
    fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 2);

    fake_set_link(true);
    while (atomic_load(&ups) == 0)
        fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 1);
    assert_true(uro_device_link_up(device));
    assert_int_equal(atomic_load(&downs), 1);
    assert_int_equal(atomic_load(&ups), 1);
    assert_int_equal(atomic_load(&speeds), 0);
}

/* The speed is read again when the link comes up. */
static void link__up_with_another_speed__one_more_event(void **state)
{
    (void)state;
    uro_host_set_event_handlers(&sink);
    stage_start("a:fake0" IP);
    fake_set_link(false);
    while (atomic_load(&downs) == 0)
        fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 1);
    const unsigned speed = atomic_exchange(&device->speed, 1);
    assert_int_equal(atomic_load(&speeds), 0);
    fake_set_link(true);
    while (atomic_load(&speeds) == 0)
        fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 1);
    assert_int_equal(atomic_load(&ups), 1);
    assert_int_equal(atomic_load(&speeds), 1);
    assert_int_equal(uro_device_speed(device), speed);
}

/* A shared-memory link counts as up until its first peer has come and gone. */
static void link__awaits_a_peer__up_until_a_peer_came_and_left(void **state)
{
    (void)state;
    fake.link_up = false;
    fake.flags = URO_PORT_AWAITS_PEER;
    uro_host_set_event_handlers(&sink);
    stage_start("a:fake0" IP);
    assert_true(uro_device_link_up(device));
    fake_set_link(true);
    while (atomic_load(&ups) == 0)
        fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 1);
    assert_true(uro_device_link_up(device));
    fake_set_link(false);
    while (atomic_load(&downs) == 0)
        fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 1);
    assert_false(uro_device_link_up(device));
}

/* While the link is down, a descriptor may stay readable for ever. A port with URO_PORT_WAKES_DOWN
 * does not have this problem. */
static uint32_t arms_after_link_went_down(bool wakes)
{
    fake.link_up = false;
    fake.flags = wakes ? URO_PORT_WAKES_DOWN : 0;
    stage_start("a:fake0" IP);
    fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 3);
    return fake_read(&fake.arms);
}

static void link__is_down__thread_does_not_wait_on_its_descriptor(void **state)
{
    (void)state;
    uint32_t arms = arms_after_link_went_down(false);
    fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 5);
    assert_int_equal(fake_read(&fake.arms), arms);
}

static void link__down_and_wakes_when_up__thread_sleeps_on_its_descriptor(void **state)
{
    (void)state;
    fake_wait(&fake.arms, arms_after_link_went_down(true) + 2);
}

static void no_connection(struct uro_device *of, const struct uro_conn_event *event)
{
    (void)of;
    (void)event;
}

static void nothing_resolved(struct uro_device *of, struct uro_resolve *resolve)
{
    (void)of;
    (void)resolve;
}

/* Takes the engine's lock, as connections do. */
static void remove_device(struct uro_device *of)
{
    uro_device_lock(of);
    assert_true(uro_device_gone(of));
    uro_device_unlock(of);
    atomic_fetch_add(&removals, 1);
}

static const struct uro_conn_handlers conn_sink = { no_connection, nothing_resolved, remove_device,
                                                    NULL };

/* rule PORT.GONE */
static void link__removed__one_fatal_event(void **state)
{
    (void)state;
    uro_host_set_event_handlers(&sink);
    uro_host_set_conn_handlers(&conn_sink);
    stage_start("a:fake0" IP);
    assert_false(uro_device_gone(device));
    fake.gone = true;
    fake_set_link(false);
    while (atomic_load(&removals) == 0)
        fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 1);
    fake_wait(&fake.link_looks, fake_read(&fake.link_looks) + 3);
    assert_int_equal(atomic_load(&downs), 1);
    assert_int_equal(atomic_load(&gones), 1);
    assert_int_equal(atomic_load(&removals), 1);
    assert_false(uro_device_link_up(device));
    assert_int_equal(uro_host_remove("a"), 0);
    assert_int_equal(atomic_load(&gones), 1);
}

/* ---- each test in its own process --------------------------------------- */

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(hybrid__program_makes_no_calls__service_thread_responds),
    cmocka_unit_test(hybrid__program_polls__poll_sends_the_response),
    cmocka_unit_test(hybrid__program_runs_rounds__port_is_not_armed),
    cmocka_unit_test(hybrid__program_stops_polling__service_thread_takes_over),
    cmocka_unit_test(hybrid__program_waits_for_an_event__service_thread_responds),
    cmocka_unit_test(hybrid__post_while_port_is_armed__thread_is_not_woken),
    cmocka_unit_test(hybrid__program_waits_with_a_send_pending__send_is_transmitted),
    cmocka_unit_test(hybrid__program_is_woken__service_thread_sleeps),
    cmocka_unit_test(thread__program_makes_no_calls__service_thread_responds),
    cmocka_unit_test(caller__program_polls__poll_sends_the_response),
    cmocka_unit_test(polled_port__program_makes_no_calls__service_thread_responds),
    cmocka_unit_test(burst__larger_than_a_round__all_packets_are_answered),
    cmocka_unit_test(full_link__no_free_slot__response_is_sent_later),
    cmocka_unit_test(engine_lock__taken__poll_does_not_wait),
    cmocka_unit_test(engine_lock__threads_poll_without_pause__commands_get_the_lock),
    cmocka_unit_test(idle__no_work__thread_checks_only_the_link),
    cmocka_unit_test(idle__port_without_descriptor__is_polled_rarely),
    cmocka_unit_test(link__down_and_up__one_event_each),
    cmocka_unit_test(link__up_with_another_speed__one_more_event),
    cmocka_unit_test(link__awaits_a_peer__up_until_a_peer_came_and_left),
    cmocka_unit_test(link__is_down__thread_does_not_wait_on_its_descriptor),
    cmocka_unit_test(link__down_and_wakes_when_up__thread_sleeps_on_its_descriptor),
    cmocka_unit_test(link__removed__one_fatal_event),
};

/* The list of devices is read once per process. */
int main(void)
{
    return stage_run("host/progress", tests, URO_ARRAY_LEN(tests));
}
