/* SPDX-License-Identifier: BSD-3-Clause */
/* test_uc_receive.c - tests that a UC responder delivers a message whole or not at all, whatever
 * was lost. */
#include <string.h>

#include "base/mark.h"
#include "scene.h"

static void send_packet(struct scene *s, const char *op, uint32_t psn, uint32_t length,
                        uint32_t fill)
{
    scene_rx(s, 0, PACKET(.op = op, .psn = psn, .length = length, .fill = fill));
}

/* ---- SEND --------------------------------------------------------------- */

static void uc_send__three_packets__are_one_message_without_a_response(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 0xffffff);

    scene_post_recv(s, 1, 4096);
    send_packet(s, "UC_SEND_FIRST", 0xffffff, 1024, 0);
    send_packet(s, "UC_SEND_MIDDLE", 0, 1024, 1024);
    scene_expect_no_completion(s);
    scene_rx(s, 0,
             PACKET(.op = "UC_SEND_LAST_IMM", .psn = 1, .length = 3, .fill = 2048, .imm = 0x1234,
                    .ack_req = true));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2051);
    assert_int_equal(scene_last()->flags, UROCE_COMPLETION_WITH_IMM);
    assert_int_equal(scene_last()->imm, 0x1234);
    assert_int_equal(scene_last()->source_qpn, SCENE_QPN_PEER);
    scene_assert_filled(scene_recv_memory(s, 0), 0, 2051);
    scene_expect_silence(s, 0); /* UC ignores AckReq */
    scene_close(s);
    assert_true(uro_mark_hit("UC.SILENT"));
}

/* Loses FIRST, MIDDLE or LAST. The messages after the incomplete message always arrive. */
static void uc_send__any_packet_lost__only_this_message_is_lost_and_its_receive_is_reused(
    void **state)
{
    (void)state;
    static const char *const ops[] = { "UC_SEND_FIRST", "UC_SEND_MIDDLE", "UC_SEND_LAST" };
    static const uint64_t dropped[] = {
        2, 1, 0
    }; /* number of packets that are dropped after the loss of FIRST, MIDDLE or LAST */

    for (uint32_t lost = 0; lost < 3; lost++) {
        struct scene *s = scene_uc(.rq_psn = 10);

        scene_post_recv(s, 1, 4096);
        scene_post_recv(s, 2, 4096);
        for (uint32_t i = 0; i < 3; i++)
            if (i != lost)
                send_packet(s, ops[i], 10 + i, i < 2 ? 1024 : 7, 5000);
        scene_expect_no_completion(s);
        send_packet(s, "UC_SEND_FIRST", 13, 1024, 0);
        send_packet(s, "UC_SEND_LAST", 14, 8, 1024);
        scene_expect_recv(s, 1, UROCE_SUCCESS, 1032); /* the receive of the lost message */
        scene_assert_filled(scene_recv_memory(s, 0), 0, 1032);
        send_packet(s, "UC_SEND_ONLY", 15, 4, 9);
        scene_expect_recv(s, 2, UROCE_SUCCESS, 4);
        assert_int_equal(scene_counter(s, "drop_uc_sequence"), dropped[lost]);
        scene_expect_mark(s, lost == 2 ? "UC.FRESH" : "UC.LOSS");
        scene_expect_state(s, UROCE_RTS);
        scene_expect_silence(s, 0);
        scene_close(s);
    }
}

