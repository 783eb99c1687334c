/* SPDX-License-Identifier: BSD-3-Clause */
/* shard.c - initialises a shard, draws QPNs, and knows its MTU and its own addresses. */
#include "core/shard.h"

#include <string.h>

#include "base/mark.h"
#include "core/limits.h"

/* log2 of the factor by which the tables of handles and of XRC SRQs are smaller. */
#define SMALLER 2u

#define QPN_LEAST 16u /* 0 and 1 are special; users type other small numbers by mistake */

static size_t buckets_of(uint32_t slot_bits)
{
    size_t slots = (size_t)1 << slot_bits;

    return slots > URO_TABLE_SLOTS ? slots / URO_TABLE_SLOTS : 1;
}

/* Returns the number of buckets of a table for few objects. */
static size_t few(const struct uro_shard_config *config)
{
    return buckets_of(config->table_bits > SMALLER ? config->table_bits - SMALLER : 0);
}

static size_t many(const struct uro_shard_config *config)
{
    return buckets_of(config->table_bits);
}

static size_t bucket_bytes(const struct uro_shard_config *config)
{
    return 2 * (many(config) + few(config)) * sizeof(struct uro_table_bucket);
}

size_t uro_shard_table_size(const struct uro_shard_config *config)
{
    return bucket_bytes(config) + uro_touch_size();
}

static struct uro_table_bucket *init_table(struct uro_table *table,
                                           struct uro_table_bucket *buckets, size_t count)
{
    *table = (struct uro_table){ .buckets = buckets, .mask = (uint32_t)count - 1 };
    return buckets + count;
}

void uro_shard_init(struct uro_shard *shard, const struct uro_shard_config *config, void *tables,
                    struct uro_record *record, uro_time now)
{
    struct uro_table_bucket *buckets = tables;

    memset(tables, 0, bucket_bytes(config));
    shard->counters = &record->counters;
    memset(record, 0, sizeof *record);
    shard->config = *config;
    atomic_init(&shard->mtu, config->mtu);
    uro_wheel_init(&shard->wheel, now);
    uro_rng_init(&shard->rng, config->seed);
    buckets = init_table(&shard->qps, buckets, many(config));
    buckets = init_table(&shard->own_keys.table, buckets, many(config));
    buckets = init_table(&shard->ahs, buckets, few(config));
    (void)init_table(&shard->srqs, buckets, few(config));
    shard->own_keys.on_demand = 0;
    shard->keys = config->keys != NULL ? config->keys : &shard->own_keys;
    shard->copies = (uint8_t *)tables + bucket_bytes(config);
    shard->copied = 0;
    shard->attempt = NULL;
    for (unsigned i = 0; i < URO_SHARD_GROUP_BUCKETS; i++)
        uro_list_init(&shard->groups[i]);
    uro_list_init(&shard->acks);
    uro_list_init(&shard->responses);
    shard->deferred = (struct uro_deferred){ 0 };
    uro_list_init(&shard->deferred.waiting[0]);
    uro_list_init(&shard->deferred.waiting[1]);
    uro_list_init(&shard->requests);
    uro_list_init(&shard->sent);
    uro_list_init(&shard->cq_events);
    uro_list_init(&shard->cqs);
    uro_list_init(&shard->srq_list);
    shard->cq_count = shard->cq_number = 0;
    shard->srq_count = shard->srq_number = 0;
    shard->qpn_prefix = config->qpn_prefix;
    uro_list_init(&shard->qp_events);
    uro_list_init(&shard->srq_events);
    shard->requests_first = false;
    shard->no_receive = (struct uro_no_receive){ 0 };
    shard->observer = NULL;
    shard->now = now;
    atomic_init(&shard->doorbells.first, NULL);
}

bool uro_shard_owns(const struct uro_shard *shard, const struct uro_gid *address)
{
    for (uint32_t i = 0; i < shard->config.gid_count; i++)
        if (uro_gid_equal(&shard->config.gids[i], address))
            return true;
    return false;
}

uint32_t uro_shard_mtu(const struct uro_shard *shard)
{
    return atomic_load_explicit(&shard->mtu, memory_order_relaxed);
}

uint32_t uro_shard_payload_of(uint32_t packet)
{
    uint32_t mtu = URO_PATH_MTU_MAX;

    while (mtu > URO_PATH_MTU_MIN && mtu + URO_ROCE_OVERHEAD > packet)
        mtu /= 2;
    return mtu;
}

uint32_t uro_shard_path_mtu(const struct uro_shard *shard)
{
    return uro_shard_payload_of(uro_shard_mtu(shard));
}

uint32_t uro_shard_path_mtu_ever(const struct uro_shard *shard)
{
    return uro_shard_payload_of(shard->config.mtu);
}

uint32_t uro_shard_unused(struct uro_shard *shard, const struct uro_table *table, unsigned bits,
                          uint32_t least)
{
    uint32_t number;

    URO_MARK("QP.NUMBERS");
    do
        number = uro_rng_u32(&shard->rng) >> (32 - bits);
    while (number < least || uro_table_find(table, number) != NULL);
    return number;
}

static bool is_unused_qpn(const struct uro_shard *shard, uint32_t number)
{
    return number >= QPN_LEAST && number != URO_QPN_MULTICAST &&
           uro_table_find(&shard->qps, number) == NULL;
}

uint32_t uro_shard_unused_qpn(struct uro_shard *shard)
{
    /* A common prefix is not 0, because 0 means that there is none yet. */
    const uint32_t least = shard->config.one_qpn_prefix ? 1u << URO_QPN_OWN_BITS : QPN_LEAST;
    uint32_t any, number;

    do {
        any = number = uro_shard_unused(shard, &shard->qps, URO_QPN_BITS, least);
        if (shard->qpn_prefix == 0 && shard->config.one_qpn_prefix)
            shard->qpn_prefix = any >> URO_QPN_OWN_BITS;
        if (shard->qpn_prefix != 0)
            number = (any & ((1u << URO_QPN_OWN_BITS) - 1)) | shard->qpn_prefix << URO_QPN_OWN_BITS;
        if (shard->config.qpn_prefix == 0 && !is_unused_qpn(shard, number))
            number = any;
    } while (!is_unused_qpn(shard, number));
    return number;
}
