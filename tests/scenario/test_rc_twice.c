/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_twice.c - tests that Linux rxe gets the ACK for the end of a message of several packets
 * twice (decision 38).
 *
 * rxe may be retransmitting the message when that ACK arrives. One ACK moves rxe beyond the end of
 * the message without completing it; the second ACK completes it.
 */
#include <string.h>

#include "core/limits.h"
#include "scene.h"

#define SEND_BY_RXE(...)                                                                           \
    PACKET(.op = "RC_SEND_ONLY", .rxe = true, .ack_req = true, .text = "hi", .psn = __VA_ARGS__)
#define TURN (URO_ACK_DEFER + URO_US(2))

/* Delivers a message of two packets. @rxe: Linux rxe sends the message. The LAST packet requests an
 * ACK. */
static void rx_two(struct scene *s, const char *first, const char *last, uint32_t psn, bool rxe)
{
    scene_rx(s, 0, PACKET(.op = first, .rxe = rxe, .dma = 1034, .length = 1024, .psn = psn));
    scene_rx(s, 0, PACKET(.op = last, .rxe = rxe, .ack_req = true, .length = 10, .psn = psn + 1));
}

static void expect_acks(struct scene *s, uro_time at, uint32_t psn, uint32_t msn, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        scene_expect_tx(s, at, PACKET(.op = "RC_ACK", .psn = psn, .msn = msn));
    scene_expect_silence(s, at);
}

static void rc_twice__message_of_several_packets__rxe_gets_the_ack_twice(void **state)
{
    (void)state;
    for (uint32_t rxe = 0; rxe < 2; rxe++) {
        struct scene *s = scene_rc(.rq_psn = 100);

        scene_post_recv(s, 1, 2000);
        rx_two(s, "RC_SEND_FIRST", "RC_SEND_LAST", 100, rxe);
        expect_acks(s, 0, 101, 1, 1 + rxe);
        scene_expect_recv(s, 1, UROCE_SUCCESS, 1034);
        rx_two(s, "RC_WRITE_FIRST", "RC_WRITE_LAST", 102, rxe);
        expect_acks(s, 0, 103, 2, 1 + rxe);
        if (rxe)
            scene_expect_mark(s, "RSP.ACK.TWICE");
        scene_close(s);
    }
}

/* The ACK of FIRST is sent once, because it cannot confuse rxe. */
static void rc_twice__duplicate_of_several_packets__ack_of_the_last_is_sent_twice(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    rx_two(s, "RC_WRITE_FIRST", "RC_WRITE_LAST", 100, true);
    expect_acks(s, 0, 101, 1, 2);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_FIRST", .rxe = true, .dma = 1034, .length = 1024, .psn = 100));
    expect_acks(s, 0, 100, 1, 1);
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_LAST", .rxe = true, .length = 10, .psn = 101));
    expect_acks(s, 0, 101, 1, 2);
    scene_close(s);
}

/* One ACK acknowledges the message and the next request. The next request has one packet, so the
 * ACK is sent once. */
static void rc_twice__single_packet_request_follows__rxe_gets_one_ack(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 64);
    rx_two(s, "RC_WRITE_FIRST", "RC_WRITE_LAST", 100, true);
    scene_rx(s, 0, SEND_BY_RXE(102));
    expect_acks(s, 0, 102, 2, 1);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);
    scene_close(s);
}

static void rc_twice__duplicate_last_before_a_read__ack_is_sent_twice_later(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    rx_two(s, "RC_WRITE_FIRST", "RC_WRITE_LAST", 100, true);
    expect_acks(s, 0, 101, 1, 2);
    scene_fill(s->remote, 0, 2000);
    scene_rx(
        s, 0,
        PACKET(.op = "RC_READ_REQUEST", .rxe = true, .ack_req = true, .dma = 2000, .psn = 102));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 102, .msn = 2, .length = 1024));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 103, .msn = 2, .length = 976, .fill = 1024));
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_LAST", .rxe = true, .length = 10, .psn = 101));
    scene_expect_silence(s, TURN);
    expect_acks(s, 2 * TURN, 101, 2, 2);
    scene_close(s);
}

