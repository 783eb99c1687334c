/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_repeat.c - tests requests that Linux rxe retransmits: which ACKs are deferred, until
 * which responses, and for how long.
 *
 * From 6.2 on, the queue pair of rxe fails when it gets a duplicate ACK between the responses of a
 * READ. When rxe retransmits a request, it also retransmits the later requests.
 */
#include <string.h>

#include "core/limits.h"
#include "core/qp_private.h"
#include "inside.h"
#include "scene.h"

/* Interval between two checks of deferred ACKs. An ACK that is deferred at time 0 is not sent at
 * the first check, but at the second. */
#define TURN (URO_ACK_DEFER + URO_US(2))

#define SEND_BY_RXE(...)                                                                           \
    PACKET(.op = "RC_SEND_ONLY", .rxe = true, .ack_req = true, .text = "hi", .psn = __VA_ARGS__)
#define READ_BEHIND(...)                                                                           \
    PACKET(.op = "RC_READ_REQUEST", .rxe = true, .ack_req = true, .dma = 2000, .psn = __VA_ARGS__)

static void take_send(struct scene *s, uint32_t psn, uint32_t msn)
{
    scene_post_recv(s, psn, 64);
    scene_rx(s, 0, SEND_BY_RXE(psn));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = psn, .msn = msn));
    scene_expect_recv(s, psn, UROCE_SUCCESS, 2);
}

static void expect_first(struct scene *s, uro_time at, uint32_t psn, uint32_t msn)
{
    scene_expect_tx(s, at,
                    PACKET(.op = "RC_READ_RESPONSE_FIRST", .psn = psn, .msn = msn, .length = 1024));
}

static void expect_last(struct scene *s, uro_time at, uint32_t psn, uint32_t msn)
{
    scene_expect_tx(
        s, at,
        PACKET(.op = "RC_READ_RESPONSE_LAST", .psn = psn, .msn = msn, .length = 976, .fill = 1024));
}

/* Delivers a READ and expects its responses. */
static void take_read(struct scene *s, uro_time at, uint32_t psn, uint32_t msn)
{
    scene_rx(s, at, READ_BEHIND(psn));
    expect_first(s, at, psn, msn);
    expect_last(s, at, (psn + 1) & 0xffffff, msn);
}

/* Delivers @count FETCH_ADDs from @psn on. */
static void take_fetch_adds(struct scene *s, uint32_t psn, uint32_t count)
{

    for (uint32_t end = psn + count; psn < end; psn++) {
        scene_rx(s, 0, PACKET(.op = "RC_FETCH_ADD", .psn = psn, .ack_req = true, .rxe = true));
        scene_skip(s);
    }
}

/* Delivers a SEND with the first PSN @psn, and behind it a READ of two responses. Expects the
 * responses to both. */
static void take_send_and_read(struct scene *s, uint32_t psn)
{
    take_send(s, psn, 1);
    take_read(s, 0, (psn + 1) & 0xffffff, 2);
}

static struct scene *send_and_read(uint32_t psn)
{
    struct scene *s = scene_rc(.rq_psn = psn);

    scene_fill(s->remote, 0, 2000);
    take_send_and_read(s, psn);
    return s;
}

static void rc_repeat__send_before_a_read__only_the_read_gets_a_response(void **state)
{
    (void)state;
    for (uint32_t psn = 100; psn <= 0xffffff; psn += 0xffffff - 100) {
        struct scene *s = send_and_read(psn);
        scene_rx(s, 0, SEND_BY_RXE(psn));
        scene_expect_silence(s, URO_US(500));
        take_read(s, URO_US(500), (psn + 1) & 0xffffff, 2);
        scene_expect_silence(s, TURN);
        scene_expect_silence(s, 2 * TURN);
        scene_expect_mark(s, "RSP.DUP.BEHIND");
        scene_close(s);
    }
}

static void rc_repeat__send_alone__is_acknowledged_later(void **state)
{
    (void)state;
    for (uint32_t psn = 100; psn <= 0xffffff; psn += 0xffffff - 100) {
        struct scene *s = send_and_read(psn);
        for (uint32_t i = 0; i < 2; i++) {
            uro_time at = URO_MS(100 * i);
            scene_rx(s, at, SEND_BY_RXE(psn));
            scene_expect_silence(s, at + TURN);
            scene_expect_tx(s, at + 2 * TURN, PACKET(.op = "RC_ACK", .psn = psn, .msn = 2));
            scene_expect_silence(s, at + 3 * TURN);
            assert_true(uroce_engine_next(s->engine) >
                        at + s->zero + URO_MS(50)); /* no timer runs */
        }
        scene_expect_mark(s, "RSP.LATE.ALONE");
        scene_close(s);
    }
}

