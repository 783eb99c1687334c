/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - finds and loads the ports of a link, once a device needs them. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "host/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A kind of port: its library is liburoce-KIND.so, in the build tree below lib/io/KIND. */
enum kind { DPDK, MEMIF, PACKET, UDP, KINDS };

static const char *const names[KINDS] = {
    [DPDK] = "dpdk", [MEMIF] = "memif", [PACKET] = "packet", [UDP] = "udp"
};

/* From the directory of the library or program that this code is in. */
static const char *const places[KINDS][6] = {
    [DPDK] = { "", "../io/dpdk/", "../lib/io/dpdk/", "../../io/dpdk/", "../../lib/io/dpdk/",
               URO_LIBRARY_DIR_FROM_BIN "/" },
    [MEMIF] = { "", "../io/memif/", "../lib/io/memif/", "../../io/memif/", "../../lib/io/memif/",
                URO_LIBRARY_DIR_FROM_BIN "/" },
    [PACKET] = { "", "../io/packet/", "../lib/io/packet/", "../../io/packet/",
                 "../../lib/io/packet/", URO_LIBRARY_DIR_FROM_BIN "/" },
    [UDP] = { "", "../io/udp/", "../lib/io/udp/", "../../io/udp/", "../../lib/io/udp/",
              URO_LIBRARY_DIR_FROM_BIN "/" },
};

bool uro_plugin_is_udp(const char *link)
{
    return strncmp(link, "udp", 3) == 0 && (link[3] == '\0' || link[3] == ',');
}

static enum kind kind_of(const char *link)
{
    if (uro_plugin_is_udp(link))
        return UDP;
    if (strncmp(link, "net_memif", strlen("net_memif")) == 0)
        return MEMIF;
    return strncmp(link, "net_af_packet", strlen("net_af_packet")) == 0 ? PACKET : DPDK;
}

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

static uro_port_open_fn *try_plugin(const char *directory, const char *below, enum kind kind,
                                    char error[static URO_PORT_ERROR_MAX])
{
    char path[PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%sliburoce-%s.so", directory, below, names[kind]);
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

uro_port_open_fn *uro_plugin_find(const char *link, char error[static URO_PORT_ERROR_MAX])
{
    const char *chosen = secure_getenv("UROCE_LIB_DIR");
    enum kind kind = kind_of(link);
    char directory[PATH_MAX];
    uro_port_open_fn *open = NULL;

    error[0] = '\0';
    if (chosen != NULL)
        open = try_plugin(chosen, "", kind, error);
    if (open == NULL && own_directory(directory))
        for (size_t i = 0; open == NULL && i < URO_ARRAY_LEN(places[kind]); i++)
            open = try_plugin(directory, places[kind][i], kind, error);
    if (open == NULL && error[0] == '\0')
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "no liburoce-%s.so found beside the library: %s set UROCE_LIB_DIR to its "
                       "directory",
                       names[kind], kind == DPDK ? "build with -Ddpdk=enabled, or" : "");
    return open;
}
