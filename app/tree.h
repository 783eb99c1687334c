/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.h - the files that programs look for below /sys/class/infiniband,
 * /sys/class/infiniband_verbs and /dev/infiniband, for liburoce-paths.so (lib/paths/map.h) to lead
 * them to.
 *
 *     class/infiniband/DEVICE/...          what a kernel would say of each configured device
 *     class/infiniband_verbs/uverbsN/...
 *     dev/infiniband/uverbsN               a link to /dev/null: programs want a character device
 *
 * and in each of the three directories a link to every entry that the kernel has there.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "host/host.h"

#define URO_TREE_IN_RUNTIME "uroce-tree-XXXXXX"

/* The tree while it is filled. The first error is kept, and nothing is done after it. */
struct uro_tree {
    int fd;
    int error; /* 0 or -errno */
    char path[PATH_MAX];
};

/* Makes a directory of its own for this process, in XDG_RUNTIME_DIR, TMPDIR or /tmp, whichever is
 * first to be safe, and fills it from the configuration. It is kept for as long as a process lives
 * that inherited tree->fd, and removed by the next call of this function, in any process, after
 * that. Returns 0 or -errno; ->path then says where it failed. */
URO_NODISCARD int uro_tree_make(struct uro_tree *tree);

/* For tree_device.c. Paths are below the tree; directories on the way are made. */
void uro_tree_directory(struct uro_tree *tree, const char *path);
URO_PRINTF(3)
void uro_tree_file(struct uro_tree *tree, const char *path, const char *format, ...);
void uro_tree_link(struct uro_tree *tree, const char *path, const char *target);

/* tree_device.c: the files of one device, the @index-th that programs see. */
void uro_tree_device(struct uro_tree *tree, const struct uro_device_config *config,
                     unsigned int index);
