/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c - the functions of uroce/objects.h that post requests. */
#include <uroce/objects.h>

#include <errno.h>
#include <string.h>

#include "core/limits.h"
#include "embed/embed.h"

#define FLAGS       (UROCE_FENCE | UROCE_SIGNALED | UROCE_SOLICITED | UROCE_INLINE)
#define ATOMIC_SIZE 8u
#define NUMBER_MAX  0xffffffu /* largest number of a queue pair or an SRQ */

static_assert(sizeof(struct uroce_sge) == sizeof(struct uro_sge) &&
                  offsetof(struct uroce_sge, length) == offsetof(struct uro_sge, length) &&
                  offsetof(struct uroce_sge, key) == offsetof(struct uro_sge, lkey),
              "elements are copied without conversion");
UROCE_SAME(UROCE_ATOMIC_WRITE, URO_WR_ATOMIC_WRITE);
UROCE_SAME(UROCE_FLUSH, URO_WR_FLUSH);
UROCE_SAME(UROCE_SEND_WITH_INV, URO_WR_SEND_WITH_INV);
UROCE_SAME(UROCE_BIND_MW, URO_WR_BIND_MW);
UROCE_SAME(UROCE_LOCAL_INV, URO_WR_LOCAL_INV);
UROCE_SAME(UROCE_FETCH_ADD, URO_WR_ATOMIC_FETCH_AND_ADD);
UROCE_SAME(UROCE_COMPARE_SWAP, URO_WR_ATOMIC_CMP_AND_SWP);
UROCE_SAME(UROCE_RDMA_READ, URO_WR_RDMA_READ);
UROCE_SAME(UROCE_SEND_WITH_IMM, URO_WR_SEND_WITH_IMM);
UROCE_SAME(UROCE_SEND, URO_WR_SEND);
UROCE_SAME(UROCE_INLINE, URO_SEND_INLINE);
UROCE_SAME(UROCE_SOLICITED, URO_SEND_SOLICITED);
UROCE_SAME(UROCE_SIGNALED, URO_SEND_SIGNALED);
UROCE_SAME(UROCE_FENCE, URO_SEND_FENCE);

#define RC        (1u << UROCE_RC)
#define UC        (1u << UROCE_UC)
#define UD        (1u << UROCE_UD)
#define RELIABLE  (RC | 1u << UROCE_XRC_INI)
#define CONNECTED (RELIABLE | UC)

/* For each opcode: the queue pair types that support it (man ibv_post_send; UC has no packet for
 * SEND_WITH_INV), and what its buffer is. */
static const struct operation {
    unsigned types;
    bool can_inline; /* the request only reads its buffer */
    bool atomic;     /* the buffer has 8 bytes */
    bool no_buffer;
} operations[] = {
    /* clang-format off */
    [UROCE_RDMA_WRITE]          = { .types = CONNECTED, .can_inline = true },
    [UROCE_RDMA_WRITE_WITH_IMM] = { .types = CONNECTED, .can_inline = true },
    [UROCE_SEND]                = { .types = CONNECTED | UD, .can_inline = true },
    [UROCE_SEND_WITH_IMM]       = { .types = CONNECTED | UD, .can_inline = true },
    [UROCE_RDMA_READ]           = { .types = RELIABLE },
    [UROCE_COMPARE_SWAP]        = { .types = RELIABLE, .atomic = true },
    [UROCE_FETCH_ADD]           = { .types = RELIABLE, .atomic = true },
    [UROCE_LOCAL_INV]           = { .types = CONNECTED, .no_buffer = true },
    [UROCE_BIND_MW]             = { .types = CONNECTED, .no_buffer = true },
    [UROCE_SEND_WITH_INV]       = { .types = RELIABLE, .can_inline = true },
    [UROCE_FLUSH]               = { .types = RELIABLE, .no_buffer = true },
    [UROCE_ATOMIC_WRITE]        = { .types = RELIABLE, .can_inline = true, .atomic = true },
    /* clang-format on */
};

