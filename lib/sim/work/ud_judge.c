/* SPDX-License-Identifier: BSD-3-Clause */
/* ud_judge.c - completions and frames of datagrams; see ud.h. */
#include <inttypes.h>
#include <string.h>

#include "core/limits.h"
#include "core/psn.h"
#include "sim/work/tight.h"
#include "sim/work/ud.h"

#define ROOM_MAX (5u * URO_PATH_MTU_MAX) /* of a receive, shared ones included */

static void fail(const struct sim_ud_party *party, const char *kind, uint64_t number,
                 const char *what)
{
    sim_world_fail(party->ud->load->world, "UD party %u qp 0x%06x %s %" PRIu64 ": %s",
                   party->number, party->qpn, kind, number, what);
}

static struct sim_ud_letter *letter_of(const struct sim_ud_party *party, uint32_t number)
{
    return &party->ud->letters[party->ops[number].letter];
}

static bool is_local(const struct sim_ud *ud, const struct sim_ud_letter *letter)
{
    return !letter->group && ud->parties[letter->from].host == ud->parties[letter->to].host;
}

static struct uro_gid dest_of(const struct sim_ud *ud, const struct sim_ud_letter *letter)
{
    return letter->group ? sim_ud_group(ud, letter->v6).dest
                         : sim_ud_address(&ud->parties[letter->to], letter->v6).dest;
}

/* Whether nothing of the request is ever sent. */
static bool stops(const struct sim_ud_op *op)
{
    return op->fault >= SIM_UD_BAD_LKEY;
}

static bool holds(const uint8_t *octets, uint32_t length, uint64_t seed)
{
    uint8_t message[URO_PATH_MTU_MAX];

    sim_memory_message(message, 0, length, seed);
    return memcmp(octets, message, length) == 0;
}

/* ---- frames ------------------------------------------------------------------------------------ */

static bool is_frame(const struct sim_ud_party *party, uint32_t number,
                     const struct uro_frame *frame)
{
    const struct sim_ud_letter *letter = letter_of(party, number);
    const struct uro_gid dest = dest_of(party->ud, letter);

    return frame->bth.dest_qpn == letter->to_qpn && frame->deth.qkey == letter->qkey &&
           frame->payload_length == letter->length && uro_gid_equal(&frame->ip.dest, &dest) &&
           !(frame->op->ext & URO_EXT_IMM) == !letter->has_imm &&
           (!letter->has_imm || frame->imm == letter->imm) &&
           holds(frame->payload, frame->payload_length, letter->seed);
}

static void check_frame(struct sim_ud_party *party, const struct uro_frame *frame)
{
    if (uro_psn_diff(uro_psn_make(frame->bth.psn), uro_psn_make(party->wire_psn)) < 0)
        fail(party, "frame", frame->bth.psn, "has a PSN that was used");
    party->wire_psn = (frame->bth.psn + 1) & URO_PSN_MASK;
    if (party->pause.drained)
        fail(party, "frame", frame->bth.psn, "is sent in SQD after SQ_DRAINED");
    for (; party->wire_op < party->posted; party->wire_op++) {
        struct sim_ud_op *op = &party->ops[party->wire_op];
        if (stops(op) || !is_frame(party, party->wire_op, frame))
            continue; /* it stayed in the machine, or it was flushed: then it must complete so */
        op->sent = true;
        if (op->flushed)
            fail(party, "send", party->wire_op, "was flushed and is sent after that");
        if (!frame->bth.solicited != !(op->flags & URO_SEND_SOLICITED) || frame->bth.ack_req)
            fail(party, "frame", frame->bth.psn, "has wrong bits");
        party->wire_op++;
        return;
    }
    fail(party, "frame", frame->bth.psn, "is not the next of what was asked for");
}

