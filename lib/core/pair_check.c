/* SPDX-License-Identifier: BSD-3-Clause */
/* pair_check.c - what must hold inside a queue pair between two calls of the engine.
 *
 * The simulator asks after every round. A broken invariant often shows on the wire only much later
 * or never: a window that leaks, a debt that nobody will pay.
 */
#include "core/limits.h"
#include "core/pair.h"
#include "core/shard.h"

static bool before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) <= 0;
}

/* The send queue: finished | started | at the cursor | posted. */
static const char *check_indices(const struct uro_qp *qp)
{
    uint32_t head = uro_wq_head(&qp->send);
    const struct uro_req *req = &qp->req;

    if (!before(head, req->cursor) || !before(req->cursor, req->started))
        return "cursor is not between the oldest and the newest started request";
    if (!before(req->started, uro_wq_tail(&qp->send)))
        return "a request was started that is not posted";
    if (uro_psn_diff(req->next, req->una) < 0 || uro_psn_diff(req->max, req->next) < 0)
        return "not una <= next <= max";
    return NULL;
}

/* Started requests follow each other in PSN space, `una` is in the oldest, `next` at the cursor. */
static const char *check_psns(const struct uro_qp *qp)
{
    const struct uro_req *req = &qp->req;
    uint32_t head = uro_wq_head(&qp->send);
    uint32_t answers = 0;
    uro_psn end = req->una;

    for (uint32_t i = head; i != req->started; i++) {
        const struct uro_wqe *wqe = uro_pair_wqe(qp, i);
        uro_psn first = uro_psn_make(wqe->first_psn);
        if (wqe->status != URO_WC_SUCCESS)
            return NULL; /* the rest waits to be flushed */
        if (i == head && (uro_psn_diff(req->una, first) < 0 ||
                          uro_psn_diff(req->una, first) >= (int32_t)wqe->psn_count))
            return "una is not in the oldest request";
        if (i != head && uro_psn_diff(first, end) != 0)
            return "a gap in the PSNs of started requests";
        end = uro_psn_add(first, wqe->psn_count);
        if (i == req->cursor && wqe->psn_count > 0 &&
            (uro_psn_diff(req->next, first) < 0 || uro_psn_diff(req->next, end) >= 0))
            return "next is not in the request at the cursor";
        if (wqe->awaited > wqe->psn_count)
            return "a READ expects more responses than it has";
        answers += wqe->awaited;
    }
    if (req->cursor == req->started && uro_psn_diff(req->next, end) != 0)
        return "next is not behind the last started request";
    return answers == req->read_psns ? NULL : "the count of READ responses to come is wrong";
}

static const char *check_waits(const struct uro_qp *qp)
{
    const struct uro_req *req = &qp->req;

    if (!uro_pair_reliable(qp)) {
        if (uro_timer_armed(&req->retry.timer) || req->retry.wait != URO_REQ_WAIT_NOTHING)
            return "UC and UD wait for nobody";
        bool sent = uro_psn_diff(req->next, req->una) > 0;
        return sent && !uro_link_used(&qp->sent_link) ? "nobody will say that it was sent" : NULL;
    }
    const struct uro_req_retry *retry = &req->retry;
    int32_t flight = uro_psn_diff(req->next, req->una) - (int32_t)req->read_psns;

    if (flight > (int32_t)qp->shard->config.window)
        return "more packets in flight than the window allows";
    if (req->depth_used > qp->attr.max_rd_atomic)
        return "more READs and atomics in flight than max_rd_atomic";
    if (uro_psn_diff(req->next, req->una) > 0 && retry->wait == URO_REQ_WAIT_NOTHING)
        return "packets are in flight and nothing waits for their ACK";
    if (retry->wait == URO_REQ_WAIT_NOTHING || retry->deadline == URO_TIME_NEVER)
        return NULL;
    if (!uro_timer_armed(&retry->timer))
        return "waits without a timer";
    return retry->timer.due_tick <= (retry->deadline >> URO_WHEEL_TICK_SHIFT) + 1
               ? NULL
               : "the timer is later than what it waits for";
}

/* What is sent next is none of its responses. */
static bool outside(const struct uro_rd *rd, uint32_t mtu)
{
    bool beyond = uro_rd_verb(rd) == URO_READ && (rd->read.stop > rd->read.length ||
                                                  (uro_rd_due(rd) && rd->at * mtu > rd->read.stop));

    return beyond || rd->at >= uro_rd_responses(rd, mtu);
}

static const char *check_answers(const struct uro_qp *qp)
{
    const struct uro_rsp *rsp = &qp->rsp;
    uint32_t pending = 0;

    const char *problem = uro_early_problem(qp);
    if (problem != NULL)
        return problem;
    if (rsp->rd_newest - rsp->rd_oldest > rsp->rd_mask + 1u)
        return "more answers remembered than there is room for";
    for (uint32_t i = rsp->rd_oldest; i != rsp->rd_newest; i++) {
        const struct uro_rd *rd = &rsp->rd[i & rsp->rd_mask];
        if (outside(rd, qp->path.mtu))
            return "an answer is outside its request";
        pending += uro_rd_due(rd);
    }
    if (pending != rsp->rd_pending)
        return "the count of pending answers is wrong";
    bool owes = pending > 0 || rsp->ack_due || rsp->nak_due || qp->congestion.notify_due;
    bool waits = qp->path.hop == NULL || qp->path.hop->state == URO_HOP_ASKING ||
                 uro_pair_state(qp) == URO_QPS_ERR; /* by modify: the debt is forgotten */
    if (owes && !waits && !uro_link_used(&qp->response_link))
        return "an answer is due and nobody will send it";
    return NULL;
}

const char *uro_qp_problem(const struct uro_qp *qp)
{
    enum uro_qp_state state = uro_pair_state(qp);
    const char *problem = NULL;
    bool may_wait = state != URO_QPS_RESET && state != URO_QPS_INIT && state != URO_QPS_ERR;

    if (qp->rsp.ack_deferred != uro_link_used(&qp->deferred_link) ||
        (qp->rsp.ack_deferred && !may_wait))
        return "an answer that waits is in no list, or for nobody";
    if (state == URO_QPS_RESET || state == URO_QPS_INIT || state == URO_QPS_RTR ||
        state == URO_QPS_ERR || state == URO_QPS_SQE) {
        if (uro_timer_armed(&qp->req.retry.timer))
            return "a timer runs in a state that sends no requests";
    } else {
        problem = check_indices(qp);
        if (problem == NULL && uro_pair_reliable(qp))
            problem = check_psns(qp);
        if (problem == NULL)
            problem = check_waits(qp);
    }
    return problem != NULL || state == URO_QPS_RESET ? problem : check_answers(qp);
}
