/* SPDX-License-Identifier: BSD-3-Clause */
/* req_recovery.c - the state machine that decides what an RC requester retransmits, and its effect
 * on the queue pair.
 *
 * The state is a mode and gap_open. Each cell has the next mode, then the step of the cursor:
 *
 *   event                    NONE              SINGLE            PROBE
 *   -----------------------  ----------------  ----------------  ----------------
 *   gap, not gap_open        SINGLE, back (1)  SINGLE, back (1)  SINGLE, back (1)   opens the gap
 *                            NONE, back        NONE, back        NONE, back
 *   gap, gap_open            -                 -                 -
 *   probe timer              SINGLE, rewind(2) PROBE, back       PROBE, back
 *                            PROBE, back
 *   packet at una sent       -                 NONE, resume (3)  -
 *   progress                 -                 NONE, resume (3)  NONE, resume (4)   closes the gap
 *   ACK timeout, end of RNR  NONE, back        NONE, back        NONE, back         closes the gap
 *   RNR NAK                  NONE, back        NONE, back        NONE, back
 *
 *   back: the cursor moves to una, and nothing is in flight. rewind: to una, but READs and atomics
 *     stay in flight.
 *   resume: to the saved cursor. A transition from NONE to another mode saves it, and so does (1).
 *   (1) the peer has a reorder buffer, and the conditions of one_closes_gap() hold
 *   (2) READs or atomics are in flight, and the last SINGLE probe, if any, helped: a request behind
 *     the probed request was answered
 *   (3) unless everything before the saved cursor is acknowledged
 *   (4) if the packets behind the probed packet were not lost: answer_was_late()
 *
 * The requester learns from ACKs whether the peer has a reorder buffer. A peer has a reorder buffer
 * if, with a gap open, it acknowledges more packets than were retransmitted. A peer has none if the
 * packet behind a single-packet retransmit is also missing.
 */
#include "core/req_recovery.h"

#include "base/mark.h"
#include "base/probe.h"
#include "core/ready.h"
#include "core/req.h"
#include "core/rxe.h"
#include "core/shard.h"

static void save(struct uro_recovery *recovery, const struct uro_recovery_view *view)
{
    recovery->saved = view->position;
    recovery->saved_idle = view->rd_atomic_used == 0;
}

enum uro_recovery_report uro_recovery_on_gap(struct uro_recovery *recovery, uro_psn psn,
                                             bool paused)
{
    if (!recovery->gap_open && !paused) {
        URO_MARK("REQ.GAP.BACK");
        recovery->gap_open = true;
        recovery->high = psn;
        return URO_RECOVERY_NEW;
    }
    URO_MARK("REQ.GAP.ONCE");
    if (uro_psn_diff(psn, recovery->high) <= 0)
        return URO_RECOVERY_KNOWN;
    recovery->high = psn;
    return URO_RECOVERY_AHEAD;
}

/* Returns whether one packet is enough to close the gap at una, because the peer keeps the packets
 * behind the gap. Outstanding READs and atomics need a full go-back-N. An ACK timeout is required:
 * it detects a peer that kept no packet. */
static bool one_closes_gap(struct uro_recovery *recovery, const struct uro_recovery_view *view)
{
    if (!recovery->peer_buffers || view->rd_atomic_used > 0 || !view->ack_timeout ||
        uro_psn_diff(view->position.next, view->una) < 2)
        return false;
    if (uro_psn_diff(view->una, recovery->single) == 1) {
        /* The peer has no reorder buffer: the next packet is also missing. */
        URO_MARK("REQ.GAP.PATCH.NOT");
        recovery->peer_buffers = false;
        return false;
    }
    return true;
}

enum uro_recovery_step uro_recovery_on_resend(struct uro_recovery *recovery,
                                              const struct uro_recovery_view *view)
{
    recovery->mode = URO_RECOVERY_NONE;
    if (one_closes_gap(recovery, view)) {
        URO_MARK("REQ.GAP.PATCH");
        save(recovery, view);
        recovery->mode = URO_RECOVERY_SINGLE;
        recovery->single = view->una;
    }
    return URO_RECOVERY_GO_BACK;
}

/* Returns whether the last probe did not help: no request behind the probed request was answered,
 * so more than one packet was lost. */
static bool probe_failed(const struct uro_recovery *recovery, uint32_t head)
{
    return recovery->read_probed && head - recovery->read_probed_at <= 1;
}

enum uro_recovery_step uro_recovery_on_probe(struct uro_recovery *recovery,
                                             const struct uro_recovery_view *view)
{
    const bool first = recovery->mode == URO_RECOVERY_NONE;

    if (first)
        save(recovery, view);
    if (first && view->rd_atomic_used > 0 && !probe_failed(recovery, view->head)) {
        /* Sends one packet and continues. If the requester waited for the response, it would have
         * to request all other READs again. */
        URO_MARK("REQ.PROBE.READ");
        recovery->mode = URO_RECOVERY_SINGLE;
        recovery->read_probed = true;
        recovery->read_probed_at = view->head;
        return URO_RECOVERY_REWIND;
    }
    recovery->mode = URO_RECOVERY_PROBE;
    return URO_RECOVERY_GO_BACK;
}

void uro_recovery_on_expiry(struct uro_recovery *recovery)
{
    recovery->gap_open = false;
}

void uro_recovery_on_go_back(struct uro_recovery *recovery)
{
    recovery->mode = URO_RECOVERY_NONE;
}

enum uro_recovery_step uro_recovery_on_single_done(struct uro_recovery *recovery, uro_psn una)
{
    recovery->mode = URO_RECOVERY_NONE;
    /* Stays if everything up to the saved cursor is acknowledged: a local request at that cursor
     * may be complete. */
    return uro_psn_diff(recovery->saved.next, una) > 0 ? URO_RECOVERY_RESUME : URO_RECOVERY_STAY;
}

