/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_uc.c - the responder of an unreliable connection: nothing is answered or asked for again.
 *
 * A message is delivered whole or not at all. Any packet that begins a message begins one, whatever
 * went before it (B19); any other must follow its predecessor, or the message is given up. What is
 * refused is counted and the queue pair goes on: a peer cannot fail it.
 */
#include "base/mark.h"
#include "core/rsp.h"
#include "core/shard.h"

/* Whether the packet may be looked at; when not, a message in progress has lost it. */
static bool follows(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp *rsp = &qp->rsp;
    uro_psn psn = uro_psn_make(frame->bth.psn);
    bool next = uro_psn_diff(psn, rsp->expected) == 0;

    rsp->expected = uro_psn_add(psn, 1);
    if (uro_place_begins(frame->op->place)) {
        if (rsp->in_message)
            URO_MARK("UC.FRESH");
        rsp->in_message = false;
        return true;
    }
    if (next && uro_rsp_in_sequence(rsp, frame))
        return true;
    URO_MARK("UC.LOSS");
    rsp->in_message = false;
    uro_count(&qp->shard->counters, URO_COUNT_DROP_UC_SEQUENCE);
    return false;
}

static void refuse(struct uro_qp *qp, enum uro_rsp_verdict verdict)
{
    if (verdict == URO_RSP_OVERRUN) {
        uro_pair_overrun(qp);
        return;
    }
    if (verdict == URO_RSP_BAD_LOCAL) { /* our own mistake, not the peer's */
        const struct uro_rsp_consequence *what = uro_rsp_consequence(verdict);
        uro_pair_fail_recv(qp, what->status, what->why);
        return;
    }
    URO_MARK("UC.REFUSE");
    qp->rsp.in_message = false;
    uro_count(&qp->shard->counters, URO_COUNT_DROP_UC_REFUSED);
}

void uro_rsp_uc_receive(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp_target target;

    if (frame->bth.ack_req)
        URO_MARK("UC.SILENT");
    uro_rsp_established(qp);
    if (!follows(qp, frame))
        return;
    enum uro_rsp_verdict verdict = uro_rsp_judge_content(qp, frame, &target);
    if (verdict == URO_RSP_ACCEPT)
        verdict = uro_rsp_execute(qp, frame, &target);
    if (verdict != URO_RSP_ACCEPT)
        refuse(qp, verdict);
}
