/* SPDX-License-Identifier: BSD-3-Clause */
/* test_contend.c - tests what happens when the program and the service thread try to run the engine
 * at the same time. */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/device.h"
#include "host/limits.h"
#include "stage.h"

static _Thread_local uint32_t yields;

/* Replaces the function of the C library. */
int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

static atomic_bool detain; /* true: the next round of the service thread waits */
static atomic_bool detained;

static void detain_thread(void)
{
    if (gettid() != fake.opener || !atomic_exchange(&detain, false))
        return;
    atomic_store(&detained, true);
    while (atomic_load(&detained))
        (void)sched_yield();
}

/* Stops the clock. The service thread is inside a round that began 300 us after the program's last
 * call. */
static struct uro_qp *start_detained(void)
{
    stage_start("a:fake0" IP);
    struct uro_qp *qp = stage_make_qp();
    fake_wait(
        &fake.reports,
        2); /* membership reports, which would keep the thread awake while the clock stands still */
    uro_device_lock(device);
    stage_stop_clock();
    uro_device_unlock(device);
    do
        uro_device_progress(device, false);
    while (atomic_load(&device->shared.poll_round_at) != uro_device_now());
    fake_call_receiving(detain_thread);
    atomic_store(&detain, true);
    stage_pass(URO_US(300));
    while (!atomic_load(&detained))
        (void)sched_yield();
    return qp;
}

/* Ends the round after @later. Expects that the thread arms the port, because the program does not
 * run the engine. */
static void expect_it_listens(uro_time later)
{
    uint32_t arms = fake_read(&fake.arms);

    stage_pass(later);
    atomic_store(&detained, false);
    fake_wait(&fake.arms, arms + 1);
}

static bool thread_stands_back(void)
{
    uro_time wakes = atomic_load(&device->shared.wake_at);

    return wakes > uro_device_now() && wakes <= uro_device_now() + URO_STAND_BACK_MAX &&
           !fake_is_armed();
}

static void contend__program_polls_during_a_thread_round__thread_yields_to_the_program(void **state)
{
    (void)state;
    (void)start_detained();
    uro_device_progress(device, false);
    stage_pass(URO_MS(5)); /* a long round */
    uint32_t arms = fake_read(&fake.arms);
    atomic_store(&detained, false);
    while (!thread_stands_back())
        (void)sched_yield();
    assert_int_equal(fake_read(&fake.arms), arms);
}

/* The program polls 300 us after its last call. This counts, although the program gets the engine
 * lock only later. */
static void contend__program_polls_during_a_thread_round__idle_time_starts_at_the_poll(void **state)
{
    (void)state;
    (void)start_detained();
    uro_device_progress(device, false);
    stage_pass(URO_US(200));
    uro_device_progress(device, false);
    stage_pass(URO_MS(5));
    atomic_store(&detained, false);
    uro_device_lock(device);
    assert_int_equal(atomic_load(&device->shared.silence), URO_US(600));
    uro_device_unlock(device);
}

/* A post does not receive, and the program may make no further call. So the thread must
 * continue. */
static void contend__program_posts_during_a_thread_round__thread_continues(void **state)
{
    (void)state;
    (void)start_detained();
    uro_device_progress(device, true);
    expect_it_listens(0);
}

static struct uro_qp *rings;

/* The thread delivers a completion after it has sent. Work that is posted now is not seen in this
 * round. */
static void poll_and_post(struct uro_device *of, const struct uro_event *event)
{
    (void)event;
    uro_device_progress(of, false);
    uro_qp_ring(uro_device_shard(of), rings);
    uro_device_progress(of, true);
}

static void ignore(struct uro_device *of, enum uro_port_event event)
{
    (void)of;
    (void)event;
}

static void contend__program_polls_and_posts_during_a_thread_round__post_is_sent(void **state)
{
    static const struct uro_event_handlers sink = { poll_and_post, ignore };
    static _Alignas(64) uint8_t memory[4096];
    const struct uro_cqe cqe = { .status = URO_WC_SUCCESS };

    (void)state;
    assert_true(uro_cq_size(4) <= sizeof memory);
    struct uro_cq *cq = uro_cq_init(memory, 4, NULL);
    uro_cq_arm(cq, false);
    uro_host_set_event_handlers(&sink);
    rings = start_detained();
    assert_true(uro_cq_push(uro_engine_shard(uro_device_engine(device)), cq, &cqe, true));
    uint32_t rounds = fake_read(&fake.receives);
    atomic_store(&detained, false);
    fake_wait(&fake.receives, rounds + 1); /* the clock does not advance */
    assert_int_equal(pthread_mutex_lock(&device->mutex),
                     0); /* not uro_device_lock(), which would send */
    assert_false(uro_engine_rung(uro_device_engine(device)));
    uro_engine_qp_destroy(uro_device_engine(device), rings);
    uro_device_unlock(device);
}

