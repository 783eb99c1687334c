/* SPDX-License-Identifier: BSD-3-Clause */
/* qp.c - the life of a queue pair: create, fail, modify, query, destroy; and its invariants. */
#include "core/qp.h"

#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "base/probe.h"
#include "core/cq.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/qp_private.h"
#include "core/ready.h"
#include "core/rq.h"
#include "core/rsp.h"
#include "core/rxe.h"
#include "core/shard.h"

/* Programs also set the access flags of regions on a queue pair. Only the remote rights matter. */
#define ACCESS_KNOWN                                                                               \
    (URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ |                   \
     URO_ACCESS_REMOTE_ATOMIC | URO_ACCESS_MW_BIND | URO_ACCESS_ZERO_BASED |                       \
     URO_ACCESS_ON_DEMAND | URO_ACCESS_HUGETLB | URO_ACCESS_FLUSH_GLOBAL |                         \
     URO_ACCESS_FLUSH_PERSISTENT | URO_ACCESS_OPTIONAL)
/* Rights to operations that use a responder resource: READ, atomics, FLUSH, ATOMIC_WRITE. */
#define ACCESS_RESOURCES                                                                           \
    (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC |                 \
     URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT)

static_assert(URO_QP_SHARED_MAX == (15u << URO_QPN_OWN_BITS) / 16,
              "15/16 of the QPNs with one prefix");

