/* SPDX-License-Identifier: BSD-3-Clause */
/* test_congestion.c - tests that the receiver of ECN-marked packets sends CNPs, and that a sender
 * that receives CNPs reduces its window. */
#include "core/limits.h"
#include "scene.h"

#define ONLY(...) PACKET(.op = "RC_SEND_ONLY", .text = "a", .psn = __VA_ARGS__)
#define CNP       PACKET(.op = "CNP")

/* ---- marks of the network -------------------------------------------------- */

static void congestion__marked_requests__cnp_at_most_once_an_interval(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    for (uint32_t i = 0; i < 4; i++)
        scene_post_recv(s, i, 8);
    scene_rx(s, 0, ONLY(100, .ack_req = true, .ce = true));
    scene_expect_tx(s, 0, CNP);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_mark(s, "CNP.SEND");
    scene_rx(s, URO_CNP_EVERY - URO_US(1), ONLY(101, .ce = true));
    scene_expect_silence(s, URO_CNP_EVERY - URO_US(1));
    scene_rx(s, URO_CNP_EVERY, ONLY(102)); /* not marked */
    scene_expect_silence(s, URO_CNP_EVERY);
    scene_rx(s, URO_CNP_EVERY, ONLY(103, .ce = true));
    scene_expect_tx(s, URO_CNP_EVERY, CNP);
    for (uint32_t i = 0; i < 4; i++)
        scene_expect_recv(s, i, UROCE_SUCCESS, 1);
    assert_int_equal(scene_counter(s, "np_ecn_marked_roce_packets"), 3);
    assert_int_equal(scene_counter(s, "np_cnp_sent"), 2);
    scene_expect_silence(s, URO_MS(1));
    scene_close(s);
}

/* The data of a READ flows to this side, so the responder is the sender to slow down. */
static void congestion__marked_read_response__cnp_is_sent(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 7);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 7, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
    scene_rx(s, 0,
             PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 7, .msn = 1, .length = 8, .ce = true));
    scene_expect_tx(s, 0, CNP);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

static void congestion__marked_packet_of_uc__cnp_is_sent(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 100);

    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 100, .text = "a", .ce = true));
    scene_expect_tx(s, 0, CNP);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_close(s);
}

/* A datagram may come from any sender, so its mark is only counted. */
static void congestion__marked_datagram__is_counted_only(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "a", .ce = true));
    scene_expect_silence(s, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 41);
    assert_int_equal(scene_counter(s, "np_ecn_marked_roce_packets"), 1);
    scene_close(s);
}

/* Packets marked ECT, and CNPs that are marked, cause no CNP. */
static void congestion__unmarked_packet_or_marked_cnp__no_cnp(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 8);
    scene_post_recv(s, 2, 8);
    scene_rx(s, 0, ONLY(100, .ect = 1));
    scene_rx(s, 0, ONLY(101, .ect = 2));
    scene_rx(s, 0, PACKET(.op = "CNP", .ce = true));
    scene_expect_silence(s, 0);
    assert_int_equal(scene_counter(s, "np_ecn_marked_roce_packets"), 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 1);
    scene_close(s);
}

/* ---- CNPs of the peer ----------------------------------------------------- */

static uint32_t sent_while_it_goes(struct scene *s, uro_time at)
{
    uint8_t octets[9000];
    uint32_t count = 0;

    while (scene_output(s, at, octets) > 0)
        count++;
    return count;
}

static uint32_t send_many(struct scene *s, uro_time at)
{
    for (uint32_t i = 0; i < 20; i++)
        scene_post_send(s, SEND(.id = i, .text = "a", .quiet = true));
    return sent_while_it_goes(s, at);
}

static void congestion__cnp__window_is_halved_and_recovers_slowly(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 16, .mtu = 256);
    uint32_t flights[12], una = 16;

    scene_post_send(s, SEND(.id = 1, .length = 256 * 400));
    assert_int_equal(sent_while_it_goes(s, 0), 16);
    scene_rx(s, 0, CNP);
    scene_expect_mark(s, "CNP.OBEY");
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 7)); /* 8 packets are in flight */
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 15));
    for (unsigned round = 0; round < 12; round++) {
        flights[round] = sent_while_it_goes(s, 0);
        una += flights[round];
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = una - 1));
    }
    assert_in_range(flights[0], 8, 12);
    for (unsigned round = 1; round < 12; round++)
        assert_true(flights[round] >= flights[round - 1]);
    assert_int_equal(flights[11], 16);
    scene_expect_mark(s, "CNP.RECOVER");
    assert_int_equal(scene_counter(s, "rp_cnp_handled"), 1);
    (void)sent_while_it_goes(s, 0);
    scene_close(s);
}

