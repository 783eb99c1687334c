/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_undelivered.c - tests the ICMP error "port unreachable" for a connection request. Any
 * host can forge such an error, but only a host that saw the request can quote it. */
#include <errno.h>
#include <string.h>

#include "managers.h"

#define LEAST 28u /* bytes that the error must quote, up to the local communication ID */

/* Reports that a packet to b was undeliverable; the report quotes @length bytes of @mad. */
static void undelivered(struct managers *s, const uint8_t *mad, uint32_t length)
{
    uro_cm_undelivered(s->a.cm, &s->b.address, mad, length, s->now);
}

/* Reports each copy of the pending request, until the request has failed. */
static void undelivered_always(struct managers *s, uint32_t length)
{
    const enum uro_cm_kind kind = s->a.sent[URO_CM_REQ] > 0 ? URO_CM_REQ : URO_CM_SIDR_REQ;

    s->a.lose[kind] = UINT32_MAX;
    for (uint32_t copies = 1; copies <= URO_CM_UNDELIVERED_MAX; copies++) {
        assert_int_equal(s->a.sent[kind], copies);
        undelivered(s, s->a.conn->mad, length);
        undelivered(s, s->a.conn->mad, length); /* a second error for the same copy has no effect */
        managers_pass_time(s, s->now + URO_CM_UNDELIVERED_AGAIN + URO_MS(50));
    }
}

static void ask_in_vain(struct managers *s)
{
    s->a.lose[URO_CM_REQ] = 1;
    managers_ask(s);
    managers_settle(s);
    assert_int_equal(s->a.sent[URO_CM_REQ], 1);
}

/* Checks that no ICMP error had an effect, and that the request is not retransmitted early. */
static void expect_unreported(struct managers *s)
{
    managers_pass_time(s, s->now + URO_CM_UNDELIVERED_AGAIN + URO_MS(50));
    assert_int_equal(s->a.sent[URO_CM_REQ], 1);
    managers_expect_nothing(s, &s->a);
}

static void req__to_an_unused_udp_port__fails_after_few_icmp_errors(void **state)
{
    struct managers *s = *state;

    ask_in_vain(s);
    undelivered_always(s, URO_MAD_LEN);
    managers_expect(s, &s->a, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    managers_expect_nothing(s, &s->a);
    managers_pass_time(s, s->now + URO_MS(100000));
    assert_int_equal(s->a.sent[URO_CM_REQ], URO_CM_UNDELIVERED_MAX);
}

static void req__server_starts_meanwhile__connects(void **state)
{
    struct managers *s = *state;

    ask_in_vain(s);
    undelivered(s, s->a.conn->mad, URO_MAD_LEN);
    managers_expect_nothing(s, &s->a);
    managers_pass_time(s, s->now + URO_CM_UNDELIVERED_AGAIN + URO_MS(50));
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
}

static void req__icmp_error_with_just_enough_bytes__fails(void **state)
{
    struct managers *s = *state;

    ask_in_vain(s);
    undelivered_always(s, LEAST);
    managers_expect(s, &s->a, URO_CONN_UNREACHABLE, -ETIMEDOUT);
}

static void service_query__to_an_unused_udp_port__fails(void **state)
{
    struct managers *s = *state;

    s->a.lose[URO_CM_SIDR_REQ] = 1;
    managers_ask_service(s, MANAGERS_SERVICE);
    managers_settle(s);
    undelivered_always(s, URO_MAD_LEN);
    managers_expect(s, &s->a, URO_CONN_UNREACHABLE, -ETIMEDOUT);
}

static void req__icmp_error_with_too_few_bytes__continues_to_wait(void **state)
{
    struct managers *s = *state;

    ask_in_vain(s);
    for (uint32_t length = 0; length < LEAST; length++)
        undelivered(s, s->a.conn->mad, length);
    expect_unreported(s);
}

static void req__icmp_error_with_another_byte__continues_to_wait(void **state)
{
    struct managers *s = *state;
    uint8_t mad[URO_MAD_LEN];

    ask_in_vain(s);
    for (uint32_t at = 0; at < URO_MAD_LEN; at++) {
        memcpy(mad, s->a.conn->mad, sizeof mad);
        mad[at] ^= 1;
        undelivered(s, mad, URO_MAD_LEN);
    }
    expect_unreported(s);
}

static void req__icmp_error_for_another_host__continues_to_wait(void **state)
{
    struct managers *s = *state;

    ask_in_vain(s);
    uro_cm_undelivered(s->a.cm, &s->a.address, s->a.conn->mad, URO_MAD_LEN, s->now);
    expect_unreported(s);
}

/* A late ICMP error changes nothing. A host that reads the traffic can forge such an error. */
static void req__icmp_error_after_the_rep__changes_nothing(void **state)
{
    struct managers *s = *state;
    uint8_t mad[URO_MAD_LEN];

    managers_ask(s);
    memcpy(mad, s->a.conn->mad, sizeof mad);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    const struct uro_conn_param answer = managers_param("");
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    undelivered(s, mad, URO_MAD_LEN);
    undelivered(s, s->a.conn->mad, URO_MAD_LEN);
    managers_expect_nothing(s, &s->a);
    assert_int_equal(s->a.conn->state, URO_CONN_REP_RECEIVED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(req__to_an_unused_udp_port__fails_after_few_icmp_errors,
                                        managers_open, managers_close),
        cmocka_unit_test_setup_teardown(req__server_starts_meanwhile__connects, managers_open,
                                        managers_close),
        cmocka_unit_test_setup_teardown(req__icmp_error_with_just_enough_bytes__fails,
                                        managers_open, managers_close),
        cmocka_unit_test_setup_teardown(service_query__to_an_unused_udp_port__fails, managers_open,
                                        managers_close),
        cmocka_unit_test_setup_teardown(req__icmp_error_with_too_few_bytes__continues_to_wait,
                                        managers_open, managers_close),
        cmocka_unit_test_setup_teardown(req__icmp_error_with_another_byte__continues_to_wait,
                                        managers_open, managers_close),
        cmocka_unit_test_setup_teardown(req__icmp_error_for_another_host__continues_to_wait,
                                        managers_open, managers_close),
        cmocka_unit_test_setup_teardown(req__icmp_error_after_the_rep__changes_nothing,
                                        managers_open, managers_close),
    };

    return cmocka_run_group_tests_name("scenario/cm_undelivered", tests, NULL, NULL);
}
