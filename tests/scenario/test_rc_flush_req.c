/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_flush_req.c - tests which packets the requester of FLUSH and ATOMIC_WRITE sends, and
 * which responses it accepts. */
#include <string.h>

#include "scene.h"

#define TIMEOUT ((UINT64_C(4096) << 14) + URO_US(2))

#define FLUSH_PACKET(...) PACKET(.op = "RC_FLUSH", .ack_req = true, .placement = 1, __VA_ARGS__)
#define AWRITE_PACKET(...)                                                                         \
    PACKET(.op = "RC_ATOMIC_WRITE", .ack_req = true, .dma = 8, .text = "12345678", __VA_ARGS__)
#define DONE(...) PACKET(.op = "RC_READ_RESPONSE_ONLY", __VA_ARGS__)

/* Requests to post, and their packets. */
#define FLUSH(...)                                                                                 \
    SEND(.op = UROCE_FLUSH, .placement = 1, .length = 64, .remote_address = 0x1000, .rkey = 0x77,  \
         __VA_ARGS__)
#define FLUSH_SENT(...) FLUSH_PACKET(.va = 0x1000, .rkey = 0x77, .dma = 64, __VA_ARGS__)
#define AWRITE(...)                                                                                \
    SEND(.op = UROCE_ATOMIC_WRITE, .flags = UROCE_INLINE, .text = "12345678",                      \
         .remote_address = 0x2000, .rkey = 0x77, __VA_ARGS__)
#define AWRITE_SENT(...) AWRITE_PACKET(.va = 0x2000, .rkey = 0x77, __VA_ARGS__)

static void rc_flush__posted__completes_with_the_response(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, FLUSH(.id = 1, .placement = 3, .selectivity = 1));
    /* FLUSH of all memory of the key has no length */
    scene_expect_tx(s, 0, FLUSH_SENT(.psn = 5, .placement = 3, .selectivity = 1, .dma = 0));
    scene_rx(s, 0, DONE(.psn = 5, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_FLUSH);
    scene_close(s);
}

static void rc_atomic_write__posted__completes_with_the_response(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, AWRITE(.id = 1));
    memset(s->local, 0, 8); /* the data was inline: changes of the buffer have no effect */
    scene_expect_tx(s, 0, AWRITE_SENT(.psn = 5));
    scene_rx(s, 0, DONE(.psn = 5, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_ATOMIC_WRITE);
    scene_close(s);
}

