/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - receives copies of packets that both the kernel and this port need, from an interface
 * that af_xdp shares with the kernel: ARP, ICMP, ND, IGMP and MLD. A packet socket receives the
 * copies, so that both can resolve neighbours. */
#pragma once

#include <rte_mbuf.h>

#include "io/packet/socket.h"

struct uro_control {
    int fd; /* -1: none */
    struct uro_packet_ring ring;
};

#define URO_CONTROL_INIT                                                                           \
    (struct uro_control)                                                                           \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Opens the socket. @alien: the device has another MAC address than the interface. Returns 0 or
 * -errno. */
URO_NODISCARD int uro_control_open(struct uro_control *control, int interface, bool alien);
void uro_control_close(struct uro_control *control);

/* Copies frames into buffers of @pool. Returns their number, at most @room. */
uint16_t uro_control_take(struct uro_control *control, struct rte_mempool *pool,
                          struct rte_mbuf **mbufs, uint32_t room);
