/* SPDX-License-Identifier: BSD-3-Clause */
/* workload.c - all work of two hosts together, and what must hold at the end; see workload.h. */
#include "sim/work/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/attacked.h"
#include "sim/work/cm.h"
#include "sim/work/rc.h"
#include "sim/work/ud.h"

/* Returns life @i: first the connections, then the datagram queue pairs, then the attacked ones. */
static struct sim_life *life_at(const struct sim_workload *load, uint32_t i)
{
    const struct sim_plan *plan = load->plan;

    if (i < plan->pair_count)
        return &load->pairs[i];
    if (i < plan->pair_count + plan->uc_count)
        return &load->ucs[i - plan->pair_count];
    i -= plan->pair_count + plan->uc_count;
    return i < plan->party_count ? &load->ud->lives[i] : &load->attacked->life;
}

static uint32_t life_count(const struct sim_workload *load)
{
    return load->plan->pair_count + load->plan->uc_count + load->plan->party_count +
           (load->attacked != NULL);
}

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

    for (unsigned side = 0; side < 2; side++)
        for (uint32_t i = 0; i < plan->srq_count[side]; i++)
            capacity += plan->srqs[side][i].capacity_max + plan->srqs[side][i].spare;
    for (uint32_t i = 0; i < plan->pair_count; i++)
        for (unsigned side = 0; side < 2; side++)
            capacity +=
                plan->pairs[i].ends[side].send_capacity + plan->pairs[i].ends[side].recv_capacity;
    return capacity;
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
    load->pairs = calloc(plan->pair_count, sizeof *load->pairs);
    URO_ASSERT(load->pairs != NULL || plan->pair_count == 0);
    for (unsigned side = 0; side < 2; side++) {
        init_shared(load, side);
        for (uint32_t i = 0; i < plan->cq_count; i++)
            sim_cq_init(&load->cqs[side][i], load, load->hosts[side], cq_capacity(plan));
        sim_tight_init(load, side);
        for (uint32_t i = 0; i < plan->srq_count[side]; i++)
            sim_srq_init(&load->srqs[side][i], load, side, i);
    }
    for (uint32_t i = 0; i < plan->pair_count; i++)
        sim_rc_init(&load->pairs[i], load, i);
    load->ucs = calloc(plan->uc_count, sizeof *load->ucs);
    URO_ASSERT(load->ucs != NULL || plan->uc_count == 0);
    for (uint32_t i = 0; i < plan->uc_count; i++)
        sim_uc_init(&load->ucs[i], load, i);
    load->ud = sim_ud_make(load);
    load->cm = sim_cm_make(load);
    (void)sim_attacked_make(load);
}

void sim_workload_fini(struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->plan->pair_count + load->plan->uc_count; i++)
        for (unsigned j = 0; j < 2; j++)
            sim_endpoint_fini(&life_at(load, i)->ends[j]);
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
    free(load->ucs);
    sim_ud_free(load->ud);
    sim_cm_free(load->cm);
    sim_attacked_free(load->attacked);
    free(load->pairs);
}

void sim_workload_calm(struct sim_workload *load)
{
    load->calm = true;
    load->calm_since = load->world->now;
    sim_attacked_calm(load->attacked);
    for (uint32_t i = 0; i < life_count(load); i++)
        sim_life_calm(life_at(load, i));
    sim_cm_calm(load->cm);
}

bool sim_workload_quiet(const struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->plan->pair_count + load->plan->uc_count; i++)
        if (life_at(load, i)->state != SIM_LIFE_QUIET)
            return false;
    return sim_ud_quiet(load->ud) && sim_cm_quiet(load->cm) &&
           (load->attacked == NULL || load->attacked->life.state == SIM_LIFE_QUIET);
}

void sim_workload_end_all(struct sim_workload *load)
{
    for (uint32_t i = 0; i < life_count(load); i++)
        sim_life_finish(life_at(load, i));
    sim_cm_finish(load->cm);
}

bool sim_workload_over(const struct sim_workload *load)
{
    for (uint32_t i = 0; i < life_count(load); i++)
        if (life_at(load, i)->state != SIM_LIFE_OVER)
            return false;
    return true;
}

static int by_original(const void *a, const void *b)
{
    const struct sim_shared_add *x = a;
    const struct sim_shared_add *y = b;

    return x->original < y->original ? -1 : x->original > y->original;
}

/* Checks a shared word. The adds are sorted by their original values. Each original value must be the sum of the adds before
 * it. Gaps are adds without a known result. */
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

void sim_workload_blame(const struct sim_workload *load, char *text, size_t room)
{
    static const char *const states[] = { "running", "ending", "waiting", "quiet", "over" };
    size_t used = 0;

    text[0] = '\0';
    used += sim_cm_blame(load->cm, text, room);
    for (uint32_t i = 0; i < life_count(load) && used < room; i++) {
        const struct sim_life *life = life_at(load, i);
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
