/* SPDX-License-Identifier: BSD-3-Clause */
/* mr.c - memory regions: a range of memory, and the key for access to it.
 *
 * The range is memory of the program, device memory (dm.c) or empty. The pages of an ON_DEMAND
 * region need not exist before they are used. An imported MR (import.c) is another handle of a
 * registered region, and has the key of its origin. The origin's struct stays allocated as long as
 * a handle exists.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/limits.h"
#include "verbs/card.h"
#include "verbs/inject.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"

#define ACCESS_KNOWN                                                                               \
    (URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ |                   \
     URO_ACCESS_REMOTE_ATOMIC | URO_ACCESS_MW_BIND | URO_ACCESS_ZERO_BASED |                       \
     URO_ACCESS_ON_DEMAND | URO_ACCESS_HUGETLB | URO_ACCESS_FLUSH_GLOBAL)

/* The arguments of a registration. */
struct range {
    void *start;
    size_t length;
    uint64_t iova;
    unsigned access;
};

unsigned uro_ibv_access_unknown(unsigned access)
{
    return access & ~(ACCESS_KNOWN | URO_ACCESS_OPTIONAL);
}

/* rule KEY.LOCAL.WRITE, KEY.PERSISTENT */
int uro_ibv_access_refusal(unsigned access)
{
    bool remote_writes = access & (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_ATOMIC);

    if (access & URO_ACCESS_FLUSH_PERSISTENT) /* no memory is persistent */
        return EOPNOTSUPP;
    if (uro_ibv_access_unknown(access) != 0)
        return EINVAL;
    return remote_writes && !(access & URO_ACCESS_LOCAL_WRITE) ? EINVAL : 0;
}

/* Returns 0, or the error number if the range cannot be registered. */
static int refusal(const struct range *range)
{
    int error = uro_ibv_access_refusal(range->access);

    if (error != 0)
        return error;
    if (range->length > UINTPTR_MAX - (uintptr_t)range->start ||
        range->length > UINT64_MAX - range->iova)
        return EINVAL;
    if (range->access & URO_ACCESS_ON_DEMAND)
        return 0; /* the engine checks the memory when it uses the region */
    if (!uro_memory_usable(range->start, range->length, range->access & URO_ACCESS_LOCAL_WRITE))
        return errno;
    return 0;
}

static void describe(struct uro_key *key, const struct range *range, const struct ibv_pd *pd)
{
    key->pd = pd->handle;
    key->access = range->access & ACCESS_KNOWN;
    key->base = range->access & URO_ACCESS_ZERO_BASED ? 0 : range->iova;
    key->length = range->length;
    key->memory = range->start;
    key->reachable = range->access & URO_ACCESS_ON_DEMAND ? uro_memory_usable : NULL;
}

static void show(struct uro_ibv_mr *mr)
{
    mr->ibv.length = mr->key.length;
    mr->ibv.lkey = mr->ibv.rkey = mr->ibv.handle = uro_key_number(&mr->key);
}

static bool imported(const struct uro_ibv_mr *mr)
{
    return mr->handles == 0;
}

static struct uro_ibv_mr *origin_of(struct uro_ibv_mr *mr)
{
    return imported(mr) ? mr->origin : mr;
}

static struct uro_device *device_of(const struct uro_ibv_mr *mr)
{
    return uro_region_device(mr);
}

/* Removes the key, after unbinding its windows. Engine locks held. */
static void close_key(struct uro_ibv_mr *origin)
{
    if (origin->key.registered)
        uro_key_expel(uro_device_shard(device_of(origin)), &origin->key);
}

/* Returns the bytes that count as registered memory. On-demand and null regions do not count. */
static uint64_t counted(const struct uro_key *key)
{
    bool uncounted = key->kind == URO_KEY_NULL || (key->access & URO_ACCESS_ON_DEMAND);

    return uncounted ? 0 : key->length;
}

/* Releases the quotas that a handle used. */
static void refund(struct uro_device *device, uint64_t octets)
{
    uro_quota_give(device, URO_QUOTA_MR, 1);
    uro_quota_give(device, URO_QUOTA_MEMORY, octets);
}

