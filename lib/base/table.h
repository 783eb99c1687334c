/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h - intrusive hash table from random 32-bit numbers (QPNs, keys) to objects.
 *
 * The numbers come from our own generator, so their low bits are the hash. Nodes live in their
 * objects; the table owns nothing but the bucket array, lent by the caller.
 *
 * A bucket is a cache line: the numbers of its first nodes stand beside them, so that nobody who is
 * not asked for is looked at. With thousands of queue pairs each such look is a wait for memory.
 * Those without a place are a list: there should be about as many places as nodes.
 */
#pragma once

#include "base/defs.h"

#define URO_TABLE_PLACES 4u /* of a bucket */

struct uro_table_node {
    struct uro_table_node *next; /* in `more` */
    uint32_t number;
};

/* A free place keeps the number of who left it. Nobody of that number is behind: who comes takes
 * the first free place, and while somebody has none, none is free. */
struct uro_table_bucket {
    _Alignas(64) uint32_t numbers[URO_TABLE_PLACES];
    struct uro_table_node *nodes[URO_TABLE_PLACES]; /* NULL: this place is free */
    struct uro_table_node *more;                    /* who found no place, newest first */
};

static_assert(sizeof(struct uro_table_bucket) == 64, "a bucket is a cache line");

struct uro_table {
    struct uro_table_bucket *buckets; /* mask + 1 of them, all zero at first */
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

    for (unsigned i = 0; i < URO_TABLE_PLACES; i++)
        if (bucket->numbers[i] == number)
            return bucket->nodes[i];
    struct uro_table_node *node = bucket->more;
    while (node != NULL && node->number != number)
        node = node->next;
    return node;
}

/* node->number is set and not in the table. */
static inline void uro_table_insert(struct uro_table *table, struct uro_table_node *node)
{
    struct uro_table_bucket *bucket = uro_table_bucket_of(table, node->number);

    table->count++;
    for (unsigned i = 0; i < URO_TABLE_PLACES; i++)
        if (bucket->nodes[i] == NULL) {
            bucket->numbers[i] = node->number;
            bucket->nodes[i] = node;
            return;
        }
    node->next = bucket->more;
    bucket->more = node;
}

/* The node is in the table. */
static inline void uro_table_remove(struct uro_table *table, struct uro_table_node *node)
{
    struct uro_table_bucket *bucket = uro_table_bucket_of(table, node->number);
    struct uro_table_node *next = bucket->more, **at = &bucket->more;

    table->count--;
    for (unsigned i = 0; i < URO_TABLE_PLACES; i++)
        if (bucket->nodes[i] == node) { /* the newest of those without a place has it */
            bucket->nodes[i] = next;
            if (next != NULL) {
                bucket->numbers[i] = next->number;
                bucket->more = next->next;
                next->next = NULL;
            }
            return;
        }
    while (*at != node) {
        URO_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
}

/* Returns the first node of @bucket or of a later bucket. */
static inline struct uro_table_node *uro_table_from(const struct uro_table *table, uint32_t bucket)
{
    for (; bucket <= table->mask; bucket++)
        for (unsigned i = 0; i < URO_TABLE_PLACES; i++)
            if (table->buckets[bucket].nodes[i] != NULL)
                return table->buckets[bucket].nodes[i];
    return NULL;
}

/* The first of all nodes, and the one after @node; NULL when there is none. Nobody comes or goes
 * meanwhile. */
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

    while (i < URO_TABLE_PLACES && bucket->nodes[i] != node)
        i++;
    if (i < URO_TABLE_PLACES) {
        next = bucket->more;
        for (unsigned j = URO_TABLE_PLACES - 1; j > i; j--)
            if (bucket->nodes[j] != NULL)
                next = bucket->nodes[j];
    }
    return next != NULL ? next : uro_table_from(table, (node->number & table->mask) + 1);
}
