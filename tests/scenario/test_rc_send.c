/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_send.c - tests SENDs of one packet and of several packets, lost and duplicated, as
 * requester and as responder. */
#include "base/mark.h"
#include "scene.h"

/* ---- as responder ------------------------------------------------------- */

static void rc_send__one_packet__is_delivered_and_acknowledged(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 64);
    scene_rx(s, URO_US(0), PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, URO_US(0), PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);
    assert_memory_equal(scene_recv_memory(s, 0), "hi", 2);
    scene_expect_mark(s, "RSP.ACK");
    scene_expect_mark(s, "RSP.MSN");
    scene_close(s);
}

/* The ACK of a SEND was lost, so the peer repeats the SEND. The application must see the message
 * once, and the peer must get its ACK. */
static void rc_send__repeated_after_lost_ack__is_acked_not_delivered_twice(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 64);
    scene_post_recv(s, 2, 64);
    scene_rx(s, URO_US(0), PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, URO_US(0), PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);

    scene_rx(s, URO_US(500),
             PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, URO_US(500), PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_mark(s, "RSP.DUP.SEND");
    scene_close(s);
}

static void rc_send__packet_missing__one_nak_until_the_packet_arrives(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 4096);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_LAST", .psn = 102, .ack_req = true, .length = 10));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x60));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_LAST", .psn = 102, .ack_req = true, .length = 10));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_MIDDLE", .psn = 101, .length = 1024, .fill = 1024));
    scene_rx(s, 0,
             PACKET(.op = "RC_SEND_LAST", .psn = 102, .ack_req = true, .length = 10, .fill = 2048));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 102, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2058);
    scene_assert_filled(scene_recv_memory(s, 0), 0, 2058);
    scene_expect_mark(s, "RSP.GAP.NAK");
    scene_close(s);
}

static void rc_send__no_receive_posted__rnr_nak_with_min_rnr_timer_then_delivered(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .min_rnr_timer = 12);

    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x2c));
    /* The next request is behind the rejected request: it is dropped without another response. */
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 101, .ack_req = true, .text = "ho"));
    scene_expect_silence(s, 0);
    scene_post_recv(s, 1, 64);
    scene_rx(s, URO_MS(1), PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, URO_MS(1), PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);
    scene_expect_mark(s, "RSP.RNR");
    scene_close(s);
}

static void rc_send__longer_than_the_receive__length_error_and_invalid_request(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 1);
    scene_post_recv(s, 2, 64);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x61));
    scene_expect_recv(s, 1, UROCE_LOC_LEN_ERR, 0);
    scene_expect_recv(s, 2, UROCE_WR_FLUSH_ERR, 0);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_mark(s, "RSP.TOO.LONG");
    scene_close(s);
}

/* ---- as requester ------------------------------------------------------- */

static void rc_send__three_packets__first_middle_last_and_one_completion(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0xfffffe);

    scene_fill(s->local, 0, 2100);
    scene_post_send(s, SEND(.id = 7, .length = 2100));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 0xfffffe, .length = 1024));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_MIDDLE", .psn = 0xffffff, .length = 1024, .fill = 1024));
    scene_expect_tx(
        s, 0, PACKET(.op = "RC_SEND_LAST", .psn = 0, .ack_req = true, .length = 52, .fill = 2048));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 0, .msn = 1));
    scene_expect_sent(s, 7, UROCE_SUCCESS);
    scene_close(s);
    assert_true(uro_mark_hit("REQ.SEGMENT"));
    assert_true(uro_mark_hit("REQ.ACKREQ"));
    assert_true(uro_mark_hit("TX.MIGREQ"));
}

static void rc_send__ack_lost__sent_again_after_the_timeout_from_the_oldest(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .timeout = 14);
    const uro_time timeout = UINT64_C(4096) << 14;

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 11, .ack_req = true, .text = "b"));
    scene_expect_silence(s, timeout - URO_US(2));
    scene_expect_tx(s, timeout + URO_US(2),
                    PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_expect_tx(s, timeout + URO_US(2),
                    PACKET(.op = "RC_SEND_ONLY", .psn = 11, .ack_req = true, .text = "b"));
    scene_rx(s, timeout + URO_US(2), PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.TIMEOUT");
    scene_expect_mark(s, "REQ.ACK.COALESCED");
    scene_expect_mark(s, "REQ.RETRY.REFILL");
    scene_close(s);
}

static void rc_send__peer_gone__retry_exceeded_after_one_plus_retry_count(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .timeout = 14, .retry_count = 2);
    uro_time step = (UINT64_C(4096) << 14) + URO_US(2);

    scene_post_send(s, SEND(.id = 1, .text = "a", .quiet = true));
    for (uint32_t i = 0; i < 3; i++)
        scene_expect_tx(s, i * step,
                        PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_expect_silence(s, 3 * step);
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    scene_expect_reason(scene_last()->reason,
                        "the peer did not answer within timeout and retry_cnt");
    scene_expect_state(s, UROCE_ERR);
    scene_expect_mark(s, "REQ.RETRY.COUNT");
    scene_close(s);
}

/* bug B08 */
static void rc_send__rnr_nak__nothing_is_sent_before_the_named_delay(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x20 | 14)); /* 1.28 ms */
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8));
    scene_expect_silence(s, URO_US(1278));
    scene_expect_tx(s, URO_US(1282),
                    PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_expect_tx(s, URO_US(1282),
                    PACKET(.op = "RC_SEND_ONLY", .psn = 11, .ack_req = true, .text = "b"));
    scene_rx(s, URO_US(1300), PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.RNR.WAIT");
    scene_close(s);
}

static void rc_send__ack_with_any_credits__completes(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    for (uint8_t credits = 0; credits < 32; credits++) {
        uint32_t psn = 10u + credits;
        scene_post_send(s, SEND(.id = credits, .text = "a"));
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "a"));
        scene_rx(s, 0,
                 PACKET(.op = "RC_ACK", .psn = psn, .syndrome = credits, .msn = 1u + credits));
        scene_expect_sent(s, credits, UROCE_SUCCESS);
    }
    scene_close(s);
    assert_true(uro_mark_hit("REQ.CREDITS"));
}

/* bug B16 */
static void rc_send__ack_for_a_psn_never_sent__is_ignored_and_counted(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 1));
    assert_int_equal(scene_counter(s, "drop_ghost_ack"), 1);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.ACK.GHOST");
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_send__one_packet__is_delivered_and_acknowledged),
        cmocka_unit_test(rc_send__repeated_after_lost_ack__is_acked_not_delivered_twice),
        cmocka_unit_test(rc_send__packet_missing__one_nak_until_the_packet_arrives),
        cmocka_unit_test(rc_send__no_receive_posted__rnr_nak_with_min_rnr_timer_then_delivered),
        cmocka_unit_test(rc_send__longer_than_the_receive__length_error_and_invalid_request),
        cmocka_unit_test(rc_send__three_packets__first_middle_last_and_one_completion),
        cmocka_unit_test(rc_send__ack_lost__sent_again_after_the_timeout_from_the_oldest),
        cmocka_unit_test(rc_send__peer_gone__retry_exceeded_after_one_plus_retry_count),
        cmocka_unit_test(rc_send__rnr_nak__nothing_is_sent_before_the_named_delay),
        cmocka_unit_test(rc_send__ack_with_any_credits__completes),
        cmocka_unit_test(rc_send__ack_for_a_psn_never_sent__is_ignored_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
