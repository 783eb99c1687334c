/* SPDX-License-Identifier: BSD-3-Clause */
/* map.c - compares a name with the few that matter, and asks the tree whether it has them. */
#include "paths/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TREE "UROCE_TREE"

/* A copy: programs overwrite their environment. Set once, before main(). */
static char tree[URO_PATHS_TREE_MAX];
static atomic_bool tree_known;

static bool usable(const char *path)
{
    return path != NULL && path[0] == '/' && strlen(path) < URO_PATHS_TREE_MAX;
}

/* A directory that root or we made and nobody else can write to. By system call: the call that
 * programs make may be the one that is being answered. */
static bool trusted(const char *path)
{
    struct stat is;

    return syscall(SYS_newfstatat, AT_FDCWD, path, &is, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(is.st_mode) && (is.st_uid == 0 || is.st_uid == geteuid()) &&
           (is.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Runs after what other libraries open while they are loaded: see tree_of_process(). A program with
 * more rights than its user gets NULL. */
__attribute__((constructor)) static void know_tree(void)
{
    const char *path = secure_getenv(TREE);

    if (usable(path))
        memcpy(tree, path, strlen(path) + 1);
    atomic_store_explicit(&tree_known, true, memory_order_release);
}

/* NULL: there is none. */
static const char *tree_of_process(void)
{
    if (atomic_load_explicit(&tree_known, memory_order_acquire))
        return tree[0] != '\0' ? tree : NULL;
    const char *path = secure_getenv(TREE);
    return usable(path) ? path : NULL;
}

/* Where the parts of a name end: "/sys/class/infiniband" and "/sys/class/infiniband/ours0". */
struct parts {
    size_t place, entry;
};

/* The part of @name that the tree has too; NULL for nearly every name there is. */
static const char *part_in_tree(const char *name, struct parts *parts)
{
    static const struct {
        const char *name;
        size_t skip;
    } places[] = {
        { "/sys/class/infiniband", sizeof "/sys" - 1 },
        { "/sys/class/infiniband_verbs", sizeof "/sys" - 1 },
        { "/dev/infiniband", 0 },
    };

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        size_t length = strlen(places[i].name);
        if (strncmp(name, places[i].name, length) != 0 ||
            (name[length] != '/' && name[length] != '\0'))
            continue;
        parts->place = length;
        length += strspn(name + length, "/");
        parts->entry = length + strcspn(name + length, "/");
        return name + places[i].skip;
    }
    return NULL;
}

/* @entry: a name in the tree; @name: the first @length octets of the name that was asked for. By
 * system call, as above. */
static bool is_ours(const char *entry, const char *name, size_t length)
{
    char target[URO_PATHS_NAME_MAX];
    long octets = syscall(SYS_readlinkat, AT_FDCWD, entry, target, sizeof target);

    if (octets < 0)
        return errno == EINVAL; /* it is there and no link */
    return (size_t)octets != length || memcmp(target, name, length) != 0;
}

/* True when @name is in the tree; the room then has it. The kernel follows "." and ".." in it. */
static bool find(const char *name, struct uro_paths_room *room, struct parts *parts)
{
    const char *below = name[0] == '/' ? part_in_tree(name, parts) : NULL;
    const char *top = below != NULL ? tree_of_process() : NULL;

    if (top == NULL || !trusted(top))
        return false;
    size_t before = strlen(top), length = strlen(below);
    size_t until = parts->entry - (size_t)(below - name);
    if (length >= URO_PATHS_NAME_MAX)
        return false;
    memcpy(room->text, top, before);
    memcpy(room->text + before, below, length + 1);
    room->text[before + until] = '\0';
    if (!is_ours(room->text, name, parts->entry))
        return false;
    room->text[before + until] = below[until];
    return true;
}

/* Returns the text after the ".." of @name that leads above the place, or NULL if none does. */
static const char *way_out(const char *name, const struct parts *parts)
{
    int depth = 0;

    for (const char *at = name + parts->place; *(at += strspn(at, "/")) != '\0';) {
        size_t length = strcspn(at, "/");
        bool up = length == 2 && memcmp(at, "..", 2) == 0;
        bool here = length == 1 && *at == '.';
        at += length;
        depth += up ? -1 : !here;
        if (depth < 0)
            return at;
    }
    return NULL;
}

/* The name to use instead of @name, which is in the tree and leads out of it by @rest: that of the
 * machine's own directory, "/sys/class" or "/dev", and the rest. Each call shortens the name.
 * NOLINTNEXTLINE(misc-no-recursion) */
static const char *map_outside(const char *name, const struct parts *parts, const char *rest,
                               struct uro_paths_room *room)
{
    char outside[URO_PATHS_NAME_MAX + sizeof "/sys"];
    size_t parent = parts->place, length = strlen(rest);

    while (name[--parent] != '/')
        ;
    memcpy(outside, name, parent);
    memcpy(outside + parent, rest, length + 1);
    const char *mapped = uro_paths_map(outside, room);
    if (mapped == outside) {
        memcpy(room->text, outside, parent + length + 1);
        mapped = room->text;
    }
    return mapped;
}

/* NOLINTNEXTLINE(misc-no-recursion): see map_outside() */
const char *uro_paths_map(const char *name, struct uro_paths_room *room)
{
    int before = errno;
    struct parts parts;
    const char *mapped = name;

    if (name != NULL && find(name, room, &parts)) {
        const char *rest = way_out(name, &parts);
        mapped = rest == NULL ? room->text : map_outside(name, &parts, rest, room);
    }
    errno = before;
    return mapped;
}
