/* SPDX-License-Identifier: BSD-3-Clause */
/* test_uc_stop.c - UC as requester: errors that stop the send queue, and the states of the queue
 * pair. */
#include "base/mark.h"
#include "core/cq.h"
#include "scene.h"

/* ---- what stops it ------------------------------------------------------ */

static void uc_send__bad_local_key__only_the_send_queue_stops(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7, .rq_psn = 100);

    scene_post_recv(s, 9, 64);
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .lkey = 0x99));
    scene_post_send(s, SEND(.id = 3, .text = "c", .quiet = true));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "c"));
    scene_expect_no_completion(s); /* the failure waits for its turn */
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_expect_sent(s, 2, URO_WC_LOC_PROT_ERR);
    assert_int_equal(scene_last()->vendor_error, URO_FAIL_LOCAL_KEY);
    scene_expect_sent(s, 3, URO_WC_WR_FLUSH_ERR);
    scene_expect_state(s, URO_QPS_SQE);
    scene_expect_mark(s, "QP.SQE");

    scene_post_send(s, SEND(.id = 4, .text = "d"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 4, URO_WC_WR_FLUSH_ERR);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 100, .text = "hi"));
    scene_expect_recv(s, 9, URO_WC_SUCCESS, 2);

    /* The state is now as if nothing had been posted meanwhile. */
    scene_to_state(s, URO_QPS_RTS);
    scene_expect_mark(s, "QP.SQE.RESUME");
    scene_expect_silence(s, 0);
    scene_post_send(s, SEND(.id = 5, .text = "e"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 8, .text = "e"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 5, URO_WC_SUCCESS);
    scene_close(s);
}

static void uc_send__bad_one_in_a_burst__those_before_it_succeed_first(void **state)
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
    struct uro_key key = {
        .pd = 1, .base = (uintptr_t)s->remote, .length = 4096, .memory = s->remote
    };
    struct uro_qp_attr attr;
    struct uro_event event;

    uro_key_register(uro_engine_shard(s->engine), &key);
    scene_post_send(s, SEND(.id = 1, .length = 2048));
    struct uro_wqe *wqe = uro_wq_slot(uro_qp_send_queue(s->qp), 0);
    wqe->sges[0] = (struct uro_sge){ (uintptr_t)s->remote, 2048, uro_key_number(&key) };
    scene_fill(s->remote, 0, 2048);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 7, .length = 1024));
    scene_to_state(s, URO_QPS_SQD);
    assert_int_equal(uro_key_deregister(uro_engine_shard(s->engine), &key), 0);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_LOC_PROT_ERR);
    scene_expect_state(s, URO_QPS_SQE); /* and not drained */
    uro_qp_query(s->qp, &attr);
    assert_false(attr.sq_draining);
    assert_false(uro_engine_event(s->engine, &event));
    scene_to_state(s, URO_QPS_RTS);
    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 8, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 2, URO_WC_SUCCESS);
    scene_close(s);
}

/* If a completion is lost, receives must stop, too. SQE would hide the loss. */
static void uc_send__bad_local_key_and_the_cq_full__fails_altogether(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.cq_capacity = 1);

    scene_post_recv(s, 9, 64);
    scene_post_send(s, SEND(.id = 1, .text = "a", .lkey = 0x99));
    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_LOC_PROT_ERR);
    scene_expect_recv(s, 9, URO_WC_WR_FLUSH_ERR, 0);
    scene_expect_state(s, URO_QPS_ERR);
    scene_expect_event(s, URO_EVENT_CQ_ERR);
    scene_expect_event(s, URO_EVENT_QP_FATAL);
    scene_close(s);
}

static void uc__what_the_service_has_no_packet_for__fails_when_its_turn_comes(void **state)
{
    (void)state;
    const enum uro_wr_opcode not_offered[] = { URO_WR_RDMA_READ,
                                               URO_WR_ATOMIC_CMP_AND_SWP,
                                               URO_WR_ATOMIC_FETCH_AND_ADD,
                                               URO_WR_SEND_WITH_INV,
                                               URO_WR_FLUSH,
                                               URO_WR_ATOMIC_WRITE };

    for (size_t i = 0; i < URO_ARRAY_LEN(not_offered); i++) {
        struct scene *s = scene_uc(.sq_psn = 7);

        scene_post_send(s, SEND(.id = 1, .op = not_offered[i], .length = 8));
        scene_expect_silence(s, 0);
        scene_expect_sent(s, 1, URO_WC_LOC_QP_OP_ERR);
        assert_int_equal(scene_last()->vendor_error, URO_FAIL_UNSUPPORTED);
        scene_expect_state(s, URO_QPS_SQE);
        scene_close(s);
    }
    assert_true(uro_mark_hit("POST.SERVICE"));
}

/* Only the last packet would carry the key: even the first packet is not sent. */
static void uc__long_message_that_could_not_be_ended__is_not_begun(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);

    scene_post_send(s, SEND(.id = 1, .op = URO_WR_SEND_WITH_INV, .length = 3000));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_LOC_QP_OP_ERR);
    assert_int_equal(scene_last()->vendor_error, URO_FAIL_UNSUPPORTED);
    scene_expect_state(s, URO_QPS_SQE);
    scene_close(s);
}

