/* SPDX-License-Identifier: BSD-3-Clause */
/* srq.c - the owner of a shared receive queue: posts, arms limits, resizes; see srq.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define RECEIVE_UD    (SIM_GRH + URO_PATH_MTU_MAX) /* room for any datagram */
#define ADDRESS_SPACE UINT64_C(0x800000000000)     /* beyond those of all connections */
#define ADDRESS_STEP  UINT64_C(0x10000000000)

void sim_recv_fill(struct sim_memory *memory, uint32_t slot, struct sim_recv *recv, uint32_t sges,
                   struct uro_rng *rng, struct uro_rqe *rqe)
{
    sim_memory_scatter(&recv->layout, recv->room, sges, rng);
    sim_memory_fill(memory, SIM_MEMORY_RECVS, slot, &recv->layout, 0, 0);
    rqe->length = recv->room;
    rqe->sge_count = sim_memory_sges(memory, SIM_MEMORY_RECVS, slot, &recv->layout, rqe->sges);
    for (uint32_t i = 0; i < rqe->sge_count && recv->bad_lkey; i++)
        rqe->sges[i].lkey ^= SIM_BAD_KEY;
}

static struct sim_srq *srq_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_srq, poster);
}

static void fail(const struct sim_srq *srq, const char *what)
{
    sim_world_fail(srq->load->world, "shared receive queue %u of %c: %s", srq->index,
                   srq->host->config.name, what);
}

static uint32_t waiting(const struct sim_srq *srq)
{
    return uro_wq_tail(&srq->srq->wq) - uro_wq_head(&srq->srq->wq);
}

uint64_t sim_srq_oldest(const struct sim_srq *srq)
{
    return srq->posted - waiting(srq);
}

struct sim_srq *sim_srq_at(const struct sim_endpoint *end, uint32_t index)
{
    URO_ASSERT(index <= SIM_PLAN_SRQS_MAX);
    return &end->load->srqs[end->side][index];
}

struct sim_srq_recv *sim_srq_find(struct sim_srq *srq, uint64_t number)
{
    for (uint32_t i = 0; i < srq->slot_count; i++)
        if (srq->recvs[i].used && srq->recvs[i].number == number)
            return &srq->recvs[i];
    return NULL;
}

void sim_srq_done(struct sim_srq *srq, struct sim_srq_recv *recv)
{
    recv->used = false;
    srq->done++;
}

void sim_srq_forget(struct sim_srq *srq)
{
    for (uint32_t i = 0; i < srq->slot_count; i++)
        if (srq->recvs[i].used && srq->recvs[i].number < sim_srq_oldest(srq))
            sim_srq_done(srq, &srq->recvs[i]);
}

uint32_t sim_srq_domain(const struct sim_workload *load, uint32_t index)
{
    return (index == SIM_PLAN_SRQS_MAX ? SIM_XRC_ATTACKED : SIM_XRC_DOMAIN) + load->number;
}

static struct sim_srq_recv *free_slot(const struct sim_srq *srq)
{
    for (uint32_t i = 0; i < srq->slot_count; i++)
        if (!srq->recvs[i].used)
            return &srq->recvs[i];
    return NULL;
}

static bool can_post(const struct sim_srq *srq)
{
    return waiting(srq) < srq->srq->wq.capacity && free_slot(srq) != NULL;
}

static void fill(struct sim_srq *srq, struct sim_srq_recv *recv, struct uro_rqe *rqe)
{
    uint32_t slot = (uint32_t)(recv - srq->recvs);
    bool wrong = srq->plan->wild && sim_world_chance(&srq->rng, srq->plan->wrong_probability);

    *recv =
        (struct sim_srq_recv){ .used = true, .number = srq->posted, .recv = { .room = srq->room } };
    if (wrong && uro_rng_below(&srq->rng, 2) == 0)
        recv->recv.room = uro_rng_below(&srq->rng, srq->room + 1);
    else
        recv->recv.bad_lkey = wrong;
    rqe->wr_id = SIM_RECV_BIT | SIM_SRQ_BIT | (uint64_t)srq->index << SIM_SRQ_SHIFT | srq->posted;
    sim_recv_fill(&srq->memory, slot, &recv->recv, srq->plan->sges, &srq->rng, rqe);
    srq->posted++;
}

