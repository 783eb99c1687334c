/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_order.c - tests CM messages that arrive late, early, or again and again. */
#include <errno.h>

#include "base/mark.h"
#include "managers.h"

static void accept_at(struct managers *s)
{
    const struct uro_conn_param param = { .type = URO_QPT_RC, .qpn = 0x456 };

    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &param, s->now), 0);
}

/* Returns the number of messages that the manager has sent. */
static uint32_t sent_by(const struct manager *at)
{
    uint32_t count = 0;

    for (size_t kind = 0; kind < URO_ARRAY_LEN(at->sent); kind++)
        count += at->sent[kind];
    return count;
}

/* Checks that @at raised no event, sent no reply, and dropped the message as unexpected or stray.
 * @sent: number of messages that @at had sent before. */
static void expect_ignored(struct managers *s, struct manager *at, uint32_t sent)
{
    managers_expect_nothing(s, at);
    assert_int_equal(sent_by(at), sent);
    assert_true(uro_mark_hit("CM.UNEXPECTED") || uro_mark_hit("CM.STRAY"));
    uro_mark_clear();
}

/* Delivers the message of @from that the wire has kept. Checks that @at ignores it, or ignores the
 * reply to it. */
static void release_ignored(struct managers *s, struct manager *from, struct manager *at)
{
    const uint32_t sent = sent_by(at);

    managers_release(s, from);
    expect_ignored(s, at, sent);
}

/* ---- late ---------------------------------------------------------------- */

static void req__after_the_requester_gave_up__rep_is_rejected(void **state)
{
    struct managers *s = *state;

    s->a.hold[URO_CM_REQ] = true;
    managers_ask(s);
    managers_settle(s);
    uro_conn_close(s->a.conn, s->now);
    s->a.conn = NULL;
    managers_settle(s); /* the REJ overtook the REQ */
    managers_expect_nothing(s, &s->b);
    managers_release(s, &s->a);
    accept_at(s);
    managers_expect(s, &s->b, URO_CONN_REJECTED, URO_CONN_REJ_BAD_ID);
}

static void req__after_its_connection_ended__is_rejected_as_stale(void **state)
{
    struct managers *s = *state;

    s->a.hold[URO_CM_REQ] = true;
    managers_ask(s);
    managers_pass_time(s, URO_MS(5121)); /* the retransmission is accepted */
    accept_at(s);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    managers_release(s, &s->a); /* the connection exists already: the message has no effect */
    managers_expect_nothing(s, &s->b);
    assert_int_equal(s->b.sent[URO_CM_REJ], 0);
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    managers_release(s, &s->a); /* in time-wait */
    assert_int_equal(s->b.last.kind, URO_CM_REJ);
    assert_int_equal(s->b.last.value[URO_CM_REASON], URO_CONN_REJ_STALE);
    managers_expect_nothing(s, &s->b);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    managers_expect_nothing(s, &s->a);
}

static void rep__duplicate__answered_as_the_first(void **state)
{
    struct managers *s = *state;

    s->b.hold[URO_CM_REP] = true;
    managers_ask(s);
    accept_at(s);
    managers_pass_time(s, s->now + URO_MS(4097));
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    release_ignored(s, &s->b, &s->b); /* the second RTU has no effect */
    assert_int_equal(s->a.sent[URO_CM_RTU], 2);
    managers_expect_nothing(s, &s->a);
}

static void rep__after_a_rej__rejected(void **state)
{
    struct managers *s = *state;

    s->b.hold[URO_CM_REP] = true;
    managers_ask(s);
    accept_at(s);
    managers_settle(s);
    uro_conn_close(s->a.conn, s->now);
    s->a.conn = NULL;
    managers_expect(s, &s->b, URO_CONN_REJECTED, URO_CONN_REJ_TIMEOUT);
    release_ignored(s, &s->b, &s->b);
    assert_int_equal(s->a.last.kind, URO_CM_REJ);
    assert_int_equal(s->a.last.value[URO_CM_REASON], URO_CONN_REJ_BAD_ID);
}

static void rtu__after_the_end__changes_nothing(void **state)
{
    struct managers *s = *state;

    s->a.hold[URO_CM_RTU] = true;
    managers_ask(s);
    accept_at(s);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    release_ignored(s, &s->a, &s->b);
    assert_int_equal(s->b.conn->state, URO_CONN_TIMEWAIT);
}

