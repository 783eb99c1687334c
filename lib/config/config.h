/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h - reads the configuration from UROCE_DEVICES or from a file. docs/CONFIGURATION.md is
 * the reference for users.
 *
 *   UROCE_DEVICES="NAME:LINK[;key=value]... [NAME:LINK...]"
 *   UROCE_CONFIG=FILE
 *
 * The file is read only if UROCE_DEVICES is empty. It has a section [NAME] for each device, with
 * the keys of entry_keys.h. Comments begin with ; or #.
 *
 * The name "*" stands for all devices together. That entry has no link, and its keys are the quotas
 * of the process. If that entry is wrong, there are no devices, because a program must not use them
 * without the quotas of the user.
 *
 * If neither variable is set, there are no devices and no message.
 */
#pragma once

#include "config/entry_keys.h"

/* A wrong entry stays in the list, with its reason in config.problem. An error of the whole source
 * is an additional entry, which is named after the source, or "too many" if it has too many
 * devices. */
struct uro_config {
    struct uro_entry entries[URO_CONFIG_DEVICES_MAX + 1]; /* the last is only for "too many" */
    uint32_t count;
    struct uro_entry process; /* quotas of all devices together: "*" */
};

/* Reads @devices, the text of UROCE_DEVICES. If @devices is NULL or has only white space, reads the
 * file @path. The file must be a regular file that belongs to root or to this user. The last
 * component of its path must not be a symbolic link. No other user may be able to write or replace
 * the file, because the file determines where packets go. */
void uro_config_read(struct uro_config *config, const char *devices, const char *path);

/* Reads @text, one word of UROCE_DEVICES, into the only entry of @config, and overwrites @text. The
 * entry's problem is the error message. @where names the source in that message. */
void uro_config_read_one(struct uro_config *config, const char *where, char *text);

/* Checks that only root and this user can replace the file @path. Each directory of the path must
 * belong to root or to this user. Other users may write to a directory only if it is sticky, like
 * /tmp. Returns NULL, or the problem, which may be written to @text of @size bytes. */
const char *uro_config_check_path(const char *path, char *text, size_t size);
