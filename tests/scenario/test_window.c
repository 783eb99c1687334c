/* SPDX-License-Identifier: BSD-3-Clause */
/* test_window.c - memory windows: which accesses a binding allows, and how the binding ends.
 *
 * b binds a window to its memory, and a accesses the window.
 */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "windows.h"

static enum uro_wc_status use(struct twins *s, enum uro_wr_opcode opcode, uint32_t rkey,
                              uint64_t address, uint32_t length)
{
    const struct uro_wqe request = { .opcode = (uint8_t)opcode,
                                     .rkey = rkey,
                                     .remote_address = address,
                                     .length = length,
                                     .wr_id = 3 };
    struct uro_cqe cqe;

    memset(s->a.memory, 0x77, TWINS_MEMORY);
    twins_post(s, &s->a, &request, 0);
    twins_settle(s);
    uro_engine_deliver(s->engine);
    assert_int_equal(uro_cq_poll(s->a.cq, &cqe, 1), 1);
    return cqe.status;
}

/* ---- what a binding opens ------------------------------------------------ */

static const struct {
    int64_t from; /* of the window's beginning */
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

/* Tries each access on new queue pairs, because a refusal ends them. */
static void try_edge(size_t index, enum uro_key_kind kind, bool zero_based)
{
    void *state;
    struct uro_wqe request;

    twins_open(&state);
    struct twins *s = state;
    struct uro_key window = windows_make(s, kind);
    uro_key_register(windows_shard(s), &window);
    twins_connect(s);
    memset(s->b.memory, 0xcc, TWINS_MEMORY);
    request = windows_request(s, &window);
    if (zero_based)
        request.bind.access |= URO_ACCESS_ZERO_BASED;
    windows_bind(s, &request);

    uint64_t base = zero_based ? 0 : (uintptr_t)s->b.memory + WINDOW_BEGIN;
    uint64_t address = base + (uint64_t)edges[index].from;
    uint32_t length = (uint32_t)edges[index].length;
    enum uro_wc_status status = use(s, URO_WR_RDMA_WRITE, request.rkey, address,
                                    length < TWINS_MEMORY ? length : TWINS_MEMORY);
    assert_int_equal(status, edges[index].good ? URO_WC_SUCCESS : URO_WC_REM_ACCESS_ERR);
    for (uint32_t i = 0; i < TWINS_MEMORY; i++) {
        bool inside = edges[index].good && i - WINDOW_BEGIN - (uint64_t)edges[index].from < length;
        assert_int_equal(s->b.memory[i], inside ? 0x77 : 0xcc);
    }
    assert_int_equal(uro_key_deregister(windows_shard(s), &window), 0);
    twins_close(&state);
}

static void window__bound__opens_its_octets_and_not_one_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(edges); i++) {
        try_edge(i, URO_KEY_WINDOW_1, false);
        try_edge(i, URO_KEY_WINDOW_2, false);
        try_edge(i, URO_KEY_WINDOW_2, true);
    }
    assert_true(uro_mark_hit("MW.REACH"));
}

static void window__with_one_right__refuses_the_others(void **state)
{
    static const struct {
        uint32_t right;
        enum uro_wr_opcode opcode;
    } uses[] = {
        { URO_ACCESS_REMOTE_WRITE, URO_WR_RDMA_WRITE },
        { URO_ACCESS_REMOTE_READ, URO_WR_RDMA_READ },
        { URO_ACCESS_REMOTE_ATOMIC, URO_WR_ATOMIC_FETCH_AND_ADD },
    };
    (void)state;
    for (size_t i = 0; i < 9; i++) {
        void *opened;
        twins_open(&opened);
        struct twins *s = opened;
        struct uro_key window = windows_make(s, URO_KEY_WINDOW_1);
        uro_key_register(windows_shard(s), &window);
        twins_connect(s);
        struct uro_wqe request = windows_request(s, &window);
        request.bind.access = uses[i / 3].right;
        windows_bind(s, &request);
        bool same = i / 3 == i % 3;
        assert_int_equal(
            use(s, uses[i % 3].opcode, request.rkey, (uintptr_t)s->b.memory + WINDOW_BEGIN, 8),
            same ? URO_WC_SUCCESS : URO_WC_REM_ACCESS_ERR);
        uro_key_deregister(windows_shard(s), &window);
        twins_close(&opened);
    }
}

