/* SPDX-License-Identifier: BSD-3-Clause */
/* test_window_bind.c - tests which memory windows can be bound, and when a bind completes.
 *
 * Endpoint b binds a window to a region of its own. Endpoint a is the peer.
 */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "inside.h"
#include "windows.h"

/* ---- refused binds ------------------------------------------------------- */

struct attempt {
    struct uro_key *region;
    struct uro_key *window;
    struct uro_wqe *request;
};

static void no_bind_right(const struct attempt *a)
{
    a->region->access &= ~UROCE_ACCESS_MW_BIND;
}
static void other_region_pd(const struct attempt *a)
{
    a->region->pd = 2;
}
static void other_window_pd(const struct attempt *a)
{
    a->window->pd = 2;
}
static void writes_what_is_read_only(const struct attempt *a)
{
    a->region->access &= ~UROCE_ACCESS_LOCAL_WRITE;
    a->request->bind.access = UROCE_ACCESS_REMOTE_WRITE;
}
static void changes_what_is_read_only(const struct attempt *a)
{
    a->region->access &= ~UROCE_ACCESS_LOCAL_WRITE;
    a->request->bind.access = UROCE_ACCESS_REMOTE_ATOMIC;
}
static void one_byte_more(const struct attempt *a)
{
    a->request->window_length = TWINS_MEMORY - WINDOW_BEGIN + 1;
}
static void one_byte_before(const struct attempt *a)
{
    a->request->remote_address = a->region->base - 1;
}
static void range_that_wraps(const struct attempt *a)
{
    a->request->window_length = UINT64_MAX;
}
static void range_that_wraps_to_the_region(const struct attempt *a)
{
    a->request->remote_address = UINT64_MAX - 7;
    a->request->window_length = a->region->base + 16;
}
static void zero_based_region(const struct attempt *a)
{
    a->region->access |= UROCE_ACCESS_ZERO_BASED;
}
static void right_that_windows_do_not_have(const struct attempt *a)
{
    a->request->bind.access |= UROCE_ACCESS_MW_BIND;
}
static void right_to_flush(const struct attempt *a)
{
    a->request->bind.access |= UROCE_ACCESS_FLUSH_GLOBAL;
}
static void no_such_region(const struct attempt *a)
{
    a->request->bind.lkey ^= 0x100;
}
static void stale_region(const struct attempt *a)
{
    a->request->bind.lkey ^= 1;
}
static void no_such_window(const struct attempt *a)
{
    a->request->imm ^= 0x100;
}
static void window_as_region(const struct attempt *a)
{
    a->request->bind.lkey = uro_key_number(a->window);
}
static void region_as_window(const struct attempt *a)
{
    a->request->imm = a->request->rkey = uro_key_number(a->region);
}
static void nothing_to_bind(const struct attempt *a)
{
    a->window->kind = URO_KEY_WINDOW_2;
    a->request->window_length = 0;
}
static void zero_based_window_1(const struct attempt *a)
{
    a->request->bind.access |= UROCE_ACCESS_ZERO_BASED;
}
static void null_region(const struct attempt *a)
{
    a->region->kind = URO_KEY_NULL;
}

static void (*const wrongs[])(const struct attempt *attempt) = {
    no_bind_right,
    other_region_pd,
    other_window_pd,
    writes_what_is_read_only,
    changes_what_is_read_only,
    one_byte_more,
    one_byte_before,
    range_that_wraps,
    range_that_wraps_to_the_region,
    zero_based_region,
    right_that_windows_do_not_have,
    right_to_flush,
    no_such_region,
    stale_region,
    no_such_window,
    window_as_region,
    region_as_window,
    nothing_to_bind,
    zero_based_window_1,
    null_region,
};

static void bind__not_allowed__is_an_error_and_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(wrongs); i++) {
        void *opened;
        twins_open(&opened);
        struct twins *s = opened;
        struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_1);
        twins_connect(s);
        const struct uroce_send request = windows_request(s, window);
        const uint32_t number = uroce_mw_key(window);
        twins_post(&s->b, &request, 0, 0);
        wrongs[i](
            &(const struct attempt){ &s->b.mr->key, &window->key, inside_request(s->b.qp, 0) });
        twins_settle(s);
        print_message("# wrong number %zu\n", i);
        twins_expect(s, &s->b, 1, UROCE_MW_BIND_ERR);
        assert_true(uro_mark_hit("MW.BIND.REFUSED"));
        assert_int_equal(uroce_qp_state(s->b.qp), UROCE_ERR);
        assert_int_equal(uroce_mw_key(window), number);
        assert_int_equal(uroce_mw_is_bound(window), 0);
        s->b.mr->key.kind = URO_KEY_REGION;
        assert_int_equal(uroce_mw_destroy(window), 0);
        twins_close(&opened); /* the region has no windows */
    }
    assert_true(uro_mark_hit("MW.BIND"));
}

