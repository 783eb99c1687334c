/* SPDX-License-Identifier: BSD-3-Clause */
/* workload.c - all pairs together, and what must hold at the end; see workload.h. */
#include "sim/work/attacked.h"
#include "sim/work/cm.h"
#include "sim/work/host_work.h"
#include "sim/work/tight.h"
#include "sim/work/uc.h"
#include "sim/work/ud.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_end_event(struct sim_qp_owner *owner, enum uro_event_kind kind)
{
    struct sim_rc_end *end = URO_CONTAINER_OF(owner, struct sim_rc_end, owner);
    struct sim_workload *load = end->load;

    if (!end->alive)
        sim_world_fail(load->world, "event %d of a queue pair that is no more", (int)kind);
    else if (kind == URO_EVENT_QP_FATAL)
        sim_tight_on_fatal(load, owner, end->qp);
    else if (kind == URO_EVENT_QP_REQ_ERR || kind == URO_EVENT_QP_ACCESS_ERR) {
        if (!end->pair->may_fail)
            sim_world_fail(load->world, "qp 0x%06x: event %d without cause", uro_qp_number(end->qp),
                           (int)kind);
        sim_rc_control_on_failure(end->pair);
    } else if (kind == URO_EVENT_SQ_DRAINED) {
        sim_drain_on_drained(&end->pause);
    } else if (kind == URO_EVENT_LAST_WQE) {
        if (end->srq == NULL || end->last_wqe || uro_qp_state_now(end->qp) != URO_QPS_ERR)
            sim_world_fail(load->world, "qp 0x%06x: LAST_WQE out of place", uro_qp_number(end->qp));
        end->last_wqe = true;
        end->last_wqe_at = load->world->now;
    }
}

static const char *end_problem(const struct sim_qp_owner *owner)
{
    const struct sim_rc_end *end = URO_CONTAINER_OF(owner, struct sim_rc_end, owner);

    return end->alive ? uro_qp_problem(end->qp) : NULL;
}

void sim_workload_own(struct sim_workload *load, struct sim_qp_owner *owner,
                      const struct sim_host *host,
                      void (*on_event)(struct sim_qp_owner *, enum uro_event_kind),
                      const char *(*problem)(const struct sim_qp_owner *))
{
    *owner = (struct sim_qp_owner){
        .next = load->owners, .host = host, .on_event = on_event, .problem = problem
    };
    load->owners = owner;
}

uro_time sim_workload_arrived_at(const struct sim_workload *load)
{
    uro_time jumped_at = load->world->jumped_at;

    return jumped_at == 0 ? 0 : jumped_at + sim_plan_flight_max(load->plan);
}

bool sim_workload_swallows(const struct sim_host *host)
{
    return uro_engine_counters(host->engine)->value[URO_COUNT_TX_NO_NEIGHBOR] > 0;
}

void sim_workload_bury_arena(struct sim_workload *load, struct sim_memory *memory)
{
    struct sim_buried *grave = malloc(sizeof *grave);

    URO_ASSERT(grave != NULL);
    grave->memory = *memory;
    grave->sum = sim_memory_sum(memory);
    grave->next = load->graves;
    load->graves = grave;
    memset(memory, 0, sizeof *memory);
}

/* Completions that had no place. */
static void judge_lost(const struct sim_workload *load)
{
    for (uint32_t i = 0; i < 2 * load->plan->pair_count; i++)
        sim_rc_judge_lost(&load->pairs[i / 2].ends[i % 2]);
    for (uint32_t i = 0; i < 2 * load->plan->uc_count; i++)
        sim_uc_judge_lost(&load->ucs[i / 2].ends[i % 2]);
    for (uint32_t i = 0; i < load->ud->count; i++)
        sim_ud_judge_lost(&load->ud->parties[i]);
}

void sim_workload_after_round(struct sim_workload *load, unsigned side)
{
    const struct sim_host *host = load->hosts[side];

    for (const struct sim_qp_owner *owner = load->owners; owner != NULL; owner = owner->next) {
        const char *problem = owner->host == host ? owner->problem(owner) : NULL;
        if (problem != NULL)
            sim_world_fail(load->world, "a queue pair of %c: %s", host->config.name, problem);
    }
    for (uint32_t i = 0; i < load->plan->srq_count[side]; i++)
        sim_srq_after_round(&load->srqs[side][i]);
    if (load->tight[side].overflowed)
        judge_lost(load);
}

