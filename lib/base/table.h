/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h - intrusive hash table from random 32-bit numbers (QPNs, keys) to objects.
 *
 * The numbers come from our own generator, so their low bits are the hash. Nodes live in their
 * objects; the table owns nothing but the bucket array, lent by the caller.
 */
#pragma once

#include "base/defs.h"

struct uro_table_node {
    struct uro_table_node *next;
    uint32_t number;
};

struct uro_table {
    struct uro_table_node **buckets; /* mask + 1 of them, all NULL at first */
    uint32_t mask;                   /* 2^n - 1 */
    uint32_t count;
};

static inline struct uro_table_node *uro_table_find(const struct uro_table *table, uint32_t number)
{
    struct uro_table_node *node = table->buckets[number & table->mask];
    while (node != NULL && node->number != number)
        node = node->next;
    return node;
}

/* node->number is set and not in the table. */
static inline void uro_table_insert(struct uro_table *table, struct uro_table_node *node)
{
    struct uro_table_node **bucket = &table->buckets[node->number & table->mask];
    node->next = *bucket;
    *bucket = node;
    table->count++;
}

/* The node is in the table. */
static inline void uro_table_remove(struct uro_table *table, struct uro_table_node *node)
{
    struct uro_table_node **at = &table->buckets[node->number & table->mask];
    while (*at != node) {
        URO_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
    table->count--;
}
