/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_read.c - tests RDMA READ and atomics, whose responses carry data and may be lost or
 * repeated. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mark.h"
#include "scene.h"

static uint64_t remote_va(const struct scene *s, uint32_t offset)
{
    return (uintptr_t)s->remote + offset;
}

/* ---- as responder ------------------------------------------------------- */

static void rc_read__repeated_from_the_middle__only_the_rest_is_sent(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_fill(s->remote, 0, 2500);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 2500));
    for (uint32_t i = 0; i < 3; i++) {
        scene_skip(s);
    }
    scene_rx(s, 0,
             PACKET(.op = "RC_READ_REQUEST", .psn = 101, .ack_req = true, .va = remote_va(s, 1024),
                    .dma = 1476));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 101, .msn = 1, .length = 1024, .fill = 1024));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 102, .msn = 1, .length = 452, .fill = 2048));
    /* A duplicate of the whole READ: the range of the first request is unchanged. */
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 2500));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .msn = 1, .length = 1024));
    scene_expect_tx(
        s, 0, PACKET(.op = "RC_READ_RESPONSE_MIDDLE", .psn = 101, .length = 1024, .fill = 1024));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 102, .msn = 1, .length = 452, .fill = 2048));
    scene_expect_mark(s, "RSP.DUP.READ");
    scene_close(s);
}

/* The response covers the range of the duplicate request, not of the first request. */
/* bug B17 */
static void rc_read__repeated_for_fewer_bytes__gets_these_bytes_and_later_all(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_fill(s->remote, 0, 2000);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 2000));
    for (uint32_t dma = 2000; dma > 0; dma -= 500) {
        if (dma < 2000)
            scene_rx(s, 0,
                     PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = dma));
        if (dma <= 1024) {
            scene_expect_tx(
                s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1, .length = dma));
            continue;
        }
        scene_expect_tx(
            s, 0, PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .msn = 1, .length = 1024));
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 101, .msn = 1,
                               .length = dma - 1024, .fill = 1024));
    }
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true));
    scene_expect_tx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1));
    scene_rx(s, 0,
             PACKET(.op = "RC_READ_REQUEST", .psn = 101, .ack_req = true, .dma = 976,
                    .va = remote_va(s, 1024)));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 101, .msn = 1, .length = 976, .fill = 1024));
    scene_close(s);
}

/* The ACK of the SEND would acknowledge the READ as well, so the READ data goes first. */
static void rc_read__send_follows__ack_of_the_send_waits_for_the_data(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_fill(s->remote, 0, 10);
    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 10));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 101, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 2, .length = 10));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);
    scene_expect_mark(s, "RSP.ACK.ORDER");
    scene_close(s);
}

/* bug B18 */
static void rc_read__zero_bytes_twice__gets_two_responses(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    for (int i = 0; i < 2; i++) {
        scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .rkey = 5));
        scene_expect_tx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1));
    }
    scene_expect_state(s, UROCE_RTS);
    scene_expect_mark(s, "RSP.DUP.READ.ZERO");
    scene_close(s);
}

/* The peer retransmits the first READ, and then receives the first response to it. So it may start
 * the next READ. This READ arrives while the second response to the first READ is still pending. */
static void rc_read__next_read_after_a_duplicate__is_within_max_dest_rd_atomic(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .dest_depth = 1);

    scene_fill(s->remote, 0, 30);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 10));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1, .length = 10));
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 10));
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 101, .ack_req = true, .dma = 20));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 2, .length = 10));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 101, .msn = 2, .length = 20));
    scene_expect_state(s, UROCE_RTS);
    scene_close(s);
}

/* The responder keeps sixteen requests. A peer that starts one more no longer needs the oldest. */
static void rc_read__resources_full_and_oldest_repeated__oldest_is_evicted(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .dest_depth = 16);

    scene_fill(s->remote, 0, 10);
    for (uint32_t i = 0; i < 16; i++) {
        scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100 + i, .dma = 10));
        scene_expect_tx(
            s, 0,
            PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100 + i, .msn = 1 + i, .length = 10));
    }
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 10));
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 116, .dma = 10));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 116, .msn = 17, .length = 10));
    scene_expect_state(s, UROCE_RTS);
    scene_close(s);
}

