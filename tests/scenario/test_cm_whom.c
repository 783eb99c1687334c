/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_whom.c - tests which connection or listener gets a message, and which calls of an
 * application fail. */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "managers.h"

#define QPN_B 0x456u
#define NODES 20000u

static struct uro_cm_msg message(const struct managers *s, enum uro_cm_kind kind)
{
    struct uro_cm_msg msg = { .kind = kind };

    msg.value[URO_CM_LOCAL_ID] = s->a.conn->node.number;
    msg.value[URO_CM_REMOTE_ID] = s->b.conn->node.number;
    msg.value[URO_CM_REMOTE_QPN] = QPN_B;
    return msg;
}

/* Returns a REQ that a sent and the network lost. */
static struct uro_cm_msg caught_request(struct managers *s)
{
    s->a.lose[URO_CM_REQ] = UINT32_MAX;
    managers_ask(s);
    managers_settle(s);
    return s->a.last;
}

static struct uro_conn *expect_request(struct managers *s)
{
    return managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
}

static void accept_b(struct managers *s)
{
    const struct uro_conn_param answer = { .type = URO_QPT_RC, .qpn = QPN_B };

    s->b.conn = expect_request(s);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
}

/* ---- which connection ---------------------------------------------------- */

/* The message has the right remote ID and the right addresses, but the local ID of another
 * connection of the sender. */
static void message__with_another_local_id__matches_no_connection(void **state)
{
    static const enum uro_cm_kind kinds[] = { URO_CM_DREQ, URO_CM_REJ, URO_CM_RTU, URO_CM_LAP };
    struct managers *s = *state;

    managers_establish(s);
    for (size_t i = 0; i < URO_ARRAY_LEN(kinds); i++) {
        struct uro_cm_msg msg = message(s, kinds[i]);
        msg.value[URO_CM_LOCAL_ID]++;
        uro_mark_clear();
        managers_forge(s, &s->a, &msg);
        assert_true(uro_mark_hit("CM.STRAY"));
        assert_true(uro_mark_hit("CM.FROM"));
        managers_expect_nothing(s, &s->b);
    }
    assert_int_equal(s->b.conn->state, URO_CONN_ESTABLISHED);
}

static void message__to_another_local_address__matches_no_connection(void **state)
{
    struct managers *s = *state;

    managers_establish(s);
    const struct uro_cm_msg dreq = message(s, URO_CM_DREQ);
    const struct uro_gid real = s->b.address;
    s->b.address.octets[15] = 99;
    managers_forge(s, &s->a, &dreq);
    s->b.address = real;
    managers_expect_nothing(s, &s->b);
    assert_int_equal(s->b.conn->state, URO_CONN_ESTABLISHED);
}

/* A REQ is identified by CA GUID and communication ID, and by CA GUID and QPN. */
static void req__same_id_and_qpn_of_another_node__is_a_new_request(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg req = caught_request(s);
    const uint64_t own = req.value[URO_CM_CA_GUID];

    managers_forge(s, &s->a, &req);
    s->b.conn = expect_request(s);
    for (uint64_t guid = 2; guid < NODES; guid++) { /* some REQs share a bucket */
        req.value[URO_CM_CA_GUID] = guid;
        managers_forge(s, &s->a, &req);
        struct uro_conn *other = expect_request(s);
        assert_ptr_not_equal(other, s->b.conn);
        uro_conn_close(other, s->now);
    }
    assert_int_equal(s->b.sent[URO_CM_MRA], 0);
    assert_false(uro_mark_hit("CM.PEER"));
    req.value[URO_CM_CA_GUID] = own;
    managers_forge(s, &s->a, &req);
    assert_int_equal(s->b.sent[URO_CM_MRA], 1);
    assert_true(uro_mark_hit("CM.PEER"));
}

static void req__from_a_queue_pair_whose_connection_has_ended__is_new(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg req;

    managers_ask(s);
    managers_settle(s);
    req = s->a.last;
    accept_b(s);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    assert_int_equal(s->b.conn->state, URO_CONN_TIMEWAIT);
    req.value[URO_CM_LOCAL_ID]++;
    managers_forge(s, &s->a, &req);
    uro_conn_close(expect_request(s), s->now);
}

