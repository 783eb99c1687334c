/* SPDX-License-Identifier: BSD-3-Clause */
/* req_reads.c - the READ window: the most READ responses in flight after a response was lost.
 *
 * The responder sends READ responses as fast as its link takes them. If the receive buffer of the
 * requester overflows, a retransmitted request for all outstanding READs overflows the buffer
 * again. So after the first lost response, the READ window limits the responses in flight, at first
 * to the largest power of two in the window of the device. Each further loss halves the READ
 * window. After some answered requests it doubles again, up to its first size. The READ window
 * stays until RESET.
 *
 * After the first loss, the responses to all outstanding READs are still sent once: no packet makes
 * a responder stop.
 *
 * A READ that is larger than the READ window is requested in parts. Two rules hold for parts:
 *   - A part after the first is requested only when no READ is outstanding: a responder answers
 *     only the newest part of a request.
 *   - A part ends at a multiple of the READ window, a power of two, from the first response of the
 *     READ. A responder drops a duplicate request that extends beyond the request that it executed.
 *     The requester does not know which of its earlier requests the responder executed. But each of
 *     them that covers the first missing response ends at such a multiple, or at the end of the
 *     READ.
 */
#include "base/mark.h"
#include "core/limits.h"
#include "core/req.h"
#include "core/shard.h"

static uint32_t largest_of(const struct uro_qp *qp)
{
    uint32_t window = qp->shard->config.window;
    uint32_t largest = 1;

    while (largest * 2 <= window && largest < URO_REQ_READ_PIECE)
        largest *= 2;
    return largest;
}

void uro_req_reads_lost(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;
    const uint32_t largest = largest_of(qp);
    const uint32_t least = largest < URO_WINDOW_LEAST ? largest : URO_WINDOW_LEAST;
    const uint32_t smaller = req->read_window == 0 ? largest : req->read_window / 2u;

    if (req->read_psns == 0 || uro_qp_wqe(qp, uro_wq_head(&qp->send))->awaited == 0)
        return; /* the missing packet is not a READ response */
    URO_MARK("REQ.READ.WINDOW");
    req->read_window = (uint16_t)(smaller > least ? smaller : least);
    req->read_answers = 0;
}

bool uro_req_reads_fit(const struct uro_qp *qp, struct uro_req_plan *plan)
{
    const struct uro_req *req = &qp->req;
    const uint32_t most = req->read_window - plan->index % req->read_window;

    if (plan->psns > most) {
        URO_MARK("REQ.READ.PART");
        plan->psns = most;
        plan->length = most * qp->path.mtu;
    }
    if (req->read_psns == 0 || req->recovery.mode == URO_RECOVERY_SINGLE)
        return true;
    return plan->index == 0 && req->read_psns + plan->psns <= req->read_window;
}

bool uro_req_reads_answered(struct uro_qp *qp, const struct uro_wqe *wqe, bool counted)
{
    struct uro_req *req = &qp->req;

    if (!counted || wqe->awaited > 0)
        return false;
    if (req->read_window < largest_of(qp) && ++req->read_answers == URO_READ_ANSWERS) {
        req->read_window = (uint16_t)(req->read_window * 2u);
        req->read_answers = 0;
    }
    return true;
}
