/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c - posts sends and receives as an application would; see endpoint.h. */
#include <inttypes.h>
#include <stdlib.h>

#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define SHORT_ROOM (SIM_GRH + 64u)

/* Work may be wrong on purpose. */
static bool may_inject(const struct sim_endpoint *endpoint)
{
    return !endpoint->life->last_life && !(endpoint->ops->reliable && endpoint->load->calm);
}

static bool can_send(const struct sim_endpoint *endpoint)
{
    if (!endpoint->alive || endpoint->type == URO_QPT_XRC_TGT || endpoint->blocked ||
        endpoint->posted - endpoint->confirmed >= endpoint->plan->send_capacity)
        return false;
    if (sim_endpoint_in_error(endpoint))
        return endpoint->late_posts > 0 && !endpoint->life->abrupt;
    return endpoint->sends_left > 0 &&
           (endpoint->ops->can_send == NULL || endpoint->ops->can_send(endpoint));
}

static bool can_receive(const struct sim_endpoint *endpoint)
{
    if (!endpoint->alive || endpoint->srq != NULL || endpoint->type == URO_QPT_XRC_TGT ||
        endpoint->type == URO_QPT_XRC_INI ||
        endpoint->recv_posted - endpoint->recv_done >= endpoint->plan->recv_capacity)
        return false;
    return !sim_endpoint_in_error(endpoint) ||
           (endpoint->late_posts > 0 && !endpoint->life->abrupt);
}

/* ---- sends ------------------------------------------------------------------------------------- */

static void fill_wqe(struct sim_endpoint *endpoint, const struct sim_request *request,
                     struct uro_wqe *wqe)
{
    uint32_t slot = (uint32_t)(request->number % endpoint->plan->send_capacity);
    bool reads = request->opcode == URO_WR_RDMA_READ ||
                 request->opcode == URO_WR_ATOMIC_CMP_AND_SWP ||
                 request->opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
    bool is_inline = request->flags & URO_SEND_INLINE;

    wqe->wr_id = request->number;
    wqe->remote_address = request->remote_address;
    wqe->rkey = request->rkey;
    wqe->imm = request->imm;
    wqe->length = request->length;
    wqe->opcode =
        request->fault == SIM_FAULT_UNSUPPORTED ? endpoint->ops->unsupported : request->opcode;
    wqe->flags = request->flags;
    wqe->psn_count = 0;
    wqe->status = 0;
    if (endpoint->ops->fill != NULL)
        endpoint->ops->fill(endpoint, request, wqe);
    /* Inline bytes are nowhere but in the request; memory that is read into starts as canary. */
    sim_memory_fill(&endpoint->memory, SIM_MEMORY_SENDS, slot, &request->layout,
                    reads || is_inline ? 0 : request->length, request->seed);
    if (is_inline) {
        wqe->sge_count = 0;
        sim_memory_message((uint8_t *)wqe->sges, 0, request->length, request->seed);
        return;
    }
    wqe->sge_count = (uint16_t)sim_memory_sges(&endpoint->memory, SIM_MEMORY_SENDS, slot,
                                               &request->layout, wqe->sges);
    for (uint32_t i = 0; i < wqe->sge_count && request->fault == SIM_FAULT_BAD_LKEY; i++) {
        if (wqe->sges[i].length > 0) {
            wqe->sges[i].lkey ^= SIM_BAD_KEY;
            break;
        }
    }
}

static bool post_one(struct sim_endpoint *endpoint, uint32_t ahead)
{
    struct sim_world *world = endpoint->load->world;
    struct sim_request *request = sim_request_of(endpoint, endpoint->posted);
    struct sim_request chosen = { .number = endpoint->posted, .window = SIM_NO_WINDOW };

    if (!endpoint->ops->choose(endpoint, &chosen)) {
        endpoint->blocked = true;
        return false;
    }
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(endpoint->qp), ahead);
    if (wqe == NULL)
        return sim_endpoint_fail(endpoint, "send", endpoint->posted, "finds no room in its queue");
    fill_wqe(endpoint, &chosen, wqe);
    *request = chosen;
    endpoint->posted++;
    if (sim_request_is_signalled(endpoint, request))
        endpoint->signalled = endpoint->posted;
    if (sim_endpoint_in_error(endpoint))
        endpoint->late_posts--;
    else
        endpoint->sends_left--;
    sim_journal_note(world->journal, world->now,
                     "qp 0x%06x post send %" PRIu64 " opcode %u length %u flags %x%s",
                     endpoint->qpn, request->number, request->opcode, request->length,
                     request->flags, request->fault != SIM_FAULT_NONE ? " WRONG" : "");
    return true;
}

