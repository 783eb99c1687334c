/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp.h - the responder of RC, XRC and UC: the functions that its files offer to the rest of core.
 *
 *   rsp_judge.c    checks a request in the order of the specification and returns a verdict; changes nothing
 *   rsp_verdict.c  carries out each verdict: NAK, completion, event, failed queue pair
 *   rsp_serve.c    executes an accepted request
 *   rsp_replay.c   answers a repeated request again, without executing it
 *   rsp_ack.c      the answers that are due, in PSN order
 *   rxe.c          special treatment of Linux rxe, and the deferred ACK
 *   early.c        the reorder buffer: keeps requests that arrive before their turn
 *   rsp_uc.c       UC: the same checks and actions, without order and without responses
 */
#pragma once

#include "core/pair.h"
#include "core/rsp_verdict.h"

/* Where an accepted request acts, found out by the judge. */
struct uro_rsp_target {
    uint8_t *memory;     /* WRITE: for this packet's payload; atomic: the operand; else NULL */
    uint32_t pd;         /* whose keys count */
    struct uro_srq *srq; /* where the message's receive comes from; NULL: the own queue */
};

enum uro_rsp_verdict uro_rsp_judge(const struct uro_qp *qp, const struct uro_frame *frame,
                                   struct uro_rsp_target *target);

/* The questions behind the sequence: rights, length, receive, memory. */
enum uro_rsp_verdict uro_rsp_judge_content(const struct uro_qp *qp, const struct uro_frame *frame,
                                           struct uro_rsp_target *target);

/* Whether the packet goes on with the message in progress, or begins one when there is none. */
bool uro_rsp_in_sequence(const struct uro_rsp *rsp, const struct uro_frame *frame);

/* Writes a SEND or WRITE packet to memory and completes its receive. Returns URO_RSP_ACCEPT,
 * URO_RSP_BAD_LOCAL, URO_RSP_BAD_ACCESS or URO_RSP_OVERRUN. */
enum uro_rsp_verdict uro_rsp_execute(struct uro_qp *qp, const struct uro_frame *frame,
                                     const struct uro_rsp_target *target);

/* Returns URO_RSP_ACCEPT, or what went wrong while writing to memory or completing the receive. */
enum uro_rsp_verdict uro_rsp_serve(struct uro_qp *qp, const struct uro_frame *frame,
                                   const struct uro_rsp_target *target);

void uro_rsp_replay(struct uro_qp *qp, const struct uro_frame *frame);

/* Answers with the consequence of a verdict other than ACCEPT, OVERRUN and DUPLICATE. */
void uro_rsp_refuse(struct uro_qp *qp, const struct uro_frame *frame,
                    const struct uro_rsp_target *target, enum uro_rsp_verdict verdict);

/* A request came before the application moved the queue pair to RTS: COMM_EST, once. */
void uro_rsp_established(struct uro_qp *qp);

/* UC. */
void uro_rsp_uc_receive(struct uro_qp *qp, const struct uro_frame *frame);

/* Gaps that did not close by themselves are told to the peer. */
void uro_rsp_on_gaps(struct uro_shard *shard);

/* A request for this queue pair that passed the checks of receive.c. */
void uro_rsp_receive(struct uro_qp *qp, const struct uro_frame *frame);

/* Makes an acknowledgement up to @psn due; later ones replace earlier ones. @twice: it is sent twice. */
void uro_rsp_ack(struct uro_qp *qp, uro_psn psn, bool twice);

/* Sends the deferred ACKs that waited long enough. Called when the timer of deferred ACKs fires. */
void uro_rsp_on_late(struct uro_shard *shard);

/* Describes the next answer; false when none is due. */
bool uro_rsp_next(struct uro_qp *qp, struct uro_tx *tx);
