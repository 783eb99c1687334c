/* SPDX-License-Identifier: BSD-3-Clause */
/* other_version.c - a plug-in with the interface of another version of uroce. */
#include "engine/port.h"

extern const struct uro_port_plugin uro_port_plugin __attribute__((visibility("default")));
const struct uro_port_plugin uro_port_plugin = { .version = 9999 };
