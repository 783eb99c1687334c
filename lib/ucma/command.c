/* SPDX-License-Identifier: BSD-3-Clause */
/* command.c - the table of commands, and the commands that create, move and destroy identifiers. */
#include "ucma/command.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "ucma/cm_event.h"
#include "ucma/newer.h"
#include "ucma/refusal.h"

static pthread_mutex_t commands = PTHREAD_MUTEX_INITIALIZER;

void uro_command_lock(void)
{
    (void)pthread_mutex_lock(&commands);
}

bool uro_command_try_lock(void)
{
    return pthread_mutex_trylock(&commands) == 0;
}

void uro_command_unlock(void)
{
    (void)pthread_mutex_unlock(&commands);
}

int uro_reply(const struct uro_reply *reply, const void *response, size_t size, size_t least)
{
    if (reply->size < least)
        return -ENOSPC;
    memcpy((void *)(uintptr_t)reply->address, response, reply->size < size ? reply->size : size);
    return 0;
}

/* ---- identifiers --------------------------------------------------------------------------- */

/* Finds the queue pair type of a port space. In the port space IB, the program chooses the type. */
static int type_of(const struct rdma_ucm_create_id *in, uint8_t *type)
{
    switch (in->ps) {
    case RDMA_PS_TCP:
        *type = IBV_QPT_RC;
        return 0;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
        *type = IBV_QPT_UD;
        return 0;
    case RDMA_PS_IB:
        *type = in->qp_type;
        return 0;
    default:
        return -EINVAL;
    }
}

static int create(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_create_id *in = command;
    uint8_t type;

    if (reply_size < sizeof(struct rdma_ucm_create_id_resp))
        return -ENOSPC;
    int error = type_of(in, &type);
    if (error != 0)
        return error;
    struct uro_id *id = uro_id_new(channel, in->uid, in->ps, type);
    if (id == NULL)
        return -ENOMEM;
    id->known = true;
    const struct rdma_ucm_create_id_resp out = { .id = id->number };
    return uro_reply(&(struct uro_reply){ in->response, reply_size }, &out, sizeof out, sizeof out);
}

static int destroy(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_destroy_id *in = command;
    struct rdma_ucm_destroy_id_resp out;
    struct uro_id *id;

    if (reply_size < sizeof out)
        return -ENOSPC;
    int error = uro_id_find(channel, in->id, &id);
    if (error != 0 && error != -ENXIO)
        return error;
    out.events_reported = uro_id_destroy(id);
    return uro_reply(&(struct uro_reply){ in->response, reply_size }, &out, sizeof out, sizeof out);
}

static int migrate(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_migrate_id *in = command;
    struct rdma_ucm_migrate_resp out;
    struct uro_id *id;

    if (reply_size < sizeof out)
        return -ENOSPC;
    struct uro_channel *from = uro_channel_get((int)in->fd);
    if (from == NULL)
        return fcntl((int)in->fd, F_GETFD) < 0 ? -ENOENT : -EINVAL;
    int error = uro_id_find(from, in->id, &id);
    if (error == 0) {
        /* No event can be queued meanwhile: queueing needs the engine lock or the commands lock. */
        uro_id_lock(id);
        uro_channel_move(id, channel);
        out.events_reported = id->events_reported;
        uro_id_unlock(id);
    }
    uro_channel_put(from);
    if (error != 0)
        return error;
    return uro_reply(&(struct uro_reply){ in->response, reply_size }, &out, sizeof out, sizeof out);
}

/* ---- the table ----------------------------------------------------------------------------- */

/* Size without ece, which was added later. */
#define CONNECT_LEAST offsetof(struct rdma_ucm_connect, ece)
#define ACCEPT_LEAST  offsetof(struct rdma_ucm_accept, ece)

