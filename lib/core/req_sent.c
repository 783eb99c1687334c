/* SPDX-License-Identifier: BSD-3-Clause */
/* req_sent.c - UC and UD: a request is done when its last packet is in the port's buffer.
 *
 * The engine describes packets and the port copies their payload after that, so completing a
 * request while describing it would let the application change what is still to be copied. The
 * engine is called again only after the copying: then.
 */
#include "base/mark.h"
#include "core/ready.h"
#include "core/req.h"
#include "core/shard.h"

void uro_req_sent(struct uro_qp *qp)
{
    qp->req.max = qp->req.next;
    if (!uro_link_used(&qp->sent_link))
        uro_list_append(&qp->shard->sent, &qp->sent_link);
}

static void drained(struct uro_qp *qp)
{
    if (uro_pair_state(qp) != URO_QPS_SQD || !qp->attr.sq_draining ||
        uro_wq_head(&qp->send) != qp->req.started)
        return;
    uro_pair_drained(qp);
}

static void settle(struct uro_qp *qp)
{
    URO_MARK("REQ.SENT");
    while (uro_wq_head(&qp->send) != qp->req.cursor) {
        if (!uro_req_complete_head(qp)) {
            uro_pair_overrun(qp);
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
