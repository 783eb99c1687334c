/* SPDX-License-Identifier: BSD-3-Clause */
/* test_qp_life.c - states, flushes, events, and packets that must change nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/mark.h"
#include "scene.h"

static int to_state(struct scene *s, enum uro_qp_state to)
{
    const struct uro_qp_attr attr = { .state = to };
    return uro_engine_qp_modify(s->engine, s->qp, &attr, URO_ATTR_STATE, s->now);
}

static void qp__moved_to_error__everything_posted_is_flushed_in_order(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8, .quiet = true));
    scene_post_recv(s, 3, 8);
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    assert_int_equal(to_state(s, URO_QPS_ERR), 0);
    scene_expect_sent(s, 1, URO_WC_WR_FLUSH_ERR);
    scene_expect_sent(s, 2, URO_WC_WR_FLUSH_ERR);
    scene_expect_recv(s, 3, URO_WC_WR_FLUSH_ERR, 0);
    /* A request that is posted later is flushed at once. */
    scene_post_send(s, SEND(.id = 4, .text = "c", .at = 16));
    scene_post_recv(s, 5, 8);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 4, URO_WC_WR_FLUSH_ERR);
    scene_expect_recv(s, 5, URO_WC_WR_FLUSH_ERR, 0);
    scene_expect_mark(s, "QP.FLUSH");
    scene_expect_mark(s, "QP.FLUSH.LATE");
    scene_close(s);
}

static void qp__reset_and_connected_again__starts_afresh(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    assert_int_equal(to_state(s, URO_QPS_RESET), 0);
    scene_expect_silence(s, URO_MS(500));
    scene_rx(s, URO_MS(500), PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    assert_int_equal(scene_counter(s, URO_COUNT_DROP_STATE), 1);
    scene_expect_mark(s, "QP.RESET");
    scene_close(s);
}

static void qp__drained__started_messages_finish_and_no_new_one_starts(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);
    struct uro_qp_attr attr;

    scene_fill(s->local, 0, 2048);
    scene_post_send(s, SEND(.id = 1, .length = 2048));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 10, .length = 1024, .fill = 0));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 4096));
    scene_to_state(s, URO_QPS_SQD);
    uro_qp_query(s->qp, &attr);
    assert_true(attr.sq_draining);
    assert_int_equal(to_state(s, URO_QPS_RTS), -22);
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_SEND_LAST", .psn = 11, .ack_req = true, .length = 1024, .fill = 1024));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 1));
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_expect_event(s, URO_EVENT_SQ_DRAINED);
    assert_int_equal(to_state(s, URO_QPS_RTS), 0);
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 12, .ack_req = true, .text = "b"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 12, .msn = 2));
    scene_expect_sent(s, 2, URO_WC_SUCCESS);
    scene_expect_mark(s, "QP.SQD");
    scene_close(s);
}

/* Modifies to SQD. Passes @notify as the attribute for SQD notification if @given. */
static void drain(struct scene *s, bool given, bool notify)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_SQD, .sqd_notify = notify };
    unsigned mask = given ? URO_ATTR_STATE | URO_ATTR_SQD_NOTIFY : URO_ATTR_STATE;

    assert_int_equal(uro_engine_qp_modify(s->engine, s->qp, &attr, mask, s->now), 0);
}

static void qp__drained__raises_the_event_only_if_it_was_asked_for(void **state)
{
    static const struct {
        bool given, notify;
    } asked[] = { { true, true }, { true, false }, { false, false } };
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);
    struct uro_qp_attr attr;
    struct uro_event event;
    uint32_t psn = 10;

    for (size_t i = 0; i < URO_ARRAY_LEN(asked); i++) {
        drain(s, asked[i].given, asked[i].notify); /* nothing is in flight */
        assert_int_equal(uro_engine_event(s->engine, &event), asked[i].notify);
        scene_to_state(s, URO_QPS_RTS);
        scene_post_send(s, SEND(.id = psn, .text = "a"));
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "a"));
        drain(s, asked[i].given, asked[i].notify);
        assert_false(uro_engine_event(s->engine, &event));
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = psn, .msn = psn - 9));
        scene_expect_sent(s, psn++, URO_WC_SUCCESS);
        assert_int_equal(uro_engine_event(s->engine, &event), asked[i].notify);
        uro_qp_query(s->qp, &attr);
        assert_false(attr.sq_draining);
        scene_to_state(s, URO_QPS_RTS);
    }
    scene_close(s);
}

