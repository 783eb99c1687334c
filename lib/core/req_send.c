/* SPDX-License-Identifier: BSD-3-Clause */
/* req_send.c - turns a plan into a packet description and moves the cursor. */
#include <string.h>

#include "base/crc32.h"
#include "base/mark.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/req.h"
#include "core/rxe.h"
#include "core/sgl.h"
#include "core/shard.h"

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
    tx->spans[0] = (struct uro_span){ .at = (const uint8_t *)wqe->sges + offset, .length = length };
    return true;
}

static enum uro_wc_status blame(struct uro_wqe *wqe, enum uro_wc_status status, enum uro_why why)
{
    wqe->why = (uint16_t)why;
    return status;
}

/* What is wrong with a request before its first packet; URO_WC_SUCCESS when nothing is. */
static enum uro_wc_status examine(const struct uro_qp *qp, struct uro_wqe *wqe,
                                  const struct uro_req_plan *plan)
{
    bool fills = uro_operation_traits[plan->verb].fills_buffers;

    if (plan->opcode < 0) {
        URO_MARK("POST.SERVICE");
        return blame(wqe, URO_WC_LOC_QP_OP_ERR, URO_WHY_UNSUPPORTED);
    }
    if (uro_operation_has_response(plan->verb) && qp->attr.max_rd_atomic == 0)
        return blame(wqe, URO_WC_LOC_QP_OP_ERR, URO_WHY_NO_DEPTH);
    if ((wqe->flags & URO_SEND_INLINE) || (!fills && plan->psn_count == 1))
        return URO_WC_SUCCESS; /* uro_req_gather() looks at all of it */
    const struct uro_sgl sgl = sgl_of(qp, wqe);
    if (!uro_sgl_usable(qp->shard, &sgl, fills ? URO_ACCESS_LOCAL_WRITE : 0))
        return blame(wqe, URO_WC_LOC_PROT_ERR, URO_WHY_LOCAL_KEY);
    return URO_WC_SUCCESS;
}

static void put_atomic(const struct uro_wqe *wqe, enum uro_verb verb, uint8_t *out)
{
    bool swap = verb == URO_CMP_SWAP;
    const struct uro_atomic_eth atomic = { .va = wqe->remote_address,
                                           .rkey = wqe->rkey,
                                           .swap_add = swap ? wqe->swap : wqe->compare_add,
                                           .compare = swap ? wqe->compare_add : 0 };

    uro_atomic_eth_encode(out, &atomic);
}

static void put_reth(const struct uro_wqe *wqe, const struct uro_req_plan *plan, uint8_t *out)
{
    bool read = plan->verb == URO_READ;
    const struct uro_reth reth = { .va = wqe->remote_address + plan->offset,
                                   .rkey = wqe->rkey,
                                   .length = read ? plan->length : wqe->length };

    if (read && plan->index > 0)
        URO_MARK("REQ.READ.RESUME");
    uro_reth_encode(out, &reth);
}

/* The extension headers of the packet, in their order on the wire. */
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
        put_atomic(wqe, plan->verb, out);
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
        .solicited = uro_place_ends(plan->place) && (wqe->flags & URO_SEND_SOLICITED) &&
                     (plan->verb == URO_SEND || (op->ext & URO_EXT_IMM)),
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
    tx->icrc_doubled = uro_rxe_icrc_doubled(qp, plan->verb);
}

static void advance(struct uro_qp *qp, struct uro_wqe *wqe, const struct uro_req_plan *plan)
{
    struct uro_req *req = &qp->req;

    const bool single = req->recovery.mode == URO_RECOVERY_SINGLE;

    req->since_ack_req = plan->ack_req ? 0 : req->since_ack_req + 1;
    if (uro_operation_has_response(plan->verb) && !single)
        req->depth_used++;
    if (plan->verb == URO_READ && !single) {
        req->read_psns += plan->psns;
        wqe->awaited += plan->psns;
    }
    req->next = uro_psn_add(req->next, plan->psns);
    if (uro_psn_diff(req->next, req->max) > 0)
        req->max = req->next;
    if (plan->index + plan->psns == plan->psn_count)
        req->cursor++;
    if (!uro_pair_reliable(qp)) {
        uro_req_sent(qp);
        return;
    }
    if (single)
        uro_req_single_sent(qp);
    uro_req_retry_on_sent(&req->retry, &qp->shard->wheel, qp->shard->now, req->next);
}

/* Gives a request its PSNs, or notes why it fails. */
static bool start(struct uro_qp *qp, struct uro_wqe *wqe, const struct uro_req_plan *plan)
{
    bool local = plan->kind == URO_REQ_PLAN_LOCAL;

    wqe->why = URO_WHY_NONE;
    wqe->first_psn = qp->req.next.value;
    wqe->psn_count = plan->psn_count;
    wqe->awaited = 0;
    wqe->status = (uint16_t)(local ? uro_req_do_local(qp, wqe) : examine(qp, wqe, plan));
    qp->req.started++;
    return wqe->status == URO_WC_SUCCESS;
}

/* A local request at the cursor; on the way back over it, it was carried out already. */
static void pass_local(struct uro_qp *qp, struct uro_wqe *wqe, const struct uro_req_plan *plan)
{
    if (plan->starts && !start(qp, wqe, plan))
        return;
    qp->req.cursor++;
    if (uro_wq_head(&qp->send) + 1 == qp->req.cursor && !uro_req_complete_head(qp))
        uro_pair_overrun(qp);
}

bool uro_req_next(struct uro_qp *qp, struct uro_tx *tx)
{
    struct uro_req_plan plan;

    for (;;) {
        uro_req_plan(qp, &plan);
        if (plan.kind == URO_REQ_PLAN_NOTHING)
            return false;

        struct uro_wqe *wqe = uro_pair_wqe(qp, qp->req.cursor);
        if (plan.kind == URO_REQ_PLAN_FAIL) {
            uro_pair_fail_send(qp, qp->req.cursor, (enum uro_wc_status)wqe->status,
                               (enum uro_why)wqe->why);
            return false;
        }
        if (plan.kind == URO_REQ_PLAN_LOCAL) {
            pass_local(qp, wqe, &plan);
            continue;
        }
        if (plan.starts && !start(qp, wqe, &plan))
            continue; /* the plan is now to wait, or to fail */

        tx->payload_length = 0;
        tx->span_count = 0;
        if (uro_operation_traits[plan.verb].carries_payload &&
            !uro_req_gather(qp, wqe, plan.offset, plan.length, tx)) {
            URO_MARK("REQ.LOCAL.KEY");
            wqe->status = (uint16_t)blame(wqe, URO_WC_LOC_PROT_ERR, URO_WHY_LOCAL_KEY);
            continue;
        }
        seal(qp, wqe, &plan, tx);
        advance(qp, wqe, &plan);
        return true;
    }
}
