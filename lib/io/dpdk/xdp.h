/* SPDX-License-Identifier: BSD-3-Clause */
/* xdp.h - the XDP program of an af_xdp link. It takes RoCE packets to our addresses and to groups,
 * in the device's VLAN. The kernel keeps all other packets.
 *
 * libxdp's own program passes every frame to the socket, so the kernel can no longer use the
 * interface. Our program contains the addresses of the device, and belongs to a BPF link: the
 * kernel removes it when the process ends, for whatever reason.
 */
#pragma once

#include "engine/port.h"

struct uro_xdp {
    int link; /* keeps the program attached; -1: not attached */
    int map;  /* map of the XDP sockets by queue number; -1: none */
};

#define URO_XDP_INIT                                                                               \
    (struct uro_xdp)                                                                               \
    {                                                                                              \
        .link = -1, .map = -1                                                                      \
    }

/* Loads the program for the addresses of @config and attaches it to the interface. Returns 0, or
 * -errno: without permission, on kernels before 5.9, or when the interface has an XDP program
 * already (-EBUSY). */
URO_NODISCARD int uro_xdp_open(struct uro_xdp *xdp, const struct uro_port_config *config,
                               uint32_t interface);

/* Directs frames of @queue to the XDP socket @fd. Returns 0 or -errno. */
URO_NODISCARD int uro_xdp_add(const struct uro_xdp *xdp, uint32_t queue, int fd);

/* Detaches the program from the interface. */
void uro_xdp_close(struct uro_xdp *xdp);

/* ---- xdp_socket.c: the XDP socket of DPDK's driver gets our program ------------------ */

/* Attaches the program to the interface, unless @chosen: the user chose another program
 * (xdp_prog=). Until uro_xdp_socket_made(), sockets that the driver makes are added to its map.
 * Prints a warning when the program cannot be attached: libxdp's program then takes all packets
 * from the kernel. Callers must serialise these two calls. */
void uro_xdp_socket_prepare(struct uro_xdp *xdp, const struct uro_port_config *config,
                            const char *interface, bool chosen);
void uro_xdp_socket_made(void);