static void uc_send__packets_in_another_order__the_message_is_lost_the_next_is_not(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_post_recv(s, 1, 4096);
    send_packet(s, "UC_SEND_FIRST", 10, 1024, 0);
    send_packet(s, "UC_SEND_LAST", 12, 8, 2048);
    send_packet(s, "UC_SEND_MIDDLE", 11, 1024, 1024);
    scene_expect_no_completion(s);
    send_packet(s, "UC_SEND_ONLY", 13, 4, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    scene_close(s);
}

static void uc_send__middle_twice__the_message_is_lost_not_longer(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_post_recv(s, 1, 8192);
    send_packet(s, "UC_SEND_FIRST", 10, 1024, 0);
    send_packet(s, "UC_SEND_MIDDLE", 11, 1024, 1024);
    send_packet(s, "UC_SEND_MIDDLE", 11, 1024, 1024);
    send_packet(s, "UC_SEND_LAST", 12, 8, 2048);
    scene_expect_no_completion(s);
    assert_int_equal(scene_counter(s, "drop_uc_sequence"), 2);
    send_packet(s, "UC_SEND_ONLY", 13, 4, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    scene_close(s);
}

/* Delivers one message behind a gap of any size, across the wrap of PSNs. */
static void uc_send__any_gap_before_a_message__message_is_delivered(void **state)
{
    (void)state;
    static const uint32_t psns[] = { 10, 11, 500, 0x7fffff, 0xffffff, 0, 9, 9 };
    struct scene *s = scene_uc(.rq_psn = 10);

    for (size_t i = 0; i < URO_ARRAY_LEN(psns); i++) {
        scene_post_recv(s, i, 64);
        send_packet(s, "UC_SEND_ONLY", psns[i], 4, 0);
        scene_expect_recv(s, i, UROCE_SUCCESS, 4);
    }
    assert_int_equal(scene_counter(s, "drop_uc_sequence"), 0);
    scene_close(s);
}

static void uc_send__packet_of_a_write_inside__ends_the_message(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_post_recv(s, 1, 4096);
    send_packet(s, "UC_SEND_FIRST", 10, 1024, 0);
    send_packet(s, "UC_WRITE_MIDDLE", 11, 1024, 0);
    send_packet(s, "UC_SEND_LAST", 12, 8, 0);
    scene_expect_no_completion(s);
    assert_int_equal(scene_counter(s, "drop_uc_sequence"), 2);
    scene_close(s);
}

static void uc_send__no_receive__dropped_with_all_its_packets(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    send_packet(s, "UC_SEND_FIRST", 10, 1024, 0);
    scene_post_recv(s, 1, 4096); /* too late for FIRST */
    send_packet(s, "UC_SEND_MIDDLE", 11, 1024, 0);
    send_packet(s, "UC_SEND_LAST", 12, 8, 0);
    scene_expect_no_completion(s);
    assert_int_equal(scene_counter(s, "drop_uc_refused"), 1);
    assert_int_equal(scene_counter(s, "drop_uc_sequence"), 2);
    scene_expect_mark(s, "UC.REFUSE");
    scene_expect_silence(s, 0); /* no RNR NAK either */
    send_packet(s, "UC_SEND_ONLY", 13, 4, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    scene_close(s);
}

static void uc_send__longer_than_the_receive__dropped_and_the_receive_remains(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_post_recv(s, 1, 1030);
    send_packet(s, "UC_SEND_FIRST", 10, 1024, 0);
    send_packet(s, "UC_SEND_LAST", 11, 7, 0);
    send_packet(s, "UC_SEND_ONLY", 12, 1024, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1024);
    assert_int_equal(scene_counter(s, "drop_uc_refused"), 1);
    scene_post_recv(s, 2, 3);
    send_packet(s, "UC_SEND_ONLY", 13, 4, 0);
    scene_expect_no_completion(s);
    send_packet(s, "UC_SEND_ONLY", 14, 3, 0);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 3);
    scene_expect_state(s, UROCE_RTS);
    scene_close(s);
}

static void uc_send__wrong_length_for_its_opcode__dropped(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        uint32_t length;
    } wrong[] = { { "UC_SEND_FIRST", 1023 },
                  { "UC_SEND_FIRST", 1028 },
                  { "UC_SEND_FIRST", 0 },
                  { "UC_SEND_ONLY", 1025 } };
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_post_recv(s, 1, 4096);
    for (uint32_t i = 0; i < URO_ARRAY_LEN(wrong); i++)
        send_packet(s, wrong[i].op, 10 + i, wrong[i].length, 0);
    send_packet(s, "UC_SEND_FIRST", 20, 1024, 0);
    send_packet(s, "UC_SEND_LAST", 21, 0, 0);
    assert_int_equal(scene_counter(s, "drop_uc_refused"), 5);
    send_packet(s, "UC_SEND_ONLY", 22, 1024, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1024);
    scene_close(s);
}

static void uc_send__receive_that_may_not_be_written__fails_the_queue_pair(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_post_recv_key(s, 1, 64, uroce_mr_key(s->local_mr) ^ 1);
    scene_post_recv(s, 2, 64);
    send_packet(s, "UC_SEND_ONLY", 10, 4, 0);
    scene_expect_recv(s, 1, UROCE_LOC_PROT_ERR, 0);
    scene_expect_reason(scene_last()->reason,
                        "a local buffer is not registered, of another PD, or lacks LOCAL_WRITE");
    scene_expect_recv(s, 2, UROCE_WR_FLUSH_ERR, 0);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_silence(s, 0);
    scene_close(s);
}

/* ---- WRITE -------------------------------------------------------------- */

/* bug B19: a receiver that waits for the lost LAST waits for ever. */
static void uc_write__last_lost__the_next_message_of_any_kind_is_accepted(void **state)
{
    (void)state;
    static const char *const next[] = { "UC_WRITE_ONLY", "UC_SEND_ONLY", "UC_WRITE_FIRST",
                                        "UC_SEND_FIRST" };

    for (size_t i = 0; i < URO_ARRAY_LEN(next); i++) {
        struct scene *s = scene_uc(.rq_psn = 10);
        bool first = i >= 2, sends = i & 1;

        scene_post_recv(s, 1, 4096);
        scene_rx(s, 0, PACKET(.op = "UC_WRITE_FIRST", .psn = 10, .dma = 2048, .length = 1024));
        scene_rx(s, 0,
                 PACKET(.op = next[i], .psn = 12, .dma = first ? 1028 : 4,
                        .va = (uintptr_t)s->remote + 8192, .length = first ? 1024 : 4, .fill = 77));
        if (first)
            send_packet(s, sends ? "UC_SEND_LAST" : "UC_WRITE_LAST", 13, 4, 77 + 1024);
        scene_expect_mark(s, "UC.FRESH");
        if (sends)
            scene_expect_recv(s, 1, UROCE_SUCCESS, first ? 1028 : 4);
        scene_assert_filled(sends ? scene_recv_memory(s, 0) : s->remote + 8192, 77,
                            first ? 1028 : 4);
        assert_int_equal(scene_counter(s, "drop_uc_sequence"), 0);
        scene_expect_state(s, UROCE_RTS);
        scene_close(s);
    }
}

static void uc_write__with_immediate__takes_a_receive_with_the_last_packet(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_rx(s, 0, PACKET(.op = "UC_WRITE_FIRST", .psn = 10, .dma = 1030, .length = 1024));
    scene_post_recv(s, 1, 0);
    scene_rx(s, 0,
             PACKET(.op = "UC_WRITE_LAST_IMM", .psn = 11, .length = 6, .fill = 1024, .imm = 8));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1030);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_RECV_RDMA_WITH_IMM);
    assert_int_equal(scene_last()->imm, 8);
    scene_assert_filled(s->remote, 0, 1030);
    scene_close(s);
}

