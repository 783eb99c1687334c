/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_edges.c - tests responses that match no request, requests out of bounds, and completion
 * queues that become full in the middle of an operation.
 */
#include <errno.h>

#include "scene.h"

/* ---- out of bounds ------------------------------------------------------- */

static void rc_read__max_rd_atomic_0__fails(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5, .depth = 0);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_LOC_QP_OP_ERR);
    scene_expect_reason(scene_last()->reason,
                        "a READ, atomic or FLUSH was posted with max_rd_atomic 0");
    scene_close(s);
}

static void rc_read__longer_than_2_gib__invalid_request(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 0x80000001));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x61));
    scene_expect_event(s, UROCE_EVENT_QP_REQ_ERR);
    scene_expect_state(s, UROCE_ERR);
    scene_close(s);
}

static void qp__send_capacity_above_the_limit__is_not_created(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    const struct uroce_qp_config config = { .size = sizeof config,
                                            .send_cq = s->send_cq,
                                            .recv_cq = s->recv_cq,
                                            .send_capacity = UINT32_MAX };
    struct uroce_qp *qp;

    assert_int_equal(uroce_qp_create(s->pd, &config, &qp), -EINVAL);
    scene_close(s);
}

static void post_and_read(struct scene *s, uint32_t id, uint32_t psn)
{
    scene_post_send(s, SEND(.id = id, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = psn, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
}

/* ---- responses that match no request ------------------------------------- */

static void rc_atomic__answered_with_the_syndrome_of_a_nak__bad_response(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_FETCH_ADD, .length = 8, .rkey = 0x77,
                            .remote_address = 0x2000, .compare_add = 1));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_FETCH_ADD", .psn = 5, .ack_req = true, .va = 0x2000,
                           .rkey = 0x77, .swap_add = 1));
    scene_rx(s, 0, PACKET(.op = "RC_ATOMIC_ACK", .psn = 5, .syndrome = 0x62, .original = 7));
    scene_expect_sent(s, 1, UROCE_BAD_RESP_ERR);
    scene_expect_mark(s, "REQ.RESP.BAD");
    scene_close(s);
}

static void rc_send__read_response_instead_of_ack__bad_response(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, SEND(.id = 1, .length = 2100));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_FIRST", .psn = 5, .octets = s->local, .length = 1024));
    scene_expect_tx(
        s, 0, PACKET(.op = "RC_SEND_MIDDLE", .psn = 6, .octets = s->local + 1024, .length = 1024));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_LAST", .psn = 7, .ack_req = true,
                           .octets = s->local + 2048, .length = 52));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 7, .msn = 1, .length = 8));
    scene_expect_sent(s, 1, UROCE_BAD_RESP_ERR);
    scene_expect_mark(s, "REQ.RESP.BAD");
    scene_close(s);
}

/* A correct peer does not send a later response during the RNR wait. The response does not end the
 * wait. */
static void rc_read__later_response_in_the_rnr_wait__wait_continues(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    post_and_read(s, 1, 5);
    post_and_read(s, 2, 6);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .syndrome = 0x2c)); /* RNR, 0.64 ms */
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 6, .msn = 2, .length = 8));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 6, .msn = 2, .length = 8));
    scene_expect_silence(s, URO_US(600));
    scene_expect_no_completion(s);
    scene_expect_tx(s, URO_US(700),
                    PACKET(.op = "RC_READ_REQUEST", .psn = 5, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
    scene_expect_tx(s, URO_US(700),
                    PACKET(.op = "RC_READ_REQUEST", .psn = 6, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
    scene_close(s);
}

/* ---- the buffer is unregistered when the response arrives ---------------- */

static void rc_read__buffer_deregistered__protection_error(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 5, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
    scene_register_local(s, UROCE_ACCESS_LOCAL_WRITE);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 5, .msn = 1, .length = 8));
    scene_expect_sent(s, 1, UROCE_LOC_PROT_ERR);
    scene_close(s);
}

static void rc_atomic__buffer_deregistered__protection_error(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_FETCH_ADD, .length = 8, .rkey = 0x77,
                            .remote_address = 0x2000, .compare_add = 1));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_FETCH_ADD", .psn = 5, .ack_req = true, .va = 0x2000,
                           .rkey = 0x77, .swap_add = 1));
    scene_register_local(s, UROCE_ACCESS_LOCAL_WRITE);
    scene_rx(s, 0, PACKET(.op = "RC_ATOMIC_ACK", .psn = 5, .msn = 1, .original = 7));
    scene_expect_sent(s, 1, UROCE_LOC_PROT_ERR);
    scene_close(s);
}

/* ---- a completion queue with one entry ----------------------------------- */

/* Checks the effects of a second completion that finds no free entry. */
static void expect_overrun(struct scene *s)
{
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_mark(s, "CQ.OVERRUN");
    scene_expect_event(s, UROCE_EVENT_CQ_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_FATAL);
    scene_expect_state(s, UROCE_ERR);
    scene_close(s);
}

static void post_and_send(struct scene *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        scene_post_send(s, SEND(.id = i + 1, .text = "x"));
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_SEND_ONLY", .psn = 5 + i, .ack_req = true, .text = "x"));
    }
}

static void cq__full_when_a_nak_acknowledges_requests__no_request_fails(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5, .cq_capacity = 1);

    post_and_send(s, 3);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 7, .syndrome = 0x62));
    expect_overrun(s);
}

static void cq__full_when_a_response_acknowledges_requests__data_is_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5, .cq_capacity = 1);

    post_and_send(s, 2);
    post_and_read(s, 3, 7);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 7, .msn = 3, .length = 8));
    expect_overrun(s);
}

static void cq__full_when_a_read_is_complete__nothing_more_is_sent(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5, .cq_capacity = 1);

    post_and_send(s, 1);
    post_and_read(s, 2, 6);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 6, .msn = 2, .length = 8));
    expect_overrun(s);
}

static void cq__full_at_a_reserved_syndrome__no_request_fails(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5, .cq_capacity = 1);

    post_and_send(s, 3);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 7, .syndrome = 0x42));
    expect_overrun(s);
}

static void cq__full_for_a_uc_send__queue_pair_fails(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 5, .cq_capacity = 1);

    for (uint32_t i = 0; i < 2; i++)
        scene_post_send(s, SEND(.id = i + 1, .text = "x"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 5, .text = "x"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 6, .text = "x"));
    scene_expect_silence(s, 0);
    expect_overrun(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_read__max_rd_atomic_0__fails),
        cmocka_unit_test(rc_read__longer_than_2_gib__invalid_request),
        cmocka_unit_test(qp__send_capacity_above_the_limit__is_not_created),
        cmocka_unit_test(rc_atomic__answered_with_the_syndrome_of_a_nak__bad_response),
        cmocka_unit_test(rc_send__read_response_instead_of_ack__bad_response),
        cmocka_unit_test(rc_read__later_response_in_the_rnr_wait__wait_continues),
        cmocka_unit_test(rc_read__buffer_deregistered__protection_error),
        cmocka_unit_test(rc_atomic__buffer_deregistered__protection_error),
        cmocka_unit_test(cq__full_when_a_nak_acknowledges_requests__no_request_fails),
        cmocka_unit_test(cq__full_when_a_response_acknowledges_requests__data_is_dropped),
        cmocka_unit_test(cq__full_when_a_read_is_complete__nothing_more_is_sent),
        cmocka_unit_test(cq__full_at_a_reserved_syndrome__no_request_fails),
        cmocka_unit_test(cq__full_for_a_uc_send__queue_pair_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
