/* SPDX-License-Identifier: BSD-3-Clause */
/* test_window_wire.c - SEND with invalidate in packets, and windows under repetition. */
#include <string.h>

#include "base/mark.h"
#include "scene.h"
#include "wire/bytes.h"

/* Returns a key in the byte order of IETH, for the imm of PACKET. */
static uint32_t ieth(uint32_t rkey)
{
    uint32_t octets;

    uro_put_be32((uint8_t *)&octets, rkey);
    return octets;
}

static struct uro_key open_window(struct scene *s)
{
    s->remote_key.access |= URO_ACCESS_MW_BIND;
    return (struct uro_key){ .kind = URO_KEY_WINDOW_2, .pd = 1 };
}

/* Binds @window to the first @length bytes of the memory that the peer may access, under the key
 * @rkey. */
static void bind(struct scene *s, const struct uro_key *window, uint32_t rkey, uint32_t length)
{
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(s->qp), 0);

    *wqe = (struct uro_wqe){ .wr_id = 70,
                             .opcode = URO_WR_BIND_MW,
                             .flags = URO_SEND_SIGNALED,
                             .remote_address = (uintptr_t)s->remote,
                             .window_length = length,
                             .imm = uro_key_number(window),
                             .rkey = rkey,
                             .bind = { .lkey = uro_key_number(&s->remote_key),
                                       .access = URO_ACCESS_REMOTE_WRITE } };
    uro_wq_publish(uro_qp_send_queue(s->qp), 1);
    uro_qp_ring(uro_engine_shard(s->engine), s->qp);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 70, URO_WC_SUCCESS);
}

/* rule RSP.INVALIDATE */
static void rc_send_inv__its_last_packet_has_the_key(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .op = URO_WR_SEND_WITH_INV, .text = "inv", .imm = 0x01020304));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_ONLY_INV", .psn = 10, .ack_req = true, .text = "inv",
                           .imm = ieth(0x01020304)));
    scene_fill(s->local, 0, 1500);
    scene_post_send(s, SEND(.id = 2, .op = URO_WR_SEND_WITH_INV, .length = 1500, .imm = 0x99,
                            .flags = URO_SEND_SOLICITED));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 11, .length = 1024));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_LAST_INV", .psn = 12, .ack_req = true, .solicited = true,
                           .length = 476, .fill = 1024, .imm = ieth(0x99)));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 12, .msn = 2));
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_expect_sent(s, 2, URO_WC_SUCCESS);
    scene_close(s);
}

/* The first copy invalidated the window. The window was bound again, with the same key, before the
 * second copy arrived. */
static void rc_send_inv__repeated__does_not_close_what_was_bound_since(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);
    struct uro_key window = open_window(s);
    uro_key_register(uro_engine_shard(s->engine), &window);
    const uint32_t rkey = uro_key_number(&window) ^ 3;
    const struct scene_packet send = {
        .op = "RC_SEND_ONLY_INV", .psn = 100, .ack_req = true, .text = "x", .imm = ieth(rkey)
    };

    bind(s, &window, rkey, 64);
    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, &send);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, URO_WC_SUCCESS, 1);
    scene_expect_mark(s, "RSP.INVALIDATE");
    assert_false(window.bound);

    bind(s, &window, rkey, 64);
    scene_rx(s, 0, &send);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_mark(s, "RSP.DUP.SEND");
    assert_true(window.bound);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_ONLY", .psn = 101, .ack_req = true, .rkey = rkey, .dma = 2,
                    .text = "ok"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    assert_memory_equal(s->remote, "ok", 2);
    uro_key_deregister(uro_engine_shard(s->engine), &window);
    scene_close(s);
}

