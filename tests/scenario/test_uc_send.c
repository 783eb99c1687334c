/* SPDX-License-Identifier: BSD-3-Clause */
/* test_uc_send.c - tests how a UC requester segments messages, and when they complete. */
#include <string.h>

#include "scene.h"
#include "scene_wire.h"

/* ---- on the wire -------------------------------------------------------- */

static void uc_send__any_length_around_the_mtu__is_cut_into_full_packets_and_a_rest(void **state)
{
    (void)state;
    const uint32_t lengths[] = { 0, 1, 2, 3, 4, 255, 256, 257, 511, 512, 513, 768, 769 };

    for (size_t i = 0; i < URO_ARRAY_LEN(lengths); i++) {
        struct scene *s = scene_uc(.mtu = 256, .sq_psn = 0xfffffe);
        uint32_t left = lengths[i];
        uint32_t psn = 0xfffffe;

        scene_fill(s->local, 0, left);
        scene_post_send(s, SEND(.id = 1, .length = left));
        for (uint32_t at = 0; at == 0 || left > 0; at += 256) {
            uint32_t here = left < 256 ? left : 256;
            left -= here;
            const char *op = at == 0 ? (left > 0 ? "UC_SEND_FIRST" : "UC_SEND_ONLY")
                                     : (left > 0 ? "UC_SEND_MIDDLE" : "UC_SEND_LAST");
            /* No packet asks for an acknowledgement, and none comes. */
            scene_expect_tx(s, 0, PACKET(.op = op, .psn = psn, .length = here, .fill = at));
            psn = (psn + 1) & 0xffffff;
        }
        scene_expect_silence(s, 0);
        scene_expect_sent(s, 1, UROCE_SUCCESS);
        assert_int_equal(scene_last()->length, lengths[i]);
        assert_int_equal(scene_last()->opcode, UROCE_DONE_SEND);
        scene_close(s);
    }
}

static void uc_send__long_message__no_ack_requests_and_no_window(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.mtu = 256, .window = 8);

    scene_fill(s->local, 0, 30 * 256);
    scene_post_send(s, SEND(.id = 1, .length = 30 * 256));
    assert_int_equal(scene_burst(s, 64), 30);
    for (uint32_t i = 0; i < 30; i++) {
        const char *op = i == 0 ? "UC_SEND_FIRST" : i == 29 ? "UC_SEND_LAST" : "UC_SEND_MIDDLE";
        scene_wire_compare(PACKET(.op = op, .psn = i, .length = 256, .fill = i * 256,
                                  .qpn = SCENE_QPN_PEER, .to = "10.0.0.2"),
                           scene_burst_frame(i), scene_burst_length(i));
    }
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_mark(s, "UC.FREE");
    scene_close(s);
}

static void uc_send__with_immediate_and_solicited__both_on_the_last_packet_only(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);

    scene_fill(s->local, 0, 1030);
    scene_post_send(s, SEND(.id = 1, .op = UROCE_SEND_WITH_IMM, .length = 1030, .imm = 0x11223344,
                            .flags = UROCE_SOLICITED));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 7, .length = 1024));
    scene_expect_tx(s, 0,
                    PACKET(.op = "UC_SEND_LAST_IMM", .psn = 8, .length = 6, .fill = 1024,
                           .imm = 0x11223344, .solicited = true));
    scene_post_send(s, SEND(.id = 2, .op = UROCE_SEND_WITH_IMM, .text = "x", .imm = 5));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY_IMM", .psn = 9, .text = "x", .imm = 5));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void uc_write__of_several_packets__address_on_the_first_and_immediate_on_the_last(
    void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);

    scene_fill(s->local, 0, 1030);
    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_WRITE_WITH_IMM, .length = 1030, .imm = 9,
                            .remote_address = 0x7000, .rkey = 0xabcd));
    scene_expect_tx(s, 0,
                    PACKET(.op = "UC_WRITE_FIRST", .psn = 7, .length = 1024, .va = 0x7000,
                           .rkey = 0xabcd, .dma = 1030));
    scene_expect_tx(
        s, 0, PACKET(.op = "UC_WRITE_LAST_IMM", .psn = 8, .length = 6, .fill = 1024, .imm = 9));
    scene_post_send(
        s, SEND(.id = 2, .op = UROCE_RDMA_WRITE, .text = "x", .remote_address = 1, .rkey = 2));
    scene_expect_tx(
        s, 0, PACKET(.op = "UC_WRITE_ONLY", .psn = 9, .text = "x", .va = 1, .rkey = 2, .dma = 1));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_RDMA_WRITE);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void uc_send__inline__the_bytes_of_the_request_are_sent(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);

    scene_post_send(s, SEND(.id = 1, .text = "inline", .flags = UROCE_INLINE));
    memset(s->local, 'z', 6);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "inline"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

/* ---- completion --------------------------------------------------------- */

/* The port copies the payload after output(). Until the engine is called again, the copy may not be
 * done. */
static void uc_send__all_packets_written__completes_with_the_next_call(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);
    struct uroce_event event;

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "a"));
    scene_expect_no_completion(s);
    assert_true(uroce_engine_next(s->engine) <= s->now); /* the engine asks for a call */
    assert_false(uroce_engine_event(s->engine, &event));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.SENT");

    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 8, .text = "b"));
    scene_expect_no_completion(s);
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 0, .text = "any"));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_silence(s, 0);
    assert_true(uroce_engine_next(s->engine) > s->now); /* nothing more to do */
    scene_close(s);
}

static void uc_send__some_packets_sent__does_not_complete_until_the_last_packet(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);

    scene_fill(s->local, 0, 2048);
    scene_post_send(s, SEND(.id = 1, .text = "a", .at = 4096));
    scene_post_send(s, SEND(.id = 2, .length = 2048));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_FIRST", .psn = 8, .length = 1024));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_no_completion(s);
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_LAST", .psn = 9, .length = 1024, .fill = 1024));
    scene_expect_no_completion(s);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void uc_send__unsignalled__completes_silently(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);

    scene_post_send(s, SEND(.id = 1, .text = "a", .quiet = true));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 8, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_no_completion(s);
    scene_close(s);
}

static void uc_send__qp_destroyed_before_completion__no_completion(void **state)
{
    (void)state;
    struct scene *s = scene_uc(.sq_psn = 7);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "UC_SEND_ONLY", .psn = 7, .text = "a"));
    scene_destroy_qp(s);
    scene_expect_silence(s, URO_MS(1));
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uc_send__any_length_around_the_mtu__is_cut_into_full_packets_and_a_rest),
        cmocka_unit_test(uc_send__long_message__no_ack_requests_and_no_window),
        cmocka_unit_test(uc_send__with_immediate_and_solicited__both_on_the_last_packet_only),
        cmocka_unit_test(
            uc_write__of_several_packets__address_on_the_first_and_immediate_on_the_last),
        cmocka_unit_test(uc_send__inline__the_bytes_of_the_request_are_sent),
        cmocka_unit_test(uc_send__all_packets_written__completes_with_the_next_call),
        cmocka_unit_test(uc_send__some_packets_sent__does_not_complete_until_the_last_packet),
        cmocka_unit_test(uc_send__unsignalled__completes_silently),
        cmocka_unit_test(uc_send__qp_destroyed_before_completion__no_completion),
    };
    return cmocka_run_group_tests_name("scenario/uc_send", tests, NULL, NULL);
}
