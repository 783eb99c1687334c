/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_flush.c - tests the responder of FLUSH and ATOMIC_WRITE. Its response to both is a READ
 * response without payload. */
#include <string.h>

#include "scene.h"

#define GLOBAL 1u
#define RIGHTS (0xeu | UROCE_ACCESS_FLUSH_GLOBAL)

/* Requests of the peer and the response to them, with the values that most tests below use. */
#define FLUSH_PACKET(...)                                                                          \
    PACKET(.op = "RC_FLUSH", .ack_req = true, .placement = GLOBAL, __VA_ARGS__)
#define AWRITE_PACKET(...)                                                                         \
    PACKET(.op = "RC_ATOMIC_WRITE", .ack_req = true, .dma = 8, .text = "12345678", __VA_ARGS__)
#define DONE(...) PACKET(.op = "RC_READ_RESPONSE_ONLY", __VA_ARGS__)

/* Opens a scene with a region and a queue pair that allow FLUSH. */
static struct scene *open_flushable(uint8_t dest_depth)
{
    struct scene *s = scene_rc(.rq_psn = 100, .access = RIGHTS, .dest_depth = dest_depth);

    scene_register(s, 0xf | UROCE_ACCESS_FLUSH_GLOBAL);
    return s;
}

static uint64_t remote_va(const struct scene *s, uint32_t offset)
{
    return (uintptr_t)s->remote + offset;
}

/* ---- as responder: FLUSH ------------------------------------------------ */

static void rc_flush__range_after_a_write__gets_a_response(void **state)
{
    (void)state;
    struct scene *s = open_flushable(4);

    scene_rx(s, 0, PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .dma = 5, .text = "hello"));
    scene_rx(s, 0, FLUSH_PACKET(.psn = 101, .dma = 5));
    scene_expect_tx(s, 0, DONE(.psn = 101, .msn = 2));
    assert_memory_equal(s->remote, "hello", 5);
    scene_expect_mark(s, "RSP.FLUSH");
    scene_close(s);
}

/* With selectivity "region", address and length are ignored. */
static void rc_flush__whole_region__checks_only_the_key(void **state)
{
    (void)state;
    struct scene *s = open_flushable(4);

    scene_rx(s, 0, FLUSH_PACKET(.psn = 100, .selectivity = 1, .va = 1, .dma = SCENE_MEMORY + 1));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
    scene_close(s);
}

static void rc_flush__icrc_of_rxe__gets_a_response(void **state)
{
    (void)state;
    struct scene *s = open_flushable(4);

    scene_rx(s, 0, FLUSH_PACKET(.psn = 100, .dma = 64, .rxe_icrc = true));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
    scene_close(s);
}

static void rc_flush__repeated__response_is_sent_again(void **state)
{
    (void)state;
    struct scene *s = open_flushable(4);

    for (int i = 0; i < 3; i++) {
        scene_rx(s, 0, FLUSH_PACKET(.psn = 100, .dma = 64, .rxe_icrc = i == 1));
        scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
    }
    assert_int_equal(scene_counter(s, "duplicate_request"), 2);
    scene_close(s);
}

static void rc_flush__repeated_for_another_address__is_dropped(void **state)
{
    (void)state;
    struct scene *s = open_flushable(4);

    scene_rx(s, 0, FLUSH_PACKET(.psn = 100, .dma = 64));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
    scene_rx(s, 0, FLUSH_PACKET(.psn = 100, .dma = 64, .va = remote_va(s, 8)));
    scene_expect_silence(s, 0);
    assert_int_equal(scene_counter(s, "drop_replay"), 1);
    scene_close(s);
}

/* Linux rxe 6.12 retransmits a FLUSH without its address. */
static void rc_flush__repeated_without_an_address__response_is_sent_again(void **state)
{
    (void)state;
    struct scene *s = open_flushable(4);

    scene_rx(s, 0, FLUSH_PACKET(.psn = 100, .dma = 64, .rxe_icrc = true));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
    scene_rx(s, 0, FLUSH_PACKET(.psn = 100, .dma = 64, .rxe_icrc = true, .no_va = true));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
    scene_expect_mark(s, "RSP.DUP.FLUSH");
    scene_close(s);
}

