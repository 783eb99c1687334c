/* SPDX-License-Identifier: BSD-3-Clause */
/* test_srq.c - tests several queue pairs that share one receive queue. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mark.h"
#include "scene.h"

static const struct scene_options more = { .mtu = 1024,
                                           .timeout = 14,
                                           .retry_count = 7,
                                           .rnr_retry = 7,
                                           .min_rnr_timer = 12,
                                           .depth = 4,
                                           .dest_depth = 4,
                                           .access = 0xe,
                                           .srq = 16,
                                           .rq_psn = 100,
                                           .stop_at = UROCE_RTS };

/* Delivers a packet of a SEND for @qp that asks for no ACK. */
static void part(struct scene *s, struct uroce_qp *qp, const char *op, uint32_t psn, uint32_t fill,
                 uint32_t length)
{
    scene_rx(
        s, 0,
        PACKET(.op = op, .psn = psn, .qpn = uroce_qp_number(qp), .length = length, .fill = fill));
}

static void expect_limit(struct scene *s)
{
    struct uroce_event event;

    assert_true(uroce_engine_event(s->engine, &event));
    assert_int_equal(event.kind, UROCE_EVENT_SRQ_LIMIT);
    assert_ptr_equal(event.user, &s->srq);
}

static void expect_no_event(struct scene *s)
{
    struct uroce_event event;

    assert_false(uroce_engine_event(s->engine, &event));
}

/* ---- messages take receives --------------------------------------------- */

/* Messages take receives in the order in which they begin. The slots of these receives are free
 * from then on. */
static void srq__messages_end_in_another_order__each_uses_a_separate_receive(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 4, .rq_psn = 100);
    struct uroce_qp *a = s->qp, *b = scene_add_qp(s, &more), *c = scene_add_qp(s, &more);

    for (uint64_t id = 1; id <= 4; id++)
        scene_post_recv(s, id, 4096);
    assert_int_equal(uroce_srq_receive(s->srq, 99, NULL, 0), -ENOMEM);
    part(s, a, "RC_SEND_FIRST", 100, 0, 1024);
    part(s, b, "RC_SEND_FIRST", 100, 5000, 1024);
    part(s, c, "RC_SEND_ONLY", 100, 9000, 10);
    scene_expect_recv(s, 3, UROCE_SUCCESS, 10);
    assert_int_equal(scene_last()->qpn, uroce_qp_number(c));
    scene_assert_filled(scene_recv_memory(s, 2 * 4096), 9000, 10);
    for (uint64_t id = 5; id <= 7; id++)
        scene_post_recv(
            s, id, 4096); /* the new receives use the slots of receives that messages have taken */
    part(s, b, "RC_SEND_LAST", 101, 6024, 7);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 1031);
    assert_int_equal(scene_last()->qpn, uroce_qp_number(b));
    scene_assert_filled(scene_recv_memory(s, 4096), 5000, 1031);
    part(s, a, "RC_SEND_MIDDLE", 101, 1024, 1024);
    part(s, a, "RC_SEND_LAST", 102, 2048, 1024);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 3072);
    scene_assert_filled(scene_recv_memory(s, 0), 0, 3072);
    part(s, b, "RC_SEND_ONLY", 102, 0, 1);
    scene_expect_recv(s, 4, UROCE_SUCCESS, 1);
    scene_expect_mark(s, "SRQ.TAKE");
    scene_close(s);
}

static void srq__receive_of_several_elements__all_elements_are_filled(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 4, .rq_psn = 100);
    const uint32_t key = uroce_mr_key(s->local_mr);
    const uintptr_t at = (uintptr_t)s->local;
    const struct uroce_sge sges[] = { { at, 4, key }, { at + 100, 5, key }, { at + 200, 3, key } };

    assert_int_equal(uroce_srq_receive(s->srq, 1, sges, 3), 0);
    part(s, s->qp, "RC_SEND_ONLY", 100, 0, 12);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 12);
    scene_assert_filled(s->local, 0, 4);
    scene_assert_filled(s->local + 100, 4, 5);
    scene_assert_filled(s->local + 200, 9, 3);
    scene_close(s);
}

