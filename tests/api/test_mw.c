/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests memory windows: queue pair a accesses b's memory through windows. */
#include "api/api.h"

#include <string.h>
#include <unistd.h>

#define ALL_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define BEGIN      1024u /* start of the window in b's memory */
#define SPAN       64u
#define CANARY     0xcc

struct stage {
    const struct api *api;
    struct pair pair;
    struct ibv_mr *mr; /* region of b's memory; peers have access only through windows */
    uint8_t memory[4096];
};

static void open_stage(struct stage *stage, const struct api *api)
{
    stage->api = api;
    memset(stage->memory, CANARY, sizeof stage->memory);
    api_pair_open(api, &stage->pair, NULL);
    stage->mr = ibv_reg_mr(api->pd, stage->memory, sizeof stage->memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    assert_non_null(stage->mr);
}

static void close_stage(struct stage *stage)
{
    api_pair_close(&stage->pair);
    assert_int_equal(ibv_dereg_mr(stage->mr), 0);
}

static struct ibv_mw_bind_info info_of(const struct stage *stage)
{
    return (struct ibv_mw_bind_info){ .mr = stage->mr,
                                      .addr = (uintptr_t)stage->memory + BEGIN,
                                      .length = SPAN,
                                      .mw_access_flags = ALL_REMOTE };
}

static struct ibv_mw_bind bind_of(const struct stage *stage)
{
    return (struct ibv_mw_bind){ .wr_id = 7,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .bind_info = info_of(stage) };
}

/* Binds a window of type 1 at b. */
static struct ibv_mw *bound_1(struct stage *stage)
{
    struct ibv_mw *mw = ibv_alloc_mw(stage->api->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = bind_of(stage);

    assert_non_null(mw);
    assert_int_equal(ibv_bind_mw(stage->pair.b.qp, mw, &bind), 0);
    struct ibv_wc wc = api_wait(stage->pair.b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
    assert_int_equal(wc.wr_id, 7);
    return mw;
}

static int post_bind_2(struct side *side, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    struct ibv_send_wr wr = api_send(IBV_WR_BIND_MW, NULL), *bad;

    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = *info;
    return ibv_post_send(side->qp, &wr, &bad);
}

/* Binds a window of type 2 at b. */
static struct ibv_mw *bound_2(struct stage *stage)
{
    struct ibv_mw *mw = ibv_alloc_mw(stage->api->pd, IBV_MW_TYPE_2);
    struct ibv_mw_bind_info info = info_of(stage);
    uint32_t rkey = ibv_inc_rkey(mw->rkey);

    assert_int_equal(post_bind_2(&stage->pair.b, mw, rkey, &info), 0);
    api_expect(stage->pair.b.cq, 1, IBV_WC_SUCCESS);
    mw->rkey = rkey; /* the program must do this */
    return mw;
}

static enum ibv_wc_status use(struct stage *stage, enum ibv_wr_opcode opcode, uint32_t rkey,
                              uint64_t address, uint32_t length)
{
    struct ibv_sge local = api_sge(&stage->pair.a, 0, length);
    struct ibv_send_wr wr = api_send(opcode, &local), *bad;

    memset(stage->pair.a.buffer, 0x77, length);
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    assert_int_equal(ibv_post_send(stage->pair.a.qp, &wr, &bad), 0);
    return api_wait(stage->pair.a.cq).status;
}

static void expect_written(const struct stage *stage, uint32_t from, uint32_t length)
{
    for (uint32_t i = 0; i < sizeof stage->memory; i++)
        assert_int_equal(stage->memory[i], i - from < length ? 0x77 : CANARY);
}

/* Only the low byte of the wanted key counts, as on a NIC. */
static void bind_mw_2__key_with_other_high_bytes__uses_the_low_byte(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_mw *mw = ibv_alloc_mw(stage.api->pd, IBV_MW_TYPE_2);
    struct ibv_mw_bind_info info = info_of(&stage);
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    assert_int_equal(post_bind_2(&stage.pair.b, mw, rkey ^ 0x5a5a5a00, &info), 0);
    api_expect(stage.pair.b.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, rkey, info.addr, 8), IBV_WC_SUCCESS);
    expect_written(&stage, BEGIN, 8);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_stage(&stage);
}

/* ---- allocating ----------------------------------------------------------------------------- */

static void mw__wrong_arguments__is_einval(void **state)
{
    const struct api *api = *state;

    errno = 0;
    assert_null(ibv_alloc_mw(api->pd, (enum ibv_mw_type)0));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_alloc_mw(api->pd, (enum ibv_mw_type)3));
}

static void alloc_mw__each_type__has_the_type_and_uses_the_pd(void **state)
{
    const struct api *api = *state;
    struct ibv_pd *pd = ibv_alloc_pd(api->context);

    for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
        struct ibv_mw *mw = ibv_alloc_mw(pd, (enum ibv_mw_type)type);
        assert_int_equal(mw->type, type);
        assert_ptr_equal(mw->pd, pd);
        assert_ptr_equal(mw->context, api->context);
        assert_int_not_equal(mw->rkey, 0);
        assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
        assert_int_equal(ibv_dealloc_mw(mw), 0);
    }
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* ---- type 1 --------------------------------------------------------------------------------- */

static void bind_mw__part_of_a_region__allows_access_to_the_range_only(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_mw *mw = bound_1(&stage);
    uint64_t at = (uintptr_t)stage.memory + BEGIN;
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, mw->rkey, at, SPAN), IBV_WC_SUCCESS);
    expect_written(&stage, BEGIN, SPAN);
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, mw->rkey, at + 1, SPAN), IBV_WC_REM_ACCESS_ERR);
    expect_written(&stage, BEGIN, SPAN);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_stage(&stage);
}

