/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h - where the configuration comes from: one line, or an ini file, or nothing.
 *
 *   UROCE_DEVICES="NAME:LINK[;key=value]... [NAME:LINK...]"    wins over
 *   UROCE_CONFIG=FILE    a section per device, keys as in entry.h
 *
 * Neither set: no devices, no message. docs/CONFIGURATION.md is the reference for users.
 */
#pragma once

#include "host/entry.h"

#define URO_CONFIG_DEVICES_MAX 64u

struct uro_config {
    struct uro_entry entries[URO_CONFIG_DEVICES_MAX];
    uint32_t count;
    char problem[256]; /* of the source as a whole: file unreadable, not trusted, too many */
};

/* Reads @devices (the text of UROCE_DEVICES) if not NULL, else the file @path if not NULL. */
void uro_config_read(struct uro_config *config, const char *devices, const char *path);