bool sim_ud_wire(struct sim_ud *ud, struct sim_host *host, const struct uro_frame *frame)
{
    if (uro_gid_equal(&frame->ip.source, &frame->ip.dest))
        return true; /* between two of one host: out of order with what goes over the cable */
    for (uint32_t i = 0; i < ud->count; i++) {
        struct sim_ud_party *party = &ud->parties[i];
        if (party->host != host || !party->alive || party->qpn != frame->deth.source_qpn)
            continue;
        check_frame(party, frame);
        return true;
    }
    return false;
}

/* ---- sends ------------------------------------------------------------------------------------- */

static void confirm(struct sim_ud_party *party, uint32_t number)
{
    const struct sim_ud_op *op = &party->ops[number];
    const struct sim_ud_letter *letter = letter_of(party, number);
    uint32_t slot = number % party->plan->send_capacity;
    bool filled = !(op->flags & URO_SEND_INLINE);
    uint32_t at;

    if (stops(op))
        fail(party, "send", number, "succeeded although it was wrong");
    else if (!op->sent && !is_local(party->ud, letter) && !sim_workload_swallows(party->host))
        fail(party, "send", number, "succeeded and was not sent");
    else if (!sim_memory_check(&party->memory, SIM_MEMORY_SENDS, slot, &op->layout,
                               filled ? letter->length : 0, letter->seed, &at))
        fail(party, "send", number, "changed its buffer");
    party->ud->load->ops_done++;
}

static void judge_failed(struct sim_ud_party *party, uint32_t number, const struct uro_cqe *cqe)
{
    static const uint8_t due[SIM_UD_FAULTS] = {
        [SIM_UD_BAD_LKEY] = URO_WC_LOC_PROT_ERR,
        [SIM_UD_UNSUPPORTED] = URO_WC_LOC_QP_OP_ERR,
        [SIM_UD_NO_HANDLE] = URO_WC_LOC_QP_OP_ERR,
        [SIM_UD_TOO_LONG] = URO_WC_LOC_LEN_ERR,
    };
    struct sim_workload *load = party->ud->load;
    enum uro_qp_state state = uro_qp_state_now(party->qp);

    if (!stops(&party->ops[number]) || cqe->status != due[party->ops[number].fault] ||
        cqe->vendor_error == 0)
        fail(party, "send", number, "failed otherwise than it must");
    else if (state != URO_QPS_SQE && state != URO_QPS_ERR)
        fail(party, "send", number, "failed and did not stop the queue");
    party->stopped = true;
    party->resume_at =
        load->world->now + uro_rng_below(&party->rng, party->plan->resume_wait_max + 1);
    load->failures++;
}

static void judge_send(struct sim_ud_party *party, const struct uro_cqe *cqe)
{
    uint32_t number = (uint32_t)cqe->wr_id;
    bool all = party->plan->signal_all;

    if (number < party->confirmed || number >= party->posted) {
        fail(party, "send", number, "completed twice, or was never posted");
        return;
    }
    for (; party->confirmed < number; party->confirmed++) {
        if (party->ops[party->confirmed].flags & URO_SEND_SIGNALED || all)
            fail(party, "send", party->confirmed, "did not complete before the one after it");
        confirm(party, party->confirmed);
    }
    struct sim_ud_op *op = &party->ops[number];
    party->confirmed++;
    if (cqe->status == URO_WC_WR_FLUSH_ERR) {
        if (!party->ended && !party->recv_failed && !party->owner.fatal && !party->stopped &&
            number >= party->flush_until && uro_qp_state_now(party->qp) != URO_QPS_ERR)
            fail(party, "send", number, "flushed without cause");
        op->flushed = true;
    } else if (cqe->status != URO_WC_SUCCESS) {
        judge_failed(party, number, cqe);
    } else if (!(op->flags & URO_SEND_SIGNALED) && !all) {
        fail(party, "send", number, "completed but was not signalled");
    } else if (cqe->opcode != URO_WC_SEND) {
        fail(party, "send", number, "completed with the opcode of another operation");
    } else {
        confirm(party, number);
    }
}

