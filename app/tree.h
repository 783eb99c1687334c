/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.h - a copy of the files that programs read below /sys/class/infiniband,
 * /sys/class/infiniband_verbs and /dev/infiniband. liburoce-paths.so (lib/paths/path_map.h)
 * redirects programs to it.
 *
 *     devices/virtual/infiniband/DEVICE/   the same files as in the kernel, for each device
 *     class/infiniband/DEVICE              a link to that directory
 *     class/infiniband_verbs/uverbsN/...
 *     dev/infiniband/uverbsN               a link to /dev/null: programs want a character device
 *
 * devices/virtual/infiniband, class/infiniband, class/infiniband_verbs and dev/infiniband also have
 * a link to each entry of the kernel.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "config/card.h"
#include "host/host.h"
#include "stats/sysfs.h"

#define URO_TREE_IN_RUNTIME "uroce-tree-XXXXXX"

/* The tree while it is filled. After the first error, all functions do nothing, and `error` keeps
 * this error. */
struct uro_tree {
    int fd;
    int error;   /* 0 or -errno */
    mode_t mode; /* mode of directories */
    char path[PATH_MAX];
};

/* Makes a directory for this process in the first safe directory of XDG_RUNTIME_DIR, TMPDIR and
 * /tmp, and fills it from the configuration. The directory remains while a process that
 * inherited tree->fd runs. After that, the user's next call that chooses the same parent directory
 * removes it. Returns 0 or -errno. After an error, tree->path is the path of the error. */
URO_NODISCARD int uro_tree_make(struct uro_tree *tree);

/* These functions add entries. Paths are relative to the tree. Missing directories are made. */
void uro_tree_directory(struct uro_tree *tree, const char *path);
URO_PRINTF(3)
void uro_tree_file(struct uro_tree *tree, const char *path, const char *format, ...);
void uro_tree_link(struct uro_tree *tree, const char *path, const char *target);

/* Makes the directory of a device, and the files of its port whose contents change
 * (stats/sysfs.h). */
void uro_tree_port(struct uro_tree *tree, const char *device, const struct uro_sysfs_port *port);

/* Writes the files of a device that has the number @index in file names (tree_device.c). @card is
 * the card of like=; without like= it has no name. */
void uro_tree_device(struct uro_tree *tree, const char *name, uint64_t guid,
                     const struct uro_sysfs_port *port, const struct uro_card *card,
                     unsigned int index);

/* Makes links at @path to all entries of @directory, which need not exist. Entries that exist at
 * @path stay. */
void uro_tree_link_all(struct uro_tree *tree, const char *directory, const char *path);
