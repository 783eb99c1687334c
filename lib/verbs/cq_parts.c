/* SPDX-License-Identifier: BSD-3-Clause */
/* cq_parts.c - see cq_parts.h. */
#include "verbs/cq_parts.h"

#include <stdlib.h>

#include "core/snapshot.h"

#define ALIGNMENT 64u

bool uro_cq_parts_init(struct uro_ibv_cq *cq, uint32_t engines)
{
    if (engines <= 1)
        return true;
    cq->parts = calloc(1, sizeof *cq->parts + engines * sizeof cq->parts->cores[0]);
    if (cq->parts != NULL)
        cq->parts->engines = engines;
    return cq->parts != NULL;
}

/* Returns the part of engine @index, or NULL. */
static struct uro_cq *part_at(const struct uro_ibv_cq *cq, uint32_t index)
{
    return atomic_load(&cq->parts->cores[index]);
}

/* Makes a part. If the program has armed the CQ, the part is armed, too. The context is locked, so
 * the CQ is not resized meanwhile. */
static struct uro_cq *make(struct uro_ibv_cq *cq, struct uro_device *engine)
{
    const uint32_t index = uro_device_engine_index(engine), capacity = cq->core->capacity;
    void *memory;

    if (posix_memalign(&memory, ALIGNMENT, uro_cq_size(capacity)) != 0)
        return NULL;
    struct uro_cq *part = uro_cq_init(memory, capacity, cq);
    if (cq->core->ignore_overrun)
        uro_cq_ignore_overrun(part);
    uro_device_lock(engine);
    uro_snapshot_add_cq(uro_device_shard(engine), part);
    uro_device_unlock(engine);
    pthread_spin_lock(&cq->lock);
    const unsigned armed = atomic_load(&cq->parts->armed);
    if (armed != URO_CQ_NOT_ARMED)
        uro_cq_arm(part, armed == URO_CQ_ARMED_SOLICITED);
    atomic_store(&cq->parts->cores[index], part);
    /* uro_cq_parts_take_overrun() sets `overrun` and then looks for parts. So either it sees this
     * part, or `overrun` is set here. */
    if (atomic_load(&cq->parts->overrun))
        uro_cq_fail(part);
    atomic_fetch_add(&cq->parts->count, 1);
    pthread_spin_unlock(&cq->lock);
    if (armed != URO_CQ_NOT_ARMED)
        uro_device_hand_over(engine);
    return part;
}

struct uro_cq *uro_cq_parts_of(struct uro_ibv_cq *cq, struct uro_device *engine)
{
    struct uro_ibv_context *context = uro_ibv_context(cq->ibv.context);

    if (engine == cq->object.device)
        return cq->core;
    uro_ibv_context_lock(context);
    struct uro_cq *part = part_at(cq, uro_device_engine_index(engine));
    if (part == NULL)
        part = make(cq, engine);
    uro_ibv_context_unlock(context);
    return part;
}

/* Calls the function for each part. */
static void for_each(struct uro_ibv_cq *cq, void (*call)(struct uro_device *, struct uro_cq *))
{
    if (cq->parts == NULL)
        return;
    struct uro_device *engine = uro_device_first_engine(cq->object.device);
    for (uint32_t i = 0; i < cq->parts->engines; i++, engine = uro_device_next_engine(engine)) {
        struct uro_cq *part = part_at(cq, i);
        if (part != NULL)
            call(engine, part);
    }
}

uint32_t uro_cq_parts_poll(struct uro_ibv_cq *cq, struct uro_cqe *out, uint32_t max)
{
    struct uro_cq_parts *parts = cq->parts;
    const uint32_t own = uro_device_engine_index(cq->object.device);
    uint32_t count = 0;

    for (uint32_t i = 0; i < parts->engines && count < max; i++) {
        const uint32_t index = (parts->next + i) % parts->engines;
        struct uro_cq *part = index == own ? cq->core : part_at(cq, index);
        if (part != NULL)
            count += uro_cq_poll(part, out + count, max - count);
    }
    parts->next = parts->next + 1 < parts->engines ? parts->next + 1 : 0;
    return count;
}

static void progress(struct uro_device *engine, struct uro_cq *part)
{
    (void)part;
    uro_device_progress(engine, false);
}

void uro_cq_parts_progress(struct uro_ibv_cq *cq)
{
    for_each(cq, progress);
}

static void hand_over(struct uro_device *engine, struct uro_cq *part)
{
    (void)part;
    uro_device_hand_over(engine);
}

void uro_cq_parts_hand_over(struct uro_ibv_cq *cq)
{
    for_each(cq, hand_over);
}

static void disarm(struct uro_device *engine, struct uro_cq *part)
{
    (void)engine;
    uro_cq_disarm(part);
}

static void arm_solicited(struct uro_device *engine, struct uro_cq *part)
{
    (void)engine;
    uro_cq_arm(part, true);
}

static void arm_next(struct uro_device *engine, struct uro_cq *part)
{
    (void)engine;
    uro_cq_arm(part, false);
}

void uro_cq_parts_arm(struct uro_ibv_cq *cq, bool solicited_only)
{
    if (cq->parts == NULL)
        return;
    /* The event of one part ended the last request, but the other parts are still armed. */
    if (atomic_load(&cq->parts->armed) == URO_CQ_NOT_ARMED) {
        uro_cq_disarm(cq->core);
        for_each(cq, disarm);
    }
    if (!solicited_only)
        atomic_store(&cq->parts->armed, URO_CQ_ARMED_NEXT);
    else if (atomic_load(&cq->parts->armed) != URO_CQ_ARMED_NEXT)
        atomic_store(&cq->parts->armed, URO_CQ_ARMED_SOLICITED);
    for_each(cq, solicited_only ? arm_solicited : arm_next);
}

bool uro_cq_parts_take_event(struct uro_ibv_cq *cq)
{
    return cq->parts == NULL ||
           atomic_exchange(&cq->parts->armed, URO_CQ_NOT_ARMED) != URO_CQ_NOT_ARMED;
}

static void fail(struct uro_device *engine, struct uro_cq *part)
{
    (void)engine;
    uro_cq_fail(part);
}

bool uro_cq_parts_take_overrun(struct uro_ibv_cq *cq)
{
    if (cq->parts == NULL)
        return true;
    if (atomic_exchange(&cq->parts->overrun, true))
        return false;
    uro_cq_fail(cq->core);
    for_each(cq, fail);
    return true;
}

static void fini(struct uro_device *engine, struct uro_cq *part)
{
    uro_device_lock(engine);
    uro_cq_fini(part);
    uro_device_unlock(engine);
}

void uro_cq_parts_fini(struct uro_ibv_cq *cq)
{
    for_each(cq, fini);
}

void uro_cq_parts_free(struct uro_ibv_cq *cq)
{
    for (uint32_t i = 0; cq->parts != NULL && i < cq->parts->engines; i++)
        free(part_at(cq, i));
    free(cq->parts);
}
