/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.c - address handles: where datagrams go, from an address vector or from a datagram that came. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/objects.h"

static void detach(struct uro_object *object)
{
    struct uro_ibv_ah *ah = URO_CONTAINER_OF(object, struct uro_ibv_ah, object);
    struct uro_device *device = object->context->device;

    uro_device_lock(device);
    uro_engine_ah_destroy(uro_device_engine(device), &ah->core);
    uro_device_unlock(device);
}

/* Returns 0 or an errno. */
static int build(struct uro_ibv_ah *ah, const struct ibv_ah_attr *attr)
{
    struct uro_device *device = uro_ibv_host(ah->ibv.context);
    struct uro_address address = { 0 };

    uro_ibv_address(attr, &address);
    uro_device_lock(device);
    int error = uro_engine_ah_create(uro_device_engine(device), &ah->core, ah->ibv.pd->handle,
                                     &address, uro_device_now());
    uro_device_unlock(device);
    return -error;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct uro_ibv_ah *ah;

    if (!uro_ibv_address_valid(pd->context, attr)) {
        errno = EINVAL;
        return NULL;
    }
    if (!uro_ibv_start(pd->context) || (ah = uro_ibv_new(sizeof *ah)) == NULL)
        return NULL;
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    int error = build(ah, attr);
    if (error != 0) {
        free(ah);
        errno = error;
        return NULL;
    }
    atomic_fetch_add(&uro_ibv_pd(pd)->users, 1);
    uro_object_add(&ah->object, pd->context, detach);
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
