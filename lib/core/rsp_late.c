/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_late.c - acknowledgements that wait, because Linux rxe cannot bear them and may not need them.
 *
 * It goes back, and sends again, and each packet that comes again is acknowledged. Before that it is not told how far
 * a closed gap brought us (rsp_serve.c); nor is it told of a SEND or WRITE that comes again when a READ of several
 * responses was carried out behind it, which comes again, too, and whose answer acknowledges both. Any answer that
 * says as much takes the place of one that waits, and is the rule. See docs/decisions/0038.
 *
 * When the timer fires, who waited already when it was armed has waited long enough; who came since waits for the next
 * time.
 */
#include "base/mark.h"
#include "core/limits.h"
#include "core/rsp.h"
#include "core/shard.h"

bool uro_rsp_late_applies(const struct uro_qp *qp, uro_psn psn)
{
    const struct uro_rsp *rsp = &qp->rsp;

    for (uint32_t i = rsp->rd_newest; i != rsp->rd_oldest; i--) {
        const struct uro_rd *rd = &rsp->rd[(i - 1) & rsp->rd_mask];
        if (uro_psn_diff(uro_rd_first(rd), psn) <= 0 ||
            uro_psn_diff(uro_rd_first(rd), rsp->expected) >= 0)
            return false; /* before it, or so old that it is half the circle away */
        if (uro_rd_responses(rd, qp->path.mtu) > 1)
            return true;
    }
    return false;
}

static void wait(struct uro_qp *qp)
{
    struct uro_shard *shard = qp->shard;
    struct uro_late *late = &shard->late;

    uro_list_append(&late->waiting[late->young], &qp->late_link);
    if (!uro_timer_armed(&late->timer))
        uro_wheel_arm(&shard->wheel, &late->timer, shard->now + URO_LATE_WAIT);
}

void uro_rsp_late_ack(struct uro_qp *qp, uro_psn psn, bool twice)
{
    if (qp->rsp.late && uro_psn_diff(psn, qp->late_psn) <= 0)
        return;
    uro_rsp_late_forget(qp);
    qp->rsp.late = true;
    qp->late_twice = twice;
    qp->late_psn = psn;
    wait(qp);
}

void uro_rsp_late_forget(struct uro_qp *qp)
{
    qp->rsp.late = false;
    uro_list_remove(&qp->late_link);
}

void uro_rsp_late_answered(struct uro_qp *qp, uro_psn psn)
{
    if (uro_psn_diff(psn, qp->late_psn) >= 0)
        uro_rsp_late_forget(qp);
}

void uro_rsp_late_turn(struct uro_shard *shard)
{
    struct uro_late *late = &shard->late;

    late->young ^= 1;
    if (!uro_list_empty(&late->waiting[late->young ^ 1]))
        uro_wheel_arm(&shard->wheel, &late->timer, shard->now + URO_LATE_WAIT);
}

struct uro_qp *uro_rsp_late_take(struct uro_shard *shard)
{
    struct uro_link *link = uro_list_pop(&shard->late.waiting[shard->late.young]);

    if (link == NULL)
        return NULL;
    struct uro_qp *qp = URO_CONTAINER_OF(link, struct uro_qp, late_link);
    URO_MARK("RSP.LATE.ALONE");
    qp->rsp.late = false;
    return qp;
}