static bool takes_sends(const struct uroce_qp *qp)
{
    const enum uro_qp_state state = uro_qp_state_now(qp->core);

    return state != URO_QPS_RESET && state != URO_QPS_INIT && state != URO_QPS_RTR;
}

/* Returns the sum of the lengths of the elements, or UINT64_MAX when there are more than @most
 * elements or @sges is missing. */
static uint64_t length_of(const struct uroce_sge *sges, uint32_t count, uint32_t most)
{
    uint64_t length = 0;

    if (count > most || (sges == NULL && count > 0))
        return UINT64_MAX;
    for (uint32_t i = 0; i < count; i++)
        length += sges[i].length;
    return length;
}

static bool is_reserved_clear(const struct uroce_send *request)
{
    uint8_t used = 0;

    for (size_t i = 0; i < sizeof request->reserved; i++)
        used |= request->reserved[i];
    return used == 0;
}

static bool bind_is_valid(const struct uroce_qp *qp, const struct uroce_send *request)
{
    return request->mw != NULL && request->mw->pd == qp->pd &&
           (request->mr == NULL ? request->bind_length == 0
                                : request->mr->pd->engine == qp->pd->engine);
}

static bool flush_is_valid(const struct uroce_send *request)
{
    const uint8_t placement = request->flush_placement;

    return placement != 0 && (placement & ~(UROCE_FLUSH_GLOBAL | UROCE_FLUSH_PERSISTENT)) == 0 &&
           request->flush_selectivity <= UROCE_FLUSH_MR && request->flush_length <= URO_MESSAGE_MAX;
}

static bool datagram_is_valid(const struct uroce_qp *qp, const struct uroce_send *request,
                              uint64_t length)
{
    return request->ah != NULL && request->ah->pd == qp->pd && request->remote_qpn <= NUMBER_MAX &&
           length <= URO_PATH_MTU_MAX;
}

static bool is_valid(const struct uroce_qp *qp, const struct uroce_send *request, uint64_t length)
{
    const unsigned opcode = (unsigned)request->opcode;

    if (!takes_sends(qp) || opcode >= URO_ARRAY_LEN(operations) || (request->flags & ~FLAGS) != 0 ||
        !is_reserved_clear(request))
        return false;
    const struct operation *operation = &operations[opcode];
    if (!(operation->types & 1u << qp->type) || (operation->no_buffer && request->sge_count > 0))
        return false;
    if ((request->flags & UROCE_INLINE) &&
        (!operation->can_inline || length > uro_qp_send_queue(qp->core)->inline_max))
        return false;
    if ((qp->type == UROCE_UD && !datagram_is_valid(qp, request, length)) ||
        request->remote_srqn > NUMBER_MAX ||
        (opcode == UROCE_BIND_MW && !bind_is_valid(qp, request)) ||
        (opcode == UROCE_FLUSH && !flush_is_valid(request)))
        return false;
    return operation->atomic ? length == ATOMIC_SIZE : length <= URO_MESSAGE_MAX;
}

static void put_elements(struct uro_wqe *wqe, const struct uroce_send *request)
{
    uint8_t *octets = (uint8_t *)wqe->sges;

    if (!(request->flags & UROCE_INLINE)) {
        wqe->sge_count = (uint16_t)request->sge_count;
        if (request->sge_count > 0)
            memcpy(wqe->sges, request->sges, request->sge_count * sizeof *request->sges);
        return;
    }
    for (uint32_t i = 0; i < request->sge_count; i++) {
        const struct uroce_sge *sge = &request->sges[i];
        if (sge->length > 0)
            memcpy(octets, (const void *)(uintptr_t)sge->address, sge->length);
        octets += sge->length;
    }
}

