/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_behind.c - tests a SEND with a PSN before the expected PSN, and the PSN of the ACK for
 * it. Also tests ACK timeouts that are too short.
 *
 * A sender whose rq_psn and sq_psn do not match must not take such an ACK for an ACK of its own
 * request.
 */
#include "scene.h"

#define TEXT(...) PACKET(.op = "RC_SEND_ONLY", .ack_req = true, .text = "x", .psn = __VA_ARGS__)

static void take(struct scene *s, uint32_t psn, uint32_t msn)
{
    scene_post_recv(s, psn, 64);
    scene_rx(s, 0, TEXT(psn));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = psn, .msn = msn));
    scene_expect_recv(s, psn, UROCE_SUCCESS, 1);
}

/* The responder has received nothing yet, so any such SEND has a wrong PSN. */
static void rc_send__psn_before_the_start_psn__is_acked_with_a_psn_never_sent(void **state)
{
    (void)state;
    for (uint32_t rxe = 0; rxe < 2; rxe++) {
        struct scene *s = scene_rc(.rq_psn = 1000);

        scene_post_recv(s, 1, 64);
        scene_rx(s, 0, TEXT(10, .rxe = rxe));
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 999, .msn = 0));
        scene_expect_mark(s, "RSP.DUP.LAST");
        scene_expect_no_completion(s);
        scene_close(s);
    }
}

/* For example, a restarted program sends to the queue pair that was connected to its former
 * instance. */
static void rc_send__psn_far_behind__is_acked_with_the_last_received_psn(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 0xfffffe);

    take(s, 0xfffffe, 1);
    take(s, 0xffffff, 2);
    take(s, 0, 3);
    for (uint32_t psn = 0xfffffe; psn != 1; psn = (psn + 1) & 0xffffff) {
        scene_rx(s, 0, TEXT(psn));
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 0, .msn = 3));
    }
    scene_rx(s, 0, TEXT(0x900000));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 0, .msn = 3));
    scene_close(s);
}

/* rxe loses track of its requests when an ACK covers more than it has retransmitted. */
static void rc_send__repeated_by_rxe__is_acked_with_the_psn_of_the_duplicate(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    take(s, 100, 1);
    take(s, 101, 2);
    scene_rx(s, 0, TEXT(100, .rxe = true));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 2));
    scene_rx(s, 0, TEXT(99, .rxe = true));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    scene_close(s);
}

/* The response of a READ or atomic may be lost, too. An ACK beyond it would complete that
 * request. */
static void rc_send__duplicate_before_reads_and_atomics__ack_is_sent_after_their_responses(
    void **state)
{
    (void)state;
    static const char *const ops[] = { "RC_READ_REQUEST", "RC_FETCH_ADD" };
    static const char *const answers[] = { "RC_READ_RESPONSE_ONLY", "RC_ATOMIC_ACK" };
    static const uint64_t originals[] = { 0, UINT64_C(0xeeeeeeeeeeeeeeee) };

    for (uint32_t i = 0; i < URO_ARRAY_LEN(ops); i++) {
        struct scene *s = scene_rc(.rq_psn = 100);
        take(s, 100, 1);
        take(s, 101, 2);
        for (uint32_t psn = 102; psn < 104; psn++) {
            scene_rx(s, 0, PACKET(.op = ops[i], .psn = psn, .ack_req = true, .dma = 0));
            scene_expect_tx(
                s, 0,
                PACKET(.op = answers[i], .psn = psn, .msn = psn - 99, .original = originals[i]));
        }
        take(s, 104, 5);
        take(s, 105, 6);
        scene_rx(s, 0, TEXT(100));
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 6));
        scene_rx(s, 0, TEXT(104));
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 105, .msn = 6));
        scene_close(s);
    }
}

/* The responder has no resource any more for a READ that it executed before the remembered READs.
 * Its sender has therefore received that response, and needs no ACK for the SEND before it. An ACK
 * with the PSN before the oldest remembered READ would acknowledge a READ response. */
