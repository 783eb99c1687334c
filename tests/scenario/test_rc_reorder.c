/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_reorder.c - tests requests that arrive out of order: the reorder buffer keeps them,
 * executes them in order, or drops them. */
#include "core/limits.h"
#include "scene.h"

#define ONLY(...) PACKET(.op = "RC_SEND_ONLY", .text = "a", .psn = __VA_ARGS__)

static struct scene *open_with(uint32_t early, uint32_t receives)
{
    struct scene *s = scene_rc(.rq_psn = 100, .reorder_buffer = early);

    for (uint32_t i = 0; i < receives; i++)
        scene_post_recv(s, i, 8);
    return s;
}

static void expect_received(struct scene *s, uint64_t from, uint64_t to)
{
    for (uint64_t id = from; id <= to; id++)
        scene_expect_recv(s, id, UROCE_SUCCESS, 1);
}

static void rc_reorder__one_packet_was_overtaken__no_nak_and_all_are_executed(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 3);

    scene_rx(s, 0, ONLY(102, .ack_req = true));
    scene_rx(s, 0, ONLY(101));
    scene_expect_silence(s, 0);
    scene_expect_no_completion(s);
    scene_rx(s, 0, ONLY(100));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 102, .msn = 3));
    expect_received(s, 0, 2);
    scene_expect_mark(s, "RSP.EARLY");
    assert_int_equal(scene_counter(s, "early_request"), 2);
    scene_expect_silence(s, URO_MS(1));
    scene_close(s);
}

/* Each packet writes its own bytes, even if its receive buffer was reused meanwhile. */
static void rc_reorder__packets_of_a_write__reach_memory_in_order(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 0);

    scene_rx(
        s, 0,
        PACKET(.op = "RC_WRITE_LAST", .psn = 102, .ack_req = true, .length = 900, .fill = 2048));
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_MIDDLE", .psn = 101, .length = 1024, .fill = 1024));
    assert_memory_equal(s->remote + 1024, s->remote + 4096, 1924); /* the memory is unchanged */
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_FIRST", .psn = 100, .dma = 2948, .length = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 102, .msn = 1));
    scene_assert_filled(s->remote, 0, 2948);
    scene_close(s);
}

static void rc_reorder__gap_remains__one_nak_and_one_retransmit(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 3);

    scene_rx(s, 0, ONLY(101));
    scene_expect_silence(s, URO_REORDER_WAIT - URO_US(2));
    scene_expect_tx(s, URO_REORDER_WAIT + URO_US(2),
                    PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    scene_expect_mark(s, "RSP.EARLY.TOLD");
    assert_int_equal(scene_counter(s, "out_of_seq_request"), 1);
    scene_rx(s, URO_US(50), ONLY(102)); /* sent before the peer received the NAK */
    scene_expect_silence(s, URO_US(100));
    scene_rx(s, URO_US(100), ONLY(100));
    scene_expect_tx(
        s, URO_US(100),
        PACKET(.op = "RC_ACK", .psn = 102, .msn = 3)); /* although no request has ack_req */
    expect_received(s, 0, 2);
    scene_expect_silence(s, URO_MS(30));
    scene_close(s);
}

static void rc_reorder__second_gap__nak_after_a_separate_wait(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 4);

    scene_rx(s, 0, ONLY(101));
    scene_rx(s, 0, ONLY(103));
    scene_rx(s, URO_US(20), ONLY(100));
    scene_expect_tx(s, URO_US(20), PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    scene_expect_silence(s, URO_REORDER_WAIT + URO_US(2));
    scene_expect_tx(s, URO_REORDER_WAIT + URO_US(22),
                    PACKET(.op = "RC_ACK", .psn = 102, .syndrome = 0x60, .msn = 2));
    scene_rx(s, URO_US(60), ONLY(102));
    scene_expect_tx(s, URO_US(60), PACKET(.op = "RC_ACK", .psn = 103, .msn = 4));
    expect_received(s, 0, 3);
    scene_close(s);
}

