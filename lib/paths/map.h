/* SPDX-License-Identifier: BSD-3-Clause */
/* map.h - which names lead into the tree of files that `uroce run` made (app/tree.c).
 *
 *     /sys/class/infiniband            TREE/class/infiniband, which lists the kernel's devices too
 *     /sys/class/infiniband/DEVICE     TREE/class/infiniband/DEVICE
 *     /sys/class/infiniband_verbs...   TREE/class/infiniband_verbs...
 *     /dev/infiniband...               TREE/dev/infiniband...
 *
 * each with what is below it, and only when the tree has the entry and it is ours: a link of the
 * tree to the very name that was asked for is a device of the kernel. A name that leads out of a
 * place by ".." is that of what is there: /sys/class/infiniband/../net is /sys/class/net.
 */
#pragma once

#define URO_PATHS_TREE_MAX 256u /* octets of UROCE_TREE, with its NUL */
#define URO_PATHS_NAME_MAX 256u /* of the part below it: no entry of the tree is longer */

/* Small enough for any stack: names are mapped in signal handlers too. */
struct uro_paths_room {
    char text[URO_PATHS_TREE_MAX + URO_PATHS_NAME_MAX];
};

/* The name to use instead of @name: in @room, or @name itself, which may be NULL. errno stays as it
 * is. Allocates nothing, takes no lock. Thread: any, in a signal handler too. */
const char *uro_paths_map(const char *name, struct uro_paths_room *room);