static void rc_repeat__send_of_another_endpoint__is_acknowledged_at_once(void **state)
{
    (void)state;
    struct scene *s = send_and_read(100);

    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .ack_req = true, .text = "hi"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 2));
    scene_close(s);
}

static void rc_repeat__send_during_a_read_response__no_ack_between_the_responses(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_fill(s->remote, 0, 2000);
    take_send(s, 100, 1);
    scene_rx(s, 0, READ_BEHIND(101));
    expect_first(s, 0, 101, 2);
    scene_rx(s, 0, SEND_BY_RXE(100));
    expect_last(s, 0, 102, 2);
    scene_expect_silence(s, TURN);
    scene_expect_silence(s, 2 * TURN);
    scene_close(s);
}

/* A READ with a single response leaves no room for an ACK between its responses. The READ of two
 * responses is before the SEND. */
static void rc_repeat__send_before_a_single_response__is_acknowledged_at_once(void **state)
{
    (void)state;
    struct scene *s = send_and_read(100);

    take_send(s, 103, 3);
    take_fetch_adds(s, 104, 1);
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = 105, .ack_req = true, .dma = 1024));
    scene_skip(s);
    scene_rx(s, 0, SEND_BY_RXE(103));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 103, .msn = 5));
    scene_close(s);
}

/* The READ and the atomics together use all responder resources except the last. */
static void rc_repeat__send_before_a_read_and_atomics__is_acknowledged_later(void **state)
{
    (void)state;
    struct scene *s = send_and_read(100);

    take_fetch_adds(s, 103, 7);
    scene_rx(s, 0, SEND_BY_RXE(100));
    scene_expect_silence(s, TURN);
    scene_expect_tx(s, 2 * TURN, PACKET(.op = "RC_ACK", .psn = 100, .msn = 9));
    scene_close(s);
}

/* With a distance of half the PSN space, neither PSN is behind the other. */
static void rc_repeat__send_long_after_a_read__is_acknowledged_at_once(void **state)
{
    (void)state;
    struct scene *s = send_and_read(100);

    s->qp->core->rsp.expected = uro_psn_make(101 + (1u << 23) + 500);
    scene_rx(s, 0, SEND_BY_RXE(101 + (1u << 23) + 499));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 101 + (1u << 23) + 499, .msn = 2));
    scene_close(s);
}

static void rc_repeat__more_reads_than_resources__the_newest_counts(void **state)
{
    (void)state;
    struct scene *s = send_and_read(100);

    take_fetch_adds(s, 103, 100);
    scene_rx(s, 0,
             SEND_BY_RXE(100)); /* the responder has no resource any more for the READ after it */
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .msn = 102));
    take_read(s, 0, 203, 103);
    scene_rx(s, 0, SEND_BY_RXE(100));
    scene_expect_silence(s, TURN);
    scene_close(s);
}

/* The response to a READ before the SEND does not acknowledge the SEND. */
static void rc_repeat__send_between_two_reads__first_read_does_not_acknowledge_the_send(
    void **state)
{
    (void)state;
    struct scene *s = send_and_read(100);

    take_send(s, 103, 3);
    take_read(s, 0, 104, 4);
    scene_rx(s, 0, SEND_BY_RXE(103));
    take_read(s, 0, 101, 4);
    scene_expect_silence(s, TURN);
    scene_expect_tx(s, 2 * TURN, PACKET(.op = "RC_ACK", .psn = 103, .msn = 4));
    scene_close(s);
}

/* A duplicate SEND with an earlier PSN does not delay the ACK. A SEND with a later PSN does, by the
 * usual time. */
static void rc_repeat__several_sends__one_ack_for_all_after_the_last(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 0xfffffe);
    static const uint32_t psns[] = { 0xfffffe, 0xffffff, 0 };

    scene_fill(s->remote, 0, 2000);
    for (uint32_t i = 0; i < 3; i++)
        take_send(s, psns[i], 1 + i);
    take_read(s, 0, 1, 4);
    scene_rx(s, 0, SEND_BY_RXE(psns[0]));
    scene_rx(s, 0, SEND_BY_RXE(psns[1]));
    scene_expect_silence(s, TURN);
    scene_rx(s, TURN, SEND_BY_RXE(psns[2]));
    scene_rx(s, TURN, SEND_BY_RXE(psns[0]));
    scene_expect_silence(s, 2 * TURN);
    scene_expect_tx(s, 3 * TURN, PACKET(.op = "RC_ACK", .psn = 0, .msn = 4));
    scene_rx(s, URO_MS(100), SEND_BY_RXE(psns[0])); /* the time starts again */
    scene_expect_silence(s, URO_MS(100) + TURN);
    scene_expect_tx(s, URO_MS(100) + 2 * TURN, PACKET(.op = "RC_ACK", .psn = 0xfffffe, .msn = 4));
    scene_expect_silence(s, URO_MS(200));
    scene_close(s);
}

