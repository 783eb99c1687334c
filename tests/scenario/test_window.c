/* SPDX-License-Identifier: BSD-3-Clause */
/* test_window.c - tests which accesses a bound memory window allows, and how the binding ends.
 *
 * b binds a window to its memory, and a accesses the window.
 */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "inside.h"
#include "windows.h"

static enum uroce_status use(struct twins *s, enum uroce_opcode opcode, uint32_t rkey,
                             uint64_t address, uint32_t length)
{
    const struct uroce_send request = {
        .opcode = opcode, .rkey = rkey, .remote_address = address, .wr_id = 3
    };
    struct uroce_completion cqe;

    memset(s->a.memory, 0x77, TWINS_MEMORY);
    twins_post(&s->a, &request, 0, length);
    twins_settle(s);
    uroce_engine_deliver(s->engine);
    assert_int_equal(uroce_cq_poll(s->a.cq, &cqe, 1), 1);
    return cqe.status;
}

/* ---- accesses that a binding allows -------------------------------------- */

static const struct {
    int64_t from; /* offset from the start of the window */
    uint64_t length;
    bool good;
} edges[] = {
    { 0, WINDOW_SPAN, true },
    { 0, 1, true },
    { WINDOW_SPAN - 1, 1, true },
    { WINDOW_SPAN, 1, false },
    { -1, 1, false },
    { -1, WINDOW_SPAN + 1, false },
    { 0, WINDOW_SPAN + 1, false },
    { 1, WINDOW_SPAN, false },
    { WINDOW_SPAN - 1, 2, false },
    { INT64_MIN, 8, false },
    { -(int64_t)WINDOW_BEGIN, WINDOW_BEGIN, false },
    { 0, 0x7fffffff, false },
};

/* Tries one access, on new queue pairs, because a refusal ends them. */
static void try_edge(size_t index, enum uroce_mw_type kind, bool zero_based)
{
    void *state;
    struct uroce_send request;

    twins_open(&state);
    struct twins *s = state;
    struct uroce_mw *window = windows_make(s, kind);
    twins_connect(s);
    memset(s->b.memory, 0xcc, TWINS_MEMORY);
    request = windows_request(s, window);
    if (zero_based)
        request.bind_access |= UROCE_ACCESS_ZERO_BASED;
    windows_bind(s, &request);

    uint64_t base = zero_based ? 0 : (uintptr_t)s->b.memory + WINDOW_BEGIN;
    uint64_t address = base + (uint64_t)edges[index].from;
    uint32_t length = (uint32_t)edges[index].length;
    enum uroce_status status = use(s, UROCE_RDMA_WRITE, request.rkey, address,
                                   length < TWINS_MEMORY ? length : TWINS_MEMORY);
    assert_int_equal(status, edges[index].good ? UROCE_SUCCESS : UROCE_REM_ACCESS_ERR);
    for (uint32_t i = 0; i < TWINS_MEMORY; i++) {
        bool inside = edges[index].good && i - WINDOW_BEGIN - (uint64_t)edges[index].from < length;
        assert_int_equal(s->b.memory[i], inside ? 0x77 : 0xcc);
    }
    assert_int_equal(uroce_mw_destroy(window), 0);
    twins_close(&state);
}

static void window__bound__allows_access_to_its_range_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(edges); i++) {
        try_edge(i, UROCE_MW_TYPE_1, false);
        try_edge(i, UROCE_MW_TYPE_2, false);
        try_edge(i, UROCE_MW_TYPE_2, true);
    }
    assert_true(uro_mark_hit("MW.REACH"));
}

