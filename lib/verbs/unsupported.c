/* SPDX-License-Identifier: BSD-3-Clause */
/* unsupported.c - verbs that uroce does not support, each with the error that programs expect. */
#include <errno.h>

#include "verbs/objects.h"

static void *nothing(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

static int minus_one(void)
{
    errno = EOPNOTSUPP;
    return -1;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    (void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
    return nothing();
}

int uro_ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

int uro_ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
    (void)context, (void)attr, (void)eth_mac, (void)vid;
    return minus_one();
}
