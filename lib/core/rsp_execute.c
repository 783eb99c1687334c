/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_execute.c - executes accepted requests, answers duplicates again, and refuses all others.
 *
 * A duplicate request is never executed again:
 *   SEND, WRITE   The ACK has the PSN of the last executed request. But if a READ or atomic was
 *                 executed behind the duplicate, the ACK has the last PSN before that READ or
 *                 atomic, because its response may have been lost. A sender with wrong PSNs never
 *                 sent the PSN of the ACK, and so detects the error. No ACK is sent if a READ or
 *                 atomic behind the duplicate no longer has a responder resource: the sender has
 *                 its response, which also acknowledged the duplicate. Linux rxe gets other ACKs
 *                 (rxe.h).
 *   READ          The requested part is sent again from memory.
 *   atomic        The stored original value is sent again.
 *
 * UC sends no responses and does not wait for missing packets. A message is delivered completely or
 * not at all. A FIRST or ONLY packet always begins a new message, even inside an unfinished message
 * (bug B19 in docs/PROTOCOL.md). Any other packet must follow its predecessor, or the message is
 * dropped. A refused UC packet is counted, and the queue pair continues: a peer cannot fail it.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/mark.h"
#include "base/probe.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/ready.h"
#include "core/rq.h"
#include "core/rsp.h"
#include "core/rxe.h"
#include "core/sgl.h"
#include "core/shard.h"

#define MSN_MASK 0xffffffu

/* ---- executing ------------------------------------------------------------ */

/* Returns the completion flags for a packet's immediate or invalidate header, and its value. */
static uint8_t extra(const struct uro_frame *frame, uint32_t *value)
{
    *value = 0;
    if (frame->op->ext & URO_EXT_IMM) {
        *value = frame->imm;
        return URO_WC_WITH_IMM;
    }
    if (frame->op->ext & URO_EXT_INV) {
        *value = frame->inv_rkey;
        return URO_WC_WITH_INV;
    }
    return 0;
}

/* Completes the receive in use. Returns false when its CQ is full. */
static bool complete_receive(struct uro_qp *qp, const struct uro_frame *frame, uint8_t opcode,
                             uint32_t length)
{
    struct uro_cq *cq = uro_rq_cq(qp, qp->rsp.srq);
    struct uro_cqe cqe = {
        .wr_id = qp->rsp.recv->wr_id,
        .status = URO_WC_SUCCESS,
        .opcode = opcode,
        .byte_len = length,
        .qpn = uro_qp_qpn(qp),
        .source_qpn = qp->attr.dest_qpn,
    };

    URO_MARK("RSP.RECEIVED");
    cqe.flags = extra(frame, &cqe.imm);
    uro_rq_finish(qp);
    return uro_cq_push(qp->shard, cq, &cqe, frame->bth.solicited);
}

static void next_message(struct uro_qp *qp)
{
    URO_MARK("RSP.MSN");
    qp->rsp.in_message = false;
    qp->rsp.msn = (qp->rsp.msn + 1) & MSN_MASK;
}

static enum uro_rsp_verdict execute_send(struct uro_qp *qp, const struct uro_frame *frame,
                                         const struct uro_rsp_target *target)
{
    struct uro_rsp *rsp = &qp->rsp;

    if (uro_position_begins(frame->op->position)) {
        rsp->in_message = true;
        rsp->operation = URO_SEND;
        rsp->offset = 0;
        rsp->pd = uro_rq_pd(qp, target->srq);
        uro_rq_take(qp, target->srq);
    }
    const struct uro_sgl sgl = { .elements = rsp->recv->sges,
                                 .count = rsp->recv->sge_count,
                                 .pd = rsp->pd };
    if (!uro_sgl_scatter(qp->shard, &sgl, rsp->offset, frame->payload, frame->payload_length))
        return URO_RSP_BAD_LOCAL;
    rsp->offset += frame->payload_length;
    if (uro_position_ends(frame->op->position)) {
        if (frame->op->ext & URO_EXT_INV) {
            URO_MARK("RSP.INVALIDATE");
            uro_key_invalidate(qp->shard, frame->inv_rkey);
        }
        if (!complete_receive(qp, frame, URO_WC_RECV, rsp->offset))
            return URO_RSP_OVERRUN;
        next_message(qp);
    }
    return URO_RSP_ACCEPT;
}