static void rc_read__more_outstanding_than_allowed__is_refused(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .dest_depth = 1);

    scene_fill(s->remote, 0, 10);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 10));
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 101, .ack_req = true, .dma = 10));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1, .length = 10));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x61, .msn = 1));
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_REQ_ERR);
    scene_expect_mark(s, "RSP.DEPTH");
    scene_close(s);
}

static void rc_read__region_deregistered_meanwhile__access_nak(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 2500));
    scene_skip(s);
    scene_register(s, 0xf); /* with another key */
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x62, .msn = 1));
    scene_expect_state(s, UROCE_ERR);
    scene_expect_mark(s, "RSP.READ.REVOKED");
    scene_close(s);
}

static void rc_read__duplicate_of_a_deregistered_region__connection_survives(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_fill(s->remote, 0, 10);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 10));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1, .length = 10));
    const uint32_t gone = uroce_mr_key(s->remote_mr);
    scene_register(s, 0xf); /* with another key */
    scene_rx(s, 0,
             PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 10, .rkey = gone));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62, .msn = 1));
    scene_expect_state(s, UROCE_RTS);
    scene_expect_mark(s, "RSP.DUP.READ.REVOKED");
    scene_close(s);
}

struct adder {
    _Atomic uint64_t *word;
    atomic_bool stop;
    uint64_t added;
};

static void *add_locally(void *argument)
{
    struct adder *adder = argument;

    while (!atomic_load(&adder->stop)) {
        atomic_fetch_add(adder->word, 1);
        adder->added++;
    }
    return NULL;
}

/* The program adds to the same word as the peer, and no addition is lost. */
static void rc_atomic__thread_adds_to_the_same_word__nothing_is_lost(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 0);
    struct adder adder = { .word = (_Atomic uint64_t *)(void *)s->remote };
    uint32_t psn = 0;
    pthread_t thread;

    atomic_store(adder.word, 0);
    assert_int_equal(pthread_create(&thread, NULL, add_locally, &adder), 0);
    for (; psn < 20000; psn++) {
        scene_rx(s, 0, PACKET(.op = "RC_FETCH_ADD", .psn = psn, .swap_add = UINT64_C(1) << 40));
        scene_skip(s);
    }
    atomic_store(&adder.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(atomic_load(adder.word) == adder.added + ((uint64_t)psn << 40));
    scene_close(s);
    assert_true(uro_mark_hit("RSP.ATOMIC.CPU"));
}

/* ---- as requester ------------------------------------------------------- */

static void rc_read__response_lost__requested_from_the_first_missing_psn(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 2000);
    const uro_time later = (UINT64_C(4096) << 14) + URO_US(2);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 3000, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 2000, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 3000));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 2000, .msn = 1, .length = 1024));
    scene_expect_tx(s, later,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 2001, .ack_req = true, .va = 0x1400,
                           .rkey = 0x77, .dma = 1976));
    scene_rx(s, later,
             PACKET(.op = "RC_READ_RESPONSE_MIDDLE", .psn = 2001, .length = 1024, .fill = 1024));
    scene_rx(
        s, later,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 2002, .msn = 1, .length = 952, .fill = 2048));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_assert_filled(s->local, 0, 3000);
    scene_close(s);
    assert_true(uro_mark_hit("REQ.READ.PSN"));
}

/* bug B13 */
static void rc_read__ack_instead_of_data__is_a_gap_not_a_completion(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 100, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 5, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 100));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 5, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 100));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 5, .msn = 1, .length = 100));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.GAP.BACK");
    scene_expect_mark(s, "REQ.ACK.READ");
    scene_close(s);
}

/* bug B14 */
static void rc_read__response_too_short__error_completion(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 100, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 5, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 100));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 5, .msn = 1, .length = 99));
    scene_expect_sent(s, 1, UROCE_BAD_RESP_ERR);
    scene_expect_mark(s, "REQ.RESP.BAD");
    scene_close(s);
}

