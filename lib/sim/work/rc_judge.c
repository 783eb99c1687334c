/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_judge.c - checks completions and memory of reliable connections against the requests; see rc.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/oracle/model.h"
#include "sim/work/rc.h"
#include "sim/work/workload.h"

/* ---- sends that succeeded ---------------------------------------------------------------------- */

/* Records the value that an atomic on the shared word returned. Returns false when the value is too small. */
static bool add(struct sim_shared_word *shared, uint64_t original, uint64_t amount)
{
    if (shared->count == shared->room) {
        shared->room = shared->room * 2 + 64;
        shared->adds = realloc(shared->adds, shared->room * sizeof *shared->adds);
        URO_ASSERT(shared->adds != NULL);
    }
    shared->adds[shared->count++] = (struct sim_shared_add){ original, amount };
    return original >= shared->start;
}

static void check_atomic(struct sim_endpoint *end, const struct sim_request *request)
{
    uint32_t slot = (uint32_t)(request->number % end->plan->send_capacity);
    const uint8_t *there = sim_memory_slot(&end->memory, SIM_MEMORY_SENDS, slot);
    uint64_t original;
    uint32_t at;

    memcpy(&original, there + request->layout.pieces[0].at, sizeof original);
    if (request->shared_word) {
        if (!add(&end->load->shared[end->peer->side], original, request->compare_add))
            sim_endpoint_fail(end, "send", request->number,
                              "original value of the shared word is too small");
    } else if (original != request->original) {
        sim_world_fail(end->load->world,
                       "pair %u qp 0x%06x send %" PRIu64 ": atomic returned 0x%" PRIx64
                       ", must be 0x%" PRIx64,
                       end->life->number, end->qpn, request->number, original, request->original);
    }
    if (!sim_memory_check_around(&end->memory, SIM_MEMORY_SENDS, slot, &request->layout, &at))
        sim_endpoint_fail(end, "send", request->number, "beside the atomic's result changed");
}

/* Returns whether the slot at the peer has @length bytes of message @seed, and no other change. */
static bool window_holds(struct sim_endpoint *owner, uint32_t window, uint32_t at, uint32_t length,
                         uint64_t seed)
{
    const struct sim_memory_layout layout = { .count = 1, .pieces = { { at, length } } };
    uint32_t wrong;

    return sim_memory_check(&owner->memory, SIM_MEMORY_WINDOWS, window, &layout, length, seed,
                            &wrong);
}

/* Checks the slot at the peer, unless a later request already writes to it. */
static void check_window(struct sim_endpoint *end, const struct sim_request *request)
{
    struct sim_rc_window *window = &end->rc->windows[request->window];

    window->users--;
    if (window->writers == request->writers &&
        !window_holds(end->peer, request->window, request->at, request->length, request->seed))
        sim_endpoint_fail(end, "send", request->number,
                          request->opcode == URO_WR_RDMA_READ
                              ? "of the window that was read changed"
                              : "of the window is not what was written");
}

void sim_rc_confirm(struct sim_endpoint *end, const struct sim_request *request)
{
    if (sim_model_is_atomic(request->opcode) && request->fault == SIM_FAULT_NONE)
        check_atomic(end, request);
    if (request->window != SIM_NO_WINDOW)
        check_window(end, request);
    if (request->mw != NULL)
        sim_rc_window_done(end, request);
}

/* ---- sends that failed ------------------------------------------------------------------------- */

void sim_rc_uncertain(struct sim_endpoint *end, const struct sim_request *request)
{
    struct sim_rc_state *rc = end->rc;

    if ((!sim_model_is_atomic(request->opcode) && request->opcode != URO_WR_ATOMIC_WRITE) ||
        request->fault != SIM_FAULT_NONE)
        return;
    if (request->shared_word)
        end->load->shared[end->peer->side].uncertain += request->compare_add;
    else if (rc->word_maybes < URO_ARRAY_LEN(rc->word_maybe))
        rc->word_maybe[rc->word_maybes++] = request->original;
}