static void uc_write__with_immediate_and_no_receive__dropped(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_rx(s, 0, PACKET(.op = "UC_WRITE_ONLY_IMM", .psn = 10, .dma = 4, .length = 4, .imm = 8));
    assert_int_equal(s->remote[0], 0xee);
    assert_int_equal(scene_counter(s, "drop_uc_refused"), 1);
    scene_expect_silence(s, 0);
    scene_post_recv(s, 1, 0);
    scene_rx(s, 0, PACKET(.op = "UC_WRITE_ONLY_IMM", .psn = 11, .dma = 4, .length = 4, .imm = 8));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    scene_close(s);
}

static void uc_write__not_allowed__nothing_is_written_and_qp_survives(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);
    const uint64_t end = (uintptr_t)s->remote + SCENE_MEMORY;
    const struct scene_packet wrong[] = {
        { .op = "UC_WRITE_ONLY", .rkey = 0x1234, .dma = 4, .length = 4 },
        { .op = "UC_WRITE_ONLY", .va = end - 3, .dma = 4, .length = 4 },
        { .op = "UC_WRITE_ONLY", .va = UINT64_MAX - 1, .dma = 4, .length = 4 },
        { .op = "UC_WRITE_ONLY", .dma = 5, .length = 4 },
        { .op = "UC_WRITE_ONLY", .dma = 3, .length = 4 },
        { .op = "UC_WRITE_FIRST", .dma = 1024, .length = 1024 },
        { .op = "UC_WRITE_FIRST", .dma = 0x80000001, .length = 1024 },
        { .op = "UC_WRITE_FIRST", .va = end - 1024, .dma = 1025, .length = 1024 },
    };

    for (uint32_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        struct scene_packet packet = wrong[i];
        packet.psn = 10 + i;
        scene_rx(s, 0, &packet);
    }
    assert_int_equal(scene_counter(s, "drop_uc_refused"), URO_ARRAY_LEN(wrong));
    for (uint32_t i = 0; i < SCENE_MEMORY; i++)
        assert_int_equal(s->remote[i], 0xee);
    scene_expect_state(s, UROCE_RTS);
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "UC_WRITE_ONLY", .psn = 30, .dma = 4, .length = 4));
    scene_assert_filled(s->remote, 0, 4);
    scene_close(s);
}

