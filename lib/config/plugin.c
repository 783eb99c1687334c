/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - finds and loads the plug-ins in UROCE_LIB_DIR, in the installation of this library or
 * program, or in the build tree.
 *
 * A plug-in describes its drivers and their options (struct uro_port_plugin). This file names only
 * the plug-ins.
 */
#define _GNU_SOURCE /* secure_getenv, dladdr1 */
#include "config/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/device_config.h"
#include "io/common/link_options.h"

/* The plug-ins of uroce, in the order in which their drivers are listed: the library of NAME is
 * liburoce-NAME.so. */
static const struct plugin {
    const char *name;
    const char *folder; /* folder of the build tree, below lib/io */
} plugins[] = {
    { "udp", "udp" }, { "memif", "memif" }, { "packet", "packet" }, { "dpdk-links", "dpdk" }
};

/* Loaded plug-ins. They stay loaded. */
static const struct uro_port_plugin *_Atomic loaded[URO_ARRAY_LEN(plugins)];

/* Directories of plug-ins in a build tree, relative to the directory of the library or program. No
 * other parent directory is searched, because other users may be able to write to it, for example
 * /tmp. */
static const struct place {
    const char *directory; /* last components of our own directory; "*" matches any name */
    const char *plugins;   /* relative path to the parent of the plug-in folders */
} build_tree[] = {
    { "/lib/abi", "../io/" },
    { "/lib/embed", "../io/" },
    { "/app", "../lib/io/" },
    { "/tests/*", "../../lib/io/" },
    { "/tests/unit/*", "../../../lib/io/" },
};

/* Returns the user's directory of plug-ins, or NULL. */
static const char *chosen_directory(void)
{
    const char *chosen = secure_getenv("UROCE_LIB_DIR");

    return chosen != NULL && chosen[0] != '\0' ? chosen : NULL;
}

/* Drivers that are not in a plug-in. Readers take no lock, so an entry is written before
 * `added_count` includes it. */
static const struct uro_port_driver *added[URO_PLUGIN_ADDED_MAX];
static atomic_uint added_count;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static const struct uro_port_driver *find_added(const char *link)
{
    for (unsigned i = 0; i < atomic_load(&added_count); i++)
        if (uro_link_options_serve(added[i], link))
            return added[i];
    return NULL;
}