static void post(struct sim_srq *srq)
{
    uint32_t batch = sim_world_between(&srq->rng, 1, srq->plan->batch_max);
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
    sim_journal_note(srq->load->world->journal, srq->load->world->now,
                     "shared queue %u of %c: receives up to %" PRIu64, srq->index,
                     srq->host->config.name, srq->posted);
}

/* Resizes the queue. A size below the waiting receives, or below the limit, must be refused. */
static void resize(struct sim_srq *srq)
{
    uint32_t capacity = sim_world_between(&srq->rng, 1, srq->plan->capacity_max);
    bool fits = capacity >= waiting(srq) && capacity >= srq->limit;
    void *slots = sim_memory_unzeroed(uro_srq_slots_size(capacity, srq->plan->sges));

    if ((uro_srq_resize(srq->srq, capacity, slots) == 0) != fits)
        fail(srq, "a resize was refused that fits, or done though it does not");
    free(fits ? srq->slots : slots);
    if (fits)
        srq->slots = slots;
}

static void arm(struct sim_srq *srq)
{
    uint32_t limit = sim_world_between(&srq->rng, 0, srq->srq->wq.capacity + 1);

    if ((uro_srq_arm(srq->srq, limit) == 0) != (limit <= srq->srq->wq.capacity))
        fail(srq, "a limit was refused that fits, or taken though it does not");
    if (limit > srq->srq->wq.capacity)
        return;
    srq->limit = limit;
    srq->armed_at = sim_srq_oldest(srq);
}

void sim_srq_on_limit(struct sim_srq *srq)
{
    if (srq->limit == 0)
        fail(srq, "reports a limit that is not armed");
    else if (sim_srq_oldest(srq) == srq->armed_at)
        fail(srq, "reports a limit although nothing was taken");
    else if (waiting(srq) >= srq->limit)
        fail(srq, "reports a limit that it has not reached");
    srq->limit = 0;
}

/* Checks the limit after a round. Nobody posts during a round, so the queue is at its lowest
 * afterwards. */
void sim_srq_after_round(struct sim_srq *srq)
{
    uint64_t oldest = sim_srq_oldest(srq);

    if (srq->limit > 0 && oldest > srq->seen && oldest > srq->armed_at && waiting(srq) < srq->limit)
        fail(srq, "is below its limit and says nothing");
    srq->seen = oldest;
}

/* Chooses the completion queue; polls the present one before. */
static void choose_cq(struct sim_srq *srq)
{
    struct sim_workload *load = srq->load;
    struct sim_cq *tight = NULL;

    if (srq->cq == &load->tight[srq->side])
        sim_cq_poll(srq->cq);
    if (srq->plan->xrc && srq->plan->replace_probability > 0) {
        srq->cq = srq->wide_cq;
        tight = sim_tight_choose_srq(load, srq->side, &srq->rng);
    }
    if (tight != NULL) {
        sim_cq_poll(srq->cq);
        srq->cq = tight;
    }
}

static void create(struct sim_srq *srq, uint32_t capacity)
{
    const struct sim_plan_srq *plan = srq->plan;

    choose_cq(srq);
    const struct uro_srq_init init = { .pd = srq->pd,
                                       .capacity = capacity,
                                       .sge_max = plan->sges,
                                       .xrcd =
                                           plan->xrc ? sim_srq_domain(srq->load, srq->index) : 0,
                                       .cq = plan->xrc ? srq->cq->cq : NULL,
                                       .user = srq };

    srq->slots = sim_memory_unzeroed(uro_srq_slots_size(capacity, plan->sges));
    srq->srq = sim_memory_unzeroed(sizeof *srq->srq);
    uro_srq_create(uro_engine_shard(srq->host->engine), srq->srq, &init, srq->slots);
}