/* A packet outside the window is dropped silently. The next packet is inside the window and is
 * accepted. */
static void bind_mw__on_an_unreliable_connection__opens_the_range(void **state)
{
    struct stage stage;
    struct pair reliable;

    open_stage(&stage, *state);
    reliable = stage.pair;
    api_side_open(stage.api, &stage.pair.a, NULL, IBV_QPT_UC, NULL);
    api_side_open(stage.api, &stage.pair.b, NULL, IBV_QPT_UC, NULL);
    api_pair_join(stage.api, &stage.pair);
    struct ibv_mw *mw = bound_1(&stage);
    uint64_t at = (uintptr_t)stage.memory + BEGIN;
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, mw->rkey, at + SPAN, 1), IBV_WC_SUCCESS);
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, mw->rkey, at, 8), IBV_WC_SUCCESS);
    const volatile uint8_t *last = &stage.memory[BEGIN + 7];
    struct ibv_wc wc;
    while (*last == CANARY) /* only the last byte shows that the message arrived */
        (void)ibv_poll_cq(stage.pair.b.cq, 1, &wc);
    expect_written(&stage, BEGIN, 8);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    api_pair_close(&stage.pair);
    stage.pair = reliable;
    close_stage(&stage);
}

static void region__with_a_window__peers_cannot_use_its_own_key(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_mw *mw = bound_1(&stage);
    assert_int_equal(
        use(&stage, IBV_WR_RDMA_WRITE, stage.mr->rkey, (uintptr_t)stage.memory + BEGIN, 1),
        IBV_WC_REM_ACCESS_ERR);
    expect_written(&stage, 0, 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_stage(&stage);
}

static void bind_mw__posted_or_refused__key_changes_only_when_posted(void **state)
{
    struct stage stage;
    struct ibv_mw_bind bind;

    open_stage(&stage, *state);
    struct ibv_mw *mw = ibv_alloc_mw(stage.api->pd, IBV_MW_TYPE_1);
    uint32_t before = mw->rkey;
    bind = bind_of(&stage);
    assert_int_equal(ibv_bind_mw(stage.pair.b.qp, mw, &bind), 0);
    assert_int_equal(mw->rkey, ibv_inc_rkey(before));
    api_expect(stage.pair.b.cq, 7, IBV_WC_SUCCESS);

    before = mw->rkey;
    bind.send_flags = 1 << 30;
    assert_int_equal(ibv_bind_mw(stage.pair.b.qp, mw, &bind), EINVAL);
    bind = bind_of(&stage);
    assert_int_equal(api_go(stage.api, stage.pair.a.qp, IBV_QPS_RESET, 0), 0);
    assert_int_equal(ibv_bind_mw(stage.pair.a.qp, mw, &bind), EINVAL);
    assert_int_equal(mw->rkey, before);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_stage(&stage);
}

static void bind_mw__wrong_window_or_region__is_refused_at_once(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_pd *pd = ibv_alloc_pd(stage.api->context);
    struct ibv_mw *of_type_2 = ibv_alloc_mw(stage.api->pd, IBV_MW_TYPE_2);
    struct ibv_mw *of_pd = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    struct ibv_mw *mw = ibv_alloc_mw(stage.api->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = bind_of(&stage);
    struct ibv_mw_bind nothing = { .bind_info = { .length = 1 } };
    struct ibv_qp_init_attr attr = api_qp_attr(stage.pair.a.cq);
    attr.qp_type = IBV_QPT_UD;
    struct ibv_qp *ud = ibv_create_qp(stage.api->pd, &attr);
    assert_int_equal(ibv_bind_mw(stage.pair.b.qp, of_type_2, &bind), EINVAL);
    assert_int_equal(ibv_bind_mw(stage.pair.b.qp, of_pd, &bind), EPERM);
    assert_int_equal(ibv_bind_mw(stage.pair.b.qp, mw, &nothing), EINVAL);
    assert_int_equal(ibv_bind_mw(ud, mw, &bind), EINVAL);
    assert_int_equal(post_bind_2(&stage.pair.b, mw, mw->rkey, &bind.bind_info), EINVAL);
    assert_int_equal(ibv_destroy_qp(ud), 0);
    assert_int_equal(ibv_dealloc_mw(of_type_2), 0);
    assert_int_equal(ibv_dealloc_mw(of_pd), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    close_stage(&stage);
}

static void bind_mw__to_a_full_queue__enomem_and_key_unchanged(void **state)
{
    struct stage stage;
    int posted = 0, error;

    open_stage(&stage, *state);
    struct ibv_mw *mw = ibv_alloc_mw(stage.api->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = bind_of(&stage);
    /* In SQD no request is executed, so the queue fills up. */
    assert_int_equal(api_go(stage.api, stage.pair.b.qp, IBV_QPS_SQD, 0), 0);
    while ((error = ibv_bind_mw(stage.pair.b.qp, mw, &bind)) == 0)
        posted++;
    assert_int_equal(error, ENOMEM);
    uint32_t key = mw->rkey;
    assert_int_equal(ibv_bind_mw(stage.pair.b.qp, mw, &bind), ENOMEM);
    assert_int_equal(mw->rkey, key);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
    assert_int_equal(ibv_modify_qp(stage.pair.b.qp, &attr, IBV_QP_STATE), 0);
    for (int i = 0; i < posted; i++)
        api_expect(stage.pair.b.cq, 7, IBV_WC_SUCCESS);
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, key, (uintptr_t)stage.memory + BEGIN, SPAN),
                     IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_stage(&stage);
}

static void bind_mw__beyond_the_region__is_an_error_completion(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_mw *mw = ibv_alloc_mw(stage.api->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = bind_of(&stage);
    bind.bind_info.length = sizeof stage.memory - BEGIN + 1;
    assert_int_equal(ibv_bind_mw(stage.pair.b.qp, mw, &bind), 0);
    api_expect(stage.pair.b.cq, 7, IBV_WC_MW_BIND_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_stage(&stage);
}

static void bind_mw__of_length_0__unbinds(void **state)
{
    struct stage stage;
    struct ibv_mw_bind end = { .wr_id = 8, .send_flags = IBV_SEND_SIGNALED };

    open_stage(&stage, *state);
    struct ibv_mw *mw = bound_1(&stage);
    assert_int_equal(ibv_dereg_mr(stage.mr), EBUSY);
    assert_int_equal(ibv_bind_mw(stage.pair.b.qp, mw, &end), 0);
    api_expect(stage.pair.b.cq, 8, IBV_WC_SUCCESS);
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)stage.memory + BEGIN, 1),
                     IBV_WC_REM_ACCESS_ERR);
    expect_written(&stage, 0, 0);
    close_stage(&stage);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ---- type 2 --------------------------------------------------------------------------------- */

static void window_2__zero_based__is_accessed_by_offsets(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_mw *mw = ibv_alloc_mw(stage.api->pd, IBV_MW_TYPE_2);
    struct ibv_mw_bind_info info = info_of(&stage);
    info.mw_access_flags |= IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
    uint32_t rkey = (mw->rkey & ~0xffu) | ((mw->rkey + 77) & 0xff);
    assert_int_equal(post_bind_2(&stage.pair.b, mw, rkey, &info), 0);
    api_expect(stage.pair.b.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, rkey, 10, SPAN - 10), IBV_WC_SUCCESS);
    expect_written(&stage, BEGIN + 10, SPAN - 10);
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, mw->rkey, 0, 1), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    close_stage(&stage);
}

static void window_2__invalidated_locally__access_is_refused(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_mw *mw = bound_2(&stage);
    struct ibv_send_wr wr = api_send(IBV_WR_LOCAL_INV, NULL), *bad;
    wr.invalidate_rkey = mw->rkey;
    assert_int_equal(ibv_post_send(stage.pair.b.qp, &wr, &bad), 0);
    struct ibv_wc wc = api_wait(stage.pair.b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
    assert_int_equal(use(&stage, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)stage.memory + BEGIN, 1),
                     IBV_WC_REM_ACCESS_ERR);
    close_stage(&stage); /* deregisters the region, although its window still exists */
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void window_2__invalidated_by_the_peer__completion_has_the_key(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_mw *mw = bound_2(&stage);
    struct ibv_sge from = api_sge(&stage.pair.a, 0, 100), to = api_sge(&stage.pair.b, 0, 100);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND_WITH_INV, &from), *bad;
    wr.invalidate_rkey = mw->rkey;
    assert_int_equal(api_post_recv(&stage.pair.b, 2, &to), 0);
    assert_int_equal(ibv_post_send(stage.pair.a.qp, &wr, &bad), 0);
    struct ibv_wc wc = api_wait(stage.pair.b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, mw->rkey);
    api_expect(stage.pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)stage.memory + BEGIN, 1),
                     IBV_WC_REM_ACCESS_ERR);
    expect_written(&stage, 0, 0);
    close_stage(&stage);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ---- order of destruction ------------------------------------------------------------------- */

