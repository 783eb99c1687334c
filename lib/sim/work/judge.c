/* SPDX-License-Identifier: BSD-3-Clause */
/* judge.c - checks a completion against its posted request; see endpoint.h. */
#include <stdio.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/oracle/model.h"
#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

static void status_fail(const struct sim_endpoint *end, const char *kind, uint64_t number,
                        uint32_t status)
{
    char problem[64];

    snprintf(problem, sizeof problem, "failed with status %u", status);
    sim_endpoint_fail(end, kind, number, problem);
}

/* ---- sends ---- */

bool sim_judge_stops(const struct sim_request *request)
{
    return request->fault == SIM_FAULT_BAD_LKEY || request->fault == SIM_FAULT_UNSUPPORTED ||
           request->fault == SIM_FAULT_NO_HANDLE || request->fault == SIM_FAULT_TOO_LONG;
}

uint32_t sim_judge_status(const struct sim_request *request)
{
    static const uint32_t statuses[SIM_FAULTS] = {
        [SIM_FAULT_BAD_RKEY] = UROCE_REM_ACCESS_ERR,
        [SIM_FAULT_OTHER_PD] = UROCE_REM_ACCESS_ERR,
        [SIM_FAULT_BEYOND] = UROCE_REM_ACCESS_ERR,
        [SIM_FAULT_NO_RIGHT] = UROCE_REM_ACCESS_ERR,
        [SIM_FAULT_MISALIGNED] = UROCE_REM_INV_REQ_ERR,
        [SIM_FAULT_BAD_LKEY] = UROCE_LOC_PROT_ERR,
        [SIM_FAULT_UNSUPPORTED] = UROCE_LOC_QP_OP_ERR,
        [SIM_FAULT_BAD_WINDOW] = UROCE_REM_ACCESS_ERR,
        [SIM_FAULT_NO_HANDLE] = UROCE_LOC_QP_OP_ERR,
        [SIM_FAULT_TOO_LONG] = UROCE_LOC_LEN_ERR,
    };

    if (request->fault == SIM_FAULT_BAD_WINDOW &&
        (request->opcode == UROCE_BIND_MW || request->opcode == UROCE_LOCAL_INV))
        return UROCE_MW_BIND_ERR;
    return statuses[request->fault];
}

/* Checks that the buffer of a send is unchanged, and that the buffer of a READ has the data. */
static void check_buffer(struct sim_endpoint *end, const struct sim_request *request)
{
    bool filled = !(request->flags & UROCE_INLINE);

    if (!sim_buffer_check(&request->buffer, filled ? request->length : 0, request->seed))
        sim_endpoint_fail(end, "send", request->number,
                          request->opcode == UROCE_RDMA_READ ? "the data that was read is wrong"
                                                             : "changed its buffer");
}

/* Records that the request succeeded. */
static void confirm(struct sim_endpoint *end, const struct sim_request *request)
{
    bool wrong = end->ops->reliable ? request->fault != SIM_FAULT_NONE : sim_judge_stops(request);

    if (wrong)
        sim_endpoint_fail(end, "send", request->number,
                          "succeeded although it was wrong on purpose");
    else if (!sim_model_is(request->opcode, SIM_ATOMIC) &&
             !(end->ops->forged && request->opcode == UROCE_RDMA_READ))
        check_buffer(end, request);
    if (end->ops->confirm != NULL)
        end->ops->confirm(end, request);
    end->workload->ops_done++;
}

static bool may_flush(const struct sim_endpoint *end, uint64_t number)
{
    const struct sim_life *life = end->life;

    if (sim_endpoint_in_error(end))
        return true;
    if (end->ops->reliable)
        return life->may_fail || life->may_time_out;
    return end->stopped || number < end->flush_until || uroce_qp_state(end->qp) == UROCE_ERR;
}

static void judge_flushed(struct sim_endpoint *end, struct sim_request *request)
{
    if (!may_flush(end, request->number))
        sim_endpoint_fail(end, "send", request->number, "flushed without cause");
    request->flushed = true;
    if (end->ops->reliable && !end->send_failed)
        end->lost_answer = sim_model_is(request->opcode, SIM_ANSWERED);
    end->send_failed |= end->ops->reliable;
}

static void judge_failed(struct sim_endpoint *end, const struct sim_request *request,
                         const struct uroce_completion *cqe)
{
    enum uroce_qp_state state = uroce_qp_state(end->qp);

    /* If a response was lost, a NAK for a later request may arrive first. */
    if (end->send_failed && (end->cause_known || !end->lost_answer))
        sim_endpoint_fail(end, "send", request->number,
                          "failed after an earlier request failed, but is not flushed");
    else if (!(end->ops->expected != NULL ? end->ops->expected(end, request, cqe->status)
                                          : end->life->may_fail))
        status_fail(end, "send", request->number, cqe->status);
    else if (state != UROCE_ERR && (end->ops->reliable || state != UROCE_SQE))
        sim_endpoint_fail(end, "send", request->number, "failed and did not stop the queue");
    else if (cqe->reason == 0)
        sim_endpoint_fail(end, "send", request->number, "failed without a reason");
    if (end->ops->reliable)
        end->send_failed = end->cause_known = true;
    end->workload->failures++;
}

