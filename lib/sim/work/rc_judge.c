/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_judge.c - checks completions, memory and frames of reliable connections against the requests;
 * see rc.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/oracle/model.h"
#include "sim/work/rc.h"
#include "sim/work/workload.h"

/* ---- sends that succeeded ---- */

/* Records the value that an atomic on the shared word returned. Returns false when the value is too
 * small. */
static bool add(struct sim_shared_word *shared, uint64_t original, uint64_t amount)
{
    if (shared->count == shared->capacity) {
        shared->capacity = shared->capacity * 2 + 64;
        shared->adds = sim_realloc(shared->adds, shared->capacity * sizeof *shared->adds);
    }
    shared->adds[shared->count++] = (struct sim_shared_add){ original, amount };
    return original >= shared->start;
}

static void check_atomic(struct sim_endpoint *end, const struct sim_request *request)
{
    uint64_t original;

    sim_buffer_gather(&request->buffer, (uint8_t *)&original);
    if (request->shared_word) {
        if (!add(&end->workload->shared[end->peer->side], original, request->compare_add))
            sim_endpoint_fail(end, "send", request->number,
                              "original value of the shared word is too small");
    } else if (original != request->original) {
        sim_world_fail(end->world,
                       "pair %u qp 0x%06x send %" PRIu64 ": atomic returned 0x%" PRIx64
                       ", must be 0x%" PRIx64,
                       end->life->number, end->qpn, request->number, original, request->original);
    }
    if (!sim_buffer_check_around(&request->buffer))
        sim_endpoint_fail(end, "send", request->number,
                          "memory beside the atomic's result changed");
}

/* Checks the slot at the peer, unless a later request already writes to it. */
static void check_window(struct sim_endpoint *end, const struct sim_request *request)
{
    struct sim_rc_window *window = &end->rc->windows[request->window];

    window->users--;
    if (window->writers == request->writers && end->peer->memory.memory != NULL &&
        !sim_judge_window(end->peer, request))
        sim_endpoint_fail(end, "send", request->number,
                          request->opcode == UROCE_RDMA_READ
                              ? "of the window changed, although the request only read it"
                              : "of the window differs from the written data");
}

void sim_rc_confirm(struct sim_endpoint *end, const struct sim_request *request)
{
    if (sim_model_is(request->opcode, SIM_ATOMIC) && request->fault == SIM_FAULT_NONE)
        check_atomic(end, request);
    if (request->window != SIM_NO_WINDOW)
        check_window(end, request);
    if (request->mw != NULL)
        sim_rc_window_done(end, request);
}

/* ---- sends that failed ---- */

void sim_rc_uncertain(struct sim_endpoint *end, const struct sim_request *request)
{
    struct sim_rc_state *rc = end->rc;

    if ((!sim_model_is(request->opcode, SIM_ATOMIC) && request->opcode != UROCE_ATOMIC_WRITE) ||
        request->fault != SIM_FAULT_NONE)
        return;
    if (request->shared_word)
        end->workload->shared[end->peer->side].uncertain += request->compare_add;
    else if (rc->word_maybes < URO_ARRAY_LEN(rc->word_maybe))
        rc->word_maybe[rc->word_maybes++] = request->original;
}

void sim_rc_on_error(struct sim_endpoint *end, const struct sim_request *request, uint32_t status)
{
    (void)status;
    if (request != NULL)
        sim_rc_uncertain(end, request);
    sim_life_on_failure(end->life);
}

/* Returns the receive of the peer that takes the message of this request, or NULL if unknown. */
static const struct sim_recv *met_by(const struct sim_endpoint *end,
                                     const struct sim_request *request)
{
    const struct sim_endpoint *peer = end->peer;

    if (!sim_model_is(request->opcode, SIM_TAKES) || peer->type != UROCE_RC || peer->srq != NULL)
        return NULL;
    return request->message < peer->recv_posted ? &peer->recvs[request->message % SIM_REQUESTS_MAX]
                                                : NULL;
}

static bool is_revoked(const struct sim_endpoint *owner, enum sim_memory_section section,
                       const struct sim_request *request)
{
    return owner->rc->revoked[section] && request->number < owner->rc->renewed;
}

/* Returns whether deregistered memory, at one of the ends, explains the failure. */
static bool lost_memory(const struct sim_endpoint *end, const struct sim_request *request,
                        uint32_t status)
{
    bool takes = sim_model_is(request->opcode, SIM_TAKES);

    switch ((unsigned)status) {
    case UROCE_LOC_PROT_ERR:
        return is_revoked(end, SIM_MEMORY_SENDS, request);
    case UROCE_MW_BIND_ERR:
        return end->rc->revoked[SIM_MEMORY_WINDOWS] && request->opcode == UROCE_BIND_MW;
    case UROCE_REM_OP_ERR:
        return end->peer->rc->revoked[SIM_MEMORY_RECVS] && takes;
    case UROCE_REM_ACCESS_ERR:
        return !takes &&
               is_revoked(end->peer,
                          request->window != SIM_NO_WINDOW ? SIM_MEMORY_WINDOWS : SIM_MEMORY_WORDS,
                          request);
    default:
        return false;
    }
}

