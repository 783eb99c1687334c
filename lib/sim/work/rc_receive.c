/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_receive.c - completions of receives, from a queue pair's own queue or a shared one. */
#include <inttypes.h>
#include <stdio.h>

#include "sim/work/workload.h"

/* A receive and where its octets are. */
struct place {
    uint64_t number;
    const struct sim_rc_recv *recv;
    struct sim_memory *memory;
    uint32_t slot;
    struct sim_srq *srq; /* NULL: the queue pair's own */
};

static bool fail(const struct sim_rc_end *end, const struct place *place, const char *what)
{
    return sim_rc_judge_fail(end, place->srq != NULL ? "shared receive" : "receive", place->number,
                             what);
}

static bool fail_memory(const struct sim_rc_end *end, const struct place *place, const char *what,
                        uint32_t at)
{
    return sim_rc_judge_fail_memory(end, place->srq != NULL ? "shared receive" : "receive",
                                    place->number, what, at);
}

/* A receive that was flushed or failed: perhaps part of a message came, never more. */
static void check_unused(struct sim_rc_end *end, const struct place *place, bool may_have_begun)
{
    const struct sim_memory_layout *layout = &place->recv->layout;
    uint32_t at;
    bool good =
        may_have_begun
            ? sim_memory_check_around(place->memory, SIM_MEMORY_RECVS, place->slot, layout, &at)
            : sim_memory_check(place->memory, SIM_MEMORY_RECVS, place->slot, layout, 0, 0, &at);

    if (!good)
        fail_memory(end, place, "changed although nothing was received", at);
}

/* The peer's oldest message that was not taken; through XRC, that was sent to this SRQ. */
static struct sim_rc_message *next_message(const struct sim_rc_end *end, const struct place *place)
{
    struct sim_rc_end *peer = end->peer;

    for (uint64_t i = peer->messages_base; i < peer->messages_sent; i++) {
        struct sim_rc_message *message = &peer->messages[i % SIM_WORKLOAD_MESSAGES_MAX];
        bool here = !end->pair->plan->xrc || place->srq == sim_srq_of(end, message->srq);
        if (!message->taken && here)
            return message;
    }
    return NULL;
}

static void take_message(struct sim_rc_end *end, struct sim_rc_message *message)
{
    struct sim_rc_end *peer = end->peer;

    message->taken = true;
    end->messages_taken++;
    while (peer->messages_base < peer->messages_sent &&
           peer->messages[peer->messages_base % SIM_WORKLOAD_MESSAGES_MAX].taken)
        peer->messages_base++;
}

static bool judge_message(struct sim_rc_end *end, const struct place *place,
                          const struct uro_cqe *cqe)
{
    const struct sim_rc_recv *recv = place->recv;
    struct sim_rc_message *message = next_message(end, place);
    uint32_t at;

    if (message == NULL)
        return fail(end, place, "completed but nothing was sent");
    take_message(end, message);
    uint8_t opcode = message->write ? URO_WC_RECV_RDMA_WITH_IMM : URO_WC_RECV;
    if (cqe->opcode != opcode || !(cqe->flags & URO_WC_WITH_IMM) != !message->has_imm ||
        !(cqe->flags & URO_WC_WITH_INV) != !message->has_inv)
        return fail(end, place, "is of another kind than what was sent");
    if ((message->has_imm || message->has_inv) && cqe->imm != message->imm)
        return fail(end, place, "has another immediate value or key than was sent");
    if (message->has_inv)
        sim_rc_window_invalidated(end, message->imm);
    if (cqe->byte_len != message->length)
        return fail(end, place, "has another length than was sent");
    if (!message->write && message->length > recv->room)
        return fail(end, place, "took a message longer than itself");
    if (!sim_memory_check(place->memory, SIM_MEMORY_RECVS, place->slot, &recv->layout,
                          message->write ? 0 : message->length, message->seed, &at))
        return fail_memory(end, place, "of the message is wrong", at);
    if (!message->write)
        return true;
    const struct sim_memory_layout layout = { .count = 1,
                                              .pieces = { { message->at, message->length } } };
    if (!sim_memory_check(&end->memory, SIM_MEMORY_WINDOWS, message->window, &layout,
                          message->length, message->seed, &at))
        fail_memory(end, place, "of the window is not there yet, or wrong", at);
    end->peer->windows[message->window].users--;
    return true;
}

