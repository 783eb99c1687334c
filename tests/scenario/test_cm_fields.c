/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_fields.c - tests the fields of each message, and how the receiver uses them. */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "managers.h"

struct field {
    enum uro_cm_field field;
    uint64_t value;
};

/* Checks that @msg has exactly these fields. */
static void expect_fields(const struct uro_cm_msg *msg, enum uro_cm_kind kind,
                          const struct field *fields, size_t count)
{
    struct uro_cm_msg want = { .kind = kind };

    assert_int_equal(msg->kind, kind);
    for (size_t i = 0; i < count; i++)
        want.value[fields[i].field] = fields[i].value;
    for (unsigned i = 0; i < URO_CM_FIELD_COUNT; i++)
        if (msg->value[i] != want.value[i])
            fail_msg("field %u is %llx, not %llx", i, (unsigned long long)msg->value[i],
                     (unsigned long long)want.value[i]);
}
#define EXPECT(msg, kind, fields) expect_fields(msg, kind, fields, URO_ARRAY_LEN(fields))

/* Returns parameters, all of which are set. */
static struct uro_conn_param full(enum uro_qp_type type)
{
    return (struct uro_conn_param){ .type = type,
                                    .qpn = 0x111,
                                    .responder_resources = 4,
                                    .initiator_depth = 3,
                                    .flow_control = 1,
                                    .retry_count = 5,
                                    .rnr_retry_count = 6,
                                    .srq = true,
                                    .data_length = 5,
                                    .data = "hello" };
}

static const struct uro_cm_msg *ask(struct managers *s, enum uro_qp_type type, uint8_t hop_limit)
{
    struct uro_conn_target target = managers_target(s);
    const struct uro_conn_param param = full(type);

    target.route.hop_limit = hop_limit;
    target.route.flow_label = 0x12345;
    target.route.traffic_class = 0x68;
    target.response_timeout = 19;
    target.retries = 14;
    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), 0);
    managers_settle(s);
    return &s->a.last;
}

/* ---- sent messages ------------------------------------------------------- */

static void req__all_fields__are_sent(void **state)
{
    struct managers *s = *state;
    const struct uro_cm_msg *req = ask(s, URO_QPT_RC, 64);
    const struct field fields[] = {
        { URO_CM_LOCAL_ID, s->a.conn->node.number },
        { URO_CM_SERVICE_ID, MANAGERS_SERVICE },
        { URO_CM_CA_GUID, 1 },
        { URO_CM_LOCAL_QPN, 0x111 },
        { URO_CM_RESPONDER_RESOURCES, 4 },
        { URO_CM_INITIATOR_DEPTH, 3 },
        { URO_CM_REMOTE_RESPONSE_TIMEOUT, 19 },
        { URO_CM_LOCAL_RESPONSE_TIMEOUT, 19 },
        { URO_CM_FLOW_CONTROL, 1 },
        { URO_CM_STARTING_PSN, s->a.conn->local_psn },
        { URO_CM_RETRY_COUNT, 5 },
        { URO_CM_RNR_RETRY_COUNT, 6 },
        { URO_CM_PKEY, 0xffff },
        { URO_CM_PATH_MTU, 3 },
        { URO_CM_MAX_RETRIES, 14 },
        { URO_CM_SRQ, 1 },
        { URO_CM_LOCAL_LID, 0xffff },
        { URO_CM_REMOTE_LID, 0xffff },
        { URO_CM_FLOW_LABEL, 0x12345 },
        { URO_CM_TRAFFIC_CLASS, 0x68 },
        { URO_CM_HOP_LIMIT, 64 },
        { URO_CM_LOCAL_ACK_TIMEOUT, 17 },
    };

    EXPECT(req, URO_CM_REQ, fields);
    assert_true(s->a.conn->local_psn <= 0xffffff);
    assert_true(uro_gid_equal(&req->local_gid, &s->a.address));
    assert_true(uro_gid_equal(&req->remote_gid, &s->b.address));
    assert_memory_equal(req->data, "hello\0\0", 7);
}