/* Any response that also acknowledges the SEND replaces the waiting ACK. */
static void rc_repeat__ack_deferred__any_later_response_replaces_the_ack(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct scene *s = send_and_read(100);
        scene_rx(s, 0, SEND_BY_RXE(100));
        if (i == 0) {
            take_send(s, 103, 3);
        } else if (i == 1) {
            take_fetch_adds(s, 103, 1);
        } else {
            scene_rx(s, 0, SEND_BY_RXE(104));
            scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 103, .syndrome = 0x60, .msn = 2));
        }
        scene_expect_silence(s, TURN);
        scene_expect_silence(s, 2 * TURN);
        scene_close(s);
    }
}

/* One queue pair waits when the timer is armed, others start to wait later, and one of them is
 * destroyed. */
static void rc_repeat__three_queue_pairs__each_has_a_deferred_ack(void **state)
{
    (void)state;
    struct scene *s = send_and_read(100);
    struct uroce_qp *qps[3] = { s->qp };

    for (uint32_t i = 1; i < 3; i++) {
        s->qp = qps[i] = scene_add(s, .rq_psn = 100);
        take_send_and_read(s, 100);
    }
    for (uint32_t i = 0; i < 3; i++) {
        s->qp = qps[i];
        scene_rx(s, i == 2 ? URO_MS(5) : 0, SEND_BY_RXE(100));
        scene_expect_silence(s, i == 2 ? URO_MS(5) : 0);
    }
    scene_expect_silence(s, TURN);
    s->qp = qps[1];
    scene_destroy_qp(s);
    s->qp = qps[0];
    scene_rx(s, TURN, SEND_BY_RXE(100));
    scene_expect_tx(s, 2 * TURN, PACKET(.op = "RC_ACK", .psn = 100, .msn = 2));
    s->qp = qps[2];
    scene_expect_tx(s, 2 * TURN, PACKET(.op = "RC_ACK", .psn = 100, .msn = 2));
    scene_expect_silence(s, 3 * TURN);
    scene_expect_silence(s, 4 * TURN);
    scene_close(s);
}

static void rc_repeat__qp_fails_or_is_reset_with_a_deferred_ack__no_ack_is_sent(void **state)
{
    (void)state;
    static const enum uroce_qp_state states[] = { UROCE_ERR, UROCE_RESET };

    for (uint32_t i = 0; i < 2; i++) {
        struct scene *s = send_and_read(100);
        struct uroce_qp *first = s->qp, *second = scene_add(s, .rq_psn = 100);
        s->qp = second;
        take_send_and_read(s, 100);
        s->qp = first;
        scene_rx(s, 0, SEND_BY_RXE(100));
        scene_to_state(s, states[i]);
        assert_null(uroce_qp_problem(s->qp));
        s->qp = second;
        scene_rx(s, 0, SEND_BY_RXE(100));
        scene_expect_silence(s, TURN);
        scene_expect_tx(s, 2 * TURN, PACKET(.op = "RC_ACK", .psn = 100, .msn = 2));
        scene_expect_silence(s, 3 * TURN);
        scene_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_repeat__send_before_a_read__only_the_read_gets_a_response),
        cmocka_unit_test(rc_repeat__send_alone__is_acknowledged_later),
        cmocka_unit_test(rc_repeat__send_of_another_endpoint__is_acknowledged_at_once),
        cmocka_unit_test(rc_repeat__send_during_a_read_response__no_ack_between_the_responses),
        cmocka_unit_test(rc_repeat__send_before_a_single_response__is_acknowledged_at_once),
        cmocka_unit_test(rc_repeat__send_before_a_read_and_atomics__is_acknowledged_later),
        cmocka_unit_test(rc_repeat__send_long_after_a_read__is_acknowledged_at_once),
        cmocka_unit_test(rc_repeat__more_reads_than_resources__the_newest_counts),
        cmocka_unit_test(
            rc_repeat__send_between_two_reads__first_read_does_not_acknowledge_the_send),
        cmocka_unit_test(rc_repeat__several_sends__one_ack_for_all_after_the_last),
        cmocka_unit_test(rc_repeat__ack_deferred__any_later_response_replaces_the_ack),
        cmocka_unit_test(rc_repeat__three_queue_pairs__each_has_a_deferred_ack),
        cmocka_unit_test(rc_repeat__qp_fails_or_is_reset_with_a_deferred_ack__no_ack_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
