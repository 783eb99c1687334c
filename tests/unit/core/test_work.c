/* SPDX-License-Identifier: BSD-3-Clause */
/* test_work.c - tests the rings of work requests: the capacity, and the positions of the slots. */
#include "core/work.h"

#include <string.h>

#include "core/limits.h"
#include "support/check.h"

#define CAPACITY 3u /* the ring has four slots */

static _Alignas(64) uint8_t memory[4096];

static void open_queue(struct uro_wq *wq)
{
    assert_in_range(uro_wq_layout_recv(wq, CAPACITY, 1), 4 * sizeof(struct uro_rqe), sizeof memory);
    uro_wq_lend(wq, memory);
}

static struct uro_rqe *post(struct uro_wq *wq, uint64_t wr_id)
{
    struct uro_rqe *rqe = uro_wq_reserve(wq, 0);

    if (rqe != NULL) {
        rqe->wr_id = wr_id;
        uro_wq_publish(wq, 1);
    }
    return rqe;
}

static void reserve__as_many_as_fit__one_more_per_finished_request(void **state)
{
    struct uro_wq wq;

    (void)state;
    open_queue(&wq);
    for (uint32_t i = 0; i < CAPACITY; i++)
        assert_non_null(post(&wq, i));
    assert_null(post(&wq, CAPACITY));
    for (uint32_t i = 0; i < 20; i++) {
        const struct uro_rqe *oldest = uro_wq_slot(&wq, uro_wq_head(&wq));
        assert_int_equal(oldest->wr_id, i);
        uro_wq_finish(&wq, i + 1);
        assert_int_equal(uro_wq_tail(&wq), i + CAPACITY);
        assert_non_null(post(&wq, i + CAPACITY));
        assert_null(post(&wq, 99));
    }
}

static void reserve__several_ahead__stops_at_capacity(void **state)
{
    struct uro_wq wq;

    (void)state;
    open_queue(&wq);
    assert_non_null(post(&wq, 0));
    assert_non_null(uro_wq_reserve(&wq, 1));
    assert_null(uro_wq_reserve(&wq, 2));
    uro_wq_finish(&wq, 1);
    assert_ptr_equal(uro_wq_reserve(&wq, 2), uro_wq_slot(&wq, 3));
}

static void reserve__indices_wrap_at_2_32__capacity_is_unchanged(void **state)
{
    struct uro_wq wq;

    (void)state;
    open_queue(&wq);
    atomic_init(&wq.tail, UINT32_MAX);
    atomic_init(&wq.head, UINT32_MAX);
    wq.head_seen = UINT32_MAX - CAPACITY;
    for (uint32_t i = 0; i < CAPACITY; i++)
        assert_non_null(post(&wq, i));
    assert_null(post(&wq, CAPACITY));
    assert_int_equal(uro_wq_tail(&wq), CAPACITY - 1);
}

static void replace__with_pending_requests__keeps_the_requests_and_has_the_new_capacity(
    void **state)
{
    static _Alignas(64) uint8_t more[4096];
    struct uro_wq wq, larger;

    (void)state;
    open_queue(&wq);
    for (uint32_t i = 0; i < CAPACITY; i++)
        assert_non_null(post(&wq, i));
    uro_wq_finish(&wq, 1);
    assert_in_range(uro_wq_layout_recv(&larger, CAPACITY + 1, 1), 1, sizeof more);
    uro_wq_lend(&larger, more);
    for (uint32_t i = 0; i < CAPACITY - 1; i++)
        memcpy(uro_wq_slot(&larger, i), uro_wq_slot(&wq, 1 + i), larger.slots.stride);
    uro_wq_replace(&wq, &larger, CAPACITY - 1);
    assert_non_null(post(&wq, 3));
    assert_non_null(post(&wq, 4));
    assert_null(post(&wq, 5));
    for (uint32_t i = 0; i < 4; i++) {
        const struct uro_rqe *rqe = uro_wq_slot(&wq, uro_wq_head(&wq) + i);
        assert_int_equal(rqe->wr_id, i + 1);
        assert_in_range((uintptr_t)rqe, (uintptr_t)more, (uintptr_t)more + sizeof more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserve__as_many_as_fit__one_more_per_finished_request),
        cmocka_unit_test(reserve__several_ahead__stops_at_capacity),
        cmocka_unit_test(reserve__indices_wrap_at_2_32__capacity_is_unchanged),
        cmocka_unit_test(
            replace__with_pending_requests__keeps_the_requests_and_has_the_new_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
