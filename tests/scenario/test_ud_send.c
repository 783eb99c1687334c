/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ud_send.c - tests sent datagrams: destination, source port, and time of completion. */
#include <string.h>

#include "base/mark.h"
#include "scene.h"
#include "scene_wire.h"
#include "wire/frame.h"

/* ---- on the wire -------------------------------------------------------- */

static void ud_send__one_datagram__has_qpn_and_q_key_and_no_ack_req(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.sq_psn = 0xffffff);

    scene_post_send(s, SEND(.id = 1, .text = "hello", .qpn = 0x123456, .qkey = 0x01020304));
    scene_expect_tx(s, 0,
                    PACKET(.op = "UD_SEND_ONLY", .psn = 0xffffff, .text = "hello", .qpn = 0x123456,
                           .qkey = 0x01020304));
    scene_expect_no_completion(s); /* the port may not have copied the datagram yet */
    scene_post_send(s, SEND(.id = 2, .op = UROCE_SEND_WITH_IMM, .text = "", .imm = 0xaabbccdd,
                            .flags = UROCE_SOLICITED));
    scene_expect_tx(
        s, 0, PACKET(.op = "UD_SEND_ONLY_IMM", .psn = 0, .imm = 0xaabbccdd, .solicited = true));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_int_equal(scene_last()->length, 5);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    assert_int_equal(scene_last()->opcode, UROCE_DONE_SEND);
    scene_expect_mark(s, "REQ.SENT");
    scene_expect_mark(s, "UD.ONE");
    scene_close(s);
}

/* bug B22: the top bit of a request's Q_Key selects the Q_Key of the queue pair. */
static void ud_send__privileged_q_key__q_key_of_the_qp_is_sent(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.qkey = 0x80010000);

    scene_post_send(s, SEND(.id = 1, .text = "a", .qkey = 0x80000000));
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 0, .text = "a", .qkey = 0x80010000));
    scene_post_send(s, SEND(.id = 2, .text = "b", .qkey = 0xffffffff));
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 1, .text = "b", .qkey = 0x80010000));
    scene_post_send(s, SEND(.id = 3, .text = "c", .qkey = 0x7fffffff));
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 2, .text = "c", .qkey = 0x7fffffff));
    scene_expect_silence(s, 0);
    for (uint64_t id = 1; id <= 3; id++)
        scene_expect_sent(s, id, UROCE_SUCCESS);
    scene_close(s);
    assert_true(uro_mark_hit("UD.QKEY.PRIVILEGED"));
}

/* The source port is 0xc000 plus the upper 14 bits of QPN * 0x61c88647. */
static void ud_send__source_port__depends_on_the_sending_queue_pair(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    uint8_t octets[SCENE_FRAME_MAX];
    uint32_t qpn = uroce_qp_number(s->qp);
    struct uro_frame frame;

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    assert_int_equal(uro_frame_network(octets, scene_output(s, 0, octets), &frame), URO_FRAME_OK);
    assert_int_equal(frame.udp.source_port, 0xc000 + (uint32_t)(qpn * 0x61c88647u) / 0x40000);
    assert_int_equal(frame.udp.checksum, 0);
    assert_int_equal(frame.ip.hop_limit, 64);
    assert_true(frame.ip.dont_fragment);
    /* Linux rxe was observed to send from this port with QPN 1. */
    assert_int_equal(0xc000 + 0x61c88647u / 0x40000, 55410);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_close(s);
    assert_true(uro_mark_hit("TX.PORT.UD"));
}

static void ud_send__any_length_up_to_the_mtu__is_one_packet(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    static const uint32_t lengths[] = { 0, 1, 2, 3, 4, 1023, 1024, 4095, 4096 };

    for (uint32_t i = 0; i < URO_ARRAY_LEN(lengths); i++) {
        scene_fill(s->local, i, lengths[i]);
        scene_post_send(s, SEND(.id = i, .length = lengths[i]));
        scene_expect_tx(s, 0,
                        PACKET(.op = "UD_SEND_ONLY", .psn = i, .length = lengths[i], .fill = i));
        scene_expect_silence(s, 0);
        scene_expect_sent(s, i, UROCE_SUCCESS);
    }
    scene_close(s);
}

/* ---- destination -------------------------------------------------------- */

