/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_patch.c - tests that the requester retransmits only the missing packet if the peer keeps
 * the packets after a gap. */
#include "scene.h"

#define ONLY(number) PACKET(.op = "RC_SEND_ONLY", .psn = (number), .ack_req = true, .text = "a")
#define ACK(number)  PACKET(.op = "RC_ACK", .psn = (number))
#define NAK(number)  PACKET(.op = "RC_ACK", .psn = (number), .syndrome = 0x60)

static void send_many(struct scene *s, uint32_t from, uint32_t to)
{
    for (uint32_t psn = from; psn <= to; psn++)
        scene_post_send(s, SEND(.id = psn, .text = "a"));
    for (uint32_t psn = from; psn <= to; psn++)
        scene_expect_tx(s, 0, ONLY(psn));
}

static void expect_sent(struct scene *s, uint32_t from, uint32_t to)
{
    for (uint32_t psn = from; psn <= to; psn++)
        scene_expect_sent(s, psn, UROCE_SUCCESS);
}

/* Sends the PSNs 10 to 13, of which 10 is lost. After the retransmission of 10, the peer
 * acknowledges 13: it keeps packets behind a gap. */
static void learn(struct scene *s)
{
    send_many(s, 10, 13);
    scene_rx(s, 0, NAK(10));
    scene_expect_tx(s, 0, ONLY(10));
    scene_rx(s, 0, ACK(13));
    scene_expect_mark(s, "REQ.GAP.KEPT");
    expect_sent(s, 10, 13);
    scene_expect_silence(s, 0);
}

static struct scene *open_learned(void)
{
    struct scene *s = scene_rc(.sq_psn = 10);

    learn(s);
    return s;
}

static void rc_single__peer_has_a_reorder_buffer__one_retransmit_then_new_packets(void **state)
{
    (void)state;
    struct scene *s = open_learned();

    send_many(s, 14, 17);
    scene_rx(s, 0, NAK(15));
    expect_sent(s, 14, 14);
    scene_post_send(s, SEND(.id = 18, .text = "a"));
    scene_expect_tx(s, 0, ONLY(15));
    scene_expect_mark(s, "REQ.GAP.PATCH");
    scene_expect_tx(s, 0, ONLY(18));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, ACK(18));
    expect_sent(s, 15, 18);
    scene_close(s);
}

/* Packets inside a message ask for no ACK, but a retransmitted packet does. */
static void rc_single__inside_a_message__requests_an_ack(void **state)
{
    (void)state;
    struct scene *s = open_learned();

    scene_fill(s->local, 0, 3000);
    scene_post_send(s, SEND(.id = 1, .length = 3000));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 14, .length = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_MIDDLE", .psn = 15, .length = 1024, .fill = 1024));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_SEND_LAST", .psn = 16, .ack_req = true, .length = 952, .fill = 2048));
    scene_rx(s, 0, NAK(15));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_SEND_MIDDLE", .psn = 15, .ack_req = true, .length = 1024, .fill = 1024));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, ACK(16));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

static void rc_single__peer_has_no_reorder_buffer__goes_back_n(void **state)
{
    (void)state;
    struct scene *s = open_learned();

    send_many(s, 14, 17);
    scene_rx(s, 0, NAK(14));
    scene_expect_tx(s, 0, ONLY(14));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, NAK(15));
    expect_sent(s, 14, 14);
    scene_expect_mark(s, "REQ.GAP.PATCH.NOT");
    for (uint32_t psn = 15; psn <= 17; psn++)
        scene_expect_tx(s, 0, ONLY(psn));
    scene_rx(s, 0, ACK(17));
    expect_sent(s, 15, 17);

    send_many(s, 18, 19);
    scene_rx(s, 0, NAK(18));
    scene_expect_tx(s, 0, ONLY(18));
    scene_expect_tx(s, 0, ONLY(19));
    scene_rx(s, 0, ACK(19));
    expect_sent(s, 18, 19);
    scene_close(s);
}

