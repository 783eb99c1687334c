/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_replay.c - a repeated request is answered again and never executed again.
 *
 * SEND and WRITE: the ACK has the PSN of the last request that was carried out, but does not pass a READ or atomic
 * behind the repeated packet, whose answer may have been lost. A sender whose PSNs are wrong never sent that PSN, and
 * learns so that nothing of it arrived. Linux rxe, which cannot bear an ACK of more than it has sent again, gets the PSN
 * of the repeated packet; when a READ follows, the answer to that READ acknowledges both (rsp_late.c). READ: the part
 * asked for is sent again from memory. Atomic: the stored original value is sent again.
 */
#include "base/mark.h"
#include "core/limits.h"
#include "core/ready.h"
#include "core/rsp.h"
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

    if (uro_rd_verb(rd) != URO_READ || rd->rkey != frame->reth.rkey)
        return false;
    if (frame->reth.va != rd->va + skipped || length > rd->read.length - skipped) {
        URO_MARK("RSP.DUP.READ.RANGE");
        return false;
    }
    if (length == 0)
        URO_MARK("RSP.DUP.READ.ZERO");
    return true;
}

/* An atomic, ATOMIC_WRITE or FLUSH. Linux rxe 6.12 repeats a FLUSH with address 0. */
static bool same_other(const struct uro_rd *rd, const struct uro_frame *frame)
{
    uint64_t va = frame->op->ext & URO_EXT_ATOMIC ? frame->atomic.va : frame->reth.va;

    if (uro_rd_verb(rd) != frame->op->verb)
        return false;
    if (uro_rd_verb(rd) == URO_FLUSH && va == 0) {
        URO_MARK("RSP.DUP.FLUSH");
        return true;
    }
    return rd->va == va;
}

/* True when @frame repeats the request that @rd remembers; it is then due again. */
static bool replay(struct uro_qp *qp, struct uro_rd *rd, const struct uro_frame *frame)
{
    int32_t index = uro_psn_diff(uro_psn_make(frame->bth.psn), uro_rd_first(rd));

    if (index < 0 || index >= (int32_t)uro_rd_responses(rd, qp->path.mtu))
        return false;
    if (frame->op->verb == URO_READ) {
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

/* Whether the packet at @psn was received by this connection, and not long ago. */
static bool was_received(const struct uro_qp *qp, uro_psn psn)
{
    const uint32_t all = (qp->rsp.expected.value - qp->attr.rq_psn) & URO_PSN_MASK;
    const uint32_t before = (psn.value - qp->attr.rq_psn) & URO_PSN_MASK;

    return before < all && uro_psn_diff(qp->rsp.expected, psn) <= (int32_t)URO_PSN_FAR;
}

/* Up to where the repeated packet at @psn is acknowledged. */
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

void uro_rsp_replay(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp *rsp = &qp->rsp;

    uro_count(&qp->shard->counters, URO_COUNT_RX_DUPLICATE);
    if (frame->op->verb == URO_SEND || frame->op->verb == URO_WRITE) {
        URO_MARK("RSP.DUP.SEND");
        uro_psn psn = uro_psn_make(frame->bth.psn);
        bool by_rxe = uro_rsp_by_rxe(frame) && was_received(qp, psn);
        if (by_rxe && uro_rsp_late_applies(qp, psn)) {
            URO_MARK("RSP.DUP.BEHIND");
            uro_rsp_late_ack(qp, psn, uro_rsp_twice(frame));
        } else if (by_rxe) {
            uro_rsp_ack(qp, psn, uro_rsp_twice(frame));
        } else {
            URO_MARK("RSP.DUP.LAST");
            uro_rsp_ack(qp, acknowledged(qp, psn), false);
        }
        return;
    }
    for (uint32_t i = rsp->rd_newest; i != rsp->rd_oldest; i--)
        if (replay(qp, &rsp->rd[(i - 1) & rsp->rd_mask], frame))
            return;
    uro_count(&qp->shard->counters, URO_COUNT_DROP_REPLAY);
}
