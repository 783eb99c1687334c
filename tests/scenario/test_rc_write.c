/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_write.c - tests which memory a peer may write by RDMA WRITE, and a refused WRITE at both
 * sides. */
#include <string.h>

#include "base/mark.h"
#include "scene.h"

/* ---- as responder ------------------------------------------------------- */

static void rc_write__two_packets__land_in_the_region_without_a_receive(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    memset(s->remote, 0, 2048);
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_FIRST", .psn = 100, .dma = 1500, .length = 1024));
    scene_rx(
        s, 0,
        PACKET(.op = "RC_WRITE_LAST", .psn = 101, .ack_req = true, .length = 476, .fill = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 1));
    scene_assert_filled(s->remote, 0, 1500);
    assert_int_equal(s->remote[1500], 0);
    scene_close(s);
}

static void rc_write__with_immediate__takes_a_receive_at_its_last_packet(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_rx(s, 0, PACKET(.op = "RC_WRITE_FIRST", .psn = 100, .dma = 1100, .length = 1024));
    /* Only the last packet needs the receive, so only it is sent again after the RNR NAK. */
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_LAST_IMM", .psn = 101, .ack_req = true, .imm = 77, .length = 76,
                    .fill = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x2c));
    scene_post_recv(s, 9, 0);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_LAST_IMM", .psn = 101, .ack_req = true, .imm = 77, .length = 76,
                    .fill = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 1));
    scene_expect_recv(s, 9, UROCE_SUCCESS, 1100);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_RECV_RDMA_WITH_IMM);
    assert_int_equal(scene_last()->imm, 77);
    assert_int_equal(scene_last()->flags, UROCE_COMPLETION_WITH_IMM);
    scene_assert_filled(s->remote, 0, 1100);
    scene_expect_mark(s, "RSP.RNR.IMM");
    scene_expect_mark(s, "RSP.RECEIVED");
    scene_close(s);
}

/* Requests that are refused, and the syndrome of the NAK. */
static const struct {
    const char *name;
    struct scene_packet packet;
    uint64_t va_offset;
    uint8_t syndrome;
    const char *mark;
} refusals[] = {
    { "unknown key",
      { .op = "RC_WRITE_ONLY", .rkey = 1, .dma = 4, .text = "abcd" },
      0,
      0x62,
      "RSP.ACCESS.NAK" },
    { "one byte past the end",
      { .op = "RC_WRITE_ONLY", .dma = 4, .text = "abcd" },
      SCENE_MEMORY - 3,
      0x62,
      "RSP.ACCESS.NAK" },
    { "start before the region",
      { .op = "RC_WRITE_ONLY", .dma = 4, .text = "abcd" },
      UINT64_MAX,
      0x62,
      "RSP.ACCESS.NAK" },
    { "length that wraps the address space",
      { .op = "RC_WRITE_FIRST", .dma = 0x7fffffff, .length = 1024 },
      8,
      0x62,
      "RSP.ACCESS.NAK" },
    { "more than 2^31 octets",
      { .op = "RC_WRITE_FIRST", .dma = 0x80000001, .length = 1024 },
      0,
      0x61,
      "RSP.LENGTH" },
    { "RETH longer than the packet",
      { .op = "RC_WRITE_ONLY", .dma = 5, .text = "abcd" },
      0,
      0x61,
      "RSP.LENGTH" },
    { "RETH shorter than the packet",
      { .op = "RC_WRITE_ONLY", .dma = 3, .text = "abcd" },
      0,
      0x61,
      "RSP.LENGTH" },
    { "FIRST not of the path MTU",
      { .op = "RC_WRITE_FIRST", .dma = 3000, .length = 1020 },
      0,
      0x61,
      "RSP.LENGTH" },
    { "ONLY longer than the path MTU",
      { .op = "RC_WRITE_ONLY", .dma = 1028, .length = 1028 },
      0,
      0x61,
      "RSP.LENGTH" },
    { "FIRST that leaves nothing",
      { .op = "RC_WRITE_FIRST", .dma = 1024, .length = 1024 },
      0,
      0x61,
      "RSP.LENGTH" },
    { "MIDDLE outside a message",
      { .op = "RC_WRITE_MIDDLE", .length = 1024 },
      0,
      0x61,
      "RSP.SEQUENCE" },
    { "LAST outside a message", { .op = "RC_SEND_LAST", .length = 4 }, 0, 0x61, "RSP.SEQUENCE" },
    { "SEND longer than the path MTU",
      { .op = "RC_SEND_ONLY", .length = 1028 },
      0,
      0x61,
      "RSP.LENGTH" },
    { "atomic on an odd address",
      { .op = "RC_FETCH_ADD", .swap_add = 1 },
      4,
      0x61,
      "RSP.ATOMIC.ALIGN" },
    { "READ past the end",
      { .op = "RC_READ_REQUEST", .dma = 2 },
      SCENE_MEMORY - 1,
      0x62,
      "RSP.ACCESS.NAK" },
    { "a FLUSH that asks for nothing", { .op = "RC_FLUSH" }, 0, 0x61, "RSP.UNSUPPORTED" },
};

