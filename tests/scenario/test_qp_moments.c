/* SPDX-License-Identifier: BSD-3-Clause */
/* test_qp_moments.c - tests queue pairs that fail or are destroyed while other work is pending. */
#include <string.h>

#include "scene.h"
#include "scene_wire.h"
#include "wire/ether.h"

static int to_state(struct scene *s, enum uroce_qp_state to)
{
    const struct uroce_qp_attr attr = { .state = to };
    return uroce_qp_modify(s->qp, &attr, UROCE_ATTR_STATE, s->now);
}

/* ---- fails -------------------------------------------------------------- */

/* A message whose completion found no free entry is lost for the application, so it is not
 * acknowledged. The MSN in the ACK of the message before it does not count the lost message. */
static void cq__full_for_a_receive__the_message_is_not_acknowledged(void **state)
{
    static const char *const ops[] = { "RC_SEND_ONLY", "RC_WRITE_ONLY_IMM" };
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(ops); i++) {
        struct scene *s = scene_rc(.rq_psn = 100, .cq_capacity = 1);

        for (uint64_t id = 1; id <= 3; id++)
            scene_post_recv(s, id, 8);
        scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "a"));
        scene_rx(s, 0, PACKET(.op = ops[i], .psn = 101, .ack_req = true, .dma = 1, .text = "b"));
        scene_expect_state(s, UROCE_ERR);
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
        scene_expect_silence(s, 0);
        scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
        scene_expect_event(s, UROCE_EVENT_CQ_ERR);
        scene_expect_event(s, UROCE_EVENT_QP_FATAL);
        scene_close(s);
    }
}

/* Delivers an ARP packet with another MAC address for the peer. The engine checks this claim. */
static void doubt_peer(struct scene *s)
{
    const struct uro_mac other = { { 2, 0, 0, 0, 0, 3 } };
    uint8_t frame[128];

    scene_input(s, 0, frame, scene_arp_reply(&scene_mac, &other, "10.0.0.2", frame));
    scene_skip(s);
}

static void meet_again(struct scene *s)
{
    uint8_t frame[128];

    scene_input(s, 0, frame, scene_arp_reply(&scene_mac, &scene_peer_mac, "10.0.0.2", frame));
}

/* The application moves the queue pair to ERR. Pending responses are dropped, whatever happens
 * later. */
static void qp__moved_to_error_with_responses_pending__sends_no_more(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_fill(s->remote, 0, 1024);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 4096));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = 100, .msn = 1, .length = 1024));
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 99, .text = "a", .ce = true));
    assert_int_equal(to_state(s, UROCE_ERR), 0);
    scene_expect_silence(s, 0);
    doubt_peer(s); /* the engine schedules every queue pair again */
    meet_again(s);
    scene_expect_silence(s, 0);
    scene_close(s);
}

static void qp__mac_of_the_peer_in_doubt__cnp_and_ack_wait_for_arp(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 8);
    doubt_peer(s);
    scene_rx(s, 0,
             PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "a", .ce = true));
    scene_expect_silence(s, 0);
    meet_again(s);
    scene_expect_tx(s, 0, PACKET(.op = "CNP"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 1));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_close(s);
}

/* ---- is destroyed ------------------------------------------------------- */

static void nothing_pending(struct scene *s)
{
    (void)s;
}

static void ack_wait(struct scene *s)
{
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
}

static void rnr_wait(struct scene *s)
{
    ack_wait(s);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x20 | 14));
}

static void doorbell(struct scene *s)
{
    scene_post_send(s, SEND(.id = 1, .text = "a"));
}

static void unpolled_completion(struct scene *s)
{
    ack_wait(s);
    uroce_cq_arm(s->send_cq, false);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
}

static void draining(struct scene *s)
{
    ack_wait(s);
    scene_to_state(s, UROCE_SQD);
}

static void drained_event(struct scene *s)
{
    scene_to_state(s, UROCE_SQD);
}

static void answer_due(struct scene *s)
{
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .ack_req = true, .dma = 4096));
}

static void nak_due_in_error(struct scene *s)
{
    scene_post_recv(s, 5, 8);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_LAST", .psn = 100, .ack_req = true, .text = "a"));
    scene_expect_state(s, UROCE_ERR);
}

