/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_judge.c - checks whether a request is the expected request, is allowed and can be executed.
 *
 * The checks are in the order of IBTA Vol. 1 "Validating inbound request packets": PSN, opcode
 * sequence, opcode, depth, length, receive, remote key. They change nothing.
 */
#include "base/mark.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/rq.h"
#include "core/rsp.h"
#include "core/rxe.h"
#include "core/shard.h"

bool uro_rsp_in_sequence(const struct uro_rsp *rsp, const struct uro_frame *frame)
{
    if (!rsp->in_message)
        return uro_position_begins(frame->op->position);
    return !uro_position_begins(frame->op->position) && frame->op->operation == rsp->operation;
}

/* Returns the rights that a FLUSH requires, or 0 when it is malformed. */
static uint32_t flush_rights(const struct uro_feth *feth)
{
    static const uint32_t rights[] = { 0, URO_ACCESS_FLUSH_GLOBAL, URO_ACCESS_FLUSH_PERSISTENT,
                                       URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT };

    return feth->placement < URO_ARRAY_LEN(rights) && feth->selectivity <= 1
               ? rights[feth->placement]
               : 0;
}

/* Returns the right that the request requires of the queue pair and of the memory. */
static uint32_t right_of(const struct uro_frame *frame)
{
    return frame->op->ext & URO_EXT_FETH ? flush_rights(&frame->feth)
                                         : uro_operation_traits[frame->op->operation].access;
}

/* Returns whether the length of a SEND or WRITE packet fits its position in the message. */
static bool length_fits_place(const struct uro_qp *qp, const struct uro_frame *frame)
{
    uint32_t length = frame->payload_length;

    switch (frame->op->position) {
    case URO_FIRST:
    case URO_MIDDLE:
        return length == qp->path.mtu && frame->bth.pad_count == 0;
    case URO_LAST:
        return length >= 1 && length <= qp->path.mtu;
    case URO_ONLY:
        return length <= qp->path.mtu;
    }
    return false;
}

/* Returns whether the length of a WRITE packet fits the length in the RETH of its message. */
static bool write_fits(const struct uro_qp *qp, const struct uro_frame *frame)
{
    const struct uro_rsp *rsp = &qp->rsp;
    uint32_t whole = uro_position_begins(frame->op->position) ? frame->reth.length : rsp->length;
    uint32_t left = whole - (uro_position_begins(frame->op->position) ? 0 : rsp->offset);

    if (whole > URO_MESSAGE_MAX)
        return false;
    return uro_position_ends(frame->op->position) ? frame->payload_length == left
                                                  : frame->payload_length < left;
}

static uint8_t *reach(const struct uro_qp *qp, const struct uro_rsp_target *target, uint32_t rkey,
                      uint32_t access, uint64_t address, uint64_t length)
{
    const struct uro_key_claim claim = { rkey, target->pd, uro_qp_qpn(qp), access };

    return uro_key_remote(qp->shard, &claim, address, length);
}

/* Returns the receive that a message takes next, or NULL. */
static const struct uro_rqe *find_receive(const struct uro_qp *qp, const struct uro_srq *srq)
{
    if (qp->shard->no_receive.due && qp->service != URO_UC)
        return NULL;
    return uro_rq_look(qp, srq);
}

static enum uro_rsp_verdict judge_send(const struct uro_qp *qp, const struct uro_frame *frame,
                                       const struct uro_rsp_target *target)
{
    const struct uro_rsp *rsp = &qp->rsp;
    bool begins = uro_position_begins(frame->op->position);
    uint32_t offset = begins ? 0 : rsp->offset;

    if (!length_fits_place(qp, frame))
        return URO_RSP_BAD_LENGTH;
    const struct uro_rqe *rqe = begins ? find_receive(qp, target->srq) : rsp->recv;
    if (rqe == NULL)
        return URO_RSP_NO_RECEIVE;
    if ((uint64_t)offset + frame->payload_length > rqe->length)
        return URO_RSP_TOO_LONG;
    if ((frame->op->ext & URO_EXT_INV) &&
        !uro_key_invalidatable(qp->shard, frame->inv_rkey, target->pd, uro_qp_qpn(qp)))
        return URO_RSP_BAD_ACCESS;
    return URO_RSP_ACCEPT;
}

