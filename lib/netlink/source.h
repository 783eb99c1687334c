/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - reads what nldev.h answers with: devices from the tree of `uroce run`, counters and
 * processes from the files of stats/layout.h. */
#pragma once

#include "netlink/nldev.h"

/* Reads the devices of the tree whose directory is @tree. Devices of the kernel, to which the tree
 * has links, are left out. With @objects, also asks each process for its objects.
 * Waits URO_STATS_TABLE_BEGIN_MS for a process that does not answer, or URO_STATS_TABLE_END_MS if
 * the process stops in its answer. The objects of such a process are missing, and the number of
 * objects is unknown. Returns the view, or NULL when out of memory. uro_nldev_free() frees the
 * view. */
struct uro_nldev_view *uro_nldev_read(const char *tree, bool objects);

void uro_nldev_free(struct uro_nldev_view *view);
