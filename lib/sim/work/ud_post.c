/* SPDX-License-Identifier: BSD-3-Clause */
/* ud_post.c - what parties write, and to whom; see ud.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "core/limits.h"
#include "sim/work/ud.h"

#define BAD_KEY    0x5a5a5a5au
#define NAME_ROOM  8u /* octets that tell one letter from another */
#define SHORT_ROOM (SIM_UD_GRH + 64u)
#define PRIVILEGED 0x80000000u

static bool in_error(const struct sim_ud_party *party)
{
    return party->ended || party->recv_failed || party->owner.fatal;
}

/* Somebody to write to. In the last life only whoever has a receive for it; NULL: nobody now. */
static struct sim_ud_party *addressee(const struct sim_ud_party *party, uint32_t first)
{
    struct sim_ud *ud = party->ud;

    for (uint32_t i = 0; i < ud->count; i++) {
        struct sim_ud_party *other = &ud->parties[(first + i) % ud->count];
        bool ready = other->last_life && other->alive && other->expected < other->recv_posted;
        if (!party->last_life ? other->qpn != 0 : ready)
            return other;
    }
    return NULL;
}

static bool can_send(const struct sim_ud_party *party)
{
    if (!party->alive || party->posted >= SIM_UD_OPS_MAX ||
        party->posted - party->confirmed >= party->plan->send_capacity)
        return false;
    if (in_error(party))
        return party->late_posts > 0 && !party->abrupt;
    return party->posted < party->sends && addressee(party, 0) != NULL;
}

static bool can_receive(const struct sim_ud_party *party)
{
    if (!party->alive || party->srq != NULL ||
        party->recv_posted - party->recv_done >= party->plan->recv_capacity)
        return false;
    return !in_error(party) || (party->late_posts > 0 && !party->abrupt);
}

static struct sim_ud_letter *new_letter(struct sim_ud *ud)
{
    if (ud->letter_count == ud->letter_room) {
        ud->letter_room = ud->letter_room * 2 + 256;
        ud->letters = realloc(ud->letters, ud->letter_room * sizeof *ud->letters);
        URO_ASSERT(ud->letters != NULL);
    }
    return &ud->letters[ud->letter_count++];
}

static uint32_t choose_length(struct sim_ud_party *party, enum sim_ud_fault fault)
{
    struct uro_rng *rng = &party->rng;

    if (fault == SIM_UD_TOO_LONG)
        return URO_PATH_MTU_MAX + 1;
    if (uro_rng_below(rng, 8) == 0)
        return URO_PATH_MTU_MAX;
    if (uro_rng_below(rng, 8) == 0)
        return party->plan->inject_share == 0 ? 0 : NAME_ROOM;
    return sim_world_between(rng, NAME_ROOM, party->plan->message_max);
}

static void write_letter(struct sim_ud_party *party, struct sim_ud_op *op)
{
    struct sim_ud *ud = party->ud;
    struct uro_rng *rng = &party->rng;
    const struct sim_plan_party *plan = party->plan;
    struct sim_ud_party *to = addressee(party, uro_rng_below(rng, ud->count));

    bool v6 = uro_rng_below(rng, 2) == 0;
    bool group = ud->load->plan->groups && !in_error(party) && uro_rng_below(rng, 3) == 0 &&
                 (!party->last_life || sim_ud_group_ready(ud, v6));

    if (to == NULL) /* late, into ERR */
        to = party;
    *op = (struct sim_ud_op){ .letter = ud->letter_count };
    if (!party->last_life && sim_world_chance(rng, plan->inject_share))
        op->fault = sim_world_between(rng, SIM_UD_BAD_QKEY, SIM_UD_FAULTS - 1);
    struct sim_ud_letter *letter = new_letter(ud);
    *letter = (struct sim_ud_letter){
        .from = party->number,
        .from_qpn = party->qpn,
        .to = to->number,
        .to_qpn = group ? URO_QPN_MULTICAST : to->qpn,
        .group = group,
        .qkey = op->fault == SIM_UD_BAD_QKEY ? to->qkey ^ 1 : to->qkey,
        .v6 = v6,
        .has_imm = uro_rng_below(rng, 2) == 0,
        .imm = uro_rng_u32(rng),
        .seed = uro_rng_u64(rng),
        .length = choose_length(party, op->fault),
        .deliverable = op->fault == SIM_UD_RIGHT,
    };
    if (party->last_life && group)
        sim_ud_group_expect(ud, v6);
    else if (party->last_life && !in_error(party))
        to->expected++;
    if (plan->signal_all || uro_rng_below(rng, 3) > 0 || party->posted + 1 == party->sends ||
        party->posted + 1 - party->signalled >= (plan->send_capacity + 1) / 2 || in_error(party))
        op->flags |= URO_SEND_SIGNALED;
    if (uro_rng_below(rng, 4) == 0)
        op->flags |= URO_SEND_SOLICITED;
    if (letter->length <= plan->inline_max && op->fault != SIM_UD_BAD_LKEY &&
        uro_rng_below(rng, 2) == 0)
        op->flags |= URO_SEND_INLINE;
    sim_memory_scatter(&op->layout, letter->length, plan->sges, rng);
}

