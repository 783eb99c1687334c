/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.h - the files of a port that change while programs use it, as the kernel has them below
 * /sys/class/infiniband/DEVICE/ports/1/.
 *
 *     counters/NAME, hw_counters/NAME    sums over all processes of the user; kernel_names.h
 *     state, phys_state                  up if a process that runs the device has its link up
 *     rate, gids/N, gid_attrs/types/N,
 *     gid_attrs/ndevs/N                  of the process that started the device last
 *
 * The files are in a tree with the directories of /sys: TREE/devices/virtual/infiniband/DEVICE. The
 * kernel makes the content of such a file when a program reads it. Here, the reader of a
 * file refreshes it first. A file is replaced by rename(), so that no reader sees half a value.
 */
#pragma once

#include "stats/layout.h"

#define URO_SYSFS_DEVICES "devices/virtual/infiniband" /* in a tree */

/* The state of a port. */
struct uro_sysfs_port {
    bool up;
    uint32_t speed; /* Mb/s; 0: unknown, and the file `rate` stays as it is */
    uint32_t gid_count;
    bool roce_v1; /* each GID has two indexes: an even one for RoCE v1, the next one for v2 */
    struct uro_gid gids[URO_STATS_GIDS];
    char ndevs[URO_STATS_GIDS][URO_STATS_NDEV_MAX]; /* interface of each GID, or "" */
};

/* Writes all files of the device @device in @tree for the first time. Makes missing directories
 * below DEVICE, which exists. Returns 0, or -errno of the first file that could not be written. */
URO_NODISCARD int uro_sysfs_make(const char *tree, const char *device,
                                 const struct uro_sysfs_port *port);

/* Returns whether @path, relative to DEVICE/ports/1/, is one of the files or a directory of them.
 * "" is ports/1 itself. */
bool uro_sysfs_changes(const char *path);

/* Brings the files up to date: the file @path, all files below the directory @path, or all of the
 * port if @path is "". The file DEVICE/node_guid identifies the device. When no process runs the
 * device, the port is shown as active, and rate and GIDs stay as they were. A file that cannot
 * be written keeps its last value. Returns 0, or
 *   -EBUSY   a process that is stopped has a lock
 *   -EACCES  the directory of layout.h is not the user's own
 *   -EINVAL  node_guid has no GUID
 *   -errno   another error of a system call */
URO_NODISCARD int uro_sysfs_refresh(const char *tree, const char *device, const char *path);
