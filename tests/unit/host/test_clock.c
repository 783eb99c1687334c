/* SPDX-License-Identifier: BSD-3-Clause */
/* test_clock.c - tests the conversion of an earlier time to wall-clock time. */
#include "host/device.h"
#include "support/check.h"

#define TURNS 1000

static void wall_time__of_now__lies_between_two_readings_of_the_wall_clock(void **state)
{
    (void)state;
    for (int i = 0; i < TURNS; i++) {
        uint64_t offset = 0;
        uint64_t before = uro_host_wall_clock();
        uint64_t wall = uro_host_wall_time(uro_device_now(), &offset);
        assert_in_range(wall, before, uro_host_wall_clock());
    }
}

static void wall_time__of_moments_in_order__keeps_order(void **state)
{
    uint64_t offset = 0, last = 0;

    (void)state;
    for (int i = 0; i < TURNS; i++) { /* the first readings may still decrease the offset */
        uint64_t kept = offset;
        uint64_t wall = uro_host_wall_time(uro_device_now(), &offset);
        assert_true(wall > last || offset < kept);
        last = wall;
    }
}

/* A user has set the clock forward or back, so the stored offset is wrong. */
static void wall_time__after_the_clock_was_set__is_correct(void **state)
{
    uint64_t offset = 0;

    (void)state;
    (void)uro_host_wall_time(0, &offset);
    for (int i = 0; i < 2; i++) {
        uint64_t wrong = i == 0 ? offset - 1000000000u : offset + 1000000000u;
        uint64_t before = uro_host_wall_clock();
        uint64_t wall = uro_host_wall_time(uro_device_now(), &wrong);
        assert_in_range(wall, before, uro_host_wall_clock());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wall_time__of_now__lies_between_two_readings_of_the_wall_clock),
        cmocka_unit_test(wall_time__of_moments_in_order__keeps_order),
        cmocka_unit_test(wall_time__after_the_clock_was_set__is_correct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
