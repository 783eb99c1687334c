/* SPDX-License-Identifier: BSD-3-Clause */
/* one.c - the first device and RC queue pairs on it, for benchmark programs. */
#include "one.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void one_must(int holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    (void)fprintf(stderr, "%s:%d: must hold: %s\n", file, line, what);
    exit(1);
}

int64_t one_now_ns(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

struct ibv_context *one_open(void)
{
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);

    ONE_MUST(list != NULL && count > 0);
    struct ibv_context *context = ibv_open_device(list[0]);
    ONE_MUST(context != NULL);
    ibv_free_device_list(list);
    return context;
}

struct ibv_qp *one_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t depth)
{
    struct ibv_qp_init_attr attr = { .send_cq = cq,
                                     .recv_cq = cq,
                                     .cap = { depth, depth, 1, 1, 0 },
                                     .qp_type = IBV_QPT_RC,
                                     .sq_sig_all = 1 };
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);

    ONE_MUST(qp != NULL);
    return qp;
}

void one_connect(struct ibv_qp *qp, const union ibv_gid *peer, uint32_t qpn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = ONE_PORT,
        .qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = qpn,
        .max_dest_rd_atomic = 1,
        .max_rd_atomic = 1,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .ah_attr = { .is_global = 1,
                     .port_num = ONE_PORT,
                     .grh = { .dgid = *peer, .sgid_index = ONE_GID, .hop_limit = 64 } },
    };

    ONE_MUST(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
             0);
    attr.qp_state = IBV_QPS_RTR;
    ONE_MUST(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
             0);
    attr.qp_state = IBV_QPS_RTS;
    ONE_MUST(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}
