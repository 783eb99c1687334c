/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal.c - see refusal.h. The reason is found after the command has failed, so correct commands
 * cost nothing. */
#include "ucma/refusal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include "cm/ip_cm.h"
#include "ucma/bind.h"
#include "verbs/refusal.h"
#include "wire/cm_msg.h"

/* A failed command. */
struct failed {
    const struct uro_id *id;
    const char *call; /* name of the librdmacm function */
    const void *command;
    int error;         /* errno */
    unsigned state;    /* enum uro_id_state of the identifier */
    bool is_requested; /* the identifier has a connection */
};

static struct uro_device *device_of(const struct uro_id *id)
{
    return id->device != NULL ? id->device : uro_host_devices()[0];
}

/* Reports that the call is not possible in the state of the identifier. */
static void refuse_state(const struct failed *failed, const char *mend)
{
    static const char *const states[] = {
        [URO_ID_IDLE] = "is new",
        [URO_ID_BOUND] = "is bound",
        [URO_ID_RESOLVING] = "resolves an address",
        [URO_ID_RESOLVED] = "has an address, but no route",
        [URO_ID_ROUTED] = "has a route",
        [URO_ID_LISTENING] = "listens",
        [URO_ID_CONNECTING] = "has a connection, or had one",
    };

    (void)uro_refuse(device_of(failed->id), failed->error, failed->call, "the identifier %s: %s",
                     states[failed->state], mend);
}

/* Returns whether a device has the address. */
static bool is_own(const struct uro_gid *gid)
{
    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++) {
        const struct uro_device_config *config = uro_device_config(*device);
        for (uint32_t i = 0; i < config->gid_count && !uro_device_gone(*device); i++)
            if (uro_gid_equal(&config->gids[i], gid))
                return true;
    }
    return false;
}

/* ---- addresses ------------------------------------------------------------------------- */

static void refuse_family(const struct failed *failed, const struct uro_sock *sock)
{
    (void)uro_refuse(device_of(failed->id), failed->error, failed->call,
                     "sa_family %u or the length of the address is wrong: use AF_INET, AF_INET6 or "
                     "AF_IB",
                     sock->any.sa_family);
}

/* Reports why the source address cannot be used. */
static void refuse_source(const struct failed *failed, const struct uro_sock *source)
{
    const struct uro_gid gid = uro_sock_gid(source);
    struct uro_device *device = device_of(failed->id);
    const unsigned port = uro_sock_port(source);
    char text[URO_GID_TEXT_MAX];

    (void)uro_gid_text(&gid, text);
    if (failed->error == EADDRINUSE)
        (void)uro_refuse(device, EADDRINUSE, failed->call,
                         "port %u of %s is taken: choose another port, end the program that has "
                         "it, or set RDMA_OPTION_ID_REUSEADDR on all its identifiers",
                         port, text);
    else if (uro_gid_is_zero(&gid) || is_own(&gid))
        (void)uro_refuse(device, failed->error, failed->call,
                         "port %u is taken at an address that the wildcard includes, or no port "
                         "is free: choose another port",
                         port);
    else if (port == 0) /* correct programs try all addresses of the machine to find a device */
        (void)uro_refuse_probe(device, failed->error, failed->call,
                               "no device has the address %s; see `uroce devices`", text);
    else
        (void)uro_refuse(device, failed->error, failed->call,
                         "no device has the address %s: use an address of `uroce devices`, or give "
                         "a device this address with ip=",
                         text);
}

static void refuse_bind_to(const struct failed *failed, const struct uro_sock *source)
{
    if (failed->error == EADDRINUSE || failed->error == EADDRNOTAVAIL)
        refuse_source(failed, source);
    else if (failed->error == EINVAL && uro_sock_size(source) == 0)
        refuse_family(failed, source);
    else if (failed->error == EINVAL && failed->state != URO_ID_IDLE)
        refuse_state(failed, "call rdma_bind_addr once, before any other call");
}

static void refuse_bind_ip(const struct failed *failed)
{
    const struct rdma_ucm_bind_ip *in = failed->command;

    refuse_bind_to(failed, &(struct uro_sock){ .v6 = in->addr });
}

static void refuse_bind(const struct failed *failed)
{
    const struct rdma_ucm_bind *in = failed->command;
    struct uro_sock source = { 0 };

    if (uro_sock_read(&source, &in->addr, in->addr_size) != 0)
        source = (struct uro_sock){ .any.sa_family = in->addr.ss_family };
    refuse_bind_to(failed, &source);
}

