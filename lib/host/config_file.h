/* SPDX-License-Identifier: BSD-3-Clause */
/* config_file.h - the file UROCE_CONFIG names: a [NAME] section per device, key = value lines, comments
 * that begin with ; or #. */
#pragma once

#include "host/config.h"

/* Appends the devices of the file. It is refused unless it is a regular file, not reached through a
 * symbolic link at its end, that belongs to root or to us and that nobody else can write or
 * replace: who writes it decides where our packets go. */
void uro_config_file_read(struct uro_config *config, const char *path);
