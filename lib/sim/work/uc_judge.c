/* SPDX-License-Identifier: BSD-3-Clause */
/* uc_judge.c - completions, frames and memory of unreliable connections; see uc.h. */
#include <inttypes.h>
#include <string.h>

#include "core/psn.h"
#include "sim/work/tight.h"
#include "sim/work/uc.h"
#include "wire/frame.h"

static void fail(const struct sim_uc_end *end, const char *kind, uint64_t number, const char *what)
{
    sim_world_fail(end->uc->load->world, "UC %u qp 0x%06x %s %" PRIu64 ": %s", end->uc->number,
                   end->qpn, kind, number, what);
}

static bool has_imm(const struct sim_uc_op *op)
{
    return op->opcode == URO_WR_SEND_WITH_IMM || op->opcode == URO_WR_RDMA_WRITE_WITH_IMM;
}

static bool writes(const struct sim_uc_op *op)
{
    return op->opcode == URO_WR_RDMA_WRITE || op->opcode == URO_WR_RDMA_WRITE_WITH_IMM;
}

static bool on_wire(const struct sim_uc_end *end)
{
    return end->host != end->peer->host;
}

/* ---- frames ------------------------------------------------------------------------------------ */

/* Whether the frame is packet @index of the request. */
static bool is_packet(const struct sim_uc_end *end, uint32_t number, uint32_t index,
                      const struct uro_frame *frame)
{
    const struct sim_uc_op *op = &end->ops[number];
    const struct sim_memory *there = &end->peer->memory;
    uint32_t mtu = end->uc->plan->path_mtu;
    uint32_t packets = sim_uc_packets(end, op);
    uint32_t from = index * mtu;
    uint32_t left = op->length - from;
    bool last = index + 1 == packets;
    uint8_t octets[URO_PATH_MTU_MAX];
    enum uro_place middle = last ? URO_LAST : URO_MIDDLE;
    enum uro_place place = packets == 1 ? URO_ONLY : index == 0 ? URO_FIRST : middle;

    if (frame->op->verb != (writes(op) ? URO_WRITE : URO_SEND) || frame->op->place != place ||
        frame->payload_length != (left < mtu ? left : mtu) ||
        !(frame->op->ext & URO_EXT_IMM) != !(last && has_imm(op)))
        return false;
    if (last && has_imm(op) && frame->imm != op->imm)
        return false;
    if (frame->op->ext & URO_EXT_RETH &&
        (frame->reth.length != op->length ||
         frame->reth.va != sim_memory_address(there, SIM_MEMORY_WINDOWS, number) + op->at))
        return false;
    sim_memory_message(octets, from, frame->payload_length, op->seed);
    return memcmp(octets, frame->payload, frame->payload_length) == 0;
}

static void check_frame(struct sim_uc_end *end, const struct uro_frame *frame)
{
    if (frame->bth.psn != end->wire_psn || frame->bth.ack_req) {
        fail(end, "frame", frame->bth.psn, "has another PSN than is due, or asks for an answer");
        return;
    }
    if (end->pause.drained)
        fail(end, "frame", frame->bth.psn, "is sent in SQD after SQ_DRAINED");
    end->wire_psn = (end->wire_psn + 1) & URO_PSN_MASK;
    for (; end->wire_op < end->posted; end->wire_op++) {
        struct sim_uc_op *op = &end->ops[end->wire_op];
        bool sent = op->fault == SIM_UC_RIGHT || op->fault == SIM_UC_BAD_RKEY;
        if (sent && is_packet(end, end->wire_op, op->sent, frame)) {
            bool last = ++op->sent == sim_uc_packets(end, op);
            bool solicits = last && sim_uc_takes(op) && (op->flags & URO_SEND_SOLICITED);
            if (frame->bth.solicited != solicits)
                fail(end, "frame", frame->bth.psn, "has the wrong solicited event bit");
            if (op->flushed)
                fail(end, "send", end->wire_op, "was flushed and is sent after that");
            end->wire_op += last;
            return;
        }
        if (op->sent > 0)
            break;
    }
    fail(end, "frame", frame->bth.psn, "is not the next of what was asked for");
}