static void window_2__used_through_another_queue_pair__is_refused(void **state)
{
    struct twins *s = *state;
    struct uro_key window = windows_make(s, URO_KEY_WINDOW_2);
    struct uro_wqe request;

    uro_key_register(windows_shard(s), &window);
    twins_connect(s);
    request = windows_request(s, &window);
    twins_post(s, &s->a, &request, 0); /* a binds, and a's own requests arrive at b */
    twins_settle(s);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
    assert_int_equal(use(s, URO_WR_RDMA_WRITE, request.rkey, request.remote_address, 8),
                     URO_WC_REM_ACCESS_ERR);
    assert_true(uro_mark_hit("MW.QP"));
    uro_key_deregister(windows_shard(s), &window);
}

static void window__not_bound__opens_nothing(void **state)
{
    struct twins *s = *state;
    struct uro_key window = windows_make(s, URO_KEY_WINDOW_1);

    window.access = WINDOW_ACCESS;
    window.length = UINT64_MAX;
    window.memory = s->b.memory;
    uro_key_register(windows_shard(s), &window);
    twins_connect(s);
    assert_int_equal(use(s, URO_WR_RDMA_WRITE, uro_key_number(&window), 0, 8),
                     URO_WC_REM_ACCESS_ERR);
    uro_key_deregister(windows_shard(s), &window);
}

static void window__as_a_local_key__is_refused(void **state)
{
    struct twins *s = *state;
    struct uro_key window = windows_make(s, URO_KEY_WINDOW_1);

    uro_key_register(windows_shard(s), &window);
    twins_connect(s);
    struct uro_wqe request = windows_request(s, &window);
    windows_bind(s, &request);
    assert_null(uro_key_local(windows_shard(s), request.rkey, 1, 0, request.remote_address, 1));
    uro_key_deregister(windows_shard(s), &window);
    assert_true(uro_mark_hit("MW.LOCAL"));
}

static void window_1__bound_again__moves_and_the_old_key_is_dead(void **state)
{
    struct twins *s = *state;
    struct uro_key window = windows_make(s, URO_KEY_WINDOW_1);

    uro_key_register(windows_shard(s), &window);
    twins_connect(s);
    struct uro_wqe first = windows_request(s, &window);
    windows_bind(s, &first);
    struct uro_wqe second = windows_request(s, &window);
    second.remote_address += 8192;
    windows_bind(s, &second);
    assert_int_equal(s->b.key.windows, 1);
    assert_int_not_equal(first.rkey, second.rkey);
    assert_true(uro_mark_hit("MW.AGAIN"));
    assert_int_equal(use(s, URO_WR_RDMA_WRITE, second.rkey, second.remote_address, WINDOW_SPAN),
                     URO_WC_SUCCESS);
    assert_int_equal(use(s, URO_WR_RDMA_WRITE, first.rkey, first.remote_address, 1),
                     URO_WC_REM_ACCESS_ERR);
    uro_key_deregister(windows_shard(s), &window);
}

/* ---- the end of a binding ------------------------------------------------ */

static void region__with_a_window_bound__is_not_deregistered(void **state)
{
    struct twins *s = *state;
    struct uro_key window = windows_make(s, URO_KEY_WINDOW_1);

    uro_key_register(windows_shard(s), &window);
    twins_connect(s);
    struct uro_wqe request = windows_request(s, &window);
    windows_bind(s, &request);
    assert_int_equal(uro_key_deregister(windows_shard(s), &s->b.key), -EBUSY);
    assert_true(uro_mark_hit("KEY.WINDOWS"));
    assert_int_equal(use(s, URO_WR_RDMA_WRITE, request.rkey, request.remote_address, 8),
                     URO_WC_SUCCESS);
    struct uro_wqe end = windows_request(s, &window);
    end.window_length = 0;
    windows_bind(s, &end);
    assert_int_equal(uro_key_deregister(windows_shard(s), &s->b.key), 0);
    assert_int_equal(use(s, URO_WR_RDMA_WRITE, end.rkey, request.remote_address, 8),
                     URO_WC_REM_ACCESS_ERR);
    uro_key_register(windows_shard(s), &s->b.key); /* for the fixture */
    uro_key_deregister(windows_shard(s), &window);
}