static size_t align64(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

struct layout {
    struct uro_wq send;
    struct uro_wq recv;
    size_t send_at;
    size_t recv_at;
    size_t taken_at;
    size_t resources_at;
    size_t size;
};

static bool within_limits(const struct uro_qp_init *init)
{
    return init->type < URO_QPT_COUNT && init->send_capacity <= URO_WR_MAX &&
           init->recv_capacity <= URO_WR_MAX && init->send_sge_max <= URO_SGE_MAX &&
           init->recv_sge_max <= URO_SGE_MAX && init->inline_max <= URO_INLINE_MAX;
}

/* Returns whether a queue pair of this type answers READs and atomics. */
static bool has_resources(enum uro_qp_type type)
{
    return type == URO_QPT_RC || type == URO_QPT_XRC_TGT;
}

/* Returns the number of responder resources, a power of two. A small number is doubled, or raised
 * to URO_RXE_FLUSHES for FLUSH. If a response is late, the peer retransmits the request. When the
 * response then arrives, the peer sends new requests, although the duplicate also needs a
 * resource. */
static uint32_t resource_count(uint32_t access, uint8_t max_dest_rd_atomic)
{
    const uint32_t depth = uro_pow2_at_least(max_dest_rd_atomic);
    const bool flushes = (access & (URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT)) != 0;

    if (depth >= URO_RXE_FLUSHES)
        return depth;
    return flushes ? URO_RXE_FLUSHES : 2 * depth;
}

size_t uro_qp_resources_size(uint8_t max_dest_rd_atomic)
{
    return resource_count(0, max_dest_rd_atomic) * sizeof(struct uro_resource);
}

size_t uro_qp_resources_needed(const struct uro_qp *qp, const struct uro_qp_attr *attr,
                               unsigned mask)
{
    uint32_t access = mask & URO_ATTR_ACCESS ? attr->access : qp->attr.access;
    enum uro_qp_state state = uro_qp_state_now(qp);
    bool known = mask & URO_ATTR_DEST_RD || (state != URO_QPS_RESET && state != URO_QPS_INIT);
    uint8_t depth =
        mask & URO_ATTR_DEST_RD ? attr->max_dest_rd_atomic : qp->attr.max_dest_rd_atomic;

    if (!has_resources(qp->type) || !known || (access & ACCESS_RESOURCES) == 0 ||
        depth > URO_RD_ATOMIC_MAX)
        return 0;
    return resource_count(access, depth) * sizeof(struct uro_resource);
}

static void lay_out(const struct uro_qp_init *init, struct layout *layout)
{
    layout->send_at = align64(sizeof(struct uro_qp));
    layout->recv_at =
        layout->send_at + align64(uro_wq_layout_send(&layout->send, init->send_capacity,
                                                     init->send_sge_max, init->inline_max));
    layout->taken_at = layout->recv_at +
                       uro_wq_layout_recv(&layout->recv, init->recv_capacity, init->recv_sge_max);
    layout->size = layout->taken_at;
    if (init->srq != NULL || init->type == URO_QPT_XRC_TGT)
        layout->size += sizeof(struct uro_rqe) + URO_SGE_MAX * sizeof(struct uro_sge);
    layout->resources_at = align64(layout->size);
    if (has_resources(init->type) && !init->lends_resources)
        layout->size = layout->resources_at + uro_qp_resources_size(URO_RD_ATOMIC_MAX);
}

size_t uro_qp_size(const struct uro_qp_init *init)
{
    struct layout layout;

    if (!within_limits(init))
        return 0;
    lay_out(init, &layout);
    return layout.size;
}

uint32_t uro_qp_most(const struct uro_shard *shard)
{
    return shard->config.qpn_prefix == 0 ? UINT32_MAX : URO_QP_SHARED_MAX;
}

struct uro_qp *uro_qp_create(struct uro_shard *shard, const struct uro_qp_init *init, void *memory)
{
    struct uro_qp *qp = memory;
    uint8_t *octets = memory;
    struct layout layout;

    URO_ASSERT(within_limits(init) && shard->qps.count < uro_qp_most(shard));
    lay_out(init, &layout);
    memset(qp, 0, sizeof *qp);
    qp->shard = shard;
    qp->pd = init->pd;
    qp->xrcd = init->xrcd;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->srq = init->srq;
    qp->signal_all = init->signal_all;
    qp->block_self_multicast = init->block_self_multicast;
    qp->type = (uint8_t)init->type;
    qp->service = uro_qp_type_service(init->type);
    qp->user = init->user;
    qp->send = layout.send;
    uro_wq_lend(&qp->send, octets + layout.send_at);
    qp->recv = layout.recv;
    uro_wq_lend(&qp->recv, octets + layout.recv_at);
    qp->taken = (struct uro_rqe *)(void *)(octets + layout.taken_at);
    if (has_resources(init->type) && !init->lends_resources)
        (void)uro_qp_lend_resources(qp, octets + layout.resources_at,
                                    uro_qp_resources_size(URO_RD_ATOMIC_MAX));
    atomic_init(&qp->state, URO_QPS_RESET);

    qp->node.number = uro_shard_unused_qpn(shard);
    uro_table_insert(&shard->qps, &qp->node);
    return qp;
}

void *uro_qp_lend_resources(struct uro_qp *qp, void *memory, size_t size)
{
    struct uro_resource *before = qp->rsp.resources;
    uint32_t count = (uint32_t)(size / sizeof(struct uro_resource));

    URO_ASSERT(has_resources(qp->type) && count >= qp->resources_lent);
    if (before != NULL)
        memcpy(memory, before, qp->resources_lent * sizeof *before);
    qp->rsp.resources = memory;
    qp->resources_lent = count;
    return before;
}

enum uro_qp_type uro_qp_type(const struct uro_qp *qp)
{
    return qp->type;
}

enum uro_fail_reason uro_qp_failure(const struct uro_qp *qp)
{
    return (enum uro_fail_reason)qp->fail_reason;
}

uint32_t uro_qp_number(const struct uro_qp *qp)
{
    return qp->node.number;
}

struct uro_wq *uro_qp_send_queue(struct uro_qp *qp)
{
    return &qp->send;
}

struct uro_wq *uro_qp_recv_queue(struct uro_qp *qp)
{
    return &qp->recv;
}

enum uro_qp_state uro_qp_state_now(const struct uro_qp *qp)
{
    /* A poster publishes and then reads the state. uro_qp_fail_*() changes the state and then reads
     * the queue. */
    atomic_thread_fence(memory_order_seq_cst);
    return (enum uro_qp_state)atomic_load_explicit(&qp->state, memory_order_relaxed);
}

void uro_qp_ring(struct uro_shard *shard, struct uro_qp *qp)
{
    URO_PROBE1(doorbell, uro_qp_qpn(qp));
    uro_doorbell_ring(&shard->doorbells, &qp->doorbell);
}

/* ---- failure: the transition to ERR or SQE, and the flush of the posted work  ---- */

void uro_qp_raise_event(struct uro_qp *qp, unsigned event_kind)
{
    qp->events |= 1u << event_kind;
    if (!uro_link_used(&qp->event_link))
        uro_list_append(&qp->shard->qp_events, &qp->event_link);
}

void uro_qp_drained(struct uro_qp *qp)
{
    qp->attr.sq_draining = false;
    if (qp->attr.sqd_notify)
        uro_qp_raise_event(qp, URO_EVENT_SQ_DRAINED);
}

/* Changes the state. Posters on other threads publish work and then read the state. Either the
 * poster sees the change, or the engine sees the work. */
static void set_state(struct uro_qp *qp, enum uro_qp_state state)
{
    uro_qp_tell_state(qp, state);
    atomic_store(&qp->state, (int)state);
    atomic_thread_fence(memory_order_seq_cst);
}

static void finish_send(struct uro_qp *qp, uint32_t index, enum uro_wc_status status,
                        enum uro_fail_reason fail_reason)
{
    const struct uro_wqe *wqe = uro_qp_wqe(qp, index);
    const struct uro_cqe cqe = { .wr_id = wqe->wr_id,
                                 .status = (uint8_t)status,
                                 .vendor_error = fail_reason,
                                 .qpn = uro_qp_qpn(qp) };

    uro_wq_finish(&qp->send, index + 1);
    if (!uro_cq_push(qp->shard, qp->send_cq, &cqe, true))
        URO_MARK("CQ.OVERRUN.FLUSH"); /* the CQ is in error, and raises its own event */
}

static void finish_recv(struct uro_qp *qp, struct uro_cq *cq, uint64_t wr_id,
                        enum uro_wc_status status, enum uro_fail_reason fail_reason)
{
    const struct uro_cqe cqe = { .wr_id = wr_id,
                                 .status = (uint8_t)status,
                                 .opcode = URO_WC_RECV,
                                 .vendor_error = fail_reason,
                                 .qpn = uro_qp_qpn(qp) };

    if (!uro_cq_push(qp->shard, cq, &cqe, true))
        URO_MARK("CQ.OVERRUN.FLUSH");
}

/* Completes the receive that a message was using, if any. */
static void finish_in_use(struct uro_qp *qp, enum uro_wc_status status,
                          enum uro_fail_reason fail_reason)
{
    struct uro_cq *cq = uro_rq_cq(qp, qp->rsp.srq);
    uint64_t wr_id;

    if (qp->rsp.recv == NULL)
        return;
    wr_id = qp->rsp.recv->wr_id;
    uro_rq_finish(qp);
    finish_recv(qp, cq, wr_id, status, fail_reason);
}

/* Completes all send requests: @failed_wqe with @status, the others as flushed. A queue pair that
 * leaves SQE continues behind these requests. */
static void finish_sends(struct uro_qp *qp, uint32_t failed_wqe, enum uro_wc_status status,
                         enum uro_fail_reason fail_reason)
{
    for (uint32_t i = uro_wq_head(&qp->send); i != uro_wq_tail(&qp->send); i++)
        finish_send(qp, i, i == failed_wqe ? status : URO_WC_WR_FLUSH_ERR,
                    i == failed_wqe ? fail_reason : URO_FAIL_FLUSHED);
    qp->req.cursor = qp->req.started = uro_wq_head(&qp->send);
}

/* Flushes all receives. Receives of a shared queue stay in it. */
static void finish_recvs(struct uro_qp *qp)
{
    if (qp->srq != NULL)
        URO_MARK("SRQ.FLUSH");
    finish_in_use(qp, URO_WC_WR_FLUSH_ERR, URO_FAIL_FLUSHED);
    for (uint32_t i = uro_wq_head(&qp->recv); i != uro_wq_tail(&qp->recv); i++) {
        const struct uro_rqe *rqe = uro_wq_slot(&qp->recv, i);
        uint64_t wr_id = rqe->wr_id;
        uro_wq_finish(&qp->recv, i + 1);
        finish_recv(qp, qp->recv_cq, wr_id, URO_WC_WR_FLUSH_ERR, URO_FAIL_FLUSHED);
    }
}

/* Enters ERR: the requester sends no more; pending responses are still sent. */
static void enter_error(struct uro_qp *qp)
{
    if (uro_qp_state_of(qp) == URO_QPS_ERR)
        return; /* already in ERR: the failure is counted once */
    set_state(qp, URO_QPS_ERR);
    uro_reorder_forget(qp);
    uro_rxe_defer_forget(qp);
    qp->attr.sq_draining = false;
    uro_req_retry_stop(&qp->req.retry, &qp->shard->wheel);
    uro_list_remove(&qp->request_link);
    uro_list_remove(&qp->sent_link);
    uro_count(qp->shard->counters, URO_COUNT_QP_FAILED);
    if (qp->srq != NULL) {
        URO_MARK("SRQ.LAST.WQE");
        uro_qp_raise_event(qp, URO_EVENT_LAST_WQE);
    }
}

static void enter_overrun(struct uro_qp *qp)
{
    URO_MARK("CQ.OVERRUN");
    uro_record_failure(qp, &(const struct uro_record_cause){ .reason = URO_FAIL_CQ_OVERRUN,
                                                             .failed_wqe = URO_QP_NO_WQE });
    uro_qp_raise_event(qp, URO_EVENT_QP_FATAL);
    enter_error(qp);
}

void uro_qp_flush(struct uro_qp *qp)
{
    URO_MARK("QP.FLUSH");
    finish_sends(qp, URO_QP_NO_WQE, URO_WC_WR_FLUSH_ERR, URO_FAIL_FLUSHED);
    if (uro_qp_state_of(qp) == URO_QPS_SQE) {
        if (!uro_cq_failed(qp->send_cq))
            return;
        enter_overrun(qp);
    }
    finish_recvs(qp);
}

/* Enters SQE (UC and UD): the send queue stops, and receives continue. */
static void enter_send_error(struct uro_qp *qp)
{
    URO_MARK("QP.SQE");
    set_state(qp, URO_QPS_SQE);
    qp->attr.sq_draining = false;
    uro_list_remove(&qp->request_link);
}

void uro_qp_fail_send(struct uro_qp *qp, uint32_t failed_wqe, enum uro_wc_status status,
                      enum uro_fail_reason fail_reason)
{
    const struct uro_record_cause cause = { .reason = fail_reason,
                                            .status = status,
                                            .failed_wqe = failed_wqe };

    uro_record_failure(qp, &cause);
    if (uro_qp_reliable(qp))
        enter_error(qp);
    else
        enter_send_error(qp);
    finish_sends(qp, failed_wqe, status, fail_reason);
    uro_qp_flush(qp);
}

void uro_qp_fail_recv(struct uro_qp *qp, enum uro_wc_status status,
                      enum uro_fail_reason fail_reason, const struct uro_frame *frame)
{
    const struct uro_record_cause cause = {
        .reason = fail_reason, .status = status, .failed_wqe = URO_QP_NO_WQE, .frame = frame
    };

    uro_record_failure(qp, &cause);
    enter_error(qp);
    if (status != URO_WC_WR_FLUSH_ERR)
        finish_in_use(qp, status, fail_reason);
    uro_qp_flush(qp);
}

void uro_qp_overrun(struct uro_qp *qp)
{
    if (uro_qp_state_of(qp) == URO_QPS_ERR)
        return;
    enter_overrun(qp);
    uro_qp_flush(qp);
}

/* ---- modify ------------------------------------------------------------- */

static_assert(URO_ROCE_OVERHEAD == URO_IPV6_LEN + URO_UDP_LEN + URO_BTH_LEN + URO_XRCETH_LEN +
                                       URO_RETH_LEN + URO_IMM_LEN + URO_ICRC_LEN,
              "the headers of the largest packet");

static bool is_path_mtu(const struct uro_shard *shard, uint32_t mtu)
{
    bool power = (mtu & (mtu - 1)) == 0;

    if (!power || mtu < URO_PATH_MTU_MIN || mtu > URO_PATH_MTU_MAX)
        return false;
    if (mtu + URO_ROCE_OVERHEAD <= uro_shard_mtu(shard) || mtu == URO_PATH_MTU_MIN)
        return true;
    URO_MARK("QP.MTU");
    return false;
}

/* Returns whether every given value is in its range (man ibv_modify_qp; IBTA Vol. 1, "Modify
 * QP"). */
static bool in_range(const struct uro_shard *shard, const struct uro_qp *qp,
                     const struct uro_qp_attr *attr, unsigned mask)
{
    const struct {
        unsigned bit;
        bool good;
    } rules[] = {
        { URO_ATTR_CUR_STATE, attr->current_state == uro_qp_state_of(qp) },
        { URO_ATTR_ACCESS, (attr->access & ~ACCESS_KNOWN) == 0 },
        { URO_ATTR_PKEY_INDEX, attr->pkey_index == 0 },
        { URO_ATTR_PORT, attr->port == 1 },
        { URO_ATTR_AV,
          attr->address.sgid_index < shard->config.gid_count && attr->address.hop != NULL &&
              !uro_gid_is_multicast(&attr->address.dest) }, /* only datagrams go to groups */
        { URO_ATTR_PATH_MTU, is_path_mtu(shard, attr->path_mtu) },
        { URO_ATTR_TIMEOUT, attr->timeout <= 31 },
        { URO_ATTR_RETRY_CNT, attr->retry_count <= 7 },
        { URO_ATTR_RNR_RETRY, attr->rnr_retry <= 7 },
        { URO_ATTR_MIN_RNR, attr->min_rnr_timer <= 31 },
        { URO_ATTR_RD_ATOMIC, attr->max_rd_atomic <= URO_RD_ATOMIC_MAX },
        { URO_ATTR_DEST_RD, attr->max_dest_rd_atomic <= URO_RD_ATOMIC_MAX },
        { URO_ATTR_DEST_RD | URO_ATTR_ACCESS,
          uro_qp_resources_needed(qp, attr, mask) <=
              qp->resources_lent * sizeof(struct uro_resource) },
        { URO_ATTR_DEST_QPN, attr->dest_qpn <= 0xffffff },
        { URO_ATTR_ALT_PATH, false }, /* uroce has no path migration */
        { URO_ATTR_CAP, false },
    };

    for (size_t i = 0; i < URO_ARRAY_LEN(rules); i++)
        if ((mask & rules[i].bit) && !rules[i].good) {
            URO_MARK("QP.RANGE");
            if (rules[i].bit == URO_ATTR_ALT_PATH)
                URO_MARK("QP.ALT.PATH");
            return false;
        }
    return true;
}

static void store(struct uro_qp_attr *to, const struct uro_qp_attr *from, unsigned mask)
{
#define STORE(bit, field)                                                                          \
    if (mask & URO_ATTR_##bit)                                                                     \
    to->field = from->field
    STORE(SQD_NOTIFY, sqd_notify);
    STORE(ACCESS, access);
    STORE(PKEY_INDEX, pkey_index);
    STORE(PORT, port);
    STORE(QKEY, qkey);
    STORE(AV, address);
    STORE(PATH_MTU, path_mtu);
    STORE(TIMEOUT, timeout);
    STORE(RETRY_CNT, retry_count);
    STORE(RNR_RETRY, rnr_retry);
    STORE(RQ_PSN, rq_psn);
    STORE(RD_ATOMIC, max_rd_atomic);
    STORE(MIN_RNR, min_rnr_timer);
    STORE(SQ_PSN, sq_psn);
    STORE(DEST_RD, max_dest_rd_atomic);
    STORE(MIG_STATE, path_mig_state);
    STORE(DEST_QPN, dest_qpn);
#undef STORE
    to->rq_psn &= URO_PSN_MASK;
    to->sq_psn &= URO_PSN_MASK;
}

static void reset(struct uro_qp *qp)
{
    struct uro_resource *resource = qp->rsp.resources;

    uro_req_retry_stop(&qp->req.retry, &qp->shard->wheel);
    uro_ready_forget(qp);
    uro_list_remove(&qp->sent_link);
    if (qp->send_cq != NULL)
        uro_cq_forget(qp->send_cq, uro_qp_number(qp));
    if (qp->recv_cq != NULL)
        uro_cq_forget(qp->recv_cq, uro_qp_number(qp));
    uro_wq_finish(&qp->send, uro_wq_tail(&qp->send));
    uro_wq_finish(&qp->recv, uro_wq_tail(&qp->recv));
    uro_reorder_forget(qp);
    uro_rxe_defer_forget(qp);
    memset(&qp->req, 0, sizeof qp->req);
    memset(&qp->rsp, 0, sizeof qp->rsp);
    memset(&qp->congestion, 0, sizeof qp->congestion);
    memset(&qp->attr, 0, sizeof qp->attr);
    memset(&qp->path, 0, sizeof qp->path);
    qp->rsp.resources = resource;
    qp->events = 0;
    uro_list_remove(&qp->event_link);
}

/* Returns the effective ACK timeout (rule REQ.TIMEOUT.LEAST); 0 is infinite. A query returns the
 * value that was set. */
static uint8_t timeout_of(const struct uro_qp *qp)
{
    const uint8_t least = qp->shard->config.timeout_least;

    if (qp->attr.timeout == 0 || qp->attr.timeout >= least)
        return qp->attr.timeout;
    URO_MARK("REQ.TIMEOUT.LEAST");
    return least;
}

/* Applies the retry budgets and depths. The budgets change only if the requester waits for
 * nothing. */
static void configure(struct uro_qp *qp)
{
    if (!uro_qp_reliable(qp))
        return;
    const struct uro_req_retry_config config = {
        .timeout_exponent = timeout_of(qp),
        .retry_max = qp->attr.retry_count,
        .rnr_retry_max = qp->attr.rnr_retry,
        .retry_7_forever = qp->shard->config.retry_7_forever,
    };
    uint32_t ring = resource_count(qp->attr.access, qp->attr.max_dest_rd_atomic);

    if (qp->req.retry.wait == URO_REQ_WAIT_NOTHING) {
        uro_wheel_cancel(&qp->shard->wheel, &qp->req.retry.timer);
        uro_req_retry_init(&qp->req.retry, &config);
    }
    qp->rsp.rd_atomic_max = qp->attr.max_dest_rd_atomic == 0
                                ? 0
                                : (uint16_t)uro_pow2_at_least(qp->attr.max_dest_rd_atomic);
    /* Keep every resource that the peer may still request again. */
    if (qp->rsp.resources_mask < ring - 1 && qp->rsp.resources_oldest == qp->rsp.resources_newest)
        qp->rsp.resources_mask = (uint16_t)(ring - 1);
}

static void start_sending(struct uro_qp *qp)
{
    struct uro_req *req = &qp->req;

    req->una = req->next = req->max = uro_psn_make(qp->attr.sq_psn);
    req->cursor = req->started = uro_wq_head(&qp->send);
}

/* Carries out the transition from @from to @to, besides storing attributes. */
static void enter(struct uro_qp *qp, enum uro_qp_state from, enum uro_qp_state to, unsigned mask)
{
    if (mask & URO_ATTR_AV)
        uro_path_init(&qp->path, qp->shard, &qp->attr.address, qp->attr.path_mtu,
                      uro_path_source_port(qp->attr.address.flow_label, uro_qp_number(qp),
                                           qp->attr.dest_qpn));
    if (from == URO_QPS_INIT && to == URO_QPS_RTR)
        qp->rsp.expected = uro_psn_make(qp->attr.rq_psn);
    if (from == URO_QPS_RTR && to == URO_QPS_RTS)
        start_sending(qp);
    if (from == URO_QPS_SQE && to == URO_QPS_RTS)
        URO_MARK("QP.SQE.RESUME");
    if (mask & (URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_DEST_RD))
        configure(qp);
    set_state(qp, to);
    if (to == URO_QPS_SQD && from == URO_QPS_RTS) {
        qp->attr.sqd_notify = (mask & URO_ATTR_SQD_NOTIFY) && qp->attr.sqd_notify;
        qp->attr.sq_draining = uro_wq_head(&qp->send) != qp->req.started;
        if (!qp->attr.sq_draining)
            uro_qp_drained(qp);
    }
    if (to == URO_QPS_RTS)
        uro_ready_request(qp);
}

/* Drops all pending responses: the application has stopped the queue pair. */
static void forget_responses(struct uro_qp *qp)
{
    struct uro_rsp *rsp = &qp->rsp;

    qp->congestion.notify_due = false;
    rsp->ack_due = false;
    rsp->nak_due = false;
    rsp->resources_pending = 0;
    rsp->resources_oldest = rsp->resources_newest;
}

/* Moves the queue pair to ERR because the application requested it. */
static void stop(struct uro_qp *qp)
{
    URO_PROBE2(qp_failed, uro_qp_qpn(qp), URO_FAIL_MODIFIED);
    if (qp->fail_reason == URO_FAIL_NONE)
        qp->fail_reason = URO_FAIL_MODIFIED;
    enter_error(qp);
    uro_ready_forget(qp);
    forget_responses(qp);
}

int uro_qp_modify(struct uro_shard *shard, struct uro_qp *qp, const struct uro_qp_attr *attr,
                  unsigned mask, uro_time now)
{
    enum uro_qp_state from = uro_qp_state_of(qp);
    enum uro_qp_state to = mask & URO_ATTR_STATE ? attr->state : from;
    int error = uro_qp_state_check(qp->type, from, to, mask);

    shard->now = now;
    if (error != 0 || !in_range(shard, qp, attr, mask))
        return -EINVAL;
    if (from == URO_QPS_SQD && qp->attr.sq_draining && to != URO_QPS_ERR && to != URO_QPS_RESET)
        return -EINVAL;

    if (to == URO_QPS_RESET) {
        URO_MARK("QP.RESET");
        reset(qp);
        qp->fail_reason = URO_FAIL_NONE;
        qp->far_recorded = false;
        set_state(qp, to);
    } else if (to == URO_QPS_ERR) {
        if (from != URO_QPS_ERR)
            stop(qp);
        uro_qp_flush(qp);
    } else {
        store(&qp->attr, attr, mask);
        enter(qp, from, to, mask);
    }
    return 0;
}

void uro_qp_query(const struct uro_qp *qp, struct uro_qp_attr *attr)
{
    *attr = qp->attr;
    attr->state = attr->current_state = uro_qp_state_of(qp);
}

void uro_qp_destroy(struct uro_shard *shard, struct uro_qp *qp)
{
    URO_MARK("QP.DESTROY");
    uro_schedule_take_doorbells(shard); /* a doorbell of the queue pair may be pending */
    reset(qp);
    uro_table_remove(&shard->qps, &qp->node);
}

/* ---- invariants ------------------------------------------------------------- */

/* The invariants of a queue pair between two calls of the engine. The simulator checks them after
 * every round: a broken invariant may affect the wire only much later. */

static bool before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) <= 0;
}

