/* SPDX-License-Identifier: BSD-3-Clause */
/* judge.c - checks a completion against what was posted; see endpoint.h. */
#include <stdio.h>
#include <string.h>

#include "sim/oracle/model.h"
#include "sim/work/endpoint.h"
#include "sim/work/tight.h"
#include "sim/work/workload.h"

static void status_fail(const struct sim_endpoint *endpoint, const char *kind, uint64_t number,
                        uint8_t status)
{
    char what[64];

    snprintf(what, sizeof what, "failed with status %u", status);
    sim_endpoint_fail(endpoint, kind, number, what);
}

/* ---- sends ------------------------------------------------------------------------------------- */

bool sim_judge_stops(const struct sim_request *request)
{
    return request->fault == SIM_FAULT_BAD_LKEY || request->fault == SIM_FAULT_UNSUPPORTED ||
           request->fault == SIM_FAULT_NO_HANDLE || request->fault == SIM_FAULT_TOO_LONG;
}

uint8_t sim_judge_status(const struct sim_request *request)
{
    static const uint8_t statuses[SIM_FAULTS] = {
        [SIM_FAULT_BAD_RKEY] = URO_WC_REM_ACCESS_ERR,
        [SIM_FAULT_OTHER_PD] = URO_WC_REM_ACCESS_ERR,
        [SIM_FAULT_BEYOND] = URO_WC_REM_ACCESS_ERR,
        [SIM_FAULT_NO_RIGHT] = URO_WC_REM_ACCESS_ERR,
        [SIM_FAULT_MISALIGNED] = URO_WC_REM_INV_REQ_ERR,
        [SIM_FAULT_BAD_LKEY] = URO_WC_LOC_PROT_ERR,
        [SIM_FAULT_UNSUPPORTED] = URO_WC_LOC_QP_OP_ERR,
        [SIM_FAULT_BAD_WINDOW] = URO_WC_REM_ACCESS_ERR,
        [SIM_FAULT_NO_HANDLE] = URO_WC_LOC_QP_OP_ERR,
        [SIM_FAULT_TOO_LONG] = URO_WC_LOC_LEN_ERR,
    };

    if (request->fault == SIM_FAULT_BAD_WINDOW &&
        (request->opcode == URO_WR_BIND_MW || request->opcode == URO_WR_LOCAL_INV))
        return URO_WC_MW_BIND_ERR;
    return statuses[request->fault];
}

/* Memory that was sent from is unchanged, memory that was read into is filled. */
static void check_buffer(struct sim_endpoint *endpoint, const struct sim_request *request)
{
    uint32_t slot = (uint32_t)(request->number % endpoint->plan->send_capacity);
    bool filled = !(request->flags & URO_SEND_INLINE);
    uint32_t at;

    if (!sim_memory_check(&endpoint->memory, SIM_MEMORY_SENDS, slot, &request->layout,
                          filled ? request->length : 0, request->seed, &at))
        sim_endpoint_fail(endpoint, "send", request->number,
                          request->opcode == URO_WR_RDMA_READ ? "of what was read is wrong"
                                                              : "changed its buffer");
}

/* The request is known to have succeeded. */
static void confirm(struct sim_endpoint *endpoint, const struct sim_request *request)
{
    bool wrong =
        endpoint->ops->reliable ? request->fault != SIM_FAULT_NONE : sim_judge_stops(request);

    if (wrong)
        sim_endpoint_fail(endpoint, "send", request->number, "succeeded although it was wrong");
    else if (request->opcode != URO_WR_ATOMIC_CMP_AND_SWP &&
             request->opcode != URO_WR_ATOMIC_FETCH_AND_ADD)
        check_buffer(endpoint, request);
    endpoint->ops->confirm(endpoint, request);
    endpoint->load->ops_done++;
}

static bool may_flush(const struct sim_endpoint *endpoint, uint64_t number)
{
    const struct sim_life *life = endpoint->life;

    if (sim_endpoint_in_error(endpoint))
        return true;
    if (endpoint->ops->reliable)
        return life->may_fail || life->may_time_out;
    return endpoint->stopped || number < endpoint->flush_until ||
           uro_qp_state_now(endpoint->qp) == URO_QPS_ERR;
}

