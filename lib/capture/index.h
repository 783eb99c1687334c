/* SPDX-License-Identifier: BSD-3-Clause */
/* index.h - a hash table of array positions that grows on the heap.
 *
 * The objects are elsewhere, in an array that may move. The table has only their positions, so the
 * caller supplies the hash value and the comparison.
 */
#pragma once

#include "base/defs.h"

#define URO_INDEX_NONE UINT32_MAX

struct uro_index_slot {
    uint32_t hash;
    uint32_t number; /* position + 1; 0: the slot is free */
};

struct uro_index {
    struct uro_index_slot *slots; /* size slots, a power of two; NULL: none yet */
    uint32_t size;
    uint32_t used;
};

/* Returns whether the object at @position has the key @key. */
typedef bool uro_index_equal(const void *objects, uint32_t position, const void *key);

/* Returns the position of the object with @key, or URO_INDEX_NONE. */
uint32_t uro_index_find(const struct uro_index *index, uint32_t hash, uro_index_equal *equal,
                        const void *objects, const void *key);

/* Adds a position. Returns false when out of memory; nothing has changed then. */
URO_NODISCARD bool uro_index_add(struct uro_index *index, uint32_t hash, uint32_t position);

/* Frees the table, and makes it empty. */
void uro_index_free(struct uro_index *index);

/* Returns a hash value in which all bits of @value count. */
static inline uint32_t uro_index_hash(uint64_t value)
{
    value ^= value >> 33;
    value *= UINT64_C(0xff51afd7ed558ccd);
    value ^= value >> 33;
    value *= UINT64_C(0xc4ceb9fe1a85ec53);
    return (uint32_t)(value ^ value >> 33);
}

/* Makes room for one more element of @size bytes behind @count elements. Returns the array, which
 * may have moved, or NULL when out of memory; the old array is still valid then. */
void *uro_index_grow(void *array, uint32_t count, uint32_t *capacity, size_t size);