/* Checks the order of the indices of the send queue: finished, cursor, started, posted. */
static const char *check_indices(const struct uro_qp *qp)
{
    uint32_t head = uro_wq_head(&qp->send);
    const struct uro_req *req = &qp->req;

    if (!before(head, req->cursor) || !before(req->cursor, req->started))
        return "cursor is not between the oldest and the newest started request";
    if (!before(req->started, uro_wq_tail(&qp->send)))
        return "a request was started that is not posted";
    if (uro_psn_diff(req->next, req->una) < 0 || uro_psn_diff(req->max, req->next) < 0)
        return "una, next and max are not in this order";
    return NULL;
}

/* Checks that started requests follow each other in PSN space, that `una` is in the oldest request,
 * and `next` in the request at the cursor. */
static const char *check_psns(const struct uro_qp *qp)
{
    const struct uro_req *req = &qp->req;
    uint32_t head = uro_wq_head(&qp->send);
    uint32_t awaited = 0;
    uro_psn end = req->una;

    for (uint32_t i = head; i != req->started; i++) {
        const struct uro_wqe *wqe = uro_qp_wqe(qp, i);
        uro_psn first = uro_psn_make(wqe->first_psn);
        if (wqe->status != URO_WC_SUCCESS)
            return NULL; /* failed locally: the queue pair goes to ERR when the request is oldest */
        if (i == head && (uro_psn_diff(req->una, first) < 0 ||
                          uro_psn_diff(req->una, first) >= (int32_t)wqe->psn_count))
            return "una is not in the oldest request";
        if (i != head && uro_psn_diff(first, end) != 0)
            return "a gap in the PSNs of started requests";
        end = uro_psn_add(first, wqe->psn_count);
        if (i == req->cursor && wqe->psn_count > 0 &&
            (uro_psn_diff(req->next, first) < 0 || uro_psn_diff(req->next, end) >= 0))
            return "next is not in the request at the cursor";
        if (wqe->awaited > wqe->psn_count)
            return "a READ expects more responses than it has";
        awaited += wqe->awaited;
    }
    if (req->cursor == req->started && uro_psn_diff(req->next, end) != 0)
        return "next is not behind the last started request";
    return awaited == req->read_psns ? NULL : "the count of outstanding READ responses is wrong";
}