static void judge_flushed(struct sim_endpoint *endpoint, struct sim_request *request)
{
    if (!may_flush(endpoint, request->number))
        sim_endpoint_fail(endpoint, "send", request->number, "flushed without cause");
    request->flushed = true;
    if (endpoint->ops->reliable && !endpoint->send_failed)
        endpoint->lost_answer = sim_model_has_response(request->opcode);
    endpoint->send_failed |= endpoint->ops->reliable;
}

static void judge_failed(struct sim_endpoint *endpoint, const struct sim_request *request,
                         const struct uro_cqe *cqe)
{
    enum uro_qp_state state = uro_qp_state_now(endpoint->qp);

    /* A NAK for a later request may overtake a lost response, which then never comes. */
    if (endpoint->send_failed && (endpoint->cause_known || !endpoint->lost_answer))
        sim_endpoint_fail(endpoint, "send", request->number,
                          "failed after another one failed, and is not flushed");
    else if (!endpoint->ops->expected(endpoint, request, cqe->status))
        status_fail(endpoint, "send", request->number, cqe->status);
    else if (state != URO_QPS_ERR && (endpoint->ops->reliable || state != URO_QPS_SQE))
        sim_endpoint_fail(endpoint, "send", request->number, "failed and did not stop the queue");
    else if (cqe->vendor_error == 0)
        sim_endpoint_fail(endpoint, "send", request->number, "failed without a reason");
    if (endpoint->ops->reliable)
        endpoint->send_failed = endpoint->cause_known = true;
    endpoint->load->failures++;
}

/* Requests before @number were not signalled: they succeeded. */
static bool confirm_before(struct sim_endpoint *endpoint, uint64_t number, const char *what)
{
    for (; endpoint->confirmed < number; endpoint->confirmed++) {
        const struct sim_request *request = sim_request_of(endpoint, endpoint->confirmed);
        if (sim_request_is_signalled(endpoint, request) || endpoint->send_failed)
            return sim_endpoint_fail(endpoint, "send", request->number, what);
        confirm(endpoint, request);
    }
    return true;
}

static bool judge_send(struct sim_endpoint *endpoint, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id;
    struct sim_request *request = sim_request_of(endpoint, number);

    if (number < endpoint->confirmed)
        return sim_endpoint_fail(endpoint, "send", number, "completed twice");
    if (number >= endpoint->posted)
        return sim_endpoint_fail(endpoint, "send", number, "completed but was never posted");
    if (!confirm_before(endpoint, number, "did not complete before the one after it"))
        return false;
    endpoint->confirmed++;
    if (cqe->status == URO_WC_WR_FLUSH_ERR)
        judge_flushed(endpoint, request);
    else if (cqe->status != URO_WC_SUCCESS)
        judge_failed(endpoint, request, cqe);
    else if (endpoint->send_failed)
        sim_endpoint_fail(endpoint, "send", number, "succeeded after one before it failed");
    else if (!sim_request_is_signalled(endpoint, request))
        sim_endpoint_fail(endpoint, "send", number, "completed but was not signalled");
    else if (cqe->opcode != sim_model_wc_opcode(request->opcode))
        sim_endpoint_fail(endpoint, "send", number,
                          "completed with the opcode of another operation");
    else
        confirm(endpoint, request);
    if (cqe->status != URO_WC_SUCCESS)
        endpoint->ops->on_error(endpoint, request, cqe->status);
    return true;
}

void sim_judge_silent(struct sim_endpoint *endpoint)
{
    (void)confirm_before(endpoint, endpoint->posted, "never completed");
}

void sim_judge_stop_queue(struct sim_endpoint *endpoint, const struct sim_request *request,
                          uint8_t status)
{
    uro_time now = endpoint->load->world->now;

    if (request == NULL || status == URO_WC_WR_FLUSH_ERR)
        return;
    endpoint->stopped = true;
    endpoint->resume_at = now + uro_rng_below(&endpoint->rng, endpoint->plan->resume_wait_max + 1);
}

/* ---- receives ---------------------------------------------------------------------------------- */

static const char *kind_of(const struct sim_place *place)
{
    return place->srq != NULL ? "shared receive" : "receive";
}

static bool receive_fail(const struct sim_endpoint *endpoint, const struct sim_place *place,
                         const char *what)
{
    return sim_endpoint_fail(endpoint, kind_of(place), place->number, what);
}

