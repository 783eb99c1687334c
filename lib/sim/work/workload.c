/* SPDX-License-Identifier: BSD-3-Clause */
/* workload.c - all work of two hosts, the checks at its end, and the lookup of the workload that an
 * event or a frame of a host belongs to; see workload.h. */
#include "sim/work/workload.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/attacked.h"
#include "sim/work/cm.h"
#include "sim/work/rc.h"
#include "wire/frame.h"

#define TIGHT_WAIT_MAX URO_US(300) /* additional delay of the reader of a tight CQ */

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

static void init_lives(struct sim_workload *workload)
{
    const struct sim_plan *plan = workload->plan;
    struct sim_life *life = sim_alloc(SIM_WORKLOAD_LIVES_MAX * sizeof *life);

    workload->connections = life;
    workload->parties = life + plan->pair_count + plan->uc_count;
    for (uint32_t i = 0; i < plan->pair_count; i++)
        sim_life_init(life++, workload, &sim_rc_ops, &plan->pairs[i],
                      workload->number * SIM_RC_FAMILY + i);
    for (uint32_t i = 0; i < plan->uc_count; i++)
        sim_life_init(life++, workload, &sim_uc_ops, &plan->ucs[i], i);
    for (uint32_t i = 0; i < plan->party_count; i++)
        sim_life_init(life++, workload, &sim_ud_ops, &plan->parties[i], i);
}

void sim_workload_init(struct sim_workload *workload, struct sim_world *world,
                       const struct sim_plan *plan, uint32_t number, struct sim_host_workloads *a,
                       struct sim_host_workloads *b)
{
    memset(workload, 0, sizeof *workload);
    workload->world = world;
    workload->plan = plan;
    workload->number = number;
    workload->pds = number * SIM_WORKLOAD_PDS;
    workload->host_workloads[0] = a;
    workload->host_workloads[1] = b;
    for (unsigned side = 0; side < 2; side++) {
        struct sim_host_workloads *on_host = workload->host_workloads[side];
        workload->hosts[side] = on_host->host;
        URO_ASSERT(on_host->count < SIM_HOST_WORKLOADS_MAX);
        on_host->list[on_host->count++] = (struct sim_host_workload){ workload, side };
    }
    uro_rng_init_number(&workload->rng, uro_rng_u64(&world->rng));
    for (unsigned side = 0; side < 2; side++) {
        struct sim_shared_word *shared = &workload->shared[side];
        shared->word = sim_alloc(sizeof *shared->word);
        *shared->word = shared->start = uro_rng_u32(&workload->rng);
        for (uint32_t i = 0; i < plan->cq_count; i++)
            sim_cq_init(&workload->cqs[side][i], workload, workload->hosts[side],
                        cq_capacity(plan));
        if (plan->cq_tight > 0) {
            sim_cq_init(&workload->tight[side], workload, workload->hosts[side], plan->cq_tight);
            workload->tight[side].wait_max += TIGHT_WAIT_MAX;
        }
        for (uint32_t i = 0; i < plan->srq_count[side]; i++)
            sim_srq_init(&workload->srqs[side][i], workload, side, i);
    }
    init_lives(workload);
    workload->cm = sim_cm_make(workload);
    (void)sim_attacked_make(workload);
}

void sim_workload_fini(struct sim_workload *workload)
{
    for (uint32_t i = 0; i < workload->life_count; i++)
        sim_life_fini(workload->lives[i]);
    sim_cm_free(workload->cm);
    sim_attacked_free(workload->attacked);
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < workload->plan->srq_count[side]; i++)
            sim_srq_fini(&workload->srqs[side][i]);
        for (uint32_t i = 0; i < workload->plan->cq_count; i++)
            sim_cq_fini(&workload->cqs[side][i]);
        sim_cq_fini(&workload->tight[side]);
        free(workload->shared[side].word);
        free(workload->shared[side].adds);
    }
    while (workload->buried != NULL) {
        struct sim_buried *buried = workload->buried;
        workload->buried = buried->next;
        sim_memory_fini(&buried->memory);
        free(buried);
    }
    free(workload->datagrams);
    free(workload->connections);
}

void sim_workload_calm(struct sim_workload *workload)
{
    workload->calm = true;
    workload->calm_since = workload->world->now;
    sim_attacked_calm(workload->attacked);
    for (uint32_t i = 0; i < workload->life_count; i++)
        sim_life_calm(workload->lives[i]);
    sim_cm_calm(workload->cm);
}

bool sim_workload_idle(const struct sim_workload *workload)
{
    for (uint32_t i = 0; i < workload->life_count; i++)
        if (!sim_life_idle(workload->lives[i]))
            return false;
    return sim_cm_idle(workload->cm);
}

void sim_workload_end_all(struct sim_workload *workload)
{
    for (uint32_t i = 0; i < workload->life_count; i++)
        sim_life_finish(workload->lives[i]);
    sim_cm_finish(workload->cm);
}