static const char *check_waits(const struct uro_qp *qp)
{
    const struct uro_req *req = &qp->req;

    if (!uro_qp_reliable(qp)) {
        if (uro_timer_armed(&req->retry.timer) || req->retry.wait != URO_REQ_WAIT_NOTHING)
            return "a UC or UD queue pair waits for a response";
        bool sent = uro_psn_diff(req->next, req->una) > 0;
        return sent && !uro_link_used(&qp->sent_link) ? "a sent request is on no list" : NULL;
    }
    const struct uro_req_retry *retry = &req->retry;
    int32_t flight = uro_psn_diff(req->next, req->una) - (int32_t)req->read_psns;

    if (flight > (int32_t)qp->shard->config.window)
        return "more packets in flight than the window allows";
    if (req->depth_used > qp->attr.max_rd_atomic)
        return "more READs and atomics in flight than max_rd_atomic";
    if (uro_psn_diff(req->next, req->una) > 0 && retry->wait == URO_REQ_WAIT_NOTHING)
        return "packets are in flight, but the requester does not wait for their ACK";
    if (retry->wait == URO_REQ_WAIT_NOTHING || retry->deadline == URO_TIME_NEVER)
        return NULL;
    if (!uro_timer_armed(&retry->timer))
        return "the requester waits without a timer";
    return retry->timer.due_tick <= (retry->deadline >> URO_WHEEL_TICK_SHIFT) + 1
               ? NULL
               : "the timer is later than the end of the wait";
}

