/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_end.c - tests how long connections remain after their owners have closed them, and which
 * messages the peers get when a process ends.
 */
#include <errno.h>

#include "base/mark.h"
#include "managers.h"

/* ---- time-wait ----------------------------------------------------------- */

/* Opens and closes a connection: both owners have freed it, and both sides are in TIMEWAIT. Returns
 * its communication ID at a. */
static uint32_t come_and_go(struct managers *s)
{
    managers_establish(s);
    uint32_t number = s->a.conn->node.number;
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    managers_close_both(s);
    return number;
}

static bool known(const struct manager *m, uint32_t number)
{
    return uro_hash_find(&m->cm->by_id, number) != NULL;
}

static void timewait__all_connections__oldest_is_reused(void **state)
{
    struct managers *s = *state;
    uint32_t numbers[MANAGERS_CONNECTIONS];

    for (unsigned i = 0; i < MANAGERS_CONNECTIONS; i++)
        numbers[i] = come_and_go(s);
    assert_false(uro_mark_hit("CM.REUSE"));
    for (unsigned i = 0; i < MANAGERS_CONNECTIONS; i++)
        assert_true(known(&s->a, numbers[i]));
    (void)come_and_go(s);
    assert_true(uro_mark_hit("CM.REUSE"));
    assert_false(known(&s->a, numbers[0]));
    for (unsigned i = 1; i < MANAGERS_CONNECTIONS; i++)
        assert_true(known(&s->a, numbers[i]));
    assert_int_equal(s->counters.value[URO_COUNT_CM_REUSED], 2); /* one on each side */
}

static void connections__faster_than_timewait_ends__are_reused(void **state)
{
    struct managers *s = *state;

    for (unsigned i = 0; i < 100 * MANAGERS_CONNECTIONS; i++)
        (void)come_and_go(s);
    assert_int_equal(s->a.cm->by_id.count, MANAGERS_CONNECTIONS);
    assert_int_equal(s->b.cm->by_id.count, MANAGERS_CONNECTIONS);
}

/* The application may still query the connection, or wait for TIMEWAIT_EXIT. */
static void timewait__not_closed_by_the_application__is_not_reused(void **state)
{
    struct managers *s = *state;
    struct uro_conn *mine[MANAGERS_CONNECTIONS];
    const struct uro_conn_target target = { .service_id = MANAGERS_SERVICE, .path_mtu = 3 };
    const struct uro_conn_param param = managers_param("");

    for (unsigned i = 0; i < MANAGERS_CONNECTIONS; i++) {
        managers_establish(s);
        mine[i] = s->a.conn;
        s->a.conn = NULL;
        assert_int_equal(uro_conn_disconnect(mine[i], s->now), 0);
        managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
        managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
        managers_close_both(s);
    }
    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), -ENOMEM);
    s->a.conn = NULL;
    uro_conn_close(mine[3], s->now);
    (void)come_and_go(s);
    for (unsigned i = 0; i < MANAGERS_CONNECTIONS; i++)
        if (i != 3)
            uro_conn_close(mine[i], s->now);
}

/* Closes both sides at once and loses their messages. Returns the communication ID at a. */
static uint32_t vanish(struct managers *s)
{
    managers_establish(s);
    uint32_t number = s->a.conn->node.number;
    s->a.lose[URO_CM_DREQ] = s->b.lose[URO_CM_DREQ] = 1;
    managers_close_both(s);
    managers_settle(s);
    return number;
}

/* If no connection is in TIMEWAIT, a new connection reuses a connection whose owner has closed it
 * and whose DREQ got no reply. */
static void closed_connection__no_connection_in_timewait__is_reused(void **state)
{
    struct managers *s = *state;
    uint32_t first = vanish(s), second = vanish(s), over = come_and_go(s);

    for (unsigned i = 3; i < MANAGERS_CONNECTIONS; i++)
        (void)vanish(s);
    managers_establish(s);
    assert_false(known(&s->a, over));
    assert_true(known(&s->a, first));
    struct uro_conn *mine = s->a.conn, *theirs = s->b.conn;
    managers_establish(s);
    assert_false(known(&s->a, first));
    assert_true(known(&s->a, second));
    uro_conn_close(mine, s->now);
    uro_conn_close(theirs, s->now);
}

static void pool__all_used_by_the_application__requests_are_refused(void **state)
{
    struct managers *s = *state;
    struct uro_conn *theirs[MANAGERS_CONNECTIONS];

    for (unsigned i = 0; i < MANAGERS_CONNECTIONS; i++) {
        managers_establish(s);
        theirs[i] = s->b.conn;
        uro_conn_close(s->a.conn, s->now);
        managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    }
    managers_ask(s);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_REJ_NO_RESOURCES);
    s->b.conn = NULL;
    for (unsigned i = 0; i < MANAGERS_CONNECTIONS; i++)
        uro_conn_close(theirs[i], s->now);
}