static void req__to_the_same_subnet__lids_are_zero(void **state)
{
    struct managers *s = *state;
    const struct uro_cm_msg *req = ask(s, URO_QPT_RC, 1);

    assert_int_equal(req->value[URO_CM_LOCAL_LID], 0);
    assert_int_equal(req->value[URO_CM_REMOTE_LID], 0);
    assert_int_equal(req->value[URO_CM_SUBNET_LOCAL], 1);
    assert_int_equal(req->value[URO_CM_HOP_LIMIT], 1);
}

/* Checks the type on the wire and on the passive side. */
static void req__each_qp_type__has_the_transport_of_the_type(void **state)
{
    static const struct {
        enum uro_qp_type type, seen;
        unsigned transport, extended;
    } cases[] = {
        { URO_QPT_RC, URO_QPT_RC, 0, 0 },
        { URO_QPT_UC, URO_QPT_UC, 1, 0 },
        { URO_QPT_XRC_INI, URO_QPT_XRC_TGT, 3, 1 },
    };

    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct managers *s = *state;
        const struct uro_cm_msg *req = ask(s, cases[i].type, 64);
        assert_int_equal(req->value[URO_CM_TRANSPORT], cases[i].transport);
        assert_int_equal(req->value[URO_CM_EXTENDED_TRANSPORT], cases[i].extended);
        s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
        assert_int_equal(s->b.conn->peer.type, cases[i].seen);
        assert_int_equal(s->b.conn->local.type, cases[i].seen);
        assert_true(uro_mark_hit("CM.TYPE"));
        assert_int_equal(managers_close(state), 0);
        assert_int_equal(managers_open(state), 0);
    }
}

static void req__extended_type_of_an_rc_request__is_ignored(void **state)
{
    struct managers *s = *state;

    s->a.lose[URO_CM_REQ] = 1;
    struct uro_cm_msg req = *ask(s, URO_QPT_RC, 64);
    req.value[URO_CM_EXTENDED_TRANSPORT] = 1;
    managers_forge(s, &s->a, &req);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(s->b.conn->peer.type, URO_QPT_RC);
    req.value[URO_CM_LOCAL_ID]++;
    req.value[URO_CM_TRANSPORT] = 3;
    req.value[URO_CM_EXTENDED_TRANSPORT] = 2;
    managers_forge(s, &s->a, &req);
    assert_int_equal(s->b.last.value[URO_CM_REASON], URO_CONN_REJ_BAD_TRANSPORT);
}

static void accept_as(struct managers *s, enum uro_qp_type type)
{
    struct uro_conn_param answer = full(type);

    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    answer.qpn = 0x222;
    answer.responder_resources = 7;
    answer.initiator_depth = 8;
    answer.rnr_retry_count = 2;
    answer.retry_count = 1;
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
}

