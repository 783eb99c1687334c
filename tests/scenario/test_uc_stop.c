/* SPDX-License-Identifier: BSD-3-Clause */
/* test_uc_stop.c - tests which errors stop the send queue of a UC requester, and the states of its
 * queue pair. */
#include "base/mark.h"
#include "scene.h"

/* ---- errors ------------------------------------------------------------- */

static void uc_send__bad_local_key__only_the_send_queue_stops(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7, .rq_psn = 100);

    scene_post_recv(s, 9, 64);
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .lkey = 0x99));
    scene_post_send(s, SEND(.id = 3, .text = "c", .quiet = true));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "c"));
    scene_expect_no_completion(s); /* the failure is reported in its turn */
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_LOC_PROT_ERR);
    scene_expect_reason(scene_last()->reason,
                        "a local buffer is not registered, of another PD, or lacks LOCAL_WRITE");
    scene_expect_sent(s, 3, UROCE_WR_FLUSH_ERR);
    scene_expect_state(s, UROCE_SQE);
    scene_expect_mark(s, "QP.SQE");

    scene_post_send(s, SEND(.id = 4, .text = "d"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 4, UROCE_WR_FLUSH_ERR);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 100, .text = "hi"));
    scene_expect_recv(s, 9, UROCE_SUCCESS, 2);

    /* The requests that were posted in SQE have no effect any more. */
    scene_to_state(s, UROCE_RTS);
    scene_expect_mark(s, "QP.SQE.RESUME");
    scene_expect_silence(s, 0);
    scene_post_send(s, SEND(.id = 5, .text = "e"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 8, .text = "e"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 5, UROCE_SUCCESS);
    scene_close(s);
}

static void uc_send__bad_request_in_a_burst__earlier_requests_succeed_first(void **state)
{
    (void)state;
    struct scene *s = scene_uc();

    scene_play_bad_one_in_a_burst(s);
    scene_close(s);
}

static void uc_send__key_gone_inside_a_message__the_message_fails(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);
    struct uroce_mr *mr;
    struct uroce_qp_attr attr;
    struct uroce_event event;

    assert_int_equal(uroce_mr_create(s->pd, s->local, 4096, 0, &mr), 0);
    scene_fill(s->local, 0, 2048);
    scene_post_send(s, SEND(.id = 1, .length = 2048, .lkey = uroce_mr_key(mr)));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 7, .length = 1024));
    scene_to_state(s, UROCE_SQD);
    assert_int_equal(uroce_mr_destroy(mr), 0);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_LOC_PROT_ERR);
    scene_expect_state(s, UROCE_SQE); /* without an event that the queue is drained */
    uroce_qp_query(s->qp, &attr);
    assert_false(attr.sq_draining);
    assert_false(uroce_engine_event(s->engine, &event));
    scene_to_state(s, UROCE_RTS);
    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 8, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

/* If a completion is lost, receives must stop, too. SQE would hide the loss. */
static void uc_send__bad_local_key_and_full_cq__queue_pair_fails(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.cq_capacity = 1);

    scene_post_recv(s, 9, 64);
    scene_post_send(s, SEND(.id = 1, .text = "a", .lkey = 0x99));
    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_LOC_PROT_ERR);
    scene_expect_recv(s, 9, UROCE_WR_FLUSH_ERR, 0);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_CQ_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_FATAL);
    scene_close(s);
}

