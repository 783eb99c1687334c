/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c - posts sends and receives as an application would; see endpoint.h. */
#include <inttypes.h>

#include "sim/inside.h"
#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define SHORT_SIZE (SIM_GRH + 64u)

/* Returns whether a request may be wrong on purpose. */
static bool may_inject(const struct sim_endpoint *end)
{
    return !end->life->last_life && !(end->ops->reliable && end->workload->calm);
}

static bool can_send(const struct sim_endpoint *end)
{
    if (!end->alive || end->type == UROCE_XRC_TGT || end->blocked ||
        end->posted - end->confirmed >= end->plan->send_capacity)
        return false;
    if (sim_endpoint_in_error(end))
        return end->late_posts > 0 && !end->life->abrupt;
    return end->sends_left > 0 && (end->ops->can_send == NULL || end->ops->can_send(end));
}

static bool can_receive(const struct sim_endpoint *end)
{
    if (!end->alive || end->srq != NULL || end->type == UROCE_XRC_TGT ||
        end->type == UROCE_XRC_INI || end->recv_posted - end->recv_done >= end->plan->recv_capacity)
        return false;
    return !sim_endpoint_in_error(end) || (end->late_posts > 0 && !end->life->abrupt);
}

/* ---- sends ---- */

/* Writes the elements of the request to @sges, or its inline bytes to @bytes. */
static void fill_elements(const struct sim_request *request, struct uroce_send *send,
                          struct uroce_sge *sges, uint8_t *bytes)
{
    bool reads = request->opcode == UROCE_RDMA_READ || request->opcode == UROCE_COMPARE_SWAP ||
                 request->opcode == UROCE_FETCH_ADD;
    bool is_inline = request->flags & UROCE_INLINE;

    /* Inline bytes are in the request itself and need no slot. The slot for the result of a READ or
     * an atomic is filled with the canary value. */
    sim_buffer_fill(&request->buffer, reads || is_inline ? 0 : request->length, request->seed);
    send->sges = sges;
    if (is_inline) {
        sim_memory_message(bytes, 0, request->length, request->seed);
        sges[0] = (struct uroce_sge){ .address = (uintptr_t)bytes, .length = request->length };
        send->sge_count = 1;
        return;
    }
    send->sge_count = sim_buffer_sges(&request->buffer, sges);
    for (uint32_t i = 0; i < send->sge_count; i++) {
        if (sges[i].length == 0)
            continue;
        sges[i].key ^= request->fault == SIM_FAULT_BAD_LKEY ? SIM_BAD_KEY : 0;
        sges[i].length -= request->fault == SIM_FAULT_TOO_LONG; /* spoil() restores the length */
        break;
    }
}

/* Changes a posted request as uroce_qp_send() would not allow. */
static void spoil(struct sim_endpoint *end, const struct sim_request *request)
{
    if (request->fault == SIM_FAULT_UNSUPPORTED)
        sim_inside_set_opcode(end->qp, end->ops->unsupported);
    else if (request->fault == SIM_FAULT_TOO_LONG)
        sim_inside_lengthen(end->qp);
    else if (end->ops->spoil != NULL)
        end->ops->spoil(end, request);
}

static bool post_one(struct sim_endpoint *end)
{
    struct sim_world *world = end->workload->world;
    struct sim_request *request = sim_request_of(end, end->posted);
    const uint32_t slot = (uint32_t)(end->posted % end->plan->send_capacity);
    struct sim_request chosen = { .number = end->posted,
                                  .window = SIM_NO_WINDOW,
                                  .buffer = sim_buffer_at(&end->memory, SIM_MEMORY_SENDS, slot) };
    struct uroce_sge sges[UROCE_SGE_MAX];
    uint8_t bytes[UROCE_INLINE_MAX];

    if (!end->ops->choose(end, &chosen)) {
        end->blocked = true;
        return false;
    }
    struct uroce_send send = { .wr_id = chosen.number,
                               .opcode = chosen.opcode,
                               .flags = chosen.flags,
                               .imm = chosen.imm,
                               .remote_address = chosen.remote_address,
                               .rkey = chosen.rkey };
    if (end->ops->fill != NULL)
        end->ops->fill(end, &chosen, &send);
    fill_elements(&chosen, &send, sges, bytes);
    if (uroce_qp_send(end->qp, &send) != 0)
        return sim_endpoint_fail(end, "send", end->posted,
                                 "was refused although the queue has room");
    spoil(end, &chosen);
    *request = chosen;
    end->posted++;
    if (sim_request_is_signalled(end, request))
        end->signalled = end->posted;
    if (sim_endpoint_in_error(end))
        end->late_posts--;
    else
        end->sends_left--;
    sim_world_note(world, "qp 0x%06x post send %" PRIu64 " opcode %u length %u flags %x%s",
                   end->qpn, request->number, request->opcode, request->length, request->flags,
                   request->fault != SIM_FAULT_NONE ? " WRONG" : "");
    return true;
}

