/* SPDX-License-Identifier: BSD-3-Clause */
/* test_window_wire.c - tests packets of SEND with invalidate, and memory windows when requests are
 * repeated. */
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

static struct uroce_mw *open_window(struct scene *s)
{
    struct uroce_mw *window;

    assert_int_equal(uroce_mw_create(s->pd, UROCE_MW_TYPE_2, &window), 0);
    return window;
}

/* Binds @window to the first @length bytes of the memory that the peer may access, under the key
 * @rkey. */
static void bind(struct scene *s, struct uroce_mw *window, uint32_t rkey, uint32_t length)
{
    const struct uroce_send request = { .wr_id = 70,
                                        .opcode = UROCE_BIND_MW,
                                        .flags = UROCE_SIGNALED,
                                        .remote_address = (uintptr_t)s->remote,
                                        .rkey = rkey,
                                        .mw = window,
                                        .mr = s->remote_mr,
                                        .bind_length = length,
                                        .bind_access = UROCE_ACCESS_REMOTE_WRITE };

    assert_int_equal(uroce_qp_send(s->qp, &request), 0);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 70, UROCE_SUCCESS);
}

static void rc_send_inv__of_several_packets__last_packet_has_the_key(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_SEND_WITH_INV, .text = "inv", .imm = 0x01020304));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_ONLY_INV", .psn = 10, .ack_req = true, .text = "inv",
                           .imm = ieth(0x01020304)));
    scene_fill(s->local, 0, 1500);
    scene_post_send(s, SEND(.id = 2, .op = UROCE_SEND_WITH_INV, .length = 1500, .imm = 0x99,
                            .flags = UROCE_SOLICITED));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 11, .length = 1024));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_LAST_INV", .psn = 12, .ack_req = true, .solicited = true,
                           .length = 476, .fill = 1024, .imm = ieth(0x99)));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 12, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

/* The first copy invalidated the window. The window was bound again, with the same key, before the
 * second copy arrived. */
static void rc_send_inv__repeated__keeps_a_window_bound_meanwhile(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);
    struct uroce_mw *window = open_window(s);
    const uint32_t rkey = uroce_mw_key(window) ^ 3;
    const struct scene_packet send = {
        .op = "RC_SEND_ONLY_INV", .psn = 100, .ack_req = true, .text = "x", .imm = ieth(rkey)
    };

    bind(s, window, rkey, 64);
    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, &send);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_expect_mark(s, "RSP.INVALIDATE");
    assert_false(uroce_mw_is_bound(window));

    bind(s, window, rkey, 64);
    scene_rx(s, 0, &send);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_mark(s, "RSP.DUP.SEND");
    assert_true(uroce_mw_is_bound(window));
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_ONLY", .psn = 101, .ack_req = true, .rkey = rkey, .dma = 2,
                    .text = "ok"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    assert_memory_equal(s->remote, "ok", 2);
    assert_int_equal(uroce_mw_destroy(window), 0);
    scene_close(s);
}

static void rc_send_inv__of_a_wrong_key__nak_and_receive_is_flushed(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 2048);
    memset((void *)(uintptr_t)scene_recv_memory(s, 0), 0, 2048);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_rx(s, 0,
             PACKET(.op = "RC_SEND_LAST_INV", .psn = 101, .ack_req = true, .length = 100,
                    .fill = 1024, .imm = ieth(uroce_mr_key(s->remote_mr))));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x62));
    scene_expect_recv(s, 1, UROCE_WR_FLUSH_ERR, 0);
    scene_assert_filled(scene_recv_memory(s, 0), 0, 1024);
    for (uint32_t i = 1024; i < 2048; i++)
        assert_int_equal(scene_recv_memory(s, 0)[i], 0);
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    scene_close(s);
}

static void expect_zeros(const struct scene *s, uint32_t from)
{
    for (uint32_t i = from; i < 1024; i++)
        assert_int_equal(s->remote[i], 0);
}

static void rc_write__longer_than_the_window__is_refused_at_the_first_packet(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .mtu = 256);
    struct uroce_mw *window = open_window(s);

    memset(s->remote, 0, 1024);
    bind(s, window, uroce_mw_key(window), 256);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_FIRST", .psn = 100, .ack_req = true,
                    .rkey = uroce_mw_key(window), .dma = 257, .length = 256));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62));
    expect_zeros(s, 0);
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    assert_int_equal(uroce_mw_destroy(window), 0);
    scene_close(s);
    assert_true(uro_mark_hit("RSP.WHOLE"));
}

static void rc_write__window_invalidated_between_packets__access_nak(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10, .mtu = 256);
    struct uroce_mw *window = open_window(s);

    memset(s->remote, 0, 1024);
    bind(s, window, uroce_mw_key(window), 512);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_FIRST", .psn = 100, .rkey = uroce_mw_key(window), .dma = 512,
                    .length = 256));
    scene_post_send(s, SEND(.id = 1, .op = UROCE_LOCAL_INV, .imm = uroce_mw_key(window)));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_rx(
        s, 0,
        PACKET(.op = "RC_WRITE_LAST", .psn = 101, .ack_req = true, .length = 256, .fill = 256));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x62));
    scene_assert_filled(s->remote, 0, 256);
    expect_zeros(s, 256);
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    assert_int_equal(uroce_mw_destroy(window), 0);
    scene_close(s);
}

static void local_inv__cq_full__queue_pair_fails(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .cq_capacity = 1);
    struct uroce_mw *window = open_window(s);

    bind(s, window, uroce_mw_key(window), 512);
    scene_post_send(s, SEND(.id = 1, .text = "x"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "x"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_post_send(s, SEND(.id = 2, .op = UROCE_LOCAL_INV, .imm = uroce_mw_key(window)));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_mark(s, "CQ.OVERRUN");
    scene_expect_event(s, UROCE_EVENT_CQ_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_FATAL);
    scene_expect_state(s, UROCE_ERR);
    assert_int_equal(uroce_mw_destroy(window), 0);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_send_inv__of_several_packets__last_packet_has_the_key),
        cmocka_unit_test(rc_send_inv__repeated__keeps_a_window_bound_meanwhile),
        cmocka_unit_test(rc_send_inv__of_a_wrong_key__nak_and_receive_is_flushed),
        cmocka_unit_test(rc_write__longer_than_the_window__is_refused_at_the_first_packet),
        cmocka_unit_test(rc_write__window_invalidated_between_packets__access_nak),
        cmocka_unit_test(local_inv__cq_full__queue_pair_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