/* A packet was late, and the ACK arrives before anything was retransmitted. This does not show that
 * the peer keeps packets. */
static void rc_single__packet_was_only_late__estimate_is_unchanged(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    send_many(s, 10, 12);
    scene_rx(s, 0, NAK(10));
    scene_rx(s, 0, ACK(10));
    expect_sent(s, 10, 10);
    scene_expect_tx(s, 0, ONLY(11));
    scene_expect_tx(s, 0, ONLY(12));
    scene_rx(s, 0, NAK(11));
    scene_expect_tx(s, 0, ONLY(11));
    scene_expect_tx(s, 0, ONLY(12));
    scene_rx(s, 0, ACK(12));
    expect_sent(s, 11, 12);
    scene_close(s);
}

static void rc_single__acknowledged_before_the_retransmit__continues_at_the_cursor(void **state)
{
    (void)state;
    struct scene *s = open_learned();

    send_many(s, 14, 17);
    scene_rx(s, 0, NAK(14));
    scene_rx(s, 0, ACK(15));
    expect_sent(s, 14, 15);
    scene_expect_silence(s, 0);
    scene_rx(s, 0, ACK(17));
    expect_sent(s, 16, 17);
    scene_close(s);
}

#define READ_15                                                                                    \
    PACKET(.op = "RC_READ_REQUEST", .psn = 15, .ack_req = true, .va = 0x1000, .rkey = 0x77,        \
           .dma = 8)

static void send_and_read(struct scene *s)
{
    scene_post_send(s, SEND(.id = 14, .text = "a"));
    scene_post_send(s, SEND(.id = 15, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0, ONLY(14));
    scene_expect_tx(s, 0, READ_15);
}

static void rc_single__read_is_outstanding__goes_back_n(void **state)
{
    (void)state;
    struct scene *s = open_learned();

    send_and_read(s);
    scene_rx(s, 0, NAK(14));
    scene_expect_tx(s, 0, ONLY(14));
    scene_expect_tx(s, 0, READ_15);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 15, .msn = 6, .length = 8));
    expect_sent(s, 14, 15);
    scene_close(s);
}

/* The requester has already gone back, and has not retransmitted the READ. So nothing is in flight
 * after the gap. Seed 216 of the simulator found this case. */
static void rc_single__no_later_packet_was_sent__is_retransmitted_once(void **state)
{
    (void)state;
    struct scene *s = open_learned();

    send_and_read(s);
    scene_rx(s, 0, NAK(14));
    scene_rx(s, 0, NAK(15));
    scene_expect_tx(s, 0, READ_15);
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 15, .msn = 6, .length = 8));
    expect_sent(s, 14, 15);
    scene_close(s);
}

/* The retransmitted packet is lost again without a NAK. It is retransmitted like any late packet
 * (test_rc_probe.c). */
static void rc_single__lost_again__probed_then_continues_at_the_cursor(void **state)
{
    (void)state;
    struct scene *s = open_learned();
    const uro_time later = URO_MS(2) + URO_US(2);

    send_many(s, 14, 16);
    scene_rx(s, 0, NAK(14));
    scene_expect_tx(s, 0, ONLY(14));
    scene_expect_silence(s, later - URO_US(5));
    scene_expect_tx(s, later, ONLY(14));
    scene_rx(s, later, ACK(16));
    expect_sent(s, 14, 16);
    scene_expect_silence(s, later);
    scene_close(s);
}

static void post_bind(struct scene *s, struct uroce_mw *window, uint64_t id)
{
    const struct uroce_send bind = { .wr_id = id,
                                     .opcode = UROCE_BIND_MW,
                                     .flags = UROCE_SIGNALED,
                                     .remote_address = (uintptr_t)s->remote,
                                     .rkey = uroce_mw_key(window) ^ 1,
                                     .mw = window,
                                     .mr = s->remote_mr,
                                     .bind_length = 8,
                                     .bind_access = UROCE_ACCESS_REMOTE_WRITE };

    assert_int_equal(uroce_qp_send(s->qp, &bind), 0);
}

