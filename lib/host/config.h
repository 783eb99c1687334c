/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h - where the configuration comes from: one line, or an ini file, or nothing.
 *
 *   UROCE_DEVICES="NAME:LINK[;key=value]... [NAME:LINK...]"    wins over
 *   UROCE_CONFIG=FILE    a section per device, keys as in entry.h
 *
 * "*" in the place of a device, and without a link, has the bounds of all devices together. When it
 * is wrong there is no device: nobody is to use them without a bound that was meant to be there.
 *
 * Neither set, or empty: no devices, no message. docs/CONFIGURATION.md is the reference for users.
 */
#pragma once

#include "host/entry.h"

#define URO_CONFIG_DEVICES_MAX URO_HOST_DEVICES_MAX

/* A wrong entry keeps its place, with config.problem set. So does what is wrong with the source as
 * a whole (the file cannot be read, too many devices), as an entry named after the source. */
struct uro_config {
    struct uro_entry entries[URO_CONFIG_DEVICES_MAX + 1]; /* the last one: only "too many" */
    uint32_t count;
    struct uro_entry process; /* "*": what all devices together may have */
};

/* Reads @devices (the text of UROCE_DEVICES), or when that is NULL or blank the file @path. */
void uro_config_read(struct uro_config *config, const char *devices, const char *path);

/* Reads @text, NAME:LINK[;key=value]... as a word of UROCE_DEVICES, into the only entry of @config, and writes over @text. The
 * entry's problem says what is wrong; @where names the source in that message. */
void uro_config_read_one(struct uro_config *config, const char *where, char *text);

/* For the readers of sources. Appends an entry for device @name, refused when the name is wrong or
 * taken. "*" is the process. NULL when there are too many. */
struct uro_entry *uro_config_begin(struct uro_config *config, const char *where, const char *name);

/* Appends an entry that says what is wrong with @source as a whole. */
URO_PRINTF(3)
void uro_config_refuse(struct uro_config *config, const char *source, const char *format, ...);