static enum uro_rsp_verdict judge_write(const struct uro_qp *qp, const struct uro_frame *frame,
                                        struct uro_rsp_target *target)
{
    const struct uro_rsp *rsp = &qp->rsp;
    bool begin = uro_position_begins(frame->op->position);
    uint64_t va = begin ? frame->reth.va : rsp->va;
    uint32_t rkey = begin ? frame->reth.rkey : rsp->rkey;
    uint32_t whole = begin ? frame->reth.length : rsp->length;
    uint32_t offset = begin ? 0 : rsp->offset;

    if (!length_fits_place(qp, frame) || !write_fits(qp, frame))
        return URO_RSP_BAD_LENGTH;
    if (frame->op->takes_recv && find_receive(qp, target->srq) == NULL)
        return URO_RSP_NO_RECEIVE;
    if (whole == 0) {
        URO_MARK("KEY.ZERO"); /* neither the address nor the key is checked */
        return URO_RSP_ACCEPT;
    }
    /* FIRST checks the memory of the whole message. */
    target->memory = reach(qp, target, rkey, URO_ACCESS_REMOTE_WRITE, va + offset, whole - offset);
    if (target->memory != NULL)
        return URO_RSP_ACCEPT;
    if (frame->op->position == URO_FIRST)
        URO_MARK("RSP.WHOLE");
    return URO_RSP_BAD_ACCESS;
}

/* Returns whether the peer may have one more READ or atomic outstanding. Responses to duplicates do
 * not count: the peer may have the first response by now. */
static bool has_depth(const struct uro_rsp *rsp)
{
    uint32_t fresh = 0;

    if (rsp->resources_pending < rsp->rd_atomic_max)
        return true;
    for (uint32_t i = rsp->resources_oldest; i != rsp->resources_newest; i++) {
        const struct uro_resource *resource = &rsp->resources[i & rsp->resources_mask];
        fresh +=
            (resource->bits & (URO_RESOURCE_DUE | URO_RESOURCE_REPEATED)) == URO_RESOURCE_DUE &&
            !uro_rxe_beyond_depth(uro_resource_operation(resource));
    }
    return fresh < rsp->rd_atomic_max;
}

/* Returns whether a responder resource is free, or can be reused because its first response was
 * sent. */
static bool has_room(const struct uro_rsp *rsp)
{
    if (rsp->resources_newest - rsp->resources_oldest <= rsp->resources_mask)
        return true;
    const struct uro_resource *oldest =
        &rsp->resources[rsp->resources_oldest & rsp->resources_mask];
    return (oldest->bits & (URO_RESOURCE_DUE | URO_RESOURCE_REPEATED)) != URO_RESOURCE_DUE;
}

/* Checks the depth. Reports a request without a free responder resource as lost: the peer then
 * sends the request again. */
static enum uro_rsp_verdict judge_depth(const struct uro_rsp *rsp, enum uro_operation operation)
{
    if (!uro_operation_has_response(operation))
        return URO_RSP_ACCEPT;
    if (!uro_rxe_beyond_depth(operation) && !has_depth(rsp))
        return URO_RSP_TOO_DEEP;
    return has_room(rsp) ? URO_RSP_ACCEPT : URO_RSP_PSN_GAP;
}

static enum uro_rsp_verdict judge_read(const struct uro_qp *qp, const struct uro_frame *frame,
                                       const struct uro_rsp_target *target)
{
    if (frame->reth.length > URO_MESSAGE_MAX)
        return URO_RSP_BAD_LENGTH;
    if (frame->reth.length > 0 && reach(qp, target, frame->reth.rkey, URO_ACCESS_REMOTE_READ,
                                        frame->reth.va, frame->reth.length) == NULL)
        return URO_RSP_BAD_ACCESS;
    return URO_RSP_ACCEPT;
}

/* Checks an access to an aligned word of eight bytes. */
static enum uro_rsp_verdict judge_word(const struct uro_qp *qp, uint32_t rkey, uint64_t va,
                                       uint32_t access, struct uro_rsp_target *target)
{
    if (va & 7)
        return URO_RSP_MISALIGNED;
    target->memory = reach(qp, target, rkey, access, va, 8);
    if (target->memory == NULL)
        return URO_RSP_BAD_ACCESS;
    /* The low bits of iova and memory may differ. Atomics of C need aligned memory. */
    return ((uintptr_t)target->memory & 7) == 0 ? URO_RSP_ACCEPT : URO_RSP_MISALIGNED;
}

