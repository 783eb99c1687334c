/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.c - see cq.h for the contract. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define ROOM_MAX       8u
#define TIGHT_WAIT_MAX URO_US(300) /* additional delay of its reader */

static struct sim_cq *cq_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_cq, poller);
}

bool sim_cq_empty(const struct uro_cq *cq)
{
    return cq == NULL || atomic_load(&cq->head) == cq->filled;
}

static void note(struct sim_cq *cq, const struct uro_cqe *cqe)
{
    struct sim_world *world = cq->load->world;

    sim_world_digest(world, &cqe->wr_id, sizeof cqe->wr_id);
    sim_world_digest(world, &cqe->status, sizeof cqe->status);
    sim_journal_note(world->journal, world->now,
                     "qp 0x%06x %s %" PRIu64 " done, status %u opcode %u length %u why %u",
                     cqe->qpn, cqe->wr_id & SIM_RECV_BIT ? "receive" : "send",
                     cqe->wr_id & ~SIM_RECV_BIT, cqe->status, cqe->opcode, cqe->byte_len,
                     cqe->vendor_error);
    if (cqe->timestamp > world->now)
        sim_world_fail(world, "completion of qp 0x%06x from the future", cqe->qpn);
}

/* Resizes the queue as ibv_resize_cq() does: the waiting completions must fit. */
static void resize(struct sim_cq *cq)
{
    uint32_t capacity = sim_world_between(&cq->rng, cq->least, 2 * cq->least);
    uint32_t waiting = cq->cq->filled - atomic_load(&cq->cq->head);
    size_t size = uro_cq_ring_size(capacity);
    void *ring = sim_memory_unzeroed(size);

    if (uro_cq_move(cq->cq, ring, capacity) != (waiting <= capacity))
        sim_world_fail(cq->load->world,
                       "a completion queue refused a size that fits, or took one that does not");
    if (waiting > capacity) {
        free(ring);
        return;
    }
    free(cq->ring);
    cq->ring = ring;
}

static void check(const struct sim_cq *cq)
{
    uint32_t filled = cq->cq->filled;

    if (filled - atomic_load(&cq->cq->head) > cq->cq->capacity)
        sim_world_fail(cq->load->world, "a completion queue holds more than it has room for");
    if (cq->overflowed && filled != cq->last)
        sim_world_fail(cq->load->world, "a completion came after its queue had overflowed");
}

void sim_cq_poll(struct sim_cq *cq)
{
    struct uro_cqe cqes[ROOM_MAX];
    uint32_t count;

    check(cq);
    uro_cq_deliver(cq->cq);
    do {
        uint32_t room = sim_world_between(&cq->rng, 1, ROOM_MAX);
        count = uro_cq_poll(cq->cq, cqes, room);
        for (uint32_t i = 0; i < count && !cq->load->world->failed; i++) {
            note(cq, &cqes[i]);
            cq->load->take(cq, &cqes[i]);
        }
    } while (count > 0 && !cq->load->world->failed);
}

static uro_time poller_next(const struct sim_node *node)
{
    const struct sim_cq *cq = cq_of(node);
    bool due = cq->events ? !cq->armed || cq->reported : !sim_cq_empty(cq->cq);

    return due ? cq->poll_at : URO_TIME_NEVER;
}

/* Polls as a program does that waits for events: poll all, arm, and poll again for completions in
 * between. */
static void poller_run(struct sim_node *node)
{
    struct sim_cq *cq = cq_of(node);
    const struct sim_plan *plan = cq->load->plan;

    cq->reported = false;
    cq->armed = false;
    if (sim_world_chance(&cq->rng, cq->load->plan->resize_probability))
        resize(cq);
    sim_cq_poll(cq);
    if (cq->events) {
        uro_cq_arm(cq->cq, false);
        cq->armed = true;
        sim_cq_poll(cq);
    }
    cq->poll_at = cq->load->world->now + uro_rng_below(&cq->rng, cq->wait_max + 1);
    if (!cq->load->calm && sim_world_chance(&cq->rng, plan->doze_probability))
        cq->poll_at += URO_US(uro_rng_below(&cq->rng, plan->doze_max));
}

static void create(struct sim_cq *cq, uint32_t capacity)
{
    cq->memory = sim_memory_unzeroed(uro_cq_size(capacity));
    cq->cq = uro_cq_init(cq->memory, capacity, cq);
    cq->least = capacity;
    cq->ring = NULL;
    cq->armed = cq->reported = cq->overflowed = false;
}

void sim_cq_init(struct sim_cq *cq, struct sim_workload *load, struct sim_host *host,
                 uint32_t capacity)
{
    memset(cq, 0, sizeof *cq);
    cq->poller = (struct sim_node){ NULL, poller_next, poller_run };
    cq->events = load->plan->cq_events;
    cq->wait_max = load->plan->poll_wait_max;
    cq->load = load;
    cq->host = host;
    uro_rng_init_number(&cq->rng, uro_rng_u64(&load->rng));
    create(cq, capacity);
    sim_world_add(load->world, &cq->poller);
}

void sim_cq_fini(struct sim_cq *cq)
{
    free(cq->ring);
    free(cq->memory);
}

void sim_cq_renew(struct sim_cq *cq, uint32_t capacity)
{
    struct sim_cq gone = *cq;

    uro_cq_fini(cq->cq);
    create(cq, capacity);
    sim_cq_fini(&gone);
}

/* ---- tight queues ---- */

