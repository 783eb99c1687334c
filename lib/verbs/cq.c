/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.c - creates, resizes and destroys completion queues. poll.c and cq_ex.c read them. */
#include <errno.h>
#include <stdlib.h>

#include "core/limits.h"
#include "core/snapshot.h"
#include "verbs/card.h"
#include "verbs/cq_parts.h"
#include "verbs/inject.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"

#define ALIGNMENT 64u

/* Returns the granted capacity: 2^n - 1, since a CQ leaves one slot of its ring of 2^n slots empty.
 * The largest CQ thus uses the largest ring. */
static uint32_t granted(uint32_t wanted)
{
    uint32_t slots = 2;

    while (slots - 1 < wanted)
        slots *= 2;
    return slots - 1;
}

static uint32_t completions_max(const struct uro_device *device)
{
    return uro_card_most(device, URO_CARD_MAX_CQE, URO_CQ_CAPACITY_MAX);
}

/* Returns the CQ size to report to a program that requested @wanted completions. The CQ may hold
 * more. */
static int shown(const struct uro_device *device, uint32_t wanted, uint32_t capacity)
{
    const uint32_t most = completions_max(device);

    if (uro_device_config(device)->card.grants == URO_CARD_GRANTS_EXACT)
        return (int)wanted;
    return (int)(capacity < most ? capacity : most);
}

static_assert((URO_CQ_CAPACITY_MAX & (URO_CQ_CAPACITY_MAX + 1)) == 0, "one less than 2^n");

static void detach(struct uro_object *object)
{
    struct uro_ibv_cq *cq = URO_CONTAINER_OF(object, struct uro_ibv_cq, object);
    struct uro_device *device = object->device;

    uro_device_lock(device);
    uro_cq_fini(cq->core);
    uro_device_unlock(device);
    uro_cq_parts_fini(cq);
    uro_events_withdraw(&cq->completion);
    uro_events_withdraw(&cq->error);
}

static void name_events(struct uro_ibv_cq *cq)
{
    struct ibv_comp_channel *channel = cq->ibv.channel;

    cq->error = (struct uro_event_node){ .queue = &uro_ibv_context(cq->ibv.context)->events,
                                         .object = &cq->ibv,
                                         .type = IBV_EVENT_CQ_ERR };
    cq->completion.object = &cq->ibv;
    if (channel != NULL) {
        cq->completion.queue = &uro_ibv_channel(channel)->events;
        atomic_fetch_add(&uro_ibv_channel(channel)->users, 1);
    }
}

/* Returns 0, or EINVAL after it reported the wrong attribute. */
static int refusal(struct uro_device *device, const struct ibv_context *context,
                   const struct ibv_cq_init_attr_ex *attr)
{
    const uint32_t most = completions_max(device);

    if (attr->cqe < 1 || attr->cqe > most)
        return uro_refuse(device, EINVAL, "ibv_create_cq",
                          "cqe is %d; it must be from 1 to max_cqe %u", (int)attr->cqe, most);
    if (attr->comp_vector >= (uint32_t)context->num_comp_vectors)
        return uro_refuse(device, EINVAL, "ibv_create_cq",
                          "comp_vector is %d; it must be from 0 to num_comp_vectors - 1, which is "
                          "%d",
                          (int)attr->comp_vector, context->num_comp_vectors - 1);
    if (attr->channel != NULL && attr->channel->context != context)
        return uro_refuse(device, EINVAL, "ibv_create_cq",
                          "the completion channel is of another context");
    return 0;
}

struct uro_ibv_cq *uro_ibv_cq_create(struct ibv_context *context,
                                     const struct ibv_cq_init_attr_ex *attr)
{
    struct uro_device *device = uro_ibv_host(context);
    struct uro_device *engine;
    struct uro_ibv_cq *cq;
    void *memory;

    if (uro_inject(context, URO_INJECT_CALL_CREATE_CQ) != 0)
        return NULL;
    const int error = refusal(device, context, attr);
    if (error != 0) {
        errno = error;
        return NULL;
    }
    if (attr->channel != NULL && uro_object_dead(&uro_ibv_channel(attr->channel)->object)) {
        errno = EIO;
        return NULL;
    }
    if (!uro_ibv_start(context) || (cq = uro_ibv_new(context, sizeof *cq)) == NULL)
        return NULL;
    if (!uro_object_charge(&cq->object, context, URO_QUOTA_CQ)) {
        free(cq);
        return NULL;
    }
    uint32_t capacity = granted(attr->cqe);
    if (!uro_cq_parts_init(cq, uro_device_config(device)->engines) ||
        posix_memalign(&memory, ALIGNMENT, uro_cq_size(capacity)) != 0) {
        uro_object_refund(&cq->object);
        free(cq->parts);
        free(cq);
        errno = ENOMEM;
        return NULL;
    }

    cq->core = uro_cq_init(memory, capacity, cq);
    cq->ibv.context = context;
    cq->ibv.channel = attr->channel;
    cq->ibv.cq_context = attr->cq_context;
    cq->ibv.cqe = shown(device, attr->cqe, capacity);
    pthread_mutex_init(&cq->ibv.mutex, NULL);
    pthread_cond_init(&cq->ibv.cond, NULL);
    pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
    pthread_mutex_init(&cq->batch, NULL);
    name_events(cq);
    engine = uro_device_engine_of_vector(device, attr->comp_vector);
    uro_device_lock(engine);
    uro_snapshot_add_cq(uro_device_shard(engine), cq->core);
    uro_device_unlock(engine);
    uro_object_add_on(&cq->object, context, engine, detach);
    return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    const struct ibv_cq_init_attr_ex attr = {
        .cqe = (uint32_t)cqe, /* a negative number becomes too large */
        .cq_context = cq_context,
        .channel = channel,
        .comp_vector = (uint32_t)comp_vector
    };
    struct uro_ibv_cq *cq = uro_ibv_cq_create(context, &attr);

    return cq != NULL ? &cq->ibv : NULL;
}

