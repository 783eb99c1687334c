/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - see queue.h for the contract. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define POLL_MAX   8u
#define RECEIVE_UD (SIM_GRH + UROCE_PATH_MTU_MAX) /* room for any datagram */
/* First address of shared receives, beyond the addresses of all connections. */
#define ADDRESS_SPACE UINT64_C(0x800000000000)
#define ADDRESS_STEP  UINT64_C(0x10000000000)

/* ---- completion queues ---- */

bool sim_cq_empty(const struct uroce_cq *cq)
{
    return cq == NULL || sim_inside_cq_waiting(cq) == 0;
}

static void note(struct sim_cq *cq, const struct uroce_completion *cqe)
{
    struct sim_world *world = cq->world;
    const uint8_t status = (uint8_t)cqe->status;

    sim_world_digest(world, &cqe->wr_id, sizeof cqe->wr_id);
    sim_world_digest(world, &status, sizeof status);
    sim_world_note(world, "qp 0x%06x %s %" PRIu64 " done, status %u opcode %u length %u why %u",
                   cqe->qpn, cqe->wr_id & SIM_RECV_BIT ? "receive" : "send",
                   cqe->wr_id & ~SIM_RECV_BIT, cqe->status, cqe->opcode, cqe->length, cqe->reason);
    if (cqe->time > world->now)
        sim_world_fail(world, "completion of qp 0x%06x from the future", cqe->qpn);
}

/* Resizes the queue as ibv_resize_cq() does: the waiting completions must fit. */
static void resize_cq(struct sim_cq *cq)
{
    uint32_t capacity = sim_world_between(&cq->rng, cq->least, 2 * cq->least);
    bool fits = sim_inside_cq_waiting(cq->cq) <= capacity;

    if ((uroce_cq_resize(cq->cq, capacity) == 0) != fits)
        sim_world_fail(
            cq->world,
            "a completion queue refused a size that fits, or accepted a size that does not");
    if (fits)
        cq->capacity = capacity;
}

void sim_cq_poll(struct sim_cq *cq)
{
    struct uroce_completion cqes[POLL_MAX];
    int count;

    if (sim_inside_cq_waiting(cq->cq) > cq->capacity)
        sim_world_fail(cq->world, "a completion queue holds more than it has room for");
    if (cq->overflowed && sim_inside_cq_count(cq->cq) != cq->last)
        sim_world_fail(cq->world, "a completion was added after its queue had overflowed");
    (void)!uroce_engine_deliver(cq->host->engine);
    do {
        uint32_t most = sim_world_between(&cq->rng, 1, POLL_MAX);
        count = uroce_cq_poll(cq->cq, cqes, most);
        for (int i = 0; i < count && !cq->world->failed; i++) {
            note(cq, &cqes[i]);
            sim_judge(cq, &cqes[i]);
        }
    } while (count > 0 && !cq->world->failed);
}

static uro_time poller_next(const struct sim_node *node)
{
    const struct sim_cq *cq = URO_CONTAINER_OF(node, struct sim_cq, poller);
    bool due = cq->events ? !cq->armed || cq->reported : !sim_cq_empty(cq->cq);

    return due ? cq->poll_at : URO_TIME_NEVER;
}

/* Polls all completions. A program that waits for events then arms the CQ, and polls again for
 * completions that came in between. */
static void poller_run(struct sim_node *node)
{
    struct sim_cq *cq = URO_CONTAINER_OF(node, struct sim_cq, poller);
    const struct sim_plan *plan = cq->workload->plan;

    cq->reported = false;
    cq->armed = false;
    if (sim_world_chance(&cq->rng, cq->workload->plan->resize_probability))
        resize_cq(cq);
    sim_cq_poll(cq);
    if (cq->events) {
        (void)!uroce_cq_arm(cq->cq, 0);
        cq->armed = true;
        sim_cq_poll(cq);
    }
    cq->poll_at = cq->world->now + uro_rng_below(&cq->rng, cq->wait_max + 1);
    if (!cq->workload->calm && sim_world_chance(&cq->rng, plan->doze_probability))
        cq->poll_at += URO_US(uro_rng_below(&cq->rng, plan->doze_max));
}

