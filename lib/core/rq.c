/* SPDX-License-Identifier: BSD-3-Clause */
/* rq.c - hands receives to messages.
 *
 * A receive of the queue pair's own queue is used in its slot. One of a shared queue is copied to
 * the queue pair, because others finish in another order than they began.
 */
#include "core/rq.h"

#include <string.h>

#include "base/mark.h"
#include "core/shard.h"
#include "core/srq.h"

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

/* Fewer receives are left than the owner wants to know of. */
static void check_limit(struct uro_shard *shard, struct uro_srq *srq)
{
    if (srq->limit == 0 || uro_wq_tail(&srq->wq) - uro_wq_head(&srq->wq) >= srq->limit)
        return;
    URO_MARK("SRQ.LIMIT");
    srq->limit = 0;
    if (!uro_link_used(&srq->event_link))
        uro_list_append(&shard->srq_events, &srq->event_link);
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

void uro_rq_forget(struct uro_shard *shard, const struct uro_srq *srq)
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
