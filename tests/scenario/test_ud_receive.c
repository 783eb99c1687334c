/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ud_receive.c - tests which arriving datagrams are delivered, and which are dropped without
 * other effects. */
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "scene.h"

/* ---- delivered ---------------------------------------------------------- */

/* The expected bytes are literals, because programs parse these bytes. */
static void ud_receive__over_ipv4__header_is_in_the_last_20_of_the_first_40_bytes(void **state)
{
    (void)state;
    static const uint8_t grh[40] = {
        0,    0,    0,  0,    0, 0, 0,    0, 0,    0,
        0,    0,    0,  0,    0, 0, 0,    0, 0,    0, /* nothing */
        0x45, 0,    0,  0x38, 0, 0, 0x40, 0, 0x40, 17,
        0x26, 0xb3, 10, 0,    0, 2, 10,   0, 0,    1,
    };
    struct scene *s = scene_ud();

    scene_post_recv(s, 1, 44);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 5, .text = "data"));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 44);
    assert_memory_equal(scene_recv_memory(s, 0), grh, 40);
    assert_memory_equal(scene_recv_memory(s, 40), "data", 4);
    assert_int_equal(scene_last()->flags, UROCE_COMPLETION_GRH);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_RECV);
    assert_int_equal(scene_last()->service_level, 0xa);
    assert_int_equal(scene_last()->source_qpn, SCENE_QPN_PEER);
    assert_int_equal(scene_last()->qpn, uroce_qp_number(s->qp));
    scene_close(s);
    assert_true(uro_mark_hit("UD.GRH"));
}

static void ud_receive__over_ipv6__the_first_40_bytes_are_the_header(void **state)
{
    (void)state;
    static const uint8_t grh[40] = {
        0x60, 0,    0, 0, 0, 36, 17, 64, /* version, class, label; length, next header, hop limit */
        0xfe, 0x80, 0, 0, 0, 0,  0,  0,  0, 0, 0, 0,    0,    0, 0, 2, /* source */
        0xfe, 0x80, 0, 0, 0, 0,  0,  0,  0, 0, 0, 0xff, 0xfe, 0, 0, 1,
    };
    struct scene *s = scene_ud();

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0,
             PACKET(.op = "UD_SEND_ONLY", .text = "data", .from = "fe80::2",
                    .to = "fe80::ff:fe00:1", .source_qpn = 0xfffffe));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 44);
    assert_memory_equal(scene_recv_memory(s, 0), grh, 40);
    assert_memory_equal(scene_recv_memory(s, 40), "data", 4);
    assert_int_equal(scene_last()->flags, UROCE_COMPLETION_GRH);
    assert_int_equal(scene_last()->service_level, 0x9);
    assert_int_equal(scene_last()->source_qpn, 0xfffffe);
    scene_close(s);
}

static void ud_receive__with_immediate__is_in_the_completion_as_on_the_wire(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_post_recv(s, 1, 40);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY_IMM", .imm = 0x11223344));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 40);
    assert_int_equal(scene_last()->imm, 0x11223344);
    assert_int_equal(scene_last()->flags, UROCE_COMPLETION_GRH | UROCE_COMPLETION_WITH_IMM);
    scene_close(s);
}

static void ud_receive__any_source_psn_and_ack_req__delivered_without_an_ack(void **state)
{
    (void)state;
    static const uint32_t psns[] = { 0, 0, 5, 3, 0xffffff, 1 };
    static const char *const from[] = { "10.0.0.2", "10.0.0.77", "192.168.1.1" };
    struct scene *s = scene_ud();

    for (size_t i = 0; i < URO_ARRAY_LEN(psns); i++) {
        scene_post_recv(s, i, 64);
        scene_rx(s, 0,
                 PACKET(.op = "UD_SEND_ONLY", .psn = psns[i], .text = "x", .ack_req = true,
                        .from = from[i % 3], .source_qpn = 1000 + (uint32_t)i));
        scene_expect_recv(s, i, UROCE_SUCCESS, 41);
        assert_int_equal(scene_last()->source_qpn, 1000 + i);
    }
    scene_expect_silence(s, 0);
    scene_expect_mark(s, "UD.ANY");
    scene_close(s);
}