static void create_cq(struct sim_cq *cq, uint32_t capacity)
{
    sim_must(uroce_cq_create(cq->host->engine, capacity, cq, &cq->cq));
    cq->capacity = cq->least = capacity;
    cq->armed = cq->reported = cq->overflowed = false;
}

void sim_cq_init(struct sim_cq *cq, struct sim_workload *workload, struct sim_host *host,
                 uint32_t capacity)
{
    memset(cq, 0, sizeof *cq);
    cq->events = workload->plan->cq_events;
    cq->wait_max = workload->plan->poll_wait_max;
    cq->workload = workload;
    cq->world = workload->world;
    cq->host = host;
    uro_rng_init_number(&cq->rng, uro_rng_u64(&workload->rng));
    create_cq(cq, capacity);
    sim_world_add(workload->world, &cq->poller, poller_next, poller_run);
}

void sim_cq_fini(struct sim_cq *cq)
{
    if (cq->cq != NULL)
        sim_must(uroce_cq_destroy(cq->cq));
}

/* ---- tight queues ---- */

static bool is_of(const struct sim_endpoint *end, const struct uroce_cq *cq)
{
    return cq != NULL && (end->send_cq == cq || end->recv_cq == cq);
}

bool sim_tight_uses(const struct sim_endpoint *end)
{
    const struct sim_cq *tight = end->workload->tight;

    return is_of(end, tight[0].cq) || is_of(end, tight[1].cq);
}

static bool tight_in_use(const struct sim_workload *workload, unsigned side)
{
    const struct uroce_cq *tight = workload->tight[side].cq;

    for (const struct sim_endpoint *end = workload->endpoints; end != NULL; end = end->next)
        if (is_of(end, tight))
            return true;
    for (uint32_t i = 0; i < workload->plan->srq_count[side]; i++)
        if (workload->srqs[side][i].cq == &workload->tight[side])
            return true;
    return false;
}

/* Draws whether the tight queue is used now. Replaces it if it has overflowed and is unused. */
static bool can_use(struct sim_workload *workload, unsigned side, struct uro_rng *rng)
{
    struct sim_cq *tight = &workload->tight[side];

    if (workload->plan->cq_tight == 0 || uro_rng_below(rng, 2) == 0)
        return false;
    if (tight->overflowed && tight_in_use(workload, side))
        return false;
    if (tight->overflowed) {
        sim_cq_fini(tight);
        create_cq(tight, sim_world_between(rng, 1, workload->plan->cq_tight));
    }
    return true;
}

void sim_tight_choose(struct sim_endpoint *end, bool shared)
{
    struct sim_workload *workload = end->workload;

    if (!can_use(workload, end->side, &end->rng))
        return;
    struct uroce_cq *tight = workload->tight[end->side].cq;
    uint32_t which = sim_world_between(&end->rng, 1, 3);
    if (which & 1)
        end->send_cq = tight;
    if (which & 2 && (!shared || workload->plan->cq_tight_all))
        end->recv_cq = tight;
}

bool sim_tight_lost(const struct sim_workload *workload, const struct uroce_cq *cq)
{
    for (unsigned side = 0; side < 2; side++)
        if (cq != NULL && cq == workload->tight[side].cq && workload->tight[side].overflowed)
            return true;
    return false;
}

void sim_tight_on_overflow(struct sim_cq *cq)
{
    struct sim_workload *workload = cq->workload;

    if (workload->plan->cq_tight == 0 || (cq != &workload->tight[0] && cq != &workload->tight[1])) {
        sim_world_fail(workload->world,
                       "a completion queue overflowed, but has room for all completions");
        return;
    }
    if (cq->overflowed)
        sim_world_fail(workload->world, "a completion queue reported twice that it overflowed");
    cq->overflowed = true;
    cq->last = sim_inside_cq_count(cq->cq);
    sim_world_note(workload->world, "the tight queue of %c overflows", cq->host->config.name);
    for (struct sim_endpoint *end = workload->endpoints; end != NULL; end = end->next) {
        if (!end->alive || !is_of(end, cq->cq))
            continue;
        end->life->may_fail = true;
        end->ops->on_error(end, NULL, UROCE_WR_FLUSH_ERR);
    }
}