/* Counts the requests before @number as successful: they were not signalled, and a later request
 * completed. */
static bool confirm_before(struct sim_endpoint *end, uint64_t number, const char *problem)
{
    for (; end->confirmed < number; end->confirmed++) {
        const struct sim_request *request = sim_request_of(end, end->confirmed);
        if (sim_request_is_signalled(end, request) || end->send_failed)
            return sim_endpoint_fail(end, "send", request->number, problem);
        confirm(end, request);
    }
    return true;
}

static bool judge_send(struct sim_endpoint *end, const struct uroce_completion *cqe)
{
    uint64_t number = cqe->wr_id;
    struct sim_request *request = sim_request_of(end, number);

    if (number < end->confirmed)
        return sim_endpoint_fail(end, "send", number, "completed twice");
    if (number >= end->posted)
        return sim_endpoint_fail(end, "send", number, "completed but was never posted");
    if (!confirm_before(end, number, "did not complete before the next request"))
        return false;
    end->confirmed++;
    if (cqe->status == UROCE_WR_FLUSH_ERR)
        judge_flushed(end, request);
    else if (cqe->status != UROCE_SUCCESS)
        judge_failed(end, request, cqe);
    else if (end->send_failed)
        sim_endpoint_fail(end, "send", number, "succeeded after an earlier request failed");
    else if (!sim_request_is_signalled(end, request))
        sim_endpoint_fail(end, "send", number, "completed but was not signalled");
    else if (cqe->opcode != sim_operations[request->opcode].completion)
        sim_endpoint_fail(end, "send", number, "completed with the opcode of another operation");
    else
        confirm(end, request);
    if (cqe->status != UROCE_SUCCESS)
        end->ops->on_error(end, request, cqe->status);
    return true;
}

void sim_judge_silent(struct sim_endpoint *end)
{
    (void)confirm_before(end, end->posted, "never completed");
}

bool sim_judge_expected(const struct sim_endpoint *end, const struct sim_request *request,
                        uint32_t status)
{
    (void)end;
    return sim_judge_stops(request) && status == sim_judge_status(request);
}

void sim_judge_stop_queue(struct sim_endpoint *end, const struct sim_request *request,
                          uint32_t status)
{
    uro_time now = end->world->now;

    if (request == NULL || status == UROCE_WR_FLUSH_ERR)
        return;
    end->stopped = true;
    end->resume_at = now + uro_rng_below(&end->rng, end->plan->resume_wait_max + 1);
}

/* ---- receives ---- */

static const char *kind_of(const struct sim_receive *receive)
{
    return receive->srq != NULL ? "shared receive" : "receive";
}

bool sim_receive_fail(const struct sim_endpoint *end, const struct sim_receive *receive,
                      const char *problem)
{
    return sim_endpoint_fail(end, kind_of(receive), receive->number, problem);
}

/* Checks the memory of a receive that was flushed or failed. Its buffer must be unchanged, unless
 * @may_have_begun. */
static void check_unused(const struct sim_endpoint *end, const struct sim_receive *receive,
                         bool may_have_begun)
{
    const struct sim_buffer *buffer = &receive->recv->buffer;
    bool good = may_have_begun ? sim_buffer_check_around(buffer) : sim_buffer_check(buffer, 0, 0);

    if (!good)
        sim_receive_fail(end, receive, "changed although nothing was received");
}

bool sim_judge_bad_lkey(const struct sim_endpoint *end, const struct sim_receive *receive)
{
    (void)end;
    return receive->cqe->status == UROCE_LOC_PROT_ERR && receive->recv->bad_lkey;
}

const char *sim_judge_message(const struct sim_request *message, const struct sim_receive *receive)
{
    const struct uroce_completion *cqe = receive->cqe;
    bool write = sim_model_is(message->opcode, SIM_WRITE);
    bool has_imm = sim_model_is(message->opcode, SIM_IMM);
    bool has_inv = message->opcode == UROCE_SEND_WITH_INV;

    if (cqe->opcode != (write ? UROCE_DONE_RECV_RDMA_WITH_IMM : UROCE_DONE_RECV) ||
        !(cqe->flags & UROCE_COMPLETION_WITH_IMM) != !has_imm ||
        !(cqe->flags & UROCE_COMPLETION_WITH_INV) != !has_inv)
        return "is of another kind than the message that was sent";
    if ((has_imm && cqe->imm != message->imm) || (has_inv && cqe->imm != message->inv_rkey))
        return "has another immediate value or key than the message that was sent";
    if (cqe->length != message->length)
        return "has another length than the message that was sent";
    return !write && message->length > receive->recv->size ? "took a message longer than its buffer"
                                                           : NULL;
}

