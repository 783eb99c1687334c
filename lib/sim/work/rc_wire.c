/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_wire.c - every RoCE frame an engine sends against what the applications asked for.
 *
 * A second, independent reading of the protocol: from its PSN a request frame is this packet of
 * that work request and must say exactly that, and a response must carry what the request asked
 * for. What receivers would drop in silence shows here.
 */
#include <inttypes.h>
#include <string.h>

#include "core/psn.h"
#include "sim/work/attacked.h"
#include "sim/work/cm.h"
#include "sim/work/uc.h"
#include "sim/work/ud.h"
#include "wire/frame.h"

static bool fail(const struct sim_rc_end *end, const struct uro_frame *frame, const char *what)
{
    sim_world_fail(end->load->world, "pair %u %c sent %s psn %u: %s", end->pair->number,
                   end->host->config.name, frame->op->name, frame->bth.psn, what);
    return false;
}

static int32_t distance(uint32_t psn, uint32_t from)
{
    return uro_psn_diff(uro_psn_make(psn), uro_psn_make(from));
}

/* The request of @end that @psn belongs to, from number @first on; NULL: none. */
static const struct sim_rc_op *find_op(const struct sim_rc_end *end, uint64_t first, uint32_t psn)
{
    for (uint64_t i = first; i < end->posted; i++) {
        const struct sim_rc_op *op = &end->ops[i % SIM_WORKLOAD_OPS_MAX];
        int32_t index = distance(psn, op->psn);
        if (index >= 0 && index < (int32_t)op->psns)
            return op;
    }
    return NULL;
}

static enum uro_verb verb_of(const struct sim_rc_op *op)
{
    switch (op->opcode) {
    case URO_WR_SEND:
    case URO_WR_SEND_WITH_IMM:
    case URO_WR_SEND_WITH_INV:
        return URO_SEND;
    case URO_WR_FLUSH:
        return URO_FLUSH;
    case URO_WR_ATOMIC_WRITE:
        return URO_ATOMIC_WRITE;
    case URO_WR_RDMA_READ:
        return URO_READ;
    case URO_WR_ATOMIC_CMP_AND_SWP:
        return URO_CMP_SWAP;
    case URO_WR_ATOMIC_FETCH_AND_ADD:
        return URO_FETCH_ADD;
    default:
        return URO_WRITE;
    }
}

static enum uro_place place_of(uint32_t index, uint32_t count)
{
    if (count == 1)
        return URO_ONLY;
    return index == 0 ? URO_FIRST : index + 1 == count ? URO_LAST : URO_MIDDLE;
}

static bool is_message(const struct uro_frame *frame, uint32_t from, uint32_t length, uint64_t seed)
{
    uint8_t octets[URO_PATH_MTU_MAX];

    if (frame->payload_length != length)
        return false;
    sim_memory_message(octets, from, length, seed);
    return memcmp(octets, frame->payload, length) == 0;
}

static bool check_data_request(const struct sim_rc_end *end, const struct sim_rc_op *op,
                               const struct uro_frame *frame, uint32_t index)
{
    uint32_t mtu = end->pair->plan->path_mtu;
    uint32_t from = index * mtu;
    uint32_t left = op->length - from;
    bool last = index + 1 == op->psns;
    bool has_imm = op->opcode == URO_WR_SEND_WITH_IMM || op->opcode == URO_WR_RDMA_WRITE_WITH_IMM;
    bool has_inv = op->opcode == URO_WR_SEND_WITH_INV;
    bool takes = has_imm || has_inv || op->opcode == URO_WR_SEND;
    bool solicits = last && takes && (op->flags & URO_SEND_SOLICITED);

    if (frame->op->place != place_of(index, op->psns))
        return fail(end, frame, "another place in its message is due");
    if (!(frame->op->ext & URO_EXT_IMM) != !(last && has_imm))
        return fail(end, frame, "immediate data where there is none, or none where there is");
    if (last && has_imm && frame->imm != op->imm)
        return fail(end, frame, "wrong immediate data");
    if (!(frame->op->ext & URO_EXT_INV) != !(last && has_inv) ||
        (last && has_inv && frame->inv_rkey != op->inv_rkey))
        return fail(end, frame, "invalidates another key, or none");
    if (frame->op->ext & URO_EXT_RETH &&
        (frame->reth.va != op->remote_address || frame->reth.rkey != op->rkey ||
         frame->reth.length != op->length))
        return fail(end, frame, "wrong RETH");
    if (!is_message(frame, from, left < mtu ? left : mtu, op->seed))
        return fail(end, frame, "wrong payload");
    if (last && !frame->bth.ack_req)
        return fail(end, frame, "ends its message without asking for an ACK");
    if (frame->bth.solicited != solicits)
        return fail(end, frame, "wrong solicited event bit");
    if (sim_rc_judge_revoked(end, SIM_MEMORY_SENDS, op) && frame->payload_length > 0 &&
        !(op->flags & URO_SEND_INLINE))
        return fail(end, frame, "payload from memory that is not registered any more");
    return true;
}