static uint64_t counted_for(const struct uro_ibv_mr *mr)
{
    return imported(mr) ? 0 : counted(&mr->key);
}

static bool charge(struct uro_device *device, uint64_t octets)
{
    if (!uro_quota_take(device, URO_QUOTA_MR, 1))
        return false;
    if (uro_quota_take(device, URO_QUOTA_MEMORY, octets))
        return true;
    uro_quota_give(device, URO_QUOTA_MR, 1);
    return false;
}

/* Allocates the struct of a region, and adds the region to the quotas. Returns NULL with errno on
 * failure. */
static struct uro_ibv_mr *new_region(struct ibv_pd *pd, uint64_t octets)
{
    struct uro_ibv_mr *mr;

    if (!uro_ibv_start_for(pd) || (mr = uro_region_new(pd->context)) == NULL)
        return NULL;
    if (charge(uro_ibv_host(pd->context), octets))
        return mr;
    uro_region_free(mr);
    return NULL;
}

void uro_ibv_mr_detach(struct uro_ibv_mr *mr)
{
    struct uro_device *device = device_of(mr);

    uro_device_lock_all(device);
    if (!imported(mr))
        close_key(mr);
    uro_device_unlock_all(device);
    refund(device, counted_for(mr));
}

struct ibv_mr *uro_ibv_mr_register(struct ibv_pd *pd, const struct uro_key *key, void *addr)
{
    struct uro_device *device = uro_ibv_host(pd->context);
    struct uro_ibv_mr *mr = new_region(pd, counted(key));

    if (mr == NULL)
        return NULL;
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->ibv.addr = addr;
    mr->key = *key;
    mr->handles = 1;
    uro_device_lock_all(device);
    uro_key_register(uro_device_shard(device), &mr->key);
    uro_device_unlock_all(device);
    show(mr);
    atomic_fetch_add(&uro_ibv_pd(pd)->users, 1);
    uro_region_attach(mr);
    return &mr->ibv;
}

static void refuse(struct uro_device *device, int error, const struct range *range)
{
    const unsigned long long at = (uintptr_t)range->start, length = range->length;

    if (error == EFAULT)
        (void)uro_refuse(device, error, "ibv_reg_mr",
                         "not all of the %llu bytes at 0x%llx are mapped%s", length, at,
                         range->access & URO_ACCESS_LOCAL_WRITE
                             ? " and writable: map them, or leave out IBV_ACCESS_LOCAL_WRITE"
                             : ": map them first");
    else if (error == EOPNOTSUPP)
        (void)uro_refuse_probe(
            device, error, "ibv_reg_mr",
            "access 0x%x has IBV_ACCESS_FLUSH_PERSISTENT: no memory is persistent", range->access);
    else if (error == EINVAL && uro_ibv_access_refusal(range->access) == 0)
        (void)uro_refuse(device, error, "ibv_reg_mr",
                         "the %llu bytes at 0x%llx end beyond the last address", length, at);
    else if (error == EINVAL)
        (void)uro_refuse_access(device, "ibv_reg_mr", range->access);
}

static struct ibv_mr *register_range(struct ibv_pd *pd, const struct range *range)
{
    struct uro_key key = { .kind = URO_KEY_REGION };
    int error = refusal(range);

    if (uro_inject(pd->context, URO_INJECT_CALL_REG_MR) != 0)
        return NULL;
    if (error != 0) {
        refuse(uro_ibv_host(pd->context), error, range);
        errno = error;
        return NULL;
    }
    error = uro_card_refuses_mr(uro_ibv_host(pd->context), range->length, range->access);
    if (error != 0) {
        errno = error;
        return NULL;
    }
    describe(&key, range, pd);
    return uro_ibv_mr_register(pd, &key, range->start);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    const struct range range = { .start = addr, .length = length, .iova = iova, .access = access };

    return register_range(pd, &range);
}

/* Finds the origin that has the key, and adds a handle to it. Returns NULL with errno ENOENT if the
 * PD has no such region, ENOMEM if the region has too many handles. */
static struct uro_ibv_mr *find_origin(const struct ibv_pd *pd, uint32_t number)
{
    struct uro_device *device = uro_ibv_host(pd->context);
    struct uro_ibv_mr *origin = NULL;
    int error = ENOENT;