static void srq__empty__each_queue_pair_sends_rnr_nak_until_a_receive_is_posted(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 4, .rq_psn = 100);
    struct uroce_qp *a = s->qp, *b = scene_add_qp(s, &more);

    scene_post_recv(s, 1, 64);
    part(s, a, "RC_SEND_ONLY", 100, 0, 4);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    part(s, a, "RC_SEND_ONLY", 101, 0, 4);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x2c, .msn = 1));
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_ONLY_IMM", .psn = 100, .qpn = uroce_qp_number(b)));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x2c));
    scene_post_recv(s, 2, 64);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_ONLY_IMM", .psn = 100, .qpn = uroce_qp_number(b), .imm = 7,
                    .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 2, UROCE_SUCCESS, 0);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_RECV_RDMA_WITH_IMM);
    part(s, a, "RC_SEND_ONLY", 101, 0, 4);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x2c, .msn = 1));
    scene_close(s);
}

/* On UC, the next message of the queue pair uses the receive that a lost message had taken. */
static void srq__uc_message_lost__next_message_uses_the_receive(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.srq = 4, .rq_psn = 100);

    scene_post_recv(s, 1, 4096);
    scene_post_recv(s, 2, 4096);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 105, .length = 5, .fill = 50));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 5);
    scene_assert_filled(scene_recv_memory(s, 0), 50, 5);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 106, .length = 5));
    scene_expect_recv(s, 2, UROCE_SUCCESS, 5);
    scene_close(s);
}

/* ---- the limit ---------------------------------------------------------- */

static void srq__fewer_receives_than_the_limit__one_event_until_armed_again(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 8, .rq_psn = 100);

    for (uint64_t id = 0; id < 6; id++)
        scene_post_recv(s, id, 64);
    assert_int_equal(uroce_srq_arm(s->srq, 9), -EINVAL);
    assert_int_equal(uroce_srq_arm(s->srq, 4), 0);
    part(s, s->qp, "RC_SEND_ONLY", 100, 0, 4);
    part(s, s->qp, "RC_SEND_ONLY", 101, 0, 4);
    expect_no_event(s); /* 4 receives are left, which is not below the limit */
    part(s, s->qp, "RC_SEND_ONLY", 102, 0, 4);
    part(s, s->qp, "RC_SEND_ONLY", 103, 0, 4);
    expect_limit(s);
    expect_no_event(s);
    scene_expect_mark(s, "SRQ.LIMIT");
    assert_int_equal(uroce_srq_arm(s->srq, 4), 0);
    expect_no_event(s);
    part(s, s->qp, "RC_SEND_ONLY", 104, 0, 4);
    expect_limit(s);
    assert_int_equal(uroce_srq_arm(s->srq, 4), 0);
    assert_int_equal(uroce_srq_arm(s->srq, 0), 0);
    part(s, s->qp, "RC_SEND_ONLY", 105, 0, 4);
    expect_no_event(s);
    for (uint64_t id = 0; id < 6; id++)
        scene_expect_recv(s, id, UROCE_SUCCESS, 4);
    scene_close(s);
}

/* ---- failing ------------------------------------------------------------ */

static void srq__queue_pair_fails__only_the_receive_in_use_is_flushed(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 8, .rq_psn = 100);
    struct uroce_qp *a = s->qp, *b = scene_add_qp(s, &more);

    scene_post_recv(s, 1, 4096);
    scene_post_recv(s, 2, 4096);
    part(s, a, "RC_SEND_FIRST", 100, 0, 1024);
    scene_to_state(s, UROCE_ERR);
    scene_expect_recv(s, 1, UROCE_WR_FLUSH_ERR, 0);
    assert_int_equal(scene_last()->qpn, uroce_qp_number(a));
    scene_expect_event(s, UROCE_EVENT_LAST_WQE);
    expect_no_event(s);
    scene_expect_mark(s, "SRQ.LAST.WQE");
    scene_to_state(s, UROCE_ERR); /* ERR to ERR raises no second event */
    expect_no_event(s);
    part(s, b, "RC_SEND_ONLY", 100, 7, 4);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 4);
    scene_close(s);
    assert_true(uro_mark_hit("SRQ.FLUSH"));
}