static bool check_read_request(const struct sim_rc_end *end, const struct sim_rc_op *op,
                               const struct uro_frame *frame, uint32_t index)
{
    uint32_t mtu = end->pair->plan->path_mtu;
    uint32_t left = op->length - index * mtu;

    if (frame->reth.va != op->remote_address + (uint64_t)index * mtu ||
        frame->reth.rkey != op->rkey)
        return fail(end, frame, "wrong RETH");
    if (frame->reth.length != left && (frame->reth.length > left || frame->reth.length % mtu != 0))
        return fail(end, frame, "asks for a part that is no number of packets");
    return frame->bth.ack_req || fail(end, frame, "does not ask for an answer");
}

static bool check_atomic_request(const struct sim_rc_end *end, const struct sim_rc_op *op,
                                 const struct uro_frame *frame)
{
    bool swap = op->opcode == URO_WR_ATOMIC_CMP_AND_SWP;
    const struct uro_atomic_eth *atomic = &frame->atomic;

    if (atomic->va != op->remote_address || atomic->rkey != op->rkey ||
        atomic->swap_add != (swap ? op->swap : op->compare_add) ||
        (swap && atomic->compare != op->compare_add))
        return fail(end, frame, "wrong AtomicETH");
    return frame->bth.ack_req || fail(end, frame, "does not ask for an answer");
}

static bool check_flush(const struct sim_rc_end *end, const struct sim_rc_op *op,
                        const struct uro_frame *frame)
{
    if (frame->reth.va != op->remote_address || frame->reth.rkey != op->rkey ||
        frame->reth.length != op->length || frame->feth.placement != op->flush.placement ||
        frame->feth.selectivity != op->flush.selectivity)
        return fail(end, frame, "wrong RETH or FETH");
    return frame->bth.ack_req || fail(end, frame, "does not ask for an answer");
}

/* Between two hosts whose cables are perfect nothing is lost and nobody is late, whatever happens to
 * the others that they talk to. */
static bool check_once(struct sim_rc_end *end, const struct uro_frame *frame)
{
    if (distance(frame->bth.psn, end->wire_psn) < 0)
        return fail(end, frame, "goes again over a perfect network");
    end->wire_psn = (frame->bth.psn + 1) & URO_PSN_MASK;
    return true;
}

static bool check_request(struct sim_rc_end *end, const struct uro_frame *frame)
{
    const struct sim_rc_op *op = find_op(end, end->confirmed, frame->bth.psn);

    if (op == NULL)
        return fail(end, frame, "belongs to no request that is outstanding");
    if (op->inject == SIM_WORKLOAD_BAD_LKEY || op->inject == SIM_WORKLOAD_UNSUPPORTED)
        return fail(end, frame, "belongs to a request that cannot be sent");
    if (frame->op->verb != verb_of(op))
        return fail(end, frame, "another operation was asked for");
    if (frame->bth.pkey != URO_PKEY_DEFAULT)
        return fail(end, frame, "wrong P_Key");
    if (end->load->plan->clean && !check_once(end, frame))
        return false;
    if (end->pause.drained)
        return fail(end, frame, "sent in SQD after SQ_DRAINED");
    if (end->type == URO_QPT_XRC_INI && frame->xrc_srqn != op->srqn)
        return fail(end, frame, "wrong shared receive queue");

    uint32_t index = (uint32_t)distance(frame->bth.psn, op->psn);
    if (frame->op->verb == URO_READ)
        return check_read_request(end, op, frame, index);
    if (frame->op->verb == URO_FLUSH)
        return check_flush(end, op, frame);
    if (frame->op->verb == URO_CMP_SWAP || frame->op->verb == URO_FETCH_ADD)
        return check_atomic_request(end, op, frame);
    return check_data_request(end, op, frame, index);
}

/* Messages the responder has executed, as it says itself. */
static bool check_msn(struct sim_rc_end *end, const struct sim_rc_op *op,
                      const struct uro_frame *frame)
{
    bool acks = frame->aeth.kind == URO_AETH_ACK;
    bool last = (uint32_t)distance(frame->bth.psn, op->psn) + 1 == op->psns;
    uint64_t least = op->remote_number + (acks && (last || frame->op->verb == URO_READ));

    if (frame->aeth.msn < least || frame->aeth.msn > end->peer->remote)
        return fail(end, frame, "MSN does not fit the PSN");
    if (frame->aeth.msn < end->msn_sent)
        return fail(end, frame, "MSN went back");
    end->msn_sent = frame->aeth.msn;
    return true;
}

