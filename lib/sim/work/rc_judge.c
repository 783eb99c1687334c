/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_judge.c - a completion against what was asked, memory against what must be there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/tight.h"

bool sim_rc_judge_fail(const struct sim_rc_end *end, const char *kind, uint64_t number,
                       const char *what)
{
    sim_world_fail(end->load->world, "pair %u qp 0x%06x %s %" PRIu64 ": %s", end->pair->number,
                   uro_qp_number(end->qp), kind, number, what);
    return false;
}

bool sim_rc_judge_fail_memory(const struct sim_rc_end *end, const char *kind, uint64_t number,
                              const char *what, uint32_t at)
{
    sim_world_fail(end->load->world, "pair %u qp 0x%06x %s %" PRIu64 ": octet %u %s",
                   end->pair->number, uro_qp_number(end->qp), kind, number, at, what);
    return false;
}

bool sim_rc_judge_add(struct sim_shared_shared *shared, uint64_t original, uint64_t add)
{
    if (shared->count == shared->room) {
        shared->room = shared->room * 2 + 64;
        shared->adds = realloc(shared->adds, shared->room * sizeof *shared->adds);
        URO_ASSERT(shared->adds != NULL);
    }
    shared->adds[shared->count++] = (struct sim_shared_add){ original, add };
    return original >= shared->start;
}

void sim_rc_judge_uncertain(struct sim_rc_end *end, const struct sim_rc_op *op)
{
    bool atomic =
        op->opcode == URO_WR_ATOMIC_CMP_AND_SWP || op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;

    if ((!atomic && op->opcode != URO_WR_ATOMIC_WRITE) || op->inject != SIM_WORKLOAD_RIGHT)
        return;
    if (op->shared)
        end->load->shared[end->peer->side].uncertain += op->compare_add;
    else if (end->word_maybes < URO_ARRAY_LEN(end->word_maybe))
        end->word_maybe[end->word_maybes++] = op->original;
}

/* Our side of a request that succeeded: sent memory untouched, read memory filled. */
static void check_local(struct sim_rc_end *end, const struct sim_rc_op *op)
{
    uint32_t slot = (uint32_t)(op->number % end->plan->send_capacity);
    bool filled = !(op->flags & URO_SEND_INLINE);
    uint32_t at;

    if (!sim_memory_check(&end->memory, SIM_MEMORY_SENDS, slot, &op->layout,
                          filled ? op->length : 0, op->seed, &at))
        sim_rc_judge_fail_memory(end, "send", op->number,
                                 op->opcode == URO_WR_RDMA_READ ? "of what was read is wrong"
                                                                : "of the send buffer changed",
                                 at);
}

static void check_atomic(struct sim_rc_end *end, const struct sim_rc_op *op)
{
    uint32_t slot = (uint32_t)(op->number % end->plan->send_capacity);
    const uint8_t *there = sim_memory_slot(&end->memory, SIM_MEMORY_SENDS, slot);
    uint64_t original;
    uint32_t at;

    memcpy(&original, there + op->layout.pieces[0].at, sizeof original);
    if (op->shared) {
        if (!sim_rc_judge_add(&end->load->shared[end->peer->side], original, op->compare_add))
            sim_rc_judge_fail(end, "send", op->number,
                              "original value of the shared word is too small");
    } else if (original != op->original) {
        sim_world_fail(
            end->load->world,
            "pair %u qp 0x%06x send %" PRIu64 ": atomic returned 0x%" PRIx64 ", must be 0x%" PRIx64,
            end->pair->number, uro_qp_number(end->qp), op->number, original, op->original);
    }
    if (!sim_memory_check_around(&end->memory, SIM_MEMORY_SENDS, slot, &op->layout, &at))
        sim_rc_judge_fail_memory(end, "send", op->number, "beside the atomic's result changed", at);
}

/* The peer's window, unless a later request of ours already writes there. */
static void check_window(struct sim_rc_end *end, const struct sim_rc_op *op)
{
    struct sim_rc_window *window = &end->windows[op->window];
    const struct sim_memory_layout layout = { .count = 1, .pieces = { { op->at, op->length } } };
    uint32_t at;

    window->users--;
    if (window->writers == op->writers &&
        !sim_memory_check(&end->peer->memory, SIM_MEMORY_WINDOWS, op->window, &layout, op->length,
                          op->seed, &at))
        sim_rc_judge_fail_memory(end, "send", op->number,
                                 op->opcode == URO_WR_RDMA_READ
                                     ? "of the window that was read changed"
                                     : "of the window is not what was written",
                                 at);
}

