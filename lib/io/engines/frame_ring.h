/* SPDX-License-Identifier: BSD-3-Clause */
/* frame_ring.h - frames on the way to an engine of the same device.
 *
 * Any engine puts frames, one at a time under a lock. One engine takes them, without a lock. A
 * ring that is not open discards frames.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "core/pkt.h"

#define URO_FRAME_RING_SLOTS 512u

struct uro_frame_ring {
    pthread_mutex_t lock; /* held while an engine puts a frame */
    atomic_bool open;
    atomic_bool armed; /* the next frame must wake the receiver */
    int fd;            /* eventfd that wakes the receiver */
    uint8_t *slots;
    uint32_t slot_size; /* bytes */
    /* Numbers of frames since the ring was created. The receiver writes `head`. */
    _Alignas(64) atomic_uint head; /* frames released */
    _Alignas(64) atomic_uint tail; /* frames put */
    struct {
        uint32_t length;
        bool summed, weak; /* see struct uro_pkt */
    } entries[URO_FRAME_RING_SLOTS];
};

/* Creates a ring that is not open, for frames of at most @frame_max bytes. Returns 0 or -errno. */
URO_NODISCARD int uro_frame_ring_init(struct uro_frame_ring *ring, uint32_t frame_max);
void uro_frame_ring_free(struct uro_frame_ring *ring);

/* Opens the ring, and discards frames that are still in the ring. Receiver only. */
void uro_frame_ring_open(struct uro_frame_ring *ring);
void uro_frame_ring_close(struct uro_frame_ring *ring);

/* Returns the number of free slots. Other threads may change it. */
uint32_t uro_frame_ring_free_count(struct uro_frame_ring *ring);

/* Returns the slot for a frame of @length bytes, and takes the lock until uro_frame_ring_commit().
 * Returns NULL, without the lock, if at most @reserved slots are free. */
uint8_t *uro_frame_ring_begin(struct uro_frame_ring *ring, uint32_t length, uint32_t reserved);
/* Puts the frame that was written to the slot. */
void uro_frame_ring_commit(struct uro_frame_ring *ring, uint32_t length, bool summed, bool weak);
/* Wakes the receiver if it sleeps. Call this after the last frame of a burst. */
void uro_frame_ring_wake(struct uro_frame_ring *ring);

/* Lends at most @max frames until uro_frame_ring_release(). Returns their number. Receiver only. */
uint32_t uro_frame_ring_lend(struct uro_frame_ring *ring, struct uro_pkt *pkts, uint32_t max);
void uro_frame_ring_release(struct uro_frame_ring *ring, uint32_t count);
bool uro_frame_ring_is_empty(struct uro_frame_ring *ring);

/* Requests a wake-up by the next frame. Returns false if there are frames. Receiver only. */
bool uro_frame_ring_arm(struct uro_frame_ring *ring);
void uro_frame_ring_disarm(struct uro_frame_ring *ring);
