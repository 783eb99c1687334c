/* SPDX-License-Identifier: BSD-3-Clause */
/* origin.h - the file that this code was loaded from: a program of ours, or the library in a program. */
#pragma once

#include <limits.h>
#include <stdbool.h>

/* Writes the absolute path of that file to @path. The path is the kernel's: neither argv[0] nor a relative
 * LD_PRELOAD, which lead elsewhere in another current directory. False when nothing reliable is known. */
bool uro_origin_path(char path[static PATH_MAX]);
