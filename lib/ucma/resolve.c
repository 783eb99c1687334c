/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.c - resolves an IP address to a device, a source address, and a next hop that replies.
 *
 * The source address of an identifier that is not bound to an address is the destination itself if
 * a device has this address. Otherwise it is the device address in the smallest subnet with the
 * destination. If no subnet has the destination, it is the first address that has a gateway.
 */
#include <errno.h>
#include <string.h>

#include "ucma/bind.h"
#include "ucma/cm_event.h"
#include "ucma/command.h"
#include "ucma/newer.h"

/* Ranks of a source address for a destination. The prefix length of a common subnet is added to
 * SAME_SUBNET. */
#define NOT_AT_ALL  0u
#define ELSEWHERE   1u /* multicast group that another address may reach */
#define BY_GATEWAY  2u
#define SAME_SUBNET 3u
#define ITSELF      1000u

static unsigned judge_group(const struct uro_gid *own, const struct uro_gid *group)
{
    bool near = (group->octets[1] & 0xf) == 2; /* IPv6: link-local scope */

    return uro_gid_is_ipv4(own) || uro_gid_is_link_local(own) == near ? SAME_SUBNET : ELSEWHERE;
}

static unsigned judge(const struct uro_device_config *config, uint32_t index,
                      const struct uro_gid *dest)
{
    const struct uro_gid *own = &config->gids[index];
    bool v4 = uro_gid_is_ipv4(dest);
    unsigned prefix = v4 ? config->prefix[index] + 96u : config->prefix[index];

    if (uro_gid_is_ipv4(own) != v4)
        return NOT_AT_ALL;
    if (uro_gid_equal(own, dest))
        return ITSELF;
    if (uro_gid_is_multicast(dest))
        return judge_group(own, dest);
    if (uro_gid_is_link_local(dest) != uro_gid_is_link_local(own))
        return NOT_AT_ALL;
    if (uro_gid_is_link_local(dest) || uro_gid_same_subnet(dest, own, prefix))
        return SAME_SUBNET + prefix;
    return uro_gid_is_zero(v4 ? &config->gateway4 : &config->gateway6) ? NOT_AT_ALL : BY_GATEWAY;
}

/* Sets device and source address of @id. Returns 0, -ENODEV or -ENETUNREACH. */
static int choose_source(struct uro_id *id, const struct uro_gid *dest, uint32_t scope)
{
    unsigned best = NOT_AT_ALL;
    struct uro_device *const *devices = uro_host_devices();

    if (*devices == NULL)
        return -ENODEV;
    for (struct uro_device *const *device = devices; *device != NULL; device++) {
        const struct uro_device_config *config = uro_device_config(*device);
        bool usable = !uro_device_gone(*device) && uro_bind_in_scope(*device, scope);
        for (uint32_t i = 0; i < config->gid_count && usable; i++) {
            unsigned fitness = judge(config, i, dest);
            if (fitness <= best)
                continue;
            best = fitness;
            id->device = *device;
            id->sgid_index = (uint8_t)i;
        }
    }
    return best == NOT_AT_ALL ? -ENETUNREACH : 0;
}

/* Replaces a wildcard, or a loopback address that stands for this machine, by the first address of
 * a device. */
static int follow_loopback(struct uro_sock *dest)
{
    if (!uro_sock_is_wildcard(dest) && !uro_bind_is_this_host(dest))
        return 0;
    return uro_bind_choose_first(dest) ? 0 : -ENODEV;
}

/* Binds @id to @source, or to a port of any address, unless the program has bound @id. */
static int have_port(struct uro_id *id, const struct uro_sock *source, const struct uro_sock *dest)
{
    struct uro_sock from = *source;
    const struct uro_gid none = { 0 };

    if (id->state != URO_ID_IDLE)
        return 0;
    if (from.any.sa_family == 0)
        uro_sock_make(&from, dest->any.sa_family, &none, 0);
    return uro_bind_to(id, &from);
}

static int resolve_start(struct uro_id *id, uint32_t timeout_ms)
{
    const struct uro_gid own = uro_id_local(id);
    uro_time now;
    int error = uro_device_start(id->device);

    if (error != 0)
        return error;
    uro_device_lock(id->device);
    id->route_mtu = uro_device_route_mtu(id->device, &own, &id->remote);
    now = id->began = uro_device_now();
    error = uro_engine_resolve_begin(uro_device_engine(id->device), &id->resolve, id->sgid_index,
                                     &id->remote, now + URO_MS(timeout_ms), now);
    if (error == 0)
        id->state = URO_ID_RESOLVING;
    else if (error == -ENOMEM)
        uro_quota_check_bounds(id->device);
    uro_device_unlock(id->device);
    return error;
}

static int resolve(struct uro_id *id, const struct uro_sock *source, struct uro_sock *dest,
                   uint32_t timeout_ms)
{
    if (id->state != URO_ID_IDLE && id->state != URO_ID_BOUND)
        return -EINVAL;
    int error = have_port(id, source, dest);
    if (error == 0 && id->source.any.sa_family != dest->any.sa_family)
        error = -EINVAL;
    if (error == 0)
        error = follow_loopback(dest);
    if (error != 0)
        return error;
    id->remote = uro_sock_gid(dest);
    if (id->device == NULL || id->anywhere)
        error = choose_source(id, &id->remote, uro_sock_scope(dest));
    if (error != 0)
        return error;
    id->dest = *dest;
    struct uro_gid own = uro_id_local(id);
    uro_sock_set_gid(&id->source, &own);
    if (uro_sock_scope(dest) != 0)
        id->source.v6.sin6_scope_id = dest->v6.sin6_scope_id;
    return resolve_start(id, timeout_ms);
}

int uro_resolve_ip(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_resolve_ip *in = command;
    struct uro_sock source = { .v6 = in->src_addr }, dest = { .v6 = in->dst_addr };
    struct uro_id *id;

    (void)reply_size;
    if ((dest.any.sa_family != AF_INET && dest.any.sa_family != AF_INET6) ||
        (source.any.sa_family != 0 && uro_sock_size(&source) > sizeof in->src_addr))
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    return error != 0 ? error : resolve(id, &source, &dest, in->timeout_ms);
}

int uro_resolve_any(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_resolve_addr *in = command;
    struct uro_sock source = { 0 }, dest;
    struct uro_id *id;

    (void)reply_size;
    if (in->reserved != 0 || uro_sock_read(&dest, &in->dst_addr, in->dst_size) != 0 ||
        (in->src_size != 0 && uro_sock_read(&source, &in->src_addr, in->src_size) != 0))
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    return error != 0 ? error : resolve(id, &source, &dest, in->timeout_ms);
}

/* Fails, since RoCE has no subnet administrator. */
int uro_resolve_service(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct uro_newer_resolve_ib_service *in = command;
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    (void)reply_size;
    if (error != 0)
        return error;
    return id->device == NULL || id->state != URO_ID_BOUND ? -EINVAL : -EOPNOTSUPP;
}

/* Queues ROUTE_RESOLVED: RoCE has one route, which is known already. */
int uro_resolve_route(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_resolve_route *in = command;
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    (void)reply_size;
    if (error != 0)
        return error;
    uro_id_lock(id);
    error = id->state == URO_ID_RESOLVED ? 0 : -EINVAL;
    if (error == 0)
        error = uro_cm_event_simple(id, URO_CM_EVENT_ROUTE_RESOLVED, 0);
    if (error == 0)
        id->state = URO_ID_ROUTED;
    uro_id_unlock(id);
    return error;
}