void sim_ud_judge_silent(struct sim_ud_party *party)
{
    for (; party->confirmed < party->posted; party->confirmed++) {
        if (party->ops[party->confirmed].flags & URO_SEND_SIGNALED || party->plan->signal_all)
            fail(party, "send", party->confirmed, "never completed");
        else
            confirm(party, party->confirmed);
    }
}

/* ---- receives ---------------------------------------------------------------------------------- */

/* How often a letter may come: as often as the network makes copies of it. */
static uint32_t copies(const struct sim_ud_party *to, const struct sim_ud_letter *letter)
{
    const struct sim_ud_party *from = &to->ud->parties[letter->from];
    uint32_t side = from->plan->side;

    return from->host != to->host && to->ud->load->plan->cables[side].duplicate > 0 ? 2 : 1;
}

static bool is_to(const struct sim_ud_letter *letter, const struct sim_ud_party *party)
{
    if (letter->group)
        return party->is_member[letter->v6];
    return letter->to_qpn == party->qpn && letter->to == party->number;
}

/* The IP header as it came; an IPv4 one in the second half. */
static bool is_grh(const struct sim_ud_letter *letter, const struct sim_ud *ud, const uint8_t *grh)
{
    const struct uro_gid from = sim_ud_address(&ud->parties[letter->from], letter->v6).dest;
    const struct uro_gid to = dest_of(ud, letter);

    if (letter->v6)
        return grh[0] >> 4 == 6 && memcmp(grh + 8, from.octets, sizeof from.octets) == 0 &&
               memcmp(grh + 24, to.octets, sizeof to.octets) == 0;
    return grh[20] == 0x45 && memcmp(grh + 32, from.octets + 12, 4) == 0 &&
           memcmp(grh + 36, to.octets + 12, 4) == 0;
}

static bool could_be(const struct sim_ud_party *party, const struct sim_ud_letter *letter,
                     const struct uro_cqe *cqe, const uint8_t *octets)
{
    return letter->deliverable && letter->from_qpn == cqe->source_qpn && is_to(letter, party) &&
           letter->taken[party->number] < copies(party, letter) &&
           cqe->byte_len == SIM_UD_GRH + letter->length &&
           !(cqe->flags & URO_WC_WITH_IMM) == !letter->has_imm &&
           (!letter->has_imm || cqe->imm == letter->imm) && is_grh(letter, party->ud, octets) &&
           holds(octets + SIM_UD_GRH, letter->length, letter->seed);
}

/* A receive and where its octets are. */
struct place {
    uint64_t number;
    const struct sim_rc_recv *recv;
    struct sim_memory *memory;
    uint32_t slot;
};

static void judge_letter(struct sim_ud_party *party, const struct place *place,
                         const struct uro_cqe *cqe)
{
    const struct sim_rc_recv *recv = place->recv;
    uint8_t octets[ROOM_MAX];

    if (cqe->opcode != URO_WC_RECV || !(cqe->flags & URO_WC_GRH) || cqe->byte_len > recv->room ||
        cqe->byte_len < SIM_UD_GRH) {
        fail(party, "receive", place->number, "does not look like a datagram");
        return;
    }
    URO_ASSERT(recv->room <= sizeof octets);
    sim_memory_gather(place->memory, SIM_MEMORY_RECVS, place->slot, &recv->layout, octets);
    for (uint32_t i = cqe->byte_len; i < recv->room; i++)
        if (octets[i] != SIM_MEMORY_CANARY)
            fail(party, "receive", place->number, "was written to behind the datagram");
    for (uint32_t i = party->ud->letter_count; i-- > 0;) {
        if (!could_be(party, &party->ud->letters[i], cqe, octets))
            continue;
        party->ud->letters[i].taken[party->number]++;
        party->taken++;
        return;
    }
    fail(party, "receive", place->number, "is none of what was written and can come now");
}

