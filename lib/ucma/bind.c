/* SPDX-License-Identifier: BSD-3-Clause */
/* bind.c - see bind.h for the contract. */
#include "ucma/bind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/ip_cm.h"
#include "ucma/command.h"

#define BUCKETS         256u
#define EPHEMERAL_FIRST 32768u
#define EPHEMERAL_COUNT 28232u /* the last port is 60999, as in Linux */
#define EPHEMERAL_STEP  1000u
#define BACKLOG_MOST    1024u

/* Identifiers with a port, in buckets by the low bits of the port. Protected by the commands
 * lock. */
static struct uro_list ports[BUCKETS];

static struct uro_list *bucket(uint16_t port)
{
    struct uro_list *list = &ports[port % BUCKETS];

    if (list->head.next == NULL)
        uro_list_init(list);
    return list;
}

void uro_bind_abandon(void)
{
    memset(ports, 0, sizeof ports);
}

/* ---- ports --------------------------------------------------------------------------------- */

/* Returns 0 if @id, at address @source, may share the port with @other, else -errno. */
static int conflict(const struct uro_id *id, const struct uro_sock *source,
                    const struct uro_id *other, bool reuse)
{
    struct uro_gid mine = uro_sock_gid(source), theirs = uro_sock_gid(&other->source);

    if (reuse && other->reuse)
        return 0;
    if (id->family_only && other->family_only &&
        source->any.sa_family != other->source.any.sa_family)
        return 0;
    if (uro_gid_is_zero(&mine) || uro_gid_is_zero(&theirs))
        return -EADDRNOTAVAIL;
    return uro_gid_equal(&mine, &theirs) ? -EADDRINUSE : 0;
}

static int check(const struct uro_id *id, const struct uro_sock *source, uint16_t port, bool reuse)
{
    struct uro_list *list = bucket(port);

    for (struct uro_link *link = list->head.next; link != &list->head; link = link->next) {
        const struct uro_id *other = URO_CONTAINER_OF(link, struct uro_id, port_link);
        if (other == id || other->port_space != id->port_space ||
            uro_sock_port(&other->source) != port)
            continue;
        int error = conflict(id, source, other, reuse);
        if (error != 0)
            return error;
    }
    return 0;
}

static int choose(const struct uro_id *id, const struct uro_sock *source, uint16_t *port)
{
    uint64_t start = uro_device_now() / EPHEMERAL_STEP; /* differs between processes */

    for (uint32_t i = 0; i < EPHEMERAL_COUNT; i++) {
        *port = (uint16_t)(EPHEMERAL_FIRST + (start + i) % EPHEMERAL_COUNT);
        if (check(id, source, *port, false) == 0)
            return 0;
    }
    return -EADDRNOTAVAIL;
}

static int take_port(struct uro_id *id, const struct uro_sock *source)
{
    uint16_t port = uro_sock_port(source);
    int error = port == 0 ? choose(id, source, &port) : check(id, source, port, id->reuse);

    if (error != 0)
        return error;
    id->source = *source;
    id->anywhere = uro_sock_is_wildcard(source);
    uro_sock_set_port(&id->source, port);
    uro_list_append(bucket(port), &id->port_link);
    return 0;
}

void uro_bind_release(struct uro_id *id)
{
    uro_list_remove(&id->port_link);
}

/* ---- devices ------------------------------------------------------------------------------- */

/* Finds the index of @gid on @device. Returns false if the device does not have it. */
static bool has_address(const struct uro_device *device, const struct uro_gid *gid, uint8_t *index)
{
    const struct uro_device_config *config = uro_device_config(device);

    for (uint32_t i = 0; i < config->gid_count && !uro_device_gone(device); i++)
        if (uro_gid_equal(&config->gids[i], gid)) {
            *index = (uint8_t)i;
            return true;
        }
    return false;
}

bool uro_bind_in_scope(const struct uro_device *device, uint32_t scope)
{
    uint32_t interface = scope == 0 ? 0 : uro_device_interface(device);

    return interface == 0 || interface == scope;
}

static int find_device(struct uro_id *id)
{
    struct uro_gid gid = uro_sock_gid(&id->source);
    uint32_t scope = uro_sock_scope(&id->source);

    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++)
        if (uro_bind_in_scope(*device, scope) && has_address(*device, &gid, &id->sgid_index)) {
            id->device = *device;
            return 0;
        }
    return -EADDRNOTAVAIL;
}

