/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint.c - creates, modifies and destroys queue pairs of any type, and posts sends and receives
 * as an application would; see endpoint.h. */
#include "sim/work/endpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/work/workload.h"

#define HOP_LIMIT      64u
#define PORT           1u
#define PAGE           4096u
#define FAMILY_STEP    UINT64_C(0x200000000000) /* distance between addresses of two families */
#define ENDPOINT_STEP  UINT64_C(0x1000000000)
#define LIFE_STEP      UINT64_C(0x10000000)
#define SHORT_SIZE     (SIM_GRH + 64u)
#define DRAINS_MAX     3u /* drains in a life */
#define DRAIN_WAIT_MAX URO_MS(2)
#define DRAIN_REST_MAX URO_US(300)

bool sim_endpoint_fail(const struct sim_endpoint *end, const char *kind, uint64_t number,
                       const char *problem)
{
    sim_world_fail(end->world, "%s %u qp 0x%06x %s %" PRIu64 ": %s", end->ops->family,
                   end->life->number, end->qpn, kind, number, problem);
    return false;
}

struct uroce_address sim_endpoint_address(const struct sim_endpoint *end, bool v6)
{
    struct uroce_address address = { .sgid_index = v6 ? 0 : 1, .hop_limit = HOP_LIMIT };

    memcpy(address.gid, end->host->gids[address.sgid_index].octets, sizeof address.gid);
    return address;
}

void sim_endpoint_init(struct sim_endpoint *end)
{
    end->world = end->workload->world;
    end->next = end->workload->endpoints;
    end->workload->endpoints = end;
    end->ended = true;
    end->drain.due = URO_TIME_NEVER;
    end->requests = sim_alloc(SIM_REQUESTS_MAX * sizeof *end->requests);
    end->recvs = sim_alloc(SIM_REQUESTS_MAX * sizeof *end->recvs);
}

void sim_endpoint_unlist(struct sim_endpoint *end)
{
    struct sim_endpoint **link = &end->workload->endpoints;

    while (*link != end)
        link = &(*link)->next;
    *link = end->next;
}

void sim_endpoint_fini(struct sim_endpoint *end)
{
    if (end->qp != NULL)
        sim_endpoint_destroy(end);
    if (end->ops->release != NULL)
        end->ops->release(end);
    free(end->requests);
    free(end->recvs);
    free(end->rc);
    free(end->ud);
    sim_memory_fini(&end->memory);
    sim_cq_fini(&end->cq);
}

void sim_endpoint_make_memory(struct sim_endpoint *end, unsigned family,
                              const struct sim_memory_section_size *sizes)
{
    uint64_t base = family * FAMILY_STEP + end->number * ENDPOINT_STEP +
                    end->life->life * LIFE_STEP + (uint64_t)uro_rng_below(&end->rng, 256) * PAGE;

    sim_memory_init(&end->memory, sizes, base, &end->rng);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        if (sizes[i].slots > 0)
            sim_memory_register(&end->memory, i, end->pd);
}

static void choose_cqs(struct sim_endpoint *end)
{
    const struct sim_workload *workload = end->workload;
    struct sim_cq *cqs = end->workload->cqs[end->side];
    bool tight = !end->ops->own_cq || workload->plan->cq_tight_all;

    end->send_cq = end->recv_cq = end->cq.cq;
    if (!end->ops->own_cq) {
        end->send_cq = cqs[uro_rng_below(&end->rng, workload->plan->cq_count)].cq;
        end->recv_cq = cqs[uro_rng_below(&end->rng, workload->plan->cq_count)].cq;
    }
    if (!end->life->last_life && tight && !end->ops->forged)
        sim_tight_choose(end, end->ops->own_cq || end->srq != NULL);
    if (end->type == UROCE_XRC_TGT)
        end->send_cq = NULL;
    if (end->type == UROCE_XRC_TGT || end->type == UROCE_XRC_INI)
        end->recv_cq = NULL;
}

void sim_endpoint_create(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool target = end->type == UROCE_XRC_TGT;
    bool receives = !target && end->type != UROCE_XRC_INI;
    bool own = receives && end->srq == NULL;
    uint32_t queue = end->ops->forged ? SIM_PLAN_SRQS_MAX : 0;

    if (end->qp != NULL)
        return;
    choose_cqs(end);
    const struct uroce_qp_config config = {
        .size = sizeof config,
        .type = end->type,
        .xrcd = target ? sim_srq_domain(end->workload, end->side, queue) : NULL,
        .srq = end->srq != NULL ? end->srq->srq : NULL,
        .send_cq = end->send_cq,
        .recv_cq = end->recv_cq,
        .send_capacity = target ? 0 : plan->send_capacity,
        .recv_capacity = own ? plan->recv_capacity : 0,
        .send_sge_max = target ? 0 : plan->send_sges,
        .recv_sge_max = own ? plan->recv_sges : 0,
        .inline_max = target ? 0 : plan->inline_max,
        .signal_all = plan->signal_all,
        .user = end
    };

    sim_must(uroce_qp_create(end->pd, &config, &end->qp));
    end->qpn = uroce_qp_number(end->qp);
}

