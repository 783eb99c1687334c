/* SPDX-License-Identifier: BSD-3-Clause */
/* load_judge.c - a completion against what was asked, memory against what must be there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/sim/load.h"

static bool fail(const struct uro_load_end *end, const char *kind, uint64_t number,
                 const char *what)
{
    uro_world_fail(end->load->world, "pair %u qp 0x%06x %s %" PRIu64 ": %s", end->pair->number,
                   uro_qp_number(end->qp), kind, number, what);
    return false;
}

static bool fail_memory(const struct uro_load_end *end, const char *kind, uint64_t number,
                        const char *what, uint32_t at)
{
    uro_world_fail(end->load->world, "pair %u qp 0x%06x %s %" PRIu64 ": octet %u %s",
                   end->pair->number, uro_qp_number(end->qp), kind, number, at, what);
    return false;
}

bool uro_load_judge_add(struct uro_load_shared *shared, uint64_t original, uint64_t add)
{
    if (shared->count == shared->room) {
        shared->room = shared->room * 2 + 64;
        shared->adds = realloc(shared->adds, shared->room * sizeof *shared->adds);
        URO_ASSERT(shared->adds != NULL);
    }
    shared->adds[shared->count++] = (struct uro_load_add){ original, add };
    return original >= shared->start;
}

void uro_load_judge_uncertain(struct uro_load_end *end, const struct uro_load_op *op)
{
    bool atomic =
        op->opcode == URO_WR_ATOMIC_CMP_AND_SWP || op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;

    if (!atomic || op->inject != URO_LOAD_RIGHT)
        return;
    if (op->shared)
        end->load->shared[end->peer - end->pair->ends].uncertain += op->compare_add;
    else if (end->word_maybes < URO_ARRAY_LEN(end->word_maybe))
        end->word_maybe[end->word_maybes++] = op->original;
}

/* Our side of a request that succeeded: sent memory untouched, read memory filled. */
static void check_local(struct uro_load_end *end, const struct uro_load_op *op)
{
    uint32_t slot = (uint32_t)(op->number % end->plan->send_capacity);
    bool filled = !(op->flags & URO_SEND_INLINE);
    uint32_t at;

    if (!uro_arena_check(&end->arena, URO_ARENA_SENDS, slot, &op->layout, filled ? op->length : 0,
                         op->seed, &at))
        fail_memory(end, "send", op->number,
                    op->opcode == URO_WR_RDMA_READ ? "of what was read is wrong"
                                                   : "of the send buffer changed",
                    at);
}

static void check_atomic(struct uro_load_end *end, const struct uro_load_op *op)
{
    uint32_t slot = (uint32_t)(op->number % end->plan->send_capacity);
    const uint8_t *there = uro_arena_slot(&end->arena, URO_ARENA_SENDS, slot);
    uint64_t original;
    uint32_t at;

    memcpy(&original, there + op->layout.pieces[0].at, sizeof original);
    if (op->shared) {
        if (!uro_load_judge_add(&end->load->shared[end->peer - end->pair->ends], original,
                                op->compare_add))
            fail(end, "send", op->number, "original value of the shared word is too small");
    } else if (original != op->original) {
        uro_world_fail(
            end->load->world,
            "pair %u qp 0x%06x send %" PRIu64 ": atomic returned 0x%" PRIx64 ", must be 0x%" PRIx64,
            end->pair->number, uro_qp_number(end->qp), op->number, original, op->original);
    }
    if (!uro_arena_check_around(&end->arena, URO_ARENA_SENDS, slot, &op->layout, &at))
        fail_memory(end, "send", op->number, "beside the atomic's result changed", at);
}