/* Replaces the ring by @ring. Returns the ring to free: the old ring, or @ring if it is too
 * small. */
static void *change_ring(struct uro_ibv_cq *cq, void *ring, uint32_t capacity, int cqe, int *error)
{
    struct uro_device *device = cq->object.device;
    void *unused = ring;

    uro_device_lock(device);
    pthread_spin_lock(&cq->lock);
    *error = EINVAL;
    if (uro_cq_move(cq->core, ring, capacity)) {
        unused = cq->ring;
        cq->ring = ring;
        cq->ibv.cqe = cqe;
        *error = 0;
    }
    pthread_spin_unlock(&cq->lock);
    uro_device_unlock(device);
    return unused;
}

int uro_ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
    struct uro_ibv_cq *cq = uro_ibv_cq(ibv);
    struct uro_device *device = cq->object.device;
    void *ring;

    if (uro_object_dead(&cq->object))
        return EIO;
    int error = uro_card_refuses(device, URO_CARD_NO_RESIZE_CQ, "ibv_resize_cq");
    if (error != 0)
        return error;
    if (cqe < 1 || (uint32_t)cqe > completions_max(device))
        return uro_refuse(device, EINVAL, "ibv_resize_cq",
                          "cqe is %d; it must be from 1 to max_cqe %u", cqe,
                          completions_max(device));
    uint32_t capacity = granted((uint32_t)cqe);
    if (posix_memalign(&ring, ALIGNMENT, uro_cq_ring_size(capacity)) != 0)
        return ENOMEM;
    uro_ibv_context_lock(uro_ibv_context(ibv->context)); /* no part is created meanwhile */
    const bool has_parts = uro_cq_parts_used(cq);
    if (!has_parts)
        ring = change_ring(cq, ring, capacity, shown(device, (uint32_t)cqe, capacity), &error);
    uro_ibv_context_unlock(uro_ibv_context(ibv->context));
    free(ring);
    if (has_parts)
        return uro_refuse(device, EOPNOTSUPP, "ibv_resize_cq",
                          "the CQ has queue pairs of several engines; create it with the size that "
                          "it needs, or use engines=1");
    return error;
}

/* Waits until the program has acknowledged all events that it took. */
static void settle(struct uro_ibv_cq *cq)
{
    pthread_mutex_lock(&cq->ibv.mutex);
    while (cq->ibv.comp_events_completed != cq->completion.taken ||
           cq->ibv.async_events_completed != cq->error.taken)
        pthread_cond_wait(&cq->ibv.cond, &cq->ibv.mutex);
    pthread_mutex_unlock(&cq->ibv.mutex);
}

int uro_ibv_destroy_cq(struct ibv_cq *ibv)
{
    struct uro_ibv_cq *cq = uro_ibv_cq(ibv);

    if (atomic_load(&cq->users) != 0)
        return EBUSY;
    if (uro_object_detach(&cq->object))
        settle(cq);
    if (ibv->channel != NULL)
        atomic_fetch_sub(&uro_ibv_channel(ibv->channel)->users, 1);
    if (cq->parent != NULL)
        atomic_fetch_sub(&cq->parent->users, 1);
    uro_object_drop(&cq->object);
    pthread_mutex_destroy(&cq->batch);
    pthread_spin_destroy(&cq->lock);
    pthread_cond_destroy(&ibv->cond);
    pthread_mutex_destroy(&ibv->mutex);
    uro_cq_parts_free(cq);
    free(cq->ring);
    free(cq->core);
    free(cq);
    return 0;
}
