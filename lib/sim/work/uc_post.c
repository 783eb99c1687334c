/* SPDX-License-Identifier: BSD-3-Clause */
/* uc_post.c - what the ends of an unreliable connection ask for; see uc.h. */
#include <inttypes.h>
#include <string.h>

#include "sim/work/uc.h"

#define BAD_KEY   0x5a5a5a5au
#define NAME_ROOM 8u /* octets that tell one message from another */

bool sim_uc_takes(const struct sim_uc_op *op)
{
    return op->opcode != URO_WR_RDMA_WRITE;
}

uint32_t sim_uc_packets(const struct sim_uc_end *end, const struct sim_uc_op *op)
{
    uint32_t mtu = end->uc->plan->path_mtu;

    return op->length == 0 ? 1 : (op->length + mtu - 1) / mtu;
}

static bool in_error(const struct sim_uc_end *end)
{
    return end->ended || end->recv_failed || end->owner.fatal;
}

/* In the last life nothing is sent that would find no receive. */
static bool can_send(const struct sim_uc_end *end)
{
    const struct sim_uc *uc = end->uc;

    if (!end->alive || end->posted >= SIM_UC_OPS_MAX ||
        end->posted - end->confirmed >= uc->plan->send_capacity)
        return false;
    if (in_error(end))
        return end->late_posts > 0 && !uc->abrupt;
    return end->posted < end->sends && (!uc->last_life || end->takes < end->peer->recv_posted);
}

static bool can_receive(const struct sim_uc_end *end)
{
    if (!end->alive || end->srq != NULL ||
        end->recv_posted - end->recv_done >= end->uc->plan->recv_capacity)
        return false;
    return !in_error(end) || (end->late_posts > 0 && !end->uc->abrupt);
}

static void choose(struct sim_uc_end *end, struct sim_uc_op *op)
{
    static const uint8_t opcodes[] = { URO_WR_SEND, URO_WR_SEND_WITH_IMM, URO_WR_RDMA_WRITE,
                                       URO_WR_RDMA_WRITE_WITH_IMM };
    const struct sim_plan_uc *plan = end->uc->plan;
    struct uro_rng *rng = &end->rng;

    *op = (struct sim_uc_op){ .opcode = opcodes[uro_rng_below(rng, 4)],
                              .imm = uro_rng_u32(rng),
                              .seed = uro_rng_u64(rng),
                              .length = uro_rng_below(rng, plan->message_max + 1) };
    if (uro_rng_below(rng, 4) == 0)
        op->length = plan->path_mtu * uro_rng_below(rng, plan->message_max / plan->path_mtu + 1);
    if (!end->uc->last_life && sim_world_chance(rng, plan->inject_share)) {
        op->fault = sim_world_between(rng, SIM_UC_BAD_RKEY, SIM_UC_UNSUPPORTED);
        if (op->fault == SIM_UC_BAD_RKEY && op->opcode != URO_WR_RDMA_WRITE)
            op->opcode = URO_WR_RDMA_WRITE_WITH_IMM;
    }
    if (op->length < NAME_ROOM && op->opcode == URO_WR_SEND && plan->inject_share > 0)
        op->length = NAME_ROOM; /* or nobody could say which one was flushed */
    if (op->length == 0 && op->fault != SIM_UC_UNSUPPORTED)
        op->fault = SIM_UC_RIGHT;
    op->at = uro_rng_below(rng, SIM_MEMORY_GUARD);
    if (plan->signal_all || uro_rng_below(rng, 3) > 0 || end->posted + 1 == end->sends ||
        end->posted + 1 - end->signalled >= (plan->send_capacity + 1) / 2 || in_error(end))
        op->flags |= URO_SEND_SIGNALED;
    if (uro_rng_below(rng, 4) == 0)
        op->flags |= URO_SEND_SOLICITED;
    if (op->length <= plan->inline_max && op->fault == SIM_UC_RIGHT && uro_rng_below(rng, 2) == 0)
        op->flags |= URO_SEND_INLINE;
    sim_memory_scatter(&op->layout, op->length, plan->sges, rng);
}

