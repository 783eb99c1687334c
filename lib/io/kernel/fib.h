/* SPDX-License-Identifier: BSD-3-Clause */
/* fib.h - reads the MTU of a route from the kernel's routing table.
 *
 * The kernel also stores the MTU that ICMP "fragmentation needed" reported for a destination, for
 * ten minutes (IP_MTU shows it). Any host can forge such a message, so that value is not read
 * here.
 */
#pragma once

#include "wire/gid.h"

/* Returns the largest IP packet from @from to @to: the MTU of the route if the administrator set
 * one, else that of its interface. With several next hops, returns the smallest. Returns 0 when
 * there is no route or its MTU is unknown. @interface: index of the interface that has @from, for
 * link-local addresses; else 0. */
uint32_t uro_fib_mtu(const struct uro_gid *from, const struct uro_gid *to, uint32_t interface);
