/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h - the drivers of links. Each plug-in is a separate library, which is loaded on first
 * use. */
#pragma once

#include "engine/port.h"

struct uro_device_config;

#define URO_PLUGIN_ADDED_MAX   9u /* the cable of liburoce, and eight drivers of the program */
#define URO_PLUGIN_DRIVERS_MAX 32u

/* Registers a driver that is not in a plug-in. @driver must stay valid. Returns 0 or
 *   -EEXIST  another driver that was added has this name
 *   -ENOSPC  URO_PLUGIN_ADDED_MAX drivers were added
 * Thread: any. */
URO_NODISCARD int uro_plugin_add(const struct uro_port_driver *driver);

/* Returns the driver of @link, or NULL with a sentence in @error. Looks for plug-ins in
 * UROCE_LIB_DIR, in the installation of this library or program, and in the build tree. Thread:
 * any. */
const struct uro_port_driver *uro_plugin_find(const char *link,
                                              char error[static URO_PORT_ERROR_MAX]);

/* Opens the port of the device that @config describes. @forked: this process is a child of fork().
 * Returns NULL with a sentence in @error on failure. May load a library. Thread: any. */
struct uro_port *uro_plugin_open(const struct uro_device_config *config, bool forked,
                                 char error[static URO_PORT_ERROR_MAX]);

/* Lists the drivers that were added, then the drivers of all installed plug-ins. Returns their
 * number. Thread: any. */
uint32_t uro_plugin_list(const struct uro_port_driver *drivers[static URO_PLUGIN_DRIVERS_MAX]);
