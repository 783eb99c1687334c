/* SPDX-License-Identifier: BSD-3-Clause */
/* test_req_retry.c - the requester's one timer: delays, budgets, and a deadline that moves. */
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

/* The table was typed in by hand; this rule was not used to type it. */
/* rule RNR.TABLE */
static void rnr_delay__doubles_every_second_code(void **state)
{
    (void)state; /* rule RNR.TABLE */
    assert_int_equal(uro_req_retry_rnr_delay(1), URO_US(10));
    assert_int_equal(uro_req_retry_rnr_delay(2), URO_US(20));
    assert_int_equal(uro_req_retry_rnr_delay(3), URO_US(30));
    for (uint8_t code = 4; code < 32; code++)
        assert_int_equal(uro_req_retry_rnr_delay(code),
                         2 * uro_req_retry_rnr_delay((uint8_t)(code - 2)));
    assert_int_equal(uro_req_retry_rnr_delay(0), 2 * uro_req_retry_rnr_delay(30));
}

static void expiry__without_progress__retry_count_times_then_failure(void **state)
{
    struct uro_req_retry retry = make(2, 0);
    uro_time now = 0;

    (void)state; /* rule REQ.RETRY.COUNT, REQ.TIMEOUT */
    for (int i = 0; i < 2; i++) {
        uro_req_retry_on_sent(&retry, &wheel, now);
        assert_null(uro_wheel_pop(&wheel, now + TIMEOUT_14 - URO_US(2)));
        now += TIMEOUT_14 + URO_US(2);
        assert_ptr_equal(uro_wheel_pop(&wheel, now), &retry.timer);
        assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, now), URO_REQ_RETRY_RESEND);
    }
    uro_req_retry_on_sent(&retry, &wheel, now);
    now += TIMEOUT_14 + URO_US(2);
    assert_non_null(uro_wheel_pop(&wheel, now));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, now), URO_REQ_RETRY_FAIL_TIMEOUT);
}

static void progress__moves_the_deadline_and_refills_the_budget(void **state)
{
    struct uro_req_retry retry = make(1, 0);
    uro_time half = TIMEOUT_14 / 2;

    (void)state; /* rule REQ.RETRY.REFILL */
    uro_req_retry_on_sent(&retry, &wheel, 0);
    uro_req_retry_on_progress(&retry, &wheel, half, true);
    /* The timer pops at its old time, finds that the deadline moved, and is armed again. */
    assert_non_null(uro_wheel_pop(&wheel, TIMEOUT_14));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, TIMEOUT_14), URO_REQ_RETRY_NONE);
    assert_null(uro_wheel_pop(&wheel, half + TIMEOUT_14 - URO_US(2)));
    assert_non_null(uro_wheel_pop(&wheel, half + TIMEOUT_14 + URO_US(2)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, half + TIMEOUT_14 + URO_US(2)),
                     URO_REQ_RETRY_RESEND);
    uro_req_retry_on_progress(&retry, &wheel, half + TIMEOUT_14, true);
    assert_int_equal(uro_req_retry_on_gap(&retry, &wheel, half + TIMEOUT_14), URO_REQ_RETRY_RESEND);
    assert_int_equal(uro_req_retry_on_gap(&retry, &wheel, half + TIMEOUT_14),
                     URO_REQ_RETRY_FAIL_TIMEOUT);
    uro_req_retry_stop(&retry, &wheel);
}

static void progress__nothing_outstanding__a_late_timer_means_nothing(void **state)
{
    struct uro_req_retry retry = make(0, 0);

    (void)state;
    uro_req_retry_on_sent(&retry, &wheel, 0);
    uro_req_retry_on_progress(&retry, &wheel, 1, false);
    assert_non_null(uro_wheel_pop(&wheel, TIMEOUT_14 + URO_US(2)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, TIMEOUT_14 + URO_US(2)),
                     URO_REQ_RETRY_NONE);
    assert_int_equal(uro_wheel_next(&wheel), URO_TIME_NEVER);
}

