/* SPDX-License-Identifier: BSD-3-Clause */
/* req_plan.c - decides which packet a requester sends next. Reads everything, changes nothing.
 *
 * Reasons to send nothing, in the order they are asked:
 *   the queue pair is not in RTS (or in SQD with a started message)     -> modify
 *   an RNR wait runs                                                    -> timer
 *   the next hop is not known yet                                       -> engine/neigh.c
 *   nothing is posted beyond the cursor                                 -> bell
 *   the window is full, or one packet asks what became of it            -> ACK
 *   fence or depth: earlier READs or atomics are in flight              -> response
 *   the READ window is full                                             -> response
 *
 * UC knows neither windows nor depths: it sends what is posted.
 */
#include "base/mark.h"
#include "core/limits.h"
#include "core/req.h"
#include "core/shard.h"

/* Returns whether the message may have several PSNs. Of all other operations request and answer are
 * one packet. */
static bool has_segments(enum uro_verb verb)
{
    return uro_operation_traits[verb].form == URO_RESPOND_ACK ||
           uro_operation_traits[verb].form == URO_RESPOND_READ;
}

static uint32_t psns_of(const struct uro_wqe *wqe, enum uro_verb verb, uint32_t mtu)
{
    if (wqe->length <= mtu || !has_segments(verb))
        return 1; /* without a division, which takes as long as all else here */
    if (verb == URO_READ)
        URO_MARK("REQ.READ.PSN");
    return (uint32_t)(((uint64_t)wqe->length + mtu - 1) / mtu);
}

static enum uro_place place_of(uint32_t index, uint32_t count)
{
    if (count == 1)
        return URO_ONLY;
    if (index == 0)
        return URO_FIRST;
    return index + 1 == count ? URO_LAST : URO_MIDDLE;
}

static bool held(const struct uro_qp *qp)
{
    enum uro_qp_state state = uro_pair_state(qp);

    if (state == URO_QPS_SQD)
        return qp->req.cursor == qp->req.started;
    return state != URO_QPS_RTS;
}

static int32_t flight_of(const struct uro_qp *qp)
{
    return uro_psn_diff(qp->req.next, qp->req.una) - (int32_t)qp->req.read_psns;
}

/* Whether so many in flight are all that the peer's notifications leave. */
static bool congested(const struct uro_qp *qp, int32_t flight)
{
    return qp->congestion.window != 0 && flight >= (int32_t)qp->congestion.window;
}

/* Whether the window has room. READ responses on their way do not count: the responder paces
 * them. */
static bool window_full(const struct uro_qp *qp)
{
    if (!uro_pair_reliable(qp)) {
        URO_MARK("UC.FREE");
        return false;
    }
    if (qp->req.recovery.mode == URO_RECOVERY_PROBE)
        return uro_psn_diff(qp->req.next, qp->req.una) > 0;
    int32_t flight = flight_of(qp);

    /* When the window became smaller there may be nobody in flight that asks for an ACK: one more
     * does. */
    return flight >= (int32_t)qp->shard->config.window ||
           (congested(qp, flight) && qp->req.since_ack_req == 0) ||
           uro_psn_diff(qp->req.next, qp->req.una) >= (int32_t)(1u << 22);
}

/* Of this many packets in a row one asks for an ACK, so that every full window has one that does.
 */
static uint32_t ack_interval(const struct uro_qp *qp)
{
    uint32_t window = qp->shard->config.window;

    return window < URO_ACK_EVERY ? window : URO_ACK_EVERY;
}

static void plan_read(const struct uro_qp *qp, const struct uro_wqe *wqe, struct uro_req_plan *plan)
{
    uint32_t into_piece = plan->index % URO_REQ_READ_PIECE;
    uint32_t left = wqe->length - plan->offset;
    uint64_t piece = (uint64_t)(URO_REQ_READ_PIECE - into_piece) * qp->path.mtu;

    plan->psns = plan->psn_count - plan->index;
    if (plan->psns > URO_REQ_READ_PIECE - into_piece)
        plan->psns = URO_REQ_READ_PIECE - into_piece;
    plan->length = left < piece ? left : (uint32_t)piece;
    plan->place = URO_ONLY;
    plan->ack_req = true;
    if (qp->req.read_window != 0 && !uro_req_reads_fit(qp, plan))
        plan->kind = URO_REQ_PLAN_NOTHING;
}

