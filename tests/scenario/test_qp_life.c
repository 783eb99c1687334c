/* SPDX-License-Identifier: BSD-3-Clause */
/* test_qp_life.c - tests states, flushes, events, and packets that must change nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/mark.h"
#include "scene.h"

static int to_state(struct scene *s, enum uroce_qp_state to)
{
    const struct uroce_qp_attr attr = { .state = to };
    return uroce_qp_modify(s->qp, &attr, UROCE_ATTR_STATE, s->now);
}

static void qp__moved_to_error__all_requests_are_flushed_in_order(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8, .quiet = true));
    scene_post_recv(s, 3, 8);
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    assert_int_equal(to_state(s, UROCE_ERR), 0);
    scene_expect_sent(s, 1, UROCE_WR_FLUSH_ERR);
    scene_expect_sent(s, 2, UROCE_WR_FLUSH_ERR);
    scene_expect_recv(s, 3, UROCE_WR_FLUSH_ERR, 0);
    /* A request that is posted later is flushed at once. */
    scene_post_send(s, SEND(.id = 4, .text = "c", .at = 16));
    scene_post_recv(s, 5, 8);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 4, UROCE_WR_FLUSH_ERR);
    scene_expect_recv(s, 5, UROCE_WR_FLUSH_ERR, 0);
    scene_expect_mark(s, "QP.FLUSH");
    scene_expect_mark(s, "QP.FLUSH.LATE");
    scene_close(s);
}

static void qp__reset_and_connected_again__works_as_new(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    assert_int_equal(to_state(s, UROCE_RESET), 0);
    scene_expect_silence(s, URO_MS(500));
    scene_rx(s, URO_MS(500), PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    assert_int_equal(scene_counter(s, "drop_state"), 1);
    scene_expect_mark(s, "QP.RESET");
    scene_close(s);
}

static void qp__drained__started_messages_finish_and_no_message_starts(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);
    struct uroce_qp_attr attr;

    scene_fill(s->local, 0, 2048);
    scene_post_send(s, SEND(.id = 1, .length = 2048));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 10, .length = 1024, .fill = 0));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 4096));
    scene_to_state(s, UROCE_SQD);
    uroce_qp_query(s->qp, &attr);
    assert_true(attr.sq_draining);
    assert_int_equal(to_state(s, UROCE_RTS), -22);
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_SEND_LAST", .psn = 11, .ack_req = true, .length = 1024, .fill = 1024));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_event(s, UROCE_EVENT_SQ_DRAINED);
    assert_int_equal(to_state(s, UROCE_RTS), 0);
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 12, .ack_req = true, .text = "b"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 12, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_mark(s, "QP.SQD");
    scene_close(s);
}

/* Modifies to SQD. Passes @notify as the attribute for SQD notification if @given. */
static void drain(struct scene *s, bool given, bool notify)
{
    const struct uroce_qp_attr attr = { .state = UROCE_SQD, .sqd_notify = notify };
    unsigned mask = given ? UROCE_ATTR_STATE | UROCE_ATTR_SQD_NOTIFY : UROCE_ATTR_STATE;

    assert_int_equal(uroce_qp_modify(s->qp, &attr, mask, s->now), 0);
}

static void qp__drained__raises_the_event_only_if_requested(void **state)
{
    static const struct {
        bool given, notify;
    } asked[] = { { true, true }, { true, false }, { false, false } };
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);
    struct uroce_qp_attr attr;
    struct uroce_event event;
    uint32_t psn = 10;

    for (size_t i = 0; i < URO_ARRAY_LEN(asked); i++) {
        drain(s, asked[i].given, asked[i].notify); /* nothing is in flight */
        assert_int_equal(uroce_engine_event(s->engine, &event), asked[i].notify);
        scene_to_state(s, UROCE_RTS);
        scene_post_send(s, SEND(.id = psn, .text = "a"));
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "a"));
        drain(s, asked[i].given, asked[i].notify);
        assert_false(uroce_engine_event(s->engine, &event));
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = psn, .msn = psn - 9));
        scene_expect_sent(s, psn++, UROCE_SUCCESS);
        assert_int_equal(uroce_engine_event(s->engine, &event), asked[i].notify);
        uroce_qp_query(s->qp, &attr);
        assert_false(attr.sq_draining);
        scene_to_state(s, UROCE_RTS);
    }
    scene_close(s);
}