static void ud_receive__in_rtr__delivered_without_an_event(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.stop_at = UROCE_RTR);
    struct uroce_event event;

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x"));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 41);
    assert_false(uroce_engine_event(s->engine, &event));
    scene_close(s);
}

static void ud_receive__solicited__raises_a_solicited_event(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    struct uroce_event event;

    scene_post_recv(s, 1, 64);
    scene_post_recv(s, 2, 64);
    uroce_cq_arm(s->recv_cq, true);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x"));
    assert_false(uroce_engine_event(s->engine, &event));
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "y", .solicited = true));
    scene_expect_event(s, UROCE_EVENT_COMPLETION);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 41);
    scene_expect_recv(s, 2, UROCE_SUCCESS, 41);
    scene_close(s);
}

static void ud_receive__from_a_shared_queue__takes_the_oldest_receive(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.srq = 8);
    struct uroce_qp *other = scene_add(s, .type = UROCE_UD, .srq = 8);

    scene_post_recv(s, 1, 64);
    scene_post_recv(s, 2, 41);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .qpn = uroce_qp_number(other)));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 41);
    assert_int_equal(scene_last()->qpn, uroce_qp_number(other));
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "too long"));
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .qkey = 5));
    scene_expect_no_completion(s);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "y"));
    scene_expect_recv(s, 2, UROCE_SUCCESS, 41);
    assert_int_equal(scene_last()->qpn, uroce_qp_number(s->qp));
    scene_close(s);
}

/* ---- dropped ------------------------------------------------------------ */

static void ud_receive__wrong_q_key__dropped_and_the_receive_remains_posted(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.qkey = 0x80010000);

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .qkey = 0x00010000));
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .qkey = 0x80010001));
    assert_int_equal(scene_counter(s, "drop_qkey"), 2);
    scene_expect_mark(s, "UD.QKEY");
    scene_expect_no_completion(s);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .qkey = 0x80010000));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 41);
    scene_close(s);
}

static void ud_receive__no_receive_posted__dropped(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x"));
    assert_int_equal(scene_counter(s, "drop_ud_receive"), 1);
    scene_expect_mark(s, "UD.RECEIVE");
    scene_expect_silence(s, 0);
    scene_post_recv(s, 1, 64);
    scene_expect_no_completion(s);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "y"));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 41);
    scene_close(s);
}

/* bug B20: other stacks lost or blocked the queue pair. */
static void ud_receive__one_byte_too_long__dropped_and_the_next_fits(void **state)
{
    (void)state;
    static const uint32_t rooms[] = { 140, 40, 39, 0 };

    for (size_t i = 0; i < URO_ARRAY_LEN(rooms); i++) {
        struct scene *s = scene_ud();
        uint32_t fits = rooms[i] < 40 ? 0 : rooms[i] - 40;

        scene_post_recv(s, 1, rooms[i]);
        scene_post_recv(s, 2, 200);
        scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .length = fits + 1));
        assert_int_equal(scene_counter(s, "drop_ud_length"), 1);
        scene_expect_mark(s, "UD.OVERSIZE");
        scene_expect_no_completion(s);
        scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .length = fits, .fill = 3));
        if (rooms[i] >= 40) {
            scene_expect_recv(s, 1, UROCE_SUCCESS, rooms[i]);
            scene_assert_filled(scene_recv_memory(s, 40), 3, fits);
        } else {
            scene_expect_no_completion(s); /* the receive has no space for the header */
        }
        scene_expect_state(s, UROCE_RTS);
        scene_close(s);
    }
}

/* A link with a 9000-byte MTU delivers more than any path MTU. */
static void ud_receive__longer_than_any_path_mtu__dropped(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.link_mtu = 9000);

    scene_post_recv(s, 1, 8000);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .length = 4097));
    assert_int_equal(scene_counter(s, "drop_ud_length"), 1);
    scene_expect_no_completion(s);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .length = 4096));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 4136);
    scene_close(s);
}