/* ---- an ACK timeout --------------------------------------------------------- */

/* If the window kept its size, a slower peer would lose most of each full window. */
static void congestion__ack_timeouts__each_halves_the_window(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 64, .mtu = 256);
    const uro_time timeout = UINT64_C(4096) << 14;
    const uint32_t expected[] = { 32, 16, 8, URO_WINDOW_LEAST, URO_WINDOW_LEAST };
    uro_time now = 0;
    uint32_t end = 0;

    for (uint32_t i = 0; i < 5; i++)
        scene_post_send(s, SEND(.id = i, .length = 256 * 400, .quiet = true));
    assert_int_equal(sent_while_it_goes(s, 0), 64);
    for (size_t i = 0; i < URO_ARRAY_LEN(expected); i++) {
        now += timeout + URO_MS(1);
        assert_int_equal(sent_while_it_goes(s, now), expected[i]);
    }
    scene_expect_mark(s, "REQ.TIMEOUT.WINDOW");
    for (uint32_t round = 0, flight = URO_WINDOW_LEAST; round < 60; round++) {
        uint32_t before = flight;
        end += flight;
        scene_rx(s, now, PACKET(.op = "RC_ACK", .psn = end - 1));
        flight = sent_while_it_goes(s, now);
        assert_in_range(flight, before, before + 1);
    }
    assert_true(sent_while_it_goes(s, now) == 0);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

/* ---- repeated CNPs ------------------------------------------------- */

/* CNPs that arrive together, copies or forged, count as one CNP. */
static void congestion__many_cnps_at_once__count_as_one(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 16);

    for (int i = 0; i < 100; i++)
        scene_rx(s, 0, CNP);
    assert_int_equal(send_many(s, 0), 8);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

static void congestion__many_cnps_over_time__window_keeps_a_few_packets(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 256);
    uro_time now = 0;

    for (int i = 0; i < 200; i++, now += URO_CNP_EVERY)
        scene_rx(s, now, CNP);
    assert_int_equal(send_many(s, now), URO_WINDOW_LEAST);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

/* A reduction long after the previous reduction is small, and grows with the next CNP. */
static void congestion__cnp_after_a_long_time__reduces_the_window_little(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 16);
    const uro_time later = URO_MS(10);

    scene_rx(s, 0, CNP); /* the window is 8 now */
    scene_rx(s, later, CNP);
    assert_int_equal(send_many(s, later), 8);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);

    s = scene_rc(.sq_psn = 0, .window = 16);
    scene_rx(s, 0, CNP);
    for (uint32_t i = 0; i < 40; i++)
        scene_rx(s, later + i * URO_CNP_EVERY, CNP);
    assert_int_equal(send_many(s, URO_MS(12)), URO_WINDOW_LEAST);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

/* The window first grows half-way back to its size before the last reduction, and then beyond. */
static void congestion__two_cnps__window_is_full_again_in_the_end(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 16, .mtu = 256);
    uint32_t end = 0;

    scene_rx(s, 0, CNP);
    scene_rx(s, URO_CNP_EVERY, CNP);
    scene_post_send(s, SEND(.id = 1, .length = 256 * 500));
    for (uint32_t round = 0; round < 40; round++) {
        end += sent_while_it_goes(s, URO_CNP_EVERY);
        scene_rx(s, URO_CNP_EVERY, PACKET(.op = "RC_ACK", .psn = end - 1));
    }
    scene_expect_mark(s, "CNP.RECOVER");
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

/* Few packets inside a message request an ACK. The last packet that fits into the window must
 * request an ACK, or the transfer would stop. */
