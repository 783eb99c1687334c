/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - the symbol of liburoce-dpdk-links.so, which consists of this file and drivers.c. It
 * allows devices to be listed without loading DPDK, which is in liburoce-dpdk.so.
 */
#include "io/dpdk/drivers.h"

const struct uro_port_plugin uro_port_plugin = { URO_PORT_PLUGIN_VERSION, URO_DPDK_KIND_COUNT,
                                                 uro_dpdk_drivers };
