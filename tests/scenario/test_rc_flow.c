/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_flow.c - tests how much is sent, how often, and the effects of used-up retries and full
 * windows. */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "scene.h"

/* ---- as requester ------------------------------------------------------- */

static void rc_window__full__one_packet_is_sent_for_each_acknowledged_packet(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .window = 2);

    scene_fill(s->local, 0, 4096);
    scene_post_send(s, SEND(.id = 1, .length = 4096));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 10, .length = 1024));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_SEND_MIDDLE", .psn = 11, .ack_req = true, .length = 1024, .fill = 1024));
    scene_expect_silence(s, 0);
    scene_expect_mark(s, "REQ.WINDOW");
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10));
    scene_expect_mark(s, "REQ.ACK.PARTIAL");
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_MIDDLE", .psn = 12, .length = 1024, .fill = 2048));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 12));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_SEND_LAST", .psn = 13, .ack_req = true, .length = 1024, .fill = 3072));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 13, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

/* Each packet behind a lost packet may cause the same NAK again. */
static void rc_gap__reported_three_times__packet_is_retransmitted_once(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    for (uint64_t id = 1; id <= 2; id++)
        scene_post_send(s, SEND(.id = id, .text = "a"));
    for (uint32_t psn = 10; psn <= 11; psn++)
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "a"));
    for (int i = 0; i < 3; i++)
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x60));
    scene_expect_mark(s, "REQ.GAP.ONCE");
    for (uint32_t psn = 10; psn <= 11; psn++)
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "a"));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

/* A response near the start of a long READ is lost. The peer sends all other responses before it
 * processes the second request. This can take longer than the timeout. rule REQ.GAP.ALIVE */
static void rc_gap__later_responses_arrive__timer_restarts(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .retry_count = 1);
    const uro_time half = UINT64_C(4096) << 13, whole = 2 * half;
    const struct scene_packet *rest = PACKET(.op = "RC_READ_REQUEST", .psn = 10, .ack_req = true,
                                             .va = 0x1000, .rkey = 0x77, .dma = 4000);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 4000, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0, rest);
    scene_rx(s, 0,
             PACKET(.op = "RC_READ_RESPONSE_MIDDLE", .psn = 11, .length = 1024, .fill = 1024));
    scene_expect_tx(s, 0, rest); /* the only retry */
    scene_rx(s, half,
             PACKET(.op = "RC_READ_RESPONSE_MIDDLE", .psn = 12, .length = 1024, .fill = 2048));
    scene_rx(s, whole, PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 13, .msn = 1, .length = 928));
    scene_expect_silence(s, whole + half);
    scene_expect_mark(s, "REQ.GAP.ALIVE");
    scene_expect_silence(s, 2 * whole + URO_US(2)); /* no answer within the timeout */
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    scene_close(s);
}

/* A second NAK does not show that the responder makes progress toward the retransmitted
 * packet. */
static void rc_gap__same_nak_without_end__fails_after_all_retries(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .retry_count = 1);
    const uro_time whole = UINT64_C(4096) << 14;
    uint8_t octets[9000];

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    for (uro_time now = 0; now < 3 * whole; now += whole / 4) {
        while (scene_output(s, now, octets) > 0)
            ;
        scene_rx(s, now, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x60));
    }
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    scene_close(s);
}

/* After a timeout, a NAK of the same gap causes a retransmission again. */
static void rc_gap__nak_again_after_a_timeout__retransmits_at_once(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);
    const struct scene_packet *sent =
        PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a");
    const struct scene_packet *nak = PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x60);
    const uro_time later = (UINT64_C(4096) << 14) + URO_US(2);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, sent);
    scene_rx(s, 0, nak);
    scene_expect_tx(s, 0, sent);
    scene_rx(s, 0, nak);
    scene_expect_silence(s, 0);
    scene_expect_tx(s, later, sent);
    scene_rx(s, later, nak);
    scene_expect_tx(s, later, sent);
    scene_rx(s, later, PACKET(.op = "RC_ACK", .psn = 10));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

static void rc_rnr__retries_used_up__fails_with_rnr_retry_exc_err(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .rnr_retry = 1);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    for (uint32_t i = 0; i < 2; i++) {
        scene_expect_tx(s, URO_US(14 * i),
                        PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
        scene_rx(s, URO_US(14 * i),
                 PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x20 | 1)); /* 10 us */
    }
    scene_expect_sent(s, 1, UROCE_RNR_RETRY_EXC_ERR);
    scene_expect_reason(scene_last()->reason,
                        "the peer had no receive posted and rnr_retry ran out");
    scene_expect_mark(s, "REQ.RNR.COUNT");
    scene_close(s);
}

