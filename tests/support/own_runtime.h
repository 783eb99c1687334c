/* SPDX-License-Identifier: BSD-3-Clause */
/* own_runtime.h - an XDG_RUNTIME_DIR for one test program: group setup and teardown functions for
 * cmocka. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char own_runtime[] = "/tmp/uroce-test-XXXXXX";

static inline int own_runtime_make(void **state)
{
    (void)state;
    return mkdtemp(own_runtime) != NULL && setenv("XDG_RUNTIME_DIR", own_runtime, 1) == 0 ? 0 : -1;
}

/* Removes the directory, and the files in uroce's directory in it. */
static inline int own_runtime_remove(void **state)
{
    char path[64];
    struct dirent *entry;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/uroce", own_runtime);
    DIR *files = opendir(path);
    while (files != NULL && (entry = readdir(files)) != NULL)
        (void)unlinkat(dirfd(files), entry->d_name, 0);
    if (files != NULL)
        (void)closedir(files);
    (void)rmdir(path);
    return rmdir(own_runtime);
}
