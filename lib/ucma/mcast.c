/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast.c - joins and leaves groups. The GID and Q_Key of a group are known at once. The engine
 * joins when librdmacm attaches the queue pair.
 */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "ucma/cm_event.h"

#define ANY_QPN 0xffffffu

static int raise_joined(struct uro_mcast *mcast, const struct uro_gid *group)
{
    struct uro_id *id = mcast->id;
    struct rdma_ucm_event_resp event = { .event = URO_CM_EVENT_MULTICAST_JOIN };

    event.param.ud.qp_num = ANY_QPN;
    event.param.ud.qkey = id->qkey;
    uro_cm_event_path(id, group, &event.param.ud.ah_attr);
    return uro_channel_raise(id, NULL, mcast, &event);
}

static int join(struct uro_id *id, const struct uro_sock *group, const struct uro_reply *reply,
                uint64_t uid)
{
    struct uro_gid gid = uro_sock_gid(group);

    if (id->qp_type != IBV_QPT_UD || id->device == NULL ||
        (id->state != URO_ID_BOUND && id->state != URO_ID_RESOLVED))
        return -EINVAL;
    if (!uro_gid_is_multicast(&gid) ||
        uro_gid_is_ipv4(&gid) != (id->source.any.sa_family == AF_INET))
        return -EINVAL;
    struct uro_mcast *mcast = uro_id_mcast_new(id, uid);
    if (mcast == NULL)
        return -ENOMEM;
    const struct rdma_ucm_create_id_resp out = { .id = mcast->number };
    int error = uro_reply(reply, &out, sizeof out, sizeof out);
    if (error == 0)
        error = raise_joined(mcast, &gid);
    if (error != 0)
        uro_id_mcast_drop(mcast);
    return error;
}

int uro_mcast_join_ip(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_join_ip_mcast *in = command;
    const struct uro_sock group = { .v6 = in->addr };
    struct uro_id *id;

    if (reply_size < sizeof(struct rdma_ucm_create_id_resp))
        return -ENOSPC;
    if (uro_sock_size(&group) == 0 || uro_sock_size(&group) > sizeof in->addr)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    if (error != 0)
        return error;
    return join(id, &group, &(struct uro_reply){ in->response, reply_size }, in->uid);
}

int uro_mcast_join_any(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_join_mcast *in = command;
    struct uro_sock group;
    struct uro_id *id;

    if (reply_size < sizeof(struct rdma_ucm_create_id_resp))
        return -ENOSPC;
    if (uro_sock_read(&group, &in->addr, in->addr_size) != 0 ||
        in->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    if (error != 0)
        return error;
    return join(id, &group, &(struct uro_reply){ in->response, reply_size }, in->uid);
}

int uro_mcast_leave(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_destroy_id *in = command;
    struct rdma_ucm_destroy_id_resp out;
    struct uro_mcast *mcast;

    if (reply_size < sizeof out)
        return -ENOSPC;
    int error = uro_id_mcast_find(channel, in->id, &mcast);
    if (error != 0)
        return error;
    out.events_reported = uro_id_mcast_drop(mcast);
    return uro_reply(&(struct uro_reply){ in->response, reply_size }, &out, sizeof out, sizeof out);
}
