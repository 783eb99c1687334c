/* SPDX-License-Identifier: BSD-3-Clause */
/* refresh.c - see refresh.h. */
#define _GNU_SOURCE /* syscall */
#include "paths/refresh.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stats/sysfs.h"

#define PATH_SIZE (URO_PATHS_TREE_MAX + 2 * URO_PATHS_NAME_MAX)
#define PORT      "ports/1"

/* Whether this process has opened a file or directory of the tree, or used the tree as working
 * directory. Only then can a relative name be in the tree, so only then a system call finds its
 * directory. */
static atomic_bool was_inside;

/* Whether this thread refreshes files. The calls that it makes for that also reach this library. */
static URO_THREAD_LOCAL_FOR_HANDLERS bool refreshing;

/* Returns the rest of @path after the directory @prefix, without slashes in front, or NULL. */
static const char *below(const char *path, const char *prefix)
{
    const size_t length = strlen(prefix);

    if (strncmp(path, prefix, length) != 0 || (path[length] != '/' && path[length] != '\0'))
        return NULL;
    return path + length + strspn(path + length, "/");
}

/* Copies @path without repeated slashes, slashes at the end and "." to @out. Returns false if it
 * does not fit, or has a "..". */
static bool simplify(const char *path, char out[static PATH_SIZE])
{
    size_t used = 0;

    while (*(path += strspn(path, "/")) != '\0') {
        const size_t length = strcspn(path, "/");
        if (length == 2 && memcmp(path, "..", 2) == 0)
            return false;
        if (length != 1 || path[0] != '.') {
            if (used + length + 2 > PATH_SIZE)
                return false;
            out[used++] = '/';
            memcpy(out + used, path, length);
            used += length;
        }
        path += length;
    }
    out[used] = '\0';
    return true;
}

/* Finds the port to which @path, a full name in @tree, leads, and writes the name of its device to
 * @device. Returns the path below ports/1, as for uro_sysfs_refresh(), or NULL if there is no
 * port. */
static const char *find_file(const char *path, const char *tree,
                             char device[static URO_STATS_NAME_MAX])
{
    static const char *const places[] = { "class/infiniband", URO_SYSFS_DEVICES };
    const char *inside = below(path, tree), *rest = NULL;

    for (size_t i = 0; inside != NULL && rest == NULL && i < URO_ARRAY_LEN(places); i++)
        rest = below(inside, places[i]);
    const size_t length = rest == NULL ? 0 : strcspn(rest, "/");
    if (length == 0 || length >= URO_STATS_NAME_MAX)
        return NULL;
    memcpy(device, rest, length);
    device[length] = '\0';
    rest += length;
    if (rest[0] == '\0' || strcmp(rest, "/ports") == 0)
        return "";
    return below(rest + 1, PORT);
}

/* Writes the full name of @name in the directory @at to @out. Returns false on failure. */
static bool complete(int at, const char *name, char out[static PATH_SIZE])
{
    char link[sizeof "/proc/self/fd/" + 12];
    long length;

    if (at == AT_FDCWD) {
        length = syscall(SYS_getcwd, out, PATH_SIZE) - 1;
    } else {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        length = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_SIZE);
    }
    if (length <= 0 || (size_t)length + strlen(name) + 2 > PATH_SIZE)
        return false;
    out[length] = '/';
    memcpy(out + length + 1, name, strlen(name) + 1);
    return true;
}

/* Checks whether the process was started in a directory of the tree. */
__attribute__((constructor)) static void see_directory(void)
{
    char path[PATH_SIZE];
    const char *tree = uro_paths_tree();
    const int before = errno;

    if (tree != NULL && complete(AT_FDCWD, ".", path) && below(path, tree) != NULL)
        atomic_store(&was_inside, true);
    errno = before;
}

/* Refreshes the file @path, if it is in the tree. Cancellation is off meanwhile, because
 * uro_sysfs_refresh() takes a lock. */
static void refresh(const char *tree, const char *path)
{
    char simple[PATH_SIZE], simple_tree[PATH_SIZE], device[URO_STATS_NAME_MAX];
    int state;

    if (!simplify(path, simple) || !simplify(tree, simple_tree) ||
        below(simple, simple_tree) == NULL)
        return;
    atomic_store_explicit(&was_inside, true, memory_order_relaxed);
    const char *file = find_file(simple, simple_tree, device);
    if (file == NULL || !uro_sysfs_changes(file))
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    refreshing = true;
    (void)!uro_sysfs_refresh(tree, device, file);
    refreshing = false;
    (void)pthread_setcancelstate(state, NULL);
}

const char *uro_paths_map_open(int at, const char *name, struct uro_paths_buffer *buffer)
{
    const int before = errno;
    const char *mapped = uro_paths_map(name, buffer);
    const char *tree = name == NULL || name[0] == '\0' ? NULL : uro_paths_tree();
    char path[PATH_SIZE];

    if (tree == NULL || refreshing)
        return mapped;
    if (mapped[0] == '/')
        refresh(tree, mapped);
    else if (atomic_load_explicit(&was_inside, memory_order_relaxed) && complete(at, name, path))
        refresh(tree, path);
    errno = before;
    return mapped;
}
