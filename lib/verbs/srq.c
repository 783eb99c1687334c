/* SPDX-License-Identifier: BSD-3-Clause */
/* srq.c - creates, modifies and destroys shared receive queues. post_list.c posts to them. */
#include <errno.h>
#include <stdlib.h>

#include "core/limits.h"
#include "verbs/card.h"
#include "verbs/cq_parts.h"
#include "verbs/inject.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"

#define ALIGNMENT 64u

/* The objects that an SRQ uses. NULL: this kind of SRQ does not use the object. */
struct parts {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_xrcd *xrcd;
    struct ibv_cq *cq;
    void *user;
};

static uint32_t requests_max(const struct uro_device *device)
{
    return uro_card_most(device, URO_CARD_MAX_SRQ_WR, URO_WR_MAX);
}

static bool capacity_valid(const struct uro_device *device, uint32_t max_wr)
{
    return max_wr >= 1 && max_wr <= requests_max(device);
}

/* Returns the number of receives to grant. */
static uint32_t granted(const struct uro_device *device, uint32_t max_wr)
{
    return uro_card_grant(&uro_device_config(device)->card, max_wr, requests_max(device));
}

/* Locks the engine of the SRQ, and returns it. The first queue pair may change the engine
 * meanwhile. */
static struct uro_device *lock_engine(struct uro_ibv_srq *srq)
{
    for (;;) {
        struct uro_device *engine = atomic_load(&srq->engine);
        uro_device_lock(engine);
        if (atomic_load(&srq->engine) == engine)
            return engine;
        uro_device_unlock(engine);
    }
}

static void detach(struct uro_object *object)
{
    struct uro_ibv_srq *srq = URO_CONTAINER_OF(object, struct uro_ibv_srq, object);
    struct uro_device *engine = lock_engine(srq);

    uro_srq_destroy(uro_device_shard(engine), &srq->core);
    uro_device_unlock(engine);
    uro_events_withdraw(&srq->limit);
}

/* Adds @by, 1 or -1, to the users of the objects that the SRQ uses. */
static void count_users(struct uro_ibv_srq *srq, unsigned by)
{
    atomic_fetch_add(&uro_ibv_pd(srq->ibv.pd)->users, by);
    if (srq->xrcd != NULL)
        atomic_fetch_add(&srq->xrcd->users, by);
    if (srq->cq != NULL)
        atomic_fetch_add(&srq->cq->users, by);
}

/* A new SRQ is on the first engine. The first queue pair moves the SRQ to the engine of its CQ. XRC
 * SRQs stay on the first engine, since a packet contains the number of such an SRQ. */
struct uro_device *uro_ibv_srq_engine(struct uro_ibv_srq *srq, struct uro_device *wanted)
{
    struct uro_device *first = uro_ibv_host(srq->ibv.context);

    uro_ibv_context_lock(srq->object.context);
    if (!srq->placed && wanted != first) {
        uro_device_lock_all(first);
        uro_srq_move(uro_device_shard(first), uro_device_shard(wanted), &srq->core);
        atomic_store(&srq->engine, wanted);
        uro_device_unlock_all(first);
    }
    srq->placed = true;
    uro_ibv_context_unlock(srq->object.context);
    return atomic_load(&srq->engine);
}

static void build(struct uro_ibv_srq *srq, struct uro_cq *cq, const struct ibv_srq_attr *attr)
{
    struct uro_device *device = uro_ibv_host(srq->ibv.context);
    const struct uro_srq_init init = { .pd = srq->ibv.pd->handle,
                                       .capacity = attr->max_wr,
                                       .sge_max = attr->max_sge,
                                       .xrcd = srq->xrcd ? srq->xrcd->domain->number : 0,
                                       .cq = cq,
                                       .user = srq };

    uro_device_lock(device);
    uro_srq_create(uro_device_shard(device), &srq->core, &init, srq->slots);
    atomic_store(&srq->engine, device);
    uro_device_unlock(device);
}

static struct ibv_srq *create(const struct parts *parts, struct ibv_srq_attr *attr)
{
    struct uro_device *device = uro_ibv_host(parts->context);
    const uint32_t sges = uro_card_most(device, URO_CARD_MAX_SRQ_SGE, URO_SGE_MAX);
    const int lacking = uro_card_refuses(device, URO_CARD_NO_SRQ, "ibv_create_srq");
    struct uro_cq *cq = NULL;
    struct uro_ibv_srq *srq;