static void rtu__after_data_established_the_connection__changes_nothing(void **state)
{
    struct managers *s = *state;

    s->a.hold[URO_CM_RTU] = true;
    managers_ask(s);
    accept_at(s);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_settle(s);
    assert_int_equal(uro_conn_data_arrived(s->b.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    release_ignored(s, &s->a, &s->b);
    managers_pass_time(s, s->now + URO_MS(10000));
    assert_int_equal(s->b.sent[URO_CM_REP], 1); /* the REP is not sent again */
    assert_int_equal(s->b.conn->state, URO_CONN_ESTABLISHED);
}

static void mra__after_the_rep__changes_nothing(void **state)
{
    struct managers *s = *state;

    s->b.hold[URO_CM_MRA] = true;
    managers_ask(s);
    managers_settle(s);
    managers_pass_time(s, URO_MS(5121));
    accept_at(s);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    release_ignored(s, &s->b, &s->a);
    assert_int_equal(s->a.conn->state, URO_CONN_REP_RECEIVED);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
}

static void rej__after_the_end__changes_nothing(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    s->b.hold[URO_CM_REJ] = true;
    assert_int_equal(uro_conn_reject(s->b.conn, URO_CONN_REJ_CONSUMER, NULL, 0, s->now), 0);
    managers_settle(s);
    uro_conn_close(s->b.conn, s->now);
    managers_pass_time(s, URO_MS(5121)); /* the request is retransmitted, and rejected again */
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_reject(s->b.conn, URO_CONN_REJ_CONSUMER, NULL, 0, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_REJ_CONSUMER);
    release_ignored(s, &s->b, &s->a);
}

static void drep__after_the_last_retry__changes_nothing(void **state)
{
    struct managers *s = *state;

    managers_establish(s);
    s->b.hold[URO_CM_DREP] = true;
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    managers_pass_time(s, s->now + URO_MS(4097));
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    release_ignored(s, &s->b, &s->a); /* in time-wait */
    managers_pass_time(s, s->now + URO_MS(1000));
    managers_expect(s, &s->a, URO_CONN_TIMEWAIT_EXIT, 0);
    release_ignored(s, &s->b, &s->a); /* after time-wait */
}

static void sidr_rep__after_the_last_retry__changes_nothing(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param param = { .type = URO_QPT_UD, .qpn = 77 };

    managers_ask_service(s, MANAGERS_SERVICE);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    s->b.hold[URO_CM_SIDR_REP] = true;
    assert_int_equal(uro_conn_accept(s->b.conn, &param, s->now), 0);
    managers_settle(s);
    s->b.lose[URO_CM_SIDR_REP] = UINT32_MAX;
    s->a.lose[URO_CM_SIDR_REQ] = UINT32_MAX;
    managers_pass_time(s, URO_MS(66000));
    managers_expect(s, &s->a, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    uint64_t before = s->counters.value[URO_COUNT_CM_DROP_UNEXPECTED];
    managers_release(s, &s->b);
    managers_expect_nothing(s, &s->a);
    assert_int_equal(s->counters.value[URO_COUNT_CM_DROP_UNEXPECTED], before + 1);
}

/* ---- early --------------------------------------------------------------- */

/* A DREQ is dropped while the application has not fetched the response. The retransmission of the
 * DREQ takes effect. */
static void dreq__before_the_response_was_fetched__is_retransmitted(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    accept_at(s);
    managers_settle(s);
    assert_int_equal(uro_conn_disconnect(s->b.conn, s->now), 0);
    managers_settle(s);
    assert_int_equal(s->counters.value[URO_COUNT_CM_DROP_BUSY], 1);
    assert_true(uro_mark_hit("CM.BUSY"));
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    managers_expect_nothing(s, &s->a);
    managers_pass_time(s, s->now + URO_MS(4097));
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), -EINVAL);
}

/* A REJ is accepted while CONFIRMED waits. Each event has its own status. */
static void rej__before_confirmed_was_fetched__only_disconnected_has_the_reason(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    accept_at(s);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_settle(s);
    const struct uro_cm_msg rej = { .kind = URO_CM_REJ,
                                    .tid = s->a.last.tid,
                                    .value = { [URO_CM_LOCAL_ID] = s->a.conn->node.number,
                                               [URO_CM_REMOTE_ID] = s->b.conn->node.number,
                                               [URO_CM_REASON] = URO_CONN_REJ_CONSUMER } };
    managers_forge(s, &s->a, &rej);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, URO_CONN_REJ_CONSUMER);
    managers_expect_nothing(s, &s->b);
}

static void apr_and_lap__at_any_time__change_nothing(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg msg = { .kind = URO_CM_APR, .tid = 3 };

    managers_ask(s);
    accept_at(s);
    managers_settle(s);
    msg.value[URO_CM_LOCAL_ID] = s->a.conn->node.number;
    msg.value[URO_CM_REMOTE_ID] = s->b.conn->node.number;
    const uint32_t sent = sent_by(&s->b);
    managers_forge(s, &s->a, &msg);
    expect_ignored(s, &s->b, sent);
    msg.kind = URO_CM_LAP;
    for (unsigned i = 1; i <= 3; i++) { /* the reply may have been lost: each copy gets a reply */
        managers_forge(s, &s->a, &msg);
        assert_int_equal(s->b.sent[URO_CM_APR], i);
    }
    assert_int_equal(s->b.last.tid, 3);
    managers_expect_nothing(s, &s->b);
    assert_int_equal(s->b.conn->state, URO_CONN_REP_SENT);
}

