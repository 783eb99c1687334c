/* SPDX-License-Identifier: BSD-3-Clause */
/* key.c - the table of registered ranges and of the windows into them. */
#include "core/key.h"

#include <errno.h>

#include "base/mark.h"
#include "core/limits.h"
#include "core/shard.h"

#define LEAST 1u /* smallest upper 24 bits: programs pass numbers below 0x100 as keys by mistake */

#define REMOTE_WRITES (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_ATOMIC)
/* Some programs also request LOCAL_WRITE. It has no effect: a window is never a local key. */
#define WINDOW_RIGHTS                                                                              \
    (URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ |                   \
     URO_ACCESS_REMOTE_ATOMIC | URO_ACCESS_ZERO_BASED | URO_ACCESS_OPTIONAL)

static bool is_window(const struct uro_key *key)
{
    return key->kind == URO_KEY_WINDOW_1 || key->kind == URO_KEY_WINDOW_2;
}

struct uro_key *uro_key_find(const struct uro_shard *shard, uint32_t number)
{
    struct uro_table_node *node = uro_table_find(&shard->keys->table, number >> URO_KEY_LOW_BITS);
    if (node == NULL)
        return NULL;
    struct uro_key *key = URO_CONTAINER_OF(node, struct uro_key, node);
    return key->low == (uint8_t)number ? key : NULL;
}

void uro_key_register(struct uro_shard *shard, struct uro_key *key)
{
    key->node.number = uro_shard_unused(shard, &shard->keys->table, 32 - URO_KEY_LOW_BITS, LEAST);
    key->low = (uint8_t)(uro_rng_u32(&shard->rng) >> (32 - URO_KEY_LOW_BITS));
    key->bound = false;
    if (is_window(key))
        key->region = NULL;
    else
        key->windows = 0;
    if (key->kind == URO_KEY_REGION && key->reachable != NULL)
        shard->keys->on_demand++;
    key->registered = true;
    uro_table_insert(&shard->keys->table, &key->node);
}

static void unbind(struct uro_key *window)
{
    if (!window->bound)
        return;
    window->bound = false;
    window->region->windows--;
    window->region = NULL;
    window->memory = NULL;
    window->length = 0;
}

/* Returns whether the key is a region that windows are bound to. */
static bool is_open(const struct uro_key *key)
{
    return !is_window(key) && key->windows > 0;
}

int uro_key_deregister(struct uro_shard *shard, struct uro_key *key)
{
    if (is_open(key)) {
        URO_MARK("KEY.WINDOWS");
        return -EBUSY;
    }
    if (key->kind == URO_KEY_REGION && key->reachable != NULL)
        shard->keys->on_demand--;
    unbind(key);
    key->registered = false;
    uro_table_remove(&shard->keys->table, &key->node);
    return 0;
}

/* Searches the table for the windows: few regions have windows, and windows are mostly removed
 * first. */
void uro_key_expel(struct uro_shard *shard, struct uro_key *key)
{
    struct uro_table_node *node = uro_table_first(&shard->keys->table);

    for (; node != NULL && is_open(key); node = uro_table_next(&shard->keys->table, node)) {
        struct uro_key *window = URO_CONTAINER_OF(node, struct uro_key, node);
        if (is_window(window) && window->region == key)
            unbind(window);
    }
    int error = uro_key_deregister(shard, key);
    URO_ASSERT(error == 0);
}

static bool inside(const struct uro_key *key, uint64_t address, uint64_t length)
{
    uint64_t offset = address - key->base;

    if (address >= key->base && offset <= key->length && length <= key->length - offset)
        return true;
    URO_MARK("KEY.RANGE");
    if (is_window(key))
        URO_MARK("MW.REACH");
    return false;
}

/* Returns the memory at an address of the key. The function computes with integers, because the
 * region of all memory begins at NULL. */
static uint8_t *memory_at(const struct uro_key *key, uint64_t address)
{
    return (uint8_t *)((uintptr_t)key->memory + (uintptr_t)(address - key->base));
}