static void region__expelled__takes_its_windows_along(void **state)
{
    struct twins *s = *state;
    struct uro_key windows[3];

    twins_connect(s);
    for (int i = 0; i < 3; i++) {
        windows[i] = windows_make(s, i == 0 ? URO_KEY_WINDOW_1 : URO_KEY_WINDOW_2);
        uro_key_register(windows_shard(s), &windows[i]);
        struct uro_wqe request = windows_request(s, &windows[i]);
        if (i == 2) { /* into another region, which stays */
            s->a.key.access |= URO_ACCESS_MW_BIND;
            request.bind.lkey = uro_key_number(&s->a.key);
            request.remote_address = (uintptr_t)s->a.memory;
        }
        windows_bind(s, &request);
    }
    uro_key_expel(windows_shard(s), &s->b.key);
    assert_false(windows[0].bound || windows[1].bound);
    assert_true(windows[2].bound);
    assert_int_equal(use(s, URO_WR_RDMA_WRITE, uro_key_number(&windows[0]), 0, 0), URO_WC_SUCCESS);
    assert_int_equal(use(s, URO_WR_RDMA_WRITE, uro_key_number(&windows[0]),
                         (uintptr_t)s->b.memory + WINDOW_BEGIN, 8),
                     URO_WC_REM_ACCESS_ERR);
    uro_key_register(windows_shard(s), &s->b.key);
    for (int i = 0; i < 3; i++)
        assert_int_equal(uro_key_deregister(windows_shard(s), &windows[i]), 0);
}

static void window_2__invalidated_by_its_binder__opens_nothing_and_can_be_bound_again(void **state)
{
    struct twins *s = *state;
    struct uro_key window = windows_make(s, URO_KEY_WINDOW_2);

    uro_key_register(windows_shard(s), &window);
    twins_connect(s);
    struct uro_wqe request = windows_request(s, &window);
    windows_bind(s, &request);
    windows_invalidate(s, &s->b, request.rkey, URO_WC_SUCCESS);
    assert_int_equal(s->b.key.windows, 0);
    request = windows_request(s, &window);
    windows_bind(s, &request);
    assert_int_equal(use(s, URO_WR_RDMA_READ, request.rkey, request.remote_address, 8),
                     URO_WC_SUCCESS);
    windows_invalidate(s, &s->b, request.rkey, URO_WC_SUCCESS);
    assert_int_equal(use(s, URO_WR_RDMA_READ, request.rkey, request.remote_address, 8),
                     URO_WC_REM_ACCESS_ERR);
    uro_key_deregister(windows_shard(s), &window);
}

static void local_inv__of_what_is_not_ours_to_invalidate__is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        void *opened;
        twins_open(&opened);
        struct twins *s = opened;
        struct uro_key window = windows_make(s, i == 1 ? URO_KEY_WINDOW_1 : URO_KEY_WINDOW_2);
        uro_key_register(windows_shard(s), &window);
        twins_connect(s);
        struct uro_wqe request = windows_request(s, &window);
        if (i != 2)
            windows_bind(s, &request);
        const uint32_t keys[] = { uro_key_number(&s->b.key), uro_key_number(&window),
                                  uro_key_number(&window),   uro_key_number(&window),
                                  uro_key_number(&window),   0 };
        if (i == 4)
            window.pd = 2;
        /* a region, type 1, free, stale, of another domain, none; the third below: not by a */
        windows_invalidate(s, &s->b, i == 3 ? keys[i] ^ 1 : keys[i], URO_WC_MW_BIND_ERR);
        assert_true(uro_mark_hit("MW.INVALIDATE.REFUSED"));
        assert_int_equal(window.bound, i != 2);
        windows_invalidate(s, &s->a, uro_key_number(&window), URO_WC_MW_BIND_ERR);
        uro_key_deregister(windows_shard(s), &window);
        twins_close(&opened);
    }
    assert_true(uro_mark_hit("MW.INVALIDATE"));
}

/* ---- SEND with invalidate ------------------------------------------------ */

