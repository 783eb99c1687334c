/* SPDX-License-Identifier: BSD-3-Clause */
/* req_back.c - how an RC requester goes back: to send again what was lost, or to ask with one packet.
 *
 * The cursor moves to the oldest unacknowledged PSN, and the ordinary sending code sends from there. When
 * is decided by responses (req_complete.c) and by the timer (req_retry.c).
 */
#include "base/mark.h"
#include "core/ready.h"
#include "core/req.h"
#include "core/shard.h"

static uint32_t head_of(const struct uro_qp *qp)
{
    return uro_wq_head(&qp->send);
}

static void go_back(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    req->next = req->una;
    req->cursor = head_of(qp);
    req->depth_used = 0;
    req->read_psns = 0;
    req->since_ack_req = 0;
    req->probing = req->patching = false;
    for (uint32_t i = req->cursor; i != req->started; i++)
        uro_pair_wqe(qp, i)->awaited = 0;
    uro_ready_request(qp);
}

static void set_aside(struct uro_req *req)
{
    req->aside = (struct uro_req_place){ .next = req->next,
                                         .cursor = req->cursor,
                                         .since_ack_req = req->since_ack_req,
                                         .good = req->depth_used == 0 };
}

/* The packet that went back asked for an ACK, but of its own: those before the place may still ask for none. */
static void resume(struct uro_req *req)
{
    req->next = req->aside.next;
    req->cursor = req->aside.cursor;
    req->since_ack_req = req->aside.since_ack_req;
}

/* No request behind the one that was asked for again is answered. */
static bool asked_in_vain(const struct uro_qp *qp)
{
    return qp->req.asked && head_of(qp) - qp->req.asked_at <= 1;
}

/* With READs and atomics in flight: one request again, and then what was next. It would ask for all of their answers
 * again, were it to wait for its own first. False when nothing came behind that since the last time: there was more
 * lost than one. */
static bool ask_again(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    if (req->depth_used == 0 || req->probing || req->patching || asked_in_vain(qp))
        return false;
    URO_MARK("REQ.PROBE.READ");
    set_aside(req);
    req->next = req->una;
    req->cursor = head_of(qp);
    req->patching = req->asked = true;
    req->asked_at = req->cursor;
    uro_ready_request(qp);
    return true;
}

/* rule REQ.PROBE
 * Back, but one packet far. */
static void probe(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    uro_count(&qp->shard->counters, URO_COUNT_PROBES);
    if (ask_again(qp))
        return;
    if (!req->probing && !req->patching)
        set_aside(req);
    go_back(qp);
    req->probing = true;
}

/* What is behind the packet was sent and is kept by the peer, or is on its way. READs and atomics are asked for
 * again in any case. */
static bool patch(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    if (!req->peer_keeps || req->depth_used > 0 || uro_psn_diff(req->next, req->una) < 2)
        return false;
    if (req->retry.config.timeout_exponent == 0)
        return false; /* what the peer did not keep after all nobody would ask for */
    if (uro_psn_diff(req->una, req->patched) == 1) {
        URO_MARK("REQ.GAP.PATCH.NOT"); /* it kept nothing: the next one is missing, too */
        req->peer_keeps = false;
        return false;
    }
    URO_MARK("REQ.GAP.PATCH");
    set_aside(req);
    go_back(qp);
    req->patching = true;
    req->patched = req->una;
    return true;
}

void uro_req_patched(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    req->patching = false;
    /* else all of it is acknowledged, and perhaps a local request at that place complete */
    if (uro_psn_diff(req->aside.next, req->una) > 0)
        resume(req);
}

void uro_req_obey(struct uro_qp *qp, enum uro_req_retry_action action)
{
    switch (action) {
    case URO_REQ_RETRY_NONE:
        break;
    case URO_REQ_RETRY_RESEND:
        uro_count(&qp->shard->counters, URO_COUNT_RETRY_ROUNDS);
        go_back(qp);
        break;
    case URO_REQ_RETRY_PROBE:
        probe(qp);
        break;
    case URO_REQ_RETRY_FAIL_TIMEOUT:
        uro_count(&qp->shard->counters, URO_COUNT_RETRY_EXCEEDED);
        uro_pair_fail_send(qp, head_of(qp), URO_WC_RETRY_EXC_ERR, URO_WHY_NO_ANSWER);
        break;
    case URO_REQ_RETRY_FAIL_RNR:
        uro_count(&qp->shard->counters, URO_COUNT_RNR_EXCEEDED);
        uro_pair_fail_send(qp, head_of(qp), URO_WC_RNR_RETRY_EXC_ERR, URO_WHY_NO_RECEIVE);
        break;
    }
}

void uro_req_gap(struct uro_qp *qp, uro_psn psn)
{
    struct uro_req *req = &qp->req;

    if (req->recovering || req->retry.wait == URO_REQ_WAIT_RNR) {
        URO_MARK("REQ.GAP.ONCE");
        if (uro_psn_diff(psn, req->beyond) > 0) {
            req->beyond = psn;
            uro_req_retry_on_alive(&req->retry, &qp->shard->wheel, qp->shard->now);
        }
        return;
    }
    URO_MARK("REQ.GAP.BACK");
    req->recovering = true;
    req->beyond = psn;
    enum uro_req_retry_action action =
        uro_req_retry_on_gap(&req->retry, &qp->shard->wheel, qp->shard->now);
    if (action != URO_REQ_RETRY_RESEND || !patch(qp))
        uro_req_obey(qp, action);
}

void uro_req_probe_answered(struct uro_qp *qp, uro_psn probed)
{
    struct uro_req *req = &qp->req;

    req->probing = false;
    if (!req->aside.good || uro_psn_diff(req->una, probed) < 2 ||
        uro_psn_diff(req->aside.next, req->una) <= 0)
        return;
    URO_MARK("REQ.PROBE.LATE");
    resume(req);
}

/* Linux rxe sums the headers of a FLUSH twice, and says nothing to one that does not. A FLUSH that
 * was not answered is sent again in the other way; what was answered last stays. */
static void try_other_icrc(struct uro_qp *qp)
{
    if (uro_pair_wqe(qp, head_of(qp))->opcode != URO_WR_FLUSH)
        return;
    URO_MARK("REQ.FLUSH.ICRC");
    qp->req.flush_doubled = !qp->req.flush_doubled;
}

void uro_req_on_timer(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;
    bool rnr = req->retry.wait == URO_REQ_WAIT_RNR;
    enum uro_req_retry_action action =
        uro_req_retry_on_expiry(&req->retry, &qp->shard->wheel, qp->shard->now);

    if (action == URO_REQ_RETRY_NONE)
        return;
    if (action != URO_REQ_RETRY_PROBE)
        req->recovering = false;
    if (action != URO_REQ_RETRY_PROBE && !rnr) {
        uro_count(&qp->shard->counters, URO_COUNT_TIMEOUTS);
        try_other_icrc(qp);
    }
    uro_req_obey(qp, action);
}
