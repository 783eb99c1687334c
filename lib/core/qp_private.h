/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_private.h - the data of a queue pair: path, requester, responder. For core/; engine/ and
 * verbs/inject.c also use it.
 *
 * A file name in the comment of a field is that of the file which decides about the field. Some
 * other files of core also write to such a field, for example qp.c at a reset.
 */
#pragma once

#include "base/doorbell.h"
#include "base/probe.h"
#include "base/table.h"
#include "core/congestion.h"
#include "core/cq.h"
#include "core/observer.h"
#include "core/operation.h"
#include "core/path.h"
#include "core/psn.h"
#include "core/qp.h"
#include "core/req_recovery.h"
#include "core/req_retry.h"
#include "core/rq.h"
#include "core/shard.h"
#include "wire/ext.h"
#include "wire/frame.h"

#define URO_QP_LINE 64u /* bytes of a cache line */

/* The requester. [una, next) is in flight. max is the PSN behind the newest PSN ever sent. After a
 * go-back-N, next is anywhere in [una, max]. */
struct uro_req {
    uro_psn una;      /* oldest unacknowledged PSN; req_complete.c */
    uro_psn next;     /* PSN to send next; req_transmit.c, and req_recovery.c when going back */
    uro_psn max;      /* req_transmit.c */
    uint32_t cursor;  /* send queue index of the request that `next` belongs to */
    uint32_t started; /* index behind the newest request that was started */
    uint32_t since_ack_req; /* packets sent since the last packet with AckReq */
    uint32_t depth_used;    /* READs and atomics in flight */
    /* number of PSNs in [una, next) that belong to outstanding READ responses */
    uint32_t read_psns;
    bool flush_doubled;           /* FLUSH packets have rxe's ICRC; rxe.c */
    uint8_t read_answers;         /* requests answered since read_window changed; req_reads.c */
    uint16_t read_window;         /* limit of read_psns; 0: no limit; req_reads.c */
    struct uro_recovery recovery; /* req_recovery.c */
    struct uro_req_retry retry;   /* req_retry.c */
};

/* A responder resource: a READ, atomic, FLUSH or ATOMIC_WRITE that was executed, kept so that a
 * duplicate request can be answered again. A queue pair has at least as many as its peer may have
 * such requests outstanding. Responder resources are most of the memory of a queue pair. So a value
 * that can be computed from other fields is not stored. */
struct uro_resource {
    uint64_t va;
    union {
        struct {
            uint32_t length; /* bytes */
            uint32_t stop;   /* bytes from va to the end of the current response */
        } read;
        uint64_t original; /* atomic: value before the operation */
    };
    uint32_t rkey;
    uint32_t pd;
    uint32_t next_response; /* index of the response packet to send next */
    uint32_t bits;          /* PSN of the first response, URO_RESOURCE_*, operation */
};

#define URO_RESOURCE_DUE (1u << 24) /* the current response is not sent completely */
/* the response was sent in part: the next packet is neither FIRST nor ONLY */
#define URO_RESOURCE_BEGUN (1u << 25)
/* the current response answers a duplicate of the request */
#define URO_RESOURCE_REPEATED        (1u << 26)
#define URO_RESOURCE_OPERATION_SHIFT 28u

static_assert(sizeof(struct uro_resource) == 32,
              "responder resources are most of the memory of a queue pair");
static_assert(URO_OPERATION_COUNT <= 1u << (32 - URO_RESOURCE_OPERATION_SHIFT),
              "every operation fits");

/* Returns `bits` of a resource whose first response is due. */
static inline uint32_t uro_resource_pack(enum uro_operation operation, uro_psn psn)
{
    return (uint32_t)operation << URO_RESOURCE_OPERATION_SHIFT | URO_RESOURCE_DUE | psn.value;
}

static inline uro_psn uro_resource_first_psn(const struct uro_resource *resource)
{
    return uro_psn_make(resource->bits & URO_PSN_MASK);
}

static inline enum uro_operation uro_resource_operation(const struct uro_resource *resource)
{
    return (enum uro_operation)(resource->bits >> URO_RESOURCE_OPERATION_SHIFT);
}

static inline bool uro_resource_due(const struct uro_resource *resource)
{
    return resource->bits & URO_RESOURCE_DUE;
}

