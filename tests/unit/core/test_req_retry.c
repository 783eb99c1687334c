/* SPDX-License-Identifier: BSD-3-Clause */
/* test_req_retry.c - tests the requester's timer: delays, budgets, and a deadline that moves. */
#include "base/mark.h"
#include "core/req_retry.h"
#include "support/check.h"

#define TIMEOUT_14 (UINT64_C(4096) << 14)

static struct uro_wheel wheel;

static struct uro_req_retry make(uint8_t retry_max, uint8_t rnr_retry_max)
{
    const struct uro_req_retry_config config = { .timeout_exponent = 14,
                                                 .retry_max = retry_max,
                                                 .rnr_retry_max = rnr_retry_max };
    struct uro_req_retry retry = { 0 };

    uro_wheel_init(&wheel, 0);
    uro_req_retry_init(&retry, &config);
    return retry;
}

/* The table was written without this rule, so the rule can find an error in the table. */
/* bug B27 */
static void rnr_delay__each_code__doubles_every_second_code(void **state)
{
    (void)state;
    uro_mark_clear();
    assert_int_equal(uro_req_retry_rnr_delay(1), URO_US(10));
    assert_int_equal(uro_req_retry_rnr_delay(2), URO_US(20));
    assert_int_equal(uro_req_retry_rnr_delay(3), URO_US(30));
    for (uint8_t code = 4; code < 32; code++)
        assert_int_equal(uro_req_retry_rnr_delay(code),
                         2 * uro_req_retry_rnr_delay((uint8_t)(code - 2)));
    assert_int_equal(uro_req_retry_rnr_delay(0), 2 * uro_req_retry_rnr_delay(30));
    assert_true(uro_mark_hit("RNR.TABLE"));
}

static void expiry__without_progress__retry_count_times_then_failure(void **state)
{
    struct uro_req_retry retry = make(2, 0);
    uro_time now = 0;

    (void)state; /* rule REQ.RETRY.COUNT, REQ.TIMEOUT */
    for (int i = 0; i < 2; i++) {
        uro_req_retry_on_sent(&retry, &wheel, now, uro_psn_make(1));
        assert_null(uro_wheel_pop(&wheel, now + TIMEOUT_14 - URO_US(2)));
        now += TIMEOUT_14 + URO_US(2);
        assert_ptr_equal(uro_wheel_pop(&wheel, now), &retry.timer);
        assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, now), URO_REQ_RETRY_RESEND);
    }
    uro_req_retry_on_sent(&retry, &wheel, now, uro_psn_make(1));
    now += TIMEOUT_14 + URO_US(2);
    assert_non_null(uro_wheel_pop(&wheel, now));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, now), URO_REQ_RETRY_FAIL_TIMEOUT);
}

static void progress__after_retries__moves_the_deadline_and_refills_the_budget(void **state)
{
    struct uro_req_retry retry = make(1, 0);
    uro_time half = TIMEOUT_14 / 2;

    (void)state; /* rule REQ.RETRY.REFILL */
    uro_req_retry_on_sent(&retry, &wheel, 0, uro_psn_make(1));
    uro_req_retry_on_progress(&retry, &wheel, half, uro_psn_make(1), true);
    /* The timer fires at its old time. The deadline has moved, so the timer is armed again. */
    assert_non_null(uro_wheel_pop(&wheel, TIMEOUT_14));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, TIMEOUT_14), URO_REQ_RETRY_NONE);
    assert_null(uro_wheel_pop(&wheel, half + TIMEOUT_14 - URO_US(2)));
    assert_non_null(uro_wheel_pop(&wheel, half + TIMEOUT_14 + URO_US(2)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, half + TIMEOUT_14 + URO_US(2)),
                     URO_REQ_RETRY_RESEND);
    uro_req_retry_on_progress(&retry, &wheel, half + TIMEOUT_14, uro_psn_make(1), true);
    assert_int_equal(uro_req_retry_on_gap(&retry, &wheel, half + TIMEOUT_14), URO_REQ_RETRY_RESEND);
    assert_int_equal(uro_req_retry_on_gap(&retry, &wheel, half + TIMEOUT_14),
                     URO_REQ_RETRY_FAIL_TIMEOUT);
    uro_req_retry_stop(&retry, &wheel);
}

static void progress__nothing_outstanding__a_late_timer_is_ignored(void **state)
{
    struct uro_req_retry retry = make(0, 0);

    (void)state;
    uro_req_retry_on_sent(&retry, &wheel, 0, uro_psn_make(1));
    uro_req_retry_on_progress(&retry, &wheel, 1, uro_psn_make(1), false);
    assert_non_null(uro_wheel_pop(&wheel, TIMEOUT_14 + URO_US(2)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, TIMEOUT_14 + URO_US(2)),
                     URO_REQ_RETRY_NONE);
    assert_int_equal(uro_wheel_next(&wheel), URO_TIME_NEVER);
}

