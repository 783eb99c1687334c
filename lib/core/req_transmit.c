/* SPDX-License-Identifier: BSD-3-Clause */
/* req_transmit.c - the sending side of RC, XRC and UC: chooses the next packet, describes it, and
 * moves the cursor.
 *
 * Reasons to send nothing, in the order in which plan_next() checks them, and the event that ends
 * each:
 *   the queue pair is not in RTS (or in SQD with a started message)     -> modify
 *   an RNR wait runs                                                    -> timer
 *   nothing is posted beyond the cursor                                 -> doorbell
 *   the next hop is not known yet                                       -> engine/neigh.c
 *   the request failed locally, and earlier requests are not complete   -> ACK, response
 *   fence: earlier READs or atomics are in flight                       -> response
 *   the window is full, or a probe waits for its answer                 -> ACK, response
 *   depth: max_rd_atomic READs and atomics are in flight                -> response
 *   the READ window is full (req_reads.c)                               -> response
 *
 * UC has no window and no depth: it sends all posted work. A UC or UD request is done when its last
 * packet is in the port's buffer. The engine describes packets, and the port copies their payload
 * afterwards. If a request completed while the engine describes it, the application could change
 * the payload before the port copies it. So the request completes when the engine is called again,
 * which is after the copy.
 */
#include <string.h>

#include "base/crc32.h"
#include "base/mark.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/ready.h"
#include "core/req.h"
#include "core/rxe.h"
#include "core/sgl.h"
#include "core/shard.h"

/* ---- the plan: which packet is next ----------------------------------------- */

/* Returns whether the message may have several PSNs. All other operations have one request packet
 * and one response packet. */
static bool has_segments(enum uro_operation operation)
{
    return uro_operation_traits[operation].form == URO_RESPOND_ACK ||
           uro_operation_traits[operation].form == URO_RESPOND_READ;
}

static uint32_t psns_of(const struct uro_wqe *wqe, enum uro_operation operation, uint32_t mtu)
{
    if (wqe->length <= mtu || !has_segments(operation))
        return 1; /* avoids the division, which takes half the time of this function */
    if (operation == URO_READ)
        URO_MARK("REQ.READ.PSN");
    return (uint32_t)(((uint64_t)wqe->length + mtu - 1) / mtu);
}

static enum uro_position position_of(uint32_t index, uint32_t count)
{
    if (count == 1)
        return URO_ONLY;
    if (index == 0)
        return URO_FIRST;
    return index + 1 == count ? URO_LAST : URO_MIDDLE;
}

static bool held(const struct uro_qp *qp)
{
    enum uro_qp_state state = uro_qp_state_of(qp);

    if (state == URO_QPS_SQD)
        return qp->req.cursor == qp->req.started;
    return state != URO_QPS_RTS;
}

static int32_t flight_of(const struct uro_qp *qp)
{
    return uro_psn_diff(qp->req.next, qp->req.una) - (int32_t)qp->req.read_psns;
}

/* Returns whether @flight packets fill the window that congestion control allows. */
static bool congested(const struct uro_qp *qp, int32_t flight)
{
    return qp->congestion.window != 0 && flight >= (int32_t)qp->congestion.window;
}

/* Returns whether the window is full. READ responses in flight do not count: the responder paces
 * them. */
static bool window_full(const struct uro_qp *qp)
{
    if (!uro_qp_reliable(qp)) {
        URO_MARK("UC.FREE");
        return false;
    }
    if (qp->req.recovery.mode == URO_RECOVERY_PROBE)
        return uro_psn_diff(qp->req.next, qp->req.una) > 0;
    int32_t flight = flight_of(qp);

    /* After the window was reduced, perhaps no packet in flight requests an ACK. Then one more
     * packet is sent, with a request for an ACK. */
    return flight >= (int32_t)qp->shard->config.window ||
           (congested(qp, flight) && qp->req.since_ack_req == 0) ||
           uro_psn_diff(qp->req.next, qp->req.una) >= (int32_t)(1u << 22);
}

