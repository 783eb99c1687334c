/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_loss.c - tests CM messages that are lost, duplicated, or addressed to no connection. */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "managers.h"

/* ---- lost ---------------------------------------------------------------- */

static void req__lost__is_sent_again_after_the_timeout_of_the_req(void **state)
{
    struct managers *s = *state;

    s->a.lose[URO_CM_REQ] = 2;
    managers_ask(s);
    managers_expect_nothing(s, &s->b);
    managers_pass_time(s, URO_MS(5119)); /* 2 * 2^(17-8) + 2^(20-8) ms */
    assert_int_equal(s->a.sent[URO_CM_REQ], 1);
    managers_pass_time(s, URO_MS(5122));
    assert_int_equal(s->a.sent[URO_CM_REQ], 2);
    managers_pass_time(s, URO_MS(10245));
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &(struct uro_conn_param){ .qpn = 1 }, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_true(uro_mark_hit("CM.RETRY"));
}

static void rep__lost__is_sent_again(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = managers_param("");

    s->b.lose[URO_CM_REP] = 1;
    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect_nothing(s, &s->a);
    managers_pass_time(s, s->now + URO_MS(4097));
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(s->b.sent[URO_CM_REP], 2);
    /* a REP that arrives twice causes only one event */
    managers_pass_time(s, s->now + URO_MS(4097));
    managers_expect_nothing(s, &s->a);
    assert_true(uro_mark_hit("CM.REP.AGAIN"));
    assert_int_equal(s->a.sent[URO_CM_MRA], 1);
}

static void rtu__lost__next_rep_gets_another_rtu(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = managers_param("");

    s->a.lose[URO_CM_RTU] = 1;
    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect_nothing(s, &s->b);
    managers_pass_time(s, s->now + URO_MS(4097));
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    assert_int_equal(s->a.sent[URO_CM_RTU], 2);
    assert_true(uro_mark_hit("CM.RTU.AGAIN"));
}