/* An XRC target has no queues of its own. */
static bool has_lost(const struct sim_endpoint *end)
{
    const struct sim_workload *workload = end->workload;

    if (end->send_cq != NULL || end->recv_cq != NULL)
        return sim_tight_lost(workload, end->send_cq) || sim_tight_lost(workload, end->recv_cq);
    return workload->plan->cq_tight_all && workload->tight[end->side].overflowed;
}

void sim_tight_on_fatal(struct sim_endpoint *end)
{
    struct sim_world *world = end->world;

    sim_world_note(world, "qp 0x%06x: QP_FATAL", end->qpn);
    if (!has_lost(end))
        sim_world_fail(world, "qp 0x%06x: QP_FATAL although its queues have room", end->qpn);
    if (end->fatal || uroce_qp_state(end->qp) != UROCE_ERR)
        sim_world_fail(world, "qp 0x%06x: QP_FATAL was reported again, or outside ERR", end->qpn);
    end->fatal = true;
}

/* ---- shared receive queues ---- */

uint32_t sim_recv_fill(struct sim_recv *recv, uint32_t sge_max, struct uro_rng *rng,
                       struct uroce_sge *sges)
{
    sim_buffer_scatter(&recv->buffer, recv->size, sge_max, rng);
    sim_buffer_fill(&recv->buffer, 0, 0);
    uint32_t count = sim_buffer_sges(&recv->buffer, sges);
    for (uint32_t i = 0; i < count && recv->bad_lkey; i++)
        sges[i].key ^= SIM_BAD_KEY;
    return count;
}

static void srq_fail(const struct sim_srq *srq, const char *problem)
{
    sim_world_fail(srq->world, "shared receive queue %u of %c: %s", srq->index,
                   srq->host->config.name, problem);
}

static uint32_t waiting(const struct sim_srq *srq)
{
    return uroce_srq_waiting(srq->srq);
}

uint64_t sim_srq_oldest(const struct sim_srq *srq)
{
    return srq->posted - waiting(srq);
}

