/* SPDX-License-Identifier: BSD-3-Clause */
/* bind.c - see bind.h. */
#include "ucma/bind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/ip_cm.h"
#include "ucma/command.h"

#define BUCKETS         256u
#define EPHEMERAL_FIRST 32768u
#define EPHEMERAL_COUNT 28232u /* as Linux has it: to 60999 */
#define EPHEMERAL_STEP  1000u
#define BACKLOG_MOST    1024u

/* Identifiers with a port, by its low bits; under the commands lock. */
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

/* Whether @id, at address @source, and @other get into each other's way on the same port. */
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

    for (struct uro_link *at = list->head.next; at != &list->head; at = at->next) {
        const struct uro_id *other = URO_CONTAINER_OF(at, struct uro_id, port_link);
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
    uint64_t start = uro_device_now() / EPHEMERAL_STEP; /* not the same in each process */

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

/* The @index of @gid on @device; false when it has no such address. */
static bool has(const struct uro_device *device, const struct uro_gid *gid, uint8_t *index)
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
        if (uro_bind_in_scope(*device, scope) && has(*device, &gid, &id->sgid_index)) {
            id->device = *device;
            return 0;
        }
    return -EADDRNOTAVAIL;
}

bool uro_bind_stands_for_us(const struct uro_sock *sock)
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

bool uro_bind_take_first(struct uro_sock *sock)
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

/* Whether an IPv6 identifier leaves IPv4 to others, as sockets do: net.ipv6.bindv6only. */
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
    if (uro_bind_stands_for_us(source))
        (void)uro_bind_take_first(source);
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

int uro_bind_ip(struct uro_channel *channel, const void *command, uint32_t room)
{
    const struct rdma_ucm_bind_ip *in = command;
    struct uro_sock source = { .v6 = in->addr };
    struct uro_id *id;

    (void)room;
    if (source.any.sa_family != AF_INET && source.any.sa_family != AF_INET6)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    return error != 0 ? error : uro_bind_to(id, &source);
}

int uro_bind_any(struct uro_channel *channel, const void *command, uint32_t room)
{
    const struct rdma_ucm_bind *in = command;
    struct uro_sock source;
    struct uro_id *id;

    (void)room;
    if (in->reserved != 0 || uro_sock_read(&source, &in->addr, in->addr_size) != 0)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    return error != 0 ? error : uro_bind_to(id, &source);
}

/* ---- listening ----------------------------------------------------------------------------- */

static bool hears(const struct uro_id *id, const struct uro_gid *gid)
{
    struct uro_gid own = uro_sock_gid(&id->source);

    if (!uro_gid_is_zero(&own))
        return uro_gid_equal(&own, gid);
    bool both = id->source.any.sa_family == AF_INET6 && !id->family_only;
    return both || uro_sock_fits(&id->source, gid);
}

/* Entry 0 of a GID table may be another one's address again. */
static bool is_repeated(const struct uro_device_config *config, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (uro_gid_equal(&config->gids[i], &config->gids[index]))
            return true;
    return false;
}

static struct uro_listened heard_by(const struct uro_id_ear *ear)
{
    return (struct uro_listened){ ear->listener.service_id, ear->listener.address };
}

/* Before others of this process, and then before other processes that have the address, too. */
static int open_ear(struct uro_id_ear *ear)
{
    const struct uro_listened what = heard_by(ear);
    struct uro_cm *cm = uro_engine_cm(uro_device_engine(ear->device));
    int error = uro_conn_listen(cm, &ear->listener);

    if (error == -ENOMEM)
        uro_quota_check_bounds(ear->device);
    if (error != 0)
        return error;
    error = uro_device_claim_service(ear->device, &what);
    if (error != 0)
        uro_conn_unlisten(cm, &ear->listener);
    return error;
}

/* Adds an ear for every address of @device that @id hears. */
static int listen_on(struct uro_id *id, struct uro_device *device, uint32_t backlog)
{
    const struct uro_device_config *config = uro_device_config(device);
    int error = uro_device_gone(device) ? -ENODEV : uro_device_start(device);

    if (error != 0)
        return error;
    uro_device_lock(device);
    /* Ignores devices that were added after the array was sized, like devices that are added
     * later. */
    for (uint32_t i = 0; i < config->gid_count && error == 0 && id->ear_count < id->ear_room; i++) {
        if (!hears(id, &config->gids[i]) || is_repeated(config, i))
            continue;
        struct uro_id_ear *ear = &id->ears[id->ear_count];
        *ear = (struct uro_id_ear){
            .device = device,
            .listener = { .service_id =
                              uro_ip_cm_service(id->port_space, uro_sock_port(&id->source)),
                          .address = config->gids[i],
                          .backlog = backlog,
                          .user = id },
        };
        error = open_ear(ear);
        id->ear_count += error == 0;
    }
    uro_device_unlock(device);
    return error;
}

/* Allocates an ear for each address. No ear listens yet: ears must not move while they listen. */
static int grow_ears(struct uro_id *id)
{
    uint32_t count = 1;

    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++)
        count += uro_device_config(*device)->gid_count;
    free(id->ears);
    id->ears = calloc(count, sizeof *id->ears);
    id->ear_room = id->ears != NULL ? count : 0;
    return id->ears == NULL ? -ENOMEM : 0;
}

/* A wildcard listens on every device that can be started: on none only when each failed. */
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
    return id->ear_count > 0 ? 0 : failed;
}

static void close_ear(struct uro_id_ear *ear)
{
    const struct uro_listened what = heard_by(ear);

    if (ear->device == NULL)
        return;
    uro_device_lock(ear->device);
    uro_device_release_service(ear->device, &what);
    uro_conn_unlisten(uro_engine_cm(uro_device_engine(ear->device)), &ear->listener);
    uro_device_unlock(ear->device);
    ear->device = NULL;
}

void uro_bind_silence(struct uro_id *id)
{
    for (uint32_t i = 0; i < id->ear_count; i++)
        close_ear(&id->ears[i]);
    id->ear_count = 0;
}

void uro_bind_forget(struct uro_id *id, const struct uro_device *device)
{
    for (uint32_t i = 0; i < id->ear_count; i++)
        if (id->ears[i].device == device)
            close_ear(&id->ears[i]);
}

static int start_listening(struct uro_id *id, uint32_t backlog)
{
    if (backlog == 0 || backlog > BACKLOG_MOST)
        backlog = BACKLOG_MOST;
    /* Those with REUSEADDR may share a port until one of them listens. */
    int error = id->reuse ? check(id, &id->source, uro_sock_port(&id->source), false) : 0;
    if (error == 0)
        id->reuse = false;
    if (error == 0 && id->ear_count == 0)
        error = grow_ears(id);
    if (error != 0)
        return error;
    error =
        id->device != NULL ? listen_on(id, id->device, backlog) : listen_everywhere(id, backlog);
    if (error != 0)
        uro_bind_silence(id);
    return error;
}

int uro_bind_listen(struct uro_channel *channel, const void *command, uint32_t room)
{
    const struct rdma_ucm_listen *in = command;
    struct uro_sock anywhere = { .v4.sin_family = AF_INET };
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    (void)room;
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