/* The ACK of the SEND would also acknowledge the FLUSH. */
static void rc_flush__send_follows__ack_of_the_send_waits(void **state)
{
    (void)state;
    struct scene *s = open_flushable(4);

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, FLUSH_PACKET(.psn = 100, .dma = 64));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 101, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 2));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .msn = 2));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 2);
    scene_expect_mark(s, "RSP.ACK.ORDER");
    scene_close(s);
}

/* Linux rxe does not apply max_dest_rd_atomic to FLUSH. */
static void rc_flush__more_than_max_dest_rd_atomic__all_get_responses(void **state)
{
    (void)state;
    struct scene *s = open_flushable(1);

    scene_fill(s->remote, 0, 10);
    for (uint32_t i = 0; i < 15; i++)
        scene_rx(s, 0, FLUSH_PACKET(.psn = 100 + i, .dma = 64));
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 115, .ack_req = true, .dma = 10));
    for (uint32_t i = 0; i < 15; i++)
        scene_expect_tx(s, 0, DONE(.psn = 100 + i, .msn = 16));
    scene_expect_tx(s, 0, DONE(.psn = 115, .msn = 16, .length = 10));
    scene_close(s);
}

/* A READ without response keeps its responder resource when a FLUSH arrives. The peer retransmits
 * the FLUSH. */
static void rc_flush__more_than_the_responder_resources__are_retransmitted(void **state)
{
    (void)state;
    struct scene *s = open_flushable(1);

    scene_fill(s->remote, 0, 10);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 10));
    for (uint32_t i = 1; i < 18; i++)
        scene_rx(s, 0, FLUSH_PACKET(.psn = 100 + i, .dma = 64));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 16, .length = 10));
    for (uint32_t i = 1; i < 16; i++)
        scene_expect_tx(s, 0, DONE(.psn = 100 + i, .msn = 16));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 116, .syndrome = 0x60, .msn = 16));
    scene_rx(s, 0, FLUSH_PACKET(.psn = 116, .dma = 64));
    scene_rx(s, 0, FLUSH_PACKET(.psn = 117, .dma = 64));
    scene_expect_tx(s, 0, DONE(.psn = 116, .msn = 18));
    scene_expect_tx(s, 0, DONE(.psn = 117, .msn = 18));
    scene_expect_state(s, UROCE_RTS);
    scene_close(s);
}

/* ---- as responder: ATOMIC_WRITE ----------------------------------------- */

static void rc_atomic_write__eight_bytes__are_written_unchanged(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_rx(s, 0, AWRITE_PACKET(.psn = 100, .va = remote_va(s, 64)));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
    assert_memory_equal(s->remote + 64, "12345678", 8);
    scene_expect_mark(s, "RSP.ATOMIC.WRITE");
    scene_close(s);
}

/* The program writes to the same address. Then a duplicate ATOMIC_WRITE must not overwrite this
 * value. */
static void rc_atomic_write__repeated__same_response_and_executed_once(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    for (int i = 0; i < 3; i++) {
        scene_rx(s, 0, AWRITE_PACKET(.psn = 100));
        scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
        if (i > 0)
            assert_memory_equal(s->remote, "the prog", 8);
        memcpy(s->remote, "the program", 11);
    }
    scene_expect_mark(s, "RSP.DUP.ATOMIC");
    scene_close(s);
}

/* A request with the PSN of an earlier request but another operation is not a duplicate of it. */
static void rc_atomic_write__repeated_as_another_operation__gets_no_response(void **state)
{
    static const struct scene_packet others[] = {
        { .op = "RC_CMP_SWAP", .psn = 100, .ack_req = true },
        { .op = "RC_FLUSH", .psn = 100, .ack_req = true, .placement = GLOBAL },
    };
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(others); i++) {
        struct scene *s = scene_rc(.rq_psn = 100, .access = RIGHTS);

        scene_register(s, 0xf | UROCE_ACCESS_FLUSH_GLOBAL);
        scene_rx(s, 0, AWRITE_PACKET(.psn = 100));
        scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
        scene_rx(s, 0, &others[i]);
        scene_expect_silence(s, 0);
        assert_memory_equal(s->remote, "12345678", 8);
        scene_expect_state(s, UROCE_RTS);
        scene_close(s);
    }
}