void sim_rc_on_error(struct sim_endpoint *end, const struct sim_request *request, uint8_t status)
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

    if (!sim_model_takes_receive(request->opcode) || peer->type != URO_QPT_RC || peer->srq != NULL)
        return NULL;
    return request->message < peer->recv_posted ? &peer->recvs[request->message % SIM_REQUESTS_MAX]
                                                : NULL;
}

bool sim_rc_is_revoked(const struct sim_endpoint *owner, enum sim_memory_section section,
                       const struct sim_request *request)
{
    return owner->rc->revoked[section] && request->number < owner->rc->renewed;
}

/* Returns whether memory of the request, at either end, was deregistered. */
static bool lost_memory(const struct sim_endpoint *end, const struct sim_request *request,
                        uint8_t status)
{
    bool takes = sim_model_takes_receive(request->opcode);

    switch ((unsigned)status) {
    case URO_WC_LOC_PROT_ERR:
        return sim_rc_is_revoked(end, SIM_MEMORY_SENDS, request);
    case URO_WC_MW_BIND_ERR:
        return end->rc->revoked[SIM_MEMORY_WINDOWS] && request->opcode == URO_WR_BIND_MW;
    case URO_WC_REM_OP_ERR:
        return end->peer->rc->revoked[SIM_MEMORY_RECVS] && takes;
    case URO_WC_REM_ACCESS_ERR:
        return !takes && sim_rc_is_revoked(end->peer,
                                           request->window != SIM_NO_WINDOW ? SIM_MEMORY_WINDOWS
                                                                            : SIM_MEMORY_WORDS,
                                           request);
    default:
        return false;
    }
}

/* Returns whether the receive of the message, or its shared queue, explains the failure. */
static bool receive_explains(const struct sim_endpoint *end, const struct sim_request *request,
                             uint8_t status)
{
    const struct sim_endpoint *peer = end->peer;
    const struct sim_recv *recv = met_by(end, request);
    bool wild = peer->srq != NULL && peer->srq->plan->wild;

    /* The shared receive that takes the message is unknown. The completion of the receive is checked exactly. */
    if (wild && sim_model_takes_receive(request->opcode) && request->length > 0 &&
        (status == URO_WC_REM_OP_ERR || status == URO_WC_REM_INV_REQ_ERR))
        return true;
    if (recv != NULL && request->length > recv->room && status == URO_WC_REM_INV_REQ_ERR)
        return true;
    if (recv != NULL && recv->bad_lkey && request->length > 0 && status == URO_WC_REM_OP_ERR)
        return true;
    return end->type == URO_QPT_XRC_INI && status == URO_WC_REM_INV_REQ_ERR &&
           request->srq_generation != sim_srq_at(peer, request->srq)->generation;
}

static bool explained(const struct sim_endpoint *end, const struct sim_request *request,
                      uint8_t status)
{
    const struct sim_life *life = end->life;

    if (status == URO_WC_RETRY_EXC_ERR)
        return life->may_time_out || (life->may_fail && !end->load->plan->forever);
    if (status == URO_WC_RNR_RETRY_EXC_ERR)
        return end->plan->rnr_retry < 7 && !life->last_life;
    if (receive_explains(end, request, status) || lost_memory(end, request, status))
        return true;
    if (request->mw != NULL && request->window != SIM_NO_WINDOW &&
        end->rc->windows[request->window].revoked && status == URO_WC_REM_ACCESS_ERR)
        return true;
    return request->fault != SIM_FAULT_NONE && status == sim_judge_status(request);
}

/* Returns whether the peer has a quirk that explains the status: it sends NAK 0x63 instead of 0x61. */
static bool says_otherwise(const struct sim_endpoint *end, uint8_t status)
{
    unsigned quirks = end->load->plan->cables[end->peer->side].quirks;

    return end->side != end->peer->side && quirks & SIM_QUIRK_OPERATIONAL &&
           status == URO_WC_REM_OP_ERR;
}