static void timeout__exponent_zero__waits_for_ever(void **state)
{
    const struct uro_req_retry_config config = { .timeout_exponent = 0 };
    struct uro_req_retry retry = { 0 };

    (void)state;
    uro_wheel_init(&wheel, 0);
    uro_req_retry_init(&retry, &config);
    uro_req_retry_on_sent(&retry, &wheel, 0);
    assert_int_equal(uro_wheel_next(&wheel), URO_TIME_NEVER);
}

static void rnr__shorter_than_the_ack_wait__is_kept_to_the_microsecond(void **state)
{
    struct uro_req_retry retry = make(7, 1);

    (void)state; /* rule REQ.RNR.COUNT */
    uro_req_retry_on_sent(&retry, &wheel, 0);
    assert_int_equal(uro_req_retry_on_rnr_nak(&retry, &wheel, 0, 14), URO_REQ_RETRY_RESEND);
    assert_null(uro_wheel_pop(&wheel, URO_US(1278)));
    assert_non_null(uro_wheel_pop(&wheel, URO_US(1282)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, URO_US(1282)), URO_REQ_RETRY_RESEND);
    uro_req_retry_on_sent(&retry, &wheel, URO_US(1282));
    assert_int_equal(uro_req_retry_on_rnr_nak(&retry, &wheel, 0, 14), URO_REQ_RETRY_FAIL_RNR);
    uro_req_retry_stop(&retry, &wheel);
}

static void rnr__longer_than_the_ack_wait__the_ack_wait_does_not_cut_it_short(void **state)
{
    struct uro_req_retry retry = make(7, 7);

    (void)state;
    uro_req_retry_on_sent(&retry, &wheel, 0);
    assert_int_equal(uro_req_retry_on_rnr_nak(&retry, &wheel, 0, 0), URO_REQ_RETRY_RESEND);
    assert_non_null(uro_wheel_pop(&wheel, TIMEOUT_14 + URO_US(2)));
    assert_int_equal(uro_req_retry_on_expiry(&retry, &wheel, TIMEOUT_14 + URO_US(2)),
                     URO_REQ_RETRY_NONE);
    assert_int_equal(retry.wait, URO_REQ_WAIT_RNR);
    assert_null(uro_wheel_pop(&wheel, URO_US(655358)));
    assert_non_null(uro_wheel_pop(&wheel, URO_US(655362)));
    uro_req_retry_stop(&retry, &wheel);
}

/* rule REQ.RETRY.FOREVER */
static void retry_count_seven__as_rxe_reads_it__is_for_ever(void **state)
{
    const struct uro_req_retry_config config = { .timeout_exponent = 1,
                                                 .retry_max = 7,
                                                 .retry_7_forever = true };
    struct uro_req_retry retry = { 0 };

    (void)state;
    uro_wheel_init(&wheel, 0);
    uro_req_retry_init(&retry, &config);
    for (int i = 0; i < 100; i++)
        assert_int_equal(uro_req_retry_on_gap(&retry, &wheel, 0), URO_REQ_RETRY_RESEND);
    uro_req_retry_stop(&retry, &wheel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rnr_delay__doubles_every_second_code),
        cmocka_unit_test(expiry__without_progress__retry_count_times_then_failure),
        cmocka_unit_test(progress__moves_the_deadline_and_refills_the_budget),
        cmocka_unit_test(progress__nothing_outstanding__a_late_timer_means_nothing),
        cmocka_unit_test(timeout__exponent_zero__waits_for_ever),
        cmocka_unit_test(rnr__shorter_than_the_ack_wait__is_kept_to_the_microsecond),
        cmocka_unit_test(rnr__longer_than_the_ack_wait__the_ack_wait_does_not_cut_it_short),
        cmocka_unit_test(retry_count_seven__as_rxe_reads_it__is_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
