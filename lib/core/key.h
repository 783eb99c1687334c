/* SPDX-License-Identifier: BSD-3-Clause */
/* key.h - registered memory: who may touch which octets by which 32-bit key.
 *
 * Regions (MR) are made by the control path. Windows (MW) are keys to a part of a region, bound
 * and invalidated by work requests; their low octet is the consumer's to choose, so the upper 24
 * bits alone name a key in the table and the low ones must then match.
 */
#pragma once

#include "base/table.h"

struct uro_shard;

/* Values equal enum ibv_access_flags. */
#define URO_ACCESS_LOCAL_WRITE      (1u << 0)
#define URO_ACCESS_REMOTE_WRITE     (1u << 1)
#define URO_ACCESS_REMOTE_READ      (1u << 2)
#define URO_ACCESS_REMOTE_ATOMIC    (1u << 3)
#define URO_ACCESS_MW_BIND          (1u << 4)
#define URO_ACCESS_ZERO_BASED       (1u << 5)
#define URO_ACCESS_ON_DEMAND        (1u << 6)
#define URO_ACCESS_HUGETLB          (1u << 7)
#define URO_ACCESS_FLUSH_GLOBAL     (1u << 8)
#define URO_ACCESS_FLUSH_PERSISTENT (1u << 9)
#define URO_ACCESS_OPTIONAL         0x3ff00000u /* IBV_ACCESS_OPTIONAL_RANGE: may be ignored */

enum uro_key_kind {
    URO_KEY_REGION,
    URO_KEY_NULL,     /* region without memory: reads as zero, what is written is gone */
    URO_KEY_WINDOW_1, /* used by any queue pair of its domain */
    URO_KEY_WINDOW_2, /* 2B: used by the queue pair that bound it; can be invalidated */
};

#define URO_KEY_LOW_BITS 8u /* the consumer's part of a key */

/* Memory of the struct is the caller's (lib/verbs); valid from register to deregister. The lkey and
 * rkey of a region are the same number. Programs have many: what a region needs and what a window
 * needs are in the same place. */
struct uro_key {
    struct uro_table_node node; /* node.number is the key's upper 24 bits; key.c */
    uint32_t pd;
    uint32_t access;
    uint8_t low;     /* the key's other bits; key.c */
    uint8_t kind;    /* enum uro_key_kind */
    bool registered; /* key.c */
    bool bound;      /* window; key.c */
    union {
        uint32_t windows; /* region: those bound to it; key.c */
        uint32_t qpn;     /* bound type 2 window: by whom; key.c */
    };
    uint64_t base;   /* first address as keys are used with: iova, 0 when ZERO_BASED */
    uint64_t length; /* octets */
    uint8_t *memory; /* where base is in this process; URO_KEY_NULL: URO_PATH_MTU_MAX zeros, then
                        as many octets that nobody reads */
    union {
        /* Region that may fault (ON_DEMAND): asked before octets are touched, of a longer range
         * about the first URO_PATH_MTU_MAX, since no packet touches more; NULL: they are there. */
        bool (*reachable)(const uint8_t *at, uint64_t length, bool write);
        struct uro_key *region; /* bound window: to what; key.c */
    };
};

static_assert(sizeof(struct uro_key) == 64, "of every memory region");

static inline uint32_t uro_key_number(const struct uro_key *key)
{
    return key->node.number << URO_KEY_LOW_BITS | key->low;
}

/* Engine locked. Fills in a random unused key; a region is described by the caller, a window (kind
 * and pd set) is not bound yet. */
void uro_key_register(struct uro_shard *shard, struct uro_key *key);

/* Engine locked. After this returns no packet touches the memory. Returns 0, or
 *   -EBUSY  a region that windows are bound to: nothing has changed */
int uro_key_deregister(struct uro_shard *shard, struct uro_key *key);

/* Likewise for a region whose owner goes away: its windows are unbound first. */
void uro_key_expel(struct uro_shard *shard, struct uro_key *key);

/* Engine locked. The key of that number, or NULL. */
struct uro_key *uro_key_find(const struct uro_shard *shard, uint32_t number);

/* Where @length octets at @address are, if @number is the key of a region of @pd with all rights
 * in @access and the range lies inside it (overflow-safe); NULL otherwise. The octets are there
 * to be read, and with URO_ACCESS_LOCAL_WRITE in @access to be written; of a URO_KEY_NULL, and of
 * one that may fault, only the first URO_PATH_MTU_MAX octets are. */
uint8_t *uro_key_local(const struct uro_shard *shard, uint32_t number, uint32_t pd, uint32_t access,
                       uint64_t address, uint64_t length);

/* Engine locked. Whether one of these @length octets, at least one, of this process is in a region
 * that is trusted to be there: of its own memory, not on demand. Looks at all keys; takes no lock
 * and does nothing that a signal handler may not do. */
bool uro_key_trusts(const struct uro_shard *shard, uintptr_t at, uintptr_t length);

/* Whether the memory of that key may vanish at any moment: an on-demand region, or a window into
 * one. */
bool uro_key_may_fault(const struct uro_shard *shard, uint32_t number);

/* What a peer claims. */
struct uro_key_claim {
    uint32_t number;
    uint32_t pd;     /* that counts for its queue pair */
    uint32_t qpn;    /* our queue pair, which it is connected with */
    uint32_t access; /* at least one of URO_ACCESS_REMOTE_*, URO_ACCESS_FLUSH_* */
};

/* Likewise for a peer: regions and bound windows. */
uint8_t *uro_key_remote(const struct uro_shard *shard, const struct uro_key_claim *claim,
                        uint64_t address, uint64_t length);

/* Whether the key gives those rights to the peer, whatever the range. */
bool uro_key_grants(const struct uro_shard *shard, const struct uro_key_claim *claim);

/* A BIND_MW work request. Sources: IBTA Vol. 1, "Bind Memory Window"; man ibv_bind_mw. */
struct uro_key_bind {
    uint32_t pd; /* of the queue pair */
    uint32_t qpn;
    uint32_t old_rkey;
    uint32_t new_rkey; /* only its low octet counts */
    uint32_t lkey;     /* of the region */
    uint32_t access;
    uint64_t address; /* in the region */
    uint64_t length;  /* 0: unbinds a type 1 window */
};

/* False, and nothing has changed, when the binding is not allowed. */
URO_NODISCARD bool uro_key_bind(struct uro_shard *shard, const struct uro_key_bind *bind);

/* Whether LOCAL_INV on, or SEND_WITH_INV to, queue pair @qpn of @pd may invalidate the key: a type
 * 2 window that this queue pair bound. */
bool uro_key_invalidatable(const struct uro_shard *shard, uint32_t number, uint32_t pd,
                           uint32_t qpn);

/* The key, which is invalidatable, opens nothing any more until it is bound again. */
void uro_key_invalidate(struct uro_shard *shard, uint32_t number);