static enum uro_rsp_verdict execute_write(struct uro_qp *qp, const struct uro_frame *frame,
                                          const struct uro_rsp_target *target)
{
    struct uro_rsp *rsp = &qp->rsp;

    if (uro_position_begins(frame->op->position)) {
        rsp->in_message = true;
        rsp->operation = URO_WRITE;
        rsp->offset = 0;
        rsp->va = frame->reth.va;
        rsp->rkey = frame->reth.rkey;
        rsp->length = frame->reth.length;
    }
    if (frame->payload_length > 0 && !uro_touch_write(qp->shard, rsp->rkey, target->memory,
                                                      frame->payload, frame->payload_length))
        return URO_RSP_BAD_ACCESS;
    rsp->offset += frame->payload_length;
    if (uro_position_ends(frame->op->position)) {
        uro_count(qp->shard->counters, URO_COUNT_RX_WRITES);
        if (frame->op->takes_recv) {
            URO_MARK("RSP.RNR.IMM");
            uro_rq_take(qp, target->srq);
            if (!complete_receive(qp, frame, URO_WC_RECV_RDMA_WITH_IMM, rsp->length))
                return URO_RSP_OVERRUN;
        }
        next_message(qp);
    }
    return URO_RSP_ACCEPT;
}

static enum uro_rsp_verdict execute_message(struct uro_qp *qp, const struct uro_frame *frame,
                                            const struct uro_rsp_target *target)
{
    return frame->op->operation == URO_SEND ? execute_send(qp, frame, target)
                                            : execute_write(qp, frame, target);
}

/* Returns a responder resource for a new READ or atomic. Reuses the oldest resource when all are in
 * use. */
static struct uro_resource *take_resource(struct uro_qp *qp)
{
    struct uro_rsp *rsp = &qp->rsp;

    if (rsp->resources_newest - rsp->resources_oldest > rsp->resources_mask) {
        const struct uro_resource *oldest =
            &rsp->resources[rsp->resources_oldest++ & rsp->resources_mask];
        rsp->resources_pending -= uro_resource_due(oldest);
        const uro_psn end = uro_psn_add(uro_resource_first_psn(oldest),
                                        uro_resource_responses(oldest, qp->path.mtu));
        rsp->resources_reused = end.value | URO_RESOURCE_REUSED;
    }
    rsp->resources_pending++;
    return &rsp->resources[rsp->resources_newest++ & rsp->resources_mask];
}

static uint32_t execute_read(struct uro_qp *qp, const struct uro_frame *frame, uint32_t pd)
{
    uint32_t length = frame->reth.length;
    struct uro_resource *resource = take_resource(qp);
    *resource =
        (struct uro_resource){ .va = frame->reth.va,
                               .read = { .length = length, .stop = length },
                               .rkey = frame->reth.rkey,
                               .pd = pd,
                               .bits = uro_resource_pack(URO_READ, uro_psn_make(frame->bth.psn)) };
    const uint32_t psns = uro_resource_responses(resource, qp->path.mtu);
    /* This loop runs at most 23 times until the next RESET. */
    while (psns > 1u << qp->rsp.read_log2)
        qp->rsp.read_log2++;
    return psns;
}

/* Executes an atomic or ATOMIC_WRITE with the CPU's atomic instructions, so that it is also atomic
 * against threads of the program. Executes a FLUSH. Returns the value before an atomic, else 0. */
static uint64_t modify_word(const struct uro_frame *frame, uint8_t *memory)
{
    _Atomic uint64_t *operand = (_Atomic uint64_t *)(void *)memory;
    uint64_t original = frame->atomic.compare;
    uint64_t value;

    URO_MARK("RSP.ATOMIC.CPU");
    if (frame->op->operation == URO_CMP_SWAP) {
        atomic_compare_exchange_strong(operand, &original, frame->atomic.swap_add);
        return original;
    }
    if (frame->op->operation == URO_FETCH_ADD)
        return atomic_fetch_add(operand, frame->atomic.swap_add);
    if (frame->op->operation == URO_ATOMIC_WRITE) {
        URO_MARK("RSP.ATOMIC.WRITE");
        memcpy(&value, frame->payload, sizeof value); /* bytes in wire order, not a number */
        atomic_store(operand, value);
        return 0;
    }
    /* FLUSH: the bytes of earlier WRITEs are in memory already. The fence makes them visible to
     * other threads. */
    URO_MARK("RSP.FLUSH");
    atomic_thread_fence(memory_order_seq_cst);
    return 0;
}

