/* SPDX-License-Identifier: BSD-3-Clause */
/* refresh.h - brings files of the tree up to date (stats/sysfs.h) before a program opens them.
 *
 * A name may be relative. So a shell that changed its directory to counters/ also reads current
 * values.
 */
#pragma once

#include "paths/path_map.h"

/* Returns the name to use instead of @name, as uro_paths_map() does, for a call that opens a file
 * or a directory. A file of a port in the tree, or each such file in the directory, is then up to
 * date. A file that cannot be refreshed keeps its last value. A relative name is in the directory
 * with the descriptor @at, or for AT_FDCWD in the working directory. errno stays as it is.
 * Allocates memory if a file is refreshed. Thread: any. */
const char *uro_paths_map_open(int at, const char *name, struct uro_paths_buffer *buffer);
