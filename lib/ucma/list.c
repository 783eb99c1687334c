/* SPDX-License-Identifier: BSD-3-Clause */
/* list.c - shows the identifiers of a device to other processes. */
#include <errno.h>

#include "core/snapshot.h"
#include "ucma/command.h"

static bool uses(const struct uro_id *id, const struct uro_device *device)
{
    bool listens = false;

    for (uint32_t i = 0; i < id->listener_count && !listens; i++)
        listens = id->listeners[i].device == device;
    return id->device == device || listens;
}

static uint8_t state_of(const struct uro_id *id)
{
    static const uint8_t states[] = {
        [URO_ID_IDLE] = URO_SNAPSHOT_ID_IDLE,
        [URO_ID_BOUND] = URO_SNAPSHOT_ID_ADDR_BOUND,
        [URO_ID_RESOLVING] = URO_SNAPSHOT_ID_ADDR_QUERY,
        [URO_ID_RESOLVED] = URO_SNAPSHOT_ID_ADDR_RESOLVED,
        [URO_ID_ROUTED] = URO_SNAPSHOT_ID_ROUTE_RESOLVED,
        [URO_ID_LISTENING] = URO_SNAPSHOT_ID_LISTEN,
        [URO_ID_CONNECTING] = URO_SNAPSHOT_ID_CONNECT,
    };
    const enum uro_conn_state state = id->conn != NULL ? id->conn->state : URO_CONN_IDLE;

    if (id->state == URO_ID_CONNECTING &&
        (state == URO_CONN_IDLE || state == URO_CONN_DREQ_SENT || state == URO_CONN_TIMEWAIT))
        return URO_SNAPSHOT_ID_DISCONNECT;
    return states[id->state];
}

/* Returns the IP version of the address, or 0 if it is not set. */
static uint8_t version_of(const struct uro_sock *sock)
{
    const struct uro_gid gid = uro_sock_gid(sock);

    switch (sock->any.sa_family) {
    case 0:
        return 0;
    case AF_INET:
        return 4;
    case AF_INET6:
        return 6;
    default: /* AF_IB */
        return uro_gid_is_ipv4(&gid) ? 4 : 6;
    }
}

static void copy(const struct uro_id *id, struct uro_snapshot_id *row)
{
    *row = (struct uro_snapshot_id){
        .number = id->number,
        .qpn = id->conn != NULL ? id->conn->local.qpn : 0,
        .port_space = id->port_space,
        .qp_type = id->qp_type,
        .state = state_of(id),
        .source_version = version_of(&id->source),
        .dest_version = version_of(&id->dest),
    };
    if (row->source_version != 0) {
        row->source = uro_sock_gid(&id->source);
        row->source_port = uro_sock_port(&id->source);
    }
    if (row->dest_version != 0) {
        row->dest = uro_sock_gid(&id->dest);
        row->dest_port = uro_sock_port(&id->dest);
    }
}

/* The commands lock must be taken before the engine lock, which the caller holds. Therefore this
 * function must not wait for the commands lock. */
int uro_id_list(const struct uro_device *device, struct uro_snapshot_id *rows, uint32_t capacity)
{
    const struct uro_id *id;
    uint32_t number = 0, count = 0;

    if (!uro_command_try_lock())
        return -EAGAIN;
    for (; (id = uro_id_next(&number)) != NULL; number++) {
        /* Events may change an identifier that the program does not know yet, so it is left out. */
        if (!id->known || !uses(id, device))
            continue;
        if (rows != NULL && count < capacity)
            copy(id, &rows[count]);
        count++;
    }
    uro_command_unlock();
    return (int)count;
}