static enum uro_rsp_verdict judge_atomic_write(const struct uro_qp *qp,
                                               const struct uro_frame *frame,
                                               struct uro_rsp_target *target)
{
    if (frame->reth.length != 8 || frame->payload_length != 8)
        return URO_RSP_BAD_LENGTH;
    return judge_word(qp, frame->reth.rkey, frame->reth.va, URO_ACCESS_REMOTE_WRITE, target);
}

static enum uro_rsp_verdict judge_flush(const struct uro_qp *qp, const struct uro_frame *frame,
                                        const struct uro_rsp_target *target)
{
    uint32_t right = flush_rights(&frame->feth);
    bool whole = frame->feth.selectivity == 1;
    const struct uro_reth *reth = &frame->reth;

    if (right == 0)
        return URO_RSP_UNSUPPORTED;
    const struct uro_key_claim claim = { reth->rkey, target->pd, uro_qp_qpn(qp), right };
    bool good = whole ? uro_key_grants(qp->shard, &claim)
                      : uro_key_remote(qp->shard, &claim, reth->va, reth->length) != NULL;
    return good ? URO_RSP_ACCEPT : URO_RSP_BAD_ACCESS;
}

/* Finds the receive queue of the message, and the PD of its keys. Returns false when the XRC domain
 * of the queue pair has no such SRQ. */
static bool find_srq(const struct uro_qp *qp, const struct uro_frame *frame,
                     struct uro_rsp_target *target)
{
    target->srq = qp->srq;
    target->pd = qp->pd;
    if (qp->service != URO_XRC)
        return true;
    struct uro_table_node *node = uro_table_find(&qp->shard->srqs, frame->xrc_srqn);
    if (node == NULL)
        return false;
    target->srq = URO_CONTAINER_OF(node, struct uro_srq, node);
    target->pd = target->srq->pd;
    URO_MARK("XRC.SRQ");
    return target->srq->xrcd == qp->xrcd;
}

enum uro_rsp_verdict uro_rsp_judge_content(const struct uro_qp *qp, const struct uro_frame *frame,
                                           struct uro_rsp_target *target)
{
    uint32_t right = right_of(frame);

    target->memory = NULL;
    if (!find_srq(qp, frame, target))
        return URO_RSP_NO_SRQ;
    if ((qp->attr.access & right) != right)
        return URO_RSP_NO_RIGHT;
    enum uro_rsp_verdict depth = judge_depth(&qp->rsp, frame->op->operation);
    if (depth != URO_RSP_ACCEPT)
        return depth;

    switch (frame->op->operation) {
    case URO_SEND:
        return judge_send(qp, frame, target);
    case URO_WRITE:
        return judge_write(qp, frame, target);
    case URO_READ:
        return judge_read(qp, frame, target);
    case URO_CMP_SWAP:
    case URO_FETCH_ADD:
        return judge_word(qp, frame->atomic.rkey, frame->atomic.va, URO_ACCESS_REMOTE_ATOMIC,
                          target);
    case URO_ATOMIC_WRITE:
        return judge_atomic_write(qp, frame, target);
    case URO_FLUSH:
        return judge_flush(qp, frame, target);
    case URO_ACK:
    case URO_ATOMIC_ACK:
    case URO_NOTIFY:
    case URO_OPERATION_COUNT:
        break;
    }
    return URO_RSP_UNSUPPORTED;
}

enum uro_rsp_verdict uro_rsp_judge(const struct uro_qp *qp, const struct uro_frame *frame,
                                   struct uro_rsp_target *target)
{
    int32_t distance = uro_psn_diff(uro_psn_make(frame->bth.psn), qp->rsp.expected);

    *target = (struct uro_rsp_target){ .srq = qp->srq, .pd = qp->pd };
    if (distance > 0)
        return URO_RSP_PSN_GAP;
    if (distance < 0)
        return URO_RSP_DUPLICATE;
    if (!uro_rsp_in_sequence(&qp->rsp, frame))
        return URO_RSP_BAD_SEQUENCE;
    return uro_rsp_judge_content(qp, frame, target);
}

#define NAK(code) .sends_nak = true, .kind = URO_AETH_NAK, .nak = (code)
#define FATAL(e)  .fails = true, .event = (e)