static bool check_read_response(struct sim_rc_end *end, const struct sim_rc_op *op,
                                const struct uro_frame *frame)
{
    const struct sim_rc_end *peer = end->peer;
    uint32_t mtu = end->pair->plan->path_mtu;
    uint32_t from = (uint32_t)distance(frame->bth.psn, op->psn) * mtu;
    uint32_t left = op->length - from;

    if (op->opcode == URO_WR_FLUSH || op->opcode == URO_WR_ATOMIC_WRITE)
        return (frame->op->place == URO_ONLY && frame->payload_length == 0 &&
                check_msn(end, op, frame)) ||
               fail(end, frame, "answers what has no octets");
    if (op->opcode != URO_WR_RDMA_READ)
        return fail(end, frame, "answers what was no READ");
    if (frame->payload_length != (left < mtu ? left : mtu))
        return fail(end, frame, "wrong length");
    /* Later the window may hold something else, and an answer that nobody waits for any more may
     * show it. */
    bool still = op->number >= peer->confirmed && op->inject == SIM_WORKLOAD_RIGHT &&
                 peer->windows[op->window].writers == op->writers;
    if (still && !is_message(frame, from, frame->payload_length, op->seed))
        return fail(end, frame, "wrong payload");
    if (sim_rc_judge_revoked(end, SIM_MEMORY_WINDOWS, op) && frame->payload_length > 0)
        return fail(end, frame, "payload from memory that is not registered any more");
    return !(frame->op->ext & URO_EXT_AETH) || check_msn(end, op, frame);
}

static bool check_response(struct sim_rc_end *end, const struct uro_frame *frame)
{
    const struct sim_rc_end *peer = end->peer;
    uint64_t first = peer->posted > SIM_WORKLOAD_OPS_MAX ? peer->posted - SIM_WORKLOAD_OPS_MAX : 0;
    const struct sim_rc_op *op = find_op(peer, first, frame->bth.psn);

    if (distance(frame->bth.psn, peer->psn) >= 0)
        return fail(end, frame, "answers what was never asked");
    if (end->load->plan->clean && frame->op->verb == URO_ACK && frame->aeth.kind != URO_AETH_ACK)
        return fail(end, frame, "refuses what came over a perfect network");
    if (op == NULL)
        return true; /* an old answer, sent again */
    if (frame->op->verb == URO_READ)
        return check_read_response(end, op, frame);

    bool atomic =
        op->opcode == URO_WR_ATOMIC_CMP_AND_SWP || op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
    if (frame->op->verb == URO_ATOMIC_ACK) {
        if (!atomic)
            return fail(end, frame, "answers what was no atomic");
        if (!op->shared && frame->atomic_ack != op->original)
            return fail(end, frame, "wrong original value");
    } else if (frame->aeth.kind == URO_AETH_ACK &&
               (atomic || op->opcode == URO_WR_RDMA_READ || op->opcode == URO_WR_FLUSH ||
                op->opcode == URO_WR_ATOMIC_WRITE)) {
        return fail(end, frame, "a bare ACK for what is answered with data");
    }
    return check_msn(end, op, frame);
}

/* Somebody is told that his packets were marked: of which queue pair is not looked at. */
static bool check_notice(const struct sim_workload *load, const struct sim_host *host,
                         const struct uro_frame *frame)
{
    if (load->plan->clean || !frame->bth.becn || frame->bth.psn != 0 || frame->bth.ack_req)
        sim_world_fail(load->world, "%c tells qp 0x%06x of congestion: %s", host->config.name,
                       frame->bth.dest_qpn,
                       load->plan->clean ? "nothing was marked" : "not as it is told");
    return true;
}

bool sim_rc_wire(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame)
{
    if (frame->op->service == URO_CNP)
        return check_notice(load, host, frame);
    if (sim_cm_wire(load->cm, host, frame))
        return true;
    if (frame->op->service == URO_UD)
        return sim_ud_wire(load->ud, host, frame) || sim_attacked_wire(load->attacked, host, frame);
    for (uint32_t i = 0; frame->op->service == URO_UC && i < load->plan->uc_count; i++)
        if (sim_uc_wire(&load->ucs[i], host, frame))
            return true;
    for (uint32_t i = 0; i < 2 * load->plan->pair_count; i++) {
        struct sim_rc_end *end = &load->pairs[i / 2].ends[i % 2];
        if (!end->alive || end->host != host || end->peer->qpn != frame->bth.dest_qpn)
            continue;
        if (frame->op->role == URO_REQUEST)
            (void)check_request(end, frame);
        else
            (void)check_response(end, frame);
        return true;
    }
    return sim_attacked_wire(load->attacked, host, frame);
}
