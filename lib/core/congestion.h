/* SPDX-License-Identifier: BSD-3-Clause */
/* congestion.h - congestion control: ECN marks, CNPs, ACK timeouts, and the requester's window.
 *
 * Switches mark packets (ECN CE, RFC 3168) when their queues grow. The receiver of a marked packet
 * sends a congestion notification packet (CNP, IBTA Annex A17) to the sender, which then has fewer
 * packets in flight. The specification does not say how many fewer. We follow DCQCN (Zhu et al.,
 * SIGCOMM 2015) with a window in place of a rate:
 *   - A CNP reduces the window by the fraction alpha / 2. alpha grows with each CNP and shrinks
 *     with time.
 *   - Each acknowledged full window is a round. After each round, the window moves half-way to a
 *     target: the window before the CNP.
 *   - After some rounds, each further round also raises the target by one packet.
 *
 * Marks are counted for all services. A UD queue pair sends no CNP, because it has no peer. UC
 * requests, datagrams and READ responses have no window.
 */
#pragma once

#include "base/time.h"

struct uro_qp;
struct uro_tx;

/* The congestion state of a queue pair. All zero: no CNP was received. */
struct uro_congestion {
    uro_time notify_from; /* earliest time of the next CNP */
    bool notify_due;
    uint8_t rounds;  /* full windows acknowledged since the last cut, at most ROUNDS_QUICK */
    uint16_t alpha;  /* a CNP removes alpha / 2048 of the window, after decay; 0: no CNP arrived */
    uint32_t window; /* packets in flight; 0: as many as the device's window */
    uint32_t target; /* the window before the last cut; grows after some rounds */
    /* packets acknowledged in this round; after a cut, minus the packets in flight */
    int32_t acked;
    uro_time cut_at;
};

/* Reports that a packet from the peer had the ECN CE mark. */
void uro_congestion_marked(struct uro_qp *qp);

/* Describes the CNP that is due. */
void uro_congestion_notify(struct uro_qp *qp, struct uro_tx *tx);

/* Handles a CNP from the peer. */
void uro_congestion_cnp_received(struct uro_qp *qp);

/* Halves the window after an ACK timeout. A peer that is slower than this side drops most of a full
 * window, and would drop it again each time. Call before the cursor moves back. */
void uro_congestion_timed_out(struct uro_qp *qp);

/* Reports that @count more packets are acknowledged. */
void uro_congestion_acked(struct uro_qp *qp, uint32_t count);
