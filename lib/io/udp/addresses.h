/* SPDX-License-Identifier: BSD-3-Clause */
/* addresses.h - whether a port's addresses are usable: on a kernel interface that is up and has not
 * lost its carrier.
 *
 * The kernel announces each change over rtnetlink, and all interfaces are examined only after an
 * announcement. An address on no interface counts as present if a socket can be bound to it, as
 * with addresses of 127.0.0.0/8. An interface that never had a carrier, such as a bridge without
 * ports, counts as up, because this machine can be reached there.
 */
#pragma once

#include "io/udp/sock.h"

struct uro_addresses {
    int fd;       /* rtnetlink socket; -1: none, every address counts as present */
    bool changed; /* an announcement came since the last look */
    uint32_t mtu; /* least MTU of their interfaces; 0: unknown */
};

void uro_addresses_open(struct uro_addresses *addresses);
void uro_addresses_close(struct uro_addresses *addresses);

/* Updates `absent` of @socks and `mtu`. Returns the number of addresses that came back, or moved to
 * another interface, since the last call. Cheap while nothing changes. */
uint32_t uro_addresses_look(struct uro_addresses *addresses, struct uro_sock *socks,
                            uint32_t count);
