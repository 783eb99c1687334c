/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - reads what nldev.h answers with: devices from the tree of `uroce run`, counters and
 * processes from the files of stats/layout.h. */
#pragma once

#include "netlink/nldev.h"

/* Reads the devices of the tree whose directory is @tree. Devices of the kernel, to which the tree
 * has links, are left out. Returns the view, which uro_nldev_free() frees, or NULL without
 * memory. */
struct uro_nldev_view *uro_nldev_read(const char *tree);

void uro_nldev_free(struct uro_nldev_view *view);