/* Returns whether a queue pair takes receives from it. */
static bool in_use(const struct sim_srq *srq)
{
    const struct sim_endpoint *end = srq->load->endpoints;

    while (end != NULL && (end->srq != srq || end->qp == NULL))
        end = end->next;
    return end != NULL;
}

/* Replaces the queue by a new queue. An XRC queue is destroyed while peers send to it, a basic
 * queue only when no queue pair uses it. */
static void replace(struct sim_srq *srq)
{
    struct sim_workload *load = srq->load;
    uint64_t oldest = sim_srq_oldest(srq);

    for (uint32_t i = 0; i < srq->slot_count; i++)
        if (srq->recvs[i].used && srq->recvs[i].number >= oldest)
            srq->recvs[i].used = false;
    srq->dropped += srq->posted - oldest;
    srq->lost_max += load->plan->pair_count * 2; /* receives in use by a message */
    srq->limit = 0;
    srq->generation++;
    uro_srq_destroy(uro_engine_shard(srq->host->engine), srq->srq);
    memset(srq->srq, 0xa5, sizeof *srq->srq); /* code that still reads it finds these bytes */
    free(srq->slots);
    struct uro_srq *gone = srq->srq;
    create(srq, sim_world_between(&srq->rng, 1, srq->plan->capacity_max));
    free(gone);
    for (uint32_t i = 0; i < load->plan->pair_count && srq->plan->xrc; i++)
        load->connections[i].may_fail |=
            load->connections[i].plan->xrc && !load->connections[i].last_life;
    sim_journal_note(load->world->journal, load->world->now, "shared queue %u of %c is another one",
                     srq->index, srq->host->config.name);
}

static uro_time poster_next(const struct sim_node *node)
{
    const struct sim_srq *srq = srq_of(node);
    return can_post(srq) ? srq->post_at : URO_TIME_NEVER;
}

static void poster_run(struct sim_node *node)
{
    struct sim_srq *srq = srq_of(node);

    bool may_go = srq->plan->xrc ? !srq->load->calm : !in_use(srq);
    if (may_go && sim_world_chance(&srq->rng, srq->plan->replace_probability))
        replace(srq);
    if (sim_world_chance(&srq->rng, srq->plan->resize_probability))
        resize(srq);
    if (can_post(srq))
        post(srq);
    if (sim_world_chance(&srq->rng, srq->plan->limit_probability))
        arm(srq);
    srq->post_at = srq->load->world->now + uro_rng_below(&srq->rng, srq->plan->wait_max + 1);
}

static void make_memory(struct sim_srq *srq)
{
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_RECVS] = { srq->slot_count, sim_memory_room(srq->room, srq->plan->sges) },
    };
    uint64_t base = ADDRESS_SPACE + ADDRESS_STEP * (srq->side * SIM_PLAN_SRQS_MAX + srq->index);

    srq->recvs = calloc(srq->slot_count, sizeof *srq->recvs);
    URO_ASSERT(srq->recvs != NULL);
    sim_memory_init(&srq->memory, sizes, base, &srq->rng);
    sim_memory_register(&srq->memory, uro_engine_shard(srq->host->engine), SIM_MEMORY_RECVS,
                        srq->pd, URO_ACCESS_LOCAL_WRITE);
}

/* Returns the length of the largest message that may be sent to it. */
static uint32_t room_of(const struct sim_plan *plan)
{
    uint32_t room = 0;

    for (uint32_t i = 0; i < plan->pair_count; i++)
        if (plan->pairs[i].message_max > room)
            room = plan->pairs[i].message_max;
    for (uint32_t i = 0; i < plan->uc_count; i++)
        if (plan->ucs[i].ends[0].srq != SIM_PLAN_NO_SRQ && plan->ucs[i].message_max > room)
            room = plan->ucs[i].message_max;
    for (uint32_t i = 0; i < plan->party_count; i++)
        if (plan->parties[i].ends[0].srq != SIM_PLAN_NO_SRQ && RECEIVE_UD > room)
            room = RECEIVE_UD;
    return room;
}