static void srq__message_too_long__takes_one_receive_and_fails_one_queue_pair(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 8, .rq_psn = 100);
    struct uroce_qp *a = s->qp, *b = scene_add_qp(s, &more);

    scene_post_recv(s, 1, 3);
    scene_post_recv(s, 2, 64);
    part(s, a, "RC_SEND_ONLY", 100, 0, 4);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x61));
    scene_expect_recv(s, 1, UROCE_LOC_LEN_ERR, 0);
    scene_expect_reason(scene_last()->reason, "the message is longer than the posted receive");
    scene_expect_event(s, UROCE_EVENT_LAST_WQE);
    part(s, b, "RC_SEND_ONLY", 100, 0, 4);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 4);
    scene_close(s);
}

static void srq__buffer_that_may_not_be_written__fails_one_queue_pair(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 8, .rq_psn = 100);

    scene_post_recv_key(s, 1, 64, uroce_mr_key(s->local_mr) ^ 1);
    part(s, s->qp, "RC_SEND_ONLY", 100, 0, 4);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x63));
    scene_expect_recv(s, 1, UROCE_LOC_PROT_ERR, 0);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_LAST_WQE);
    scene_close(s);
}

static void srq__queue_pair_reset_or_destroyed_in_a_message__other_continues(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 8, .rq_psn = 100);
    struct uroce_qp *a = s->qp, *b = scene_add_qp(s, &more), *c = scene_add_qp(s, &more);

    for (uint64_t id = 1; id <= 3; id++)
        scene_post_recv(s, id, 4096);
    part(s, a, "RC_SEND_FIRST", 100, 0, 1024);
    part(s, b, "RC_SEND_FIRST", 100, 0, 1024);
    scene_to_state(s, UROCE_RESET);
    s->qp = b;
    scene_destroy_qp(s);
    s->qp = c;
    scene_expect_no_completion(s);
    part(s, c, "RC_SEND_ONLY", 100, 0, 4);
    scene_expect_recv(s, 3, UROCE_SUCCESS, 4);
    scene_close(s);
}

/* The queue pair failed with a response pending. The response fails, too, but causes no second
 * LAST_WQE_REACHED. */
static void srq__responder_fails_after_the_qp_failed__one_last_wqe_event(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 8, .rq_psn = 100);
    struct uroce_mr *mr;

    assert_int_equal(uroce_mr_create(s->pd, s->remote, 4096, UROCE_ACCESS_REMOTE_READ, &mr), 0);
    scene_rx(s, 0,
             PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 2048, .rkey = uroce_mr_key(mr)));
    part(s, s->qp, "RC_SEND_MIDDLE", 102, 0, 1024);
    scene_expect_event(s, UROCE_EVENT_QP_REQ_ERR);
    scene_expect_event(s, UROCE_EVENT_LAST_WQE);
    expect_no_event(s);
    assert_int_equal(uroce_mr_destroy(mr), 0);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62, .msn = 1));
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    expect_no_event(s);
    assert_int_equal(scene_counter(s, "qp_failed"), 1);
    scene_close(s);
}

/* ---- resizing, destroying ----------------------------------------------- */