static void judge_place(struct sim_endpoint *end, const struct sim_receive *receive)
{
    const struct uroce_completion *cqe = receive->cqe;
    bool xrc = end->type == UROCE_XRC_TGT;
    bool *failed = xrc ? &end->recv_failed_of[receive->srq->index] : &end->recv_failed;
    bool may_have_begun = end->type != UROCE_UD && (!*failed || receive->srq != NULL);

    if (cqe->status == UROCE_SUCCESS) {
        if (*failed)
            sim_receive_fail(end, receive, "succeeded after an earlier request failed");
        if (!end->ops->reliable && !sim_buffer_check_around(&receive->recv->buffer))
            sim_receive_fail(end, receive, "changed memory beside its elements");
        end->ops->take(end, receive);
        return;
    }
    if (cqe->status == UROCE_WR_FLUSH_ERR) {
        bool cause = sim_endpoint_in_error(end) || (end->ops->reliable && may_flush(end, 0));
        if (!cause)
            sim_receive_fail(end, receive, "flushed without cause");
        check_unused(end, receive, may_have_begun);
    } else {
        bool expected = end->ops->recv_expected != NULL ? end->ops->recv_expected(end, receive)
                                                        : end->life->may_fail;
        if (*failed || !expected)
            status_fail(end, kind_of(receive), receive->number, cqe->status);
        check_unused(end, receive, true);
        end->workload->failures++;
    }
    *failed = end->recv_failed = true;
    end->ops->on_error(end, NULL, cqe->status);
}

static bool judge_own(struct sim_endpoint *end, const struct uroce_completion *cqe)
{
    uint64_t number = cqe->wr_id & ~SIM_RECV_BIT;
    const struct sim_receive receive = { .cqe = cqe,
                                         .number = number,
                                         .recv = &end->recvs[number % SIM_REQUESTS_MAX] };

    if (number < end->recv_done)
        return sim_receive_fail(end, &receive, "completed twice");
    if (number > end->recv_done || number >= end->recv_posted)
        return sim_receive_fail(end, &receive, "completed out of order");
    end->recv_done++;
    judge_place(end, &receive);
    return true;
}

/* A queue pair takes receives from a shared queue oldest first, and completes them in the same
 * order. */
static bool judge_shared(struct sim_endpoint *end, const struct uroce_completion *cqe)
{
    uint64_t number = SIM_SRQ_NUMBER(cqe->wr_id);
    struct sim_srq *srq = sim_srq_at(end, SIM_SRQ_INDEX(cqe->wr_id));
    struct sim_srq_recv *recv = sim_srq_find(srq, number);
    const struct sim_receive receive = {
        .cqe = cqe, .number = number, .recv = recv != NULL ? &recv->recv : NULL, .srq = srq
    };

    if (end->type == UROCE_XRC_TGT ? !srq->plan->xrc : end->srq != srq)
        return sim_receive_fail(end, &receive, "is of a queue that this queue pair does not use");
    if (recv == NULL)
        return sim_receive_fail(end, &receive, "completed twice, or was never posted");
    if (number >= sim_srq_oldest(srq))
        return sim_receive_fail(end, &receive, "completed and is still in its queue");
    if (number < end->shared_next[srq->index])
        return sim_receive_fail(end, &receive, "completed after a receive that was taken later");
    if (end->last_wqe && cqe->time > end->last_wqe_at)
        return sim_receive_fail(end, &receive, "completed after LAST_WQE_REACHED was reported");
    end->shared_next[srq->index] = number + 1;
    judge_place(end, &receive);
    sim_srq_done(srq, recv);
    return true;
}

static bool judge_receive(struct sim_endpoint *end, const struct uroce_completion *cqe)
{
    bool own = end->type != UROCE_XRC_TGT && end->srq == NULL;

    if (!(cqe->wr_id & SIM_SRQ_BIT) != own)
        return sim_endpoint_fail(end, "receive", cqe->wr_id, "is from another kind of queue");
    return own ? judge_own(end, cqe) : judge_shared(end, cqe);
}

/* ---- frames ---- */

