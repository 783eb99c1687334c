/* SPDX-License-Identifier: BSD-3-Clause */
/* query.c - queries of an identifier: addresses, device, path, GIDs. */
#include <errno.h>
#include <string.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>

#include "ucma/command.h"
#include "ucma/newer.h"
#include "verbs/objects.h"
#include "wire/bytes.h"

#define PORT          1u
#define PKEY          0xffffu
#define EXACTLY       2u  /* a selector: not "less than" or "greater than" */
#define LIFETIME      16u /* 4.096 us * 2^n */
#define HOP_LIMIT     64u
#define SELECTOR      6u /* bits below a selector */
#define FLOW_LABEL_AT 8u

/* Returns the GUID like ibv_get_device_guid(), also for a device that librdmacm has not listed
 * yet. */
static uint64_t guid_of(const struct uro_id *id)
{
    uint8_t octets[8];
    uint64_t guid;

    uro_put_be64(octets, uro_device_config(id->device)->guid);
    memcpy(&guid, octets, sizeof guid);
    return guid;
}

/* Result of ibv_get_device_index() for every device. */
#define NO_INDEX UINT32_MAX

/* Returns whether the identifier has a path: its route is resolved. */
static bool has_path(const struct uro_id *id)
{
    return id->device != NULL && id->dest.any.sa_family != 0 && uro_device_started(id->device) &&
           id->state > URO_ID_RESOLVED;
}

static uint8_t mtu_of(const struct uro_id *id)
{
    return id->conn != NULL ? id->conn->path_mtu : uro_id_path_mtu(id);
}

static void fill_record(const struct uro_id *id, struct ibv_path_record *record)
{
    struct uro_gid own = uro_id_local(id);
    uint32_t flow_label = id->conn != NULL ? id->conn->route.flow_label : 0;

    memcpy(record->dgid.raw, id->remote.octets, sizeof record->dgid);
    memcpy(record->sgid.raw, own.octets, sizeof record->sgid);
    uro_put_be32((uint8_t *)&record->flowlabel_hoplimit, flow_label << FLOW_LABEL_AT | HOP_LIMIT);
    record->tclass = id->tos;
    record->reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1;
    uro_put_be16((uint8_t *)&record->pkey, PKEY);
    record->mtu = (uint8_t)(EXACTLY << SELECTOR | mtu_of(id));
    record->rate = EXACTLY << SELECTOR;
    record->packetlifetime = EXACTLY << SELECTOR | LIFETIME;
}

static void fill_route(const struct uro_id *id, struct ib_user_path_rec *route)
{
    struct uro_gid own = uro_id_local(id);

    memcpy(route->dgid, id->remote.octets, sizeof route->dgid);
    memcpy(route->sgid, own.octets, sizeof route->sgid);
    route->reversible = 1;
    route->mtu = mtu_of(id);
    uro_put_be16((uint8_t *)&route->pkey, PKEY);
    route->hop_limit = HOP_LIMIT;
    route->traffic_class = id->tos;
    route->numb_path = 1;
    route->mtu_selector = route->rate_selector = route->packet_life_time_selector = EXACTLY;
    route->packet_life_time = LIFETIME;
}

/* ---- the commands -------------------------------------------------------------------------- */

static int query_addr(const struct uro_id *id, const struct uro_reply *reply)
{
    struct rdma_ucm_query_addr_resp out = { .src_size = (uint16_t)uro_sock_size(&id->source),
                                            .dst_size = (uint16_t)uro_sock_size(&id->dest) };

    memcpy(&out.src_addr, &id->source, out.src_size);
    memcpy(&out.dst_addr, &id->dest, out.dst_size);
    if (id->device != NULL) {
        out.node_guid = guid_of(id);
        out.port_num = PORT;
        out.pkey = PKEY;
        out.ibdev_index = NO_INDEX;
    }
    return uro_reply(reply, &out, sizeof out,
                     offsetof(struct rdma_ucm_query_addr_resp, ibdev_index));
}