/* The peer's window, unless a later request of ours already writes there. */
static void check_window(struct uro_load_end *end, const struct uro_load_op *op)
{
    struct uro_load_window *window = &end->windows[op->window];
    const struct uro_arena_layout layout = { .count = 1, .pieces = { { op->at, op->length } } };
    uint32_t at;

    window->users--;
    if (window->writers == op->writers &&
        !uro_arena_check(&end->peer->arena, URO_ARENA_WINDOWS, op->window, &layout, op->length,
                         op->seed, &at))
        fail_memory(end, "send", op->number,
                    op->opcode == URO_WR_RDMA_READ ? "of the window that was read changed"
                                                   : "of the window is not what was written",
                    at);
}

/* The request is known to have succeeded. */
static void confirm(struct uro_load_end *end, const struct uro_load_op *op)
{
    bool atomic =
        op->opcode == URO_WR_ATOMIC_CMP_AND_SWP || op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;

    if (op->inject != URO_LOAD_RIGHT)
        fail(end, "send", op->number, "succeeded although it was wrong");
    else if (atomic)
        check_atomic(end, op);
    else
        check_local(end, op);
    if (op->window != URO_LOAD_NO_WINDOW)
        check_window(end, op);
    end->load->ops_done++;
}

static enum uro_wc_opcode wc_opcode(const struct uro_load_op *op)
{
    static const enum uro_wc_opcode table[] = {
        [URO_WR_RDMA_WRITE] = URO_WC_RDMA_WRITE,
        [URO_WR_RDMA_WRITE_WITH_IMM] = URO_WC_RDMA_WRITE,
        [URO_WR_SEND] = URO_WC_SEND,
        [URO_WR_SEND_WITH_IMM] = URO_WC_SEND,
        [URO_WR_RDMA_READ] = URO_WC_RDMA_READ,
        [URO_WR_ATOMIC_CMP_AND_SWP] = URO_WC_COMP_SWAP,
        [URO_WR_ATOMIC_FETCH_AND_ADD] = URO_WC_FETCH_ADD,
    };
    return table[op->opcode];
}

static bool answers_with_data(const struct uro_load_op *op)
{
    return op->opcode == URO_WR_RDMA_READ || op->opcode == URO_WR_ATOMIC_CMP_AND_SWP ||
           op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
}

static bool may_flush(const struct uro_load_end *end)
{
    return end->ended || end->send_failed || end->recv_failed || end->pair->may_fail ||
           end->pair->may_time_out;
}

/* The receive at the peer that this request's message meets, if it can be known. */
static const struct uro_load_recv *met_by(const struct uro_load_end *end,
                                          const struct uro_load_op *op)
{
    const struct uro_load_end *peer = end->peer;

    if (op->opcode != URO_WR_SEND && op->opcode != URO_WR_SEND_WITH_IMM)
        return NULL;
    return op->message < peer->recv_posted ? &peer->recvs[op->message % URO_LOAD_OPS_MAX] : NULL;
}

/* What a failed request may say, given what is wrong with it or with its receive. */
static bool expected(const struct uro_load_end *end, const struct uro_load_op *op, uint8_t status)
{
    const struct uro_load_recv *recv = met_by(end, op);

    if (status == URO_WC_RETRY_EXC_ERR)
        return end->pair->may_time_out || (end->pair->may_fail && !end->load->swarm->forever);
    if (status == URO_WC_RNR_RETRY_EXC_ERR)
        return end->plan->rnr_retry < 7 && !end->pair->last_life;
    if (recv != NULL && op->length > recv->room && status == URO_WC_REM_INV_REQ_ERR)
        return true;
    if (recv != NULL && recv->bad_lkey && op->length > 0 && status == URO_WC_REM_OP_ERR)
        return true;
    switch (op->inject) {
    case URO_LOAD_RIGHT:
    case URO_LOAD_INJECT_COUNT:
        return false;
    case URO_LOAD_BAD_RKEY:
    case URO_LOAD_OTHER_PD:
    case URO_LOAD_BEYOND:
    case URO_LOAD_NO_RIGHT:
        return status == URO_WC_REM_ACCESS_ERR;
    case URO_LOAD_MISALIGNED:
        return status == URO_WC_REM_INV_REQ_ERR;
    case URO_LOAD_BAD_LKEY:
        return status == URO_WC_LOC_PROT_ERR;
    case URO_LOAD_UNSUPPORTED:
        return status == URO_WC_LOC_QP_OP_ERR;
    }
    return false;
}

static void judge_failed_send(struct uro_load_end *end, const struct uro_load_op *op,
                              const struct uro_cqe *cqe)
{
    char what[64];

    /* A NAK for a later request may overtake a lost answer, which then never comes. */
    if (end->send_failed && (end->cause_known || !end->lost_answer))
        fail(end, "send", op->number, "failed after another one failed, and is not flushed");
    else if (!expected(end, op, cqe->status)) {
        snprintf(what, sizeof what, "failed with status %u", cqe->status);
        fail(end, "send", op->number, what);
    } else if (uro_qp_state_now(end->qp) != URO_QPS_ERR)
        fail(end, "send", op->number, "failed, but the queue pair is not in ERR");
    else if (cqe->vendor_error == 0)
        fail(end, "send", op->number, "failed without a reason");
    end->send_failed = end->cause_known = true;
    uro_load_judge_uncertain(end, op);
    end->load->failures++;
}

static bool judge_send(struct uro_load_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id;
    bool flushed = cqe->status == URO_WC_WR_FLUSH_ERR;

    if (number < end->confirmed)
        return fail(end, "send", number, "completed twice");
    if (number >= end->posted)
        return fail(end, "send", number, "completed but was never posted");
    for (; end->confirmed < number; end->confirmed++) {
        const struct uro_load_op *before = &end->ops[end->confirmed % URO_LOAD_OPS_MAX];
        if (before->flags & URO_SEND_SIGNALED || end->plan->signal_all || end->send_failed)
            return fail(end, "send", before->number, "did not complete before the one after it");
        confirm(end, before);
    }
    const struct uro_load_op *op = &end->ops[number % URO_LOAD_OPS_MAX];
    end->confirmed++;
    if (flushed) {
        if (!may_flush(end))
            fail(end, "send", number, "flushed without cause");
        uro_load_judge_uncertain(end, op);
        if (!end->send_failed)
            end->lost_answer = answers_with_data(op);
        end->send_failed = true;
    } else if (cqe->status != URO_WC_SUCCESS) {
        judge_failed_send(end, op, cqe);
    } else if (end->send_failed) {
        fail(end, "send", number, "succeeded after one before it failed");
    } else if (!(op->flags & URO_SEND_SIGNALED) && !end->plan->signal_all) {
        fail(end, "send", number, "completed but was not signalled");
    } else if (cqe->opcode != wc_opcode(op)) {
        fail(end, "send", number, "completed with the opcode of another operation");
    } else {
        confirm(end, op);
    }
    return true;
}

void uro_load_judge_silent(struct uro_load_end *end)
{
    for (; end->confirmed < end->posted; end->confirmed++) {
        const struct uro_load_op *op = &end->ops[end->confirmed % URO_LOAD_OPS_MAX];
        if (op->flags & URO_SEND_SIGNALED || end->plan->signal_all || end->send_failed)
            fail(end, "send", op->number, "never completed");
        else
            confirm(end, op);
    }
}

/* A receive that was flushed or failed: perhaps part of a message came, never more. */
static void check_unused(struct uro_load_end *end, uint64_t number, bool may_have_begun)
{
    const struct uro_load_recv *recv = &end->recvs[number % URO_LOAD_OPS_MAX];
    uint32_t slot = (uint32_t)(number % end->plan->recv_capacity);
    uint32_t at;
    bool good = may_have_begun
                    ? uro_arena_check_around(&end->arena, URO_ARENA_RECVS, slot, &recv->layout, &at)
                    : uro_arena_check(&end->arena, URO_ARENA_RECVS, slot, &recv->layout, 0, 0, &at);

    if (!good)
        fail_memory(end, "receive", number, "changed although nothing was received", at);
}

