/* SPDX-License-Identifier: BSD-3-Clause */
/* table_writer.h - writes the rows of table.h into the file of this process. */
#pragma once

#include "stats/writer.h"

/* The mapped rows. All zero: none yet. */
struct uro_stats_table_writer {
    void *memory;
    size_t size;
    uint32_t capacity[URO_SNAPSHOT_KINDS];
    /* Value of `requested` that the rows answer: those being written, or else the last rows. */
    unsigned answers;
};

/* Returns whether a reader has asked since the last table. */
static inline bool uro_stats_table_wanted(const struct uro_stats_table_writer *table,
                                          const struct uro_stats_page *page)
{
    return atomic_load_explicit(&page->table.requested, memory_order_relaxed) != table->answers;
}

/* Begins a table with at least @wanted rows of each kind, up to URO_STATS_TABLE_ROWS_MAX. The file
 * grows if necessary. Returns 0, or -errno, which is -ENOSPC when the file system is full. Readers
 * also see the error. */
URO_NODISCARD int uro_stats_table_begin(struct uro_stats_table_writer *table,
                                        struct uro_stats_writer *writer,
                                        const uint32_t wanted[URO_SNAPSHOT_KINDS],
                                        struct uro_snapshot_rows *rows);

/* Shows the rows to the readers. @now: the engine's clock. */
void uro_stats_table_end(struct uro_stats_table_writer *table, struct uro_stats_writer *writer,
                         const struct uro_snapshot *snapshot, uint64_t now);

/* Unmaps the rows. */
void uro_stats_table_unmap(struct uro_stats_table_writer *table);
