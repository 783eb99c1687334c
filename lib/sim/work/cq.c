/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.c - see cq.h for the contract. */
#include <inttypes.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define POLL_MAX       8u
#define TIGHT_WAIT_MAX URO_US(300) /* additional delay of the reader of a tight CQ */

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
static void resize(struct sim_cq *cq)
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

static void check(const struct sim_cq *cq)
{
    if (sim_inside_cq_waiting(cq->cq) > cq->capacity)
        sim_world_fail(cq->world, "a completion queue holds more than it has room for");
    if (cq->overflowed && sim_inside_cq_count(cq->cq) != cq->last)
        sim_world_fail(cq->world, "a completion was added after its queue had overflowed");
}

void sim_cq_poll(struct sim_cq *cq)
{
    struct uroce_completion cqes[POLL_MAX];
    int count;

    check(cq);
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

/* Polls like a program that waits for events: polls all completions, arms the CQ, and polls again
 * for completions that came in between. */
static void poller_run(struct sim_node *node)
{
    struct sim_cq *cq = URO_CONTAINER_OF(node, struct sim_cq, poller);
    const struct sim_plan *plan = cq->workload->plan;

    cq->reported = false;
    cq->armed = false;
    if (sim_world_chance(&cq->rng, cq->workload->plan->resize_probability))
        resize(cq);
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

static void create(struct sim_cq *cq, uint32_t capacity)
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
    create(cq, capacity);
    sim_world_add(workload->world, &cq->poller, poller_next, poller_run);
}

void sim_cq_fini(struct sim_cq *cq)
{
    if (cq->cq != NULL)
        sim_must(uroce_cq_destroy(cq->cq));
}

void sim_cq_renew(struct sim_cq *cq, uint32_t capacity)
{
    sim_cq_fini(cq);
    create(cq, capacity);
}

/* ---- tight queues ---- */

void sim_tight_init(struct sim_workload *workload, unsigned side)
{
    struct sim_cq *tight = &workload->tight[side];

    if (workload->plan->cq_tight == 0)
        return;
    sim_cq_init(tight, workload, workload->hosts[side], workload->plan->cq_tight);
    tight->wait_max += TIGHT_WAIT_MAX;
}

static bool is_of(const struct sim_endpoint *end, const struct uroce_cq *cq)
{
    return cq != NULL && (end->send_cq == cq || end->recv_cq == cq);
}

bool sim_tight_uses(const struct sim_endpoint *end)
{
    const struct sim_cq *tight = end->workload->tight;

    return is_of(end, tight[0].cq) || is_of(end, tight[1].cq);
}

static bool in_use(const struct sim_workload *workload, unsigned side)
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

/* Returns whether endpoints can use the tight queue now. */
static bool can_use(struct sim_workload *workload, unsigned side, struct uro_rng *rng)
{
    struct sim_cq *tight = &workload->tight[side];

    if (workload->plan->cq_tight == 0 || uro_rng_below(rng, 2) == 0)
        return false;
    if (tight->overflowed && in_use(workload, side))
        return false;
    if (tight->overflowed)
        sim_cq_renew(tight, sim_world_between(rng, 1, workload->plan->cq_tight));
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

struct sim_cq *sim_tight_choose_srq(struct sim_workload *workload, unsigned side,
                                    struct uro_rng *rng)
{
    return workload->plan->cq_tight_all && can_use(workload, side, rng) ? &workload->tight[side]
                                                                        : NULL;
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