static void region__with_windows__can_be_neither_deregistered_nor_changed(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    struct ibv_mw *one = bound_1(&stage), *two = bound_2(&stage);
    uint64_t at = (uintptr_t)stage.memory + BEGIN;
    for (int i = 0; i < 2; i++) {
        uint32_t key = stage.mr->rkey;
        assert_int_equal(ibv_dereg_mr(stage.mr), EBUSY);
        for (int flags = 1; flags < 8; flags++) {
            errno = 0;
            assert_int_equal(ibv_rereg_mr(stage.mr, flags, stage.api->pd, stage.memory, 64, 0),
                             IBV_REREG_MR_ERR_INPUT);
            assert_int_equal(errno, EBUSY);
        }
        assert_int_equal(stage.mr->rkey, key);
        assert_int_equal(stage.mr->length, sizeof stage.memory);
        assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, two->rkey, at, SPAN), IBV_WC_SUCCESS);
        if (i == 0)
            assert_int_equal(ibv_dealloc_mw(one), 0); /* the other window is still bound */
    }
    assert_int_equal(ibv_dealloc_mw(two), 0);
    assert_int_equal(
        ibv_rereg_mr(stage.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
        0);
    close_stage(&stage);
}

static void mw__deallocated_while_bound__access_with_its_key_is_refused(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    for (int i = 0; i < 100; i++) { /* a later window may get the number of this window */
        struct ibv_mw *mw = i % 2 ? bound_1(&stage) : bound_2(&stage);
        uint32_t key = mw->rkey;
        assert_int_equal(ibv_dealloc_mw(mw), 0);
        mw = ibv_alloc_mw(stage.api->pd, IBV_MW_TYPE_1);
        assert_int_equal(ibv_dealloc_mw(mw), 0);
        if (i == 99)
            assert_int_equal(
                use(&stage, IBV_WR_RDMA_WRITE, key, (uintptr_t)stage.memory + BEGIN, 1),
                IBV_WC_REM_ACCESS_ERR);
    }
    expect_written(&stage, 0, 0);
    close_stage(&stage);
}