/* A window is bound between two sends of one burst. */
static void uc__local_requests_among_sends__complete_in_order(void **state)
{
    (void)state;
    struct scene *s = scene_uc();
    struct uroce_mr *no_bind;
    struct uroce_mw *window;

    assert_int_equal(uroce_mr_create(s->pd, s->remote, 4096, UROCE_ACCESS_LOCAL_WRITE, &no_bind),
                     0);
    assert_int_equal(uroce_mw_create(s->pd, UROCE_MW_TYPE_1, &window), 0);
    for (uint64_t id = 1; id <= 5; id++) {
        if (id % 2) {
            scene_post_send(s, SEND(.id = id, .text = "a", .at = 8 * (uint32_t)id));
            continue;
        }
        const struct uroce_send bind = { .wr_id = id,
                                         .opcode = UROCE_BIND_MW,
                                         .flags = UROCE_SIGNALED,
                                         .remote_address = (uintptr_t)s->remote,
                                         .rkey = uroce_mw_key(window),
                                         .mw = window,
                                         .mr = id == 2 ? s->remote_mr : no_bind, /* refused */
                                         .bind_length = 64,
                                         .bind_access = UROCE_ACCESS_REMOTE_READ };
        assert_int_equal(uroce_qp_send(s->qp, &bind), 0);
    }
    assert_int_equal(scene_burst(s, 8), 2);
    scene_expect_no_completion(s);
    assert_true(uroce_mw_is_bound(window));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_BIND_MW);
    scene_expect_sent(s, 3, UROCE_SUCCESS);
    scene_expect_sent(s, 4, UROCE_MW_BIND_ERR);
    scene_expect_sent(s, 5, UROCE_WR_FLUSH_ERR);
    scene_expect_state(s, UROCE_SQE);
    assert_int_equal(uroce_mw_destroy(window), 0);
    assert_int_equal(uroce_mr_destroy(no_bind), 0);
    scene_close(s);
}

/* ---- states ------------------------------------------------------------- */

static void uc__drained__started_message_finishes_then_the_event(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);
    struct uroce_qp_attr attr;
    struct uroce_event event;

    scene_fill(s->local, 0, 3072);
    scene_post_send(s, SEND(.id = 1, .length = 3072));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 4096));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 7, .length = 1024));
    scene_to_state(s, UROCE_SQD);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_MIDDLE", .psn = 8, .length = 1024, .fill = 1024));
    assert_false(uroce_engine_event(s->engine, &event));
    uroce_qp_query(s->qp, &attr);
    assert_true(attr.sq_draining);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_LAST", .psn = 9, .length = 1024, .fill = 2048));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_event(s, UROCE_EVENT_SQ_DRAINED);
    assert_false(uroce_engine_event(s->engine, &event));
    uroce_qp_query(s->qp, &attr);
    assert_false(attr.sq_draining);
    scene_to_state(s, UROCE_RTS);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 10, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void uc__to_error__sends_and_receives_are_flushed(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7, .rq_psn = 100);

    scene_post_recv(s, 8, 4096);
    scene_post_recv(s, 9, 64);
    scene_fill(s->local, 0, 2048);
    scene_post_send(s, SEND(.id = 1, .length = 2048));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 7, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_to_state(s, UROCE_ERR);
    scene_expect_sent(s, 1, UROCE_WR_FLUSH_ERR);
    scene_expect_recv(s, 8, UROCE_WR_FLUSH_ERR, 0);
    scene_expect_recv(s, 9, UROCE_WR_FLUSH_ERR, 0);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 101, .text = "x"));
    assert_int_equal(scene_counter(s, "drop_state"), 1);
    scene_expect_silence(s, 0);
    scene_close(s);
}

static void uc__reset_and_connected_again__works_as_new(void **state)
{
    (void)state;
    const struct scene_options again = { .type = UROCE_UC,
                                         .mtu = 1024,
                                         .access = 0xe,
                                         .sq_psn = 50,
                                         .rq_psn = 60,
                                         .stop_at = UROCE_RTS };
    struct scene *s = scene_uc(.sq_psn = 7, .rq_psn = 100);

    scene_post_recv(s, 9, 4096);
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_to_state(s, UROCE_RESET);
    scene_expect_silence(s, 0);
    scene_connect(s, &again);
    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 50, .text = "b"));
    scene_post_recv(s, 10, 64);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_LAST", .psn = 60, .length = 1));
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 61, .text = "c"));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_recv(s, 10, UROCE_SUCCESS, 1);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uc_send__bad_local_key__only_the_send_queue_stops),
        cmocka_unit_test(uc_send__bad_request_in_a_burst__earlier_requests_succeed_first),
        cmocka_unit_test(uc_send__key_gone_inside_a_message__the_message_fails),
        cmocka_unit_test(uc_send__bad_local_key_and_full_cq__queue_pair_fails),
        cmocka_unit_test(uc__local_requests_among_sends__complete_in_order),
        cmocka_unit_test(uc__drained__started_message_finishes_then_the_event),
        cmocka_unit_test(uc__to_error__sends_and_receives_are_flushed),
        cmocka_unit_test(uc__reset_and_connected_again__works_as_new),
    };
    return cmocka_run_group_tests_name("scenario/uc_stop", tests, NULL, NULL);
}