/* Returns the number of packets in the complete response. */
static inline uint32_t uro_resource_responses(const struct uro_resource *resource, uint32_t mtu)
{
    if (uro_operation_traits[uro_resource_operation(resource)].form != URO_RESPOND_READ ||
        resource->read.length == 0)
        return 1;
    return (uint32_t)(((uint64_t)resource->read.length + mtu - 1) / mtu);
}

#define URO_RESOURCE_REUSED (1u << 31) /* flag in rsp.resources_reused */

/* The responder. */
struct uro_rsp {
    uro_psn expected;             /* rsp_execute.c */
    uint32_t msn;                 /* rsp_execute.c; 24 bits */
    uint32_t offset;              /* bytes received of the message in progress */
    enum uro_operation operation; /* operation of the message in progress */
    uint64_t va;                  /* WRITE in progress */
    uint32_t rkey;
    uint32_t length;
    uint32_t pd;                /* PD of the keys in the receive in use; uro_rq_pd() */
    const struct uro_rqe *recv; /* in use by a message; rq.c */
    struct uro_srq *srq;        /* source of `recv`; NULL: the own receive queue; rq.c */
    struct uro_gap *gap;        /* requests that arrived before their turn; reorder.c */
    bool gap_reported; /* a NAK or RNR NAK for `expected` is due or was sent; rsp_execute.c */
    bool established;  /* COMM_EST was raised */
    bool ack_due;      /* an ACK is due; rsp_ack.c */
    bool nak_due;
    uro_psn ack_psn;
    uro_psn nak_psn;
    enum uro_aeth_kind nak_kind;
    uint8_t nak_value;
    bool in_message;     /* rsp_execute.c: between FIRST and LAST */
    bool dropped;        /* a request did not fit in the reorder buffer; reorder.c */
    bool ack_deferred;   /* an ACK is deferred; rxe.c */
    bool peer_goes_back; /* Linux rxe goes back, because of a reported gap; rxe.h, reorder.c */
    uint8_t read_log2; /* log2 of the PSNs of the longest READ so far, rounded up; rsp_execute.c */
    bool rxe;          /* the last request came from Linux rxe; rsp_execute.c */
    bool ack_twice;    /* the ACK that is due is sent twice; rsp_ack.c */
    uro_psn dropped_psn;        /* highest PSN of a request that did not fit */
    uint32_t resources_pending; /* responder resources with a response pending */
    uint32_t resources_oldest;  /* index of the oldest resource in use; not modulo the ring size */
    uint32_t resources_newest;  /* index behind the newest resource; as resources_oldest */
    /* URO_RESOURCE_REUSED | PSN behind the last reused resource; 0: none */
    uint32_t resources_reused;
    uint16_t resources_mask;        /* ring size - 1 */
    uint16_t rd_atomic_max;         /* max_dest_rd_atomic, rounded up to a power of two */
    struct uro_resource *resources; /* lent ring; NULL while the queue pair needs no resources */
};

/* Counts of rare events since the queue pair was created, for snapshots. */
struct uro_qp_rare {
    uint64_t retransmits; /* times that the requester went back to an earlier PSN; req_recovery.c */
    uint64_t rnr_naks;    /* RNR NAKs received; req_complete.c */
};

/* With thousands of queue pairs, the cost of a message is the number of cache lines that it
 * touches. The fields that both sides use come first, then the fields of the responder, then the
 * fields of the requester. prefetch.h prefetches the lines. */
struct uro_qp {
    struct uro_table_node node; /* node.number is the QPN */
    struct uro_shard *shard;
    atomic_int state;         /* enum uro_qp_state; qp.c, read by posters */
    enum uro_service service; /* service of the QP type */
    struct uro_path path;
    struct uro_cq *send_cq;
    struct uro_srq *srq;
    uint32_t pd;
    bool signal_all;
    bool block_self_multicast;
    bool deferred_twice; /* the deferred ACK will be sent twice; rxe.c */
    uint8_t fail_reason; /* enum uro_fail_reason of the first failure since RESET */
    /* Attributes as set; the first two fields share the cache line above. */
    struct uro_qp_attr attr;

    struct uro_link response_link; /* schedule.c; on the line of the last attributes */
    struct uro_cq *recv_cq;
    struct uro_rsp rsp;
    struct uro_congestion congestion; /* congestion.c */
    uint32_t resources_lent;          /* entries of the lent ring rsp.resources */
    uro_psn deferred_psn;             /* PSN of the deferred ACK, while rsp.ack_deferred; rxe.c */