static void uc_write__longer_or_shorter_than_its_reth__is_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_rx(s, 0, PACKET(.op = "UC_WRITE_FIRST", .psn = 10, .dma = 1030, .length = 1024));
    send_packet(s, "UC_WRITE_LAST", 11, 5, 0);
    scene_rx(s, 0, PACKET(.op = "UC_WRITE_FIRST", .psn = 12, .dma = 1030, .length = 1024));
    send_packet(s, "UC_WRITE_LAST", 13, 7, 0);
    scene_rx(s, 0, PACKET(.op = "UC_WRITE_FIRST", .psn = 14, .dma = 2048, .length = 1024));
    send_packet(s, "UC_WRITE_MIDDLE", 15, 1024, 0);
    send_packet(s, "UC_WRITE_LAST", 16, 1, 0);
    assert_int_equal(scene_counter(s, "drop_uc_refused"), 3);
    assert_int_equal(scene_counter(s, "drop_uc_sequence"), 1);
    scene_close(s);
}

static void uc_write__queue_pair_without_the_right__dropped(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10, .access = 0);

    scene_rx(s, 0, PACKET(.op = "UC_WRITE_ONLY", .psn = 10, .dma = 4, .length = 4));
    assert_int_equal(s->remote[0], 0xee);
    assert_int_equal(scene_counter(s, "drop_uc_refused"), 1);
    scene_expect_state(s, UROCE_RTS);
    scene_close(s);
}

/* ---- other packets and states --------------------------------------------- */

static void uc__first_packet_in_rtr__communication_is_established(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10, .stop_at = UROCE_RTR);

    scene_post_recv(s, 1, 64);
    send_packet(s, "UC_SEND_ONLY", 10, 4, 0);
    scene_expect_event(s, UROCE_EVENT_COMM_EST);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    scene_close(s);
}

static void uc__wrong_address_pkey_or_service__changes_nothing(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10);

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 10, .text = "x", .from = "10.0.0.3"));
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 10, .text = "x", .pkey = 0x8001));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .text = "x"));
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 10, .text = "x"));
    assert_int_equal(scene_counter(s, "drop_address"), 1);
    assert_int_equal(scene_counter(s, "drop_pkey"), 1);
    assert_int_equal(scene_counter(s, "drop_service"), 2);
    scene_expect_no_completion(s);
    scene_expect_silence(s, 0);
    scene_close(s);
}

static void uc__receive_cq_full__overrun_event_and_failure(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.rq_psn = 10, .cq_capacity = 1);

    scene_post_recv(s, 1, 64);
    scene_post_recv(s, 2, 64);
    send_packet(s, "UC_SEND_ONLY", 10, 4, 0);
    send_packet(s, "UC_SEND_ONLY", 11, 4, 0);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4);
    scene_expect_event(s, UROCE_EVENT_CQ_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_FATAL);
    scene_expect_state(s, UROCE_ERR);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uc_send__three_packets__are_one_message_without_a_response),
        cmocka_unit_test(
            uc_send__any_packet_lost__only_this_message_is_lost_and_its_receive_is_reused),
        cmocka_unit_test(uc_send__packets_in_another_order__the_message_is_lost_the_next_is_not),
        cmocka_unit_test(uc_send__middle_twice__the_message_is_lost_not_longer),
        cmocka_unit_test(uc_send__any_gap_before_a_message__message_is_delivered),
        cmocka_unit_test(uc_send__packet_of_a_write_inside__ends_the_message),
        cmocka_unit_test(uc_send__no_receive__dropped_with_all_its_packets),
        cmocka_unit_test(uc_send__longer_than_the_receive__dropped_and_the_receive_remains),
        cmocka_unit_test(uc_send__wrong_length_for_its_opcode__dropped),
        cmocka_unit_test(uc_send__receive_that_may_not_be_written__fails_the_queue_pair),
        cmocka_unit_test(uc_write__last_lost__the_next_message_of_any_kind_is_accepted),
        cmocka_unit_test(uc_write__with_immediate__takes_a_receive_with_the_last_packet),
        cmocka_unit_test(uc_write__with_immediate_and_no_receive__dropped),
        cmocka_unit_test(uc_write__not_allowed__nothing_is_written_and_qp_survives),
        cmocka_unit_test(uc_write__longer_or_shorter_than_its_reth__is_dropped),
        cmocka_unit_test(uc_write__queue_pair_without_the_right__dropped),
        cmocka_unit_test(uc__first_packet_in_rtr__communication_is_established),
        cmocka_unit_test(uc__wrong_address_pkey_or_service__changes_nothing),
        cmocka_unit_test(uc__receive_cq_full__overrun_event_and_failure),
    };
    return cmocka_run_group_tests_name("scenario/uc_receive", tests, NULL, NULL);
}