static void put_bind(struct uro_wqe *wqe, const struct uroce_send *request)
{
    wqe->imm = uro_key_number(&request->mw->key);
    wqe->window_length = request->bind_length;
    wqe->bind.lkey = request->mr != NULL ? uro_key_number(&request->mr->key) : 0;
    wqe->bind.access = request->bind_access;
}

static void put_operands(const struct uroce_qp *qp, struct uro_wqe *wqe,
                         const struct uroce_send *request)
{
    if (qp->type == UROCE_UD) {
        wqe->to.ah = uro_ah_number(&request->ah->core);
        wqe->to.qpn = request->remote_qpn;
        wqe->qkey = request->remote_qkey;
        return;
    }
    wqe->remote_address = request->remote_address;
    wqe->rkey = request->rkey;
    wqe->xrc_srqn = request->remote_srqn;
    if (operations[request->opcode].atomic) {
        wqe->compare_add = request->compare_add;
        wqe->swap = request->swap;
    } else if (request->opcode == UROCE_BIND_MW) {
        put_bind(wqe, request);
    } else if (request->opcode == UROCE_FLUSH) {
        wqe->length = request->flush_selectivity == UROCE_FLUSH_MR ? 0 : request->flush_length;
        wqe->flush =
            (struct uro_flush_kind){ request->flush_placement, request->flush_selectivity };
    }
}

int uroce_qp_send(struct uroce_qp *qp, const struct uroce_send *request)
{
    if (qp == NULL || request == NULL || qp->type == UROCE_XRC_TGT)
        return -EINVAL;
    struct uro_wq *queue = uro_qp_send_queue(qp->core);
    const uint64_t length = length_of(request->sges, request->sge_count, queue->sge_max);
    if (!is_valid(qp, request, length))
        return -EINVAL;
    struct uro_wqe *wqe = uro_wq_reserve(queue, 0);
    if (wqe == NULL)
        return -ENOMEM;
    *wqe = (struct uro_wqe){ .wr_id = request->wr_id,
                             .imm = request->imm,
                             .length = (uint32_t)length,
                             .opcode = (uint8_t)request->opcode,
                             .flags = (uint8_t)request->flags };
    put_operands(qp, wqe, request);
    put_elements(wqe, request);
    uro_wq_publish(queue, 1);
    uro_qp_ring(qp->shard, qp->core);
    return 0;
}

static int post_receive(struct uro_wq *queue, uint64_t wr_id, const struct uroce_sge *sges,
                        uint32_t sge_count)
{
    const uint64_t length = length_of(sges, sge_count, queue->sge_max);
    if (length > URO_MESSAGE_MAX)
        return -EINVAL;
    struct uro_rqe *rqe = uro_wq_reserve(queue, 0);
    if (rqe == NULL)
        return -ENOMEM;
    rqe->wr_id = wr_id;
    rqe->length = (uint32_t)length;
    rqe->sge_count = sge_count;
    if (sge_count > 0)
        memcpy(rqe->sges, sges, sge_count * sizeof *sges);
    uro_wq_publish(queue, 1);
    return 0;
}

int uroce_qp_receive(struct uroce_qp *qp, uint64_t wr_id, const struct uroce_sge *sges,
                     uint32_t sge_count)
{
    if (qp == NULL || qp->recv_cq == NULL || qp->srq != NULL ||
        uro_qp_state_now(qp->core) == URO_QPS_RESET)
        return -EINVAL;
    const int error = post_receive(uro_qp_recv_queue(qp->core), wr_id, sges, sge_count);
    if (error == 0 && uro_qp_state_now(qp->core) == URO_QPS_ERR)
        uro_qp_ring(qp->shard, qp->core); /* the engine flushes the receive */
    return error;
}

int uroce_srq_receive(struct uroce_srq *srq, uint64_t wr_id, const struct uroce_sge *sges,
                      uint32_t sge_count)
{
    return srq != NULL ? post_receive(&srq->core.wq, wr_id, sges, sge_count) : -EINVAL;
}
