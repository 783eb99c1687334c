/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cable_queue.c - which frames of a cable arrive at a given time, and in which order. */
#include "support/check.h"

#include "io/cable/queue.h"

#define DUE    10u
#define FRAMES 8u

static struct uro_cable_queue queue;

static int start(void **state)
{
    (void)state;
    return uro_cable_queue_init(&queue, 64);
}

static int stop(void **state)
{
    (void)state;
    uro_cable_queue_fini(&queue);
    return 0;
}

static void put(char name, uro_time due)
{
    const struct uro_tx tx = { .way = URO_TX_WIRE, .head_length = 1, .head = { (uint8_t)name } };

    uro_cable_queue_put(&queue, &tx, due);
}

/* Returns the names of the frames that are due at @now, and frees them. */
static const char *arrived(uro_time now)
{
    static char text[FRAMES + 1];
    struct uro_pkt pkts[FRAMES];
    uint32_t count = uro_cable_queue_take(&queue, now, pkts, FRAMES);

    for (uint32_t i = 0; i < count; i++)
        text[i] = (char)pkts[i].octets[0];
    text[count] = '\0';
    uro_cable_queue_drop(&queue, count);
    return text;
}

static void held__a_frame_follows__is_overtaken_once_then_delivered(void **state)
{
    (void)state;
    put('a', DUE);
    uro_cable_queue_hold(&queue);
    put('b', DUE);
    put('c', DUE);
    assert_string_equal(arrived(DUE - 1), "");
    assert_string_equal(arrived(DUE), "bac");
}

static void held__nothing_follows__arrives_after_the_hold_time(void **state)
{
    (void)state;
    put('a', DUE);
    uro_cable_queue_hold(&queue);
    assert_string_equal(arrived(DUE + URO_CABLE_HOLD_TIME - 1), "");
    assert_string_equal(arrived(DUE + URO_CABLE_HOLD_TIME), "a");
}

/* The receiver has borrowed the frame, so the frame must keep its slot. */
static void held__already_received__is_not_overtaken(void **state)
{
    struct uro_pkt pkt;

    (void)state;
    put('a', DUE);
    uro_cable_queue_hold(&queue);
    assert_int_equal(uro_cable_queue_take(&queue, DUE + URO_CABLE_HOLD_TIME, &pkt, 1), 1);
    put('b', DUE);
    assert_int_equal(pkt.octets[0], 'a');
    uro_cable_queue_drop(&queue, 1);
    assert_string_equal(arrived(DUE), "b");
}

/* All slots were in use before, by frames that were due later. */
static void repeated__in_a_used_slot__arrives_with_the_first(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < URO_CABLE_SLOTS; i++) {
        put('x', 100 * DUE);
        assert_string_equal(arrived(100 * DUE), "x");
    }
    put('a', DUE);
    uro_cable_queue_repeat(&queue);
    assert_string_equal(arrived(DUE), "aa");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(held__a_frame_follows__is_overtaken_once_then_delivered,
                                        start, stop),
        cmocka_unit_test_setup_teardown(held__nothing_follows__arrives_after_the_hold_time, start,
                                        stop),
        cmocka_unit_test_setup_teardown(held__already_received__is_not_overtaken, start, stop),
        cmocka_unit_test_setup_teardown(repeated__in_a_used_slot__arrives_with_the_first, start,
                                        stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
