/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_post.c - posts sends and receives as an application would; see workload.h. */
#include <inttypes.h>
#include <string.h>

#include "core/psn.h"
#include "sim/work/workload.h"

#define BAD_KEY      0x5a5a5a5au
#define NO_OPERATION 12u /* a value of no work request */

static struct sim_rc_end *end_of_poster(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_rc_end, poster);
}

static struct sim_rc_end *end_of_receiver(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_rc_end, receiver);
}

static bool in_error(const struct sim_rc_end *end)
{
    return end->ended || end->send_failed || end->recv_failed;
}

bool sim_rc_post_can_send(const struct sim_rc_end *end)
{
    if (!end->alive || end->type == URO_QPT_XRC_TGT ||
        end->posted - end->confirmed >= end->plan->send_capacity || end->blocked)
        return false;
    if (in_error(end))
        return end->late_posts > 0 && !end->pair->abrupt;
    return end->sends_left > 0;
}

static bool can_receive(const struct sim_rc_end *end)
{
    if (!end->alive || end->type != URO_QPT_RC || end->srq != NULL)
        return false;
    if (end->recv_posted - end->recv_done >= end->plan->recv_capacity)
        return false;
    return !in_error(end) || (end->late_posts > 0 && !end->pair->abrupt);
}

static void fill_wqe(struct sim_rc_end *end, const struct sim_rc_op *op, struct uro_wqe *wqe)
{
    uint32_t slot = (uint32_t)(op->number % end->plan->send_capacity);
    bool reads = op->opcode == URO_WR_RDMA_READ || op->opcode == URO_WR_ATOMIC_CMP_AND_SWP ||
                 op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
    bool is_inline = op->flags & URO_SEND_INLINE;
    bool windows = op->opcode == URO_WR_BIND_MW || op->opcode == URO_WR_LOCAL_INV ||
                   op->opcode == URO_WR_SEND_WITH_INV;

    wqe->wr_id = op->number;
    wqe->remote_address = op->remote_address;
    wqe->compare_add = op->compare_add;
    wqe->swap = op->swap;
    wqe->rkey = op->rkey;
    wqe->imm = op->imm;
    wqe->length = op->length;
    wqe->opcode = op->inject == SIM_WORKLOAD_UNSUPPORTED ? NO_OPERATION : op->opcode;
    wqe->flags = op->flags;
    wqe->psn_count = 0;
    if (op->opcode == URO_WR_FLUSH)
        wqe->flush = op->flush;
    if (windows)
        sim_rc_window_fill(end, op, wqe);
    if (end->type == URO_QPT_XRC_INI)
        wqe->xrc_srqn = op->srqn;
    wqe->status = 0;
    /* Inline octets are nowhere but in the request; what is read into starts as canary. */
    sim_memory_fill(&end->memory, SIM_MEMORY_SENDS, slot, &op->layout,
                    reads || is_inline ? 0 : op->length, op->seed);
    if (is_inline) {
        wqe->sge_count = 0;
        sim_memory_message((uint8_t *)wqe->sges, 0, op->length, op->seed);
        return;
    }
    wqe->sge_count =
        (uint16_t)sim_memory_sges(&end->memory, SIM_MEMORY_SENDS, slot, &op->layout, wqe->sges);
    for (uint32_t i = 0; i < wqe->sge_count && op->inject == SIM_WORKLOAD_BAD_LKEY; i++) {
        if (wqe->sges[i].length > 0) {
            wqe->sges[i].lkey ^= BAD_KEY;
            break;
        }
    }
}

/* What the peer has to take because of this request. */
static void announce(struct sim_rc_end *end, struct sim_rc_op *op)
{
    bool write = op->opcode == URO_WR_RDMA_WRITE_WITH_IMM;
    bool has_imm = write || op->opcode == URO_WR_SEND_WITH_IMM;

    bool has_inv = op->opcode == URO_WR_SEND_WITH_INV;

    if (op->opcode != URO_WR_SEND && !has_imm && !has_inv)
        return;
    op->message = end->messages_sent;
    if (write)
        end->windows[op->window].users++;
    end->messages[end->messages_sent++ % SIM_WORKLOAD_MESSAGES_MAX] =
        (struct sim_rc_message){ .write = write,
                                 .has_imm = has_imm,
                                 .has_inv = has_inv,
                                 .solicited = op->flags & URO_SEND_SOLICITED,
                                 .imm = has_inv ? op->inv_rkey : op->imm,
                                 .length = op->length,
                                 .seed = op->seed,
                                 .window = op->window,
                                 .at = op->at,
                                 .srq = op->srq };
}

static void give_psns(struct sim_rc_end *end, struct sim_rc_op *op)
{
    uint32_t mtu = end->pair->plan->path_mtu;
    bool local = op->opcode == URO_WR_BIND_MW || op->opcode == URO_WR_LOCAL_INV;
    bool one = op->opcode == URO_WR_ATOMIC_CMP_AND_SWP ||
               op->opcode == URO_WR_ATOMIC_FETCH_AND_ADD || op->opcode == URO_WR_ATOMIC_WRITE ||
               op->opcode == URO_WR_FLUSH || op->length == 0;

    op->psn = end->psn;
    op->psns = one ? 1 : (op->length + mtu - 1) / mtu;
    if (local)
        op->psns = 0;
    op->remote_number = end->remote;
    end->remote += !local;
    end->psn = (end->psn + op->psns) & URO_PSN_MASK;
}

