/* SPDX-License-Identifier: BSD-3-Clause */
/* workload.c - all work of two hosts together, what must hold at the end, and who an event or a
 * frame of a host belongs to; see workload.h.
 */
#include "sim/work/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/attacked.h"
#include "sim/work/cm.h"
#include "sim/work/rc.h"
#include "wire/frame.h"

/* Finds the queue pair that the completion is of. */
static void take(struct sim_cq *cq, const struct uro_cqe *cqe)
{
    struct sim_endpoint *end = cq->load->endpoints;

    while (end != NULL && (!end->alive || end->host != cq->host || end->qpn != cqe->qpn))
        end = end->next;
    if (end == NULL)
        sim_world_fail(cq->load->world, "completion of qp 0x%06x, which is no more", cqe->qpn);
    else
        sim_judge(end, cq, cqe);
}

static void init_shared(struct sim_workload *load, unsigned side)
{
    struct sim_shared_word *shared = &load->shared[side];

    shared->word = malloc(sizeof *shared->word);
    URO_ASSERT(shared->word != NULL);
    shared->start = uro_rng_u32(&load->rng);
    *shared->word = shared->start;
}

/* Returns the capacity of a completion queue: all requests that can be outstanding fit. */
static uint32_t cq_capacity(const struct sim_plan *plan)
{
    const struct sim_plan_srq *attacked = &plan->srqs[1][SIM_PLAN_SRQS_MAX];
    uint32_t capacity =
        1 + (plan->attacked.wait_max > 0 ? attacked->capacity_max + attacked->spare : 0);

    capacity += 2 * SIM_CM_MESSAGES_MAX * SIM_CM_USERS_MAX;
    for (unsigned side = 0; side < 2; side++)
        for (uint32_t i = 0; i < plan->srq_count[side]; i++)
            capacity += plan->srqs[side][i].capacity_max + plan->srqs[side][i].spare;
    for (uint32_t i = 0; i < plan->pair_count; i++)
        for (unsigned side = 0; side < 2; side++)
            capacity +=
                plan->pairs[i].ends[side].send_capacity + plan->pairs[i].ends[side].recv_capacity;
    return capacity;
}

static void init_lives(struct sim_workload *load)
{
    const struct sim_plan *plan = load->plan;
    struct sim_life *life;

    life = load->connections = calloc(SIM_WORKLOAD_LIVES_MAX, sizeof *life);
    URO_ASSERT(life != NULL);
    load->parties = life + plan->pair_count + plan->uc_count;
    for (uint32_t i = 0; i < plan->pair_count; i++)
        sim_life_init(life++, load, &sim_rc_ops, &plan->pairs[i], load->number * SIM_RC_FAMILY + i);
    for (uint32_t i = 0; i < plan->uc_count; i++)
        sim_life_init(life++, load, &sim_uc_ops, &plan->ucs[i], i);
    for (uint32_t i = 0; i < plan->party_count; i++)
        sim_life_init(life++, load, &sim_ud_ops, &plan->parties[i], i);
}

void sim_workload_init(struct sim_workload *load, struct sim_world *world,
                       const struct sim_plan *plan, uint32_t number, struct sim_host_work *a,
                       struct sim_host_work *b)
{
    memset(load, 0, sizeof *load);
    load->world = world;
    load->plan = plan;
    load->number = number;
    load->take = take;
    load->pds = number * SIM_WORKLOAD_PDS;
    load->at_hosts[0] = a;
    load->at_hosts[1] = b;
    for (unsigned side = 0; side < 2; side++) {
        load->hosts[side] = load->at_hosts[side]->host;
        sim_host_work_tie(load->at_hosts[side], load, side);
    }
    uro_rng_init_number(&load->rng, uro_rng_u64(&world->rng));
    for (unsigned side = 0; side < 2; side++) {
        init_shared(load, side);
        for (uint32_t i = 0; i < plan->cq_count; i++)
            sim_cq_init(&load->cqs[side][i], load, load->hosts[side], cq_capacity(plan));
        sim_tight_init(load, side);
        for (uint32_t i = 0; i < plan->srq_count[side]; i++)
            sim_srq_init(&load->srqs[side][i], load, side, i);
    }
    init_lives(load);
    load->cm = sim_cm_make(load);
    (void)sim_attacked_make(load);
}

