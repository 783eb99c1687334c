/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - what the kernel gets of an interface that af_xdp shares with it, and we need, too:
 * ARP, ICMP, ND, IGMP and MLD. A packet socket sees them beside the kernel, so that both find their
 * neighbours. */
#pragma once

#include <rte_mbuf.h>

#include "io/packet/ring.h"

struct uro_control {
    int fd; /* -1: there is none */
    struct uro_packet_ring ring;
};

#define URO_CONTROL_INIT                                                                           \
    (struct uro_control)                                                                           \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* @alien: the device has another MAC address than the interface. Returns 0 or -errno. */
URO_NODISCARD int uro_control_open(struct uro_control *control, int interface, bool alien);
void uro_control_close(struct uro_control *control);

/* Copies frames into buffers of @pool. Returns how many, at most @room. */
uint16_t uro_control_take(struct uro_control *control, struct rte_mempool *pool,
                          struct rte_mbuf **mbufs, uint32_t room);
