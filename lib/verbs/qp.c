/* SPDX-License-Identifier: BSD-3-Clause */
/* qp.c - creates, opens and destroys queue pairs. qp_attr.c modifies them, post_list.c posts to
 * them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "core/shard.h"
#include "verbs/card.h"
#include "verbs/cq_parts.h"
#include "verbs/inject.h"
#include "verbs/objects.h"
#include "verbs/post.h"
#include "verbs/refusal.h"

#define ALIGNMENT  64u
#define OPEN_NEEDS (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE)
#define ATTRIBUTES                                                                                 \
    (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |                 \
     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

/* Converts the type. Returns false if uroce does not support it. */
static bool known_type(enum ibv_qp_type wanted, enum uro_qp_type *type)
{
    static const struct {
        enum ibv_qp_type ibv;
        enum uro_qp_type core;
    } types[] = {
        { IBV_QPT_RC, URO_QPT_RC },
        { IBV_QPT_UC, URO_QPT_UC },
        { IBV_QPT_UD, URO_QPT_UD },
        { IBV_QPT_XRC_SEND, URO_QPT_XRC_INI },
        { IBV_QPT_XRC_RECV, URO_QPT_XRC_TGT },
    };

    for (size_t i = 0; i < URO_ARRAY_LEN(types); i++) {
        *type = types[i].core;
        if (types[i].ibv == wanted)
            return true;
    }
    return false;
}

static bool has_sends(enum uro_qp_type type)
{
    return type != URO_QPT_XRC_TGT;
}

static bool has_receives(enum uro_qp_type type)
{
    return type != URO_QPT_XRC_TGT && type != URO_QPT_XRC_INI;
}

static bool cq_valid(const struct ibv_context *context, const struct ibv_cq *cq)
{
    return cq != NULL && cq->context == context;
}

/* Returns whether all objects that a queue pair of @type needs are given, and are of @context. */
static bool parts_valid(const struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr,
                        enum uro_qp_type type)
{
    bool pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD;
    bool xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD;

    if (type == URO_QPT_XRC_TGT)
        return xrcd && attr->xrcd != NULL && attr->xrcd->context == context;
    if (xrcd || !pd || attr->pd == NULL || attr->pd->context != context ||
        !cq_valid(context, attr->send_cq))
        return false;
    if (!has_receives(type)) /* the objects for receives are ignored */
        return true;
    if (attr->srq != NULL &&
        (attr->srq->context != context || uro_ibv_srq(attr->srq)->xrcd != NULL))
        return false;
    return cq_valid(context, attr->recv_cq);
}

/* Returns whether an object belongs to the parent of this forked child, although the context of
 * librdmacm was kept. */
static bool parts_dead(const struct ibv_qp_init_attr_ex *attr, enum uro_qp_type type)
{
    if (type == URO_QPT_XRC_TGT)
        return uro_object_dead(&uro_ibv_xrcd(attr->xrcd)->object);
    if (uro_object_dead(&uro_ibv_pd(attr->pd)->object) ||
        uro_object_dead(&uro_ibv_cq(attr->send_cq)->object))
        return true;
    return has_receives(type) &&
           (uro_object_dead(&uro_ibv_cq(attr->recv_cq)->object) ||
            (attr->srq != NULL && uro_object_dead(&uro_ibv_srq(attr->srq)->object)));
}

/* Returns the number of requests to grant. A number above the limit stays above it. */
static uint32_t slots(const struct uro_device *device, uint32_t wanted)
{
    return uro_card_grant(&uro_device_config(device)->card, wanted,
                          uro_card_most(device, URO_CARD_MAX_QP_WR, URO_WR_MAX));
}

/* Returns the bytes of inline data to grant: at least the bytes that the elements of a slot take,
 * up to the card's limit. A number above the limit stays above it. A card with exact grants gets
 * exactly the wanted number. */