/* A context is closed with a region and a window bound to it, in either order of creation. Queue
 * pairs of the same PD in another context stay, and their peers have no access. */
static void close_device__with_a_window_bound__ends_both(void **state)
{
    const struct api *api = *state;

    for (int older = 0; older < 2; older++) {
        struct ibv_context *context = ibv_open_device(api->device);
        struct ibv_pd *pd = ibv_alloc_pd(context);
        struct api there = { .device = api->device };
        struct stage stage;
        there.context = ibv_import_device(dup(context->cmd_fd));
        there.pd = ibv_import_pd(there.context, pd->handle);
        open_stage(&stage, &there);
        struct ibv_mw *mw = older ? ibv_alloc_mw(pd, IBV_MW_TYPE_1) : NULL;
        struct ibv_mr *mr =
            ibv_reg_mr(pd, stage.memory, sizeof stage.memory,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
        if (!older)
            mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
        struct ibv_mw_bind bind = bind_of(&stage);
        bind.bind_info.mr = mr;
        assert_int_equal(ibv_bind_mw(stage.pair.b.qp, mw, &bind), 0);
        api_expect(stage.pair.b.cq, 7, IBV_WC_SUCCESS);
        uint64_t at = (uintptr_t)stage.memory + BEGIN;
        assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, mw->rkey, at, SPAN), IBV_WC_SUCCESS);
        memset(stage.memory, CANARY, sizeof stage.memory);

        assert_int_equal(ibv_close_device(context), 0);
        uint32_t keys[] = { mw->rkey, mr->rkey };
        assert_int_equal(ibv_dereg_mr(mr), 0);
        assert_int_equal(ibv_dealloc_mw(mw), 0);
        assert_int_equal(ibv_dealloc_pd(pd), EBUSY); /* the other handle is used */
        assert_int_equal(use(&stage, IBV_WR_RDMA_WRITE, keys[older], at, 1), IBV_WC_REM_ACCESS_ERR);
        expect_written(&stage, 0, 0);
        close_stage(&stage);
        ibv_unimport_pd(there.pd);
        assert_int_equal(ibv_dealloc_pd(pd), 0);
        assert_int_equal(ibv_close_device(there.context), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(mw__wrong_arguments__is_einval),
        API_TEST(alloc_mw__each_type__has_the_type_and_uses_the_pd),
        API_TEST(bind_mw__part_of_a_region__allows_access_to_the_range_only),
        API_TEST(bind_mw__on_an_unreliable_connection__opens_the_range),
        API_TEST(region__with_a_window__peers_cannot_use_its_own_key),
        API_TEST(bind_mw__posted_or_refused__key_changes_only_when_posted),
        API_TEST(bind_mw__wrong_window_or_region__is_refused_at_once),
        API_TEST(bind_mw__to_a_full_queue__enomem_and_key_unchanged),
        API_TEST(bind_mw__beyond_the_region__is_an_error_completion),
        API_TEST(bind_mw__of_length_0__unbinds),
        API_TEST(bind_mw_2__key_with_other_high_bytes__uses_the_low_byte),
        API_TEST(window_2__zero_based__is_accessed_by_offsets),
        API_TEST(window_2__invalidated_locally__access_is_refused),
        API_TEST(window_2__invalidated_by_the_peer__completion_has_the_key),
        API_TEST(region__with_windows__can_be_neither_deregistered_nor_changed),
        API_TEST(mw__deallocated_while_bound__access_with_its_key_is_refused),
        API_TEST(close_device__with_a_window_bound__ends_both),
    };
    return API_RUN(tests);
}
