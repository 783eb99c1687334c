/* SPDX-License-Identifier: BSD-3-Clause */
/* key.c - the table of registered ranges. */
#include "core/key.h"

#include "core/shard.h"

void uro_key_register(struct uro_shard *shard, struct uro_key *key)
{
    /* 0 and other small numbers are what programs pass by mistake. */
    key->node.number = uro_shard_unused(shard, &shard->keys, 32, 0x100);
    uro_table_insert(&shard->keys, &key->node);
}

void uro_key_deregister(struct uro_shard *shard, struct uro_key *key)
{
    uro_table_remove(&shard->keys, &key->node);
}

uint8_t *uro_key_resolve(const struct uro_shard *shard, uint32_t number, uint32_t pd,
                         uint32_t access, uint64_t address, uint64_t length)
{
    struct uro_table_node *node = uro_table_find(&shard->keys, number);
    if (node == NULL)
        return NULL;

    /* rule KEY.PD, KEY.RANGE */
    const struct uro_key *key = URO_CONTAINER_OF(node, struct uro_key, node);
    uint64_t offset = address - key->base;
    if (key->pd != pd || (key->access & access) != access)
        return NULL;
    if (address < key->base || offset > key->length || length > key->length - offset)
        return NULL;
    return key->memory + offset;
}
