/* SPDX-License-Identifier: BSD-3-Clause */
/* path_map.h - maps path names to the tree of files that `uroce run` made (app/tree.c).
 *
 *     /sys/class/infiniband             TREE/class/infiniband, which lists the kernel's devices too
 *     /sys/class/infiniband/DEVICE      TREE/class/infiniband/DEVICE, a link to
 *                                       TREE/devices/virtual/infiniband/DEVICE
 *     /sys/devices/virtual/infiniband   TREE/devices/virtual/infiniband
 *     /sys/class/infiniband_verbs...    TREE/class/infiniband_verbs...
 *     /dev/infiniband...                TREE/dev/infiniband...
 *     /sys/module/nvidia_peermem...     a name that does not exist; also nv_peer_mem and
 *                                       memory_peers, which are signs of GPUs that a card can read
 *
 * The path below a mapped name is mapped, too. Except in the last row, a name is mapped only if the
 * tree has the entry, and the entry is not a link to that same name. Such a link is for a device of
 * the kernel. A ".." that leaves a directory leads to the machine's directory, not to one of the
 * tree: /sys/class/infiniband/../net is /sys/class/net, and /sys/class/infiniband/DEVICE/../../net
 * is /sys/devices/virtual/net. The resulting name is then mapped by the same rules.
 */
#pragma once

#define URO_PATHS_TREE_MAX 256u /* bytes of UROCE_TREE, with its NUL */
#define URO_PATHS_NAME_MAX 256u /* bytes of the part below the tree: no entry is longer */

/* Small enough for any stack: names are mapped in signal handlers too. */
struct uro_paths_buffer {
    char text[URO_PATHS_TREE_MAX + URO_PATHS_NAME_MAX];
};

/* Returns the name to use instead of @name: it is in @buffer, or it is @name itself. @name may
 * be NULL. Keeps errno, allocates nothing and takes no lock. Any thread, also in a signal
 * handler. */
const char *uro_paths_map(const char *name, struct uro_paths_buffer *buffer);

/* Returns the directory of the tree, or NULL if the process has none. Thread: any. */
const char *uro_paths_tree(void);

/* Returns the directory of the tree if only root or the user of this process can change it, and
 * NULL otherwise. Thread: any. */
const char *uro_paths_trusted_tree(void);