static void congestion__window_shrinks_in_a_message__next_packet_requests_ack(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 256, .mtu = 256);
    uint8_t octets[9000];

    scene_fill(s->local, 0, 256 * 200);
    scene_post_send(s, SEND(.id = 1, .length = 256 * 200));
    for (int i = 0; i < 40; i++) /* the 32nd packet requests an ACK */
        assert_true(scene_output(s, 0, octets) > 0);
    for (uro_time now = 0; now < URO_MS(2); now += URO_CNP_EVERY)
        scene_rx(s, now, CNP);
    scene_rx(s, URO_MS(2), PACKET(.op = "RC_ACK", .psn = 31));
    scene_expect_tx(s, URO_MS(2),
                    PACKET(.op = "RC_SEND_MIDDLE", .psn = 40, .ack_req = true, .length = 256,
                           .fill = 40 * 256));
    scene_expect_silence(s, URO_MS(2));
    scene_rx(s, URO_MS(2), PACKET(.op = "RC_ACK", .psn = 40));
    for (uint32_t i = 41; i < 41 + URO_WINDOW_LEAST; i++)
        scene_expect_tx(s, URO_MS(2),
                        PACKET(.op = "RC_SEND_MIDDLE", .psn = i, .length = 256, .fill = i * 256,
                               .ack_req = i == 40 + URO_WINDOW_LEAST));
    scene_expect_silence(s, URO_MS(2));
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

/* Sends 40 packets of a message. The 32nd packet requests an ACK and gets it. */
static struct scene *open_inside_a_message(uro_time answered)
{
    struct scene *s = scene_rc(.sq_psn = 0, .window = 256, .mtu = 256);
    uint8_t octets[9000];

    scene_fill(s->local, 0, 256 * 200);
    scene_post_send(s, SEND(.id = 1, .length = 256 * 200));
    for (int i = 0; i < 40; i++)
        assert_true(scene_output(s, 0, octets) > 0);
    scene_rx(s, answered, PACKET(.op = "RC_ACK", .psn = 31));
    return s;
}

static void expect_part(struct scene *s, uro_time now, uint32_t psn)
{
    scene_expect_tx(s, now,
                    PACKET(.op = "RC_SEND_MIDDLE", .psn = psn, .ack_req = true, .length = 256,
                           .fill = psn * 256));
}

/* No packet after the retransmitted packet requests an ACK, and the last of these packets are
 * lost. */
static void congestion__continues_after_a_probe__next_packet_requests_ack(void **state)
{
    (void)state;
    const uro_time late = URO_MS(2) + URO_US(20);
    struct scene *s = open_inside_a_message(URO_US(1));

    for (uro_time now = URO_US(1); now < URO_MS(2); now += URO_CNP_EVERY)
        scene_rx(s, now, CNP);
    expect_part(s, late, 32);
    scene_rx(s, late, PACKET(.op = "RC_ACK", .psn = 35));
    scene_expect_mark(s, "REQ.PROBE.LATE");
    expect_part(s, late, 40);
    scene_expect_silence(s, late);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

/* The same case with a peer that keeps the packets behind a gap. */
static void congestion__continues_after_a_single_retransmit__requests_ack(void **state)
{
    (void)state;
    uint8_t octets[9000];
    struct scene *s = open_inside_a_message(0);

    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 32, .syndrome = 0x60));
    assert_true(scene_output(s, 0, octets) > 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 39));
    scene_expect_mark(s, "REQ.GAP.KEPT");
    for (int i = 40; i < 50; i++)
        assert_true(scene_output(s, 0, octets) > 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 41, .syndrome = 0x60));
    expect_part(s, 0, 41);
    scene_expect_mark(s, "REQ.GAP.PATCH");
    for (uro_time now = 0; now < URO_MS(1); now += URO_CNP_EVERY)
        scene_rx(s, now, CNP);
    scene_rx(s, URO_MS(1), PACKET(.op = "RC_ACK", .psn = 45)); /* 46 .. 49 are lost */
    expect_part(s, URO_MS(1), 50);
    scene_expect_silence(s, URO_MS(1));
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

static const struct scene_send *add(uint64_t id)
{
    static struct scene_send send;

    send = *SEND(.id = id, .op = UROCE_FETCH_ADD, .length = 8, .rkey = 0x77,
                 .remote_address = 0x1000, .compare_add = 1, .quiet = true);
    return &send;
}

/* The responses of atomics acknowledge them as an ACK does. */
static void congestion__only_atomics__window_recovers(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 16, .depth = 16);
    uint32_t psn = 0, sent = 0;

    scene_rx(s, 0, CNP);
    for (uint32_t round = 0; round < 12; round++) {
        for (uint32_t i = 0; i < 16; i++)
            scene_post_send(s, add(i));
        for (uint32_t end = psn + 16; psn < end; psn += sent) {
            sent = sent_while_it_goes(s, 0);
            for (uint32_t i = 0; i < sent; i++)
                scene_rx(s, 0, PACKET(.op = "RC_ATOMIC_ACK", .psn = psn + i));
        }
    }
    scene_expect_mark(s, "CNP.RECOVER");
    scene_close(s);
}

