/* SPDX-License-Identifier: BSD-3-Clause */
/* iface_packet.h - manners for the packet socket of DPDK's af_packet driver.
 *
 * The driver also puts each socket into a fanout group numbered from the process and the
 * interface. Such numbers meet: then the kernel refuses the socket, or deals the frames out
 * between two processes. There is one queue here and nothing to deal out, so the request never
 * reaches the kernel (setsockopt is linked with --wrap).
 */
#pragma once

#include "base/defs.h"

/* @alien: frames for another address than the interface's own are wanted. */
void uro_iface_packet_teach(int fd, const char *interface, bool alien);
