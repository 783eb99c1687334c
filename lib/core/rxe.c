/* SPDX-License-Identifier: BSD-3-Clause */
/* rxe.c - see rxe.h.
 *
 * Deferred ACKs wait in two lists. When the timer fires, the ACKs of the older list are sent. The
 * other list, with the ACKs deferred since the timer fired last, becomes the older list.
 */
#include "core/rxe.h"

#include "base/mark.h"
#include "core/limits.h"
#include "core/shard.h"

bool uro_rxe_repeats_flush(enum uro_operation operation, uint64_t va)
{
    if (operation != URO_FLUSH || va != 0)
        return false;
    URO_MARK("RSP.DUP.FLUSH");
    return true;
}

void uro_rxe_other_icrc(struct uro_qp *qp)
{
    if (uro_qp_wqe(qp, uro_wq_head(&qp->send))->opcode != URO_WR_FLUSH)
        return;
    URO_MARK("REQ.FLUSH.ICRC");
    qp->req.flush_doubled = !qp->req.flush_doubled;
}

/* Returns whether a READ of several responses was carried out behind @psn. */
static bool read_behind(const struct uro_qp *qp, uro_psn psn)
{
    const struct uro_rsp *rsp = &qp->rsp;

    for (uint32_t i = rsp->resources_newest; i != rsp->resources_oldest; i--) {
        const struct uro_resource *resource = &rsp->resources[(i - 1) & rsp->resources_mask];
        if (uro_psn_diff(uro_resource_first_psn(resource), psn) <= 0 ||
            uro_psn_diff(uro_resource_first_psn(resource), rsp->expected) >= 0)
            return false; /* before @psn, or so old that the PSNs have wrapped */
        if (uro_resource_responses(resource, qp->path.mtu) > 1)
            return true;
    }
    return false;
}

/* Returns whether the packet at @psn was received by this connection recently. */
static bool was_received(const struct uro_qp *qp, uro_psn psn)
{
    const uint32_t all = (qp->rsp.expected.value - qp->attr.rq_psn) & URO_PSN_MASK;
    const uint32_t before = (psn.value - qp->attr.rq_psn) & URO_PSN_MASK;

    return before < all && uro_psn_diff(qp->rsp.expected, psn) <= (int32_t)URO_PSN_FAR;
}

enum uro_rxe_ack uro_rxe_ack_repeated(const struct uro_qp *qp, const struct uro_frame *frame)
{
    const uro_psn psn = uro_psn_make(frame->bth.psn);

    if (!uro_rxe_sent(frame) || !was_received(qp, psn))
        return URO_RXE_ACK_NOT_RXE;
    if (!read_behind(qp, psn))
        return URO_RXE_ACK_ITSELF;
    URO_MARK("RSP.DUP.BEHIND");
    return URO_RXE_ACK_LATER;
}

void uro_rxe_defer_kept(struct uro_qp *qp, const struct uro_rsp *before)
{
    struct uro_rsp *rsp = &qp->rsp;

    if (!rsp->peer_goes_back || !rsp->ack_due ||
        (before->ack_due && rsp->ack_psn.value == before->ack_psn.value))
        return;
    URO_MARK("RSP.EARLY.BACK");
    uro_rxe_defer(qp, rsp->ack_psn, rsp->ack_twice);
    rsp->ack_due = before->ack_due;
    rsp->ack_psn = before->ack_psn;
    rsp->ack_twice = before->ack_twice;
}

static void wait(struct uro_qp *qp)
{
    struct uro_shard *shard = qp->shard;
    struct uro_deferred *deferred = &shard->deferred;

    uro_list_append(&deferred->waiting[deferred->young], &qp->deferred_link);
    if (!uro_timer_armed(&deferred->timer))
        uro_wheel_arm(&shard->wheel, &deferred->timer, shard->now + URO_ACK_DEFER);
}

void uro_rxe_defer(struct uro_qp *qp, uro_psn psn, bool twice)
{
    if (qp->rsp.ack_deferred && uro_psn_diff(psn, qp->deferred_psn) <= 0)
        return;
    uro_rxe_defer_forget(qp);
    qp->rsp.ack_deferred = true;
    qp->deferred_twice = twice;
    qp->deferred_psn = psn;
    wait(qp);
}

void uro_rxe_defer_forget(struct uro_qp *qp)
{
    qp->rsp.ack_deferred = false;
    uro_list_remove(&qp->deferred_link);
}

void uro_rxe_defer_answered(struct uro_qp *qp, uro_psn psn)
{
    if (uro_psn_diff(psn, qp->deferred_psn) >= 0)
        uro_rxe_defer_forget(qp);
}

void uro_rxe_defer_turn(struct uro_shard *shard)
{
    struct uro_deferred *deferred = &shard->deferred;

    deferred->young ^= 1;
    if (!uro_list_empty(&deferred->waiting[deferred->young ^ 1]))
        uro_wheel_arm(&shard->wheel, &deferred->timer, shard->now + URO_ACK_DEFER);
}

struct uro_qp *uro_rxe_defer_take(struct uro_shard *shard)
{
    struct uro_link *link = uro_list_pop(&shard->deferred.waiting[shard->deferred.young]);

    if (link == NULL)
        return NULL;
    struct uro_qp *qp = URO_CONTAINER_OF(link, struct uro_qp, deferred_link);
    URO_MARK("RSP.LATE.ALONE");
    qp->rsp.ack_deferred = false;
    return qp;
}