static void ud_send__many_peers_in_one_burst__each_peer_gets_its_datagrams_in_order(void **state)
{
    (void)state;
    static const char *const peers[] = { "10.0.0.3", "10.0.0.4", "10.0.0.5" };
    struct scene *s = scene_ud();
    struct uroce_ah *ahs[3];

    for (uint32_t i = 0; i < 3; i++) {
        ahs[i] = scene_make_ah(s, peers[i]);
        scene_meet(s, peers[i]);
    }
    for (uint32_t i = 0; i < 12; i++)
        scene_post_send(s, SEND(.id = i, .text = "x", .at = i, .ah = ahs[i % 3], .qpn = 100 + i));
    assert_int_equal(scene_burst(s, 32), 12);
    for (uint32_t i = 0; i < 12; i++) {
        scene_wire_compare(PACKET(.op = "UD_SEND_ONLY", .psn = i, .text = "x", .qpn = 100 + i,
                                  .to = peers[i % 3], .qkey = SCENE_QKEY,
                                  .source_qpn = uroce_qp_number(s->qp)),
                           scene_burst_frame(i), scene_burst_length(i));
    }
    scene_expect_silence(s, 0);
    for (uint32_t i = 0; i < 12; i++)
        scene_expect_sent(s, i, UROCE_SUCCESS);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(uroce_ah_destroy(ahs[i]), 0);
    scene_close(s);
}

static void ud_send__next_hop_unresolved__waits_with_later_requests(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    uint8_t ask[SCENE_FRAME_MAX];
    uint8_t reply[SCENE_FRAME_MAX];

    struct uroce_ah *ah = scene_make_ah(s, "10.0.0.3");
    scene_post_send(s, SEND(.id = 1, .text = "a", .ah = ah));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8));
    assert_int_not_equal(scene_output(s, 0, ask), 0); /* the engine asks for its MAC address */
    scene_expect_silence(s, 0);
    scene_expect_no_completion(s);
    scene_input(s, 0, reply, scene_arp_reply(&scene_mac, &scene_peer_mac, "10.0.0.3", reply));
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 0, .text = "a", .to = "10.0.0.3"));
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 1, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    scene_close(s);
}

static void ud_send__next_hop_does_not_answer__completes_unsent(void **state)
{
    (void)state;
    struct scene *s = scene_ud();
    uint8_t octets[SCENE_FRAME_MAX];

    struct uroce_ah *ah = scene_make_ah(s, "10.0.0.3");
    scene_post_send(s, SEND(.id = 1, .text = "a", .ah = ah));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8));
    for (uro_time at = 0; at < URO_MS(3000); at += URO_MS(5)) {
        uint32_t length = scene_output(s, at, octets);
        struct uro_frame frame;
        if (length != 0 && uro_frame_network(octets, length, &frame) == URO_FRAME_OK &&
            frame.ether.type == URO_ETHERTYPE_IPV4) {
            assert_int_equal(frame.ip.dest.octets[15], 2); /* the second datagram */
            break;
        }
    }
    scene_expect_mark(s, "TX.NO.NEIGHBOR");
    assert_int_equal(scene_counter(s, "tx_no_neighbor"), 1);
    struct uroce_event event;
    assert_false(uroce_engine_event(s->engine, &event));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    scene_close(s);
}

static void ud_send__handle_destroyed_before_transmission__error_completion(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    struct uroce_ah *ah = scene_make_ah(s, "10.0.0.3");
    scene_meet(s, "10.0.0.3");
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8, .ah = ah));
    scene_post_send(s, SEND(.id = 3, .text = "c", .at = 16));
    assert_int_equal(uroce_ah_destroy(ah), 0);
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 0, .text = "a"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_LOC_QP_OP_ERR);
    scene_expect_reason(scene_last()->reason,
                        "the address handle was destroyed or is of another PD");
    scene_expect_sent(s, 3, UROCE_WR_FLUSH_ERR);
    scene_expect_state(s, UROCE_SQE);
    scene_close(s);
}

/* ---- errors ------------------------------------------------------------- */

/* bug B21 */
static void ud_send__longer_than_the_mtu__fails_with_a_reason(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.link_mtu = 1500);

    scene_post_send(s, SEND(.id = 1, .length = 1024));
    scene_post_send(s, SEND(.id = 2, .length = 1025));
    scene_fill(s->local, 0, 1025);
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 0, .length = 1024));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_LOC_LEN_ERR);
    scene_expect_reason(scene_last()->reason, "the datagram is longer than the link's MTU");
    scene_expect_state(s, UROCE_SQE);
    scene_expect_mark(s, "UD.LENGTH");
    scene_close(s);
}

/* rule PORT.MTU */
static void ud_send__handle_made_at_a_lower_mtu__uses_the_restored_mtu(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    uroce_engine_set_mtu(s->engine, 1500);
    struct uroce_ah *ah = scene_make_ah(s, "10.0.0.2");
    uroce_engine_set_mtu(s->engine, 4500);
    scene_fill(s->local, 1, 4096);
    scene_post_send(s, SEND(.id = 1, .length = 4096, .ah = ah));
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 0, .length = 4096, .fill = 1));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    scene_close(s);
}