/* Returns the distance between packets that request an ACK. Every full window has such a packet. */
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
    plan->position = URO_ONLY;
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
    plan->position = position_of(plan->index, plan->psn_count);
    plan->ack_req =
        uro_qp_reliable(qp) &&
        (plan->position == URO_LAST || plan->position == URO_ONLY ||
         qp->req.recovery.mode != URO_RECOVERY_NONE || congested(qp, flight_of(qp) + 1) ||
         qp->req.since_ack_req + 1 >= ack_interval(qp));
    if (plan->ack_req)
        URO_MARK("REQ.ACKREQ");
}

/* Plans an operation with one request packet and one response packet. */
static void plan_word(const struct uro_wqe *wqe, struct uro_req_plan *plan)
{
    plan->psns = 1;
    plan->position = URO_ONLY;
    plan->ack_req = true;
    plan->length = uro_operation_traits[plan->operation].carries_payload ? wqe->length : 0;
}

static int opcode_of(const struct uro_qp *qp, const struct uro_wqe *wqe,
                     const struct uro_req_plan *plan)
{
    unsigned extra = uro_request_kind(wqe)->ext; /* extra headers of the last packet */

    /* Do not begin a message whose last packet has no opcode. */
    if (plan->position == URO_FIRST &&
        uro_opcode_find(qp->service, URO_REQUEST, plan->operation, URO_LAST, extra) < 0)
        return -1;
    return uro_opcode_find(qp->service, URO_REQUEST, plan->operation, plan->position,
                           uro_position_ends(plan->position) ? extra : 0);
}