static void refuse_destination(const struct failed *failed, const struct uro_sock *source,
                               const struct uro_sock *dest)
{
    const struct uro_gid gid = uro_sock_gid(dest);
    struct uro_device *device = device_of(failed->id);
    char text[URO_GID_TEXT_MAX];

    (void)uro_gid_text(&gid, text);
    if (failed->error == EADDRINUSE || failed->error == EADDRNOTAVAIL)
        refuse_source(failed, source);
    else if (failed->error == ENETUNREACH)
        (void)uro_refuse(device, ENETUNREACH, failed->call,
                         "%s is in no subnet of a device, and no device has a gateway: give the "
                         "device the right prefix in ip=, or gateway=",
                         text);
    else if (failed->error == ENODEV && (uro_sock_is_wildcard(dest) || uro_sock_is_loopback(dest)))
        (void)uro_refuse(device, ENODEV, failed->call,
                         "%s stands for this machine, but no device has an address of this IP "
                         "version: use an address of `uroce devices`",
                         text);
    else if (failed->error != EINVAL)
        return;
    else if (failed->state != URO_ID_IDLE && failed->state != URO_ID_BOUND)
        refuse_state(failed, "call rdma_resolve_addr once");
    else if (uro_sock_size(dest) == 0)
        refuse_family(failed, dest);
    else
        (void)uro_refuse(device, EINVAL, failed->call,
                         "source and destination are not of the same address family");
}

static void refuse_resolve_ip(const struct failed *failed)
{
    const struct rdma_ucm_resolve_ip *in = failed->command;

    refuse_destination(failed, &(struct uro_sock){ .v6 = in->src_addr },
                       &(struct uro_sock){ .v6 = in->dst_addr });
}

static void refuse_resolve(const struct failed *failed)
{
    const struct rdma_ucm_resolve_addr *in = failed->command;
    struct uro_sock source = { 0 }, dest = { 0 };

    if (uro_sock_read(&dest, &in->dst_addr, in->dst_size) != 0)
        dest = (struct uro_sock){ .any.sa_family = in->dst_addr.ss_family };
    (void)!uro_sock_read(&source, &in->src_addr, in->src_size);
    refuse_destination(failed, &source, &dest);
}

static void refuse_route(const struct failed *failed)
{
    if (failed->error == EINVAL)
        refuse_state(failed, "call rdma_resolve_route after the event ADDR_RESOLVED");
}

static void refuse_listen(const struct failed *failed)
{
    const unsigned port = uro_sock_port(&failed->id->source);

    if (failed->error == EADDRINUSE)
        (void)uro_refuse(device_of(failed->id), EADDRINUSE, failed->call,
                         "port %u is taken by another identifier, or by another process that "
                         "shares the address: choose another port, or end the other program",
                         port);
    else if (failed->error == EINVAL)
        refuse_state(failed, "call rdma_listen after rdma_bind_addr");
}

/* ---- connections ----------------------------------------------------------------------- */

static void refuse_private_data(const struct failed *failed, unsigned length, unsigned most)
{
    (void)uro_refuse(device_of(failed->id), EINVAL, failed->call,
                     "private_data_len is %u; at most %u bytes fit: send the rest after the "
                     "connection is established",
                     length, most);
}

static bool is_datagram(const struct failed *failed)
{
    return failed->id->qp_type == IBV_QPT_UD;
}

static void refuse_connect(const struct failed *failed)
{
    const struct rdma_ucm_connect *in = failed->command;
    const bool has_header = failed->id->source.any.sa_family != AF_IB;

    if (failed->error != EINVAL)
        return;
    if (failed->state != URO_ID_ROUTED)
        refuse_state(failed, "call rdma_connect once, after the event ROUTE_RESOLVED");
    else if (in->conn_param.valid)
        refuse_private_data(failed, in->conn_param.private_data_len,
                            uro_cm_data_max(is_datagram(failed) ? URO_CM_SIDR_REQ : URO_CM_REQ) -
                                (has_header ? URO_IP_CM_LEN : 0));
}

static void refuse_accept(const struct failed *failed)
{
    const struct rdma_ucm_accept *in = failed->command;
    const unsigned most = uro_cm_data_max(is_datagram(failed) ? URO_CM_SIDR_REP : URO_CM_REP);

    if (failed->error != EINVAL)
        return;
    if (!failed->is_requested)
        refuse_state(failed, "rdma_accept needs the identifier of a CONNECT_REQUEST, not the "
                             "listener");
    else if (in->conn_param.valid && in->conn_param.private_data_len > most)
        refuse_private_data(failed, in->conn_param.private_data_len, most);
    else
        (void)uro_refuse(device_of(failed->id), EINVAL, failed->call,
                         "no connection request waits: it was accepted or rejected before, or the "
                         "peer gave up");
}