static void rc_reorder__buffer_full__nak_at_once_and_again_in_order(void **state)
{
    (void)state;
    struct scene *s = open_with(2, 5);

    scene_rx(s, 0, ONLY(102));
    scene_rx(s, 0, ONLY(102)); /* a second copy needs no second entry */
    scene_rx(s, 0, ONLY(101));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, ONLY(104));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    scene_rx(s, 0, ONLY(103));
    scene_expect_silence(s, URO_MS(1)); /* the gap is reported only once */
    scene_rx(s, URO_MS(1), ONLY(100));
    scene_expect_tx(s, URO_MS(1), PACKET(.op = "RC_ACK", .psn = 103, .syndrome = 0x60, .msn = 3));
    scene_expect_mark(s, "RSP.EARLY.NEXT");
    expect_received(s, 0, 2);
    assert_int_equal(scene_counter(s, "early_request"), 2);
    /* the gap closes, and no other gap follows: ACKs are as usual */
    scene_rx(s, URO_MS(1), ONLY(103));
    scene_expect_silence(s, URO_MS(1));
    scene_rx(s, URO_MS(1), ONLY(104, .ack_req = true));
    scene_expect_tx(s, URO_MS(1), PACKET(.op = "RC_ACK", .psn = 104, .msn = 5));
    expect_received(s, 3, 4);
    scene_close(s);
}

