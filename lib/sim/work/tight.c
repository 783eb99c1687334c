/* SPDX-License-Identifier: BSD-3-Clause */
/* tight.c - see tight.h for the contract. */
#include "sim/work/tight.h"

#include "sim/work/uc.h"
#include "sim/work/ud.h"

#define WAIT_MAX URO_US(300) /* of its reader */

/* Whose completion it is: UC and UD queue pairs read it with others. */
static void take(struct sim_cq *cq, const struct uro_cqe *cqe)
{
    struct sim_workload *load = cq->load;

    for (uint32_t i = 0; i < 2 * load->plan->uc_count; i++) {
        struct sim_uc_end *end = &load->ucs[i / 2].ends[i % 2];
        if (end->alive && end->host == cq->host && end->qpn == cqe->qpn) {
            sim_uc_judge(end, cq->cq, cqe);
            return;
        }
    }
    for (uint32_t i = 0; i < load->ud->count; i++) {
        struct sim_ud_party *party = &load->ud->parties[i];
        if (party->alive && party->host == cq->host && party->qpn == cqe->qpn) {
            sim_ud_judge(party, cq->cq, cqe);
            return;
        }
    }
    sim_cq_take(cq, cqe);
}

void sim_tight_init(struct sim_workload *load, unsigned side)
{
    struct sim_cq *tight = &load->tight[side];

    if (load->plan->cq_tight == 0)
        return;
    sim_cq_init(tight, load, load->hosts[side], load->plan->cq_tight);
    tight->wait_max += WAIT_MAX;
    tight->take = take;
}

static bool is_of(const struct sim_qp_owner *owner, const struct uro_cq *cq)
{
    return cq != NULL && (owner->send_cq == cq || owner->recv_cq == cq);
}

bool sim_tight_uses(const struct sim_workload *load, const struct sim_qp_owner *owner)
{
    return is_of(owner, load->tight[0].cq) || is_of(owner, load->tight[1].cq);
}

static bool in_use(const struct sim_workload *load, unsigned side)
{
    const struct uro_cq *tight = load->tight[side].cq;

    for (const struct sim_qp_owner *owner = load->owners; owner != NULL; owner = owner->next)
        if (is_of(owner, tight))
            return true;
    for (uint32_t i = 0; i < load->plan->srq_count[side]; i++)
        if (load->srqs[side][i].cq == &load->tight[side])
            return true;
    return false;
}

/* There is one that takes completions. */
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

void sim_tight_choose(struct sim_workload *load, struct sim_qp_owner *owner, struct uro_rng *rng,
                      bool shared)
{
    unsigned side = owner->host == load->hosts[1];

    if (!can_use(load, side, rng))
        return;
    uint32_t which = sim_world_between(rng, 1, 3);
    if (which & 1)
        owner->send_cq = load->tight[side].cq;
    if (which & 2 && (!shared || load->plan->cq_tight_all))
        owner->recv_cq = load->tight[side].cq;
}

void sim_tight_choose_loose(struct sim_workload *load, struct sim_qp_owner *owner,
                            struct uro_rng *rng)
{
    if (load->plan->cq_tight_all)
        sim_tight_choose(load, owner, rng, true);
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
    for (uint32_t i = 0; i < 2 * load->plan->pair_count; i++) {
        struct sim_rc_end *end = &load->pairs[i / 2].ends[i % 2];
        if (!end->alive || !is_of(&end->owner, cq->cq))
            continue;
        end->pair->may_fail = true;
        sim_rc_control_on_failure(end->pair);
    }
}

/* An XRC target has no queues of its own. */
static bool has_lost(const struct sim_workload *load, const struct sim_qp_owner *owner)
{
    if (owner->send_cq != NULL || owner->recv_cq != NULL)
        return sim_tight_lost(load, owner->send_cq) || sim_tight_lost(load, owner->recv_cq);
    return load->plan->cq_tight_all && load->tight[owner->host == load->hosts[1]].overflowed;
}

void sim_tight_on_fatal(struct sim_workload *load, struct sim_qp_owner *owner, struct uro_qp *qp)
{
    sim_journal_note(load->world->journal, load->world->now, "qp 0x%06x: QP_FATAL",
                     uro_qp_number(qp));
    if (!has_lost(load, owner))
        sim_world_fail(load->world, "qp 0x%06x: QP_FATAL although its queues have room",
                       uro_qp_number(qp));
    if (owner->fatal || uro_qp_state_now(qp) != URO_QPS_ERR)
        sim_world_fail(load->world, "qp 0x%06x: QP_FATAL again, or not in ERR", uro_qp_number(qp));
    owner->fatal = true;
}

static uint32_t waiting(const struct uro_cq *cq, uint32_t qpn, bool receive)
{
    uint32_t count = 0;

    for (uint32_t i = atomic_load(&cq->head); i != cq->filled; i++) {
        const struct uro_cqe *cqe = &cq->ring[i & cq->mask];
        count += cqe->qpn == qpn && !(cqe->wr_id & SIM_WORKLOAD_RECV_BIT) == !receive;
    }
    return count;
}

void sim_tight_check(const struct sim_workload *load, const struct sim_qp_owner *owner,
                     struct uro_qp *qp, const struct sim_tight_due *due)
{
    uint32_t qpn = uro_qp_number(qp);
    bool in_error = uro_qp_state_now(qp) == URO_QPS_ERR;
    bool lost = false;

    if (sim_tight_lost(load, owner->send_cq))
        lost |= waiting(owner->send_cq, qpn, false) < due->sends;
    if (sim_tight_lost(load, owner->recv_cq))
        lost |= waiting(owner->recv_cq, qpn, true) < due->receives;
    if (lost && !in_error)
        sim_world_fail(load->world, "qp 0x%06x: goes on although a completion had no place", qpn);
    if (in_error && due->fatal && !owner->fatal)
        sim_world_fail(load->world, "qp 0x%06x: in ERR without a reason", qpn);
}
