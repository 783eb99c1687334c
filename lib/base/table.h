/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h - intrusive hash table from random 32-bit numbers (QPNs, keys) to objects.
 *
 * The numbers come from our own generator, so their low bits are the hash. Nodes are members of
 * their objects. The caller lends the bucket array.
 *
 * A bucket is a cache line with a few slots. A slot has the number of its node and a pointer to it,
 * so a search in the slots reads no nodes. With thousands of queue pairs, each such read is a cache
 * miss. Nodes that find no free slot are in the bucket's overflow list. The table should have about
 * as many slots as nodes.
 */
#pragma once

#include "base/defs.h"

#define URO_TABLE_SLOTS 4u /* slots of a bucket */

struct uro_table_node {
    struct uro_table_node *next; /* next node in the overflow list `more` */
    uint32_t number;
};

/* A free slot keeps the number of the node that was removed, so check the pointer. An insert uses
 * the first free slot, so a node with that number is never in a later slot. The overflow list is
 * empty unless every slot is in use. */
struct uro_table_bucket {
    _Alignas(64) uint32_t numbers[URO_TABLE_SLOTS];
    struct uro_table_node *nodes[URO_TABLE_SLOTS]; /* NULL: this slot is free */
    struct uro_table_node *more;                   /* overflow list, newest node first */
};

static_assert(sizeof(struct uro_table_bucket) == 64, "a bucket is a cache line");

struct uro_table {
    struct uro_table_bucket *buckets; /* mask + 1 buckets, all zero at first */
    uint32_t mask;                    /* 2^n - 1 */
    uint32_t count;
};

static inline struct uro_table_bucket *uro_table_bucket_of(const struct uro_table *table,
                                                           uint32_t number)
{
    return &table->buckets[number & table->mask];
}

static inline struct uro_table_node *uro_table_find(const struct uro_table *table, uint32_t number)
{
    const struct uro_table_bucket *bucket = uro_table_bucket_of(table, number);

    for (unsigned i = 0; i < URO_TABLE_SLOTS; i++)
        if (bucket->numbers[i] == number)
            return bucket->nodes[i];
    struct uro_table_node *node = bucket->more;
    while (node != NULL && node->number != number)
        node = node->next;
    return node;
}

/* Adds a node. node->number is set, and no node in the table has this number. */
static inline void uro_table_insert(struct uro_table *table, struct uro_table_node *node)
{
    struct uro_table_bucket *bucket = uro_table_bucket_of(table, node->number);

    table->count++;
    for (unsigned i = 0; i < URO_TABLE_SLOTS; i++)
        if (bucket->nodes[i] == NULL) {
            bucket->numbers[i] = node->number;
            bucket->nodes[i] = node;
            return;
        }
    node->next = bucket->more;
    bucket->more = node;
}

/* Removes a node from the table. The node must be in the table. */
static inline void uro_table_remove(struct uro_table *table, struct uro_table_node *node)
{
    struct uro_table_bucket *bucket = uro_table_bucket_of(table, node->number);
    struct uro_table_node *next = bucket->more, **link = &bucket->more;

    table->count--;
    for (unsigned i = 0; i < URO_TABLE_SLOTS; i++)
        if (bucket->nodes[i] == node) { /* the newest overflow node gets the free slot */
            bucket->nodes[i] = next;
            if (next != NULL) {
                bucket->numbers[i] = next->number;
                bucket->more = next->next;
                next->next = NULL;
            }
            return;
        }
    while (*link != node) {
        URO_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = node->next;
    node->next = NULL;
}

/* Returns the first node of @bucket or of a later bucket. */
static inline struct uro_table_node *uro_table_from(const struct uro_table *table, uint32_t bucket)
{
    for (; bucket <= table->mask; bucket++)
        for (unsigned i = 0; i < URO_TABLE_SLOTS; i++)
            if (table->buckets[bucket].nodes[i] != NULL)
                return table->buckets[bucket].nodes[i];
    return NULL;
}

/* Return the first node of the table, and the node after @node; NULL at the end. The table does not
 * change during such a walk. */
static inline struct uro_table_node *uro_table_first(const struct uro_table *table)
{
    return uro_table_from(table, 0);
}

static inline struct uro_table_node *uro_table_next(const struct uro_table *table,
                                                    const struct uro_table_node *node)
{
    const struct uro_table_bucket *bucket = uro_table_bucket_of(table, node->number);
    struct uro_table_node *next = node->next;
    unsigned i = 0;

    while (i < URO_TABLE_SLOTS && bucket->nodes[i] != node)
        i++;
    if (i < URO_TABLE_SLOTS) {
        next = bucket->more;
        for (unsigned j = URO_TABLE_SLOTS - 1; j > i; j--)
            if (bucket->nodes[j] != NULL)
                next = bucket->nodes[j];
    }
    return next != NULL ? next : uro_table_from(table, (node->number & table->mask) + 1);
}