static void window_2__bound_while_bound__is_an_error(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_2);

    twins_connect(s);
    struct uroce_send request = windows_request(s, window);
    windows_bind(s, &request);
    request = windows_request(s, window);
    twins_post(&s->b, &request, 0, 0);
    twins_settle(s);
    twins_expect(s, &s->b, 1, UROCE_MW_BIND_ERR);
    assert_true(uroce_mw_is_bound(window));
    assert_int_equal(uroce_mr_destroy(s->b.mr), -EBUSY);
    assert_int_equal(uroce_mw_destroy(window), 0);
}

/* ---- order of execution -------------------------------------------------- */

/* Without a fence, a bind after a READ is executed at once. With a fence, it is executed after the
 * READ has completed. In both cases it completes after the READ. */
static void local_requests__after_a_read__complete_in_order(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_2);
    struct uroce_send read = { .wr_id = 9, .opcode = UROCE_RDMA_READ };

    twins_connect(s);
    read.remote_address = (uintptr_t)s->a.memory;
    read.rkey = uroce_mr_key(s->a.mr);
    for (int fenced = 0; fenced < 2; fenced++) {
        struct uroce_send request = windows_request(s, window);
        request.flags = fenced ? UROCE_FENCE : 0;
        twins_post(&s->b, &read, 65536, 8000);
        twins_post(&s->b, &request, 0, 0);
        (void)twins_output(s, 2);
        assert_int_equal(uroce_mw_is_bound(window), !fenced);
        twins_expect_nothing(s, &s->b);
        twins_settle(s);
        twins_expect(s, &s->b, 9, UROCE_SUCCESS);
        twins_expect(s, &s->b, 1, UROCE_SUCCESS);
        assert_true(uroce_mw_is_bound(window));
        windows_invalidate(s, &s->b, uroce_mw_key(window), UROCE_SUCCESS);
    }
    assert_int_equal(uroce_mw_destroy(window), 0);
    assert_true(uro_mark_hit("REQ.LOCAL.TURN"));
}

static void local_requests__in_error__are_flushed_and_not_executed(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_2);

    twins_connect(s);
    struct uroce_send request = windows_request(s, window);
    struct uroce_send wrong = request;
    wrong.wr_id = 6;
    wrong.bind_length = UINT64_MAX;
    twins_post(&s->b, &wrong, 0, 0);
    twins_post(&s->b, &request, 0, 0);
    twins_settle(s);
    twins_expect(s, &s->b, 6, UROCE_MW_BIND_ERR);
    twins_expect(s, &s->b, 1, UROCE_WR_FLUSH_ERR);
    assert_false(uroce_mw_is_bound(window));
    assert_int_equal(uroce_mw_destroy(window), 0);
}

/* The peer had no receive. Local requests between the retransmitted requests are not executed
 * again. */
static void local_requests__among_retransmits__are_not_repeated(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_2);

    twins_connect(s);
    struct uroce_send request = windows_request(s, window);
    twins_post_send(&s->b, 10, 0, 8); /* a has no receive, so b gets an RNR NAK and goes back */
    twins_post(&s->b, &request, 0, 0);
    twins_post_send(&s->b, 11, 8, 8);
    twins_settle(s);
    assert_true(uroce_mw_is_bound(window));
    twins_expect_nothing(s, &s->b);
    twins_post_recv(&s->a, 20, 1024, 64);
    twins_post_recv(&s->a, 21, 2048, 64);
    twins_pass_time(s, s->now + URO_MS(20));
    twins_expect(s, &s->b, 10, UROCE_SUCCESS);
    twins_expect(s, &s->b, 1, UROCE_SUCCESS);
    twins_expect(s, &s->b, 11, UROCE_SUCCESS);
    assert_int_equal(uroce_mw_key(window), request.rkey);
    assert_int_equal(uroce_mr_destroy(s->b.mr), -EBUSY);
    assert_int_equal(uroce_mw_destroy(window), 0);
}

#define TWINS_TEST(name) cmocka_unit_test_setup_teardown(name, twins_open, twins_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bind__not_allowed__is_an_error_and_changes_nothing),
        TWINS_TEST(window_2__bound_while_bound__is_an_error),
        TWINS_TEST(local_requests__after_a_read__complete_in_order),
        TWINS_TEST(local_requests__in_error__are_flushed_and_not_executed),
        TWINS_TEST(local_requests__among_retransmits__are_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
