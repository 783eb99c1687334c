/* SPDX-License-Identifier: BSD-3-Clause */
/* req_complete.c - handles the responses to an RC requester (IBTA Vol. 1, "Requester behaviour").
 *
 * A responder sends responses in PSN order. Each response therefore acknowledges all requests
 * before it, except a READ or atomic whose data did not arrive. Such a READ or atomic means that a
 * response was lost, and the cursor goes back to this request.
 */
#include "base/mark.h"
#include "base/probe.h"
#include "core/limits.h"
#include "core/ready.h"
#include "core/req.h"
#include "core/sgl.h"
#include "core/shard.h"

static uint32_t head_of(const struct uro_qp *qp)
{
    return uro_wq_head(&qp->send);
}

/* ---- completing --------------------------------------------------------- */

/* Completes the oldest request. Returns false when the CQ overflowed. */
static bool complete_one(struct uro_qp *qp)
{
    uint32_t head = head_of(qp);
    const struct uro_wqe *wqe = uro_qp_wqe(qp, head);
    const struct uro_cqe cqe = { .wr_id = wqe->wr_id,
                                 .status = URO_WC_SUCCESS,
                                 .opcode = uro_request_kind(wqe)->wc_opcode,
                                 .byte_len = wqe->length,
                                 .qpn = uro_qp_qpn(qp) };
    bool signal = qp->signal_all || (wqe->flags & URO_SEND_SIGNALED);

    URO_MARK("REQ.ONCE");
    if (!signal)
        URO_MARK("REQ.SIGNAL");
    qp->req.read_psns -= wqe->awaited;
    uro_wq_finish(&qp->send, head + 1);
    return !signal || uro_cq_push(qp->shard, qp->send_cq, &cqe, false);
}

/* Returns whether the oldest request is a local request that was executed: it can complete now. */
static bool done_in_turn(const struct uro_qp *qp)
{
    const struct uro_wqe *wqe = uro_qp_wqe(qp, head_of(qp));

    return head_of(qp) != qp->req.started && uro_request_kind(wqe)->scope == URO_REQUEST_LOCAL &&
           wqe->status == URO_WC_SUCCESS;
}

bool uro_req_complete_head(struct uro_qp *qp)
{
    bool fits;

    do
        fits = complete_one(qp);
    while (fits && done_in_turn(qp));
    if ((int32_t)(head_of(qp) - qp->req.cursor) > 0)
        qp->req.cursor = head_of(qp);
    return fits;
}

/* Moves the cursor to una if una moved past the cursor: a late ACK arrived during a go-back-N. */
static void follow(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    if (uro_psn_diff(req->next, req->una) < 0) {
        req->next = req->una;
        req->cursor = head_of(qp);
    }
    if (head_of(qp) == req->started) {
        req->depth_used = 0;
        req->read_psns = 0;
    }
}

/* Updates the cursor and the timer after una moved. */
static void moved_on(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    follow(qp);
    uro_req_retry_on_progress(&req->retry, &qp->shard->wheel, qp->shard->now, req->una,
                              uro_psn_diff(req->next, req->una) > 0);
    uro_ready_request(qp);
}

/* The position at which an acknowledgement stopped. */
enum reach {
    REACH_ALL,
    REACH_READ,    /* at a READ or atomic whose response is missing */
    REACH_OVERRUN, /* at a request whose completion did not fit in the CQ */
};

/* Acknowledges requests before @until, up to the first READ or atomic: an ACK without data does not
 * complete those requests. */
static enum reach acknowledge(struct uro_qp *qp, uro_psn until)
{
    struct uro_req *req = &qp->req;
    uro_psn before = req->una;
    enum reach reach = REACH_ALL;

