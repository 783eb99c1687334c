/* SPDX-License-Identifier: BSD-3-Clause */
/* xdp_socket.h - connects the XDP socket of DPDK's driver to our program (xdp.h) instead of
 * libxdp's. */
#pragma once

#include "io/dpdk/xdp.h"

/* Attaches the program to the interface, unless @chosen: the user chose another program
 * (xdp_prog=). Until uro_xdp_socket_made(), sockets that the driver makes are added to its map.
 * Prints a warning when the program cannot be attached: libxdp's program then takes all packets
 * from the kernel. Callers must serialise these two calls. */
void uro_xdp_socket_prepare(struct uro_xdp *xdp, const struct uro_port_config *config,
                            const char *interface, bool chosen);
void uro_xdp_socket_made(void);
