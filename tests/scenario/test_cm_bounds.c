/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_bounds.c - tests limits for the time that a peer can make uroce wait, and for the state
 * that remains after a peer. */
#include <errno.h>

#include "base/mark.h"
#include "cm/conn_inside.h"
#include "managers.h"
#include "support/check.h"

#define MINUTE URO_MS(69000) /* 4.096 us * 2^24 */

/* The timeouts in a REQ can be hours, with up to 16 attempts. uroce limits how long such a REQ
 * holds a connection. */
static void cm_req__timeout_of_hours__holds_a_connection_for_at_most_a_minute(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_target target = {
        .route = { .local = s->a.address, .remote = s->b.address, .hop_limit = 64 },
        .service_id = MANAGERS_SERVICE,
        .path_mtu = 3,
        .ack_timeout = 31,
        .response_timeout = 31,
        .retries = 15
    };
    const struct uro_conn_param param = managers_param("hello");

    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), 0);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    s->a.lose[URO_CM_RTU] = s->a.lose[URO_CM_REQ] = UINT32_MAX;
    s->b.lose[URO_CM_REP] = UINT32_MAX;
    assert_int_equal(uro_conn_accept(s->b.conn, &param, s->now), 0);
    managers_pass_time(s, s->now + MINUTE + URO_MS(1000));
    managers_expect(s, &s->b, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    assert_true(uro_mark_hit("CM.PATIENCE"));
}

static void cm_req__closed_before_it_is_sent__only_the_rej_is_sent(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    uro_conn_close(s->a.conn, s->now);
    s->a.conn = NULL;
    managers_settle(s);
    assert_int_equal(s->a.sent[URO_CM_REQ], 0);
    assert_int_equal(s->a.sent[URO_CM_REJ], 1);
}

static void cm_listener__at_one_address__gets_no_requests_for_other_addresses(void **state)
{
    struct managers *s = *state;
    const uint8_t elsewhere[4] = { 10, 0, 0, 99 };

    uro_conn_unlisten(s->b.cm, &s->b.listener);
    s->b.listener.any_address = false;
    s->b.listener.address = uro_gid_from_ipv4(elsewhere);
    assert_int_equal(uro_conn_listen(s->b.cm, &s->b.listener), 0);
    managers_ask(s);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_REJ_BAD_SERVICE);
    managers_expect_nothing(s, &s->b);

    uro_conn_unlisten(s->b.cm, &s->b.listener);
    s->b.listener.address = s->b.address;
    assert_int_equal(uro_conn_listen(s->b.cm, &s->b.listener), 0);
    uro_conn_close(s->a.conn, s->now);
    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
}

static void cm_qp__of_either_side__has_the_retry_count_of_the_req(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_target target = {
        .route = { .local = s->a.address, .remote = s->b.address, .hop_limit = 64 },
        .service_id = MANAGERS_SERVICE,
        .path_mtu = 3,
        .ack_timeout = 17,
        .response_timeout = 20,
        .retries = 15
    };
    struct uro_conn_param asked = managers_param("hello"), answered = managers_param("welcome");
    struct uro_qp_attr attr = { .state = URO_QPS_RTS };
    unsigned mask;

    asked.retry_count = 3;
    answered.retry_count = 5;
    assert_int_equal(uro_conn_connect(s->a.cm, &target, &asked, s->now, &s->a.conn), 0);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answered, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_qp_attr(s->a.conn, &attr, &mask), 0);
    assert_int_equal(attr.retry_count, 3);
    attr.state = URO_QPS_RTS;
    assert_int_equal(uro_conn_qp_attr(s->b.conn, &attr, &mask), 0);
    assert_int_equal(attr.retry_count, 3);
}

/* The service exists, but its process uses all its connections. The status in the SIDR_REP must not
 * be "service ID not supported". */
static void cm_service__all_connections_in_use__other_status_than_unsupported(void **state)
{
    struct managers *s = *state;
    struct uro_conn *held[MANAGERS_CONNECTIONS];

    for (uint32_t i = 0; i < MANAGERS_CONNECTIONS; i++)
        held[i] = uro_conn_new(s->b.cm, &(struct uro_cm_route){ .local = s->b.address });
    managers_ask_service(s, MANAGERS_SERVICE);
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_SIDR_NO_QP);
    assert_true(s->b.cm->full);
    for (uint32_t i = 0; i < MANAGERS_CONNECTIONS; i++)
        uro_conn_free(held[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            cm_req__timeout_of_hours__holds_a_connection_for_at_most_a_minute, managers_open,
            managers_close),
        cmocka_unit_test_setup_teardown(cm_req__closed_before_it_is_sent__only_the_rej_is_sent,
                                        managers_open, managers_close),
        cmocka_unit_test_setup_teardown(
            cm_listener__at_one_address__gets_no_requests_for_other_addresses, managers_open,
            managers_close),
        cmocka_unit_test_setup_teardown(cm_qp__of_either_side__has_the_retry_count_of_the_req,
                                        managers_open, managers_close),
        cmocka_unit_test_setup_teardown(
            cm_service__all_connections_in_use__other_status_than_unsupported, managers_open,
            managers_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