static void rc_atomic_write__more_than_the_depth__is_refused(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .dest_depth = 1);

    scene_rx(s, 0, AWRITE_PACKET(.psn = 100));
    scene_rx(s, 0, AWRITE_PACKET(.psn = 101, .text = "abcdefgh"));
    scene_expect_tx(s, 0, DONE(.psn = 100, .msn = 1));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101, .syndrome = 0x61, .msn = 1));
    assert_memory_equal(s->remote, "12345678", 8);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_REQ_ERR);
    scene_expect_mark(s, "RSP.DEPTH");
    scene_close(s);
}

/* ---- XRC ---------------------------------------------------------------- */

static void xrc__flush_and_atomic_write__are_executed_once(void **state)
{
    (void)state;
    struct scene *s = scene_xrc_tgt(.rq_psn = 100, .access = RIGHTS);

    scene_register(s, 0xf | UROCE_ACCESS_FLUSH_GLOBAL);
    for (int i = 0; i < 2; i++) {
        scene_rx(s, 0,
                 PACKET(.op = "XRC_ATOMIC_WRITE", .psn = 100, .ack_req = true, .dma = 8,
                        .text = "12345678"));
        scene_expect_tx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 100, .msn = 1));
    }
    for (int i = 0; i < 2; i++) {
        scene_rx(s, 0,
                 PACKET(.op = "XRC_FLUSH", .psn = 101, .ack_req = true, .placement = GLOBAL,
                        .dma = 8, .rxe_icrc = i == 1));
        scene_expect_tx(s, 0, PACKET(.op = "XRC_READ_RESPONSE_ONLY", .psn = 101, .msn = 2));
    }
    assert_memory_equal(s->remote, "12345678", 8);
    assert_int_equal(scene_counter(s, "duplicate_request"), 2);
    scene_close(s);
}

/* ---- as responder: refusals --------------------------------------------- */

