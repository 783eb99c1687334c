/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_ack_first.c - tests that an ACK is sent before the requests of its queue pair, and that
 * all ACKs of a round are in its first burst.
 *
 * When a program gets the reply to a request, it posts the next request. So the completion of the
 * request must arrive before the reply.
 */
#include "scene.h"

#define ROOM     32u
#define AT_BTH   (14u + 20u + 8u) /* offset of the BTH in a frame over IPv4 */
#define OP_ACK   0x11u
#define OP_SEND  0x04u
#define REQUESTS 40u /* more packets than a queue pair sends in a turn, or a port in a burst */

static uint8_t opcode_of(uint32_t index)
{
    return scene_burst_frame(index)[AT_BTH];
}

static void post_requests(struct scene *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        scene_post_send(s, SEND(.id = i, .text = "x", .quiet = true));
}

/* Delivers a message to each queue pair of the scene. All queue pairs also have requests to
 * send. */
static void receive_for_all(struct scene *s)
{
    for (uint32_t i = 0; i < s->qp_count; i++) {
        s->qp = s->qps[i].qp;
        scene_post_recv(s, i, 64);
        post_requests(s, REQUESTS);
        scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "a"));
    }
}

static void destroy_all(struct scene *s)
{
    for (uint32_t i = 1; i < s->qp_count; i++) {
        s->qp = s->qps[i].qp;
        scene_destroy_qp(s);
    }
    s->qp = s->qps[0].qp;
    scene_destroy_qp(s);
    scene_close(s);
}

static void rc_acks__several_queue_pairs__are_sent_before_all_requests(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);

    for (uint32_t i = 1; i < SCENE_QPS_MAX; i++)
        (void)scene_add(s, .rq_psn = 100, .sq_psn = 10);
    receive_for_all(s);
    assert_int_equal(scene_burst(s, ROOM), ROOM);
    for (uint32_t i = 0; i < SCENE_QPS_MAX; i++)
        assert_int_equal(opcode_of(i), OP_ACK);
    assert_int_equal(opcode_of(SCENE_QPS_MAX), OP_SEND);
    scene_expect_mark(s, "RSP.ACK.FIRST");
    for (uint32_t i = 0; i < SCENE_QPS_MAX; i++)
        scene_expect_recv(s, i, UROCE_SUCCESS, 1);
    destroy_all(s);
}

/* The transmit ring is so small that ACKs alone fill it. Requests of all queue pairs must still be
 * sent in turn, but none before the ACK of its queue pair. */
static void rc_acks__fill_the_link__requests_of_a_qp_follow_its_ack(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);

    for (uint32_t i = 1; i < SCENE_QPS_MAX; i++)
        (void)scene_add(s, .rq_psn = 100, .sq_psn = 10);
    receive_for_all(s);
    assert_int_equal(scene_burst(s, 1), 1);
    assert_int_equal(opcode_of(0), OP_ACK);
    /* The first queue pair gets another message, and is the first to send requests. */
    s->qp = s->qps[0].qp;
    scene_post_recv(s, 4, 64);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 101, .ack_req = true, .text = "a"));
    assert_int_equal(scene_burst(s, 3), 3);
    assert_int_equal(opcode_of(0), OP_ACK);
    assert_int_equal(opcode_of(1), OP_SEND);
    assert_int_equal(opcode_of(2), OP_SEND);
    scene_expect_mark(s, "RSP.ACK.OWN");
    for (uint32_t i = 0; i <= SCENE_QPS_MAX; i++)
        scene_expect_recv(s, i, UROCE_SUCCESS, 1);
    destroy_all(s);
}

/* The ACK covers the READ as well, so it waits for the READ data. Requests do not wait for the
 * data. */
static void rc_ack__behind_a_long_read__follows_the_data(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10, .mtu = 256);

    scene_post_recv(s, 1, 64);
    post_requests(s, REQUESTS);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 100 * 256));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 200, .ack_req = true, .text = "a"));
    assert_int_equal(scene_burst(s, ROOM), ROOM);
    for (uint32_t i = 0; i < ROOM; i++)
        assert_int_not_equal(opcode_of(i), OP_ACK);
    assert_int_equal(opcode_of(ROOM - 1), OP_SEND);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    destroy_all(s);
}

/* A program sees a receive completion after the driver has sent the ACK, not when the message
 * arrives. */
static void rc_receive__ack_not_sent_yet__has_no_completion(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);
    struct uroce_completion cqe;

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "a"));
    assert_int_equal(uroce_cq_poll(s->recv_cq, &cqe, 1), 0);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    assert_int_equal(uroce_cq_poll(s->recv_cq, &cqe, 1), 0);
    uroce_engine_deliver(s->engine);
    assert_int_equal(uroce_cq_poll(s->recv_cq, &cqe, 1), 1);
    scene_expect_mark(s, "CQ.DELIVER");
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_acks__several_queue_pairs__are_sent_before_all_requests),
        cmocka_unit_test(rc_acks__fill_the_link__requests_of_a_qp_follow_its_ack),
        cmocka_unit_test(rc_ack__behind_a_long_read__follows_the_data),
        cmocka_unit_test(rc_receive__ack_not_sent_yet__has_no_completion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