/* Returns the memory of a range that lies inside the key and that the key gives access to, or
 * NULL when an on-demand region has no memory there. */
static uint8_t *reach(const struct uro_key *key, uint64_t address, uint64_t length, bool write)
{
    const struct uro_key *region = is_window(key) ? key->region : key;

    /* Reads and writes use different bytes, so a read never returns data that another user
     * wrote. */
    if (key->kind == URO_KEY_NULL)
        return key->memory + (write ? URO_PATH_MTU_MAX : 0);
    uint8_t *memory = memory_at(key, address);
    uint64_t touched = length < URO_PATH_MTU_MAX ? length : URO_PATH_MTU_MAX;
    if (region->reachable == NULL || touched == 0 || region->reachable(memory, touched, write))
        return memory;
    URO_MARK("KEY.ABSENT");
    return NULL;
}

bool uro_key_may_fault(const struct uro_shard *shard, uint32_t number)
{
    const struct uro_key *key = uro_key_find(shard, number);

    if (key != NULL && is_window(key))
        key = key->region;
    return key != NULL && key->kind == URO_KEY_REGION && key->reachable != NULL;
}

static bool overlaps(const struct uro_key *key, uintptr_t first, uintptr_t last)
{
    uintptr_t memory = (uintptr_t)key->memory;

    return key->length > 0 && memory <= last && first <= memory + (uintptr_t)(key->length - 1);
}

bool uro_key_never_faults(const struct uro_shard *shard, uintptr_t start, uintptr_t length)
{
    const struct uro_table_node *node = uro_table_first(&shard->keys->table);

    for (; node != NULL; node = uro_table_next(&shard->keys->table, node)) {
        const struct uro_key *key = URO_CONTAINER_OF(node, struct uro_key, node);
        if (key->kind == URO_KEY_REGION && key->reachable == NULL &&
            overlaps(key, start, start + (length - 1)))
            return true;
    }
    return false;
}

static bool allows(const struct uro_key *key, uint32_t pd, uint32_t access)
{
    if (key->pd == pd)
        return (key->access & access) == access;
    URO_MARK("KEY.PD");
    return false;
}

uint8_t *uro_key_local(const struct uro_shard *shard, uint32_t number, uint32_t pd, uint32_t access,
                       uint64_t address, uint64_t length)
{
    const struct uro_key *key = uro_key_find(shard, number);

    if (key != NULL && is_window(key)) {
        URO_MARK("MW.LOCAL");
        return NULL;
    }
    if (key == NULL || !allows(key, pd, access) || !inside(key, address, length))
        return NULL;
    return reach(key, address, length, access & URO_ACCESS_LOCAL_WRITE);
}

/* Returns whether @claim may use the key. */
static bool permits(const struct uro_key *key, const struct uro_key_claim *claim)
{
    if (key == NULL || !allows(key, claim->pd, claim->access) || (is_window(key) && !key->bound))
        return false;
    if (key->kind != URO_KEY_WINDOW_2 || key->qpn == claim->qpn)
        return true;
    URO_MARK("MW.QP");
    return false;
}

bool uro_key_grants(const struct uro_shard *shard, const struct uro_key_claim *claim)
{
    return permits(uro_key_find(shard, claim->number), claim);
}

uint8_t *uro_key_remote(const struct uro_shard *shard, const struct uro_key_claim *claim,
                        uint64_t address, uint64_t length)
{
    const struct uro_key *key = uro_key_find(shard, claim->number);

    if (!permits(key, claim) || !inside(key, address, length))
        return NULL;
    return reach(key, address, length, claim->access & REMOTE_WRITES);
}

