/* SPDX-License-Identifier: BSD-3-Clause */
/* test_xrc_ini.c - tests the initiator side of XRC, where each request has the number of its
 * SRQ. */
#include <string.h>

#include "base/mark.h"
#include "scene.h"
#include "scene_wire.h"

static void xrc_send__of_several_packets__every_packet_has_the_srq_number(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini(.sq_psn = 0xffffff);

    scene_fill(s->local, 0, 2050);
    scene_post_send(
        s, SEND(.id = 1, .op = UROCE_SEND_WITH_IMM, .length = 2050, .imm = 3, .srqn = 0xabcdef));
    scene_expect_tx(
        s, 0, PACKET(.op = "XRC_SEND_FIRST", .psn = 0xffffff, .length = 1024, .srqn = 0xabcdef));
    scene_expect_tx(
        s, 0,
        PACKET(.op = "XRC_SEND_MIDDLE", .psn = 0, .length = 1024, .fill = 1024, .srqn = 0xabcdef));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_SEND_LAST_IMM", .psn = 1, .length = 2, .fill = 2048, .imm = 3,
                           .srqn = 0xabcdef, .ack_req = true));
    scene_post_send(s, SEND(.id = 2, .text = "x", .srqn = 7));
    scene_expect_tx(
        s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 2, .text = "x", .srqn = 7, .ack_req = true));
    scene_expect_no_completion(s);
    scene_rx(s, 0, PACKET(.op = "XRC_ACK", .psn = 2, .msn = 2));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_mark(s, "XRC.HEADER");
    scene_close(s);
}

static void xrc_write__with_immediate__headers_are_xrceth_reth_immdt(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini();

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_WRITE_WITH_IMM, .text = "x", .imm = 3,
                            .srqn = 7, .remote_address = 0x1000, .rkey = 0x22));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_WRITE_ONLY_IMM", .psn = 0, .text = "x", .imm = 3, .srqn = 7,
                           .va = 0x1000, .rkey = 0x22, .dma = 1, .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "XRC_ACK", .psn = 0, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_RDMA_WRITE);
    scene_close(s);
}

static void xrc_read__posted__response_arrives_in_the_buffer(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini();

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_READ, .length = 1030, .srqn = 7,
                            .remote_address = 0x1000, .rkey = 0x22));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_READ_REQUEST", .psn = 0, .srqn = 7, .va = 0x1000,
                           .rkey = 0x22, .dma = 1030, .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_FIRST", .psn = 0, .length = 1024, .msn = 1));
    scene_rx(s, 0,
             PACKET(.op = "XRC_READ_RESPONSE_LAST", .psn = 1, .length = 6, .fill = 1024, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_assert_filled(s->local, 0, 1030);
    scene_close(s);
}

static void xrc_atomics__posted__original_value_is_returned(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini();
    uint64_t value;

    scene_post_send(s, SEND(.id = 1, .op = UROCE_FETCH_ADD, .length = 8, .srqn = 7,
                            .remote_address = 0x1000, .rkey = 0x22, .compare_add = 5));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_FETCH_ADD", .psn = 0, .srqn = 7, .va = 0x1000, .rkey = 0x22,
                           .swap_add = 5, .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "XRC_ATOMIC_ACK", .psn = 0, .original = 99, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    memcpy(&value, s->local, 8);
    assert_int_equal(value, 99);
    scene_post_send(s, SEND(.id = 2, .op = UROCE_COMPARE_SWAP, .length = 8, .srqn = 7,
                            .remote_address = 0x1000, .rkey = 0x22, .compare_add = 5, .swap = 6));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_CMP_SWAP", .psn = 1, .srqn = 7, .va = 0x1000, .rkey = 0x22,
                           .compare = 5, .swap_add = 6, .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "XRC_ATOMIC_ACK", .psn = 1, .original = 5, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void xrc_ini__flush_and_atomic_write__have_the_srq_number_and_complete(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini();

    scene_fill(s->local, 5, 8);
    scene_post_send(s, SEND(.id = 1, .op = UROCE_ATOMIC_WRITE, .length = 8, .srqn = 7,
                            .remote_address = 0x1000, .rkey = 0x22));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_ATOMIC_WRITE", .psn = 0, .srqn = 7, .va = 0x1000,
                           .rkey = 0x22, .dma = 8, .length = 8, .fill = 5, .ack_req = true));
    scene_post_send(s, SEND(.id = 2, .op = UROCE_FLUSH, .length = 64, .srqn = 7, .placement = 1,
                            .remote_address = 0x1000, .rkey = 0x22));
    scene_expect_tx(s, 0,
                    PACKET(.op = "XRC_FLUSH", .psn = 1, .srqn = 7, .va = 0x1000, .rkey = 0x22,
                           .dma = 64, .placement = 1, .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 0, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_ATOMIC_WRITE);
    scene_rx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 1, .msn = 2));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_close(s);
}