static bool expected(const struct sim_rc_end *end, const struct place *place, uint8_t status)
{
    const struct sim_rc_message *message = next_message(end, place);

    if (message == NULL)
        return false;
    if (status == URO_WC_LOC_LEN_ERR)
        return !message->write && message->length > place->recv->room;
    if (status == URO_WC_LOC_PROT_ERR)
        return !message->write && message->length > 0 &&
               (place->recv->bad_lkey || (place->srq == NULL && end->revoked[SIM_MEMORY_RECVS]));
    return false;
}

static bool judge(struct sim_rc_end *end, const struct place *place, const struct uro_cqe *cqe)
{
    bool *failed =
        end->pair->plan->xrc ? &end->recv_failed_of[place->srq->index] : &end->recv_failed;
    char what[64];

    if (cqe->status == URO_WC_SUCCESS) {
        if (*failed)
            fail(end, place, "succeeded after one before it failed");
        return judge_message(end, place, cqe);
    }
    if (cqe->status == URO_WC_WR_FLUSH_ERR) {
        if (!sim_rc_judge_may_flush(end))
            fail(end, place, "flushed without cause");
        /* Shared: only a receive that a message was using. */
        check_unused(end, place, !*failed || place->srq != NULL);
    } else {
        snprintf(what, sizeof what, "failed with status %u", cqe->status);
        if (*failed || !expected(end, place, cqe->status))
            fail(end, place, what);
        check_unused(end, place, true);
        end->load->failures++;
    }
    *failed = end->recv_failed = true;
    return true;
}

static bool judge_own(struct sim_rc_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id & ~SIM_WORKLOAD_RECV_BIT;
    const struct place place = { .number = number,
                                 .recv = &end->recvs[number % SIM_WORKLOAD_OPS_MAX],
                                 .memory = &end->memory,
                                 .slot = (uint32_t)(number % end->plan->recv_capacity) };

    if (number < end->recv_done)
        return fail(end, &place, "completed twice");
    if (number > end->recv_done || number >= end->recv_posted)
        return fail(end, &place, "completed out of turn");
    end->recv_done++;
    return judge(end, &place, cqe);
}

/* From a shared queue a queue pair takes what is oldest, and completes it in that order. */
static bool judge_shared(struct sim_rc_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = SIM_SRQ_NUMBER(cqe->wr_id);
    struct sim_srq *srq = sim_srq_of(end, SIM_SRQ_INDEX(cqe->wr_id));
    struct sim_srq_recv *recv = sim_srq_find(srq, number);
    const struct place place = { .number = number,
                                 .recv = recv != NULL ? &recv->recv : NULL,
                                 .memory = &srq->memory,
                                 .slot = recv != NULL ? (uint32_t)(recv - srq->recvs) : 0,
                                 .srq = srq };

    if (end->pair->plan->xrc ? !srq->plan->xrc : end->srq != srq)
        return fail(end, &place, "is of a queue that this queue pair does not use");
    if (recv == NULL)
        return fail(end, &place, "completed twice, or was never posted");
    if (number >= sim_srq_oldest(srq))
        return fail(end, &place, "completed and is still in its queue");
    if (number < end->shared_next[srq->index])
        return fail(end, &place, "completed after one that was taken later");
    if (end->last_wqe && cqe->timestamp > end->last_wqe_at)
        return fail(end, &place, "completed after the last one was announced");
    end->shared_next[srq->index] = number + 1;
    bool sane = judge(end, &place, cqe);
    sim_srq_done(srq, recv);
    return sane;
}

bool sim_rc_receive(struct sim_rc_end *end, const struct uro_cqe *cqe)
{
    bool own = !end->pair->plan->xrc && end->srq == NULL;

    if (!(cqe->wr_id & SIM_SRQ_BIT) != own)
        return sim_rc_judge_fail(end, "receive", cqe->wr_id, "is from another kind of queue");
    return own ? judge_own(end, cqe) : judge_shared(end, cqe);
}