static void init_shared(struct sim_workload *load, unsigned side)
{
    struct sim_shared_shared *shared = &load->shared[side];

    shared->word = malloc(sizeof *shared->word);
    URO_ASSERT(shared->word != NULL);
    shared->start = uro_rng_u32(&load->rng);
    *shared->word = shared->start;
}

/* Whose receives it takes says whose protection domain it is of. */
static void choose_type(struct sim_rc_end *end)
{
    const struct sim_plan_pair *plan = end->pair->plan;
    unsigned i = (unsigned)(end - end->pair->ends);

    end->type = URO_QPT_RC;
    end->pd = end->load->pds + end->number;
    if (plan->xrc)
        end->type = i == plan->xrc_target ? URO_QPT_XRC_TGT : URO_QPT_XRC_INI;
    else if (end->plan->srq != SIM_PLAN_NO_SRQ)
        end->pd = sim_srq_of(end, end->plan->srq)->pd;
    for (uint32_t j = 0; end->type == URO_QPT_XRC_TGT && j < end->load->plan->srq_count[end->side];
         j++)
        if (sim_srq_of(end, j)->plan->xrc)
            end->pd = sim_srq_of(end, j)->pd;
}

static void init_pair(struct sim_workload *load, uint32_t number)
{
    struct sim_rc *pair = &load->pairs[number];

    pair->load = load;
    pair->plan = &load->plan->pairs[number];
    pair->number = load->number * SIM_WORKLOAD_PAIRS + number;
    uro_rng_init_number(&pair->rng, uro_rng_u64(&load->rng));
    for (unsigned i = 0; i < 2; i++) {
        struct sim_rc_end *end = &pair->ends[i];
        end->pair = pair;
        end->peer = &pair->ends[!i];
        end->load = load;
        end->side = pair->plan->sides[i];
        end->host = load->hosts[end->side];
        end->plan = &pair->plan->ends[i];
        end->number = 1 + number * 2 + i;
        choose_type(end);
        sim_workload_own(load, &end->owner, end->host, on_end_event, end_problem);
        end->ended = true;
        uro_rng_init_number(&end->rng, uro_rng_u64(&load->rng));
        sim_rc_post_init(end);
        sim_drain_init(&end->pause, load, end->host);
    }
    sim_rc_control_init(pair);
}

/* Every request that can be outstanding fits any one completion queue. */
static uint32_t cq_capacity(const struct sim_plan *plan)
{
    uint32_t capacity = 1;

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
    load->pds = number * SIM_WORKLOAD_PDS;
    load->at_hosts[0] = a;
    load->at_hosts[1] = b;
    for (unsigned side = 0; side < 2; side++) {
        load->hosts[side] = load->at_hosts[side]->host;
        sim_host_work_tie(load->at_hosts[side], load, side);
    }
    uro_rng_init_number(&load->rng, uro_rng_u64(&world->rng));
    load->pairs = calloc(plan->pair_count, sizeof *load->pairs);
    URO_ASSERT(load->pairs != NULL);
    for (unsigned side = 0; side < 2; side++) {
        init_shared(load, side);
        for (uint32_t i = 0; i < plan->cq_count; i++)
            sim_cq_init(&load->cqs[side][i], load, load->hosts[side], cq_capacity(plan));
        sim_tight_init(load, side);
        for (uint32_t i = 0; i < plan->srq_count[side]; i++)
            sim_srq_init(&load->srqs[side][i], load, side, i);
    }
    for (uint32_t i = 0; i < plan->pair_count; i++)
        init_pair(load, i);
    load->ucs = calloc(SIM_PLAN_UCS_MAX, sizeof *load->ucs);
    URO_ASSERT(load->ucs != NULL);
    for (uint32_t i = 0; i < plan->uc_count; i++)
        sim_uc_init(&load->ucs[i], load, i);
    load->ud = sim_ud_make(load);
    load->cm = sim_cm_make(load);
    load->attacked = sim_attacked_make(load);
}

void sim_workload_fini(struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->plan->pair_count; i++) {
        for (unsigned side = 0; side < 2; side++) {
            free(load->pairs[i].ends[side].qp_memory);
            sim_memory_fini(&load->pairs[i].ends[side].memory);
        }
    }
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < load->plan->cq_count; i++)
            sim_cq_fini(&load->cqs[side][i]);
        sim_cq_fini(&load->tight[side]);
        for (uint32_t i = 0; i < load->plan->srq_count[side]; i++)
            sim_srq_fini(&load->srqs[side][i]);
        free(load->shared[side].word);
        free(load->shared[side].adds);
    }
    while (load->graves != NULL) {
        struct sim_buried *grave = load->graves;
        load->graves = grave->next;
        sim_memory_fini(&grave->memory);
        free(grave);
    }
    for (uint32_t i = 0; i < load->plan->uc_count; i++)
        sim_uc_fini(&load->ucs[i]);
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
    for (uint32_t i = 0; i < load->plan->uc_count; i++)
        sim_uc_calm(&load->ucs[i]);
    sim_ud_calm(load->ud);
    sim_cm_calm(load->cm);
}