/* Plans the next packet. Changes nothing. */
static void plan_next(const struct uro_qp *qp, struct uro_req_plan *plan)
{
    const struct uro_req *req = &qp->req;

    *plan = (struct uro_req_plan){ .kind = URO_REQ_PLAN_NOTHING };
    if (held(qp) || req->retry.wait == URO_REQ_WAIT_RNR)
        return;
    if (req->cursor == uro_wq_tail(&qp->send) || qp->path.hop->state == URO_HOP_RESOLVING)
        return;

    const struct uro_wqe *wqe = uro_qp_wqe(qp, req->cursor);
    plan->starts = req->cursor == req->started;
    if (!plan->starts && wqe->status != URO_WC_SUCCESS) {
        /* The request failed locally. It completes when all requests before it have completed. */
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
        plan->opcode = -1; /* start() will fail the request */
        return;
    }
    plan->operation = kind->operation;
    if (uro_operation_has_response(plan->operation) && req->recovery.mode != URO_RECOVERY_SINGLE &&
        req->depth_used >= qp->attr.max_rd_atomic && qp->attr.max_rd_atomic != 0) {
        URO_MARK("REQ.DEPTH");
        return;
    }

    plan->kind = URO_REQ_PLAN_PACKET;
    plan->psn_count = plan->starts ? psns_of(wqe, plan->operation, qp->path.mtu) : wqe->psn_count;
    plan->index =
        plan->starts ? 0 : (uint32_t)uro_psn_diff(req->next, uro_psn_make(wqe->first_psn));
    plan->offset = plan->index * qp->path.mtu;
    switch (uro_operation_traits[plan->operation].form) {
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

/* ---- requests that send nothing: BIND_MW, LOCAL_INV ------------------------- */

/* These requests are executed when the cursor reaches them. They complete in queue order and use no
 * PSNs. */

static enum uro_wc_status bind(struct uro_qp *qp, struct uro_wqe *wqe)
{
    const struct uro_key_bind request = { .pd = qp->pd,
                                          .qpn = uro_qp_qpn(qp),
                                          .old_rkey = wqe->imm,
                                          .new_rkey = wqe->rkey,
                                          .lkey = wqe->bind.lkey,
                                          .access = wqe->bind.access,
                                          .address = wqe->remote_address,
                                          .length = wqe->window_length };

    if (uro_key_bind(qp->shard, &request))
        return URO_WC_SUCCESS;
    URO_MARK("MW.BIND.REFUSED");
    wqe->fail_reason = URO_FAIL_BIND;
    return URO_WC_MW_BIND_ERR;
}

static enum uro_wc_status invalidate(struct uro_qp *qp, struct uro_wqe *wqe)
{
    if (!uro_key_invalidatable(qp->shard, wqe->imm, qp->pd, uro_qp_qpn(qp))) {
        URO_MARK("MW.INVALIDATE.REFUSED");
        wqe->fail_reason = URO_FAIL_NOT_INVALIDATABLE;
        return URO_WC_MW_BIND_ERR; /* "memory management operation error" */
    }
    uro_key_invalidate(qp->shard, wqe->imm);
    return URO_WC_SUCCESS;
}

/* Executes a request that sends nothing. Returns its status. */
static enum uro_wc_status execute_local(struct uro_qp *qp, struct uro_wqe *wqe)
{
    URO_MARK("REQ.LOCAL.TURN");
    return wqe->opcode == URO_WR_BIND_MW ? bind(qp, wqe) : invalidate(qp, wqe);
}

/* ---- sending ---------------------------------------------------------------- */

static struct uro_sgl sgl_of(const struct uro_qp *qp, const struct uro_wqe *wqe)
{
    return (struct uro_sgl){ .elements = wqe->sges, .count = wqe->sge_count, .pd = qp->pd };
}

bool uro_req_gather(const struct uro_qp *qp, const struct uro_wqe *wqe, uint32_t offset,
                    uint32_t length, struct uro_tx *tx)
{
    const struct uro_sgl sgl = sgl_of(qp, wqe);

    if (!(wqe->flags & URO_SEND_INLINE))
        return uro_sgl_gather(qp->shard, &sgl, offset, length, tx);
    URO_MARK("REQ.INLINE");
    tx->payload_length = length;
    tx->span_count = length > 0;
    tx->spans[0] =
        (struct uro_span){ .data = (const uint8_t *)wqe->sges + offset, .length = length };
    return true;
}

static enum uro_wc_status fail_with(struct uro_wqe *wqe, enum uro_wc_status status,
                                    enum uro_fail_reason fail_reason)
{
    wqe->fail_reason = (uint16_t)fail_reason;
    return status;
}

/* Checks a request before its first packet. Returns URO_WC_SUCCESS or the status of the failure. */
static enum uro_wc_status examine(const struct uro_qp *qp, struct uro_wqe *wqe,
                                  const struct uro_req_plan *plan)
{
    bool fills = uro_operation_traits[plan->operation].fills_buffers;

    if (plan->opcode < 0) {
        URO_MARK("POST.SERVICE");
        return fail_with(wqe, URO_WC_LOC_QP_OP_ERR, URO_FAIL_UNSUPPORTED);
    }
    if (uro_operation_has_response(plan->operation) && qp->attr.max_rd_atomic == 0)
        return fail_with(wqe, URO_WC_LOC_QP_OP_ERR, URO_FAIL_NO_DEPTH);
    if ((wqe->flags & URO_SEND_INLINE) || (!fills && plan->psn_count == 1))
        return URO_WC_SUCCESS; /* uro_req_gather() checks all elements */
    const struct uro_sgl sgl = sgl_of(qp, wqe);
    if (!uro_sgl_usable(qp->shard, &sgl, fills ? URO_ACCESS_LOCAL_WRITE : 0))
        return fail_with(wqe, URO_WC_LOC_PROT_ERR, URO_FAIL_LOCAL_KEY);
    return URO_WC_SUCCESS;
}

static void put_atomic(const struct uro_wqe *wqe, enum uro_operation operation, uint8_t *out)
{
    bool swap = operation == URO_CMP_SWAP;
    const struct uro_atomic_eth atomic = { .va = wqe->remote_address,
                                           .rkey = wqe->rkey,
                                           .swap_add = swap ? wqe->swap : wqe->compare_add,
                                           .compare = swap ? wqe->compare_add : 0 };

    uro_atomic_eth_encode(out, &atomic);
}

static void put_reth(const struct uro_wqe *wqe, const struct uro_req_plan *plan, uint8_t *out)
{
    bool read = plan->operation == URO_READ;
    const struct uro_reth reth = { .va = wqe->remote_address + plan->offset,
                                   .rkey = wqe->rkey,
                                   .length = read ? plan->length : wqe->length };

    if (read && plan->index > 0)
        URO_MARK("REQ.READ.RESUME");
    uro_reth_encode(out, &reth);
}

/* Writes the extension headers of the packet, in their order on the wire. */
static void put_ext(const struct uro_wqe *wqe, const struct uro_req_plan *plan, unsigned ext,
                    uint8_t *out)
{
    if (ext & URO_EXT_XRCETH) {
        URO_MARK("XRC.HEADER");
        out[0] = 0; /* reserved */
        uro_put_be24(out + 1, wqe->xrc_srqn & 0xffffff);
        out += URO_XRCETH_LEN;
    }
    if (ext & URO_EXT_FETH) {
        const struct uro_feth feth = { wqe->flush.placement, wqe->flush.selectivity };
        uro_feth_encode(out, &feth);
        out += URO_FETH_LEN;
    }
    if (ext & URO_EXT_RETH) {
        put_reth(wqe, plan, out);
        out += URO_RETH_LEN;
    }
    if (ext & URO_EXT_ATOMIC)
        put_atomic(wqe, plan->operation, out);
    if (ext & URO_EXT_IMM)
        memcpy(out, &wqe->imm, URO_IMM_LEN); /* opaque: as the application stored it */
    if (ext & URO_EXT_INV)
        uro_put_be32(out, wqe->imm);
}

static void seal(struct uro_qp *qp, const struct uro_wqe *wqe, const struct uro_req_plan *plan,
                 struct uro_tx *tx)
{
    const struct uro_opcode *op = &uro_opcodes[plan->opcode];

    URO_MARK("TX.MIGREQ");
    struct uro_bth bth = {
        .opcode = (uint8_t)plan->opcode,
        .solicited = uro_position_ends(plan->position) && (wqe->flags & URO_SEND_SOLICITED) &&
                     (plan->operation == URO_SEND || (op->ext & URO_EXT_IMM)),
        .migrated = true,
        .pkey = URO_PKEY_DEFAULT,
        .dest_qpn = qp->attr.dest_qpn,
        .ack_req = plan->ack_req,
        .psn = qp->req.next.value,
    };
    if (bth.solicited)
        URO_MARK("REQ.SE");
    put_ext(wqe, plan, op->ext, uro_path_ext(tx, &qp->path));
    uro_path_seal(tx, &qp->path, &bth, op->ext_length);
    tx->icrc_doubled = uro_rxe_icrc_doubled(qp, plan->operation);
}

static void advance(struct uro_qp *qp, struct uro_wqe *wqe, const struct uro_req_plan *plan)
{
    struct uro_req *req = &qp->req;

    const bool single = req->recovery.mode == URO_RECOVERY_SINGLE;

    req->since_ack_req = plan->ack_req ? 0 : req->since_ack_req + 1;
    if (uro_operation_has_response(plan->operation) && !single)
        req->depth_used++;
    if (plan->operation == URO_READ && !single) {
        req->read_psns += plan->psns;
        wqe->awaited += plan->psns;
    }
    req->next = uro_psn_add(req->next, plan->psns);
    if (uro_psn_diff(req->next, req->max) > 0)
        req->max = req->next;
    if (plan->index + plan->psns == plan->psn_count)
        req->cursor++;
    if (!uro_qp_reliable(qp)) {
        uro_req_sent(qp);
        return;
    }
    if (single)
        uro_req_single_sent(qp);
    uro_req_retry_on_sent(&req->retry, &qp->shard->wheel, qp->shard->now, req->next);
}

/* Gives a request its PSNs, or records the reason of its failure. Returns false if it failed. */
static bool start(struct uro_qp *qp, struct uro_wqe *wqe, const struct uro_req_plan *plan)
{
    bool local = plan->kind == URO_REQ_PLAN_LOCAL;

    wqe->fail_reason = URO_FAIL_NONE;
    wqe->first_psn = qp->req.next.value;
    wqe->psn_count = plan->psn_count;
    wqe->awaited = 0;
    wqe->status = (uint16_t)(local ? execute_local(qp, wqe) : examine(qp, wqe, plan));
    qp->req.started++;
    return wqe->status == URO_WC_SUCCESS;
}

/* Handles a local request at the cursor. After a go-back-N the request was executed before, and the
 * cursor only passes it. */
static void pass_local(struct uro_qp *qp, struct uro_wqe *wqe, const struct uro_req_plan *plan)
{
    if (plan->starts && !start(qp, wqe, plan))
        return;
    qp->req.cursor++;
    if (uro_wq_head(&qp->send) + 1 == qp->req.cursor && !uro_req_complete_head(qp))
        uro_qp_overrun(qp);
}

bool uro_req_next(struct uro_qp *qp, struct uro_tx *tx)
{
    struct uro_req_plan plan;

    for (;;) {
        plan_next(qp, &plan);
        if (plan.kind == URO_REQ_PLAN_NOTHING)
            return false;

        struct uro_wqe *wqe = uro_qp_wqe(qp, qp->req.cursor);
        if (plan.kind == URO_REQ_PLAN_FAIL) {
            uro_qp_fail_send(qp, qp->req.cursor, (enum uro_wc_status)wqe->status,
                             (enum uro_fail_reason)wqe->fail_reason);
            return false;
        }
        if (plan.kind == URO_REQ_PLAN_LOCAL) {
            pass_local(qp, wqe, &plan);
            continue;
        }
        if (plan.starts && !start(qp, wqe, &plan))
            continue; /* plan again: the result is now to wait or to fail */

        tx->payload_length = 0;
        tx->span_count = 0;
        if (uro_operation_traits[plan.operation].carries_payload &&
            !uro_req_gather(qp, wqe, plan.offset, plan.length, tx)) {
            URO_MARK("REQ.LOCAL.KEY");
            wqe->status = (uint16_t)fail_with(wqe, URO_WC_LOC_PROT_ERR, URO_FAIL_LOCAL_KEY);
            continue;
        }
        seal(qp, wqe, &plan, tx);
        advance(qp, wqe, &plan);
        return true;
    }
}

/* ---- UC and UD: completing the sent requests -------------------------------- */

void uro_req_sent(struct uro_qp *qp)
{
    qp->req.max = qp->req.next;
    if (!uro_link_used(&qp->sent_link))
        uro_list_append(&qp->shard->sent, &qp->sent_link);
}

static void drained(struct uro_qp *qp)
{
    if (uro_qp_state_of(qp) != URO_QPS_SQD || !qp->attr.sq_draining ||
        uro_wq_head(&qp->send) != qp->req.started)
        return;
    uro_qp_drained(qp);
}

static void settle(struct uro_qp *qp)
{
    URO_MARK("REQ.SENT");
    while (uro_wq_head(&qp->send) != qp->req.cursor) {
        if (!uro_req_complete_head(qp)) {
            uro_qp_overrun(qp);
            return;
        }
    }
    qp->req.una = qp->req.next;
    drained(qp);
    if (qp->req.cursor != uro_wq_tail(&qp->send))
        uro_ready_request(qp);
}

void uro_req_settle(struct uro_shard *shard)
{
    struct uro_link *link;

    while ((link = uro_list_pop(&shard->sent)) != NULL)
        settle(URO_CONTAINER_OF(link, struct uro_qp, sent_link));
}