/* A second REQ from the same queue pair does not end a connection that is still being set up. */
static void req__second_from_a_qp_with_a_pending_request__is_rejected_as_stale(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = { .type = URO_QPT_RC, .qpn = QPN_B };

    managers_ask(s);
    managers_settle(s);
    struct uro_cm_msg req = s->a.last;
    req.value[URO_CM_LOCAL_ID]++;
    s->b.conn = expect_request(s);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_settle(s);
    managers_forge(s, &s->a, &req);
    assert_int_equal(s->b.last.value[URO_CM_REASON], URO_CONN_REJ_STALE);
    assert_int_equal(s->b.sent[URO_CM_DREQ], 0);
    assert_int_equal(s->b.conn->state, URO_CONN_REP_SENT);
}

/* The active side detects a REQ from its peer's queue pair, too. */
static void req__from_the_qp_of_the_passive_side__is_rejected_as_stale(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    managers_settle(s);
    struct uro_cm_msg req = s->a.last;
    accept_b(s);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    req.value[URO_CM_LOCAL_ID] =
        s->a.conn->peer_id; /* this ID does not make the REQ a duplicate, because a is the active
                               side */
    req.value[URO_CM_CA_GUID] = 2;
    req.value[URO_CM_LOCAL_QPN] = QPN_B;
    req.remote_gid = s->a.address;
    managers_forge(s, &s->b, &req);
    assert_int_equal(s->a.sent[URO_CM_REJ], 1);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
}

static void req__received_again_after_accept__same_rep_is_sent_at_once(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = { .type = URO_QPT_RC, .qpn = QPN_B };

    managers_ask(s);
    managers_settle(s);
    const struct uro_cm_msg req = s->a.last;
    s->b.conn = expect_request(s);
    s->b.lose[URO_CM_REP] = 1;
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_settle(s);
    const uint64_t psn = s->b.last.value[URO_CM_STARTING_PSN];
    managers_forge(s, &s->a, &req);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(s->b.sent[URO_CM_REP], 2);
    assert_int_equal(s->b.last.value[URO_CM_STARTING_PSN], psn);
}

/* Two hosts chose the same request ID. */
static void sidr__same_id_from_another_address__is_a_new_request(void **state)
{
    struct managers *s = *state;

    managers_ask_service(s, MANAGERS_SERVICE);
    s->b.conn = expect_request(s);
    const struct uro_cm_msg req = s->a.last;
    struct uro_gid real = s->a.address;
    s->a.address.octets[15] = 77;
    managers_forge(s, &s->a, &req);
    s->a.address = real;
    uro_conn_close(expect_request(s), s->now);
}