/* The request is known to have succeeded. */
static void confirm(struct sim_rc_end *end, const struct sim_rc_op *op)
{
    bool atomic =
        op->opcode == URO_WR_ATOMIC_CMP_AND_SWP || op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;

    if (op->inject != SIM_WORKLOAD_RIGHT)
        sim_rc_judge_fail(end, "send", op->number, "succeeded although it was wrong");
    else if (atomic)
        check_atomic(end, op);
    else
        check_local(end, op);
    if (op->window != SIM_WORKLOAD_NO_WINDOW)
        check_window(end, op);
    if (op->mw != NULL)
        sim_rc_window_done(end, op);
    end->load->ops_done++;
}

static enum uro_wc_opcode wc_opcode(const struct sim_rc_op *op)
{
    static const enum uro_wc_opcode table[] = {
        [URO_WR_RDMA_WRITE] = URO_WC_RDMA_WRITE,
        [URO_WR_RDMA_WRITE_WITH_IMM] = URO_WC_RDMA_WRITE,
        [URO_WR_SEND] = URO_WC_SEND,
        [URO_WR_SEND_WITH_IMM] = URO_WC_SEND,
        [URO_WR_RDMA_READ] = URO_WC_RDMA_READ,
        [URO_WR_ATOMIC_CMP_AND_SWP] = URO_WC_COMP_SWAP,
        [URO_WR_ATOMIC_FETCH_AND_ADD] = URO_WC_FETCH_ADD,
        [URO_WR_LOCAL_INV] = URO_WC_LOCAL_INV,
        [URO_WR_BIND_MW] = URO_WC_BIND_MW,
        [URO_WR_SEND_WITH_INV] = URO_WC_SEND,
        [URO_WR_FLUSH] = URO_WC_FLUSH,
        [URO_WR_ATOMIC_WRITE] = URO_WC_ATOMIC_WRITE,
    };
    return table[op->opcode];
}

static bool answers_with_data(const struct sim_rc_op *op)
{
    return op->opcode == URO_WR_RDMA_READ || op->opcode == URO_WR_ATOMIC_CMP_AND_SWP ||
           op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD || op->opcode == URO_WR_FLUSH ||
           op->opcode == URO_WR_ATOMIC_WRITE;
}

bool sim_rc_judge_may_flush(const struct sim_rc_end *end)
{
    return end->ended || end->send_failed || end->recv_failed || end->pair->may_fail ||
           end->pair->may_time_out;
}

/* Its octets go into a receive of the peer. */
static bool takes_receive(const struct sim_rc_op *op)
{
    return op->opcode == URO_WR_SEND || op->opcode == URO_WR_SEND_WITH_IMM ||
           op->opcode == URO_WR_SEND_WITH_INV;
}

/* The receive at the peer that this request's message meets, if it can be known. */
static const struct sim_rc_recv *met_by(const struct sim_rc_end *end, const struct sim_rc_op *op)
{
    const struct sim_rc_end *peer = end->peer;

    if (!takes_receive(op) || peer->type != URO_QPT_RC || peer->srq != NULL)
        return NULL;
    return op->message < peer->recv_posted ? &peer->recvs[op->message % SIM_WORKLOAD_OPS_MAX]
                                           : NULL;
}

bool sim_rc_judge_revoked(const struct sim_rc_end *owner, enum sim_memory_section section,
                          const struct sim_rc_op *op)
{
    return owner->revoked[section] && op->number < owner->renewed;
}

/* Memory that the request needs, here or there, was deregistered. */
static bool pair_revoked(const struct sim_rc_end *end, const struct sim_rc_op *op, uint8_t status)
{
    switch ((unsigned)status) {
    case URO_WC_LOC_PROT_ERR:
        return sim_rc_judge_revoked(end, SIM_MEMORY_SENDS, op);
    case URO_WC_MW_BIND_ERR:
        return end->revoked[SIM_MEMORY_WINDOWS] && op->opcode == URO_WR_BIND_MW;
    case URO_WC_REM_OP_ERR:
        return end->peer->revoked[SIM_MEMORY_RECVS] && takes_receive(op);
    case URO_WC_REM_ACCESS_ERR:
        return !takes_receive(op) &&
               sim_rc_judge_revoked(end->peer,
                                    op->window != SIM_WORKLOAD_NO_WINDOW ? SIM_MEMORY_WINDOWS
                                                                         : SIM_MEMORY_WORDS,
                                    op);
    default:
        return false;
    }
}

