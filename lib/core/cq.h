/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues, the reasons of failed completions, and the events of all objects. The
 * engine writes a CQ. One application thread at a time reads it.
 *
 * Only the engine calls uro_cq_push(). Only the reader calls uro_cq_poll() and uro_cq_arm(); it
 * holds the CQ's lock in lib/verbs. The two sides share no lock.
 *
 * The reader does not see a completion before uro_cq_deliver() or uro_cq_notify(). The driver of
 * the engine calls one of them after it has transmitted. The ACK for the peer has then left, so the
 * program may exit as soon as it sees the completion.
 */
#pragma once

#include <stdatomic.h>

#include "base/list.h"

struct uro_shard;

/* Values equal enum ibv_wc_status. */
enum uro_wc_status {
    URO_WC_SUCCESS = 0,
    URO_WC_LOC_LEN_ERR = 1,
    URO_WC_LOC_QP_OP_ERR = 2,
    URO_WC_LOC_PROT_ERR = 4,
    URO_WC_WR_FLUSH_ERR = 5,
    URO_WC_MW_BIND_ERR = 6,
    URO_WC_BAD_RESP_ERR = 7,
    URO_WC_LOC_ACCESS_ERR = 8,
    URO_WC_REM_INV_REQ_ERR = 9,
    URO_WC_REM_ACCESS_ERR = 10,
    URO_WC_REM_OP_ERR = 11,
    URO_WC_RETRY_EXC_ERR = 12,
    URO_WC_RNR_RETRY_EXC_ERR = 13,
    URO_WC_FATAL_ERR = 19,
    URO_WC_GENERAL_ERR = 21,
};

/* Values equal enum ibv_wc_opcode. */
enum uro_wc_opcode {
    URO_WC_SEND = 0,
    URO_WC_RDMA_WRITE = 1,
    URO_WC_RDMA_READ = 2,
    URO_WC_COMP_SWAP = 3,
    URO_WC_FETCH_ADD = 4,
    URO_WC_BIND_MW = 5,
    URO_WC_LOCAL_INV = 6,
    URO_WC_FLUSH = 8,
    URO_WC_ATOMIC_WRITE = 9,
    URO_WC_RECV = 128,
    URO_WC_RECV_RDMA_WITH_IMM = 129,
};

/* Values equal enum ibv_wc_flags. */
#define URO_WC_GRH      (1u << 0)
#define URO_WC_WITH_IMM (1u << 1)
#define URO_WC_WITH_INV (1u << 3)

/* ---- the reason of a completion that is not a success: ibv_wc.vendor_err --------
 *
 * To add one: a line here, and docs/PROTOCOL.md. */

/* X(enumerator, "what happened, for a person") */
#define URO_FAIL_REASONS(X)                                                                        \
    X(NONE, "no reason recorded")                                                                  \
    X(FLUSHED, "the queue pair was already in error")                                              \
    X(MODIFIED, "the application moved the queue pair to ERR")                                     \
    X(LOCAL_KEY, "a local buffer is not registered, of another PD, or lacks LOCAL_WRITE")          \
    X(NO_DEPTH, "a READ, atomic or FLUSH was posted with max_rd_atomic 0")                         \
    X(UNSUPPORTED, "the operation is not supported")                                               \
    X(NO_ANSWER, "the peer did not answer within timeout and retry_cnt")                           \
    X(NO_RECEIVE, "the peer had no receive posted and rnr_retry ran out")                          \
    X(NAK_INVALID, "the peer refused the request as invalid")                                      \
    X(NAK_ACCESS, "the peer refused the remote key, address range or right")                       \
    X(NAK_OPERATIONAL, "the peer failed to carry out the request")                                 \
    X(BAD_SYNDROME, "the peer sent a reserved syndrome")                                           \
    X(BAD_RESPONSE, "the peer's response does not fit the request")                                \
    X(PEER_SEQUENCE, "the peer sent FIRST inside a message, or MIDDLE or LAST outside one")        \
    X(PEER_LENGTH, "the peer sent a packet of the wrong length")                                   \
    X(PEER_TOO_LONG, "the message is longer than the posted receive")                              \
    X(PEER_ACCESS, "the peer used a wrong remote key, address range or right")                     \
    X(PEER_RIGHTS, "the queue pair's access flags do not allow the peer's request")                \
    X(PEER_DEPTH, "the peer has more READs and atomics outstanding than max_dest_rd_atomic")       \
    X(PEER_SRQ, "the peer named an XRC shared receive queue that does not exist here")             \
    X(BIND, "the window, the region, its range or its rights do not allow the binding")            \
    X(NOT_INVALIDATABLE, "the key is not a type 2 window bound through this queue pair")           \
    X(NO_HANDLE, "the address handle was destroyed or is of another PD")                           \
    X(DATAGRAM_LENGTH, "the datagram is longer than the link's MTU")                               \
    X(CQ_OVERRUN, "the completion queue overflowed")                                               \
    X(PEER_PSN, "the peer's PSN is far from the expected PSN; no completion has this reason")