static void qp__first_packet_in_rtr__raises_established_once_and_is_served(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 5, .stop_at = UROCE_RTR);

    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 5, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_expect_event(s, UROCE_EVENT_COMM_EST);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 5, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    struct uroce_event event;
    assert_false(uroce_engine_event(s->engine, &event));
    scene_expect_mark(s, "RSP.COMM.EST");
    scene_close(s);
}

/* bug B10 */
static void cq__full__overrun_is_an_event_and_the_queue_pair_fails(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .cq_capacity = 1);

    for (uint64_t id = 1; id <= 2; id++) {
        scene_post_send(s, SEND(.id = id, .text = "a"));
        scene_expect_tx(
            s, 0,
            PACKET(.op = "RC_SEND_ONLY", .psn = 9 + (uint32_t)id, .ack_req = true, .text = "a"));
    }
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_CQ_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_FATAL);
    scene_expect_mark(s, "CQ.OVERRUN");
    scene_expect_reason(uroce_qp_reason(s->qp), "the completion queue overflowed");
    scene_close(s);
}

/* The first failure reason is kept: later failures are its consequences. */
static void qp__failed__has_a_reason_until_reset(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    assert_int_equal(uroce_qp_reason(s->qp), 0);
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x62));
    scene_expect_sent(s, 1, UROCE_REM_ACCESS_ERR);
    scene_expect_reason(uroce_qp_reason(s->qp),
                        "the peer refused the remote key, address range or right");
    assert_int_equal(to_state(s, UROCE_ERR), 0);
    scene_expect_reason(uroce_qp_reason(s->qp),
                        "the peer refused the remote key, address range or right");
    assert_int_equal(to_state(s, UROCE_RESET), 0);
    assert_int_equal(uroce_qp_reason(s->qp), 0);
    scene_close(s);
}

/* A responder that fails completes no request. Only the queue pair has the failure reason. */
static void qp__failed_without_a_completion__has_a_reason(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .ack_req = true, .va = 0x1000, .rkey = 0x77,
                    .dma = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62));
    scene_expect_state(s, UROCE_ERR);
    scene_expect_reason(uroce_qp_reason(s->qp),
                        "the peer used a wrong remote key, address range or right");
    scene_close(s);

    s = scene_rc();
    assert_int_equal(to_state(s, UROCE_ERR), 0);
    scene_expect_reason(uroce_qp_reason(s->qp), "the application moved the queue pair to ERR");
    scene_close(s);
}

static void cq__armed_for_solicited__only_a_solicited_or_failed_completion_wakes(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);
    struct uroce_event event;

    scene_post_recv(s, 1, 8);
    scene_post_recv(s, 2, 8);
    uroce_cq_arm(s->recv_cq, true);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .text = "a"));
    assert_false(uroce_engine_event(s->engine, &event));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 101, .solicited = true, .text = "a"));
    scene_expect_event(s, UROCE_EVENT_COMPLETION);
    assert_false(uroce_engine_event(s->engine, &event));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 1);
    scene_expect_mark(s, "CQ.ARM");
    scene_close(s);
}

/* Packets that are malformed or that the peer cannot have sent. Each packet increments one counter
 * and changes nothing else. */
static const struct {
    struct scene_packet packet;
    const char *counter;
    const char *mark;
} strangers[] = {
    { { .op = "RC_SEND_ONLY", .psn = 100, .from = "10.0.0.3" }, "drop_address", "RX.ADDRESS" },
    { { .op = "RC_SEND_ONLY", .psn = 100, .qpn = 0x777777 }, "drop_qpn", "RX.QPN" },
    { { .op = "RC_SEND_ONLY", .psn = 100, .pkey = 0x8001 }, "drop_pkey", "RX.PKEY" },
    { { .op = "UC_SEND_ONLY", .psn = 100 }, "drop_service", "RX.SERVICE" },
    { { .op = "RC_SEND_ONLY", .psn = 100, .version = 1 }, "drop_version", NULL },
    { { .op = "RC_ACK", .psn = 9 }, "drop_stale_response", NULL },
    { { .op = "RC_ACK", .psn = 10 }, "drop_ghost_ack", NULL },
    { { .op = "RC_FETCH_ADD", .psn = 99 }, "drop_replay", NULL },
};

