/* SPDX-License-Identifier: BSD-3-Clause */
/* test_inside.c - tests cases that no program can cause with include/uroce: the caller provides the
 * memory of responder resources, requests that the post functions refuse, an alternate path, hidden
 * receives, and an overflow of a CQ. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "scene.h"
#include "scene_wire.h"

/* ---- responder resources ------------------------------------------------ */

/* The caller provides the memory of the responder resources when max_dest_rd_atomic is known. */
static void modify__too_few_responder_resources__einval_until_enough_are_lent(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    const struct uro_qp_init whole = { .type = URO_QPT_RC,
                                       .send_cq = s->send_cq->core,
                                       .recv_cq = s->recv_cq->core };
    struct uro_qp_init init = whole;
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = 1,
                                .path_mtu = 1024,
                                .access = UROCE_ACCESS_REMOTE_READ,
                                .max_dest_rd_atomic = 16,
                                .address = { .sgid_index = 1 } };
    const unsigned to_init =
        UROCE_ATTR_STATE | UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT | UROCE_ATTR_ACCESS;
    const unsigned to_rtr = UROCE_ATTR_STATE | UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU |
                            UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN |
                            UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER;

    init.lends_resources = true;
    assert_true(uro_qp_size(&init) + uro_qp_resources_size(128) <= uro_qp_size(&whole));
    void *memory = aligned_alloc(64, (uro_qp_size(&init) + 63) & ~(size_t)63);
    void *answers = malloc(uro_qp_resources_size(16));
    void *more = malloc(uro_qp_resources_size(17));
    struct uro_qp *qp = uro_qp_create(inside_shard(s->engine), &init, memory);
    assert_true(uro_gid_parse("10.0.0.2", &attr.address.dest));
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, qp, &attr, to_init, s->now), 0);
    attr.state = URO_QPS_RTR;
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, qp, &attr, to_rtr, s->now), -22);
    assert_null(uro_qp_lend_resources(qp, answers, uro_qp_resources_size(16)));
    attr.max_dest_rd_atomic = 17;
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, qp, &attr, to_rtr, s->now), -22);
    assert_ptr_equal(uro_qp_lend_resources(qp, more, uro_qp_resources_size(17)), answers);
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, qp, &attr, to_rtr, s->now), 0);
    uro_engine_qp_destroy(s->engine->engine, qp);
    free(more);
    free(answers);
    free(memory);
    scene_close(s);
}

/* At first, the queue pair allows only operations whose response is an ACK. Later it allows others,
 * which need responder resources. */
static void modify__read_rights_without_responder_resources__einval(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    const unsigned rights[] = { UROCE_ACCESS_REMOTE_WRITE, UROCE_ACCESS_REMOTE_READ,
                                UROCE_ACCESS_REMOTE_ATOMIC, UROCE_ACCESS_FLUSH_GLOBAL,
                                UROCE_ACCESS_FLUSH_PERSISTENT };
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .send_cq = s->send_cq->core,
                                      .recv_cq = s->recv_cq->core,
                                      .lends_resources = true };
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = 1,
                                .access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_MW_BIND,
                                .path_mtu = 1024,
                                .max_dest_rd_atomic = 128,
                                .address = { .sgid_index = 1 } };
    void *memory = aligned_alloc(64, (uro_qp_size(&init) + 63) & ~(size_t)63);
    void *answers = malloc(uro_qp_resources_size(128));
    struct uro_qp *qp = uro_qp_create(inside_shard(s->engine), &init, memory);

    assert_true(uro_gid_parse("10.0.0.2", &attr.address.dest));
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, qp, &attr,
                                          UROCE_ATTR_STATE | UROCE_ATTR_PKEY_INDEX |
                                              UROCE_ATTR_PORT | UROCE_ATTR_ACCESS,
                                          s->now),
                     0);
    attr.state = URO_QPS_RTR;
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, qp, &attr,
                                          UROCE_ATTR_STATE | UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU |
                                              UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN |
                                              UROCE_ATTR_MAX_DEST_RD_ATOMIC |
                                              UROCE_ATTR_MIN_RNR_TIMER,
                                          s->now),
                     0);
    assert_null(uro_qp_problem(qp));
    attr.state = URO_QPS_RTS;
    const unsigned to_rts = UROCE_ATTR_STATE | UROCE_ATTR_TIMEOUT | UROCE_ATTR_RETRY_CNT |
                            UROCE_ATTR_RNR_RETRY | UROCE_ATTR_SQ_PSN | UROCE_ATTR_MAX_RD_ATOMIC;
    for (size_t i = 0; i < URO_ARRAY_LEN(rights); i++) {
        attr.access = rights[i];
        assert_int_equal(uro_qp_resources_needed(qp, &attr, UROCE_ATTR_ACCESS),
                         uro_qp_resources_size(128));
        assert_int_equal(
            uro_engine_qp_modify(s->engine->engine, qp, &attr, to_rts | UROCE_ATTR_ACCESS, s->now),
            -22);
    }
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, qp, &attr, to_rts, s->now), 0);
    assert_null(uro_qp_lend_resources(qp, answers, uro_qp_resources_size(128)));
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, qp, &attr, UROCE_ATTR_ACCESS, s->now),
                     0);
    assert_null(uro_qp_problem(qp));
    uro_engine_qp_destroy(s->engine->engine, qp);
    free(answers);
    free(memory);
    scene_close(s);
}