/* A receive that was flushed or failed may hold a part of a message, never more. */
static void check_unused(const struct sim_endpoint *endpoint, const struct sim_place *place,
                         bool may_have_begun)
{
    const struct sim_memory_layout *layout = &place->recv->layout;
    uint32_t at;
    bool good =
        may_have_begun
            ? sim_memory_check_around(place->memory, SIM_MEMORY_RECVS, place->slot, layout, &at)
            : sim_memory_check(place->memory, SIM_MEMORY_RECVS, place->slot, layout, 0, 0, &at);

    if (!good)
        receive_fail(endpoint, place, "changed although nothing was received");
}

bool sim_judge_bad_lkey(const struct sim_endpoint *endpoint, const struct sim_place *place,
                        uint8_t status)
{
    (void)endpoint;
    return status == URO_WC_LOC_PROT_ERR && place->recv->bad_lkey;
}

static void judge_message(struct sim_endpoint *endpoint, const struct sim_place *place,
                          const struct uro_cqe *cqe)
{
    uint32_t at;

    if (!endpoint->ops->reliable &&
        !sim_memory_check_around(place->memory, SIM_MEMORY_RECVS, place->slot, &place->recv->layout,
                                 &at))
        receive_fail(endpoint, place, "changed memory beside its elements");
    endpoint->ops->take(endpoint, place, cqe);
}

static void judge_place(struct sim_endpoint *endpoint, const struct sim_place *place,
                        const struct uro_cqe *cqe)
{
    bool xrc = endpoint->type == URO_QPT_XRC_TGT;
    bool *failed = xrc ? &endpoint->recv_failed_of[place->srq->index] : &endpoint->recv_failed;
    bool may_have_begun = endpoint->type != URO_QPT_UD && (!*failed || place->srq != NULL);

    if (cqe->status == URO_WC_SUCCESS) {
        if (*failed)
            receive_fail(endpoint, place, "succeeded after one before it failed");
        judge_message(endpoint, place, cqe);
        return;
    }
    if (cqe->status == URO_WC_WR_FLUSH_ERR) {
        bool cause =
            sim_endpoint_in_error(endpoint) || (endpoint->ops->reliable && may_flush(endpoint, 0));
        if (!cause)
            receive_fail(endpoint, place, "flushed without cause");
        check_unused(endpoint, place, may_have_begun);
    } else {
        if (*failed || !endpoint->ops->recv_expected(endpoint, place, cqe->status))
            status_fail(endpoint, kind_of(place), place->number, cqe->status);
        check_unused(endpoint, place, true);
        endpoint->load->failures++;
    }
    *failed = endpoint->recv_failed = true;
    endpoint->ops->on_error(endpoint, NULL, cqe->status);
}

static bool judge_own(struct sim_endpoint *endpoint, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id & ~SIM_RECV_BIT;
    const struct sim_place place = { .number = number,
                                     .recv = &endpoint->recvs[number % SIM_REQUESTS_MAX],
                                     .memory = &endpoint->memory,
                                     .slot = (uint32_t)(number % endpoint->plan->recv_capacity) };

    if (number < endpoint->recv_done)
        return receive_fail(endpoint, &place, "completed twice");
    if (number > endpoint->recv_done || number >= endpoint->recv_posted)
        return receive_fail(endpoint, &place, "completed out of turn");
    endpoint->recv_done++;
    judge_place(endpoint, &place, cqe);
    return true;
}

/* A queue pair takes the oldest receive of a shared queue, and completes them in that order. */
static bool judge_shared(struct sim_endpoint *endpoint, const struct uro_cqe *cqe)
{
    uint64_t number = SIM_SRQ_NUMBER(cqe->wr_id);
    struct sim_srq *srq = sim_srq_at(endpoint, SIM_SRQ_INDEX(cqe->wr_id));
    struct sim_srq_recv *recv = sim_srq_find(srq, number);
    const struct sim_place place = { .number = number,
                                     .recv = recv != NULL ? &recv->recv : NULL,
                                     .memory = &srq->memory,
                                     .slot = recv != NULL ? (uint32_t)(recv - srq->recvs) : 0,
                                     .srq = srq };

    if (endpoint->type == URO_QPT_XRC_TGT ? !srq->plan->xrc : endpoint->srq != srq)
        return receive_fail(endpoint, &place, "is of a queue that this queue pair does not use");
    if (recv == NULL)
        return receive_fail(endpoint, &place, "completed twice, or was never posted");
    if (number >= sim_srq_oldest(srq))
        return receive_fail(endpoint, &place, "completed and is still in its queue");
    if (number < endpoint->shared_next[srq->index])
        return receive_fail(endpoint, &place, "completed after one that was taken later");
    if (endpoint->last_wqe && cqe->timestamp > endpoint->last_wqe_at)
        return receive_fail(endpoint, &place, "completed after the last one was announced");
    endpoint->shared_next[srq->index] = number + 1;
    judge_place(endpoint, &place, cqe);
    sim_srq_done(srq, recv);
    return true;
}