    uro_device_lock_all(device);
    struct uro_key *key = uro_key_find(uro_device_shard(device), number);
    if (key != NULL && key->pd == pd->handle &&
        (key->kind == URO_KEY_REGION || key->kind == URO_KEY_NULL)) {
        origin = URO_CONTAINER_OF(key, struct uro_ibv_mr, key);
        error = origin->handles < UINT16_MAX ? 0 : ENOMEM;
    }
    if (error == 0)
        origin->handles++;
    uro_device_unlock_all(device);
    if (error == 0)
        return origin;
    errno = error;
    return NULL;
}

struct ibv_mr *uro_ibv_mr_import(struct ibv_pd *pd, uint32_t number)
{
    struct uro_ibv_mr *mr = new_region(pd, 0);

    if (mr == NULL)
        return NULL;
    mr->origin = find_origin(pd, number);
    if (mr->origin == NULL) {
        refund(uro_ibv_host(pd->context), 0);
        uro_region_free(mr);
        return NULL;
    }
    mr->ibv = mr->origin->ibv;
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->ibv.addr = NULL;
    atomic_fetch_add(&uro_ibv_pd(pd)->users, 1);
    uro_region_attach(mr);
    return &mr->ibv;
}

struct ibv_mr *uro_ibv_alloc_null_mr(struct ibv_pd *pd)
{
    if (uro_card_lacks(uro_ibv_host(pd->context), URO_CARD_NO_NULL_MR, "ibv_alloc_null_mr"))
        return NULL;
    uint8_t *nothing = uro_ibv_new(pd->context, (size_t)2 * URO_PATH_MTU_MAX);
    const struct uro_key key = { .kind = URO_KEY_NULL,
                                 .pd = pd->handle,
                                 .access = URO_ACCESS_LOCAL_WRITE,
                                 .length = UINT64_MAX,
                                 .memory = nothing };

    struct ibv_mr *mr = nothing != NULL ? uro_ibv_mr_register(pd, &key, NULL) : NULL;
    if (mr == NULL)
        free(nothing);
    return mr;
}

/* ---- changing ------------------------------------------------------------------------------- */

/* Returns the range that the region would have after the change. */
static struct range changed(const struct uro_ibv_mr *mr, int flags, void *addr, size_t length,
                            int access)
{
    const struct uro_key *key = &mr->key;
    bool offsets = key->access & URO_ACCESS_ZERO_BASED;
    struct range range = { .start = key->memory,
                           .length = key->length,
                           .iova = offsets ? (uintptr_t)key->memory : key->base,
                           .access = key->access };

    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
        range = (struct range){ addr, length, (uintptr_t)addr, key->access };
    if (flags & IBV_REREG_MR_CHANGE_ACCESS)
        range.access = (unsigned)access;
    return range;
}

/* Returns whether the arguments of ibv_rereg_mr() fit its flags. libibverbs makes the same checks,
 * but the kernel checks that some flag is set. */
static bool arguments_fit(int flags, const void *addr, size_t length, int access)
{
    if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0)
        return false;
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (addr == NULL || length == 0))
        return false;
    return access == 0 || (flags & IBV_REREG_MR_CHANGE_ACCESS);
}

/* Returns 0, or the error number if @mr cannot be changed in this way. */
static int change_refusal(const struct uro_ibv_mr *mr, const struct ibv_pd *pd,
                          const struct range *range)
{
    if (uro_region_dead(mr))
        return EIO;
    if (imported(mr) || mr->key.kind != URO_KEY_REGION || mr->dm != 0)
        return EINVAL; /* only the first handle of an ordinary region can be changed */
    if (pd == NULL || pd->context != mr->ibv.context)
        return EINVAL;
    return refusal(range);
}

/* Changes the region. A new range gets a new key. Otherwise peers continue to use the key that they
 * have. */