    if (lacking != 0) {
        errno = lacking;
        return NULL;
    }
    if (!capacity_valid(device, attr->max_wr) || attr->max_sge > sges) {
        (void)uro_refuse(device, EINVAL, "ibv_create_srq",
                         "max_wr is %u (1 to max_srq_wr %u), max_sge %u (at most %u)", attr->max_wr,
                         requests_max(device), attr->max_sge, sges);
        errno = EINVAL;
        return NULL;
    }
    if (!uro_ibv_start_for(parts->pd) ||
        (srq = uro_ibv_new_aligned(parts->context, sizeof *srq, _Alignof(struct uro_ibv_srq))) ==
            NULL)
        return NULL;
    if (!uro_object_charge(&srq->object, parts->context, URO_QUOTA_SRQ)) {
        free(srq);
        return NULL;
    }
    uint32_t capacity = granted(device, attr->max_wr);
    if (parts->cq != NULL)
        cq = uro_cq_parts_of(uro_ibv_cq(parts->cq), device);
    if ((parts->cq != NULL && cq == NULL) ||
        posix_memalign(&srq->slots, ALIGNMENT, uro_srq_slots_size(capacity, attr->max_sge)) != 0) {
        uro_object_refund(&srq->object);
        free(srq);
        errno = ENOMEM;
        return NULL;
    }
    attr->max_wr = capacity;
    srq->ibv.context = parts->context;
    srq->ibv.srq_context = parts->user;
    srq->ibv.pd = parts->pd;
    srq->xrcd = parts->xrcd != NULL ? uro_ibv_xrcd(parts->xrcd) : NULL;
    srq->cq = parts->cq != NULL ? uro_ibv_cq(parts->cq) : NULL;
    srq->limit = (struct uro_event_node){ .queue = &uro_ibv_context(parts->context)->events,
                                          .object = &srq->ibv,
                                          .type = IBV_EVENT_SRQ_LIMIT_REACHED };
    pthread_mutex_init(&srq->ibv.mutex, NULL);
    pthread_cond_init(&srq->ibv.cond, NULL);
    pthread_spin_init(&srq->lock, PTHREAD_PROCESS_PRIVATE);
    build(srq, cq, attr);
    srq->ibv.handle = uro_srq_number(&srq->core);
    count_users(srq, 1);
    uro_object_add(&srq->object, parts->context, detach);
    return &srq->ibv;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    const struct parts parts = { .context = pd->context, .pd = pd, .user = attr->srq_context };

    if (uro_inject(pd->context, URO_INJECT_CALL_CREATE_SRQ) != 0)
        return NULL;
    return create(&parts, &attr->attr);
}

/* Returns whether the attributes have all objects that an XRC SRQ needs, of this context. */
static bool xrc_valid(const struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
    const uint32_t needed = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

    return (attr->comp_mask & needed) == needed && attr->xrcd != NULL && attr->cq != NULL &&
           attr->xrcd->context == context && attr->cq->context == context;
}

struct ibv_srq *uro_ibv_create_srq_ex(struct ibv_context *context,
                                      struct ibv_srq_init_attr_ex *attr)
{
    uint32_t mask = attr->comp_mask;
    enum ibv_srq_type type = mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
    bool xrc = type == IBV_SRQT_XRC;
    struct parts parts = { .context = context, .pd = attr->pd, .user = attr->srq_context };

    if (uro_inject(context, URO_INJECT_CALL_CREATE_SRQ) != 0)
        return NULL;
    if (xrc && uro_card_lacks(uro_ibv_host(context), URO_CARD_NO_XRC, "ibv_create_srq_ex"))
        return NULL;
    if (mask >= IBV_SRQ_INIT_ATTR_TM || (!xrc && type != IBV_SRQT_BASIC)) {
        errno =
            uro_refuse_probe(uro_ibv_host(context), EOPNOTSUPP, "ibv_create_srq_ex",
                             "srq_type %d or comp_mask 0x%x is unknown to uroce", (int)type, mask);
        return NULL;
    }
    if (!(mask & IBV_SRQ_INIT_ATTR_PD) || attr->pd == NULL || attr->pd->context != context ||
        (xrc && !xrc_valid(context, attr))) {
        errno = uro_refuse_srq(context, attr);
        return NULL;
    }
    if (xrc && (uro_object_dead(&uro_ibv_xrcd(attr->xrcd)->object) ||
                uro_object_dead(&uro_ibv_cq(attr->cq)->object))) {
        errno = EIO;
        return NULL;
    }
    if (xrc) {
        parts.xrcd = attr->xrcd;
        parts.cq = attr->cq;
    }
    return create(&parts, &attr->attr);
}

/* Replaces the slots by @slots. Returns the memory to free: the old slots, or @slots if @slots are
 * too few. Engine lock held. */
static void *resize(struct uro_ibv_srq *srq, uint32_t capacity, void *slots, int *error)
{
    void *unused = slots;

    pthread_spin_lock(&srq->lock);
    *error = -uro_srq_resize(&srq->core, capacity, slots);
    if (*error == 0) {
        unused = srq->slots;
        srq->slots = slots;
    }
    pthread_spin_unlock(&srq->lock);
    return unused;
}

