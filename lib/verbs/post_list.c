/* SPDX-License-Identifier: BSD-3-Clause */
/* post_list.c - posts lists of work requests: ibv_post_send, ibv_post_recv, ibv_post_srq_recv.
 *
 * Requests are posted under the lock of the queue only. If a request is rejected, *bad_wr points to
 * it, and the requests before it in the list stay posted.
 */
#include <errno.h>

#include "verbs/post.h"
#include "verbs/refusal.h"

/* Fills in the fields of the opcode other than the buffer. */
static int put_operands(const struct uro_ibv_qp *qp, struct uro_wqe *wqe,
                        const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_WRITE:
        wqe->remote_address = wr->wr.rdma.remote_addr;
        wqe->rkey = wr->wr.rdma.rkey;
        return 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        wqe->remote_address = wr->wr.atomic.remote_addr;
        wqe->rkey = wr->wr.atomic.rkey;
        wqe->compare_add = wr->wr.atomic.compare_add;
        wqe->swap = wr->wr.atomic.swap;
        return 0;
    case IBV_WR_BIND_MW: /* type 2; ibv_bind_mw() binds type 1 */
        return uro_post_bind(qp, wqe, IBV_MW_TYPE_2, wr->bind_mw.mw, wr->bind_mw.rkey,
                             &wr->bind_mw.bind_info);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
        return 0;
    case IBV_WR_TSO:
    case IBV_WR_DRIVER1:
#ifdef URO_HAS_IBV_WR_FLUSH
    case IBV_WR_FLUSH: /* struct ibv_send_wr lacks the fields of FLUSH */
#endif
        break;
    }
    return EINVAL;
}

static int put_inline(const struct uro_ibv_qp *qp, struct uro_wqe *wqe,
                      const struct ibv_send_wr *wr)
{
    int error = uro_post_inline(wqe);

    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->send->sge_max)
        return EINVAL;
    for (int i = 0; i < wr->num_sge && error == 0; i++)
        error = uro_post_bytes(qp, wqe, (const void *)(uintptr_t)wr->sg_list[i].addr,
                               wr->sg_list[i].length);
    return error;
}

static int put_buffer(const struct uro_ibv_qp *qp, struct uro_wqe *wqe,
                      const struct ibv_send_wr *wr)
{
    if (!uro_post_has_buffer(wqe))
        return 0;
    if (wr->send_flags & IBV_SEND_INLINE)
        return put_inline(qp, wqe, wr);
    return uro_post_elements(qp, wqe, wr->sg_list, wr->num_sge);
}

/* Writes the request into the slot @ahead slots after the next free slot. */
static int put(const struct uro_ibv_qp *qp, uint32_t ahead, const struct ibv_send_wr *wr)
{
    struct uro_wqe *wqe;
    int error = uro_post_begin(qp, ahead, (unsigned)wr->opcode, wr->send_flags, &wqe);

    if (error != 0)
        return error;
    wqe->wr_id = wr->wr_id;
    wqe->imm = wr->imm_data; /* immediate data or the key to invalidate, which share the field */
    if (qp->type == URO_QPT_XRC_INI)
        wqe->xrc_srqn = wr->qp_type.xrc.remote_srqn;
    error = qp->type == URO_QPT_UD ? uro_post_datagram(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
                                                       wr->wr.ud.remote_qkey)
                                   : put_operands(qp, wqe, wr);
    if (error == 0)
        error = put_buffer(qp, wqe, wr);
    return error != 0 ? error : uro_post_end(qp, wqe);
}

int uro_ibv_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    uint32_t count = 0;
    int error = 0;

    if (uro_object_dead(&qp->object)) {
        *bad_wr = wr;
        return EIO;
    }
    pthread_spin_lock(&qp->send_lock);
    if (wr != NULL && !uro_post_sends(qp))
        error = EINVAL;
    while (wr != NULL && error == 0) {
        error = put(qp, count, wr);
        if (error == 0) {
            count++;
            wr = wr->next;
        }
    }
    uro_post_publish(qp, count);
    pthread_spin_unlock(&qp->send_lock);

    if (error != 0)
        *bad_wr = wr;
    if (count > 0)
        uro_device_progress(qp->object.device, true);
    return error == 0 ? 0 : uro_refuse_send(qp, wr, error);
}

static int put_receive(struct uro_wq *queue, uint32_t ahead, const struct ibv_recv_wr *wr)
{
    uint64_t length = uro_post_length(wr->sg_list, wr->num_sge, queue->sge_max);
    struct uro_rqe *rqe = uro_wq_reserve(queue, ahead);

    if (length > UINT32_MAX)
        return EINVAL;
    if (rqe == NULL)
        return ENOMEM;
    rqe->wr_id = wr->wr_id;
    rqe->length = (uint32_t)length;
    rqe->sge_count = (uint32_t)wr->num_sge;
    uro_post_copy(rqe->sges, wr->sg_list, wr->num_sge);
    return 0;
}

/* Posts requests of the list, and writes their number to *@count. Returns 0, or an error
 * number with *@wr at the first rejected request. */
static int put_receives(struct uro_wq *queue, struct ibv_recv_wr **wr, uint32_t *count)
{
    int error = 0;

    *count = 0;
    while (*wr != NULL && (error = put_receive(queue, *count, *wr)) == 0) {
        ++*count;
        *wr = (*wr)->next;
    }
    uro_wq_publish(queue, *count);
    return error;
}

/* Returns whether the QP has a receive queue, and accepts receives in its state. */
static bool receives(const struct uro_ibv_qp *qp)
{
    bool own = qp->ibv.srq == NULL && qp->type != URO_QPT_XRC_INI && qp->type != URO_QPT_XRC_TGT;

    return own && uro_qp_state_now(qp->core) != URO_QPS_RESET;
}

int uro_ibv_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    uint32_t count = 0;
    int error = 0;

    if (uro_object_dead(&qp->object)) {
        *bad_wr = wr;
        return EIO;
    }
    pthread_spin_lock(&qp->recv_lock);
    if (wr != NULL)
        error = receives(qp) ? put_receives(qp->recv, &wr, &count) : EINVAL;
    bool flushes = count > 0 && uro_qp_state_now(qp->core) == URO_QPS_ERR;
    if (flushes)
        uro_qp_ring(qp->shard, qp->core);
    pthread_spin_unlock(&qp->recv_lock);

    if (error != 0)
        *bad_wr = wr;
    if (flushes)
        uro_device_progress(qp->object.device, true);
    return error == 0 ? 0 : uro_refuse_recv(qp, wr, error);
}

int uro_ibv_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct uro_ibv_srq *srq = uro_ibv_srq(ibv);
    uint32_t count;

    if (uro_object_dead(&srq->object)) {
        *bad_wr = wr;
        return EIO;
    }
    pthread_spin_lock(&srq->lock);
    int error = put_receives(&srq->core.wq, &wr, &count);
    pthread_spin_unlock(&srq->lock);
    if (error != 0)
        *bad_wr = wr;
    return error == 0 ? 0 : uro_refuse_srq_recv(srq->object.device, &srq->core.wq, wr, error);
}
