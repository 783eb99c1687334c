/* SPDX-License-Identifier: BSD-3-Clause */
/* side.h - one side of a connection between two devices of a test. It has a device, a CQ with a
 * channel, a queue pair and a buffer that the peer may write. */
#pragma once

#include "support/check.h"

#include <stdbool.h>
#include <string.h>

#include <infiniband/verbs.h>

#define SIDE_SIZE 4096u

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char buffer[SIDE_SIZE];
};

static inline int side_device_count(void)
{
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);

    assert_non_null(list);
    ibv_free_device_list(list);
    return count;
}

static inline struct ibv_context *side_open_device(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;

    assert_non_null(list);
    for (int i = 0; list[i] != NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

/* Opens the device @name and creates the objects. @type is RC or UC. */
static inline void side_open(struct side *side, const char *name, enum ibv_qp_type type)
{
    memset(side, 0, sizeof *side);
    side->context = side_open_device(name);
    side->pd = ibv_alloc_pd(side->context);
    side->channel = ibv_create_comp_channel(side->context);
    assert_non_null(side->channel);
    side->cq = ibv_create_cq(side->context, 16, NULL, side->channel, 0);
    assert_non_null(side->cq);
    struct ibv_qp_init_attr init = {
        .send_cq = side->cq,
        .recv_cq = side->cq,
        .qp_type = type,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
    };
    side->qp = ibv_create_qp(side->pd, &init);
    side->mr = ibv_reg_mr(side->pd, side->buffer, sizeof side->buffer,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(side->qp);
    assert_non_null(side->mr);
}

/* Moves the queue pair to RTS. The ACK timeout of RC is 17 ms, with up to six retries. */
static inline void side_connect(struct side *side, const struct side *peer)
{
    const bool rc = side->qp->qp_type == IBV_QPT_RC;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

    assert_int_equal(ibv_modify_qp(side->qp, &attr, mask), 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qp->qp_num,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 1 } }
    };
    assert_int_equal(ibv_query_gid(peer->context, 1, 1, &attr.ah_attr.grh.dgid), 0);
    mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    mask |= rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
    assert_int_equal(ibv_modify_qp(side->qp, &attr, mask), 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 6, .rnr_retry = 7
    };
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    mask |= rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
    assert_int_equal(ibv_modify_qp(side->qp, &attr, mask), 0);
}

static inline void side_close(struct side *side)
{
    assert_int_equal(ibv_destroy_qp(side->qp), 0);
    assert_int_equal(ibv_dereg_mr(side->mr), 0);
    assert_int_equal(ibv_destroy_cq(side->cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(side->channel), 0);
    assert_int_equal(ibv_dealloc_pd(side->pd), 0);
    assert_int_equal(ibv_close_device(side->context), 0);
}
