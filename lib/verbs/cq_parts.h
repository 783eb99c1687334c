/* SPDX-License-Identifier: BSD-3-Clause */
/* cq_parts.h - the completions of a CQ whose queue pairs are on several engines of the device.
 *
 * The completion vector chooses the engine of a CQ. That engine writes to cq->core. A queue pair on
 * another engine, because of its SRQ or its other CQ, cannot write there. The CQ then gets a part
 * for the other engine, of the same size. A poll takes completions from all parts. A poll that
 * finds none runs all their engines.
 */
#pragma once

#include "verbs/objects.h"

struct uro_cq_parts {
    uint32_t engines;    /* engines of the device */
    uint32_t next;       /* index of the engine with which the next poll begins; CQ lock */
    atomic_uint count;   /* number of parts */
    atomic_uint armed;   /* enum uro_cq_arm of the whole CQ */
    atomic_bool overrun; /* cq->core or a part has overflowed, so all of them fail */
    struct uro_cq *_Atomic cores[]; /* the part of each engine, or NULL */
};

/* Prepares the CQ for parts, if the device has several @engines. Returns false when out of
 * memory. */
URO_NODISCARD bool uro_cq_parts_init(struct uro_ibv_cq *cq, uint32_t engines);

/* Returns the struct for completions of queue pairs and SRQs of @engine: cq->core, or a part, which
 * the first call creates. Returns NULL when out of memory. The caller holds no engine lock. */
struct uro_cq *uro_cq_parts_of(struct uro_ibv_cq *cq, struct uro_device *engine);

/* Returns whether the CQ has parts beside cq->core. Thread: any. */
static inline bool uro_cq_parts_used(const struct uro_ibv_cq *cq)
{
    return cq->parts != NULL && atomic_load_explicit(&cq->parts->count, memory_order_relaxed) != 0;
}

/* Takes at most @max completions from cq->core and the parts, and returns their number. Each call
 * begins with another part. CQ lock held. */
uint32_t uro_cq_parts_poll(struct uro_ibv_cq *cq, struct uro_cqe *out, uint32_t max);

/* Call uro_device_progress() or uro_device_hand_over() for the engines of the parts. */
void uro_cq_parts_progress(struct uro_ibv_cq *cq);
void uro_cq_parts_hand_over(struct uro_ibv_cq *cq);

/* Arms the parts. Call this before cq->core is armed. CQ lock held. */
void uro_cq_parts_arm(struct uro_ibv_cq *cq, bool solicited_only);

/* Returns whether the program gets this completion event. After the CQ was armed, each part may
 * raise an event. The program gets only the earliest of them. */
bool uro_cq_parts_take_event(struct uro_ibv_cq *cq);

/* Lets all parts fail after an overrun of one part. Returns whether this overrun is the first: the
 * program gets only its event. Engine lock of the part held. */
bool uro_cq_parts_take_overrun(struct uro_ibv_cq *cq);

/* Removes the parts from their engines. */
void uro_cq_parts_fini(struct uro_ibv_cq *cq);
/* Frees the parts. */
void uro_cq_parts_free(struct uro_ibv_cq *cq);