static void qp__first_packet_in_rtr__raises_established_once_and_is_served(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 5, .stop_at = URO_QPS_RTR);

    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 5, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    scene_expect_recv(s, 1, URO_WC_SUCCESS, 1);
    scene_expect_event(s, URO_EVENT_COMM_EST);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 5, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    struct uro_event event;
    assert_false(uro_engine_event(s->engine, &event));
    scene_expect_mark(s, "RSP.COMM.EST");
    scene_close(s);
}

/* bug B10 */
static void cq__full__overrun_is_an_event_and_the_queue_pair_fails(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .cq_capacity = 1);

    for (uint64_t id = 1; id <= 2; id++) {
        scene_post_send(s, SEND(.id = id, .text = "a"));
        scene_expect_tx(
            s, 0,
            PACKET(.op = "RC_SEND_ONLY", .psn = 9 + (uint32_t)id, .ack_req = true, .text = "a"));
    }
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .msn = 2));
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_expect_state(s, URO_QPS_ERR);
    scene_expect_event(s, URO_EVENT_CQ_ERR);
    scene_expect_event(s, URO_EVENT_QP_FATAL);
    scene_expect_mark(s, "CQ.OVERRUN");
    assert_int_equal(uro_qp_failure(s->qp), URO_FAIL_CQ_OVERRUN);
    scene_close(s);
}

/* The first failure reason is kept: later failures are its consequences. */
static void qp__failed__says_why_until_reset(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    assert_int_equal(uro_qp_failure(s->qp), URO_FAIL_NONE);
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x62));
    scene_expect_sent(s, 1, URO_WC_REM_ACCESS_ERR);
    assert_int_equal(uro_qp_failure(s->qp), URO_FAIL_NAK_ACCESS);
    assert_int_equal(to_state(s, URO_QPS_ERR), 0);
    assert_int_equal(uro_qp_failure(s->qp), URO_FAIL_NAK_ACCESS);
    assert_int_equal(to_state(s, URO_QPS_RESET), 0);
    assert_int_equal(uro_qp_failure(s->qp), URO_FAIL_NONE);
    scene_close(s);
}

/* A responder that fails completes no request. Only the queue pair has the failure reason. */
static void qp__failed_without_a_completion__says_why(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .ack_req = true, .va = 0x1000, .rkey = 0x77,
                    .dma = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62));
    scene_expect_state(s, URO_QPS_ERR);
    assert_int_equal(uro_qp_failure(s->qp), URO_FAIL_PEER_ACCESS);
    scene_close(s);

    s = scene_rc();
    assert_int_equal(to_state(s, URO_QPS_ERR), 0);
    assert_int_equal(uro_qp_failure(s->qp), URO_FAIL_MODIFIED);
    scene_close(s);
}

static void cq__armed_for_solicited__only_a_solicited_or_failed_completion_wakes(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);
    struct uro_event event;

    scene_post_recv(s, 1, 8);
    scene_post_recv(s, 2, 8);
    uro_cq_arm(s->recv_cq, true);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .text = "a"));
    assert_false(uro_engine_event(s->engine, &event));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 101, .solicited = true, .text = "a"));
    scene_expect_event(s, URO_EVENT_COMPLETION);
    assert_false(uro_engine_event(s->engine, &event));
    scene_expect_recv(s, 1, URO_WC_SUCCESS, 1);
    scene_expect_recv(s, 2, URO_WC_SUCCESS, 1);
    scene_expect_mark(s, "CQ.ARM");
    scene_close(s);
}

/* Packets that the peer cannot have sent, or malformed packets. Each increments one counter and
 * changes nothing else. */
