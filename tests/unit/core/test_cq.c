/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cq.c - tests the completion ring: order, capacity, arming, resizing, removing entries. */
#include "base/mark.h"
#include "core/cq.h"

#include <stdlib.h>

#include "core/shard.h"
#include "support/check.h"

static struct uro_shard shard;
static struct uro_record record;
static void *tables;

static int open_shard(void **state)
{
    const struct uro_shard_config config = { .table_bits = 4 };

    (void)state;
    tables = aligned_alloc(64, (uro_shard_table_size(&config) + 63) & ~(size_t)63);
    uro_shard_init(&shard, &config, tables, &record, 0);
    return 0;
}

static int close_shard(void **state)
{
    (void)state;
    free(tables);
    return 0;
}

static struct uro_cq *make(uint32_t capacity)
{
    return uro_cq_init(aligned_alloc(64, (uro_cq_size(capacity) + 63) & ~(size_t)63), capacity,
                       &shard);
}

static void drop(struct uro_cq *cq)
{
    uro_cq_fini(cq);
    free(cq);
}

static bool push(struct uro_cq *cq, uint64_t id, uint32_t qpn)
{
    const struct uro_cqe cqe = { .wr_id = id, .qpn = qpn };
    return uro_cq_push(&shard, cq, &cqe, false);
}

/* Makes the completions visible and polls them, as a program does after the round. */
static uint32_t take(struct uro_cq *cq, struct uro_cqe *out, uint32_t room)
{
    uro_cq_deliver(cq);
    return uro_cq_poll(cq, out, room);
}

static void expect_event(enum uro_event_kind kind)
{
    struct uro_event event;

    assert_true(uro_shard_event(&shard, &event));
    assert_int_equal(event.kind, kind);
    assert_ptr_equal(event.user, &shard);
}

static void expect_no_event(void)
{
    struct uro_event event;
    assert_false(uro_shard_event(&shard, &event));
}

static void cq__filled_and_emptied_often__completions_are_in_order(void **state)
{
    struct uro_cq *cq = make(3); /* capacity that is not a power of two */
    struct uro_cqe out[8];
    uint64_t next = 0, seen = 0;

    (void)state;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 3; i++)
            assert_true(push(cq, next++, 1));
        assert_int_equal(take(cq, out, 2), 2);
        assert_int_equal(take(cq, out + 2, 8), 1);
        for (int i = 0; i < 3; i++)
            assert_int_equal(out[i].wr_id, seen++);
    }
    assert_int_equal(take(cq, out, 8), 0);
    drop(cq);
}

static void cq__one_more_than_its_capacity__error_event_and_old_entries_remain(void **state)
{
    struct uro_cq *cq = make(2);
    struct uro_cqe out[4];

    (void)state;
    assert_true(push(cq, 1, 1));
    assert_true(push(cq, 2, 1));
    assert_false(push(cq, 3, 1));
    expect_event(URO_EVENT_CQ_ERR);
    expect_no_event();
    assert_int_equal(take(cq, out, 4), 2);
    assert_false(push(cq, 4, 1)); /* the CQ stays in error */
    drop(cq);
}

static void cq__full_with_ignore_overrun__drops_the_newest_and_continues(void **state)
{
    uint64_t lost = shard.counters->value[URO_COUNT_CQ_LOST];
    struct uro_cq *cq = make(2);
    struct uro_cqe out[4];

    (void)state;
    uro_mark_clear();
    uro_cq_ignore_overrun(cq);
    assert_true(push(cq, 1, 1));
    assert_true(push(cq, 2, 1));
    uro_cq_arm(cq, false);
    assert_true(push(cq, 3, 1));
    assert_int_equal(shard.counters->value[URO_COUNT_CQ_LOST], lost + 1);
    expect_event(URO_EVENT_COMPLETION); /* a waiting program must get an event */
    expect_no_event();
    assert_int_equal(take(cq, out, 4), 2);
    assert_int_equal(out[1].wr_id, 2);
    assert_true(push(cq, 4, 1));
    assert_int_equal(take(cq, out, 4), 1);
    assert_int_equal(out[0].wr_id, 4);
    drop(cq);
    assert_true(uro_mark_hit("CQ.OVERRUN.IGNORED"));
}

static void move(struct uro_cq *cq, void **ring, uint32_t capacity)
{
    void *to = aligned_alloc(64, (uro_cq_ring_size(capacity) + 63) & ~(size_t)63);

    assert_true(uro_cq_move(cq, to, capacity));
    free(*ring);
    *ring = to;
}

static void cq_move__at_every_fill_and_offset__keeps_order_and_has_the_new_capacity(void **state)
{
    static const uint32_t capacities[] = { 3, 8, 4, 1, 2, 7, 100, 5 };
    uint64_t next = 0, seen = 0;
    struct uro_cq *cq = make(3);
    uint32_t capacity = 3;
    struct uro_cqe out;
    void *ring = NULL;

    (void)state;
    uro_mark_clear();
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t to = capacities[round % URO_ARRAY_LEN(capacities)];
        uint32_t fill = round / 8 % ((to < capacity ? to : capacity) + 1);
        while (next - seen < fill)
            assert_true(push(cq, next++, 1));
        move(cq, &ring, capacity = to);
        while (next - seen < capacity)
            assert_true(push(cq, next++, 1));
        while (take(cq, &out, 1) == 1)
            assert_int_equal(out.wr_id, seen++);
        assert_int_equal(seen, next);
    }
    while (next - seen < capacity)
        assert_true(push(cq, next++, 1));
    assert_false(push(cq, next, 1));
    expect_event(URO_EVENT_CQ_ERR);
    drop(cq);
    free(ring);
    assert_true(uro_mark_hit("CQ.RESIZE"));
}

