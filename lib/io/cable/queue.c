/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - see queue.h. */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include "io/cable/queue.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int uro_cable_queue_init(struct uro_cable_queue *queue, uint32_t frame_max)
{
    const size_t size = (size_t)URO_CABLE_SLOTS * frame_max;
    /* The kernel allocates each page at its first use. */
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return -ENOMEM;
    memset(queue, 0, sizeof *queue);
    queue->memory = memory;
    queue->slot_size = frame_max;
    for (uint32_t i = 0; i < URO_CABLE_SLOTS; i++)
        queue->ring[i].slot = (uint16_t)i;
    return 0;
}

void uro_cable_queue_fini(struct uro_cable_queue *queue)
{
    if (queue->memory != NULL)
        (void)munmap(queue->memory, (size_t)URO_CABLE_SLOTS * queue->slot_size);
    queue->memory = NULL;
}

static struct uro_cable_entry *entry(struct uro_cable_queue *queue, uint32_t index)
{
    return &queue->ring[(queue->head + index) % URO_CABLE_SLOTS];
}

static uint8_t *octets(const struct uro_cable_queue *queue, const struct uro_cable_entry *of)
{
    return queue->memory + (size_t)of->slot * queue->slot_size;
}

void uro_cable_queue_put(struct uro_cable_queue *queue, const struct uro_tx *tx, uro_time due)
{
    struct uro_cable_entry *last = entry(queue, queue->count);
    struct uro_cable_entry *before = queue->count > 0 ? entry(queue, queue->count - 1) : NULL;

    URO_ASSERT(queue->count < URO_CABLE_SLOTS && uro_tx_length(tx) <= queue->slot_size);
    last->due = due;
    last->length = uro_tx_length(tx);
    last->held = false;
    uro_tx_write(tx, octets(queue, last));
    queue->count++;
    if (before == NULL || !before->held)
        return;
    const struct uro_cable_entry overtaken = *before;
    *before = *last;
    *last = overtaken;
    last->held = false;
    last->due = due;
}

void uro_cable_queue_repeat(struct uro_cable_queue *queue)
{
    struct uro_cable_entry *copy = entry(queue, queue->count);
    const struct uro_cable_entry *last = entry(queue, queue->count - 1);

    URO_ASSERT(queue->count > 0 && queue->count < URO_CABLE_SLOTS);
    copy->due = last->due;
    copy->length = last->length;
    copy->held = false;
    memcpy(octets(queue, copy), octets(queue, last), last->length);
    queue->count++;
}

void uro_cable_queue_hold(struct uro_cable_queue *queue)
{
    struct uro_cable_entry *last = entry(queue, queue->count - 1);

    URO_ASSERT(queue->count > 0);
    last->held = true;
    last->due += URO_CABLE_HOLD_TIME;
}

uint32_t uro_cable_queue_take(struct uro_cable_queue *queue, uro_time now, struct uro_pkt *pkts,
                              uint32_t max)
{
    uint32_t taken = 0;

    while (taken < max && taken < queue->count && entry(queue, taken)->due <= now) {
        struct uro_cable_entry *first = entry(queue, taken);
        first->held = false;
        pkts[taken++] = (struct uro_pkt){ .octets = octets(queue, first), .length = first->length };
    }
    return taken;
}

void uro_cable_queue_drop(struct uro_cable_queue *queue, uint32_t count)
{
    URO_ASSERT(count <= queue->count);
    queue->head = (queue->head + count) % URO_CABLE_SLOTS;
    queue->count -= count;
}

uro_time uro_cable_queue_due(const struct uro_cable_queue *queue)
{
    return queue->count > 0 ? queue->ring[queue->head].due : URO_TIME_NEVER;
}