bool sim_workload_over(const struct sim_workload *workload)
{
    for (uint32_t i = 0; i < workload->life_count; i++)
        if (workload->lives[i]->state != SIM_LIFE_OVER)
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
 * the start plus the sum of the adds before it. Gaps are adds without a known result. */
static void check_shared(struct sim_workload *workload, unsigned side)
{
    struct sim_shared_word *shared = &workload->shared[side];
    uint64_t sum = shared->start;
    uint64_t left = shared->uncertain;

    if (shared->count > 0)
        qsort(shared->adds, shared->count, sizeof *shared->adds, by_original);
    for (uint32_t i = 0; i <= shared->count; i++) {
        uint64_t found = i < shared->count ? shared->adds[i].original : *shared->word;
        if (found < sum || found - sum > left) {
            sim_world_fail(workload->world,
                           "shared word of %c: add %u of %u found %" PRIu64 ", sum is %" PRIu64
                           ", %" PRIu64 " uncertain",
                           workload->hosts[side]->config.name, i, shared->count, found, sum, left);
            return;
        }
        left -= found - sum;
        sum = found + (i < shared->count ? shared->adds[i].add : 0);
    }
}

void sim_workload_check(struct sim_workload *workload)
{
    for (unsigned side = 0; side < 2; side++) {
        check_shared(workload, side);
        for (uint32_t i = 0; i < workload->plan->srq_count[side]; i++)
            sim_srq_check(&workload->srqs[side][i]);
    }
    sim_attacked_check(workload->attacked);
    for (struct sim_buried *buried = workload->buried; buried != NULL; buried = buried->next)
        if (sim_memory_sum(&buried->memory) != buried->sum)
            sim_world_fail(workload->world, "memory changed after it was deregistered");
}

void sim_workload_explain(const struct sim_workload *workload, char *text, size_t size)
{
    static const char *const states[] = { "running", "ending", "waiting", "idle", "over" };

    text[0] = '\0';
    sim_cm_explain(workload->cm, text, size);
    for (uint32_t i = 0; i < workload->life_count; i++) {
        const struct sim_life *life = workload->lives[i];
        for (uint32_t j = 0; j < life->count; j++) {
            const struct sim_endpoint *end = &life->ends[j];
            sim_world_append(text, size,
                             " %s %u %s, %" PRIu64 "/%" PRIu64 " done, %" PRIu64 " sent, %" PRIu64
                             " taken;",
                             end->ops->family, life->number, states[life->state], end->confirmed,
                             end->posted, end->messages_sent, end->messages_taken);
        }
    }
}

/* ---- events ---- */

static void on_last_wqe(struct sim_endpoint *end)
{
    if (end->srq == NULL || end->last_wqe || uroce_qp_state(end->qp) != UROCE_ERR)
        sim_world_fail(end->world, "qp 0x%06x: unexpected LAST_WQE", end->qpn);
    end->last_wqe = true;
    end->last_wqe_at = end->world->now;
}

static void on_endpoint_event(struct sim_endpoint *end, enum uroce_event_kind kind)
{
    struct sim_world *world = end->world;
    bool refused = kind == UROCE_EVENT_QP_REQ_ERR || kind == UROCE_EVENT_QP_ACCESS_ERR;

    if (!end->alive)
        sim_world_fail(world, "event %d of a queue pair that was destroyed", (int)kind);
    else if (kind == UROCE_EVENT_QP_FATAL)
        sim_tight_on_fatal(end);
    else if (kind == UROCE_EVENT_SQ_DRAINED)
        sim_drain_on_drained(end);
    else if (kind == UROCE_EVENT_LAST_WQE)
        on_last_wqe(end);
    else if (refused && end->ops->reliable && end->life->may_fail)
        sim_life_on_failure(end->life);
    else if (kind != UROCE_EVENT_COMM_EST || end->type == UROCE_UD)
        sim_world_fail(world, "%s qp 0x%06x: event %d without cause", end->ops->family, end->qpn,
                       (int)kind);
}

static void on_event(void *user, const struct uroce_event *event)
{
    struct sim_host_workloads *host_workloads = user;
    struct sim_world *world = host_workloads->host->world;

    if (event->kind == UROCE_EVENT_COMPLETION) {
        struct sim_cq *cq = event->user;
        if (!cq->armed || cq->reported)
            sim_world_fail(world, "an event of a completion queue that was not armed");
        cq->reported = true;
        return;
    }
    if (event->kind == UROCE_EVENT_CQ_ERR) {
        sim_tight_on_overflow(event->user);
        return;
    }
    if (event->kind == UROCE_EVENT_SRQ_LIMIT) {
        sim_srq_on_limit(event->user);
        return;
    }
    on_endpoint_event(event->user, event->kind);
}

/* ---- rounds ---- */

static void check_workload(struct sim_workload *workload, unsigned side)
{
    const struct sim_host *host = workload->hosts[side];

    for (const struct sim_endpoint *end = workload->endpoints; end != NULL; end = end->next) {
        const char *problem = end->host == host && end->alive ? uroce_qp_problem(end->qp) : NULL;
        if (problem != NULL)
            sim_world_fail(workload->world, "a queue pair of %c: %s", host->config.name, problem);
    }
    for (uint32_t i = 0; i < workload->plan->srq_count[side]; i++)
        sim_srq_after_round(&workload->srqs[side][i]);
    for (const struct sim_endpoint *end = workload->endpoints;
         end != NULL && workload->tight[side].overflowed; end = end->next)
        sim_judge_lost(end);
}

static void after_round(void *user, struct sim_host *host)
{
    struct sim_host_workloads *host_workloads = user;

    URO_ASSERT(host == host_workloads->host);
    for (uint32_t i = 0; i < host_workloads->count; i++)
        check_workload(host_workloads->list[i].workload, host_workloads->list[i].side);
    sim_cm_events(host_workloads);
}

/* ---- frames ---- */

/* Checks a CNP; ignores its queue pair. */
static bool check_notice(const struct sim_workload *workload, const struct sim_host *host,
                         const struct uro_frame *frame)
{
    if (workload->plan->clean || !frame->bth.becn || frame->bth.psn != 0 || frame->bth.ack_req)
        sim_world_fail(workload->world, "%c notifies qp 0x%06x of congestion: %s",
                       host->config.name, frame->bth.dest_qpn,
                       workload->plan->clean ? "no packet was marked" : "the CNP is malformed");
    return true;
}

static bool is_from(const struct sim_endpoint *end, const struct uro_frame *frame)
{
    if (frame->op->service == URO_UD)
        return end->type == UROCE_UD && end->qpn == frame->deth.source_qpn;
    return end->peer != NULL && end->peer->qpn == frame->bth.dest_qpn;
}

/* Returns whether the frame belongs to the workload. */
static bool is_of(struct sim_workload *workload, struct sim_host *host,
                  const struct uro_frame *frame)
{
    if (frame->op->service == URO_CNP)
        return check_notice(workload, host, frame);
    if (frame->bth.dest_qpn == URO_CM_MAD_QPN && frame->op->service == URO_UD) {
        sim_cm_check_mad(workload->cm, host, frame);
        return true;
    }
    if (frame->op->service == URO_UD && uro_gid_equal(&frame->ip.source, &frame->ip.dest))
        /* A datagram within one host may overtake datagrams that use the cable. */
        return true;
    for (struct sim_endpoint *end = workload->endpoints; end != NULL; end = end->next) {
        if (!end->alive || end->host != host || end->ops->wire == NULL || !is_from(end, frame))
            continue;
        end->ops->wire(end, frame);
        return true;
    }
    return sim_attacked_wire(workload->attacked, host, frame);
}

/* Returns whether a frame to @dest goes to a host of the workload. QPNs are unique only within a
 * host. */
static bool concerns(const struct sim_workload *workload, const struct uro_gid *dest)
{
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < SIM_HOST_GIDS; i++)
            if (uro_gid_equal(&workload->hosts[side]->gids[i], dest))
                return true;
    }
    return false;
}