    _Alignas(URO_QP_LINE) struct uro_link request_link; /* schedule.c */
    struct uro_doorbell doorbell;
    struct uro_req req;

    _Alignas(URO_QP_LINE) struct uro_wq send;
    struct uro_link sent_link; /* req_transmit.c */
    struct uro_link event_link;
    void *user;

    _Alignas(URO_QP_LINE) struct uro_wq recv;
    struct uro_rqe *taken; /* copy of a receive from a shared queue */
    uint8_t type;          /* enum uro_qp_type */
    bool far_recorded;     /* a request with a PSN far from the expected one was recorded */
    uint32_t xrcd;
    unsigned events;               /* set of 1 << enum uro_event_kind */
    struct uro_link deferred_link; /* list of deferred ACKs; rxe.c */

    _Alignas(URO_QP_LINE) struct uro_qp_rare rare; /* a cache line that no message uses */
};

#define URO_QP_SAME_LINE(a, b)                                                                     \
    static_assert(offsetof(struct uro_qp, a) / URO_QP_LINE ==                                      \
                      offsetof(struct uro_qp, b) / URO_QP_LINE,                                    \
                  #a " and " #b " are needed together")
URO_QP_SAME_LINE(node, path.dest);
URO_QP_SAME_LINE(send_cq, attr.access);
URO_QP_SAME_LINE(response_link, rsp.length);
URO_QP_SAME_LINE(rsp.gap, rsp.resources_pending);
URO_QP_SAME_LINE(request_link, req.read_psns);
static_assert(sizeof(struct uro_qp) == 15 * URO_QP_LINE, "no padding beside the aligned lines");

static inline enum uro_qp_state uro_qp_state_of(const struct uro_qp *qp)
{
    return (enum uro_qp_state)atomic_load_explicit(&qp->state, memory_order_relaxed);
}

static inline uint32_t uro_qp_qpn(const struct uro_qp *qp)
{
    return qp->node.number;
}

/* Reports to probes and to the observer that the queue pair changes its state to @state. */
static inline void uro_qp_tell_state(const struct uro_qp *qp, enum uro_qp_state state)
{
    const struct uro_observer *observer = qp->shard->observer;
    const enum uro_qp_state from = uro_qp_state_of(qp);

    URO_PROBE3(qp_state, uro_qp_qpn(qp), from, state);
    if (observer != NULL && from != state)
        observer->state(observer->context, uro_qp_qpn(qp), from, state,
                        (enum uro_fail_reason)qp->fail_reason);
}

/* Returns whether packets are acknowledged and retransmitted. */
static inline bool uro_qp_reliable(const struct uro_qp *qp)
{
    return qp->service == URO_RC || qp->service == URO_XRC;
}

/* Returns the send request at @index. */
static inline struct uro_wqe *uro_qp_wqe(const struct uro_qp *qp, uint32_t index)
{
    return uro_wq_slot(&qp->send, index);
}

/* ---- qp.c, for the rest of core ---------------------------------------------- */

/* Raises an asynchronous event for the owner. */
void uro_qp_raise_event(struct uro_qp *qp, unsigned event_kind);

/* Ends the draining in SQD: all requests that were started before SQD are done. Raises SQ_DRAINED
 * if the application asked for it. */
void uro_qp_drained(struct uro_qp *qp);

/* Fails the queue pair: RC and XRC go to ERR, UC and UD to SQE. The send request at index
 * @failed_wqe completes with @status. All other send requests are flushed in queue order, and in
 * ERR also all receives. URO_QP_NO_WQE: no request failed. */
#define URO_QP_NO_WQE UINT32_MAX
void uro_qp_fail_send(struct uro_qp *qp, uint32_t failed_wqe, enum uro_wc_status status,
                      enum uro_fail_reason fail_reason);

/* Fails the queue pair because of an error of the receiving side. A receive in use completes with
 * @status. All other work is flushed. @frame: the request that caused it, or NULL. */
void uro_qp_fail_recv(struct uro_qp *qp, enum uro_wc_status status,
                      enum uro_fail_reason fail_reason, const struct uro_frame *frame);

/* Flushes the posted work of a queue pair in ERR, or the sends of a queue pair in SQE. */
void uro_qp_flush(struct uro_qp *qp);

/* Fails the queue pair because one of its completions did not fit in the CQ. */
void uro_qp_overrun(struct uro_qp *qp);