/* The number of a handle of another protection domain, or of one that was destroyed. */
static uint32_t no_handle(struct sim_ud_party *party)
{
    const struct sim_ud_party *other =
        &party->ud->parties[uro_rng_below(&party->rng, party->ud->count)];

    if (sim_ud_pd(other) != sim_ud_pd(party) && other->alive && other->host == party->host)
        return uro_ah_number(&other->handles[0][0]);

    const struct uro_address address = sim_ud_address(party, true);
    struct uro_engine *engine = party->host->engine;
    struct uro_ah ah;
    uint32_t number;

    if (uro_engine_ah_create(engine, &ah, sim_ud_pd(party), &address,
                             party->ud->load->world->now) != 0) {
        sim_world_fail(party->ud->load->world, "no address handle can be made");
        return 0;
    }
    number = uro_ah_number(&ah);
    uro_engine_ah_destroy(engine, &ah);
    return number;
}

static void fill_wqe(struct sim_ud_party *party, const struct sim_ud_op *op, struct uro_wqe *wqe)
{
    const struct sim_ud_letter *letter = &party->ud->letters[op->letter];
    uint32_t slot = party->posted % party->plan->send_capacity;
    bool own = letter->qkey == party->qkey && uro_rng_below(&party->rng, 2) == 0;

    *wqe = (struct uro_wqe){ .wr_id = party->posted,
                             .imm = letter->imm,
                             .length = letter->length,
                             .opcode = letter->has_imm ? URO_WR_SEND_WITH_IMM : URO_WR_SEND,
                             .flags = op->flags };
    wqe->to.ah = uro_ah_number(letter->group ? &party->group_handles[letter->v6]
                                             : &party->handles[letter->to][letter->v6]);
    wqe->to.qpn = letter->to_qpn;
    wqe->qkey = own ? PRIVILEGED | uro_rng_u32(&party->rng) : letter->qkey;
    if (op->fault == SIM_UD_NO_HANDLE)
        wqe->to.ah = no_handle(party);
    if (op->fault == SIM_UD_UNSUPPORTED)
        wqe->opcode = URO_WR_RDMA_WRITE;
    if (op->flags & URO_SEND_INLINE) {
        sim_memory_fill(&party->memory, SIM_MEMORY_SENDS, slot, &op->layout, 0, 0);
        sim_memory_message((uint8_t *)wqe->sges, 0, letter->length, letter->seed);
        return;
    }
    sim_memory_fill(&party->memory, SIM_MEMORY_SENDS, slot, &op->layout, letter->length,
                    letter->seed);
    wqe->sge_count =
        (uint16_t)sim_memory_sges(&party->memory, SIM_MEMORY_SENDS, slot, &op->layout, wqe->sges);
    for (uint32_t i = 0; i < wqe->sge_count && op->fault == SIM_UD_BAD_LKEY; i++)
        wqe->sges[i].lkey ^= BAD_KEY;
}

static void post_sends(struct sim_ud_party *party)
{
    struct sim_world *world = party->ud->load->world;
    uint32_t batch = sim_world_between(&party->rng, 1, party->plan->batch_max);
    uint32_t count = 0;

    for (; count < batch && can_send(party); count++) {
        struct sim_ud_op *op = &party->ops[party->posted];
        struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(party->qp), count);
        if (wqe == NULL) {
            sim_world_fail(world, "UD qp 0x%06x: no room for a send", party->qpn);
            return;
        }
        write_letter(party, op);
        fill_wqe(party, op, wqe);
        if (in_error(party))
            party->late_posts--;
        sim_journal_note(world->journal, world->now,
                         "UD qp 0x%06x post send %u to 0x%06x length %u flags %x%s", party->qpn,
                         party->posted, wqe->to.qpn, wqe->length, op->flags,
                         op->fault != SIM_UD_RIGHT ? " WRONG" : "");
        party->posted++;
        if (op->flags & URO_SEND_SIGNALED || party->plan->signal_all)
            party->signalled = party->posted;
    }
    if (count > 0) {
        uro_wq_publish(uro_qp_send_queue(party->qp), count);
        uro_qp_ring(uro_engine_shard(party->host->engine), party->qp);
    }
}