static void srq__resized__posted_receives_keep_order_across_the_ring_end(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 4, .rq_psn = 100);

    for (uint64_t id = 0; id < 4; id++)
        scene_post_recv(s, id, 64);
    for (uint32_t i = 0; i < 3; i++) {
        part(s, s->qp, "RC_SEND_ONLY", 100 + i, 0, 4);
        scene_expect_recv(s, i, UROCE_SUCCESS, 4);
    }
    for (uint64_t id = 4; id < 7; id++)
        scene_post_recv(s, id, 64);
    assert_int_equal(uroce_srq_resize(s->srq, 3), -EINVAL); /* four receives are posted */
    assert_int_equal(uroce_srq_resize(s->srq, 9), 0);
    for (uint64_t id = 7; id < 12; id++)
        scene_post_recv(s, id, 64);
    assert_int_equal(uroce_srq_receive(s->srq, 99, NULL, 0),
                     -ENOMEM); /* the SRQ has 9 entries, although its ring has 16 slots */
    assert_int_equal(uroce_srq_arm(s->srq, 4), 0);
    for (uint32_t i = 3; i < 9; i++) {
        part(s, s->qp, "RC_SEND_ONLY", 100 + i, 0, 4);
        scene_expect_recv(s, i, UROCE_SUCCESS, 4);
    }
    expect_limit(s); /* three receives are left */
    scene_expect_mark(s, "SRQ.RESIZE");
    scene_close(s);
}

static void srq__shrunk_to_the_posted_receives__full_and_in_order(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 16, .rq_psn = 100);

    for (uint64_t id = 0; id < 3; id++)
        scene_post_recv(s, id, 64);
    assert_int_equal(uroce_srq_arm(s->srq, 4), 0);
    assert_int_equal(uroce_srq_resize(s->srq, 3), -EINVAL); /* below the armed limit of 4 */
    assert_int_equal(uroce_srq_arm(s->srq, 3), 0);
    assert_int_equal(uroce_srq_resize(s->srq, 3), 0);
    assert_int_equal(uroce_srq_receive(s->srq, 99, NULL, 0), -ENOMEM);
    part(s, s->qp, "RC_SEND_ONLY", 100, 0, 4);
    expect_limit(s);
    scene_expect_recv(s, 0, UROCE_SUCCESS, 4);
    scene_post_recv(s, 3, 64);
    for (uint32_t i = 1; i < 4; i++) {
        part(s, s->qp, "RC_SEND_ONLY", 100 + i, 0, 4);
        scene_expect_recv(s, i, UROCE_SUCCESS, 4);
    }
    scene_close(s);
}

static void srq__destroyed_with_receives_and_an_event__event_is_removed(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.srq = 4, .rq_psn = 100);

    scene_post_recv(s, 1, 64);
    scene_post_recv(s, 2, 64);
    assert_int_equal(uroce_srq_arm(s->srq, 4), 0);
    part(s, s->qp, "RC_SEND_ONLY", 100, 0, 4);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    scene_destroy_qp(s);
    assert_int_equal(uroce_srq_destroy(s->srq), 0);
    s->srq = NULL;
    expect_no_event(s);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(srq__messages_end_in_another_order__each_uses_a_separate_receive),
        cmocka_unit_test(srq__receive_of_several_elements__all_elements_are_filled),
        cmocka_unit_test(srq__empty__each_queue_pair_sends_rnr_nak_until_a_receive_is_posted),
        cmocka_unit_test(srq__uc_message_lost__next_message_uses_the_receive),
        cmocka_unit_test(srq__fewer_receives_than_the_limit__one_event_until_armed_again),
        cmocka_unit_test(srq__queue_pair_fails__only_the_receive_in_use_is_flushed),
        cmocka_unit_test(srq__message_too_long__takes_one_receive_and_fails_one_queue_pair),
        cmocka_unit_test(srq__buffer_that_may_not_be_written__fails_one_queue_pair),
        cmocka_unit_test(srq__responder_fails_after_the_qp_failed__one_last_wqe_event),
        cmocka_unit_test(srq__queue_pair_reset_or_destroyed_in_a_message__other_continues),
        cmocka_unit_test(srq__resized__posted_receives_keep_order_across_the_ring_end),
        cmocka_unit_test(srq__shrunk_to_the_posted_receives__full_and_in_order),
        cmocka_unit_test(srq__destroyed_with_receives_and_an_event__event_is_removed),
    };
    return cmocka_run_group_tests_name("scenario/srq", tests, NULL, NULL);
}