static void xrc_send__lost_or_not_ready__sent_again_with_the_srq_number(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini(.timeout = 14);
    const struct scene_packet *packet =
        PACKET(.op = "XRC_SEND_ONLY", .psn = 0, .text = "x", .srqn = 7, .ack_req = true);

    scene_post_send(s, SEND(.id = 1, .text = "x", .srqn = 7));
    scene_expect_tx(s, 0, packet);
    scene_expect_silence(s, URO_MS(67));
    scene_expect_tx(s, URO_MS(68), packet);
    scene_rx(s, URO_MS(69), PACKET(.op = "XRC_ACK", .psn = 0, .syndrome = 0x2c));
    scene_expect_silence(s, URO_MS(69));
    scene_expect_tx(s, URO_MS(70), packet); /* code 12: 0.64 ms */
    scene_rx(s, URO_MS(70), PACKET(.op = "XRC_ACK", .psn = 0, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
}

static void xrc_send__refused__error_completion_and_err(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini();

    scene_post_send(s, SEND(.id = 1, .text = "x", .srqn = 7));
    scene_post_send(s, SEND(.id = 2, .text = "y", .srqn = 8, .at = 8));
    scene_expect_tx(
        s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 0, .text = "x", .srqn = 7, .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "XRC_ACK", .psn = 0, .syndrome = 0x61));
    scene_expect_sent(s, 1, UROCE_REM_INV_REQ_ERR);
    scene_expect_sent(s, 2, UROCE_WR_FLUSH_ERR);
    scene_expect_state(s, UROCE_ERR);
    scene_close(s);
}

static void xrc_ini__requests__dropped(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_ini();

    scene_rx(s, 0, PACKET(.op = "XRC_SEND_ONLY", .psn = 0, .text = "x", .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "XRC_READ_REQUEST", .psn = 0, .dma = 4));
    scene_rx(s, 0, PACKET(.op = "XRC_FETCH_ADD", .psn = 0));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 0));
    assert_int_equal(scene_counter(s, "drop_service"), 4);
    scene_expect_silence(s, 0);
    scene_close(s);
    assert_true(uro_mark_hit("XRC.ENDS"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xrc_send__of_several_packets__every_packet_has_the_srq_number),
        cmocka_unit_test(xrc_write__with_immediate__headers_are_xrceth_reth_immdt),
        cmocka_unit_test(xrc_read__posted__response_arrives_in_the_buffer),
        cmocka_unit_test(xrc_atomics__posted__original_value_is_returned),
        cmocka_unit_test(xrc_ini__flush_and_atomic_write__have_the_srq_number_and_complete),
        cmocka_unit_test(xrc_send__lost_or_not_ready__sent_again_with_the_srq_number),
        cmocka_unit_test(xrc_send__refused__error_completion_and_err),
        cmocka_unit_test(xrc_ini__requests__dropped),
    };
    return cmocka_run_group_tests_name("scenario/xrc_ini", tests, NULL, NULL);
}