static void receive__packet_of_another_host__is_counted_and_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(strangers); i++) {
        struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);
        struct scene_packet packet = strangers[i].packet;

        packet.text = strstr(packet.op, "SEND") != NULL ? "x" : NULL;
        packet.ack_req = packet.text != NULL;
        scene_post_recv(s, 1, 8);
        scene_rx(s, 0, &packet);
        assert_int_equal(scene_counter(s, strangers[i].counter), 1);
        if (strangers[i].mark != NULL)
            scene_expect_mark(s, strangers[i].mark);
        scene_expect_state(s, UROCE_RTS);
        scene_expect_silence(s, 0);
        scene_close(s);
    }
}

static void receive__limited_membership_pkey__is_accepted(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .pkey = 0x7fff, .text = "x"));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_close(s);
}

static void receive__state_before_rtr__request_is_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.stop_at = UROCE_INIT);

    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 0, .ack_req = true));
    assert_int_equal(scene_counter(s, "drop_state"), 1);
    scene_expect_mark(s, "RX.STATE");
    scene_close(s);
}

static void modify__value_out_of_range__einval_and_nothing_changes(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.stop_at = UROCE_INIT);
    struct uroce_qp_attr good = { .state = UROCE_RTR,
                                  .path_mtu = 1024,
                                  .address = { .sgid_index = 1 } };
    const unsigned mask = UROCE_ATTR_STATE | UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU |
                          UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN | UROCE_ATTR_MAX_DEST_RD_ATOMIC |
                          UROCE_ATTR_MIN_RNR_TIMER;
    struct uroce_qp_attr bad[7];

    assert_int_equal(uroce_gid_parse("10.0.0.2", good.address.gid), 0);
    for (size_t i = 0; i < URO_ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].path_mtu = 1000;
    bad[1].path_mtu = 8192;
    bad[2].address.sgid_index = 9;
    bad[3].min_rnr_timer = 32;
    bad[4].max_dest_rd_atomic = 129;
    bad[5].address.sgid_index = 0; /* IPv6 source, IPv4 destination */
    assert_int_equal(uroce_gid_parse("239.1.2.3", bad[6].address.gid),
                     0); /* a multicast group cannot be the peer */
    for (size_t i = 0; i < URO_ARRAY_LEN(bad); i++) {
        assert_int_equal(uroce_qp_modify(s->qp, &bad[i], mask, s->now), -22);
        scene_expect_state(s, UROCE_INIT);
    }
    assert_int_equal(uroce_qp_modify(s->qp, &good, mask | 1u << 14 /* IBV_QP_ALT_PATH */, s->now),
                     -22);
    assert_int_equal(uroce_qp_modify(s->qp, &good, mask & ~UROCE_ATTR_AV, s->now), -22);
    assert_int_equal(uroce_gid_parse("192.168.1.1", good.address.gid), 0);
    assert_int_equal(uroce_qp_modify(s->qp, &good, mask, s->now), -101);
    scene_expect_state(s, UROCE_INIT);
    scene_close(s);
    assert_true(uro_mark_hit("QP.RANGE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qp__moved_to_error__all_requests_are_flushed_in_order),
        cmocka_unit_test(qp__reset_and_connected_again__works_as_new),
        cmocka_unit_test(qp__drained__started_messages_finish_and_no_message_starts),
        cmocka_unit_test(qp__drained__raises_the_event_only_if_requested),
        cmocka_unit_test(qp__first_packet_in_rtr__raises_established_once_and_is_served),
        cmocka_unit_test(qp__failed__has_a_reason_until_reset),
        cmocka_unit_test(qp__failed_without_a_completion__has_a_reason),
        cmocka_unit_test(cq__full__overrun_is_an_event_and_the_queue_pair_fails),
        cmocka_unit_test(cq__armed_for_solicited__only_a_solicited_or_failed_completion_wakes),
        cmocka_unit_test(receive__packet_of_another_host__is_counted_and_changes_nothing),
        cmocka_unit_test(receive__limited_membership_pkey__is_accepted),
        cmocka_unit_test(receive__state_before_rtr__request_is_dropped),
        cmocka_unit_test(modify__value_out_of_range__einval_and_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