void sim_workload_fini(struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->life_count; i++)
        sim_life_fini(load->lives[i]);
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < load->plan->cq_count; i++)
            sim_cq_fini(&load->cqs[side][i]);
        sim_cq_fini(&load->tight[side]);
        for (uint32_t i = 0; i < load->plan->srq_count[side]; i++)
            sim_srq_fini(&load->srqs[side][i]);
        free(load->shared[side].word);
        free(load->shared[side].adds);
    }
    while (load->buried != NULL) {
        struct sim_buried *buried = load->buried;
        load->buried = buried->next;
        sim_memory_fini(&buried->memory);
        free(buried);
    }
    free(load->datagrams);
    sim_cm_free(load->cm);
    sim_attacked_free(load->attacked);
    free(load->connections);
}

void sim_workload_calm(struct sim_workload *load)
{
    load->calm = true;
    load->calm_since = load->world->now;
    sim_attacked_calm(load->attacked);
    for (uint32_t i = 0; i < load->life_count; i++)
        sim_life_calm(load->lives[i]);
    sim_cm_calm(load->cm);
}

bool sim_workload_idle(const struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->life_count; i++)
        if (!sim_life_idle(load->lives[i]))
            return false;
    return sim_cm_idle(load->cm);
}

void sim_workload_end_all(struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->life_count; i++)
        sim_life_finish(load->lives[i]);
    sim_cm_finish(load->cm);
}

bool sim_workload_over(const struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->life_count; i++)
        if (load->lives[i]->state != SIM_LIFE_OVER)
            return false;
    return true;
}

static int by_original(const void *a, const void *b)
{
    const struct sim_shared_add *x = a;
    const struct sim_shared_add *y = b;

    return x->original < y->original ? -1 : x->original > y->original;
}

/* Checks a shared word. The adds are sorted by their original values. Each original value must be
 * the sum of the adds before it. Gaps are adds without a known result. */
static void check_shared(struct sim_workload *load, unsigned side)
{
    struct sim_shared_word *shared = &load->shared[side];
    uint64_t sum = shared->start;
    uint64_t left = shared->uncertain;

    if (shared->count > 0)
        qsort(shared->adds, shared->count, sizeof *shared->adds, by_original);
    for (uint32_t i = 0; i <= shared->count; i++) {
        uint64_t found = i < shared->count ? shared->adds[i].original : *shared->word;
        if (found < sum || found - sum > left) {
            sim_world_fail(load->world,
                           "shared word of %c: add %u of %u found %" PRIu64 ", sum is %" PRIu64
                           ", %" PRIu64 " uncertain",
                           load->hosts[side]->config.name, i, shared->count, found, sum, left);
            return;
        }
        left -= found - sum;
        sum = found + (i < shared->count ? shared->adds[i].add : 0);
    }
}

void sim_workload_check(struct sim_workload *load)
{
    for (unsigned side = 0; side < 2; side++) {
        check_shared(load, side);
        for (uint32_t i = 0; i < load->plan->srq_count[side]; i++)
            sim_srq_check(&load->srqs[side][i]);
    }
    sim_attacked_check(load->attacked);
    for (struct sim_buried *buried = load->buried; buried != NULL; buried = buried->next)
        if (sim_memory_sum(&buried->memory) != buried->sum)
            sim_world_fail(load->world, "memory changed after it was deregistered");
}