static void plan_data(const struct uro_qp *qp, const struct uro_wqe *wqe, struct uro_req_plan *plan)
{
    uint32_t left = wqe->length - plan->offset;

    URO_MARK("REQ.SEGMENT");
    plan->psns = 1;
    plan->length = left < qp->path.mtu ? left : qp->path.mtu;
    plan->place = place_of(plan->index, plan->psn_count);
    plan->ack_req = uro_pair_reliable(qp) && (plan->place == URO_LAST || plan->place == URO_ONLY ||
                                              qp->req.recovery.mode != URO_RECOVERY_NONE ||
                                              congested(qp, flight_of(qp) + 1) ||
                                              qp->req.since_ack_req + 1 >= ack_interval(qp));
    if (plan->ack_req)
        URO_MARK("REQ.ACKREQ");
}

/* One packet, answered by one. */
static void plan_word(const struct uro_wqe *wqe, struct uro_req_plan *plan)
{
    plan->psns = 1;
    plan->place = URO_ONLY;
    plan->ack_req = true;
    plan->length = uro_operation_traits[plan->verb].carries_payload ? wqe->length : 0;
}

static int opcode_of(const struct uro_qp *qp, const struct uro_wqe *wqe,
                     const struct uro_req_plan *plan)
{
    unsigned extra = uro_request_kind(wqe)->ext; /* of the last packet */

    /* A message that could not be ended is not begun. */
    if (plan->place == URO_FIRST &&
        uro_opcode_find(qp->service, URO_REQUEST, plan->verb, URO_LAST, extra) < 0)
        return -1;
    return uro_opcode_find(qp->service, URO_REQUEST, plan->verb, plan->place,
                           uro_place_ends(plan->place) ? extra : 0);
}

void uro_req_plan(const struct uro_qp *qp, struct uro_req_plan *plan)
{
    const struct uro_req *req = &qp->req;

    *plan = (struct uro_req_plan){ .kind = URO_REQ_PLAN_NOTHING };
    if (held(qp) || req->retry.wait == URO_REQ_WAIT_RNR)
        return;
    if (req->cursor == uro_wq_tail(&qp->send) || qp->path.hop->state == URO_HOP_ASKING)
        return;

    const struct uro_wqe *wqe = uro_pair_wqe(qp, req->cursor);
    plan->starts = req->cursor == req->started;
    if (!plan->starts && wqe->status != URO_WC_SUCCESS) {
        /* Failed locally: completes when everything before it has. */
        if (req->cursor == uro_wq_head(&qp->send))
            plan->kind = URO_REQ_PLAN_FAIL;
        return;
    }
    if (plan->starts && (wqe->flags & URO_SEND_FENCE) && req->depth_used > 0) {
        URO_MARK("REQ.FENCE");
        return;
    }
    const struct uro_request_kind *kind = uro_request_kind(wqe);
    if (kind->scope == URO_REQUEST_LOCAL) {
        plan->kind = URO_REQ_PLAN_LOCAL;
        return;
    }
    if (window_full(qp)) {
        URO_MARK("REQ.WINDOW");
        return;
    }
    if (kind->scope == URO_REQUEST_UNKNOWN) {
        plan->kind = URO_REQ_PLAN_PACKET;
        plan->opcode = -1; /* req_send.c refuses it */
        return;
    }
    plan->verb = kind->verb;
    if (uro_operation_has_response(plan->verb) && req->recovery.mode != URO_RECOVERY_SINGLE &&
        req->depth_used >= qp->attr.max_rd_atomic && qp->attr.max_rd_atomic != 0) {
        URO_MARK("REQ.DEPTH");
        return;
    }

    plan->kind = URO_REQ_PLAN_PACKET;
    plan->psn_count = plan->starts ? psns_of(wqe, plan->verb, qp->path.mtu) : wqe->psn_count;
    plan->index =
        plan->starts ? 0 : (uint32_t)uro_psn_diff(req->next, uro_psn_make(wqe->first_psn));
    plan->offset = plan->index * qp->path.mtu;
    switch (uro_operation_traits[plan->verb].form) {
    case URO_RESPOND_ACK:
        plan_data(qp, wqe, plan);
        break;
    case URO_RESPOND_READ:
        plan_read(qp, wqe, plan);
        break;
    case URO_RESPOND_ATOMIC:
    case URO_RESPOND_EMPTY:
        plan_word(wqe, plan);
        break;
    }
    plan->opcode = opcode_of(qp, wqe, plan);
}
