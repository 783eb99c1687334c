/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c - posts sends and receives as an application would; see endpoint.h. */
#include <inttypes.h>

#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define SHORT_ROOM (SIM_GRH + 64u)

/* Work may be wrong on purpose. */
static bool may_inject(const struct sim_endpoint *end)
{
    return !end->life->last_life && !(end->ops->reliable && end->load->calm);
}

static bool can_send(const struct sim_endpoint *end)
{
    if (!end->alive || end->type == URO_QPT_XRC_TGT || end->blocked ||
        end->posted - end->confirmed >= end->plan->send_capacity)
        return false;
    if (sim_endpoint_in_error(end))
        return end->late_posts > 0 && !end->life->abrupt;
    return end->sends_left > 0 && (end->ops->can_send == NULL || end->ops->can_send(end));
}

static bool can_receive(const struct sim_endpoint *end)
{
    if (!end->alive || end->srq != NULL || end->type == URO_QPT_XRC_TGT ||
        end->type == URO_QPT_XRC_INI ||
        end->recv_posted - end->recv_done >= end->plan->recv_capacity)
        return false;
    return !sim_endpoint_in_error(end) || (end->late_posts > 0 && !end->life->abrupt);
}

/* ---- sends ---- */

static void fill_wqe(struct sim_endpoint *end, const struct sim_request *request,
                     struct uro_wqe *wqe)
{
    uint32_t slot = (uint32_t)(request->number % end->plan->send_capacity);
    bool reads = request->opcode == URO_WR_RDMA_READ ||
                 request->opcode == URO_WR_ATOMIC_CMP_AND_SWP ||
                 request->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
    bool is_inline = request->flags & URO_SEND_INLINE;

    wqe->wr_id = request->number;
    wqe->remote_address = request->remote_address;
    wqe->rkey = request->rkey;
    wqe->imm = request->imm;
    wqe->length = request->length;
    wqe->opcode = request->fault == SIM_FAULT_UNSUPPORTED ? end->ops->unsupported : request->opcode;
    wqe->flags = request->flags;
    wqe->psn_count = 0;
    wqe->status = 0;
    if (end->ops->fill != NULL)
        end->ops->fill(end, request, wqe);
    /* Inline bytes are nowhere but in the request; memory that is read into starts as canary. */
    sim_memory_fill(&end->memory, SIM_MEMORY_SENDS, slot, &request->layout,
                    reads || is_inline ? 0 : request->length, request->seed);
    if (is_inline) {
        wqe->sge_count = 0;
        sim_memory_message((uint8_t *)wqe->sges, 0, request->length, request->seed);
        return;
    }
    wqe->sge_count = (uint16_t)sim_memory_sges(&end->memory, SIM_MEMORY_SENDS, slot,
                                               &request->layout, wqe->sges);
    for (uint32_t i = 0; i < wqe->sge_count && request->fault == SIM_FAULT_BAD_LKEY; i++) {
        if (wqe->sges[i].length > 0) {
            wqe->sges[i].lkey ^= SIM_BAD_KEY;
            break;
        }
    }
}

static bool post_one(struct sim_endpoint *end, uint32_t ahead)
{
    struct sim_world *world = end->load->world;
    struct sim_request *request = sim_request_of(end, end->posted);
    struct sim_request chosen = { .number = end->posted, .window = SIM_NO_WINDOW };

    if (!end->ops->choose(end, &chosen)) {
        end->blocked = true;
        return false;
    }
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(end->qp), ahead);
    if (wqe == NULL)
        return sim_endpoint_fail(end, "send", end->posted, "finds no room in its queue");
    fill_wqe(end, &chosen, wqe);
    *request = chosen;
    end->posted++;
    if (sim_request_is_signalled(end, request))
        end->signalled = end->posted;
    if (sim_endpoint_in_error(end))
        end->late_posts--;
    else
        end->sends_left--;
    sim_journal_note(world->journal, world->now,
                     "qp 0x%06x post send %" PRIu64 " opcode %u length %u flags %x%s", end->qpn,
                     request->number, request->opcode, request->length, request->flags,
                     request->fault != SIM_FAULT_NONE ? " WRONG" : "");
    return true;
}

static void post_sends(struct sim_endpoint *end)
{
    uint32_t batch = sim_world_between(&end->rng, 1, end->plan->batch_max);
    uint32_t count = 0;

    while (count < batch && can_send(end) && post_one(end, count))
        count++;
    if (count == 0)
        return;
    uro_wq_publish(uro_qp_send_queue(end->qp), count);
    uro_qp_ring(sim_endpoint_shard(end), end->qp);
}

/* Moves the queue pair from SQE back to RTS. */
static void resume(struct sim_endpoint *end)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS, .current_state = URO_QPS_SQE };

    sim_endpoint_modify(end, &attr, URO_ATTR_CUR_STATE);
    end->stopped = false;
    end->flush_until = end->posted;
}

static bool resumes(const struct sim_endpoint *end)
{
    return end->stopped && end->alive && uro_qp_state_now(end->qp) == URO_QPS_SQE;
}

