/* SPDX-License-Identifier: BSD-3-Clause */
/* rxe.h - the special treatment of Linux rxe (the kernel's software RoCE). For core/ only.
 *
 * Each entry names a deviation of rxe, then the functions that handle the deviation.
 * docs/decisions/0038 has the reasons.
 *
 *   MigReq is 0 in every packet of rxe; other known endpoints send 1.
 *       uro_rxe_sent() recognises requests of rxe by this bit.
 *   From Linux 6.2 on, rxe mistakes a duplicate ACK between two responses of a READ for the end of
 *   the READ.
 *       uro_rxe_ack_repeated() defers the ACK of a duplicate SEND or WRITE that has such a READ
 *       behind it. The READ is retransmitted, too, and its response acknowledges both.
 *   During a go-back-N, an ACK beyond the last packet that rxe sent again confuses rxe: its
 *   acknowledged PSN is then beyond its sent PSN. So rxe stalls or sends wrong PSNs.
 *       uro_rxe_ack_repeated() acknowledges the duplicate packet and no more.
 *       uro_rxe_goes_back() and uro_rxe_defer_kept() defer the ACK of packets from the reorder
 *       buffer.
 *       uro_rxe_ack_twice() sends the ACK for the last packet of a long message twice. The second
 *       ACK completes a message that rxe was sending again when the first ACK arrived.
 *       uro_rxe_response_acks() drops an ACK when a READ or atomic response behind it acknowledges
 *       the same packets.
 *   The ICRC of a FLUSH covers its headers twice, and rxe drops a FLUSH with the standard ICRC.
 *       uro_rxe_other_icrc() changes the ICRC of a FLUSH that timed out.
 *       uro_rxe_icrc_doubled() returns which ICRC is used.
 *   Version 6.12 retransmits a FLUSH with address 0.
 *       uro_rxe_repeats_flush() accepts address 0 as the same FLUSH.
 *   rxe sends FLUSHes without regard to max_rd_atomic.
 *       uro_rxe_beyond_depth() lets a FLUSH pass the check of the depth.
 *       URO_RXE_FLUSHES is the maximum number of FLUSHes in flight.
 *   With retry_cnt 7, rxe retries without limit.
 *       struct uro_req_retry_config has retry_7_forever for the same behaviour.
 */
#pragma once

#include "core/qp_private.h"

/* Maximum number of FLUSHes that rxe has in flight. */
#define URO_RXE_FLUSHES 16u

/* Returns whether rxe sent the request. */
static inline bool uro_rxe_sent(const struct uro_frame *frame)
{
    return !frame->bth.migrated;
}

/* Returns whether the ACK for this packet is sent twice. */
static inline bool uro_rxe_ack_twice(const struct uro_frame *frame)
{
    return frame->op->position == URO_LAST && uro_rxe_sent(frame);
}

/* Returns whether the peer is rxe: the next READ or atomic response then replaces the ACK that is
 * due before it. */
static inline bool uro_rxe_response_acks(const struct uro_rsp *rsp)
{
    return rsp->rxe;
}

/* Returns whether the operation may be requested beyond max_dest_rd_atomic. */
static inline bool uro_rxe_beyond_depth(enum uro_operation operation)
{
    return operation == URO_FLUSH;
}

/* Returns whether the duplicate request is a FLUSH with address 0. It repeats the FLUSH with the
 * same PSN, whatever address that FLUSH had. */
bool uro_rxe_repeats_flush(enum uro_operation operation, uint64_t va);

/* Returns whether packets of this operation are sent with rxe's ICRC. */
static inline bool uro_rxe_icrc_doubled(const struct uro_qp *qp, enum uro_operation operation)
{
    return operation == URO_FLUSH && qp->req.flush_doubled;
}

/* Changes the ICRC of FLUSHes if the oldest request, which timed out, is a FLUSH. */
void uro_rxe_other_icrc(struct uro_qp *qp);

/* The acknowledgement of a duplicate SEND or WRITE. */
enum uro_rxe_ack {
    URO_RXE_ACK_NOT_RXE, /* as for any other peer */
    URO_RXE_ACK_ITSELF,  /* up to its own PSN, at once */
    URO_RXE_ACK_LATER,   /* up to its own PSN, deferred: uro_rxe_defer() */
};
enum uro_rxe_ack uro_rxe_ack_repeated(const struct uro_qp *qp, const struct uro_frame *frame);

/* Handles a request that filled the gap. If the gap was @reported to rxe, rxe sends this request
 * and all later requests again. */
static inline void uro_rxe_goes_back(struct uro_qp *qp, const struct uro_frame *frame,
                                     bool reported)
{
    if (reported && uro_rxe_sent(frame))
        qp->rsp.peer_goes_back = true;
}

/* Handles the ACK of packets from the reorder buffer. If rxe sends these packets again, their ACK
 * is deferred, and the ACK that was pending in @before is pending again. */
void uro_rxe_defer_kept(struct uro_qp *qp, const struct uro_rsp *before);

/* ---- the deferred ACK ----------------------------------------------------------------------
 *
 * A queue pair defers at most one ACK. The ACK is sent one to two URO_ACK_DEFER later, unless a
 * response acknowledges the same packets before. */

/* Defers an ACK up to @psn. @twice: the ACK is later sent twice. */
void uro_rxe_defer(struct uro_qp *qp, uro_psn psn, bool twice);

/* Drops the deferred ACK, if there is one. */
void uro_rxe_defer_forget(struct uro_qp *qp);

/* Drops the deferred ACK if a response with @psn, sent meanwhile, acknowledges the same packets. */
void uro_rxe_defer_answered(struct uro_qp *qp, uro_psn psn);

/* Ends one interval of the timer of deferred ACKs. Call uro_rxe_defer_take() until it returns NULL
 * before any ACK is deferred again. */
void uro_rxe_defer_turn(struct uro_shard *shard);

/* Takes a queue pair whose ACK was deferred long enough off the list. Returns NULL when there is
 * none. */
struct uro_qp *uro_rxe_defer_take(struct uro_shard *shard);
