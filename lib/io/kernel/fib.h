/* SPDX-License-Identifier: BSD-3-Clause */
/* fib.h - what the kernel's routing table says of the way to an address.
 *
 * The kernel also keeps what ICMP "fragmentation needed" reported of a destination, for ten minutes
 * (IP_MTU shows it). Any host can write such a message, so that value is not read here.
 */
#pragma once

#include "wire/gid.h"

/* Returns the largest IP packet for the way from @from to @to: the MTU of the route where the
 * administrator set one, else that of its interface; of several next hops the least. Returns 0 when
 * there is no route or the kernel does not say. @interface: the kernel's number of the one that has
 * @from, for link-local addresses; else 0. */
uint32_t uro_fib_mtu(const struct uro_gid *from, const struct uro_gid *to, uint32_t interface);
