/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal.h - says why a call is refused: uroce prints it, and `uroce why` shows it. */
#pragma once

#include "host/host.h"

/* Records that the call @call is refused. The text has the reason with its numbers, and the mend.
 * Returns @error, an errno. Thread: any. The caller may hold any lock. */
__attribute__((format(printf, 4, 5), cold)) int uro_refuse(struct uro_device *device, int error,
                                                           const char *call, const char *format,
                                                           ...);

/* The same for a call by which correct programs find out what uroce has: EOPNOTSUPP, and
 * max_inline_data, which ibv_query_device does not return. Only log=all shows it. */
__attribute__((format(printf, 4, 5), cold)) int uro_refuse_probe(struct uro_device *device,
                                                                 int error, const char *call,
                                                                 const char *format, ...);

/* Say why a call fails with EINVAL, as uro_refuse(). They run after the call found the error, so
 * that the way of correct calls stays as it is. */

struct ibv_ah_attr;
struct ibv_context;
struct ibv_qp_attr;
struct ibv_qp_cap;
struct ibv_qp_init_attr_ex;
struct ibv_recv_wr;
struct ibv_send_wr;
struct uro_ibv_qp;
struct uro_wq;

/* refusal_qp.c */
/* Returns the name of a queue pair state, such as "RTS". */
const char *uro_refuse_state_name(unsigned state);
int uro_refuse_address(struct ibv_context *context, const char *call,
                       const struct ibv_ah_attr *attr);
/* Says that no route leads to the peer, which is ENETUNREACH. */
int uro_refuse_route(struct uro_device *device, const char *call, const struct ibv_ah_attr *attr);
int uro_refuse_modify(struct uro_ibv_qp *qp, const struct ibv_qp_attr *attr, unsigned mask);
int uro_refuse_cap(struct uro_device *device, const char *call, const struct ibv_qp_cap *cap);
int uro_refuse_create(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr);

/* refusal_post.c; also called with ENOMEM, which is no mistake and is not recorded. Returns
 * @error. */
int uro_refuse_send(struct uro_ibv_qp *qp, const struct ibv_send_wr *wr, int error);
int uro_refuse_batch(struct uro_ibv_qp *qp, int error);
int uro_refuse_recv(struct uro_ibv_qp *qp, const struct ibv_recv_wr *wr, int error);
int uro_refuse_srq_recv(struct uro_device *device, const struct uro_wq *queue,
                        const struct ibv_recv_wr *wr, int error);
