/* SPDX-License-Identifier: BSD-3-Clause */
/* path_map.c - compares a name with the mapped directories, and checks whether the tree has it. */
#include "paths/path_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TREE    "UROCE_TREE"
#define CLASS   "/sys/class/infiniband"
#define VIRTUAL "/sys/devices/virtual"
#define ABSENT  "/sys/module/of-no-kernel" /* a path that does not exist */

/* A copy: programs overwrite their environment. Set once, before main(). */
static char tree[URO_PATHS_TREE_MAX];
static atomic_bool tree_known;

static bool usable(const char *path)
{
    return path != NULL && path[0] == '/' && strlen(path) < URO_PATHS_TREE_MAX;
}

/* Returns whether only root or this user can write to the directory. Makes system calls directly,
 * because this library intercepts the functions of the C library. */
static bool trusted(const char *path)
{
    struct stat is;

    return syscall(SYS_newfstatat, AT_FDCWD, path, &is, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(is.st_mode) && (is.st_uid == 0 || is.st_uid == geteuid()) &&
           (is.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Other libraries may open files before this function runs, while they are loaded: see
 * uro_paths_tree(). In a program with more rights than its user, secure_getenv() returns NULL. */
__attribute__((constructor)) static void know_tree(void)
{
    const char *path = secure_getenv(TREE);

    if (usable(path))
        memcpy(tree, path, strlen(path) + 1);
    atomic_store_explicit(&tree_known, true, memory_order_release);
}

const char *uro_paths_tree(void)
{
    if (atomic_load_explicit(&tree_known, memory_order_acquire))
        return tree[0] != '\0' ? tree : NULL;
    const char *path = secure_getenv(TREE);
    return usable(path) ? path : NULL;
}

const char *uro_paths_trusted_tree(void)
{
    const char *top = uro_paths_tree();

    return top != NULL && trusted(top) ? top : NULL;
}

/* Lengths of the parts of a name, such as "/sys/class/infiniband" and
 * "/sys/class/infiniband/ours0". */
struct parts {
    size_t prefix, entry;
    bool is_link; /* whether the entry is a link into devices/virtual */
};

/* Returns the part of @name that the tree may have, or NULL. Returns NULL for nearly every name. */
static const char *part_in_tree(const char *name, struct parts *parts)
{
    static const struct {
        const char *name;
        size_t skip;
    } prefixes[] = {
        { CLASS, sizeof "/sys" - 1 },
        { VIRTUAL "/infiniband", sizeof "/sys" - 1 },
        { "/sys/class/infiniband_verbs", sizeof "/sys" - 1 },
        { "/dev/infiniband", 0 },
    };

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t length = strlen(prefixes[i].name);
        if (strncmp(name, prefixes[i].name, length) != 0 ||
            (name[length] != '/' && name[length] != '\0'))
            continue;
        parts->prefix = length;
        length += strspn(name + length, "/");
        parts->entry = length + strcspn(name + length, "/");
        parts->is_link = i == 0 && name[length] != '.' && name[length] != '\0';
        return name + prefixes[i].skip;
    }
    return NULL;
}

/* Returns whether @entry, a name in the tree, is one of our devices. @name: the name that the
 * program gave. Makes a system call directly, as trusted() does. */
static bool is_ours(const char *entry, const char *name, struct parts *parts)
{
    char target[URO_PATHS_NAME_MAX];
    long octets = syscall(SYS_readlinkat, AT_FDCWD, entry, target, sizeof target);

    parts->is_link &= octets > 0;
    if (octets < 0)
        return errno == EINVAL; /* the entry exists and is not a link */
    return (size_t)octets != parts->entry || memcmp(target, name, parts->entry) != 0;
}

/* Returns whether @name is in the tree, and writes its name there to @buffer. The kernel
 * resolves "." and ".." in it. */
static bool find(const char *name, struct uro_paths_buffer *buffer, struct parts *parts)
{
    const char *below = name[0] == '/' ? part_in_tree(name, parts) : NULL;
    const char *top = below != NULL ? uro_paths_trusted_tree() : NULL;

    if (top == NULL)
        return false;
    size_t before = strlen(top), length = strlen(below);
    size_t until = parts->entry - (size_t)(below - name);
    if (length >= URO_PATHS_NAME_MAX)
        return false;
    memcpy(buffer->text, top, before);
    memcpy(buffer->text + before, below, length + 1);
    buffer->text[before + until] = '\0';
    if (!is_ours(buffer->text, name, parts))
        return false;
    buffer->text[before + until] = below[until];
    return true;
}

/* Returns whether NCCL and UCX conclude from @name that a network card can register memory of a
 * GPU. Our devices cannot do this. */
static bool is_hidden(const char *name)
{
    static const char *const hidden[] = { "/sys/module/nvidia_peermem", "/sys/module/nv_peer_mem",
                                          "/sys/kernel/mm/memory_peers", "/sys/kernel/memory_peers",
                                          "/sys/memory_peers" };

    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++) {
        const size_t length = strlen(hidden[i]);
        if (strncmp(name, hidden[i], length) == 0 && (name[length] == '/' || name[length] == '\0'))
            return true;
    }
    return false;
}

/* Returns the text after the ".." of @name that leads above the prefix, or NULL if none does. */
static const char *find_exit(const char *name, const struct parts *parts)
{
    int depth = 0;

    for (const char *pos = name + parts->prefix; *(pos += strspn(pos, "/")) != '\0';) {
        size_t length = strcspn(pos, "/");
        bool up = length == 2 && memcmp(pos, "..", 2) == 0;
        bool here = length == 1 && *pos == '.';
        pos += length;
        depth += up ? -1 : !here;
        if (depth < 0)
            return pos;
    }
    return NULL;
}

/* @name is in the tree and leaves it by a ".." with @rest behind it. Returns the name to use
 * instead: a directory of the machine, such as "/sys/class", followed by @rest. If the entry is a
 * link, ".." leads to the directory above the target of the link. Each recursive call has a shorter
 * @rest. NOLINTNEXTLINE(misc-no-recursion) */
static const char *map_outside(const char *name, const struct parts *parts, const char *rest,
                               struct uro_paths_buffer *buffer)
{
    char outside[URO_PATHS_NAME_MAX + sizeof VIRTUAL];
    size_t parent = parts->prefix, length = strlen(rest);

    while (name[--parent] != '/')
        ;
    if (parts->is_link)
        parent = sizeof VIRTUAL - 1;
    memcpy(outside, parts->is_link ? VIRTUAL : name, parent);
    memcpy(outside + parent, rest, length + 1);
    const char *mapped = uro_paths_map(outside, buffer);
    if (mapped == outside) {
        memcpy(buffer->text, outside, parent + length + 1);
        mapped = buffer->text;
    }
    return mapped;
}

/* NOLINTNEXTLINE(misc-no-recursion): see map_outside() */
const char *uro_paths_map(const char *name, struct uro_paths_buffer *buffer)
{
    int before = errno;
    struct parts parts;
    const char *mapped = name;

    if (name != NULL && find(name, buffer, &parts)) {
        const char *rest = find_exit(name, &parts);
        mapped = rest == NULL ? buffer->text : map_outside(name, &parts, rest, buffer);
    } else if (name != NULL && is_hidden(name) && uro_paths_tree() != NULL) {
        mapped = memcpy(buffer->text, ABSENT, sizeof ABSENT);
    }
    errno = before;
    return mapped;
}
