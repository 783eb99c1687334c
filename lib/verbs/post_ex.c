/* SPDX-License-Identifier: BSD-3-Clause */
/* post_ex.c - ibv_wr_*(): send requests that are built call by call, and posted all together or not
 * at all.
 *
 * From wr_start to wr_complete or wr_abort the caller holds the QP's send lock. The new requests
 * are in slots that are not published yet. The builders return nothing. The batch keeps the first
 * error and ignores later calls. wr_complete returns the error.
 */
#include <errno.h>
#include <stdatomic.h>

#include "core/limits.h"
#include "verbs/card.h"
#include "verbs/inject.h"
#include "verbs/post.h"
#include "verbs/refusal.h"

/* Constants that an older <infiniband/verbs.h> lacks: IBV_QP_EX_WITH_FLUSH, IBV_FLUSH_GLOBAL |
 * _PERSISTENT, IBV_FLUSH_RANGE and IBV_FLUSH_MR. */
#define WITH_FLUSH  (UINT64_C(1) << 11)
#define PLACEMENTS  3u
#define FLUSH_RANGE 0u
#define FLUSH_MR    1u

/* Setters that the newest request still needs. A program calls each setter once. */
#define MISSING_BUFFER  1u
#define MISSING_ADDRESS 2u /* the destination: required for UD and XRC */

static struct uro_ibv_qp *qp_of(struct ibv_qp_ex *ex)
{
    return URO_CONTAINER_OF(ex, struct uro_ibv_qp, ex);
}

/* Records the first error. @mistake is its cause if it is EINVAL. */
static void note(struct uro_wr_batch *batch, int error, enum uro_wr_mistake mistake)
{
    if (error == 0)
        return;
    batch->error = error;
    batch->mistake = mistake;
    batch->wqe = NULL;
}

/* Ends the newest request: no further setter follows. */
static void end_newest(struct uro_ibv_qp *qp)
{
    struct uro_wr_batch *batch = &qp->batch;

    if (batch->wqe == NULL)
        return;
    if (batch->missing & MISSING_ADDRESS)
        note(batch, EINVAL, URO_WR_MISTAKE_NO_DESTINATION);
    else
        note(batch, uro_post_end(qp, batch->wqe), URO_WR_MISTAKE_LENGTH);
}

/* Returns the slot of a new request, or NULL after an error. */
static struct uro_wqe *begin(struct uro_ibv_qp *qp, enum uro_wr_opcode opcode)
{
    struct uro_wr_batch *batch = &qp->batch;

    end_newest(qp);
    if (batch->error != 0)
        return NULL;
    /* INLINE in the flags has no meaning here: the setter decides. */
    note(batch, uro_post_begin(qp, batch->count, opcode, qp->ex.wr_flags, &batch->wqe),
         URO_WR_MISTAKE_FLAGS);
    if (batch->error != 0)
        return NULL;
    batch->count++;
    batch->wqe->wr_id = qp->ex.wr_id;
    batch->missing = 0;
    return batch->wqe;
}

/* Returns the slot of a new request that needs a buffer, or NULL after an error. */
static struct uro_wqe *begin_transfer(struct ibv_qp_ex *ex, enum uro_wr_opcode opcode)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = begin(qp, opcode);

    qp->batch.missing = MISSING_BUFFER;
    if (qp->type == URO_QPT_UD || qp->type == URO_QPT_XRC_INI)
        qp->batch.missing |= MISSING_ADDRESS;
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

/* ---- builders ------------------------------------------------------------------------ */

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
    note(&qp->batch, error != 0 ? error : uro_post_bytes(qp, wqe, atomic_wr, sizeof(uint64_t)),
         URO_WR_MISTAKE_INLINE_LENGTH);
    qp->batch.missing &= ~MISSING_BUFFER; /* the request has its data */
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
                     uint8_t type, uint8_t level)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = begin_remote(ex, URO_WR_FLUSH, rkey, remote_addr);

    if (wqe == NULL)
        return;
    qp->batch.missing &= ~MISSING_BUFFER;
    if (type == 0 || type > PLACEMENTS || level > FLUSH_MR ||
        (level == FLUSH_RANGE && length > URO_MESSAGE_MAX)) {
        note(&qp->batch, EINVAL, URO_WR_MISTAKE_FLUSH);
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
        note(&qp->batch, uro_post_bind(qp, wqe, IBV_MW_TYPE_2, mw, rkey, info),
             URO_WR_MISTAKE_WINDOW);
}

/* ---- setters ------------------------------------------------------------------------- */

/* Returns the newest request if the setter may be called for it now. Otherwise returns NULL, and
 * the batch fails. */
static struct uro_wqe *take(struct uro_ibv_qp *qp, unsigned setter)
{
    struct uro_wr_batch *batch = &qp->batch;