static void judge_place(struct sim_ud_party *party, const struct place *place,
                        const struct uro_cqe *cqe)
{
    const struct sim_memory_layout *layout = &place->recv->layout;
    uint32_t at;

    if (!sim_memory_check_around(place->memory, SIM_MEMORY_RECVS, place->slot, layout, &at))
        fail(party, "receive", place->number, "changed memory beside its elements");
    if (cqe->status == URO_WC_SUCCESS && !party->recv_failed) {
        judge_letter(party, place, cqe);
    } else if (cqe->status == URO_WC_WR_FLUSH_ERR) {
        if (!party->ended && !party->recv_failed && !party->owner.fatal)
            fail(party, "receive", place->number, "flushed without cause");
        if (!sim_memory_check(place->memory, SIM_MEMORY_RECVS, place->slot, layout, 0, 0, &at))
            fail(party, "receive", place->number, "was flushed and has changed");
    } else {
        if (cqe->status != URO_WC_LOC_PROT_ERR || !place->recv->bad_lkey || party->recv_failed)
            fail(party, "receive", place->number,
                 "failed without cause, or succeeded after one that did");
        party->recv_failed = true;
        party->ud->load->failures++;
    }
}

static void judge_recv(struct sim_ud_party *party, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id & ~SIM_WORKLOAD_RECV_BIT;
    const struct place place = { .number = number,
                                 .recv = &party->recvs[number % SIM_UD_RECV_MAX],
                                 .memory = &party->memory,
                                 .slot = (uint32_t)(number % party->plan->recv_capacity) };

    if (number != party->recv_done || number >= party->recv_posted) {
        fail(party, "receive", number, "completed out of turn");
        return;
    }
    party->recv_done++;
    judge_place(party, &place, cqe);
}

/* A datagram takes a receive and completes it at once: nobody loses one. */
static void judge_shared(struct sim_ud_party *party, const struct uro_cqe *cqe)
{
    struct sim_srq_recv *recv = sim_srq_completed(party->srq, cqe, &party->shared_next);

    if (recv == NULL)
        return;
    const struct place place = { .number = recv->number,
                                 .recv = &recv->recv,
                                 .memory = &party->srq->memory,
                                 .slot = (uint32_t)(recv - party->srq->recvs) };
    judge_place(party, &place, cqe);
    sim_srq_done(party->srq, recv);
}

void sim_ud_judge(struct sim_ud_party *party, const struct uro_cq *cq, const struct uro_cqe *cqe)
{
    bool receive = cqe->wr_id & SIM_WORKLOAD_RECV_BIT;

    if (!party->alive || cqe->qpn != party->qpn)
        fail(party, "completion", cqe->wr_id, "is of a queue pair that is no more");
    else if (cq != (receive ? party->owner.recv_cq : party->owner.send_cq))
        fail(party, "completion", cqe->wr_id, "is in a foreign CQ");
    else if (receive && party->srq != NULL)
        judge_shared(party, cqe);
    else if (receive)
        judge_recv(party, cqe);
    else
        judge_send(party, cqe);
}

void sim_ud_judge_lost(const struct sim_ud_party *party)
{
    bool wild = party->srq != NULL && party->srq->plan->wild;
    struct sim_tight_due due = { .fatal =
                                     !party->ended && !wild && party->plan->inject_share == 0 };

    if (!party->alive || !sim_tight_uses(party->ud->load, &party->owner))
        return;
    for (uint32_t i = party->confirmed; i < uro_wq_head(uro_qp_send_queue(party->qp)); i++)
        due.sends += party->ops[i].flags & URO_SEND_SIGNALED || party->plan->signal_all;
    if (party->srq == NULL)
        due.receives = uro_wq_head(uro_qp_recv_queue(party->qp)) - (uint32_t)party->recv_done;
    sim_tight_check(party->ud->load, &party->owner, party->qp, &due);
}