struct word {
    const struct uro_frame *frame;
    uint8_t *memory;
    uint64_t original;
};

static void modify(void *argument)
{
    struct word *word = argument;

    word->original = modify_word(word->frame, word->memory);
}

/* Executes an atomic, ATOMIC_WRITE or FLUSH once. Its response of one packet is kept in a responder
 * resource. */
static enum uro_rsp_verdict execute_word(struct uro_qp *qp, const struct uro_frame *frame,
                                         uint8_t *memory)
{
    bool atomic = frame->op->ext & URO_EXT_ATOMIC;
    struct word word = { frame, memory, 0 };

    if (frame->op->operation == URO_FLUSH)
        modify(&word); /* the operation accesses no memory */
    else if (!uro_touch_word(qp->shard, atomic ? frame->atomic.rkey : frame->reth.rkey, modify,
                             &word, memory))
        return URO_RSP_BAD_ACCESS;

    *take_resource(qp) =
        (struct uro_resource){ .va = atomic ? frame->atomic.va : frame->reth.va,
                               .original = word.original,
                               .rkey = atomic ? frame->atomic.rkey : frame->reth.rkey,
                               .bits = uro_resource_pack(frame->op->operation,
                                                         uro_psn_make(frame->bth.psn)) };
    return URO_RSP_ACCEPT;
}

static enum uro_rsp_verdict execute(struct uro_qp *qp, const struct uro_frame *frame,
                                    const struct uro_rsp_target *target)
{
    struct uro_rsp *rsp = &qp->rsp;
    enum uro_response_form form = uro_operation_traits[frame->op->operation].form;
    bool acknowledged = form == URO_RESPOND_ACK;
    uro_psn psn = rsp->expected;
    uint32_t psns = 1;
    enum uro_rsp_verdict verdict = URO_RSP_ACCEPT;

    if (acknowledged)
        verdict = execute_message(qp, frame, target);
    else if (form == URO_RESPOND_READ)
        psns = execute_read(qp, frame, target->pd);
    else
        verdict = execute_word(qp, frame, target->memory);
    if (verdict != URO_RSP_ACCEPT)
        return verdict;
    if (!acknowledged) {
        uro_count(qp->shard->counters,
                  form == URO_RESPOND_READ ? URO_COUNT_RX_READS : URO_COUNT_RX_ATOMICS);
        next_message(qp);
        uro_ready_response(qp);
    }
    rsp->expected = uro_psn_add(psn, psns);
    rsp->gap_reported = false;
    rsp->nak_due = false; /* the gap is closed now, or a receive was posted */
    if (frame->bth.ack_req && acknowledged) {
        URO_MARK("RSP.ACK");
        uro_rsp_ack(qp, psn, uro_rxe_ack_twice(frame));
    }
    return URO_RSP_ACCEPT;
}

/* ---- duplicate requests ---------------------------------------------------- */

static void repeat_response(struct uro_qp *qp, struct uro_resource *resource, uint32_t begin)
{
    if (!uro_resource_due(resource)) {
        qp->rsp.resources_pending++;
        resource->bits |= URO_RESOURCE_DUE | URO_RESOURCE_REPEATED;
    }
    resource->bits &= ~URO_RESOURCE_BEGUN;
    resource->next_response = begin;
    uro_ready_response(qp);
}

/* Returns whether a duplicate READ request asks for a part, from response @index on, of the READ in
 * @resource. */
static bool same_read(const struct uro_qp *qp, const struct uro_resource *resource, uint32_t index,
                      const struct uro_frame *frame)
{
    uint32_t skipped = index * qp->path.mtu;
    uint32_t length = frame->reth.length;

    if (uro_resource_operation(resource) != frame->op->operation ||
        resource->rkey != frame->reth.rkey)
        return false;
    if (frame->reth.va != resource->va + skipped || length > resource->read.length - skipped) {
        URO_MARK("RSP.DUP.READ.RANGE");
        return false;
    }
    if (length == 0)
        URO_MARK("RSP.DUP.READ.ZERO");
    return true;
}

/* Returns whether a duplicate atomic, ATOMIC_WRITE or FLUSH is the same request as @resource. */
static bool same_other(const struct uro_resource *resource, const struct uro_frame *frame)
{
    uint64_t va = frame->op->ext & URO_EXT_ATOMIC ? frame->atomic.va : frame->reth.va;

    if (uro_resource_operation(resource) != frame->op->operation)
        return false;
    return uro_rxe_repeats_flush(uro_resource_operation(resource), va) || resource->va == va;
}