bool sim_endpoint_worked(const struct sim_endpoint *end)
{
    if (end->qp != NULL && sim_inside_sends(end->qp) > 0)
        return false;
    return end->sends_left == 0 && end->signalled <= end->confirmed &&
           (end->peer == NULL || end->messages_sent == end->peer->messages_taken);
}

void sim_endpoint_modify(struct sim_endpoint *end, const struct uroce_qp_attr *attr, unsigned mask)
{
    struct sim_world *world = end->world;
    int result = uroce_qp_modify(end->qp, attr, mask | UROCE_ATTR_STATE, world->now);

    sim_world_note(world, "qp 0x%06x to state %d", end->qpn, (int)attr->state);
    if (result != 0)
        sim_world_fail(world, "%s qp 0x%06x: modify to state %d returned %d", end->ops->family,
                       end->qpn, (int)attr->state, result);
}

void sim_endpoint_to_rtr(struct sim_endpoint *end)
{
    const struct sim_plan_pair *plan = end->life->plan;
    const struct sim_endpoint *peer = end->peer;
    bool datagrams = end->type == UROCE_UD;
    bool responds = end->type != UROCE_UC && end->type != UROCE_XRC_INI;
    struct uroce_qp_attr attr = {
        .state = UROCE_INIT, .port = PORT, .qkey = end->qkey, .access = SIM_ACCESS_REMOTE
    };

    sim_endpoint_modify(end, &attr,
                        UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT |
                            (datagrams ? UROCE_ATTR_QKEY : UROCE_ATTR_ACCESS));
    attr.state = UROCE_RTR;
    if (!datagrams) {
        attr.path_mtu = plan->path_mtu;
        attr.rq_psn = peer->wire_psn;
        attr.dest_qpn = peer->qpn;
        attr.max_dest_rd_atomic = peer->plan->rd_atomic;
        attr.min_rnr_timer = end->plan->min_rnr_timer;
        attr.address = sim_endpoint_address(peer, plan->v6);
        attr.address.flow_label = plan->v6 ? uro_rng_below(&end->rng, 1u << 20) : 0;
    }
    sim_endpoint_modify(
        end, &attr,
        datagrams ? 0
                  : UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU | UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN |
                        (responds ? UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER : 0));
}

void sim_endpoint_to_rts(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool requests = end->ops->reliable && end->type != UROCE_XRC_TGT;
    const struct uroce_qp_attr attr = { .state = UROCE_RTS,
                                        .timeout = plan->timeout,
                                        .retry_cnt = plan->retry_count,
                                        .rnr_retry = end->life->last_life ? 7 : plan->rnr_retry,
                                        .sq_psn = end->wire_psn,
                                        .max_rd_atomic = plan->rd_atomic };

    sim_endpoint_modify(
        end, &attr,
        UROCE_ATTR_SQ_PSN | (end->ops->reliable ? UROCE_ATTR_TIMEOUT : 0) |
            (requests ? UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY | UROCE_ATTR_MAX_RD_ATOMIC
                      : 0));
}

void sim_endpoint_destroy(struct sim_endpoint *end)
{
    (void)!uroce_qp_destroy(end->qp);
    end->qp = NULL;
    end->send_cq = end->recv_cq = NULL;
}

void sim_endpoint_to_error(struct sim_endpoint *end)
{
    const struct uroce_qp_attr attr = { .state = UROCE_ERR };

    end->ended = true;
    sim_endpoint_modify(end, &attr, 0);
    sim_host_events(end->host);
}

void sim_endpoint_stop(struct sim_endpoint *end, bool reuse)
{
    const struct uroce_qp_attr attr = { .state = UROCE_RESET };

    end->ended = true;
    if (end->ops->stop != NULL)
        end->ops->stop(end);
    end->drain.due = URO_TIME_NEVER;
    if (end->srq != NULL)
        sim_srq_on_stop(end->srq, end->recv_cq, end->qpn);
    if (reuse)
        sim_endpoint_modify(end, &attr, 0);
    else
        sim_endpoint_destroy(end);
    end->alive = false;
    if (end->ops->stopped != NULL)
        end->ops->stopped(end);
    sim_host_events(end->host);
}

/* Keeps memory until the end of the run, to check that it is not written any more. */
static void keep(struct sim_workload *workload, struct sim_memory *memory)
{
    struct sim_buried *buried = sim_alloc(sizeof *buried);

    *buried = (struct sim_buried){ .next = workload->buried,
                                   .memory = *memory,
                                   .sum = sim_memory_sum(memory) };
    workload->buried = buried;
    memset(memory, 0, sizeof *memory);
}

