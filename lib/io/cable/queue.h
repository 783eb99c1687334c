/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - the frames in flight to one end of a cable, in order of arrival. */
#pragma once

#include "base/time.h"
#include "core/pkt.h"
#include "core/tx.h"

#define URO_CABLE_SLOTS     1024u     /* frames in flight in one direction */
#define URO_CABLE_HOLD_TIME URO_MS(1) /* longest wait of a frame for the frame that overtakes it */

struct uro_cable_entry {
    uro_time due;    /* arrival time */
    uint32_t length; /* length of the frame, bytes */
    uint16_t slot;
    bool held; /* waits for the next frame to overtake it */
};

/* Each slot is in exactly one entry of the ring. Entries after the frames have the free slots. */
struct uro_cable_queue {
    uint8_t *memory;    /* URO_CABLE_SLOTS slots */
    uint32_t slot_size; /* size of a slot: the longest frame, bytes */
    uint32_t head, count;
    struct uro_cable_entry ring[URO_CABLE_SLOTS];
};

/* Allocates an empty queue. Returns 0 or -ENOMEM. */
URO_NODISCARD int uro_cable_queue_init(struct uro_cable_queue *queue, uint32_t frame_max);
void uro_cable_queue_fini(struct uro_cable_queue *queue);

/* Adds the frame at the end, or in front of the last frame if that frame is held. The queue is not
 * full. */
void uro_cable_queue_put(struct uro_cable_queue *queue, const struct uro_tx *tx, uro_time due);
/* Adds a copy of the frame that was put last. The queue is not full. */
void uro_cable_queue_repeat(struct uro_cable_queue *queue);
/* Holds the last frame until the next frame overtakes it, or for URO_CABLE_HOLD_TIME. */
void uro_cable_queue_hold(struct uro_cable_queue *queue);

/* Lends at most @max frames that are due, until uro_cable_queue_drop(). Returns the number of
 * frames. */
uint32_t uro_cable_queue_take(struct uro_cable_queue *queue, uro_time now, struct uro_pkt *pkts,
                              uint32_t max);
/* Frees the first @count frames. */
void uro_cable_queue_drop(struct uro_cable_queue *queue, uint32_t count);

/* Returns the arrival time of the first frame, or URO_TIME_NEVER when the queue is empty. */
uro_time uro_cable_queue_due(const struct uro_cable_queue *queue);
