/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_replay.c - answers a repeated request again, without executing it again.
 *
 * SEND and WRITE: the ACK has the PSN of the last executed request. But the ACK stays before a READ or atomic behind the
 * repeated packet, whose answer may have been lost. A sender with wrong PSNs never sent the PSN of the ACK, and so detects
 * the error. No ACK is sent if a READ or atomic behind the packet no longer has a responder resource: the sender has its
 * answer, which acknowledged the packet. Linux rxe gets other ACKs (rxe.h). READ: the requested part is sent again from
 * memory. Atomic: the stored original value is sent again.
 */
#include "base/mark.h"
#include "core/limits.h"
#include "core/ready.h"
#include "core/rsp.h"
#include "core/rxe.h"
#include "core/shard.h"

static void answer_again(struct uro_qp *qp, struct uro_rd *rd, uint32_t begin)
{
    if (!uro_rd_due(rd)) {
        qp->rsp.rd_pending++;
        rd->what |= URO_RD_DUE | URO_RD_AGAIN;
    }
    rd->what &= ~URO_RD_BEGUN;
    rd->at = begin;
    uro_ready_response(qp);
}

/* The part of a remembered READ that a repeated request asks for; false when it asks for
 * something else than was asked before. */
static bool same_read(const struct uro_qp *qp, const struct uro_rd *rd, uint32_t index,
                      const struct uro_frame *frame)
{
    uint32_t skipped = index * qp->path.mtu;
    uint32_t length = frame->reth.length;

    if (uro_rd_verb(rd) != frame->op->verb || rd->rkey != frame->reth.rkey)
        return false;
    if (frame->reth.va != rd->va + skipped || length > rd->read.length - skipped) {
        URO_MARK("RSP.DUP.READ.RANGE");
        return false;
    }
    if (length == 0)
        URO_MARK("RSP.DUP.READ.ZERO");
    return true;
}

/* Returns whether a repeated atomic, ATOMIC_WRITE or FLUSH is the same request as @rd. */
static bool same_other(const struct uro_rd *rd, const struct uro_frame *frame)
{
    uint64_t va = frame->op->ext & URO_EXT_ATOMIC ? frame->atomic.va : frame->reth.va;

    if (uro_rd_verb(rd) != frame->op->verb)
        return false;
    return uro_rxe_repeats_flush(uro_rd_verb(rd), va) || rd->va == va;
}

/* True when @frame repeats the request that @rd remembers; it is then due again. */
static bool replay(struct uro_qp *qp, struct uro_rd *rd, const struct uro_frame *frame)
{
    int32_t index = uro_psn_diff(uro_psn_make(frame->bth.psn), uro_rd_first(rd));

    if (index < 0 || index >= (int32_t)uro_rd_responses(rd, qp->path.mtu))
        return false;
    if (uro_operation_traits[frame->op->verb].form == URO_RESPOND_READ) {
        if (!same_read(qp, rd, (uint32_t)index, frame))
            return false;
        URO_MARK("RSP.DUP.READ");
        rd->read.stop = (uint32_t)index * qp->path.mtu + frame->reth.length;
    } else {
        if (!same_other(rd, frame))
            return false;
        URO_MARK("RSP.DUP.ATOMIC");
    }
    answer_again(qp, rd, (uint32_t)index);
    return true;
}

/* Returns whether a READ or atomic behind @psn no longer has a responder resource. */
static bool passes_forgotten(const struct uro_rsp *rsp, uro_psn psn)
{
    const uro_psn end = uro_psn_make(rsp->rd_forgotten & URO_PSN_MASK);

    return rsp->rd_forgotten != 0 && uro_psn_diff(end, psn) > 0 &&
           uro_psn_diff(end, rsp->expected) <= 0;
}

/* Returns the PSN up to which the repeated packet at @psn is acknowledged. */
static uro_psn acknowledged(const struct uro_qp *qp, uro_psn psn)
{
    const struct uro_rsp *rsp = &qp->rsp;
    uro_psn end = rsp->expected;

    for (uint32_t i = rsp->rd_newest; i != rsp->rd_oldest; i--) {
        uro_psn first = uro_rd_first(&rsp->rd[(i - 1) & rsp->rd_mask]);
        if (uro_psn_diff(first, psn) <= 0 || uro_psn_diff(first, end) > 0)
            break; /* before it, or so old that it is half the circle away */
        end = first;
    }
    return uro_psn_make((end.value - 1) & URO_PSN_MASK);
}

/* Acknowledges a repeated SEND or WRITE. */
static void answer_data(struct uro_qp *qp, const struct uro_frame *frame)
{
    const uro_psn psn = uro_psn_make(frame->bth.psn);

    switch (uro_rxe_ack_repeated(qp, frame)) {
    case URO_RXE_ACK_NOT_RXE:
        if (passes_forgotten(&qp->rsp, psn)) {
            URO_MARK("RSP.DUP.FORGOTTEN");
            break;
        }
        URO_MARK("RSP.DUP.LAST");
        uro_rsp_ack(qp, acknowledged(qp, psn), false);
        break;
    case URO_RXE_ACK_ITSELF:
        uro_rsp_ack(qp, psn, uro_rxe_ack_twice(frame));
        break;
    case URO_RXE_ACK_LATER:
        uro_rxe_defer(qp, psn, uro_rxe_ack_twice(frame));
        break;
    }
}

void uro_rsp_replay(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp *rsp = &qp->rsp;

    uro_count(&qp->shard->counters, URO_COUNT_RX_DUPLICATE);
    if (!uro_operation_has_response(frame->op->verb)) {
        URO_MARK("RSP.DUP.SEND");
        answer_data(qp, frame);
        return;
    }
    for (uint32_t i = rsp->rd_newest; i != rsp->rd_oldest; i--)
        if (replay(qp, &rsp->rd[(i - 1) & rsp->rd_mask], frame))
            return;
    uro_count(&qp->shard->counters, URO_COUNT_DROP_REPLAY);
}