    while (uro_psn_diff(until, req->una) > 0 && head_of(qp) != req->started) {
        const struct uro_wqe *wqe = uro_qp_wqe(qp, head_of(qp));
        if (uro_operation_has_response(uro_request_kind(wqe)->operation)) {
            reach = REACH_READ;
            break;
        }
        uro_psn end = uro_psn_add(uro_psn_make(wqe->first_psn), wqe->psn_count);
        if (uro_psn_diff(until, end) < 0) {
            URO_MARK("REQ.ACK.PARTIAL");
            req->una = until;
            break;
        }
        req->una = end;
        URO_MARK("REQ.ACK.COALESCED");
        if (!uro_req_complete_head(qp))
            return REACH_OVERRUN;
    }
    if (uro_psn_diff(req->una, before) != 0) {
        uro_congestion_acked(qp, (uint32_t)uro_psn_diff(req->una, before));
        if (uro_recovery_active(&req->recovery))
            uro_req_recovered(qp, before);
        moved_on(qp);
    }
    return reach;
}

static void drained(struct uro_qp *qp)
{
    if (qp->attr.sq_draining && head_of(qp) == qp->req.started) {
        URO_MARK("QP.SQD");
        uro_qp_drained(qp);
    }
}

/* ---- responses ---------------------------------------------------------- */

static const struct uro_req_outcome none = { .kind = URO_REQ_OUTCOME_NONE };
static const struct uro_req_outcome overrun = { .kind = URO_REQ_OUTCOME_OVERRUN };

static struct uro_req_outcome fail_head(const struct uro_qp *qp, enum uro_wc_status status,
                                        enum uro_fail_reason fail_reason)
{
    return uro_req_fail(head_of(qp), status, fail_reason);
}

static struct uro_req_outcome bad_response(struct uro_qp *qp)
{
    URO_MARK("REQ.RESP.BAD");
    uro_count(qp->shard->counters, URO_COUNT_DROP_BAD_RESPONSE);
    return fail_head(qp, URO_WC_BAD_RESP_ERR, URO_FAIL_BAD_RESPONSE);
}

/* Returns the index of the request that @psn belongs to, or of the oldest request if there is none.
 */
static uint32_t owner_of(const struct uro_qp *qp, uro_psn psn)
{
    for (uint32_t i = head_of(qp); i != qp->req.started; i++) {
        const struct uro_wqe *wqe = uro_qp_wqe(qp, i);
        if (uro_psn_diff(psn, uro_psn_make(wqe->first_psn)) >= (int32_t)wqe->psn_count)
            continue;
        if (i != head_of(qp))
            URO_MARK("REQ.NAK.BEYOND");
        return i;
    }
    return head_of(qp);
}

static struct uro_req_outcome receive_nak(struct uro_qp *qp, uro_psn psn, enum reach reach,
                                          uint8_t code)
{
    static const struct {
        enum uro_wc_status status;
        enum uro_fail_reason fail_reason;
    } meaning[] = {
        [URO_NAK_INVALID_REQ] = { URO_WC_REM_INV_REQ_ERR, URO_FAIL_NAK_INVALID },
        [URO_NAK_ACCESS] = { URO_WC_REM_ACCESS_ERR, URO_FAIL_NAK_ACCESS },
        [URO_NAK_OPERATIONAL] = { URO_WC_REM_OP_ERR, URO_FAIL_NAK_OPERATIONAL },
    };

    URO_PROBE3(nak_received, uro_qp_qpn(qp), psn.value, code);
    if (code == URO_NAK_PSN_SEQUENCE) {
        uro_count(qp->shard->counters, URO_COUNT_SEQ_NAK_RECEIVED);
        return uro_req_gap(qp, psn);
    }
    uint32_t failed_wqe = reach == REACH_ALL ? head_of(qp) : owner_of(qp, psn);
    if (code >= URO_ARRAY_LEN(meaning)) {
        URO_MARK("REQ.SYNDROME");
        return uro_req_fail(failed_wqe, URO_WC_BAD_RESP_ERR, URO_FAIL_BAD_SYNDROME);
    }
    URO_MARK("REQ.NAK");
    return uro_req_fail(failed_wqe, meaning[code].status, meaning[code].fail_reason);
}

