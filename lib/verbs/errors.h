/* SPDX-License-Identifier: BSD-3-Clause */
/* errors.h - verbs that return an error number leave the same number in errno.
 *
 * Programs print errno after such a verb. Therefore most of these verbs have their public names in
 * errors.c: lib/verbs implements uro_ibv_X(). errors.c either exports ibv_X(), or puts a function
 * that calls uro_ibv_X() into the context's operations.
 */
#pragma once

#include <errno.h>

#include <infiniband/verbs.h>

/* Sets errno unless @error is 0. Returns @error. */
static inline int uro_errors_keep(int error)
{
    if (error != 0)
        errno = error;
    return error;
}

struct uro_device;

/* Fills in the context's operations that return an error number. If @device has fail=, those that
 * fail= can name count their calls. */
void uro_errors_fill(struct verbs_context *verbs, const struct uro_device *device);

/* Functions that errors.c exports as ibv_X() or _ibv_X(). */
int uro_ibv_dealloc_pd(struct ibv_pd *pd);
int uro_ibv_dereg_mr(struct ibv_mr *mr);
int uro_ibv_destroy_ah(struct ibv_ah *ah);
int uro_ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
int uro_ibv_destroy_cq(struct ibv_cq *cq);
int uro_ibv_destroy_qp(struct ibv_qp *qp);
int uro_ibv_destroy_srq(struct ibv_srq *srq);
int uro_ibv_resize_cq(struct ibv_cq *cq, int cqe);
int uro_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int uro_ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                     struct ibv_qp_init_attr *init_attr);
int uro_ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int uro_ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int uro_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int uro_ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                         struct ibv_gid_entry *entry, uint32_t flags, size_t size);
ssize_t uro_ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                size_t max_entries, uint32_t flags, size_t size);
int uro_ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int uro_ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int uro_ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int uro_ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);