static void window__with_one_access_right__refuses_other_accesses(void **state)
{
    static const struct {
        uint32_t right;
        enum uroce_opcode opcode;
    } uses[] = {
        { UROCE_ACCESS_REMOTE_WRITE, UROCE_RDMA_WRITE },
        { UROCE_ACCESS_REMOTE_READ, UROCE_RDMA_READ },
        { UROCE_ACCESS_REMOTE_ATOMIC, UROCE_FETCH_ADD },
    };
    (void)state;
    for (size_t i = 0; i < 9; i++) {
        void *opened;
        twins_open(&opened);
        struct twins *s = opened;
        struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_1);
        twins_connect(s);
        struct uroce_send request = windows_request(s, window);
        request.bind_access = uses[i / 3].right;
        windows_bind(s, &request);
        bool same = i / 3 == i % 3;
        assert_int_equal(
            use(s, uses[i % 3].opcode, request.rkey, (uintptr_t)s->b.memory + WINDOW_BEGIN, 8),
            same ? UROCE_SUCCESS : UROCE_REM_ACCESS_ERR);
        assert_int_equal(uroce_mw_destroy(window), 0);
        twins_close(&opened);
    }
}

static void window_2__used_through_another_queue_pair__is_refused(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_2);
    struct uroce_send request;

    twins_connect(s);
    request = windows_request(s, window);
    twins_post(&s->a, &request, 0, 0); /* a binds, and a's own requests arrive at b */
    twins_settle(s);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
    assert_int_equal(use(s, UROCE_RDMA_WRITE, request.rkey, request.remote_address, 8),
                     UROCE_REM_ACCESS_ERR);
    assert_true(uro_mark_hit("MW.QP"));
    assert_int_equal(uroce_mw_destroy(window), 0);
}

static void window__not_bound__access_is_refused(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_1);

    window->key.access = WINDOW_ACCESS;
    window->key.length = UINT64_MAX;
    window->key.memory = s->b.memory;
    twins_connect(s);
    assert_int_equal(use(s, UROCE_RDMA_WRITE, uroce_mw_key(window), 0, 8), UROCE_REM_ACCESS_ERR);
    assert_int_equal(uroce_mw_destroy(window), 0);
}

static void window__as_a_local_key__is_refused(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_1);

    twins_connect(s);
    struct uroce_send request = windows_request(s, window);
    windows_bind(s, &request);
    const struct uroce_sge sge = { request.remote_address, 1, request.rkey };
    const struct uroce_send send = {
        .wr_id = 3, .opcode = UROCE_SEND, .sges = &sge, .sge_count = 1
    };
    assert_int_equal(uroce_qp_send(s->b.qp, &send), 0);
    twins_settle(s);
    twins_expect(s, &s->b, 3, UROCE_LOC_PROT_ERR);
    assert_int_equal(uroce_mw_destroy(window), 0);
    assert_true(uro_mark_hit("MW.LOCAL"));
}

static void window_1__bound_again__has_the_new_range_and_key(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_1);

    twins_connect(s);
    struct uroce_send first = windows_request(s, window);
    windows_bind(s, &first);
    struct uroce_send second = windows_request(s, window);
    second.remote_address += 8192;
    windows_bind(s, &second);
    assert_int_equal(uroce_mr_destroy(s->b.mr), -EBUSY);
    assert_int_not_equal(first.rkey, second.rkey);
    assert_true(uro_mark_hit("MW.AGAIN"));
    assert_int_equal(use(s, UROCE_RDMA_WRITE, second.rkey, second.remote_address, WINDOW_SPAN),
                     UROCE_SUCCESS);
    assert_int_equal(use(s, UROCE_RDMA_WRITE, first.rkey, first.remote_address, 1),
                     UROCE_REM_ACCESS_ERR);
    assert_int_equal(uroce_mw_destroy(window), 0);
}

/* ---- the end of a binding ------------------------------------------------ */

static void region__with_a_window_bound__is_not_deregistered(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_1);

    twins_connect(s);
    struct uroce_send request = windows_request(s, window);
    windows_bind(s, &request);
    assert_int_equal(uroce_mr_destroy(s->b.mr), -EBUSY);
    assert_true(uro_mark_hit("KEY.WINDOWS"));
    assert_int_equal(use(s, UROCE_RDMA_WRITE, request.rkey, request.remote_address, 8),
                     UROCE_SUCCESS);
    struct uroce_send end = windows_request(s, window);
    end.bind_length = 0;
    windows_bind(s, &end);
    assert_int_equal(uroce_mr_destroy(s->b.mr), 0);
    s->b.mr = NULL;
    assert_int_equal(use(s, UROCE_RDMA_WRITE, end.rkey, request.remote_address, 8),
                     UROCE_REM_ACCESS_ERR);
    assert_int_equal(uroce_mw_destroy(window), 0);
}