/* Makes the response of @resource due again if @frame repeats its request. Otherwise returns
 * false. */
static bool replay(struct uro_qp *qp, struct uro_resource *resource, const struct uro_frame *frame)
{
    int32_t index = uro_psn_diff(uro_psn_make(frame->bth.psn), uro_resource_first_psn(resource));

    if (index < 0 || index >= (int32_t)uro_resource_responses(resource, qp->path.mtu))
        return false;
    if (uro_operation_traits[frame->op->operation].form == URO_RESPOND_READ) {
        if (!same_read(qp, resource, (uint32_t)index, frame))
            return false;
        URO_MARK("RSP.DUP.READ");
        resource->read.stop = (uint32_t)index * qp->path.mtu + frame->reth.length;
    } else {
        if (!same_other(resource, frame))
            return false;
        URO_MARK("RSP.DUP.ATOMIC");
    }
    repeat_response(qp, resource, (uint32_t)index);
    return true;
}

/* Returns whether a READ or atomic behind @psn no longer has a responder resource. */
static bool passes_forgotten(const struct uro_rsp *rsp, uro_psn psn)
{
    const uro_psn end = uro_psn_make(rsp->resources_reused & URO_PSN_MASK);

    return rsp->resources_reused != 0 && uro_psn_diff(end, psn) > 0 &&
           uro_psn_diff(end, rsp->expected) <= 0;
}

/* Returns the PSN of the ACK for the duplicate packet at @psn. */
static uro_psn acknowledged(const struct uro_qp *qp, uro_psn psn)
{
    const struct uro_rsp *rsp = &qp->rsp;
    uro_psn end = rsp->expected;

    for (uint32_t i = rsp->resources_newest; i != rsp->resources_oldest; i--) {
        uro_psn first = uro_resource_first_psn(&rsp->resources[(i - 1) & rsp->resources_mask]);
        if (uro_psn_diff(first, psn) <= 0 || uro_psn_diff(first, end) > 0)
            break; /* before @psn, or so old that the PSNs have wrapped */
        end = first;
    }
    return uro_psn_make((end.value - 1) & URO_PSN_MASK);
}

/* Acknowledges a duplicate SEND or WRITE. */
static void acknowledge_repeated(struct uro_qp *qp, const struct uro_frame *frame)
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

static void handle_repeated(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp *rsp = &qp->rsp;

    uro_count(qp->shard->counters, URO_COUNT_RX_DUPLICATE);
    if (!uro_operation_has_response(frame->op->operation)) {
        URO_MARK("RSP.DUP.SEND");
        acknowledge_repeated(qp, frame);
        return;
    }
    for (uint32_t i = rsp->resources_newest; i != rsp->resources_oldest; i--)
        if (replay(qp, &rsp->resources[(i - 1) & rsp->resources_mask], frame))
            return;
    uro_count(qp->shard->counters, URO_COUNT_DROP_REPLAY);
}

/* ---- refusing ------------------------------------------------------------- */

/* Makes a NAK or RNR NAK with the expected PSN due. */
static void set_nak_due(struct uro_qp *qp, enum uro_rsp_verdict verdict)
{
    const struct uro_rsp_consequence *consequence = uro_rsp_consequence(verdict);
    struct uro_rsp *rsp = &qp->rsp;

    URO_PROBE3(nak_sent, uro_qp_qpn(qp), rsp->expected.value, verdict);
    uro_rsp_verdict_mark(verdict);
    rsp->gap_reported = true;
    rsp->nak_due = true;
    rsp->nak_psn = rsp->expected;
    rsp->nak_kind = consequence->kind;
    rsp->nak_value = consequence->kind == URO_AETH_RNR ? qp->attr.min_rnr_timer : consequence->nak;
    uro_ready_response(qp);
}

static void report_gap(struct uro_qp *qp)
{
    uro_count(qp->shard->counters, URO_COUNT_RX_OUT_OF_SEQ);
    set_nak_due(qp, URO_RSP_PSN_GAP);
}

