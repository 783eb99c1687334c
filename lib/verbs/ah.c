/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.c - address handles: the destination of datagrams, from an address vector or from a received
 * datagram. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/shard.h"
#include "verbs/inject.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"
#include "wire/grh.h"

/* Hop limit of replies; the hop limit of the received datagram does not matter. */
#define REPLY_HOP_LIMIT 0xffu

static_assert(sizeof(struct ibv_grh) == URO_GRH_LEN, "struct ibv_grh has the size of a GRH");

/* Destroys the handle in the first @engines engines. */
static void destroy(struct uro_ibv_ah *ah, struct uro_device *engine, uint32_t engines)
{
    for (uint32_t i = 0; i < engines; i++, engine = uro_device_next_engine(engine)) {
        uro_device_lock(engine);
        uro_engine_ah_destroy(uro_device_engine(engine), &ah->core[i]);
        uro_device_unlock(engine);
    }
}

static void detach(struct uro_object *object)
{
    struct uro_ibv_ah *ah = URO_CONTAINER_OF(object, struct uro_ibv_ah, object);
    struct uro_device *device = object->device;

    destroy(ah, device, ah->engines);
}

/* Creates the handle in one engine. Returns 0 or -errno. */
static int create(struct uro_device *device, struct uro_ah *core, uint32_t pd,
                  const struct uro_address *wanted)
{
    struct uro_address address = *wanted;

    uro_device_lock(device);
    int error =
        uro_engine_ah_create(uro_device_engine(device), core, pd, &address, uro_device_now());
    if (error == 0)
        uro_device_check_path(device, address.sgid_index, &address.dest,
                              uro_shard_path_mtu(uro_device_shard(device)));
    else if (error == -ENOMEM)
        uro_quota_check_bounds(device);
    uro_device_unlock(device);
    return error;
}

/* Fills in the handle. Returns 0 or an error number. */
static int build(struct uro_ibv_ah *ah, const struct ibv_ah_attr *attr)
{
    struct uro_device *device = uro_ibv_host(ah->ibv.context);
    struct uro_device *engine = device;
    struct uro_address address = { 0 };
    int error = 0;

    uro_ibv_address(device, attr, &address);
    while (engine != NULL && uro_device_started(engine) && error == 0) {
        error = create(engine, &ah->core[ah->engines], ah->ibv.pd->handle, &address);
        if (error == 0)
            ah->engines++;
        engine = uro_device_next_engine(engine);
    }
    if (error != 0)
        destroy(ah, device, ah->engines);
    return -error;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    const uint32_t engines = uro_device_config(uro_ibv_host(pd->context))->engines;
    struct uro_ibv_ah *ah;

    if (uro_inject(pd->context, URO_INJECT_CALL_CREATE_AH) != 0)
        return NULL;
    if (!uro_ibv_address_valid(pd->context, attr)) {
        (void)uro_refuse_address(pd->context, "ibv_create_ah", attr);
        errno = EINVAL;
        return NULL;
    }
    if (!uro_ibv_start_for(pd) ||
        (ah = uro_ibv_new(pd->context, sizeof *ah + engines * sizeof *ah->core)) == NULL)
        return NULL;
    if (!uro_object_charge(&ah->object, pd->context, URO_QUOTA_AH)) {
        free(ah);
        return NULL;
    }
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    int error = build(ah, attr);
    if (error != 0) {
        uro_object_refund(&ah->object);
        free(ah);
        if (error == EINVAL)
            (void)uro_refuse_address(pd->context, "ibv_create_ah", attr);
        else if (error == ENETUNREACH)
            (void)uro_refuse_route(uro_ibv_host(pd->context), "ibv_create_ah", attr);
        errno = error;
        return NULL;
    }
    atomic_fetch_add(&uro_ibv_pd(pd)->users, 1);
    uro_object_add(&ah->object, pd->context, detach);
    return &ah->ibv;
}

int uro_ibv_destroy_ah(struct ibv_ah *ibv)
{
    struct uro_ibv_ah *ah = uro_ibv_ah(ibv);

    uro_object_remove(&ah->object);
    atomic_fetch_sub(&uro_ibv_pd(ibv->pd)->users, 1);
    free(ah);
    return 0;
}

/* ---- from a received datagram --------------------------------------------------------------- */

/* Returns the GID index for a reply: the index of the datagram's destination address. If this is a
 * multicast address, returns the index of the first GID with the same IP version. Returns -1 if
 * there is none. */
static int own_index(struct ibv_context *context, const struct uro_grh *grh)
{
    const struct uro_device_config *config = uro_device_config(uro_ibv_host(context));
    bool group = uro_gid_is_multicast(&grh->dest);

    for (uint32_t i = 0; i < config->gid_count; i++) {
        const struct uro_gid *own = &config->gids[i];
        if (group ? uro_gid_is_ipv4(own) != grh->v6 : uro_gid_equal(own, &grh->dest))
            return (int)uro_gid_index_shown(config, i);
    }
    return -1;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                        struct ibv_grh *area, struct ibv_ah_attr *attr)
{
    struct uro_grh grh;
    int index = -1;

    if (port_num == URO_PORT && (wc->wc_flags & IBV_WC_GRH) && area != NULL &&
        uro_grh_decode((const uint8_t *)area, &grh))
        index = own_index(context, &grh);
    if (index < 0) {
        errno = EINVAL;
        return -1;
    }
    /* wc->sl has the type of the header in the receive buffer, not a service level. */
    *attr = (struct ibv_ah_attr){ .is_global = 1,
                                  .port_num = port_num,
                                  .grh = { .flow_label = grh.flow_label,
                                           .sgid_index = (uint8_t)index,
                                           .hop_limit = REPLY_HOP_LIMIT,
                                           .traffic_class = grh.traffic_class } };
    memcpy(attr->grh.dgid.raw, grh.source.octets, sizeof attr->grh.dgid.raw);
    return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port_num)
{
    struct ibv_ah_attr attr;

    if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0)
        return NULL;
    return ibv_create_ah(pd, &attr);
}
