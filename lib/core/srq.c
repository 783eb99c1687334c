/* SPDX-License-Identifier: BSD-3-Clause */
/* srq.c - the life of a shared receive queue; rq.c takes receives from it. */
#include "core/srq.h"

#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "core/limits.h"
#include "core/rq.h"
#include "core/shard.h"

#define NUMBER_BITS 24u

size_t uro_srq_slots_size(uint32_t capacity, uint32_t sge_max)
{
    struct uro_wq wq;

    return uro_wq_layout_recv(&wq, capacity, sge_max);
}

void uro_srq_create(struct uro_shard *shard, struct uro_srq *srq, const struct uro_srq_init *init,
                    void *slots)
{
    URO_ASSERT((uintptr_t)srq % _Alignof(struct uro_srq) == 0);
    URO_ASSERT(init->capacity >= 1 && init->capacity <= URO_WR_MAX);
    memset(srq, 0, sizeof *srq);
    srq->pd = init->pd;
    srq->xrcd = init->xrcd;
    srq->cq = init->cq;
    srq->user = init->user;
    uro_wq_layout_recv(&srq->wq, init->capacity, init->sge_max);
    uro_wq_lend(&srq->wq, slots);
    if (srq->xrcd != 0) {
        srq->node.number = uro_shard_unused(shard, &shard->srqs, NUMBER_BITS, 1);
        uro_table_insert(&shard->srqs, &srq->node);
    }
}

void uro_srq_destroy(struct uro_shard *shard, struct uro_srq *srq)
{
    if (srq->xrcd != 0) {
        uro_rq_forget(shard, srq);
        uro_table_remove(&shard->srqs, &srq->node);
    }
    uro_list_remove(&srq->event_link);
}

int uro_srq_arm(struct uro_srq *srq, uint32_t limit)
{
    if (limit > srq->wq.capacity)
        return -EINVAL;
    srq->limit = limit;
    return 0;
}

int uro_srq_resize(struct uro_srq *srq, uint32_t capacity, void *slots)
{
    struct uro_wq *old = &srq->wq;
    uint32_t head = uro_wq_head(old);
    uint32_t waiting = uro_wq_tail(old) - head;
    struct uro_wq wq;

    if (capacity < waiting || capacity < srq->limit)
        return -EINVAL;
    URO_MARK("SRQ.RESIZE");
    uro_wq_layout_recv(&wq, capacity, old->sge_max);
    uro_wq_lend(&wq, slots);
    for (uint32_t i = 0; i < waiting; i++)
        memcpy(uro_wq_slot(&wq, i), uro_wq_slot(old, head + i), wq.slots.stride);
    uro_wq_replace(old, &wq, waiting);
    return 0;
}