/* bug B06 */
static void rc_send__acknowledged_twice__each_completes_once(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a", .quiet = true));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 11, .ack_req = true, .text = "b"));
    for (int i = 0; i < 2; i++)
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.SIGNAL");
    scene_close(s);
    assert_true(uro_mark_hit("REQ.ONCE"));
}

/* After a READ was resumed in its middle, its first response may be a FIRST or a MIDDLE. */
static void rc_read__resumed_and_answered_from_first__is_complete(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 7);
    const uro_time later = (UINT64_C(4096) << 14) + URO_US(2);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 3000, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 7, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 3000));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 7, .msn = 1, .length = 1024));
    scene_expect_tx(s, later,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 8, .ack_req = true, .va = 0x1400,
                           .rkey = 0x77, .dma = 1976));
    scene_expect_mark(s, "REQ.READ.RESUME");
    scene_rx(
        s, later,
        PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 8, .msn = 1, .length = 1024, .fill = 1024));
    scene_rx(
        s, later,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 9, .msn = 1, .length = 952, .fill = 2048));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_assert_filled(s->local, 0, 3000);
    scene_close(s);
}

/* ---- as responder ------------------------------------------------------- */

static void rc_ack__several_pending__one_ack_for_the_highest_psn(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    for (uint32_t i = 0; i < 3; i++) {
        scene_post_recv(s, i, 8);
        scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100 + i, .ack_req = true, .text = "a"));
    }
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 102, .msn = 3));
    scene_expect_mark(s, "RSP.ACK.COALESCED");
    for (uint32_t i = 0; i < 3; i++)
        scene_expect_recv(s, i, UROCE_SUCCESS, 1);
    scene_close(s);
}

static void rc_send__receive_may_not_be_written__operational_nak_and_protection_error(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_register_local(s, 0);
    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x63));
    scene_expect_recv(s, 1, UROCE_LOC_PROT_ERR, 0);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_mark(s, "RSP.LOCAL");
    scene_close(s);
}

/* A duplicate READ must not exceed the range of the first READ. */
static void rc_read__repeated_with_a_greater_range__gets_no_response(void **state)
{
    static const struct {
        uint32_t offset, length;
    } cases[] = { { 0, 1001 }, { 8, 1000 }, { 0, 0x80000000u }, { 0, UINT32_MAX } };
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct scene *s = scene_rc(.rq_psn = 100);

        scene_fill(s->remote, 0, 1000);
        scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 1000));
        scene_expect_tx(
            s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1, .length = 1000));
        scene_rx(s, 0,
                 PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = cases[i].length,
                        .va = (uintptr_t)s->remote + cases[i].offset));
        scene_expect_silence(s, 0);
        scene_expect_mark(s, "RSP.DUP.READ.RANGE");
        scene_expect_state(s, UROCE_RTS);
        scene_close(s);
    }
}

/* ---- limits of link and queues ------------------------------------------ */

static void cq__full_while_flushing__one_overrun_event(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.cq_capacity = 1);
    const struct uroce_qp_attr attr = { .state = UROCE_ERR };
    struct uroce_event event;

    for (uint64_t id = 1; id <= 3; id++)
        scene_post_recv(s, id, 8);
    assert_int_equal(uroce_qp_modify(s->qp, &attr, UROCE_ATTR_STATE, s->now), 0);
    scene_expect_recv(s, 1, UROCE_WR_FLUSH_ERR, 0);
    scene_expect_event(s, UROCE_EVENT_CQ_ERR);
    assert_false(uroce_engine_event(s->engine, &event));
    scene_expect_mark(s, "CQ.OVERRUN.FLUSH");
    /* The CQ has room again, but lost completions stay lost, and there is no second event. */
    scene_post_recv(s, 4, 8);
    scene_expect_silence(s, 0);
    scene_close(s);
}

static int to_rtr(struct scene *s, uint32_t path_mtu)
{
    struct uroce_qp_attr attr = { .state = UROCE_RTR,
                                  .path_mtu = path_mtu,
                                  .address = { .sgid_index = 1 } };
    const unsigned mask = UROCE_ATTR_STATE | UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU |
                          UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN | UROCE_ATTR_MAX_DEST_RD_ATOMIC |
                          UROCE_ATTR_MIN_RNR_TIMER;

    assert_int_equal(uroce_gid_parse("10.0.0.2", attr.address.gid), 0);
    return uroce_qp_modify(s->qp, &attr, mask, s->now);
}

