/* SPDX-License-Identifier: BSD-3-Clause */
/* post_ex.c - ibv_wr_*(): send requests built one call at a time, posted all together or not at
 * all.
 *
 * From wr_start to wr_complete or wr_abort the caller has the QP's send lock, and what is built
 * lies in slots that are not published. The builders return nothing: the first error is kept,
 * everything after it is ignored, and wr_complete says it.
 */
#include <errno.h>
#include <stdatomic.h>

#include "core/limits.h"
#include "verbs/post.h"

/* Newer than some <infiniband/verbs.h>: IBV_QP_EX_WITH_FLUSH, IBV_FLUSH_GLOBAL | _PERSISTENT, and
 * IBV_FLUSH_RANGE and _MR. */
#define WITH_FLUSH  (UINT64_C(1) << 11)
#define PLACEMENTS  3u
#define FLUSH_RANGE 0u
#define FLUSH_MR    1u

/* Parts that a request may get after its begin, each once. */
#define TAKES_BUFFER  1u
#define TAKES_ADDRESS 2u /* UD, XRC: must be given */

static struct uro_ibv_qp *qp_of(struct ibv_qp_ex *ex)
{
    return URO_CONTAINER_OF(ex, struct uro_ibv_qp, ex);
}

static void note(struct uro_wr_batch *batch, int error)
{
    if (error == 0)
        return;
    batch->error = error;
    batch->wqe = NULL;
}

/* Nothing more will be said about the newest request. */
static void end_newest(struct uro_ibv_qp *qp)
{
    struct uro_wr_batch *batch = &qp->batch;

    if (batch->wqe == NULL)
        return;
    note(batch, batch->takes & TAKES_ADDRESS ? EINVAL : uro_post_end(qp, batch->wqe));
}

/* The slot of a new request, or NULL after an error. */
static struct uro_wqe *begin(struct uro_ibv_qp *qp, enum uro_wr_opcode opcode)
{
    struct uro_wr_batch *batch = &qp->batch;

    end_newest(qp);
    if (batch->error != 0)
        return NULL;
    /* Programs leave INLINE in the flags; which setter comes decides. */
    note(batch, uro_post_begin(qp, batch->count, opcode, qp->ex.wr_flags, &batch->wqe));
    if (batch->error != 0)
        return NULL;
    batch->count++;
    batch->wqe->wr_id = qp->ex.wr_id;
    batch->takes = 0;
    return batch->wqe;
}

/* Begins a request that sends a buffer to the peer, or reads into it. */
static struct uro_wqe *begin_transfer(struct ibv_qp_ex *ex, enum uro_wr_opcode opcode)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = begin(qp, opcode);

    qp->batch.takes = TAKES_BUFFER;
    if (qp->type == URO_QPT_UD || qp->type == URO_QPT_XRC_INI)
        qp->batch.takes |= TAKES_ADDRESS;
    return wqe;
}

static struct uro_wqe *begin_remote(struct ibv_qp_ex *ex, enum uro_wr_opcode opcode, uint32_t rkey,
                                    uint64_t remote_addr)
{
    struct uro_wqe *wqe = begin_transfer(ex, opcode);

    if (wqe == NULL)
        return NULL;
    wqe->rkey = rkey;
    wqe->remote_address = remote_addr;
    return wqe;
}

/* ---- builders
 * --------------------------------------------------------------------------------- */