static void refuse_rc(struct uro_qp *qp, const struct uro_frame *frame,
                      const struct uro_rsp_target *target, enum uro_rsp_verdict verdict)
{
    const struct uro_rsp_consequence *consequence = uro_rsp_consequence(verdict);
    struct uro_rsp *rsp = &qp->rsp;
    struct uro_counters *counters = qp->shard->counters;

    if (verdict == URO_RSP_PSN_GAP) {
        if (rsp->gap_reported)
            uro_count(counters, URO_COUNT_DROP_AFTER_NAK);
        else
            report_gap(qp);
        return;
    }
    if (verdict == URO_RSP_NO_RECEIVE) {
        uro_count(counters, URO_COUNT_RNR_SENT);
        qp->shard->no_receive.due &= qp->shard->no_receive.every == 1;
    } else if (verdict == URO_RSP_BAD_ACCESS)
        uro_count(counters, URO_COUNT_ACCESS_REFUSED);
    set_nak_due(qp, verdict);

    if (consequence->fails) {
        bool takes = verdict == URO_RSP_TOO_LONG ||
                     (verdict == URO_RSP_BAD_LENGTH && frame->op->operation == URO_SEND);
        if (takes && rsp->recv == NULL && uro_rq_look(qp, target->srq) != NULL)
            uro_rq_take(qp, target->srq);
        if (consequence->event >= 0) {
            URO_MARK("RSP.EVENT");
            uro_qp_raise_event(qp, (unsigned)consequence->event);
        }
        uro_qp_fail_recv(qp, consequence->completes ? consequence->status : URO_WC_WR_FLUSH_ERR,
                         consequence->fail_reason, frame);
    }
}

/* ---- RC and XRC ----------------------------------------------------------- */

/* Raises COMM_EST once, for a request that came before the application moved the queue pair to
 * RTS. */
static void raise_established(struct uro_qp *qp)
{
    if (qp->rsp.established || uro_qp_state_of(qp) != URO_QPS_RTR)
        return;
    URO_MARK("RSP.COMM.EST");
    qp->rsp.established = true;
    uro_qp_raise_event(qp, URO_EVENT_COMM_EST);
}

static void record_far(struct uro_qp *qp, const struct uro_frame *frame)
{
    const struct uro_record_cause cause = {
        .reason = URO_FAIL_PEER_PSN, .failed_wqe = URO_QP_NO_WQE, .frame = frame, .waits = true
    };

    qp->far_recorded = true;
    uro_record_failure(qp, &cause);
}

/* Counts a request whose PSN is far from the expected PSN. The request is then handled as any
 * other, because it may be from the peer. A peer with long READs has many PSNs in flight and may
 * retransmit these READs, so the limit grows by their PSNs. */
static void notice_far(struct uro_qp *qp, const struct uro_frame *frame)
{
    const int64_t distance = uro_psn_diff(uro_psn_make(frame->bth.psn), qp->rsp.expected);
    const int64_t reads = (int64_t)qp->rsp.rd_atomic_max << qp->rsp.read_log2;

    if (distance > URO_PSN_FAR + reads || distance < -(URO_PSN_FAR + reads)) {
        URO_MARK("RSP.FAR");
        uro_count(qp->shard->counters, URO_COUNT_RX_FAR);
        if (!qp->far_recorded)
            record_far(qp, frame);
    }
}

/* Keeps a request beyond the expected PSN in the reorder buffer. Returns false if it is not kept.
 * If a NAK was sent and the buffer has no packet of the queue pair, nothing is kept: the peer sends
 * all requests from the expected PSN on again. */
static bool waits(struct uro_qp *qp, const struct uro_frame *frame)
{
    const struct uro_rsp *rsp = &qp->rsp;

    if (uro_psn_diff(uro_psn_make(frame->bth.psn), rsp->expected) <= 0 ||
        (rsp->gap_reported && rsp->gap == NULL))
        return false;
    return uro_reorder_keep(qp, frame);
}

/* Executes a request, answers it again, or refuses it. Returns the verdict. */
static enum uro_rsp_verdict act(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp_target target;
    enum uro_rsp_verdict verdict = uro_rsp_judge(qp, frame, &target);

    if (verdict == URO_RSP_ACCEPT)
        verdict = execute(qp, frame, &target);
    if (verdict == URO_RSP_DUPLICATE)
        handle_repeated(qp, frame);
    else if (verdict == URO_RSP_OVERRUN)
        uro_qp_overrun(qp);
    else if (verdict != URO_RSP_ACCEPT && !(verdict == URO_RSP_PSN_GAP && waits(qp, frame)))
        refuse_rc(qp, frame, &target, verdict);
    return verdict;
}

/* Executes the requests in the reorder buffer whose turn has come. The peer may be sending them
 * again, so they are acknowledged at once. If the next missing request was dropped because the
 * buffer was full, the gap is reported at once: the peer may not send this request by itself. */