static struct uro_req_outcome receive_rnr(struct uro_qp *qp, uro_psn psn, enum reach reach,
                                          uint8_t code)
{
    struct uro_req *req = &qp->req;

    URO_PROBE3(rnr_received, uro_qp_qpn(qp), psn.value, code);
    if (req->retry.wait == URO_REQ_WAIT_RNR)
        return none;
    if (reach == REACH_READ)
        return uro_req_gap(qp, psn);
    const enum uro_req_retry_action action =
        uro_req_retry_on_rnr_nak(&req->retry, &qp->shard->wheel, qp->shard->now, code);
    if (uro_req_retry_rnr_is_long(&req->retry, qp->shard->now)) {
        const struct uro_record_cause cause = { .reason = URO_FAIL_NO_RECEIVE,
                                                .failed_wqe = head_of(qp),
                                                .waits = true };
        uro_record_failure(qp, &cause);
    }
    return uro_req_retry_outcome(qp, action);
}

static struct uro_req_outcome receive_ack(struct uro_qp *qp, uro_psn psn,
                                          const struct uro_aeth *aeth)
{
    bool ack = aeth->kind == URO_AETH_ACK; /* the credit count is ignored */

    if (aeth->kind == URO_AETH_RNR) {
        uro_count(qp->shard->counters, URO_COUNT_RNR_RECEIVED);
        qp->rare.rnr_naks++;
    }
    enum reach reach = acknowledge(qp, uro_psn_add(psn, ack));
    if (reach == REACH_OVERRUN)
        return overrun;
    switch (aeth->kind) {
    case URO_AETH_ACK:
        if (aeth->value != URO_CREDITS_UNLIMITED)
            URO_MARK("REQ.CREDITS");
        if (reach == REACH_ALL)
            break;
        URO_MARK("REQ.ACK.READ");
        return uro_req_gap(qp, psn);
    case URO_AETH_RNR:
        return receive_rnr(qp, psn, reach, aeth->value);
    case URO_AETH_NAK:
        return receive_nak(qp, psn, reach, aeth->value);
    case URO_AETH_RESERVED:
        URO_MARK("REQ.SYNDROME");
        return uro_req_fail(owner_of(qp, psn), URO_WC_BAD_RESP_ERR, URO_FAIL_BAD_SYNDROME);
    }
    return none;
}

static bool scatter(const struct uro_qp *qp, const struct uro_wqe *wqe, uint32_t offset,
                    const void *from, uint32_t length)
{
    const struct uro_sgl sgl = { .elements = wqe->sges, .count = wqe->sge_count, .pd = qp->pd };

    return uro_sgl_scatter(qp->shard, &sgl, offset, from, length);
}

/* Handles progress: one more response of the oldest request was accepted. */
static struct uro_req_outcome progress(struct uro_qp *qp, struct uro_wqe *wqe, bool last)
{
    struct uro_req *req = &qp->req;
    uro_psn end = uro_psn_add(uro_psn_make(wqe->first_psn), wqe->psn_count);

    /* After a go-back-N: false until the response is requested again. */
    const bool counted = wqe->awaited > 0;
    bool answered = last;

    if (counted) {
        wqe->awaited--;
        req->read_psns--;
    }
    if (req->read_window != 0 && wqe->opcode == URO_WR_RDMA_READ)
        answered = uro_req_reads_answered(qp, wqe, counted);
    uro_psn before = req->una;
    req->una = uro_psn_add(before, 1);
    if (wqe->opcode != URO_WR_RDMA_READ)
        uro_congestion_acked(qp, 1); /* an atomic counts in the window, but a READ does not */
    if (uro_recovery_active(&req->recovery))
        uro_req_recovered(qp, before);
    if (answered && req->depth_used > 0)
        req->depth_used--;
    if (uro_psn_diff(req->una, end) == 0 && !uro_req_complete_head(qp))
        return overrun;
    moved_on(qp);
    return none;
}

/* Returns whether a READ response has the form of response number @index of the request. */
static bool fits(const struct uro_qp *qp, const struct uro_wqe *wqe, uint32_t index,
                 const struct uro_frame *frame)
{
    uint32_t left = wqe->length - index * qp->path.mtu;
    uint32_t want = left < qp->path.mtu ? left : qp->path.mtu;
    enum uro_position position = frame->op->position;
    bool ends = uro_position_ends(position);
    bool must_end = index + 1 == wqe->psn_count;
    bool may_end = must_end || (index + 1) % URO_REQ_READ_PIECE == 0 || qp->req.read_window != 0;

    if ((frame->op->ext & URO_EXT_AETH) && frame->aeth.kind != URO_AETH_ACK)
        return false;
    if (index == 0 && position != URO_FIRST && position != URO_ONLY)
        return false;
    if (frame->payload_length != want)
        return false;
    return ends ? may_end : !must_end;
}