static const struct uro_rsp_consequence consequences[URO_RSP_VERDICT_COUNT] = {
    [URO_RSP_PSN_GAP] = { NAK(URO_NAK_PSN_SEQUENCE), .event = -1 },
    [URO_RSP_BAD_SEQUENCE] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                               .completes = true, .status = URO_WC_REM_INV_REQ_ERR,
                               .fail_reason = URO_FAIL_PEER_SEQUENCE },
    [URO_RSP_UNSUPPORTED] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                              .fail_reason = URO_FAIL_UNSUPPORTED },
    [URO_RSP_NO_SRQ] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                         .fail_reason = URO_FAIL_PEER_SRQ },
    [URO_RSP_NO_RIGHT] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                           .fail_reason = URO_FAIL_PEER_RIGHTS },
    [URO_RSP_TOO_DEEP] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                           .fail_reason = URO_FAIL_PEER_DEPTH },
    [URO_RSP_BAD_LENGTH] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                             .completes = true, .status = URO_WC_LOC_LEN_ERR,
                             .fail_reason = URO_FAIL_PEER_LENGTH },
    [URO_RSP_MISALIGNED] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                             .fail_reason = URO_FAIL_PEER_LENGTH },
    [URO_RSP_NO_RECEIVE] = { .sends_nak = true, .kind = URO_AETH_RNR, .event = -1 },
    [URO_RSP_TOO_LONG] = { NAK(URO_NAK_INVALID_REQ), FATAL(-1), .completes = true,
                           .status = URO_WC_LOC_LEN_ERR, .fail_reason = URO_FAIL_PEER_TOO_LONG },
    [URO_RSP_BAD_ACCESS] = { NAK(URO_NAK_ACCESS), FATAL(URO_EVENT_QP_ACCESS_ERR),
                             .fail_reason = URO_FAIL_PEER_ACCESS },
    [URO_RSP_BAD_LOCAL] = { NAK(URO_NAK_OPERATIONAL), FATAL(-1), .completes = true,
                            .status = URO_WC_LOC_PROT_ERR, .fail_reason = URO_FAIL_LOCAL_KEY },
};

void uro_rsp_verdict_mark(enum uro_rsp_verdict verdict)
{
    switch (verdict) {
    case URO_RSP_ACCEPT:
    case URO_RSP_OVERRUN:
    case URO_RSP_DUPLICATE:
    case URO_RSP_VERDICT_COUNT:
        break;
    case URO_RSP_PSN_GAP:
        URO_MARK("RSP.GAP.NAK");
        break;
    case URO_RSP_BAD_SEQUENCE:
        URO_MARK("RSP.SEQUENCE");
        break;
    case URO_RSP_UNSUPPORTED:
        URO_MARK("RSP.UNSUPPORTED");
        break;
    case URO_RSP_NO_SRQ:
        URO_MARK("XRC.NO.SRQ");
        break;
    case URO_RSP_NO_RIGHT:
        URO_MARK("RSP.RIGHTS");
        break;
    case URO_RSP_TOO_DEEP:
        URO_MARK("RSP.DEPTH");
        break;
    case URO_RSP_BAD_LENGTH:
        URO_MARK("RSP.LENGTH");
        break;
    case URO_RSP_MISALIGNED:
        URO_MARK("RSP.ATOMIC.ALIGN");
        break;
    case URO_RSP_NO_RECEIVE:
        URO_MARK("RSP.RNR");
        break;
    case URO_RSP_TOO_LONG:
        URO_MARK("RSP.TOO.LONG");
        break;
    case URO_RSP_BAD_ACCESS:
        URO_MARK("RSP.ACCESS.NAK");
        break;
    case URO_RSP_BAD_LOCAL:
        URO_MARK("RSP.LOCAL");
        break;
    }
}

const struct uro_rsp_consequence *uro_rsp_consequence(enum uro_rsp_verdict verdict)
{
    URO_ASSERT(verdict > URO_RSP_DUPLICATE && verdict < URO_RSP_VERDICT_COUNT);
    return &consequences[verdict];
}

bool uro_rsp_verdict_fails(enum uro_rsp_verdict verdict)
{
    return verdict == URO_RSP_OVERRUN || consequences[verdict].fails;
}
