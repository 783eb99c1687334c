/* SPDX-License-Identifier: BSD-3-Clause */
/* virtio.h - struct virtio_net_hdr, which describes frames between a packet socket and the kernel
 * (PACKET_VNET_HDR). */
#pragma once

#include <linux/virtio_net.h>

/* Coalesced UDP packets; kernel headers before Linux 6.2 do not define it (virtio 1.3, 5.1.6). */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif
