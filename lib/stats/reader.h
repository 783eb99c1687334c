/* SPDX-License-Identifier: BSD-3-Clause */
/* reader.h - reads the files by which processes show their devices; layout.h. */
#pragma once

#include <sys/types.h>

#include "stats/layout.h"
#include "stats/total.h"

struct uro_stats_file {
    const char *directory;
    const char *name; /* name of the file */
    enum uro_stats_kind kind;
    int error;  /* 0; -EPROTO: of another version, and only page->header is valid; other -errno */
    bool alive; /* a process holds the lock of the file */
    const struct uro_stats_page *page; /* a copy, checked */
};

/* Called for each file. @file is valid during the call. */
typedef void uro_stats_visit(void *context, const struct uro_stats_file *file);

/* Reads all files of the user @uid, which is our own user unless this process is root. First adds
 * the counters of ended processes to the totals, if the files are our own. Returns 0 or
 *   -ENOENT  there is no directory: the user has run no device
 *   -EBUSY   a process that is stopped has the lock of a directory: a process that ends meanwhile
 *            may be missing, or be counted twice
 *   -errno   no directory could be read */
URO_NODISCARD int uro_stats_read(uid_t uid, uro_stats_visit *visit, void *context);

/* Copies the refusal @number of a page that was read. Returns false if the ring does not have it,
 * or if the process wrote over it while the page was read. */
bool uro_stats_refusal(const struct uro_stats_page *page, uint64_t number,
                       struct uro_stats_refusal *out);
/* Reads only the files of one device. */
URO_NODISCARD int uro_stats_read_device(uid_t uid, const char *device, uint64_t guid,
                                        uro_stats_visit *visit, void *context);

/* Adds the counters of @file to @sum if the file belongs to the device. Leaves out a kept file,
 * whose counters are in the total. Returns whether the counters were added. */
bool uro_stats_add(const struct uro_stats_file *file, const char *device, uint64_t guid,
                   struct uro_counters *sum);

/* Sums the counters of a device over all processes of the user, also of those that have ended. If
 * no process ran the device, all counters are 0. Returns 0 or -errno, as uro_stats_read(). */
URO_NODISCARD int uro_stats_sum(uid_t uid, const char *device, uint64_t guid,
                                struct uro_counters *sum);
