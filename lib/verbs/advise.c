/* SPDX-License-Identifier: BSD-3-Clause */
/* advise.c - ibv_advise_mr: faults in the pages of on-demand regions that the program will need. */
#include <errno.h>

#include "verbs/objects.h"

/* Returns 0, or an error number if @pd may not use the key as an on-demand region in this way. */
static int key_refusal(const struct uro_key *key, const struct ibv_pd *pd, bool write)
{
    if (key != NULL && (key->kind == URO_KEY_WINDOW_1 || key->kind == URO_KEY_WINDOW_2))
        return EINVAL;
    if (key == NULL || !(key->access & URO_ACCESS_ON_DEMAND))
        return ENOENT;
    if (key->pd != pd->handle || (write && !(key->access & URO_ACCESS_LOCAL_WRITE)))
        return EPERM;
    return 0;
}

/* Finds the memory of the element. Returns 0 or an error number. */
static int locate(struct uro_shard *shard, const struct ibv_pd *pd, const struct ibv_sge *element,
                  bool write, const uint8_t **memory)
{
    const struct uro_key *key = uro_key_find(shard, element->lkey);
    int error = key_refusal(key, pd, write);

    if (error != 0)
        return error;
    uint64_t offset = element->addr - key->base;
    if (element->addr < key->base || offset > key->length || element->length > key->length - offset)
        return EFAULT;
    *memory = (const uint8_t *)((uintptr_t)key->memory + (uintptr_t)offset);
    return 0;
}

/* Always waits for completion, as IBV_ADVISE_MR_FLAG_FLUSH requests. */
int uro_ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                      struct ibv_sge *list, uint32_t count)
{
    struct uro_device *device = uro_ibv_host(pd->context);
    bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const uint8_t *memory = NULL;
    int error = 0;

    if (uro_object_dead(&uro_ibv_pd(pd)->object))
        return EIO;
    if ((unsigned)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        return EOPNOTSUPP;
    if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) != 0 || count == 0)
        return EINVAL;
    if (!uro_device_started(device))
        return ENOENT; /* no memory is registered */
    for (uint32_t i = 0; i < count && error == 0; i++) {
        uro_device_lock(device);
        error = locate(uro_device_shard(device), pd, &list[i], write, &memory);
        uro_device_unlock(device);
        /* The lock is not held here, because reading pages from a disk may take long. */
        if (error == 0 && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT &&
            !uro_memory_usable(memory, list[i].length, write))
            error = errno;
    }
    return error;
}
