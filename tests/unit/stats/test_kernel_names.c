/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that counters with names of the kernel are sums of uroce's counters. */
#include "stats/kernel_names.h"

#include "support/check.h"

#include <string.h>

static const struct uro_kernel_counter *find(const char *name)
{
    for (uint32_t i = 0; i < uro_kernel_counter_count; i++)
        if (strcmp(uro_kernel_counters[i].name, name) == 0)
            return &uro_kernel_counters[i];
    fail_msg("%s is not in the table", name);
    return NULL;
}

static uint64_t value(const char *name, const struct uro_counters *counters)
{
    return uro_kernel_counter_value(find(name), counters);
}

static void kernel_counter__port_data__is_in_units_of_four_bytes(void **state)
{
    struct uro_counters counters = { 0 };

    (void)state;
    counters.value[URO_COUNT_RX_BYTES] = 4003;
    counters.value[URO_COUNT_TX_BYTES] = 88;
    assert_int_equal(value("counters/port_rcv_data", &counters), 1000);
    assert_int_equal(value("counters/port_xmit_data", &counters), 22);
}

static void kernel_counter__of_several_sources__is_the_sum(void **state)
{
    struct uro_counters counters = { 0 };

    (void)state;
    counters.value[URO_COUNT_TX_NO_NEIGHBOR] = 2;
    counters.value[URO_COUNT_TX_STUCK] = 3;
    assert_int_equal(value("counters/port_xmit_discards", &counters), 5);
    assert_int_equal(value("counters/symbol_error", &counters), 0);
}

static void kernel_counter__each_name__is_unique_and_in_one_of_two_directories(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < uro_kernel_counter_count; i++) {
        const char *name = uro_kernel_counters[i].name;
        assert_true(strncmp(name, "counters/", 9) == 0 || strncmp(name, "hw_counters/", 12) == 0);
        assert_ptr_equal(find(name), &uro_kernel_counters[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_counter__port_data__is_in_units_of_four_bytes),
        cmocka_unit_test(kernel_counter__of_several_sources__is_the_sum),
        cmocka_unit_test(kernel_counter__each_name__is_unique_and_in_one_of_two_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
