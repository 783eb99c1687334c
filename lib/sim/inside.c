/* SPDX-License-Identifier: BSD-3-Clause */
/* inside.c - see inside.h for the contract. */
#include "sim/inside.h"

#include "embed/embed.h"

int sim_inside_create(const struct uroce_engine_config *config, uint32_t hops, uint8_t table_bits,
                      uint64_t now, struct uroce_engine **engine)
{
    const struct uro_embed_sizes sizes = { .hops = hops, .table_bits = table_bits };

    return uro_embed_create(config, &sizes, now, engine);
}

/* ---- queues ---- */

static uint32_t oldest(const struct uroce_cq *cq)
{
    return atomic_load_explicit(&cq->core->head, memory_order_relaxed);
}

uint32_t sim_inside_cq_count(const struct uroce_cq *cq)
{
    return cq->core->filled;
}

uint32_t sim_inside_cq_waiting(const struct uroce_cq *cq)
{
    return cq->core->filled - oldest(cq);
}

uint32_t sim_inside_cq_look(const struct uroce_cq *cq, uint32_t index, uint64_t *wr_id)
{
    const struct uro_cqe *cqe = &cq->core->ring[(oldest(cq) + index) & cq->core->mask];

    *wr_id = cqe->wr_id;
    return cqe->qpn;
}

static uint32_t waiting(const struct uro_wq *queue)
{
    return uro_wq_tail(queue) - uro_wq_head(queue);
}

uint32_t sim_inside_sends(const struct uroce_qp *qp)
{
    return waiting(uro_qp_send_queue(qp->core));
}

uint32_t sim_inside_receives(const struct uroce_qp *qp)
{
    return waiting(uro_qp_recv_queue(qp->core));
}

uint64_t sim_inside_srq_wr_id(const struct uroce_srq *srq, uint32_t index)
{
    const struct uro_rqe *rqe = uro_wq_slot(&srq->core.wq, uro_wq_head(&srq->core.wq) + index);

    return rqe->wr_id;
}

/* ---- wrong requests ---- */

static struct uro_wqe *newest(struct uroce_qp *qp)
{
    const struct uro_wq *queue = uro_qp_send_queue(qp->core);

    return uro_wq_slot(queue, uro_wq_tail(queue) - 1);
}

void sim_inside_set_opcode(struct uroce_qp *qp, uint8_t opcode)
{
    newest(qp)->opcode = opcode;
}

void sim_inside_lengthen(struct uroce_qp *qp)
{
    struct uro_wqe *wqe = newest(qp);
    uint32_t i = 0;

    while (wqe->sges[i].length == 0)
        i++;
    wqe->sges[i].length++;
    wqe->length++;
}

void sim_inside_set_bind(struct uroce_qp *qp, uint32_t rkey, uint32_t lkey, uint64_t length)
{
    struct uro_wqe *wqe = newest(qp);

    wqe->imm = rkey;
    wqe->bind.lkey = lkey;
    wqe->window_length = length;
}

void sim_inside_set_ah(struct uroce_qp *qp, uint32_t number)
{
    newest(qp)->to.ah = number;
}

uint32_t sim_inside_ah_number(const struct uroce_ah *ah)
{
    return uro_ah_number(&ah->core);
}

/* ---- the connection manager ---- */

uint32_t sim_inside_connections(const struct uroce_engine *engine)
{
    return uro_engine_cm(engine->engine)->by_id.count;
}

uint32_t sim_inside_requests(const struct uroce_listener *listener)
{
    return listener->core.waiting;
}

void sim_inside_keep_request(struct uroce_listener *listener, struct uroce_conn *conn)
{
    conn->core->listener = &listener->core;
    listener->core.waiting++;
}
