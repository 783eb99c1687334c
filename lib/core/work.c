/* SPDX-License-Identifier: BSD-3-Clause */
/* work.c - how large the slots of a work queue are. */
#include "core/work.h"

#include "core/limits.h"

static size_t layout(struct uro_wq *wq, uint32_t capacity, size_t stride)
{
    wq->stride = (uint32_t)((stride + 15) & ~(size_t)15);
    wq->mask = uro_pow2_at_least(capacity) - 1;
    wq->capacity = capacity;
    atomic_init(&wq->tail, 0);
    atomic_init(&wq->head, 0);
    return (size_t)wq->stride * (wq->mask + 1);
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
