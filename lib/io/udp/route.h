/* SPDX-License-Identifier: BSD-3-Clause */
/* route.h - the MTU of the kernel's route to a peer. */
#pragma once

#include "engine/port.h"

/* Implements route_mtu of struct uro_port_ops: returns the MTU from the kernel's routing table.
 * Ignores path MTUs from ICMP messages, because these are easy to forge. */
uint32_t uro_route_mtu(struct uro_port *port, const struct uro_gid *from, const struct uro_gid *to);