/* Changes size and limit, or neither. Rejects a limit above the new size before any change. The old
 * limit does not matter if the call also sets a new limit. @capacity is the granted size. */
static void *change(struct uro_ibv_srq *srq, const struct ibv_srq_attr *attr, unsigned mask,
                    uint32_t capacity, void *slots, int *error)
{
    const uint32_t after = mask & IBV_SRQ_MAX_WR ? capacity : srq->core.wq.capacity;
    uint32_t before = srq->core.limit;
    void *unused = slots;

    *error = EINVAL;
    if ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > after)
        return slots;
    *error = mask & IBV_SRQ_LIMIT ? -uro_srq_arm(&srq->core, 0) : 0;
    if (*error == 0 && (mask & IBV_SRQ_MAX_WR))
        unused = resize(srq, capacity, slots, error);
    if (mask & IBV_SRQ_LIMIT) {
        int armed = -uro_srq_arm(&srq->core, *error == 0 ? attr->srq_limit : before);
        URO_ASSERT(armed == 0);
    }
    return unused;
}

int uro_ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int given)
{
    struct uro_ibv_srq *srq = uro_ibv_srq(ibv);
    struct uro_device *device = srq->object.device;
    unsigned mask = (unsigned)given;
    uint32_t capacity = 0;
    void *slots = NULL;
    int error;

    if (uro_object_dead(&srq->object))
        return EIO;
    if (mask & ~(unsigned)(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
        return uro_refuse(device, EINVAL, "ibv_modify_srq",
                          "the mask 0x%x has more than IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT", mask);
    if (mask & IBV_SRQ_MAX_WR) {
        if (!capacity_valid(device, attr->max_wr))
            return uro_refuse(device, EINVAL, "ibv_modify_srq", "max_wr is %u (1 to max_srq_wr %u)",
                              attr->max_wr, requests_max(device));
        capacity = granted(device, attr->max_wr);
        if (posix_memalign(&slots, ALIGNMENT, uro_srq_slots_size(capacity, srq->core.wq.sge_max)) !=
            0)
            return ENOMEM;
    }
    struct uro_device *engine = lock_engine(srq);
    void *unused = change(srq, attr, mask, capacity, slots, &error);
    uro_device_unlock(engine);
    free(unused);
    if (error == EINVAL)
        (void)uro_refuse(device, error, "ibv_modify_srq",
                         "srq_limit %u or max_wr %u does not fit the receives that are posted",
                         mask & IBV_SRQ_LIMIT ? attr->srq_limit : 0,
                         mask & IBV_SRQ_MAX_WR ? attr->max_wr : 0);
    return error;
}

int uro_ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
    struct uro_ibv_srq *srq = uro_ibv_srq(ibv);

    if (uro_object_dead(&srq->object))
        return EIO;
    struct uro_device *engine = lock_engine(srq);
    *attr = (struct ibv_srq_attr){ .max_wr = srq->core.wq.capacity,
                                   .max_sge = srq->core.wq.sge_max,
                                   .srq_limit = srq->core.limit };
    uro_device_unlock(engine);
    return 0;
}

int uro_ibv_get_srq_num(struct ibv_srq *ibv, uint32_t *number)
{
    struct uro_ibv_srq *srq = uro_ibv_srq(ibv);

    if (srq->xrcd == NULL)
        return uro_refuse(srq->object.device, EINVAL, "ibv_get_srq_num",
                          "only an SRQ of type IBV_SRQT_XRC has a number");
    *number = uro_srq_number(&srq->core);
    return 0;
}

/* Waits until the program has acknowledged all events that it took. */
static void settle(struct uro_ibv_srq *srq)
{
    pthread_mutex_lock(&srq->ibv.mutex);
    while (srq->ibv.events_completed != srq->limit.taken)
        pthread_cond_wait(&srq->ibv.cond, &srq->ibv.mutex);
    pthread_mutex_unlock(&srq->ibv.mutex);
}

int uro_ibv_destroy_srq(struct ibv_srq *ibv)
{
    struct uro_ibv_srq *srq = uro_ibv_srq(ibv);

    const unsigned users = atomic_load(&srq->users);
    if (users != 0)
        return uro_refuse_busy(srq->object.device, "ibv_destroy_srq", "SRQ", users, "queue pairs");
    if (uro_object_detach(&srq->object))
        settle(srq);
    count_users(srq, -1u);
    uro_object_drop(&srq->object);
    pthread_spin_destroy(&srq->lock);
    pthread_cond_destroy(&ibv->cond);
    pthread_mutex_destroy(&ibv->mutex);
    free(srq->slots);
    free(srq);
    return 0;
}