/* Returns whether the receive of the message, or its shared queue, explains the failure. */
static bool receive_explains(const struct sim_endpoint *end, const struct sim_request *request,
                             uint32_t status)
{
    const struct sim_endpoint *peer = end->peer;
    const struct sim_recv *recv = met_by(end, request);
    bool wild = peer->srq != NULL && peer->srq->plan->wild;

    /* The message may take any of the shared receives. The check of the receive's completion is
     * exact. */
    if (wild && sim_model_is(request->opcode, SIM_TAKES) && request->length > 0 &&
        (status == UROCE_REM_OP_ERR || status == UROCE_REM_INV_REQ_ERR))
        return true;
    if (recv != NULL && request->length > recv->size && status == UROCE_REM_INV_REQ_ERR)
        return true;
    if (recv != NULL && recv->bad_lkey && request->length > 0 && status == UROCE_REM_OP_ERR)
        return true;
    return end->type == UROCE_XRC_INI && status == UROCE_REM_INV_REQ_ERR &&
           request->srq_generation != sim_srq_at(peer, request->srq)->generation;
}

static bool explained(const struct sim_endpoint *end, const struct sim_request *request,
                      uint32_t status)
{
    const struct sim_life *life = end->life;

    if (status == UROCE_RETRY_EXC_ERR)
        return life->may_time_out || (life->may_fail && !end->workload->plan->forever);
    if (status == UROCE_RNR_RETRY_EXC_ERR)
        return end->plan->rnr_retry < 7 && !life->last_life;
    if (receive_explains(end, request, status) || lost_memory(end, request, status))
        return true;
    if (request->mw != NULL && request->window != SIM_NO_WINDOW &&
        end->rc->windows[request->window].revoked && status == UROCE_REM_ACCESS_ERR)
        return true;
    return request->fault != SIM_FAULT_NONE && status == sim_judge_status(request);
}

/* Returns whether the peer has a quirk that explains the status: it sends NAK 0x63 instead of 0x61.
 */
static bool says_otherwise(const struct sim_endpoint *end, uint32_t status)
{
    unsigned quirks = end->workload->plan->cables[end->peer->side].quirks;

    return end->side != end->peer->side && quirks & SIM_QUIRK_OPERATIONAL &&
           status == UROCE_REM_OP_ERR;
}

bool sim_rc_expected(const struct sim_endpoint *end, const struct sim_request *request,
                     uint32_t status)
{
    return explained(end, request, status) ||
           (says_otherwise(end, status) && explained(end, request, UROCE_REM_INV_REQ_ERR));
}

/* ---- receives ---- */

/* Returns the oldest message of the peer that was not taken. XRC: only messages to this shared
 * queue. */
static struct sim_request *next_message(const struct sim_endpoint *end,
                                        const struct sim_receive *receive)
{
    const struct sim_endpoint *peer = end->peer;

    for (uint64_t i = 0; i < peer->posted; i++) {
        struct sim_request *request = sim_request_of(peer, i);
        bool here = !end->life->plan->xrc || receive->srq == sim_srq_at(end, request->srq);
        if (request->taken == 0 && here && sim_model_is(request->opcode, SIM_MESSAGE))
            return request;
    }
    return NULL;
}

void sim_rc_take(struct sim_endpoint *end, const struct sim_receive *receive)
{
    struct sim_request *message = next_message(end, receive);

    if (message == NULL) {
        sim_receive_fail(end, receive, "completed although the peer sent no message");
        return;
    }
    message->taken++;
    end->messages_taken++;
    const char *problem = sim_judge_message(message, receive);
    if (problem != NULL) {
        sim_receive_fail(end, receive, problem);
        return;
    }
    bool write = sim_model_is(message->opcode, SIM_WRITE);
    if (message->opcode == UROCE_SEND_WITH_INV)
        sim_rc_window_invalidated(end, message->inv_rkey);
    if (!sim_buffer_check(&receive->recv->buffer, write ? 0 : message->length, message->seed))
        sim_receive_fail(end, receive, "of the message is wrong");
    if (!write)
        return;
    if (!sim_judge_window(end, message))
        sim_receive_fail(end, receive, "of the window is not there yet, or wrong");
    end->peer->rc->windows[message->window].users--;
}

