/* SPDX-License-Identifier: BSD-3-Clause */
/* virtio.h - struct virtio_net_hdr, by which a packet socket and the kernel tell each other of
 * frames (PACKET_VNET_HDR). */
#pragma once

#include <linux/virtio_net.h>

/* Several packets of UDP; headers before Linux 6.2 have no name for it (virtio 1.3, 5.1.6). */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif
