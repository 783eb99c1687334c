/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_wire.c - checks every frame of a reliable connection against its request; see rc.h.
 *
 * The checks are independent of lib/core. The PSN of a packet determines its work request and its place, and so its content.
 * A response must have the data of its request. The checks also detect frames that a receiver would drop silently.
 */
#include "core/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/rc.h"
#include "sim/work/workload.h"

static bool fail(const struct sim_endpoint *end, const struct uro_frame *frame, const char *what)
{
    sim_world_fail(end->load->world, "pair %u %c sent %s psn %u: %s", end->life->number,
                   end->host->config.name, frame->op->name, frame->bth.psn, what);
    return false;
}

static int32_t distance(uint32_t psn, uint32_t from)
{
    return uro_psn_diff(uro_psn_make(psn), uro_psn_make(from));
}

/* Returns the request of @end with @psn, searching from number @first on, or NULL. */
static const struct sim_request *find_op(const struct sim_endpoint *end, uint64_t first,
                                         uint32_t psn)
{
    for (uint64_t i = first; i < end->posted; i++) {
        const struct sim_request *request = sim_request_of(end, i);
        int32_t index = distance(psn, request->psn);
        if (index >= 0 && index < (int32_t)request->psns)
            return request;
    }
    return NULL;
}

static bool check_data_request(const struct sim_endpoint *end, const struct sim_request *request,
                               const struct uro_frame *frame, uint32_t index)
{
    uint32_t mtu = end->life->plan->path_mtu;
    uint32_t from = index * mtu;
    uint32_t left = request->length - from;
    bool last = index + 1 == request->psns;
    bool has_imm = sim_model_has_imm(request->opcode);
    bool has_inv = request->opcode == URO_WR_SEND_WITH_INV;
    bool solicits =
        last && sim_model_is_message(request->opcode) && (request->flags & URO_SEND_SOLICITED);

    if (frame->op->place != sim_model_place(index, request->psns))
        return fail(end, frame, "another place in its message is due");
    if (!(frame->op->ext & URO_EXT_IMM) != !(last && has_imm))
        return fail(end, frame, "immediate data where there is none, or none where there is");
    if (last && has_imm && frame->imm != request->imm)
        return fail(end, frame, "wrong immediate data");
    if (!(frame->op->ext & URO_EXT_INV) != !(last && has_inv) ||
        (last && has_inv && frame->inv_rkey != request->inv_rkey))
        return fail(end, frame, "invalidates another key, or none");
    if (frame->op->ext & URO_EXT_RETH &&
        (frame->reth.va != request->remote_address || frame->reth.rkey != request->rkey ||
         frame->reth.length != request->length))
        return fail(end, frame, "wrong RETH");
    if (!sim_model_carries(frame, from, left < mtu ? left : mtu, request->seed))
        return fail(end, frame, "wrong payload");
    if (last && !frame->bth.ack_req)
        return fail(end, frame, "ends its message without asking for an ACK");
    if (frame->bth.solicited != solicits)
        return fail(end, frame, "wrong solicited event bit");
    if (sim_rc_is_revoked(end, SIM_MEMORY_SENDS, request) && frame->payload_length > 0 &&
        !(request->flags & URO_SEND_INLINE))
        return fail(end, frame, "payload from memory that is not registered any more");
    return true;
}

static bool check_read_request(const struct sim_endpoint *end, const struct sim_request *request,
                               const struct uro_frame *frame, uint32_t index)
{
    uint32_t mtu = end->life->plan->path_mtu;
    uint32_t left = request->length - index * mtu;

    if (frame->reth.va != request->remote_address + (uint64_t)index * mtu ||
        frame->reth.rkey != request->rkey)
        return fail(end, frame, "wrong RETH");
    if (frame->reth.length != left && (frame->reth.length > left || frame->reth.length % mtu != 0))
        return fail(end, frame, "asks for a part that is no number of packets");
    return frame->bth.ack_req || fail(end, frame, "does not ask for an answer");
}

static bool check_atomic_request(const struct sim_endpoint *end, const struct sim_request *request,
                                 const struct uro_frame *frame)
{
    bool swap = request->opcode == URO_WR_ATOMIC_CMP_AND_SWP;
    const struct uro_atomic_eth *atomic = &frame->atomic;

    if (atomic->va != request->remote_address || atomic->rkey != request->rkey ||
        atomic->swap_add != (swap ? request->swap : request->compare_add) ||
        (swap && atomic->compare != request->compare_add))
        return fail(end, frame, "wrong AtomicETH");
    return frame->bth.ack_req || fail(end, frame, "does not ask for an answer");
}

static bool check_flush(const struct sim_endpoint *end, const struct sim_request *request,
                        const struct uro_frame *frame)
{
    if (frame->reth.va != request->remote_address || frame->reth.rkey != request->rkey ||
        frame->reth.length != request->length ||
        frame->feth.placement != request->flush.placement ||
        frame->feth.selectivity != request->flush.selectivity)
        return fail(end, frame, "wrong RETH or FETH");
    return frame->bth.ack_req || fail(end, frame, "does not ask for an answer");
}

/* Checks that no packet is sent again. On perfect cables nothing is lost or late, whatever happens on other links of
 * the same hosts. */
static bool check_once(struct sim_endpoint *end, const struct uro_frame *frame)
{
    if (distance(frame->bth.psn, end->wire_psn) < 0)
        return fail(end, frame, "goes again over a perfect network");
    end->wire_psn = (frame->bth.psn + 1) & URO_PSN_MASK;
    return true;
}

static bool check_request(struct sim_endpoint *end, const struct uro_frame *frame)
{
    const struct sim_request *request = find_op(end, end->confirmed, frame->bth.psn);

    if (request == NULL)
        return fail(end, frame, "belongs to no request that is outstanding");
    if (request->fault == SIM_FAULT_BAD_LKEY || request->fault == SIM_FAULT_UNSUPPORTED)
        return fail(end, frame, "belongs to a request that cannot be sent");
    if (frame->op->verb != sim_model_operation(request->opcode))
        return fail(end, frame, "another operation was asked for");
    if (frame->bth.pkey != URO_PKEY_DEFAULT)
        return fail(end, frame, "wrong P_Key");
    if (end->load->plan->clean && !check_once(end, frame))
        return false;
    if (end->drain.drained)
        return fail(end, frame, "sent in SQD after SQ_DRAINED");
    if (end->type == URO_QPT_XRC_INI && frame->xrc_srqn != request->srqn)
        return fail(end, frame, "wrong shared receive queue");

    uint32_t index = (uint32_t)distance(frame->bth.psn, request->psn);
    if (frame->op->verb == URO_READ)
        return check_read_request(end, request, frame, index);
    if (frame->op->verb == URO_FLUSH)
        return check_flush(end, request, frame);
    if (frame->op->verb == URO_CMP_SWAP || frame->op->verb == URO_FETCH_ADD)
        return check_atomic_request(end, request, frame);
    return check_data_request(end, request, frame, index);
}

/* Checks the MSN: the number of messages that the responder has executed. */
static bool check_msn(struct sim_endpoint *end, const struct sim_request *request,
                      const struct uro_frame *frame)
{
    bool acks = frame->aeth.kind == URO_AETH_ACK;
    bool last = (uint32_t)distance(frame->bth.psn, request->psn) + 1 == request->psns;
    uint64_t least = request->remote_number + (acks && (last || frame->op->verb == URO_READ));

    if (frame->aeth.msn < least || frame->aeth.msn > end->peer->rc->remote)
        return fail(end, frame, "MSN does not fit the PSN");
    if (frame->aeth.msn < end->rc->msn_sent)
        return fail(end, frame, "MSN went back");
    end->rc->msn_sent = frame->aeth.msn;
    return true;
}

static bool check_read_response(struct sim_endpoint *end, const struct sim_request *request,
                                const struct uro_frame *frame)
{
    const struct sim_endpoint *peer = end->peer;
    uint32_t mtu = end->life->plan->path_mtu;
    uint32_t from = (uint32_t)distance(frame->bth.psn, request->psn) * mtu;
    uint32_t left = request->length - from;

    if (request->opcode == URO_WR_FLUSH || request->opcode == URO_WR_ATOMIC_WRITE)
        return (frame->op->place == URO_ONLY && frame->payload_length == 0 &&
                check_msn(end, request, frame)) ||
               fail(end, frame, "answers what has no octets");
    if (request->opcode != URO_WR_RDMA_READ)
        return fail(end, frame, "answers what was no READ");
    if (frame->payload_length != (left < mtu ? left : mtu))
        return fail(end, frame, "wrong length");
    /* A late response may have newer data, since the slot may be reused. */
    bool still = request->number >= peer->confirmed && request->fault == SIM_FAULT_NONE &&
                 peer->rc->windows[request->window].writers == request->writers;
    if (still && !sim_model_carries(frame, from, frame->payload_length, request->seed))
        return fail(end, frame, "wrong payload");
    if (sim_rc_is_revoked(end, SIM_MEMORY_WINDOWS, request) && frame->payload_length > 0)
        return fail(end, frame, "payload from memory that is not registered any more");
    return !(frame->op->ext & URO_EXT_AETH) || check_msn(end, request, frame);
}

static bool check_response(struct sim_endpoint *end, const struct uro_frame *frame)
{
    const struct sim_endpoint *peer = end->peer;
    uint64_t first = peer->posted > SIM_REQUESTS_MAX ? peer->posted - SIM_REQUESTS_MAX : 0;
    const struct sim_request *request = find_op(peer, first, frame->bth.psn);

    if (distance(frame->bth.psn, peer->rc->psn) >= 0)
        return fail(end, frame, "answers what was never asked");
    if (end->load->plan->clean && frame->op->verb == URO_ACK && frame->aeth.kind != URO_AETH_ACK)
        return fail(end, frame, "refuses what came over a perfect network");
    if (request == NULL)
        return true; /* an old response, sent again */
    if (frame->op->verb == URO_READ)
        return check_read_response(end, request, frame);

    bool atomic = sim_model_is_atomic(request->opcode);
    if (frame->op->verb == URO_ATOMIC_ACK) {
        if (!atomic)
            return fail(end, frame, "answers what was no atomic");
        if (!request->shared_word && frame->atomic_ack != request->original)
            return fail(end, frame, "wrong original value");
    } else if (frame->aeth.kind == URO_AETH_ACK && sim_model_has_response(request->opcode)) {
        return fail(end, frame, "a bare ACK for what is answered with data");
    }
    return check_msn(end, request, frame);
}

bool sim_rc_wire(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame)
{
    for (uint32_t i = 0; i < 2 * load->plan->pair_count; i++) {
        struct sim_endpoint *end = &load->pairs[i / 2].ends[i % 2];
        if (!end->alive || end->host != host || end->peer->qpn != frame->bth.dest_qpn)
            continue;
        if (frame->op->role == URO_REQUEST)
            (void)check_request(end, frame);
        else
            (void)check_response(end, frame);
        return true;
    }
    return false;
}