/* The packets may have arrived in any order. */
static void rc_reorder__several_beyond_the_buffer__nak_after_the_gap_closed(void **state)
{
    (void)state;
    static const uint32_t orders[][2] = { { 105, 106 }, { 106, 105 } };

    for (size_t i = 0; i < URO_ARRAY_LEN(orders); i++) {
        struct scene *s = open_with(4, 7);

        scene_rx(s, 0, ONLY(101));
        scene_rx(s, 0, ONLY(104));
        scene_rx(s, 0, ONLY(orders[i][0]));
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
        scene_rx(s, 0, ONLY(orders[i][1]));
        scene_rx(s, URO_US(1), ONLY(100));
        scene_expect_tx(s, URO_US(1), PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
        scene_rx(s, URO_US(2), ONLY(105)); /* the second copy finds a free entry */
        scene_rx(s, URO_US(2), ONLY(102));
        scene_expect_silence(s, URO_US(2));
        scene_rx(s, URO_US(3), ONLY(103));
        scene_expect_tx(s, URO_US(3),
                        PACKET(.op = "RC_ACK", .psn = 106, .syndrome = 0x60, .msn = 6));
        scene_rx(s, URO_US(4), ONLY(106, .ack_req = true));
        scene_expect_tx(s, URO_US(4), PACKET(.op = "RC_ACK", .psn = 106, .msn = 7));
        expect_received(s, 0, 6);
        scene_close(s);
    }
}

/* Linux rxe goes back when it gets a NAK of a gap. If an ACK then covers the end of the message
 * that rxe retransmits, and that end is lost, rxe waits for ever. */
#define BY_RXE(...) PACKET(.op = "RC_SEND_ONLY", .rxe = true, .text = "a", .psn = __VA_ARGS__)

/* Delivers 101 and 102, which are kept. Expects a NAK of 100. */
static struct scene *rxe_after_nak(uro_time nak_time)
{
    struct scene *s = open_with(8, 6);

    scene_rx(s, 0, BY_RXE(101));
    scene_rx(s, 0, BY_RXE(102, .ack_req = true));
    scene_expect_tx(s, nak_time, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    return s;
}

static void rc_reorder__rxe_closes_a_gap__ack_only_up_to_its_retransmits(void **state)
{
    (void)state;
    const uro_time nak_time = URO_REORDER_WAIT + URO_US(2);
    for (int asks = 0; asks < 2; asks++) {
        struct scene *s = rxe_after_nak(nak_time);
        scene_rx(s, nak_time, BY_RXE(100, .ack_req = asks));
        if (asks)
            scene_expect_tx(s, nak_time, PACKET(.op = "RC_ACK", .psn = 100, .msn = 3));
        expect_received(s, 0, 2);
        scene_expect_silence(s, nak_time);
        for (uint32_t psn = 101; psn <= 102; psn++) {
            scene_rx(s, nak_time, BY_RXE(psn));
            scene_expect_tx(s, nak_time, PACKET(.op = "RC_ACK", .psn = psn, .msn = 3));
        }
        scene_expect_silence(s, URO_MS(20));
        scene_expect_silence(s, URO_MS(40));
        scene_expect_mark(s, "RSP.EARLY.BACK");
        scene_close(s);
    }
}

static void rc_reorder__rxe_closes_a_gap_and_stops__ack_is_sent_later(void **state)
{
    (void)state;
    const uro_time nak_time = URO_REORDER_WAIT + URO_US(2);
    struct scene *s = rxe_after_nak(nak_time);

    scene_rx(s, nak_time, BY_RXE(100));
    expect_received(s, 0, 2);
    scene_expect_silence(s, nak_time + URO_ACK_DEFER + URO_US(2));
    scene_expect_tx(s, nak_time + 2 * URO_ACK_DEFER + URO_US(4),
                    PACKET(.op = "RC_ACK", .psn = 102, .msn = 3));
    scene_close(s);
}

/* The second gap closes before a NAK of it leaves. rxe got a NAK of the first gap, and retransmits
 * all packets. */
static void rc_reorder__rxe_closes_two_gaps__ack_only_up_to_its_retransmits(void **state)
{
    (void)state;
    const uro_time nak_time = URO_REORDER_WAIT + URO_US(2);
    struct scene *s = open_with(8, 8);

    scene_rx(s, 0, BY_RXE(101));
    scene_rx(s, 0, BY_RXE(103, .ack_req = true));
    scene_expect_tx(s, nak_time, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    for (uint32_t psn = 100; psn <= 102; psn++) {
        scene_rx(s, nak_time, BY_RXE(psn));
        if (psn == 101)
            scene_expect_tx(s, nak_time, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
        else
            scene_expect_silence(s, nak_time);
    }
    expect_received(s, 0, 3);
    /* The next gap is a new gap: no NAK was sent for it. */
    scene_rx(s, nak_time, BY_RXE(105, .ack_req = true));
    scene_rx(s, nak_time, BY_RXE(104));
    scene_expect_tx(s, nak_time, PACKET(.op = "RC_ACK", .psn = 105, .msn = 6));
    expect_received(s, 4, 5);
    scene_expect_silence(s, URO_MS(20));
    scene_expect_silence(s, URO_MS(40));
    scene_close(s);
}

/* The port took no frame, so the NAK was not sent. It is no longer needed. */
static void rc_reorder__rxe_closes_a_gap_before_the_nak__all_are_acknowledged(void **state)
{
    (void)state;
    const uro_time later = URO_REORDER_WAIT + URO_US(2);
    struct scene *s = open_with(8, 3);

    scene_rx(s, 0, BY_RXE(101, .ack_req = true));
    s->now += later; /* no frame leaves */
    assert_int_equal(scene_burst(s, 0), 0);
    s->now -= later;
    scene_rx(s, later, BY_RXE(100));
    scene_expect_tx(s, later, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    expect_received(s, 0, 1);
    scene_close(s);
}

/* rxe does not go back if it got no NAK. */
static void rc_reorder__packet_of_rxe_was_overtaken__all_are_acknowledged(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 2);

    scene_rx(s, 0, BY_RXE(101, .ack_req = true));
    scene_rx(s, 0, BY_RXE(100));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    expect_received(s, 0, 1);
    scene_close(s);
}

static void rc_reorder__buffer_full_behind_an_abandoned_gap__is_dropped(void **state)
{
    (void)state;
    struct scene *s = open_with(4, 3);
    const uro_time later = URO_REORDER_WAIT + URO_REORDER_KEPT + URO_US(10);

    scene_rx(s, 0, ONLY(101));
    scene_rx(s, 0, ONLY(109));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    scene_expect_silence(s, URO_REORDER_WAIT + URO_US(2));
    scene_expect_silence(s, later);
    scene_expect_mark(s, "RSP.EARLY.FORGET");
    scene_rx(s, later, ONLY(100));
    scene_rx(s, later, ONLY(102));
    scene_rx(s, later, ONLY(101));
    scene_expect_tx(s, later, PACKET(.op = "RC_ACK", .psn = 102, .msn = 3));
    expect_received(s, 0, 2);
    scene_close(s);
}

static void rc_reorder__too_far_or_too_long__is_not_kept(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 0);

    scene_rx(s, 0, ONLY(109));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    scene_close(s);

    s = scene_rc(.rq_psn = 100, .reorder_buffer = 8, .link_mtu = 9000);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 101, .length = 4097));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    assert_int_equal(scene_counter(s, "early_request"), 0);
    scene_close(s);
}

static void rc_reorder__gap_never_closes__buffer_is_emptied(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 2);
    const uro_time later = URO_REORDER_WAIT + URO_REORDER_KEPT + URO_US(10);

    scene_rx(s, 0, ONLY(101));
    scene_expect_tx(s, URO_REORDER_WAIT + URO_US(2),
                    PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    scene_expect_silence(s, later);
    scene_expect_mark(s, "RSP.EARLY.FORGET");
    scene_rx(s, later, ONLY(100, .ack_req = true));
    scene_expect_tx(s, later, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    expect_received(s, 0, 0);
    scene_expect_no_completion(s);
    scene_close(s);
}

/* A READ uses the PSNs of its responses. A kept packet with such a PSN was invalid. */
static void rc_reorder__read_and_later_requests__are_answered_in_order(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 2);

    scene_fill(s->remote, 0, 2000);
    scene_rx(s, 0, ONLY(103));
    scene_rx(s, 0, ONLY(102)); /* inside the READ */
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 101, .dma = 2000));
    scene_rx(s, 0, ONLY(100));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 101, .msn = 3, .length = 1024));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 102, .msn = 3, .length = 976, .fill = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 103, .msn = 3));
    expect_received(s, 0, 1);
    scene_close(s);
}