bool sim_uc_wire(struct sim_uc *uc, struct sim_host *host, const struct uro_frame *frame)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_uc_end *end = &uc->ends[i];
        if (!end->alive || end->host != host || end->peer->qpn != frame->bth.dest_qpn)
            continue;
        if (!sim_workload_swallows(host))
            check_frame(end, frame);
        return true;
    }
    return false;
}

/* ---- sends ------------------------------------------------------------------------------------- */

static void confirm(struct sim_uc_end *end, uint32_t number)
{
    const struct sim_uc_op *op = &end->ops[number];
    uint32_t slot = number % end->uc->plan->send_capacity;
    bool filled = !(op->flags & URO_SEND_INLINE);
    uint32_t at;

    if (op->fault != SIM_UC_RIGHT && op->fault != SIM_UC_BAD_RKEY)
        fail(end, "send", number, "succeeded although it was wrong");
    else if (!sim_workload_swallows(end->host) && op->sent != sim_uc_packets(end, op))
        fail(end, "send", number, "succeeded and was not sent");
    else if (!sim_memory_check(&end->memory, SIM_MEMORY_SENDS, slot, &op->layout,
                               filled ? op->length : 0, op->seed, &at))
        fail(end, "send", number, "changed its buffer");
    end->uc->load->ops_done++;
}

static void judge_failed(struct sim_uc_end *end, uint32_t number, const struct uro_cqe *cqe)
{
    struct sim_workload *load = end->uc->load;
    const struct sim_uc_op *op = &end->ops[number];
    uint8_t due = op->fault == SIM_UC_BAD_LKEY ? URO_WC_LOC_PROT_ERR : URO_WC_LOC_QP_OP_ERR;

    if ((op->fault != SIM_UC_BAD_LKEY && op->fault != SIM_UC_UNSUPPORTED) || cqe->status != due ||
        cqe->vendor_error == 0)
        fail(end, "send", number, "failed otherwise than it must");
    else if (!end->ended && !end->recv_failed && uro_qp_state_now(end->qp) != URO_QPS_SQE &&
             uro_qp_state_now(end->qp) != URO_QPS_ERR)
        fail(end, "send", number, "failed and did not stop the queue");
    end->stopped = true;
    end->resume_at =
        load->world->now + uro_rng_below(&end->rng, end->uc->plan->resume_wait_max + 1);
    load->failures++;
}

static bool may_flush(const struct sim_uc_end *end, uint32_t number)
{
    return end->ended || end->recv_failed || end->owner.fatal || end->stopped ||
           number < end->flush_until || uro_qp_state_now(end->qp) == URO_QPS_ERR;
}

static void judge_send(struct sim_uc_end *end, const struct uro_cqe *cqe)
{
    uint32_t number = (uint32_t)cqe->wr_id;

    if (number < end->confirmed || number >= end->posted) {
        fail(end, "send", number, "completed twice, or was never posted");
        return;
    }
    for (; end->confirmed < number; end->confirmed++) {
        if (end->ops[end->confirmed].flags & URO_SEND_SIGNALED || end->uc->plan->signal_all)
            fail(end, "send", end->confirmed, "did not complete before the one after it");
        confirm(end, end->confirmed);
    }
    struct sim_uc_op *op = &end->ops[number];
    end->confirmed++;
    if (cqe->status == URO_WC_WR_FLUSH_ERR) {
        if (!may_flush(end, number))
            fail(end, "send", number, "flushed without cause");
        op->flushed = true;
    } else if (cqe->status != URO_WC_SUCCESS) {
        judge_failed(end, number, cqe);
    } else if (!(op->flags & URO_SEND_SIGNALED) && !end->uc->plan->signal_all) {
        fail(end, "send", number, "completed but was not signalled");
    } else if (cqe->opcode != (writes(op) ? URO_WC_RDMA_WRITE : URO_WC_SEND)) {
        fail(end, "send", number, "completed with the opcode of another operation");
    } else {
        confirm(end, number);
    }
}

void sim_uc_judge_silent(struct sim_uc_end *end)
{
    for (; end->confirmed < end->posted; end->confirmed++) {
        if (end->ops[end->confirmed].flags & URO_SEND_SIGNALED || end->uc->plan->signal_all)
            fail(end, "send", end->confirmed, "never completed");
        else
            confirm(end, end->confirmed);
    }
}

/* ---- receives ---------------------------------------------------------------------------------- */

/* How often a message may come: as often as the network makes copies of it. */
static uint32_t copies(const struct sim_uc_end *end)
{
    const struct sim_plan *plan = end->uc->load->plan;

    return on_wire(end) && plan->cables[end->peer->side].duplicate > 0 ? 2 : 1;
}

/* Whether the network keeps the order. */
static bool in_order(const struct sim_uc_end *end)
{
    return !on_wire(end) || end->uc->load->plan->cables[end->peer->side].keep_order;
}

/* A receive and where its octets are. */
struct place {
    uint64_t number;
    const struct sim_rc_recv *recv;
    struct sim_memory *memory;
    uint32_t slot;
};

static bool could_be(const struct sim_uc_end *end, const struct sim_uc_op *op,
                     const struct place *place, const struct uro_cqe *cqe)
{
    if (op->fault != SIM_UC_RIGHT || !sim_uc_takes(op) || op->taken >= copies(end) ||
        cqe->byte_len != op->length || !(cqe->flags & URO_WC_WITH_IMM) != !has_imm(op) ||
        cqe->opcode != (writes(op) ? URO_WC_RECV_RDMA_WITH_IMM : URO_WC_RECV) ||
        (has_imm(op) && cqe->imm != op->imm) || (!writes(op) && place->recv->room < op->length))
        return false;
    return writes(op) || sim_memory_holds(place->memory, SIM_MEMORY_RECVS, place->slot,
                                          &place->recv->layout, op->length, op->seed);
}

static bool window_holds(struct sim_uc_end *end, uint32_t number)
{
    const struct sim_uc_op *op = &end->peer->ops[number];
    const struct sim_memory_layout layout = { .count = 1, .pieces = { { op->at, op->length } } };
    uint32_t at;

    return sim_memory_check(&end->memory, SIM_MEMORY_WINDOWS, number, &layout, op->length, op->seed,
                            &at);
}

static void judge_message(struct sim_uc_end *end, const struct place *place,
                          const struct uro_cqe *cqe)
{
    uint32_t first = in_order(end) ? end->taken_last : 0;

    for (uint32_t i = first; i < end->peer->posted; i++) {
        struct sim_uc_op *op = &end->peer->ops[i];
        if (!could_be(end, op, place, cqe))
            continue;
        if (writes(op) && !window_holds(end, i))
            fail(end, "receive", place->number, "came before its octets");
        op->taken++;
        end->taken++;
        end->taken_last = i;
        return;
    }
    fail(end, "receive", place->number, "is none of what was sent and can come now");
}

static void judge_place(struct sim_uc_end *end, const struct place *place,
                        const struct uro_cqe *cqe)
{
    uint32_t at;

    if (!sim_memory_check_around(place->memory, SIM_MEMORY_RECVS, place->slot, &place->recv->layout,
                                 &at))
        fail(end, "receive", place->number, "changed memory beside its elements");
    if (cqe->status == URO_WC_SUCCESS && !end->recv_failed) {
        judge_message(end, place, cqe);
    } else if (cqe->status == URO_WC_WR_FLUSH_ERR) {
        if (!end->ended && !end->recv_failed && !end->owner.fatal)
            fail(end, "receive", place->number, "flushed without cause");
    } else {
        if (cqe->status != URO_WC_LOC_PROT_ERR || !place->recv->bad_lkey || end->recv_failed)
            fail(end, "receive", place->number,
                 "failed without cause, or succeeded after one that failed");
        end->recv_failed = true;
        end->uc->load->failures++;
    }
}

static void judge_recv(struct sim_uc_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id & ~SIM_WORKLOAD_RECV_BIT;
    const struct place place = { .number = number,
                                 .recv = &end->recvs[number % SIM_UC_RECV_MAX],
                                 .memory = &end->memory,
                                 .slot = (uint32_t)(number % end->uc->plan->recv_capacity) };

    if (number != end->recv_done || number >= end->recv_posted) {
        fail(end, "receive", number, "completed out of turn");
        return;
    }
    end->recv_done++;
    judge_place(end, &place, cqe);
}

static void judge_shared(struct sim_uc_end *end, const struct uro_cqe *cqe)
{
    struct sim_srq_recv *recv = sim_srq_completed(end->srq, cqe, &end->shared_next);

    if (recv == NULL)
        return;
    const struct place place = { .number = recv->number,
                                 .recv = &recv->recv,
                                 .memory = &end->srq->memory,
                                 .slot = (uint32_t)(recv - end->srq->recvs) };
    judge_place(end, &place, cqe);
    sim_srq_done(end->srq, recv);
}

void sim_uc_judge(struct sim_uc_end *end, const struct uro_cq *cq, const struct uro_cqe *cqe)
{
    bool receive = cqe->wr_id & SIM_WORKLOAD_RECV_BIT;

    if (!end->alive || cqe->qpn != end->qpn)
        fail(end, "completion", cqe->wr_id, "is of a queue pair that is no more");
    else if (cq != (receive ? end->owner.recv_cq : end->owner.send_cq))
        fail(end, "completion", cqe->wr_id, "is in a foreign CQ");
    else if (receive && end->srq != NULL)
        judge_shared(end, cqe);
    else if (receive)
        judge_recv(end, cqe);
    else
        judge_send(end, cqe);
    sim_uc_on_progress(end->uc);
}

void sim_uc_judge_lost(const struct sim_uc_end *end)
{
    bool wild = end->srq != NULL && end->srq->plan->wild;
    struct sim_tight_due due = { .fatal =
                                     !end->ended && !wild && end->uc->plan->inject_share == 0 };

    if (!end->alive || !sim_tight_uses(end->uc->load, &end->owner))
        return;
    for (uint32_t i = end->confirmed; i < uro_wq_head(uro_qp_send_queue(end->qp)); i++)
        due.sends += end->ops[i].flags & URO_SEND_SIGNALED || end->uc->plan->signal_all;
    if (end->srq == NULL)
        due.receives = uro_wq_head(uro_qp_recv_queue(end->qp)) - (uint32_t)end->recv_done;
    sim_tight_check(end->uc->load, &end->owner, end->qp, &due);
}

/* ---- memory ------------------------------------------------------------------------------------ */

/* Octets are as they were or as they were written; nothing beside. */
static bool is_mixture(struct sim_uc_end *end, uint32_t number)
{
    const struct sim_uc_op *op = &end->peer->ops[number];
    const struct sim_memory_layout layout = { .count = 1, .pieces = { { op->at, op->length } } };
    const uint8_t *there = sim_memory_slot(&end->memory, SIM_MEMORY_WINDOWS, number) + op->at;
    uint8_t octet;
    uint32_t at;

    if (!sim_memory_check_around(&end->memory, SIM_MEMORY_WINDOWS, number, &layout, &at))
        return false;
    for (uint32_t i = 0; i < op->length; i++) {
        sim_memory_message(&octet, i, 1, op->seed);
        if (there[i] != octet && there[i] != SIM_MEMORY_CANARY)
            return false;
    }
    return true;
}

static bool is_untouched(struct sim_uc_end *end, uint32_t number)
{
    const struct sim_memory_layout nothing = { .count = 0 };
    uint32_t at;

    return sim_memory_check(&end->memory, SIM_MEMORY_WINDOWS, number, &nothing, 0, 0, &at);
}

void sim_uc_judge_memory(struct sim_uc_end *end)
{
    for (uint32_t i = 0; i < SIM_UC_OPS_MAX; i++) {
        const struct sim_uc_op *op = &end->peer->ops[i];
        bool written = i < end->peer->posted && writes(op) && op->fault == SIM_UC_RIGHT;
        bool whole = written && (end->uc->last_life || op->taken > 0) && !op->flushed;
        if (written ? !is_mixture(end, i) : !is_untouched(end, i))
            fail(end, "window", i, "is not what was written, nor what was there");
        else if (whole && !window_holds(end, i))
            fail(end, "window", i, "is not what was written");
    }
}
