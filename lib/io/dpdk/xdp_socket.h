/* SPDX-License-Identifier: BSD-3-Clause */
/* xdp_socket.h - the XDP socket that DPDK's driver makes gets our program (xdp.h) instead of
 * libxdp's. */
#pragma once

#include "io/dpdk/xdp.h"

/* Puts the program on the interface, unless @words choose another one (xdp_prog=). From then on
 * until uro_xdp_socket_made() a socket that the driver makes is added to its map. Says on stderr
 * when the program cannot be had: then the kernel loses the interface to libxdp's program. Calls
 * between the two are one at a time. */
void uro_xdp_socket_prepare(struct uro_xdp *xdp, const struct uro_port_config *config,
                            const char *interface, bool chosen);
void uro_xdp_socket_made(void);