static void send_with_inv(struct twins *s, uint32_t rkey, uint32_t length)
{
    const struct uro_wqe request = {
        .wr_id = 4, .opcode = URO_WR_SEND_WITH_INV, .imm = rkey, .length = length
    };

    twins_fill(&s->a, 0, length);
    twins_post(s, &s->a, &request, 0);
    twins_settle(s);
}

static void send_with_inv__closes_the_window_and_says_which(void **state)
{
    struct twins *s = *state;
    struct uro_key window = windows_make(s, URO_KEY_WINDOW_2);
    struct uro_cqe cqe;

    uro_key_register(windows_shard(s), &window);
    twins_connect(s);
    for (uint32_t length = 0; length <= 3000; length += 3000) {
        struct uro_wqe request = windows_request(s, &window);
        windows_bind(s, &request);
        twins_post_recv(&s->b, 5, 16384, 3000);
        send_with_inv(s, request.rkey, length);
        twins_expect(&s->a, 4, URO_WC_SUCCESS);
        uro_engine_deliver(s->engine);
        assert_int_equal(uro_cq_poll(s->b.cq, &cqe, 1), 1);
        assert_int_equal(cqe.wr_id, 5);
        assert_int_equal(cqe.status, URO_WC_SUCCESS);
        assert_int_equal(cqe.flags, URO_WC_WITH_INV);
        assert_int_equal(cqe.imm, request.rkey);
        assert_int_equal(cqe.byte_len, length);
        assert_memory_equal(s->b.memory + 16384, s->a.memory, length);
        assert_true(uro_mark_hit("RSP.INVALIDATE"));
        assert_false(window.bound);
    }
    uro_key_deregister(windows_shard(s), &window);
}

/* bug B23 */
static void send_with_inv__of_what_cannot_be__is_refused_and_delivers_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        void *opened;
        twins_open(&opened);
        struct twins *s = opened;
        struct uro_key window = windows_make(s, i == 1 ? URO_KEY_WINDOW_1 : URO_KEY_WINDOW_2);
        uro_key_register(windows_shard(s), &window);
        twins_connect(s);
        struct uro_wqe request = windows_request(s, &window);
        if (i == 3) { /* by the other queue pair */
            twins_post(s, &s->a, &request, 0);
            twins_settle(s);
            twins_expect(&s->a, 1, URO_WC_SUCCESS);
        } else if (i != 2) {
            windows_bind(s, &request);
        }
        memset(s->b.memory + 16384, 0, 100);
        twins_post_recv(&s->b, 5, 16384, 100);
        send_with_inv(s, i == 0 ? uro_key_number(&s->b.key) : uro_key_number(&window), 100);
        twins_expect(&s->a, 4, URO_WC_REM_ACCESS_ERR);
        twins_expect(&s->b, 5, URO_WC_WR_FLUSH_ERR);
        for (int j = 0; j < 100; j++)
            assert_int_equal(s->b.memory[16384 + j], 0);
        assert_int_equal(window.bound, i != 2);
        uro_key_deregister(windows_shard(s), &window);
        twins_close(&opened);
    }
}

#define TWINS_TEST(name) cmocka_unit_test_setup_teardown(name, twins_open, twins_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window__bound__opens_its_octets_and_not_one_more),
        cmocka_unit_test(window__with_one_right__refuses_the_others),
        TWINS_TEST(window_2__used_through_another_queue_pair__is_refused),
        TWINS_TEST(window__not_bound__opens_nothing),
        TWINS_TEST(window__as_a_local_key__is_refused),
        TWINS_TEST(window_1__bound_again__moves_and_the_old_key_is_dead),
        TWINS_TEST(region__with_a_window_bound__is_not_deregistered),
        TWINS_TEST(region__expelled__takes_its_windows_along),
        TWINS_TEST(window_2__invalidated_by_its_binder__opens_nothing_and_can_be_bound_again),
        cmocka_unit_test(local_inv__of_what_is_not_ours_to_invalidate__is_an_error),
        TWINS_TEST(send_with_inv__closes_the_window_and_says_which),
        cmocka_unit_test(send_with_inv__of_what_cannot_be__is_refused_and_delivers_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