static void rep_rtu_dreq_drep__all_fields__are_sent(void **state)
{
    struct managers *s = *state;
    const uint64_t tid = ask(s, URO_QPT_RC, 64)->tid;
    const uint32_t at_a = s->a.conn->node.number;

    accept_as(s, URO_QPT_RC);
    managers_settle(s);
    const uint32_t at_b = s->b.conn->node.number;
    const struct field rep[] = {
        { URO_CM_LOCAL_ID, at_b },
        { URO_CM_REMOTE_ID, at_a },
        { URO_CM_LOCAL_QPN, 0x222 },
        { URO_CM_STARTING_PSN, s->b.conn->local_psn },
        { URO_CM_RESPONDER_RESOURCES, 7 },
        { URO_CM_INITIATOR_DEPTH, 8 },
        { URO_CM_TARGET_ACK_DELAY, 15 },
        { URO_CM_FLOW_CONTROL, 1 },
        { URO_CM_RNR_RETRY_COUNT, 2 },
        { URO_CM_SRQ, 1 },
        { URO_CM_CA_GUID, 2 },
    };
    EXPECT(&s->b.last, URO_CM_REP, rep);
    assert_int_equal(s->b.last.tid, tid);

    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    const struct field rtu[] = { { URO_CM_LOCAL_ID, at_a }, { URO_CM_REMOTE_ID, at_b } };
    EXPECT(&s->a.last, URO_CM_RTU, rtu);
    assert_int_equal(s->a.last.tid, tid);

    assert_int_equal(uro_conn_disconnect(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_DISCONNECTED, 0);
    const struct field dreq[] = { { URO_CM_LOCAL_ID, at_a },
                                  { URO_CM_REMOTE_ID, at_b },
                                  { URO_CM_REMOTE_QPN, 0x222 } };
    EXPECT(&s->a.last, URO_CM_DREQ, dreq);
    assert_int_not_equal(s->a.last.tid, tid);
    const struct field drep[] = { { URO_CM_LOCAL_ID, at_b }, { URO_CM_REMOTE_ID, at_a } };
    EXPECT(&s->b.last, URO_CM_DREP, drep);
    assert_int_equal(s->b.last.tid, s->a.last.tid);
    assert_true(uro_mark_hit("CM.TID"));
}

static void mra__for_req_or_rep__has_the_kind_of_the_delayed_message(void **state)
{
    struct managers *s = *state;

    (void)ask(s, URO_QPT_RC, 64);
    const struct uro_cm_msg req = s->a.last;
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    managers_forge(s, &s->a, &req);
    const struct field about_req[] = { { URO_CM_LOCAL_ID, s->b.conn->node.number },
                                       { URO_CM_REMOTE_ID, s->a.conn->node.number },
                                       { URO_CM_SERVICE_TIMEOUT, 24 } };
    EXPECT(&s->b.last, URO_CM_MRA, about_req);
    assert_int_equal(s->b.last.tid, req.tid);
    const struct uro_conn_param answer = full(URO_QPT_RC);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_settle(s);
    const struct uro_cm_msg rep = s->b.last;
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    managers_forge(s, &s->b, &rep);
    const struct field about_rep[] = { { URO_CM_LOCAL_ID, s->a.conn->node.number },
                                       { URO_CM_REMOTE_ID, s->b.conn->node.number },
                                       { URO_CM_MESSAGE, 1 },
                                       { URO_CM_SERVICE_TIMEOUT, 24 } };
    EXPECT(&s->a.last, URO_CM_MRA, about_rep);
}

static void rej__for_each_message__has_the_kind_of_the_rejected_message(void **state)
{
    struct managers *s = *state;

    struct uro_cm_msg req = *ask(s, URO_QPT_RC, 64);
    const uint32_t at_a = s->a.conn->node.number;
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_reject(s->b.conn, URO_CONN_REJ_CONSUMER, "no", 2, s->now), 0);
    managers_settle(s);
    const struct field of_req[] = { { URO_CM_REMOTE_ID, at_a }, { URO_CM_REASON, 28 } };
    EXPECT(&s->b.last, URO_CM_REJ, of_req);
    assert_int_equal(s->b.last.tid, req.tid);

    req.value[URO_CM_LOCAL_ID]++;
    req.remote_gid = s->a.address;
    managers_forge(s, &s->a, &req);
    const struct field gid[] = { { URO_CM_REMOTE_ID, at_a + 1 },
                                 { URO_CM_REASON, 12 },
                                 { URO_CM_INFO_LENGTH, 16 } };
    EXPECT(&s->b.last, URO_CM_REJ, gid);
    assert_memory_equal(s->b.last.info, &s->b.address, 16);
    assert_true(uro_mark_hit("CM.REJ.SAID"));
}

static void rej__of_a_rep__has_the_kind_rep(void **state)
{
    struct managers *s = *state;

    const uint64_t tid = ask(s, URO_QPT_RC, 64)->tid;
    accept_as(s, URO_QPT_RC);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_reject(s->a.conn, URO_CONN_REJ_CONSUMER, "no", 2, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_REJECTED, 28);
    assert_memory_equal(s->b.conn->peer.data, "no", 3);
    const struct field fields[] = { { URO_CM_LOCAL_ID, s->a.conn->node.number },
                                    { URO_CM_REMOTE_ID, s->b.conn->node.number },
                                    { URO_CM_MESSAGE, 1 },
                                    { URO_CM_REASON, 28 } };
    EXPECT(&s->a.last, URO_CM_REJ, fields);
    assert_int_equal(s->a.last.tid, tid);
}

