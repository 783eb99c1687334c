/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - see group.h. */
#define _GNU_SOURCE /* IP_MULTICAST_ALL, struct ip_mreqn */
#include "io/udp/group.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "io/udp/raw_tap.h"
#include "io/udp/share.h"

#define OPTION_V6_MULTICAST_ALL 29 /* missing in some C libraries */
#define AT_SOURCE_QPN           (URO_BTH_LEN + 5u)

static bool set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* Joins @group on the interface of @own. Succeeds if another address of this interface has joined
 * it. */
static bool join(int fd, const struct uro_gid *group, const struct uro_sock *own)
{
    int done;

    if (own->v6) {
        struct ipv6_mreq request = { .ipv6mr_interface = uro_sock_interface(&own->address) };
        memcpy(&request.ipv6mr_multiaddr, group->octets, sizeof group->octets);
        done = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
    } else {
        struct ip_mreqn request = { 0 };
        memcpy(&request.imr_multiaddr, &group->octets[12], 4);
        memcpy(&request.imr_address, &own->address.octets[12], 4);
        done = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    }
    return done == 0 || errno == EADDRINUSE;
}

/* Limits the socket to packets of the groups that it has joined itself. Otherwise it would also
 * receive groups that other sockets of this machine have joined. Turns off error reports. The
 * socket sends nothing, so reports would be forged, and nothing reads them. */
static bool set_options(int fd, bool v6)
{
    return set(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
           (v6 ? set(fd, IPPROTO_IPV6, OPTION_V6_MULTICAST_ALL, 0) &&
                     set(fd, IPPROTO_IPV6, IPV6_RECVERR, 0)
               : set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0) && set(fd, IPPROTO_IP, IP_RECVERR, 0));
}

/* Returns a socket that receives @group on the interfaces of all addresses of its IP version, or
 * -1. */
static int open_group(const struct uro_gid *group, const struct uro_sock *own, uint32_t own_count)
{
    union uro_sock_address name = uro_sock_address_of(group, URO_ROCE_PORT);
    bool v6 = name.any.sa_family == AF_INET6, joined = false;
    int fd = uro_sock_make(v6);

    if (fd < 0)
        return -1;
    bool fine = set_options(fd, v6);
    for (uint32_t i = 0; i < own_count && fine; i++) {
        if (own[i].v6 != v6)
            continue;
        if (v6) /* for link-local groups */
            name.v6.sin6_scope_id = uro_sock_interface(&own[i].address);
        fine = join(fd, group, &own[i]);
        joined = true;
    }
    if (fine && !joined)
        errno = EADDRNOTAVAIL;
    if (fine && joined && bind(fd, &name.any, uro_sock_address_length(&name)) == 0)
        return fd;
    int reason = errno;
    (void)close(fd);
    errno = reason;
    return -1;
}

static struct uro_group *find(struct uro_groups *groups, const struct uro_gid *gid)
{
    for (uint32_t i = 0; i < groups->count; i++)
        if (uro_gid_equal(&groups->all[i].sock.address, gid))
            return &groups->all[i];
    return NULL;
}

static void complain(struct uro_groups *groups, const struct uro_gid *gid)
{
    char text[URO_GID_TEXT_MAX];

    if (!groups->complained)
        fprintf(stderr, "uroce: group %s over UDP: %s\n", uro_gid_text(gid, text), strerror(errno));
    groups->complained = true;
}

static void add(struct uro_groups *groups, const struct uro_gid *gid, const struct uro_sock *own,
                uint32_t own_count, const struct uro_sock_options *options)
{
    struct epoll_event event = { .events = EPOLLIN };
    int fd = open_group(gid, own, own_count);

    if (fd < 0 || epoll_ctl(groups->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        complain(groups, gid);
        if (fd >= 0)
            (void)close(fd);
        return;
    }
    struct uro_group *group = &groups->all[groups->count++];
    *group = (struct uro_group){ .sock = { .group = true }, .wanted = true };
    uro_sock_start(&group->sock, fd, gid, options);
    (void)uro_raw_tap_open(&group->sock, options->idents);
}

void uro_groups_set(struct uro_groups *groups, const struct uro_gid *gids, uint32_t count,
                    const struct uro_sock *own, uint32_t own_count,
                    const struct uro_sock_options *options)
{
    for (uint32_t i = 0; i < groups->count; i++)
        groups->all[i].wanted = false;
    for (uint32_t i = 0; i < count; i++) {
        struct uro_group *group = find(groups, &gids[i]);
        if (group != NULL)
            group->wanted = true;
    }
    for (uint32_t i = groups->count;
         i-- > 0;) /* leave first, so that there is space for new groups */
        if (!groups->all[i].wanted) {
            uro_sock_close(&groups->all[i].sock);
            groups->all[i] = groups->all[--groups->count];
        }
    for (uint32_t i = 0; i < count; i++)
        if (find(groups, &gids[i]) == NULL)
            add(groups, &gids[i], own, own_count, options);
}

void uro_groups_renew(struct uro_groups *groups, const struct uro_sock *own, uint32_t own_count,
                      const struct uro_sock_options *options)
{
    struct uro_gid gids[URO_PORT_GROUPS_MAX];
    uint32_t count = groups->count;

    for (uint32_t i = 0; i < count; i++)
        gids[i] = groups->all[i].sock.address;
    uro_groups_close(groups);
    uro_groups_set(groups, gids, count, own, own_count, options);
}

void uro_groups_close(struct uro_groups *groups)
{
    while (groups->count > 0)
        uro_sock_close(&groups->all[--groups->count].sock);
}

const struct uro_sock *uro_groups_next(struct uro_groups *groups)
{
    return groups->count > 0 ? &groups->all[groups->turn++ % groups->count].sock : NULL;
}

bool uro_group_is_echo(const struct uro_sock *own, uint32_t own_count, const struct uro_gid *from,
                       const uint8_t *bth, uint32_t length)
{
    for (uint32_t i = 0; i < own_count; i++) {
        if (!uro_gid_equal(&own[i].address, from))
            continue;
        return own[i].share == NULL || length <= AT_SOURCE_QPN ||
               bth[AT_SOURCE_QPN] >> (8 - URO_QPN_PREFIX_BITS) == own[i].share->number;
    }
    return false;
}
