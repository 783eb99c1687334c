/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - finds and loads the ports of a link, once a device needs them. */
#define _GNU_SOURCE /* secure_getenv, dladdr1 */
#include "host/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A kind of port: its library is liburoce-KIND.so, in a build tree below lib/io/KIND. */
enum kind { DPDK, MEMIF, PACKET, UDP, KINDS };

static const char *const names[KINDS] = {
    [DPDK] = "dpdk", [MEMIF] = "memif", [PACKET] = "packet", [UDP] = "udp"
};

/* Where the plug-ins of a build tree are, seen from the directory of a library or program of that
 * tree. No other directory above ours is looked into: it may be anybody's, such as /tmp. */
static const struct place {
    const char *directory; /* how the name of our own directory ends; "*" is any one name */
    const char *plugins;   /* from there to the directory that has one for each kind */
} build_tree[] = {
    { "/lib/abi", "../io/" },
    { "/lib/embed", "../io/" },
    { "/app", "../lib/io/" },
    { "/tests/*", "../../lib/io/" },
};

bool uro_plugin_is_udp(const char *link)
{
    return strncmp(link, "udp", 3) == 0 && (link[3] == '\0' || link[3] == ',');
}

/* Names of links other than udp, before their number. One that the plug-in for DPDK was built
 * without (net_af_xdp, net_pcap) is refused by that. */
static const char *const drivers[] = { "net_memif", "net_af_packet", "net_af_xdp",
                                       "net_tap",   "net_vhost",     "net_virtio_user",
                                       "net_pcap",  "net_ring",      "net_null" };

/* 0000:00:05.0, or without the domain. */
static bool is_pci_address(const char *link)
{
    unsigned domain, bus, device, function;
    int end = 0;

    if (sscanf(link, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) != 4 &&
        sscanf(link, "%2x:%2x.%1x%n", &bus, &device, &function, &end) != 3)
        return false;
    return link[end] == '\0' || link[end] == ',';
}

static bool is_of_driver(const char *link, const char *driver)
{
    const size_t length = strlen(driver);

    if (strncmp(link, driver, length) != 0)
        return false;
    link += length;
    link += strspn(link, "0123456789");
    return *link == '\0' || *link == ',';
}

/* The user's directory of plug-ins, or NULL. */
static const char *chosen_directory(void)
{
    const char *chosen = secure_getenv("UROCE_LIB_DIR");

    return chosen != NULL && chosen[0] != '\0' ? chosen : NULL;
}

/* Drivers that are not in a plug-in. An entry is complete before its number is counted, since
 * readers take no lock. */
static struct {
    const char *driver;
    uro_port_open_fn *open;
} added[URO_PLUGIN_ADDED_MAX];
static atomic_uint added_count;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static uro_port_open_fn *find_added(const char *link)
{
    const size_t length = strcspn(link, ",");

    for (unsigned i = 0; i < atomic_load(&added_count); i++)
        if (strlen(added[i].driver) == length && memcmp(added[i].driver, link, length) == 0)
            return added[i].open;
    return NULL;
}

static bool is_of_a_plugin(const char *link)
{
    bool known = uro_plugin_is_udp(link) || is_pci_address(link);

    for (size_t i = 0; i < URO_ARRAY_LEN(drivers); i++)
        known |= is_of_driver(link, drivers[i]);
    return known;
}

int uro_plugin_add(const char *driver, uro_port_open_fn *open)
{
    int error = 0;

    (void)pthread_mutex_lock(&adding);
    const unsigned count = atomic_load(&added_count);
    if (find_added(driver) != NULL || is_of_a_plugin(driver)) {
        error = -EEXIST;
    } else if (count == URO_ARRAY_LEN(added)) {
        error = -ENOSPC;
    } else {
        added[count].driver = driver;
        added[count].open = open;
        atomic_store(&added_count, count + 1);
    }
    (void)pthread_mutex_unlock(&adding);
    return error;
}

bool uro_plugin_is_added(const char *link)
{
    return find_added(link) != NULL;
}

bool uro_plugin_knows(const char *link)
{
    return uro_plugin_is_added(link) || is_of_a_plugin(link) || chosen_directory() != NULL;
}

static enum kind kind_of(const char *link)
{
    if (uro_plugin_is_udp(link))
        return UDP;
    if (strncmp(link, "net_memif", strlen("net_memif")) == 0)
        return MEMIF;
    return strncmp(link, "net_af_packet", strlen("net_af_packet")) == 0 ? PACKET : DPDK;
}

bool uro_plugin_is_dpdk(const char *link)
{
    return !uro_plugin_is_added(link) && kind_of(link) == DPDK;
}

/* ---- our own path ---------------------------------------------------------- */

static const char mark; /* an address in the same program or library as this code */

/* Returns the path at the end of a line of /proc/self/maps, or NULL:
 * "55d0-55d1 r--p 0 08:01 1234   /usr/bin/uroce". */
static const char *path_of(char *line)
{
    int begin = 0;

    (void)sscanf(line, "%*s %*s %*s %*s %*s %n", &begin);
    line[strcspn(line, "\n")] = '\0';
    return begin > 0 && line[begin] == '/' ? line + begin : NULL;
}

static bool find_mapping(char path[static PATH_MAX])
{
    const uintptr_t address = (uintptr_t)&mark;
    FILE *maps = fopen("/proc/self/maps", "re");
    bool found = false;
    char *line = NULL;
    size_t size = 0;

    while (maps != NULL && !found && getline(&line, &size, maps) > 0) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) != 2 || address < from || address >= to)
            continue;
        const char *name = path_of(line);
        if (name == NULL || strlen(name) >= PATH_MAX)
            break;
        memcpy(path, name, strlen(name) + 1);
        found = true;
    }
    free(line);
    if (maps != NULL)
        (void)fclose(maps);
    return found;
}