static void sidr__req_and_rep__all_fields_are_sent(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param answer = {
        .type = URO_QPT_UD, .qpn = 77, .qkey = 0x1234567, .data_length = 4, .data = "here"
    };

    managers_ask_service(s, MANAGERS_SERVICE);
    managers_settle(s);
    const uint64_t tid = s->a.last.tid;
    const uint32_t number = s->a.conn->node.number;
    const struct field question[] = { { URO_CM_REQUEST_ID, number },
                                      { URO_CM_PKEY, 0xffff },
                                      { URO_CM_SERVICE_ID, MANAGERS_SERVICE } };
    EXPECT(&s->a.last, URO_CM_SIDR_REQ, question);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(s->b.conn->peer.type, URO_QPT_UD);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    const struct field said[] = { { URO_CM_REQUEST_ID, number },
                                  { URO_CM_SERVICE_ID, MANAGERS_SERVICE },
                                  { URO_CM_LOCAL_QPN, 77 },
                                  { URO_CM_LOCAL_QKEY, 0x1234567 } };
    EXPECT(&s->b.last, URO_CM_SIDR_REP, said);
    assert_int_equal(s->b.last.tid, tid);
    assert_memory_equal(s->a.conn->peer.data, "here", 5);
    const struct uro_cm_msg again = s->a.last;
    managers_forge(s, &s->a, &again);
    EXPECT(&s->b.last, URO_CM_SIDR_REP, said);
}

static void sidr__rejected__repeated_req_is_rejected_again(void **state)
{
    struct managers *s = *state;

    managers_ask_service(s, MANAGERS_SERVICE);
    managers_settle(s);
    const struct uro_cm_msg again = s->a.last;
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_reject(s->b.conn, 0, "no", 2, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_SIDR_REJECTED);
    const struct field said[] = { { URO_CM_REQUEST_ID, s->a.conn->node.number },
                                  { URO_CM_SERVICE_ID, MANAGERS_SERVICE },
                                  { URO_CM_STATUS, 2 } };
    EXPECT(&s->b.last, URO_CM_SIDR_REP, said);
    managers_forge(s, &s->a, &again);
    assert_int_equal(s->b.sent[URO_CM_SIDR_REP], 2);
    EXPECT(&s->b.last, URO_CM_SIDR_REP, said);
    assert_memory_equal(s->b.last.data, "no", 3);
}

/* ---- received messages --------------------------------------------------- */

static void passive_side__req_received__has_the_values_of_the_req(void **state)
{
    struct managers *s = *state;

    (void)ask(s, URO_QPT_RC, 3);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    const struct uro_conn *conn = s->b.conn;
    assert_int_equal(conn->service_id, MANAGERS_SERVICE);
    assert_int_equal(conn->peer.qpn, 0x111);
    assert_int_equal(conn->peer.responder_resources, 4);
    assert_int_equal(conn->peer.initiator_depth, 3);
    assert_int_equal(conn->peer.flow_control, 1);
    assert_int_equal(conn->peer.retry_count, 5);
    assert_int_equal(conn->peer.rnr_retry_count, 6);
    assert_true(conn->peer.srq);
    assert_int_equal(conn->peer_psn, s->a.conn->local_psn);
    assert_int_equal(conn->path_mtu, 3);
    assert_int_equal(conn->ack_timeout, 17);
    assert_int_equal(conn->retries, 14);
    assert_int_equal(conn->route.flow_label, 0x12345);
    assert_int_equal(conn->route.traffic_class, 0x68);
    assert_int_equal(conn->route.hop_limit, 3);
    assert_int_equal(conn->peer.data_length, 92);
    assert_memory_equal(conn->peer.data, "hello", 6);
    assert_true(uro_mark_hit("CM.FLOW"));
    assert_true(uro_mark_hit("CM.MTU"));
    assert_true(uro_mark_hit("CM.DATA.WHOLE"));
}

