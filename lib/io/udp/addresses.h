/* SPDX-License-Identifier: BSD-3-Clause */
/* addresses.h - whether a port's addresses are still there: on an interface of the kernel's that is
 * up and has not lost its carrier.
 *
 * The kernel says when something changes; only then all of its interfaces are looked at. An address
 * that is on no interface but that a socket can be bound to, as those of 127.0.0.0/8, is there. An
 * interface that had no carrier from the start, as a bridge without ports, counts as up: this
 * machine can be reached there.
 */
#pragma once

#include "io/udp/sock.h"

struct uro_addresses {
    int fd;       /* of rtnetlink; -1: nothing is known, and every address is taken to be there */
    bool changed; /* since they were looked at */
    uint32_t mtu; /* the least of their interfaces; 0: not known */
};

void uro_addresses_open(struct uro_addresses *addresses);
void uro_addresses_close(struct uro_addresses *addresses);

/* Keeps `absent` of @socks and `mtu` right. Returns how many of them came back since the last call,
 * or are on another interface than before. Cheap while nothing changes. */
uint32_t uro_addresses_look(struct uro_addresses *addresses, struct uro_sock *socks,
                            uint32_t count);
