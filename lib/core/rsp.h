/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp.h - the responder of RC, XRC and UC: the functions that its files offer to the rest of core.
 *
 *   rsp_judge.c    checks a request in the order of the specification and returns a verdict;
 *                  changes nothing. It also has the table of the consequences of each verdict: NAK,
 *                  completion, event, failed queue pair
 *   rsp_execute.c  executes an accepted request, answers a duplicate request again, refuses all
 *                  others; RC, XRC and UC
 *   rsp_ack.c      sends the pending responses in PSN order
 *   rxe.c          special treatment of Linux rxe, and the deferred ACK
 *   reorder.c      the reorder buffer: keeps requests that arrive before their turn
 */
#pragma once

#include "core/cq.h"
#include "core/qp_private.h"
#include "wire/ext.h"

/* ---- rsp_judge.c ---------------------------------------------------------- */

enum uro_rsp_verdict {
    URO_RSP_ACCEPT,
    URO_RSP_OVERRUN,      /* executed, but its completion found the CQ full: the queue pair fails */
    URO_RSP_DUPLICATE,    /* PSN already served: answer again, do not execute again */
    URO_RSP_PSN_GAP,      /* an earlier packet is missing, or no responder resource is free */
    URO_RSP_BAD_SEQUENCE, /* FIRST inside a message, or MIDDLE/LAST outside a message */
    URO_RSP_UNSUPPORTED,  /* an operation this queue pair does not offer */
    URO_RSP_NO_SRQ,       /* XRC: no such shared receive queue in the domain */
    URO_RSP_NO_RIGHT,     /* the queue pair's access flags do not allow it */
    URO_RSP_TOO_DEEP,     /* more READs and atomics than max_dest_rd_atomic */
    URO_RSP_BAD_LENGTH,   /* packet length does not fit its position, the MTU or the RETH */
    URO_RSP_MISALIGNED,   /* atomic or ATOMIC_WRITE on a word that is not aligned to 8 */
    URO_RSP_NO_RECEIVE,   /* no receive work request posted */
    URO_RSP_TOO_LONG,     /* the message is longer than the receive */
    URO_RSP_BAD_ACCESS,   /* remote key, range or right of the memory does not allow it */
    URO_RSP_BAD_LOCAL,    /* the receive's own buffers may not be written */
    URO_RSP_VERDICT_COUNT
};

struct uro_rsp_consequence {
    bool sends_nak;          /* a NAK or RNR NAK is sent */
    enum uro_aeth_kind kind; /* kind of the NAK */
    uint8_t nak;             /* URO_NAK_*, when kind is URO_AETH_NAK */
    bool fails;              /* the queue pair goes to ERR */
    bool completes;          /* a receive in use completes with @status instead of a flush */
    enum uro_wc_status status;
    int event; /* enum uro_event_kind to raise, or -1 */
    enum uro_fail_reason fail_reason;
};

/* The memory and the receive that an accepted request uses, found by rsp_judge.c. */
struct uro_rsp_target {
    /* WRITE: destination of this packet's payload; atomic, ATOMIC_WRITE: the word; else NULL */
    uint8_t *memory;
    uint32_t pd;         /* protection domain that the keys must belong to */
    struct uro_srq *srq; /* source of the message's receive; NULL: the queue pair's own queue */
};

/* Checks a request of an RC or XRC queue pair. Writes @target. */
enum uro_rsp_verdict uro_rsp_judge(const struct uro_qp *qp, const struct uro_frame *frame,
                                   struct uro_rsp_target *target);

/* Runs the checks after the sequence check: XRC SRQ, rights, depth, length, receive, memory. */
enum uro_rsp_verdict uro_rsp_judge_content(const struct uro_qp *qp, const struct uro_frame *frame,
                                           struct uro_rsp_target *target);

/* Returns whether the packet continues the message in progress, or begins a message when there is
 * none. */
bool uro_rsp_in_sequence(const struct uro_rsp *rsp, const struct uro_frame *frame);

/* Marks the rule of docs/PROTOCOL.md that a refusal with @verdict follows. */
void uro_rsp_verdict_mark(enum uro_rsp_verdict verdict);

/* Returns the consequence of a refusal on an RC or XRC queue pair. @verdict is neither ACCEPT,
 * OVERRUN nor DUPLICATE. */
const struct uro_rsp_consequence *uro_rsp_consequence(enum uro_rsp_verdict verdict);

/* Returns whether the queue pair goes to ERR; any verdict. */
bool uro_rsp_verdict_fails(enum uro_rsp_verdict verdict);

/* ---- rsp_execute.c -------------------------------------------------------- */

/* Handles a request of an RC or XRC queue pair that passed the checks of receive.c. */
void uro_rsp_receive(struct uro_qp *qp, const struct uro_frame *frame);

/* Handles a request of a UC queue pair that passed the checks of receive.c. */
void uro_rsp_uc_receive(struct uro_qp *qp, const struct uro_frame *frame);

/* Sends a NAK for each gap that did not close in time. Called when the timer of the reorder buffer
 * fires. */
void uro_rsp_on_gaps(struct uro_shard *shard);

/* ---- rsp_ack.c ------------------------------------------------------------ */

/* Makes an ACK up to @psn due. If an ACK is due already, the ACK with the higher PSN is kept.
 * @twice: the ACK is sent twice. */
void uro_rsp_ack(struct uro_qp *qp, uro_psn psn, bool twice);

/* Sends the deferred ACKs that waited long enough. Called when the timer of deferred ACKs fires. */
void uro_rsp_on_deferred(struct uro_shard *shard);

/* Describes the next pending response. Returns false when there is none. */
bool uro_rsp_next(struct uro_qp *qp, struct uro_tx *tx);