struct sim_srq *sim_srq_at(const struct sim_endpoint *end, uint32_t index)
{
    URO_ASSERT(index <= SIM_PLAN_SRQS_MAX);
    return &end->workload->srqs[end->side][index];
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

struct uroce_xrcd *sim_srq_domain(const struct sim_workload *workload, unsigned side,
                                  uint32_t index)
{
    uint32_t first = index == SIM_PLAN_SRQS_MAX ? SIM_XRC_ATTACKED : SIM_XRC_DOMAIN;

    return sim_host_xrcd(workload->hosts[side], first + workload->number);
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
    return waiting(srq) < srq->capacity && free_slot(srq) != NULL;
}

/* Posts a receive. Returns the result of uroce_srq_receive(). */
static int receive(struct sim_srq *srq, struct sim_srq_recv *recv)
{
    struct uroce_sge sges[UROCE_SGE_MAX];
    uint32_t slot = (uint32_t)(recv - srq->recvs);
    bool wrong = srq->plan->wild && sim_world_chance(&srq->rng, srq->plan->wrong_probability);

    *recv = (struct sim_srq_recv){ .used = true,
                                   .number = srq->posted,
                                   .recv = { .size = srq->recv_size,
                                             .buffer = sim_buffer_at(&srq->memory, SIM_MEMORY_RECVS,
                                                                     slot) } };
    if (wrong && uro_rng_below(&srq->rng, 2) == 0)
        recv->recv.size = uro_rng_below(&srq->rng, srq->recv_size + 1);
    else
        recv->recv.bad_lkey = wrong;
    uint64_t wr_id =
        SIM_RECV_BIT | SIM_SRQ_BIT | (uint64_t)srq->index << SIM_SRQ_SHIFT | srq->posted;
    uint32_t count = sim_recv_fill(&recv->recv, srq->plan->sges, &srq->rng, sges);
    srq->posted++;
    return uroce_srq_receive(srq->srq, wr_id, sges, count);
}

static void post(struct sim_srq *srq)
{
    uint32_t batch = sim_world_between(&srq->rng, 1, srq->plan->batch_max);
    uint32_t free_count = srq->capacity - waiting(srq);
    struct sim_srq_recv *slot = free_slot(srq);

    for (uint32_t i = 0; i < batch && i < free_count && slot != NULL; i++, slot = free_slot(srq)) {
        if (receive(srq, slot) != 0) {
            srq_fail(srq, "a receive that fits was refused");
            return;
        }
    }
    sim_world_note(srq->world, "shared queue %u of %c: receives up to %" PRIu64, srq->index,
                   srq->host->config.name, srq->posted);
}

/* Resizes the queue. A size below the waiting receives, or below the limit, must be refused. */
static void resize_srq(struct sim_srq *srq)
{
    uint32_t capacity = sim_world_between(&srq->rng, 1, srq->plan->capacity_max);
    bool fits = capacity >= waiting(srq) && capacity >= srq->limit;

    if ((uroce_srq_resize(srq->srq, capacity) == 0) != fits)
        srq_fail(srq,
                 "a resize to a size that fits was refused, or to a size that does not fit was "
                 "accepted");
    if (fits)
        srq->capacity = capacity;
}

static void arm(struct sim_srq *srq)
{
    uint32_t limit = sim_world_between(&srq->rng, 0, srq->capacity + 1);

    if ((uroce_srq_arm(srq->srq, limit) == 0) != (limit <= srq->capacity))
        srq_fail(srq, "a limit that fits was refused, or a limit that does not fit was set");
    if (limit > srq->capacity)
        return;
    srq->limit = limit;
    srq->armed_at = sim_srq_oldest(srq);
}

void sim_srq_on_limit(struct sim_srq *srq)
{
    if (srq->limit == 0)
        srq_fail(srq, "reports a limit that is not armed");
    else if (sim_srq_oldest(srq) == srq->armed_at)
        srq_fail(srq, "reports a limit although nothing was taken");
    else if (waiting(srq) >= srq->limit)
        srq_fail(srq, "reports a limit that it has not reached");
    srq->limit = 0;
}

/* Checks the limit after a round. No program posts during a round, so the queue is shortest at the
 * end of it. */
void sim_srq_after_round(struct sim_srq *srq)
{
    uint64_t oldest = sim_srq_oldest(srq);

    if (srq->limit > 0 && oldest > srq->seen && oldest > srq->armed_at && waiting(srq) < srq->limit)
        srq_fail(srq, "is below its limit but sent no event");
    srq->seen = oldest;
}

/* Chooses the CQ of the receives of an XRC queue that can be replaced. Polls the old CQ before a
 * change from or to the tight CQ. */
static void choose_cq(struct sim_srq *srq)
{
    struct sim_workload *workload = srq->workload;
    struct sim_cq *tight = NULL;

    if (srq->cq == &workload->tight[srq->side])
        sim_cq_poll(srq->cq);
    if (srq->plan->xrc && srq->plan->replace_probability > 0) {
        srq->cq = srq->wide_cq;
        if (workload->plan->cq_tight_all && can_use(workload, srq->side, &srq->rng))
            tight = &workload->tight[srq->side];
    }
    if (tight != NULL) {
        sim_cq_poll(srq->cq);
        srq->cq = tight;
    }
}

static void create_srq(struct sim_srq *srq, uint32_t capacity)
{
    const struct sim_plan_srq *plan = srq->plan;

    choose_cq(srq);
    const struct uroce_srq_config config = {
        .size = sizeof config,
        .capacity = capacity,
        .sge_max = plan->sges,
        .xrcd = plan->xrc ? sim_srq_domain(srq->workload, srq->side, srq->index) : NULL,
        .cq = plan->xrc ? srq->cq->cq : NULL,
        .user = srq,
    };

    sim_must(uroce_srq_create(srq->pd, &config, &srq->srq));
    srq->capacity = capacity;
}

static void destroy(struct sim_srq *srq)
{
    sim_must(uroce_srq_destroy(srq->srq));
    srq->srq = NULL;
}

/* Returns whether a queue pair takes receives from the shared queue. */
static bool srq_in_use(const struct sim_srq *srq)
{
    const struct sim_endpoint *end = srq->workload->endpoints;

    while (end != NULL && (end->srq != srq || end->qp == NULL))
        end = end->next;
    return end != NULL;
}

/* Replaces the queue by a new queue. An XRC queue is destroyed while peers send to it, a basic
 * queue only when no queue pair uses it. */
static void replace(struct sim_srq *srq)
{
    struct sim_workload *workload = srq->workload;
    uint64_t oldest = sim_srq_oldest(srq);

    for (uint32_t i = 0; i < srq->slot_count; i++)
        if (srq->recvs[i].used && srq->recvs[i].number >= oldest)
            srq->recvs[i].used = false;
    srq->dropped += srq->posted - oldest;
    srq->lost_max += workload->plan->pair_count * 2; /* receives in use by a message */
    srq->limit = 0;
    srq->generation++;
    destroy(srq);
    create_srq(srq, sim_world_between(&srq->rng, 1, srq->plan->capacity_max));
    for (uint32_t i = 0; i < workload->plan->pair_count && srq->plan->xrc; i++)
        workload->connections[i].may_fail |=
            workload->connections[i].plan->xrc && !workload->connections[i].last_life;
    sim_world_note(workload->world, "shared queue %u of %c is replaced by a new queue", srq->index,
                   srq->host->config.name);
}

static uro_time poster_next(const struct sim_node *node)
{
    const struct sim_srq *srq = URO_CONTAINER_OF(node, struct sim_srq, poster);
    return can_post(srq) ? srq->post_at : URO_TIME_NEVER;
}

static void poster_run(struct sim_node *node)
{
    struct sim_srq *srq = URO_CONTAINER_OF(node, struct sim_srq, poster);

    bool may_go = srq->plan->xrc ? !srq->workload->calm : !srq_in_use(srq);
    if (may_go && sim_world_chance(&srq->rng, srq->plan->replace_probability))
        replace(srq);
    if (sim_world_chance(&srq->rng, srq->plan->resize_probability))
        resize_srq(srq);
    if (can_post(srq))
        post(srq);
    if (sim_world_chance(&srq->rng, srq->plan->limit_probability))
        arm(srq);
    srq->post_at = srq->world->now + uro_rng_below(&srq->rng, srq->plan->wait_max + 1);
}

/* Returns the length of the largest message that may be sent to a shared queue. */
static uint32_t recv_size_of(const struct sim_plan *plan)
{
    uint32_t size = 0;

    for (uint32_t i = 0; i < plan->pair_count; i++)
        if (plan->pairs[i].message_max > size)
            size = plan->pairs[i].message_max;
    for (uint32_t i = 0; i < plan->uc_count; i++)
        if (plan->ucs[i].ends[0].srq != SIM_PLAN_NO_SRQ && plan->ucs[i].message_max > size)
            size = plan->ucs[i].message_max;
    for (uint32_t i = 0; i < plan->party_count; i++)
        if (plan->parties[i].ends[0].srq != SIM_PLAN_NO_SRQ && RECEIVE_UD > size)
            size = RECEIVE_UD;
    return size;
}

void sim_srq_init(struct sim_srq *srq, struct sim_workload *workload, uint32_t side, uint32_t index)
{
    const struct sim_plan_srq *plan = &workload->plan->srqs[side][index];

    *srq = (struct sim_srq){ .workload = workload,
                             .world = workload->world,
                             .host = workload->hosts[side],
                             .plan = plan,
                             .side = side,
                             .index = index,
                             .slot_count = plan->capacity_max + plan->spare };
    uro_rng_init_number(&srq->rng, workload->plan->seed ^ (uint64_t)(side * 64 + index + 1) << 56);
    /* All XRC queues of a host are in one protection domain, as are their targets. */
    uint32_t pd = index == SIM_PLAN_SRQS_MAX ? SIM_PLAN_SRQS_MAX * 4
                  : plan->xrc                ? SIM_PLAN_SRQS_MAX * 2
                                             : index;
    srq->pd = sim_host_pd(srq->host, workload->pds + SIM_SRQ_PD + side * SIM_PLAN_SRQS_MAX + pd);
    srq->recv_size = index == SIM_PLAN_SRQS_MAX ? workload->plan->attacked.pair.message_max
                                                : recv_size_of(workload->plan);
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_RECVS] = { srq->slot_count, sim_memory_slot_size(srq->recv_size, plan->sges),
                               UROCE_ACCESS_LOCAL_WRITE },
    };
    srq->recvs = sim_alloc(srq->slot_count * sizeof *srq->recvs);
    sim_memory_init(&srq->memory, sizes,
                    ADDRESS_SPACE + ADDRESS_STEP * (side * SIM_PLAN_SRQS_MAX + index), &srq->rng);
    sim_memory_register(&srq->memory, SIM_MEMORY_RECVS, srq->pd);
    srq->cq = srq->wide_cq =
        &workload->cqs[side][uro_rng_below(&srq->rng, workload->plan->cq_count)];
    create_srq(srq, plan->capacity);
    sim_world_add(workload->world, &srq->poster, poster_next, poster_run);
}