bool sim_workload_quiet(const struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->plan->pair_count; i++)
        if (load->pairs[i].state != SIM_LIFE_QUIET)
            return false;
    for (uint32_t i = 0; i < load->plan->uc_count; i++)
        if (load->ucs[i].state != SIM_LIFE_QUIET)
            return false;
    return sim_ud_quiet(load->ud) && sim_cm_quiet(load->cm) &&
           (load->attacked == NULL || load->attacked->over);
}

void sim_workload_end_all(struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->plan->pair_count; i++)
        sim_rc_control_finish(&load->pairs[i]);
    for (uint32_t i = 0; i < load->plan->uc_count; i++)
        sim_uc_finish(&load->ucs[i]);
    sim_ud_finish(load->ud);
    sim_cm_finish(load->cm);
}

bool sim_workload_over(const struct sim_workload *load)
{
    for (uint32_t i = 0; i < load->plan->pair_count; i++)
        if (load->pairs[i].state != SIM_LIFE_OVER)
            return false;
    for (uint32_t i = 0; i < load->plan->uc_count; i++)
        if (load->ucs[i].state != SIM_LIFE_OVER)
            return false;
    return sim_ud_over(load->ud);
}

static int by_original(const void *a, const void *b)
{
    const struct sim_shared_add *x = a;
    const struct sim_shared_add *y = b;

    return x->original < y->original ? -1 : x->original > y->original;
}

/* Sorted by what they found, each add must have found exactly the sum of those before it; gaps are
 * adds of which nobody knows. */
static void check_shared(struct sim_workload *load, unsigned side)
{
    struct sim_shared_shared *shared = &load->shared[side];
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
    for (struct sim_buried *grave = load->graves; grave != NULL; grave = grave->next)
        if (sim_memory_sum(&grave->memory) != grave->sum)
            sim_world_fail(load->world, "memory changed after it was deregistered");
}

void sim_workload_blame(const struct sim_workload *load, char *text, size_t room)
{
    static const char *const states[] = { "running", "ending", "waiting", "quiet", "over" };
    size_t used = 0;

    text[0] = '\0';
    used += sim_cm_blame(load->cm, text, room);
    for (uint32_t i = 0; i < load->plan->pair_count && used < room; i++) {
        const struct sim_rc *pair = &load->pairs[i];
        const struct sim_rc_end *a = &pair->ends[0];
        const struct sim_rc_end *b = &pair->ends[1];
        int length = snprintf(
            text + used, room - used,
            " pair %u %s, A %" PRIu64 "/%" PRIu64 " done %" PRIu64 "/%" PRIu64 " taken, B %" PRIu64
            "/%" PRIu64 " done %" PRIu64 "/%" PRIu64 " taken;",
            i, states[pair->state], a->confirmed, a->posted, a->messages_taken, b->messages_sent,
            b->confirmed, b->posted, b->messages_taken, a->messages_sent);
        used += length > 0 ? (size_t)length : 0;
    }
    for (uint32_t i = 0; i < load->ud->count && used < room; i++) {
        const struct sim_ud_party *party = &load->ud->parties[i];
        int length = snprintf(text + used, room - used, " UD %u %s, %u/%u sent %u/%u taken;", i,
                              states[party->state], party->confirmed, party->sends, party->taken,
                              party->expected);
        used += length > 0 ? (size_t)length : 0;
    }
    for (uint32_t i = 0; i < load->plan->uc_count && used < room; i++) {
        const struct sim_uc_end *a = &load->ucs[i].ends[0];
        const struct sim_uc_end *b = &load->ucs[i].ends[1];
        int length = snprintf(text + used, room - used,
                              " UC %u %s, %u/%u sent %u/%u taken,"
                              " %u/%u sent %u/%u taken;",
                              i, states[load->ucs[i].state], a->confirmed, a->sends, a->taken,
                              b->takes, b->confirmed, b->sends, b->taken, a->takes);
        used += length > 0 ? (size_t)length : 0;
    }
}
