/* SPDX-License-Identifier: BSD-3-Clause */
/* test_xrc.c - tests the target side of XRC, where each request has the number of its SRQ. */
#include <stdlib.h>
#include <string.h>

#include "base/mark.h"
#include "scene.h"

/* A second SRQ in addition to the scene's SRQ, with its own CQ and its own receive. */
struct second {
    struct uroce_srq *srq;
    struct uroce_cq *cq;
};

static void open_second(struct scene *s, struct second *second, struct uroce_pd *pd,
                        struct uroce_xrcd *xrcd)
{
    assert_int_equal(uroce_cq_create(s->engine, 8, NULL, &second->cq), 0);
    const struct uroce_srq_config config = { .size = sizeof config,
                                             .capacity = 8,
                                             .sge_max = 1,
                                             .xrcd = xrcd,
                                             .cq = second->cq,
                                             .user = second };
    assert_int_equal(uroce_srq_create(pd, &config, &second->srq), 0);
}

static void post_second(struct second *second, uint64_t id, const void *at,
                        const struct uroce_mr *mr)
{
    const struct uroce_sge sge = { (uintptr_t)at, 4096, uroce_mr_key(mr) };

    assert_int_equal(uroce_srq_receive(second->srq, id, &sge, 1), 0);
}

static void close_second(struct second *second)
{
    assert_int_equal(uroce_srq_destroy(second->srq), 0);
    assert_int_equal(uroce_cq_destroy(second->cq), 0);
}

/* ---- operations --------------------------------------------------------- */

static void xrc_send__one_packet_and_several__complete_on_the_cq_of_the_srq(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);

    scene_post_recv(s, 1, 64);
    scene_post_recv(s, 2, 4096);
    scene_rx(
        s, 0,
        PACKET(.op = "XRC_SEND_ONLY_IMM", .psn = 100, .text = "hi", .imm = 5, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2); /* the queue pair itself has no CQ */
    assert_int_equal(scene_last()->qpn, uroce_qp_number(s->qp));
    assert_int_equal(scene_last()->imm, 5);
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_FIRST", .psn = 101, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_MIDDLE", .psn = 102, .length = 1024, .fill = 1024));
    scene_rx(s, 0,
             PACKET(.op = "XRC_SEND_LAST", .psn = 103, .length = 3, .fill = 2048, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 103, .msn = 2));
    scene_expect_recv(s, 2, UROCE_SUCCESS, 2051);
    scene_assert_filled(scene_recv_memory(s, 64), 0, 2051);
    scene_close(s);
}

static void xrc_write__with_and_without_immediate__uses_the_pd_of_the_srq(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);

    scene_rx(s, 0, PACKET(.op = "XRC_WRITE_FIRST", .psn = 100, .dma = 1030, .length = 1024));
    scene_rx(
        s, 0,
        PACKET(.op = "XRC_WRITE_LAST", .psn = 101, .length = 6, .fill = 1024, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 101, .msn = 1));
    scene_assert_filled(s->remote, 0, 1030);
    scene_rx(s, 0, PACKET(.op = "XRC_WRITE_ONLY_IMM", .psn = 102, .imm = 9, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 102, .syndrome = 0x2c, .msn = 1));
    scene_post_recv(s, 1, 0);
    scene_rx(s, 0, PACKET(.op = "XRC_WRITE_ONLY_IMM", .psn = 102, .imm = 9, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 102, .msn = 2));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 0);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_RECV_RDMA_WITH_IMM);
    scene_close(s);
}

static void xrc_read__repeated__both_responses_have_no_xrceth(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);
    const struct scene_packet *read = PACKET(.op = "XRC_READ_REQUEST", .psn = 100, .dma = 1030);

    scene_fill(s->remote, 0, 1030);
    for (int times = 0; times < 2; times++) {
        scene_rx(s, 0, read);
        scene_expect_tx(
            s, 0, PACKET(.op = "XRC_READ_RESPONSE_FIRST", .psn = 100, .length = 1024, .msn = 1));
        scene_expect_tx(s, 0,
                        PACKET(.op = "XRC_READ_RESPONSE_LAST", .psn = 101, .length = 6,
                               .fill = 1024, .msn = 1));
    }
    scene_expect_mark(s, "RSP.DUP.READ");
    scene_close(s);
}

