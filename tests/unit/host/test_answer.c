/* SPDX-License-Identifier: BSD-3-Clause */
/* test_answer.c - tests that the round that receives a message sends its ACK before it delivers the
 * completion. Also tests that a poll may wait for the peer's next WRITE. */
#include <stdlib.h>

#include "core/cq.h"
#include "core/shard.h"
#include "host/device.h"
#include "host/limits.h"
#include "stage.h"

#define STEP 100u /* time from one call of a program to the next, ns */

static void start(bool call_per_send)
{
    stage_start_polling(call_per_send);
    atomic_store(&device->shared.empty_polls, 0); /* the start polled without a completion an
                                                     unknown number of times */
    stage_each_frame_completes_something();
}

static void each_poll_sends_its_responses(bool call_per_send)
{
    start(call_per_send);
    for (uint32_t sent = 0; sent < 40;) {
        stage_find(++sent);
        assert_false(stage_sent_by_service());
        stage_pass(STEP);
    }
}

static void memory_link__poll_receives_a_frame__same_poll_sends_the_response(void **state)
{
    (void)state;
    each_poll_sends_its_responses(false);
}

static void call_per_send__poll_receives_a_frame__same_poll_sends_the_response(void **state)
{
    (void)state;
    each_poll_sends_its_responses(true);
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

/* The program has just posted, and may be about to post its reply. */
static void service__receives_a_frame__same_round_sends_the_response(void **state)
{
    (void)state;
    start(false);
    atomic_store(&device->shared.post_round_at, uro_device_now());
    fake_call_receiving(note_found);
    fake.sends = note_answered;
    atomic_store(&device->shared.silence, 0);
    fake_inject_echo(&fake.port.mac);
    fake_wait(&fake.sent, 1);
    uro_device_lock(device);
    assert_true(stage_sent_by_service());
    assert_int_equal(answered_in, found_in);
    uro_device_unlock(device);
}

/* ---- completions -------------------------------------------------------- */

static struct uro_cq *cq;
static uint32_t seen_before; /* completions that a program could see when the ACK was sent */

static void complete_one(void)
{
    const struct uro_cqe cqe = { .wr_id = 1 };

    if (fake_read(&fake.head) != fake_read(&fake.tail))
        assert_true(uro_cq_push(uro_device_shard(device), cq, &cqe, false));
}

static void note_visible_completions(void)
{
    seen_before = atomic_load(&cq->tail);
}

static void any_link__round_adds_a_completion__visible_after_the_response_is_sent(void **state)
{
    struct uro_cqe cqe;

    (void)state;
    cq = uro_cq_init(aligned_alloc(64, (uro_cq_size(8) + 63) & ~(size_t)63), 8, NULL);
    stage_start_polling(false);
    seen_before = 7;
    fake_call_receiving(complete_one);
    fake.sends = note_visible_completions;
    stage_find(1);
    assert_int_equal(seen_before, 0);
    assert_int_equal(uro_cq_poll(cq, &cqe, 1), 1);
}

/* A command flushes requests. Their completions become visible when the engine is unlocked. */
static void command__adds_a_completion__visible_after_the_command(void **state)
{
    const struct uro_cqe flushed = { .status = URO_WC_WR_FLUSH_ERR };
    struct uro_cqe cqe;

    (void)state;
    cq = uro_cq_init(aligned_alloc(64, (uro_cq_size(8) + 63) & ~(size_t)63), 8, NULL);
    stage_start_polling(false);
    uro_device_lock(device);
    assert_true(uro_cq_push(uro_device_shard(device), cq, &flushed, false));
    uro_device_unlock(device);
    assert_int_equal(uro_cq_poll(cq, &cqe, 1), 1);
}

/* ---- the peer's WRITE behind its ACK ------------------------------------ */

static uint32_t receives_until_write; /* receives until the WRITE arrives; 0: no WRITE */

static void receive_takes_300_ns(void)
{
    stage_pass(300);
    if (receives_until_write > 0 && --receives_until_write == 0)
        ((struct uro_counters *)(uintptr_t)uro_engine_counters(device->engine))
            ->value[URO_COUNT_RX_WRITES]++;
}

/* A poll receives an ACK. The peer's WRITE arrives in receive number @write_in of this poll; 0: no
 * WRITE arrives. Returns the number of receives. */
static uint32_t poll_finds_ack(int score, uint32_t write_in)
{
    static const struct uro_mac others = { { 2, 0, 0, 0, 0, 99 } };

    uro_device_lock(device);
    device->sched.reply_score = score;
    uro_device_unlock(device);
    receives_until_write = write_in;
    fake_call_receiving(receive_takes_300_ns);
    uint32_t before = fake_read(&fake.receives);
    fake_inject_echo(&others); /* the engine sends no response to this frame */
    uro_device_progress(device, false);
    return fake_read(&fake.receives) - before;
}

static void poll_finds_ack__score_not_positive__receives_once(void **state)
{
    (void)state;
    start(false);
    assert_int_equal(poll_finds_ack(0, 0), 1);
    assert_int_equal(poll_finds_ack(-4, 0), 1);
    assert_int_equal(device->sched.reply_score, -4);
}

static void poll_finds_ack__program_spins_on_memory__receives_until_the_write_arrives(void **state)
{
    (void)state;
    start(false);
    assert_int_equal(poll_finds_ack(1, 4), 4);
    assert_int_equal(device->sched.reply_score, 2);
    assert_int_equal(poll_finds_ack(8, 1), 1); /* the ACK and the WRITE arrived together */
    assert_int_equal(device->sched.reply_score, 8);
}

static void poll_finds_ack__no_write_arrives__receives_for_2_us_and_lowers_the_score(void **state)
{
    (void)state;
    start(false);
    assert_int_equal(poll_finds_ack(1, 0), 1 + 8); /* the poll yields before the last receive */
    assert_int_equal(device->sched.reply_score, -3);
}

/* The peer needs one system call for its ACK and another for its WRITE. */
static void call_per_send__no_write_arrives__receives_longer_by_two_send_costs(void **state)
{
    (void)state;
    start(true);
    atomic_store(&device->shared.send_cost, URO_US(3));
    assert_int_equal(poll_finds_ack(1, 0), 1 + 28);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(memory_link__poll_receives_a_frame__same_poll_sends_the_response),
    cmocka_unit_test(call_per_send__poll_receives_a_frame__same_poll_sends_the_response),
    cmocka_unit_test(service__receives_a_frame__same_round_sends_the_response),
    cmocka_unit_test(any_link__round_adds_a_completion__visible_after_the_response_is_sent),
    cmocka_unit_test(command__adds_a_completion__visible_after_the_command),
    cmocka_unit_test(poll_finds_ack__score_not_positive__receives_once),
    cmocka_unit_test(poll_finds_ack__program_spins_on_memory__receives_until_the_write_arrives),
    cmocka_unit_test(poll_finds_ack__no_write_arrives__receives_for_2_us_and_lowers_the_score),
    cmocka_unit_test(call_per_send__no_write_arrives__receives_longer_by_two_send_costs),
};

int main(void)
{
    return stage_run("host/answer", tests, URO_ARRAY_LEN(tests));
}
