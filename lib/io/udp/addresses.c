/* SPDX-License-Identifier: BSD-3-Clause */
/* addresses.c - checks whether the addresses of a port are usable; see udp.h. */
#define _GNU_SOURCE /* IFF_UP, and struct mmsghdr of udp.h */
#include "io/udp/udp.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define NOTICES_MAX 64 /* maximum number of announcements that are read in one call */

void uro_addresses_open(struct uro_addresses *addresses)
{
    struct sockaddr_nl name = { .nl_family = AF_NETLINK,
                                .nl_groups =
                                    RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };

    addresses->changed = true;
    addresses->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (addresses->fd >= 0 && bind(addresses->fd, (struct sockaddr *)&name, sizeof name) != 0)
        uro_addresses_close(addresses);
}

void uro_addresses_close(struct uro_addresses *addresses)
{
    if (addresses->fd >= 0)
        (void)close(addresses->fd);
    addresses->fd = -1;
}

/* Reads announcements and sets `changed`. Their content is ignored, because the kernel drops
 * announcements when the buffer is full. */
static void read_changes(struct uro_addresses *addresses)
{
    uint8_t notice[64];

    for (int i = 0; i < NOTICES_MAX; i++) {
        if (recv(addresses->fd, notice, sizeof notice, MSG_DONTWAIT) < 0 && errno != ENOBUFS)
            return;
        addresses->changed = true;
    }
}

static bool can_bind(const struct uro_sock *sock)
{
    const union uro_sock_address name = uro_sock_address_of(&sock->address, 0);
    int fd = uro_sock_make(sock->v6);

    if (fd < 0) /* without a socket the address cannot be tested */
        return true;
    bool can = bind(fd, &name.any, uro_sock_address_length(&name)) == 0;
    (void)close(fd);
    return can;
}

static bool has(const struct ifaddrs *entry, const struct uro_gid *address)
{
    const union uro_sock_address *name = (const void *)entry->ifa_addr;

    if (name == NULL || (name->any.sa_family != AF_INET && name->any.sa_family != AF_INET6))
        return false;
    const struct uro_gid gid = uro_sock_gid_of(name);
    return uro_gid_equal(&gid, address);
}

/* Returns the interface that has the address of @sock, or NULL. Prefers an interface that is up. */
static const struct ifaddrs *find(const struct uro_sock *sock, const struct ifaddrs *all)
{
    const struct ifaddrs *found = NULL;

    for (const struct ifaddrs *entry = all; entry != NULL; entry = entry->ifa_next)
        if (has(entry, &sock->address) && (found == NULL || (entry->ifa_flags & IFF_UP) != 0))
            found = entry;
    return found;
}

static bool is_there(struct uro_sock *sock, const struct ifaddrs *entry)
{
    if (entry == NULL)
        return can_bind(sock);
    if ((entry->ifa_flags & IFF_UP) == 0)
        return false;
    bool carrier = (entry->ifa_flags & IFF_RUNNING) != 0;
    sock->had_carrier |= carrier;
    return carrier || !sock->had_carrier;
}

static uint32_t mtu_of(int fd, const char *interface)
{
    struct ifreq request;

    memset(&request, 0, sizeof request);
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    return ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0 ? (uint32_t)request.ifr_mtu
                                                                       : UINT32_MAX;
}

/* Returns whether the address came back, or moved to another interface. */
static bool look(struct uro_addresses *addresses, struct uro_sock *sock, const struct ifaddrs *all)
{
    const struct ifaddrs *entry = find(sock, all);
    const uint32_t interface = entry != NULL ? if_nametoindex(entry->ifa_name) : 0;
    bool there = is_there(sock, entry);
    bool moved = sock->interface != 0 && interface != 0 && interface != sock->interface;
    bool back = there && (sock->absent || moved);

    sock->absent = !there;
    if (interface != 0) {
        uint32_t mtu = mtu_of(addresses->fd, entry->ifa_name);
        sock->interface = interface;
        addresses->mtu = mtu < addresses->mtu ? mtu : addresses->mtu;
    }
    return back;
}

uint32_t uro_addresses_look(struct uro_addresses *addresses, struct uro_sock *socks, uint32_t count)
{
    struct ifaddrs *all;
    uint32_t back = 0;

    if (addresses->fd < 0)
        return 0;
    read_changes(addresses);
    if (!addresses->changed || getifaddrs(&all) != 0)
        return 0;
    addresses->changed = false;
    addresses->mtu = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        back += look(addresses, &socks[i], all);
    if (addresses->mtu == UINT32_MAX)
        addresses->mtu = 0;
    freeifaddrs(all);
    return back;
}