bool uro_bind_is_this_host(const struct uro_sock *sock)
{
    if (!uro_sock_is_loopback(sock))
        return false;
    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++) {
        const struct uro_device_config *config = uro_device_config(*device);
        for (uint32_t i = 0; i < config->gid_count; i++)
            if (uro_sock_fits(sock, &config->gids[i]) && uro_gid_is_loopback(&config->gids[i]))
                return false;
    }
    return true;
}

bool uro_bind_choose_first(struct uro_sock *sock)
{
    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++) {
        const struct uro_device_config *config = uro_device_config(*device);
        for (uint32_t i = 0; i < config->gid_count && !uro_device_gone(*device); i++)
            if (uro_sock_fits(sock, &config->gids[i])) {
                uro_sock_set_gid(sock, &config->gids[i]);
                return true;
            }
    }
    return false;
}

/* Returns whether an IPv6 identifier excludes IPv4 by default, as for sockets:
 * net.ipv6.bindv6only. */
static bool v6_only(void)
{
    FILE *in = fopen("/proc/sys/net/ipv6/bindv6only", "re");
    int on = in != NULL ? fgetc(in) : EOF;

    if (in != NULL)
        (void)fclose(in);
    return on == '1';
}

static void set_family_only(struct uro_id *id, const struct uro_sock *source)
{
    if (id->family_only_set)
        return;
    id->family_only =
        source->any.sa_family == AF_INET || (source->any.sa_family == AF_INET6 && v6_only());
}

int uro_bind_to(struct uro_id *id, struct uro_sock *source)
{
    if (id->state != URO_ID_IDLE)
        return -EINVAL;
    if (uro_bind_is_this_host(source))
        (void)uro_bind_choose_first(source);
    id->source = *source;
    set_family_only(id, source);
    int error = uro_sock_is_wildcard(source) ? 0 : find_device(id);
    if (error == 0)
        error = take_port(id, source);
    if (error != 0) {
        id->source = (struct uro_sock){ 0 };
        id->device = NULL;
        return error;
    }
    id->state = URO_ID_BOUND;
    return 0;
}

int uro_bind_ip(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_bind_ip *in = command;
    struct uro_sock source = { .v6 = in->addr };
    struct uro_id *id;

    (void)reply_size;
    if (source.any.sa_family != AF_INET && source.any.sa_family != AF_INET6)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    return error != 0 ? error : uro_bind_to(id, &source);
}

int uro_bind_any(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_bind *in = command;
    struct uro_sock source;
    struct uro_id *id;

    (void)reply_size;
    if (in->reserved != 0 || uro_sock_read(&source, &in->addr, in->addr_size) != 0)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    return error != 0 ? error : uro_bind_to(id, &source);
}

/* ---- listening ----------------------------------------------------------------------------- */

static bool listens_at(const struct uro_id *id, const struct uro_gid *gid)
{
    struct uro_gid own = uro_sock_gid(&id->source);

    if (!uro_gid_is_zero(&own))
        return uro_gid_equal(&own, gid);
    bool both = id->source.any.sa_family == AF_INET6 && !id->family_only;
    return both || uro_sock_fits(&id->source, gid);
}

/* Returns whether the GID equals an earlier entry. Over UDP, entry 0 is a copy of entry 1. */
static bool is_repeated(const struct uro_device_config *config, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (uro_gid_equal(&config->gids[i], &config->gids[index]))
            return true;
    return false;
}

static struct uro_listened service_of(const struct uro_id_listener *listener)
{
    return (struct uro_listened){ listener->cm_listener.service_id, listener->cm_listener.address };
}

/* Starts to listen, first in this process and then among the processes that share the address. */
static int open_listener(struct uro_id_listener *listener)
{
    const struct uro_listened service = service_of(listener);
    struct uro_cm *cm = uro_engine_cm(uro_device_engine(listener->device));
    int error = uro_conn_listen(cm, &listener->cm_listener);

    if (error == -ENOMEM)
        uro_quota_check_bounds(listener->device);
    if (error != 0)
        return error;
    error = uro_device_lock_service(listener->device, &service);
    if (error != 0)
        uro_conn_unlisten(cm, &listener->cm_listener);
    return error;
}

/* Adds a listener for every address of @device that @id listens at. */
static int listen_on(struct uro_id *id, struct uro_device *device, uint32_t backlog)
{
    const struct uro_device_config *config = uro_device_config(device);
    int error = uro_device_gone(device) ? -ENODEV : uro_device_start(device);

    if (error != 0)
        return error;
    uro_device_lock(device);
    /* The array has no space for a device that was added after it was sized. Such a device is
     * ignored. */
    for (uint32_t i = 0;
         i < config->gid_count && error == 0 && id->listener_count < id->listener_capacity; i++) {
        if (!listens_at(id, &config->gids[i]) || is_repeated(config, i))
            continue;
        struct uro_id_listener *listener = &id->listeners[id->listener_count];
        *listener = (struct uro_id_listener){
            .device = device,
            .cm_listener = { .service_id =
                                 uro_ip_cm_service(id->port_space, uro_sock_port(&id->source)),
                             .address = config->gids[i],
                             .backlog = backlog,
                             .user = id },
        };
        error = open_listener(listener);
        id->listener_count += error == 0;
    }
    uro_device_unlock(device);
    return error;
}

/* Allocates a listener for each address before any of them listens, because a listener must not
 * move in memory afterwards. */
static int allocate_listeners(struct uro_id *id)
{
    uint32_t count = 1;

    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++)
        count += uro_device_config(*device)->gid_count;
    free(id->listeners);
    id->listeners = calloc(count, sizeof *id->listeners);
    id->listener_capacity = id->listeners != NULL ? count : 0;
    return id->listeners == NULL ? -ENOMEM : 0;
}

/* Listens on every device that starts. Fails if a device reports that the port is in use, or if no
 * device starts. */
static int listen_everywhere(struct uro_id *id, uint32_t backlog)
{
    int failed = 0;

    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++) {
        int error = listen_on(id, *device, backlog);
        if (error == -EADDRINUSE)
            return error;
        if (error != 0)
            failed = error;
    }
    return id->listener_count > 0 ? 0 : failed;
}

static void close_listener(struct uro_id_listener *listener)
{
    const struct uro_listened service = service_of(listener);

    if (listener->device == NULL)
        return;
    uro_device_lock(listener->device);
    uro_device_unlock_service(listener->device, &service);
    uro_conn_unlisten(uro_engine_cm(uro_device_engine(listener->device)), &listener->cm_listener);
    uro_device_unlock(listener->device);
    listener->device = NULL;
}

void uro_bind_stop_listening(struct uro_id *id)
{
    for (uint32_t i = 0; i < id->listener_count; i++)
        close_listener(&id->listeners[i]);
    id->listener_count = 0;
}

void uro_bind_forget_device(struct uro_id *id, const struct uro_device *device)
{
    for (uint32_t i = 0; i < id->listener_count; i++)
        if (id->listeners[i].device == device)
            close_listener(&id->listeners[i]);
}

static int start_listening(struct uro_id *id, uint32_t backlog)
{
    if (backlog == 0 || backlog > BACKLOG_MOST)
        backlog = BACKLOG_MOST;
    /* Identifiers with REUSEADDR share a port only until one of them listens. */
    int error = id->reuse ? check(id, &id->source, uro_sock_port(&id->source), false) : 0;
    if (error == 0)
        id->reuse = false;
    if (error == 0 && id->listener_count == 0)
        error = allocate_listeners(id);
    if (error != 0)
        return error;
    error =
        id->device != NULL ? listen_on(id, id->device, backlog) : listen_everywhere(id, backlog);
    if (error != 0)
        uro_bind_stop_listening(id);
    return error;
}

int uro_bind_listen(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_listen *in = command;
    struct uro_sock anywhere = { .v4.sin_family = AF_INET };
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    (void)reply_size;
    if (error != 0)
        return error;
    error = id->state == URO_ID_IDLE ? uro_bind_to(id, &anywhere) : 0;
    if (error != 0)
        return error;
    if (id->state != URO_ID_BOUND)
        return -EINVAL;
    error = start_listening(id, in->backlog);
    if (error == 0)
        id->state = URO_ID_LISTENING;
    return error;
}
