/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_qp.c - tests the attributes that a connection sets on its queue pair, on both sides and
 * for each type of queue pair.
 */
#include <errno.h>

#include "core/qp_state.h"
#include "managers.h"

#define INIT     (URO_ATTR_STATE | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX | URO_ATTR_PORT)
#define RTR      (URO_ATTR_STATE | URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN)
#define RTR_DEEP (RTR | URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR)
#define RTS      (URO_ATTR_STATE | URO_ATTR_SQ_PSN)
#define RTS_DEEP                                                                                   \
    (RTS | URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC)

/* Parameters in which all numbers differ. */
static const struct uro_conn_param asked = { .qpn = 0x111,
                                             .responder_resources = 4,
                                             .initiator_depth = 3,
                                             .retry_count = 5,
                                             .rnr_retry_count = 6 };
static const struct uro_conn_param granted = { .qpn = 0x222,
                                               .responder_resources = 7,
                                               .initiator_depth = 8,
                                               .retry_count = 1,
                                               .rnr_retry_count = 2 };

static void ask(struct managers *s, struct uro_conn_param param, enum uro_qp_type type)
{
    struct uro_conn_target target = managers_target(s);

    param.type = type;
    target.route.sgid_index = 4;
    target.route.hop_limit = 9;
    target.route.flow_label = 0x12345;
    target.route.traffic_class = 0x68;
    target.ack_timeout = 18;
    target.path_mtu = 2;
    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), 0);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
}

static void agree(struct managers *s, enum uro_qp_type active, enum uro_qp_type passive)
{
    struct uro_conn_param answer = granted;

    ask(s, asked, active);
    answer.type = passive;
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
}

static struct uro_qp_attr attr_of(const struct uro_conn *conn, enum uro_qp_state state,
                                  unsigned wanted)
{
    struct uro_qp_attr attr = { .state = state };
    unsigned mask = 0;

    assert_int_equal(uro_conn_qp_attr(conn, &attr, &mask), 0);
    assert_int_equal(mask, wanted);
    assert_int_equal(attr.state, state);
    return attr;
}

static void expect_path(const struct uro_qp_attr *attr, const struct uro_gid *dest, uint8_t index)
{
    assert_true(uro_gid_equal(&attr->address.dest, dest));
    assert_int_equal(attr->address.sgid_index, index);
    assert_int_equal(attr->address.hop_limit, 9);
    assert_int_equal(attr->address.traffic_class, 0x68);
    assert_int_equal(attr->address.flow_label, 0x12345);
    assert_int_equal(attr->path_mtu, 512);
}

static void qp_attr__active_rc__has_the_values_of_req_and_rep(void **state)
{
    struct managers *s = *state;

    agree(s, URO_QPT_RC, URO_QPT_RC);
    struct uro_qp_attr attr = attr_of(s->a.conn, URO_QPS_RTR, RTR_DEEP);
    expect_path(&attr, &s->b.address, 4);
    assert_int_equal(attr.dest_qpn, 0x222);
    assert_int_equal(attr.rq_psn, s->a.conn->local_psn);
    assert_int_equal(attr.max_dest_rd_atomic, 8);
    assert_int_equal(attr.min_rnr_timer, 0);
    attr = attr_of(s->a.conn, URO_QPS_RTS, RTS_DEEP);
    assert_int_equal(attr.sq_psn, s->b.conn->local_psn);
    assert_int_equal(attr.timeout, 18);
    assert_int_equal(attr.retry_count, 5);
    assert_int_equal(attr.rnr_retry, 2);
    assert_int_equal(attr.max_rd_atomic, 7);
}

