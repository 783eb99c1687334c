/* SPDX-License-Identifier: BSD-3-Clause */
/* test_quota.c - tests when and how often uroce prints a warning about guessed packets. */
#include "host/quota.h"

#include <string.h>

#include "support/check.h"

static struct uro_guesses guesses;
static struct uro_counters counters;
static char text[URO_GUESS_TEXT_MAX];

static int begin(void **state)
{
    (void)state;
    guesses = (struct uro_guesses){ 0 };
    counters = (struct uro_counters){ 0 };
    return 0;
}

static bool look(uro_time now)
{
    return uro_quota_check_guesses(&guesses, &counters, now, text);
}

static void guesses__few_in_any_interval__prints_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= 100; i++) {
        counters.value[URO_COUNT_DROP_QPN] += URO_GUESS_MAX - 1;
        assert_false(look(i * URO_GUESS_INTERVAL));
    }
}

static void guesses__many_in_an_interval__one_line_names_kind_and_count(void **state)
{
    (void)state;
    assert_false(look(URO_MS(1)));
    counters.value[URO_COUNT_DROP_ADDRESS] = 1234;
    assert_true(look(URO_MS(2)));
    assert_string_equal(text,
                        "WARNING: 1234 packets for queue pairs from addresses of other hosts than "
                        "their peers (drop_address): an attacker forges packets, or a program "
                        "connected to a wrong queue pair number; see docs/SECURITY.md");
    assert_false(look(URO_MS(2)));
}

static void guesses__that_go_on__are_reported_again_after_an_interval(void **state)
{
    uint32_t printed = 0;

    (void)state;
    for (uro_time now = URO_MS(100); now < URO_GUESS_MUTED * 3; now += URO_MS(100)) {
        counters.value[URO_COUNT_DROP_GHOST_ACK] += URO_GUESS_MAX;
        printed += look(now);
    }
    assert_int_equal(printed, 3);
}

static void guesses__of_two_kinds__each_kind_has_a_line(void **state)
{
    (void)state;
    counters.value[URO_COUNT_RX_FAR] = URO_GUESS_MAX;
    counters.value[URO_COUNT_CM_REFUSED] = URO_GUESS_MAX;
    assert_true(look(URO_MS(1)));
    assert_true(look(URO_MS(1)));
    assert_false(look(URO_MS(1)));
}

/* uroce drops sixteen times the backlog of a listener before it rejects a flood. */
static void requests__more_than_a_program_accepts__prints_message(void **state)
{
    (void)state;
    counters.value[URO_COUNT_CM_DROP_BUSY] = URO_GUESS_MAX;
    assert_true(look(URO_MS(1)));
    assert_non_null(strstr(text, "(cm_drop_busy)"));
}

/* Counters that increase through loss and reordering must not look like an attack. */
static void losses__many__are_not_counted_as_guesses(void **state)
{
    static const enum uro_counter honest[] = {
        URO_COUNT_RX_OUT_OF_SEQ, URO_COUNT_DROP_AFTER_NAK,
        URO_COUNT_RX_DUPLICATE,  URO_COUNT_DROP_STALE_RESPONSE,
        URO_COUNT_DROP_ICRC,     URO_COUNT_DROP_UC_SEQUENCE,
        URO_COUNT_RNR_SENT
    };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(honest); i++)
        counters.value[honest[i]] = 1000000;
    assert_false(look(URO_MS(1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(guesses__few_in_any_interval__prints_nothing, begin),
        cmocka_unit_test_setup(guesses__many_in_an_interval__one_line_names_kind_and_count, begin),
        cmocka_unit_test_setup(guesses__that_go_on__are_reported_again_after_an_interval, begin),
        cmocka_unit_test_setup(guesses__of_two_kinds__each_kind_has_a_line, begin),
        cmocka_unit_test_setup(requests__more_than_a_program_accepts__prints_message, begin),
        cmocka_unit_test_setup(losses__many__are_not_counted_as_guesses, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