bool sim_rc_recv_expected(const struct sim_endpoint *end, const struct sim_receive *receive)
{
    const struct sim_request *message = next_message(end, receive);
    uint32_t status = receive->cqe->status;

    if (message == NULL || sim_model_is(message->opcode, SIM_WRITE))
        return false;
    if (status == UROCE_LOC_LEN_ERR)
        return message->length > receive->recv->size;
    return status == UROCE_LOC_PROT_ERR && message->length > 0 &&
           (receive->recv->bad_lkey ||
            (receive->srq == NULL && end->rc->revoked[SIM_MEMORY_RECVS]));
}

/* ---- frames ----
 *
 * The checks are independent of lib/core. The PSN of a packet determines its work request and its
 * position in the message, and so its content. A response must have the data of its request. The
 * checks also detect frames that a receiver would drop silently. Each check returns the problem as
 * text, or NULL.
 */

/* Returns the request of @end with @psn, searching from number @first on, or NULL. */
static const struct sim_request *find_op(const struct sim_endpoint *end, uint64_t first,
                                         uint32_t psn)
{
    for (uint64_t i = first; i < end->posted; i++) {
        const struct sim_request *request = sim_request_of(end, i);
        int32_t index = sim_psn_diff(psn, request->psn);
        if (index >= 0 && index < (int32_t)request->psns)
            return request;
    }
    return NULL;
}

static const char *check_data_request(const struct sim_endpoint *end,
                                      const struct sim_request *request,
                                      const struct uro_frame *frame, uint32_t index)
{
    const char *problem = sim_judge_packet(request, index, end->life->plan->path_mtu, frame);

    if (problem != NULL)
        return problem;
    if (index + 1 == request->psns && !frame->bth.ack_req)
        return "ends its message but does not request an ACK";
    if (is_revoked(end, SIM_MEMORY_SENDS, request) && frame->payload_length > 0 &&
        !(request->flags & UROCE_INLINE))
        return "payload from memory that is not registered any more";
    return NULL;
}

static const char *check_read_request(struct sim_endpoint *end, const struct sim_request *request,
                                      const struct uro_frame *frame, uint32_t index)
{
    uint32_t mtu = end->life->plan->path_mtu;
    uint32_t left = request->length - index * mtu;

    if (frame->reth.va != request->remote_address + (uint64_t)index * mtu ||
        frame->reth.rkey != request->rkey)
        return "wrong RETH";
    if (frame->reth.length != left && (frame->reth.length > left || frame->reth.length % mtu != 0))
        return "requests a part that is not a whole number of packets";
    end->rc->read_parts += index > 0;
    return NULL;
}

static const char *check_atomic_request(const struct sim_request *request,
                                        const struct uro_atomic_eth *atomic)
{
    bool swap = request->opcode == UROCE_COMPARE_SWAP;

    if (atomic->va != request->remote_address || atomic->rkey != request->rkey ||
        atomic->swap_add != (swap ? request->swap : request->compare_add) ||
        (swap && atomic->compare != request->compare_add))
        return "wrong AtomicETH";
    return NULL;
}

static const char *check_flush(const struct sim_request *request, const struct uro_frame *frame)
{
    uint32_t length = request->flush.selectivity == UROCE_FLUSH_RANGE ? request->length : 0;

    if (frame->reth.va != request->remote_address || frame->reth.rkey != request->rkey ||
        frame->reth.length != length || frame->feth.placement != request->flush.placement ||
        frame->feth.selectivity != request->flush.selectivity)
        return "wrong RETH or FETH";
    return NULL;
}

/* Checks the headers that belong to one kind of request, and the payload. */
static const char *check_content(struct sim_endpoint *end, const struct sim_request *request,
                                 const struct uro_frame *frame)
{
    uint32_t index = (uint32_t)sim_psn_diff(frame->bth.psn, request->psn);
    const char *problem;

    if (frame->op->operation == URO_READ)
        problem = check_read_request(end, request, frame, index);
    else if (frame->op->operation == URO_FLUSH)
        problem = check_flush(request, frame);
    else if (frame->op->operation == URO_CMP_SWAP || frame->op->operation == URO_FETCH_ADD)
        problem = check_atomic_request(request, &frame->atomic);
    else
        return check_data_request(end, request, frame, index);
    if (problem == NULL && !frame->bth.ack_req)
        return "does not request an ACK";
    return problem;
}