static void cq_move__to_less_than_pending_completions__changes_nothing(void **state)
{
    struct uro_cq *cq = make(4);
    struct uro_cqe small[2], out[4];

    (void)state;
    for (uint64_t id = 0; id < 3; id++)
        assert_true(push(cq, id, 1));
    assert_false(uro_cq_move(cq, small, 2));
    assert_true(push(cq, 3, 1));
    assert_int_equal(take(cq, out, 4), 4);
    for (uint64_t id = 0; id < 4; id++)
        assert_int_equal(out[id].wr_id, id);
    drop(cq);
}

static void cq_disarm__of_an_armed_cq__a_completion_makes_no_event_until_it_is_armed_again(
    void **state)
{
    struct uro_cq *cq = make(4);

    (void)state;
    uro_cq_arm(cq, false);
    uro_cq_disarm(cq);
    assert_true(push(cq, 1, 1));
    expect_no_event();
    uro_cq_arm(cq, true);
    assert_true(push(cq, 2, 1)); /* no longer armed for the next completion of any kind */
    expect_no_event();
    uro_cq_arm(cq, false);
    assert_true(push(cq, 3, 1));
    expect_event(URO_EVENT_COMPLETION);
    drop(cq);
}

static void cq_move__of_an_armed_cq__remains_armed(void **state)
{
    struct uro_cq *cq = make(2);
    void *ring = NULL;

    (void)state;
    uro_cq_arm(cq, true);
    move(cq, &ring, 8);
    assert_true(push(cq, 1, 1));
    expect_no_event();
    uro_cq_arm(cq, false);
    move(cq, &ring, 4);
    assert_true(push(cq, 2, 1));
    expect_event(URO_EVENT_COMPLETION);
    drop(cq);
    free(ring);
}

static void cq__armed__one_event_and_none_for_earlier_completions(void **state)
{
    struct uro_cq *cq = make(8);

    (void)state; /* rule CQ.ARM */
    assert_true(push(cq, 1, 1));
    expect_no_event(); /* the round is over */
    uro_cq_arm(cq, false);
    uro_cq_arm(cq, true); /* the CQ stays armed for all completions */
    expect_no_event();
    assert_true(push(cq, 2, 1));
    assert_true(push(cq, 3, 1));
    expect_event(URO_EVENT_COMPLETION);
    expect_no_event();
    drop(cq);
}

/* The reader may not have seen the completion, so it gets an event. */
static void cq__armed_within_a_round__completions_of_the_round_raise_event(void **state)
{
    struct uro_cq *cq = make(8);

    (void)state; /* rule CQ.ARM */
    assert_true(push(cq, 1, 1));
    uro_cq_arm(cq, false);
    expect_event(URO_EVENT_COMPLETION);
    expect_no_event();
    drop(cq);
}

static void cq__armed_for_solicited__an_error_raises_an_event(void **state)
{
    struct uro_cq *cq = make(8);
    const struct uro_cqe failed = { .status = URO_WC_WR_FLUSH_ERR };

    (void)state;
    uro_cq_arm(cq, true);
    assert_true(push(cq, 1, 1));
    expect_no_event();
    assert_true(uro_cq_push(&shard, cq, &failed, false));
    expect_event(URO_EVENT_COMPLETION);
    drop(cq);
}

static void cq_forget__only_that_queue_pair__the_rest_in_order(void **state)
{
    struct uro_cq *cq = make(8);
    struct uro_cqe out[8];

    (void)state;
    for (uint64_t id = 0; id < 8; id++)
        assert_true(push(cq, id, id % 3 == 0 ? 5 : 6));
    uro_cq_forget(cq, 5);
    assert_int_equal(take(cq, out, 8), 5);
    static const uint64_t left[] = { 1, 2, 4, 5, 7 };
    for (size_t i = 0; i < URO_ARRAY_LEN(left); i++)
        assert_int_equal(out[i].wr_id, left[i]);
    drop(cq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cq__filled_and_emptied_often__completions_are_in_order),
        cmocka_unit_test(cq__one_more_than_its_capacity__error_event_and_old_entries_remain),
        cmocka_unit_test(cq__full_with_ignore_overrun__drops_the_newest_and_continues),
        cmocka_unit_test(cq_move__at_every_fill_and_offset__keeps_order_and_has_the_new_capacity),
        cmocka_unit_test(cq_move__to_less_than_pending_completions__changes_nothing),
        cmocka_unit_test(
            cq_disarm__of_an_armed_cq__a_completion_makes_no_event_until_it_is_armed_again),
        cmocka_unit_test(
            cq_disarm__of_an_armed_cq__a_completion_makes_no_event_until_it_is_armed_again),
        cmocka_unit_test(cq_move__of_an_armed_cq__remains_armed),
        cmocka_unit_test(cq__armed__one_event_and_none_for_earlier_completions),
        cmocka_unit_test(cq__armed_within_a_round__completions_of_the_round_raise_event),
        cmocka_unit_test(cq__armed_for_solicited__an_error_raises_an_event),
        cmocka_unit_test(cq_forget__only_that_queue_pair__the_rest_in_order),
    };
    return cmocka_run_group_tests(tests, open_shard, close_shard);
}