/* Checks that a frame belongs to the work of a workload. Passes a management datagram to every
 * workload that it may belong to. */
static void sent(void *user, struct sim_host *host, const struct sim_world_frame *packet)
{
    struct sim_host_workloads *host_workloads = user;
    struct uro_frame frame;
    uint32_t concerned = 0;
    bool known = false;

    if (uro_frame_network(packet->bytes, packet->length, &frame) != URO_FRAME_OK ||
        uro_frame_roce(&frame) != URO_FRAME_OK)
        return; /* host.c has reported the malformed frame */
    for (uint32_t i = 0; i < host_workloads->count; i++)
        if (concerns(host_workloads->list[i].workload, &frame.ip.dest))
            concerned |= 1u << i;
    bool message = frame.bth.dest_qpn == URO_CM_MAD_QPN && frame.op->service == URO_UD;
    for (uint32_t i = 0; i < host_workloads->count && (message || !known); i++)
        if (concerned == 0 || concerned & 1u << i)
            known |= is_of(host_workloads->list[i].workload, host, &frame);
    if (known)
        return;
    if (frame.op->service == URO_UD)
        sim_world_fail(host->world, "%c sent a datagram of qp 0x%06x, which was destroyed",
                       host->config.name, frame.deth.source_qpn);
    else
        sim_world_fail(host->world, "%c sent %s to qp 0x%06x, which no queue pair is connected to",
                       host->config.name, frame.op->name, frame.bth.dest_qpn);
}

void sim_host_workloads_init(struct sim_host_workloads *host_workloads, struct sim_host *host)
{
    *host_workloads = (struct sim_host_workloads){ .host = host };
    host->event = on_event;
    host->after_round = after_round;
    host->sent = sent;
    host->user = host_workloads;
}
