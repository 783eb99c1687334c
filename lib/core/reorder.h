/* SPDX-License-Identifier: BSD-3-Clause */
/* reorder.h - the reorder buffer: requests that arrived before their turn, kept until the missing
 * requests arrive.
 *
 * A network that reorders lets packets overtake each other. A network that loses a packet delivers
 * the packets behind it. Without this buffer the peer must send all these packets again. A queue
 * pair with packets in the buffer has a gap. If the gap does not close soon, it is reported to the
 * peer (rsp_execute.c). If it does not close at all, the packets are dropped. No request is
 * executed or answered before the requests with earlier PSNs.
 *
 * The engine owns the memory, for all queue pairs together. A page of this memory is first written
 * when it is needed.
 */
#pragma once

#include "base/list.h"
#include "base/time.h"
#include "base/wheel.h"
#include "core/limits.h"
#include "core/psn.h"
#include "wire/frame.h"

struct uro_qp;
struct uro_shard;

struct uro_reorder_packet {
    struct uro_link link;   /* element of the list of a gap, in PSN order, or of free_packets */
    struct uro_frame frame; /* frame.payload is the array below; network and body are NULL */
    uint8_t payload[URO_PATH_MTU_MAX];
};

/* The gap of a queue pair, and the packets behind the gap. */
struct uro_gap {
    struct uro_link link; /* element of unreported, reported or free_gaps */
    struct uro_qp *qp;
    struct uro_list packets;
    uro_time due; /* time of the report to the peer, or of dropping the packets */
};

struct uro_reorder {
    /* As many gaps as packets, because a gap has at least one packet. */
    struct uro_reorder_packet *packets;
    struct uro_gap *gaps;
    uint32_t capacity;
    uint32_t packets_touched; /* packets from this index on were never in use */
    uint32_t gaps_touched;
    struct uro_list free_packets;
    struct uro_list free_gaps;
    struct uro_list unreported; /* gaps that were not reported yet, the oldest first */
    struct uro_list reported;   /* gaps that were reported to the peer, the oldest first */
    struct uro_timer timer;
};

/* Returns the number of bytes of memory for @capacity packets. */
size_t uro_reorder_size(uint32_t capacity);

/* Builds an empty buffer in @memory: uro_reorder_size() bytes, aligned to 64. */
void uro_reorder_init(struct uro_reorder *reorder, uint32_t capacity, void *memory);

/* Keeps a copy of a request beyond the expected PSN. Returns true when the request is in the
 * buffer, also when it was there already. Returns false when the buffer is full, or when the
 * request is too far ahead or too long. If the queue pair has a gap, uro_reorder_dropped() then
 * returns true. */
URO_NODISCARD bool uro_reorder_keep(struct uro_qp *qp, const struct uro_frame *frame);

/* Removes and returns the request with the expected PSN, or NULL. Drops kept requests with earlier
 * PSNs. The caller returns the packet with uro_reorder_release(). */
struct uro_reorder_packet *uro_reorder_take(struct uro_qp *qp);
void uro_reorder_release(struct uro_shard *shard, struct uro_reorder_packet *packet);

/* Returns whether uro_reorder_keep() dropped a request at or behind the expected PSN: the peer must
 * retransmit it. */
bool uro_reorder_dropped(const struct uro_qp *qp);

/* Starts the time of the gap again: another packet is missing now, and it may still arrive. */
void uro_reorder_restart(struct uro_qp *qp);

/* Drops all packets of the queue pair. */
void uro_reorder_forget(struct uro_qp *qp);

/* Returns the next queue pair whose gap must be reported to the peer, or NULL. Drops the packets of
 * gaps that did not close after their report. Called after the timer fired. */
struct uro_qp *uro_reorder_overdue(struct uro_shard *shard);

/* Returns a violated invariant, or NULL. */
const char *uro_reorder_problem(const struct uro_qp *qp);
