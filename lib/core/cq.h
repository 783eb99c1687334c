/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues, the reasons of failed completions, and the events of all objects. The engine writes a CQ, one application
 * thread at a time reads it.
 *
 * uro_cq_push() is the engine's; uro_cq_poll() and uro_cq_arm() belong to the reader, who holds
 * the CQ's lock in lib/verbs. No lock is shared between the two sides.
 *
 * The reader does not see a completion before uro_cq_deliver() or uro_cq_look(). The engine's
 * driver calls one of them after it has transmitted: by then the peer's ACK is on its way, whatever
 * the program does next.
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
    X(CQ_OVERRUN, "the completion queue overflowed")

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
    uint32_t
        vendor_error; /* fail_reason, when status is not success: enum uro_fail_reason (core/cq.h) */
    uint32_t byte_len;
    uint32_t imm; /* octets as on the wire, or the invalidated rkey */
    uint32_t qpn;
    uint32_t source_qpn;
    uint64_t timestamp; /* ns, the round that completed it */
};

enum uro_cq_arm { URO_CQ_NOT_ARMED, URO_CQ_ARMED_SOLICITED, URO_CQ_ARMED_NEXT };

struct uro_cq {
    struct uro_cqe *ring;
    uint32_t mask;
    uint32_t capacity;
    void *user;             /* the owner's handle, for events */
    struct uro_link events; /* in shard->cq_events while an event waits to be fetched */
    bool fresh;             /* engine: completions since uro_cq_look(), ... */
    bool fresh_solicited;   /* ... one of them solicited, or in error */
    bool event_completion;  /* engine: waiting events, see uro_shard_event() */
    bool event_error;
    uint32_t filled;               /* engine: where the next completion goes; >= tail */
    bool overrun;                  /* engine: overflowed; every QP on it has failed */
    bool ignore_overrun;           /* it never is: what does not fit is lost */
    atomic_uint armed;             /* enum uro_cq_arm */
    _Alignas(64) atomic_uint tail; /* moved by the engine: up to here the reader sees completions */
    _Alignas(64) atomic_uint head; /* moved by the reader */
};

/* Octets of memory for a CQ that holds @capacity completions (1 .. URO_CQ_CAPACITY_MAX). */
size_t uro_cq_size(uint32_t capacity);

/* Builds a CQ in @memory (uro_cq_size() octets, aligned to 64). */
struct uro_cq *uro_cq_init(void *memory, uint32_t capacity, void *user);

/* Before the first push: an overrun is counted and costs the completion, neither the CQ nor a QP.
 * For programs that asked for it (IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN). */
void uro_cq_ignore_overrun(struct uro_cq *cq);

/* Octets of memory for a ring of @capacity completions. */
size_t uro_cq_ring_size(uint32_t capacity);

/* Engine locked, reader kept out. From now on the CQ holds @capacity completions, in @ring
 * (uro_cq_ring_size() octets, aligned to 64); a ring lent before is the caller's again, the first
 * one stays part of the CQ's memory. What waits keeps its order; arming, error and events stay.
 * False, with nothing changed, when more waits than @capacity. */
URO_NODISCARD bool uro_cq_move(struct uro_cq *cq, void *ring, uint32_t capacity);

/* Engine locked. Afterwards no event refers to it; its memory is the caller's again. */
void uro_cq_fini(struct uro_cq *cq);

/* Engine. Lets the reader see all completions. */
void uro_cq_deliver(struct uro_cq *cq);

/* Engine, for each of shard->cq_events. Delivers, and then notes an event if the reader armed the
 * CQ. */
void uro_cq_look(struct uro_cq *cq);

/* Engine. Appends a completion; uro_shard_event() tells whoever armed the CQ. False when the CQ is
 * full: the CQ is then in error and the caller must fail the QP (nothing is silently lost: B10),
 * unless overruns are ignored. */
URO_NODISCARD bool uro_cq_push(struct uro_shard *shard, struct uro_cq *cq,
                               const struct uro_cqe *cqe, bool solicited);

/* Reader. Takes at most @room completions, oldest first; returns how many. */
uint32_t uro_cq_poll(struct uro_cq *cq, struct uro_cqe *out, uint32_t room);

/* Reader. One event for the next completion (or the next solicited one, or any in error). Arming
 * for "next" is not weakened by a later "solicited". */
void uro_cq_arm(struct uro_cq *cq, bool solicited_only);

/* Engine locked. Forgets completions of @qpn that were not polled yet, as ibv_destroy_qp asks. */
void uro_cq_forget(struct uro_cq *cq, uint32_t qpn);

/* ---- events: notifications for the process, fetched after each round -----------
 *
 * Events are bits on their objects: none is lost, and none is repeated while it waits. */

enum uro_event_kind {
    URO_EVENT_COMPLETION, /* an armed CQ got a completion: wake its channel */
    URO_EVENT_CQ_ERR,     /* IBV_EVENT_CQ_ERR */
    URO_EVENT_QP_FATAL,
    URO_EVENT_QP_REQ_ERR,
    URO_EVENT_QP_ACCESS_ERR,
    URO_EVENT_COMM_EST,
    URO_EVENT_SQ_DRAINED,
    URO_EVENT_LAST_WQE,  /* in ERR, and no more receives come from its shared receive queue */
    URO_EVENT_SRQ_LIMIT, /* of an SRQ: fewer receives are left than uro_srq_arm() asked for */
};

struct uro_event {
    enum uro_event_kind kind;
    void *user; /* of the CQ, QP or SRQ, as given at its creation */
};

/* Engine locked. Lets programs see the completions that were made since the last call of this or
 * uro_shard_event(). Their events stay. */
void uro_shard_deliver(struct uro_shard *shard);

/* Engine locked. Takes the next event; false when there is none. Delivers as well. */
bool uro_shard_event(struct uro_shard *shard, struct uro_event *event);
