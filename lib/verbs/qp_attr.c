/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_attr.c - ibv_modify_qp and ibv_query_qp: converts attributes to and from those of the
 * engine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "verbs/card.h"
#include "verbs/post.h"
#include "verbs/refusal.h"

/* Locks both CQs, in the order of their addresses, because two threads that hold the locks of
 * different engines may need the same CQs. */
static void lock_cqs(struct ibv_cq *one, struct ibv_cq *other)
{
    struct ibv_cq *const lower = (uintptr_t)one < (uintptr_t)other ? one : other;
    struct ibv_cq *const upper = lower == one ? other : one;

    if (lower != NULL)
        pthread_spin_lock(&uro_ibv_cq(lower)->lock);
    if (upper != NULL && upper != lower)
        pthread_spin_lock(&uro_ibv_cq(upper)->lock);
}

static void unlock_cqs(struct ibv_cq *one, struct ibv_cq *other)
{
    if (one != NULL)
        pthread_spin_unlock(&uro_ibv_cq(one)->lock);
    if (other != NULL && other != one)
        pthread_spin_unlock(&uro_ibv_cq(other)->lock);
}

void uro_ibv_qp_lock(struct uro_ibv_qp *qp)
{
    if (!uro_post_ex_inside(qp))
        pthread_spin_lock(&qp->send_lock);
    else
        qp->batch.error = EINVAL; /* the requests of the batch were checked in the old state */
    uro_device_lock(qp->object.device);
    pthread_spin_lock(&qp->recv_lock);
    lock_cqs(qp->ibv.send_cq, qp->ibv.recv_cq);
}

void uro_ibv_qp_unlock(struct uro_ibv_qp *qp)
{
    unlock_cqs(qp->ibv.send_cq, qp->ibv.recv_cq);
    pthread_spin_unlock(&qp->recv_lock);
    uro_device_unlock(qp->object.device);
    if (!uro_post_ex_inside(qp))
        pthread_spin_unlock(&qp->send_lock);
}

