/* SPDX-License-Identifier: BSD-3-Clause */
/* route.c - see route.h. */
#define _GNU_SOURCE /* IP_MTU, and struct mmsghdr of udp.h */
#include "io/udp/route.h"

#include <unistd.h>

#include "io/udp/udp.h"

/* The kernel must be told of which link a link-local address is. */
static union uro_sock_address name_of(const struct uro_gid *gid, uint16_t port, uint32_t interface)
{
    union uro_sock_address name = uro_sock_address_of(gid, port);

    if (uro_gid_is_link_local(gid))
        name.v6.sin6_scope_id = interface;
    return name;
}

uint32_t uro_route_mtu(struct uro_port *port, const struct uro_gid *from, const struct uro_gid *to)
{
    const bool v6 = !uro_gid_is_ipv4(from);
    const uint32_t interface = uro_gid_is_link_local(from) ? uro_sock_interface(from) : 0;
    const union uro_sock_address own = name_of(from, 0, interface);
    const union uro_sock_address peer = name_of(to, URO_ROCE_PORT, interface);
    int mtu = 0;
    socklen_t length = sizeof mtu;

    (void)port;
    if (uro_gid_is_multicast(to))
        return 0;
    int fd = uro_sock_make(v6);
    if (fd < 0)
        return 0;
    bool known =
        bind(fd, &own.any, uro_sock_address_length(&own)) == 0 &&
        connect(fd, &peer.any, uro_sock_address_length(&peer)) == 0 &&
        getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &length) == 0;
    (void)close(fd);
    return known && mtu > 0 ? (uint32_t)mtu : 0;
}