static void region__of_a_removed_context__windows_are_removed_too(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *windows[3];

    twins_connect(s);
    for (int i = 0; i < 3; i++) {
        windows[i] = windows_make(s, i == 0 ? UROCE_MW_TYPE_1 : UROCE_MW_TYPE_2);
        struct uroce_send request = windows_request(s, windows[i]);
        if (i == 2) { /* into another region, which stays */
            request.mr = s->a.mr;
            request.remote_address = (uintptr_t)s->a.memory;
        }
        windows_bind(s, &request);
    }
    uro_key_expel(inside_shard(s->engine), &s->b.mr->key);
    assert_int_equal(uroce_mw_is_bound(windows[0]) + uroce_mw_is_bound(windows[1]), 0);
    assert_int_equal(uroce_mw_is_bound(windows[2]), 1);
    assert_int_equal(use(s, UROCE_RDMA_WRITE, uroce_mw_key(windows[0]), 0, 0), UROCE_SUCCESS);
    assert_int_equal(use(s, UROCE_RDMA_WRITE, uroce_mw_key(windows[0]),
                         (uintptr_t)s->b.memory + WINDOW_BEGIN, 8),
                     UROCE_REM_ACCESS_ERR);
    uro_key_register(inside_shard(s->engine), &s->b.mr->key); /* the fixture deregisters it */
    for (int i = 0; i < 3; i++)
        assert_int_equal(uroce_mw_destroy(windows[i]), 0);
}

static void window_2__invalidated_by_its_binder__can_be_bound_again(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_2);

    twins_connect(s);
    struct uroce_send request = windows_request(s, window);
    windows_bind(s, &request);
    windows_invalidate(s, &s->b, request.rkey, UROCE_SUCCESS);
    twins_register(s, &s->b, NULL, 0xf | UROCE_ACCESS_MW_BIND); /* no window is bound */
    request = windows_request(s, window);
    windows_bind(s, &request);
    assert_int_equal(use(s, UROCE_RDMA_READ, request.rkey, request.remote_address, 8),
                     UROCE_SUCCESS);
    windows_invalidate(s, &s->b, request.rkey, UROCE_SUCCESS);
    assert_int_equal(use(s, UROCE_RDMA_READ, request.rkey, request.remote_address, 8),
                     UROCE_REM_ACCESS_ERR);
    assert_int_equal(uroce_mw_destroy(window), 0);
}

static void local_inv__of_a_key_that_the_qp_may_not_invalidate__is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        void *opened;
        twins_open(&opened);
        struct twins *s = opened;
        struct uroce_mw *window = windows_make(s, i == 1 ? UROCE_MW_TYPE_1 : UROCE_MW_TYPE_2);
        twins_connect(s);
        struct uroce_send request = windows_request(s, window);
        if (i != 2)
            windows_bind(s, &request);
        const uint32_t keys[] = { uroce_mr_key(s->b.mr), uroce_mw_key(window), uroce_mw_key(window),
                                  uroce_mw_key(window),  uroce_mw_key(window), 0 };
        if (i == 4)
            window->key.pd = 2;
        /* Keys: of a region, a window of type 1, a free window, an old key, another PD, no
         * object. */
        windows_invalidate(s, &s->b, i == 3 ? keys[i] ^ 1 : keys[i], UROCE_MW_BIND_ERR);
        assert_true(uro_mark_hit("MW.INVALIDATE.REFUSED"));
        assert_int_equal(uroce_mw_is_bound(window), i != 2);
        windows_invalidate(s, &s->a, uroce_mw_key(window), UROCE_MW_BIND_ERR);
        assert_int_equal(uroce_mw_destroy(window), 0);
        twins_close(&opened);
    }
    assert_true(uro_mark_hit("MW.INVALIDATE"));
}

/* ---- SEND with invalidate ------------------------------------------------ */

