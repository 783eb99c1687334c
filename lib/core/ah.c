/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.c - the table of address handles. */
#include "core/ah.h"

#include "core/shard.h"

void uro_ah_create(struct uro_shard *shard, struct uro_ah *ah, uint32_t pd,
                   const struct uro_address *address)
{
    ah->pd = pd;
    /* The source port is the sending queue pair's: uro_path_seal_from(). */
    uro_path_init(&ah->path, shard, address, uro_shard_path_mtu_ever(shard), 0);
    ah->node.number = uro_shard_unused(shard, &shard->ahs, 32, 1);
    uro_table_insert(&shard->ahs, &ah->node);
}

void uro_ah_destroy(struct uro_shard *shard, struct uro_ah *ah)
{
    uro_table_remove(&shard->ahs, &ah->node);
}

struct uro_ah *uro_ah_find(const struct uro_shard *shard, uint32_t number, uint32_t pd)
{
    struct uro_table_node *node = uro_table_find(&shard->ahs, number);

    if (node == NULL)
        return NULL;
    struct uro_ah *ah = URO_CONTAINER_OF(node, struct uro_ah, node);
    return ah->pd == pd ? ah : NULL;
}
