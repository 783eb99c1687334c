/* SPDX-License-Identifier: BSD-3-Clause */
/* tight.c - see endpoint.h for the contract. */
#include "sim/work/endpoint.h"

#include "sim/work/workload.h"

#define WAIT_MAX URO_US(300) /* additional delay of its reader */

void sim_tight_init(struct sim_workload *load, unsigned side)
{
    struct sim_cq *tight = &load->tight[side];

    if (load->plan->cq_tight == 0)
        return;
    sim_cq_init(tight, load, load->hosts[side], load->plan->cq_tight);
    tight->wait_max += WAIT_MAX;
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
        sim_world_fail(load->world, "a completion queue told twice that it overflowed");
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
