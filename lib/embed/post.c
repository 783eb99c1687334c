/* SPDX-License-Identifier: BSD-3-Clause */
/* post.c - the functions of uroce/objects.h that post requests. */
#include <uroce/objects.h>

#include <errno.h>
#include <string.h>

#include "core/limits.h"
#include "embed/embed.h"

#define FLAGS       (UROCE_FENCE | UROCE_SIGNALED | UROCE_SOLICITED | UROCE_INLINE)
#define ATOMIC_SIZE 8u
#define QPN_MAX     0xffffffu

static_assert(sizeof(struct uroce_sge) == sizeof(struct uro_sge) &&
                  offsetof(struct uroce_sge, length) == offsetof(struct uro_sge, length) &&
                  offsetof(struct uroce_sge, key) == offsetof(struct uro_sge, lkey),
              "elements are copied as they are");
UROCE_SAME(UROCE_FETCH_ADD, URO_WR_ATOMIC_FETCH_AND_ADD);
UROCE_SAME(UROCE_COMPARE_SWAP, URO_WR_ATOMIC_CMP_AND_SWP);
UROCE_SAME(UROCE_RDMA_READ, URO_WR_RDMA_READ);
UROCE_SAME(UROCE_SEND_WITH_IMM, URO_WR_SEND_WITH_IMM);
UROCE_SAME(UROCE_SEND, URO_WR_SEND);
UROCE_SAME(UROCE_INLINE, URO_SEND_INLINE);
UROCE_SAME(UROCE_SOLICITED, URO_SEND_SOLICITED);
UROCE_SAME(UROCE_SIGNALED, URO_SEND_SIGNALED);
UROCE_SAME(UROCE_FENCE, URO_SEND_FENCE);

#define RC (1u << UROCE_RC)
#define UC (1u << UROCE_UC)
#define UD (1u << UROCE_UD)

/* For each opcode: the queue pair types that support it (man ibv_post_send), and whether the
 * request only reads its buffer. */
static const struct {
    unsigned types;
    bool reads_buffer;
} operations[] = {
    [UROCE_RDMA_WRITE] = { RC | UC, true }, [UROCE_RDMA_WRITE_WITH_IMM] = { RC | UC, true },
    [UROCE_SEND] = { RC | UC | UD, true },  [UROCE_SEND_WITH_IMM] = { RC | UC | UD, true },
    [UROCE_RDMA_READ] = { RC, false },      [UROCE_COMPARE_SWAP] = { RC, false },
    [UROCE_FETCH_ADD] = { RC, false },
};

static bool is_atomic(const struct uroce_send *request)
{
    return request->opcode == UROCE_COMPARE_SWAP || request->opcode == UROCE_FETCH_ADD;
}

static bool takes_sends(const struct uroce_qp *qp)
{
    const enum uro_qp_state state = uro_qp_state_now(qp->core);

    return state != URO_QPS_RESET && state != URO_QPS_INIT && state != URO_QPS_RTR;
}

/* Returns the sum of the lengths of the elements, or UINT64_MAX when there are more than @most
 * elements. */
static uint64_t length_of(const struct uroce_sge *sges, uint32_t count, uint32_t most)
{
    uint64_t length = 0;

    if (count > most || (sges == NULL && count > 0))
        return UINT64_MAX;
    for (uint32_t i = 0; i < count; i++)
        length += sges[i].length;
    return length;
}

static bool is_right(const struct uroce_qp *qp, const struct uroce_send *request, uint64_t length)
{
    const struct uro_wq *queue = uro_qp_send_queue(qp->core);
    const unsigned opcode = (unsigned)request->opcode;

    if (!takes_sends(qp) || opcode >= URO_ARRAY_LEN(operations) ||
        !(operations[opcode].types & 1u << qp->type) || (request->flags & ~FLAGS) != 0)
        return false;
    if ((request->flags & UROCE_INLINE) &&
        (!operations[opcode].reads_buffer || length > queue->inline_max))
        return false;
    if (qp->type == UROCE_UD && (request->ah == NULL || request->ah->pd != qp->pd ||
                                 request->remote_qpn > QPN_MAX || length > URO_PATH_MTU_MAX))
        return false;
    return is_atomic(request) ? length == ATOMIC_SIZE : length <= URO_MESSAGE_MAX;
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
    if (is_atomic(request)) {
        wqe->compare_add = request->compare_add;
        wqe->swap = request->swap;
    }
}

int uroce_qp_send(struct uroce_qp *qp, const struct uroce_send *request)
{
    if (qp == NULL || request == NULL)
        return -EINVAL;
    struct uro_wq *queue = uro_qp_send_queue(qp->core);
    const uint64_t length = length_of(request->sges, request->sge_count, queue->sge_max);
    if (!is_right(qp, request, length))
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

int uroce_qp_receive(struct uroce_qp *qp, uint64_t wr_id, const struct uroce_sge *sges,
                     uint32_t sge_count)
{
    if (qp == NULL)
        return -EINVAL;
    struct uro_wq *queue = uro_qp_recv_queue(qp->core);
    const uint64_t length = length_of(sges, sge_count, queue->sge_max);
    if (uro_qp_state_now(qp->core) == URO_QPS_RESET || length > URO_MESSAGE_MAX)
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
    if (uro_qp_state_now(qp->core) == URO_QPS_ERR)
        uro_qp_ring(qp->shard, qp->core); /* the engine flushes the receive */
    return 0;
}