static void post_sends(struct sim_endpoint *endpoint)
{
    uint32_t batch = sim_world_between(&endpoint->rng, 1, endpoint->plan->batch_max);
    uint32_t count = 0;

    while (count < batch && can_send(endpoint) && post_one(endpoint, count))
        count++;
    if (count == 0)
        return;
    uro_wq_publish(uro_qp_send_queue(endpoint->qp), count);
    uro_qp_ring(sim_endpoint_shard(endpoint), endpoint->qp);
}

/* Moves the queue pair from SQE back to RTS. */
static void resume(struct sim_endpoint *endpoint)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS, .current_state = URO_QPS_SQE };

    sim_endpoint_modify(endpoint, &attr, URO_ATTR_CUR_STATE);
    endpoint->stopped = false;
    endpoint->flush_until = endpoint->posted;
}

static bool resumes(const struct sim_endpoint *endpoint)
{
    return endpoint->alive && endpoint->stopped && uro_qp_state_now(endpoint->qp) == URO_QPS_SQE;
}

static struct sim_endpoint *of_poster(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_endpoint, poster);
}

static uro_time poster_next(const struct sim_node *node)
{
    const struct sim_endpoint *endpoint = of_poster(node);
    uro_time next = can_send(endpoint) ? endpoint->post_at : URO_TIME_NEVER;

    return resumes(endpoint) && endpoint->resume_at < next ? endpoint->resume_at : next;
}

static void poster_run(struct sim_node *node)
{
    struct sim_endpoint *endpoint = of_poster(node);
    uro_time now = endpoint->load->world->now;

    if (resumes(endpoint) && endpoint->resume_at <= now)
        resume(endpoint);
    if (!can_send(endpoint) || endpoint->post_at > now)
        return;
    post_sends(endpoint);
    endpoint->post_at = now + uro_rng_below(&endpoint->rng, endpoint->plan->post_wait_max + 1);
}

void sim_post_choose_flags(struct sim_endpoint *endpoint, struct sim_request *request,
                           bool may_inline)
{
    const struct sim_plan_end *plan = endpoint->plan;
    struct uro_rng *rng = &endpoint->rng;
    uint64_t unsignalled = endpoint->posted + 1 - endpoint->signalled;

    if (plan->signal_all || uro_rng_below(rng, 3) > 0 || endpoint->sends_left == 1 ||
        unsignalled >= (plan->send_capacity + 1) / 2 || sim_endpoint_in_error(endpoint))
        request->flags |= URO_SEND_SIGNALED;
    if (uro_rng_below(rng, 4) == 0)
        request->flags |= URO_SEND_SOLICITED;
    if (request->length <= plan->inline_max && may_inline && uro_rng_below(rng, 2) == 0)
        request->flags |= URO_SEND_INLINE;
}

/* ---- receives ---------------------------------------------------------------------------------- */

/* A datagram needs room for its header: some receives have not even that. */
static uint32_t short_room(struct sim_endpoint *endpoint, uint32_t room)
{
    bool header = endpoint->type == URO_QPT_UD && uro_rng_below(&endpoint->rng, 2) != 0;

    return uro_rng_below(&endpoint->rng, header ? SHORT_ROOM : room + 1);
}