static const char *check_request(struct sim_endpoint *end, const struct uro_frame *frame)
{
    const struct sim_request *request = find_op(end, end->confirmed, frame->bth.psn);

    if (request == NULL)
        return "belongs to no request that is outstanding";
    if (request->fault == SIM_FAULT_BAD_LKEY || request->fault == SIM_FAULT_UNSUPPORTED)
        return "belongs to a request that cannot be sent";
    if (frame->op->operation != sim_operations[request->opcode].operation)
        return "the request has another operation";
    if (frame->bth.pkey != URO_PKEY_DEFAULT)
        return "wrong P_Key";
    /* On a clean link no packet is lost or late, even if other links of the hosts have faults. */
    if (end->workload->plan->clean && sim_psn_diff(frame->bth.psn, end->wire_psn) < 0)
        return "is sent again although the link loses no frames";
    if (end->workload->plan->clean)
        end->wire_psn = (frame->bth.psn + 1) & SIM_PSN_MASK;
    if (end->drain.drained)
        return "sent in SQD after SQ_DRAINED";
    if (end->type == UROCE_XRC_INI && frame->xrc_srqn != request->srqn)
        return "wrong shared receive queue";
    return check_content(end, request, frame);
}

/* Checks the MSN: the number of messages that the responder has executed. */
static const char *check_msn(struct sim_endpoint *end, const struct sim_request *request,
                             const struct uro_frame *frame)
{
    bool acks = frame->aeth.kind == URO_AETH_ACK;
    bool last = (uint32_t)sim_psn_diff(frame->bth.psn, request->psn) + 1 == request->psns;
    uint64_t least = request->remote_number + (acks && (last || frame->op->operation == URO_READ));

    if (frame->aeth.msn < least ||
        frame->aeth.msn > end->peer->rc->remote + end->peer->rc->read_parts)
        return "MSN does not fit the PSN";
    if (frame->aeth.msn < end->rc->msn_sent)
        return "MSN went back";
    end->rc->msn_sent = frame->aeth.msn;
    return NULL;
}

static const char *check_read_response(struct sim_endpoint *end, const struct sim_request *request,
                                       const struct uro_frame *frame)
{
    const struct sim_endpoint *peer = end->peer;
    uint32_t mtu = end->life->plan->path_mtu;
    uint32_t from = (uint32_t)sim_psn_diff(frame->bth.psn, request->psn) * mtu;
    uint32_t left = request->length - from;
    bool bare = request->opcode == UROCE_FLUSH || request->opcode == UROCE_ATOMIC_WRITE;

    if (bare && (frame->op->position != URO_ONLY || frame->payload_length != 0))
        return "has data for a request without response data";
    if (bare)
        return check_msn(end, request, frame);
    if (request->opcode != UROCE_RDMA_READ)
        return "answers a request that is not a READ";
    if (frame->payload_length != (left < mtu ? left : mtu))
        return "wrong length";
    /* A late response may have newer data, since the slot may be reused. */
    bool still = request->number >= peer->confirmed && request->fault == SIM_FAULT_NONE &&
                 peer->rc->windows[request->window].writers == request->writers;
    if (still && !sim_model_carries(frame, from, frame->payload_length, request->seed))
        return "wrong payload";
    if (is_revoked(end, SIM_MEMORY_WINDOWS, request) && frame->payload_length > 0)
        return "payload from memory that is not registered any more";
    return frame->op->ext & URO_EXT_AETH ? check_msn(end, request, frame) : NULL;
}

static const char *check_response(struct sim_endpoint *end, const struct uro_frame *frame)
{
    const struct sim_endpoint *peer = end->peer;
    const struct sim_request *request = find_op(peer, 0, frame->bth.psn);
    bool is_ack = frame->op->operation == URO_ACK;

    if (sim_psn_diff(frame->bth.psn, peer->rc->psn) >= 0)
        return "answers a request that was never sent";
    if (end->workload->plan->clean && is_ack && frame->aeth.kind != URO_AETH_ACK)
        return "is a NAK although the link loses no frames";
    if (request == NULL)
        return NULL; /* a second response to a request that is not kept any more */
    if (frame->op->operation == URO_READ)
        return check_read_response(end, request, frame);

    bool atomic = frame->op->operation == URO_ATOMIC_ACK;
    if (atomic && !sim_model_is(request->opcode, SIM_ATOMIC))
        return "answers a request that is not an atomic";
    if (atomic && !request->shared_word && frame->atomic_ack != request->original)
        return "wrong original value";
    if (!atomic && frame->aeth.kind == URO_AETH_ACK && sim_model_is(request->opcode, SIM_ANSWERED))
        return "is an ACK without data for a request that needs response data";
    return check_msn(end, request, frame);
}

void sim_rc_wire(struct sim_endpoint *end, const struct uro_frame *frame)
{
    const char *problem =
        frame->op->role == URO_REQUEST ? check_request(end, frame) : check_response(end, frame);

    if (problem != NULL)
        sim_world_fail(end->world, "pair %u %c sent %s psn %u: %s", end->life->number,
                       end->host->config.name, frame->op->name, frame->bth.psn, problem);
}
