/* SPDX-License-Identifier: BSD-3-Clause */
/* key.h - registered memory: who may touch which octets by which 32-bit key. */
#pragma once

#include "base/table.h"

struct uro_shard;

/* Values equal enum ibv_access_flags. */
#define URO_ACCESS_LOCAL_WRITE   (1u << 0)
#define URO_ACCESS_REMOTE_WRITE  (1u << 1)
#define URO_ACCESS_REMOTE_READ   (1u << 2)
#define URO_ACCESS_REMOTE_ATOMIC (1u << 3)
#define URO_ACCESS_MW_BIND       (1u << 4)
#define URO_ACCESS_ZERO_BASED    (1u << 5)
#define URO_ACCESS_ON_DEMAND     (1u << 6)
#define URO_ACCESS_HUGETLB       (1u << 7)
#define URO_ACCESS_OPTIONAL      0x3ff00000u /* IBV_ACCESS_OPTIONAL_RANGE: may be ignored */

/* One registered range. Memory of the struct is the caller's (lib/verbs); valid from register to
 * deregister. lkey and rkey are the same number. */
struct uro_key {
    struct uro_table_node node; /* node.number is the key */
    uint32_t pd;
    uint32_t access;
    uint64_t base;   /* first address as keys are used with: iova, 0 when ZERO_BASED */
    uint64_t length; /* octets */
    uint8_t *memory; /* where base is in this process */
};

static inline uint32_t uro_key_number(const struct uro_key *key)
{
    return key->node.number;
}

/* Engine locked. Fills in a random unused key for the range that @key describes. */
void uro_key_register(struct uro_shard *shard, struct uro_key *key);

/* Engine locked. After this returns no packet touches the memory. */
void uro_key_deregister(struct uro_shard *shard, struct uro_key *key);

/* Where @length octets at @address are, if @number is a key of @pd with all rights in @access and
 * the range lies inside it (overflow-safe); NULL otherwise. */
uint8_t *uro_key_resolve(const struct uro_shard *shard, uint32_t number, uint32_t pd,
                         uint32_t access, uint64_t address, uint64_t length);