enum uro_fail_reason {
#define X(id, text) URO_FAIL_##id,
    URO_FAIL_REASONS(X)
#undef X
        URO_FAIL_REASON_COUNT
};

/* ---- completions ----------------------------------------------------------------- */

struct uro_cqe {
    uint64_t wr_id;
    uint8_t status; /* enum uro_wc_status */
    uint8_t opcode; /* enum uro_wc_opcode */
    uint8_t flags;  /* set of URO_WC_* */
    uint8_t service_level;
    uint32_t vendor_error; /* enum uro_fail_reason; valid when status is not success */
    uint32_t byte_len;
    uint32_t imm; /* bytes as on the wire, or the invalidated rkey */
    uint32_t qpn;
    uint32_t source_qpn;
    uint64_t timestamp; /* time of the round that completed the request, ns */
};

enum uro_cq_arm { URO_CQ_NOT_ARMED, URO_CQ_ARMED_SOLICITED, URO_CQ_ARMED_NEXT };

struct uro_cq {
    struct uro_cqe *ring;
    uint32_t mask;
    uint32_t capacity;
    void *user;             /* the owner's handle, for events */
    struct uro_link events; /* in shard->cq_events: fresh completions, or an event to fetch */
    bool fresh;             /* engine: the CQ got a completion since uro_cq_notify() */
    bool fresh_solicited;   /* engine: such a completion is solicited or in error */
    bool event_completion;  /* engine: waiting events, see uro_shard_event() */
    bool event_error;
    uint32_t filled;     /* engine: index of the next completion; >= tail */
    atomic_bool overrun; /* overflowed: each QP fails at its next completion here */
    bool ignore_overrun; /* a completion that does not fit is lost; no QP fails */
    atomic_uint armed;   /* enum uro_cq_arm */
    /* index behind the last completion that the reader may see; moved by the engine */
    _Alignas(64) atomic_uint tail;
    _Alignas(64) atomic_uint head; /* moved by the reader, and by uro_cq_forget() */
    uint32_t number;               /* number in snapshots, from 1; core/snapshot.h */
    struct uro_link all;           /* in shard->cqs */
    uint32_t *counted_in;          /* shard->cq_count; NULL: the CQ is in no snapshot */
};

/* Returns the number of bytes of memory for a CQ of @capacity completions (1 ..
 * URO_CQ_CAPACITY_MAX). */
size_t uro_cq_size(uint32_t capacity);

/* Builds a CQ in @memory (uro_cq_size() bytes, aligned to 64). */
struct uro_cq *uro_cq_init(void *memory, uint32_t capacity, void *user);

/* Makes the CQ overflow, as if a completion had found it full. Engine locked. */
void uro_cq_overflow(struct uro_shard *shard, struct uro_cq *cq);

/* Makes the CQ drop and count completions that do not fit, instead of failing with its QPs. Call
 * before the first push, for programs that set IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN. */
void uro_cq_ignore_overrun(struct uro_cq *cq);