static void ud_send__bad_local_key__only_the_send_queue_stops_and_resumes(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_post_recv(s, 9, 64);
    scene_post_send(s, SEND(.id = 1, .text = "a", .lkey = 0x99));
    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_LOC_PROT_ERR);
    scene_expect_sent(s, 2, UROCE_WR_FLUSH_ERR);
    scene_expect_state(s, UROCE_SQE);
    scene_rx(s, 0, PACKET(.op = "UD_SEND_ONLY", .text = "hi"));
    scene_expect_recv(s, 9, UROCE_SUCCESS, 42);
    scene_post_send(s, SEND(.id = 3, .text = "c"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 3, UROCE_WR_FLUSH_ERR);
    scene_to_state(s, UROCE_RTS);
    scene_post_send(s, SEND(.id = 4, .text = "d"));
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 0, .text = "d"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 4, UROCE_SUCCESS);
    scene_close(s);
}

static void ud_send__bad_request_in_a_burst__earlier_requests_succeed_first(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    scene_play_bad_one_in_a_burst(s);
    scene_close(s);
}

static void ud__drained__request_that_waited_for_arp_is_sent_after_rts(void **state)
{
    (void)state;
    struct scene *s = scene_ud();

    struct uroce_ah *ah = scene_make_ah(s, "10.0.0.3");
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8, .ah = ah));
    scene_meet(s, "10.0.0.3");
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 0, .text = "a"));
    scene_to_state(s, UROCE_SQD);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_event(s, UROCE_EVENT_SQ_DRAINED);
    scene_expect_no_completion(s);
    scene_to_state(s, UROCE_RTS);
    scene_expect_tx(s, 0, PACKET(.op = "UD_SEND_ONLY", .psn = 1, .text = "b", .to = "10.0.0.3"));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    scene_close(s);
}

/* ---- to the same engine ------------------------------------------------- */

static void ud_send__to_itself__arrives_with_the_grh_and_no_frame_is_sent(void **state)
{
    (void)state;
    static const char *const selves[] = { "10.0.0.1", "fe80::ff:fe00:1" };

    for (int v6 = 0; v6 < 2; v6++) {
        struct scene *s = scene_ud();

        struct uroce_ah *ah = scene_make_ah(s, selves[v6]);
        scene_post_recv(s, 9, 64);
        scene_post_send(s, SEND(.id = 1, .text = "me", .ah = ah, .qpn = uroce_qp_number(s->qp)));
        scene_expect_silence(s, 0); /* the engine keeps the frame and does not send it */
        scene_expect_no_completion(s);
        scene_expect_silence(s, 0);
        scene_expect_recv(s, 9, UROCE_SUCCESS, 42);
        assert_int_equal(scene_last()->source_qpn, uroce_qp_number(s->qp));
        assert_int_equal(scene_last()->service_level, v6 ? 0x9 : 0xa);
        assert_memory_equal(scene_recv_memory(s, 40), "me", 2);
        scene_expect_sent(s, 1, UROCE_SUCCESS);
        assert_int_equal(scene_counter(s, "loop_frames"), 1);
        assert_int_equal(uroce_ah_destroy(ah), 0);
        scene_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ud_send__one_datagram__has_qpn_and_q_key_and_no_ack_req),
        cmocka_unit_test(ud_send__privileged_q_key__q_key_of_the_qp_is_sent),
        cmocka_unit_test(ud_send__source_port__depends_on_the_sending_queue_pair),
        cmocka_unit_test(ud_send__any_length_up_to_the_mtu__is_one_packet),
        cmocka_unit_test(ud_send__many_peers_in_one_burst__each_peer_gets_its_datagrams_in_order),
        cmocka_unit_test(ud_send__next_hop_unresolved__waits_with_later_requests),
        cmocka_unit_test(ud_send__next_hop_does_not_answer__completes_unsent),
        cmocka_unit_test(ud_send__handle_destroyed_before_transmission__error_completion),
        cmocka_unit_test(ud_send__longer_than_the_mtu__fails_with_a_reason),
        cmocka_unit_test(ud_send__handle_made_at_a_lower_mtu__uses_the_restored_mtu),
        cmocka_unit_test(ud_send__bad_local_key__only_the_send_queue_stops_and_resumes),
        cmocka_unit_test(ud_send__bad_request_in_a_burst__earlier_requests_succeed_first),
        cmocka_unit_test(ud__drained__request_that_waited_for_arp_is_sent_after_rts),
        cmocka_unit_test(ud_send__to_itself__arrives_with_the_grh_and_no_frame_is_sent),
    };
    return cmocka_run_group_tests_name("scenario/ud_send", tests, NULL, NULL);
}
