/* SPDX-License-Identifier: BSD-3-Clause */
/* load_srq.c - the owner of a shared receive queue: posts, arms limits, resizes; see load.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/sim/load_tight.h"
#include "io/sim/load_uc.h"
#include "io/sim/load_ud.h"

#define BAD_KEY         0x5a5a5a5au
#define RECEIVE_UD      (40u + URO_PATH_MTU_MAX) /* any datagram */
#define SLOTS_ALIGNMENT 64u
#define ADDRESS_SPACE   UINT64_C(0x800000000000) /* beyond every pair's */
#define ADDRESS_STEP    UINT64_C(0x10000000000)

static struct uro_load_srq *srq_of(const struct uro_node *node)
{
    return URO_CONTAINER_OF(node, struct uro_load_srq, poster);
}

static void fail(const struct uro_load_srq *srq, const char *what)
{
    uro_world_fail(srq->load->world, "shared receive queue %u of %c: %s", srq->index,
                   srq->station->config.name, what);
}

static uint32_t waiting(const struct uro_load_srq *srq)
{
    return uro_wq_tail(&srq->srq->wq) - uro_wq_head(&srq->srq->wq);
}

uint64_t uro_load_srq_oldest(const struct uro_load_srq *srq)
{
    return srq->posted - waiting(srq);
}

struct uro_load_srq *uro_load_srq_of(const struct uro_load_end *end, uint32_t index)
{
    URO_ASSERT(index < URO_SWARM_SRQS_MAX);
    return &end->load->srqs[end->side][index];
}

struct uro_load_srq_recv *uro_load_srq_find(struct uro_load_srq *srq, uint64_t number)
{
    for (uint32_t i = 0; i < srq->slot_count; i++)
        if (srq->recvs[i].used && srq->recvs[i].number == number)
            return &srq->recvs[i];
    return NULL;
}

struct uro_load_srq_recv *uro_load_srq_completed(struct uro_load_srq *srq,
                                                 const struct uro_cqe *cqe, uint64_t *next)
{
    uint64_t number = URO_LOAD_SRQ_NUMBER(cqe->wr_id);
    struct uro_load_srq_recv *recv = uro_load_srq_find(srq, number);

    if (!(cqe->wr_id & URO_LOAD_SRQ_BIT) || URO_LOAD_SRQ_INDEX(cqe->wr_id) != srq->index)
        fail(srq, "is not where a receive that completed is from");
    else if (recv == NULL)
        fail(srq, "completed a receive twice, or one that was never posted");
    else if (number >= uro_load_srq_oldest(srq))
        fail(srq, "completed a receive that still waits");
    else if (number < *next)
        fail(srq, "completed a receive after one that was taken later");
    *next = number + 1;
    return srq->load->world->failed ? NULL : recv;
}

void uro_load_srq_done(struct uro_load_srq *srq, struct uro_load_srq_recv *recv)
{
    recv->used = false;
    srq->done++;
}

static struct uro_load_srq_recv *free_slot(const struct uro_load_srq *srq)
{
    for (uint32_t i = 0; i < srq->slot_count; i++)
        if (!srq->recvs[i].used)
            return &srq->recvs[i];
    return NULL;
}

static bool can_post(const struct uro_load_srq *srq)
{
    return waiting(srq) < srq->srq->wq.capacity && free_slot(srq) != NULL;
}

static void *make_slots(uint32_t capacity, uint32_t sges)
{
    size_t size = uro_srq_slots_size(capacity, sges);
    void *slots;

    size = (size + SLOTS_ALIGNMENT - 1) / SLOTS_ALIGNMENT * SLOTS_ALIGNMENT;
    slots = aligned_alloc(SLOTS_ALIGNMENT, size);
    URO_ASSERT(slots != NULL);
    memset(slots, 0xa5, size);
    return slots;
}