/* READ responses in flight do not count against the window. So after a CNP, the recovery does not
 * wait for them. */
static void congestion__cnp_during_a_long_read__recovers_by_sent_packets(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 16, .mtu = 256);
    const uint32_t psns = 300;

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = psns * 256, .rkey = 0x77,
                            .remote_address = 0x1000));
    assert_int_equal(sent_while_it_goes(s, 0), 1);
    scene_rx(s, 0, CNP);
    for (uint32_t psn = 0; psn < psns; psn++)
        scene_rx(s, 0,
                 PACKET(.op = psn == 0          ? "RC_READ_RESPONSE_FIRST"
                              : psn == psns - 1 ? "RC_READ_RESPONSE_LAST"
                                                : "RC_READ_RESPONSE_MIDDLE",
                        .psn = psn, .length = 256));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_post_send(s, SEND(.id = 2, .length = 256 * 200));
    for (uint32_t end = psns, round = 0; round < 12; round++) {
        end += sent_while_it_goes(s, 0);
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = end - 1));
    }
    scene_expect_mark(s, "CNP.RECOVER");
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

static void congestion__cnp_of_another_host_or_to_an_rtr_or_ud_qp__is_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 16);

    scene_rx(s, 0, PACKET(.op = "CNP", .from = "10.0.0.3"));
    assert_int_equal(scene_counter(s, "drop_address"), 1);
    assert_int_equal(send_many(s, 0), 16);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);

    s = scene_rc(.sq_psn = 0, .stop_at = UROCE_RTR);
    scene_rx(s, 0, CNP);
    assert_int_equal(scene_counter(s, "drop_state"), 1);
    scene_close(s);

    s = scene_ud();
    scene_rx(s, 0, CNP);
    assert_int_equal(scene_counter(s, "drop_service"), 1);
    scene_close(s);
}

static void congestion__queue_pair_reset__window_is_full_again(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 0, .window = 16);

    scene_rx(s, 0, CNP);
    scene_to_state(s, UROCE_RESET);
    scene_connect(s, &(const struct scene_options){ .mtu = 1024,
                                                    .timeout = 14,
                                                    .retry_count = 7,
                                                    .depth = 4,
                                                    .dest_depth = 4,
                                                    .stop_at = UROCE_RTS });
    assert_int_equal(send_many(s, 0), 16);
    scene_to_state(s, UROCE_RESET);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(congestion__marked_requests__cnp_at_most_once_an_interval),
        cmocka_unit_test(congestion__marked_read_response__cnp_is_sent),
        cmocka_unit_test(congestion__marked_packet_of_uc__cnp_is_sent),
        cmocka_unit_test(congestion__marked_datagram__is_counted_only),
        cmocka_unit_test(congestion__unmarked_packet_or_marked_cnp__no_cnp),
        cmocka_unit_test(congestion__cnp_after_a_long_time__reduces_the_window_little),
        cmocka_unit_test(congestion__two_cnps__window_is_full_again_in_the_end),
        cmocka_unit_test(congestion__cnp__window_is_halved_and_recovers_slowly),
        cmocka_unit_test(congestion__ack_timeouts__each_halves_the_window),
        cmocka_unit_test(congestion__many_cnps_at_once__count_as_one),
        cmocka_unit_test(congestion__many_cnps_over_time__window_keeps_a_few_packets),
        cmocka_unit_test(congestion__window_shrinks_in_a_message__next_packet_requests_ack),
        cmocka_unit_test(congestion__continues_after_a_probe__next_packet_requests_ack),
        cmocka_unit_test(congestion__continues_after_a_single_retransmit__requests_ack),
        cmocka_unit_test(congestion__only_atomics__window_recovers),
        cmocka_unit_test(congestion__cnp_during_a_long_read__recovers_by_sent_packets),
        cmocka_unit_test(congestion__cnp_of_another_host_or_to_an_rtr_or_ud_qp__is_dropped),
        cmocka_unit_test(congestion__queue_pair_reset__window_is_full_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
