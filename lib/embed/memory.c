/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - memory regions and memory windows of uroce/objects.h. */
#include <errno.h>
#include <stdlib.h>

#include "embed/embed.h"

#define ACCESS                                                                                     \
    (UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |             \
     UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_MW_BIND | UROCE_ACCESS_ZERO_BASED |                 \
     UROCE_ACCESS_FLUSH_GLOBAL | UROCE_ACCESS_FLUSH_PERSISTENT)

UROCE_SAME(UROCE_ACCESS_LOCAL_WRITE, URO_ACCESS_LOCAL_WRITE);
UROCE_SAME(UROCE_ACCESS_REMOTE_ATOMIC, URO_ACCESS_REMOTE_ATOMIC);
UROCE_SAME(UROCE_ACCESS_MW_BIND, URO_ACCESS_MW_BIND);
UROCE_SAME(UROCE_ACCESS_ZERO_BASED, URO_ACCESS_ZERO_BASED);
UROCE_SAME(UROCE_ACCESS_FLUSH_GLOBAL, URO_ACCESS_FLUSH_GLOBAL);
UROCE_SAME(UROCE_ACCESS_FLUSH_PERSISTENT, URO_ACCESS_FLUSH_PERSISTENT);

/* ---- regions ------------------------------------------------------------ */

static int make_region(struct uroce_pd *pd, const struct uro_key *key, struct uroce_mr **mr)
{
    const unsigned access = key->access;
    const bool remote_writes =
        (access & (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC)) != 0;

    if (pd == NULL || key->memory == NULL || mr == NULL || key->length == 0 ||
        key->length > UINTPTR_MAX - (uintptr_t)key->memory ||
        key->length > UINT64_MAX - key->base || (access & ~ACCESS) != 0 ||
        (remote_writes && !(access & UROCE_ACCESS_LOCAL_WRITE)))
        return -EINVAL;
    struct uroce_mr *made = uro_embed_memory(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    made->pd = pd;
    made->key = *key;
    made->key.pd = pd->number;
    uro_key_register(uro_embed_shard(pd->engine), &made->key);
    pd->users++;
    *mr = made;
    return 0;
}

int uroce_mr_create(struct uroce_pd *pd, void *memory, size_t length, unsigned access,
                    struct uroce_mr **mr)
{
    const struct uro_key key = { .access = access,
                                 .base = access & UROCE_ACCESS_ZERO_BASED ? 0 : (uintptr_t)memory,
                                 .length = length,
                                 .memory = memory };

    return make_region(pd, &key, mr);
}

int uroce_mr_create_at(struct uroce_pd *pd, void *memory, size_t length, uint64_t address,
                       unsigned access, struct uroce_mr **mr)
{
    const struct uro_key key = {
        .access = access, .base = address, .length = length, .memory = memory
    };

    return access & UROCE_ACCESS_ZERO_BASED ? -EINVAL : make_region(pd, &key, mr);
}

int uroce_mr_destroy(struct uroce_mr *mr)
{
    if (mr == NULL)
        return -EINVAL;
    const int error = uro_key_deregister(uro_embed_shard(mr->pd->engine), &mr->key);
    if (error != 0)
        return error;
    mr->pd->users--;
    free(mr);
    return 0;
}

uint32_t uroce_mr_key(const struct uroce_mr *mr)
{
    return mr != NULL ? uro_key_number(&mr->key) : 0;
}

/* ---- windows ------------------------------------------------------------ */

int uroce_mw_create(struct uroce_pd *pd, enum uroce_mw_type type, struct uroce_mw **mw)
{
    if (pd == NULL || mw == NULL || (type != UROCE_MW_TYPE_1 && type != UROCE_MW_TYPE_2))
        return -EINVAL;
    struct uroce_mw *made = uro_embed_memory(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    made->pd = pd;
    made->type = type;
    made->key.kind =
        type == UROCE_MW_TYPE_1 ? (uint8_t)URO_KEY_WINDOW_1 : (uint8_t)URO_KEY_WINDOW_2;
    made->key.pd = pd->number;
    uro_key_register(uro_embed_shard(pd->engine), &made->key);
    pd->users++;
    *mw = made;
    return 0;
}

int uroce_mw_destroy(struct uroce_mw *mw)
{
    if (mw == NULL)
        return -EINVAL;
    const int error = uro_key_deregister(uro_embed_shard(mw->pd->engine), &mw->key);
    URO_ASSERT(error == 0); /* no window is bound to a window */
    mw->pd->users--;
    free(mw);
    return 0;
}

uint32_t uroce_mw_key(const struct uroce_mw *mw)
{
    return mw != NULL ? uro_key_number(&mw->key) : 0;
}

int uroce_mw_is_bound(const struct uroce_mw *mw)
{
    return mw != NULL && mw->key.bound;
}
