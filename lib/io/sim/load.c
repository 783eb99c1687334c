/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c - all pairs together, and what must hold at the end; see load.h. */
#include "io/sim/load_cm.h"
#include "io/sim/load_site.h"
#include "io/sim/load_tight.h"
#include "io/sim/load_uc.h"
#include "io/sim/load_ud.h"
#include "io/sim/load_victim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_end_event(struct uro_load_owner *owner, enum uro_event_kind kind)
{
    struct uro_load_end *end = URO_CONTAINER_OF(owner, struct uro_load_end, owner);
    struct uro_load *load = end->load;

    if (!end->alive)
        uro_world_fail(load->world, "event %d of a queue pair that is no more", (int)kind);
    else if (kind == URO_EVENT_QP_FATAL)
        uro_load_tight_on_fatal(load, owner, end->qp);
    else if (kind == URO_EVENT_QP_REQ_ERR || kind == URO_EVENT_QP_ACCESS_ERR) {
        if (!end->pair->may_fail)
            uro_world_fail(load->world, "qp 0x%06x: event %d without cause", uro_qp_number(end->qp),
                           (int)kind);
        uro_load_control_on_failure(end->pair);
    } else if (kind == URO_EVENT_SQ_DRAINED) {
        uro_load_pause_on_drained(&end->pause);
    } else if (kind == URO_EVENT_LAST_WQE) {
        if (end->srq == NULL || end->last_wqe || uro_qp_state_now(end->qp) != URO_QPS_ERR)
            uro_world_fail(load->world, "qp 0x%06x: LAST_WQE out of place", uro_qp_number(end->qp));
        end->last_wqe = true;
        end->last_wqe_at = load->world->now;
    }
}

static const char *end_problem(const struct uro_load_owner *owner)
{
    const struct uro_load_end *end = URO_CONTAINER_OF(owner, struct uro_load_end, owner);

    return end->alive ? uro_qp_problem(end->qp) : NULL;
}

void uro_load_own(struct uro_load *load, struct uro_load_owner *owner,
                  const struct uro_station *station,
                  void (*on_event)(struct uro_load_owner *, enum uro_event_kind),
                  const char *(*problem)(const struct uro_load_owner *))
{
    *owner = (struct uro_load_owner){
        .next = load->owners, .station = station, .on_event = on_event, .problem = problem
    };
    load->owners = owner;
}

uro_time uro_load_arrived_at(const struct uro_load *load)
{
    uro_time jumped_at = load->world->jumped_at;

    return jumped_at == 0 ? 0 : jumped_at + uro_swarm_flight_max(load->swarm);
}

bool uro_load_swallows(const struct uro_station *station)
{
    return uro_engine_counters(station->engine)->value[URO_COUNT_TX_NO_NEIGHBOR] > 0;
}

void uro_load_bury_arena(struct uro_load *load, struct uro_arena *arena)
{
    struct uro_load_grave *grave = malloc(sizeof *grave);

    URO_ASSERT(grave != NULL);
    grave->arena = *arena;
    grave->sum = uro_arena_sum(arena);
    grave->next = load->graves;
    load->graves = grave;
    memset(arena, 0, sizeof *arena);
}

/* Completions that had no place. */
static void judge_lost(const struct uro_load *load)
{
    for (uint32_t i = 0; i < 2 * load->swarm->pair_count; i++)
        uro_load_judge_lost(&load->pairs[i / 2].ends[i % 2]);
    for (uint32_t i = 0; i < 2 * load->swarm->uc_count; i++)
        uro_load_uc_judge_lost(&load->ucs[i / 2].ends[i % 2]);
    for (uint32_t i = 0; i < load->ud->count; i++)
        uro_load_ud_judge_lost(&load->ud->parties[i]);
}