/* bug B29 */
static void modify__path_mtu_above_the_link__only_a_smaller_mtu_is_accepted(void **state)
{
    (void)state;
    struct scene *s =
        scene_rc(.stop_at = UROCE_INIT, .link_mtu = 4183); /* a path MTU of 4096 needs 4184 bytes */

    assert_int_equal(to_rtr(s, 4096), -EINVAL);
    assert_int_equal(to_rtr(s, 2048), 0);
    scene_skip(s);
    scene_close(s);
    assert_true(uro_mark_hit("QP.MTU"));
}

/* rule PORT.MTU */
static void modify__link_mtu_lowered_for_a_while__limits_the_path_mtu(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.stop_at = UROCE_INIT, .link_mtu = 4184);

    uroce_engine_set_mtu(s->engine, 1500);
    assert_int_equal(to_rtr(s, 2048), -EINVAL);
    uroce_engine_set_mtu(s->engine, 4184);
    assert_int_equal(to_rtr(s, 4096), 0);
    scene_skip(s);
    scene_close(s);
    assert_true(uro_mark_hit("PORT.MTU"));
}

/* SE is valid only in requests that cause a receive completion at the peer. */
static void rc_send__solicited_flag_without_meaning__is_not_sent(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_WRITE, .flags = UROCE_SOLICITED, .text = "w",
                            .remote_address = 0x5000, .rkey = 0x99));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_WRITE_ONLY", .psn = 10, .ack_req = true, .va = 0x5000,
                           .rkey = 0x99, .dma = 1, .text = "w"));
    scene_post_send(s, SEND(.id = 2, .op = UROCE_FETCH_ADD, .length = 8, .flags = UROCE_SOLICITED,
                            .remote_address = 0x5000, .rkey = 0x99));
    scene_expect_tx(
        s, 0, PACKET(.op = "RC_FETCH_ADD", .psn = 11, .ack_req = true, .va = 0x5000, .rkey = 0x99));
    scene_rx(s, 0, PACKET(.op = "RC_ATOMIC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void tx__headers__have_values_that_all_peers_accept(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_skip(s);
    const uint8_t *ip = scene_burst_frame(0) + 14;
    assert_int_equal(ip[0], 0x45);
    assert_int_equal(ip[1], 0);    /* TOS */
    assert_int_equal(ip[6], 0x40); /* DF */
    assert_int_equal(ip[7], 0);
    assert_int_equal(ip[8], 64); /* TTL */
    assert_int_equal(ip[9], 17);
    assert_true(ip[20] >= 0xc0);                    /* source port */
    assert_int_equal(ip[22] << 8 | ip[23], 4791);   /* destination port */
    assert_int_equal(ip[26] << 8 | ip[27], 0);      /* UDP checksum */
    assert_int_equal(ip[30] << 8 | ip[31], 0xffff); /* P_Key */
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
    assert_true(uro_mark_hit("TX.HEADER"));
}

static void link__down_and_up__queue_pairs_retransmit(void **state)
{
    (void)state;
    const uro_time later = (UINT64_C(4096) << 14) + URO_US(2);
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    uroce_engine_link(s->engine, false, s->now);
    scene_expect_mark(s, "PORT.QP");
    scene_expect_tx(s, later,
                    PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_expect_state(s, UROCE_RTS);
    scene_rx(s, later, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_window__full__one_packet_is_sent_for_each_acknowledged_packet),
        cmocka_unit_test(rc_gap__reported_three_times__packet_is_retransmitted_once),
        cmocka_unit_test(rc_gap__later_responses_arrive__timer_restarts),
        cmocka_unit_test(rc_gap__nak_again_after_a_timeout__retransmits_at_once),
        cmocka_unit_test(rc_gap__same_nak_without_end__fails_after_all_retries),
        cmocka_unit_test(rc_rnr__retries_used_up__fails_with_rnr_retry_exc_err),
        cmocka_unit_test(rc_send__acknowledged_twice__each_completes_once),
        cmocka_unit_test(rc_read__resumed_and_answered_from_first__is_complete),
        cmocka_unit_test(rc_ack__several_pending__one_ack_for_the_highest_psn),
        cmocka_unit_test(rc_send__receive_may_not_be_written__operational_nak_and_protection_error),
        cmocka_unit_test(rc_read__repeated_with_a_greater_range__gets_no_response),
        cmocka_unit_test(cq__full_while_flushing__one_overrun_event),
        cmocka_unit_test(modify__path_mtu_above_the_link__only_a_smaller_mtu_is_accepted),
        cmocka_unit_test(modify__link_mtu_lowered_for_a_while__limits_the_path_mtu),
        cmocka_unit_test(rc_send__solicited_flag_without_meaning__is_not_sent),
        cmocka_unit_test(tx__headers__have_values_that_all_peers_accept),
        cmocka_unit_test(link__down_and_up__queue_pairs_retransmit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