    if (batch->error != 0)
        return NULL;
    if (batch->wqe == NULL || !(batch->missing & setter)) {
        note(batch, EINVAL, URO_WR_MISTAKE_ORDER);
        return NULL;
    }
    batch->missing &= ~setter;
    return batch->wqe;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
    const struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, MISSING_BUFFER);

    if (wqe != NULL)
        note(&qp->batch, uro_post_elements(qp, wqe, &sge, 1), URO_WR_MISTAKE_ELEMENTS);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *sges)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, MISSING_BUFFER);

    if (wqe != NULL)
        note(&qp->batch,
             count > URO_SGE_MAX ? EINVAL : uro_post_elements(qp, wqe, sges, (int)count),
             URO_WR_MISTAKE_ELEMENTS);
}

/* Serves devices with like=, whose card may allow fewer elements in a READ. */
static void carded_wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *sges)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    const struct uro_wqe *wqe = qp->batch.wqe;

    if (wqe != NULL && wqe->opcode == URO_WR_RDMA_READ &&
        count > uro_card_most(qp->object.device, URO_CARD_MAX_SGE_RD, URO_SGE_MAX))
        note(&qp->batch, EINVAL, URO_WR_MISTAKE_READ_ELEMENTS);
    else
        wr_set_sge_list(ex, count, sges);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count,
                                    const struct ibv_data_buf *buffers)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, MISSING_BUFFER);

    if (wqe == NULL)
        return;
    int error = uro_post_inline(wqe);
    note(&qp->batch, error, URO_WR_MISTAKE_INLINE_OPERATION);
    for (size_t i = 0; i < count && error == 0; i++) {
        error = uro_post_bytes(qp, wqe, buffers[i].addr, buffers[i].length);
        note(&qp->batch, error, URO_WR_MISTAKE_INLINE_LENGTH);
    }
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *data, size_t length)
{
    const struct ibv_data_buf buffer = { .addr = data, .length = length };

    wr_set_inline_data_list(ex, 1, &buffer);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, MISSING_ADDRESS);

    if (wqe != NULL)
        note(&qp->batch,
             qp->type == URO_QPT_UD ? uro_post_datagram(qp, wqe, ah, qpn, qkey) : EINVAL,
             URO_WR_MISTAKE_DATAGRAM);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
    struct uro_ibv_qp *qp = qp_of(ex);
    struct uro_wqe *wqe = take(qp, MISSING_ADDRESS);

    if (wqe == NULL)
        return;
    wqe->xrc_srqn = srqn;
    note(&qp->batch, qp->type == URO_QPT_XRC_INI ? 0 : EINVAL, URO_WR_MISTAKE_SRQN);
}

/* ---- the batch ----------------------------------------------------------------------- */

bool uro_post_ex_inside(const struct uro_ibv_qp *qp)
{
    if (!qp->extended)
        return false;
    /* Only this thread stores its own identifier, so an outdated value of another thread does no
     * harm. */
    pthread_t thread = atomic_load_explicit(&qp->batch.thread, memory_order_relaxed);

    return thread != 0 && pthread_equal(thread, pthread_self());
}

static void open_batch(struct uro_ibv_qp *qp, int error)
{
    qp->batch.wqe = NULL;
    qp->batch.count = 0;
    qp->batch.error = error;
    qp->batch.mistake = URO_WR_MISTAKE_STATE;
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct uro_ibv_qp *qp = qp_of(ex);

    if (uro_object_dead(&qp->object)) { /* a thread of the parent may hold the lock */
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
    int error = qp->batch.error; /* rule POST.BATCH: all or none */
    const unsigned mistake = qp->batch.mistake;
    const uint32_t built = qp->batch.count;
    uint32_t count = error == 0 ? built : 0;
    uro_post_publish(qp, count);
    close_batch(qp);

    if (count > 0)
        uro_device_progress(qp->object.device, true);
    return error == 0 ? 0 : uro_errors_keep(uro_refuse_batch(qp, error, mistake, built));
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    struct uro_ibv_qp *qp = qp_of(ex);

    if (!uro_object_dead(&qp->object))
        close_batch(qp);
}

static int failing_wr_complete(struct ibv_qp_ex *ex)
{
    const int error = uro_inject_qp(&qp_of(ex)->ibv, URO_INJECT_CALL_WR_COMPLETE);

    if (error == 0)
        return wr_complete(ex);
    wr_abort(ex);
    return uro_errors_keep(error);
}

/* ---- operations of a QP -------------------------------------------------------------- */

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
    struct uro_device *device = uro_ibv_host(qp->ibv.context);

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
    ex->wr_set_sge_list =
        uro_card_given(&uro_device_config(device)->card) ? carded_wr_set_sge_list : wr_set_sge_list;
    ex->wr_start = wr_start;
    ex->wr_complete = uro_device_injects(device) ? failing_wr_complete : wr_complete;
    ex->wr_abort = wr_abort;
}
