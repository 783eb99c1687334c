/* SPDX-License-Identifier: BSD-3-Clause */
/* refuse.c - verbs that no device of ours has, and how each one says so. */
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

/* Multicast; max_mcast_grp is 0. */

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

/* Objects of other processes, of other devices' memory, and of vendors' own. */

struct ibv_context *ibv_import_device(int cmd_fd)
{
    (void)cmd_fd;
    return nothing();
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
    (void)context, (void)pd_handle;
    return nothing();
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
    (void)pd;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
    (void)pd, (void)mr_handle;
    return nothing();
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
    (void)mr;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
    (void)context, (void)dm_handle;
    return nothing();
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
    (void)dm;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
    (void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
    return nothing();
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
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