/* Updates the counts for a queue pair that stops: its unpolled completions disappear, and a receive
 * in use by a message is lost. */
void sim_srq_on_stop(struct sim_srq *srq, const struct uroce_cq *cq, uint32_t qpn)
{
    uint64_t wr_id;

    srq->lost_max++;
    for (uint32_t i = 0; i < sim_inside_cq_waiting(cq); i++) {
        if (sim_inside_cq_look(cq, i, &wr_id) != qpn || !(wr_id & SIM_SRQ_BIT))
            continue;
        struct sim_srq_recv *recv = sim_srq_find(srq, SIM_SRQ_NUMBER(wr_id));
        if (recv == NULL)
            srq_fail(srq, "completed a receive twice");
        else
            sim_srq_done(srq, recv);
    }
}

void sim_srq_check(struct sim_srq *srq)
{
    uint64_t oldest = sim_srq_oldest(srq);
    uint64_t taken = oldest - srq->dropped;
    size_t offset;

    if (taken < srq->done || taken - srq->done > srq->lost_max)
        sim_world_fail(srq->world,
                       "shared receive queue %u of %c: %" PRIu64 " taken, %" PRIu64
                       " completed, %u perhaps lost",
                       srq->index, srq->host->config.name, taken, srq->done, srq->lost_max);
    for (uint32_t i = 0; i < waiting(srq); i++) {
        struct sim_srq_recv *recv =
            sim_srq_find(srq, SIM_SRQ_NUMBER(sim_inside_srq_wr_id(srq->srq, i)));
        if (recv == NULL || recv->number != oldest + i)
            srq_fail(srq, "the waiting receives differ from the posted receives");
        else if (!sim_buffer_check(&recv->recv.buffer, 0, 0))
            srq_fail(srq, "memory of a receive that waits has changed");
    }
    if (!sim_memory_check_guards(&srq->memory, &offset))
        srq_fail(srq, "memory outside every registered range changed");
    destroy(srq);
}

void sim_srq_fini(struct sim_srq *srq)
{
    if (srq->srq != NULL)
        destroy(srq);
    sim_memory_fini(&srq->memory);
    free(srq->recvs);
}
