/* SPDX-License-Identifier: BSD-3-Clause */
/* test_queue.c - tests which delayed frames arrive at a given time, and in which order. */
#include "support/check.h"

#include "impair/queue.h"

#define DUE   10u
#define SLOTS 8u
#define SIZE  16u

static struct uro_impair_queue queue;
static struct uro_impair_entry ring[SLOTS];
static uint8_t memory[SLOTS * SIZE];

static int start(void **state)
{
    (void)state;
    uro_impair_queue_init(&queue, ring, memory, SLOTS, SIZE);
    return 0;
}

static void put(char name, uro_time due)
{
    *uro_impair_queue_put(&queue, 1, due) = (uint8_t)name;
}

/* Returns the names of the frames that are due at @now, and frees them. */
static const char *arrived(uro_time now)
{
    static char text[SLOTS + 1];
    const uint32_t count = uro_impair_queue_ready(&queue, now, SLOTS);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t length;
        text[i] = (char)*uro_impair_queue_frame(&queue, i, &length);
        assert_int_equal(length, 1);
    }
    text[count] = '\0';
    uro_impair_queue_drop(&queue, count);
    return text;
}

static void frames__due_at_different_times__in_order(void **state)
{
    (void)state;
    assert_true(uro_impair_queue_due(&queue) == URO_TIME_NEVER);
    put('a', DUE);
    put('b', 2 * DUE);
    put('c', DUE); /* does not overtake */
    assert_int_equal(uro_impair_queue_due(&queue), DUE);
    assert_string_equal(arrived(DUE - 1), "");
    assert_string_equal(arrived(DUE), "a");
    assert_string_equal(arrived(2 * DUE - 1), "");
    assert_string_equal(arrived(2 * DUE), "bc");
    assert_int_equal(uro_impair_queue_free(&queue), SLOTS);
}

static void held__a_frame_follows__is_overtaken_once_then_delivered(void **state)
{
    (void)state;
    put('a', DUE);
    uro_impair_queue_hold(&queue);
    put('b', DUE);
    put('c', DUE);
    assert_string_equal(arrived(DUE - 1), "");
    assert_string_equal(arrived(DUE), "bac");
}

static void held__nothing_follows__arrives_after_the_hold_time(void **state)
{
    (void)state;
    put('a', DUE);
    uro_impair_queue_hold(&queue);
    assert_string_equal(arrived(DUE + URO_IMPAIR_HOLD_TIME - 1), "");
    assert_string_equal(arrived(DUE + URO_IMPAIR_HOLD_TIME), "a");
}

/* The frame must keep its slot, because it is lent to the receiver. */
static void held__already_lent__is_not_overtaken(void **state)
{
    uint32_t length;

    (void)state;
    put('a', DUE);
    uro_impair_queue_hold(&queue);
    assert_int_equal(uro_impair_queue_ready(&queue, DUE + URO_IMPAIR_HOLD_TIME, 1), 1);
    const uint8_t *lent = uro_impair_queue_frame(&queue, 0, &length);
    put('b', DUE);
    assert_int_equal(*lent, 'a');
    uro_impair_queue_drop(&queue, 1);
    assert_string_equal(arrived(DUE), "b");
}

static void repeated__frame_that_overtook__is_delivered_twice(void **state)
{
    (void)state;
    put('a', DUE);
    uro_impair_queue_hold(&queue);
    put('b', DUE);
    uro_impair_queue_repeat(&queue);
    assert_string_equal(arrived(DUE), "bab");
}

/* All slots were in use before, by frames that were due later. */
static void repeated__in_a_used_slot__arrives_with_the_first(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SLOTS; i++) {
        put('x', 100 * DUE);
        assert_string_equal(arrived(100 * DUE), "x");
    }
    put('a', DUE);
    uro_impair_queue_repeat(&queue);
    assert_string_equal(arrived(DUE), "aa");
}

static void queue__full__has_no_free_slot(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SLOTS; i++)
        put((char)('a' + i), DUE);
    assert_int_equal(uro_impair_queue_free(&queue), 0);
    assert_string_equal(arrived(DUE), "abcdefgh");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(frames__due_at_different_times__in_order, start),
        cmocka_unit_test_setup(held__a_frame_follows__is_overtaken_once_then_delivered, start),
        cmocka_unit_test_setup(held__nothing_follows__arrives_after_the_hold_time, start),
        cmocka_unit_test_setup(held__already_lent__is_not_overtaken, start),
        cmocka_unit_test_setup(repeated__frame_that_overtook__is_delivered_twice, start),
        cmocka_unit_test_setup(repeated__in_a_used_slot__arrives_with_the_first, start),
        cmocka_unit_test_setup(queue__full__has_no_free_slot, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