static void rc_send_inv__of_a_key_that_cannot_be__nak_and_the_receive_is_flushed_untouched(
    void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 2048);
    memset((void *)(uintptr_t)scene_recv_memory(s, 0), 0, 2048);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_rx(s, 0,
             PACKET(.op = "RC_SEND_LAST_INV", .psn = 101, .ack_req = true, .length = 100,
                    .fill = 1024, .imm = ieth(uro_key_number(&s->remote_key))));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x62));
    scene_expect_recv(s, 1, URO_WC_WR_FLUSH_ERR, 0);
    scene_assert_filled(scene_recv_memory(s, 0), 0, 1024);
    for (uint32_t i = 1024; i < 2048; i++)
        assert_int_equal(scene_recv_memory(s, 0)[i], 0);
    scene_expect_event(s, URO_EVENT_QP_ACCESS_ERR);
    scene_close(s);
}

static void expect_zeros(const struct scene *s, uint32_t from)
{
    for (uint32_t i = from; i < 1024; i++)
        assert_int_equal(s->remote[i], 0);
}

static void rc_write__longer_than_the_window__is_refused_at_its_first_packet(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .mtu = 256);
    struct uro_key window = open_window(s);
    uro_key_register(uro_engine_shard(s->engine), &window);

    memset(s->remote, 0, 1024);
    bind(s, &window, uro_key_number(&window), 256);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_FIRST", .psn = 100, .ack_req = true,
                    .rkey = uro_key_number(&window), .dma = 257, .length = 256));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62));
    expect_zeros(s, 0);
    scene_expect_event(s, URO_EVENT_QP_ACCESS_ERR);
    uro_key_deregister(uro_engine_shard(s->engine), &window);
    scene_close(s);
    assert_true(uro_mark_hit("RSP.WHOLE"));
}

static void rc_write__window_closed_between_its_packets__stops_there(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10, .mtu = 256);
    struct uro_key window = open_window(s);
    uro_key_register(uro_engine_shard(s->engine), &window);

    memset(s->remote, 0, 1024);
    bind(s, &window, uro_key_number(&window), 512);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_FIRST", .psn = 100, .rkey = uro_key_number(&window), .dma = 512,
                    .length = 256));
    scene_post_send(s, SEND(.id = 1, .op = URO_WR_LOCAL_INV, .imm = uro_key_number(&window)));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_rx(
        s, 0,
        PACKET(.op = "RC_WRITE_LAST", .psn = 101, .ack_req = true, .length = 256, .fill = 256));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x62));
    scene_assert_filled(s->remote, 0, 256);
    expect_zeros(s, 256);
    scene_expect_event(s, URO_EVENT_QP_ACCESS_ERR);
    uro_key_deregister(uro_engine_shard(s->engine), &window);
    scene_close(s);
}

static void local_inv__finds_the_cq_full__the_queue_pair_ends(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .cq_capacity = 1);
    struct uro_key window = open_window(s);
    uro_key_register(uro_engine_shard(s->engine), &window);

    bind(s, &window, uro_key_number(&window), 512);
    scene_post_send(s, SEND(.id = 1, .text = "x"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "x"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_post_send(s, SEND(.id = 2, .op = URO_WR_LOCAL_INV, .imm = uro_key_number(&window)));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_expect_mark(s, "CQ.OVERRUN");
    scene_expect_event(s, URO_EVENT_CQ_ERR);
    scene_expect_event(s, URO_EVENT_QP_FATAL);
    scene_expect_state(s, URO_QPS_ERR);
    uro_key_deregister(uro_engine_shard(s->engine), &window);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_send_inv__its_last_packet_has_the_key),
        cmocka_unit_test(rc_send_inv__repeated__does_not_close_what_was_bound_since),
        cmocka_unit_test(
            rc_send_inv__of_a_key_that_cannot_be__nak_and_the_receive_is_flushed_untouched),
        cmocka_unit_test(rc_write__longer_than_the_window__is_refused_at_its_first_packet),
        cmocka_unit_test(rc_write__window_closed_between_its_packets__stops_there),
        cmocka_unit_test(local_inv__finds_the_cq_full__the_queue_pair_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