/* From SQE back to RTS. */
static void resume(struct sim_ud_party *party)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS, .current_state = URO_QPS_SQE };
    struct sim_world *world = party->ud->load->world;
    int result = uro_engine_qp_modify(party->host->engine, party->qp, &attr,
                                      URO_ATTR_STATE | URO_ATTR_CUR_STATE, world->now);

    sim_journal_note(world->journal, world->now, "UD qp 0x%06x resumes", party->qpn);
    if (result != 0)
        sim_world_fail(world, "UD qp 0x%06x: SQE to RTS returned %d", party->qpn, result);
    party->stopped = false;
    party->flush_until = party->posted;
}

static struct sim_ud_party *of_poster(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_ud_party, poster);
}

static bool resumes(const struct sim_ud_party *party)
{
    return party->alive && party->stopped && uro_qp_state_now(party->qp) == URO_QPS_SQE;
}

static uro_time poster_next(const struct sim_node *node)
{
    const struct sim_ud_party *party = of_poster(node);
    uro_time next = can_send(party) ? party->post_at : URO_TIME_NEVER;

    return resumes(party) && party->resume_at < next ? party->resume_at : next;
}

static void poster_run(struct sim_node *node)
{
    struct sim_ud_party *party = of_poster(node);
    uro_time now = party->ud->load->world->now;

    if (resumes(party) && party->resume_at <= now)
        resume(party);
    if (!can_send(party) || party->post_at > now)
        return;
    post_sends(party);
    party->post_at = now + uro_rng_below(&party->rng, party->plan->post_wait_max + 1);
}

static struct sim_ud_party *of_receiver(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_ud_party, receiver);
}

static uro_time receiver_next(const struct sim_node *node)
{
    const struct sim_ud_party *party = of_receiver(node);
    return can_receive(party) ? party->receive_at : URO_TIME_NEVER;
}

static void fill_rqe(struct sim_ud_party *party, struct uro_rqe *rqe)
{
    const struct sim_plan_party *plan = party->plan;
    struct sim_rc_recv *recv = &party->recvs[party->recv_posted % SIM_UD_RECV_MAX];
    uint32_t slot = (uint32_t)(party->recv_posted % plan->recv_capacity);
    bool wrong = !party->last_life && sim_world_chance(&party->rng, plan->inject_share / 2);

    *recv = (struct sim_rc_recv){ .room = SIM_UD_GRH + URO_PATH_MTU_MAX };
    if (wrong && uro_rng_below(&party->rng, 2) == 0)
        recv->room = uro_rng_below(&party->rng, uro_rng_below(&party->rng, 2) == 0 ? recv->room + 1
                                                                                   : SHORT_ROOM);
    else
        recv->bad_lkey = wrong;
    sim_memory_scatter(&recv->layout, recv->room, plan->sges, &party->rng);
    sim_memory_fill(&party->memory, SIM_MEMORY_RECVS, slot, &recv->layout, 0, 0);
    rqe->wr_id = party->recv_posted | SIM_WORKLOAD_RECV_BIT;
    rqe->length = recv->room;
    rqe->sge_count =
        sim_memory_sges(&party->memory, SIM_MEMORY_RECVS, slot, &recv->layout, rqe->sges);
    for (uint32_t i = 0; i < rqe->sge_count && recv->bad_lkey; i++)
        rqe->sges[i].lkey ^= BAD_KEY;
}

static void receiver_run(struct sim_node *node)
{
    struct sim_ud_party *party = of_receiver(node);
    struct sim_world *world = party->ud->load->world;
    uint32_t batch = sim_world_between(&party->rng, 1, party->plan->batch_max);
    uint32_t count = 0;

    for (; count < batch && can_receive(party); count++) {
        struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(party->qp), count);
        if (rqe == NULL) {
            sim_world_fail(world, "UD qp 0x%06x: no room for a receive", party->qpn);
            return;
        }
        fill_rqe(party, rqe);
        party->recv_posted++;
        if (in_error(party))
            party->late_posts--;
    }
    uro_wq_publish(uro_qp_recv_queue(party->qp), count);
    if (uro_qp_state_now(party->qp) == URO_QPS_ERR)
        uro_qp_ring(uro_engine_shard(party->host->engine), party->qp);
    sim_journal_note(world->journal, world->now, "UD qp 0x%06x post receives up to %" PRIu64,
                     party->qpn, party->recv_posted);
    party->receive_at = world->now + uro_rng_below(&party->rng, party->plan->recv_wait_max + 1);
}

void sim_ud_post_init(struct sim_ud_party *party)
{
    party->poster = (struct sim_node){ NULL, poster_next, poster_run };
    party->receiver = (struct sim_node){ NULL, receiver_next, receiver_run };
    sim_world_add(party->ud->load->world, &party->receiver);
    sim_world_add(party->ud->load->world, &party->poster);
}
