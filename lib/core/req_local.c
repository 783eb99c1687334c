/* SPDX-License-Identifier: BSD-3-Clause */
/* req_local.c - work requests that send nothing: they act when their turn to be sent comes, and
 * complete in their turn. They use no PSNs.
 */
#include "base/mark.h"
#include "core/key.h"
#include "core/req.h"

static enum uro_wc_status bind(struct uro_qp *qp, struct uro_wqe *wqe)
{
    const struct uro_key_bind request = { .pd = qp->pd,
                                          .qpn = uro_pair_number(qp),
                                          .old_rkey = wqe->imm,
                                          .new_rkey = wqe->rkey,
                                          .lkey = wqe->bind.lkey,
                                          .access = wqe->bind.access,
                                          .address = wqe->remote_address,
                                          .length = wqe->window_length };

    if (uro_key_bind(qp->shard, &request))
        return URO_WC_SUCCESS;
    URO_MARK("MW.BIND.REFUSED");
    wqe->why = URO_WHY_BIND;
    return URO_WC_MW_BIND_ERR;
}

static enum uro_wc_status invalidate(struct uro_qp *qp, struct uro_wqe *wqe)
{
    if (!uro_key_invalidatable(qp->shard, wqe->imm, qp->pd, uro_pair_number(qp))) {
        URO_MARK("MW.INVALIDATE.REFUSED");
        wqe->why = URO_WHY_NOT_INVALIDATABLE;
        return URO_WC_MW_BIND_ERR; /* "memory management operation error" */
    }
    uro_key_invalidate(qp->shard, wqe->imm);
    return URO_WC_SUCCESS;
}

enum uro_wc_status uro_req_do_local(struct uro_qp *qp, struct uro_wqe *wqe)
{
    URO_MARK("REQ.LOCAL.TURN");
    return wqe->opcode == URO_WR_BIND_MW ? bind(qp, wqe) : invalidate(qp, wqe);
}
