/* SPDX-License-Identifier: BSD-3-Clause */
/* test_loop.c - tests which of the described frames go to the loop, which frames stay for the port,
 * and their order. */
#include "engine/loopback.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"

#define MTU 600u

static struct uro_loop loop;
static uint8_t *memory;

static int open_loop(void **state)
{
    (void)state;
    memory = aligned_alloc(64, uro_loop_size(MTU));
    assert_non_null(memory);
    memset(memory, 0xa5, uro_loop_size(MTU));
    uro_loop_init(&loop, MTU, memory);
    return 0;
}

static int close_loop(void **state)
{
    (void)state;
    free(memory);
    return 0;
}

/* Describes a frame that contains a letter ten times. */
static void describe(struct uro_tx *tx, char letter, enum uro_tx_way way)
{
    memset(tx, 0, sizeof *tx);
    tx->way = way;
    tx->head_length = 10;
    memset(tx->head, letter, 10);
}

static void expect_kept(const char *letters)
{
    assert_int_equal(loop.count, strlen(letters));
    for (uint32_t i = 0; i < loop.count; i++) {
        assert_int_equal(loop.frames[i].length, 10);
        assert_int_equal(loop.frames[i].octets[0], letters[i]);
        assert_int_equal(loop.frames[i].octets[9], letters[i]);
    }
}

static void take__looped_and_other_frames__others_keep_their_order(void **state)
{
    struct uro_tx tx[6];

    (void)state;
    describe(&tx[0], 'a', URO_TX_WIRE);
    describe(&tx[1], 'b', URO_TX_LOCAL);
    describe(&tx[2], 'c', URO_TX_BOTH);
    describe(&tx[3], 'd', URO_TX_LOCAL);
    describe(&tx[4], 'e', URO_TX_WIRE);
    describe(&tx[5], 'f', URO_TX_LOCAL);
    assert_int_equal(uro_loop_take(&loop, tx, 6), 3);
    assert_int_equal(tx[0].head[0], 'a');
    assert_int_equal(tx[1].head[0], 'c');
    assert_int_equal(tx[2].head[0], 'e');
    expect_kept("bcdf");
}

static void take__twice__appends(void **state)
{
    struct uro_tx tx;

    (void)state;
    describe(&tx, 'a', URO_TX_LOCAL);
    assert_int_equal(uro_loop_take(&loop, &tx, 1), 0);
    describe(&tx, 'b', URO_TX_BOTH);
    assert_int_equal(uro_loop_take(&loop, &tx, 1), 1);
    expect_kept("ab");
}

static void take__most_and_largest_frames__do_not_overlap(void **state)
{
    static struct uro_tx tx[URO_LOOP_FRAMES];
    static uint8_t payload[18 + MTU - 10];

    (void)state;
    for (uint32_t i = 0; i < URO_LOOP_FRAMES; i++) {
        describe(&tx[i], (char)('A' + i), URO_TX_LOCAL);
        tx[i].payload_length = sizeof payload;
        tx[i].span_count = 1;
        tx[i].spans[0] = (struct uro_span){ .data = payload, .length = sizeof payload };
    }
    memset(payload, 0xff, sizeof payload);
    assert_int_equal(uro_loop_take(&loop, tx, URO_LOOP_FRAMES), 0);
    assert_int_equal(loop.count, URO_LOOP_FRAMES);
    for (uint32_t i = 0; i < URO_LOOP_FRAMES; i++) {
        const struct uro_pkt *pkt = &loop.frames[i];
        assert_int_equal(pkt->length, 18 + MTU);
        assert_int_equal(pkt->octets[0], 'A' + i);
        assert_memory_equal(pkt->octets + 10, payload, sizeof payload);
        assert_true(pkt->octets + pkt->length <= memory + uro_loop_size(MTU));
    }
}

static void init__memory_of_the_buffers__is_not_touched(void **state)
{
    struct uro_tx tx;

    (void)state;
    describe(&tx, 'a', URO_TX_WIRE);
    assert_int_equal(uro_loop_take(&loop, &tx, 1), 1);
    for (size_t i = 0; i < uro_loop_size(MTU); i++)
        assert_int_equal(memory[i], 0xa5);
}

int main(void)
{
#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, open_loop, close_loop)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(take__looped_and_other_frames__others_keep_their_order),
        LOOP_TEST(take__twice__appends),
        LOOP_TEST(take__most_and_largest_frames__do_not_overlap),
        LOOP_TEST(init__memory_of_the_buffers__is_not_touched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