/* Returns whether only the answer was late, and no packet was lost. The peer has then acknowledged
 * more than the probed packet. */
static bool answer_was_late(const struct uro_recovery *recovery, uro_psn una, uro_psn probed)
{
    return recovery->saved_idle && uro_psn_diff(una, probed) >= 2 &&
           uro_psn_diff(recovery->saved.next, una) > 0;
}

enum uro_recovery_step uro_recovery_on_progress(struct uro_recovery *recovery,
                                                const struct uro_recovery_view *view,
                                                uro_psn before)
{
    const enum uro_recovery_mode mode = (enum uro_recovery_mode)recovery->mode;

    if (recovery->gap_open && uro_psn_diff(view->una, view->position.next) > 1) {
        URO_MARK("REQ.GAP.KEPT"); /* the peer acknowledged more than was sent again */
        recovery->peer_buffers = true;
    }
    recovery->gap_open = false;
    if (mode == URO_RECOVERY_SINGLE)
        return uro_recovery_on_single_done(recovery, view->una);
    recovery->mode = URO_RECOVERY_NONE;
    if (mode != URO_RECOVERY_PROBE || !answer_was_late(recovery, view->una, before))
        return URO_RECOVERY_STAY;
    URO_MARK("REQ.PROBE.LATE");
    return URO_RECOVERY_RESUME;
}

/* ---- carrying out the decisions on a queue pair ----------------------------- */

static uint32_t head_of(const struct uro_qp *qp)
{
    return uro_wq_head(&qp->send);
}

static struct uro_recovery_view view_of(const struct uro_qp *qp)
{
    const struct uro_req *req = &qp->req;

    return (struct uro_recovery_view){ .position = { .next = req->next,
                                                     .cursor = req->cursor,
                                                     .since_ack_req = req->since_ack_req },
                                       .una = req->una,
                                       .head = head_of(qp),
                                       .rd_atomic_used = req->depth_used,
                                       .ack_timeout = req->retry.config.timeout_exponent != 0 };
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
        uro_qp_wqe(qp, i)->awaited = 0;
    uro_ready_request(qp);
}

static void rewind_cursor(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    req->next = req->una;
    req->cursor = head_of(qp);
    uro_ready_request(qp);
}

/* Moves the cursor to the saved position. Also restores since_ack_req: the packets just before the
 * saved position may have requested no ACK. */
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

static struct uro_req_outcome resend(struct uro_qp *qp, enum uro_recovery_step step)
{
    URO_PROBE3(retransmit, uro_qp_qpn(qp), qp->req.una.value, step);
    qp->rare.retransmits++;
    return (struct uro_req_outcome){ .kind = URO_REQ_OUTCOME_RESEND, .step = (uint8_t)step };
}

static struct uro_req_outcome probe(struct uro_qp *qp)
{
    const struct uro_recovery_view view = view_of(qp);

    uro_count(qp->shard->counters, URO_COUNT_PROBES);
    return resend(qp, uro_recovery_on_probe(&qp->req.recovery, &view));
}

struct uro_req_outcome uro_req_retry_outcome(struct uro_qp *qp, enum uro_req_retry_action action)
{
    struct uro_counters *counters = qp->shard->counters;

    switch (action) {
    case URO_REQ_RETRY_NONE:
        break;
    case URO_REQ_RETRY_RESEND:
        uro_count(counters, URO_COUNT_RETRY_ROUNDS);
        uro_req_reads_lost(qp);
        uro_recovery_on_go_back(&qp->req.recovery);
        return resend(qp, URO_RECOVERY_GO_BACK);
    case URO_REQ_RETRY_PROBE:
        return probe(qp);
    case URO_REQ_RETRY_FAIL_TIMEOUT:
        uro_count(counters, URO_COUNT_RETRY_EXCEEDED);
        return uro_req_fail(head_of(qp), URO_WC_RETRY_EXC_ERR, URO_FAIL_NO_ANSWER);
    case URO_REQ_RETRY_FAIL_RNR:
        uro_count(counters, URO_COUNT_RNR_EXCEEDED);
        return uro_req_fail(head_of(qp), URO_WC_RNR_RETRY_EXC_ERR, URO_FAIL_NO_RECEIVE);
    }
    return (struct uro_req_outcome){ .kind = URO_REQ_OUTCOME_NONE };
}

/* Sends again for a new gap: everything in flight, or one packet. */
static struct uro_req_outcome resend_gap(struct uro_qp *qp)
{
    const struct uro_recovery_view view = view_of(qp);
    enum uro_recovery_step step = uro_recovery_on_resend(&qp->req.recovery, &view);

    if (qp->req.recovery.mode == URO_RECOVERY_NONE)
        uro_count(qp->shard->counters, URO_COUNT_RETRY_ROUNDS);
    uro_req_reads_lost(qp);
    return resend(qp, step);
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
        uro_qp_fail_send(qp, outcome.failed_wqe, (enum uro_wc_status)outcome.status,
                         (enum uro_fail_reason)outcome.fail_reason);
        break;
    case URO_REQ_OUTCOME_OVERRUN:
        uro_qp_overrun(qp);
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
        URO_PROBE2(ack_timeout, uro_qp_qpn(qp), qp->req.una.value);
        uro_count(qp->shard->counters, URO_COUNT_TIMEOUTS);
        uro_rxe_other_icrc(qp);
        uro_congestion_timed_out(qp);
    }
    uro_req_apply(qp, uro_req_retry_outcome(qp, action));
}