static void rc_read__max_rd_atomic_reached__the_next_read_waits(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5, .depth = 1);

    for (uint64_t id = 1; id <= 2; id++)
        scene_post_send(s, SEND(.id = id, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77,
                                .remote_address = 0x1000, .at = (uint32_t)id * 8));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 5, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 5, .msn = 1, .length = 8));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 6, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 6, .msn = 2, .length = 8));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.DEPTH");
    scene_close(s);
}

static void rc_atomic__compare_and_swap__operands_and_result_are_right(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 9);
    uint64_t result;

    scene_post_send(s, SEND(.id = 1, .op = UROCE_COMPARE_SWAP, .length = 8, .rkey = 0x77,
                            .remote_address = 0x2000, .compare_add = 11, .swap = 22));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_CMP_SWAP", .psn = 9, .ack_req = true, .va = 0x2000,
                           .rkey = 0x77, .swap_add = 22, .compare = 11));
    scene_rx(s, 0, PACKET(.op = "RC_ATOMIC_ACK", .psn = 9, .msn = 1, .original = 0x1122334455));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    memcpy(&result, s->local, sizeof result);
    assert_true(result == 0x1122334455);
    scene_close(s);
    assert_true(uro_mark_hit("REQ.ATOMIC.ORDER"));
}

/* Linux rxe 6.12 sends such an ACK. Its own queue pairs fail when they get such an ACK. */
static void rc_read__old_ack_between_the_responses__changes_nothing(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, SEND(.id = 1, .text = "x"));
    scene_post_send(s, SEND(.id = 2, .op = UROCE_RDMA_READ, .length = 1032, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 5, .ack_req = true, .text = "x"));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 6, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 1032));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 6, .msn = 2, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = 7, .msn = 2, .length = 8));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_silence(s, 0);
    scene_expect_mark(s, "REQ.ACK.OLD");
    scene_close(s);
}

static void rc_fence__send_after_a_read__waits_for_the_data(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_post_send(s, SEND(.id = 2, .flags = UROCE_FENCE, .text = "x", .at = 64));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = 5, .ack_req = true, .va = 0x1000,
                           .rkey = 0x77, .dma = 8));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = 5, .msn = 1, .length = 8));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 6, .ack_req = true, .text = "x"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 6, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.FENCE");
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_read__repeated_from_the_middle__only_the_rest_is_sent),
        cmocka_unit_test(rc_read__repeated_for_fewer_bytes__gets_these_bytes_and_later_all),
        cmocka_unit_test(rc_read__send_follows__ack_of_the_send_waits_for_the_data),
        cmocka_unit_test(rc_read__zero_bytes_twice__gets_two_responses),
        cmocka_unit_test(rc_read__next_read_after_a_duplicate__is_within_max_dest_rd_atomic),
        cmocka_unit_test(rc_read__resources_full_and_oldest_repeated__oldest_is_evicted),
        cmocka_unit_test(rc_read__more_outstanding_than_allowed__is_refused),
        cmocka_unit_test(rc_read__region_deregistered_meanwhile__access_nak),
        cmocka_unit_test(rc_read__duplicate_of_a_deregistered_region__connection_survives),
        cmocka_unit_test(rc_atomic__thread_adds_to_the_same_word__nothing_is_lost),
        cmocka_unit_test(rc_read__response_lost__requested_from_the_first_missing_psn),
        cmocka_unit_test(rc_read__ack_instead_of_data__is_a_gap_not_a_completion),
        cmocka_unit_test(rc_read__response_too_short__error_completion),
        cmocka_unit_test(rc_read__max_rd_atomic_reached__the_next_read_waits),
        cmocka_unit_test(rc_atomic__compare_and_swap__operands_and_result_are_right),
        cmocka_unit_test(rc_read__old_ack_between_the_responses__changes_nothing),
        cmocka_unit_test(rc_fence__send_after_a_read__waits_for_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