static void fill(struct uro_load_srq *srq, struct uro_load_srq_recv *recv, struct uro_rqe *rqe)
{
    uint32_t slot = (uint32_t)(recv - srq->recvs);
    bool wrong = srq->plan->wild && uro_world_chance(&srq->rng, srq->plan->wrong_share);

    *recv = (struct uro_load_srq_recv){ .used = true,
                                        .number = srq->posted,
                                        .recv = { .room = srq->room } };
    if (wrong && uro_rng_below(&srq->rng, 2) == 0)
        recv->recv.room = uro_rng_below(&srq->rng, srq->room + 1);
    else
        recv->recv.bad_lkey = wrong;
    uro_arena_scatter(&recv->recv.layout, recv->recv.room, srq->plan->sges, &srq->rng);
    uro_arena_fill(&srq->arena, URO_ARENA_RECVS, slot, &recv->recv.layout, 0, 0);
    rqe->wr_id = URO_LOAD_RECV_BIT | URO_LOAD_SRQ_BIT | (uint64_t)srq->index << URO_LOAD_SRQ_SHIFT |
                 srq->posted;
    rqe->length = recv->recv.room;
    rqe->sge_count =
        uro_arena_sges(&srq->arena, URO_ARENA_RECVS, slot, &recv->recv.layout, rqe->sges);
    for (uint32_t i = 0; i < rqe->sge_count && recv->recv.bad_lkey; i++)
        rqe->sges[i].lkey ^= BAD_KEY;
    srq->posted++;
}

static void post(struct uro_load_srq *srq)
{
    uint32_t batch = uro_world_between(&srq->rng, 1, srq->plan->batch_max);
    uint32_t room = srq->srq->wq.capacity - waiting(srq);
    uint32_t count = 0;

    for (; count < batch && count < room && free_slot(srq) != NULL; count++) {
        struct uro_rqe *rqe = uro_wq_reserve(&srq->srq->wq, count);
        if (rqe == NULL) {
            fail(srq, "no room for a receive although there must be");
            return;
        }
        fill(srq, free_slot(srq), rqe);
    }
    uro_wq_publish(&srq->srq->wq, count);
    uro_journal_note(srq->load->world->journal, srq->load->world->now,
                     "shared queue %u of %c: receives up to %" PRIu64, srq->index,
                     srq->station->config.name, srq->posted);
}

/* More than wait is refused, and less than the limit. */
static void resize(struct uro_load_srq *srq)
{
    uint32_t capacity = uro_world_between(&srq->rng, 1, srq->plan->capacity_max);
    bool fits = capacity >= waiting(srq) && capacity >= srq->limit;
    void *slots = make_slots(capacity, srq->plan->sges);

    if ((uro_srq_resize(srq->srq, capacity, slots) == 0) != fits)
        fail(srq, "a resize was refused that fits, or done though it does not");
    free(fits ? srq->slots : slots);
    if (fits)
        srq->slots = slots;
}

static void arm(struct uro_load_srq *srq)
{
    uint32_t limit = uro_world_between(&srq->rng, 0, srq->srq->wq.capacity + 1);

    if ((uro_srq_arm(srq->srq, limit) == 0) != (limit <= srq->srq->wq.capacity))
        fail(srq, "a limit was refused that fits, or taken though it does not");
    if (limit > srq->srq->wq.capacity)
        return;
    srq->limit = limit;
    srq->armed_at = uro_load_srq_oldest(srq);
}

void uro_load_srq_on_limit(struct uro_load_srq *srq)
{
    if (srq->limit == 0)
        fail(srq, "tells of a limit that is not armed");
    else if (uro_load_srq_oldest(srq) == srq->armed_at)
        fail(srq, "tells of a limit although nothing was taken");
    else if (waiting(srq) >= srq->limit)
        fail(srq, "tells of a limit that it has not reached");
    srq->limit = 0;
}

/* Nobody posts during a round: what waits after it is the least there was in it. */
void uro_load_srq_after_round(struct uro_load_srq *srq)
{
    uint64_t oldest = uro_load_srq_oldest(srq);

    if (srq->limit > 0 && oldest > srq->seen && oldest > srq->armed_at && waiting(srq) < srq->limit)
        fail(srq, "is below its limit and says nothing");
    srq->seen = oldest;
}

/* What completed where it completed until now is taken before. */
static void choose_cq(struct uro_load_srq *srq)
{
    struct uro_load *load = srq->load;
    struct uro_load_cq *tight = NULL;

    if (srq->cq == &load->tight[srq->side])
        uro_load_poll_now(srq->cq);
    if (srq->plan->xrc && srq->plan->replace_share > 0) {
        srq->cq = srq->wide_cq;
        tight = uro_load_tight_choose_srq(load, srq->side, &srq->rng);
    }
    if (tight != NULL) {
        uro_load_poll_now(srq->cq);
        srq->cq = tight;
    }
}