static const struct {
    struct scene_packet packet;
    enum uro_counter counter;
    const char *mark;
} strangers[] = {
    { { .op = "RC_SEND_ONLY", .psn = 100, .from = "10.0.0.3" },
      URO_COUNT_DROP_ADDRESS,
      "RX.ADDRESS" },
    { { .op = "RC_SEND_ONLY", .psn = 100, .qpn = 0x777777 }, URO_COUNT_DROP_QPN, "RX.QPN" },
    { { .op = "RC_SEND_ONLY", .psn = 100, .pkey = 0x8001 }, URO_COUNT_DROP_PKEY, "RX.PKEY" },
    { { .op = "UC_SEND_ONLY", .psn = 100 }, URO_COUNT_DROP_SERVICE, "RX.SERVICE" },
    { { .op = "RC_SEND_ONLY", .psn = 100, .version = 1 }, URO_COUNT_DROP_VERSION, NULL },
    { { .op = "RC_ACK", .psn = 9 }, URO_COUNT_DROP_STALE_RESPONSE, NULL },
    { { .op = "RC_ACK", .psn = 10 }, URO_COUNT_DROP_GHOST_ACK, NULL },
    { { .op = "RC_FETCH_ADD", .psn = 99 }, URO_COUNT_DROP_REPLAY, NULL },
};

static void receive__packet_of_a_stranger__is_counted_and_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(strangers); i++) {
        struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);
        struct scene_packet packet = strangers[i].packet;

        packet.text = strstr(packet.op, "SEND") != NULL ? "x" : NULL;
        packet.ack_req = packet.text != NULL;
        scene_post_recv(s, 1, 8);
        scene_rx(s, 0, &packet);
        assert_int_equal(scene_counter(s, strangers[i].counter), 1);
        if (strangers[i].mark != NULL)
            scene_expect_mark(s, strangers[i].mark);
        scene_expect_state(s, URO_QPS_RTS);
        scene_expect_silence(s, 0);
        scene_close(s);
    }
}

static void receive__limited_membership_pkey__is_accepted(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .pkey = 0x7fff, .text = "x"));
    scene_expect_recv(s, 1, URO_WC_SUCCESS, 1);
    scene_close(s);
}

static void receive__state_before_rtr__request_is_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.stop_at = URO_QPS_INIT);

    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 0, .ack_req = true));
    assert_int_equal(scene_counter(s, URO_COUNT_DROP_STATE), 1);
    scene_expect_mark(s, "RX.STATE");
    scene_close(s);
}

static void modify__value_out_of_range__einval_and_nothing_changes(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.stop_at = URO_QPS_INIT);
    struct uro_qp_attr good = { .state = URO_QPS_RTR,
                                .path_mtu = 1024,
                                .address = { .sgid_index = 1 } };
    const unsigned mask = URO_ATTR_STATE | URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN |
                          URO_ATTR_RQ_PSN | URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR;
    struct uro_qp_attr bad[7];

    assert_true(uro_gid_parse("10.0.0.2", &good.address.dest));
    for (size_t i = 0; i < URO_ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].path_mtu = 1000;
    bad[1].path_mtu = 8192;
    bad[2].address.sgid_index = 9;
    bad[3].min_rnr_timer = 32;
    bad[4].max_dest_rd_atomic = 129;
    bad[5].address.sgid_index = 0; /* IPv6 source, IPv4 destination */
    assert_true(uro_gid_parse("239.1.2.3", &bad[6].address.dest)); /* a group is no peer */
    for (size_t i = 0; i < URO_ARRAY_LEN(bad); i++) {
        assert_int_equal(uro_engine_qp_modify(s->engine, s->qp, &bad[i], mask, s->now), -22);
        scene_expect_state(s, URO_QPS_INIT);
    }
    assert_int_equal(
        uro_engine_qp_modify(s->engine, s->qp, &good, mask | URO_ATTR_ALT_PATH, s->now), -22);
    assert_int_equal(uro_engine_qp_modify(s->engine, s->qp, &good, mask & ~URO_ATTR_AV, s->now),
                     -22);
    assert_true(uro_gid_parse("192.168.1.1", &good.address.dest));
    assert_int_equal(uro_engine_qp_modify(s->engine, s->qp, &good, mask, s->now), -101);
    scene_expect_state(s, URO_QPS_INIT);
    scene_close(s);
    assert_true(uro_mark_hit("QP.RANGE"));
    assert_true(uro_mark_hit("QP.ALT.PATH"));
}

