/* SPDX-License-Identifier: BSD-3-Clause */
/* key.h - registered memory: the 32-bit keys and the access rights that each key gives.
 *
 * The control path creates regions (MR). Windows (MW) are keys to a part of a region, bound and
 * invalidated by work requests. The consumer chooses the low byte of a window's key. The table
 * therefore finds a key by its upper 24 bits, and the low byte must then match.
 */
#pragma once

#include "base/table.h"
#include "core/record.h"

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
    URO_KEY_NULL,     /* region without memory: reads return zeros, writes are discarded */
    URO_KEY_WINDOW_1, /* type 1: used by any queue pair of the window's domain */
    /* Type 2B: used by the queue pair that bound the window; can be invalidated. */
    URO_KEY_WINDOW_2,
};

#define URO_KEY_LOW_BITS 8u /* the consumer's part of a key */

/* The caller (lib/verbs) owns the memory of the struct; it is valid from register to deregister.
 * The lkey and rkey of a region are the same number. Only key.c writes the fields marked with its
 * name. Programs have many keys, so unions keep the struct small: regions and windows use the same
 * bytes. */
struct uro_key {
    struct uro_table_node node; /* node.number is the key's upper 24 bits; key.c */
    uint32_t pd;
    uint32_t access;
    uint8_t low;     /* the key's other bits; key.c */
    uint8_t kind;    /* enum uro_key_kind */
    bool registered; /* key.c */
    bool bound;      /* window; key.c */
    union {
        uint32_t windows; /* region: number of windows bound to it; key.c */
        uint32_t qpn;     /* bound type 2 window: QPN that bound it; key.c */
    };
    uint64_t base;   /* first valid address of the key: iova, or 0 when ZERO_BASED */
    uint64_t length; /* bytes */
    uint8_t *memory; /* address of `base` here; URO_KEY_NULL: URO_PATH_MTU_MAX zeros, then as many
                        bytes that are never read */
    union {
        /* ON_DEMAND region, which may fault: returns whether the bytes can be accessed. Called
         * before each access, with at most the first URO_PATH_MTU_MAX bytes of the range, because
         * no packet touches more. NULL: the memory is always there. */
        bool (*reachable)(const uint8_t *memory, uint64_t length, bool write);
        struct uro_key *region; /* bound window: the region; key.c */
    };
};

static_assert(sizeof(struct uro_key) == 64, "of every memory region");

static inline uint32_t uro_key_number(const struct uro_key *key)
{
    return key->node.number << URO_KEY_LOW_BITS | key->low;
}

/* Gives the struct a random unused key and adds it to the table. The caller has set the fields of a
 * region, or kind and pd of a window. The window is not bound yet. Engine locked. */
void uro_key_register(struct uro_shard *shard, struct uro_key *key);

/* Removes a key. After this returns no packet touches the memory. Engine locked. Returns 0, or
 *   -EBUSY  a region that windows are bound to: nothing has changed */
int uro_key_deregister(struct uro_shard *shard, struct uro_key *key);

/* Removes a region whose owner is destroyed. Unbinds its windows first. Engine locked. */
void uro_key_expel(struct uro_shard *shard, struct uro_key *key);

/* Returns the key with this number, or NULL. Engine locked. */
struct uro_key *uro_key_find(const struct uro_shard *shard, uint32_t number);

/* Returns the memory of @length bytes at @address, if @number is the key of a region of @pd with
 * all rights in @access and the range lies inside it (overflow-safe). Returns NULL otherwise, and
 * also when on-demand memory is missing. The memory can be read, and with URO_ACCESS_LOCAL_WRITE in
 * @access written. If the region is a URO_KEY_NULL or may fault, this holds for the first
 * URO_PATH_MTU_MAX bytes only. */
uint8_t *uro_key_local(const struct uro_shard *shard, uint32_t number, uint32_t pd, uint32_t access,
                       uint64_t address, uint64_t length);

/* Returns whether at least one of the @length bytes at @start is in a region that never faults: it
 * has memory of this process and is not on demand. Looks at all keys. Takes no lock, and is safe in
 * a signal handler. Engine locked. */
bool uro_key_never_faults(const struct uro_shard *shard, uintptr_t start, uintptr_t length);

/* Returns whether the memory of the key may vanish at any moment: the key is an on-demand region,
 * or a window into such a region. */
bool uro_key_may_fault(const struct uro_shard *shard, uint32_t number);

/* The key that a request names, and the rights that it needs. The request is the peer's, or for
 * uro_key_examine() perhaps our own. */
struct uro_key_claim {
    uint32_t number;
    uint32_t pd;     /* protection domain of our queue pair, or of its XRC SRQ */
    uint32_t qpn;    /* our queue pair, which the peer is connected with */
    uint32_t access; /* set of URO_ACCESS_* */
};

/* Returns the memory of a range that a peer names, or NULL, as uro_key_local(). The key is a region
 * or a bound window. */
uint8_t *uro_key_remote(const struct uro_shard *shard, const struct uro_key_claim *claim,
                        uint64_t address, uint64_t length);

/* Returns whether the key gives the claimed rights to the peer. Checks no range. */
bool uro_key_grants(const struct uro_shard *shard, const struct uro_key_claim *claim);

/* Returns why the key does not allow the access, and describes the access and the key. @local: the
 * claim is of our own work request. Used for the record of a failure. Changes nothing, and takes
 * longer than the functions above. */
enum uro_key_fault uro_key_examine(const struct uro_shard *shard, const struct uro_key_claim *claim,
                                   uint64_t address, uint64_t length, bool local,
                                   struct uro_record_access *access);

/* A BIND_MW work request. Sources: IBTA Vol. 1, "Bind Memory Window"; man ibv_bind_mw. */
struct uro_key_bind {
    uint32_t pd; /* PD of the queue pair */
    uint32_t qpn;
    uint32_t old_rkey;
    uint32_t new_rkey; /* only the low byte is used */
    uint32_t lkey;     /* lkey of the region */
    uint32_t access;
    uint64_t address; /* address in the region */
    uint64_t length;  /* 0: unbinds a type 1 window */
};

/* Binds a window. Returns false, with nothing changed, when the binding is not allowed. */
URO_NODISCARD bool uro_key_bind(struct uro_shard *shard, const struct uro_key_bind *bind);

/* Returns whether queue pair @qpn of @pd may invalidate the key, by its own LOCAL_INV or by a
 * SEND_WITH_INV of its peer. The key must be a type 2 window that this queue pair bound. */
bool uro_key_invalidatable(const struct uro_shard *shard, uint32_t number, uint32_t pd,
                           uint32_t qpn);

/* Invalidates the key, which is invalidatable. It gives no access until it is bound again. */
void uro_key_invalidate(struct uro_shard *shard, uint32_t number);