/* rxe may have more FLUSHes in flight than max_dest_rd_atomic allows. */
static void modify__responder_resources_needed__more_with_flush_rights(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    const struct {
        uint32_t access;
        uint8_t depth;
        uint8_t answers;
    } rows[] = { { UROCE_ACCESS_REMOTE_READ, 1, 2 },
                 { UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC, 5, 16 },
                 { UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_FLUSH_GLOBAL, 1, 16 },
                 { UROCE_ACCESS_FLUSH_PERSISTENT, 20, 32 },
                 { UROCE_ACCESS_LOCAL_WRITE, 128, 0 } };
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .send_cq = s->send_cq->core,
                                      .recv_cq = s->recv_cq->core,
                                      .lends_resources = true };
    void *memory = aligned_alloc(64, (uro_qp_size(&init) + 63) & ~(size_t)63);
    struct uro_qp *qp = uro_qp_create(inside_shard(s->engine), &init, memory);

    for (size_t i = 0; i < URO_ARRAY_LEN(rows); i++) {
        const struct uro_qp_attr attr = { .access = rows[i].access,
                                          .max_dest_rd_atomic = rows[i].depth };
        const unsigned mask = UROCE_ATTR_ACCESS | UROCE_ATTR_MAX_DEST_RD_ATOMIC;
        assert_int_equal(uro_qp_resources_needed(qp, &attr, mask),
                         rows[i].answers * (uro_qp_resources_size(128) / 128));
        assert_int_equal(uro_qp_resources_needed(qp, &attr, UROCE_ATTR_ACCESS),
                         0); /* max_dest_rd_atomic is not known yet */
    }
    uro_engine_qp_destroy(s->engine->engine, qp);
    free(memory);
    scene_close(s);
}

static void rc_read__responder_resources_moved__duplicates_are_answered(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);
    const size_t size = uro_qp_resources_size(128);
    void *other = malloc(size);

    scene_fill(s->remote, 0, 2048);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 2048));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .msn = 1, .length = 1024));
    void *before = uro_qp_lend_resources(s->qp->core, other, size);
    assert_non_null(before);
    memset(before, 0xa5, size);
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 101, .msn = 1, .length = 1024, .fill = 1024));
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 2048));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .msn = 1, .length = 1024));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 101, .msn = 1, .length = 1024, .fill = 1024));
    scene_close(s);
    free(other);
}

/* ---- requests ----------------------------------------------------------- */

/* Posts a SEND, and replaces its operation in the queue by @opcode. */
static void send_what_is_not_offered(struct scene *s, uint32_t length, enum uroce_opcode opcode)
{
    scene_post_send(s, SEND(.id = 1, .length = length));
    inside_request(s->qp, 0)->opcode = (uint8_t)opcode;
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_LOC_QP_OP_ERR);
    scene_expect_reason(scene_last()->reason, "the operation is not supported");
    scene_expect_state(s, UROCE_SQE);
    scene_close(s);
}

static void uc__operation_without_opcode__fails_at_transmission(void **state)
{
    (void)state;
    const enum uroce_opcode not_offered[] = { UROCE_RDMA_READ, UROCE_COMPARE_SWAP,
                                              UROCE_FETCH_ADD, UROCE_SEND_WITH_INV,
                                              UROCE_FLUSH,     UROCE_ATOMIC_WRITE };

    for (size_t i = 0; i < URO_ARRAY_LEN(not_offered); i++)
        send_what_is_not_offered(scene_uc(.sq_psn = 7), 8, not_offered[i]);

    assert_true(uro_mark_hit("POST.SERVICE"));
}

/* Only the last packet would carry the key, but even the first packet is not sent. */
static void uc__message_whose_last_packet_cannot_be_sent__is_not_started(void **state)
{
    (void)state;
    send_what_is_not_offered(scene_uc(.sq_psn = 7), 3000, UROCE_SEND_WITH_INV);
}

static void ud__operation_other_than_send__fails_at_transmission(void **state)
{
    (void)state;
    const enum uroce_opcode not_offered[] = { UROCE_RDMA_WRITE,    UROCE_RDMA_WRITE_WITH_IMM,
                                              UROCE_RDMA_READ,     UROCE_COMPARE_SWAP,
                                              UROCE_SEND_WITH_INV, UROCE_LOCAL_INV,
                                              UROCE_BIND_MW,       UROCE_FLUSH };

    for (size_t i = 0; i < URO_ARRAY_LEN(not_offered); i++)
        send_what_is_not_offered(scene_ud(), 8, not_offered[i]);

    assert_true(uro_mark_hit("POST.SERVICE"));
}

