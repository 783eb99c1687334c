/* SPDX-License-Identifier: BSD-3-Clause */
/* route.h - what the kernel's route to a peer carries. */
#pragma once

#include "engine/port.h"

/* What struct uro_port_ops has it for: asks the routing table of the kernel. What the network
 * reported of the way has no part in it, for anybody can write ICMP. */
uint32_t uro_route_mtu(struct uro_port *port, const struct uro_gid *from, const struct uro_gid *to);
