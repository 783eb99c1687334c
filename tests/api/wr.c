/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/wr.h"

struct ibv_qp_init_attr_ex wr_init(const struct api *api, struct ibv_cq *cq, uint64_t operations)
{
    return (struct ibv_qp_init_attr_ex){
        .send_cq = cq,
        .recv_cq = cq,
        .cap = { .max_send_wr = WR_CAPACITY,
                 .max_recv_wr = 16,
                 .max_send_sge = 4,
                 .max_recv_sge = 4,
                 .max_inline_data = WR_INLINE },
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = api->pd,
        .send_ops_flags = operations,
    };
}

/* Connects as api_connect(), and allows the peer to flush. */
static void connect_flushable(const struct api *api, struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr attr = api_attr(api, peer);

    assert_int_equal(api_go(api, qp, IBV_QPS_RESET, 0), 0);
    attr.qp_state = IBV_QPS_INIT;
    attr.qp_access_flags |= WR_ACCESS_FLUSH_GLOBAL;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, peer), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTS, peer), 0);
}

void wr_open(struct wr *wr, const struct api *api)
{
    struct side *a = &wr->pair.a, *b = &wr->pair.b;

    api_pair_open(api, &wr->pair, NULL);
    assert_int_equal(ibv_destroy_qp(a->qp), 0);
    struct ibv_qp_init_attr_ex init = wr_init(api, a->cq, WR_OPERATIONS);
    a->qp = ibv_create_qp_ex(api->context, &init);
    assert_non_null(a->qp);
    wr->qp = ibv_qp_to_qp_ex(a->qp);
    assert_non_null(wr->qp);
    wr->whole =
        ibv_reg_mr(api->pd, b->buffer, API_BUFFER,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC | WR_ACCESS_FLUSH_GLOBAL);
    assert_non_null(wr->whole);
    wr->rkey = wr->whole->rkey;
    wr->plain_rkey = b->mr->rkey;
    wr->remote = (uintptr_t)b->buffer;
    connect_flushable(api, a->qp, b->qp->qp_num);
    connect_flushable(api, b->qp, a->qp->qp_num);
}

void wr_close(struct wr *wr)
{
    assert_int_equal(ibv_dereg_mr(wr->whole), 0);
    api_pair_close(&wr->pair);
}

void wr_name(struct wr *wr, uint64_t id)
{
    wr->qp->wr_id = id;
    wr->qp->wr_flags = IBV_SEND_SIGNALED;
}

void wr_set(struct wr *wr, size_t offset, uint32_t length)
{
    struct ibv_sge sge = api_sge(&wr->pair.a, offset, length);

    ibv_wr_set_sge(wr->qp, sge.lkey, sge.addr, sge.length);
}