static void xrc_atomics__repeated__executed_once_and_the_response_is_sent_again(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);
    uint64_t value = 40;

    memcpy(s->remote, &value, 8);
    for (int times = 0; times < 2; times++) {
        scene_rx(s, 0, PACKET(.op = "XRC_FETCH_ADD", .psn = 100, .swap_add = 2));
        scene_expect_tx(s, 0, PACKET(.op = "XRC_ATOMIC_ACK", .psn = 100, .original = 40, .msn = 1));
    }
    scene_rx(s, 0, PACKET(.op = "XRC_CMP_SWAP", .psn = 101, .compare = 42, .swap_add = 7));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ATOMIC_ACK", .psn = 101, .original = 42, .msn = 2));
    memcpy(&value, s->remote, 8);
    assert_int_equal(value, 7);
    scene_expect_mark(s, "RSP.DUP.ATOMIC");
    scene_close(s);
}

static void xrc__flush_and_atomic_write__get_empty_read_responses(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100, .access = 0x10e);
    struct uroce_mr *mr;

    assert_int_equal(uroce_mr_create(s->pd, s->remote, 4096, 0x10f, &mr), 0);
    const uint32_t rkey = uroce_mr_key(mr);
    for (int times = 0; times < 2; times++) {
        scene_rx(s, 0,
                 PACKET(.op = "XRC_ATOMIC_WRITE", .psn = 100, .rkey = rkey, .dma = 8, .length = 8,
                        .fill = times ? 77 : 5));
        scene_expect_tx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1));
        scene_assert_filled(s->remote, 5, 8); /* executed once */
    }
    scene_rx(s, 0, PACKET(.op = "XRC_FLUSH", .psn = 101, .rkey = rkey, .dma = 8, .placement = 1));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 101, .msn = 2));
    assert_int_equal(uroce_mr_destroy(mr), 0);
    scene_close(s);
}

static void xrc_send__repeated__acknowledged_and_not_delivered_again(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);

    scene_post_recv(s, 1, 64);
    scene_post_recv(s, 2, 64);
    for (int times = 0; times < 2; times++) {
        scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 100, .text = "hi", .ack_req = true));
        scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .msn = 1));
    }
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);
    scene_expect_mark(s, "RSP.DUP.SEND");
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 103, .text = "gap", .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 101, .syndrome = 0x60, .msn = 1));
    scene_close(s);
}

static void xrc_send__queue_empty__rnr_nak_and_then_served(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100, .min_rnr_timer = 1);

    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 100, .text = "hi", .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .syndrome = 0x21));
    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 100, .text = "hi", .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);
    scene_close(s);
}

/* ---- which queue -------------------------------------------------------- */

static void xrc__two_srqs_of_the_domain__each_packet_selects_one(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);
    struct uroce_pd *pd;
    struct uroce_mr *mr;
    struct second second;
    struct uroce_completion cqe;

    assert_int_equal(uroce_pd_create(s->engine, &pd), 0);
    assert_int_equal(uroce_mr_create(pd, s->remote, 8192, 0xf, &mr), 0);
    open_second(s, &second, pd, s->xrcd);
    scene_post_recv(s, 1, 64);
    post_second(&second, 2, s->remote, mr);
    const uint32_t number = uroce_srq_number(second.srq);
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 100, .text = "there", .srqn = number));
    scene_expect_no_completion(s);
    assert_int_equal(uroce_engine_deliver(s->engine), 0);
    assert_int_equal(uroce_cq_poll(second.cq, &cqe, 1), 1);
    assert_int_equal(cqe.wr_id, 2);
    assert_int_equal(cqe.qpn, uroce_qp_number(s->qp));
    assert_memory_equal(s->remote, "there", 5);
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 101, .text = "here"));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    /* This key is of the second SRQ's protection domain, so it is valid only with that SRQ. */
    scene_rx(s, 0,
             PACKET(.op = "XRC_WRITE_ONLY", .psn = 102, .srqn = number, .dma = 4, .length = 4,
                    .fill = 9, .rkey = uroce_mr_key(mr), .va = (uintptr_t)s->remote + 4096));
    scene_assert_filled(s->remote + 4096, 9, 4);
    scene_rx(s, 0,
             PACKET(.op = "XRC_WRITE_ONLY", .psn = 103, .dma = 4, .length = 4,
                    .rkey = uroce_mr_key(mr), .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 103, .syndrome = 0x62, .msn = 3));
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    scene_expect_state(s, UROCE_ERR);
    close_second(&second);
    assert_int_equal(uroce_mr_destroy(mr), 0);
    assert_int_equal(uroce_pd_destroy(pd), 0);
    scene_close(s);
    assert_true(uro_mark_hit("XRC.SRQ"));
}

