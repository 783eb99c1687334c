/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h - the queue pairs and other objects of a process, shown when a reader asks.
 *
 * The rows follow the statistics page in the same file, which grows as needed. A reader stores a
 * new value in `requested`. At its next check of the link, the process copies the state of its
 * objects to the rows. Without a reader, a process does no work for this.
 */
#pragma once

#include <stdatomic.h>

#include "core/snapshot.h"

/* Offset of the rows in the file: a multiple of every page size of Linux. The kinds of rows follow
 * in the order of enum uro_snapshot_kind. The rows of a kind begin where the capacity of the kind
 * before ends. */
#define URO_STATS_TABLE_OFFSET (1u << 20)

/* Maximum number of rows of a kind. A process with more objects shows only this number. */
#define URO_STATS_TABLE_ROWS_MAX (1u << 18)

/* The part of the statistics page that describes the rows. */
struct uro_stats_table {
    atomic_uint requested; /* a reader changes this value to request a table */
    atomic_uint version;   /* version of the rows; odd while the process writes them */
    int32_t error;         /* 0, or -errno if the process cannot write rows */
    uint32_t incomplete;   /* 0 or 1: there are more objects than rows */
    uint64_t time;         /* engine's clock when the rows were complete */
    uint32_t count[URO_SNAPSHOT_KINDS];
    uint32_t capacity[URO_SNAPSHOT_KINDS]; /* rows in the file */
};

/* Returns the size of a row in bytes. */
static inline size_t uro_stats_table_row_size(enum uro_snapshot_kind kind)
{
    static const uint8_t size[URO_SNAPSHOT_KINDS] = { sizeof(struct uro_snapshot_qp),
                                                      sizeof(struct uro_snapshot_cq),
                                                      sizeof(struct uro_snapshot_key),
                                                      sizeof(struct uro_snapshot_srq),
                                                      sizeof(struct uro_snapshot_id) };

    return size[kind];
}