static void rc_reorder__packet_within_the_psns_of_a_read__is_removed(void **state)
{
    (void)state;
    struct scene *s = open_with(1, 0);

    scene_fill(s->remote, 0, 2000);
    scene_rx(s, 0, ONLY(101));
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 2000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .msn = 1, .length = 1024));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 101, .msn = 1, .length = 976, .fill = 1024));
    scene_rx(s, 0, ONLY(103));
    scene_expect_silence(s, 0);
    assert_int_equal(scene_counter(s, "early_request"), 2);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

/* The completion finds no free entry, so the message is not acknowledged. */
static void rc_reorder__buffered_packet_overflows_the_cq__is_not_acknowledged(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .reorder_buffer = 8, .cq_capacity = 1);

    scene_post_recv(s, 0, 8);
    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, ONLY(101, .ack_req = true));
    scene_rx(s, 0, ONLY(109)); /* too far ahead for the buffer; no NAK requests this packet */
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x60));
    scene_rx(s, 0, ONLY(100));
    scene_expect_silence(s, 0);
    scene_expect_mark(s, "CQ.OVERRUN");
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_CQ_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_FATAL);
    expect_received(s, 0, 0);
    scene_close(s);
}

static void rc_reorder__buffered_packet_is_refused__later_packets_are_dropped(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 1);

    scene_rx(s, 0, ONLY(102));
    scene_rx(s, 0, ONLY(101)); /* no receive is left for this packet */
    scene_rx(s, 0, ONLY(100));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x20 | 12, .msn = 1));
    expect_received(s, 0, 0);
    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, ONLY(102)); /* is dropped, because the peer has not retransmitted 101 yet */
    scene_rx(s, 0, ONLY(101, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    expect_received(s, 1, 1);
    scene_expect_no_completion(s);
    scene_close(s);
}

static void rc_reorder__buffered_packet_has_a_wrong_key__fails_in_order(void **state)
{
    (void)state;
    struct scene *s = open_with(8, 1);

    scene_rx(s, 0, ONLY(102));
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_ONLY", .psn = 101, .rkey = 0x77, .dma = 1, .text = "b"));
    scene_rx(s, 0, ONLY(100));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x62, .msn = 1));
    expect_received(s, 0, 0);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    scene_close(s);
}

