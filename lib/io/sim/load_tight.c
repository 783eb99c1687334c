/* SPDX-License-Identifier: BSD-3-Clause */
/* load_tight.c - see load_tight.h for the contract. */
#include "io/sim/load_tight.h"

#define WAIT_MAX URO_US(300) /* of its reader */

void uro_load_tight_init(struct uro_load *load, unsigned side)
{
    if (load->swarm->cq_tight == 0)
        return;
    uro_load_poll_init(&load->tight[side], load, load->stations[side], load->swarm->cq_tight);
    load->tight[side].wait_max += WAIT_MAX;
}

static bool uses(const struct uro_load_end *end)
{
    const struct uro_load_cq *tight = &end->load->tight[end->side];

    return end->qp != NULL && tight->cq != NULL &&
           (end->send_cq == tight->cq || end->recv_cq == tight->cq);
}

bool uro_load_tight_uses(const struct uro_load_pair *pair)
{
    return uses(&pair->ends[0]) || uses(&pair->ends[1]);
}

/* Any queue pair of the station does. */
static bool in_use(const struct uro_load *load, uint32_t side)
{
    bool found = false;

    for (uint32_t i = 0; i < 2 * load->swarm->pair_count; i++) {
        const struct uro_load_end *end = &load->pairs[i / 2].ends[i % 2];
        found |= end->side == side && uses(end);
    }
    return found;
}

void uro_load_tight_choose(struct uro_load_end *end)
{
    const struct uro_swarm *swarm = end->load->swarm;
    struct uro_load_cq *tight = &end->load->tight[end->side];

    if (swarm->cq_tight == 0 || end->pair->last_life || uro_rng_below(&end->rng, 2) == 0)
        return;
    if (tight->overflowed && in_use(end->load, end->side))
        return;
    if (tight->overflowed)
        uro_load_poll_renew(tight, uro_world_between(&end->rng, 1, swarm->cq_tight));
    uint32_t which = uro_world_between(&end->rng, 1, 3);
    if (which & 1)
        end->send_cq = tight->cq;
    if (which & 2 && end->srq == NULL) /* what is lost of a shared queue nobody could count */
        end->recv_cq = tight->cq;
}

bool uro_load_tight_lost(const struct uro_load_end *end, const struct uro_cq *cq)
{
    const struct uro_load_cq *tight = &end->load->tight[end->side];

    return cq != NULL && cq == tight->cq && tight->overflowed;
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
    cq->last = atomic_load(&cq->cq->tail);
    uro_journal_note(load->world->journal, load->world->now, "the tight queue of %c overflows",
                     cq->station->config.name);
    for (uint32_t i = 0; i < 2 * load->swarm->pair_count; i++) {
        struct uro_load_end *end = &load->pairs[i / 2].ends[i % 2];
        if (!end->alive || (end->send_cq != cq->cq && end->recv_cq != cq->cq))
            continue;
        end->pair->may_fail = true;
        uro_load_control_on_failure(end->pair);
    }
}

void uro_load_tight_on_fatal(struct uro_load_end *end)
{
    uro_journal_note(end->load->world->journal, end->load->world->now, "qp 0x%06x: QP_FATAL",
                     uro_qp_number(end->qp));
    if (!uro_load_tight_lost(end, end->send_cq) && !uro_load_tight_lost(end, end->recv_cq))
        uro_world_fail(end->load->world, "qp 0x%06x: QP_FATAL although its queues have room",
                       uro_qp_number(end->qp));
}