/* An MRA takes effect even if a retransmission is already due, but not sent yet. */
static void mra__received_before_a_retransmission__delays_the_retransmission(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg mra = { .kind = URO_CM_MRA };
    const struct uro_cm_route route = { .local = s->a.address, .remote = s->b.address };
    struct uro_cm_out first;
    struct uro_conn *conns[2];
    uint8_t mad[URO_MAD_LEN];

    s->a.lose[URO_CM_REQ] = 2;
    for (unsigned i = 0; i < 2; i++) {
        managers_ask(s);
        conns[i] = s->a.conn;
    }
    managers_settle(s);
    s->now += URO_MS(5120);
    assert_true(uro_cm_output(s->a.cm, &first, s->now)); /* the first of two messages */
    mra.value[URO_CM_SERVICE_TIMEOUT] = 20;
    for (unsigned i = 0; i < 2; i++) {
        mra.value[URO_CM_REMOTE_ID] = conns[i]->node.number;
        uro_cm_encode(mad, &mra);
        uro_cm_receive(s->a.cm, &route, mad, s->now);
    }
    managers_settle(s);
    assert_int_equal(s->a.sent[URO_CM_REQ], 2);
    managers_pass_time(s,
                       s->now + URO_MS(4096 + 511)); /* the timeout includes the packet lifetime */
    assert_int_equal(s->a.sent[URO_CM_REQ], 2);
    managers_pass_time(s, s->now + URO_MS(2));
    assert_int_equal(s->a.sent[URO_CM_REQ], 4);
    uro_conn_close(conns[0], s->now);
}

/* ---- without end --------------------------------------------------------- */

/* Repeating the REQ without an RTU does not extend the timeout. */
static void req__repeated_for_ever__unreachable_in_time(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    managers_settle(s);
    const struct uro_cm_msg req = s->a.last;
    s->b.lose[URO_CM_REP] = UINT32_MAX;
    s->a.lose[URO_CM_REQ] = UINT32_MAX;
    accept_at(s);
    uro_time end = s->now + URO_MS(16 * 4096);
    while (s->now < end) {
        managers_pass_time(s, s->now + URO_MS(1000));
        if (s->now < end)
            managers_forge(s, &s->a, &req);
    }
    managers_expect(s, &s->b, URO_CONN_UNREACHABLE, -ETIMEDOUT);
}

/* A peer that always sends an MRA gets one extension for each retransmission. */
static void mra__repeated_for_ever__unreachable_in_time(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg mra = { .kind = URO_CM_MRA };

    s->a.lose[URO_CM_REQ] = UINT32_MAX;
    managers_ask(s);
    managers_settle(s);
    mra.value[URO_CM_REMOTE_ID] = s->a.conn->node.number;
    mra.value[URO_CM_SERVICE_TIMEOUT] = 31; /* the timeout is hours; uroce limits it to a minute */
    uro_time end = s->now + URO_MS(16 * (1000 + 65536 + 512));
    while (s->now < end) {
        managers_forge(s, &s->b, &mra);
        managers_pass_time(s, s->now + URO_MS(1000));
        if (s->now < URO_MS(15 * (65536 + 512)))
            managers_expect_nothing(s, &s->a);
    }
    managers_expect(s, &s->a, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    assert_int_equal(s->a.sent[URO_CM_REQ], 16);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, managers_open, managers_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(req__after_the_requester_gave_up__rep_is_rejected),
        TEST(req__after_its_connection_ended__is_rejected_as_stale),
        TEST(rep__duplicate__answered_as_the_first),
        TEST(rep__after_a_rej__rejected),
        TEST(rtu__after_the_end__changes_nothing),
        TEST(rtu__after_data_established_the_connection__changes_nothing),
        TEST(mra__after_the_rep__changes_nothing),
        TEST(rej__after_the_end__changes_nothing),
        TEST(drep__after_the_last_retry__changes_nothing),
        TEST(sidr_rep__after_the_last_retry__changes_nothing),
        TEST(dreq__before_the_response_was_fetched__is_retransmitted),
        TEST(rej__before_confirmed_was_fetched__only_disconnected_has_the_reason),
        TEST(apr_and_lap__at_any_time__change_nothing),
        TEST(mra__received_before_a_retransmission__delays_the_retransmission),
        TEST(req__repeated_for_ever__unreachable_in_time),
        TEST(mra__repeated_for_ever__unreachable_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
