/* SPDX-License-Identifier: BSD-3-Clause */
/* frame_ring.c - see frame_ring.h. */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include "io/engines/frame_ring.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE_SIZE 64u /* bytes of a cache line */

static size_t memory_size(const struct uro_frame_ring *ring)
{
    return (size_t)ring->slot_size * URO_FRAME_RING_SLOTS;
}

int uro_frame_ring_init(struct uro_frame_ring *ring, uint32_t frame_max)
{
    ring->slot_size = (frame_max + LINE_SIZE - 1) / LINE_SIZE * LINE_SIZE;
    ring->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (ring->fd < 0)
        return -errno;
    ring->slots = mmap(NULL, memory_size(ring), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring->slots == MAP_FAILED) {
        ring->slots = NULL;
        (void)close(ring->fd);
        return -ENOMEM;
    }
    (void)pthread_mutex_init(&ring->lock, NULL);
    return 0;
}

void uro_frame_ring_free(struct uro_frame_ring *ring)
{
    if (ring->slots == NULL)
        return;
    (void)munmap(ring->slots, memory_size(ring));
    (void)close(ring->fd);
    (void)pthread_mutex_destroy(&ring->lock);
}

void uro_frame_ring_open(struct uro_frame_ring *ring)
{
    atomic_store(&ring->head, atomic_load(&ring->tail));
    atomic_store(&ring->open, true);
}

/* Taking the lock waits for an engine that is putting a frame. */
void uro_frame_ring_close(struct uro_frame_ring *ring)
{
    (void)pthread_mutex_lock(&ring->lock);
    atomic_store(&ring->open, false);
    (void)pthread_mutex_unlock(&ring->lock);
}

uint32_t uro_frame_ring_free_count(struct uro_frame_ring *ring)
{
    if (!atomic_load(&ring->open))
        return URO_FRAME_RING_SLOTS;
    const unsigned head = atomic_load(&ring->head); /* before `tail`, which is never behind it */
    return URO_FRAME_RING_SLOTS - (atomic_load(&ring->tail) - head);
}

uint8_t *uro_frame_ring_begin(struct uro_frame_ring *ring, uint32_t length, uint32_t reserved)
{
    (void)pthread_mutex_lock(&ring->lock);
    if (uro_frame_ring_free_count(ring) <= reserved) {
        (void)pthread_mutex_unlock(&ring->lock);
        return NULL;
    }
    URO_ASSERT(length <= ring->slot_size);
    return ring->slots +
           (size_t)(atomic_load(&ring->tail) % URO_FRAME_RING_SLOTS) * ring->slot_size;
}

void uro_frame_ring_commit(struct uro_frame_ring *ring, uint32_t length, bool summed, bool weak)
{
    const unsigned tail = atomic_load(&ring->tail);
    const unsigned slot = tail % URO_FRAME_RING_SLOTS;

    ring->entries[slot].length = length;
    ring->entries[slot].summed = summed;
    ring->entries[slot].weak = weak;
    if (atomic_load(&ring->open))
        atomic_store(&ring->tail, tail + 1);
    (void)pthread_mutex_unlock(&ring->lock);
}

void uro_frame_ring_wake(struct uro_frame_ring *ring)
{
    const uint64_t one = 1;

    if (atomic_load(&ring->armed) && atomic_exchange(&ring->armed, false))
        (void)!write(ring->fd, &one, sizeof one);
}

uint32_t uro_frame_ring_lend(struct uro_frame_ring *ring, struct uro_pkt *pkts, uint32_t max)
{
    const unsigned head = atomic_load(&ring->head);
    const unsigned there = atomic_load(&ring->tail) - head;
    const uint32_t count = there < max ? there : max;

    for (uint32_t i = 0; i < count; i++) {
        const unsigned slot = (head + i) % URO_FRAME_RING_SLOTS;
        pkts[i] = (struct uro_pkt){ .octets = ring->slots + (size_t)slot * ring->slot_size,
                                    .length = ring->entries[slot].length,
                                    .summed = ring->entries[slot].summed,
                                    .weak = ring->entries[slot].weak };
    }
    return count;
}

void uro_frame_ring_release(struct uro_frame_ring *ring, uint32_t count)
{
    atomic_fetch_add(&ring->head, count);
}

bool uro_frame_ring_is_empty(struct uro_frame_ring *ring)
{
    return atomic_load(&ring->tail) == atomic_load(&ring->head);
}

/* The store to `armed` comes before the load of `tail`, and a sender stores `tail` before it loads
 * `armed`. So one of the two sees the other's store. */
bool uro_frame_ring_arm(struct uro_frame_ring *ring)
{
    atomic_store(&ring->armed, true);
    if (uro_frame_ring_is_empty(ring))
        return true;
    atomic_store(&ring->armed, false);
    return false;
}

void uro_frame_ring_disarm(struct uro_frame_ring *ring)
{
    uint64_t count;

    atomic_store(&ring->armed, false);
    (void)!read(ring->fd, &count, sizeof count);
}