static void qp_attr__passive_rc__has_the_values_of_the_req(void **state)
{
    struct managers *s = *state;

    ask(s, asked, URO_QPT_RC);
    struct uro_qp_attr attr =
        attr_of(s->b.conn, URO_QPS_RTR, RTR_DEEP); /* the request is not accepted yet */
    expect_path(&attr, &s->a.address, 0);
    assert_int_equal(attr.dest_qpn, 0x111);
    assert_int_equal(attr.rq_psn, s->b.conn->local_psn);
    assert_int_equal(attr.max_dest_rd_atomic, 3);
    attr = attr_of(s->b.conn, URO_QPS_RTS, RTS_DEEP);
    assert_int_equal(attr.sq_psn, s->a.conn->local_psn);
    assert_int_equal(attr.timeout, 18);
    assert_int_equal(attr.retry_count, 5);
    assert_int_equal(attr.rnr_retry, 6);
    assert_int_equal(attr.max_rd_atomic, 4);
}

static void qp_attr__other_qp_types__has_the_required_attributes(void **state)
{
    static const struct {
        enum uro_qp_type active, passive;
        unsigned rtr[2], rts[2];
    } cases[] = {
        { URO_QPT_UC, URO_QPT_UC, { RTR, RTR }, { RTS, RTS } },
        { URO_QPT_XRC_INI,
          URO_QPT_XRC_TGT,
          { RTR, RTR_DEEP },
          { RTS_DEEP, RTS | URO_ATTR_TIMEOUT } },
    };

    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct managers *s = *state;
        agree(s, cases[i].active, cases[i].passive);
        (void)attr_of(s->a.conn, URO_QPS_INIT, INIT);
        (void)attr_of(s->a.conn, URO_QPS_RTR, cases[i].rtr[0]);
        (void)attr_of(s->a.conn, URO_QPS_RTS, cases[i].rts[0]);
        (void)attr_of(s->b.conn, URO_QPS_INIT, INIT);
        (void)attr_of(s->b.conn, URO_QPS_RTR, cases[i].rtr[1]);
        (void)attr_of(s->b.conn, URO_QPS_RTS, cases[i].rts[1]);
        assert_int_equal(managers_close(state), 0);
        assert_int_equal(managers_open(state), 0);
    }
}

/* a allows READs and atomics only if the REQ has responder resources; b, only if the REQ has an
 * initiator depth. */
static void qp_attr__no_responder_resources__has_no_remote_read_right(void **state)
{
    static const struct {
        uint8_t resources, depth;
        bool reads_a, reads_b;
    } cases[] = {
        { 0, 0, false, false },
        { 1, 0, true, false },
        { 0, 1, false, true },
    };
    const unsigned writes = URO_ACCESS_REMOTE_WRITE;
    const unsigned reads = URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC;

    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct managers *s = *state;
        const struct uro_conn_param param = { .responder_resources = cases[i].resources,
                                              .initiator_depth = cases[i].depth };
        ask(s, param, URO_QPT_RC);
        struct uro_qp_attr attr = attr_of(s->a.conn, URO_QPS_INIT, INIT);
        assert_int_equal(attr.access, writes | (cases[i].reads_a ? reads : 0));
        assert_int_equal(attr.port, 1);
        attr = attr_of(s->b.conn, URO_QPS_INIT, INIT);
        assert_int_equal(attr.access, writes | (cases[i].reads_b ? reads : 0));
        assert_int_equal(managers_close(state), 0);
        assert_int_equal(managers_open(state), 0);
    }
}

static void qp_attr__too_early_or_unknown_state__einval(void **state)
{
    struct managers *s = *state;
    struct uro_qp_attr attr = { .state = URO_QPS_RTR };
    unsigned mask;

    ask(s, asked, URO_QPT_RC);
    assert_int_equal(uro_conn_qp_attr(s->a.conn, &attr, &mask), -EINVAL);
    attr.state = URO_QPS_SQD;
    assert_int_equal(uro_conn_qp_attr(s->b.conn, &attr, &mask), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, managers_open, managers_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(qp_attr__active_rc__has_the_values_of_req_and_rep),
        TEST(qp_attr__passive_rc__has_the_values_of_the_req),
        TEST(qp_attr__other_qp_types__has_the_required_attributes),
        TEST(qp_attr__no_responder_resources__has_no_remote_read_right),
        TEST(qp_attr__too_early_or_unknown_state__einval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
