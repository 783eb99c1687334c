/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_limits.c - tests window, turns and rounds, which limit the work of a queue pair. */
#include <stdlib.h>
#include <string.h>

#include "scene.h"

static void post_sends(struct scene *s, uint64_t first_id, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        scene_post_send(s, SEND(.id = first_id + i, .text = "x"));
}

/* ---- window ------------------------------------------------------------- */

/* READ responses that arrived are no longer in flight, but they do not open the window for
 * requests. */
static void rc_window__half_of_a_read_response_received__nothing_more_is_sent(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .window = 2);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 4096, .rkey = 0x77,
                            .remote_address = 0x1000, .at = 4096));
    post_sends(s, 2, 4);
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 10, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 4096));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 14, .ack_req = true, .text = "x"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 15, .ack_req = true, .text = "x"));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 10, .msn = 1, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_MIDDLE", .psn = 11, .length = 1024));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_MIDDLE", .psn = 12, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 13, .msn = 1, .length = 1024));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 14, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 16, .ack_req = true, .text = "x"));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 16, .msn = 4));
    for (uint64_t id = 3; id <= 4; id++)
        scene_expect_sent(s, id, UROCE_SUCCESS);
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 17, .ack_req = true, .text = "x"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 17, .msn = 5));
    scene_expect_sent(s, 5, UROCE_SUCCESS);
    scene_close(s);
}

/* A window that fills up before a packet asks for an ACK would never be acknowledged. */
static void rc_window__smaller_than_the_ack_interval__last_packet_requests_an_ack(void **state)
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
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_MIDDLE", .psn = 12, .length = 1024, .fill = 2048));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_SEND_LAST", .psn = 13, .ack_req = true, .length = 1024, .fill = 3072));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 13, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

#define PIECE 16384u /* PSNs of one READ request, as in core/req.h */

/* Delivers the responses [first, end) of a READ in packets of 256 bytes. The first PSN of the READ
 * is 10. */
static void answer_read(struct scene *s, uint32_t first, uint32_t end, bool whole)
{
    for (uint32_t i = first; i < end; i++) {
        bool last = whole && i + 1 == end;
        const char *middle = last ? "RC_READ_RESPONSE_LAST" : "RC_READ_RESPONSE_MIDDLE";
        const char *begin = last ? "RC_READ_RESPONSE_ONLY" : "RC_READ_RESPONSE_FIRST";
        scene_rx(
            s, s->now - URO_MS(1),
            PACKET(.op = i == first ? begin : middle, .psn = 10 + i, .length = 256, .fill = i));
    }
}

/* A long READ is sent as several READ requests, with a limited number of responses each. Each
 * request counts as outstanding. After a loss a request is retransmitted up to its own end. */
static void rc_read__longer_than_one_request__is_requested_in_parts(void **state)
{
    (void)state;
    const uint32_t length = (PIECE + 2) * 256 - 6;
    const uro_time later = (UINT64_C(4096) << 14) + URO_US(2);
    struct scene *s = scene_rc(.sq_psn = 10, .mtu = 256, .depth = 1);
    uint8_t *sink = malloc(length);
    struct uroce_mr *mr;

    assert_non_null(sink);
    assert_int_equal(
        uroce_mr_create_at(s->pd, sink, length, (uintptr_t)s->local, UROCE_ACCESS_LOCAL_WRITE, &mr),
        0);
    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = length, .rkey = 0x77,
                            .remote_address = 0x1000, .lkey = uroce_mr_key(mr)));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 10, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = PIECE * 256));
    scene_expect_silence(s, 0);
    answer_read(s, 0, PIECE - 3, false);
    scene_expect_silence(s, 0);
    scene_expect_tx(s, later,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 10 + PIECE - 3, .ack_req = true,
                           .va = 0x1000 + (PIECE - 3) * 256, .rkey = 0x77, .dma = 3 * 256));
    scene_expect_silence(s, later);
    answer_read(s, PIECE - 3, PIECE, true);
    scene_expect_tx(s, later,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 10 + PIECE, .ack_req = true,
                           .va = 0x1000 + PIECE * 256, .rkey = 0x77, .dma = 506));
    scene_rx(
        s, later,
        PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 10 + PIECE, .length = 256, .fill = PIECE));
    scene_rx(
        s, later,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 11 + PIECE, .length = 250, .fill = PIECE + 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    for (uint32_t i = 0; i < PIECE + 2; i++)
        scene_assert_filled(sink + i * 256, i, i + 1 < PIECE + 2 ? 256 : 250);
    assert_int_equal(uroce_mr_destroy(mr), 0);
    free(sink);
    scene_close(s);
}

/* ---- turns -------------------------------------------------------------- */

/* The link takes one frame in a call. A long READ response must not block requests. */
static void schedule__long_response_on_a_slow_link__requests_are_sent_too(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);

    scene_fill(s->remote, 0, 3072);
    post_sends(s, 1, 2);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 3072));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .msn = 1, .length = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "x"));
    scene_expect_tx(
        s, 0, PACKET(.op = "RC_READ_RESPONSE_MIDDLE", .psn = 101, .length = 1024, .fill = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 11, .ack_req = true, .text = "x"));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 102, .msn = 1, .length = 1024, .fill = 2048));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

/* Lets time pass until the MAC address of the peer is no longer confirmed. */
static void lose_the_peer(struct scene *s)
{
    for (int i = 0; i < 1000; i++) {
        s->now += URO_MS(100);
        while (scene_burst(s, 1) > 0)
            ;
    }
}

/* Dropping packets for a lost next hop takes time, too. So a round drops a limited number of
 * packets. */
/* bug B09 */
static void schedule__long_response_to_a_lost_peer__is_dropped_in_bounded_rounds(void **state)
{
    (void)state; /* rule LIVE.BOUND */
    struct scene *s = scene_rc(.rq_psn = 100, .mtu = 256);
    uint64_t rounds = 0;

    lose_the_peer(s);
    scene_rx(s, s->now - URO_MS(1),
             PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = SCENE_MEMORY));
    while (scene_counter(s, "tx_no_neighbor") < SCENE_MEMORY / 256) {
        assert_true(uroce_engine_next(s->engine) <= s->now);
        uint64_t before = scene_counter(s, "tx_no_neighbor");
        assert_int_equal(scene_burst(s, 8), 0);
        assert_true(scene_counter(s, "tx_no_neighbor") - before <= 8);
        rounds++;
    }
    assert_int_equal(rounds, SCENE_MEMORY / 256 / 8);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_read__longer_than_one_request__is_requested_in_parts),
        cmocka_unit_test(rc_window__half_of_a_read_response_received__nothing_more_is_sent),
        cmocka_unit_test(rc_window__smaller_than_the_ack_interval__last_packet_requests_an_ack),
        cmocka_unit_test(schedule__long_response_on_a_slow_link__requests_are_sent_too),
        cmocka_unit_test(schedule__long_response_to_a_lost_peer__is_dropped_in_bounded_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
