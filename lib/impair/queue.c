/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - see queue.h. */
#include "impair/queue.h"

#include <string.h>

void uro_impair_queue_init(struct uro_impair_queue *queue, struct uro_impair_entry *ring,
                           uint8_t *memory, uint32_t slots, uint32_t slot_size)
{
    URO_ASSERT(slots != 0 && slots <= URO_IMPAIR_SLOTS_MAX && (slots & (slots - 1)) == 0);
    *queue = (struct uro_impair_queue){
        .ring = ring, .memory = memory, .slots = slots, .slot_size = slot_size
    };
    for (uint32_t i = 0; i < slots; i++)
        ring[i] = (struct uro_impair_entry){ .free_slot = (uint16_t)(slots - 1 - i) };
}

/* Returns a free slot. The queue is not full; the caller counts the frame afterwards. */
static uint16_t take_slot(const struct uro_impair_queue *queue)
{
    return queue->ring[uro_impair_queue_free(queue) - 1].free_slot;
}

static struct uro_impair_entry *entry(const struct uro_impair_queue *queue, uint32_t index)
{
    return &queue->ring[(queue->head + index) & (queue->slots - 1)];
}

static uint8_t *slot_of(const struct uro_impair_queue *queue, const struct uro_impair_entry *of)
{
    return queue->memory + (size_t)of->slot * queue->slot_size;
}

uint8_t *uro_impair_queue_put(struct uro_impair_queue *queue, uint32_t length, uro_time due)
{
    struct uro_impair_entry *last = entry(queue, queue->count);
    struct uro_impair_entry *before = queue->count > 0 ? entry(queue, queue->count - 1) : NULL;

    URO_ASSERT(queue->count < queue->slots && length <= queue->slot_size);
    last->due = due;
    last->length = length;
    last->held = false;
    last->slot = take_slot(queue);
    queue->newest = queue->count++;
    if (before == NULL || !before->held)
        return slot_of(queue, last);
    const uint16_t slot = last->slot;
    last->length = before->length;
    last->slot = before->slot;
    before->due = due;
    before->length = length;
    before->held = false;
    before->slot = slot;
    queue->newest--;
    return slot_of(queue, before);
}

void uro_impair_queue_repeat(struct uro_impair_queue *queue)
{
    struct uro_impair_entry *copy = entry(queue, queue->count);
    const struct uro_impair_entry *newest = entry(queue, queue->newest);

    URO_ASSERT(queue->count > 0 && queue->count < queue->slots);
    copy->due = newest->due;
    copy->length = newest->length;
    copy->held = false;
    copy->slot = take_slot(queue);
    memcpy(slot_of(queue, copy), slot_of(queue, newest), newest->length);
    queue->count++;
}

void uro_impair_queue_hold(struct uro_impair_queue *queue)
{
    struct uro_impair_entry *last = entry(queue, queue->count - 1);

    URO_ASSERT(queue->count > 0);
    last->held = true;
    last->due += URO_IMPAIR_HOLD_TIME;
}

uint32_t uro_impair_queue_ready(struct uro_impair_queue *queue, uro_time now, uint32_t max)
{
    uint32_t ready = 0;

    while (ready < max && ready < queue->count && entry(queue, ready)->due <= now)
        entry(queue, ready++)->held = false;
    return ready;
}

uint8_t *uro_impair_queue_frame(const struct uro_impair_queue *queue, uint32_t index,
                                uint32_t *length)
{
    const struct uro_impair_entry *found = entry(queue, index);

    URO_HOT_ASSERT(index < queue->count);
    *length = found->length;
    return slot_of(queue, found);
}

void uro_impair_queue_drop(struct uro_impair_queue *queue, uint32_t count)
{
    URO_ASSERT(count <= queue->count);
    for (uint32_t i = count; i > 0; i--, queue->count--)
        queue->ring[uro_impair_queue_free(queue)].free_slot = entry(queue, i - 1)->slot;
    queue->head = (queue->head + count) & (queue->slots - 1);
    queue->newest -= count;
}

uro_time uro_impair_queue_due(const struct uro_impair_queue *queue)
{
    return queue->count > 0 ? entry(queue, 0)->due : URO_TIME_NEVER;
}