static void create(struct uro_load_srq *srq, uint32_t capacity)
{
    const struct uro_swarm_srq *plan = srq->plan;

    choose_cq(srq);
    const struct uro_srq_init init = { .pd = srq->pd,
                                       .capacity = capacity,
                                       .sge_max = plan->sges,
                                       .xrcd =
                                           plan->xrc ? URO_LOAD_XRC_DOMAIN + srq->load->number : 0,
                                       .cq = plan->xrc ? srq->cq->cq : NULL,
                                       .user = srq };

    srq->slots = make_slots(capacity, plan->sges);
    srq->srq = aligned_alloc(_Alignof(struct uro_srq), sizeof *srq->srq);
    URO_ASSERT(srq->srq != NULL);
    uro_srq_create(uro_engine_shard(srq->station->engine), srq->srq, &init, srq->slots);
}

/* A queue pair takes receives from it. */
static bool in_use(const struct uro_load_srq *srq)
{
    const struct uro_load *load = srq->load;
    bool found = false;

    for (uint32_t i = 0; i < 2 * load->swarm->pair_count; i++) {
        const struct uro_load_end *end = &load->pairs[i / 2].ends[i % 2];
        found |= end->srq == srq && end->qp != NULL;
    }
    for (uint32_t i = 0; i < 2 * load->swarm->uc_count; i++) {
        const struct uro_load_uc_end *end = &load->ucs[i / 2].ends[i % 2];
        found |= end->srq == srq && end->qp != NULL;
    }
    for (uint32_t i = 0; i < load->ud->count; i++)
        found |= load->ud->parties[i].srq == srq && load->ud->parties[i].qp != NULL;
    return found;
}

/* Another one takes its place: an XRC one goes away under those who send to it, any other when
 * no queue pair is left. */
static void replace(struct uro_load_srq *srq)
{
    struct uro_load *load = srq->load;
    uint64_t oldest = uro_load_srq_oldest(srq);

    for (uint32_t i = 0; i < srq->slot_count; i++)
        if (srq->recvs[i].used && srq->recvs[i].number >= oldest)
            srq->recvs[i].used = false;
    srq->dropped += srq->posted - oldest;
    srq->lost_max += load->swarm->pair_count * 2; /* in use by a message */
    srq->limit = 0;
    srq->generation++;
    uro_srq_destroy(uro_engine_shard(srq->station->engine), srq->srq);
    memset(srq->srq, 0xa5, sizeof *srq->srq); /* whoever still looks at it should notice */
    free(srq->slots);
    struct uro_srq *gone = srq->srq;
    create(srq, uro_world_between(&srq->rng, 1, srq->plan->capacity_max));
    free(gone);
    for (uint32_t i = 0; i < load->swarm->pair_count && srq->plan->xrc; i++)
        load->pairs[i].may_fail |= load->pairs[i].plan->xrc && !load->pairs[i].last_life;
    uro_journal_note(load->world->journal, load->world->now, "shared queue %u of %c is another one",
                     srq->index, srq->station->config.name);
}

static uro_time poster_next(const struct uro_node *node)
{
    const struct uro_load_srq *srq = srq_of(node);
    return can_post(srq) ? srq->post_at : URO_TIME_NEVER;
}

static void poster_run(struct uro_node *node)
{
    struct uro_load_srq *srq = srq_of(node);

    bool may_go = srq->plan->xrc ? !srq->load->calm : !in_use(srq);
    if (may_go && uro_world_chance(&srq->rng, srq->plan->replace_share))
        replace(srq);
    if (uro_world_chance(&srq->rng, srq->plan->resize_share))
        resize(srq);
    if (can_post(srq))
        post(srq);
    if (uro_world_chance(&srq->rng, srq->plan->limit_share))
        arm(srq);
    srq->post_at = srq->load->world->now + uro_rng_below(&srq->rng, srq->plan->wait_max + 1);
}

static void make_memory(struct uro_load_srq *srq)
{
    const struct uro_arena_section_size sizes[URO_ARENA_SECTIONS] = {
        [URO_ARENA_RECVS] = { srq->slot_count, uro_arena_room(srq->room, srq->plan->sges) },
    };
    uint64_t base = ADDRESS_SPACE + ADDRESS_STEP * (srq->side * URO_SWARM_SRQS_MAX + srq->index);

    srq->recvs = calloc(srq->slot_count, sizeof *srq->recvs);
    URO_ASSERT(srq->recvs != NULL);
    uro_arena_init(&srq->arena, sizes, base, &srq->rng);
    uro_arena_register(&srq->arena, uro_engine_shard(srq->station->engine), URO_ARENA_RECVS,
                       srq->pd, URO_ACCESS_LOCAL_WRITE);
}