static void refused(struct scene *s, uint32_t srqn)
{
    scene_post_recv(s, 1, 64);
    scene_rx(s, 0,
             PACKET(.op = "XRC_SEND_ONLY", .psn = 100, .text = "x", .srqn = srqn, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .syndrome = 0x61));
    scene_expect_event(s, UROCE_EVENT_QP_REQ_ERR);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_mark(s, "XRC.NO.SRQ");
    scene_expect_no_completion(s); /* the SRQ is shared: its receives are not flushed */
    assert_int_equal(uroce_srq_waiting(s->srq), 1);
}

static void xrc__queue_that_does_not_exist__invalid_request(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);

    refused(s, uroce_srq_number(s->srq) ^ 1);
    scene_close(s);
}

static void xrc__queue_of_another_domain__invalid_request(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);
    struct uroce_xrcd *other;
    struct second second;

    assert_int_equal(uroce_xrcd_create(s->engine, &other), 0);
    open_second(s, &second, s->pd, other);
    post_second(&second, 2, s->local, s->local_mr);
    refused(s, uroce_srq_number(second.srq));
    assert_int_equal(uroce_srq_waiting(second.srq), 1);
    close_second(&second);
    assert_int_equal(uroce_xrcd_destroy(other), 0);
    scene_close(s);
}

/* The other packets of the message may name the destroyed SRQ or, wrongly, an existing SRQ. */
static void xrc__srq_destroyed_in_a_message__invalid_request(void **state)
{
    (void)state;
    for (int there = 0; there < 2; there++) {
        struct scene *s = scene_xrc_tgt(.rq_psn = 100);
        struct second second;
        struct uroce_completion cqe;

        open_second(s, &second, s->pd, s->xrcd);
        post_second(&second, 2, s->local, s->local_mr);
        scene_post_recv(s, 3, 64);
        const uint32_t number = uroce_srq_number(second.srq);
        scene_rx(s, 0, PACKET(.op = "XRC_SEND_FIRST", .psn = 100, .srqn = number, .length = 1024));
        assert_int_equal(uroce_srq_destroy(second.srq), 0);
        scene_rx(s, 0,
                 PACKET(.op = "XRC_SEND_LAST", .psn = 101, .srqn = there ? 0 : number, .text = "x",
                        .ack_req = true));
        scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 101, .syndrome = 0x61));
        scene_expect_state(s, UROCE_ERR);
        scene_expect_no_completion(s);
        assert_int_equal(uroce_engine_deliver(s->engine), 0);
        assert_int_equal(uroce_cq_poll(second.cq, &cqe, 1), 0);
        assert_int_equal(uroce_cq_destroy(second.cq), 0);
        scene_close(s);
    }
}

/* A WRITE takes no receive, but its packets name an SRQ. */
static void xrc__srq_destroyed_in_a_write__invalid_request(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);
    struct second second;

    open_second(s, &second, s->pd, s->xrcd);
    const uint32_t number = uroce_srq_number(second.srq);
    scene_rx(
        s, 0,
        PACKET(.op = "XRC_WRITE_FIRST", .psn = 100, .srqn = number, .length = 1024, .dma = 1025));
    close_second(&second);
    scene_rx(
        s, 0,
        PACKET(.op = "XRC_WRITE_LAST", .psn = 101, .srqn = number, .length = 1, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 101, .syndrome = 0x61));
    scene_close(s);
}

