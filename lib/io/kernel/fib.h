/* SPDX-License-Identifier: BSD-3-Clause */
/* fib.h - reads the MTU of a route from the kernel's routing table.
 *
 * For ten minutes, the kernel also stores the MTU that an ICMP message "fragmentation needed"
 * reported for a destination (IP_MTU returns it). Any host can forge such a message, so this value
 * is not used.
 */
#pragma once

#include "wire/gid.h"

/* Returns the size of the largest IP packet from @from to @to, in bytes. This is the MTU of the
 * interface, or the MTU of the route if the administrator set a smaller MTU. With several next
 * hops, returns the smallest MTU. Returns 0 if there is no route or its MTU is unknown. @interface
 * is the index of the interface that has @from if the addresses are link-local, else 0. */
uint32_t uro_fib_mtu(const struct uro_gid *from, const struct uro_gid *to, uint32_t interface);