static void rtu__lost__data_establishes_the_connection(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = managers_param("");

    s->a.lose[URO_CM_RTU] = 1;
    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_settle(s);
    assert_int_equal(uro_conn_data_arrived(s->b.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    assert_int_equal(uro_conn_data_arrived(s->b.conn, s->now), 0);
    managers_expect_nothing(s, &s->b);
    assert_true(uro_mark_hit("CM.HEARD"));
}

static void disconnect__dreq_and_drep_lost__both_are_sent_again(void **state)
{
    struct managers *s = *state;

    managers_establish(s);
    s->a.lose[URO_CM_DREQ] = 1;
    s->b.lose[URO_CM_DREP] = 1;
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_expect_nothing(s, &s->b);
    uro_time start = s->now;
    managers_pass_time(s, start + URO_MS(4097));
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    managers_expect_nothing(s, &s->a);
    managers_pass_time(s, start + URO_MS(8194));
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    assert_int_equal(s->a.sent[URO_CM_DREQ], 3);
    assert_int_equal(s->b.sent[URO_CM_DREP], 2);
}

static void drep__lost__repeated_dreq_gets_another_in_timewait(void **state)
{
    struct managers *s = *state;

    managers_establish(s);
    s->b.lose[URO_CM_DREP] = 1;
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    managers_forge(s, &s->a, &s->a.last); /* sends the same DREQ again at once */
    assert_int_equal(s->b.sent[URO_CM_DREP], 2);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    assert_true(uro_mark_hit("CM.DREQ.AGAIN"));
}

static void disconnect__by_both_sides__each_side_gets_one_event(void **state)
{
    struct managers *s = *state;

    managers_establish(s);
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    assert_int_equal(uro_conn_disconnect(s->b.conn, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    assert_true(uro_mark_hit("CM.DREQ.BOTH"));
    managers_pass_time(s, s->now + URO_MS(513));
    managers_expect(s, &s->a, URO_CONN_TIMEWAIT_EXIT, 0);
    managers_expect(s, &s->b, URO_CONN_TIMEWAIT_EXIT, 0);
    managers_expect_nothing(s, &s->a);
    managers_expect_nothing(s, &s->b);
}

static void req_and_rep__peer_died__retransmissions_end_in_time(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = managers_param("");

    s->b.lose[URO_CM_REP] = s->b.lose[URO_CM_REJ] = UINT32_MAX;
    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    s->a.lose[URO_CM_REQ] = s->a.lose[URO_CM_REJ] = UINT32_MAX;
    managers_pass_time(s, URO_MS(90000));
    managers_expect(s, &s->a, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    managers_expect(s, &s->b, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    assert_int_equal(s->a.sent[URO_CM_REQ], 16);
    assert_int_equal(s->b.sent[URO_CM_REP], 16);
    assert_true(uro_mark_hit("CM.TIMEOUT"));
}

static void dreq__peer_died__retransmissions_end(void **state)
{
    struct managers *s = *state;

    managers_establish(s);
    s->a.lose[URO_CM_DREQ] = UINT32_MAX;
    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_pass_time(s, s->now + URO_MS(70000));
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    assert_int_equal(s->a.sent[URO_CM_DREQ], 16);
}

/* ---- duplicates ---------------------------------------------------------- */

static void req__received_twice__mra_until_the_application_responds(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    managers_pass_time(s, URO_MS(5121));
    assert_int_equal(s->b.sent[URO_CM_MRA], 1);
    managers_expect_nothing(s, &s->b);
    /* the requester got the MRA, and does not retransmit for a minute */
    managers_pass_time(s, URO_MS(60000));
    assert_int_equal(s->a.sent[URO_CM_REQ], 2);
    assert_true(uro_mark_hit("CM.MRA"));
    assert_true(uro_mark_hit("CM.REQ.AGAIN"));
}

static void req__qpn_of_another_connection__is_rejected_as_stale(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg req;

    managers_ask(s);
    managers_settle(s);
    req = s->a.last;
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    const struct uro_conn_param answer = managers_param("");
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);

    req.value[URO_CM_LOCAL_ID] ^= 1;
    struct uro_gid real = s->a.address;
    s->a.address.octets[15] = 77; /* another host claims that the peer restarted */
    managers_forge(s, &s->a, &req);
    s->a.address = real;
    assert_int_equal(s->b.sent[URO_CM_REJ], 1);
    assert_int_equal(s->b.sent[URO_CM_DREQ], 0);
    managers_expect_nothing(s, &s->b);

    /* the peer itself restarted and lost its connections */
    managers_forge(s, &s->a, &req);
    assert_int_equal(s->b.sent[URO_CM_REJ], 2);
    assert_int_equal(s->b.sent[URO_CM_DREQ], 1);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    managers_expect(s, &s->a, URO_CONN_DISCONNECTED, 0);
    assert_true(uro_mark_hit("CM.STALE"));
}

/* ---- wrong --------------------------------------------------------------- */

static void req__wrong_field__is_rejected_with_the_reason(void **state)
{
    struct managers *s = *state;
    static const struct {
        enum uro_cm_field field;
        uint64_t value;
        unsigned reason;
    } cases[] = {
        { URO_CM_SERVICE_ID, 0x1069999, URO_CONN_REJ_BAD_SERVICE },
        { URO_CM_TRANSPORT, 2, URO_CONN_REJ_BAD_TRANSPORT },
        { URO_CM_PKEY, 0x8001, URO_CONN_REJ_BAD_GID },
        { URO_CM_PATH_MTU, 5, URO_CONN_REJ_BAD_MTU },
        { URO_CM_PATH_MTU, 0, URO_CONN_REJ_BAD_MTU },
        { URO_CM_PATH_MTU, 9, URO_CONN_REJ_BAD_MTU },
    };
    struct uro_cm_msg good;

    s->a.lose[URO_CM_REQ] = UINT32_MAX;
    managers_ask(s);
    managers_settle(s);
    good = s->a.last;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct uro_cm_msg bad = good;
        bad.value[cases[i].field] = cases[i].value;
        bad.value[URO_CM_LOCAL_ID] += 100 + i;
        managers_forge(s, &s->a, &bad);
        assert_int_equal(s->b.last.kind, URO_CM_REJ);
        assert_int_equal(s->b.last.value[URO_CM_REASON], cases[i].reason);
        assert_int_equal(s->b.last.value[URO_CM_LOCAL_ID], 0);
        managers_expect_nothing(s, &s->b);
    }
    good.remote_gid.octets[15] ^= 0x40;
    managers_forge(s, &s->a, &good);
    assert_int_equal(s->b.last.value[URO_CM_REASON], URO_CONN_REJ_BAD_GID);
    assert_memory_equal(s->b.last.info, &s->b.address, sizeof s->b.address);
    assert_int_equal(s->b.cm->by_id.count, 0);
    assert_int_equal(s->counters.value[URO_COUNT_CM_REFUSED], 7);
    assert_true(uro_mark_hit("CM.REQ.JUDGE"));
}

static void message__for_no_connection__gets_a_reply_or_is_dropped(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg msg = { .kind = URO_CM_DREQ, .tid = 5 };

    msg.value[URO_CM_LOCAL_ID] = 7;
    msg.value[URO_CM_REMOTE_ID] = 8;
    managers_forge(s, &s->a, &msg);
    assert_int_equal(s->b.last.kind, URO_CM_DREP);
    assert_int_equal(s->b.last.value[URO_CM_LOCAL_ID], 8);
    assert_int_equal(s->b.last.value[URO_CM_REMOTE_ID], 7);
    assert_int_equal(s->b.last.tid, 5);
    msg.kind = URO_CM_REP;
    managers_forge(s, &s->a, &msg);
    assert_int_equal(s->b.last.kind, URO_CM_REJ);
    assert_int_equal(s->b.last.value[URO_CM_REASON], URO_CONN_REJ_BAD_ID);
    uint32_t before = s->b.sent[URO_CM_REJ] + s->b.sent[URO_CM_DREP];
    msg.kind = URO_CM_RTU;
    managers_forge(s, &s->a, &msg);
    msg.kind = URO_CM_APR;
    managers_forge(s, &s->a, &msg);
    assert_int_equal(s->b.sent[URO_CM_REJ] + s->b.sent[URO_CM_DREP], before);
    assert_true(uro_mark_hit("CM.STRAY"));
}

/* Messages with the right communication IDs, but another address or QPN, change nothing. */
static void dreq__from_another_host_or_for_another_qpn__changes_nothing(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg msg = { .kind = URO_CM_DREQ };

    managers_establish(s);
    msg.value[URO_CM_LOCAL_ID] = s->a.conn->node.number;
    msg.value[URO_CM_REMOTE_ID] = s->b.conn->node.number;
    msg.value[URO_CM_REMOTE_QPN] = 0x456;
    struct uro_gid real = s->a.address;
    s->a.address.octets[15] = 77;
    managers_forge(s, &s->a, &msg);
    s->a.address = real;
    managers_expect_nothing(s, &s->b);
    msg.value[URO_CM_REMOTE_QPN] = 0x457; /* right address, wrong queue pair */
    managers_forge(s, &s->a, &msg);
    managers_expect_nothing(s, &s->b);
    assert_int_equal(s->b.conn->state, URO_CONN_ESTABLISHED);
    assert_true(uro_mark_hit("CM.UNEXPECTED"));
}

static void mad__not_a_cm_message__is_counted_as_malformed(void **state)
{
    struct managers *s = *state;
    const struct uro_cm_route route = { .local = s->b.address, .remote = s->a.address };
    uint8_t mad[URO_MAD_LEN] = { 1, 7, 2, 3 };

    for (unsigned i = 0; i < 256; i++) {
        mad[17] = (uint8_t)i;
        if (i < 0x10 || i > 0x1a)
            uro_cm_receive(s->b.cm, &route, mad, s->now);
    }
    assert_int_equal(s->counters.value[URO_COUNT_CM_DROP_MALFORMED], 256 - 11);
    assert_true(uro_mark_hit("CM.UNKNOWN"));
    mad[17] = 1;
    mad[3] = 1;
    uro_cm_receive(s->b.cm, &route, mad, s->now);
    struct uro_cm_out out;
    assert_true(uro_cm_output(s->b.cm, &out, s->now));
    assert_int_equal(out.mad[3], 0x81);
    assert_true(uro_mark_hit("CM.CLASS.INFO"));
}

static void replies__more_than_reply_slots__the_rest_is_dropped(void **state)
{
    struct managers *s = *state;
    const struct uro_cm_route route = { .local = s->b.address, .remote = s->a.address };
    struct uro_cm_msg msg = { .kind = URO_CM_DREQ };
    struct uro_cm_out out;
    uint8_t mad[URO_MAD_LEN];
    uint32_t answers = 0;

    for (uint32_t i = 1; i <= URO_CM_REPLIES + 5; i++) {
        msg.value[URO_CM_REMOTE_ID] = i;
        uro_cm_encode(mad, &msg);
        uro_cm_receive(s->b.cm, &route, mad, s->now);
    }
    while (uro_cm_output(s->b.cm, &out, s->now))
        answers++;
    assert_int_equal(answers, URO_CM_REPLIES);
    assert_int_equal(s->counters.value[URO_COUNT_CM_DROP_BUSY], 5);
    assert_true(uro_mark_hit("CM.REPLIES"));
}

/* ---- datagram services --------------------------------------------------- */

static void sidr_rep__lost__same_reply_is_sent_again(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = { .type = URO_QPT_UD, .qpn = 77, .qkey = 0x1234567 };

    s->b.lose[URO_CM_SIDR_REP] = 1;
    managers_ask_service(s, MANAGERS_SERVICE);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect_nothing(s, &s->a);
    managers_pass_time(s, s->now + URO_MS(4096));
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    managers_expect_nothing(s, &s->b);
    assert_int_equal(s->a.conn->peer.qpn, 77);
    assert_true(uro_mark_hit("CM.SIDR.AGAIN"));
}

static void sidr__application_rejects__client_gets_the_private_data(void **state)
{
    struct managers *s = *state;

    managers_ask_service(s, MANAGERS_SERVICE);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_reject(s->b.conn, 0, "no", 2, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_REJECTED, (int)URO_CONN_SIDR_REJECTED);
    assert_memory_equal(s->a.conn->peer.data, "no", 3);
}

/* A host that guesses the ID of a SIDR_REQ and replies to it gets no datagrams. */
static void sidr__rep_of_another_host__is_ignored(void **state)
{
    struct managers *s = *state;
    const struct uro_gid asked = s->b.address;
    const uint8_t other[4] = { 10, 0, 0, 3 };
    struct uro_cm_msg answer = { .kind = URO_CM_SIDR_REP };

    managers_ask_service(s, MANAGERS_SERVICE);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    answer.value[URO_CM_REQUEST_ID] = s->a.last.value[URO_CM_REQUEST_ID];
    answer.value[URO_CM_LOCAL_QPN] = 99;
    s->b.address = uro_gid_from_ipv4(other);
    managers_forge(s, &s->b, &answer);
    managers_expect_nothing(s, &s->a);
    s->b.address = asked;
    managers_forge(s, &s->b, &answer);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
}

static void sidr__never_answered__unreachable(void **state)
{
    struct managers *s = *state;

    s->a.lose[URO_CM_SIDR_REQ] = UINT32_MAX;
    managers_ask_service(s, MANAGERS_SERVICE);
    managers_pass_time(s, URO_MS(66000));
    managers_expect(s, &s->a, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    assert_int_equal(s->a.sent[URO_CM_SIDR_REQ], 16);
    assert_int_equal(s->a.sent[URO_CM_REJ], 0); /* a SIDR_REQ makes no connection, so no REJ is
                                                   sent */
    assert_true(uro_mark_hit("CM.SIDR.RETRY"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, managers_open, managers_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(req__lost__is_sent_again_after_the_timeout_of_the_req),
        TEST(rep__lost__is_sent_again),
        TEST(rtu__lost__next_rep_gets_another_rtu),
        TEST(rtu__lost__data_establishes_the_connection),
        TEST(disconnect__dreq_and_drep_lost__both_are_sent_again),
        TEST(drep__lost__repeated_dreq_gets_another_in_timewait),
        TEST(disconnect__by_both_sides__each_side_gets_one_event),
        TEST(req_and_rep__peer_died__retransmissions_end_in_time),
        TEST(dreq__peer_died__retransmissions_end),
        TEST(req__received_twice__mra_until_the_application_responds),
        TEST(req__qpn_of_another_connection__is_rejected_as_stale),
        TEST(req__wrong_field__is_rejected_with_the_reason),
        TEST(message__for_no_connection__gets_a_reply_or_is_dropped),
        TEST(dreq__from_another_host_or_for_another_qpn__changes_nothing),
        TEST(mad__not_a_cm_message__is_counted_as_malformed),
        TEST(sidr_rep__lost__same_reply_is_sent_again),
        TEST(sidr__application_rejects__client_gets_the_private_data),
        TEST(sidr__rep_of_another_host__is_ignored),
        TEST(sidr__never_answered__unreachable),
        TEST(replies__more_than_reply_slots__the_rest_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