static void fill_wqe(struct sim_uc_end *end, const struct sim_uc_op *op, struct uro_wqe *wqe)
{
    uint32_t slot = end->posted % end->uc->plan->send_capacity;
    const struct sim_memory *there = &end->peer->memory;

    *wqe = (struct uro_wqe){ .wr_id = end->posted,
                             .imm = op->imm,
                             .length = op->length,
                             .opcode = op->opcode,
                             .flags = op->flags };
    if (op->fault == SIM_UC_UNSUPPORTED)
        wqe->opcode = URO_WR_RDMA_READ;
    wqe->remote_address = sim_memory_address(there, SIM_MEMORY_WINDOWS, end->posted) + op->at;
    wqe->rkey = uro_key_number(&there->keys[SIM_MEMORY_WINDOWS]);
    if (op->fault == SIM_UC_BAD_RKEY)
        wqe->rkey ^= BAD_KEY;
    if (op->flags & URO_SEND_INLINE) {
        sim_memory_fill(&end->memory, SIM_MEMORY_SENDS, slot, &op->layout, 0, 0);
        sim_memory_message((uint8_t *)wqe->sges, 0, op->length, op->seed);
        return;
    }
    sim_memory_fill(&end->memory, SIM_MEMORY_SENDS, slot, &op->layout, op->length, op->seed);
    wqe->sge_count =
        (uint16_t)sim_memory_sges(&end->memory, SIM_MEMORY_SENDS, slot, &op->layout, wqe->sges);
    for (uint32_t i = 0; i < wqe->sge_count && op->fault == SIM_UC_BAD_LKEY; i++)
        wqe->sges[i].lkey ^= BAD_KEY;
}

static void post_sends(struct sim_uc_end *end)
{
    struct sim_world *world = end->uc->load->world;
    uint32_t batch = sim_world_between(&end->rng, 1, end->uc->plan->batch_max);
    uint32_t count = 0;

    for (; count < batch && can_send(end); count++) {
        struct sim_uc_op *op = &end->ops[end->posted];
        struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(end->qp), count);
        if (wqe == NULL) {
            sim_world_fail(world, "UC qp 0x%06x: no room for a send", end->qpn);
            return;
        }
        choose(end, op);
        fill_wqe(end, op, wqe);
        if (in_error(end))
            end->late_posts--;
        sim_journal_note(world->journal, world->now,
                         "UC qp 0x%06x post send %u opcode %u length %u flags %x%s", end->qpn,
                         end->posted, op->opcode, op->length, op->flags,
                         op->fault != SIM_UC_RIGHT ? " WRONG" : "");
        end->posted++;
        end->takes += sim_uc_takes(op);
        if (op->flags & URO_SEND_SIGNALED || end->uc->plan->signal_all)
            end->signalled = end->posted;
    }
    if (count > 0) {
        uro_wq_publish(uro_qp_send_queue(end->qp), count);
        uro_qp_ring(uro_engine_shard(end->host->engine), end->qp);
    }
}

/* From SQE back to RTS. */
static void resume(struct sim_uc_end *end)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS, .current_state = URO_QPS_SQE };
    struct sim_world *world = end->uc->load->world;
    int result = uro_engine_qp_modify(end->host->engine, end->qp, &attr,
                                      URO_ATTR_STATE | URO_ATTR_CUR_STATE, world->now);

    sim_journal_note(world->journal, world->now, "UC qp 0x%06x resumes", end->qpn);
    if (result != 0)
        sim_world_fail(world, "UC qp 0x%06x: SQE to RTS returned %d", end->qpn, result);
    end->stopped = false;
    end->flush_until = end->posted;
}

static struct sim_uc_end *of_poster(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_uc_end, poster);
}

static bool resumes(const struct sim_uc_end *end)
{
    return end->alive && end->stopped && uro_qp_state_now(end->qp) == URO_QPS_SQE;
}