static int change(struct uro_ibv_mr *mr, bool moved, const struct ibv_pd *pd,
                  const struct range *range)
{
    struct uro_device *device = device_of(mr);
    struct uro_shard *shard = uro_device_shard(device);
    int error = 0;
    uint64_t before = counted(&mr->key);
    uint64_t after = range->access & URO_ACCESS_ON_DEMAND ? 0 : range->length;
    uint64_t more = after > before ? after - before : 0;
    uint64_t less = after < before ? before - after : 0;

    if (!uro_quota_take(device, URO_QUOTA_MEMORY, more))
        return errno;
    uro_device_lock_all(device);
    if (!mr->key.registered) {
        error = EINVAL; /* the context was closed */
    } else if (mr->key.windows > 0) {
        error = EBUSY;
    } else {
        if (moved)
            uro_key_expel(shard, &mr->key);
        describe(&mr->key, range, pd);
        if (moved)
            uro_key_register(shard, &mr->key);
    }
    uro_device_unlock_all(device);
    uro_quota_give(device, URO_QUOTA_MEMORY, error == 0 ? less : more);
    return error;
}

/* rule KEY.REREG: a failure leaves the MR unchanged. */
int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
    struct uro_ibv_mr *mr = uro_ibv_mr(ibv);
    const struct range range = changed(mr, flags, addr, length, access);
    struct ibv_pd *before = ibv->pd;
    struct ibv_pd *after = flags & IBV_REREG_MR_CHANGE_PD ? pd : before;
    int error =
        arguments_fit(flags, addr, length, access) ? change_refusal(mr, after, &range) : EINVAL;

    if (error == 0)
        error = uro_inject(ibv->context, URO_INJECT_CALL_REREG_MR);
    if (error == 0)
        error = uro_card_refuses(device_of(mr), URO_CARD_NO_REREG_MR, "ibv_rereg_mr");
    if (error == 0)
        error = uro_card_refuses_mr(device_of(mr), range.length, range.access);
    if (error == 0)
        error = change(mr, flags & IBV_REREG_MR_CHANGE_TRANSLATION, after, &range);
    if (error != 0) {
        errno = error;
        return IBV_REREG_MR_ERR_INPUT;
    }
    atomic_fetch_add(&uro_ibv_pd(after)->users, 1);
    atomic_fetch_sub(&uro_ibv_pd(before)->users, 1);
    ibv->pd = after;
    ibv->addr = range.start;
    show(mr);
    return 0;
}

/* ---- ending --------------------------------------------------------------------------------- */

/* Removes the key. Returns EBUSY if windows are bound to it. */
static int deregister(struct uro_ibv_mr *origin)
{
    struct uro_device *device = device_of(origin);
    int error = 0;

    uro_device_lock_all(device);
    if (origin->key.registered)
        error = -uro_key_deregister(uro_device_shard(device), &origin->key);
    uro_device_unlock_all(device);
    return error;
}

/* Drops a handle. Returns whether it was the last handle. In this case, the key was removed,
 * too. */
static bool last_handle(struct uro_ibv_mr *origin)
{
    if (uro_region_dead(origin))
        return --origin->handles == 0;
    struct uro_device *device = device_of(origin);
    uro_device_lock_all(device);
    bool last = --origin->handles == 0;
    if (last)
        close_key(origin);
    uro_device_unlock_all(device);
    return last;
}

void uro_ibv_mr_drop(struct uro_ibv_mr *mr)
{
    struct uro_ibv_mr *origin = origin_of(mr);

    if (uro_region_detach(mr))
        refund(device_of(mr), counted_for(mr));
    atomic_fetch_sub(&uro_ibv_pd(mr->ibv.pd)->users, 1);
    bool last = last_handle(origin);
    if (mr != origin)
        uro_region_free(mr);
    if (!last)
        return;
    if (origin->dm != 0)
        uro_ibv_dm_leave(origin->dm);
    if (origin->key.kind == URO_KEY_NULL)
        free(origin->key.memory);
    uro_region_free(origin);
}

int uro_ibv_dereg_mr(struct ibv_mr *ibv)
{
    struct uro_ibv_mr *mr = uro_ibv_mr(ibv);
    int error = uro_region_dead(mr) ? 0 : deregister(origin_of(mr));

    if (error == 0)
        uro_ibv_mr_drop(mr);
    return error;
}
