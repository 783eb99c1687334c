/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_probe.c - tests that the requester probes for a very late response with one packet, long
 * before the ACK timeout, and without using up a retry. */
#include "scene.h"

#define RTT     URO_US(20)
#define TIMEOUT (UINT64_C(4096) << 14)
#define ASKED                                                                                      \
    (RTT + URO_MS(2) + URO_US(2)) /* time of the probe for packets that were sent at RTT */

/* Opens a queue pair that has measured the response time, and posts a message of the four packets
 * 11 .. 14. Its retry count is @retries. */
static struct scene *open_under_way(uint8_t retries)
{
    struct scene *s = scene_rc(.sq_psn = 10, .timeout = 14, .retry_count = retries);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_rx(s, RTT, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_fill(s->local, 0, 4096);
    scene_post_send(s, SEND(.id = 2, .length = 4096));
    return s;
}

static const char *const names[] = { "RC_SEND_FIRST", "RC_SEND_MIDDLE", "RC_SEND_MIDDLE",
                                     "RC_SEND_LAST" };

/* Expects the packets of the message from index @from on. */
static void expect_packets(struct scene *s, uro_time now, uint32_t from)
{
    for (uint32_t i = from; i < 4; i++)
        scene_expect_tx(s, now,
                        PACKET(.op = names[i], .psn = 11 + i, .ack_req = i == 3, .length = 1024,
                               .fill = i * 1024));
    scene_expect_silence(s, now);
}

static void expect_probe(struct scene *s, uro_time now, uint32_t i)
{
    scene_expect_silence(s, now - URO_US(5));
    scene_expect_tx(
        s, now,
        PACKET(.op = names[i], .psn = 11 + i, .ack_req = true, .length = 1024, .fill = i * 1024));
    scene_expect_silence(s, now);
    scene_expect_mark(s, "REQ.PROBE");
}

static void rc_probe__last_packet_lost__is_sent_again(void **state)
{
    (void)state;
    struct scene *s = open_under_way(0);

    expect_packets(s, RTT, 0);
    scene_rx(s, 2 * RTT, PACKET(.op = "RC_ACK", .psn = 13, .msn = 1));
    expect_probe(s, ASKED + RTT, 3);
    scene_rx(s, ASKED + 2 * RTT, PACKET(.op = "RC_ACK", .psn = 14, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

/* The responder sends only one NAK for a gap, so the second loss causes no NAK. */
static void rc_probe__lost_again__the_rest_follows_the_response(void **state)
{
    (void)state;
    struct scene *s = open_under_way(0);

    expect_packets(s, RTT, 0);
    scene_rx(s, RTT, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    expect_probe(s, ASKED, 0);
    scene_rx(s, ASKED + RTT, PACKET(.op = "RC_ACK", .psn = 11, .msn = 1));
    expect_packets(s, ASKED + RTT, 1);
    scene_rx(s, ASKED + 2 * RTT, PACKET(.op = "RC_ACK", .psn = 14, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

/* The peer was not scheduled. It has received all packets, and gets a second copy of one packet. */
static void rc_probe__response_was_only_late__nothing_is_retransmitted(void **state)
{
    (void)state;
    struct scene *s = open_under_way(0);

    expect_packets(s, RTT, 0);
    expect_probe(s, ASKED, 0);
    scene_rx(s, ASKED + RTT, PACKET(.op = "RC_ACK", .psn = 13, .msn = 1));
    scene_expect_mark(s, "REQ.PROBE.LATE");
    scene_expect_silence(s, ASKED + RTT);
    scene_rx(s, ASKED + RTT, PACKET(.op = "RC_ACK", .psn = 14, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void rc_probe__peer_gone__intervals_grow(void **state)
{
    (void)state;
    struct scene *s = open_under_way(1);
    uro_time now = RTT;

    expect_packets(s, now, 0);
    for (uint32_t i = 0; i < 5; i++) {
        now += (URO_MS(2) << i) + URO_US(2);
        expect_probe(s, now, 0);
    }
    scene_expect_silence(s, RTT + TIMEOUT - URO_US(2));
    scene_expect_state(s, UROCE_RTS);
    now = RTT + TIMEOUT + URO_US(2);
    expect_packets(s, now, 0); /* the only retry: probes do not count as retries */
    expect_probe(s, now + (URO_MS(2) << 5) + URO_US(2), 0);
    scene_expect_state(s, UROCE_RTS);
    scene_expect_silence(s, now + TIMEOUT + URO_US(2));
    scene_expect_sent(s, 2, UROCE_RETRY_EXC_ERR);
    scene_close(s);
}

static void rc_probe__read_response_lost__is_requested_again(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .timeout = 14);

    for (uint64_t id = 1; id <= 2; id++)
        scene_post_send(s, SEND(.id = id, .op = UROCE_RDMA_READ, .length = 2048, .rkey = 0x77,
                                .remote_address = 0x5000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 10, .ack_req = true, .va = 0x5000,
                           .rkey = 0x77, .dma = 2048));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 12, .ack_req = true, .va = 0x5000,
                           .rkey = 0x77, .dma = 2048));
    scene_rx(s, RTT, PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 10, .msn = 1, .length = 1024));
    scene_rx(s, RTT, PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 11, .msn = 1, .length = 1024));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_silence(s, ASKED - URO_US(5));
    scene_expect_tx(s, ASKED,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 12, .ack_req = true, .va = 0x5000,
                           .rkey = 0x77, .dma = 2048));
    scene_expect_silence(s, ASKED);
    scene_rx(s, ASKED, PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 12, .msn = 2, .length = 1024));
    scene_rx(s, ASKED, PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 13, .msn = 2, .length = 1024));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

#define READ(n)                                                                                    \
    PACKET(.op = "RC_READ_REQUEST", .psn = (n), .ack_req = true, .va = 0x5000, .rkey = 0x77,       \
           .dma = 2048)

static void post_read(struct scene *s, uint64_t id)
{
    scene_post_send(s, SEND(.id = id, .op = UROCE_RDMA_READ, .length = 2048, .rkey = 0x77,
                            .remote_address = 0x5000));
}

static void answer(struct scene *s, uro_time now, uint32_t psn)
{
    scene_rx(s, now, PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = psn, .msn = 1, .length = 1024));
    scene_rx(s, now,
             PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = psn + 1, .msn = 1, .length = 1024));
}

/* Measures the response time, then posts the READs 12, 14 and 16, which are as many as may be in
 * flight, and one more. */
static struct scene *open_reads(void)
{
    struct scene *s = scene_rc(.sq_psn = 10, .rq_psn = 100, .timeout = 14, .depth = 3);

    post_read(s, 1);
    scene_expect_tx(s, 0, READ(10));
    answer(s, RTT, 10);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    for (uint32_t i = 0; i < 3; i++) {
        post_read(s, 2 + i);
        scene_expect_tx(s, RTT, READ(12 + 2 * i));
    }
    post_read(s, 5);
    scene_expect_silence(s, ASKED - URO_US(5));
    return s;
}

static struct scene *open_reading(void)
{
    struct scene *s = open_reads();

    scene_expect_tx(s, ASKED, READ(12));
    scene_expect_mark(s, "REQ.PROBE.READ");
    scene_expect_silence(s, ASKED);
    return s;
}

static void rc_probe__reads_were_only_late__no_other_read_is_requested_again(void **state)
{
    (void)state;
    struct scene *s = open_reading();

    for (uint32_t i = 0; i < 3; i++) {
        answer(s, ASKED + RTT, 12 + 2 * i);
        scene_expect_sent(s, 2 + i, UROCE_SUCCESS);
        if (i == 0)
            scene_expect_tx(s, ASKED + RTT, READ(18)); /* this READ waited for max_rd_atomic */
    }
    answer(s, ASKED + RTT, 12); /* the duplicate request also gets a response */
    scene_expect_silence(s, ASKED + RTT);
    answer(s, ASKED + RTT, 18);
    scene_expect_sent(s, 5, UROCE_SUCCESS);
    scene_expect_silence(s, ASKED + TIMEOUT);
    scene_close(s);
}

/* The port has room for one packet, and sends a response of this side in it. */
static void rc_probe__read_answered_before_the_probe__no_probe(void **state)
{
    (void)state;
    struct scene *s = open_reads();

    scene_post_recv(s, 9, 8);
    scene_rx(s, ASKED, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "a"));
    scene_expect_tx(s, ASKED, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 9, UROCE_SUCCESS, 1);
    scene_expect_mark(s, "REQ.PROBE.READ");
    for (uint32_t i = 0; i < 3; i++) {
        answer(s, ASKED, 12 + 2 * i);
        scene_expect_sent(s, 2 + i, UROCE_SUCCESS);
        if (i == 0)
            scene_expect_tx(s, ASKED, READ(18));
        scene_expect_silence(s, ASKED);
    }
    answer(s, ASKED, 18);
    scene_expect_sent(s, 5, UROCE_SUCCESS);
    scene_close(s);
}

static void rc_probe__all_reads_lost__rest_is_requested_after_the_second(void **state)
{
    (void)state;
    struct scene *s = open_reading();
    const uro_time second =
        ASKED + RTT + URO_US(2310); /* the late response raises the average response time */

    answer(s, ASKED + RTT, 12);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_tx(s, ASKED + RTT, READ(18));
    scene_expect_silence(s, second - URO_US(15));
    scene_expect_tx(s, second, READ(14));
    scene_expect_silence(s, second);
    answer(s, second + RTT, 14);
    scene_expect_sent(s, 3, UROCE_SUCCESS);
    scene_expect_tx(s, second + RTT, READ(16));
    scene_expect_tx(s, second + RTT, READ(18));
    answer(s, second + RTT, 16);
    answer(s, second + RTT, 18);
    scene_expect_sent(s, 4, UROCE_SUCCESS);
    scene_expect_sent(s, 5, UROCE_SUCCESS);
    scene_close(s);
}

/* The SEND before the READ is probed. The READ stays outstanding and is counted correctly. */
static void rc_probe__send_before_a_read__both_complete(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .timeout = 14, .depth = 1);

