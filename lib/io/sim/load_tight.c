/* SPDX-License-Identifier: BSD-3-Clause */
/* load_tight.c - see load_tight.h for the contract. */
#include "io/sim/load_tight.h"

#include "io/sim/load_uc.h"
#include "io/sim/load_ud.h"

#define WAIT_MAX URO_US(300) /* of its reader */

/* Whose completion it is: UC and UD queue pairs read it with others. */
static void take(struct uro_load_cq *cq, const struct uro_cqe *cqe)
{
    struct uro_load *load = cq->load;

    for (uint32_t i = 0; i < 2 * load->swarm->uc_count; i++) {
        struct uro_load_uc_end *end = &load->ucs[i / 2].ends[i % 2];
        if (end->alive && end->station == cq->station && end->qpn == cqe->qpn) {
            uro_load_uc_judge(end, cq->cq, cqe);
            return;
        }
    }
    for (uint32_t i = 0; i < load->ud->count; i++) {
        struct uro_load_ud_party *party = &load->ud->parties[i];
        if (party->alive && party->station == cq->station && party->qpn == cqe->qpn) {
            uro_load_ud_judge(party, cq->cq, cqe);
            return;
        }
    }
    uro_load_poll_take(cq, cqe);
}

void uro_load_tight_init(struct uro_load *load, unsigned side)
{
    struct uro_load_cq *tight = &load->tight[side];

    if (load->swarm->cq_tight == 0)
        return;
    uro_load_poll_init(tight, load, load->stations[side], load->swarm->cq_tight);
    tight->wait_max += WAIT_MAX;
    tight->take = take;
}

static bool is_of(const struct uro_load_owner *owner, const struct uro_cq *cq)
{
    return cq != NULL && (owner->send_cq == cq || owner->recv_cq == cq);
}

bool uro_load_tight_uses(const struct uro_load *load, const struct uro_load_owner *owner)
{
    return is_of(owner, load->tight[0].cq) || is_of(owner, load->tight[1].cq);
}

static bool in_use(const struct uro_load *load, unsigned side)
{
    const struct uro_cq *tight = load->tight[side].cq;

    for (const struct uro_load_owner *owner = load->owners; owner != NULL; owner = owner->next)
        if (is_of(owner, tight))
            return true;
    for (uint32_t i = 0; i < load->swarm->srq_count[side]; i++)
        if (load->srqs[side][i].cq == &load->tight[side])
            return true;
    return false;
}

/* There is one that takes completions. */
static bool can_use(struct uro_load *load, unsigned side, struct uro_rng *rng)
{
    struct uro_load_cq *tight = &load->tight[side];

    if (load->swarm->cq_tight == 0 || uro_rng_below(rng, 2) == 0)
        return false;
    if (tight->overflowed && in_use(load, side))
        return false;
    if (tight->overflowed)
        uro_load_poll_renew(tight, uro_world_between(rng, 1, load->swarm->cq_tight));
    return true;
}

void uro_load_tight_choose(struct uro_load *load, struct uro_load_owner *owner, struct uro_rng *rng,
                           bool shared)
{
    unsigned side = owner->station == load->stations[1];

    if (!can_use(load, side, rng))
        return;
    uint32_t which = uro_world_between(rng, 1, 3);
    if (which & 1)
        owner->send_cq = load->tight[side].cq;
    if (which & 2 && (!shared || load->swarm->cq_tight_all))
        owner->recv_cq = load->tight[side].cq;
}

void uro_load_tight_choose_loose(struct uro_load *load, struct uro_load_owner *owner,
                                 struct uro_rng *rng)
{
    if (load->swarm->cq_tight_all)
        uro_load_tight_choose(load, owner, rng, true);
}

struct uro_load_cq *uro_load_tight_choose_srq(struct uro_load *load, unsigned side,
                                              struct uro_rng *rng)
{
    return load->swarm->cq_tight_all && can_use(load, side, rng) ? &load->tight[side] : NULL;
}

bool uro_load_tight_lost(const struct uro_load *load, const struct uro_cq *cq)
{
    for (unsigned side = 0; side < 2; side++)
        if (cq != NULL && cq == load->tight[side].cq && load->tight[side].overflowed)
            return true;
    return false;
}

void uro_load_tight_on_overflow(struct uro_load_cq *cq)
{
    struct uro_load *load = cq->load;

    if (load->swarm->cq_tight == 0 || (cq != &load->tight[0] && cq != &load->tight[1])) {
        uro_world_fail(load->world, "a completion queue overflowed that has room for all");
        return;
    }
    if (cq->overflowed)
        uro_world_fail(load->world, "a completion queue told twice that it overflowed");
    cq->overflowed = true;
    cq->last = cq->cq->filled;
    uro_journal_note(load->world->journal, load->world->now, "the tight queue of %c overflows",
                     cq->station->config.name);
    for (uint32_t i = 0; i < 2 * load->swarm->pair_count; i++) {
        struct uro_load_end *end = &load->pairs[i / 2].ends[i % 2];
        if (!end->alive || !is_of(&end->owner, cq->cq))
            continue;
        end->pair->may_fail = true;
        uro_load_control_on_failure(end->pair);
    }
}

/* An XRC target has no queues of its own. */
static bool has_lost(const struct uro_load *load, const struct uro_load_owner *owner)
{
    if (owner->send_cq != NULL || owner->recv_cq != NULL)
        return uro_load_tight_lost(load, owner->send_cq) ||
               uro_load_tight_lost(load, owner->recv_cq);
    return load->swarm->cq_tight_all && load->tight[owner->station == load->stations[1]].overflowed;
}

void uro_load_tight_on_fatal(struct uro_load *load, struct uro_load_owner *owner, struct uro_qp *qp)
{
    uro_journal_note(load->world->journal, load->world->now, "qp 0x%06x: QP_FATAL",
                     uro_qp_number(qp));
    if (!has_lost(load, owner))
        uro_world_fail(load->world, "qp 0x%06x: QP_FATAL although its queues have room",
                       uro_qp_number(qp));
    if (owner->fatal || uro_qp_state_now(qp) != URO_QPS_ERR)
        uro_world_fail(load->world, "qp 0x%06x: QP_FATAL again, or not in ERR", uro_qp_number(qp));
    owner->fatal = true;
}

static uint32_t waiting(const struct uro_cq *cq, uint32_t qpn, bool receive)
{
    uint32_t count = 0;

    for (uint32_t i = atomic_load(&cq->head); i != cq->filled; i++) {
        const struct uro_cqe *cqe = &cq->ring[i & cq->mask];
        count += cqe->qpn == qpn && !(cqe->wr_id & URO_LOAD_RECV_BIT) == !receive;
    }
    return count;
}

void uro_load_tight_check(const struct uro_load *load, const struct uro_load_owner *owner,
                          struct uro_qp *qp, const struct uro_load_tight_due *due)
{
    uint32_t qpn = uro_qp_number(qp);
    bool in_error = uro_qp_state_now(qp) == URO_QPS_ERR;
    bool lost = false;

    if (uro_load_tight_lost(load, owner->send_cq))
        lost |= waiting(owner->send_cq, qpn, false) < due->sends;
    if (uro_load_tight_lost(load, owner->recv_cq))
        lost |= waiting(owner->recv_cq, qpn, true) < due->receives;
    if (lost && !in_error)
        uro_world_fail(load->world, "qp 0x%06x: goes on although a completion had no place", qpn);
    if (in_error && due->fatal && !owner->fatal)
        uro_world_fail(load->world, "qp 0x%06x: in ERR without a reason", qpn);
}