/* A connection without a queue pair has no QPN to compare with the QPN in the DREQ. */
static void dreq__to_a_connection_without_queue_pair__is_accepted(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param none = { .type = URO_QPT_RC };

    managers_ask(s);
    s->b.conn = expect_request(s);
    assert_int_equal(uro_conn_accept(s->b.conn, &none, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    const struct uro_cm_msg dreq = message(s, URO_CM_DREQ);
    managers_forge(s, &s->a, &dreq);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
}

/* ---- which listener ------------------------------------------------------ */

static void listeners__at_one_address_and_at_any__exact_address_first(void **state)
{
    struct managers *s = *state;
    struct uro_listener other = s->b.listener, own = s->b.listener, again;
    struct uro_cm_msg req = caught_request(s);
    struct uro_conn_event event;

    other.link = own.link = (struct uro_link){ NULL, NULL };
    other.any_address = own.any_address = false;
    other.address = s->a.address;
    own.address = s->b.address;
    other.user = &other;
    own.user = &own;
    again = own;
    assert_int_equal(uro_conn_listen(s->b.cm, &other), 0);
    managers_forge(s, &s->a, &req);
    assert_true(uro_conn_event(s->b.cm, &event));
    assert_null(event.user); /* any address */
    uro_conn_close(event.conn, s->now);

    assert_int_equal(uro_conn_listen(s->b.cm, &own), 0);
    assert_int_equal(uro_conn_listen(s->b.cm, &again), -EADDRINUSE);
    uro_conn_unlisten(s->b.cm, &s->b.listener);
    assert_int_equal(uro_conn_listen(s->b.cm, &s->b.listener),
                     0); /* the listener at any address is the newest now */
    managers_forge(s, &s->a, &req);
    assert_true(uro_conn_event(s->b.cm, &event));
    assert_ptr_equal(event.user, &own);
    uro_conn_close(event.conn, s->now);
    managers_settle(s);
    uro_conn_unlisten(s->b.cm, &own);
    uro_conn_unlisten(s->b.cm, &other);
}

static void unlisten__pending_requests__are_rejected(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    managers_settle(s);
    uro_conn_unlisten(s->b.cm, &s->b.listener);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_REJ_CONSUMER);
    managers_expect_nothing(s, &s->b);
    assert_int_equal(s->b.cm->by_id.count, 0);
}

/* An application keeps a request that it fetched, even after the listener's memory is freed. */
static void unlisten__fetched_requests__can_be_accepted(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = managers_param("");

    managers_ask(s);
    s->b.conn = expect_request(s);
    uro_conn_unlisten(s->b.cm, &s->b.listener);
    assert_int_equal(s->b.listener.waiting, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    assert_int_equal(s->b.listener.waiting, 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
}

static void listen__again_after_unlisten__backlog_is_empty(void **state)
{
    struct managers *s = *state;

    uro_conn_unlisten(s->b.cm, &s->b.listener);
    s->b.listener.waiting = s->b.listener.backlog;
    assert_int_equal(uro_conn_listen(s->b.cm, &s->b.listener), 0);
    managers_ask(s);
    s->b.conn = expect_request(s);
}

/* Sends a request and withdraws it. The application of b takes both events, but has not called
 * uro_conn_noticed(). */
static void ask_and_take_back(struct managers *s)
{
    managers_ask(s);
    s->b.conn = expect_request(s);
    uro_conn_close(s->a.conn, s->now);
    s->a.conn = NULL;
    managers_expect(s, &s->b, URO_CONN_REJECTED, URO_CONN_REJ_TIMEOUT);
}

static void backlog__request_withdrawn_and_closed__frees_its_slot(void **state)
{
    struct managers *s = *state;

    s->b.listener.backlog = 1;
    ask_and_take_back(s);
    uro_conn_close(s->b.conn, s->now);
    s->b.conn = NULL;
    managers_ask(s);
    uro_conn_close(expect_request(s), s->now);
}

/* A client that repeatedly sends and withdraws requests must not get another slot of the backlog
 * each time. So a withdrawn request keeps its slot until the application has fetched the event. */
static void backlog__request_withdrawn_and_not_fetched__keeps_its_slot(void **state)
{
    struct managers *s = *state;

    s->b.listener.backlog = 1;
    ask_and_take_back(s);
    managers_ask(s);
    managers_settle(s);
    managers_expect_nothing(s, &s->b);
    assert_true(uro_mark_hit("CM.BACKLOG"));
    uro_conn_noticed(s->b.conn);
    uro_conn_close(s->a.conn, s->now);
    managers_ask(s);
    uro_conn_close(expect_request(s), s->now);
}

static void backlog__of_a_datagram_service__requests_are_rejected(void **state)
{
    struct managers *s = *state;

    s->b.listener.backlog = 1;
    managers_ask_service(s, MANAGERS_SERVICE);
    s->b.conn = expect_request(s);
    struct uro_conn *first = s->a.conn;
    managers_ask_service(s, MANAGERS_SERVICE);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_SIDR_REJECTED);
    assert_int_equal(s->b.cm->by_id.count, 1);
    assert_true(uro_mark_hit("CM.SIDR.BACKLOG"));
    uro_conn_close(first, s->now);
}

/* ---- refused calls ------------------------------------------------------- */

static void private_data__longer_than_the_field__einval(void **state)
{
    struct managers *s = *state;
    struct uro_conn_target target = managers_target(s);
    struct uro_conn_param param = managers_param("");
    struct uro_conn *conn;
    const uint8_t data[149] = { 0 };

    param.data_length = 93;
    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &conn), -EINVAL);
    assert_int_equal(s->a.cm->by_id.count, 0);
    param.data_length = 92;
    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), 0);
    s->b.conn = expect_request(s);
    param.data_length = 197;
    assert_int_equal(uro_conn_accept(s->b.conn, &param, s->now), -EINVAL);
    assert_int_equal(uro_conn_reject(s->b.conn, 28, data, 149, s->now), -EINVAL);
    param.data_length = 196;
    assert_int_equal(uro_conn_accept(s->b.conn, &param, s->now), 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &param, s->now),
                     -EINVAL); /* a second accept fails */
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_reject(s->a.conn, 28, data, 149, s->now), -EINVAL);
    assert_int_equal(uro_conn_reject(s->a.conn, 28, data, 148, s->now), 0);
    assert_true(uro_mark_hit("CM.DATA"));
}

