/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.h - the DPDK ports are a library of their own, loaded on first use. */
#pragma once

#include "engine/port.h"

/* The plug-in's function, or NULL with a sentence in @error. */
uro_port_open_fn *uro_plugin_find(char error[static URO_PORT_ERROR_MAX]);