/* The requester does not need the timer any more. With 256 other armed timers, it cancels the
 * timer. */
static void progress__nothing_outstanding__timer_is_removed(void **state)
{
    static struct uro_timer others[256];
    struct uro_req_retry retry = make(0, 0);

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(others); i++)
        uro_wheel_arm(&wheel, &others[i], URO_MS(1));
    uro_req_retry_on_sent(&retry, &wheel, 0, uro_psn_make(1));
    uro_req_retry_on_progress(&retry, &wheel, 1, uro_psn_make(1), true);
    assert_true(uro_timer_armed(&retry.timer));
    uro_req_retry_on_progress(&retry, &wheel, 1, uro_psn_make(1), false);
    assert_false(uro_timer_armed(&retry.timer));
    uro_req_retry_on_sent(&retry, &wheel, 2, uro_psn_make(2));
    assert_true(uro_timer_armed(&retry.timer));

    uro_wheel_cancel(&wheel, &others[0]);
    uro_req_retry_on_progress(&retry, &wheel, 3, uro_psn_make(2), false);
    assert_true(uro_timer_armed(&retry.timer));
    uro_req_retry_stop(&retry, &wheel);
}

static void timeout__exponent_zero__waits_for_ever(void **state)
{
    const struct uro_req_retry_config config = { .timeout_exponent = 0 };
    struct uro_req_retry retry = { 0 };

    (void)state;
    uro_wheel_init(&wheel, 0);
    uro_req_retry_init(&retry, &config);
    uro_req_retry_on_sent(&retry, &wheel, 0, uro_psn_make(1));
    assert_int_equal(uro_wheel_next(&wheel), URO_TIME_NEVER);
}

static void rnr__shorter_than_the_ack_wait__is_kept_to_the_microsecond(void **state)
{
    struct uro_req_retry retry = make(7, 1);

    (void)state; /* rule REQ.RNR.COUNT */
    uro_req_retry_on_sent(&retry, &wheel, 0, uro_psn_make(1));
    assert_int_equal(uro_req_retry_on_rnr_nak(&retry, &wheel, 0, 14), URO_REQ_RETRY_RESEND);
    assert_null(uro_wheel_pop(&wheel, URO_US(1278)));
    assert_non_null(uro_wheel_pop(&wheel, URO_US(1282)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, URO_US(1282)), URO_REQ_RETRY_RESEND);
    uro_req_retry_on_sent(&retry, &wheel, URO_US(1282), uro_psn_make(1));
    assert_int_equal(uro_req_retry_on_rnr_nak(&retry, &wheel, 0, 14), URO_REQ_RETRY_FAIL_RNR);
    uro_req_retry_stop(&retry, &wheel);
}

static void rnr__longer_than_the_ack_timeout__lasts_the_whole_delay(void **state)
{
    struct uro_req_retry retry = make(7, 7);

    (void)state;
    uro_req_retry_on_sent(&retry, &wheel, 0, uro_psn_make(1));
    assert_int_equal(uro_req_retry_on_rnr_nak(&retry, &wheel, 0, 0), URO_REQ_RETRY_RESEND);
    assert_non_null(uro_wheel_pop(&wheel, TIMEOUT_14 + URO_US(2)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, TIMEOUT_14 + URO_US(2)),
                     URO_REQ_RETRY_NONE);
    assert_int_equal(retry.wait, URO_REQ_WAIT_RNR);
    assert_null(uro_wheel_pop(&wheel, URO_US(655358)));
    assert_non_null(uro_wheel_pop(&wheel, URO_US(655362)));
    uro_req_retry_stop(&retry, &wheel);
}

/* The RNR wait ends after progress. An exponent of zero disables the ACK timeout, so no timer runs,
 * although a response is pending. */
static void timeout__exponent_zero_behind_an_rnr_wait__waits_for_ever(void **state)
{
    const struct uro_req_retry_config config = { .rnr_retry_max = 7 };
    struct uro_req_retry retry = { 0 };

    (void)state;
    uro_wheel_init(&wheel, 0);
    uro_req_retry_init(&retry, &config);
    uro_req_retry_on_sent(&retry, &wheel, 0, uro_psn_make(2));
    assert_int_equal(uro_req_retry_on_rnr_nak(&retry, &wheel, 0, 1), URO_REQ_RETRY_RESEND);
    uro_req_retry_on_progress(&retry, &wheel, 1, uro_psn_make(1), true);
    assert_non_null(uro_wheel_pop(&wheel, URO_US(12)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, URO_US(12)), URO_REQ_RETRY_NONE);
    assert_int_equal(retry.wait, URO_REQ_WAIT_ACK);
    assert_int_equal(uro_wheel_next(&wheel), URO_TIME_NEVER);
}