static void ud_send__handle_of_another_domain__error_completion(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_pd *other;
    struct uroce_ah *ah;

    assert_int_equal(uroce_pd_create(s->engine, &other), 0);
    struct uroce_address address = { .sgid_index = 1 };
    assert_int_equal(uroce_gid_parse("10.0.0.2", address.gid), 0);
    assert_int_equal(uroce_ah_create(other, &address, s->now, &ah), 0);
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    inside_request(s->qp, 0)->to.ah = uro_ah_number(&ah->core);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_LOC_QP_OP_ERR);
    scene_expect_reason(scene_last()->reason,
                        "the address handle was destroyed or is of another PD");
    assert_int_equal(uroce_ah_destroy(ah), 0);
    assert_int_equal(uroce_pd_destroy(other), 0);
    scene_close(s);
}

/* The first byte of the header is reserved and stays 0, whatever the program sets. */
static void xrc_send__number_beyond_24_bits__reserved_byte_stays_zero(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini();
    uint8_t octets[SCENE_FRAME_MAX];

    scene_post_send(s, SEND(.id = 1, .text = "x"));
    inside_request(s->qp, 0)->xrc_srqn = 0xff000102;
    assert_int_not_equal(scene_output(s, 0, octets), 0);
    assert_memory_equal(octets + 14 + 20 + 8 + 12, "\0\0\1\2", 4);
    scene_rx(s, 0, PACKET(.op = "XRC_ACK", .psn = 0, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

/* rule QP.ALT.PATH */
static void modify__alternate_path__is_refused(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.stop_at = UROCE_INIT);
    struct uro_qp_attr attr = { .state = URO_QPS_RTR,
                                .path_mtu = 1024,
                                .address = { .sgid_index = 1 } };

    assert_true(uro_gid_parse("10.0.0.2", &attr.address.dest));
    assert_int_equal(uro_engine_qp_modify(s->engine->engine, s->qp->core, &attr,
                                          URO_ATTR_STATE | URO_ATTR_AV | URO_ATTR_PATH_MTU |
                                              URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
                                              URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR |
                                              URO_ATTR_ALT_PATH,
                                          s->now),
                     -EINVAL);
    assert_true(uro_mark_hit("QP.ALT.PATH"));
    scene_close(s);
}

/* ---- receives that are hidden on purpose ------------------------------------ */

static void expect_served(struct scene *s, uint32_t psn, uint32_t id)
{
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = psn, .msn = id));
    scene_expect_recv(s, id, UROCE_SUCCESS, 2);
}

static void expect_rnr_nak(struct scene *s, uint32_t psn, uint32_t msn)
{
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = psn, .syndrome = 0x2c, .msn = msn));
}

/* Messages 2, 4 and so on find no receive at first. */
static void receives__every_second_hidden__rnr_nak_then_delivered(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .min_rnr_timer = 12);

    uro_engine_hide_receives(s->engine->engine, 2, 2);
    for (uint32_t id = 1; id <= 4; id++)
        scene_post_recv(s, id, 64);
    expect_served(s, 100, 1);
    expect_rnr_nak(s, 101, 1);
    expect_served(s, 101, 2);
    expect_served(s, 102, 3);
    expect_rnr_nak(s, 103, 3);
    expect_served(s, 103, 4);
    scene_close(s);
}

static void receives__all_hidden__messages_are_never_delivered(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .min_rnr_timer = 12);

    uro_engine_hide_receives(s->engine->engine, 1, 1);
    scene_post_recv(s, 1, 64);
    expect_rnr_nak(s, 100, 0);
    expect_rnr_nak(s, 100, 0);
    expect_rnr_nak(s, 100, 0);
    scene_expect_no_completion(s);
    scene_close(s);
}

/* ---- a CQ that overflows on purpose ------------------------------------------ */

static void cq__overflow_is_requested__queue_pair_fails_at_its_next_completion(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 64);
    uro_cq_overflow(inside_shard(s->engine), s->recv_cq->core);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "hi"));
    scene_expect_state(s, UROCE_ERR);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receives__every_second_hidden__rnr_nak_then_delivered),
        cmocka_unit_test(receives__all_hidden__messages_are_never_delivered),
        cmocka_unit_test(cq__overflow_is_requested__queue_pair_fails_at_its_next_completion),
        cmocka_unit_test(modify__too_few_responder_resources__einval_until_enough_are_lent),
        cmocka_unit_test(modify__read_rights_without_responder_resources__einval),
        cmocka_unit_test(modify__responder_resources_needed__more_with_flush_rights),
        cmocka_unit_test(rc_read__responder_resources_moved__duplicates_are_answered),
        cmocka_unit_test(uc__operation_without_opcode__fails_at_transmission),
        cmocka_unit_test(uc__message_whose_last_packet_cannot_be_sent__is_not_started),
        cmocka_unit_test(ud__operation_other_than_send__fails_at_transmission),
        cmocka_unit_test(ud_send__handle_of_another_domain__error_completion),
        cmocka_unit_test(xrc_send__number_beyond_24_bits__reserved_byte_stays_zero),
        cmocka_unit_test(modify__alternate_path__is_refused),
    };
    return cmocka_run_group_tests_name("scenario/inside", tests, NULL, NULL);
}
