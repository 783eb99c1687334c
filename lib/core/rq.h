/* SPDX-License-Identifier: BSD-3-Clause */
/* rq.h - receive queues: the shared ones (basic and XRC), and the receive that a message uses.
 *
 * Posting to a shared queue works as posting to a queue pair's own queue (core/work.h). A receive
 * leaves a shared queue when a message begins to use it.
 */
#pragma once

#include "base/list.h"
#include "base/table.h"
#include "core/work.h"

struct uro_cq;
struct uro_qp;
struct uro_shard;

/* ---- shared receive queues ------------------------------------------------ */

/* The caller (lib/verbs) owns the memory of the struct and of the slots. The struct is aligned to
 * 64, more than malloc() promises. */
struct uro_srq {
    /* node.number: number of an XRC SRQ, 24 bits; 0: basic, in no table */
    struct uro_table_node node;
    uint32_t pd;
    uint32_t xrcd;     /* XRC domain; 0: basic */
    struct uro_cq *cq; /* XRC: CQ of its receives; basic: NULL, the queue pair has the CQ */
    void *user;        /* handle of the owner, for events */
    _Alignas(64) struct uro_wq wq;
    uint32_t limit; /* limit of the armed limit event, in receives; 0: not armed; rq.c */
    struct uro_link event_link;
    struct uro_link all; /* in uro_shard.srq_list; snapshot.c */
    uint32_t listed_as;  /* number in snapshots, of basic and XRC SRQs */
};

struct uro_srq_init {
    uint32_t pd;
    uint32_t capacity; /* work requests, 1 .. URO_WR_MAX */
    uint32_t sge_max;  /* 0 .. URO_SGE_MAX */
    uint32_t xrcd;     /* 0: a basic SRQ */
    struct uro_cq *cq; /* CQ of an XRC SRQ; basic: NULL */
    void *user;
};

/* Returns the number of bytes of slot memory, which is aligned to 64, for @capacity requests. */
size_t uro_srq_slots_size(uint32_t capacity, uint32_t sge_max);

/* Creates a shared receive queue. An XRC SRQ gets a random unused number. Engine locked. */
void uro_srq_create(struct uro_shard *shard, struct uro_srq *srq, const struct uro_srq_init *init,
                    void *slots);

/* Destroys a shared receive queue, and drops its unused receives. No queue pair uses a basic SRQ
 * any more. Engine locked. */
void uro_srq_destroy(struct uro_shard *shard, struct uro_srq *srq);

/* Arms the limit event. It is raised once, when fewer than @limit receives are left after a receive
 * was taken. @limit 0 disarms it. Returns 0, or
 *   -EINVAL  @limit exceeds the capacity */
URO_NODISCARD int uro_srq_arm(struct uro_srq *srq, uint32_t limit);

/* Moves a basic SRQ that no queue pair uses to another shard of the device. Both engines locked. */
void uro_srq_move(struct uro_shard *from, struct uro_shard *to, struct uro_srq *srq);

/* Moves the waiting receives, in order, to @slots (uro_srq_slots_size(@capacity, wq.sge_max)
 * bytes). Engine locked, and no poster active. Returns 0, or
 *   -EINVAL  more than @capacity receives wait, or the armed limit exceeds @capacity: nothing has
 *            changed */
URO_NODISCARD int uro_srq_resize(struct uro_srq *srq, uint32_t capacity, void *slots);

static inline uint32_t uro_srq_number(const struct uro_srq *srq)
{
    return srq->node.number;
}

/* ---- the receive of a message; for core/ only -------------------------------
 *
 * @srq is the shared queue that the message uses; NULL: the queue pair's own queue. A receive in
 * use by a message that is dropped stays in use for the next message (UC). */

/* Returns the receive in use, or the receive that would be taken next. Returns NULL when none is
 * posted. */
const struct uro_rqe *uro_rq_look(const struct uro_qp *qp, const struct uro_srq *srq);

/* Takes the receive that uro_rq_look() returned into use. A shared receive leaves its queue. */
const struct uro_rqe *uro_rq_take(struct uro_qp *qp, struct uro_srq *srq);

/* Ends the use of the receive. The caller writes its completion before or after this call. */
void uro_rq_finish(struct uro_qp *qp);

/* Returns the CQ of the receives. */
struct uro_cq *uro_rq_cq(const struct uro_qp *qp, const struct uro_srq *srq);

/* Returns the protection domain of the keys in the receives. */
uint32_t uro_rq_pd(const struct uro_qp *qp, const struct uro_srq *srq);