static void private_data_of_a_service__longer_than_the_field__einval(void **state)
{
    struct managers *s = *state;
    struct uro_conn_target target = managers_target(s);
    struct uro_conn_param param = { .type = URO_QPT_UD, .data_length = 217 };
    const uint8_t data[137] = { 0 };
    struct uro_conn *conn;

    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &conn), -EINVAL);
    param.data_length = 216;
    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), 0);
    s->b.conn = expect_request(s);
    param.data_length = 137;
    assert_int_equal(uro_conn_accept(s->b.conn, &param, s->now), -EINVAL);
    assert_int_equal(uro_conn_reject(s->b.conn, 0, data, 137, s->now), -EINVAL);
    assert_int_equal(uro_conn_reject(s->b.conn, 0, data, 136, s->now), 0);
}

static void calls__out_of_order__einval(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param param = managers_param("");

    managers_ask(s);
    assert_int_equal(uro_conn_accept(s->a.conn, &param, s->now), -EINVAL);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), -EINVAL);
    assert_int_equal(uro_conn_reject(s->a.conn, 28, NULL, 0, s->now), -EINVAL);
    assert_int_equal(uro_conn_data_arrived(s->a.conn, s->now), -EINVAL);
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), -EINVAL);
    accept_b(s);
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), -EINVAL);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), -EINVAL);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    assert_int_equal(uro_conn_reject(s->b.conn, 28, NULL, 0, s->now), -EINVAL);
}

/* The connection is closed before the engine has sent the REQ. Only the REJ that withdraws the
 * request is sent. */
static void close__before_the_req_was_sent__only_the_rej_is_sent(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    uro_conn_close(s->a.conn, s->now);
    s->a.conn = NULL;
    managers_settle(s);
    assert_int_equal(s->a.sent[URO_CM_REQ], 0);
    assert_int_equal(s->a.sent[URO_CM_REJ], 1);
    assert_int_equal(s->a.cm->by_id.count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, managers_open, managers_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(message__with_another_local_id__matches_no_connection),
        TEST(message__to_another_local_address__matches_no_connection),
        TEST(req__same_id_and_qpn_of_another_node__is_a_new_request),
        TEST(req__from_a_queue_pair_whose_connection_has_ended__is_new),
        TEST(req__second_from_a_qp_with_a_pending_request__is_rejected_as_stale),
        TEST(req__from_the_qp_of_the_passive_side__is_rejected_as_stale),
        TEST(req__received_again_after_accept__same_rep_is_sent_at_once),
        TEST(sidr__same_id_from_another_address__is_a_new_request),
        TEST(dreq__to_a_connection_without_queue_pair__is_accepted),
        TEST(listeners__at_one_address_and_at_any__exact_address_first),
        TEST(unlisten__pending_requests__are_rejected),
        TEST(unlisten__fetched_requests__can_be_accepted),
        TEST(listen__again_after_unlisten__backlog_is_empty),
        TEST(backlog__request_withdrawn_and_closed__frees_its_slot),
        TEST(backlog__request_withdrawn_and_not_fetched__keeps_its_slot),
        TEST(backlog__of_a_datagram_service__requests_are_rejected),
        TEST(private_data__longer_than_the_field__einval),
        TEST(private_data_of_a_service__longer_than_the_field__einval),
        TEST(calls__out_of_order__einval),
        TEST(close__before_the_req_was_sent__only_the_rej_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
