/* SPDX-License-Identifier: BSD-3-Clause */
/* congestion.h - marks of the network, notifications of peers, and the window that they make
 * smaller.
 *
 * Switches mark packets (ECN CE, RFC 3168) when their queues grow. Who receives such a packet tells
 * its sender by a congestion notification packet (IBTA Annex A17), and who is told has fewer
 * packets in flight. How many fewer is not said by the spec; this is the way of DCQCN (Zhu et al.,
 * SIGCOMM 2015) with a window in place of a rate: a cut by a share that grows with each
 * notification and shrinks with time, then in steps of one full window each half-way back, then
 * beyond, packet by packet.
 *
 * Marks are counted for all services. UD has no peer to tell; UC, UD and the answers of READs have
 * no window.
 */
#pragma once

#include "base/time.h"

struct uro_qp;
struct uro_tx;

/* Inside a queue pair; all zero: never told. */
struct uro_congestion {
    uro_time notify_from; /* no notification is sent before */
    bool notify_due;
    uint8_t rounds; /* full windows acknowledged since the last cut */
    uint16_t share; /* of the window that the next cut takes half of; of 1024, 0 before the first */
    uint32_t window; /* packets in flight; 0: as many as the device's window */
    uint32_t target; /* where it was before the cut */
    int32_t acked;   /* packets, of this round; below 0: those that were in flight at the cut */
    uro_time cut_at;
};

/* A packet from the peer had the mark. */
void uro_congestion_marked(struct uro_qp *qp);

/* A notification is due: describes it. */
void uro_congestion_notify(struct uro_qp *qp, struct uro_tx *tx);

/* A notification came from the peer. */
void uro_congestion_told(struct uro_qp *qp);

/* Halves the window after an ACK timeout. A peer that is slower than this side loses most of a full window, and would lose it
 * again each time. Call before the cursor moves back. */
void uro_congestion_timed_out(struct uro_qp *qp);

/* @count more packets are acknowledged. */
void uro_congestion_acked(struct uro_qp *qp, uint32_t count);