/* Returns the number of bytes of memory for a ring of @capacity completions. */
size_t uro_cq_ring_size(uint32_t capacity);

/* Moves the CQ to @ring, which holds @capacity completions (uro_cq_ring_size() bytes, aligned to
 * 64). A ring that was lent before belongs to the caller again. The first ring is part of the CQ's
 * memory. Waiting completions keep their order. The armed state, the error and the events do not
 * change. Returns false, with nothing changed, when more than @capacity completions wait. Engine
 * locked, and no reader active.
 */
URO_NODISCARD bool uro_cq_move(struct uro_cq *cq, void *ring, uint32_t capacity);

/* Removes the CQ from the lists of events and from snapshots. Its memory then belongs to the caller
 * again. Engine locked. */
void uro_cq_fini(struct uro_cq *cq);

/* Makes all completions visible to the reader. Called by the engine. */
void uro_cq_deliver(struct uro_cq *cq);

/* Delivers the completions, then notes an event if the reader armed the CQ. The engine calls this
 * for each CQ of shard->cq_events. */
void uro_cq_notify(struct uro_cq *cq);

/* Appends a completion. uro_shard_event() later returns the event of an armed CQ. Returns false
 * when the CQ is in error: a completion found it full, and overruns are not ignored. The caller
 * must then fail the QP, so that no completion is lost silently. Called by the engine. */
URO_NODISCARD bool uro_cq_push(struct uro_shard *shard, struct uro_cq *cq,
                               const struct uro_cqe *cqe, bool solicited);

/* Takes at most @max completions, oldest first. Returns their number. Called by the reader. */
uint32_t uro_cq_poll(struct uro_cq *cq, struct uro_cqe *out, uint32_t max);

/* Requests one event: for the next completion, or with @solicited_only for the next completion that
 * is solicited or in error. A later call with @solicited_only does not weaken an earlier call
 * without it. Called by the reader. */
void uro_cq_arm(struct uro_cq *cq, bool solicited_only);

/* Marks the CQ as overflowed, without an event. Thread: any. */
static inline void uro_cq_fail(struct uro_cq *cq)
{
    atomic_store_explicit(&cq->overrun, true, memory_order_relaxed);
}

/* Returns whether the CQ has overflowed. */
static inline bool uro_cq_failed(const struct uro_cq *cq)
{
    return atomic_load_explicit(&cq->overrun, memory_order_relaxed);
}

/* Withdraws the request for an event. An event that was noted before may still come. Called by the
 * reader. */
void uro_cq_disarm(struct uro_cq *cq);

/* Drops the completions of @qpn that were not polled yet, as ibv_destroy_qp requires. Engine
 * locked, and no reader active. */
void uro_cq_forget(struct uro_cq *cq, uint32_t qpn);

/* ---- events: notifications for the process, fetched after each round -----------
 *
 * Each object has flags for its pending events. An event that is raised again before it is fetched
 * counts once. */

enum uro_event_kind {
    URO_EVENT_COMPLETION, /* an armed CQ got a completion: wake its channel */
    URO_EVENT_CQ_ERR,     /* IBV_EVENT_CQ_ERR */
    URO_EVENT_QP_FATAL,
    URO_EVENT_QP_REQ_ERR,
    URO_EVENT_QP_ACCESS_ERR,
    URO_EVENT_COMM_EST,
    URO_EVENT_SQ_DRAINED,
    URO_EVENT_LAST_WQE,  /* in ERR, and no more receives come from its shared receive queue */
    URO_EVENT_SRQ_LIMIT, /* an SRQ has fewer receives than the limit of uro_srq_arm() */
};

struct uro_event {
    enum uro_event_kind kind;
    void *user; /* user pointer of the CQ, QP or SRQ */
};

/* Makes all completions so far visible to programs. Does not take the events of the CQs. Engine
 * locked. */
void uro_shard_deliver(struct uro_shard *shard);

/* Takes the next event. Returns false when there is no event; all completions are then visible to
 * programs. Engine locked. */
bool uro_shard_event(struct uro_shard *shard, struct uro_event *event);
