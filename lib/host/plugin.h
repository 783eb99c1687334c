/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h - each kind of port is a library of its own, loaded on first use. */
#pragma once

#include "engine/port.h"

/* A link over UDP sockets; all others are DPDK's. */
bool uro_plugin_is_udp(const char *link);

/* The function of the plug-in for @link, or NULL with a sentence in @error. Looks in UROCE_LIB_DIR, beside
 * ourselves, and in the build tree. */
uro_port_open_fn *uro_plugin_find(const char *link, char error[static URO_PORT_ERROR_MAX]);
