/* SPDX-License-Identifier: BSD-3-Clause */
/* origin.c - see origin.h. The list of mappings has the path; without /proc the loader's name will do, if it
 * cannot depend on the current directory. */
#define _GNU_SOURCE /* dladdr1 */
#include "host/origin.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mark; /* an address in this file's object */

/* The path at the end of a line of /proc/self/maps, or NULL: "55d0-55d1 r--p 0 08:01 1234   /usr/bin/uroce". */
static const char *path_of(char *line)
{
    int begin = 0;

    (void)sscanf(line, "%*s %*s %*s %*s %*s %n", &begin);
    line[strcspn(line, "\n")] = '\0';
    return begin > 0 && line[begin] == '/' ? line + begin : NULL;
}

static bool find_mapping(char path[static PATH_MAX])
{
    const uintptr_t at = (uintptr_t)&mark;
    FILE *maps = fopen("/proc/self/maps", "re");
    bool found = false;
    char *line = NULL;
    size_t size = 0;

    while (maps != NULL && !found && getline(&line, &size, maps) > 0) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) != 2 || at < from || at >= to)
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
static bool ask_loader(char path[static PATH_MAX])
{
    struct link_map *map = NULL;
    Dl_info info;

    if (dladdr1(&mark, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return false;
    return map->l_name[0] == '/' && realpath(map->l_name, path) != NULL;
}

bool uro_origin_path(char path[static PATH_MAX])
{
    return find_mapping(path) || ask_loader(path);
}