/* What a failed request may say, given what is wrong with it or with its receive. */
static bool expected(const struct sim_rc_end *end, const struct sim_rc_op *op, uint8_t status)
{
    const struct sim_rc_recv *recv = met_by(end, op);
    bool wild = end->peer->srq != NULL && end->peer->srq->plan->wild;

    /* Which shared receive it meets nobody can know; its own completion is judged exactly. */
    if (wild && takes_receive(op) && op->length > 0 &&
        (status == URO_WC_REM_OP_ERR || status == URO_WC_REM_INV_REQ_ERR))
        return true;
    if (status == URO_WC_RETRY_EXC_ERR)
        return end->pair->may_time_out || (end->pair->may_fail && !end->load->plan->forever);
    if (status == URO_WC_RNR_RETRY_EXC_ERR)
        return end->plan->rnr_retry < 7 && !end->pair->last_life;
    if (recv != NULL && op->length > recv->room && status == URO_WC_REM_INV_REQ_ERR)
        return true;
    if (recv != NULL && recv->bad_lkey && op->length > 0 && status == URO_WC_REM_OP_ERR)
        return true;
    if (end->type == URO_QPT_XRC_INI && status == URO_WC_REM_INV_REQ_ERR &&
        op->srq_generation != sim_srq_of(end->peer, op->srq)->generation)
        return true;
    if (pair_revoked(end, op, status))
        return true;
    if (op->mw != NULL && op->window != SIM_WORKLOAD_NO_WINDOW &&
        end->windows[op->window].revoked && status == URO_WC_REM_ACCESS_ERR)
        return true;
    switch (op->inject) {
    case SIM_WORKLOAD_RIGHT:
    case SIM_WORKLOAD_INJECT_COUNT:
        return false;
    case SIM_WORKLOAD_BAD_RKEY:
    case SIM_WORKLOAD_OTHER_PD:
    case SIM_WORKLOAD_BEYOND:
    case SIM_WORKLOAD_NO_RIGHT:
        return status == URO_WC_REM_ACCESS_ERR;
    case SIM_WORKLOAD_MISALIGNED:
        return status == URO_WC_REM_INV_REQ_ERR;
    case SIM_WORKLOAD_BAD_LKEY:
        return status == URO_WC_LOC_PROT_ERR;
    case SIM_WORKLOAD_UNSUPPORTED:
        return status == URO_WC_LOC_QP_OP_ERR;
    case SIM_WORKLOAD_BAD_WINDOW:
        if (op->opcode == URO_WR_BIND_MW || op->opcode == URO_WR_LOCAL_INV)
            return status == URO_WC_MW_BIND_ERR;
        return status == URO_WC_REM_ACCESS_ERR;
    }
    return false;
}

/* The peer writes NAK 0x63 where we write 0x61. */
static bool says_otherwise(const struct sim_rc_end *end, uint8_t status)
{
    unsigned habits = end->load->plan->cables[end->peer->side].foreign;

    return end->side != end->peer->side && habits & SIM_QUIRK_OPERATIONAL &&
           status == URO_WC_REM_OP_ERR;
}

static void judge_failed_send(struct sim_rc_end *end, const struct sim_rc_op *op,
                              const struct uro_cqe *cqe)
{
    char what[64];

    /* A NAK for a later request may overtake a lost answer, which then never comes. */
    if (end->send_failed && (end->cause_known || !end->lost_answer))
        sim_rc_judge_fail(end, "send", op->number,
                          "failed after another one failed, and is not flushed");
    else if (!expected(end, op, cqe->status) &&
             !(says_otherwise(end, cqe->status) && expected(end, op, URO_WC_REM_INV_REQ_ERR))) {
        snprintf(what, sizeof what, "failed with status %u", cqe->status);
        sim_rc_judge_fail(end, "send", op->number, what);
    } else if (uro_qp_state_now(end->qp) != URO_QPS_ERR)
        sim_rc_judge_fail(end, "send", op->number, "failed, but the queue pair is not in ERR");
    else if (cqe->vendor_error == 0)
        sim_rc_judge_fail(end, "send", op->number, "failed without a reason");
    end->send_failed = end->cause_known = true;
    sim_rc_judge_uncertain(end, op);
    end->load->failures++;
}

