/* SPDX-License-Identifier: BSD-3-Clause */
/* srq.h - shared receive queues, basic and XRC: receives for many queue pairs.
 *
 * Posting is as for a queue pair's own receives (core/work.h). A receive leaves the queue when a
 * message begins to use it, whoever finishes first.
 */
#pragma once

#include "base/list.h"
#include "base/table.h"
#include "core/work.h"

struct uro_shard;
struct uro_cq;

/* Memory of the struct and of the slots is the caller's (lib/verbs); the struct's is aligned to 64, too:
 * malloc() does not do. */
struct uro_srq {
    struct uro_table_node node; /* node.number: of an XRC SRQ, 24 bits; 0: basic, in no table */
    uint32_t pd;
    uint32_t xrcd;     /* XRC domain; 0: basic */
    struct uro_cq *cq; /* XRC: where its receives complete; basic: NULL, as the queue pair says */
    void *user;        /* the owner's handle, for events */
    _Alignas(64) struct uro_wq wq;
    uint32_t limit; /* armed when not 0; srq.c */
    struct uro_link event_link;
};

struct uro_srq_init {
    uint32_t pd;
    uint32_t capacity; /* work requests, 1 .. URO_WR_MAX */
    uint32_t sge_max;  /* 0 .. URO_SGE_MAX */
    uint32_t xrcd;     /* 0: a basic SRQ */
    struct uro_cq *cq; /* with xrcd */
    void *user;
};

/* Octets of slot memory for @capacity requests, aligned to 64. */
size_t uro_srq_slots_size(uint32_t capacity, uint32_t sge_max);

/* Engine locked. An XRC SRQ gets a random unused number. */
void uro_srq_create(struct uro_shard *shard, struct uro_srq *srq, const struct uro_srq_init *init,
                    void *slots);

/* Engine locked; no queue pair uses a basic SRQ any more. Receives that were not used are gone. */
void uro_srq_destroy(struct uro_shard *shard, struct uro_srq *srq);

/* The limit event is raised once, when fewer than @limit receives are left after one was taken.
 * 0 disarms. Returns 0, or
 *   -EINVAL  more than the capacity */
URO_NODISCARD int uro_srq_arm(struct uro_srq *srq, uint32_t limit);

/* Engine locked, and no poster active. Moves the waiting receives, in order, into @slots
 * (uro_srq_slots_size(@capacity, wq.sge_max) octets). Returns 0, or
 *   -EINVAL  more receives wait, or a higher limit is armed, than @capacity: nothing has changed */
URO_NODISCARD int uro_srq_resize(struct uro_srq *srq, uint32_t capacity, void *slots);

static inline uint32_t uro_srq_number(const struct uro_srq *srq)
{
    return srq->node.number;
}
