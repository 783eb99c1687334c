/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - finds and loads the DPDK ports, once a device needs them. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "host/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "liburoce-dpdk.so"

/* From the directory of the library or program that this code is in. */
static const char *const places[] = { "",
                                      "../io/dpdk/",
                                      "../lib/io/dpdk/",
                                      "../../io/dpdk/",
                                      "../../lib/io/dpdk/",
                                      URO_LIBRARY_DIR_FROM_BIN "/" };

/* The directory of the library or program that this code is in. */
static bool own_directory(char out[static PATH_MAX])
{
    Dl_info info;
    char path[PATH_MAX];

    if (dladdr(&places, &info) == 0 || realpath(info.dli_fname, path) == NULL)
        return false;
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    memcpy(out, path, strlen(path) + 1);
    return true;
}

static uro_port_open_fn *try_plugin(const char *directory, const char *below,
                                    char error[static URO_PORT_ERROR_MAX])
{
    char path[PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%s" PLUGIN, directory, below);
    if (access(path, R_OK) != 0)
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, URO_PORT_OPEN_SYMBOL) : NULL;
    if (symbol == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "%s", dlerror());
        return NULL;
    }
    uro_port_open_fn *open;
    memcpy(&open, &symbol, sizeof open);
    return open;
}

/* Finds the DPDK ports: UROCE_LIB_DIR, beside ourselves, in the build tree. */
uro_port_open_fn *uro_plugin_find(char error[static URO_PORT_ERROR_MAX])
{
    const char *chosen = secure_getenv("UROCE_LIB_DIR");
    char directory[PATH_MAX];
    uro_port_open_fn *open = NULL;

    error[0] = '\0';
    if (chosen != NULL)
        open = try_plugin(chosen, "", error);
    if (open == NULL && own_directory(directory))
        for (size_t i = 0; open == NULL && i < URO_ARRAY_LEN(places); i++)
            open = try_plugin(directory, places[i], error);
    if (open == NULL && error[0] == '\0')
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "no " PLUGIN " found beside the library: build with -Ddpdk=enabled, or set "
                       "UROCE_LIB_DIR to its directory");
    return open;
}