int uro_plugin_add(const struct uro_port_driver *driver)
{
    int error = 0;

    (void)pthread_mutex_lock(&adding);
    const unsigned count = atomic_load(&added_count);
    if (find_added(driver->prefix) != NULL) {
        error = -EEXIST;
    } else if (count == URO_ARRAY_LEN(added)) {
        error = -ENOSPC;
    } else {
        added[count] = driver;
        atomic_store(&added_count, count + 1);
    }
    (void)pthread_mutex_unlock(&adding);
    return error;
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

/* Writes the loader's name of this library, if it is an absolute path. A program has no such
 * name. */
static bool loader_path(char path[static PATH_MAX])
{
    struct link_map *map = NULL;
    Dl_info info;

    if (dladdr1(&mark, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return false;
    return map->l_name[0] == '/' && realpath(map->l_name, path) != NULL;
}

/* Writes the absolute path of the file from which this code was loaded to @path: a program of
 * uroce, or the library. argv[0] and a relative LD_PRELOAD would depend on the current directory.
 * The path is from the list of mappings. Without /proc, it is the loader's name, if that is
 * absolute. Returns false if no reliable path is known. */
static bool own_path(char path[static PATH_MAX])
{
    return find_mapping(path) || loader_path(path);
}

/* ---- files --------------------------------------------------------------------- */

/* Splits the path in @own. The directory stays in @own. Returns the name of the file. */
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

/* Returns the reason why a file from the user's directory must not be loaded: another user could
 * have put it there. Returns NULL if it may be loaded. */
static const char *load_problem(const char *path, const char *directory)
{
    struct stat file, above, own;
    char origin[PATH_MAX];

    if (stat(path, &file) != 0 || stat(directory, &above) != 0)
        return strerror(errno);
    bool same_owner = own_path(origin) && stat(origin, &own) == 0 && own.st_uid == file.st_uid;
    if (file.st_uid != 0 && file.st_uid != geteuid() && !same_owner)
        return "the file belongs to another user; it must be yours or root's";
    if ((file.st_mode & S_IWOTH) != 0)
        return "the file can be written by others; chmod o-w it";
    if ((above.st_mode & S_IWOTH) != 0 && (above.st_mode & S_ISVTX) == 0)
        return "the directory can be written by others; chmod o-w it";
    return NULL;
}

/* ---- loading ------------------------------------------------------------------ */

/* Returns the symbol of the library, or NULL with a sentence in @error. */
static const void *load(const char *path, const char *symbol, char error[static URO_PORT_ERROR_MAX])
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const void *found = library != NULL ? dlsym(library, symbol) : NULL;

    if (found == NULL)
        (void)snprintf(error, URO_PORT_ERROR_MAX, "%s", dlerror());
    return found;
}

/* Loads DIRECTORY/BELOW/liburoce-NAME.so. Returns NULL without an error if there is no such
 * file. */
static const void *try_directory(const char *directory, const char *below, const char *name,
                                 const char *symbol, char error[static URO_PORT_ERROR_MAX])
{
    char path[PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%s/liburoce-%s.so", directory, below, name);
    return access(path, R_OK) == 0 ? load(path, symbol, error) : NULL;
}

/* Loads a plug-in from the user's directory, UROCE_LIB_DIR. The path must be absolute, because a
 * relative path would depend on the current directory. */
static const void *try_chosen(const char *chosen, const char *name, const char *symbol,
                              char error[static URO_PORT_ERROR_MAX])
{
    char path[PATH_MAX + 64];

    if (chosen[0] != '/') {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "UROCE_LIB_DIR=%.100s: must be an absolute path, which begins with /",
                       chosen);
        return NULL;
    }
    int length = snprintf(path, sizeof path, "%s/liburoce-%s.so", chosen, name);
    if (length < 0 || (size_t)length >= sizeof path || access(path, R_OK) != 0)
        return NULL;
    const char *wrong = load_problem(path, chosen);
    if (wrong == NULL)
        return load(path, symbol, error);
    (void)snprintf(error, URO_PORT_ERROR_MAX, "UROCE_LIB_DIR=%.100s, liburoce-%s.so: %s", chosen,
                   name, wrong);
    return NULL;
}

/* Returns the path from the directory of this library or program, whose file has the name @name, to
 * the installed plug-ins. */
static const char *below_own(const char *name)
{
    if (strncmp(name, "libibverbs.so", strlen("libibverbs.so")) == 0)
        return ".";
    return strncmp(name, "liburoce.so", strlen("liburoce.so")) == 0 ? "uroce"
                                                                    : URO_LIBRARY_DIR_FROM_BIN;
}

/* Loads a plug-in from the installation of this library or program, or from the plug-in's folder in
 * the build tree. */
static const void *try_own(const char *folder, const char *name, const char *symbol,
                           char error[static URO_PORT_ERROR_MAX])
{
    char own[PATH_MAX], below[128];

    if (!own_path(own))
        return NULL;
    const void *found = try_directory(own, below_own(split(own)), name, symbol, error);
    for (size_t i = 0; found == NULL && i < URO_ARRAY_LEN(build_tree); i++) {
        if (!ends_with(own, build_tree[i].directory))
            continue;
        (void)snprintf(below, sizeof below, "%s%s", build_tree[i].plugins, folder);
        found = try_directory(own, below, name, symbol, error);
    }
    return found;
}

/* Returns the symbol of liburoce-NAME.so. Returns NULL without an error if there is no such
 * file. */
static const void *find_symbol(const char *folder, const char *name, const char *symbol,
                               char error[static URO_PORT_ERROR_MAX])
{
    const char *chosen = chosen_directory();
    const void *found = NULL;

    error[0] = '\0';
    if (chosen != NULL)
        found = try_chosen(chosen, name, symbol, error);
    if (found == NULL && error[0] == '\0')
        found = try_own(folder, name, symbol, error);
    return found;
}

/* Returns plug-in number @i. Returns NULL without an error if it is not installed. */
static const struct uro_port_plugin *get(size_t i, char error[static URO_PORT_ERROR_MAX])
{
    const struct uro_port_plugin *plugin = atomic_load(&loaded[i]);

    error[0] = '\0';
    if (plugin != NULL)
        return plugin;
    plugin = find_symbol(plugins[i].folder, plugins[i].name, URO_PORT_PLUGIN_SYMBOL, error);
    if (plugin != NULL && plugin->version != URO_PORT_PLUGIN_VERSION) {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "liburoce-%s.so is of another version of uroce (interface %u, not %u); "
                       "install the plug-ins and the library from one build",
                       plugins[i].name, plugin->version, URO_PORT_PLUGIN_VERSION);
        return NULL;
    }
    atomic_store(&loaded[i], plugin);
    return plugin;
}

/* ---- the drivers --------------------------------------------------------------- */

uint32_t uro_plugin_list(const struct uro_port_driver *drivers[static URO_PLUGIN_DRIVERS_MAX])
{
    char error[URO_PORT_ERROR_MAX];
    uint32_t count = 0;

    for (unsigned i = 0; i < atomic_load(&added_count); i++)
        drivers[count++] = added[i];
    for (size_t i = 0; i < URO_ARRAY_LEN(plugins); i++) {
        const struct uro_port_plugin *plugin = get(i, error);
        for (uint32_t k = 0; plugin != NULL && k < plugin->driver_count; k++)
            if (count < URO_PLUGIN_DRIVERS_MAX)
                drivers[count++] = &plugin->drivers[k];
    }
    return count;
}

/* Appends to the sentence at @error as much as fits. */
URO_PRINTF(2) static void append(char error[static URO_PORT_ERROR_MAX], const char *format, ...)
{
    const size_t used = strlen(error);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(error + used, URO_PORT_ERROR_MAX - used, format, arguments);
    va_end(arguments);
}

/* Writes the reason why the link has no driver: a plug-in is missing, or there is no such link. */
static void explain_unknown(const char *link, char error[static URO_PORT_ERROR_MAX])
{
    const struct uro_port_driver *drivers[URO_PLUGIN_DRIVERS_MAX];
    const uint32_t count = uro_plugin_list(drivers);
    unsigned missing = 0;
    char own[PATH_MAX];

    (void)snprintf(error, URO_PORT_ERROR_MAX, "link=%.40s: ", link);
    for (size_t i = 0; i < URO_ARRAY_LEN(plugins); i++)
        if (atomic_load(&loaded[i]) == NULL)
            append(error, "%sliburoce-%s.so", missing++ == 0 ? "" : ", ", plugins[i].name);
    if (missing > 0 && chosen_directory() == NULL && !own_path(own)) {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link=%.40s: cannot find the plug-ins of uroce, because /proc/self/maps "
                       "cannot be read; mount /proc, or set UROCE_LIB_DIR to their directory",
                       link);
        return;
    }
    if (missing > 0) {
        append(error,
               " %s not beside the library; install uroce as a whole, or set UROCE_LIB_DIR to the "
               "directory of the plug-ins",
               missing == 1 ? "is" : "are");
        return;
    }
    append(error, "there is no such kind of link; uroce knows");
    for (uint32_t i = 0; i < count; i++)
        append(error, "%s %s%s", i > 0 ? "," : "", drivers[i]->prefix,
               uro_port_driver_has(drivers[i], URO_DRIVER_NUMBERED) ? "0" : "");
}