static struct uro_req_outcome receive_read(struct uro_qp *qp, struct uro_wqe *wqe,
                                           const struct uro_frame *frame)
{
    uint32_t index = (uint32_t)uro_psn_diff(qp->req.una, uro_psn_make(wqe->first_psn));
    bool ends = uro_position_ends(frame->op->position);

    if (!fits(qp, wqe, index, frame))
        return bad_response(qp);
    if (!scatter(qp, wqe, index * qp->path.mtu, frame->payload, frame->payload_length))
        return fail_head(qp, URO_WC_LOC_PROT_ERR, URO_FAIL_LOCAL_KEY);
    return progress(qp, wqe, ends);
}

static struct uro_req_outcome receive_atomic(struct uro_qp *qp, struct uro_wqe *wqe,
                                             const struct uro_frame *frame)
{
    uint64_t original = frame->atomic_ack; /* host order, as for the operands of the atomic */

    if (frame->aeth.kind != URO_AETH_ACK)
        return bad_response(qp);
    URO_MARK("REQ.ATOMIC.ORDER");
    if (!scatter(qp, wqe, 0, &original, sizeof original))
        return fail_head(qp, URO_WC_LOC_PROT_ERR, URO_FAIL_LOCAL_KEY);
    return progress(qp, wqe, true);
}

/* Handles the response to a FLUSH or ATOMIC_WRITE: a READ response without payload. */
static struct uro_req_outcome receive_done(struct uro_qp *qp, struct uro_wqe *wqe,
                                           const struct uro_frame *frame)
{
    if (frame->op->position != URO_ONLY || frame->payload_length != 0 ||
        frame->aeth.kind != URO_AETH_ACK)
        return bad_response(qp);
    return progress(qp, wqe, true);
}

/* Handles a response with data. READ responses and atomic acknowledgements carry the data of
 * exactly one PSN. */
static struct uro_req_outcome receive_data(struct uro_qp *qp, uro_psn psn,
                                           const struct uro_frame *frame)
{
    enum reach reach = acknowledge(qp, psn);

    if (reach == REACH_OVERRUN)
        return overrun;
    if (reach == REACH_READ)
        return uro_req_gap(qp, psn);

    struct uro_wqe *wqe = uro_qp_wqe(qp, head_of(qp));
    const struct uro_operation_traits *traits =
        &uro_operation_traits[uro_request_kind(wqe)->operation];
    if (uro_psn_diff(psn, qp->req.una) != 0)
        return bad_response(qp); /* inside a SEND or WRITE */
    if (frame->op->operation != traits->response)
        return bad_response(qp);
    /* The form is not URO_RESPOND_ACK: the check above refuses such a request. */
    return traits->form == URO_RESPOND_READ    ? receive_read(qp, wqe, frame)
           : traits->form == URO_RESPOND_EMPTY ? receive_done(qp, wqe, frame)
                                               : receive_atomic(qp, wqe, frame);
}

void uro_req_receive(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_req *req = &qp->req;
    uro_psn psn = uro_psn_make(frame->bth.psn);

    if (uro_psn_diff(psn, req->una) < 0) {
        URO_MARK("REQ.ACK.OLD");
        uro_count(qp->shard->counters, URO_COUNT_DROP_STALE_RESPONSE);
        return;
    }
    if (uro_psn_diff(psn, req->max) >= 0) {
        URO_MARK("REQ.ACK.GHOST");
        uro_count(qp->shard->counters, URO_COUNT_DROP_GHOST_ACK);
        return;
    }
    const struct uro_req_outcome outcome = frame->op->operation == URO_ACK
                                               ? receive_ack(qp, psn, &frame->aeth)
                                               : receive_data(qp, psn, frame);
    if (outcome.kind != URO_REQ_OUTCOME_NONE)
        uro_req_apply(qp, outcome);
    if (uro_qp_state_of(qp) == URO_QPS_SQD)
        drained(qp);
}