static uint32_t inline_bytes(const struct uro_device *device, const struct ibv_qp_cap *wanted)
{
    const uint32_t most = uro_card_most(device, URO_CARD_MAX_INLINE, URO_INLINE_MAX);
    uint32_t slot = wanted->max_send_sge * (uint32_t)sizeof(struct uro_sge);

    if (uro_device_config(device)->card.grants == URO_CARD_GRANTS_EXACT)
        return wanted->max_inline_data;
    slot = slot < most ? slot : most;
    return wanted->max_inline_data < slot ? slot : wanted->max_inline_data;
}

/* Returns the granted capacities of the queues that the type has. */
static struct ibv_qp_cap granted(const struct uro_device *device,
                                 const struct ibv_qp_init_attr_ex *attr, enum uro_qp_type type)
{
    struct ibv_qp_cap cap = { 0 };

    if (has_sends(type)) {
        cap.max_send_wr = slots(device, attr->cap.max_send_wr);
        cap.max_send_sge = attr->cap.max_send_sge;
        cap.max_inline_data = inline_bytes(device, &attr->cap);
    }
    if (has_receives(type) && attr->srq == NULL) {
        cap.max_recv_wr = slots(device, attr->cap.max_recv_wr);
        cap.max_recv_sge = attr->cap.max_recv_sge;
    }
    return cap;
}

static bool capabilities_valid(const struct uro_device *device, const struct ibv_qp_cap *cap)
{
    const uint32_t requests = uro_card_most(device, URO_CARD_MAX_QP_WR, URO_WR_MAX);

    return cap->max_send_wr <= requests && cap->max_recv_wr <= requests &&
           cap->max_send_sge <= uro_card_most(device, URO_CARD_MAX_SEND_SGE, URO_SGE_MAX) &&
           cap->max_recv_sge <= uro_card_most(device, URO_CARD_MAX_RECV_SGE, URO_SGE_MAX) &&
           cap->max_inline_data <= uro_card_most(device, URO_CARD_MAX_INLINE, URO_INLINE_MAX);
}

static uint32_t flags_of(const struct ibv_qp_init_attr_ex *attr)
{
    return attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
}

/* Returns whether the program will also use ibv_wr_*(). */
static bool extended(const struct ibv_qp_init_attr_ex *attr)
{
    return attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
}

/* Returns 0, or the error number if the queue pair cannot be created. */
static int refusal(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr,
                   enum uro_qp_type *type)
{
    const struct uro_device *device = uro_ibv_host(context);
    uint32_t flags = flags_of(attr);