const struct uro_port_driver *uro_plugin_find(const char *link,
                                              char error[static URO_PORT_ERROR_MAX])
{
    const struct uro_port_driver *driver = find_added(link);
    char wrong[URO_PORT_ERROR_MAX];

    error[0] = '\0';
    for (size_t i = 0; driver == NULL && i < URO_ARRAY_LEN(plugins); i++) {
        const struct uro_port_plugin *plugin = get(i, wrong);
        if (error[0] == '\0')
            memcpy(error, wrong, sizeof wrong);
        for (uint32_t k = 0; plugin != NULL && k < plugin->driver_count; k++)
            if (uro_link_options_serve(&plugin->drivers[k], link))
                driver = &plugin->drivers[k];
    }
    if (driver == NULL && error[0] == '\0')
        explain_unknown(link, error);
    return driver;
}

/* Returns the function that opens links of @driver, or NULL with a sentence in @error. */
static uro_port_open_fn *find_open(const struct uro_port_driver *driver,
                                   char error[static URO_PORT_ERROR_MAX])
{
    uro_port_open_fn *open = driver->open;

    error[0] = '\0';
    if (open != NULL)
        return open;
    const void *symbol = find_symbol(driver->library, driver->library, URO_PORT_OPEN_SYMBOL, error);
    memcpy(&open, &symbol, sizeof open);
    if (symbol == NULL && error[0] == '\0')
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "liburoce-%s.so is not beside the library; build with -D%s=enabled, install "
                       "uroce as a whole, or set UROCE_LIB_DIR to the directory that has it",
                       driver->library, driver->library);
    return open;
}

struct uro_port *uro_plugin_open(const struct uro_device_config *config, bool forked,
                                 char error[static URO_PORT_ERROR_MAX])
{
    const struct uro_port_config wanted = {
        .device = config->name,
        .link = config->link,
        .mtu = config->mtu,
        .has_mac = true,
        .mac = config->mac,
        .vlan = (uint16_t)config->vlan,
        .memory_mib = config->memory_mib,
        .addresses = config->gids,
        .address_count = config->gid_count,
        .forked = forked,
        .verbose = config->verbose,
        .telemetry = config->telemetry,
        .eal = config->eal,
        .hugepages = config->hugepages,
    };
    uro_port_open_fn *open = find_open(config->driver, error);

    return open != NULL ? open(&wanted, error) : NULL;
}