bool sim_rc_expected(const struct sim_endpoint *end, const struct sim_request *request,
                     uint8_t status)
{
    return explained(end, request, status) ||
           (says_otherwise(end, status) && explained(end, request, URO_WC_REM_INV_REQ_ERR));
}

/* ---- receives ---------------------------------------------------------------------------------- */

static bool fail(const struct sim_endpoint *end, const struct sim_place *place, const char *what)
{
    return sim_endpoint_fail(end, place->srq != NULL ? "shared receive" : "receive", place->number,
                             what);
}

/* Returns the oldest message of the peer that was not taken. XRC: only messages to this shared queue. */
static struct sim_rc_message *next_message(const struct sim_endpoint *end,
                                           const struct sim_place *place)
{
    struct sim_endpoint *peer = end->peer;

    for (uint64_t i = peer->rc->messages_base; i < peer->messages_sent; i++) {
        struct sim_rc_message *message = &peer->rc->messages[i % SIM_RC_MESSAGES_MAX];
        bool here = !end->life->plan->xrc || place->srq == sim_srq_at(end, message->srq);
        if (!message->taken && here)
            return message;
    }
    return NULL;
}

static void mark_taken(struct sim_endpoint *end, struct sim_rc_message *message)
{
    struct sim_endpoint *peer = end->peer;
    struct sim_rc_state *rc = peer->rc;

    message->taken = true;
    end->messages_taken++;
    while (rc->messages_base < peer->messages_sent &&
           rc->messages[rc->messages_base % SIM_RC_MESSAGES_MAX].taken)
        rc->messages_base++;
}

/* Returns false when the completion does not match the message. */
static bool check_completion(const struct sim_endpoint *end, const struct sim_place *place,
                             const struct sim_rc_message *message, const struct uro_cqe *cqe)
{
    uint8_t opcode = message->write ? URO_WC_RECV_RDMA_WITH_IMM : URO_WC_RECV;

    if (cqe->opcode != opcode || !(cqe->flags & URO_WC_WITH_IMM) != !message->has_imm ||
        !(cqe->flags & URO_WC_WITH_INV) != !message->has_inv)
        return fail(end, place, "is of another kind than what was sent");
    if ((message->has_imm || message->has_inv) && cqe->imm != message->imm)
        return fail(end, place, "has another immediate value or key than was sent");
    if (cqe->byte_len != message->length)
        return fail(end, place, "has another length than was sent");
    if (!message->write && message->length > place->recv->room)
        return fail(end, place, "took a message longer than itself");
    return true;
}

void sim_rc_take(struct sim_endpoint *end, const struct sim_place *place, const struct uro_cqe *cqe)
{
    struct sim_rc_message *message = next_message(end, place);
    uint32_t at;

    if (message == NULL) {
        fail(end, place, "completed but nothing was sent");
        return;
    }
    mark_taken(end, message);
    if (!check_completion(end, place, message, cqe))
        return;
    if (message->has_inv)
        sim_rc_window_invalidated(end, message->imm);
    if (!sim_memory_check(place->memory, SIM_MEMORY_RECVS, place->slot, &place->recv->layout,
                          message->write ? 0 : message->length, message->seed, &at))
        fail(end, place, "of the message is wrong");
    if (!message->write)
        return;
    if (!window_holds(end, message->window, message->at, message->length, message->seed))
        fail(end, place, "of the window is not there yet, or wrong");
    end->peer->rc->windows[message->window].users--;
}

bool sim_rc_recv_expected(const struct sim_endpoint *end, const struct sim_place *place,
                          uint8_t status)
{
    const struct sim_rc_message *message = next_message(end, place);

    if (message == NULL || message->write)
        return false;
    if (status == URO_WC_LOC_LEN_ERR)
        return message->length > place->recv->room;
    return status == URO_WC_LOC_PROT_ERR && message->length > 0 &&
           (place->recv->bad_lkey || (place->srq == NULL && end->rc->revoked[SIM_MEMORY_RECVS]));
}