void sim_tight_init(struct sim_workload *load, unsigned side)
{
    struct sim_cq *tight = &load->tight[side];

    if (load->plan->cq_tight == 0)
        return;
    sim_cq_init(tight, load, load->hosts[side], load->plan->cq_tight);
    tight->wait_max += TIGHT_WAIT_MAX;
}

static bool is_of(const struct sim_endpoint *end, const struct uro_cq *cq)
{
    return cq != NULL && (end->send_cq == cq || end->recv_cq == cq);
}

bool sim_tight_uses(const struct sim_endpoint *end)
{
    const struct sim_cq *tight = end->load->tight;

    return is_of(end, tight[0].cq) || is_of(end, tight[1].cq);
}

static bool in_use(const struct sim_workload *load, unsigned side)
{
    const struct uro_cq *tight = load->tight[side].cq;

    for (const struct sim_endpoint *end = load->endpoints; end != NULL; end = end->next)
        if (is_of(end, tight))
            return true;
    for (uint32_t i = 0; i < load->plan->srq_count[side]; i++)
        if (load->srqs[side][i].cq == &load->tight[side])
            return true;
    return false;
}

/* Returns whether the tight queue can be used. */
static bool can_use(struct sim_workload *load, unsigned side, struct uro_rng *rng)
{
    struct sim_cq *tight = &load->tight[side];

    if (load->plan->cq_tight == 0 || uro_rng_below(rng, 2) == 0)
        return false;
    if (tight->overflowed && in_use(load, side))
        return false;
    if (tight->overflowed)
        sim_cq_renew(tight, sim_world_between(rng, 1, load->plan->cq_tight));
    return true;
}

void sim_tight_choose(struct sim_endpoint *end, bool shared)
{
    struct sim_workload *load = end->load;

    if (!can_use(load, end->side, &end->rng))
        return;
    struct uro_cq *tight = load->tight[end->side].cq;
    uint32_t which = sim_world_between(&end->rng, 1, 3);
    if (which & 1)
        end->send_cq = tight;
    if (which & 2 && (!shared || load->plan->cq_tight_all))
        end->recv_cq = tight;
}

struct sim_cq *sim_tight_choose_srq(struct sim_workload *load, unsigned side, struct uro_rng *rng)
{
    return load->plan->cq_tight_all && can_use(load, side, rng) ? &load->tight[side] : NULL;
}

bool sim_tight_lost(const struct sim_workload *load, const struct uro_cq *cq)
{
    for (unsigned side = 0; side < 2; side++)
        if (cq != NULL && cq == load->tight[side].cq && load->tight[side].overflowed)
            return true;
    return false;
}

void sim_tight_on_overflow(struct sim_cq *cq)
{
    struct sim_workload *load = cq->load;

    if (load->plan->cq_tight == 0 || (cq != &load->tight[0] && cq != &load->tight[1])) {
        sim_world_fail(load->world, "a completion queue overflowed that has room for all");
        return;
    }
    if (cq->overflowed)
        sim_world_fail(load->world, "a completion queue reported twice that it overflowed");
    cq->overflowed = true;
    cq->last = cq->cq->filled;
    sim_journal_note(load->world->journal, load->world->now, "the tight queue of %c overflows",
                     cq->host->config.name);
    for (struct sim_endpoint *end = load->endpoints; end != NULL; end = end->next) {
        if (!end->alive || !is_of(end, cq->cq))
            continue;
        end->life->may_fail = true;
        end->ops->on_error(end, NULL, URO_WC_WR_FLUSH_ERR);
    }
}

/* An XRC target has no queues of its own. */
static bool has_lost(const struct sim_endpoint *end)
{
    const struct sim_workload *load = end->load;

    if (end->send_cq != NULL || end->recv_cq != NULL)
        return sim_tight_lost(load, end->send_cq) || sim_tight_lost(load, end->recv_cq);
    return load->plan->cq_tight_all && load->tight[end->side].overflowed;
}

void sim_tight_on_fatal(struct sim_endpoint *end)
{
    struct sim_world *world = end->load->world;

    sim_journal_note(world->journal, world->now, "qp 0x%06x: QP_FATAL", end->qpn);
    if (!has_lost(end))
        sim_world_fail(world, "qp 0x%06x: QP_FATAL although its queues have room", end->qpn);
    if (end->fatal || uro_qp_state_now(end->qp) != URO_QPS_ERR)
        sim_world_fail(world, "qp 0x%06x: QP_FATAL again, or not in ERR", end->qpn);
    end->fatal = true;
}

static uint32_t waiting(const struct uro_cq *cq, uint32_t qpn, bool receive)
{
    uint32_t count = 0;

    for (uint32_t i = atomic_load(&cq->head); i != cq->filled; i++) {
        const struct uro_cqe *cqe = &cq->ring[i & cq->mask];
        count += cqe->qpn == qpn && !(cqe->wr_id & SIM_RECV_BIT) == !receive;
    }
    return count;
}

void sim_tight_check(const struct sim_endpoint *end, const struct sim_tight_due *due)
{
    struct sim_world *world = end->load->world;
    bool in_error = uro_qp_state_now(end->qp) == URO_QPS_ERR;
    bool lost = false;

    if (sim_tight_lost(end->load, end->send_cq))
        lost |= waiting(end->send_cq, end->qpn, false) < due->sends;
    if (sim_tight_lost(end->load, end->recv_cq))
        lost |= waiting(end->recv_cq, end->qpn, true) < due->receives;
    if (lost && !in_error)
        sim_world_fail(world, "qp 0x%06x: goes on although a completion had no place", end->qpn);
    if (in_error && due->fatal && !end->fatal)
        sim_world_fail(world, "qp 0x%06x: in ERR without a reason", end->qpn);
}
