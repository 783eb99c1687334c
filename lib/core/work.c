/* SPDX-License-Identifier: BSD-3-Clause */
/* work.c - the memory of work queues: its size, lending it, and replacing it. */
#include "core/work.h"

#include "core/limits.h"

static size_t layout(struct uro_wq *wq, uint32_t capacity, size_t stride)
{
    wq->slots = (struct uro_wq_slots){ .stride = (uint32_t)((stride + 15) & ~(size_t)15),
                                       .mask = uro_pow2_at_least(capacity) - 1 };
    wq->to_fill = wq->slots;
    wq->capacity = capacity;
    wq->head_seen = 0;
    atomic_init(&wq->tail, 0);
    atomic_init(&wq->head, 0);
    return (size_t)wq->slots.stride * (wq->slots.mask + 1);
}

void uro_wq_lend(struct uro_wq *wq, void *memory)
{
    wq->slots.base = wq->to_fill.base = memory;
}

void uro_wq_replace(struct uro_wq *wq, const struct uro_wq *by, uint32_t waiting)
{
    wq->slots = wq->to_fill = by->slots;
    wq->capacity = by->capacity;
    wq->head_seen = 0;
    uro_wq_finish(wq, 0);
    atomic_store_explicit(&wq->tail, waiting, memory_order_release);
}

size_t uro_wq_layout_send(struct uro_wq *wq, uint32_t capacity, uint32_t sge_max,
                          uint32_t inline_max)
{
    size_t tail = sge_max * sizeof(struct uro_sge);

    URO_ASSERT(capacity <= URO_WR_MAX);
    if (tail < inline_max)
        tail = inline_max;
    wq->sge_max = sge_max;
    wq->inline_max = inline_max;
    return layout(wq, capacity, sizeof(struct uro_wqe) + tail);
}

size_t uro_wq_layout_recv(struct uro_wq *wq, uint32_t capacity, uint32_t sge_max)
{
    URO_ASSERT(capacity <= URO_WR_MAX);
    wq->sge_max = sge_max;
    wq->inline_max = 0;
    return layout(wq, capacity, sizeof(struct uro_rqe) + sge_max * sizeof(struct uro_sge));
}
