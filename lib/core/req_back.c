/* SPDX-License-Identifier: BSD-3-Clause */
/* req_back.c - moves the cursor of an RC requester back, and forward again.
 *
 * The cursor moves to the oldest unacknowledged PSN, and the ordinary sending code sends from
 * there. Responses (req_complete.c) and the timer (req_retry.c) cause this. recovery.c decides how
 * much is sent again.
 */
#include "base/mark.h"
#include "core/ready.h"
#include "core/req.h"
#include "core/rxe.h"
#include "core/shard.h"

static uint32_t head_of(const struct uro_qp *qp)
{
    return uro_wq_head(&qp->send);
}

static struct uro_recovery_view view_of(const struct uro_qp *qp)
{
    const struct uro_req *req = &qp->req;

    return (struct uro_recovery_view){
        .place = { .next = req->next, .cursor = req->cursor, .since_ack_req = req->since_ack_req },
        .una = req->una,
        .head = head_of(qp),
        .rd_atomic_used = req->depth_used,
        .ack_timeout = req->retry.config.timeout_exponent != 0
    };
}

static void go_back(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    req->next = req->una;
    req->cursor = head_of(qp);
    req->depth_used = 0;
    req->read_psns = 0;
    req->since_ack_req = 0;
    for (uint32_t i = req->cursor; i != req->started; i++)
        uro_pair_wqe(qp, i)->awaited = 0;
    uro_ready_request(qp);
}

static void rewind_cursor(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    req->next = req->una;
    req->cursor = head_of(qp);
    uro_ready_request(qp);
}

/* Moves the cursor to the saved place. The retransmitted packet requested an ACK. Packets before
 * the saved place may still have requested none. */
static void resume(struct uro_req *req)
{
    req->next = req->recovery.saved.next;
    req->cursor = req->recovery.saved.cursor;
    req->since_ack_req = req->recovery.saved.since_ack_req;
}

static void take_step(struct uro_qp *qp, enum uro_recovery_step step)
{
    switch (step) {
    case URO_RECOVERY_STAY:
        break;
    case URO_RECOVERY_GO_BACK:
        go_back(qp);
        break;
    case URO_RECOVERY_REWIND:
        rewind_cursor(qp);
        break;
    case URO_RECOVERY_RESUME:
        resume(&qp->req);
        break;
    }
}

void uro_req_recovered(struct uro_qp *qp, uro_psn before)
{
    const struct uro_recovery_view view = view_of(qp);

    take_step(qp, uro_recovery_on_progress(&qp->req.recovery, &view, before));
}

void uro_req_single_sent(struct uro_qp *qp)
{
    take_step(qp, uro_recovery_on_single_done(&qp->req.recovery, qp->req.una));
}

static struct uro_req_outcome resend(enum uro_recovery_step step)
{
    return (struct uro_req_outcome){ .kind = URO_REQ_OUTCOME_RESEND, .step = (uint8_t)step };
}

static struct uro_req_outcome probe(struct uro_qp *qp)
{
    const struct uro_recovery_view view = view_of(qp);

    uro_count(&qp->shard->counters, URO_COUNT_PROBES);
    return resend(uro_recovery_on_probe(&qp->req.recovery, &view));
}

struct uro_req_outcome uro_req_retry_outcome(struct uro_qp *qp, enum uro_req_retry_action action)
{
    struct uro_counters *counters = &qp->shard->counters;

    switch (action) {
    case URO_REQ_RETRY_NONE:
        break;
    case URO_REQ_RETRY_RESEND:
        uro_count(counters, URO_COUNT_RETRY_ROUNDS);
        uro_req_reads_lost(qp);
        uro_recovery_on_go_back(&qp->req.recovery);
        return resend(URO_RECOVERY_GO_BACK);
    case URO_REQ_RETRY_PROBE:
        return probe(qp);
    case URO_REQ_RETRY_FAIL_TIMEOUT:
        uro_count(counters, URO_COUNT_RETRY_EXCEEDED);
        return uro_req_fail(head_of(qp), URO_WC_RETRY_EXC_ERR, URO_WHY_NO_ANSWER);
    case URO_REQ_RETRY_FAIL_RNR:
        uro_count(counters, URO_COUNT_RNR_EXCEEDED);
        return uro_req_fail(head_of(qp), URO_WC_RNR_RETRY_EXC_ERR, URO_WHY_NO_RECEIVE);
    }
    return (struct uro_req_outcome){ .kind = URO_REQ_OUTCOME_NONE };
}

/* Sends again for a new gap: everything in flight, or one packet. */
static struct uro_req_outcome resend_gap(struct uro_qp *qp)
{
    const struct uro_recovery_view view = view_of(qp);
    enum uro_recovery_step step = uro_recovery_on_resend(&qp->req.recovery, &view);

    if (qp->req.recovery.mode == URO_RECOVERY_NONE)
        uro_count(&qp->shard->counters, URO_COUNT_RETRY_ROUNDS);
    uro_req_reads_lost(qp);
    return resend(step);
}

struct uro_req_outcome uro_req_gap(struct uro_qp *qp, uro_psn psn)
{
    struct uro_req *req = &qp->req;
    struct uro_wheel *wheel = &qp->shard->wheel;
    enum uro_req_retry_action action;

    switch (uro_recovery_on_gap(&req->recovery, psn, req->retry.wait == URO_REQ_WAIT_RNR)) {
    case URO_RECOVERY_KNOWN:
        break;
    case URO_RECOVERY_AHEAD:
        uro_req_retry_on_alive(&req->retry, wheel, qp->shard->now);
        break;
    case URO_RECOVERY_NEW:
        action = uro_req_retry_on_gap(&req->retry, wheel, qp->shard->now);
        return action == URO_REQ_RETRY_RESEND ? resend_gap(qp) : uro_req_retry_outcome(qp, action);
    }
    return (struct uro_req_outcome){ .kind = URO_REQ_OUTCOME_NONE };
}

void uro_req_apply(struct uro_qp *qp, struct uro_req_outcome outcome)
{
    switch ((enum uro_req_outcome_kind)outcome.kind) {
    case URO_REQ_OUTCOME_NONE:
        break;
    case URO_REQ_OUTCOME_RESEND:
        take_step(qp, (enum uro_recovery_step)outcome.step);
        break;
    case URO_REQ_OUTCOME_FAIL:
        uro_pair_fail_send(qp, outcome.failed_wqe, (enum uro_wc_status)outcome.status,
                           (enum uro_why)outcome.fail_reason);
        break;
    case URO_REQ_OUTCOME_OVERRUN:
        uro_pair_overrun(qp);
        break;
    }
}

void uro_req_on_timer(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;
    bool rnr = req->retry.wait == URO_REQ_WAIT_RNR;
    enum uro_req_retry_action action =
        uro_req_retry_on_expiry(&req->retry, &qp->shard->wheel, qp->shard->now);

    if (action == URO_REQ_RETRY_NONE)
        return;
    if (action != URO_REQ_RETRY_PROBE)
        uro_recovery_on_expiry(&req->recovery);
    if (action != URO_REQ_RETRY_PROBE && !rnr) {
        uro_count(&qp->shard->counters, URO_COUNT_TIMEOUTS);
        uro_rxe_other_icrc(qp);
        uro_congestion_timed_out(qp);
    }
    uro_req_apply(qp, uro_req_retry_outcome(qp, action));
}