void sim_workload_explain(const struct sim_workload *load, char *text, size_t room)
{
    static const char *const states[] = { "running", "ending", "waiting", "idle", "over" };
    size_t used = 0;

    text[0] = '\0';
    used += sim_cm_explain(load->cm, text, room);
    for (uint32_t i = 0; i < load->life_count && used < room; i++) {
        const struct sim_life *life = load->lives[i];
        for (uint32_t j = 0; j < life->count && used < room; j++) {
            const struct sim_endpoint *end = &life->ends[j];
            int length = snprintf(
                text + used, room - used,
                " %s %u %s, %" PRIu64 "/%" PRIu64 " done, %" PRIu64 " sent, %" PRIu64 " taken;",
                end->ops->family, life->number, states[life->state], end->confirmed, end->posted,
                end->messages_sent, end->messages_taken);
            used += length > 0 ? (size_t)length : 0;
        }
    }
}

/* ---- events ---- */

static void on_last_wqe(struct sim_endpoint *end)
{
    if (end->srq == NULL || end->last_wqe || uro_qp_state_now(end->qp) != URO_QPS_ERR)
        sim_world_fail(end->load->world, "qp 0x%06x: LAST_WQE out of place", end->qpn);
    end->last_wqe = true;
    end->last_wqe_at = end->load->world->now;
}

static void on_endpoint_event(struct sim_endpoint *end, enum uro_event_kind kind)
{
    struct sim_world *world = end->load->world;
    bool refused = kind == URO_EVENT_QP_REQ_ERR || kind == URO_EVENT_QP_ACCESS_ERR;

    if (end->ops->on_event != NULL)
        end->ops->on_event(end, kind);
    else if (!end->alive)
        sim_world_fail(world, "event %d of a queue pair that is no more", (int)kind);
    else if (kind == URO_EVENT_QP_FATAL)
        sim_tight_on_fatal(end);
    else if (kind == URO_EVENT_SQ_DRAINED)
        sim_drain_on_drained(end);
    else if (kind == URO_EVENT_LAST_WQE)
        on_last_wqe(end);
    else if (refused && end->ops->reliable && end->life->may_fail)
        sim_life_on_failure(end->life);
    else if (kind != URO_EVENT_COMM_EST || end->type == URO_QPT_UD)
        sim_world_fail(world, "%s qp 0x%06x: event %d without cause", end->ops->family, end->qpn,
                       (int)kind);
}

static void on_event(void *user, const struct uro_event *event)
{
    struct sim_host_work *at_host = user;
    struct sim_world *world = at_host->host->world;

    if (event->kind == URO_EVENT_COMPLETION) {
        struct sim_cq *cq = event->user;
        if (!cq->armed || cq->reported)
            sim_world_fail(world, "an event of a completion queue that was not armed");
        cq->reported = true;
        return;
    }
    if (event->kind == URO_EVENT_CQ_ERR) {
        sim_tight_on_overflow(event->user);
        return;
    }
    if (event->kind == URO_EVENT_SRQ_LIMIT) {
        sim_srq_on_limit(event->user);
        return;
    }
    on_endpoint_event(event->user, event->kind);
}

/* ---- rounds ---- */

static void check_workload(struct sim_workload *load, unsigned side)
{
    const struct sim_host *host = load->hosts[side];

    for (const struct sim_endpoint *end = load->endpoints; end != NULL; end = end->next) {
        const char *problem = end->host == host && end->alive ? uro_qp_problem(end->qp) : NULL;
        if (problem != NULL)
            sim_world_fail(load->world, "a queue pair of %c: %s", host->config.name, problem);
    }
    for (uint32_t i = 0; i < load->plan->srq_count[side]; i++)
        sim_srq_after_round(&load->srqs[side][i]);
    for (const struct sim_endpoint *end = load->endpoints;
         end != NULL && load->tight[side].overflowed; end = end->next)
        sim_judge_lost(end);
}

static void after_round(void *user, struct sim_host *host)
{
    struct sim_host_work *at_host = user;

    URO_ASSERT(host == at_host->host);
    for (uint32_t i = 0; i < at_host->tie_count; i++)
        check_workload(at_host->ties[i].load, at_host->ties[i].side);
    sim_cm_events(at_host);
}

/* ---- frames ---- */