static const struct {
    const char *name;
    struct scene_packet packet;
    uint32_t va_offset;
    uint32_t access;        /* access flags of the queue pair */
    uint32_t region_access; /* beside LOCAL_WRITE */
    uint8_t syndrome;
    const char *mark;
} refusals[] = {
#define ATOMIC_WRITE .op = "RC_ATOMIC_WRITE"
#define A_FLUSH      .op = "RC_FLUSH", .placement = GLOBAL
    /* clang-format off */
    { "B03: ATOMIC_WRITE of nothing", { ATOMIC_WRITE, .dma = 0 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.LENGTH" },
    { "B03: ATOMIC_WRITE of length 8 without payload", { ATOMIC_WRITE, .dma = 8 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.LENGTH" },
    { "ATOMIC_WRITE of length 0 with 8 bytes of payload", { ATOMIC_WRITE, .length = 8 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.LENGTH" },
    { "ATOMIC_WRITE of 4", { ATOMIC_WRITE, .dma = 4, .length = 4 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.LENGTH" },
    { "ATOMIC_WRITE of 16", { ATOMIC_WRITE, .dma = 16, .length = 16 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.LENGTH" },
    { "ATOMIC_WRITE of length 8 with 7 bytes of payload", { ATOMIC_WRITE, .dma = 8, .length = 7 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.LENGTH" },
    { "ATOMIC_WRITE to an address that is not aligned", { ATOMIC_WRITE, .dma = 8, .length = 8 }, 4, RIGHTS, RIGHTS, 0x61, "RSP.ATOMIC.ALIGN" },
    { "ATOMIC_WRITE behind the end", { ATOMIC_WRITE, .dma = 8, .length = 8 }, SCENE_MEMORY, RIGHTS, RIGHTS, 0x62, "RSP.ACCESS.NAK" },
    { "ATOMIC_WRITE with an unknown key", { ATOMIC_WRITE, .dma = 8, .length = 8, .rkey = 5 }, 0, RIGHTS, RIGHTS, 0x62, "RSP.ACCESS.NAK" },
    { "ATOMIC_WRITE to memory that allows only READ", { ATOMIC_WRITE, .dma = 8, .length = 8 }, 0, RIGHTS, UROCE_ACCESS_REMOTE_READ, 0x62, "RSP.ACCESS.NAK" },
    { "ATOMIC_WRITE where writing is not allowed", { ATOMIC_WRITE, .dma = 8, .length = 8 }, 0, UROCE_ACCESS_REMOTE_ATOMIC, RIGHTS, 0x61, "RSP.RIGHTS" },
    { "FLUSH where flushing is not allowed", { A_FLUSH, .dma = 8 }, 0, 0xe, RIGHTS, 0x61, "RSP.RIGHTS" },
    { "FLUSH to persistence where only the global one is allowed", { .op = "RC_FLUSH", .placement = 2, .dma = 8 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.RIGHTS" },
    { "FLUSH of a region that does not allow it", { A_FLUSH, .dma = 8 }, 0, RIGHTS, 0xe, 0x62, "RSP.ACCESS.NAK" },
    { "FLUSH of a whole region that does not allow it", { A_FLUSH, .selectivity = 1 }, 0, RIGHTS, 0xe, 0x62, "RSP.ACCESS.NAK" },
    { "FLUSH to both placements of a region that allows one", { .op = "RC_FLUSH", .placement = 3, .dma = 8 }, 0, RIGHTS | UROCE_ACCESS_FLUSH_PERSISTENT, RIGHTS, 0x62, "RSP.ACCESS.NAK" },
    { "FLUSH with an unknown key", { A_FLUSH, .dma = 8, .rkey = 5 }, 0, RIGHTS, RIGHTS, 0x62, "RSP.ACCESS.NAK" },
    { "FLUSH past the end", { A_FLUSH, .dma = 2 }, SCENE_MEMORY - 1, RIGHTS, RIGHTS, 0x62, "RSP.ACCESS.NAK" },
    { "FLUSH with a reserved selectivity", { A_FLUSH, .selectivity = 2, .dma = 8 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.UNSUPPORTED" },
    { "FLUSH with a reserved placement", { .op = "RC_FLUSH", .placement = 4, .dma = 8 }, 0, RIGHTS, RIGHTS, 0x61, "RSP.UNSUPPORTED" },
    /* clang-format on */
};

/* rule RSP.ATOMIC.WRITE, RSP.FLUSH */
/* bug B03 */
static void rc_responder__not_allowed__nak_and_nothing_is_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(refusals); i++) {
        struct scene *s = scene_rc(.rq_psn = 100, .access = refusals[i].access);
        struct scene_packet packet = refusals[i].packet;
        uint8_t before[64];

        print_message("# %s\n", refusals[i].name);
        scene_register(s, UROCE_ACCESS_LOCAL_WRITE | refusals[i].region_access);
        memcpy(before, s->remote, sizeof before);
        packet.psn = 100;
        packet.ack_req = true;
        packet.va = remote_va(s, refusals[i].va_offset);
        scene_rx(s, 0, &packet);
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = refusals[i].syndrome));
        scene_expect_state(s, UROCE_ERR);
        assert_memory_equal(s->remote, before, sizeof before);
        scene_expect_mark(s, refusals[i].mark);
        scene_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_flush__range_after_a_write__gets_a_response),
        cmocka_unit_test(rc_flush__whole_region__checks_only_the_key),
        cmocka_unit_test(rc_flush__icrc_of_rxe__gets_a_response),
        cmocka_unit_test(rc_flush__repeated__response_is_sent_again),
        cmocka_unit_test(rc_flush__repeated_without_an_address__response_is_sent_again),
        cmocka_unit_test(rc_flush__repeated_for_another_address__is_dropped),
        cmocka_unit_test(rc_flush__send_follows__ack_of_the_send_waits),
        cmocka_unit_test(rc_flush__more_than_max_dest_rd_atomic__all_get_responses),
        cmocka_unit_test(rc_flush__more_than_the_responder_resources__are_retransmitted),
        cmocka_unit_test(rc_atomic_write__eight_bytes__are_written_unchanged),
        cmocka_unit_test(rc_atomic_write__repeated__same_response_and_executed_once),
        cmocka_unit_test(rc_atomic_write__repeated_as_another_operation__gets_no_response),
        cmocka_unit_test(rc_atomic_write__more_than_the_depth__is_refused),
        cmocka_unit_test(xrc__flush_and_atomic_write__are_executed_once),
        cmocka_unit_test(rc_responder__not_allowed__nak_and_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