/* The caller provides the memory of the responder resources when max_dest_rd_atomic is known. */
static void modify__more_answers_than_were_lent__einval_until_they_are(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    const struct uro_qp_init whole = { .type = URO_QPT_RC,
                                       .send_cq = s->send_cq,
                                       .recv_cq = s->recv_cq };
    struct uro_qp_init init = whole;
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = 1,
                                .path_mtu = 1024,
                                .access = URO_ACCESS_REMOTE_READ,
                                .max_dest_rd_atomic = 16,
                                .address = { .sgid_index = 1 } };
    const unsigned to_init = URO_ATTR_STATE | URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS;
    const unsigned to_rtr = URO_ATTR_STATE | URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN |
                            URO_ATTR_RQ_PSN | URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR;

    init.lends_resources = true;
    assert_true(uro_qp_size(&init) + uro_qp_resources_size(128) <= uro_qp_size(&whole));
    void *memory = aligned_alloc(64, (uro_qp_size(&init) + 63) & ~(size_t)63);
    void *answers = malloc(uro_qp_resources_size(16));
    void *more = malloc(uro_qp_resources_size(17));
    struct uro_qp *qp = uro_qp_create(uro_engine_shard(s->engine), &init, memory);
    assert_true(uro_gid_parse("10.0.0.2", &attr.address.dest));
    assert_int_equal(uro_engine_qp_modify(s->engine, qp, &attr, to_init, s->now), 0);
    attr.state = URO_QPS_RTR;
    assert_int_equal(uro_engine_qp_modify(s->engine, qp, &attr, to_rtr, s->now), -22);
    assert_null(uro_qp_lend_resources(qp, answers, uro_qp_resources_size(16)));
    attr.max_dest_rd_atomic = 17;
    assert_int_equal(uro_engine_qp_modify(s->engine, qp, &attr, to_rtr, s->now), -22);
    assert_ptr_equal(uro_qp_lend_resources(qp, more, uro_qp_resources_size(17)), answers);
    assert_int_equal(uro_engine_qp_modify(s->engine, qp, &attr, to_rtr, s->now), 0);
    uro_engine_qp_destroy(s->engine, qp);
    free(more);
    free(answers);
    free(memory);
    scene_close(s);
}

/* The queue pair first grants only rights that are answered by an ACK, and then others, which need
 * responder resources. */
static void modify__rights_to_what_is_remembered__einval_until_answers_are_lent(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    const unsigned rights[] = { URO_ACCESS_REMOTE_WRITE, URO_ACCESS_REMOTE_READ,
                                URO_ACCESS_REMOTE_ATOMIC, URO_ACCESS_FLUSH_GLOBAL,
                                URO_ACCESS_FLUSH_PERSISTENT };
    const struct uro_qp_init init = {
        .type = URO_QPT_RC, .send_cq = s->send_cq, .recv_cq = s->recv_cq, .lends_resources = true
    };
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = 1,
                                .access = URO_ACCESS_LOCAL_WRITE | URO_ACCESS_MW_BIND,
                                .path_mtu = 1024,
                                .max_dest_rd_atomic = 128,
                                .address = { .sgid_index = 1 } };
    void *memory = aligned_alloc(64, (uro_qp_size(&init) + 63) & ~(size_t)63);
    void *answers = malloc(uro_qp_resources_size(128));
    struct uro_qp *qp = uro_qp_create(uro_engine_shard(s->engine), &init, memory);

    assert_true(uro_gid_parse("10.0.0.2", &attr.address.dest));
    assert_int_equal(
        uro_engine_qp_modify(s->engine, qp, &attr,
                             URO_ATTR_STATE | URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                             s->now),
        0);
    attr.state = URO_QPS_RTR;
    assert_int_equal(uro_engine_qp_modify(s->engine, qp, &attr,
                                          URO_ATTR_STATE | URO_ATTR_AV | URO_ATTR_PATH_MTU |
                                              URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
                                              URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR,
                                          s->now),
                     0);
    assert_null(uro_qp_problem(qp));
    attr.state = URO_QPS_RTS;
    const unsigned to_rts = URO_ATTR_STATE | URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT |
                            URO_ATTR_RNR_RETRY | URO_ATTR_SQ_PSN | URO_ATTR_RD_ATOMIC;
    for (size_t i = 0; i < URO_ARRAY_LEN(rights); i++) {
        attr.access = rights[i];
        assert_int_equal(uro_qp_resources_needed(qp, &attr, URO_ATTR_ACCESS),
                         uro_qp_resources_size(128));
        assert_int_equal(
            uro_engine_qp_modify(s->engine, qp, &attr, to_rts | URO_ATTR_ACCESS, s->now), -22);
    }
    assert_int_equal(uro_engine_qp_modify(s->engine, qp, &attr, to_rts, s->now), 0);
    assert_null(uro_qp_lend_resources(qp, answers, uro_qp_resources_size(128)));
    assert_int_equal(uro_engine_qp_modify(s->engine, qp, &attr, URO_ATTR_ACCESS, s->now), 0);
    assert_null(uro_qp_problem(qp));
    uro_engine_qp_destroy(s->engine, qp);
    free(answers);
    free(memory);
    scene_close(s);
}

