/* SPDX-License-Identifier: BSD-3-Clause */
/* pair_fail.c - how a queue pair goes to ERR and what happens to the work that was posted. */
#include "base/mark.h"
#include "core/pair.h"
#include "core/rq.h"
#include "core/rsp.h"
#include "core/rxe.h"
#include "core/shard.h"

void uro_pair_raise(struct uro_qp *qp, unsigned event_kind)
{
    qp->events |= 1u << event_kind;
    if (!uro_link_used(&qp->event_link))
        uro_list_append(&qp->shard->qp_events, &qp->event_link);
}

void uro_pair_drained(struct uro_qp *qp)
{
    qp->attr.sq_draining = false;
    if (qp->attr.sqd_notify)
        uro_pair_raise(qp, URO_EVENT_SQ_DRAINED);
}

void uro_pair_set_state(struct uro_qp *qp, enum uro_qp_state state)
{
    atomic_store(&qp->state, (int)state);
    atomic_thread_fence(memory_order_seq_cst);
}

static void finish_send(struct uro_qp *qp, uint32_t index, enum uro_wc_status status,
                        enum uro_why why)
{
    const struct uro_wqe *wqe = uro_pair_wqe(qp, index);
    const struct uro_cqe cqe = { .wr_id = wqe->wr_id,
                                 .status = (uint8_t)status,
                                 .vendor_error = why,
                                 .qpn = uro_pair_number(qp) };

    uro_wq_finish(&qp->send, index + 1);
    if (!uro_cq_push(qp->shard, qp->send_cq, &cqe, true))
        URO_MARK("CQ.OVERRUN.FLUSH"); /* the CQ is in error and says so itself */
}

static void finish_recv(struct uro_qp *qp, struct uro_cq *cq, uint64_t wr_id,
                        enum uro_wc_status status, enum uro_why why)
{
    const struct uro_cqe cqe = { .wr_id = wr_id,
                                 .status = (uint8_t)status,
                                 .opcode = URO_WC_RECV,
                                 .vendor_error = why,
                                 .qpn = uro_pair_number(qp) };

    if (!uro_cq_push(qp->shard, cq, &cqe, true))
        URO_MARK("CQ.OVERRUN.FLUSH");
}

/* The receive that a message was using. */
static void finish_in_use(struct uro_qp *qp, enum uro_wc_status status, enum uro_why why)
{
    struct uro_cq *cq = uro_rq_cq(qp, qp->rsp.srq);
    uint64_t wr_id;

    if (qp->rsp.recv == NULL)
        return;
    wr_id = qp->rsp.recv->wr_id;
    uro_rq_finish(qp);
    finish_recv(qp, cq, wr_id, status, why);
}

/* Everything that waits; @guilty with @status. From SQE the queue pair may go on: it then starts
 * behind what was flushed. */
static void finish_sends(struct uro_qp *qp, uint32_t guilty, enum uro_wc_status status,
                         enum uro_why why)
{
    for (uint32_t i = uro_wq_head(&qp->send); i != uro_wq_tail(&qp->send); i++)
        finish_send(qp, i, i == guilty ? status : URO_WC_WR_FLUSH_ERR,
                    i == guilty ? why : URO_WHY_FLUSHED);
    qp->req.cursor = qp->req.started = uro_wq_head(&qp->send);
}

/* What waits in a shared queue stays. */
static void finish_recvs(struct uro_qp *qp)
{
    if (qp->srq != NULL)
        URO_MARK("SRQ.FLUSH");
    finish_in_use(qp, URO_WC_WR_FLUSH_ERR, URO_WHY_FLUSHED);
    for (uint32_t i = uro_wq_head(&qp->recv); i != uro_wq_tail(&qp->recv); i++) {
        const struct uro_rqe *rqe = uro_wq_slot(&qp->recv, i);
        uint64_t wr_id = rqe->wr_id;
        uro_wq_finish(&qp->recv, i + 1);
        finish_recv(qp, qp->recv_cq, wr_id, URO_WC_WR_FLUSH_ERR, URO_WHY_FLUSHED);
    }
}

void uro_pair_enter_error(struct uro_qp *qp)
{
    if (uro_pair_state(qp) == URO_QPS_ERR)
        return; /* again, while it pays what it owes: told once */
    uro_pair_set_state(qp, URO_QPS_ERR);
    uro_early_forget(qp);
    uro_rxe_defer_forget(qp);
    qp->attr.sq_draining = false;
    uro_req_retry_stop(&qp->req.retry, &qp->shard->wheel);
    uro_list_remove(&qp->request_link);
    uro_list_remove(&qp->sent_link);
    uro_count(&qp->shard->counters, URO_COUNT_QP_FAILED);
    if (qp->srq != NULL) {
        URO_MARK("SRQ.LAST.WQE");
        uro_pair_raise(qp, URO_EVENT_LAST_WQE);
    }
}

static void enter_overrun(struct uro_qp *qp)
{
    URO_MARK("CQ.OVERRUN");
    uro_pair_note_failure(qp, URO_WHY_CQ_OVERRUN);
    uro_pair_raise(qp, URO_EVENT_QP_FATAL);
    uro_pair_enter_error(qp);
}

void uro_pair_flush(struct uro_qp *qp)
{
    URO_MARK("QP.FLUSH");
    finish_sends(qp, URO_PAIR_NOBODY, URO_WC_WR_FLUSH_ERR, URO_WHY_FLUSHED);
    if (uro_pair_state(qp) == URO_QPS_SQE) {
        if (!qp->send_cq->overrun)
            return;
        enter_overrun(qp);
    }
    finish_recvs(qp);
}

/* UC and UD: what was sent was sent, and receiving goes on; only the send queue stops. */
static void enter_send_error(struct uro_qp *qp)
{
    URO_MARK("QP.SQE");
    uro_pair_set_state(qp, URO_QPS_SQE);
    qp->attr.sq_draining = false;
    uro_list_remove(&qp->request_link);
}

void uro_pair_fail_send(struct uro_qp *qp, uint32_t guilty, enum uro_wc_status status,
                        enum uro_why why)
{
    uro_pair_note_failure(qp, why);
    if (uro_pair_reliable(qp))
        uro_pair_enter_error(qp);
    else
        enter_send_error(qp);
    finish_sends(qp, guilty, status, why);
    uro_pair_flush(qp);
}

void uro_pair_fail_recv(struct uro_qp *qp, enum uro_wc_status status, enum uro_why why)
{
    uro_pair_note_failure(qp, why);
    uro_pair_enter_error(qp);
    if (status != URO_WC_WR_FLUSH_ERR)
        finish_in_use(qp, status, why);
    uro_pair_flush(qp);
}

void uro_pair_overrun(struct uro_qp *qp)
{
    if (uro_pair_state(qp) == URO_QPS_ERR)
        return;
    enter_overrun(qp);
    uro_pair_flush(qp);
}
