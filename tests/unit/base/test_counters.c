/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <string.h>

#include "base/counters.h"

static void counters__each__has_a_unique_name_and_a_description(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++) {
        const char *name = uro_counter_name((enum uro_counter)i);
        assert_true(strlen(name) > 0);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789"), strlen(name));
        assert_true(strlen(uro_counter_text((enum uro_counter)i)) > strlen("word"));
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(name, uro_counter_name((enum uro_counter)k));
    }
}

static void counters__by_number__have_the_expected_names(void **state)
{
    (void)state;
    assert_string_equal(uro_counter_name(URO_COUNT_RX_FRAMES), "rx_frames");
    assert_string_equal(uro_counter_name(URO_COUNT_DROP_ICRC), "drop_icrc");
    assert_string_equal(uro_counter_name(URO_COUNT_CQ_OVERRUN), "cq_overrun");
    assert_string_equal(uro_counter_text(URO_COUNT_CQ_OVERRUN),
                        "completion queues that overflowed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters__each__has_a_unique_name_and_a_description),
        cmocka_unit_test(counters__by_number__have_the_expected_names),
    };
    return cmocka_run_group_tests_name("base/counters", tests, NULL, NULL);
}
