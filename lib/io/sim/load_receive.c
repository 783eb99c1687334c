/* SPDX-License-Identifier: BSD-3-Clause */
/* load_receive.c - completions of receives, from a queue pair's own queue or a shared one. */
#include <inttypes.h>
#include <stdio.h>

#include "io/sim/load.h"

/* A receive and where its octets are. */
struct place {
    uint64_t number;
    const struct uro_load_recv *recv;
    struct uro_arena *arena;
    uint32_t slot;
    struct uro_load_srq *srq; /* NULL: the queue pair's own */
};

static bool fail(const struct uro_load_end *end, const struct place *place, const char *what)
{
    return uro_load_judge_fail(end, place->srq != NULL ? "shared receive" : "receive",
                               place->number, what);
}

static bool fail_memory(const struct uro_load_end *end, const struct place *place, const char *what,
                        uint32_t at)
{
    return uro_load_judge_fail_memory(end, place->srq != NULL ? "shared receive" : "receive",
                                      place->number, what, at);
}

/* A receive that was flushed or failed: perhaps part of a message came, never more. */
static void check_unused(struct uro_load_end *end, const struct place *place, bool may_have_begun)
{
    const struct uro_arena_layout *layout = &place->recv->layout;
    uint32_t at;
    bool good =
        may_have_begun
            ? uro_arena_check_around(place->arena, URO_ARENA_RECVS, place->slot, layout, &at)
            : uro_arena_check(place->arena, URO_ARENA_RECVS, place->slot, layout, 0, 0, &at);

    if (!good)
        fail_memory(end, place, "changed although nothing was received", at);
}

/* The peer's oldest message that was not taken; through XRC, that was sent to this SRQ. */
static struct uro_load_message *next_message(const struct uro_load_end *end,
                                             const struct place *place)
{
    struct uro_load_end *peer = end->peer;

    for (uint64_t i = peer->messages_base; i < peer->messages_sent; i++) {
        struct uro_load_message *message = &peer->messages[i % URO_LOAD_MESSAGES_MAX];
        bool here = !end->pair->plan->xrc || place->srq == uro_load_srq_of(end, message->srq);
        if (!message->taken && here)
            return message;
    }
    return NULL;
}

static void take_message(struct uro_load_end *end, struct uro_load_message *message)
{
    struct uro_load_end *peer = end->peer;

    message->taken = true;
    end->messages_taken++;
    while (peer->messages_base < peer->messages_sent &&
           peer->messages[peer->messages_base % URO_LOAD_MESSAGES_MAX].taken)
        peer->messages_base++;
}

static bool judge_message(struct uro_load_end *end, const struct place *place,
                          const struct uro_cqe *cqe)
{
    const struct uro_load_recv *recv = place->recv;
    struct uro_load_message *message = next_message(end, place);
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
        uro_load_window_invalidated(end, message->imm);
    if (cqe->byte_len != message->length)
        return fail(end, place, "has another length than was sent");
    if (!message->write && message->length > recv->room)
        return fail(end, place, "took a message longer than itself");
    if (!uro_arena_check(place->arena, URO_ARENA_RECVS, place->slot, &recv->layout,
                         message->write ? 0 : message->length, message->seed, &at))
        return fail_memory(end, place, "of the message is wrong", at);
    if (!message->write)
        return true;
    const struct uro_arena_layout layout = { .count = 1,
                                             .pieces = { { message->at, message->length } } };
    if (!uro_arena_check(&end->arena, URO_ARENA_WINDOWS, message->window, &layout, message->length,
                         message->seed, &at))
        fail_memory(end, place, "of the window is not there yet, or wrong", at);
    end->peer->windows[message->window].users--;
    return true;
}

static bool expected(const struct uro_load_end *end, const struct place *place, uint8_t status)
{
    const struct uro_load_message *message = next_message(end, place);

    if (message == NULL)
        return false;
    if (status == URO_WC_LOC_LEN_ERR)
        return !message->write && message->length > place->recv->room;
    if (status == URO_WC_LOC_PROT_ERR)
        return !message->write && message->length > 0 &&
               (place->recv->bad_lkey || (place->srq == NULL && end->revoked[URO_ARENA_RECVS]));
    return false;
}

static bool judge(struct uro_load_end *end, const struct place *place, const struct uro_cqe *cqe)
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
        if (!uro_load_judge_may_flush(end))
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

static bool judge_own(struct uro_load_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id & ~URO_LOAD_RECV_BIT;
    const struct place place = { .number = number,
                                 .recv = &end->recvs[number % URO_LOAD_OPS_MAX],
                                 .arena = &end->arena,
                                 .slot = (uint32_t)(number % end->plan->recv_capacity) };

    if (number < end->recv_done)
        return fail(end, &place, "completed twice");
    if (number > end->recv_done || number >= end->recv_posted)
        return fail(end, &place, "completed out of turn");
    end->recv_done++;
    return judge(end, &place, cqe);
}

/* From a shared queue a queue pair takes what is oldest, and completes it in that order. */
static bool judge_shared(struct uro_load_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = URO_LOAD_SRQ_NUMBER(cqe->wr_id);
    struct uro_load_srq *srq = uro_load_srq_of(end, URO_LOAD_SRQ_INDEX(cqe->wr_id));
    struct uro_load_srq_recv *recv = uro_load_srq_find(srq, number);
    const struct place place = { .number = number,
                                 .recv = recv != NULL ? &recv->recv : NULL,
                                 .arena = &srq->arena,
                                 .slot = recv != NULL ? (uint32_t)(recv - srq->recvs) : 0,
                                 .srq = srq };

    if (end->pair->plan->xrc ? !srq->plan->xrc : end->srq != srq)
        return fail(end, &place, "is of a queue that this queue pair does not use");
    if (recv == NULL)
        return fail(end, &place, "completed twice, or was never posted");
    if (number >= uro_load_srq_oldest(srq))
        return fail(end, &place, "completed and is still in its queue");
    if (number < end->shared_next[srq->index])
        return fail(end, &place, "completed after one that was taken later");
    if (end->last_wqe && cqe->timestamp > end->last_wqe_at)
        return fail(end, &place, "completed after the last one was announced");
    end->shared_next[srq->index] = number + 1;
    bool sane = judge(end, &place, cqe);
    uro_load_srq_done(srq, recv);
    return sane;
}

bool uro_load_receive(struct uro_load_end *end, const struct uro_cqe *cqe)
{
    bool own = !end->pair->plan->xrc && end->srq == NULL;

    if (!(cqe->wr_id & URO_LOAD_SRQ_BIT) != own)
        return uro_load_judge_fail(end, "receive", cqe->wr_id, "is from another kind of queue");
    return own ? judge_own(end, cqe) : judge_shared(end, cqe);
}
