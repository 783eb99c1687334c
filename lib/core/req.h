/* SPDX-License-Identifier: BSD-3-Clause */
/* req.h - the requester of RC, XRC and UC: the functions that its files offer to the rest of core
 * and to engine/.
 *
 *   req_transmit.c  chooses the next packet, describes it, and moves the cursor; executes requests
 *                   that send nothing; completes UC and UD requests that were sent
 *   req_complete.c  handles responses: completes requests, reports failures and gaps
 *   req_reads.c     the limit of READ responses in flight after a response was lost
 *   req_retry.c     the retry timer: decides when to retransmit
 *   req_recovery.c      decides how much is sent again, and moves the cursor back and forward
 *
 * Sending is a cursor over the send queue. To send again, the cursor moves back to the oldest
 * unacknowledged PSN, and the ordinary sending code makes the packets. After a single-packet
 * retransmit the cursor returns to its saved position.
 */
#pragma once

#include "core/operation.h"
#include "core/qp_private.h"

enum uro_req_plan_kind {
    /* Nothing can be sent now; req_transmit.c lists the reasons. */
    URO_REQ_PLAN_NOTHING,
    URO_REQ_PLAN_PACKET,
    URO_REQ_PLAN_LOCAL, /* a request that sends nothing */
    /* The request at the cursor failed locally, and all earlier requests are complete. */
    URO_REQ_PLAN_FAIL,
};

struct uro_req_plan {
    enum uro_req_plan_kind kind;
    bool starts;        /* the request gets its PSNs with this packet */
    uint32_t index;     /* index of the packet in the message, in PSNs */
    uint32_t psn_count; /* PSNs of the whole message */
    uint32_t psns;      /* PSNs that this packet uses: responses of a READ, else 1 */
    uint32_t offset;    /* bytes of the message before this packet */
    uint32_t length;    /* payload bytes; READ: requested bytes */
    enum uro_operation operation;
    enum uro_position position;
    int opcode; /* BTH opcode; negative: the service has no such packet */
    bool ack_req;
};

/* Describes a range of the request's buffers as the payload of @tx. Returns false when a local key
 * does not allow it, or when the memory is missing. */
bool uro_req_gather(const struct uro_qp *qp, const struct uro_wqe *wqe, uint32_t offset,
                    uint32_t length, struct uro_tx *tx);

/* Completes the oldest request with success, and the executed local requests right behind it.
 * Returns false when the CQ overflowed: the caller then fails the queue pair (uro_qp_overrun()). */
URO_NODISCARD bool uro_req_complete_head(struct uro_qp *qp);

/* Reports that a packet of a UC or UD queue pair was described. After its last packet, the request
 * completes when the engine is called again. Until then, the port may read the payload from the
 * memory of the request. */
void uro_req_sent(struct uro_qp *qp);

/* Completes the UC and UD requests that were reported with uro_req_sent(). Call in the next input,
 * output or fetch of events. */
void uro_req_settle(struct uro_shard *shard);

/* Describes the next packet. Returns false when there is none now. May fail the queue pair. */
bool uro_req_next(struct uro_qp *qp, struct uro_tx *tx);

/* Handles a response that passed the checks of receive.c. */
void uro_req_receive(struct uro_qp *qp, const struct uro_frame *frame);

/* The outcome of a response or of the retry timer, besides acknowledgements. */
enum uro_req_outcome_kind {
    URO_REQ_OUTCOME_NONE,
    URO_REQ_OUTCOME_RESEND,  /* the cursor takes `step` */
    URO_REQ_OUTCOME_FAIL,    /* a request fails, and the queue pair with it */
    URO_REQ_OUTCOME_OVERRUN, /* a completion did not fit in the CQ */
};

/* 8 bytes, so that functions return it in a register. */
struct uro_req_outcome {
    uint8_t kind;        /* enum uro_req_outcome_kind */
    uint8_t step;        /* RESEND: enum uro_recovery_step */
    uint8_t status;      /* FAIL: enum uro_wc_status */
    uint8_t fail_reason; /* FAIL: enum uro_fail_reason */
    uint32_t failed_wqe; /* FAIL: index of the request in the send queue */
};

static_assert(URO_FAIL_REASON_COUNT <= 256, "a fail_reason is one byte");

static inline struct uro_req_outcome uro_req_fail(uint32_t failed_wqe, enum uro_wc_status status,
                                                  enum uro_fail_reason fail_reason)
{
    return (struct uro_req_outcome){ .kind = URO_REQ_OUTCOME_FAIL,
                                     .status = (uint8_t)status,
                                     .fail_reason = (uint8_t)fail_reason,
                                     .failed_wqe = failed_wqe };
}

/* Carries out an outcome. Only this function fails the queue pair or moves the cursor back after a
 * response or a timeout. */
void uro_req_apply(struct uro_qp *qp, struct uro_req_outcome outcome);

/* Handles a gap: the peer reports a missing packet, or a response before @psn is missing.
 * Retransmits once until there is progress, so that a burst of late responses does not start a
 * burst of retries. A responder may answer all earlier requests before it answers the retransmitted
 * request. Each response with a higher @psn restarts the ACK timeout. */
struct uro_req_outcome uro_req_gap(struct uro_qp *qp, uro_psn psn);

/* Moves the cursor to its saved position after a single-packet retransmit. */
void uro_req_single_sent(struct uro_qp *qp);

/* Converts a decision of req_retry.c into an outcome. */
struct uro_req_outcome uro_req_retry_outcome(struct uro_qp *qp, enum uro_req_retry_action action);

/* Moves the cursor if progress ended a recovery: una moved from @before. Call while
 * uro_recovery_active(). */
void uro_req_recovered(struct uro_qp *qp, uro_psn before);

/* Handles the expiry of the retry timer. */
void uro_req_on_timer(struct uro_qp *qp);

/* Starts the READ window, or halves it, if a READ response was lost. Call before the cursor moves
 * back. */
void uro_req_reads_lost(struct uro_qp *qp);

/* Shortens a planned READ request to the READ window, and returns whether it can be sent now. Call
 * while there is a window. */
bool uro_req_reads_fit(const struct uro_qp *qp, struct uro_req_plan *plan);

/* Reports a response of the READ @wqe. @counted: uro_wqe.awaited was reduced for it. Returns
 * whether the response is the last response to a request packet. Its opcode does not show this: a
 * late response to an earlier request packet can have another opcode. */
bool uro_req_reads_answered(struct uro_qp *qp, const struct uro_wqe *wqe, bool counted);

/* Maximum number of responses that one READ request packet asks for. This limits the responses in
 * flight, and keeps PSN distances unambiguous for messages of 2^31 bytes. */
#define URO_REQ_READ_PIECE 16384u