void uro_load_after_round(struct uro_load *load, unsigned side)
{
    const struct uro_station *station = load->stations[side];

    for (const struct uro_load_owner *owner = load->owners; owner != NULL; owner = owner->next) {
        const char *problem = owner->station == station ? owner->problem(owner) : NULL;
        if (problem != NULL)
            uro_world_fail(load->world, "a queue pair of %c: %s", station->config.name, problem);
    }
    for (uint32_t i = 0; i < load->swarm->srq_count[side]; i++)
        uro_load_srq_after_round(&load->srqs[side][i]);
    if (load->tight[side].overflowed)
        judge_lost(load);
}

static void init_shared(struct uro_load *load, unsigned side)
{
    struct uro_load_shared *shared = &load->shared[side];

    shared->word = malloc(sizeof *shared->word);
    URO_ASSERT(shared->word != NULL);
    shared->start = uro_rng_u32(&load->rng);
    *shared->word = shared->start;
}

/* Whose receives it takes says whose protection domain it is of. */
static void choose_type(struct uro_load_end *end)
{
    const struct uro_swarm_pair *plan = end->pair->plan;
    unsigned i = (unsigned)(end - end->pair->ends);

    end->type = URO_QPT_RC;
    end->pd = end->load->pds + end->number;
    if (plan->xrc)
        end->type = i == plan->xrc_target ? URO_QPT_XRC_TGT : URO_QPT_XRC_INI;
    else if (end->plan->srq != URO_SWARM_NO_SRQ)
        end->pd = uro_load_srq_of(end, end->plan->srq)->pd;
    for (uint32_t j = 0; end->type == URO_QPT_XRC_TGT && j < end->load->swarm->srq_count[end->side];
         j++)
        if (uro_load_srq_of(end, j)->plan->xrc)
            end->pd = uro_load_srq_of(end, j)->pd;
}

static void init_pair(struct uro_load *load, uint32_t number)
{
    struct uro_load_pair *pair = &load->pairs[number];

    pair->load = load;
    pair->plan = &load->swarm->pairs[number];
    pair->number = load->number * URO_LOAD_PAIRS + number;
    uro_rng_init_number(&pair->rng, uro_rng_u64(&load->rng));
    for (unsigned i = 0; i < 2; i++) {
        struct uro_load_end *end = &pair->ends[i];
        end->pair = pair;
        end->peer = &pair->ends[!i];
        end->load = load;
        end->side = pair->plan->sides[i];
        end->station = load->stations[end->side];
        end->plan = &pair->plan->ends[i];
        end->number = 1 + number * 2 + i;
        choose_type(end);
        uro_load_own(load, &end->owner, end->station, on_end_event, end_problem);
        end->ended = true;
        uro_rng_init_number(&end->rng, uro_rng_u64(&load->rng));
        uro_load_post_init(end);
        uro_load_pause_init(&end->pause, load, end->station);
    }
    uro_load_control_init(pair);
}

/* Every request that can be outstanding fits any one completion queue. */
static uint32_t cq_capacity(const struct uro_swarm *swarm)
{
    uint32_t capacity = 1;

    for (unsigned side = 0; side < 2; side++)
        for (uint32_t i = 0; i < swarm->srq_count[side]; i++)
            capacity += swarm->srqs[side][i].capacity_max + swarm->srqs[side][i].spare;
    for (uint32_t i = 0; i < swarm->pair_count; i++)
        for (unsigned side = 0; side < 2; side++)
            capacity +=
                swarm->pairs[i].ends[side].send_capacity + swarm->pairs[i].ends[side].recv_capacity;
    return capacity;
}

