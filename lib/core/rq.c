/* SPDX-License-Identifier: BSD-3-Clause */
/* rq.c - the life of shared receive queues, and the receive that a message uses.
 *
 * A message uses a receive of the queue pair's own queue in its slot. A receive of a shared queue
 * is copied to the queue pair, because messages may end in another order than they began.
 */
#include "core/rq.h"

#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "core/limits.h"
#include "core/qp_private.h"
#include "core/shard.h"

#define NUMBER_BITS 24u

/* ---- shared receive queues ------------------------------------------------ */

size_t uro_srq_slots_size(uint32_t capacity, uint32_t sge_max)
{
    struct uro_wq wq;

    return uro_wq_layout_recv(&wq, capacity, sge_max);
}

static void list(struct uro_shard *shard, struct uro_srq *srq)
{
    srq->listed_as = ++shard->srq_number;
    shard->srq_count++;
    uro_list_append(&shard->srq_list, &srq->all);
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
    list(shard, srq);
}

/* Detaches @srq from all queue pairs, before it is destroyed. */
static void forget(struct uro_shard *shard, const struct uro_srq *srq)
{
    struct uro_table_node *node = uro_table_first(&shard->qps);

    for (; node != NULL; node = uro_table_next(&shard->qps, node)) {
        struct uro_rsp *rsp = &URO_CONTAINER_OF(node, struct uro_qp, node)->rsp;
        if (rsp->srq != srq)
            continue;
        rsp->recv = NULL;
        rsp->srq = NULL;
        rsp->in_message = false;
    }
}

void uro_srq_destroy(struct uro_shard *shard, struct uro_srq *srq)
{
    if (srq->xrcd != 0) {
        forget(shard, srq);
        uro_table_remove(&shard->srqs, &srq->node);
    }
    uro_list_remove(&srq->event_link);
    uro_list_remove(&srq->all);
    shard->srq_count--;
}

void uro_srq_move(struct uro_shard *from, struct uro_shard *to, struct uro_srq *srq)
{
    URO_ASSERT(srq->xrcd == 0);
    uro_srq_destroy(from, srq);
    list(to, srq);
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

/* ---- the receive of a message ---------------------------------------------- */

static const struct uro_wq *queue(const struct uro_qp *qp, const struct uro_srq *srq)
{
    return srq != NULL ? &srq->wq : &qp->recv;
}

const struct uro_rqe *uro_rq_look(const struct uro_qp *qp, const struct uro_srq *srq)
{
    const struct uro_wq *wq = queue(qp, srq);

    if (qp->rsp.recv != NULL && qp->rsp.srq == srq)
        return qp->rsp.recv;
    return uro_wq_tail(wq) == uro_wq_head(wq) ? NULL : uro_wq_slot(wq, uro_wq_head(wq));
}

/* Raises the limit event when fewer receives are left than the limit. */
static void check_limit(struct uro_shard *shard, struct uro_srq *srq)
{
    if (srq->limit == 0 || uro_wq_tail(&srq->wq) - uro_wq_head(&srq->wq) >= srq->limit)
        return;
    URO_MARK("SRQ.LIMIT");
    srq->limit = 0;
    if (!uro_link_used(&srq->event_link))
        uro_list_append(&shard->srq_events, &srq->event_link);
}

URO_SELDOM static void count_taken(struct uro_no_receive *plan)
{
    const uint32_t next = ++plan->taken + 1;

    plan->due = next == plan->first ||
                (next > plan->first && plan->every != 0 && (next - plan->first) % plan->every == 0);
}

const struct uro_rqe *uro_rq_take(struct uro_qp *qp, struct uro_srq *srq)
{
    const struct uro_rqe *rqe = uro_rq_look(qp, srq);

    URO_ASSERT(rqe != NULL);
    if (srq != NULL && rqe != qp->rsp.recv) {
        URO_MARK("SRQ.TAKE");
        memcpy(qp->taken, rqe, sizeof *rqe + rqe->sge_count * sizeof rqe->sges[0]);
        uro_wq_finish(&srq->wq, uro_wq_head(&srq->wq) + 1);
        check_limit(qp->shard, srq);
        rqe = qp->taken;
    }
    if (qp->shard->no_receive.first != 0)
        count_taken(&qp->shard->no_receive);
    qp->rsp.recv = rqe;
    qp->rsp.srq = srq;
    return rqe;
}

void uro_rq_finish(struct uro_qp *qp)
{
    struct uro_rsp *rsp = &qp->rsp;

    if (rsp->srq == NULL)
        uro_wq_finish(&qp->recv, uro_wq_head(&qp->recv) + 1);
    rsp->recv = NULL;
    rsp->srq = NULL;
}

struct uro_cq *uro_rq_cq(const struct uro_qp *qp, const struct uro_srq *srq)
{
    return srq != NULL && srq->cq != NULL ? srq->cq : qp->recv_cq;
}

/* rule SRQ.PD */
uint32_t uro_rq_pd(const struct uro_qp *qp, const struct uro_srq *srq)
{
    return srq != NULL ? srq->pd : qp->pd;
}
