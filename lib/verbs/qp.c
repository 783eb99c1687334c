/* SPDX-License-Identifier: BSD-3-Clause */
/* qp.c - queue pairs as programs make and destroy them; qp_attr.c changes them, post.c feeds them. */
#include <errno.h>
#include <stdlib.h>

#include "core/limits.h"
#include "core/shard.h"
#include "verbs/post.h"

#define ALIGNMENT 64u

/* 0, or why such a queue pair cannot be had. */
static int refusal(const struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
    const struct ibv_qp_cap *cap = &attr->cap;

    if (attr->qp_type != IBV_QPT_RC || attr->srq != NULL)
        return EOPNOTSUPP;
    if (attr->send_cq == NULL || attr->recv_cq == NULL || attr->send_cq->context != pd->context ||
        attr->recv_cq->context != pd->context)
        return EINVAL;
    if (cap->max_send_wr > URO_WR_MAX || cap->max_recv_wr > URO_WR_MAX ||
        cap->max_send_sge > URO_SGE_MAX || cap->max_recv_sge > URO_SGE_MAX ||
        cap->max_inline_data > URO_INLINE_MAX)
        return EINVAL;
    return 0;
}

/* At least what was asked: a slot that holds elements can hold as many octets inline. */
static struct ibv_qp_cap granted(const struct ibv_qp_cap *wanted)
{
    struct ibv_qp_cap cap = *wanted;
    uint32_t slot = cap.max_send_sge * (uint32_t)sizeof(struct uro_sge);

    if (cap.max_inline_data < slot)
        cap.max_inline_data = slot;
    return cap;
}

static_assert(URO_SGE_MAX * sizeof(struct uro_sge) <= URO_INLINE_MAX, "the grant stays in limits");

static void detach(struct uro_object *object)
{
    struct uro_ibv_qp *qp = URO_CONTAINER_OF(object, struct uro_ibv_qp, object);
    struct uro_device *device = object->context->device;

    uro_ibv_qp_lock(qp);
    uro_engine_qp_destroy(uro_device_engine(device), qp->core);
    uro_ibv_qp_unlock(qp);
    for (unsigned i = 0; i < URO_QP_EVENTS; i++)
        uro_events_withdraw(&qp->events[i]);
}

static void name_events(struct uro_ibv_qp *qp)
{
    static const enum ibv_event_type types[URO_QP_EVENTS] = {
        [0] = IBV_EVENT_QP_FATAL,
        [URO_EVENT_QP_REQ_ERR - URO_EVENT_QP_FATAL] = IBV_EVENT_QP_REQ_ERR,
        [URO_EVENT_QP_ACCESS_ERR - URO_EVENT_QP_FATAL] = IBV_EVENT_QP_ACCESS_ERR,
        [URO_EVENT_COMM_EST - URO_EVENT_QP_FATAL] = IBV_EVENT_COMM_EST,
        [URO_EVENT_SQ_DRAINED - URO_EVENT_QP_FATAL] = IBV_EVENT_SQ_DRAINED,
        [URO_EVENT_LAST_WQE - URO_EVENT_QP_FATAL] = IBV_EVENT_QP_LAST_WQE_REACHED,
    };

    for (unsigned i = 0; i < URO_QP_EVENTS; i++)
        qp->events[i] = (struct uro_event_node){ .queue = &uro_ibv_context(qp->ibv.context)->events,
                                                 .object = &qp->ibv,
                                                 .type = (int)types[i] };
}

/* Builds the engine's part; false when there is no memory for it. */
static bool build(struct uro_ibv_qp *qp, struct uro_device *device)
{
    const struct uro_qp_init init = {
        .type = qp->type,
        .pd = qp->ibv.pd->handle,
        .send_cq = uro_ibv_cq(qp->ibv.send_cq)->core,
        .recv_cq = uro_ibv_cq(qp->ibv.recv_cq)->core,
        .send_capacity = qp->cap.max_send_wr,
        .recv_capacity = qp->cap.max_recv_wr,
        .send_sge_max = qp->cap.max_send_sge,
        .recv_sge_max = qp->cap.max_recv_sge,
        .inline_max = qp->cap.max_inline_data,
        .signal_all = qp->signal_all,
        .user = qp,
    };
    void *memory;

    if (posix_memalign(&memory, ALIGNMENT, uro_qp_size(&init)) != 0)
        return false;
    uro_device_lock(device);
    qp->shard = uro_device_shard(device);
    qp->core = uro_qp_create(qp->shard, &init, memory);
    uro_device_unlock(device);
    qp->message_max = qp->type == URO_QPT_UD ? uro_shard_path_mtu(qp->shard) : URO_MESSAGE_MAX;
    qp->send = uro_qp_send_queue(qp->core);
    qp->recv = uro_qp_recv_queue(qp->core);
    return true;
}

