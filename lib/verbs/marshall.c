/* SPDX-License-Identifier: BSD-3-Clause */
/* marshall.c - converts attributes between the kernel's structs and those of verbs, for
 * librdmacm. */
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <string.h>

#include "verbs/objects.h"

/* verbs.h does not declare these functions, which are for rdma-core's own libraries. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src)
{
    dst->grh = (struct ibv_global_route){ .flow_label = src->grh.flow_label,
                                          .sgid_index = src->grh.sgid_index,
                                          .hop_limit = src->grh.hop_limit,
                                          .traffic_class = src->grh.traffic_class };
    memcpy(dst->grh.dgid.raw, src->grh.dgid, sizeof dst->grh.dgid.raw);
    dst->dlid = src->dlid;
    dst->sl = src->sl;
    dst->src_path_bits = src->src_path_bits;
    dst->static_rate = src->static_rate;
    dst->is_global = src->is_global;
    dst->port_num = src->port_num;
}

void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src)
{
    *dst = (struct ibv_qp_attr){
        .qp_state = (enum ibv_qp_state)src->qp_state,
        .cur_qp_state = (enum ibv_qp_state)src->cur_qp_state,
        .path_mtu = (enum ibv_mtu)src->path_mtu,
        .path_mig_state = (enum ibv_mig_state)src->path_mig_state,
        .qkey = src->qkey,
        .rq_psn = src->rq_psn,
        .sq_psn = src->sq_psn,
        .dest_qp_num = src->dest_qp_num,
        .qp_access_flags = src->qp_access_flags,
        .cap = { .max_send_wr = src->max_send_wr,
                 .max_recv_wr = src->max_recv_wr,
                 .max_send_sge = src->max_send_sge,
                 .max_recv_sge = src->max_recv_sge,
                 .max_inline_data = src->max_inline_data },
        .pkey_index = src->pkey_index,
        .alt_pkey_index = src->alt_pkey_index,
        .en_sqd_async_notify = src->en_sqd_async_notify,
        .sq_draining = src->sq_draining,
        .max_rd_atomic = src->max_rd_atomic,
        .max_dest_rd_atomic = src->max_dest_rd_atomic,
        .min_rnr_timer = src->min_rnr_timer,
        .port_num = src->port_num,
        .timeout = src->timeout,
        .retry_cnt = src->retry_cnt,
        .rnr_retry = src->rnr_retry,
        .alt_port_num = src->alt_port_num,
        .alt_timeout = src->alt_timeout,
    };
    ibv_copy_ah_attr_from_kern(&dst->ah_attr, &src->ah_attr);
    ibv_copy_ah_attr_from_kern(&dst->alt_ah_attr, &src->alt_ah_attr);
}

/* The two structs of a path record have the same fields, with other widths and offsets. */
#define COPY_PATH(dst, src)                                                                        \
    do {                                                                                           \
        memcpy(&(dst)->dgid, &(src)->dgid, sizeof(dst)->dgid);                                     \
        memcpy(&(dst)->sgid, &(src)->sgid, sizeof(dst)->sgid);                                     \
        (dst)->dlid = (src)->dlid;                                                                 \
        (dst)->slid = (src)->slid;                                                                 \
        (dst)->flow_label = (src)->flow_label;                                                     \
        (dst)->hop_limit = (src)->hop_limit;                                                       \
        (dst)->traffic_class = (src)->traffic_class;                                               \
        (dst)->numb_path = (src)->numb_path;                                                       \
        (dst)->pkey = (src)->pkey;                                                                 \
        (dst)->sl = (src)->sl;                                                                     \
        (dst)->mtu_selector = (src)->mtu_selector;                                                 \
        (dst)->rate_selector = (src)->rate_selector;                                               \
        (dst)->rate = (src)->rate;                                                                 \
        (dst)->packet_life_time_selector = (src)->packet_life_time_selector;                       \
        (dst)->packet_life_time = (src)->packet_life_time;                                         \
        (dst)->preference = (src)->preference;                                                     \
    } while (0)

void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src)
{
    COPY_PATH(dst, src);
    dst->raw_traffic = (int)src->raw_traffic;
    dst->reversible = (int)src->reversible;
    dst->mtu = (uint8_t)src->mtu;
}

void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src)
{
    COPY_PATH(dst, src);
    dst->raw_traffic = (uint32_t)src->raw_traffic;
    dst->reversible = (uint32_t)src->reversible;
    dst->mtu = src->mtu;
}