static void rc_responder__request_not_allowed__nak_and_nothing_is_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(refusals); i++) {
        struct scene *s = scene_rc(.rq_psn = 100);
        struct scene_packet packet = refusals[i].packet;
        uint8_t before[64];

        print_message("# %s\n", refusals[i].name);
        memcpy(before, s->remote, sizeof before);
        packet.psn = 100;
        packet.ack_req = true;
        packet.va = (uintptr_t)s->remote + refusals[i].va_offset;
        scene_rx(s, 0, &packet);
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = refusals[i].syndrome));
        scene_expect_state(s, UROCE_ERR);
        assert_memory_equal(s->remote, before, sizeof before);
        scene_expect_mark(s, refusals[i].mark);
        /* The queue pair is in ERR and sends no more responses. */
        scene_rx(s, 0, &packet);
        scene_expect_silence(s, 0);
        scene_close(s);
    }
}

static void rc_responder__right_missing_on_the_queue_pair__invalid_request(void **state)
{
    static const struct {
        const char *op;
        uint32_t missing;
    } cases[] = {
        { "RC_WRITE_ONLY", UROCE_ACCESS_REMOTE_WRITE },
        { "RC_READ_REQUEST", UROCE_ACCESS_REMOTE_READ },
        { "RC_CMP_SWAP", UROCE_ACCESS_REMOTE_ATOMIC },
    };
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct scene *s = scene_rc(.rq_psn = 100, .access = 0xeu & ~cases[i].missing);
        scene_rx(s, 0, PACKET(.op = cases[i].op, .psn = 100, .ack_req = true));
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x61));
        scene_expect_event(s, UROCE_EVENT_QP_REQ_ERR);
        scene_expect_mark(s, "RSP.RIGHTS");
        scene_close(s);
    }
    assert_true(uro_mark_hit("RSP.EVENT"));
}

static void rc_responder__right_missing_on_the_region__access_nak_and_event(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_register(s, UROCE_ACCESS_REMOTE_READ);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .ack_req = true, .dma = 1, .text = "x"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62));
    scene_expect_event(s, UROCE_EVENT_QP_ACCESS_ERR);
    scene_expect_mark(s, "RSP.ACCESS.NAK");
    scene_close(s);
    assert_true(uro_mark_hit("RSP.EVENT"));
}

/* ---- as requester ------------------------------------------------------- */

static void rc_write__refused__status_has_the_reason_and_the_rest_is_flushed(void **state)
{
    static const struct {
        uint8_t syndrome;
        enum uroce_status status;
        const char *mark;
    } cases[] = {
        { 0x61, UROCE_REM_INV_REQ_ERR, "REQ.NAK" },   { 0x62, UROCE_REM_ACCESS_ERR, "REQ.NAK" },
        { 0x63, UROCE_REM_OP_ERR, "REQ.NAK" },        { 0x65, UROCE_BAD_RESP_ERR, "REQ.SYNDROME" },
        { 0x40, UROCE_BAD_RESP_ERR, "REQ.SYNDROME" },
    };
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct scene *s = scene_rc(.sq_psn = 10);
        for (uint64_t id = 1; id <= 3; id++) {
            scene_post_send(s, SEND(.id = id, .op = UROCE_RDMA_WRITE, .quiet = id == 3, .text = "w",
                                    .remote_address = 0x5000, .rkey = 0x99));
            scene_expect_tx(s, 0,
                            PACKET(.op = "RC_WRITE_ONLY", .psn = 9 + (uint32_t)id, .ack_req = true,
                                   .va = 0x5000, .rkey = 0x99, .dma = 1, .text = "w"));
        }
        scene_post_recv(s, 8, 8);
        /* The NAK at 11 acknowledges 10. */
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 11, .syndrome = cases[i].syndrome, .msn = 1));
        scene_expect_sent(s, 1, UROCE_SUCCESS);
        scene_expect_sent(s, 2, cases[i].status);
        scene_expect_sent(s, 3, UROCE_WR_FLUSH_ERR);
        scene_expect_recv(s, 8, UROCE_WR_FLUSH_ERR, 0);
        scene_expect_mark(s, cases[i].mark);
        scene_close(s);
    }
}

static void rc_write__local_key_wrong__earlier_requests_complete_first(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8, .lkey = 12345));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_expect_silence(s, 0);
    scene_expect_state(s, UROCE_RTS);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_LOC_PROT_ERR);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_mark(s, "REQ.LOCAL.KEY");
    scene_close(s);
}

static void rc_write__with_immediate_inline__bytes_are_taken_when_posted(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .op = UROCE_RDMA_WRITE_WITH_IMM,
                            .flags = UROCE_INLINE | UROCE_SOLICITED, .text = "now",
                            .imm = 0x01020304, .remote_address = 0x5000, .rkey = 0x99));
    memset(s->local, 'x', 3);
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_WRITE_ONLY_IMM", .psn = 10, .ack_req = true, .solicited = true,
                           .va = 0x5000, .rkey = 0x99, .dma = 3, .imm = 0x01020304, .text = "now"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_mark(s, "REQ.INLINE");
    scene_close(s);
    assert_true(uro_mark_hit("REQ.SE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_write__two_packets__land_in_the_region_without_a_receive),
        cmocka_unit_test(rc_write__with_immediate__takes_a_receive_at_its_last_packet),
        cmocka_unit_test(rc_responder__request_not_allowed__nak_and_nothing_is_written),
        cmocka_unit_test(rc_responder__right_missing_on_the_queue_pair__invalid_request),
        cmocka_unit_test(rc_responder__right_missing_on_the_region__access_nak_and_event),
        cmocka_unit_test(rc_write__refused__status_has_the_reason_and_the_rest_is_flushed),
        cmocka_unit_test(rc_write__local_key_wrong__earlier_requests_complete_first),
        cmocka_unit_test(rc_write__with_immediate_inline__bytes_are_taken_when_posted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
