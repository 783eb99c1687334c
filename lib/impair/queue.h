/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - delayed frames, in order of arrival. A frame overtakes an earlier frame only if the
 * earlier frame is held. */
#pragma once

#include "base/time.h"

#define URO_IMPAIR_SLOTS_MAX 65536u
#define URO_IMPAIR_HOLD_TIME URO_MS(1) /* longest wait of a frame for the frame that overtakes it */

struct uro_impair_entry {
    uro_time due;    /* arrival time */
    uint32_t length; /* bytes of the frame */
    uint16_t slot;
    bool held;          /* waits for the next frame to overtake it */
    uint16_t free_slot; /* an entry of the stack of free slots; unrelated to this frame */
};

/* The entries are a ring of frames and, in `free_slot`, a stack of the slots that no frame has. The
 * slot that was freed last is used first, so that it is still in a cache. */
struct uro_impair_queue {
    struct uro_impair_entry *ring; /* `slots` entries */
    uint8_t *memory;               /* `slots` slots */
    uint32_t slots;                /* a power of two */
    uint32_t slot_size;            /* bytes */
    uint32_t head, count;
    uint32_t newest; /* index of the newest frame, counted from head */
};

/* Initializes an empty queue. @slots: a power of two, at most URO_IMPAIR_SLOTS_MAX. @ring and
 * @memory belong to the caller; the queue writes only the slots that it needs. */
void uro_impair_queue_init(struct uro_impair_queue *queue, struct uro_impair_entry *ring,
                           uint8_t *memory, uint32_t slots, uint32_t slot_size);

static inline uint32_t uro_impair_queue_free(const struct uro_impair_queue *queue)
{
    return queue->slots - queue->count;
}

/* Adds a frame of @length bytes at the end, or in front of the last frame if the last frame is
 * held. Returns its slot, which the caller must fill. The queue is not full. */
uint8_t *uro_impair_queue_put(struct uro_impair_queue *queue, uint32_t length, uro_time due);
/* Adds a copy of the frame that was put last. The queue is not full. */
void uro_impair_queue_repeat(struct uro_impair_queue *queue);
/* Holds the last frame until the next frame overtakes it, or for URO_IMPAIR_HOLD_TIME. */
void uro_impair_queue_hold(struct uro_impair_queue *queue);

/* Returns the number of frames that are due, at most @max, beginning with the first. The next frame
 * does not overtake them any more. */
uint32_t uro_impair_queue_ready(struct uro_impair_queue *queue, uro_time now, uint32_t max);
/* Returns the slot of the frame @index, counted from the first. */
uint8_t *uro_impair_queue_frame(const struct uro_impair_queue *queue, uint32_t index,
                                uint32_t *length);
/* Frees the first @count frames. */
void uro_impair_queue_drop(struct uro_impair_queue *queue, uint32_t count);

/* Returns the arrival time of the first frame, or URO_TIME_NEVER when the queue is empty. */
uro_time uro_impair_queue_due(const struct uro_impair_queue *queue);