static void rc_send__duplicate_before_an_evicted_read__is_not_acked(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    take(s, 100, 1);
    for (uint32_t psn = 101; psn < 141; psn++) {
        scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = psn, .ack_req = true, .dma = 0));
        scene_expect_tx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = psn, .msn = psn - 99));
    }
    take(s, 141, 42);
    scene_rx(s, 0, TEXT(100));
    scene_expect_silence(s, URO_MS(1));
    scene_expect_mark(s, "RSP.DUP.FORGOTTEN");
    scene_rx(s, URO_MS(1), TEXT(141));
    scene_expect_tx(s, URO_MS(1), PACKET(.op = "RC_ACK", .psn = 141, .msn = 42));
    scene_close(s);
}

/* An ACK with a PSN that the requester never sent completes nothing. */
static void rc_send__acked_with_an_unsent_psn__fails_after_all_retries(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .retry_count = 1);
    const uro_time whole = (UINT64_C(4096) << 14) + URO_US(2);

    scene_post_send(s, SEND(.id = 1, .text = "x"));
    for (uint32_t i = 0; i < 2; i++) {
        scene_expect_tx(s, i * whole, TEXT(10));
        scene_rx(s, i * whole, PACKET(.op = "RC_ACK", .psn = 999, .msn = 0));
    }
    scene_expect_no_completion(s);
    scene_expect_silence(s, 4 * whole);
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    assert_int_equal(scene_counter(s, "drop_ghost_ack"), 2);
    scene_expect_mark(s, "REQ.ACK.GHOST");
    scene_close(s);
}

/* ---- short ACK timeouts -------------------------------------------------- */

static void rc_timeout__shorter_than_the_minimum__is_the_minimum(void **state)
{
    (void)state;
    const uro_time least = UINT64_C(4096) << 12;
    struct uroce_qp_attr attr;
    struct scene *s = scene_rc(.sq_psn = 10, .timeout = 4, .timeout_least = 12, .retry_count = 1);

    scene_post_send(s, SEND(.id = 1, .text = "x"));
    scene_expect_tx(s, 0, TEXT(10));
    scene_expect_silence(s, least - URO_US(1));
    scene_expect_tx(s, least + URO_US(2), TEXT(10));
    scene_expect_mark(s, "REQ.TIMEOUT.LEAST");
    uroce_qp_query(s->qp, &attr);
    assert_int_equal(attr.timeout, 4);
    scene_rx(s, least + URO_US(3), PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

/* A timeout of 0 stays infinite, and a timeout longer than the minimum stays as it was set. */
static void rc_timeout__none_or_above_the_minimum__is_unchanged(void **state)
{
    (void)state;
    const uro_time longer = UINT64_C(4096) << 13;
    struct scene *s = scene_rc(.sq_psn = 10, .timeout = 0, .timeout_least = 12);

    scene_post_send(s, SEND(.id = 1, .text = "x", .quiet = true));
    scene_expect_tx(s, 0, TEXT(10));
    scene_expect_silence(s, URO_MS(1000));
    scene_close(s);
    s = scene_rc(.sq_psn = 10, .timeout = 13, .timeout_least = 12);
    scene_post_send(s, SEND(.id = 1, .text = "x", .quiet = true));
    scene_expect_tx(s, 0, TEXT(10));
    scene_expect_silence(s, longer - URO_US(1));
    scene_expect_tx(s, longer + URO_US(2), TEXT(10));
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_send__psn_before_the_start_psn__is_acked_with_a_psn_never_sent),
        cmocka_unit_test(rc_send__psn_far_behind__is_acked_with_the_last_received_psn),
        cmocka_unit_test(rc_send__repeated_by_rxe__is_acked_with_the_psn_of_the_duplicate),
        cmocka_unit_test(
            rc_send__duplicate_before_reads_and_atomics__ack_is_sent_after_their_responses),
        cmocka_unit_test(rc_send__duplicate_before_an_evicted_read__is_not_acked),
        cmocka_unit_test(rc_send__acked_with_an_unsent_psn__fails_after_all_retries),
        cmocka_unit_test(rc_timeout__shorter_than_the_minimum__is_the_minimum),
        cmocka_unit_test(rc_timeout__none_or_above_the_minimum__is_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
