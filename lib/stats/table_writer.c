/* SPDX-License-Identifier: BSD-3-Clause */
/* table_writer.c - see table_writer.h. */
#include "stats/table_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static_assert(sizeof(struct uro_stats_page) <= URO_STATS_TABLE_OFFSET, "rows are behind the page");

#define SPARE 64u /* rows for objects that are created while a table is written */

/* Maps the rows with a descriptor of its own, as writer.c does: a mapping keeps the lock of the
 * descriptor that it was made with. Returns MAP_FAILED with errno on failure. */
static void *map(int locked, size_t size)
{
    char path[32];
    void *memory = MAP_FAILED;

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", locked);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return MAP_FAILED;
    const int error = posix_fallocate(fd, URO_STATS_TABLE_OFFSET, (off_t)size);
    if (error == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                      URO_STATS_TABLE_OFFSET);
    const int reason = error != 0 ? error : errno;
    (void)close(fd);
    errno = reason;
    return memory;
}

void uro_stats_table_unmap(struct uro_stats_table_writer *table)
{
    if (table->memory != NULL)
        (void)munmap(table->memory, table->size);
    table->memory = NULL;
    table->size = 0;
    memset(table->capacity, 0, sizeof table->capacity);
}

/* Makes room for @wanted rows of each kind. Returns 0 or -errno. */
static int grow(struct uro_stats_table_writer *table, const struct uro_stats_writer *writer,
                const uint32_t wanted[URO_SNAPSHOT_KINDS])
{
    uint32_t capacity[URO_SNAPSHOT_KINDS];
    size_t size = 0;
    bool fits = table->memory != NULL;

    for (unsigned kind = 0; kind < URO_SNAPSHOT_KINDS; kind++) {
        const uint32_t rows = wanted[kind] < URO_STATS_TABLE_ROWS_MAX - SPARE
                                  ? wanted[kind] + SPARE
                                  : URO_STATS_TABLE_ROWS_MAX;
        fits = fits && rows <= table->capacity[kind];
        /* A power of two, so that the file rarely grows. */
        capacity[kind] = uro_pow2_at_least(rows);
        size += capacity[kind] * uro_stats_table_row_size((enum uro_snapshot_kind)kind);
    }
    if (fits)
        return 0;
    uro_stats_table_unmap(table);
    void *memory = map(writer->fd, size);
    if (memory == MAP_FAILED)
        return -errno;
    table->memory = memory;
    table->size = size;
    memcpy(table->capacity, capacity, sizeof capacity);
    return 0;
}

static void lay_out(const struct uro_stats_table_writer *table, struct uro_snapshot_rows *rows)
{
    uint8_t *at = table->memory;

    memcpy(rows->capacity, table->capacity, sizeof rows->capacity);
    rows->qps = (struct uro_snapshot_qp *)(void *)at;
    at += rows->capacity[URO_SNAPSHOT_QPS] * sizeof *rows->qps;
    rows->cqs = (struct uro_snapshot_cq *)(void *)at;
    at += rows->capacity[URO_SNAPSHOT_CQS] * sizeof *rows->cqs;
    rows->keys = (struct uro_snapshot_key *)(void *)at;
    at += rows->capacity[URO_SNAPSHOT_KEYS] * sizeof *rows->keys;
    rows->srqs = (struct uro_snapshot_srq *)(void *)at;
    at += rows->capacity[URO_SNAPSHOT_SRQS] * sizeof *rows->srqs;
    rows->ids = (struct uro_snapshot_id *)(void *)at;
}

/* Makes the version even: the rows may be read. */
static void publish(struct uro_stats_table *shown)
{
    const unsigned version = atomic_load_explicit(&shown->version, memory_order_relaxed);

    atomic_store_explicit(&shown->version, (version | 1) + 1, memory_order_release);
}

int uro_stats_table_begin(struct uro_stats_table_writer *table, struct uro_stats_writer *writer,
                          const uint32_t wanted[URO_SNAPSHOT_KINDS], struct uro_snapshot_rows *rows)
{
    struct uro_stats_table *shown = &writer->page->table;
    const unsigned version = atomic_load_explicit(&shown->version, memory_order_relaxed);

    table->answers = atomic_load_explicit(&shown->requested, memory_order_relaxed);
    atomic_store_explicit(&shown->version, version | 1, memory_order_relaxed);
    /* Readers see the odd version before any row changes. */
    atomic_thread_fence(memory_order_seq_cst);
    memset(shown->count, 0, sizeof shown->count);
    memset(shown->capacity, 0, sizeof shown->capacity);
    shown->incomplete = 0;
    shown->error = grow(table, writer, wanted);
    if (shown->error != 0) {
        publish(shown);
        return shown->error;
    }
    lay_out(table, rows);
    return 0;
}

void uro_stats_table_end(struct uro_stats_table_writer *table, struct uro_stats_writer *writer,
                         const struct uro_snapshot *snapshot, uint64_t now)
{
    struct uro_stats_table *shown = &writer->page->table;

    memcpy(shown->count, snapshot->count, sizeof shown->count);
    memcpy(shown->capacity, table->capacity, sizeof shown->capacity);
    shown->incomplete = snapshot->incomplete;
    shown->time = now;
    publish(shown);
}
