/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the conversion of speeds to a width and a lane speed. */
#include "stats/link_rate.h"

#include "support/check.h"

#include <stdlib.h>

static const uint32_t speeds[] = { 2500,  5000,  10000,  20000,  25000,  40000,
                                   50000, 56000, 100000, 200000, 400000, 800000 };

/* Returns the speed that a program computes from the codes, Mb/s. */
static uint32_t product(const struct uro_link_rate *rate)
{
    static const uint32_t lanes[] = { [1] = 1, [2] = 4, [4] = 8 };
    static const uint32_t speed[] = { [1] = 2500,   [2] = 5000,   [4] = 10000,   [16] = 14000,
                                      [32] = 25000, [64] = 50000, [128] = 100000 };

    return lanes[rate->width_code] * speed[rate->speed_code];
}

static void link_rate__each_rate__codes_and_text_have_the_same_speed(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(speeds); i++) {
        const struct uro_link_rate *rate = uro_link_rate_of(speeds[i]);
        assert_int_equal(rate->speed, speeds[i]);
        assert_int_equal(product(rate), speeds[i]);
        assert_int_equal(strtod(rate->text, NULL) * 1000, speeds[i]);
    }
}

static void link_rate__speed_between_two_rates__is_the_lower_rate(void **state)
{
    (void)state;
    assert_int_equal(uro_link_rate_of(0)->speed, 2500);
    assert_int_equal(uro_link_rate_of(1000)->speed, 2500);
    assert_int_equal(uro_link_rate_of(30000)->speed, 25000);
    assert_int_equal(uro_link_rate_of(UINT32_MAX)->speed, 800000);
}

static void parse__rates_and_other_texts__only_rates_are_accepted(void **state)
{
    static const char *const wrong[] = { "", "1", "100 ", "100G", "1000", "2.50", "-10", "x" };

    (void)state;
    assert_int_equal(uro_link_rate_parse("100")->speed, 100000);
    assert_int_equal(uro_link_rate_parse("2.5")->speed, 2500);
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++)
        assert_null(uro_link_rate_parse(wrong[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_rate__each_rate__codes_and_text_have_the_same_speed),
        cmocka_unit_test(link_rate__speed_between_two_rates__is_the_lower_rate),
        cmocka_unit_test(parse__rates_and_other_texts__only_rates_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
