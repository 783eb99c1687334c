/* SPDX-License-Identifier: BSD-3-Clause */
/* hash.h - intrusive hash table that grows with its number of nodes, one bucket at a time (linear
 * hashing).
 *
 * Nodes are members of their objects. The caller provides the array of buckets at its largest size.
 * The table writes only the buckets in use. Each call moves the nodes of at most one bucket, so
 * that no call takes long.
 *
 * base/table.h has faster look-ups, but a fixed size and no two nodes with the same number.
 */
#pragma once

#include "base/defs.h"

struct uro_hash_node {
    struct uro_hash_node *next;
    /* address of the pointer to this node; NULL: the node is in no table */
    struct uro_hash_node **pprev;
    uint32_t number; /* hash value, evenly distributed; its low bits choose the bucket */
};

struct uro_hash {
    struct uro_hash_node **buckets; /* array of buckets_max entries */
    uint32_t buckets_max;
    uint32_t used; /* number of buckets in use: buckets[0 .. used) */
    uint32_t mask; /* 2^n - 1: used is from mask + 1 to 2 * mask + 1 */
    uint32_t count;
};

static inline size_t uro_hash_size(uint32_t buckets_max)
{
    return buckets_max * sizeof(struct uro_hash_node *);
}

/* Initialises the table. @memory: uro_hash_size() bytes with any content. @buckets_max: 1 or
 * more. */
static inline void uro_hash_init(struct uro_hash *hash, void *memory, uint32_t buckets_max)
{
    *hash = (struct uro_hash){ .buckets = memory, .buckets_max = buckets_max, .used = 1 };
    hash->buckets[0] = NULL;
}

static inline uint32_t uro_hash_bucket(const struct uro_hash *hash, uint32_t number)
{
    const uint32_t wide = number & (2 * hash->mask + 1);

    return wide < hash->used ? wide : number & hash->mask;
}

/* Returns the newest node of @number, or NULL. */
static inline struct uro_hash_node *uro_hash_find(const struct uro_hash *hash, uint32_t number)
{
    struct uro_hash_node *node = hash->buckets[uro_hash_bucket(hash, number)];

    while (node != NULL && node->number != number)
        node = node->next;
    return node;
}

/* Returns the next older node with the number of @node, or NULL. */
static inline struct uro_hash_node *uro_hash_next(const struct uro_hash_node *node)
{
    const uint32_t number = node->number;
    struct uro_hash_node *next = node->next;

    while (next != NULL && next->number != number)
        next = next->next;
    return next;
}

/* Takes one more bucket into use. Bucket used - (mask + 1) is split: nodes whose next bit is set
 * move to the new bucket. Nodes with the same number keep their order. */
static inline void uro_hash_grow(struct uro_hash *hash)
{
    struct uro_hash_node **from = &hash->buckets[hash->used & hash->mask];
    struct uro_hash_node **to = &hash->buckets[hash->used];

    *to = NULL;
    while (*from != NULL) {
        struct uro_hash_node *node = *from;
        if ((node->number & (2 * hash->mask + 1)) != hash->used) {
            from = &node->next;
            continue;
        }
        *from = node->next;
        if (node->next != NULL)
            node->next->pprev = from;
        node->next = NULL;
        node->pprev = to;
        *to = node;
        to = &node->next;
    }
    hash->used++;
    if (hash->used > 2 * hash->mask + 1)
        hash->mask = 2 * hash->mask + 1;
}

/* Inserts a node that is in no table. node->number is set; several nodes may have the same
 * number. */
static inline void uro_hash_insert(struct uro_hash *hash, struct uro_hash_node *node)
{
    URO_ASSERT(node->pprev == NULL);
    if (hash->count >= hash->used && hash->used < hash->buckets_max)
        uro_hash_grow(hash);
    struct uro_hash_node **bucket = &hash->buckets[uro_hash_bucket(hash, node->number)];
    node->next = *bucket;
    node->pprev = bucket;
    if (node->next != NULL)
        node->next->pprev = &node->next;
    *bucket = node;
    hash->count++;
}

/* Removes the node; does nothing if the node is in no table. */
static inline void uro_hash_remove(struct uro_hash *hash, struct uro_hash_node *node)
{
    if (node->pprev == NULL)
        return;
    *node->pprev = node->next;
    if (node->next != NULL)
        node->next->pprev = node->pprev;
    node->next = NULL;
    node->pprev = NULL;
    hash->count--;
}