static int query_path(const struct uro_id *id, const struct uro_reply *reply)
{
    struct { /* struct rdma_ucm_query_path_resp with one path */
        uint32_t num_paths;
        uint32_t reserved;
        struct ibv_path_data path;
    } out = { .num_paths = has_path(id) };

    static_assert(sizeof out.path == sizeof(struct ib_path_rec_data), "two names for one layout");
    if (out.num_paths > 0) {
        out.path.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
        fill_record(id, &out.path.path);
    }
    const size_t start =
        sizeof(struct rdma_ucm_query_path_resp); /* the path is complete or absent */
    return uro_reply(reply, &out, reply->size < sizeof out ? start : sizeof out, start);
}

/* Returns the addresses as GIDs, in the form of AF_IB. */
static int query_gid(const struct uro_id *id, const struct uro_reply *reply)
{
    struct rdma_ucm_query_addr_resp out = { 0 };
    struct uro_sock source, dest;
    struct uro_gid own = { 0 };

    if (id->device != NULL) {
        own = uro_id_local(id);
        out.node_guid = guid_of(id);
        out.port_num = PORT;
        out.pkey = PKEY;
        out.ibdev_index = NO_INDEX;
    }
    uro_sock_make(&source, AF_IB, &own, uro_sock_port(&id->source));
    uro_sock_make(&dest, AF_IB, &id->remote,
                  id->dest.any.sa_family != 0 ? uro_sock_port(&id->dest) : 0);
    out.src_size = out.dst_size = sizeof source.ib;
    memcpy(&out.src_addr, &source.ib, sizeof source.ib);
    memcpy(&out.dst_addr, &dest.ib, sizeof dest.ib);
    return uro_reply(reply, &out, sizeof out,
                     offsetof(struct rdma_ucm_query_addr_resp, ibdev_index));
}

/* Returns ENODATA: on RoCE no service can be resolved. */
static int query_service(const struct uro_reply *reply)
{
    return reply->size < sizeof(struct uro_newer_query_ib_service) ? -ENOSPC : -ENODATA;
}

static int query(const struct uro_id *id, const struct rdma_ucm_query *in, uint32_t reply_size)
{
    const struct uro_reply reply = { in->response, reply_size };

    switch (in->option) {
    case RDMA_USER_CM_QUERY_ADDR:
        return query_addr(id, &reply);
    case RDMA_USER_CM_QUERY_PATH:
        return query_path(id, &reply);
    case RDMA_USER_CM_QUERY_GID:
        return query_gid(id, &reply);
    case URO_NEWER_QUERY_IB_SERVICE:
        return query_service(&reply);
    default:
        return -ENOSYS;
    }
}

int uro_query_any(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_query *in = command;
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    if (error != 0)
        return error;
    uro_id_lock(id);
    error = query(id, in, reply_size);
    uro_id_unlock(id);
    return error;
}

/* Handles the old form of QUERY, which returns several results at once. */
static int query_all(const struct uro_id *id, const struct uro_reply *reply)
{
    struct rdma_ucm_query_route_resp out = { .num_paths = has_path(id) };

    if (id->source.any.sa_family != AF_IB)
        memcpy(&out.src_addr, &id->source, uro_sock_size(&id->source));
    if (id->dest.any.sa_family != AF_IB)
        memcpy(&out.dst_addr, &id->dest, uro_sock_size(&id->dest));
    if (id->device != NULL) {
        out.node_guid = guid_of(id);
        out.port_num = PORT;
        out.ibdev_index = NO_INDEX;
    }
    if (out.num_paths > 0)
        fill_route(id, &out.ib_route[0]);
    return uro_reply(reply, &out, sizeof out,
                     offsetof(struct rdma_ucm_query_route_resp, ibdev_index));
}

int uro_query_route(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_query *in = command; /* `option` is ignored */
    struct uro_id *id;

    if (reply_size < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
        return -ENOSPC;
    int error = uro_id_find(channel, in->id, &id);
    if (error != 0)
        return error;
    uro_id_lock(id);
    error = query_all(id, &(struct uro_reply){ in->response, reply_size });
    uro_id_unlock(id);
    return error;
}