/* rule REQ.PROBE */
static void probe__response_is_very_late__is_due(void **state)
{
    static const struct {
        uro_time taken, due; /* due 0: not before the ACK timeout */
    } cases[] = { { 0, URO_MS(2) },         { URO_US(20), URO_MS(2) },
                  { URO_MS(2), URO_MS(6) }, { URO_MS(20), URO_MS(60) },
                  { URO_MS(25), 0 },        { UINT64_C(10000000000), 0 } };

    (void)state; /* rule REQ.PROBE */
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        struct uro_req_retry retry = make(0, 0);
        uro_time then = cases[i].taken;
        uro_req_retry_on_sent(&retry, &wheel, 0, uro_psn_make(1));
        uro_req_retry_on_progress(&retry, &wheel, then, uro_psn_make(1), false);
        (void)uro_wheel_pop(&wheel, then + 1);
        uro_req_retry_on_sent(&retry, &wheel, then, uro_psn_make(2));
        assert_int_equal(retry.probe_at, cases[i].due == 0 ? URO_TIME_NEVER : then + cases[i].due);
        uro_req_retry_stop(&retry, &wheel);
    }
}

/* If response times vary little, the probe comes sooner. A late response delays later probes. */
static void round_trip__time_changes__estimate_follows(void **state)
{
    struct uro_req_retry retry = make(0, 0);
    uro_time now = 0;
    uint32_t psn = 0;

    (void)state;
    for (int i = 0; i < 60; i++, now += URO_MS(8)) {
        uro_req_retry_on_sent(&retry, &wheel, now, uro_psn_make(++psn));
        uro_req_retry_on_progress(&retry, &wheel, now + URO_MS(8), uro_psn_make(psn), false);
    }
    assert_in_range(retry.rtt, URO_MS(8) - URO_US(10), URO_MS(8) + URO_US(10));
    assert_in_range(retry.rtt_var, 0, URO_US(10));
    uro_req_retry_on_sent(&retry, &wheel, now, uro_psn_make(++psn));
    uro_req_retry_on_progress(&retry, &wheel, now + URO_MS(40), uro_psn_make(psn), false);
    assert_in_range(retry.rtt, URO_MS(12) - URO_US(20), URO_MS(12) + URO_US(20));
    assert_in_range(retry.rtt_var, URO_MS(8) - URO_US(20), URO_MS(8) + URO_US(20));
    uro_req_retry_stop(&retry, &wheel);
}

static void retry_count_seven__in_rxe_mode__is_unlimited(void **state)
{
    const struct uro_req_retry_config config = { .timeout_exponent = 1,
                                                 .retry_max = 7,
                                                 .retry_7_forever = true };
    struct uro_req_retry retry = { 0 };

    (void)state;
    uro_mark_clear();
    uro_wheel_init(&wheel, 0);
    uro_req_retry_init(&retry, &config);
    for (int i = 0; i < 100; i++)
        assert_int_equal(uro_req_retry_on_gap(&retry, &wheel, 0), URO_REQ_RETRY_RESEND);
    uro_req_retry_stop(&retry, &wheel);
    assert_true(uro_mark_hit("REQ.RETRY.FOREVER"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rnr_delay__each_code__doubles_every_second_code),
        cmocka_unit_test(expiry__without_progress__retry_count_times_then_failure),
        cmocka_unit_test(progress__after_retries__moves_the_deadline_and_refills_the_budget),
        cmocka_unit_test(progress__nothing_outstanding__a_late_timer_is_ignored),
        cmocka_unit_test(progress__nothing_outstanding__timer_is_removed),
        cmocka_unit_test(timeout__exponent_zero__waits_for_ever),
        cmocka_unit_test(rnr__shorter_than_the_ack_wait__is_kept_to_the_microsecond),
        cmocka_unit_test(rnr__longer_than_the_ack_timeout__lasts_the_whole_delay),
        cmocka_unit_test(timeout__exponent_zero_behind_an_rnr_wait__waits_for_ever),
        cmocka_unit_test(probe__response_is_very_late__is_due),
        cmocka_unit_test(round_trip__time_changes__estimate_follows),
        cmocka_unit_test(retry_count_seven__in_rxe_mode__is_unlimited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