static uint32_t octets_of(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static enum ibv_mtu mtu_of(uint32_t octets)
{
    return octets < URO_PATH_MTU_MIN ? 0 : (enum ibv_mtu)(__builtin_ctz(octets) - 7);
}

void uro_ibv_address(const struct uro_device *device, const struct ibv_ah_attr *ah,
                     struct uro_address *address)
{
    address->sgid_index = (uint8_t)uro_gid_index_own(uro_device_config(device), ah->grh.sgid_index);
    address->hop_limit = ah->grh.hop_limit;
    address->traffic_class = ah->grh.traffic_class;
    address->service_level = ah->sl;
    address->flow_label = ah->grh.flow_label & IB_GRH_FLOWLABEL_MASK;
    memcpy(address->dest.octets, ah->grh.dgid.raw, sizeof address->dest.octets);
}

/* Converts the attributes that @mask names. The others may be uninitialized. */
static void from_ibv(const struct uro_device *device, const struct ibv_qp_attr *ibv, unsigned mask,
                     struct uro_qp_attr *attr)
{
#define TAKE(bit, field, value)                                                                    \
    if (mask & URO_ATTR_##bit)                                                                     \
    attr->field = value
    *attr = (struct uro_qp_attr){ 0 };
    TAKE(STATE, state, (enum uro_qp_state)ibv->qp_state);
    TAKE(CUR_STATE, current_state, (enum uro_qp_state)ibv->cur_qp_state);
    TAKE(SQD_NOTIFY, sqd_notify, ibv->en_sqd_async_notify != 0);
    TAKE(ACCESS, access, ibv->qp_access_flags);
    TAKE(PKEY_INDEX, pkey_index, ibv->pkey_index);
    TAKE(PORT, port, ibv->port_num);
    TAKE(QKEY, qkey, ibv->qkey);
    TAKE(PATH_MTU, path_mtu, octets_of(ibv->path_mtu));
    TAKE(TIMEOUT, timeout, ibv->timeout);
    TAKE(RETRY_CNT, retry_count, ibv->retry_cnt);
    TAKE(RNR_RETRY, rnr_retry, ibv->rnr_retry);
    TAKE(RQ_PSN, rq_psn, ibv->rq_psn);
    TAKE(RD_ATOMIC, max_rd_atomic, ibv->max_rd_atomic);
    TAKE(MIN_RNR, min_rnr_timer, ibv->min_rnr_timer);
    TAKE(SQ_PSN, sq_psn, ibv->sq_psn);
    TAKE(DEST_RD, max_dest_rd_atomic, ibv->max_dest_rd_atomic);
    TAKE(MIG_STATE, path_mig_state, (uint8_t)ibv->path_mig_state);
    TAKE(DEST_QPN, dest_qpn, ibv->dest_qp_num);
#undef TAKE
    if (mask & URO_ATTR_AV)
        uro_ibv_address(device, &ibv->ah_attr, &attr->address);
}

static void to_ibv(const struct uro_qp_attr *attr, struct ibv_qp_attr *ibv)
{
    *ibv = (struct ibv_qp_attr){
        .qp_state = (enum ibv_qp_state)attr->state,
        .cur_qp_state = (enum ibv_qp_state)attr->current_state,
        .path_mtu = mtu_of(attr->path_mtu),
        .path_mig_state = (enum ibv_mig_state)attr->path_mig_state,
        .qkey = attr->qkey,
        .rq_psn = attr->rq_psn,
        .sq_psn = attr->sq_psn,
        .dest_qp_num = attr->dest_qpn,
        .qp_access_flags = attr->access,
        .pkey_index = attr->pkey_index,
        .en_sqd_async_notify = attr->sqd_notify,
        .sq_draining = attr->sq_draining,
        .max_rd_atomic = attr->max_rd_atomic,
        .max_dest_rd_atomic = attr->max_dest_rd_atomic,
        .min_rnr_timer = attr->min_rnr_timer,
        .port_num = attr->port,
        .timeout = attr->timeout,
        .retry_cnt = attr->retry_count,
        .rnr_retry = attr->rnr_retry,
    };
}

/* Removes the bits of attributes without a meaning for one end of XRC. Programs use both ends like
 * RC, and the kernel ignores these attributes, too. */
static unsigned relevant(const struct uro_ibv_qp *qp, unsigned mask)
{
    if (qp->type == URO_QPT_XRC_INI)
        return mask & ~(URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR);
    if (qp->type == URO_QPT_XRC_TGT)
        return mask & ~(URO_ATTR_RD_ATOMIC | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY);
    return mask;
}

/* Allocates responder resources for the requested max_dest_rd_atomic. The caller frees *@unused.
 * Returns 0 or -ENOMEM. Engine lock held. */
static int lend_resources(const struct uro_ibv_qp *qp, const struct uro_qp_attr *attr,
                          unsigned bits, void **unused)
{
    struct uro_ibv_shared_qp *shared = qp->shared;
    size_t size = uro_qp_resources_needed(shared->core, attr, bits);

    if (size <= shared->resources_size)
        return 0;
    void *memory = malloc(size);
    if (memory == NULL)
        return -ENOMEM;
    *unused = uro_qp_lend_resources(shared->core, memory, size);
    shared->resources = memory;
    shared->resources_size = size;
    return 0;
}

/* Returns whether the numbers of READs and atomics are within the limits of the card. */
static bool within_card(const struct uro_device *device, const struct ibv_qp_attr *attr,
                        unsigned mask)
{
    return (!(mask & URO_ATTR_RD_ATOMIC) ||
            attr->max_rd_atomic <=
                uro_card_most(device, URO_CARD_MAX_QP_INIT_RD_ATOM, URO_RD_ATOMIC_MAX)) &&
           (!(mask & URO_ATTR_DEST_RD) ||
            attr->max_dest_rd_atomic <=
                uro_card_most(device, URO_CARD_MAX_QP_RD_ATOM, URO_RD_ATOMIC_MAX));
}

int uro_ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *wanted, int mask)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    struct uro_device *device = qp->object.device;
    unsigned bits = relevant(qp, (unsigned)mask);
    struct uro_qp_attr attr;
    void *unused = NULL;

    if (uro_object_dead(&qp->object))
        return EIO;
    if (((bits & URO_ATTR_AV) && !uro_ibv_address_valid(ibv->context, &wanted->ah_attr)) ||
        !within_card(device, wanted, bits))
        return uro_refuse_modify(qp, wanted, bits);

    from_ibv(device, wanted, bits, &attr);
    uro_ibv_qp_lock(qp);
    int error = lend_resources(qp, &attr, bits, &unused);
    if (error == 0)
        error = uro_engine_qp_modify(uro_device_engine(device), qp->core, &attr, bits,
                                     uro_device_now());
    if (error == -ENOMEM)
        uro_quota_check_bounds(device);
    if (error == 0 && (bits & URO_ATTR_AV))
        qp->shared->address = wanted->ah_attr;
    if (error == 0 && (bits & URO_ATTR_AV) && (bits & URO_ATTR_PATH_MTU))
        uro_device_check_path(device, attr.address.sgid_index, &attr.address.dest, attr.path_mtu);
    if (error == 0 && (bits & URO_ATTR_STATE)) {
        ibv->state = wanted->qp_state;
        if (ibv->state == IBV_QPS_RESET)
            qp->shared->address = (struct ibv_ah_attr){ 0 };
    }
    uro_ibv_qp_unlock(qp);
    free(unused);
    /* Delivers the completions of flushed requests and the events, and resumes sending. */
    if (error == 0)
        uro_device_progress(device, true);
    if (error == -ENETUNREACH)
        return uro_refuse_route(device, "ibv_modify_qp", &wanted->ah_attr);
    return error == -EINVAL ? uro_refuse_modify(qp, wanted, bits) : -error;
}

int uro_ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                     struct ibv_qp_init_attr *init_attr)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    struct uro_device *device = qp->object.device;
    struct uro_qp_attr now;

    (void)mask; /* all attributes are cheap to query */
    if (uro_object_dead(&qp->object))
        return EIO;
    uro_device_lock(device);
    uro_qp_query(qp->core, &now);
    to_ibv(&now, attr);
    attr->ah_attr = qp->shared->address;
    attr->cap = qp->cap;
    ibv->state = attr->qp_state;
    uro_device_unlock(device);

    *init_attr = (struct ibv_qp_init_attr){ .qp_context = ibv->qp_context,
                                            .send_cq = ibv->send_cq,
                                            .recv_cq = ibv->recv_cq,
                                            .srq = ibv->srq,
                                            .cap = qp->cap,
                                            .qp_type = ibv->qp_type,
                                            .sq_sig_all = qp->signal_all };
    return 0;
}

/* The engine executes packets only in order, writes no byte twice, and copies with
 * uro_copy_in_order(). So the result is the same for each @op that moves more than one word. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    const uint32_t ops = 1u << IBV_WR_SEND | 1u << IBV_WR_SEND_WITH_IMM |
                         1u << IBV_WR_SEND_WITH_INV | 1u << IBV_WR_RDMA_WRITE |
                         1u << IBV_WR_RDMA_WRITE_WITH_IMM | 1u << IBV_WR_RDMA_READ;

    (void)qp;
    return flags == 0 && (unsigned)op < 32 && (ops >> op & 1u) != 0;
}