/* A window is bound between two sends of one burst. */
static void uc__local_requests_among_sends__complete_in_their_turn(void **state)
{
    (void)state;
    struct scene *s = scene_uc();
    struct uro_shard *shard = uro_engine_shard(s->engine);
    struct uro_key region = { .pd = 1,
                              .access = URO_ACCESS_LOCAL_WRITE | URO_ACCESS_MW_BIND,
                              .base = (uintptr_t)s->remote,
                              .length = 4096,
                              .memory = s->remote };
    struct uro_key window = { .kind = URO_KEY_WINDOW_1, .pd = 1 };
    struct uro_tx tx[8];

    uro_key_register(shard, &region);
    uro_key_register(shard, &window);
    for (uint64_t id = 1; id <= 5; id++) {
        scene_post_send(s, SEND(.id = id, .op = id % 2 ? URO_WR_SEND : URO_WR_BIND_MW, .text = "a",
                                .at = 8 * (uint32_t)id));
        if (id % 2)
            continue;
        struct uro_wqe *wqe = uro_wq_slot(uro_qp_send_queue(s->qp), (uint32_t)id - 1);
        wqe->imm = uro_key_number(&window);
        wqe->rkey = uro_key_number(&window);
        wqe->bind.lkey = id == 2 ? uro_key_number(&region) : ~uro_key_number(&region); /* refused */
        wqe->bind.access = URO_ACCESS_REMOTE_READ;
        wqe->remote_address = region.base;
        wqe->window_length = 64;
    }
    assert_int_equal(uro_engine_output(s->engine, tx, 8, s->now), 2);
    scene_expect_no_completion(s);
    assert_true(window.bound);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_expect_sent(s, 2, URO_WC_SUCCESS);
    assert_int_equal(scene_last()->opcode, URO_WC_BIND_MW);
    scene_expect_sent(s, 3, URO_WC_SUCCESS);
    scene_expect_sent(s, 4, URO_WC_MW_BIND_ERR);
    scene_expect_sent(s, 5, URO_WC_WR_FLUSH_ERR);
    scene_expect_state(s, URO_QPS_SQE);
    assert_int_equal(uro_key_deregister(shard, &window), 0);
    assert_int_equal(uro_key_deregister(shard, &region), 0);
    scene_close(s);
}

/* ---- states ------------------------------------------------------------- */

static void uc__drained__the_started_message_finishes_and_says_so(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);
    struct uro_qp_attr attr;
    struct uro_event event;

    scene_fill(s->local, 0, 3072);
    scene_post_send(s, SEND(.id = 1, .length = 3072));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 4096));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 7, .length = 1024));
    scene_to_state(s, URO_QPS_SQD);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_MIDDLE", .psn = 8, .length = 1024, .fill = 1024));
    assert_false(uro_engine_event(s->engine, &event));
    uro_qp_query(s->qp, &attr);
    assert_true(attr.sq_draining);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_LAST", .psn = 9, .length = 1024, .fill = 2048));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_expect_event(s, URO_EVENT_SQ_DRAINED);
    assert_false(uro_engine_event(s->engine, &event));
    uro_qp_query(s->qp, &attr);
    assert_false(attr.sq_draining);
    scene_to_state(s, URO_QPS_RTS);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 10, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 2, URO_WC_SUCCESS);
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
    scene_to_state(s, URO_QPS_ERR);
    scene_expect_sent(s, 1, URO_WC_WR_FLUSH_ERR);
    scene_expect_recv(s, 8, URO_WC_WR_FLUSH_ERR, 0);
    scene_expect_recv(s, 9, URO_WC_WR_FLUSH_ERR, 0);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 101, .text = "x"));
    assert_int_equal(scene_counter(s, URO_COUNT_DROP_STATE), 1);
    scene_expect_silence(s, 0);
    scene_close(s);
}

static void uc__reset_and_connected_again__starts_afresh(void **state)
{
    (void)state;
    const struct scene_options again = { .type = URO_QPT_UC,
                                         .mtu = 1024,
                                         .access = 0xe,
                                         .sq_psn = 50,
                                         .rq_psn = 60,
                                         .stop_at = URO_QPS_RTS };
    struct scene *s = scene_uc(.sq_psn = 7, .rq_psn = 100);

    scene_post_recv(s, 9, 4096);
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_to_state(s, URO_QPS_RESET);
    scene_expect_silence(s, 0);
    scene_connect(s, &again);
    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 50, .text = "b"));
    scene_post_recv(s, 10, 64);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_LAST", .psn = 60, .length = 1));
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 61, .text = "c"));
    scene_expect_sent(s, 2, URO_WC_SUCCESS);
    scene_expect_recv(s, 10, URO_WC_SUCCESS, 1);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uc_send__bad_local_key__only_the_send_queue_stops),
        cmocka_unit_test(uc_send__bad_one_in_a_burst__those_before_it_succeed_first),
        cmocka_unit_test(uc_send__key_gone_inside_a_message__the_message_fails),
        cmocka_unit_test(uc_send__bad_local_key_and_the_cq_full__fails_altogether),
        cmocka_unit_test(uc__what_the_service_has_no_packet_for__fails_when_its_turn_comes),
        cmocka_unit_test(uc__long_message_that_could_not_be_ended__is_not_begun),
        cmocka_unit_test(uc__local_requests_among_sends__complete_in_their_turn),
        cmocka_unit_test(uc__drained__the_started_message_finishes_and_says_so),
        cmocka_unit_test(uc__to_error__sends_and_receives_are_flushed),
        cmocka_unit_test(uc__reset_and_connected_again__starts_afresh),
    };
    return cmocka_run_group_tests_name("scenario/uc_stop", tests, NULL, NULL);
}
