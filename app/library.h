/* SPDX-License-Identifier: BSD-3-Clause */
/* library.h - finds libraries of uroce relative to this program, installed or in the build tree. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#define URO_LIBRARY_ERROR_MAX (PATH_MAX + 320u)

struct uro_library {
    const char *name;     /* of the file */
    const char *in_build; /* path from this program's directory in the build tree */
    bool any_version;     /* the library has no version note */
    char directory[PATH_MAX];
    char path[PATH_MAX + 64];
};

/* Fills in directory and path, and checks that the library is of the version of this program
 * (base/version.h). Returns false with a sentence in @error: the expected place or the version of
 * the library, and what to do. */
bool uro_library_find(struct uro_library *library, char error[static URO_LIBRARY_ERROR_MAX]);