static bool judge_message(struct uro_load_end *end, uint64_t number, const struct uro_cqe *cqe)
{
    const struct uro_load_recv *recv = &end->recvs[number % URO_LOAD_OPS_MAX];
    uint32_t slot = (uint32_t)(number % end->plan->recv_capacity);
    struct uro_load_end *peer = end->peer;
    uint32_t at;

    if (end->messages_taken >= peer->messages_sent)
        return fail(end, "receive", number, "completed but nothing was sent");
    const struct uro_load_message *message =
        &peer->messages[end->messages_taken++ % URO_LOAD_MESSAGES_MAX];
    uint8_t opcode = message->write ? URO_WC_RECV_RDMA_WITH_IMM : URO_WC_RECV;
    if (cqe->opcode != opcode || !(cqe->flags & URO_WC_WITH_IMM) != !message->has_imm)
        return fail(end, "receive", number, "is of another kind than what was sent");
    if (message->has_imm && cqe->imm != message->imm)
        return fail(end, "receive", number, "has another immediate value than was sent");
    if (cqe->byte_len != message->length)
        return fail(end, "receive", number, "has another length than was sent");
    if (!message->write && message->length > recv->room)
        return fail(end, "receive", number, "took a message longer than itself");
    if (!uro_arena_check(&end->arena, URO_ARENA_RECVS, slot, &recv->layout,
                         message->write ? 0 : message->length, message->seed, &at))
        return fail_memory(end, "receive", number, "of the message is wrong", at);
    if (!message->write)
        return true;
    const struct uro_arena_layout layout = { .count = 1,
                                             .pieces = { { message->at, message->length } } };
    if (!uro_arena_check(&end->arena, URO_ARENA_WINDOWS, message->window, &layout, message->length,
                         message->seed, &at))
        fail_memory(end, "receive", number, "of the window is not there yet, or wrong", at);
    peer->windows[message->window].users--;
    return true;
}

static bool expected_recv(const struct uro_load_end *end, uint64_t number, uint8_t status)
{
    const struct uro_load_recv *recv = &end->recvs[number % URO_LOAD_OPS_MAX];

    if (end->messages_taken >= end->peer->messages_sent)
        return false;
    const struct uro_load_message *message =
        &end->peer->messages[end->messages_taken % URO_LOAD_MESSAGES_MAX];
    if (status == URO_WC_LOC_LEN_ERR)
        return !message->write && message->length > recv->room;
    if (status == URO_WC_LOC_PROT_ERR)
        return !message->write && recv->bad_lkey && message->length > 0;
    return false;
}

static bool judge_recv(struct uro_load_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id & ~URO_LOAD_RECV_BIT;
    char what[64];

    if (number < end->recv_done)
        return fail(end, "receive", number, "completed twice");
    if (number > end->recv_done || number >= end->recv_posted)
        return fail(end, "receive", number, "completed out of turn");
    end->recv_done++;
    if (cqe->status == URO_WC_SUCCESS) {
        if (end->recv_failed)
            fail(end, "receive", number, "succeeded after one before it failed");
        return judge_message(end, number, cqe);
    }
    if (cqe->status == URO_WC_WR_FLUSH_ERR) {
        if (!may_flush(end))
            fail(end, "receive", number, "flushed without cause");
        check_unused(end, number, !end->recv_failed);
    } else {
        snprintf(what, sizeof what, "failed with status %u", cqe->status);
        if (end->recv_failed || !expected_recv(end, number, cqe->status))
            fail(end, "receive", number, what);
        check_unused(end, number, true);
        end->load->failures++;
    }
    end->recv_failed = true;
    return true;
}

void uro_load_judge(struct uro_load_end *end, const struct uro_cqe *cqe)
{
    bool sane = cqe->wr_id & URO_LOAD_RECV_BIT ? judge_recv(end, cqe) : judge_send(end, cqe);
    if (!sane)
        return;
    end->blocked = end->peer->blocked = false;
    if (cqe->status != URO_WC_SUCCESS)
        uro_load_control_on_failure(end->pair);
    else
        uro_load_control_on_progress(end->pair);
}
