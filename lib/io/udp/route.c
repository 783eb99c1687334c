/* SPDX-License-Identifier: BSD-3-Clause */
/* route.c - see route.h. */
#define _GNU_SOURCE /* struct mmsghdr of udp.h */
#include "io/udp/route.h"

#include "io/kernel/fib.h"
#include "io/udp/udp.h"

uint32_t uro_route_mtu(struct uro_port *port, const struct uro_gid *from, const struct uro_gid *to)
{
    /* The kernel must know which link a link-local address is on. */
    const uint32_t interface = uro_gid_is_link_local(from) ? uro_sock_interface(from) : 0;

    (void)port;
    return uro_gid_is_multicast(to) ? 0 : uro_fib_mtu(from, to, interface);
}
