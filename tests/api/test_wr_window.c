/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests ibv_wr_bind_mw(), ibv_wr_local_inv() and ibv_wr_send_inv(). */
#include "api/wr.h"

#include <string.h>

#define SPAN 64u

/* Queue pair a posts with ibv_wr_*(). One queue pair binds a window, and the other queue pair uses
 * the window. */
struct stage {
    struct wr wr;
    struct ibv_mr *mr; /* region of `memory` */
    struct ibv_mw *mw;
    uint32_t rkey; /* rkey of the bound window */
    uint8_t memory[SPAN];
};

static void open_stage(struct stage *stage, const struct api *api)
{
    wr_open(&stage->wr, api);
    memset(stage->memory, 0, sizeof stage->memory);
    stage->mr = ibv_reg_mr(api->pd, stage->memory, sizeof stage->memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    stage->mw = ibv_alloc_mw(api->pd, IBV_MW_TYPE_2);
    assert_non_null(stage->mr);
    assert_non_null(stage->mw);
    stage->rkey = ibv_inc_rkey(stage->mw->rkey);
}

static void close_stage(struct stage *stage)
{
    assert_int_equal(ibv_dealloc_mw(stage->mw), 0);
    assert_int_equal(ibv_dereg_mr(stage->mr), 0);
    wr_close(&stage->wr);
}

static struct ibv_mw_bind_info info_of(const struct stage *stage)
{
    return (struct ibv_mw_bind_info){ .mr = stage->mr,
                                      .addr = (uintptr_t)stage->memory,
                                      .length = SPAN,
                                      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
}

static void bind(struct stage *stage, uint64_t id)
{
    const struct ibv_mw_bind_info info = info_of(stage);

    wr_name(&stage->wr, id);
    ibv_wr_bind_mw(stage->wr.qp, stage->mw, stage->rkey, &info);
}

/* Writes through the window from b. Returns the status. */
static enum ibv_wc_status use(struct stage *stage)
{
    struct side *b = &stage->wr.pair.b;
    struct ibv_sge from = api_sge(b, 0, SPAN);
    struct ibv_send_wr write = api_send(IBV_WR_RDMA_WRITE, &from);

    memset(b->buffer, 'w', SPAN);
    write.wr.rdma.remote_addr = (uintptr_t)stage->memory;
    write.wr.rdma.rkey = stage->rkey;
    assert_int_equal(api_post_send(b, &write), 0);
    return api_wait(b->cq).status;
}

/* A SEND in the same batch sends the key to the peer. */
static void bind_mw__of_type_2__allows_access(void **state)
{
    struct stage stage;
    uint32_t received;

    open_stage(&stage, *state);
    struct ibv_sge to = api_sge(&stage.wr.pair.b, 128, sizeof received);
    assert_int_equal(api_post_recv(&stage.wr.pair.b, 7, &to), 0);
    ibv_wr_start(stage.wr.qp);
    bind(&stage, 1);
    wr_name(&stage.wr, 2);
    ibv_wr_send(stage.wr.qp);
    ibv_wr_set_inline_data(stage.wr.qp, &stage.rkey, sizeof stage.rkey);
    assert_int_equal(ibv_wr_complete(stage.wr.qp), 0);
    struct ibv_wc wc = api_wait(stage.wr.pair.a.cq);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    api_expect(stage.wr.pair.a.cq, 2, IBV_WC_SUCCESS);
    api_expect(stage.wr.pair.b.cq, 7, IBV_WC_SUCCESS);
    memcpy(&received, stage.wr.pair.b.buffer + 128, sizeof received);
    assert_int_equal(received, stage.rkey);
    assert_int_equal(use(&stage), IBV_WC_SUCCESS);
    assert_memory_equal(stage.memory, stage.wr.pair.b.buffer, SPAN);
    close_stage(&stage);
}

static void local_inv__of_a_bound_window__access_is_refused(void **state)
{
    struct stage stage;

    open_stage(&stage, *state);
    ibv_wr_start(stage.wr.qp);
    bind(&stage, 1);
    wr_name(&stage.wr, 2);
    ibv_wr_local_inv(stage.wr.qp, stage.rkey);
    assert_int_equal(ibv_wr_complete(stage.wr.qp), 0);
    api_expect(stage.wr.pair.a.cq, 1, IBV_WC_SUCCESS);
    struct ibv_wc wc = api_wait(stage.wr.pair.a.cq);
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(use(&stage), IBV_WC_REM_ACCESS_ERR);
    close_stage(&stage);
}

/* b has bound the window. a sends the invalidation when it does not need the window any more. */
static void send_inv__of_the_peers_window__access_is_refused(void **state)
{
    const struct api *api = *state;
    struct stage stage;
    struct ibv_send_wr post = api_send(IBV_WR_BIND_MW, NULL);

    open_stage(&stage, api);
    post.bind_mw.mw = stage.mw;
    post.bind_mw.rkey = stage.rkey;
    post.bind_mw.bind_info = info_of(&stage);
    assert_int_equal(api_post_send(&stage.wr.pair.b, &post), 0);
    api_expect(stage.wr.pair.b.cq, 1, IBV_WC_SUCCESS);
    struct ibv_sge to = api_sge(&stage.wr.pair.b, 0, 8);
    assert_int_equal(api_post_recv(&stage.wr.pair.b, 7, &to), 0);

    ibv_wr_start(stage.wr.qp);
    wr_name(&stage.wr, 1);
    ibv_wr_rdma_write(stage.wr.qp, stage.rkey, (uintptr_t)stage.memory);
    wr_set(&stage.wr, 0, SPAN);
    wr_name(&stage.wr, 2);
    ibv_wr_send_inv(stage.wr.qp, stage.rkey);
    wr_set(&stage.wr, 0, 8);
    wr_name(&stage.wr, 3);
    ibv_wr_rdma_write(stage.wr.qp, stage.rkey, (uintptr_t)stage.memory);
    wr_set(&stage.wr, 0, SPAN);
    assert_int_equal(ibv_wr_complete(stage.wr.qp), 0);
    api_expect(stage.wr.pair.a.cq, 1, IBV_WC_SUCCESS);
    api_expect(stage.wr.pair.a.cq, 2, IBV_WC_SUCCESS);
    api_expect(stage.wr.pair.a.cq, 3, IBV_WC_REM_ACCESS_ERR);
    struct ibv_wc wc = api_wait(stage.wr.pair.b.cq);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, stage.rkey);
    close_stage(&stage);
}

static void bind_mw__window_that_cannot_be_bound__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_pd *other = ibv_alloc_pd(api->context);
    struct ibv_mw *wrong[] = { ibv_alloc_mw(api->pd, IBV_MW_TYPE_1),
                               ibv_alloc_mw(other, IBV_MW_TYPE_2) };
    struct stage stage;

    open_stage(&stage, api);
    const struct ibv_mw_bind_info info = info_of(&stage);
    for (size_t i = 0; i < 2; i++) {
        ibv_wr_start(stage.wr.qp);
        ibv_wr_bind_mw(stage.wr.qp, wrong[i], ibv_inc_rkey(wrong[i]->rkey), &info);
        assert_int_equal(ibv_wr_complete(stage.wr.qp), EINVAL);
        assert_int_equal(ibv_dealloc_mw(wrong[i]), 0);
    }
    assert_int_equal(ibv_dealloc_pd(other), 0);
    close_stage(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(bind_mw__of_type_2__allows_access),
        API_TEST(local_inv__of_a_bound_window__access_is_refused),
        API_TEST(send_inv__of_the_peers_window__access_is_refused),
        API_TEST(bind_mw__window_that_cannot_be_bound__is_einval),
    };
    return API_RUN(tests);
}
