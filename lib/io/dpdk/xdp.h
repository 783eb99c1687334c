/* SPDX-License-Identifier: BSD-3-Clause */
/* xdp.h - what an af_xdp link takes from its interface: RoCE for our addresses. The kernel keeps
 * everything else.
 *
 * libxdp's own program hands every frame to the socket, and the kernel loses the interface. Ours is
 * made of the addresses of the device, and tied to a BPF link: the kernel removes it when the
 * process ends, however it ends.
 */
#pragma once

#include "engine/port.h"

struct uro_xdp {
    int link; /* keeps the program on the interface; -1: it is not there */
    int map; /* of the sockets that the program hands frames to, by number of the queue; -1: none */
};

#define URO_XDP_INIT                                                                               \
    (struct uro_xdp)                                                                               \
    {                                                                                              \
        .link = -1, .map = -1                                                                      \
    }

/* Loads the program for the addresses of @config and puts it on the interface. Returns 0, or
 * -errno: without the right to, on kernels before 5.9, or when the interface has an XDP program
 * already (-EBUSY). */
URO_NODISCARD int uro_xdp_open(struct uro_xdp *xdp, const struct uro_port_config *config,
                               uint32_t interface);

/* Frames of @queue go to the XDP socket @fd. Returns 0 or -errno. */
URO_NODISCARD int uro_xdp_add(const struct uro_xdp *xdp, uint32_t queue, int fd);

/* Takes the program off the interface. */
void uro_xdp_close(struct uro_xdp *xdp);