static void rc_atomic_write__response_lost__is_sent_again(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, AWRITE(.id = 1));
    scene_expect_tx(s, 0, AWRITE_SENT(.psn = 5));
    scene_expect_tx(s, TIMEOUT, AWRITE_SENT(.psn = 5));
    scene_rx(s, TIMEOUT, DONE(.psn = 5, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

/* If the peer does not respond to the standard ICRC, the requester tries rxe's ICRC. If the peer
 * responds to this ICRC, the requester uses it at once for later requests. */
static void rc_flush__unanswered__is_sent_again_with_the_other_icrc(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, FLUSH(.id = 1));
    scene_expect_tx(s, 0, FLUSH_SENT(.psn = 5));
    scene_expect_tx(s, TIMEOUT, FLUSH_SENT(.psn = 5, .rxe_icrc = true));
    scene_rx(s, TIMEOUT, DONE(.psn = 5, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_post_send(s, FLUSH(.id = 2));
    scene_expect_tx(s, TIMEOUT, FLUSH_SENT(.psn = 6, .rxe_icrc = true));
    scene_rx(s, TIMEOUT, DONE(.psn = 6, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.FLUSH.ICRC");
    scene_close(s);
}

static void rc_flush__never_answered__alternates_and_fails(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5, .retry_count = 3);

    scene_post_send(s, FLUSH(.id = 1));
    for (uint64_t i = 0; i <= 3; i++)
        scene_expect_tx(s, i * TIMEOUT, FLUSH_SENT(.psn = 5, .rxe_icrc = i % 2 == 1));
    scene_expect_silence(s, 4 * TIMEOUT);
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    scene_expect_state(s, UROCE_ERR);
    scene_close(s);
}

/* The WRITE before the FLUSH may be lost, so the timeout does not show that the ICRC is wrong. */
static void rc_flush__earlier_write_unacknowledged__icrc_stays_the_same(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);
    const struct scene_packet write = { .op = "RC_WRITE_ONLY",
                                        .psn = 5,
                                        .ack_req = true,
                                        .va = 0x1000,
                                        .rkey = 0x77,
                                        .dma = 2,
                                        .text = "hi" };

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_WRITE, .text = "hi", .rkey = 0x77,
                            .remote_address = 0x1000));
    scene_post_send(s, FLUSH(.id = 2));
    for (uint64_t i = 0; i < 2; i++) {
        scene_expect_tx(s, i * TIMEOUT, &write);
        scene_expect_tx(s, i * TIMEOUT, FLUSH_SENT(.psn = 6));
    }
    scene_rx(s, TIMEOUT, DONE(.psn = 6, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

/* An ACK does not confirm that the data was flushed or written. */
static void rc_flush__ack_instead_of_the_response__is_a_gap_not_a_completion(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5);

    scene_post_send(s, FLUSH(.id = 1));
    scene_expect_tx(s, 0, FLUSH_SENT(.psn = 5));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .msn = 1));
    scene_expect_tx(s, 0, FLUSH_SENT(.psn = 5));
    scene_rx(s, 0, DONE(.psn = 5, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.ACK.READ");
    scene_close(s);
}

static void rc_requester__wrong_response__request_fails(void **state)
{
    static const struct {
        const char *name;
        struct scene_packet packet;
    } answers[] = {
        { "a response with payload", { .op = "RC_READ_RESPONSE_ONLY", .length = 8 } },
        { "the first of several", { .op = "RC_READ_RESPONSE_FIRST" } },
        { "the last of several", { .op = "RC_READ_RESPONSE_LAST" } },
        { "an old value", { .op = "RC_ATOMIC_ACK" } },
        { "a READ response with the syndrome of an RNR NAK",
          { .op = "RC_READ_RESPONSE_ONLY", .syndrome = 0x20 } },
    };
    (void)state;
    for (size_t i = 0; i < 2 * URO_ARRAY_LEN(answers); i++) {
        struct scene *s = scene_rc(.sq_psn = 5);
        struct scene_packet packet = answers[i / 2].packet;

        print_message("# %s\n", answers[i / 2].name);
        packet.psn = 5;
        scene_post_send(s, i % 2 == 0 ? FLUSH(.id = 1) : AWRITE(.id = 1));
        scene_expect_tx(s, 0, i % 2 == 0 ? FLUSH_SENT(.psn = 5) : AWRITE_SENT(.psn = 5));
        scene_rx(s, 0, &packet);
        scene_expect_sent(s, 1, UROCE_BAD_RESP_ERR);
        scene_expect_state(s, UROCE_ERR);
        scene_expect_mark(s, "REQ.RESP.BAD");
        scene_close(s);
    }
}

static void rc_requester__nak__request_fails_with_the_reason_of_the_nak(void **state)
{
    static const struct {
        uint8_t syndrome;
        enum uroce_status status;
    } naks[] = {
        { 0x61, UROCE_REM_INV_REQ_ERR },
        { 0x62, UROCE_REM_ACCESS_ERR },
        { 0x63, UROCE_REM_OP_ERR },
    };
    (void)state;
    for (size_t i = 0; i < 2 * URO_ARRAY_LEN(naks); i++) {
        struct scene *s = scene_rc(.sq_psn = 5);

        scene_post_send(s, i % 2 == 0 ? FLUSH(.id = 1) : AWRITE(.id = 1));
        scene_post_send(s, SEND(.id = 2, .text = "x", .at = 64));
        scene_expect_tx(s, 0, i % 2 == 0 ? FLUSH_SENT(.psn = 5) : AWRITE_SENT(.psn = 5));
        scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 6, .ack_req = true, .text = "x"));
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 5, .syndrome = naks[i / 2].syndrome));
        scene_expect_sent(s, 1, naks[i / 2].status);
        scene_expect_sent(s, 2, UROCE_WR_FLUSH_ERR);
        scene_expect_mark(s, "REQ.NAK");
        scene_close(s);
    }
}