/* The requester goes back to packets before a bind that was executed. The bind then completes with
 * the requests before it, and the requester does not resume at the bind. */
static void rc_single__local_request_at_the_cursor__is_not_repeated(void **state)
{
    (void)state;
    struct scene *s = open_learned();
    struct uroce_mw *window;
    const uro_time later = URO_US(20);

    assert_int_equal(uroce_mw_create(s->pd, UROCE_MW_TYPE_2, &window), 0);
    scene_post_send(s, SEND(.id = 14, .text = "a"));
    scene_post_send(s, SEND(.id = 15, .text = "a"));
    post_bind(s, window, 1);
    scene_post_send(s, SEND(.id = 16, .text = "a"));
    for (uint32_t psn = 14; psn <= 16; psn++)
        scene_expect_tx(s, 0, ONLY(psn));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 14, .syndrome = 0x20 | 1)); /* after 10 us */
    scene_expect_tx(s, later, ONLY(14));
    scene_expect_tx(s, later, ONLY(15));
    scene_rx(s, later, NAK(14));
    scene_rx(s, later, ACK(15));
    expect_sent(s, 14, 15);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_null(uroce_qp_problem(s->qp));
    scene_expect_tx(s, later, ONLY(16));
    scene_expect_silence(s, later);
    scene_rx(s, later, ACK(16));
    expect_sent(s, 16, 16);
    assert_int_equal(uroce_mw_destroy(window), 0);
    scene_close(s);
}

/* The peer sends an RNR NAK before the missing packet is retransmitted, and keeps no packets behind
 * the RNR NAK. */
static void rc_single__rnr_nak_meanwhile__goes_back_n(void **state)
{
    (void)state;
    struct scene *s = open_learned();
    const uro_time later = URO_US(20);

    send_many(s, 14, 16);
    scene_rx(s, 0, NAK(14));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 14, .syndrome = 0x20 | 1)); /* after 10 us */
    scene_expect_silence(s, URO_US(9));
    for (uint32_t psn = 14; psn <= 16; psn++)
        scene_expect_tx(s, later, ONLY(psn));
    scene_expect_silence(s, later);
    scene_rx(s, later, ACK(16));
    expect_sent(s, 14, 16);
    scene_close(s);
}

/* Without an ACK timeout, no probe asks for the remaining packets. */
static void rc_single__timeout_0__goes_back_n(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .timeout = 0);

    learn(s);
    send_many(s, 14, 16);
    scene_rx(s, 0, NAK(14));
    for (uint32_t psn = 14; psn <= 16; psn++)
        scene_expect_tx(s, 0, ONLY(psn));
    scene_rx(s, 0, ACK(16));
    expect_sent(s, 14, 16);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_single__peer_has_a_reorder_buffer__one_retransmit_then_new_packets),
        cmocka_unit_test(rc_single__inside_a_message__requests_an_ack),
        cmocka_unit_test(rc_single__peer_has_no_reorder_buffer__goes_back_n),
        cmocka_unit_test(rc_single__packet_was_only_late__estimate_is_unchanged),
        cmocka_unit_test(rc_single__acknowledged_before_the_retransmit__continues_at_the_cursor),
        cmocka_unit_test(rc_single__read_is_outstanding__goes_back_n),
        cmocka_unit_test(rc_single__no_later_packet_was_sent__is_retransmitted_once),
        cmocka_unit_test(rc_single__lost_again__probed_then_continues_at_the_cursor),
        cmocka_unit_test(rc_single__local_request_at_the_cursor__is_not_repeated),
        cmocka_unit_test(rc_single__rnr_nak_meanwhile__goes_back_n),
        cmocka_unit_test(rc_single__timeout_0__goes_back_n),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