/* The REQ sets the timeout of the REP and the number of its repetitions. */
static void passive_side__rep_unanswered__retransmits_with_the_timeout_of_the_req(void **state)
{
    struct managers *s = *state;

    (void)ask(s, URO_QPT_RC, 64);
    s->a.lose[URO_CM_REQ] = s->a.lose[URO_CM_REJ] = s->b.lose[URO_CM_REP] = UINT32_MAX;
    accept_as(s, URO_QPT_RC);
    managers_settle(s);
    managers_pass_time(s, s->now + URO_MS(2047));
    assert_int_equal(s->b.sent[URO_CM_REP], 1);
    managers_pass_time(s, s->now + URO_MS(3));
    assert_int_equal(s->b.sent[URO_CM_REP], 2);
    managers_pass_time(s, s->now + URO_MS(30000));
    managers_expect(s, &s->b, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    assert_int_equal(s->b.sent[URO_CM_REP], 15);
    const struct field rej[] = { { URO_CM_LOCAL_ID, s->b.last.value[URO_CM_LOCAL_ID] },
                                 { URO_CM_REMOTE_ID, s->a.conn->node.number },
                                 { URO_CM_INFO_LENGTH, 8 },
                                 { URO_CM_REASON, 4 } };
    EXPECT(&s->b.last, URO_CM_REJ, rej);
}

static void active_side__rep_received__has_the_values_of_the_rep(void **state)
{
    struct managers *s = *state;

    (void)ask(s, URO_QPT_RC, 64);
    accept_as(s, URO_QPT_RC);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    const struct uro_conn *conn = s->a.conn;
    assert_int_equal(conn->peer.qpn, 0x222);
    assert_int_equal(conn->peer.responder_resources, 7);
    assert_int_equal(conn->peer.initiator_depth, 8);
    assert_int_equal(conn->peer.flow_control, 1);
    assert_int_equal(conn->peer.rnr_retry_count, 2);
    assert_true(conn->peer.srq);
    assert_int_equal(conn->peer_psn, s->b.conn->local_psn);
    assert_memory_equal(conn->peer.data, "hello", 6);
}

static void xrc__rep__target_qpn_is_in_the_eecn_field(void **state)
{
    struct managers *s = *state;

    (void)ask(s, URO_QPT_XRC_INI, 64);
    accept_as(s, URO_QPT_XRC_TGT);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(s->b.last.value[URO_CM_LOCAL_QPN], 0);
    assert_int_equal(s->b.last.value[URO_CM_LOCAL_EECN], 0x222);
    assert_int_equal(s->a.conn->peer.qpn, 0x222);
}

static void rtu__private_data__arrives(void **state)
{
    struct managers *s = *state;
    struct uro_cm_msg rtu = { .kind = URO_CM_RTU, .data_length = 3, .data = "yes" };

    (void)ask(s, URO_QPT_RC, 64);
    accept_as(s, URO_QPT_RC);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    rtu.value[URO_CM_LOCAL_ID] = s->a.conn->node.number;
    rtu.value[URO_CM_REMOTE_ID] = s->b.conn->node.number;
    managers_forge(s, &s->a, &rtu);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
    assert_memory_equal(s->b.conn->peer.data, "yes", 4);
    assert_true(uro_mark_hit("CM.RTU"));
}

static void sidr__private_data__arrives(void **state)
{
    struct managers *s = *state;
    struct uro_conn_target target = managers_target(s);
    const struct uro_conn_param param = { .type = URO_QPT_UD, .data_length = 5, .data = "where" };

    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), 0);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(s->b.conn->peer.data_length, 216);
    assert_memory_equal(s->b.conn->peer.data, "where", 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, managers_open, managers_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(req__all_fields__are_sent),
        TEST(req__to_the_same_subnet__lids_are_zero),
        TEST(req__each_qp_type__has_the_transport_of_the_type),
        TEST(req__extended_type_of_an_rc_request__is_ignored),
        TEST(rep_rtu_dreq_drep__all_fields__are_sent),
        TEST(mra__for_req_or_rep__has_the_kind_of_the_delayed_message),
        TEST(rej__for_each_message__has_the_kind_of_the_rejected_message),
        TEST(rej__of_a_rep__has_the_kind_rep),
        TEST(sidr__req_and_rep__all_fields_are_sent),
        TEST(sidr__rejected__repeated_req_is_rejected_again),
        TEST(passive_side__req_received__has_the_values_of_the_req),
        TEST(passive_side__rep_unanswered__retransmits_with_the_timeout_of_the_req),
        TEST(active_side__rep_received__has_the_values_of_the_rep),
        TEST(xrc__rep__target_qpn_is_in_the_eecn_field),
        TEST(rtu__private_data__arrives),
        TEST(sidr__private_data__arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