/* rxe may have more FLUSHes in flight than max_dest_rd_atomic allows. */
static void modify__few_answers__as_many_are_needed_unless_the_peer_may_flush(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    const struct {
        uint32_t access;
        uint8_t depth;
        uint8_t answers;
    } rows[] = { { URO_ACCESS_REMOTE_READ, 1, 2 },
                 { URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_ATOMIC, 5, 16 },
                 { URO_ACCESS_REMOTE_READ | URO_ACCESS_FLUSH_GLOBAL, 1, 16 },
                 { URO_ACCESS_FLUSH_PERSISTENT, 20, 32 },
                 { URO_ACCESS_LOCAL_WRITE, 128, 0 } };
    const struct uro_qp_init init = {
        .type = URO_QPT_RC, .send_cq = s->send_cq, .recv_cq = s->recv_cq, .lends_resources = true
    };
    void *memory = aligned_alloc(64, (uro_qp_size(&init) + 63) & ~(size_t)63);
    struct uro_qp *qp = uro_qp_create(uro_engine_shard(s->engine), &init, memory);

    for (size_t i = 0; i < URO_ARRAY_LEN(rows); i++) {
        const struct uro_qp_attr attr = { .access = rows[i].access,
                                          .max_dest_rd_atomic = rows[i].depth };
        const unsigned mask = URO_ATTR_ACCESS | URO_ATTR_DEST_RD;
        assert_int_equal(uro_qp_resources_needed(qp, &attr, mask),
                         rows[i].answers * (uro_qp_resources_size(128) / 128));
        assert_int_equal(uro_qp_resources_needed(qp, &attr, URO_ATTR_ACCESS),
                         0); /* not known yet */
    }
    uro_engine_qp_destroy(s->engine, qp);
    free(memory);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qp__moved_to_error__everything_posted_is_flushed_in_order),
        cmocka_unit_test(qp__reset_and_connected_again__starts_afresh),
        cmocka_unit_test(qp__drained__started_messages_finish_and_no_new_one_starts),
        cmocka_unit_test(qp__drained__raises_the_event_only_if_it_was_asked_for),
        cmocka_unit_test(qp__first_packet_in_rtr__raises_established_once_and_is_served),
        cmocka_unit_test(qp__failed__says_why_until_reset),
        cmocka_unit_test(qp__failed_without_a_completion__says_why),
        cmocka_unit_test(cq__full__overrun_is_an_event_and_the_queue_pair_fails),
        cmocka_unit_test(cq__armed_for_solicited__only_a_solicited_or_failed_completion_wakes),
        cmocka_unit_test(receive__packet_of_a_stranger__is_counted_and_changes_nothing),
        cmocka_unit_test(receive__limited_membership_pkey__is_accepted),
        cmocka_unit_test(receive__state_before_rtr__request_is_dropped),
        cmocka_unit_test(modify__more_answers_than_were_lent__einval_until_they_are),
        cmocka_unit_test(modify__rights_to_what_is_remembered__einval_until_answers_are_lent),
        cmocka_unit_test(modify__few_answers__as_many_are_needed_unless_the_peer_may_flush),
        cmocka_unit_test(modify__value_out_of_range__einval_and_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