    post_read(s, 1);
    scene_expect_tx(s, 0, READ(10));
    answer(s, RTT, 10);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_post_send(s, SEND(.id = 2, .text = "a"));
    scene_expect_tx(s, RTT, PACKET(.op = "RC_SEND_ONLY", .psn = 12, .ack_req = true, .text = "a"));
    post_read(s, 3);
    scene_expect_tx(s, RTT, READ(13));
    post_read(s, 4);
    scene_expect_silence(s, ASKED - URO_US(5));
    scene_expect_tx(s, ASKED,
                    PACKET(.op = "RC_SEND_ONLY", .psn = 12, .ack_req = true, .text = "a"));
    scene_expect_silence(s, ASKED);
    answer(s, ASKED + RTT, 13);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_sent(s, 3, UROCE_SUCCESS);
    scene_expect_tx(s, ASKED + RTT, READ(15));
    answer(s, ASKED + RTT, 15);
    scene_expect_sent(s, 4, UROCE_SUCCESS);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_probe__last_packet_lost__is_sent_again),
        cmocka_unit_test(rc_probe__lost_again__the_rest_follows_the_response),
        cmocka_unit_test(rc_probe__response_was_only_late__nothing_is_retransmitted),
        cmocka_unit_test(rc_probe__peer_gone__intervals_grow),
        cmocka_unit_test(rc_probe__read_response_lost__is_requested_again),
        cmocka_unit_test(rc_probe__reads_were_only_late__no_other_read_is_requested_again),
        cmocka_unit_test(rc_probe__read_answered_before_the_probe__no_probe),
        cmocka_unit_test(rc_probe__all_reads_lost__rest_is_requested_after_the_second),
        cmocka_unit_test(rc_probe__send_before_a_read__both_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
