/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_late.c - tests responses that arrive late, out of order, or for a request after an
 * unanswered request. */
#include <string.h>

#include "scene.h"

static const uro_time timeout = (UINT64_C(4096) << 14) + URO_US(2);

static void expect_send(struct scene *s, uro_time at, uint32_t psn, const char *text)
{
    scene_expect_tx(s, at, PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = text));
}

static void expect_read(struct scene *s, uint32_t psn)
{
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = psn, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
}

/* Sends a READ with PSN 10 and a SEND with PSN 11. */
static struct scene *read_then_send(void)
{
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 64));
    expect_read(s, 10);
    expect_send(s, 0, 11, "b");
    return s;
}

/* ---- as requester ------------------------------------------------------- */

static void rc_send__late_ack_while_retransmitting__continues_after_the_acked_psn(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);
    const char *const texts[] = { "a", "bb", "ccc" };

    for (uint32_t i = 0; i < 3; i++) {
        scene_post_send(s, SEND(.id = i, .text = texts[i], .at = i * 8));
        expect_send(s, 0, 10 + i, texts[i]);
    }
    expect_send(s, timeout, 10, "a");
    scene_rx(s, timeout, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 0, UROCE_SUCCESS);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    expect_send(s, timeout, 12, "ccc");
    scene_expect_silence(s, timeout);
    scene_rx(s, timeout, PACKET(.op = "RC_ACK", .psn = 12, .msn = 3));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void rc_gap__second_nak_after_a_timeout__retransmits_again(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    expect_send(s, 0, 10, "a");
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x60));
    expect_send(s, 0, 10, "a");
    expect_send(s, timeout, 10, "a");
    scene_rx(s, timeout, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x60));
    expect_send(s, timeout, 10, "a");
    scene_rx(s, timeout, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

/* The NAK has the PSN of the SEND, so the SEND fails. Only the response of the READ before it was
 * lost. */
static void rc_nak__after_an_unanswered_read__fails_the_request_of_its_psn(void **state)
{
    static const struct {
        uint8_t syndrome;
        enum uroce_status status;
    } cases[] = { { 0x62, UROCE_REM_ACCESS_ERR }, { 0x40, UROCE_BAD_RESP_ERR } };
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct scene *s = read_then_send();

        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .syndrome = cases[i].syndrome));
        scene_expect_sent(s, 1, UROCE_WR_FLUSH_ERR);
        scene_expect_sent(s, 2, cases[i].status);
        scene_expect_mark(s, "REQ.NAK.BEYOND");
        scene_close(s);
    }
}

/* The READ response was lost. The READ is sent again at once, even if an RNR NAK of a later request
 * arrives. */
static void rc_rnr__after_an_unanswered_read__read_is_requested_again_at_once(void **state)
{
    (void)state;
    struct scene *s = read_then_send();

    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .syndrome = 0x20 | 14));
    expect_read(s, 10);
    expect_send(s, 0, 11, "b");
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 10, .msn = 1, .length = 8));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void qp__draining_two_messages__event_follows_the_second(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);
    struct uroce_event event;

    for (uint32_t i = 0; i < 2; i++) {
        scene_post_send(s, SEND(.id = i, .text = "a"));
        expect_send(s, 0, 10 + i, "a");
    }
    scene_to_state(s, UROCE_SQD);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 0, UROCE_SUCCESS);
    assert_false(uroce_engine_event(s->engine, &event));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_event(s, UROCE_EVENT_SQ_DRAINED);
    scene_close(s);
}

static void rc_send__inline_and_longer_than_a_packet__every_byte_arrives_in_order(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .mtu = 256);

    scene_fill(s->local, 0, 300);
    scene_post_send(s, SEND(.id = 1, .length = 300, .flags = UROCE_INLINE));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 10, .length = 256));
    scene_expect_tx(
        s, 0, PACKET(.op = "RC_SEND_LAST", .psn = 11, .ack_req = true, .length = 44, .fill = 256));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

/* ---- as responder ------------------------------------------------------- */

static void rc_gap__closed_before_the_nak_was_sent__is_not_reported(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 101, .text = "b"));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .text = "a"));
    scene_expect_silence(s, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_close(s);
}

static void rc_ack__duplicate_after_a_newer_request__highest_psn_is_acknowledged(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    for (uint32_t psn = 100; psn <= 101; psn++) {
        scene_post_recv(s, psn, 8);
        scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "a"));
        scene_expect_recv(s, psn, UROCE_SUCCESS, 1);
    }
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    scene_close(s);
}

static void rc_responder__write_inside_a_send__invalid_request(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 4096);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_LAST", .psn = 101, .ack_req = true, .length = 8));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x61));
    scene_expect_recv(s, 1, UROCE_REM_INV_REQ_ERR, 0);
    scene_expect_mark(s, "RSP.SEQUENCE");
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_send__late_ack_while_retransmitting__continues_after_the_acked_psn),
        cmocka_unit_test(rc_gap__second_nak_after_a_timeout__retransmits_again),
        cmocka_unit_test(rc_nak__after_an_unanswered_read__fails_the_request_of_its_psn),
        cmocka_unit_test(rc_rnr__after_an_unanswered_read__read_is_requested_again_at_once),
        cmocka_unit_test(qp__draining_two_messages__event_follows_the_second),
        cmocka_unit_test(rc_send__inline_and_longer_than_a_packet__every_byte_arrives_in_order),
        cmocka_unit_test(rc_gap__closed_before_the_nak_was_sent__is_not_reported),
        cmocka_unit_test(rc_ack__duplicate_after_a_newer_request__highest_psn_is_acknowledged),
        cmocka_unit_test(rc_responder__write_inside_a_send__invalid_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
