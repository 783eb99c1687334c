/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.c - address handles: a checked address vector, kept for datagrams to come. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/objects.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct uro_ibv_ah *ah = uro_ibv_new(sizeof *ah);

    if (ah == NULL)
        return NULL;
    if (!uro_ibv_address_valid(pd->context, attr)) {
        free(ah);
        errno = EINVAL;
        return NULL;
    }
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    ah->attr = *attr;
    atomic_fetch_add(&uro_ibv_pd(pd)->users, 1);
    uro_object_add(&ah->object, pd->context, NULL);
    return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
    struct uro_ibv_ah *ah = uro_ibv_ah(ibv);

    uro_object_remove(&ah->object);
    atomic_fetch_sub(&uro_ibv_pd(ibv->pd)->users, 1);
    free(ah);
    return 0;
}