static uro_time poster_next(const struct sim_node *node)
{
    const struct sim_uc_end *end = of_poster(node);
    uro_time next = can_send(end) ? end->post_at : URO_TIME_NEVER;

    return resumes(end) && end->resume_at < next ? end->resume_at : next;
}

static void poster_run(struct sim_node *node)
{
    struct sim_uc_end *end = of_poster(node);
    uro_time now = end->uc->load->world->now;

    if (resumes(end) && end->resume_at <= now)
        resume(end);
    if (!can_send(end) || end->post_at > now)
        return;
    post_sends(end);
    end->post_at = now + uro_rng_below(&end->rng, end->uc->plan->post_wait_max + 1);
}

static struct sim_uc_end *of_receiver(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_uc_end, receiver);
}

static uro_time receiver_next(const struct sim_node *node)
{
    const struct sim_uc_end *end = of_receiver(node);
    return can_receive(end) ? end->receive_at : URO_TIME_NEVER;
}

static void fill_rqe(struct sim_uc_end *end, struct uro_rqe *rqe)
{
    const struct sim_plan_uc *plan = end->uc->plan;
    struct sim_rc_recv *recv = &end->recvs[end->recv_posted % SIM_UC_RECV_MAX];
    uint32_t slot = (uint32_t)(end->recv_posted % plan->recv_capacity);
    bool wrong = !end->uc->last_life && sim_world_chance(&end->rng, plan->inject_share / 2);

    *recv = (struct sim_rc_recv){ .room = plan->message_max };
    if (wrong && uro_rng_below(&end->rng, 2) == 0)
        recv->room = uro_rng_below(&end->rng, recv->room + 1);
    else
        recv->bad_lkey = wrong;
    sim_memory_scatter(&recv->layout, recv->room, plan->sges, &end->rng);
    sim_memory_fill(&end->memory, SIM_MEMORY_RECVS, slot, &recv->layout, 0, 0);
    rqe->wr_id = end->recv_posted | SIM_WORKLOAD_RECV_BIT;
    rqe->length = recv->room;
    rqe->sge_count =
        sim_memory_sges(&end->memory, SIM_MEMORY_RECVS, slot, &recv->layout, rqe->sges);
    for (uint32_t i = 0; i < rqe->sge_count && recv->bad_lkey; i++)
        rqe->sges[i].lkey ^= BAD_KEY;
}

static void receiver_run(struct sim_node *node)
{
    struct sim_uc_end *end = of_receiver(node);
    struct sim_world *world = end->uc->load->world;
    uint32_t batch = sim_world_between(&end->rng, 1, end->uc->plan->batch_max);
    uint32_t count = 0;

    for (; count < batch && can_receive(end); count++) {
        struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(end->qp), count);
        if (rqe == NULL) {
            sim_world_fail(world, "UC qp 0x%06x: no room for a receive", end->qpn);
            return;
        }
        fill_rqe(end, rqe);
        end->recv_posted++;
        if (in_error(end))
            end->late_posts--;
    }
    uro_wq_publish(uro_qp_recv_queue(end->qp), count);
    if (uro_qp_state_now(end->qp) == URO_QPS_ERR)
        uro_qp_ring(uro_engine_shard(end->host->engine), end->qp);
    sim_journal_note(world->journal, world->now, "UC qp 0x%06x post receives up to %" PRIu64,
                     end->qpn, end->recv_posted);
    end->receive_at = world->now + uro_rng_below(&end->rng, end->uc->plan->recv_wait_max + 1);
}

void sim_uc_post_init(struct sim_uc_end *end)
{
    end->poster = (struct sim_node){ NULL, poster_next, poster_run };
    end->receiver = (struct sim_node){ NULL, receiver_next, receiver_run };
    sim_world_add(end->uc->load->world, &end->receiver);
    sim_world_add(end->uc->load->world, &end->poster);
}