void uro_load_srq_init(struct uro_load_srq *srq, struct uro_load *load, uint32_t side,
                       uint32_t index)
{
    const struct uro_swarm_srq *plan = &load->swarm->srqs[side][index];

    *srq = (struct uro_load_srq){ .load = load,
                                  .station = load->stations[side],
                                  .plan = plan,
                                  .side = side,
                                  .index = index,
                                  .poster = { NULL, poster_next, poster_run },
                                  .slot_count = plan->capacity_max + plan->spare };
    uro_rng_init_number(&srq->rng, load->swarm->seed ^ (uint64_t)(side * 64 + index + 1) << 56);
    /* All XRC queues of a station are of one domain, as their targets are. */
    srq->pd = load->pds + URO_LOAD_SRQ_PD + side * URO_SWARM_SRQS_MAX +
              (plan->xrc ? URO_SWARM_SRQS_MAX * 2 : index);
    for (uint32_t i = 0; i < load->swarm->pair_count; i++)
        if (load->swarm->pairs[i].message_max > srq->room)
            srq->room = load->swarm->pairs[i].message_max;
    for (uint32_t i = 0; i < load->swarm->uc_count; i++)
        if (load->swarm->ucs[i].shared && load->swarm->ucs[i].message_max > srq->room)
            srq->room = load->swarm->ucs[i].message_max;
    for (uint32_t i = 0; i < load->swarm->party_count; i++)
        if (load->swarm->parties[i].shared && RECEIVE_UD > srq->room)
            srq->room = RECEIVE_UD;
    make_memory(srq);
    srq->cq = srq->wide_cq = &load->cqs[side][uro_rng_below(&srq->rng, load->swarm->cq_count)];
    create(srq, plan->capacity);
    uro_world_add(load->world, &srq->poster);
}

/* A queue pair goes away with what it had taken: its completions that nobody polled are forgotten,
 * and a receive that a message was using is gone. */
void uro_load_srq_on_stop(struct uro_load_srq *srq, const struct uro_cq *cq, uint32_t qpn)
{
    srq->lost_max++;
    for (uint32_t i = atomic_load(&cq->head); i != cq->filled; i++) {
        const struct uro_cqe *cqe = &cq->ring[i & cq->mask];
        if (cqe->qpn != qpn || !(cqe->wr_id & URO_LOAD_SRQ_BIT))
            continue;
        struct uro_load_srq_recv *recv = uro_load_srq_find(srq, URO_LOAD_SRQ_NUMBER(cqe->wr_id));
        if (recv == NULL)
            fail(srq, "completed a receive twice");
        else
            uro_load_srq_done(srq, recv);
    }
}

void uro_load_srq_check(struct uro_load_srq *srq)
{
    uint64_t oldest = uro_load_srq_oldest(srq);
    uint64_t taken = oldest - srq->dropped;
    uint32_t head = uro_wq_head(&srq->srq->wq);
    size_t place;
    uint32_t at;

    if (taken < srq->done || taken - srq->done > srq->lost_max)
        uro_world_fail(srq->load->world,
                       "shared receive queue %u of %c: %" PRIu64 " taken, %" PRIu64
                       " completed, %u perhaps lost",
                       srq->index, srq->station->config.name, taken, srq->done, srq->lost_max);
    for (uint32_t i = 0; i < waiting(srq); i++) {
        const struct uro_rqe *rqe = uro_wq_slot(&srq->srq->wq, head + i);
        struct uro_load_srq_recv *recv = uro_load_srq_find(srq, URO_LOAD_SRQ_NUMBER(rqe->wr_id));
        if (recv == NULL || recv->number != oldest + i)
            fail(srq, "what waits in it is not what was posted");
        else if (!uro_arena_check(&srq->arena, URO_ARENA_RECVS, (uint32_t)(recv - srq->recvs),
                                  &recv->recv.layout, 0, 0, &at))
            fail(srq, "memory of a receive that waits has changed");
    }
    if (!uro_arena_check_guards(&srq->arena, &place))
        fail(srq, "memory outside every registered range changed");
    uro_srq_destroy(uro_engine_shard(srq->station->engine), srq->srq);
}

void uro_load_srq_fini(struct uro_load_srq *srq)
{
    uro_arena_fini(&srq->arena);
    free(srq->recvs);
    free(srq->srq);
    free(srq->slots);
}
