/* SPDX-License-Identifier: BSD-3-Clause */
/* drivers.h - the kinds of links that DPDK supports. */
#pragma once

#include "engine/port.h"

enum uro_dpdk_kind {
    URO_DPDK_PCI, /* a network card, or a virtual one on the PCI bus */
    URO_DPDK_AF_XDP,
    URO_DPDK_PCAP,
    URO_DPDK_RING,
    URO_DPDK_NULL,
    URO_DPDK_TAP,
    URO_DPDK_VHOST,
    URO_DPDK_VIRTIO_USER,
    URO_DPDK_OTHER, /* any device, by its name in DPDK */
    URO_DPDK_KIND_COUNT
};

extern const struct uro_port_driver uro_dpdk_drivers[URO_DPDK_KIND_COUNT];

extern const struct uro_port_plugin uro_port_plugin __attribute__((visibility("default")));