void sim_srq_init(struct sim_srq *srq, struct sim_workload *load, uint32_t side, uint32_t index)
{
    const struct sim_plan_srq *plan = &load->plan->srqs[side][index];

    *srq = (struct sim_srq){ .load = load,
                             .host = load->hosts[side],
                             .plan = plan,
                             .side = side,
                             .index = index,
                             .poster = { NULL, poster_next, poster_run },
                             .slot_count = plan->capacity_max + plan->spare };
    uro_rng_init_number(&srq->rng, load->plan->seed ^ (uint64_t)(side * 64 + index + 1) << 56);
    /* All XRC queues of a host are of one protection domain, as their targets are. */
    srq->pd = load->pds + SIM_SRQ_PD + side * SIM_PLAN_SRQS_MAX +
              (index == SIM_PLAN_SRQS_MAX ? SIM_PLAN_SRQS_MAX * 4
               : plan->xrc                ? SIM_PLAN_SRQS_MAX * 2
                                          : index);
    srq->room =
        index == SIM_PLAN_SRQS_MAX ? load->plan->attacked.pair.message_max : room_of(load->plan);
    make_memory(srq);
    srq->cq = srq->wide_cq = &load->cqs[side][uro_rng_below(&srq->rng, load->plan->cq_count)];
    create(srq, plan->capacity);
    sim_world_add(load->world, &srq->poster);
}

/* Updates the counts for a queue pair that stops: its unpolled completions disappear, and a receive
 * in use by a message is lost. */
void sim_srq_on_stop(struct sim_srq *srq, const struct uro_cq *cq, uint32_t qpn)
{
    srq->lost_max++;
    for (uint32_t i = atomic_load(&cq->head); i != cq->filled; i++) {
        const struct uro_cqe *cqe = &cq->ring[i & cq->mask];
        if (cqe->qpn != qpn || !(cqe->wr_id & SIM_SRQ_BIT))
            continue;
        struct sim_srq_recv *recv = sim_srq_find(srq, SIM_SRQ_NUMBER(cqe->wr_id));
        if (recv == NULL)
            fail(srq, "completed a receive twice");
        else
            sim_srq_done(srq, recv);
    }
}

void sim_srq_check(struct sim_srq *srq)
{
    uint64_t oldest = sim_srq_oldest(srq);
    uint64_t taken = oldest - srq->dropped;
    uint32_t head = uro_wq_head(&srq->srq->wq);
    size_t place;
    uint32_t at;

    if (taken < srq->done || taken - srq->done > srq->lost_max)
        sim_world_fail(srq->load->world,
                       "shared receive queue %u of %c: %" PRIu64 " taken, %" PRIu64
                       " completed, %u perhaps lost",
                       srq->index, srq->host->config.name, taken, srq->done, srq->lost_max);
    for (uint32_t i = 0; i < waiting(srq); i++) {
        const struct uro_rqe *rqe = uro_wq_slot(&srq->srq->wq, head + i);
        struct sim_srq_recv *recv = sim_srq_find(srq, SIM_SRQ_NUMBER(rqe->wr_id));
        if (recv == NULL || recv->number != oldest + i)
            fail(srq, "what waits in it is not what was posted");
        else if (!sim_memory_check(&srq->memory, SIM_MEMORY_RECVS, (uint32_t)(recv - srq->recvs),
                                   &recv->recv.layout, 0, 0, &at))
            fail(srq, "memory of a receive that waits has changed");
    }
    if (!sim_memory_check_guards(&srq->memory, &place))
        fail(srq, "memory outside every registered range changed");
    uro_srq_destroy(uro_engine_shard(srq->host->engine), srq->srq);
}

void sim_srq_fini(struct sim_srq *srq)
{
    sim_memory_fini(&srq->memory);
    free(srq->recvs);
    free(srq->srq);
    free(srq->slots);
}