/* Returns the first rule that the access breaks. */
static enum uro_key_fault find_fault(const struct uro_key *key, const struct uro_key_claim *claim,
                                     uint64_t address, uint64_t length, bool local)
{
    const bool writes = claim->access & (REMOTE_WRITES | URO_ACCESS_LOCAL_WRITE);

    if (key == NULL)
        return URO_KEY_FAULT_UNKNOWN;
    if (local && is_window(key))
        return URO_KEY_FAULT_WINDOW;
    if (key->pd != claim->pd)
        return URO_KEY_FAULT_PD;
    if (is_window(key) && !key->bound)
        return URO_KEY_FAULT_UNBOUND;
    if ((key->access & claim->access) != claim->access)
        return URO_KEY_FAULT_RIGHT;
    if (key->kind == URO_KEY_WINDOW_2 && key->qpn != claim->qpn)
        return URO_KEY_FAULT_QP;
    if (length == 0)
        return URO_KEY_FAULT_NONE;
    if (!inside(key, address, length))
        return URO_KEY_FAULT_RANGE;
    return reach(key, address, length, writes) == NULL ? URO_KEY_FAULT_MISSING : URO_KEY_FAULT_NONE;
}

enum uro_key_fault uro_key_examine(const struct uro_shard *shard, const struct uro_key_claim *claim,
                                   uint64_t address, uint64_t length, bool local,
                                   struct uro_record_access *access)
{
    const struct uro_key *key = uro_key_find(shard, claim->number);
    const enum uro_key_fault fault = find_fault(key, claim, address, length, local);

    *access = (struct uro_record_access){ .fault = fault,
                                          .key = claim->number,
                                          .address = address,
                                          .length = length,
                                          .rights = claim->access };
    if (key != NULL) {
        access->key_rights = key->access;
        access->key_address = key->base;
        access->key_length = key->length;
    }
    return fault;
}

/* ---- windows ------------------------------------------------------------------------------- */

/* Returns whether a window to @region may be bound with the parameters @bind. */
static bool may_open(const struct uro_key *region, const struct uro_key_bind *bind)
{
    if (region->kind != URO_KEY_REGION || region->pd != bind->pd)
        return false;
    if (!(region->access & URO_ACCESS_MW_BIND) || (region->access & URO_ACCESS_ZERO_BASED))
        return false;
    if ((bind->access & REMOTE_WRITES) && !(region->access & URO_ACCESS_LOCAL_WRITE))
        return false;
    return inside(region, bind->address, bind->length);
}

/* Returns whether @window may be bound or unbound now. */
static bool may_bind(const struct uro_key *window, const struct uro_key_bind *bind)
{
    if (!is_window(window) || window->pd != bind->pd || (bind->access & ~WINDOW_RIGHTS) != 0)
        return false;
    if (window->kind == URO_KEY_WINDOW_1)
        return !(bind->access & URO_ACCESS_ZERO_BASED);
    return !window->bound && bind->length > 0;
}

bool uro_key_bind(struct uro_shard *shard, const struct uro_key_bind *bind)
{
    struct uro_key *window = uro_key_find(shard, bind->old_rkey);
    struct uro_key *region = uro_key_find(shard, bind->lkey);

    if (window == NULL || !may_bind(window, bind))
        return false;
    if (bind->length > 0 && (region == NULL || !may_open(region, bind))) {
        URO_MARK("MW.BIND");
        return false;
    }

    if (window->bound)
        URO_MARK("MW.AGAIN");
    unbind(window);
    window->low = (uint8_t)bind->new_rkey;
    if (bind->length == 0)
        return true;
    window->bound = true;
    window->qpn = bind->qpn;
    window->region = region;
    window->access = bind->access;
    window->base = bind->access & URO_ACCESS_ZERO_BASED ? 0 : bind->address;
    window->length = bind->length;
    window->memory = memory_at(region, bind->address);
    region->windows++;
    return true;
}

bool uro_key_invalidatable(const struct uro_shard *shard, uint32_t number, uint32_t pd,
                           uint32_t qpn)
{
    const struct uro_key *key = uro_key_find(shard, number);

    if (key != NULL && key->kind == URO_KEY_WINDOW_2 && key->bound && key->pd == pd &&
        key->qpn == qpn)
        return true;
    URO_MARK("MW.INVALIDATE");
    return false;
}

void uro_key_invalidate(struct uro_shard *shard, uint32_t number)
{
    unbind(uro_key_find(shard, number));
}