/* Returns whether the next response of @resource is outside the request. */
static bool outside(const struct uro_resource *resource, uint32_t mtu)
{
    bool out_of_range =
        uro_resource_operation(resource) == URO_READ &&
        (resource->read.stop > resource->read.length ||
         (uro_resource_due(resource) && resource->next_response * mtu > resource->read.stop));

    return out_of_range || resource->next_response >= uro_resource_responses(resource, mtu);
}

static const char *check_responses(const struct uro_qp *qp)
{
    const struct uro_rsp *rsp = &qp->rsp;
    uint32_t pending = 0;

    const char *problem = uro_reorder_problem(qp);
    if (problem != NULL)
        return problem;
    if (rsp->resources_newest - rsp->resources_oldest > rsp->resources_mask + 1u)
        return "more responder resources in use than there are";
    for (uint32_t i = rsp->resources_oldest; i != rsp->resources_newest; i++) {
        const struct uro_resource *resource = &rsp->resources[i & rsp->resources_mask];
        if (outside(resource, qp->path.mtu))
            return "a response is outside its request";
        pending += uro_resource_due(resource);
    }
    if (pending != rsp->resources_pending)
        return "the count of pending responses is wrong";
    bool pending_any = pending > 0 || rsp->ack_due || rsp->nak_due || qp->congestion.notify_due;
    bool waits =
        qp->path.hop == NULL || qp->path.hop->state == URO_HOP_RESOLVING ||
        uro_qp_state_of(qp) == URO_QPS_ERR; /* after a modify: pending responses were dropped */
    if (pending_any && !waits && !uro_link_used(&qp->response_link))
        return "a response is due, but the queue pair is on no list";
    return NULL;
}

const char *uro_qp_problem(const struct uro_qp *qp)
{
    enum uro_qp_state state = uro_qp_state_of(qp);
    const char *problem = NULL;
    bool may_wait = state != URO_QPS_RESET && state != URO_QPS_INIT && state != URO_QPS_ERR;

    if (qp->rsp.ack_deferred != uro_link_used(&qp->deferred_link) ||
        (qp->rsp.ack_deferred && !may_wait))
        return "a deferred ACK is on no list, or its queue pair cannot send it";
    if (state == URO_QPS_RESET || state == URO_QPS_INIT || state == URO_QPS_RTR ||
        state == URO_QPS_ERR || state == URO_QPS_SQE) {
        if (uro_timer_armed(&qp->req.retry.timer))
            return "a timer runs in a state that sends no requests";
    } else {
        problem = check_indices(qp);
        if (problem == NULL && uro_qp_reliable(qp))
            problem = check_psns(qp);
        if (problem == NULL)
            problem = check_waits(qp);
    }
    return problem != NULL || state == URO_QPS_RESET ? problem : check_responses(qp);
}