static void half_a_message(struct scene *s)
{
    scene_post_recv(s, 5, 4096);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 100, .length = 1024));
}

static const struct {
    const char *name;
    void (*come_to)(struct scene *scene);
} moments[] = {
    { "nothing pending", nothing_pending },
    { "waiting for an ACK", ack_wait },
    { "RNR wait", rnr_wait },
    { "the doorbell was rung", doorbell },
    { "a completion is not polled", unpolled_completion },
    { "draining", draining },
    { "the drained event is not fetched", drained_event },
    { "a response is pending", answer_due },
    { "in ERR, and a NAK is pending", nak_due_in_error },
    { "half a message was received", half_a_message },
};

/* Checks that a destroyed queue pair causes no frame, no completion, no event and no timer. */
static void expect_gone(struct scene *s, uint32_t qpn)
{
    struct uroce_event event;
    struct uroce_completion cqe;

    while (uroce_engine_event(s->engine, &event))
        assert_ptr_not_equal(event.user, s); /* an event of the CQ is allowed */
    assert_int_equal(uroce_cq_poll(s->send_cq, &cqe, 1), 0);
    assert_int_equal(uroce_cq_poll(s->recv_cq, &cqe, 1), 0);
    scene_expect_silence(s, URO_MS(100000));
    assert_true(uroce_engine_next(s->engine) == UROCE_TIME_NEVER);
    uint64_t before = scene_counter(s, "drop_qpn");
    scene_rx(s, URO_MS(100000), PACKET(.op = "RC_ACK", .psn = 10, .msn = 1, .qpn = qpn));
    assert_int_equal(scene_counter(s, "drop_qpn"), before + 1);
    scene_expect_silence(s, URO_MS(100000));
}

/* bug B30 */
static void qp__destroyed_in_any_state__no_frame_event_or_timer_remains(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(moments); i++) {
        struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);
        uint32_t qpn = uroce_qp_number(s->qp);

        print_message("# %s\n", moments[i].name);
        moments[i].come_to(s);
        scene_destroy_qp(s);
        expect_gone(s, qpn);
        scene_expect_mark(s, "QP.DESTROY");
        scene_close(s);
    }
}

static void qp__reset_in_any_state__connects_and_works_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(moments); i++) {
        struct scene *s = scene_rc(.rq_psn = 100, .sq_psn = 10);
        struct uroce_event event;

        print_message("# %s\n", moments[i].name);
        moments[i].come_to(s);
        assert_int_equal(to_state(s, UROCE_RESET), 0);
        while (uroce_engine_event(s->engine, &event))
            assert_ptr_not_equal(event.user, s);
        scene_expect_silence(s, URO_MS(1000));
        scene_connect(s, &(const struct scene_options){ .mtu = 1024,
                                                        .rq_psn = 7,
                                                        .sq_psn = 70,
                                                        .timeout = 14,
                                                        .dest_depth = 4,
                                                        .access = 0xe,
                                                        .stop_at = UROCE_RTS });
        scene_post_recv(s, 8, 8);
        scene_rx(s, URO_MS(1000),
                 PACKET(.op = "RC_SEND_ONLY", .psn = 7, .ack_req = true, .text = "q"));
        scene_expect_tx(s, URO_MS(1000), PACKET(.op = "RC_ACK", .psn = 7, .msn = 1));
        scene_expect_recv(s, 8, UROCE_SUCCESS, 1);
        scene_post_send(s, SEND(.id = 9, .text = "p"));
        scene_expect_tx(s, URO_MS(1000),
                        PACKET(.op = "RC_SEND_ONLY", .psn = 70, .ack_req = true, .text = "p"));
        scene_rx(s, URO_MS(1000), PACKET(.op = "RC_ACK", .psn = 70, .msn = 1));
        scene_expect_sent(s, 9, UROCE_SUCCESS);
        scene_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cq__full_for_a_receive__the_message_is_not_acknowledged),
        cmocka_unit_test(qp__moved_to_error_with_responses_pending__sends_no_more),
        cmocka_unit_test(qp__mac_of_the_peer_in_doubt__cnp_and_ack_wait_for_arp),
        cmocka_unit_test(qp__destroyed_in_any_state__no_frame_event_or_timer_remains),
        cmocka_unit_test(qp__reset_in_any_state__connects_and_works_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
