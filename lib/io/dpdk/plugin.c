/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - the one symbol of liburoce-dpdk-links.so, which consists of this file and drivers.c: a
 * list of devices does not load DPDK, which is in liburoce-dpdk.so.
 */
#include "io/dpdk/drivers.h"

const struct uro_port_plugin uro_port_plugin = { URO_PORT_PLUGIN_VERSION, URO_DPDK_KIND_COUNT,
                                                 uro_dpdk_drivers };