static void post_sends(struct sim_endpoint *end)
{
    uint32_t batch = sim_world_between(&end->rng, 1, end->plan->batch_max);

    while (batch > 0 && can_send(end) && post_one(end))
        batch--;
}

/* Moves the queue pair from SQE back to RTS. */
static void resume(struct sim_endpoint *end)
{
    const struct uroce_qp_attr attr = { .state = UROCE_RTS, .current_state = UROCE_SQE };

    sim_endpoint_modify(end, &attr, UROCE_ATTR_CUR_STATE);
    end->stopped = false;
    end->flush_until = end->posted;
}

static bool resumes(const struct sim_endpoint *end)
{
    return end->stopped && end->alive && uroce_qp_state(end->qp) == UROCE_SQE;
}

void sim_post_choose_flags(struct sim_endpoint *end, struct sim_request *request, bool may_inline)
{
    const struct sim_plan_end *plan = end->plan;
    struct uro_rng *rng = &end->rng;
    uint64_t unsignalled = end->posted + 1 - end->signalled;

    if (sim_world_chance(rng, plan->signal_probability) || end->sends_left <= 1 ||
        unsignalled >= (plan->send_capacity + 1) / 2 || sim_endpoint_in_error(end))
        request->flags |= UROCE_SIGNALED;
    if (sim_world_chance(rng, plan->fence_probability))
        request->flags |= UROCE_FENCE;
    if (sim_world_chance(rng, plan->solicit_probability))
        request->flags |= UROCE_SOLICITED;
    if (may_inline && request->length <= plan->inline_max &&
        sim_world_chance(rng, plan->inline_probability))
        request->flags |= UROCE_INLINE;
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

/* Draws the size of a receive that may be too short. Some receives of datagrams are too short for
 * the GRH. */
static uint32_t short_size(struct sim_endpoint *end, uint32_t size)
{
    bool header = end->type == UROCE_UD && uro_rng_below(&end->rng, 2) != 0;

    return uro_rng_below(&end->rng, header ? SHORT_SIZE : size + 1);
}

/* Posts a receive. Returns the result of uroce_qp_receive(). */
static int receive(struct sim_endpoint *end)
{
    struct uroce_sge sges[UROCE_SGE_MAX];
    struct sim_recv *recv = &end->recvs[end->recv_posted % SIM_REQUESTS_MAX];
    uint32_t slot = (uint32_t)(end->recv_posted % end->plan->recv_capacity);
    bool wrong =
        may_inject(end) && sim_world_chance(&end->rng, end->life->plan->inject_probability / 2);

    *recv = (struct sim_recv){ .size = end->ops->recv_size != NULL ? end->ops->recv_size(end)
                                                                   : end->life->plan->message_max,
                               .buffer = sim_buffer_at(&end->memory, SIM_MEMORY_RECVS, slot) };
    if (wrong && uro_rng_below(&end->rng, 2) == 0)
        recv->size = short_size(end, recv->size);
    else
        recv->bad_lkey = wrong;
    end->life->may_fail |= wrong;
    uint32_t count = sim_recv_fill(recv, end->plan->recv_sges, &end->rng, sges);
    return uroce_qp_receive(end->qp, end->recv_posted | SIM_RECV_BIT, sges, count);
}

static void post_receives(struct sim_endpoint *end)
{
    struct sim_world *world = end->workload->world;
    uint32_t batch = sim_world_between(&end->rng, 1, end->plan->recv_batch_max);
    uint32_t count = 0;

    for (; count < batch && can_receive(end); count++) {
        if (receive(end) != 0) {
            sim_endpoint_fail(end, "receive", end->recv_posted,
                              "was refused although the queue has room");
            return;
        }
        end->recv_posted++;
        if (sim_endpoint_in_error(end))
            end->late_posts--;
    }
    sim_world_note(world, "qp 0x%06x post %u receives up to %" PRIu64, end->qpn, count,
                   end->recv_posted);
    end->receive_at = world->now + uro_rng_below(&end->rng, end->plan->recv_wait_max + 1);
}

/* ---- the program ---- */

uro_time sim_post_next(const struct sim_endpoint *end)
{
    uro_time next = end->drain.due;

    if (can_receive(end) && end->receive_at < next)
        next = end->receive_at;
    if (can_send(end) && end->post_at < next)
        next = end->post_at;
    return resumes(end) && end->resume_at < next ? end->resume_at : next;
}

void sim_post_run(struct sim_endpoint *end)
{
    uro_time now = end->workload->world->now;

    if (can_receive(end) && end->receive_at <= now)
        post_receives(end);
    if (resumes(end) && end->resume_at <= now)
        resume(end);
    if (can_send(end) && end->post_at <= now) {
        post_sends(end);
        end->post_at = now + uro_rng_below(&end->rng, end->plan->post_wait_max + 1);
    }
    if (end->drain.due <= now)
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
    sim_world_add(end->workload->world, &end->program, program_next, program_run);
    sim_drain_init(end);
}