/* The post found the lock taken, so the thread that registers memory sends it. */
static void contend__post_before_a_registration__is_sent_and_completion_is_visible(void **state)
{
    static _Alignas(64) uint8_t memory[4096];
    const struct uro_cqe sent = { .status = URO_WC_SUCCESS };
    struct uro_cqe cqe;

    (void)state;
    stage_start_polling(false);
    struct uro_qp *qp = stage_make_qp();
    struct uro_cq *cq = uro_cq_init(memory, 4, NULL);
    assert_int_equal(pthread_mutex_lock(&device->mutex), 0); /* the service thread sends nothing */
    uro_qp_ring(uro_device_shard(device), qp);
    assert_int_equal(pthread_mutex_unlock(&device->mutex), 0);
    uro_device_lock_all(device);
    assert_false(uro_engine_rung(uro_device_engine(device)));
    assert_true(uro_cq_push(uro_device_shard(device), cq, &sent, false));
    uro_device_unlock_all(device);
    assert_int_equal(uro_cq_poll(cq, &cqe, 1), 1);
}

/* A poll before the round does not count. */
static void contend__program_polled_before_the_round__thread_continues(void **state)
{
    (void)state;
    (void)start_detained();
    uro_device_progress(device, false);
    atomic_store(&detain, true);
    atomic_store(&detained, false);
    while (!thread_stands_back())
        (void)sched_yield();
    stage_pass(URO_MS(5));
    while (!atomic_load(&detained))
        (void)sched_yield();
    expect_it_listens(0);
}

/* The program spins on memory and polls in between. */
static void contend__program_polls_in_thread_mode__thread_waits_for_frames(void **state)
{
    (void)state;
    (void)start_detained();
    uro_device_hand_over(device);
    uro_device_progress(device, false);
    uint32_t rounds = fake_read(&fake.receives);
    expect_it_listens(0);
    assert_int_equal(fake_read(&fake.received_by_arm), rounds);
}

static void take_until_thread_waits(void)
{
    if (gettid() == fake.opener)
        return;
    while (atomic_load(&device->waiters) == 0)
        (void)sched_yield();
}

static void contend__program_in_a_round_in_thread_mode__thread_is_next(void **state)
{
    (void)state;
    stage_start_polling(false);
    uro_device_hand_over(device);
    stage_pass(1);
    fake_call_receiving(take_until_thread_waits);
    do
        uro_device_progress(device, false);
    while (atomic_load(&device->shared.poll_round_at) != uro_device_now());
}

static void contend__program_in_a_round_and_thread_alone__thread_is_next(void **state)
{
    (void)state;
    stage_start("a:fake0;progress=thread" IP);
    fake_call_receiving(take_until_thread_waits);
    do
        uro_device_progress(device, false);
    while (atomic_load(&device->shared.poll_round_at) == 0);
}

static atomic_bool stood_back;

static void take_until_thread_stands_back(void)
{
    if (gettid() == fake.opener)
        return;
    stage_pass(URO_MS(5));
    while (!thread_stands_back())
        (void)sched_yield();
    atomic_store(&stood_back, true);
}

/* A round with many long packets takes long. If the thread waited for the end of such a round, it
 * would run the engine next, although the program runs the engine. */
static void contend__long_rounds_of_the_program__thread_does_not_wait_for_the_lock(void **state)
{
    (void)state;
    stage_start_polling(false);
    atomic_store(&device->shared.silence, URO_US(50));
    fake_call_receiving(take_until_thread_stands_back);
    uro_device_progress(device, false);
    assert_true(atomic_load(&stood_back));
    assert_int_equal(atomic_load(&device->waiters), 0);
}

/* Wakes the thread with a frame, while the program is in receive(). */
static void take_until_awake_thread_stands_back(void)
{
    if (gettid() == fake.opener)
        return;
    fake_inject_echo(&fake.port.mac);
    while (atomic_load(&device->shared.wake_at) <= uro_device_now() ||
           atomic_load(&device->shared.wake_at) > uro_device_now() + URO_STAND_BACK_MAX)
        (void)sched_yield();
    atomic_store(&stood_back, true);
}