static const struct row {
    uro_handler *handler;
    size_t least; /* minimum size of the command in bytes */
    size_t whole;
    bool waits; /* the handler takes the commands lock itself */
} rows[] = {
#define ROW(name, handle, fields)                                                                  \
    [RDMA_USER_CM_CMD_##name] = { handle, sizeof(fields), sizeof(fields), false }
    ROW(CREATE_ID, create, struct rdma_ucm_create_id),
    ROW(DESTROY_ID, destroy, struct rdma_ucm_destroy_id),
    ROW(BIND_IP, uro_bind_ip, struct rdma_ucm_bind_ip),
    ROW(RESOLVE_IP, uro_resolve_ip, struct rdma_ucm_resolve_ip),
    ROW(RESOLVE_ROUTE, uro_resolve_route, struct rdma_ucm_resolve_route),
    ROW(QUERY_ROUTE, uro_query_route, struct rdma_ucm_query),
    [RDMA_USER_CM_CMD_CONNECT] = { uro_connect_start, CONNECT_LEAST,
                                   sizeof(struct rdma_ucm_connect), false },
    ROW(LISTEN, uro_bind_listen, struct rdma_ucm_listen),
    [RDMA_USER_CM_CMD_ACCEPT] = { uro_connect_accept, ACCEPT_LEAST, sizeof(struct rdma_ucm_accept),
                                  false },
    ROW(REJECT, uro_connect_reject, struct rdma_ucm_reject),
    ROW(DISCONNECT, uro_connect_disconnect, struct rdma_ucm_disconnect),
    ROW(INIT_QP_ATTR, uro_attr_init_qp, struct rdma_ucm_init_qp_attr),
    [RDMA_USER_CM_CMD_GET_EVENT] = { uro_cm_event_fetch, sizeof(struct rdma_ucm_get_event),
                                     sizeof(struct rdma_ucm_get_event), true },
    ROW(SET_OPTION, uro_option_set, struct rdma_ucm_set_option),
    ROW(NOTIFY, uro_connect_notify, struct rdma_ucm_notify),
    ROW(JOIN_IP_MCAST, uro_mcast_join_ip, struct rdma_ucm_join_ip_mcast),
    ROW(LEAVE_MCAST, uro_mcast_leave, struct rdma_ucm_destroy_id),
    ROW(MIGRATE_ID, migrate, struct rdma_ucm_migrate_id),
    ROW(QUERY, uro_query_any, struct rdma_ucm_query),
    ROW(BIND, uro_bind_any, struct rdma_ucm_bind),
    ROW(RESOLVE_ADDR, uro_resolve_any, struct rdma_ucm_resolve_addr),
    ROW(JOIN_MCAST, uro_mcast_join_any, struct rdma_ucm_join_mcast),
#undef ROW
    [URO_NEWER_RESOLVE_IB_SERVICE] = { uro_resolve_service,
                                       sizeof(struct uro_newer_resolve_ib_service),
                                       sizeof(struct uro_newer_resolve_ib_service), false },
    [URO_NEWER_WRITE_CM_EVENT] = { uro_cm_event_write, sizeof(struct uro_newer_write_cm_event),
                                   sizeof(struct uro_newer_write_cm_event), false },
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

union command {
    struct rdma_ucm_connect connect;
    struct rdma_ucm_accept accept;
    struct rdma_ucm_resolve_addr resolve_addr;
    struct rdma_ucm_reject reject;
    struct uro_newer_write_cm_event write_cm_event;
};

static int run(struct uro_channel *channel, const uint8_t *octets, size_t size)
{
    struct rdma_ucm_cmd_hdr header;
    union command command;

    if (size < sizeof header)
        return -EINVAL;
    memcpy(&header, octets, sizeof header);
    if (header.cmd >= ROW_COUNT || header.in > size - sizeof header)
        return -EINVAL;
    const struct row *row = &rows[header.cmd];
    if (row->handler == NULL)
        return -ENOSYS;
    if (header.in < row->least)
        return -EINVAL;
    URO_ASSERT(row->whole <= sizeof command);
    memset(&command, 0, sizeof command);
    memcpy(&command, octets + sizeof header, header.in < row->whole ? header.in : row->whole);
    if (row->waits)
        return row->handler(channel, &command, header.out);
    uro_command_lock();
    int error = row->handler(channel, &command, header.out);
    if (error != 0)
        uro_cm_refuse(channel, header.cmd, &command, error);
    uro_command_unlock();
    return error;
}

/* Runs a command on a dead channel. librdmacm frees its part of an identifier after DESTROY_ID. Our
 * part stays, so that its number is not reused. */
static int run_dead(const uint8_t *octets, size_t size)
{
    const struct rdma_ucm_destroy_id_resp out = { 0 }; /* no event was reported */
    struct rdma_ucm_cmd_hdr header;
    struct rdma_ucm_destroy_id in;

    if (uro_host_cloned() || size < sizeof header + sizeof in)
        return -EIO;
    memcpy(&header, octets, sizeof header);
    memcpy(&in, octets + sizeof header, sizeof in);
    if (header.cmd != RDMA_USER_CM_CMD_DESTROY_ID || header.in < sizeof in)
        return -EIO;
    return uro_reply(&(struct uro_reply){ in.response, header.out }, &out, sizeof out, sizeof out);
}

ssize_t uro_command_write(struct uro_channel *channel, const void *octets, size_t size)
{
    bool dead = uro_host_cloned() || uro_channel_dead(channel);
    int error = dead ? run_dead(octets, size) : run(channel, octets, size);

    if (error == 0)
        return (ssize_t)size;
    errno = -error;
    return -1;
}
