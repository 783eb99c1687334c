/* SPDX-License-Identifier: BSD-3-Clause */
/* req_send.c - turns a plan into a packet description and moves the cursor. */
#include <string.h>

#include "base/mark.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/req.h"
#include "core/sgl.h"
#include "core/shard.h"

static struct uro_sgl sgl_of(const struct uro_qp *qp, const struct uro_wqe *wqe)
{
    return (struct uro_sgl){ .elements = wqe->sges, .count = wqe->sge_count, .pd = qp->pd };
}

/* Names the payload of a SEND or WRITE packet; false when a local key does not allow it. */
static bool gather(const struct uro_qp *qp, const struct uro_wqe *wqe,
                   const struct uro_req_plan *plan, struct uro_tx *tx)
{
    const struct uro_sgl sgl = sgl_of(qp, wqe);

    if (!(wqe->flags & URO_SEND_INLINE))
        return uro_sgl_gather(qp->shard, &sgl, plan->offset, plan->length, tx);
    uint32_t offset = plan->offset;
    uint32_t length = plan->length;
    tx->payload_length = length;
    tx->span_count = length > 0;
    tx->spans[0] = (struct uro_span){ .at = (const uint8_t *)wqe->sges + offset, .length = length };
    return true;
}

/* What is wrong with a request before its first packet; URO_WC_SUCCESS when nothing is. */
static enum uro_wc_status examine(const struct uro_qp *qp, const struct uro_wqe *wqe,
                                  const struct uro_req_plan *plan)
{
    bool sinks = plan->verb != URO_SEND && plan->verb != URO_WRITE;
    enum uro_verb verb;

    if (!uro_req_verb(wqe->opcode, &verb))
        return URO_WC_LOC_QP_OP_ERR;
    if (sinks && qp->attr.max_rd_atomic == 0)
        return URO_WC_LOC_QP_OP_ERR;
    if ((wqe->flags & URO_SEND_INLINE) || (!sinks && plan->psn_count == 1))
        return URO_WC_SUCCESS; /* gather() looks at all of it */
    const struct uro_sgl sgl = sgl_of(qp, wqe);
    return uro_sgl_usable(qp->shard, &sgl, sinks ? URO_ACCESS_LOCAL_WRITE : 0)
               ? URO_WC_SUCCESS
               : URO_WC_LOC_PROT_ERR;
}

static unsigned put_ext(const struct uro_wqe *wqe, const struct uro_req_plan *plan, uint8_t *out)
{
    bool ends = uro_place_ends(plan->place);

    if (plan->verb == URO_CMP_SWAP || plan->verb == URO_FETCH_ADD) {
        bool swap = plan->verb == URO_CMP_SWAP;
        const struct uro_atomic_eth atomic = { .va = wqe->remote_address,
                                               .rkey = wqe->rkey,
                                               .swap_add = swap ? wqe->swap : wqe->compare_add,
                                               .compare = swap ? wqe->compare_add : 0 };
        uro_atomic_eth_encode(out, &atomic);
        return URO_EXT_ATOMIC;
    }

    unsigned ext = 0;
    if (plan->verb == URO_READ ||
        (plan->verb == URO_WRITE && (plan->place == URO_FIRST || plan->place == URO_ONLY))) {
        if (plan->verb == URO_READ && plan->index > 0)
            URO_MARK("REQ.READ.RESUME");
        const struct uro_reth reth = { .va = wqe->remote_address + plan->offset,
                                       .rkey = wqe->rkey,
                                       .length =
                                           plan->verb == URO_READ ? plan->length : wqe->length };
        uro_reth_encode(out, &reth);
        out += URO_RETH_LEN;
        ext |= URO_EXT_RETH;
    }
    if (ends &&
        (wqe->opcode == URO_WR_SEND_WITH_IMM || wqe->opcode == URO_WR_RDMA_WRITE_WITH_IMM)) {
        memcpy(out, &wqe->imm, URO_IMM_LEN); /* opaque: as the application stored it */
        ext |= URO_EXT_IMM;
    }
    return ext;
}

static void seal(struct uro_qp *qp, const struct uro_wqe *wqe, const struct uro_req_plan *plan,
                 struct uro_tx *tx)
{
    unsigned ext = put_ext(wqe, plan, uro_path_ext(tx, &qp->path));
    int opcode = uro_opcode_find(qp->service, URO_REQUEST, plan->verb, plan->place,
                                 ext & (URO_EXT_IMM | URO_EXT_INV));
    URO_ASSERT(opcode >= 0);

    bool ends = uro_place_ends(plan->place);
    /* rule REQ.SE, TX.MIGREQ */
    struct uro_bth bth = {
        .opcode = (uint8_t)opcode,
        .solicited = ends && (wqe->flags & URO_SEND_SOLICITED) &&
                     (plan->verb == URO_SEND || (ext & URO_EXT_IMM)),
        .migrated = true,
        .pkey = URO_PKEY_DEFAULT,
        .dest_qpn = qp->attr.dest_qpn,
        .ack_req = plan->ack_req,
        .psn = qp->req.next.value,
    };
    uro_path_seal(tx, &qp->path, &bth, uro_ext_length(uro_opcodes[opcode].ext));
}

static void advance(struct uro_qp *qp, struct uro_wqe *wqe, const struct uro_req_plan *plan)
{
    struct uro_req *req = &qp->req;

    req->since_ack_req = plan->ack_req ? 0 : req->since_ack_req + 1;
    if (plan->verb != URO_SEND && plan->verb != URO_WRITE)
        req->depth_used++;
    if (plan->verb == URO_READ) {
        req->read_psns += plan->psns;
        wqe->reserved += plan->psns;
    }
    req->next = uro_psn_add(req->next, plan->psns);
    if (uro_psn_diff(req->next, req->max) > 0)
        req->max = req->next;
    if (plan->index + plan->psns == plan->psn_count)
        req->cursor++;
    uro_req_retry_on_sent(&req->retry, &qp->shard->wheel, qp->shard->now);
}

/* Gives a request its PSNs, or notes why it fails. */
static bool start(struct uro_qp *qp, struct uro_wqe *wqe, const struct uro_req_plan *plan)
{
    wqe->status = examine(qp, wqe, plan);
    wqe->first_psn = qp->req.next.value;
    wqe->psn_count = plan->psn_count;
    wqe->reserved = 0;
    qp->req.started++;
    return wqe->status == URO_WC_SUCCESS;
}

static enum uro_why why_local(enum uro_wc_status status)
{
    return status == URO_WC_LOC_PROT_ERR ? URO_WHY_LOCAL_KEY : URO_WHY_UNSUPPORTED;
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
            uro_pair_fail_send(qp, qp->req.cursor, wqe->status, why_local(wqe->status));
            return false;
        }
        if (plan.starts && !start(qp, wqe, &plan))
            continue; /* the plan is now to wait, or to fail */

        tx->payload_length = 0;
        tx->span_count = 0;
        bool carries = plan.verb == URO_SEND || plan.verb == URO_WRITE;
        if (carries && !gather(qp, wqe, &plan, tx)) {
            URO_MARK("REQ.LOCAL.KEY");
            wqe->status = URO_WC_LOC_PROT_ERR;
            continue;
        }
        seal(qp, wqe, &plan, tx);
        advance(qp, wqe, &plan);
        return true;
    }
}