    if ((attr->comp_mask & ~(uint32_t)ATTRIBUTES) != 0 || !known_type(attr->qp_type, type) ||
        (flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0)
        return EOPNOTSUPP;
    if (flags != 0 && *type != URO_QPT_UD)
        return EINVAL;
    const struct ibv_qp_cap cap = granted(device, attr, *type);
    if (!parts_valid(context, attr, *type) || !capabilities_valid(device, &cap))
        return EINVAL;
    if (parts_dead(attr, *type))
        return EIO;
    return extended(attr) ? uro_post_ex_check(*type, attr->send_ops_flags) : 0;
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

/* Adds @by, 1 or -1, to the users of the objects that the queue pair uses. */
static void count_users(struct uro_ibv_qp *qp, unsigned by)
{
    if (qp->ibv.pd != NULL)
        atomic_fetch_add(&uro_ibv_pd(qp->ibv.pd)->users, by);
    if (qp->ibv.send_cq != NULL)
        atomic_fetch_add(&uro_ibv_cq(qp->ibv.send_cq)->users, by);
    if (qp->ibv.recv_cq != NULL)
        atomic_fetch_add(&uro_ibv_cq(qp->ibv.recv_cq)->users, by);
    if (qp->ibv.srq != NULL)
        atomic_fetch_add(&uro_ibv_srq(qp->ibv.srq)->users, by);
    if (qp->xrcd != NULL)
        atomic_fetch_add(&qp->xrcd->users, by);
}

/* rule XRC.HANDLES */
static void detach(struct uro_object *object)
{
    struct uro_ibv_qp *qp = URO_CONTAINER_OF(object, struct uro_ibv_qp, object);
    struct uro_ibv_shared_qp *shared = qp->shared;
    struct uro_device *device = object->device;

    uro_ibv_qp_lock(qp);
    uro_ibv_qp_leave_all(qp);
    uro_list_remove(&qp->handle);
    if (uro_list_empty(&shared->handles)) {
        uro_engine_qp_destroy(uro_device_engine(device), shared->core);
        uro_list_remove(&shared->link);
    }
    uro_ibv_qp_unlock(qp);
    for (unsigned i = 0; i < URO_QP_EVENTS; i++)
        uro_events_withdraw(&qp->events[i]);
}

/* Returns the engine of a new queue pair: the engine of its SRQ, its receive CQ or its send CQ, in
 * this order. All XRC_RECV queue pairs are on the first engine, with the XRC SRQs. */
static struct uro_device *engine_of(const struct uro_ibv_qp *qp)
{
    if (qp->ibv.recv_cq != NULL) {
        struct uro_device *engine = uro_ibv_cq(qp->ibv.recv_cq)->object.device;
        return qp->ibv.srq == NULL ? engine : uro_ibv_srq_engine(uro_ibv_srq(qp->ibv.srq), engine);
    }
    if (qp->ibv.send_cq != NULL)
        return uro_ibv_cq(qp->ibv.send_cq)->object.device;
    return uro_ibv_host(qp->ibv.context);
}

/* Makes @qp a handle of @shared. The caller has set the objects of @qp. Lock of @engine held. */
static void add_handle(struct uro_ibv_qp *qp, struct uro_ibv_shared_qp *shared,
                       struct uro_device *engine)
{
    qp->shared = shared;
    qp->core = shared->core;
    qp->shard = uro_device_shard(engine);
    qp->send = uro_qp_send_queue(shared->core);
    qp->recv = uro_qp_recv_queue(shared->core);
    qp->message_max = qp->type == URO_QPT_UD ? uro_shard_path_mtu_ever(qp->shard)
                                             : uro_card_most(uro_ibv_host(qp->ibv.context),
                                                             URO_CARD_MAX_MSG_SZ, URO_MESSAGE_MAX);
    qp->ibv.qp_num = qp->ibv.handle = uro_qp_number(shared->core);
    qp->ibv.state = (enum ibv_qp_state)uro_qp_state_now(shared->core);
    pthread_mutex_init(&qp->ibv.mutex, NULL);
    pthread_cond_init(&qp->ibv.cond, NULL);
    pthread_spin_init(&qp->send_lock, PTHREAD_PROCESS_PRIVATE);
    pthread_spin_init(&qp->recv_lock, PTHREAD_PROCESS_PRIVATE);
    name_events(qp);
    count_users(qp, 1);
    atomic_fetch_add(&shared->references, 1);
    uro_list_append(&shared->handles, &qp->handle);
}

/* Returns the part of the CQ for queue pairs of @engine, or NULL. */
static struct uro_cq *completions(struct ibv_cq *cq, struct uro_device *engine)
{
    return cq != NULL ? uro_cq_parts_of(uro_ibv_cq(cq), engine) : NULL;
}

static struct uro_qp_init init_of(const struct uro_ibv_qp *qp, struct uro_device *engine)
{
    return (struct uro_qp_init){
        /* qp_attr.c lends the responder resources when their number is known. */
        .type = qp->type,
        .pd = qp->ibv.pd != NULL ? qp->ibv.pd->handle : 0,
        .xrcd = qp->xrcd != NULL ? qp->xrcd->domain->number : 0,
        .send_cq = completions(qp->ibv.send_cq, engine),
        .recv_cq = completions(qp->ibv.recv_cq, engine),
        .srq = qp->ibv.srq != NULL ? &uro_ibv_srq(qp->ibv.srq)->core : NULL,
        .send_capacity = qp->cap.max_send_wr,
        .recv_capacity = qp->cap.max_recv_wr,
        .send_sge_max = qp->cap.max_send_sge,
        .recv_sge_max = qp->cap.max_recv_sge,
        .inline_max = qp->cap.max_inline_data,
        .signal_all = qp->signal_all,
        .lends_resources = true,
    };
}

/* Returns whether a QPN is free. If none is free, prints the limit. Engine lock held. */
static bool has_number(struct uro_device *device)
{
    const struct uro_shard *shard = uro_device_shard(device);

    if (shard->qps.count < uro_qp_most(shard))
        return true;
    uro_quota_warn_bound(device, URO_BOUND_SHARED_QPS, uro_qp_most(shard));
    return false;
}

/* Creates the queue pair of the engine, with @qp as its handle. Returns false when out of memory or
 * numbers. */
static bool build(struct uro_ibv_qp *qp, struct uro_device *device, bool block_self_multicast)
{
    struct uro_ibv_shared_qp *shared = uro_ibv_new(qp->ibv.context, sizeof *shared);
    struct uro_qp_init init = init_of(qp, device);
    void *memory;

    if (shared == NULL || (init.send_cq == NULL) != (qp->ibv.send_cq == NULL) ||
        (init.recv_cq == NULL) != (qp->ibv.recv_cq == NULL) ||
        posix_memalign(&memory, ALIGNMENT, uro_qp_size(&init)) != 0) {
        free(shared);
        return false;
    }
    init.block_self_multicast = block_self_multicast;
    init.user = shared;
    uro_list_init(&shared->handles);
    uro_device_lock(device);
    if (!has_number(device)) {
        uro_device_unlock(device);
        free(memory);
        free(shared);
        return false;
    }
    shared->core = uro_qp_create(uro_device_shard(device), &init, memory);
    add_handle(qp, shared, device);
    if (qp->xrcd != NULL)
        uro_list_append(&qp->xrcd->domain->targets, &shared->link);
    uro_device_unlock(device);
    return true;
}

static struct uro_ibv_qp *new_handle(struct ibv_context *context, bool extended)
{
    struct uro_ibv_qp *qp = uro_ibv_new(
        context, extended ? sizeof *qp : offsetof(struct uro_ibv_qp, ibv) + sizeof qp->ibv);

    if (qp != NULL)
        qp->extended = extended;
    return qp;
}

struct ibv_qp *uro_ibv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    enum uro_qp_type type = URO_QPT_RC;
    const int lacking = uro_card_refuses_qp(uro_ibv_host(context), attr);
    int error = refusal(context, attr, &type);
    struct uro_ibv_qp *qp;

    if (uro_inject(context, URO_INJECT_CALL_CREATE_QP) != 0)
        return NULL;
    if (lacking != 0) {
        errno = lacking;
        return NULL;
    }
    if (error != 0) {
        if (error == EINVAL)
            (void)uro_refuse_create(context, attr);
        else if (error == EOPNOTSUPP)
            (void)uro_refuse_probe(uro_ibv_host(context), error, "ibv_create_qp",
                                   "type %d, comp_mask 0x%x or the create flags are not supported",
                                   (int)attr->qp_type, attr->comp_mask);
        errno = error;
        return NULL;
    }
    if (!uro_ibv_start(context) || (qp = new_handle(context, extended(attr))) == NULL)
        return NULL;
    if (!uro_object_charge(&qp->object, context, URO_QUOTA_QP)) {
        free(qp);
        return NULL;
    }
    qp->ibv.context = context;
    qp->ibv.qp_context = attr->qp_context;
    qp->ibv.qp_type = attr->qp_type;
    qp->ibv.pd = type == URO_QPT_XRC_TGT ? NULL : attr->pd;
    qp->ibv.send_cq = has_sends(type) ? attr->send_cq : NULL;
    qp->ibv.recv_cq = has_receives(type) ? attr->recv_cq : NULL;
    qp->ibv.srq = has_receives(type) ? attr->srq : NULL;
    qp->xrcd = type == URO_QPT_XRC_TGT ? uro_ibv_xrcd(attr->xrcd) : NULL;
    qp->type = type;
    qp->signal_all = attr->sq_sig_all != 0;
    qp->cap = granted(uro_ibv_host(context), attr, type);
    struct uro_device *engine = engine_of(qp);
    if (!build(qp, engine, flags_of(attr) != 0)) {
        uro_object_refund(&qp->object);
        free(qp);
        errno = ENOMEM;
        return NULL;
    }
    if (extended(attr))
        uro_post_ex_init(qp, attr->send_ops_flags);
    uro_object_add_on(&qp->object, context, engine, detach);
    attr->cap = qp->cap;
    return &qp->ibv;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex all = { 0 };

    memcpy(&all, attr, sizeof *attr); /* the structs have the same layout up to comp_mask */
    all.comp_mask = IBV_QP_INIT_ATTR_PD;
    all.pd = pd;
    struct ibv_qp *qp = uro_ibv_create_qp_ex(pd->context, &all);
    if (qp != NULL)
        attr->cap = all.cap;
    return qp;
}

/* Finds the XRC_RECV queue pair with that number in the domain. Returns NULL if there is none. */
static struct uro_ibv_shared_qp *find_target(const struct uro_ibv_domain *domain, uint32_t number)
{
    const struct uro_link *head = &domain->targets.head;

