/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h - each kind of port is a library of its own, loaded on first use. */
#pragma once

#include "engine/port.h"

/* A link over UDP sockets. */
bool uro_plugin_is_udp(const char *link);
/* A link that DPDK drives. */
bool uro_plugin_is_dpdk(const char *link);

#define URO_PLUGIN_ADDED_MAX 9u /* the cable of liburoce, and eight drivers of the program */

/* Registers a driver: @open opens the links of @driver, instead of a plug-in. The string @driver
 * must stay valid. Returns 0 or
 *   -EEXIST  another driver has this name
 *   -ENOSPC  URO_PLUGIN_ADDED_MAX drivers were added
 * Thread: any. */
URO_NODISCARD int uro_plugin_add(const char *driver, uro_port_open_fn *open);

/* Whether the link is of a driver that was added. */
bool uro_plugin_is_added(const char *link);

/* For a message about a link that is not known. */
#define URO_PLUGIN_LINKS                                                                           \
    "udp; net_memif, net_af_packet, net_af_xdp, net_tap, net_vhost, net_virtio_user, net_pcap, "   \
    "net_ring or net_null, with a number (net_memif0); or a PCI address (0000:00:05.0)"

/* Whether there is such a kind of link. Its plug-in has the last word. A plug-in in UROCE_LIB_DIR
 * may know others. */
bool uro_plugin_knows(const char *link);

/* The function of the plug-in for @link, or NULL with a sentence in @error. Looks in UROCE_LIB_DIR,
 * beside ourselves, and in the build tree. */
uro_port_open_fn *uro_plugin_find(const char *link, char error[static URO_PORT_ERROR_MAX]);