static bool judge_send(struct sim_rc_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id;
    bool flushed = cqe->status == URO_WC_WR_FLUSH_ERR;

    if (number < end->confirmed)
        return sim_rc_judge_fail(end, "send", number, "completed twice");
    if (number >= end->posted)
        return sim_rc_judge_fail(end, "send", number, "completed but was never posted");
    for (; end->confirmed < number; end->confirmed++) {
        const struct sim_rc_op *before = &end->ops[end->confirmed % SIM_WORKLOAD_OPS_MAX];
        if (before->flags & URO_SEND_SIGNALED || end->plan->signal_all || end->send_failed)
            return sim_rc_judge_fail(end, "send", before->number,
                                     "did not complete before the one after it");
        confirm(end, before);
    }
    const struct sim_rc_op *op = &end->ops[number % SIM_WORKLOAD_OPS_MAX];
    end->confirmed++;
    if (flushed) {
        if (!sim_rc_judge_may_flush(end))
            sim_rc_judge_fail(end, "send", number, "flushed without cause");
        sim_rc_judge_uncertain(end, op);
        if (!end->send_failed)
            end->lost_answer = answers_with_data(op);
        end->send_failed = true;
    } else if (cqe->status != URO_WC_SUCCESS) {
        judge_failed_send(end, op, cqe);
    } else if (end->send_failed) {
        sim_rc_judge_fail(end, "send", number, "succeeded after one before it failed");
    } else if (!(op->flags & URO_SEND_SIGNALED) && !end->plan->signal_all) {
        sim_rc_judge_fail(end, "send", number, "completed but was not signalled");
    } else if (cqe->opcode != wc_opcode(op)) {
        sim_rc_judge_fail(end, "send", number, "completed with the opcode of another operation");
    } else {
        confirm(end, op);
    }
    return true;
}

void sim_rc_judge_silent(struct sim_rc_end *end)
{
    for (; end->confirmed < end->posted; end->confirmed++) {
        const struct sim_rc_op *op = &end->ops[end->confirmed % SIM_WORKLOAD_OPS_MAX];
        if (op->flags & URO_SEND_SIGNALED || end->plan->signal_all || end->send_failed)
            sim_rc_judge_fail(end, "send", op->number, "never completed");
        else
            confirm(end, op);
    }
}

void sim_rc_judge(struct sim_rc_end *end, const struct uro_cqe *cqe)
{
    bool sane =
        cqe->wr_id & SIM_WORKLOAD_RECV_BIT ? sim_rc_receive(end, cqe) : judge_send(end, cqe);
    if (!sane)
        return;
    end->blocked = end->peer->blocked = false;
    if (cqe->status != URO_WC_SUCCESS)
        sim_rc_control_on_failure(end->pair);
    else
        sim_rc_control_on_progress(end->pair);
}

static uint32_t queued(const struct uro_wq *wq)
{
    return uro_wq_tail(wq) - uro_wq_head(wq);
}

/* But by an overflow. */
static bool cannot_fail(const struct sim_rc_end *end)
{
    const struct sim_plan *plan = end->load->plan;
    bool wild = false;

    for (unsigned i = 0; i < 2; i++)
        wild |= end->pair->ends[i].srq != NULL && end->pair->ends[i].srq->plan->wild;
    return plan->forever && !plan->revokes && !wild && !end->pair->plan->xrc &&
           end->pair->plan->inject_share == 0;
}

void sim_rc_judge_lost(const struct sim_rc_end *end)
{
    struct sim_tight_due due = { .fatal = !end->ended && cannot_fail(end) };

    if (!end->alive || !sim_tight_uses(end->load, &end->owner))
        return;
    for (uint64_t i = end->confirmed; i < end->posted - queued(uro_qp_send_queue(end->qp)); i++)
        due.sends +=
            end->ops[i % SIM_WORKLOAD_OPS_MAX].flags & URO_SEND_SIGNALED || end->plan->signal_all;
    if (end->srq == NULL && end->owner.recv_cq != NULL)
        due.receives =
            (uint32_t)(end->recv_posted - end->recv_done) - queued(uro_qp_recv_queue(end->qp));
    sim_tight_check(end->load, &end->owner, end->qp, &due);
}