static bool post_one(struct sim_rc_end *end, uint32_t ahead)
{
    struct sim_world *world = end->load->world;
    struct sim_rc_op op;

    if (!sim_rc_choose_op(end, &op)) {
        end->blocked = true;
        return false;
    }
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(end->qp), ahead);
    if (wqe == NULL) {
        sim_world_fail(world, "qp 0x%06x: no room for a send although %" PRIu64 " of %u are done",
                       uro_qp_number(end->qp), end->posted - end->confirmed,
                       end->plan->send_capacity);
        return false;
    }
    give_psns(end, &op);
    announce(end, &op);
    fill_wqe(end, &op, wqe);
    end->ops[op.number % SIM_WORKLOAD_OPS_MAX] = op;
    end->posted++;
    if (op.flags & URO_SEND_SIGNALED || end->plan->signal_all)
        end->signalled = end->posted;
    if (in_error(end))
        end->late_posts--;
    else
        end->sends_left--;
    sim_journal_note(world->journal, world->now,
                     "qp 0x%06x post send %" PRIu64 " opcode %u length %u flags %x%s",
                     uro_qp_number(end->qp), op.number, op.opcode, op.length, op.flags,
                     op.inject != SIM_WORKLOAD_RIGHT ? " WRONG" : "");
    return true;
}

static uro_time poster_next(const struct sim_node *node)
{
    const struct sim_rc_end *end = end_of_poster(node);
    return sim_rc_post_can_send(end) ? end->post_at : URO_TIME_NEVER;
}

static void poster_run(struct sim_node *node)
{
    struct sim_rc_end *end = end_of_poster(node);
    uint32_t batch = sim_world_between(&end->rng, 1, end->plan->batch_max);
    uint32_t count = 0;

    while (count < batch && sim_rc_post_can_send(end) && post_one(end, count))
        count++;
    if (count > 0) {
        uro_wq_publish(uro_qp_send_queue(end->qp), count);
        uro_qp_ring(uro_engine_shard(end->host->engine), end->qp);
    }
    end->post_at = end->load->world->now + uro_rng_below(&end->rng, end->plan->post_wait_max + 1);
}

static void fill_rqe(struct sim_rc_end *end, struct uro_rqe *rqe)
{
    const struct sim_rc *pair = end->pair;
    struct sim_rc_recv *recv = &end->recvs[end->recv_posted % SIM_WORKLOAD_OPS_MAX];
    uint32_t slot = (uint32_t)(end->recv_posted % end->plan->recv_capacity);
    bool wrong = !pair->last_life && !end->load->calm &&
                 sim_world_chance(&end->rng, pair->plan->inject_share / 2);

    *recv = (struct sim_rc_recv){ .room = pair->plan->message_max };
    if (wrong && uro_rng_below(&end->rng, 2) == 0)
        recv->room = uro_rng_below(&end->rng, recv->room + 1);
    else
        recv->bad_lkey = wrong;
    end->pair->may_fail |= wrong;

    sim_memory_scatter(&recv->layout, recv->room, end->plan->recv_sges, &end->rng);
    sim_memory_fill(&end->memory, SIM_MEMORY_RECVS, slot, &recv->layout, 0, 0);
    rqe->wr_id = end->recv_posted | SIM_WORKLOAD_RECV_BIT;
    rqe->length = recv->room;
    rqe->sge_count =
        sim_memory_sges(&end->memory, SIM_MEMORY_RECVS, slot, &recv->layout, rqe->sges);
    for (uint32_t i = 0; i < rqe->sge_count && recv->bad_lkey; i++)
        rqe->sges[i].lkey ^= BAD_KEY;
}

static uro_time receiver_next(const struct sim_node *node)
{
    const struct sim_rc_end *end = end_of_receiver(node);
    return can_receive(end) ? end->receive_at : URO_TIME_NEVER;
}

static void receiver_run(struct sim_node *node)
{
    struct sim_rc_end *end = end_of_receiver(node);
    struct sim_world *world = end->load->world;
    uint32_t batch = sim_world_between(&end->rng, 1, end->plan->recv_batch_max);
    uint32_t count = 0;

    for (; count < batch && can_receive(end); count++) {
        struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(end->qp), count);
        if (rqe == NULL) {
            sim_world_fail(world,
                           "qp 0x%06x: no room for a receive although %" PRIu64 " of %u are done",
                           uro_qp_number(end->qp), end->recv_posted - end->recv_done,
                           end->plan->recv_capacity);
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
    sim_journal_note(world->journal, world->now, "qp 0x%06x post %u receives up to %" PRIu64,
                     uro_qp_number(end->qp), count, end->recv_posted);
    end->receive_at = world->now + uro_rng_below(&end->rng, end->plan->recv_wait_max + 1);
}

void sim_rc_post_init(struct sim_rc_end *end)
{
    end->poster = (struct sim_node){ NULL, poster_next, poster_run };
    end->receiver = (struct sim_node){ NULL, receiver_next, receiver_run };
    sim_world_add(end->load->world, &end->receiver);
    sim_world_add(end->load->world, &end->poster);
}