/* The message ends with a packet from the reorder buffer. Its ACK is sent twice, at once or
 * later. */
static void rc_twice__rxe_closes_a_gap_before_the_last__ack_is_sent_twice(void **state)
{
    (void)state;
    const uro_time nak_time = URO_REORDER_WAIT + URO_US(2);

    for (uint32_t late = 0; late < 2; late++) {
        struct scene *s = scene_rc(.rq_psn = 100, .reorder_buffer = 8);
        uro_time at = late ? nak_time : 0;
        scene_rx(
            s, 0,
            PACKET(.op = "RC_WRITE_FIRST", .rxe = true, .dma = 2058, .length = 1024, .psn = 100));
        scene_rx(
            s, 0,
            PACKET(.op = "RC_WRITE_LAST", .rxe = true, .ack_req = true, .length = 10, .psn = 102));
        if (late)
            scene_expect_tx(s, at, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x60));
        scene_rx(s, at, PACKET(.op = "RC_WRITE_MIDDLE", .rxe = true, .length = 1024, .psn = 101));
        if (late) {
            scene_expect_silence(s, at + URO_ACK_DEFER + URO_US(2));
            at += 2 * URO_ACK_DEFER + URO_US(4);
        }
        expect_acks(s, at, 102, 1, 2);
        scene_close(s);
    }
}

/* The ACK of the message is due before the ACK of the packets in the reorder buffer, which is
 * deferred. */
static void rc_twice__rxe_closes_a_gap_with_the_last__ack_is_sent_twice(void **state)
{
    (void)state;
    const uro_time nak_time = URO_REORDER_WAIT + URO_US(2);
    struct scene *s = scene_rc(.rq_psn = 100, .reorder_buffer = 8);

    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_FIRST", .rxe = true, .dma = 1034, .length = 1024, .psn = 100));
    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, SEND_BY_RXE(102));
    scene_expect_tx(s, nak_time, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x60));
    scene_rx(s, nak_time,
             PACKET(.op = "RC_WRITE_LAST", .rxe = true, .ack_req = true, .length = 10, .psn = 101));
    expect_acks(s, nak_time, 101, 2, 2);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);
    scene_rx(s, nak_time, SEND_BY_RXE(102));
    expect_acks(s, nak_time, 102, 2, 1);
    scene_close(s);
}

/* The response to a READ or an atomic acknowledges the requests before it, and cannot confuse rxe
 * at any time. */
static void rc_twice__atomic_response_follows_the_message__rxe_gets_no_ack(void **state)
{
    (void)state;
    for (uint32_t rxe = 0; rxe < 2; rxe++) {
        struct scene *s = scene_rc(.rq_psn = 100);
        uint64_t word = 7;

        memcpy(s->remote, &word, sizeof word);
        rx_two(s, "RC_WRITE_FIRST", "RC_WRITE_LAST", 100, rxe);
        memcpy(s->remote, &word, sizeof word);
        scene_rx(s, 0, PACKET(.op = "RC_FETCH_ADD", .rxe = rxe, .ack_req = true, .psn = 102));
        if (!rxe)
            scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
        scene_expect_tx(s, 0, PACKET(.op = "RC_ATOMIC_ACK", .psn = 102, .msn = 2, .original = 7));
        scene_expect_silence(s, 0);
        if (rxe)
            scene_expect_mark(s, "RSP.ACK.ANSWER");
        scene_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_twice__message_of_several_packets__rxe_gets_the_ack_twice),
        cmocka_unit_test(rc_twice__duplicate_of_several_packets__ack_of_the_last_is_sent_twice),
        cmocka_unit_test(rc_twice__single_packet_request_follows__rxe_gets_one_ack),
        cmocka_unit_test(rc_twice__duplicate_last_before_a_read__ack_is_sent_twice_later),
        cmocka_unit_test(rc_twice__rxe_closes_a_gap_before_the_last__ack_is_sent_twice),
        cmocka_unit_test(rc_twice__rxe_closes_a_gap_with_the_last__ack_is_sent_twice),
        cmocka_unit_test(rc_twice__atomic_response_follows_the_message__rxe_gets_no_ack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
