/* SPDX-License-Identifier: BSD-3-Clause */
/* test_interrupt.c - tests when a device whose interrupts are missing is polled. */
#include "support/check.h"

#include "io/dpdk/interrupt.h"

/* Reports @count sleeps without an interrupt, after which frames wait. Returns whether the last
 * report changed `polled`. */
static bool miss(struct uro_interrupt *interrupt, uint32_t count)
{
    bool changed = false;

    for (uint32_t i = 0; i < count; i++)
        changed = uro_interrupt_slept(interrupt, false, true);
    return changed;
}

static void interrupt__missing_several_times__device_is_polled(void **state)
{
    (void)state;
    struct uro_interrupt interrupt = { 0 };

    assert_false(miss(&interrupt, URO_INTERRUPT_MISSED_MAX - 1));
    assert_false(interrupt.polled);
    assert_true(miss(&interrupt, 1));
    assert_true(interrupt.polled);
    assert_false(miss(&interrupt, 2 * URO_INTERRUPT_MISSED_MAX));
}

static void interrupt__arrives_in_between__device_is_not_polled(void **state)
{
    (void)state;
    struct uro_interrupt interrupt = { 0 };

    for (unsigned i = 0; i < 10; i++) {
        assert_false(miss(&interrupt, URO_INTERRUPT_MISSED_MAX - 1));
        assert_false(uro_interrupt_slept(&interrupt, true, i % 2 == 0));
    }
    assert_false(interrupt.polled);
}

static void interrupt__sleep_without_frames__does_not_count(void **state)
{
    (void)state;
    struct uro_interrupt interrupt = { 0 };

    for (uint32_t i = 0; i < 10 * URO_INTERRUPT_MISSED_MAX; i++)
        assert_false(uro_interrupt_slept(&interrupt, false, false));
    assert_false(interrupt.polled);
}

static void interrupt__arrives_at_a_polled_device__device_sleeps_again(void **state)
{
    (void)state;
    struct uro_interrupt interrupt = { 0 };

    assert_true(miss(&interrupt, URO_INTERRUPT_MISSED_MAX));
    assert_true(uro_interrupt_slept(&interrupt, true, false));
    assert_false(interrupt.polled);
    assert_false(miss(&interrupt, URO_INTERRUPT_MISSED_MAX - 1));
}

static void interrupt__refused_by_the_driver__device_is_polled_at_once(void **state)
{
    (void)state;
    struct uro_interrupt interrupt = { 0 };

    assert_true(uro_interrupt_refused(&interrupt));
    assert_true(interrupt.polled);
    assert_false(uro_interrupt_refused(&interrupt));
    assert_true(uro_interrupt_slept(&interrupt, true, true));
    assert_false(interrupt.polled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupt__missing_several_times__device_is_polled),
        cmocka_unit_test(interrupt__arrives_in_between__device_is_not_polled),
        cmocka_unit_test(interrupt__sleep_without_frames__does_not_count),
        cmocka_unit_test(interrupt__arrives_at_a_polled_device__device_sleeps_again),
        cmocka_unit_test(interrupt__refused_by_the_driver__device_is_polled_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