static void announce(struct uro_ibv_qp *qp, const struct ibv_qp_init_attr *attr)
{
    qp->ibv.qp_context = attr->qp_context;
    qp->ibv.qp_num = qp->ibv.handle = uro_qp_number(qp->core);
    qp->ibv.state = IBV_QPS_RESET;
    qp->ibv.qp_type = attr->qp_type;
    pthread_mutex_init(&qp->ibv.mutex, NULL);
    pthread_cond_init(&qp->ibv.cond, NULL);
    pthread_spin_init(&qp->send_lock, PTHREAD_PROCESS_PRIVATE);
    pthread_spin_init(&qp->recv_lock, PTHREAD_PROCESS_PRIVATE);
    name_events(qp);
    atomic_fetch_add(&uro_ibv_pd(qp->ibv.pd)->users, 1);
    atomic_fetch_add(&uro_ibv_cq(qp->ibv.send_cq)->users, 1);
    atomic_fetch_add(&uro_ibv_cq(qp->ibv.recv_cq)->users, 1);
    uro_object_add(&qp->object, qp->ibv.context, detach);
}

static struct uro_ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct uro_ibv_qp *qp;

    if (!uro_ibv_start(pd->context) || (qp = uro_ibv_new(sizeof *qp)) == NULL)
        return NULL;
    qp->ibv.context = pd->context;
    qp->ibv.pd = pd;
    qp->ibv.send_cq = attr->send_cq;
    qp->ibv.recv_cq = attr->recv_cq;
    qp->type = URO_QPT_RC;
    qp->signal_all = attr->sq_sig_all != 0;
    qp->cap = granted(&attr->cap);
    if (!build(qp, uro_ibv_host(pd->context))) {
        free(qp);
        errno = ENOMEM;
        return NULL;
    }
    announce(qp, attr);
    attr->cap = qp->cap;
    return qp;
}

static struct ibv_qp *refuse(int error)
{
    errno = error;
    return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    int error = refusal(pd, attr);

    if (error != 0)
        return refuse(error);
    struct uro_ibv_qp *qp = create(pd, attr);
    return qp == NULL ? NULL : &qp->ibv;
}

struct ibv_qp *uro_ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    /* It begins with all of the other, as verbs.h itself says with a cast. */
    struct ibv_qp_init_attr *plain = (struct ibv_qp_init_attr *)(void *)attr;
    bool extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

    if (attr->comp_mask & ~(unsigned)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
        return refuse(EOPNOTSUPP);
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd->context != context)
        return refuse(EINVAL);
    int error = refusal(attr->pd, plain);
    if (error == 0 && extended)
        error = uro_post_ex_check(URO_QPT_RC, attr->send_ops_flags);
    if (error != 0)
        return refuse(error);
    struct uro_ibv_qp *qp = create(attr->pd, plain);
    if (qp == NULL)
        return NULL;
    if (extended)
        uro_post_ex_init(qp, attr->send_ops_flags);
    return &qp->ibv;
}

/* Returns when the program has acknowledged every event it took. */
static void settle(struct uro_ibv_qp *qp)
{
    uint32_t taken = 0;

    for (unsigned i = 0; i < URO_QP_EVENTS; i++)
        taken += qp->events[i].taken;
    pthread_mutex_lock(&qp->ibv.mutex);
    while (qp->ibv.events_completed != taken)
        pthread_cond_wait(&qp->ibv.cond, &qp->ibv.mutex);
    pthread_mutex_unlock(&qp->ibv.mutex);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);

    if (uro_object_detach(&qp->object))
        settle(qp);
    atomic_fetch_sub(&uro_ibv_cq(ibv->send_cq)->users, 1);
    atomic_fetch_sub(&uro_ibv_cq(ibv->recv_cq)->users, 1);
    atomic_fetch_sub(&uro_ibv_pd(ibv->pd)->users, 1);
    uro_object_drop(&qp->object);
    pthread_spin_destroy(&qp->send_lock);
    pthread_spin_destroy(&qp->recv_lock);
    pthread_cond_destroy(&ibv->cond);
    pthread_mutex_destroy(&ibv->mutex);
    free(qp->core);
    free(qp);
    return 0;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);

    return qp->ex.wr_start != NULL ? &qp->ex : NULL;
}
