/* SPDX-License-Identifier: BSD-3-Clause */
/* writer.h - shows the state of a device of this process to other processes; layout.h. */
#pragma once

#include "stats/directory.h"
#include "stats/layout.h"

#define URO_STATS_PROBLEM_MAX 320u

/* The description of a device that a process starts. */
struct uro_stats_device {
    const char *name;
    const char *link;
    uint64_t guid;
    const struct uro_gid *gids;
    char (*ndevs)[URO_STATS_NDEV_MAX]; /* interface of each GID, or ""; NULL: unknown */
    uint32_t gid_count;
    bool roce_v1;                      /* programs see each GID twice, for RoCE v1 and v2 */
    uint32_t engine;                   /* index of the engine in its device */
    const struct uro_stats_card *card; /* NULL: the device has no like= */
    uint64_t started;                  /* wall clock, ns since 1970 */
    uint64_t clock_offset;             /* wall clock minus the engine's clock, ns */
};

struct uro_stats_writer {
    int fd;                      /* descriptor of the file, which holds our lock; -1: no file */
    struct uro_stats_page *page; /* the mapped file, or NULL; the mapping stays until unmap() */
};

/* Makes the file of a device. The memory of the whole file is allocated, so that no later write can
 * fault. Returns 0. On an error, returns -errno, writes the reason to @problem, and writer->page is
 * NULL. */
URO_NODISCARD int uro_stats_open(struct uro_stats_writer *writer,
                                 const struct uro_stats_device *device,
                                 char problem[static URO_STATS_PROBLEM_MAX]);

/* Records that the call @call was refused with @error. Thread: any. */
void uro_stats_refuse(struct uro_stats_page *page, uint64_t time, int error, const char *call,
                      const char *text);

/* Ends the file: its counters are added to the total of the device. The page stays mapped, but
 * later counts of the engine are lost. */
void uro_stats_end(struct uro_stats_writer *writer);

/* Closes the descriptor in a forked child. The parent's lock stays. */
void uro_stats_abandon(struct uro_stats_writer *writer);

/* Unmaps the page. From then on, nothing may use the record. */
void uro_stats_unmap(struct uro_stats_writer *writer);