/* FLUSH and ATOMIC_WRITE use responder resources, whose number is limited. */
static void rc_requester__max_rd_atomic_reached__the_next_request_waits(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 5, .depth = 1);

    scene_post_send(s, FLUSH(.id = 1));
    scene_post_send(s, AWRITE(.id = 2));
    scene_post_send(s, FLUSH(.id = 3));
    scene_expect_tx(s, 0, FLUSH_SENT(.psn = 5));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, DONE(.psn = 5, .msn = 1));
    scene_expect_tx(s, 0, AWRITE_SENT(.psn = 6));
    scene_expect_silence(s, 0);
    scene_rx(s, 0, DONE(.psn = 6, .msn = 2));
    scene_expect_tx(s, 0, FLUSH_SENT(.psn = 7));
    scene_rx(s, 0, DONE(.psn = 7, .msn = 3));
    for (uint64_t id = 1; id <= 3; id++)
        scene_expect_sent(s, id, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.DEPTH");
    scene_close(s);
}

static void rc_fence__send_after_a_flush__waits_for_the_response(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct scene *s = scene_rc(.sq_psn = 5);

        scene_post_send(s, i == 0 ? FLUSH(.id = 1) : AWRITE(.id = 1));
        scene_post_send(s, SEND(.id = 2, .flags = UROCE_FENCE, .text = "x", .at = 64));
        scene_expect_tx(s, 0, i == 0 ? FLUSH_SENT(.psn = 5) : AWRITE_SENT(.psn = 5));
        scene_expect_silence(s, 0);
        scene_rx(s, 0, DONE(.psn = 5, .msn = 1));
        scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 6, .ack_req = true, .text = "x"));
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 6, .msn = 2));
        scene_expect_sent(s, 1, UROCE_SUCCESS);
        scene_expect_sent(s, 2, UROCE_SUCCESS);
        scene_expect_mark(s, "REQ.FENCE");
        scene_close(s);
    }
}

static void xrc__flush_and_atomic_write__have_the_srq_number(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini(.sq_psn = 5);

    scene_post_send(s, FLUSH(.id = 1, .srqn = 0x54321));
    scene_post_send(s, AWRITE(.id = 2, .srqn = 0x54321));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_FLUSH", .psn = 5, .ack_req = true, .placement = 1,
                           .srqn = 0x54321, .va = 0x1000, .rkey = 0x77, .dma = 64));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_ATOMIC_WRITE", .psn = 6, .ack_req = true, .srqn = 0x54321,
                           .va = 0x2000, .rkey = 0x77, .dma = 8, .text = "12345678"));
    scene_rx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 5, .msn = 1));
    scene_rx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 6, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_flush__posted__completes_with_the_response),
        cmocka_unit_test(rc_atomic_write__posted__completes_with_the_response),
        cmocka_unit_test(rc_atomic_write__response_lost__is_sent_again),
        cmocka_unit_test(rc_flush__unanswered__is_sent_again_with_the_other_icrc),
        cmocka_unit_test(rc_flush__never_answered__alternates_and_fails),
        cmocka_unit_test(rc_flush__earlier_write_unacknowledged__icrc_stays_the_same),
        cmocka_unit_test(rc_flush__ack_instead_of_the_response__is_a_gap_not_a_completion),
        cmocka_unit_test(rc_requester__wrong_response__request_fails),
        cmocka_unit_test(rc_requester__nak__request_fails_with_the_reason_of_the_nak),
        cmocka_unit_test(rc_requester__max_rd_atomic_reached__the_next_request_waits),
        cmocka_unit_test(rc_fence__send_after_a_flush__waits_for_the_response),
        cmocka_unit_test(xrc__flush_and_atomic_write__have_the_srq_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
