/* SPDX-License-Identifier: BSD-3-Clause */
/* index.c - see index.h. Open addressing; the table is at most half full. */
#include "capture/index.h"

#include <stdlib.h>

#define FIRST_SIZE 64u

uint32_t uro_index_find(const struct uro_index *index, uint32_t hash, uro_index_equal *equal,
                        const void *objects, const void *key)
{
    if (index->size == 0)
        return URO_INDEX_NONE;
    for (uint32_t i = hash;; i++) {
        const struct uro_index_slot *slot = &index->slots[i & (index->size - 1)];
        if (slot->number == 0)
            return URO_INDEX_NONE;
        if (slot->hash == hash && equal(objects, slot->number - 1, key))
            return slot->number - 1;
    }
}

static void place(struct uro_index_slot *slots, uint32_t size, struct uro_index_slot slot)
{
    uint32_t i = slot.hash;

    while (slots[i & (size - 1)].number != 0)
        i++;
    slots[i & (size - 1)] = slot;
}

static bool make_larger(struct uro_index *index)
{
    const uint32_t size = index->size == 0 ? FIRST_SIZE : index->size * 2;
    struct uro_index_slot *slots = size > index->size ? calloc(size, sizeof *slots) : NULL;

    if (slots == NULL)
        return false;
    for (uint32_t i = 0; i < index->size; i++)
        if (index->slots[i].number != 0)
            place(slots, size, index->slots[i]);
    free(index->slots);
    index->slots = slots;
    index->size = size;
    return true;
}

bool uro_index_add(struct uro_index *index, uint32_t hash, uint32_t position)
{
    if (index->used >= index->size / 2 && !make_larger(index))
        return false;
    place(index->slots, index->size, (struct uro_index_slot){ hash, position + 1 });
    index->used++;
    return true;
}

void uro_index_free(struct uro_index *index)
{
    free(index->slots);
    *index = (struct uro_index){ .slots = NULL };
}

void *uro_index_grow(void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    if (*capacity > UINT32_MAX / 2)
        return NULL;
    const uint32_t larger = *capacity == 0 ? FIRST_SIZE : *capacity * 2;
    void *moved = realloc(array, larger * size);
    if (moved != NULL)
        *capacity = larger;
    return moved;
}