static void sidr_rep__application_closed__repeated_sidr_req_gets_another_sidr_rep(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = { .type = URO_QPT_UD, .qpn = 77, .qkey = 5 };

    s->b.lose[URO_CM_SIDR_REP] = 1;
    managers_ask_service(s, MANAGERS_SERVICE);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    uro_conn_close(s->b.conn, s->now);
    s->b.conn = NULL;
    managers_pass_time(s, s->now + URO_MS(4096));
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(s->a.conn->peer.qpn, 77);
    managers_expect_nothing(s, &s->b);
}

/* ---- the process ends ---------------------------------------------------- */

/* Ends the process of one side. */
static void end(struct managers *s, struct manager *m)
{
    assert_false(uro_cm_end_all(m->cm, s->now));
    managers_settle(s);
    assert_true(uro_cm_end_all(m->cm, s->now));
}

static void process_ends__connected__sends_dreq(void **state)
{
    struct managers *s = *state;

    managers_establish(s);
    end(s, &s->a);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    assert_int_equal(s->a.sent[URO_CM_DREQ], 1);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0); /* the owner still gets the event */
    assert_true(uro_mark_hit("CM.END.ALL"));
}

static void process_ends__drep_lost__not_done_until_the_dreq_is_repeated(void **state)
{
    struct managers *s = *state;

    managers_establish(s);
    s->b.lose[URO_CM_DREP] = 1;
    assert_false(uro_cm_end_all(s->a.cm, s->now));
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    assert_false(uro_cm_end_all(s->a.cm, s->now));
    managers_pass_time(s, s->now + URO_MS(20000));
    assert_int_equal(s->a.sent[URO_CM_DREQ], 2);
    assert_true(uro_cm_end_all(s->a.cm, s->now));
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
}

static void process_ends__accepted__sends_dreq(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = managers_param("");

    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    end(s, &s->b);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
}

static void process_ends__req_sent__sends_rej(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    end(s, &s->a);
    managers_expect(s, &s->b, URO_CONN_REJECTED, URO_CONN_REJ_TIMEOUT);
    assert_true(uro_mark_hit("CM.REJ.TIMEOUT"));
    assert_true(uro_mark_hit("CM.PART"));
}

static void process_ends__rep_received__sends_rej(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = managers_param("");

    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    end(s, &s->a);
    managers_expect(s, &s->b, URO_CONN_REJECTED, URO_CONN_REJ_CONSUMER);
}

static void process_ends__requests_wait__refused(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    managers_settle(s);
    end(s, &s->b); /* the application has not fetched the event */
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_REJ_CONSUMER);
    managers_expect_nothing(s, &s->b);
}

static void process_ends__sidr_req_received__rejected(void **state)
{
    struct managers *s = *state;

    managers_ask_service(s, MANAGERS_SERVICE);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    end(s, &s->b);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_SIDR_REJECTED);
}

static void process_ends__no_connections__done_at_once(void **state)
{
    struct managers *s = *state;

    (void)come_and_go(s);
    assert_true(uro_cm_end_all(s->a.cm, s->now));
}

/* Replies to DREQs use all reply slots. The REJ is sent after these replies. */
static void process_ends__reply_slots_full__rej_is_sent_after_the_replies(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg dreq = { .kind = URO_CM_DREQ };
    const struct uro_cm_route route = { .local = s->b.address, .remote = s->a.address };
    uint8_t mad[URO_MAD_LEN];

    managers_ask(s);
    managers_settle(s);
    for (uint32_t i = 1; i < URO_CM_REPLIES; i++) {
        dreq.value[URO_CM_REMOTE_ID] = i;
        uro_cm_encode(mad, &dreq);
        uro_cm_receive(s->b.cm, &route, mad, s->now);
    }
    uro_cm_receive(s->b.cm, &route, mad, s->now);
    assert_false(uro_cm_end_all(s->b.cm, s->now));
    managers_settle(s);
    assert_int_equal(s->b.sent[URO_CM_REJ], 0);
    end(s, &s->b);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_REJ_CONSUMER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, managers_open, managers_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(timewait__all_connections__oldest_is_reused),
        TEST(connections__faster_than_timewait_ends__are_reused),
        TEST(timewait__not_closed_by_the_application__is_not_reused),
        TEST(closed_connection__no_connection_in_timewait__is_reused),
        TEST(pool__all_used_by_the_application__requests_are_refused),
        TEST(sidr_rep__application_closed__repeated_sidr_req_gets_another_sidr_rep),
        TEST(process_ends__connected__sends_dreq),
        TEST(process_ends__drep_lost__not_done_until_the_dreq_is_repeated),
        TEST(process_ends__accepted__sends_dreq),
        TEST(process_ends__req_sent__sends_rej),
        TEST(process_ends__rep_received__sends_rej),
        TEST(process_ends__requests_wait__refused),
        TEST(process_ends__sidr_req_received__rejected),
        TEST(process_ends__no_connections__done_at_once),
        TEST(process_ends__reply_slots_full__rej_is_sent_after_the_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