/* Checks a CNP; ignores its queue pair. */
static bool check_notice(const struct sim_workload *load, const struct sim_host *host,
                         const struct uro_frame *frame)
{
    if (load->plan->clean || !frame->bth.becn || frame->bth.psn != 0 || frame->bth.ack_req)
        sim_world_fail(load->world, "%c notifies qp 0x%06x of congestion: %s", host->config.name,
                       frame->bth.dest_qpn,
                       load->plan->clean ? "nothing was marked" : "not as a notification must be");
    return true;
}

static bool is_from(const struct sim_endpoint *end, const struct uro_frame *frame)
{
    if (frame->op->service == URO_UD)
        return end->type == URO_QPT_UD && end->qpn == frame->deth.source_qpn;
    return end->peer != NULL && end->peer->qpn == frame->bth.dest_qpn;
}

/* Returns whether the frame belongs to the workload. */
static bool is_of(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame)
{
    if (frame->op->service == URO_CNP)
        return check_notice(load, host, frame);
    if (frame->bth.dest_qpn == URO_CM_MAD_QPN && frame->op->service == URO_UD) {
        sim_cm_check_mad(load->cm, host, frame);
        return true;
    }
    if (frame->op->service == URO_UD && uro_gid_equal(&frame->ip.source, &frame->ip.dest))
        return true; /* within one host: out of order with what goes over the cable */
    for (struct sim_endpoint *end = load->endpoints; end != NULL; end = end->next) {
        if (!end->alive || end->host != host || end->ops->wire == NULL || !is_from(end, frame))
            continue;
        end->ops->wire(end, frame);
        return true;
    }
    return sim_attacked_wire(load->attacked, host, frame);
}

/* Returns whether the frame is between hosts of the workload. A QPN is only unique within a host.
 */
static bool concerns(const struct sim_workload *load, const struct uro_gid *dest)
{
    for (unsigned side = 0; side < 2; side++) {
        const struct uro_engine_config *engine = &load->hosts[side]->config.engine;
        for (uint32_t i = 0; i < engine->address_count; i++)
            if (uro_gid_equal(&engine->addresses[i].gid, dest))
                return true;
    }
    return false;
}

/* Checks a frame: a workload must have asked for it. A management datagram is passed to every
 * workload that it may belong to. */
static void sent(void *user, struct sim_host *host, const struct sim_world_frame *octets)
{
    struct sim_host_work *at_host = user;
    struct uro_frame frame;
    uint32_t concerned = 0;
    bool known = false;

    if (uro_frame_network(octets->octets, octets->length, &frame) != URO_FRAME_OK ||
        uro_frame_roce(&frame) != URO_FRAME_OK)
        return; /* the host has said so */
    for (uint32_t i = 0; i < at_host->tie_count; i++)
        if (concerns(at_host->ties[i].load, &frame.ip.dest))
            concerned |= 1u << i;
    bool message = frame.bth.dest_qpn == URO_CM_MAD_QPN && frame.op->service == URO_UD;
    for (uint32_t i = 0; i < at_host->tie_count && (message || !known); i++)
        if (concerned == 0 || concerned & 1u << i)
            known |= is_of(at_host->ties[i].load, host, &frame);
    if (known)
        return;
    if (frame.op->service == URO_UD)
        sim_world_fail(host->world, "%c sent a datagram of qp 0x%06x, which is no more",
                       host->config.name, frame.deth.source_qpn);
    else
        sim_world_fail(host->world, "%c sent %s to qp 0x%06x, which nobody is connected to",
                       host->config.name, frame.op->name, frame.bth.dest_qpn);
}

void sim_host_work_init(struct sim_host_work *at_host, struct sim_host *host)
{
    *at_host = (struct sim_host_work){ .host = host };
    host->event = on_event;
    host->after_round = after_round;
    host->sent = sent;
    host->user = at_host;
}

void sim_host_work_tie(struct sim_host_work *at_host, struct sim_workload *load, unsigned side)
{
    URO_ASSERT(at_host->tie_count < SIM_HOST_WORK_TIES_MAX);
    at_host->ties[at_host->tie_count++] = (struct sim_host_tie){ load, side };
}