    for (struct uro_link *link = head->next; link != head; link = link->next) {
        struct uro_ibv_shared_qp *shared = URO_CONTAINER_OF(link, struct uro_ibv_shared_qp, link);
        if (uro_qp_number(shared->core) == number)
            return shared;
    }
    return NULL;
}

/* Returns 0, or the error number if the attributes are invalid. */
static int open_refusal(const struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
    if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED)
        return EOPNOTSUPP;
    if ((attr->comp_mask & OPEN_NEEDS) != OPEN_NEEDS || attr->xrcd == NULL ||
        attr->xrcd->context != context || attr->qp_type != IBV_QPT_XRC_RECV)
        return EINVAL;
    return uro_object_dead(&uro_ibv_xrcd(attr->xrcd)->object) ? EIO : 0;
}

struct ibv_qp *uro_ibv_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
    struct uro_device *device = uro_ibv_host(context);
    int error = open_refusal(context, attr);
    struct uro_ibv_qp *qp;

    if (error != 0) {
        errno = error;
        return NULL;
    }
    if (!uro_ibv_start(context) || (qp = new_handle(context, false)) == NULL)
        return NULL;
    qp->ibv.context = context;
    qp->ibv.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
    qp->ibv.qp_type = attr->qp_type;
    qp->xrcd = uro_ibv_xrcd(attr->xrcd);
    qp->type = URO_QPT_XRC_TGT;
    uro_device_lock(device);
    struct uro_ibv_shared_qp *shared = find_target(qp->xrcd->domain, attr->qp_num);
    if (shared != NULL)
        add_handle(qp, shared, device);
    uro_device_unlock(device);
    if (shared == NULL) {
        free(qp);
        errno = EINVAL;
        return NULL;
    }
    uro_object_add(&qp->object, context, detach);
    return &qp->ibv;
}

/* Waits until the program has acknowledged all events that it took. */
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

int uro_ibv_destroy_qp(struct ibv_qp *ibv)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);

    if (qp->memberships != NULL && !uro_object_dead(&qp->object))
        return EBUSY;
    if (uro_object_detach(&qp->object))
        settle(qp);
    count_users(qp, -1u);
    uro_object_drop(&qp->object);
    pthread_spin_destroy(&qp->send_lock);
    pthread_spin_destroy(&qp->recv_lock);
    pthread_cond_destroy(&ibv->cond);
    pthread_mutex_destroy(&ibv->mutex);
    if (atomic_fetch_sub(&qp->shared->references, 1) == 1) {
        free(qp->core);
        free(qp->shared->resources);
        free(qp->shared);
    }
    free(qp);
    return 0;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);

    return qp->extended ? &qp->ex : NULL;
}
