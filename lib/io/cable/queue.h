/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - the frames on their way to one end of a cable, in the order in which they will arrive. */
#pragma once

#include "base/time.h"
#include "core/pkt.h"
#include "core/tx.h"

#define URO_CABLE_SLOTS 1024u /* frames in flight in one direction */
#define URO_CABLE_HOLD_TIME                                                                        \
    URO_MS(1) /* a frame that is to be overtaken waits at most so long for another one */

struct uro_cable_entry {
    uro_time due;    /* when the frame arrives */
    uint32_t length; /* bytes */
    uint16_t slot;
    bool held; /* waits for the next frame to overtake it */
};

/* Each slot stands in exactly one entry of the ring; those behind the frames are free. */
struct uro_cable_queue {
    uint8_t *memory;    /* URO_CABLE_SLOTS slots */
    uint32_t slot_size; /* bytes, the longest frame */
    uint32_t head, count;
    struct uro_cable_entry ring[URO_CABLE_SLOTS];
};

/* Returns 0 or -ENOMEM. */
URO_NODISCARD int uro_cable_queue_init(struct uro_cable_queue *queue, uint32_t frame_max);
void uro_cable_queue_fini(struct uro_cable_queue *queue);

/* Writes the frame behind the others; in front of the last one, when that is held. The queue is not full. */
void uro_cable_queue_put(struct uro_cable_queue *queue, const struct uro_tx *tx, uro_time due);
/* Adds a copy of the frame that was put last. The queue is not full. */
void uro_cable_queue_repeat(struct uro_cable_queue *queue);
/* The last frame waits for the next one to overtake it. */
void uro_cable_queue_hold(struct uro_cable_queue *queue);

/* Lends at most @room frames that are due, until uro_cable_queue_drop(); returns how many. */
uint32_t uro_cable_queue_take(struct uro_cable_queue *queue, uro_time now, struct uro_pkt *pkts,
                              uint32_t room);
/* Frees the first @count frames. */
void uro_cable_queue_drop(struct uro_cable_queue *queue, uint32_t count);

/* When the first frame arrives; URO_TIME_NEVER when there is none. */
uro_time uro_cable_queue_due(const struct uro_cable_queue *queue);
