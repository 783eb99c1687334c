/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal.h - reports why a call is refused, on stderr and in `uroce why`. */
#pragma once

#include "host/host.h"

/* Records that the call @call is refused. The text has the reason, with its values, and the remedy.
 * Returns @error, an errno. Thread: any. The caller may hold any lock. */
__attribute__((format(printf, 4, 5), cold)) int uro_refuse(struct uro_device *device, int error,
                                                           const char *call, const char *format,
                                                           ...);

/* Does the same as uro_refuse(), for a call with which correct programs find out what uroce
 * supports. Examples are EOPNOTSUPP, and max_inline_data, which ibv_query_device does not return.
 * stderr shows such a refusal only with log=all, and `uroce why` only with log=all or like=. */
__attribute__((format(printf, 4, 5), cold)) int uro_refuse_probe(struct uro_device *device,
                                                                 int error, const char *call,
                                                                 const char *format, ...);

/* Report why a call fails, like uro_refuse(). These functions look for the reason only after an
 * error, so correct calls are not slower. */

struct ibv_ah_attr;
struct ibv_alloc_dm_attr;
struct ibv_context;
struct ibv_mw;
struct ibv_mw_bind;
struct ibv_pd;
struct ibv_qp_attr;
struct ibv_qp_cap;
struct ibv_qp_init_attr_ex;
struct ibv_recv_wr;
struct ibv_send_wr;
struct ibv_srq_init_attr_ex;
struct ibv_xrcd_init_attr;
struct uro_gid;
struct uro_ibv_dm;
struct uro_ibv_qp;
struct uro_wq;

/* refusal_qp.c */
int uro_refuse_address(struct ibv_context *context, const char *call,
                       const struct ibv_ah_attr *attr);
/* Reports that no route leads to the peer: ENETUNREACH. */
int uro_refuse_route(struct uro_device *device, const char *call, const struct ibv_ah_attr *attr);
int uro_refuse_modify(struct uro_ibv_qp *qp, const struct ibv_qp_attr *attr, unsigned mask);
int uro_refuse_cap(struct uro_device *device, const char *call, const struct ibv_qp_cap *cap);
int uro_refuse_create(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr);

/* mr.c: returns the bits of @access that are unknown. */
unsigned uro_ibv_access_unknown(unsigned access);
/* refusal_objects.c: reports the wrong bit of access rights. */
int uro_refuse_access(struct uro_device *device, const char *call, unsigned access);

/* refusal_post.c. Records nothing for ENOMEM, which is not a mistake of the program. Returns
 * @error. */
int uro_refuse_send(struct uro_ibv_qp *qp, const struct ibv_send_wr *wr, int error);
/* The mistakes of a program that builds requests with ibv_wr_*(); refusal_post.c has the texts. */
enum uro_wr_mistake {
    URO_WR_MISTAKE_NONE,
    URO_WR_MISTAKE_STATE,
    URO_WR_MISTAKE_FLAGS,
    URO_WR_MISTAKE_ORDER,
    URO_WR_MISTAKE_NO_DESTINATION,
    URO_WR_MISTAKE_ELEMENTS,
    URO_WR_MISTAKE_READ_ELEMENTS,
    URO_WR_MISTAKE_INLINE_OPERATION,
    URO_WR_MISTAKE_INLINE_LENGTH,
    URO_WR_MISTAKE_LENGTH,
    URO_WR_MISTAKE_DATAGRAM,
    URO_WR_MISTAKE_SRQN,
    URO_WR_MISTAKE_WINDOW,
    URO_WR_MISTAKE_FLUSH,
};

/* @mistake: enum uro_wr_mistake of request @count since ibv_wr_start(). */
int uro_refuse_batch(struct uro_ibv_qp *qp, int error, unsigned mistake, uint32_t count);
int uro_refuse_bind(struct uro_ibv_qp *qp, const struct ibv_mw *mw, const struct ibv_mw_bind *bind,
                    int error);
int uro_refuse_recv(struct uro_ibv_qp *qp, const struct ibv_recv_wr *wr, int error);
int uro_refuse_srq_recv(struct uro_device *device, const struct uro_wq *queue,
                        const struct ibv_recv_wr *wr, int error);

/* refusal_objects.c. Functions with @error return it. */

/* Multicast groups: the arguments, or a group that the queue pair is not attached to. */
int uro_refuse_group(struct uro_ibv_qp *qp, const char *call, const struct uro_gid *group);
int uro_refuse_detach(struct uro_ibv_qp *qp, const struct uro_gid *group);
/* Device memory. */
int uro_refuse_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr);
int uro_refuse_dm_copy(const struct uro_ibv_dm *dm, const char *call, uint64_t offset,
                       size_t length, int error);
int uro_refuse_dm_region(struct ibv_pd *pd, const struct uro_ibv_dm *dm, uint64_t offset,
                         size_t length, unsigned access, int error);
/* XRC domains. */
int uro_refuse_xrcd(struct ibv_context *context, const struct ibv_xrcd_init_attr *attr, int error);
/* Shared receive queues. */
int uro_refuse_srq(struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr);
/* Reports that @count objects of the kind @users still use an object of the kind @object: EBUSY. */
int uro_refuse_busy(struct uro_device *device, const char *call, const char *object, unsigned count,
                    const char *users);