static void send_with_inv(struct twins *s, uint32_t rkey, uint32_t length)
{
    const struct uroce_send request = { .wr_id = 4, .opcode = UROCE_SEND_WITH_INV, .imm = rkey };

    twins_fill(&s->a, 0, length);
    twins_post(&s->a, &request, 0, length);
    twins_settle(s);
}

static void send_with_inv__of_a_bound_window__invalidates_and_completion_has_the_key(void **state)
{
    struct twins *s = *state;
    struct uroce_mw *window = windows_make(s, UROCE_MW_TYPE_2);
    struct uroce_completion cqe;

    twins_connect(s);
    for (uint32_t length = 0; length <= 3000; length += 3000) {
        struct uroce_send request = windows_request(s, window);
        windows_bind(s, &request);
        twins_post_recv(&s->b, 5, 16384, 3000);
        send_with_inv(s, request.rkey, length);
        twins_expect(s, &s->a, 4, UROCE_SUCCESS);
        uroce_engine_deliver(s->engine);
        assert_int_equal(uroce_cq_poll(s->b.cq, &cqe, 1), 1);
        assert_int_equal(cqe.wr_id, 5);
        assert_int_equal(cqe.status, UROCE_SUCCESS);
        assert_int_equal(cqe.flags, UROCE_COMPLETION_WITH_INV);
        assert_int_equal(cqe.imm, request.rkey);
        assert_int_equal(cqe.length, length);
        assert_memory_equal(s->b.memory + 16384, s->a.memory, length);
        assert_true(uro_mark_hit("RSP.INVALIDATE"));
        assert_false(uroce_mw_is_bound(window));
    }
    assert_int_equal(uroce_mw_destroy(window), 0);
}

/* bug B23 */
static void send_with_inv__of_a_wrong_key__is_refused_and_not_delivered(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        void *opened;
        twins_open(&opened);
        struct twins *s = opened;
        struct uroce_mw *window = windows_make(s, i == 1 ? UROCE_MW_TYPE_1 : UROCE_MW_TYPE_2);
        twins_connect(s);
        struct uroce_send request = windows_request(s, window);
        if (i == 3) { /* posted to the other queue pair */
            twins_post(&s->a, &request, 0, 0);
            twins_settle(s);
            twins_expect(s, &s->a, 1, UROCE_SUCCESS);
        } else if (i != 2) {
            windows_bind(s, &request);
        }
        memset(s->b.memory + 16384, 0, 100);
        twins_post_recv(&s->b, 5, 16384, 100);
        send_with_inv(s, i == 0 ? uroce_mr_key(s->b.mr) : uroce_mw_key(window), 100);
        twins_expect(s, &s->a, 4, UROCE_REM_ACCESS_ERR);
        twins_expect(s, &s->b, 5, UROCE_WR_FLUSH_ERR);
        for (int j = 0; j < 100; j++)
            assert_int_equal(s->b.memory[16384 + j], 0);
        assert_int_equal(uroce_mw_is_bound(window), i != 2);
        assert_int_equal(uroce_mw_destroy(window), 0);
        twins_close(&opened);
    }
}

#define TWINS_TEST(name) cmocka_unit_test_setup_teardown(name, twins_open, twins_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window__bound__allows_access_to_its_range_only),
        cmocka_unit_test(window__with_one_access_right__refuses_other_accesses),
        TWINS_TEST(window_2__used_through_another_queue_pair__is_refused),
        TWINS_TEST(window__not_bound__access_is_refused),
        TWINS_TEST(window__as_a_local_key__is_refused),
        TWINS_TEST(window_1__bound_again__has_the_new_range_and_key),
        TWINS_TEST(region__with_a_window_bound__is_not_deregistered),
        TWINS_TEST(region__of_a_removed_context__windows_are_removed_too),
        TWINS_TEST(window_2__invalidated_by_its_binder__can_be_bound_again),
        cmocka_unit_test(local_inv__of_a_key_that_the_qp_may_not_invalidate__is_an_error),
        TWINS_TEST(send_with_inv__of_a_bound_window__invalidates_and_completion_has_the_key),
        cmocka_unit_test(send_with_inv__of_a_wrong_key__is_refused_and_not_delivered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
