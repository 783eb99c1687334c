/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_judge.c - is this request the next one, is it allowed, can it be carried out?
 *
 * The questions come in the order of IBTA Vol. 1 "Validating inbound request packets": PSN,
 * opcode sequence, opcode, depth, length, receive, remote key. Changes nothing.
 */
#include "base/mark.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/rsp.h"
#include "core/shard.h"

static bool in_sequence(const struct uro_rsp *rsp, const struct uro_frame *frame)
{
    if (!rsp->in_message)
        return uro_place_begins(frame->op->place);
    return !uro_place_begins(frame->op->place) && frame->op->verb == rsp->verb;
}

/* The right that the verb needs, on the queue pair and on the memory. */
static uint32_t right_of(enum uro_verb verb)
{
    static const uint32_t rights[URO_VERB_COUNT] = {
        [URO_WRITE] = URO_ACCESS_REMOTE_WRITE,
        [URO_READ] = URO_ACCESS_REMOTE_READ,
        [URO_CMP_SWAP] = URO_ACCESS_REMOTE_ATOMIC,
        [URO_FETCH_ADD] = URO_ACCESS_REMOTE_ATOMIC,
    };
    return rights[verb];
}

static bool supported(const struct uro_frame *frame)
{
    enum uro_verb verb = frame->op->verb;

    return (verb == URO_SEND || verb == URO_WRITE || verb == URO_READ || verb == URO_CMP_SWAP ||
            verb == URO_FETCH_ADD) &&
           !(frame->op->ext & URO_EXT_INV);
}

/* The length of a SEND or WRITE packet against its place in the message. */
static bool length_fits_place(const struct uro_qp *qp, const struct uro_frame *frame)
{
    uint32_t length = frame->payload_length;

    switch (frame->op->place) {
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

/* A WRITE packet against the length its RETH announced. */
static bool write_fits(const struct uro_qp *qp, const struct uro_frame *frame)
{
    const struct uro_rsp *rsp = &qp->rsp;
    uint32_t whole = uro_place_begins(frame->op->place) ? frame->reth.length : rsp->length;
    uint32_t left = whole - (uro_place_begins(frame->op->place) ? 0 : rsp->offset);

    if (whole > URO_MESSAGE_MAX)
        return false;
    return uro_place_ends(frame->op->place) ? frame->payload_length == left
                                            : frame->payload_length < left;
}

static enum uro_rsp_verdict judge_send(const struct uro_qp *qp, const struct uro_frame *frame)
{
    const struct uro_rsp *rsp = &qp->rsp;
    uint32_t offset = uro_place_begins(frame->op->place) ? 0 : rsp->offset;
    uint32_t head = uro_wq_head(&qp->recv);

    if (!length_fits_place(qp, frame))
        return URO_RSP_BAD_LENGTH;
    if (uro_wq_tail(&qp->recv) == head)
        return URO_RSP_NO_RECEIVE;
    const struct uro_rqe *rqe = uro_wq_slot(&qp->recv, head);
    if ((uint64_t)offset + frame->payload_length > rqe->length)
        return URO_RSP_TOO_LONG;
    return URO_RSP_ACCEPT;
}

static enum uro_rsp_verdict judge_write(const struct uro_qp *qp, const struct uro_frame *frame,
                                        struct uro_rsp_target *target)
{
    const struct uro_rsp *rsp = &qp->rsp;
    bool begin = uro_place_begins(frame->op->place);
    uint64_t va = begin ? frame->reth.va : rsp->va;
    uint32_t rkey = begin ? frame->reth.rkey : rsp->rkey;
    uint32_t whole = begin ? frame->reth.length : rsp->length;
    uint32_t offset = begin ? 0 : rsp->offset;

    if (!length_fits_place(qp, frame) || !write_fits(qp, frame))
        return URO_RSP_BAD_LENGTH;
    if (frame->op->takes_recv && uro_wq_tail(&qp->recv) == uro_wq_head(&qp->recv))
        return URO_RSP_NO_RECEIVE;
    if (whole == 0) {
        URO_MARK("KEY.ZERO"); /* neither address nor key is looked at */
        return URO_RSP_ACCEPT;
    }
    /* The rest of the message, so that FIRST finds out about all of it. */
    target->memory = uro_key_resolve(qp->shard, rkey, qp->pd, URO_ACCESS_REMOTE_WRITE, va + offset,
                                     whole - offset);
    return target->memory != NULL ? URO_RSP_ACCEPT : URO_RSP_BAD_ACCESS;
}

/* The peer may have one more READ or atomic outstanding. Those that are answered again do not
 * count: the peer may have got the first answer meanwhile. */
static bool has_depth(const struct uro_qp *qp)
{
    const struct uro_rsp *rsp = &qp->rsp;
    uint32_t fresh = 0;

    if (rsp->rd_pending < rsp->depth)
        return true;
    for (uint32_t i = rsp->rd_oldest; i != rsp->rd_newest; i++) {
        const struct uro_rd *rd = &rsp->rd[i & rsp->rd_mask];
        fresh += rd->at < rd->end && !rd->again;
    }
    return fresh < rsp->depth;
}

static enum uro_rsp_verdict judge_read(const struct uro_qp *qp, const struct uro_frame *frame)
{
    if (!has_depth(qp))
        return URO_RSP_TOO_DEEP;
    if (frame->reth.length > URO_MESSAGE_MAX)
        return URO_RSP_BAD_LENGTH;
    if (frame->reth.length > 0 &&
        uro_key_resolve(qp->shard, frame->reth.rkey, qp->pd, URO_ACCESS_REMOTE_READ, frame->reth.va,
                        frame->reth.length) == NULL)
        return URO_RSP_BAD_ACCESS;
    return URO_RSP_ACCEPT;
}

static enum uro_rsp_verdict judge_atomic(const struct uro_qp *qp, const struct uro_frame *frame,
                                         struct uro_rsp_target *target)
{
    if (!has_depth(qp))
        return URO_RSP_TOO_DEEP;
    if (frame->atomic.va & 7)
        return URO_RSP_MISALIGNED;
    target->memory = uro_key_resolve(qp->shard, frame->atomic.rkey, qp->pd,
                                     URO_ACCESS_REMOTE_ATOMIC, frame->atomic.va, 8);
    if (target->memory == NULL)
        return URO_RSP_BAD_ACCESS;
    /* A region whose iova and memory differ in their low bits: the CPU could not do it. */
    return ((uintptr_t)target->memory & 7) == 0 ? URO_RSP_ACCEPT : URO_RSP_MISALIGNED;
}

enum uro_rsp_verdict uro_rsp_judge(const struct uro_qp *qp, const struct uro_frame *frame,
                                   struct uro_rsp_target *target)
{
    int32_t distance = uro_psn_diff(uro_psn_make(frame->bth.psn), qp->rsp.expected);
    uint32_t right = right_of(frame->op->verb);

    target->memory = NULL;
    if (distance > 0)
        return URO_RSP_PSN_GAP;
    if (distance < 0)
        return URO_RSP_DUPLICATE;
    if (!in_sequence(&qp->rsp, frame))
        return URO_RSP_BAD_SEQUENCE;
    if (!supported(frame))
        return URO_RSP_UNSUPPORTED;
    if ((qp->attr.access & right) != right)
        return URO_RSP_NO_RIGHT;

    if (frame->op->verb == URO_SEND)
        return judge_send(qp, frame);
    if (frame->op->verb == URO_WRITE)
        return judge_write(qp, frame, target);
    if (frame->op->verb == URO_READ)
        return judge_read(qp, frame);
    return judge_atomic(qp, frame, target);
}
