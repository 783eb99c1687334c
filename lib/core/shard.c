/* SPDX-License-Identifier: BSD-3-Clause */
/* shard.c - puts a shard together. */
#include "core/shard.h"

#include <string.h>

size_t uro_shard_table_size(const struct uro_shard_config *config)
{
    return 2 * (sizeof(struct uro_table_node *) << config->table_bits);
}

static void init_table(struct uro_table *table, struct uro_table_node **buckets, unsigned bits)
{
    *table = (struct uro_table){ .buckets = buckets, .mask = (1u << bits) - 1 };
}

void uro_shard_init(struct uro_shard *shard, const struct uro_shard_config *config, void *tables,
                    uro_time now)
{
    struct uro_table_node **buckets = tables;

    memset(tables, 0, uro_shard_table_size(config));
    memset(&shard->counters, 0, sizeof shard->counters);
    shard->config = *config;
    uro_wheel_init(&shard->wheel, now);
    uro_rng_init(&shard->rng, config->seed);
    init_table(&shard->qps, buckets, config->table_bits);
    init_table(&shard->keys, buckets + ((size_t)1 << config->table_bits), config->table_bits);
    uro_list_init(&shard->responses);
    uro_list_init(&shard->requests);
    uro_list_init(&shard->cq_events);
    uro_list_init(&shard->qp_events);
    shard->requests_owed = false;
    shard->now = now;
    atomic_init(&shard->bells.first, NULL);
}

/* rule QP.NUMBERS */
uint32_t uro_shard_unused(struct uro_shard *shard, const struct uro_table *table, unsigned bits,
                          uint32_t least)
{
    uint32_t number;

    do
        number = uro_rng_u32(&shard->rng) >> (32 - bits);
    while (number < least || uro_table_find(table, number) != NULL);
    return number;
}