static bool judge_receive(struct sim_endpoint *endpoint, const struct uro_cqe *cqe)
{
    bool own = endpoint->type != URO_QPT_XRC_TGT && endpoint->srq == NULL;

    if (!(cqe->wr_id & SIM_SRQ_BIT) != own)
        return sim_endpoint_fail(endpoint, "receive", cqe->wr_id, "is from another kind of queue");
    return own ? judge_own(endpoint, cqe) : judge_shared(endpoint, cqe);
}

/* ---- all --------------------------------------------------------------------------------------- */

/* The completion queue that the completion belongs in. */
static const struct uro_cq *cq_due(const struct sim_endpoint *endpoint, const struct uro_cqe *cqe)
{
    if (!(cqe->wr_id & SIM_RECV_BIT))
        return endpoint->send_cq;
    return endpoint->type == URO_QPT_XRC_TGT
               ? sim_srq_at(endpoint, SIM_SRQ_INDEX(cqe->wr_id))->cq->cq
               : endpoint->recv_cq;
}

void sim_judge(struct sim_endpoint *endpoint, const struct sim_cq *cq, const struct uro_cqe *cqe)
{
    if (endpoint->ops->judge != NULL) {
        endpoint->ops->judge(endpoint, cqe);
        return;
    }
    if (cq->cq != cq_due(endpoint, cqe)) {
        sim_world_fail(endpoint->load->world, "completion of qp 0x%06x in a foreign CQ", cqe->qpn);
        return;
    }
    if (!(cqe->wr_id & SIM_RECV_BIT ? judge_receive(endpoint, cqe) : judge_send(endpoint, cqe)))
        return;
    endpoint->blocked = false;
    if (endpoint->peer != NULL)
        endpoint->peer->blocked = false;
    if (endpoint->ops->on_progress != NULL &&
        (cqe->status == URO_WC_SUCCESS || !endpoint->ops->reliable))
        endpoint->ops->on_progress(endpoint);
}

static uint32_t queued(const struct uro_wq *wq)
{
    return uro_wq_tail(wq) - uro_wq_head(wq);
}

/* Nothing but an overflow explains that the queue pair is in ERR. */
static bool cannot_fail(const struct sim_endpoint *endpoint)
{
    const struct sim_plan *plan = endpoint->load->plan;
    const struct sim_life *life = endpoint->life;

    for (uint32_t i = 0; i < life->count; i++)
        if ((endpoint->ops->reliable || &life->ends[i] == endpoint) && life->ends[i].srq != NULL &&
            life->ends[i].srq->plan->wild)
            return false;
    return life->plan->inject_share == 0 &&
           (!endpoint->ops->reliable || (plan->forever && !plan->revokes && !life->plan->xrc));
}

void sim_judge_lost(const struct sim_endpoint *endpoint)
{
    struct sim_tight_due due = { 0 };

    if (endpoint->life == NULL || !endpoint->alive || !sim_tight_uses(endpoint))
        return;
    due.fatal = !endpoint->ended && cannot_fail(endpoint);
    uint64_t taken = endpoint->posted - queued(uro_qp_send_queue(endpoint->qp));
    for (uint64_t i = endpoint->confirmed; i < taken; i++)
        due.sends += sim_request_is_signalled(endpoint, sim_request_of(endpoint, i));
    if (endpoint->srq == NULL && endpoint->recv_cq != NULL)
        due.receives = (uint32_t)(endpoint->recv_posted - endpoint->recv_done) -
                       queued(uro_qp_recv_queue(endpoint->qp));
    sim_tight_check(endpoint, &due);
}