static void catch_up(struct uro_qp *qp)
{
    const struct uro_rsp before = qp->rsp;
    struct uro_reorder_packet *packet;
    enum uro_rsp_verdict verdict = URO_RSP_ACCEPT;
    uro_psn last = qp->rsp.expected;
    bool acknowledged = false;

    while (verdict == URO_RSP_ACCEPT && (packet = uro_reorder_take(qp)) != NULL) {
        URO_MARK("RSP.EARLY");
        verdict = act(qp, &packet->frame);
        last = uro_psn_make(packet->frame.bth.psn);
        acknowledged = !uro_operation_has_response(packet->frame.op->operation);
        uro_reorder_release(qp->shard, packet);
    }
    if (verdict != URO_RSP_ACCEPT)
        uro_reorder_forget(qp); /* the peer will send all packets from the expected PSN on again */
    else if (qp->rsp.gap == NULL && uro_reorder_dropped(qp)) {
        URO_MARK("RSP.EARLY.NEXT");
        report_gap(qp);
    } else if (acknowledged)
        uro_rsp_ack(qp, last, false); /* an ACK of `last` that is due stays as it is */
    if (!uro_rsp_verdict_fails(verdict))
        uro_rxe_defer_kept(qp, &before);
    if (qp->rsp.gap != NULL)
        uro_reorder_restart(qp);
}

void uro_rsp_on_gaps(struct uro_shard *shard)
{
    struct uro_qp *qp;

    while ((qp = uro_reorder_overdue(shard)) != NULL)
        if (!qp->rsp.gap_reported) {
            URO_MARK("RSP.EARLY.TOLD");
            report_gap(qp);
        }
}

void uro_rsp_receive(struct uro_qp *qp, const struct uro_frame *frame)
{
    const bool nak_sent = qp->rsp.gap_reported && !qp->rsp.nak_due;

    notice_far(qp, frame);
    raise_established(qp);
    qp->rsp.rxe = uro_rxe_sent(frame);
    if (act(qp, frame) == URO_RSP_ACCEPT && qp->rsp.gap != NULL) {
        uro_rxe_goes_back(qp, frame, nak_sent);
        catch_up(qp);
    }
}

/* ---- UC ------------------------------------------------------------------- */

/* Returns whether the packet begins a message or continues the current message. If not, the message
 * in progress has lost a packet and is dropped. */
static bool follows(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp *rsp = &qp->rsp;
    uro_psn psn = uro_psn_make(frame->bth.psn);
    bool next = uro_psn_diff(psn, rsp->expected) == 0;

    rsp->expected = uro_psn_add(psn, 1);
    if (uro_position_begins(frame->op->position)) {
        if (rsp->in_message)
            URO_MARK("UC.FRESH");
        rsp->in_message = false;
        return true;
    }
    if (next && uro_rsp_in_sequence(rsp, frame))
        return true;
    URO_MARK("UC.LOSS");
    rsp->in_message = false;
    uro_count(qp->shard->counters, URO_COUNT_DROP_UC_SEQUENCE);
    return false;
}

static void refuse_uc(struct uro_qp *qp, enum uro_rsp_verdict verdict)
{
    if (verdict == URO_RSP_OVERRUN) {
        uro_qp_overrun(qp);
        return;
    }
    if (verdict == URO_RSP_BAD_LOCAL) { /* an error of this program, not of the peer */
        const struct uro_rsp_consequence *consequence = uro_rsp_consequence(verdict);
        uro_qp_fail_recv(qp, consequence->status, consequence->fail_reason, NULL);
        return;
    }
    URO_MARK("UC.REFUSE");
    qp->rsp.in_message = false;
    uro_count(qp->shard->counters, URO_COUNT_DROP_UC_REFUSED);
}

void uro_rsp_uc_receive(struct uro_qp *qp, const struct uro_frame *frame)
{
    struct uro_rsp_target target;

    if (frame->bth.ack_req)
        URO_MARK("UC.SILENT");
    raise_established(qp);
    if (!follows(qp, frame))
        return;
    enum uro_rsp_verdict verdict = uro_rsp_judge_content(qp, frame, &target);
    if (verdict == URO_RSP_ACCEPT)
        verdict = execute_message(qp, frame, &target);
    if (verdict != URO_RSP_ACCEPT)
        refuse_uc(qp, verdict);
}
