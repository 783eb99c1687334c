/* SPDX-License-Identifier: BSD-3-Clause */
/* total.h - adds the counters of ended processes to the total of their device; layout.h. */
#pragma once

#include "stats/layout.h"

/* Adds the counters of all ended processes in @directory to the totals. A process has ended when
 * no process holds the lock of its file. A file that cannot be added, because the file system is
 * full or the total cannot be read, stays as it is. A damaged file and a file of another version
 * are removed and their counters are lost, because their layout is unknown. A file of another
 * version stays while its process runs. The caller holds the exclusive lock of the directory. */
void uro_stats_add_ended(int directory);

/* Returns whether the process of the file @name has ended. */
bool uro_stats_has_ended(int directory, const char *name);

/* Reads and checks the file @name: strings end, and counts are in range. Reads the values at most
 * once, so that a writer cannot change them after the check. Returns 0, or
 *   -EPROTO  the file is of another version of uroce; `header` is valid
 *   -EINVAL  the file was not written by uroce, or is truncated
 *   -errno   another error of a system call */
URO_NODISCARD int uro_stats_read_page(int directory, const char *name, struct uro_stats_page *page);

#define URO_STATS_FILE_MAX 96u /* bytes of a file name */

/* Writes the part of a file name that all files of a device have in common, "NAME-GUID.", to @name.
 * Returns its length. */
size_t uro_stats_file_name(const char *device, uint64_t guid, char name[static URO_STATS_FILE_MAX]);

enum uro_stats_kind {
    URO_STATS_OTHER,   /* not a file of layout.h */
    URO_STATS_PROCESS, /* NAME-GUID.PID */
    URO_STATS_KEPT,    /* NAME-GUID.PID.ended */
    URO_STATS_TOTAL,   /* NAME-GUID.VERSION.total */
};

/* Returns the kind of a file, by its name. */
enum uro_stats_kind uro_stats_kind_of(const char *name);
