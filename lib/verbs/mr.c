/* SPDX-License-Identifier: BSD-3-Clause */
/* mr.c - memory regions: a range of the program's memory, and the key that opens it. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/memory.h"
#include "verbs/objects.h"

#define ACCESS_KNOWN                                                                               \
    (URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ |                   \
     URO_ACCESS_REMOTE_ATOMIC | URO_ACCESS_MW_BIND | URO_ACCESS_ZERO_BASED |                       \
     URO_ACCESS_ON_DEMAND | URO_ACCESS_HUGETLB | URO_ACCESS_FLUSH_GLOBAL)

/* What a registration asks for. */
struct range {
    void *at;
    size_t length;
    uint64_t iova;
    unsigned access;
};

/* 0, or why the range cannot be registered so. */
static int refusal(const struct range *range)
{
    bool remote_writes = range->access & (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_ATOMIC);
    bool writes = range->access & URO_ACCESS_LOCAL_WRITE;

    if (range->access & URO_ACCESS_FLUSH_PERSISTENT)
        return EOPNOTSUPP; /* nobody told us which memory outlives the machine */
    if ((range->access & ~(ACCESS_KNOWN | URO_ACCESS_OPTIONAL)) != 0)
        return EINVAL;
    if (remote_writes && !writes)
        return EINVAL;
    if (range->length > UINTPTR_MAX - (uintptr_t)range->at ||
        range->length > UINT64_MAX - range->iova)
        return EINVAL;
    /* On-demand memory is promised to be faulted in when it is used, not now. */
    if (!uro_memory_usable(range->at, range->length, writes, range->access & URO_ACCESS_ON_DEMAND))
        return errno;
    return 0;
}

static void describe(struct uro_key *key, const struct range *range, const struct ibv_pd *pd)
{
    key->pd = pd->handle;
    key->access = range->access & ACCESS_KNOWN;
    key->base = range->access & URO_ACCESS_ZERO_BASED ? 0 : range->iova;
    key->length = range->length;
    key->memory = range->at;
}

static void show(struct uro_ibv_mr *mr, struct ibv_pd *pd)
{
    mr->ibv.pd = pd;
    mr->ibv.addr = mr->key.memory;
    mr->ibv.length = mr->key.length;
    mr->ibv.lkey = mr->ibv.rkey = mr->ibv.handle = uro_key_number(&mr->key);
}

static void detach(struct uro_object *object)
{
    struct uro_ibv_mr *mr = URO_CONTAINER_OF(object, struct uro_ibv_mr, object);
    struct uro_device *device = object->context->device;

    uro_device_lock(device);
    uro_key_deregister(uro_device_shard(device), &mr->key);
    uro_device_unlock(device);
}

static struct ibv_mr *register_range(struct ibv_pd *pd, const struct range *range)
{
    struct uro_device *device = uro_ibv_host(pd->context);
    int error = refusal(range);
    struct uro_ibv_mr *mr;

    if (error != 0) {
        errno = error;
        return NULL;
    }
    if (!uro_ibv_start(pd->context) || (mr = uro_ibv_new(sizeof *mr)) == NULL)
        return NULL;

    describe(&mr->key, range, pd);
    uro_device_lock(device);
    uro_key_register(uro_device_shard(device), &mr->key);
    uro_device_unlock(device);
    mr->ibv.context = pd->context;
    show(mr, pd);
    atomic_fetch_add(&uro_ibv_pd(pd)->users, 1);
    uro_object_add(&mr->object, pd->context, detach);
    return &mr->ibv;
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
    const struct range range = { .at = addr, .length = length, .iova = iova, .access = access };

    return register_range(pd, &range);
}

/* Gives the MR another range, with another key, or under the same key other rights or another
 * domain. A failure leaves it as it was. */
int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
    struct uro_ibv_mr *mr = uro_ibv_mr(ibv);
    struct uro_device *device = uro_ibv_host(ibv->context);
    bool moved = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    const struct range range = {
        .at = moved ? addr : mr->key.memory,
        .length = moved ? length : mr->key.length,
        .iova = moved ? (uintptr_t)addr : mr->key.base,
        .access = flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned)access : mr->key.access,
    };
    struct ibv_pd *before = ibv->pd;
    struct ibv_pd *after = flags & IBV_REREG_MR_CHANGE_PD ? pd : before;
    int error = uro_host_forked() ? EIO : 0;

    if (error == 0 && (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0))
        error = EINVAL;
    if (error == 0 && (after == NULL || after->context != ibv->context))
        error = EINVAL;
    if (error == 0)
        error = refusal(&range);
    if (error != 0) {
        errno = error;
        return IBV_REREG_MR_ERR_INPUT;
    }

    atomic_fetch_add(&uro_ibv_pd(after)->users, 1);
    uro_device_lock(device);
    if (moved)
        (void)uro_key_deregister(uro_device_shard(device), &mr->key);
    describe(&mr->key, &range, after);
    if (moved)
        uro_key_register(uro_device_shard(device), &mr->key);
    uro_device_unlock(device);
    show(mr, after);
    atomic_fetch_sub(&uro_ibv_pd(before)->users, 1);
    return 0;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
    struct uro_ibv_mr *mr = uro_ibv_mr(ibv);

    uro_object_remove(&mr->object);
    atomic_fetch_sub(&uro_ibv_pd(ibv->pd)->users, 1);
    free(mr);
    return 0;
}
