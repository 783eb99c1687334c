/* SPDX-License-Identifier: BSD-3-Clause */
/* early.h - requests that came before their turn, kept until those before them are there.
 *
 * A network that reorders lets a packet be overtaken; a network that loses lets all behind the lost one
 * arrive. Without a place to keep them the peer has to send all of them again. A queue pair with kept
 * packets has a gap: if it does not close soon the peer is told (rsp_execute.c), if it does not close at
 * all they are forgotten. Nothing is judged, written or answered before its turn.
 *
 * The memory is of the engine, for all queue pairs together, and touched first when it is needed.
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

struct uro_early_packet {
    struct uro_link link;   /* of a gap, in PSN order, or free */
    struct uro_frame frame; /* its payload is the one below, all other pointers are NULL */
    uint8_t payload[URO_PATH_MTU_MAX];
};

/* What a queue pair waits for, and has behind it. */
struct uro_gap {
    struct uro_link link; /* young, old or free */
    struct uro_qp *qp;
    struct uro_list packets;
    uro_time due; /* to tell the peer, or to forget */
};

struct uro_early {
    struct uro_early_packet *packets; /* as many as gaps: each gap has one at least */
    struct uro_gap *gaps;
    uint32_t capacity;
    uint32_t packets_touched; /* those behind were never in use */
    uint32_t gaps_touched;
    struct uro_list free_packets;
    struct uro_list free_gaps;
    struct uro_list young; /* gaps that may close by themselves, the oldest first */
    struct uro_list old;   /* gaps that the peer was told, likewise */
    struct uro_timer timer;
};

/* Octets of memory for @capacity packets. */
size_t uro_early_size(uint32_t capacity);

/* @memory: uro_early_size() octets, aligned to 64. */
void uro_early_init(struct uro_early *early, uint32_t capacity, void *memory);

/* Keeps a copy of a request that is beyond the expected PSN. False when there is no place for it,
 * which uro_early_dropped() remembers; true, too, when it is kept already. */
URO_NODISCARD bool uro_early_keep(struct uro_qp *qp, const struct uro_frame *frame);

/* The kept request with the expected PSN, no longer kept, or NULL; those before it are forgotten. To be given back
 * with uro_early_release(). */
struct uro_early_packet *uro_early_take(struct uro_qp *qp);
void uro_early_release(struct uro_shard *shard, struct uro_early_packet *packet);

/* One that had no place has its turn now, or later: it must come again. */
bool uro_early_dropped(const struct uro_qp *qp);

/* What is kept waits for another packet than before: it may come by itself. */
void uro_early_again(struct uro_qp *qp);

/* Nothing is kept for the queue pair any more. */
void uro_early_forget(struct uro_qp *qp);

/* After the timer: the next queue pair whose peer must be told of a gap, or NULL. */
struct uro_qp *uro_early_overdue(struct uro_shard *shard);

/* What is wrong inside, or NULL. */
const char *uro_early_problem(const struct uro_qp *qp);
