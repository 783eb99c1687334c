/* SPDX-License-Identifier: BSD-3-Clause */
/* drivers.c - the drivers of DPDK's links, and their options. Except for net_ring, DPDK checks
 * options that are not in a table. */
#include "io/dpdk/drivers.h"

#define TEXT(name, text)                                                                           \
    {                                                                                              \
        name, text, URO_OPTION_TEXT, .max = 255, .member = URO_OPTION_NOT_KEPT                     \
    }
#define REPEATED_TEXT(name, text)                                                                  \
    {                                                                                              \
        name, text, URO_OPTION_TEXT, .max = 255, .member = URO_OPTION_NOT_KEPT, .repeats = true    \
    }

/* clang-format off */
static const struct uro_link_option af_xdp[] = {
    TEXT("iface", "network interface; see ip link"),
    TEXT("xdp_prog", "file of an XDP program in place of ours"),
    TEXT("start_queue", "first queue of the interface"),
    TEXT("queue_count", "number of queues"),
    TEXT("busy_budget", "packets of a busy poll; 0: no busy polling"),
    TEXT("force_copy", "1: copy packets even if the interface supports zero-copy"),
};

static const struct uro_link_option pcap[] = {
    REPEATED_TEXT("rx_pcap", "file with the frames to receive"),
    REPEATED_TEXT("tx_pcap", "file for the frames sent"),
    TEXT("iface", "network interface"),
};

/* DPDK's driver ignores options that it does not know, so the table is complete. */
static const struct uro_link_option ring[] = {
    REPEATED_TEXT("nodeaction", "NAME:NODE:ACTION of DPDK; see its driver net_ring"),
};

static const struct uro_link_option null[] = {
    TEXT("no-rx", "1: receive nothing"),
    TEXT("size", "bytes of a received frame"),
};

static const struct uro_link_option tap[] = {
    TEXT("iface", "name of the new interface"),
    TEXT("mac", "MAC address of the new interface"),
    TEXT("remote", "interface whose frames the new one mirrors"),
};

static const struct uro_link_option vhost[] = {
    TEXT("iface", "path of the socket"),
    TEXT("client", "1: connect to the socket"),
};

static const struct uro_link_option virtio_user[] = {
    TEXT("path", "path of the socket"),
    TEXT("mac", "MAC address of this side"),
    TEXT("server", "1: create the socket"),
};
/* clang-format on */

#define OPTIONS(table) .option_count = URO_ARRAY_LEN(table), .options = (table)
#define DPDK(bits, default)                                                                        \
    .library = "dpdk", .default_mtu = (default),                                                   \
    .flags = (bits) | URO_DRIVER_ONE_PROCESS | URO_DRIVER_DPDK
#define OTHER URO_DRIVER_OTHER_OPTIONS
#define NAMED (URO_DRIVER_NUMBERED | OTHER)

const struct uro_port_driver uro_dpdk_drivers[URO_DPDK_KIND_COUNT] = {
    [URO_DPDK_PCI] = { "PCI address", "a network card at a PCI address, such as 0000:00:05.0",
                       DPDK(URO_DRIVER_PCI | OTHER, URO_PORT_MTU_DEFAULT) },
    [URO_DPDK_AF_XDP] = { "net_af_xdp", "an AF_XDP socket on a network interface", "iface",
                          DPDK(NAMED | URO_DRIVER_NEEDS_INTERFACE, URO_PORT_MTU_DEFAULT),
                          OPTIONS(af_xdp) },
    [URO_DPDK_PCAP] = { "net_pcap", "capture files, or an interface by libpcap", "iface",
                        DPDK(NAMED, URO_PORT_MTU_DEFAULT), OPTIONS(pcap) },
    [URO_DPDK_RING] = { "net_ring", "a ring of DPDK: the device receives the frames that it sends",
                        NULL, DPDK(URO_DRIVER_NUMBERED, URO_PORT_MTU_MEMORY), OPTIONS(ring) },
    [URO_DPDK_NULL] = { "net_null", "no frames: for programs that communicate only with themselves",
                        NULL, DPDK(NAMED, URO_PORT_MTU_MEMORY), OPTIONS(null) },
    [URO_DPDK_TAP] = { "net_tap", "an interface of the kernel that the device creates", "remote",
                       DPDK(NAMED, URO_PORT_MTU_DEFAULT), OPTIONS(tap) },
    [URO_DPDK_VHOST] = { "net_vhost", "a virtual machine with a vhost-user card", "remote",
                         DPDK(NAMED, URO_PORT_MTU_DEFAULT), OPTIONS(vhost) },
    [URO_DPDK_VIRTIO_USER] = { "net_virtio_user", "a vhost-user switch", "remote",
                               DPDK(NAMED, URO_PORT_MTU_DEFAULT), OPTIONS(virtio_user) },
    [URO_DPDK_OTHER] = { "dpdk:", "any device of DPDK, such as dpdk:net_bonding0,mode=1", NULL,
                         DPDK(URO_DRIVER_ANY_NAME | OTHER, URO_PORT_MTU_DEFAULT) },
};