static void refuse_attributes(const struct failed *failed)
{
    if (failed->error == EINVAL)
        refuse_state(failed, "the queue pair cannot go to that state yet; wait for the "
                             "event that comes before it");
}

static void refuse_join(const struct failed *failed)
{
    const struct uro_id *id = failed->id;

    if (failed->error != EINVAL)
        return;
    if (id->qp_type != IBV_QPT_UD)
        (void)uro_refuse(device_of(id), EINVAL, failed->call,
                         "only identifiers of RDMA_PS_UDP or RDMA_PS_IPOIB join groups");
    else if (id->device == NULL ||
             (failed->state != URO_ID_BOUND && failed->state != URO_ID_RESOLVED))
        refuse_state(failed, "bind it to an address of a device first, or resolve the group");
    else
        (void)uro_refuse(device_of(id), EINVAL, failed->call,
                         "the address is not a multicast address of the IP version of the source");
}

static void refuse_option(const struct failed *failed)
{
    const struct rdma_ucm_set_option *in = failed->command;

    if (failed->error == ENOSYS)
        (void)uro_refuse_probe(device_of(failed->id), ENOSYS, failed->call,
                               "level %u has no option %u in uroce", in->level, in->optname);
    else if (failed->error == EINVAL)
        (void)uro_refuse(
            device_of(failed->id), EINVAL, failed->call,
            "option %u of level %u does not have %u bytes, its value is out of range, or it "
            "cannot change any more: set it right after rdma_create_id",
            in->optname, in->level, in->optlen);
}

/* ---- the table ------------------------------------------------------------------------- */

static const struct row {
    const char *call; /* NULL: no report */
    void (*refuse)(const struct failed *failed);
    size_t id; /* offset of the number of the identifier in the command */
} rows[] = {
#define ROW(name, call, function, fields)                                                          \
    [RDMA_USER_CM_CMD_##name] = { call, function, offsetof(fields, id) }
    ROW(BIND_IP, "rdma_bind_addr", refuse_bind_ip, struct rdma_ucm_bind_ip),
    ROW(RESOLVE_IP, "rdma_resolve_addr", refuse_resolve_ip, struct rdma_ucm_resolve_ip),
    ROW(RESOLVE_ROUTE, "rdma_resolve_route", refuse_route, struct rdma_ucm_resolve_route),
    ROW(CONNECT, "rdma_connect", refuse_connect, struct rdma_ucm_connect),
    ROW(LISTEN, "rdma_listen", refuse_listen, struct rdma_ucm_listen),
    ROW(ACCEPT, "rdma_accept", refuse_accept, struct rdma_ucm_accept),
    ROW(INIT_QP_ATTR, "rdma_init_qp_attr", refuse_attributes, struct rdma_ucm_init_qp_attr),
    ROW(SET_OPTION, "rdma_set_option", refuse_option, struct rdma_ucm_set_option),
    ROW(JOIN_IP_MCAST, "rdma_join_multicast", refuse_join, struct rdma_ucm_join_ip_mcast),
    ROW(BIND, "rdma_bind_addr", refuse_bind, struct rdma_ucm_bind),
    ROW(RESOLVE_ADDR, "rdma_resolve_addr", refuse_resolve, struct rdma_ucm_resolve_addr),
    ROW(JOIN_MCAST, "rdma_join_multicast", refuse_join, struct rdma_ucm_join_mcast),
#undef ROW
};

void uro_cm_refuse(const struct uro_channel *channel, uint32_t number, const void *command,
                   int error)
{
    uint32_t id_number;
    struct uro_id *id;

    if (number >= sizeof rows / sizeof rows[0] || rows[number].call == NULL ||
        uro_host_devices()[0] == NULL)
        return;
    memcpy(&id_number, (const uint8_t *)command + rows[number].id, sizeof id_number);
    const int unusable = uro_id_find(channel, id_number, &id);
    if (unusable == -ENXIO)
        (void)uro_refuse(device_of(id), ENXIO, rows[number].call,
                         "the device was removed: destroy the identifier");
    if (unusable != 0)
        return;
    uro_id_lock(id);
    const struct failed failed = { .id = id,
                                   .call = rows[number].call,
                                   .command = command,
                                   .error = -error,
                                   .state = (unsigned)id->state,
                                   .is_requested = id->conn != NULL };
    uro_id_unlock(id);
    rows[number].refuse(&failed);
}