const char *sim_judge_packet(const struct sim_request *request, uint32_t index, uint32_t mtu,
                             const struct uro_frame *frame)
{
    uint32_t count = sim_model_packets(request->length, mtu);
    uint32_t from = index * mtu;
    uint32_t left = request->length - from;
    bool last = index + 1 == count;
    bool imm = last && sim_model_is(request->opcode, SIM_IMM);
    bool inv = last && request->opcode == UROCE_SEND_WITH_INV;
    bool solicits =
        last && sim_model_is(request->opcode, SIM_MESSAGE) && (request->flags & UROCE_SOLICITED);

    if (frame->op->operation != sim_operations[request->opcode].operation)
        return "the request has another operation";
    if (frame->op->position != sim_model_position(index, count))
        return "the packet has a wrong place in its message";
    if (!(frame->op->ext & URO_EXT_IMM) != !imm || (imm && frame->imm != request->imm))
        return "wrong immediate data, or none, or too early";
    if (!(frame->op->ext & URO_EXT_INV) != !inv || (inv && frame->inv_rkey != request->inv_rkey))
        return "invalidates another key, or none";
    if (frame->op->ext & URO_EXT_RETH &&
        (frame->reth.va != request->remote_address || frame->reth.rkey != request->rkey ||
         frame->reth.length != request->length))
        return "wrong RETH";
    if (!sim_model_carries(frame, from, left < mtu ? left : mtu, request->seed))
        return "wrong payload";
    return frame->bth.solicited != solicits ? "wrong solicited event bit" : NULL;
}

/* ---- all ---- */

void sim_judge(const struct sim_cq *cq, const struct uroce_completion *cqe)
{
    struct sim_endpoint *end = cq->workload->endpoints;

    while (end != NULL && (!end->alive || end->host != cq->host || end->qpn != cqe->qpn))
        end = end->next;
    if (end == NULL) {
        sim_world_fail(cq->world, "completion of qp 0x%06x, which was destroyed", cqe->qpn);
        return;
    }
    bool receive = cqe->wr_id & SIM_RECV_BIT;
    const struct uroce_cq *due = receive ? end->recv_cq : end->send_cq;
    if (receive && end->type == UROCE_XRC_TGT)
        due = sim_srq_at(end, SIM_SRQ_INDEX(cqe->wr_id))->cq->cq;
    if (cq->cq != due) {
        sim_world_fail(end->world, "completion of qp 0x%06x in a CQ of another queue pair",
                       cqe->qpn);
        return;
    }
    if (!(receive ? judge_receive(end, cqe) : judge_send(end, cqe)))
        return;
    end->blocked = false;
    if (end->peer != NULL)
        end->peer->blocked = false;
    if (end->ops->on_progress != NULL && (cqe->status == UROCE_SUCCESS || !end->ops->reliable))
        end->ops->on_progress(end);
}

/* Returns whether the queue pair can be in ERR only because a CQ overflowed. */
static bool cannot_fail(const struct sim_endpoint *end)
{
    const struct sim_plan *plan = end->workload->plan;
    const struct sim_life *life = end->life;

    for (uint32_t i = 0; i < life->count; i++)
        if ((end->ops->reliable || &life->ends[i] == end) && life->ends[i].srq != NULL &&
            life->ends[i].srq->plan->wild)
            return false;
    return life->plan->inject_probability == 0 &&
           (!end->ops->reliable || (plan->forever && !plan->revokes && !life->plan->xrc));
}

/* Returns whether the CQ has fewer than @due completions of the queue pair. */
static bool lacks(const struct sim_endpoint *end, const struct uroce_cq *cq, bool receive,
                  uint32_t due)
{
    uint32_t count = 0;
    uint64_t wr_id;

    for (uint32_t i = 0; i < sim_inside_cq_waiting(cq); i++)
        count +=
            sim_inside_cq_look(cq, i, &wr_id) == end->qpn && !(wr_id & SIM_RECV_BIT) == !receive;
    return count < due;
}

void sim_judge_lost(const struct sim_endpoint *end)
{
    uint32_t sends = 0; /* completions that must exist, but were not polled yet */
    uint32_t receives = 0;
    bool lost = false;

    if (!end->alive || !sim_tight_uses(end))
        return;
    bool in_error = uroce_qp_state(end->qp) == UROCE_ERR;
    uint64_t taken = end->posted - sim_inside_sends(end->qp);
    for (uint64_t i = end->confirmed; i < taken; i++)
        sends += sim_request_is_signalled(end, sim_request_of(end, i));
    if (end->srq == NULL && end->recv_cq != NULL)
        receives = (uint32_t)(end->recv_posted - end->recv_done) - sim_inside_receives(end->qp);
    if (sim_tight_lost(end->workload, end->send_cq))
        lost |= lacks(end, end->send_cq, false, sends);
    if (sim_tight_lost(end->workload, end->recv_cq))
        lost |= lacks(end, end->recv_cq, true, receives);
    if (lost && !in_error)
        sim_world_fail(end->world, "qp 0x%06x: not in ERR, but a completion was lost", end->qpn);
    if (in_error && !end->ended && cannot_fail(end) && !end->fatal)
        sim_world_fail(end->world, "qp 0x%06x: in ERR without a reason", end->qpn);
}