static void wr_send(struct ibv_qp_ex *ex)
{
    (void)begin_transfer(ex, URO_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
    struct uro_wqe *wqe = begin_transfer(ex, URO_WR_SEND_WITH_IMM);

    if (wqe != NULL)
        wqe->imm = imm_data;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
    struct uro_wqe *wqe = begin_transfer(ex, URO_WR_SEND_WITH_INV);

    if (wqe != NULL)
        wqe->imm = invalidate_rkey;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    (void)begin_remote(ex, URO_WR_RDMA_READ, rkey, remote_addr);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
    (void)begin_remote(ex, URO_WR_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm_data)
{
    struct uro_wqe *wqe = begin_remote(ex, URO_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

    if (wqe != NULL)
        wqe->imm = imm_data;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap)
{
    struct uro_wqe *wqe = begin_remote(ex, URO_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr);

    if (wqe == NULL)
        return;
    wqe->compare_add = compare;
    wqe->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                                uint64_t add)
{
    struct uro_wqe *wqe = begin_remote(ex, URO_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr);

    if (wqe != NULL)
        wqe->compare_add = add;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                            const void *atomic_wr)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = begin_remote(ex, URO_WR_ATOMIC_WRITE, rkey, remote_addr);

    if (wqe == NULL)
        return;
    int error = uro_post_inline(wqe);
    note(&qp->batch, error != 0 ? error : uro_post_octets(qp, wqe, atomic_wr, sizeof(uint64_t)));
    qp->batch.takes &= ~TAKES_BUFFER; /* it has its octets */
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
                     uint8_t type, uint8_t level)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = begin_remote(ex, URO_WR_FLUSH, rkey, remote_addr);

    if (wqe == NULL)
        return;
    qp->batch.takes &= ~TAKES_BUFFER;
    if (type == 0 || type > PLACEMENTS || level > FLUSH_MR ||
        (level == FLUSH_RANGE && length > URO_MESSAGE_MAX)) {
        note(&qp->batch, EINVAL);
        return;
    }
    wqe->length = level == FLUSH_RANGE ? (uint32_t)length : 0;
    wqe->flush = (struct uro_flush_kind){ .placement = type, .selectivity = level };
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
    struct uro_wqe *wqe = begin(qp_of(ex), URO_WR_LOCAL_INV);

    if (wqe != NULL)
        wqe->imm = invalidate_rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = begin(qp, URO_WR_BIND_MW);

    if (wqe != NULL)
        note(&qp->batch, uro_post_bind(qp, wqe, IBV_MW_TYPE_2, mw, rkey, info));
}

/* ---- setters
 * ---------------------------------------------------------------------------------- */

/* The newest request, if @what can be given to it now; NULL otherwise, and the batch is lost. */
static struct uro_wqe *take(struct uro_ibv_qp *qp, unsigned what)
{
    struct uro_wr_batch *batch = &qp->batch;

    if (batch->error != 0)
        return NULL;
    if (batch->wqe == NULL || !(batch->takes & what)) {
        note(batch, EINVAL);
        return NULL;
    }
    batch->takes &= ~what;
    return batch->wqe;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    const struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, TAKES_BUFFER);

    if (wqe != NULL)
        note(&qp->batch, uro_post_elements(qp, wqe, &sge, 1));
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *sges)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, TAKES_BUFFER);

    if (wqe != NULL)
        note(&qp->batch,
             count > URO_SGE_MAX ? EINVAL : uro_post_elements(qp, wqe, sges, (int)count));
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count,
                                    const struct ibv_data_buf *buffers)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, TAKES_BUFFER);

    if (wqe == NULL)
        return;
    int error = uro_post_inline(wqe);
    for (size_t i = 0; i < count && error == 0; i++)
        error = uro_post_octets(qp, wqe, buffers[i].addr, buffers[i].length);
    note(&qp->batch, error);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *at, size_t length)
{
    const struct ibv_data_buf buffer = { .addr = at, .length = length };

    wr_set_inline_data_list(ex, 1, &buffer);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, TAKES_ADDRESS);

    if (wqe != NULL)
        note(&qp->batch,
             qp->type == URO_QPT_UD ? uro_post_datagram(qp, wqe, ah, qpn, qkey) : EINVAL);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, TAKES_ADDRESS);

    if (wqe == NULL)
        return;
    wqe->xrc_srqn = srqn;
    note(&qp->batch, qp->type == URO_QPT_XRC_INI ? 0 : EINVAL);
}

/* ---- the batch
 * -------------------------------------------------------------------------------- */

bool uro_post_ex_inside(const struct uro_ibv_qp *qp)
{
    if (!qp->extended)
        return false;
    /* Nobody but this thread ever stores its own name: any other value, however old, says no. */
    pthread_t thread = atomic_load_explicit(&qp->batch.thread, memory_order_relaxed);

    return thread != 0 && pthread_equal(thread, pthread_self());
}