/* ---- refused ------------------------------------------------------------ */

static void xrc_send__longer_than_the_receive__receive_and_qp_fail(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);

    scene_post_recv(s, 1, 1);
    scene_post_recv(s, 2, 64);
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 100, .text = "hi", .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .syndrome = 0x61));
    scene_expect_recv(s, 1, UROCE_LOC_LEN_ERR, 0);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_no_completion(s);
    scene_close(s);
}

static void xrc__to_error_in_a_message__receive_is_flushed_to_the_srq_cq(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);

    scene_post_recv(s, 1, 4096);
    scene_post_recv(s, 2, 64);
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_to_state(s, UROCE_ERR);
    scene_expect_recv(s, 1, UROCE_WR_FLUSH_ERR, 0);
    scene_expect_no_completion(s);
    scene_close(s);
}

static void xrc__queue_pair_without_the_right__invalid_request(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100, .access = 0);

    scene_rx(s, 0, PACKET(.op = "XRC_READ_REQUEST", .psn = 100, .dma = 4));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .syndrome = 0x61));
    scene_expect_mark(s, "RSP.RIGHTS");
    scene_close(s);
}

static void xrc_tgt__responses_and_other_services__dropped(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100);

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "XRC_ACK", .psn = 0));
    scene_rx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 0, .text = "x"));
    scene_rx(s, 0, PACKET(.op = "XRC_ATOMIC_ACK", .psn = 0));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .text = "x"));
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 100, .text = "x", .from = "10.0.0.3"));
    assert_int_equal(scene_counter(s, "drop_service"), 4);
    assert_int_equal(scene_counter(s, "drop_address"), 1);
    scene_expect_silence(s, 0);
    scene_expect_no_completion(s);
    scene_close(s);
    assert_true(uro_mark_hit("XRC.ENDS"));
}

static void xrc__first_packet_in_rtr__communication_is_established(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100, .stop_at = UROCE_RTR);

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 100, .text = "x", .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_expect_event(s, UROCE_EVENT_COMM_EST);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xrc_send__one_packet_and_several__complete_on_the_cq_of_the_srq),
        cmocka_unit_test(xrc_write__with_and_without_immediate__uses_the_pd_of_the_srq),
        cmocka_unit_test(xrc_read__repeated__both_responses_have_no_xrceth),
        cmocka_unit_test(xrc_atomics__repeated__executed_once_and_the_response_is_sent_again),
        cmocka_unit_test(xrc__flush_and_atomic_write__get_empty_read_responses),
        cmocka_unit_test(xrc_send__repeated__acknowledged_and_not_delivered_again),
        cmocka_unit_test(xrc_send__queue_empty__rnr_nak_and_then_served),
        cmocka_unit_test(xrc__two_srqs_of_the_domain__each_packet_selects_one),
        cmocka_unit_test(xrc__queue_that_does_not_exist__invalid_request),
        cmocka_unit_test(xrc__queue_of_another_domain__invalid_request),
        cmocka_unit_test(xrc__srq_destroyed_in_a_message__invalid_request),
        cmocka_unit_test(xrc__srq_destroyed_in_a_write__invalid_request),
        cmocka_unit_test(xrc_send__longer_than_the_receive__receive_and_qp_fail),
        cmocka_unit_test(xrc__to_error_in_a_message__receive_is_flushed_to_the_srq_cq),
        cmocka_unit_test(xrc__queue_pair_without_the_right__invalid_request),
        cmocka_unit_test(xrc_tgt__responses_and_other_services__dropped),
        cmocka_unit_test(xrc__first_packet_in_rtr__communication_is_established),
    };
    return cmocka_run_group_tests_name("scenario/xrc", tests, NULL, NULL);
}