/* The buffer has one entry. A packet that finds no free entry causes a NAK at once. */
static void expect_kept(struct scene *s, struct uroce_qp *qp)
{
    s->qp = qp;
    scene_rx(s, 0, ONLY(101));
    scene_expect_silence(s, 0);
}

static void start_anew(struct scene *s, struct uroce_qp *qp)
{
    s->qp = qp;
    scene_connect(s, &(const struct scene_options){ .mtu = 1024,
                                                    .timeout = 14,
                                                    .rq_psn = 100,
                                                    .depth = 4,
                                                    .dest_depth = 4,
                                                    .access = 0xe,
                                                    .stop_at = UROCE_RTS });
}

static void rc_reorder__queue_pair_fails_resets_or_ends__its_slots_are_free(void **state)
{
    (void)state;
    struct scene *s = open_with(1, 0);
    struct uroce_qp *first = s->qp;
    struct uroce_qp *second = scene_add(s, .rq_psn = 100);

    expect_kept(s, first);
    scene_to_state(s, UROCE_ERR);
    expect_kept(s, second);
    s->qp = first;
    scene_to_state(s, UROCE_RESET);
    start_anew(s, first);
    s->qp = second;
    scene_to_state(s, UROCE_RESET);
    expect_kept(s, first);
    start_anew(s, second);
    s->qp = first;
    scene_destroy_qp(s);
    expect_kept(s, second);
    assert_int_equal(scene_counter(s, "early_request"), 4);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_reorder__one_packet_was_overtaken__no_nak_and_all_are_executed),
        cmocka_unit_test(rc_reorder__packets_of_a_write__reach_memory_in_order),
        cmocka_unit_test(rc_reorder__gap_remains__one_nak_and_one_retransmit),
        cmocka_unit_test(rc_reorder__second_gap__nak_after_a_separate_wait),
        cmocka_unit_test(rc_reorder__buffer_full__nak_at_once_and_again_in_order),
        cmocka_unit_test(rc_reorder__several_beyond_the_buffer__nak_after_the_gap_closed),
        cmocka_unit_test(rc_reorder__rxe_closes_a_gap__ack_only_up_to_its_retransmits),
        cmocka_unit_test(rc_reorder__rxe_closes_a_gap_and_stops__ack_is_sent_later),
        cmocka_unit_test(rc_reorder__rxe_closes_two_gaps__ack_only_up_to_its_retransmits),
        cmocka_unit_test(rc_reorder__rxe_closes_a_gap_before_the_nak__all_are_acknowledged),
        cmocka_unit_test(rc_reorder__packet_of_rxe_was_overtaken__all_are_acknowledged),
        cmocka_unit_test(rc_reorder__buffer_full_behind_an_abandoned_gap__is_dropped),
        cmocka_unit_test(rc_reorder__too_far_or_too_long__is_not_kept),
        cmocka_unit_test(rc_reorder__gap_never_closes__buffer_is_emptied),
        cmocka_unit_test(rc_reorder__read_and_later_requests__are_answered_in_order),
        cmocka_unit_test(rc_reorder__packet_within_the_psns_of_a_read__is_removed),
        cmocka_unit_test(rc_reorder__buffered_packet_overflows_the_cq__is_not_acknowledged),
        cmocka_unit_test(rc_reorder__buffered_packet_is_refused__later_packets_are_dropped),
        cmocka_unit_test(rc_reorder__buffered_packet_has_a_wrong_key__fails_in_order),
        cmocka_unit_test(rc_reorder__queue_pair_fails_resets_or_ends__its_slots_are_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