static void open_batch(struct uro_ibv_qp *qp, int error)
{
    qp->batch.wqe = NULL;
    qp->batch.count = 0;
    qp->batch.error = error;
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct uro_ibv_qp *qp = qp_of(ex);

    if (uro_object_dead(&qp->object)) { /* its lock may be held by a thread that is not here */
        open_batch(qp, EIO);
        return;
    }
    pthread_spin_lock(&qp->send_lock);
    open_batch(qp, uro_post_sends(qp) ? 0 : EINVAL);
    atomic_store_explicit(&qp->batch.thread, pthread_self(), memory_order_relaxed);
}

static void close_batch(struct uro_ibv_qp *qp)
{
    atomic_store_explicit(&qp->batch.thread, 0, memory_order_relaxed);
    pthread_spin_unlock(&qp->send_lock);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct uro_ibv_qp *qp = qp_of(ex);

    if (uro_object_dead(&qp->object))
        return uro_errors_keep(EIO);
    end_newest(qp);
    int error = qp->batch.error; /* rule POST.BATCH: all, or nothing */
    uint32_t count = error == 0 ? qp->batch.count : 0;
    uro_post_publish(qp, count);
    close_batch(qp);

    if (count > 0)
        uro_device_progress(qp->object.device, true);
    return uro_errors_keep(error);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    struct uro_ibv_qp *qp = qp_of(ex);

    if (!uro_object_dead(&qp->object))
        close_batch(qp);
}

/* ---- which of them a QP has
 * ------------------------------------------------------------------- */

int uro_post_ex_check(enum uro_qp_type type, uint64_t send_ops)
{
    static const struct {
        uint64_t flag;
        enum uro_wr_opcode opcode;
    } operations[] = {
        { IBV_QP_EX_WITH_RDMA_WRITE, URO_WR_RDMA_WRITE },
        { IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, URO_WR_RDMA_WRITE_WITH_IMM },
        { IBV_QP_EX_WITH_SEND, URO_WR_SEND },
        { IBV_QP_EX_WITH_SEND_WITH_IMM, URO_WR_SEND_WITH_IMM },
        { IBV_QP_EX_WITH_RDMA_READ, URO_WR_RDMA_READ },
        { IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, URO_WR_ATOMIC_CMP_AND_SWP },
        { IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, URO_WR_ATOMIC_FETCH_AND_ADD },
        { IBV_QP_EX_WITH_LOCAL_INV, URO_WR_LOCAL_INV },
        { IBV_QP_EX_WITH_BIND_MW, URO_WR_BIND_MW },
        { IBV_QP_EX_WITH_SEND_WITH_INV, URO_WR_SEND_WITH_INV },
        { WITH_FLUSH, URO_WR_FLUSH },
        { IBV_QP_EX_WITH_ATOMIC_WRITE, URO_WR_ATOMIC_WRITE },
    };

    for (size_t i = 0; i < URO_ARRAY_LEN(operations); i++)
        if (uro_post_takes(type, operations[i].opcode))
            send_ops &= ~operations[i].flag;
    return send_ops == 0 ? 0 : EOPNOTSUPP;
}

void uro_post_ex_init(struct uro_ibv_qp *qp, uint64_t send_ops)
{
    struct ibv_qp_ex *ex = &qp->ex;

#define OFFER(flag, builder)                                                                       \
    if (send_ops & (flag))                                                                         \
    ex->builder = builder
    OFFER(IBV_QP_EX_WITH_RDMA_WRITE, wr_rdma_write);
    OFFER(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
    OFFER(IBV_QP_EX_WITH_SEND, wr_send);
    OFFER(IBV_QP_EX_WITH_SEND_WITH_IMM, wr_send_imm);
    OFFER(IBV_QP_EX_WITH_RDMA_READ, wr_rdma_read);
    OFFER(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
    OFFER(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
    OFFER(IBV_QP_EX_WITH_LOCAL_INV, wr_local_inv);
    OFFER(IBV_QP_EX_WITH_BIND_MW, wr_bind_mw);
    OFFER(IBV_QP_EX_WITH_SEND_WITH_INV, wr_send_inv);
    OFFER(IBV_QP_EX_WITH_ATOMIC_WRITE, wr_atomic_write);
#undef OFFER
    if (send_ops & WITH_FLUSH)
        qp->newer.wr_flush = wr_flush;

    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
}
