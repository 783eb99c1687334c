/* SPDX-License-Identifier: BSD-3-Clause */
/* cq_ex.c - extended completion queues, which a program polls completion by completion and field by
 * field.
 *
 * Between ibv_start_poll and ibv_end_poll a program may post, modify, resize and destroy. So only
 * the batch lock is held during the batch. No other call takes the batch lock. The CQ lock is taken
 * for one completion at a time.
 */
#include <errno.h>

#include "verbs/card.h"
#include "verbs/cq_parts.h"
#include "verbs/inject.h"
#include "verbs/objects.h"

/* The fields of a completion that programs can read. VLAN, flow tag and tag matching are not
 * supported. */
#define TIMESTAMPS                                                                                 \
    (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define READERS      (IBV_WC_STANDARD_FLAGS | TIMESTAMPS)
#define CREATE_FLAGS (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
#define CREATE_MASK  (IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)

static struct uro_ibv_cq *cq_of(struct ibv_cq_ex *ex)
{
    return URO_CONTAINER_OF(ex, struct uro_ibv_cq, ex);
}

/* ---- the batch ---------------------------------------------------------- */

static bool advance(struct uro_ibv_cq *cq)
{
    pthread_spin_lock(&cq->lock);
    const uint32_t count = uro_cq_parts_used(cq) ? uro_cq_parts_poll(cq, &cq->current, 1)
                                                 : uro_cq_poll(cq->core, &cq->current, 1);
    pthread_spin_unlock(&cq->lock);
    if (count == 1) {
        cq->batch_ended = false;
        cq->ex.wr_id = cq->current.wr_id;
        cq->ex.status = (enum ibv_wc_status)cq->current.status;
    }
    return count == 1;
}

/* Runs a round of each engine of the CQ. */
static void progress(struct uro_ibv_cq *cq)
{
    uro_device_progress(cq->object.device, false);
    if (uro_cq_parts_used(cq))
        uro_cq_parts_progress(cq);
}

static void leave(struct uro_ibv_cq *cq)
{
    if (!cq->single_threaded)
        pthread_mutex_unlock(&cq->batch);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct uro_ibv_cq *cq = cq_of(ex);

    if (uro_object_dead(&cq->object))
        return uro_errors_keep(EIO);
    if (attr->comp_mask != 0)
        return uro_errors_keep(EINVAL);
    if (!cq->single_threaded)
        pthread_mutex_lock(&cq->batch);
    if (advance(cq)) {
        uro_device_polled(cq->object.device);
        return 0;
    }
    progress(cq);
    if (advance(cq))
        return 0;
    leave(cq);
    return ENOENT;
}

/* At the first ENOENT a program usually ends the batch. A program that polls again is waiting, so
 * its call also runs a round. */
static int next_poll(struct ibv_cq_ex *ex)
{
    struct uro_ibv_cq *cq = cq_of(ex);

    if (uro_object_dead(&cq->object))
        return uro_errors_keep(EIO);
    if (advance(cq))
        return 0;
    if (cq->batch_ended) {
        progress(cq);
        if (advance(cq))
            return 0;
    }
    cq->batch_ended = true;
    return ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
    leave(cq_of(ex));
}

/* ---- readers ------------------------------------------------------------ */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
    return (enum ibv_wc_opcode)cq_of(ex)->current.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.vendor_error;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.byte_len;
}

/* Returns the immediate data or the invalidated rkey, which share a field. */
static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.source_qpn;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.flags;
}

/* Returns 0, since Ethernet has no LIDs. */
static uint32_t read_slid(struct ibv_cq_ex *ex)
{
    (void)ex;
    return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.service_level;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
    (void)ex;
    return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
    return cq_of(ex)->current.timestamp;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
    struct uro_ibv_cq *cq = cq_of(ex);

    return uro_host_wall_time(cq->current.timestamp, &cq->wall_offset);
}

static int failing_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    const int error = uro_inject_cq(&cq_of(ex)->ibv, URO_INJECT_CALL_START_POLL);

    return error != 0 ? error : start_poll(ex, attr);
}

/* Installs the readers that each CQ has, and those that the program requested. The others stay
 * NULL: a program that calls them crashes, as on hardware. */
static void offer_readers(struct ibv_cq_ex *ex, uint64_t wanted)
{
    ex->start_poll = uro_device_injects(cq_of(ex)->object.device) ? failing_start_poll : start_poll;
    ex->next_poll = next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_wc_flags = read_wc_flags;
#define OFFER(flag, reader)                                                                        \
    if (wanted & IBV_WC_EX_WITH_##flag)                                                            \
    ex->reader = reader
    OFFER(BYTE_LEN, read_byte_len);
    OFFER(IMM, read_imm_data);
    OFFER(QP_NUM, read_qp_num);
    OFFER(SRC_QP, read_src_qp);
    OFFER(SLID, read_slid);
    OFFER(SL, read_sl);
    OFFER(DLID_PATH_BITS, read_dlid_path_bits);
    OFFER(COMPLETION_TIMESTAMP, read_completion_ts);
    OFFER(COMPLETION_TIMESTAMP_WALLCLOCK, read_completion_wallclock_ns);
#undef OFFER
}

/* ---- creating ----------------------------------------------------------- */

/* Returns 0, or the error number if the CQ cannot be created. The error is EOPNOTSUPP for
 * unsupported attributes: programs then create a plain CQ. */
static int refusal(const struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
                   uint32_t flags)
{
    struct ibv_pd *parent = attr->parent_domain;

    if ((attr->comp_mask & ~(uint32_t)CREATE_MASK) || (flags & ~(uint32_t)CREATE_FLAGS) ||
        (attr->wc_flags & ~(uint64_t)READERS))
        return EOPNOTSUPP;
    if (!(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD))
        return 0;
    bool is_parent =
        parent != NULL && parent->context == context && uro_ibv_pd(parent)->base != NULL;
    return is_parent ? 0 : EINVAL;
}

struct ibv_cq_ex *uro_ibv_create_cq_ex(struct ibv_context *context,
                                       struct ibv_cq_init_attr_ex *attr)
{
    uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
    int error = refusal(context, attr, flags);

    if (error == 0)
        error = uro_card_refuses(uro_ibv_host(context), URO_CARD_NO_CQ_EX, "ibv_create_cq_ex");
    if (error == 0 && (attr->wc_flags & TIMESTAMPS) != 0)
        error = uro_card_refuses(uro_ibv_host(context), URO_CARD_NO_TIMESTAMPS, "ibv_create_cq_ex");
    if (error != 0) {
        errno = error;
        return NULL;
    }
    struct uro_ibv_cq *cq = uro_ibv_cq_create(context, attr);
    if (cq == NULL)
        return NULL;
    if (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
        uro_cq_ignore_overrun(cq->core);
    if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
        cq->parent = uro_ibv_pd(attr->parent_domain);
        atomic_fetch_add(&cq->parent->users, 1);
    }
    cq->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    offer_readers(&cq->ex, attr->wc_flags);
    return &cq->ex;
}