void uro_load_init(struct uro_load *load, struct uro_world *world, const struct uro_swarm *swarm,
                   uint32_t number, struct uro_load_site *a, struct uro_load_site *b)
{
    memset(load, 0, sizeof *load);
    load->world = world;
    load->swarm = swarm;
    load->number = number;
    load->pds = number * URO_LOAD_PDS;
    load->sites[0] = a;
    load->sites[1] = b;
    for (unsigned side = 0; side < 2; side++) {
        load->stations[side] = load->sites[side]->station;
        uro_load_site_tie(load->sites[side], load, side);
    }
    uro_rng_init_number(&load->rng, uro_rng_u64(&world->rng));
    load->pairs = calloc(swarm->pair_count, sizeof *load->pairs);
    URO_ASSERT(load->pairs != NULL);
    for (unsigned side = 0; side < 2; side++) {
        init_shared(load, side);
        for (uint32_t i = 0; i < swarm->cq_count; i++)
            uro_load_poll_init(&load->cqs[side][i], load, load->stations[side], cq_capacity(swarm));
        uro_load_tight_init(load, side);
        for (uint32_t i = 0; i < swarm->srq_count[side]; i++)
            uro_load_srq_init(&load->srqs[side][i], load, side, i);
    }
    for (uint32_t i = 0; i < swarm->pair_count; i++)
        init_pair(load, i);
    load->ucs = calloc(URO_SWARM_UCS_MAX, sizeof *load->ucs);
    URO_ASSERT(load->ucs != NULL);
    for (uint32_t i = 0; i < swarm->uc_count; i++)
        uro_load_uc_init(&load->ucs[i], load, i);
    load->ud = uro_load_ud_make(load);
    load->cm = uro_load_cm_make(load);
    load->victim = uro_load_victim_make(load);
}

void uro_load_fini(struct uro_load *load)
{
    for (uint32_t i = 0; i < load->swarm->pair_count; i++) {
        for (unsigned side = 0; side < 2; side++) {
            free(load->pairs[i].ends[side].qp_memory);
            uro_arena_fini(&load->pairs[i].ends[side].arena);
        }
    }
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < load->swarm->cq_count; i++)
            uro_load_poll_fini(&load->cqs[side][i]);
        uro_load_poll_fini(&load->tight[side]);
        for (uint32_t i = 0; i < load->swarm->srq_count[side]; i++)
            uro_load_srq_fini(&load->srqs[side][i]);
        free(load->shared[side].word);
        free(load->shared[side].adds);
    }
    while (load->graves != NULL) {
        struct uro_load_grave *grave = load->graves;
        load->graves = grave->next;
        uro_arena_fini(&grave->arena);
        free(grave);
    }
    for (uint32_t i = 0; i < load->swarm->uc_count; i++)
        uro_load_uc_fini(&load->ucs[i]);
    free(load->ucs);
    uro_load_ud_free(load->ud);
    uro_load_cm_free(load->cm);
    uro_load_victim_free(load->victim);
    free(load->pairs);
}

void uro_load_calm(struct uro_load *load)
{
    load->calm = true;
    load->calm_since = load->world->now;
    for (uint32_t i = 0; i < load->swarm->uc_count; i++)
        uro_load_uc_calm(&load->ucs[i]);
    uro_load_ud_calm(load->ud);
    uro_load_cm_calm(load->cm);
}

bool uro_load_quiet(const struct uro_load *load)
{
    for (uint32_t i = 0; i < load->swarm->pair_count; i++)
        if (load->pairs[i].state != URO_LOAD_QUIET)
            return false;
    for (uint32_t i = 0; i < load->swarm->uc_count; i++)
        if (load->ucs[i].state != URO_LOAD_QUIET)
            return false;
    return uro_load_ud_quiet(load->ud) && uro_load_cm_quiet(load->cm) &&
           (load->victim == NULL || load->victim->over);
}

void uro_load_end_all(struct uro_load *load)
{
    for (uint32_t i = 0; i < load->swarm->pair_count; i++)
        uro_load_control_finish(&load->pairs[i]);
    for (uint32_t i = 0; i < load->swarm->uc_count; i++)
        uro_load_uc_finish(&load->ucs[i]);
    uro_load_ud_finish(load->ud);
    uro_load_cm_finish(load->cm);
}

bool uro_load_over(const struct uro_load *load)
{
    for (uint32_t i = 0; i < load->swarm->pair_count; i++)
        if (load->pairs[i].state != URO_LOAD_OVER)
            return false;
    for (uint32_t i = 0; i < load->swarm->uc_count; i++)
        if (load->ucs[i].state != URO_LOAD_OVER)
            return false;
    return uro_load_ud_over(load->ud);
}