static void contend__program_in_a_round_and_thread_armed__thread_does_not_wait(void **state)
{
    (void)state;
    (void)start_detained();
    expect_it_listens(URO_MS(5));
    fake_call_receiving(take_until_awake_thread_stands_back);
    while (!atomic_load(&stood_back))
        uro_device_progress(device, false);
}

static void take_5_ms(void)
{
    stage_pass(URO_MS(5));
}

/* The end time of a round is recorded if the round received many frames and sent none. */
static void contend__program_receives_for_long__idle_time_starts_at_the_end(void **state)
{
    (void)state;
    stage_start_polling(false);
    fake_call_receiving(take_5_ms);
    for (uint32_t i = 0; i < 8; i++)
        fake_inject_echo(&fake.port.mac);
    fake.tx_free_count = 0;
    uro_device_progress(device, false);
    assert_int_equal(fake_read(&fake.sent), 0);
    assert_int_equal(atomic_load(&device->shared.poll_round_at), uro_device_now());
    assert_int_equal(atomic_load(&device->shared.polled_at), uro_device_now());
}

/* The program polled without getting the lock, but recorded this only after it had run a round. */
static void contend__program_ran_a_round_after_its_poll__thread_continues(void **state)
{
    (void)state;
    (void)start_detained();
    atomic_store(&device->shared.contended_at, atomic_load(&device->shared.poll_round_at) - 1);
    expect_it_listens(URO_MS(5));
    assert_int_equal(atomic_load(&device->shared.silence), URO_US(50));
}

/* The thread that has the lock may need the processor of a program that polls. */
static void contend__program_polls_while_the_lock_is_taken__yields_now_and_then(void **state)
{
    (void)state;
    (void)start_detained();
    yields = 0;
    for (uint32_t i = 0; i < 2 * URO_CONTENDED_POLLS; i++)
        uro_device_progress(device, false);
    assert_int_equal(yields, 2);
    for (uint32_t i = 0; i < URO_CONTENDED_POLLS; i++)
        uro_device_progress(device, true); /* a post does not wait for the lock */
    assert_int_equal(yields, 2);
    atomic_store(&detained, false);
}

/* A peer may need the same processor before it can answer. */
static void contend__program_polls_without_completions__yields_now_and_then(void **state)
{
    (void)state;
    stage_start_polling(false);
    yields = 0;
    for (uint32_t i = 0; i < 100; i++)
        uro_device_progress(device, false);
    assert_in_range(yields, 1, 20);
}

static void contend__program_sends_for_long__idle_time_starts_at_the_end(void **state)
{
    (void)state;
    for (int posted = 0; posted < 2; posted++) {
        if (posted == 0)
            stage_start_polling(false);
        fake.sends = take_5_ms;
        fake_inject_echo(&fake.port.mac);
        stage_pass(URO_US(20)); /* a post does not wait if the last send was that long ago */
        uro_device_progress(device, posted == 1);
        assert_int_equal(
            atomic_load(posted ? &device->shared.post_round_at : &device->shared.poll_round_at),
            uro_device_now());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            contend__program_polls_during_a_thread_round__thread_yields_to_the_program),
        cmocka_unit_test(
            contend__program_polls_during_a_thread_round__idle_time_starts_at_the_poll),
        cmocka_unit_test(contend__program_posts_during_a_thread_round__thread_continues),
        cmocka_unit_test(contend__program_polls_and_posts_during_a_thread_round__post_is_sent),
        cmocka_unit_test(contend__post_before_a_registration__is_sent_and_completion_is_visible),
        cmocka_unit_test(contend__program_polled_before_the_round__thread_continues),
        cmocka_unit_test(contend__program_polls_in_thread_mode__thread_waits_for_frames),
        cmocka_unit_test(contend__program_in_a_round_in_thread_mode__thread_is_next),
        cmocka_unit_test(contend__program_in_a_round_and_thread_alone__thread_is_next),
        cmocka_unit_test(contend__long_rounds_of_the_program__thread_does_not_wait_for_the_lock),
        cmocka_unit_test(contend__program_in_a_round_and_thread_armed__thread_does_not_wait),
        cmocka_unit_test(contend__program_receives_for_long__idle_time_starts_at_the_end),
        cmocka_unit_test(contend__program_ran_a_round_after_its_poll__thread_continues),
        cmocka_unit_test(contend__program_polls_while_the_lock_is_taken__yields_now_and_then),
        cmocka_unit_test(contend__program_polls_without_completions__yields_now_and_then),
        cmocka_unit_test(contend__program_sends_for_long__idle_time_starts_at_the_end),
    };
    return stage_run("host/contend", tests, URO_ARRAY_LEN(tests));
}
