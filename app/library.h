/* SPDX-License-Identifier: BSD-3-Clause */
/* library.h - finds libraries of uroce relative to this program, installed or in the build tree. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#define URO_LIBRARY_ERROR_MAX (PATH_MAX + 320u)

struct uro_library {
    const char *name;     /* name of the file */
    const char *in_build; /* path from this program's directory in the build tree */
    bool any_version;     /* do not check the version, because the library has no version note */
    char directory[PATH_MAX];
    char path[PATH_MAX + 64];
};

/* Fills in directory and path. Unless any_version is set, also checks that the library has the
 * version of this program (base/version.h). On failure, returns false and writes a message to
 * @error: the reason, and what the user can do. */
bool uro_library_find(struct uro_library *library, char error[static URO_LIBRARY_ERROR_MAX]);