static void ud_receive__wrong_pkey_service_or_destination__dropped_and_counted(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .pkey = 0x8001));
    scene_rx(s, 0, PACKET(.op = "UC_SEND_ONLY", .text = "x"));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .text = "x"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK"));
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .qpn = 2));
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .to = "10.0.0.9"));
    assert_int_equal(scene_counter(s, "drop_pkey"), 1);
    assert_int_equal(scene_counter(s, "drop_service"), 3);
    assert_int_equal(scene_counter(s, "drop_qpn"), 1);
    assert_int_equal(scene_counter(s, "drop_ip_dest"), 1);
    scene_expect_no_completion(s);
    scene_expect_silence(s, 0);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x", .pkey = 0x7fff));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 41);
    scene_close(s);
}

static void ud_receive__in_init_or_err__dropped(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.stop_at = UROCE_INIT);

    scene_post_recv(s, 1, 64);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x"));
    assert_int_equal(scene_counter(s, "drop_state"), 1);
    scene_to_state(s, UROCE_ERR);
    scene_expect_recv(s, 1, UROCE_WR_FLUSH_ERR, 0);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x"));
    assert_int_equal(scene_counter(s, "drop_state"), 2);
    scene_close(s);
}

/* ---- errors of the receiving program ------------------------------------ */

static void ud_receive__buffer_that_may_not_be_written__fails_the_queue_pair(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_post_recv_key(s, 1, 64, uroce_mr_key(s->local_mr) ^ 1);
    scene_post_recv(s, 2, 64);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x"));
    scene_expect_recv(s, 1, UROCE_LOC_PROT_ERR, 0);
    scene_expect_reason(scene_last()->reason,
                        "a local buffer is not registered, of another PD, or lacks LOCAL_WRITE");
    scene_expect_recv(s, 2, UROCE_WR_FLUSH_ERR, 0);
    scene_expect_state(s, UROCE_ERR);
    scene_expect_mark(s, "UD.LOCAL");
    scene_close(s);
}

static void ud_receive__cq_full__overrun_event_and_failure(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.cq_capacity = 1);

    scene_post_recv(s, 1, 64);
    scene_post_recv(s, 2, 64);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "x"));
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "y"));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 41);
    scene_expect_event(s, UROCE_EVENT_CQ_ERR);
    scene_expect_event(s, UROCE_EVENT_QP_FATAL);
    scene_expect_state(s, UROCE_ERR);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ud_receive__over_ipv4__header_is_in_the_last_20_of_the_first_40_bytes),
        cmocka_unit_test(ud_receive__over_ipv6__the_first_40_bytes_are_the_header),
        cmocka_unit_test(ud_receive__with_immediate__is_in_the_completion_as_on_the_wire),
        cmocka_unit_test(ud_receive__any_source_psn_and_ack_req__delivered_without_an_ack),
        cmocka_unit_test(ud_receive__in_rtr__delivered_without_an_event),
        cmocka_unit_test(ud_receive__solicited__raises_a_solicited_event),
        cmocka_unit_test(ud_receive__from_a_shared_queue__takes_the_oldest_receive),
        cmocka_unit_test(ud_receive__wrong_q_key__dropped_and_the_receive_remains_posted),
        cmocka_unit_test(ud_receive__no_receive_posted__dropped),
        cmocka_unit_test(ud_receive__one_byte_too_long__dropped_and_the_next_fits),
        cmocka_unit_test(ud_receive__longer_than_any_path_mtu__dropped),
        cmocka_unit_test(ud_receive__wrong_pkey_service_or_destination__dropped_and_counted),
        cmocka_unit_test(ud_receive__in_init_or_err__dropped),
        cmocka_unit_test(ud_receive__buffer_that_may_not_be_written__fails_the_queue_pair),
        cmocka_unit_test(ud_receive__cq_full__overrun_event_and_failure),
    };
    return cmocka_run_group_tests_name("scenario/ud_receive", tests, NULL, NULL);
}