void sim_endpoint_bury(struct sim_endpoint *end)
{
    size_t offset;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(&end->memory, i);
    if (!sim_memory_check_guards(&end->memory, &offset))
        sim_world_fail(end->world, "%s %u: byte %zu outside every range changed", end->ops->family,
                       end->number, offset);
    keep(end->workload, &end->memory);
}

/* ---- draining ---- */

static void drain_modify(struct sim_endpoint *end, enum uroce_qp_state state)
{
    const struct uroce_qp_attr attr = { .state = state, .sqd_notify = true };

    sim_endpoint_modify(end, &attr, state == UROCE_SQD ? UROCE_ATTR_SQD_NOTIFY : 0);
    sim_host_events(end->host);
}

static void run_drain(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;
    enum uroce_qp_state state = uroce_qp_state(end->qp);

    drain->due = URO_TIME_NEVER;
    if (state == UROCE_SQD && drain->drained) {
        drain->drained = drain->draining = false;
        drain_modify(end, UROCE_RTS);
        if (drain->left > 0)
            drain->due = end->world->now + uro_rng_below(&drain->rng, DRAIN_WAIT_MAX);
    } else if (state == UROCE_RTS) {
        drain->left--;
        drain->draining = true;
        drain_modify(end, UROCE_SQD);
    }
}

void sim_drain_on_drained(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;

    if (!drain->draining || drain->drained) {
        sim_world_fail(end->world, "a send queue was reported drained, but no drain was requested");
        return;
    }
    drain->drained = true;
    drain->due = end->world->now + uro_rng_below(&drain->rng, DRAIN_REST_MAX);
}

void sim_drain_begin(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;

    drain->draining = drain->drained = false;
    drain->due = URO_TIME_NEVER;
    drain->left = end->workload->plan->pauses ? uro_rng_below(&drain->rng, DRAINS_MAX + 1) : 0;
    if (drain->left > 0)
        drain->due = end->world->now + uro_rng_below(&drain->rng, DRAIN_WAIT_MAX);
}

/* ---- posting ---- */

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
    struct sim_world *world = end->world;
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
    uint32_t kind = uro_rng_below(rng, 8);
    uint32_t length = 0;

    if (kind == 1 || kind == 2)
        length = 1 + uro_rng_below(rng, 64);
    else if (kind == 3)
        length = mtu * sim_world_between(rng, 1, 4);
    else if (kind == 4)
        length = mtu * sim_world_between(rng, 1, 4) + sim_world_between(rng, 0, 2) - 1;
    else if (kind > 4)
        length = uro_rng_below(rng, most + 1);
    return length < most ? length : most;
}

/* ---- receives ---- */

/* Posts a receive. Returns the result of uroce_qp_receive(). */
static int receive(struct sim_endpoint *end)
{
    struct uroce_sge sges[UROCE_SGE_MAX];
    struct sim_recv *recv = &end->recvs[end->recv_posted % SIM_REQUESTS_MAX];
    uint32_t slot = (uint32_t)(end->recv_posted % end->plan->recv_capacity);
    bool wrong = !end->life->last_life && !(end->ops->reliable && end->workload->calm) &&
                 sim_world_chance(&end->rng, end->life->plan->inject_probability / 2);

    *recv = (struct sim_recv){ .size = end->ops->recv_size != NULL ? end->ops->recv_size(end)
                                                                   : end->life->plan->message_max,
                               .buffer = sim_buffer_at(&end->memory, SIM_MEMORY_RECVS, slot) };
    if (wrong && uro_rng_below(&end->rng, 2) == 0) {
        /* Some receives of datagrams are too short for the GRH. */
        bool header = end->type == UROCE_UD && uro_rng_below(&end->rng, 2) != 0;
        recv->size = uro_rng_below(&end->rng, header ? SHORT_SIZE : recv->size + 1);
    } else {
        recv->bad_lkey = wrong;
    }
    end->life->may_fail |= wrong;
    uint32_t count = sim_recv_fill(recv, end->plan->recv_sges, &end->rng, sges);
    return uroce_qp_receive(end->qp, end->recv_posted | SIM_RECV_BIT, sges, count);
}

static void post_receives(struct sim_endpoint *end)
{
    struct sim_world *world = end->world;
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
    uro_time now = end->world->now;

    if (can_receive(end) && end->receive_at <= now)
        post_receives(end);
    if (resumes(end) && end->resume_at <= now)
        resume(end);
    if (can_send(end) && end->post_at <= now) {
        uint32_t batch = sim_world_between(&end->rng, 1, end->plan->batch_max);
        while (batch > 0 && can_send(end) && post_one(end))
            batch--;
        end->post_at = now + uro_rng_below(&end->rng, end->plan->post_wait_max + 1);
    }
    if (end->drain.due <= now)
        run_drain(end);
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
    struct sim_workload *workload = end->workload;

    sim_world_add(end->world, &end->program, program_next, program_run);
    uro_rng_init_number(&end->drain.rng,
                        workload->plan->seed ^ (uint64_t)++workload->drain_count << 48);
}