void sim_post_choose_flags(struct sim_endpoint *end, struct sim_request *request, bool may_inline)
{
    const struct sim_plan_end *plan = end->plan;
    struct uro_rng *rng = &end->rng;
    uint64_t unsignalled = end->posted + 1 - end->signalled;

    if (sim_world_chance(rng, plan->signal_probability) || end->sends_left <= 1 ||
        unsignalled >= (plan->send_capacity + 1) / 2 || sim_endpoint_in_error(end))
        request->flags |= URO_SEND_SIGNALED;
    if (sim_world_chance(rng, plan->fence_probability))
        request->flags |= URO_SEND_FENCE;
    if (sim_world_chance(rng, plan->solicit_probability))
        request->flags |= URO_SEND_SOLICITED;
    if (may_inline && request->length <= plan->inline_max &&
        sim_world_chance(rng, plan->inline_probability))
        request->flags |= URO_SEND_INLINE;
}

uint32_t sim_post_choose_length(struct sim_endpoint *end)
{
    struct uro_rng *rng = &end->rng;
    uint32_t mtu = end->life->plan->path_mtu;
    uint32_t most = end->life->plan->message_max;
    uint32_t length = 0;

    switch (uro_rng_below(rng, 8)) {
    case 0:
        break;
    case 1:
    case 2:
        length = 1 + uro_rng_below(rng, 64);
        break;
    case 3:
        length = mtu * sim_world_between(rng, 1, 4);
        break;
    case 4:
        length = mtu * sim_world_between(rng, 1, 4) + sim_world_between(rng, 0, 2) - 1;
        break;
    default:
        length = uro_rng_below(rng, most + 1);
        break;
    }
    return length < most ? length : most;
}

/* ---- receives ---- */

/* A datagram needs room for its header: some receives have not even that. */
static uint32_t short_room(struct sim_endpoint *end, uint32_t room)
{
    bool header = end->type == URO_QPT_UD && uro_rng_below(&end->rng, 2) != 0;

    return uro_rng_below(&end->rng, header ? SHORT_ROOM : room + 1);
}

static void fill_rqe(struct sim_endpoint *end, struct uro_rqe *rqe)
{
    struct sim_recv *recv = &end->recvs[end->recv_posted % SIM_REQUESTS_MAX];
    uint32_t slot = (uint32_t)(end->recv_posted % end->plan->recv_capacity);
    bool wrong =
        may_inject(end) && sim_world_chance(&end->rng, end->life->plan->inject_probability / 2);

    *recv = (struct sim_recv){ .room = end->ops->recv_room != NULL ? end->ops->recv_room(end)
                                                                   : end->life->plan->message_max };
    if (wrong && uro_rng_below(&end->rng, 2) == 0)
        recv->room = short_room(end, recv->room);
    else
        recv->bad_lkey = wrong;
    end->life->may_fail |= wrong;
    rqe->wr_id = end->recv_posted | SIM_RECV_BIT;
    sim_recv_fill(&end->memory, slot, recv, end->plan->recv_sges, &end->rng, rqe);
}

static void post_receives(struct sim_endpoint *end)
{
    struct sim_world *world = end->load->world;
    uint32_t batch = sim_world_between(&end->rng, 1, end->plan->recv_batch_max);
    uint32_t count = 0;

    for (; count < batch && can_receive(end); count++) {
        struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(end->qp), count);
        if (rqe == NULL) {
            sim_endpoint_fail(end, "receive", end->recv_posted, "finds no room in its queue");
            return;
        }
        fill_rqe(end, rqe);
        end->recv_posted++;
        if (sim_endpoint_in_error(end))
            end->late_posts--;
    }
    uro_wq_publish(uro_qp_recv_queue(end->qp), count);
    if (uro_qp_state_now(end->qp) == URO_QPS_ERR)
        uro_qp_ring(sim_endpoint_shard(end), end->qp);
    sim_journal_note(world->journal, world->now, "qp 0x%06x post %u receives up to %" PRIu64,
                     end->qpn, count, end->recv_posted);
    end->receive_at = world->now + uro_rng_below(&end->rng, end->plan->recv_wait_max + 1);
}

/* ---- the program ---- */

uro_time sim_post_next(const struct sim_endpoint *end)
{
    uro_time next = end->drain.at;

    if (can_receive(end) && end->receive_at < next)
        next = end->receive_at;
    if (can_send(end) && end->post_at < next)
        next = end->post_at;
    return resumes(end) && end->resume_at < next ? end->resume_at : next;
}

void sim_post_run(struct sim_endpoint *end)
{
    uro_time now = end->load->world->now;

    if (can_receive(end) && end->receive_at <= now)
        post_receives(end);
    if (resumes(end) && end->resume_at <= now)
        resume(end);
    if (can_send(end) && end->post_at <= now) {
        post_sends(end);
        end->post_at = now + uro_rng_below(&end->rng, end->plan->post_wait_max + 1);
    }
    if (end->drain.at <= now)
        sim_drain_run(end);
}

static uro_time program_next(const struct sim_node *node)
{
    return sim_post_next(URO_CONTAINER_OF(node, struct sim_endpoint, program));
}

static void program_run(struct sim_node *node)
{
    sim_post_run(URO_CONTAINER_OF(node, struct sim_endpoint, program));
}

void sim_post_init(struct sim_endpoint *end)
{
    end->program = (struct sim_node){ NULL, program_next, program_run };
    sim_world_add(end->load->world, &end->program);
    sim_drain_init(end);
}
