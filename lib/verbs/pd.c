/* SPDX-License-Identifier: BSD-3-Clause */
/* pd.c - protection domains: a number that keys and queue pairs share. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/objects.h"

static atomic_uint last_number; /* never reused: an old key cannot meet a new domain */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct uro_ibv_pd *pd = uro_ibv_new(sizeof *pd);

    if (pd == NULL)
        return NULL;
    pd->ibv.context = context;
    pd->ibv.handle = atomic_fetch_add(&last_number, 1) + 1;
    uro_object_add(&pd->object, context, NULL);
    return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
    struct uro_ibv_pd *pd = uro_ibv_pd(ibv);

    if (atomic_load(&pd->users) != 0)
        return EBUSY;
    uro_object_remove(&pd->object);
    free(pd);
    return 0;
}