static int by_original(const void *a, const void *b)
{
    const struct uro_load_add *x = a;
    const struct uro_load_add *y = b;

    return x->original < y->original ? -1 : x->original > y->original;
}

/* Sorted by what they found, each add must have found exactly the sum of those before it; gaps are
 * adds of which nobody knows. */
static void check_shared(struct uro_load *load, unsigned side)
{
    struct uro_load_shared *shared = &load->shared[side];
    uint64_t sum = shared->start;
    uint64_t left = shared->uncertain;

    if (shared->count > 0)
        qsort(shared->adds, shared->count, sizeof *shared->adds, by_original);
    for (uint32_t i = 0; i <= shared->count; i++) {
        uint64_t found = i < shared->count ? shared->adds[i].original : *shared->word;
        if (found < sum || found - sum > left) {
            uro_world_fail(load->world,
                           "shared word of %c: add %u of %u found %" PRIu64 ", sum is %" PRIu64
                           ", %" PRIu64 " uncertain",
                           load->stations[side]->config.name, i, shared->count, found, sum, left);
            return;
        }
        left -= found - sum;
        sum = found + (i < shared->count ? shared->adds[i].add : 0);
    }
}

void uro_load_check(struct uro_load *load)
{
    for (unsigned side = 0; side < 2; side++) {
        check_shared(load, side);
        for (uint32_t i = 0; i < load->swarm->srq_count[side]; i++)
            uro_load_srq_check(&load->srqs[side][i]);
    }
    uro_load_victim_check(load->victim);
    for (struct uro_load_grave *grave = load->graves; grave != NULL; grave = grave->next)
        if (uro_arena_sum(&grave->arena) != grave->sum)
            uro_world_fail(load->world, "memory changed after it was deregistered");
}

void uro_load_blame(const struct uro_load *load, char *text, size_t room)
{
    static const char *const states[] = { "running", "ending", "waiting", "quiet", "over" };
    size_t used = 0;

    text[0] = '\0';
    used += uro_load_cm_blame(load->cm, text, room);
    for (uint32_t i = 0; i < load->swarm->pair_count && used < room; i++) {
        const struct uro_load_pair *pair = &load->pairs[i];
        const struct uro_load_end *a = &pair->ends[0];
        const struct uro_load_end *b = &pair->ends[1];
        int length = snprintf(
            text + used, room - used,
            " pair %u %s, A %" PRIu64 "/%" PRIu64 " done %" PRIu64 "/%" PRIu64 " taken, B %" PRIu64
            "/%" PRIu64 " done %" PRIu64 "/%" PRIu64 " taken;",
            i, states[pair->state], a->confirmed, a->posted, a->messages_taken, b->messages_sent,
            b->confirmed, b->posted, b->messages_taken, a->messages_sent);
        used += length > 0 ? (size_t)length : 0;
    }
    for (uint32_t i = 0; i < load->ud->count && used < room; i++) {
        const struct uro_load_ud_party *party = &load->ud->parties[i];
        int length = snprintf(text + used, room - used, " UD %u %s, %u/%u sent %u/%u taken;", i,
                              states[party->state], party->confirmed, party->sends, party->taken,
                              party->expected);
        used += length > 0 ? (size_t)length : 0;
    }
    for (uint32_t i = 0; i < load->swarm->uc_count && used < room; i++) {
        const struct uro_load_uc_end *a = &load->ucs[i].ends[0];
        const struct uro_load_uc_end *b = &load->ucs[i].ends[1];
        int length = snprintf(text + used, room - used,
                              " UC %u %s, %u/%u sent %u/%u taken,"
                              " %u/%u sent %u/%u taken;",
                              i, states[load->ucs[i].state], a->confirmed, a->sends, a->taken,
                              b->takes, b->confirmed, b->sends, b->taken, a->takes);
        used += length > 0 ? (size_t)length : 0;
    }
}