static void fill_rqe(struct sim_endpoint *endpoint, struct uro_rqe *rqe)
{
    struct sim_recv *recv = &endpoint->recvs[endpoint->recv_posted % SIM_REQUESTS_MAX];
    uint32_t slot = (uint32_t)(endpoint->recv_posted % endpoint->plan->recv_capacity);
    bool wrong = may_inject(endpoint) &&
                 sim_world_chance(&endpoint->rng, endpoint->life->plan->inject_share / 2);

    *recv = (struct sim_recv){ .room = endpoint->type == URO_QPT_UD
                                           ? SIM_GRH + URO_PATH_MTU_MAX
                                           : endpoint->life->plan->message_max };
    if (wrong && uro_rng_below(&endpoint->rng, 2) == 0)
        recv->room = short_room(endpoint, recv->room);
    else
        recv->bad_lkey = wrong;
    endpoint->life->may_fail |= wrong;
    rqe->wr_id = endpoint->recv_posted | SIM_RECV_BIT;
    sim_recv_fill(&endpoint->memory, slot, recv, endpoint->plan->recv_sges, &endpoint->rng, rqe);
}

static struct sim_endpoint *of_receiver(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_endpoint, receiver);
}

static uro_time receiver_next(const struct sim_node *node)
{
    const struct sim_endpoint *endpoint = of_receiver(node);

    return can_receive(endpoint) ? endpoint->receive_at : URO_TIME_NEVER;
}

static void receiver_run(struct sim_node *node)
{
    struct sim_endpoint *endpoint = of_receiver(node);
    struct sim_world *world = endpoint->load->world;
    uint32_t batch = sim_world_between(&endpoint->rng, 1, endpoint->plan->recv_batch_max);
    uint32_t count = 0;

    for (; count < batch && can_receive(endpoint); count++) {
        struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(endpoint->qp), count);
        if (rqe == NULL) {
            sim_endpoint_fail(endpoint, "receive", endpoint->recv_posted,
                              "finds no room in its queue");
            return;
        }
        fill_rqe(endpoint, rqe);
        endpoint->recv_posted++;
        if (sim_endpoint_in_error(endpoint))
            endpoint->late_posts--;
    }
    uro_wq_publish(uro_qp_recv_queue(endpoint->qp), count);
    if (uro_qp_state_now(endpoint->qp) == URO_QPS_ERR)
        uro_qp_ring(sim_endpoint_shard(endpoint), endpoint->qp);
    sim_journal_note(world->journal, world->now, "qp 0x%06x post %u receives up to %" PRIu64,
                     endpoint->qpn, count, endpoint->recv_posted);
    endpoint->receive_at =
        world->now + uro_rng_below(&endpoint->rng, endpoint->plan->recv_wait_max + 1);
}

static void add_nodes(struct sim_endpoint *endpoint)
{
    endpoint->poster = (struct sim_node){ NULL, poster_next, poster_run };
    endpoint->receiver = (struct sim_node){ NULL, receiver_next, receiver_run };
    sim_world_add(endpoint->load->world, &endpoint->receiver);
    sim_world_add(endpoint->load->world, &endpoint->poster);
}

void sim_post_init(struct sim_endpoint *endpoint)
{
    endpoint->requests = calloc(SIM_REQUESTS_MAX, sizeof *endpoint->requests);
    endpoint->recvs = calloc(SIM_REQUESTS_MAX, sizeof *endpoint->recvs);
    URO_ASSERT(endpoint->requests != NULL && endpoint->recvs != NULL);
    add_nodes(endpoint);
    sim_drain_init(&endpoint->drain, endpoint->load, endpoint->host);
}

void sim_post_init_unreliable(struct sim_endpoint *endpoint)
{
    const struct sim_plan_end *plan = endpoint->plan;
    uint32_t completions = plan->send_capacity + plan->recv_capacity;

    if (plan->srq != SIM_PLAN_NO_SRQ) {
        completions += sim_srq_at(endpoint, plan->srq)->slot_count;
        endpoint->pd = sim_srq_at(endpoint, plan->srq)->pd;
    }
    sim_endpoint_init(endpoint);
    sim_cq_init(&endpoint->cq, endpoint->load, endpoint->host, completions);
    sim_post_init(endpoint);
}