/* The name of a library whose search began with "/". A program has no name there. */
static bool loader_path(char path[static PATH_MAX])
{
    struct link_map *map = NULL;
    Dl_info info;

    if (dladdr1(&mark, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return false;
    return map->l_name[0] == '/' && realpath(map->l_name, path) != NULL;
}

/* Writes the absolute path of the file that this code was loaded from to @path: a program of ours,
 * or the library. argv[0] and a relative LD_PRELOAD would depend on the current directory. The list
 * of mappings has the path; without /proc, the name that the loader has is used if it is absolute.
 * Returns false if nothing reliable is known. */
static bool own_path(char path[static PATH_MAX])
{
    return find_mapping(path) || loader_path(path);
}

/* ---- plug-ins --------------------------------------------------------------- */

/* Splits our own path: the directory stays in @own. Returns the name of the file. */
static const char *split(char own[static PATH_MAX])
{
    char *slash = strrchr(own, '/');

    *slash = '\0';
    return slash + 1;
}

static bool ends_with(const char *directory, const char *end)
{
    size_t length = strlen(directory), wanted = strlen(end);

    if (end[wanted - 1] == '*') { /* leave out the last name of both */
        const char *last = strrchr(directory, '/');
        length = last != NULL ? (size_t)(last - directory) : 0;
        wanted -= 2;
    }
    return length >= wanted && memcmp(directory + length - wanted, end, wanted) == 0;
}

/* Why a file that the user chose is not loaded: a stranger may have put it there. NULL when it may
 * be. */
static const char *distrust(const char *path, const char *directory)
{
    struct stat file, above, own;
    char origin[PATH_MAX];

    if (stat(path, &file) != 0 || stat(directory, &above) != 0)
        return strerror(errno);
    bool colleague = own_path(origin) && stat(origin, &own) == 0 && own.st_uid == file.st_uid;
    if (file.st_uid != 0 && file.st_uid != geteuid() && !colleague)
        return "the file belongs to another user; it must be yours or root's";
    if ((file.st_mode & S_IWOTH) != 0)
        return "the file can be written by others; chmod o-w it";
    if ((above.st_mode & S_IWOTH) != 0 && (above.st_mode & S_ISVTX) == 0)
        return "the directory can be written by others; chmod o-w it";
    return NULL;
}

static uro_port_open_fn *load(const char *path, char error[static URO_PORT_ERROR_MAX])
{
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

/* Loads DIRECTORY/BELOW/liburoce-KIND.so. NULL without an error when there is no such file. */
static uro_port_open_fn *try_plugin(const char *directory, const char *below, enum kind kind,
                                    char error[static URO_PORT_ERROR_MAX])
{
    char path[PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%s/liburoce-%s.so", directory, below, names[kind]);
    return access(path, R_OK) == 0 ? load(path, error) : NULL;
}

/* The user's directory, UROCE_LIB_DIR. A relative one would depend on the current directory. */
static uro_port_open_fn *try_chosen(const char *chosen, enum kind kind,
                                    char error[static URO_PORT_ERROR_MAX])
{
    char path[PATH_MAX + 64];

    if (chosen[0] != '/') {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "UROCE_LIB_DIR=%.100s: must be an absolute path, which begins with /",
                       chosen);
        return NULL;
    }
    int length = snprintf(path, sizeof path, "%s/liburoce-%s.so", chosen, names[kind]);
    if (length < 0 || (size_t)length >= sizeof path || access(path, R_OK) != 0)
        return NULL;
    const char *wrong = distrust(path, chosen);
    if (wrong == NULL)
        return load(path, error);
    (void)snprintf(error, URO_PORT_ERROR_MAX, "UROCE_LIB_DIR=%.100s, liburoce-%s.so: %s", chosen,
                   names[kind], wrong);
    return NULL;
}

/* Returns the path from the directory of this library, whose file has the name @name, to the
 * installed plug-ins. */
static const char *below_own(const char *name)
{
    if (strncmp(name, "libibverbs.so", strlen("libibverbs.so")) == 0)
        return ".";
    return strncmp(name, "liburoce.so", strlen("liburoce.so")) == 0 ? "uroce"
                                                                    : URO_LIBRARY_DIR_FROM_BIN;
}

/* Beside the library, where `uroce` as installed has the libraries, or in the build tree. */
static uro_port_open_fn *try_own(enum kind kind, char error[static URO_PORT_ERROR_MAX])
{
    char own[PATH_MAX], below[128];

    if (!own_path(own))
        return NULL;
    uro_port_open_fn *open = try_plugin(own, below_own(split(own)), kind, error);
    for (size_t i = 0; open == NULL && i < URO_ARRAY_LEN(build_tree); i++) {
        if (!ends_with(own, build_tree[i].directory))
            continue;
        (void)snprintf(below, sizeof below, "%s%s", build_tree[i].plugins, names[kind]);
        open = try_plugin(own, below, kind, error);
    }
    return open;
}

uro_port_open_fn *uro_plugin_find(const char *link, char error[static URO_PORT_ERROR_MAX])
{
    const char *chosen = chosen_directory();
    enum kind kind = kind_of(link);
    uro_port_open_fn *open = find_added(link);

    error[0] = '\0';
    if (open != NULL)
        return open;
    if (chosen != NULL)
        open = try_chosen(chosen, kind, error);
    if (open == NULL && error[0] == '\0')
        open = try_own(kind, error);
    if (open == NULL && error[0] == '\0')
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "no liburoce-%s.so found beside the library: %sset UROCE_LIB_DIR to its "
                       "directory",
                       names[kind], kind == DPDK ? "build with -Ddpdk=enabled, or " : "");
    return open;
}
