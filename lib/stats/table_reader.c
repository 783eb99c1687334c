/* SPDX-License-Identifier: BSD-3-Clause */
/* table_reader.c - see table_reader.h. */
#include "stats/table_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cq.h"
#include "core/key.h"
#include "core/limits.h"
#include "core/psn.h"
#include "core/qp_state.h"

#define ERRNO_MAX  4095
#define NUMBER_MAX 0xffffffu /* largest QPN, MSN and PSN */

/* ---- reading ------------------------------------------------------------------- */

/* Returns whether all @size bytes at @offset were read. */
static bool read_at(int fd, void *to, size_t size, off_t offset)
{
    size_t done = 0;

    while (done < size) {
        const ssize_t now = pread(fd, (uint8_t *)to + done, size - done, offset + (off_t)done);
        if (now <= 0)
            return false;
        done += (size_t)now;
    }
    return true;
}

static bool read_table(int fd, struct uro_stats_table *table)
{
    return read_at(fd, table, sizeof *table, offsetof(struct uro_stats_page, table));
}

/* ---- asking -------------------------------------------------------------------- */

/* Returns whether the file is a plain file of @uid with one name, so that writing to it harms no
 * other user. */
static bool is_own(int fd, uid_t uid)
{
    struct stat is;

    return fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == uid && is.st_nlink == 1;
}

static bool is_current(int fd)
{
    struct uro_stats_header header;

    return read_at(fd, &header, sizeof header, 0) &&
           memcmp(header.magic, URO_STATS_MAGIC, sizeof header.magic) == 0 &&
           header.layout == URO_STATS_LAYOUT && header.size == sizeof(struct uro_stats_page) &&
           strncmp(header.version, URO_VERSION, sizeof header.version) == 0;
}

/* Stores a new value of `requested`. If another reader does the same, both get the same table. */
static int store_request(int fd, struct uro_stats_question *question)
{
    struct uro_stats_table table;

    if (!read_table(fd, &table))
        return -EPROTO;
    question->version = atomic_load(&table.version);
    const unsigned request = atomic_load(&table.requested) + 1;
    const ssize_t written = pwrite(fd, &request, sizeof request,
                                   offsetof(struct uro_stats_page, table) +
                                       offsetof(struct uro_stats_table, requested));
    if (written < 0)
        return -errno;
    return written == sizeof request ? 0 : -EIO;
}

int uro_stats_table_ask(int directory, const char *name, uid_t uid,
                        struct uro_stats_question *question)
{
    question->fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (question->fd < 0)
        return errno == ELOOP ? -EACCES : -errno;
    int error = !is_own(question->fd, uid) ? -EACCES : is_current(question->fd) ? 0 : -EPROTO;
    if (error == 0)
        error = store_request(question->fd, question);
    if (error != 0)
        uro_stats_table_forget(question);
    return error;
}

void uro_stats_table_forget(struct uro_stats_question *question)
{
    if (question->fd >= 0)
        (void)close(question->fd);
    question->fd = -1;
}

/* ---- checks -------------------------------------------------------------------- */

static bool fits_table(const struct uro_stats_table *table)
{
    for (unsigned kind = 0; kind < URO_SNAPSHOT_KINDS; kind++)
        if (table->capacity[kind] > URO_STATS_TABLE_ROWS_MAX ||
            table->count[kind] > table->capacity[kind])
            return false;
    return table->incomplete <= 1;
}

static bool fits_qp(const struct uro_snapshot_qp *qp)
{
    return qp->qpn <= NUMBER_MAX && qp->peer_qpn <= NUMBER_MAX && qp->type < URO_QPT_COUNT &&
           qp->state < URO_QPS_COUNT && qp->fail_reason < URO_FAIL_REASON_COUNT &&
           qp->has_srq <= 1 && qp->path_mtu <= URO_PATH_MTU_MAX && qp->oldest_psn <= URO_PSN_MASK &&
           qp->next_psn <= URO_PSN_MASK && qp->expected_psn <= URO_PSN_MASK &&
           qp->outstanding <= URO_PSN_MASK && qp->msn <= NUMBER_MAX;
}

static bool fits_cq(const struct uro_snapshot_cq *cq)
{
    return cq->capacity <= URO_CQ_CAPACITY_MAX && cq->waiting <= cq->capacity && cq->overrun <= 1 &&
           cq->armed <= URO_CQ_ARMED_NEXT;
}

static bool fits_key(const struct uro_snapshot_key *key)
{
    return key->kind <= URO_KEY_WINDOW_2 && key->bound <= 1;
}

static bool fits_srq(const struct uro_snapshot_srq *srq)
{
    return srq->capacity <= URO_WR_MAX && srq->posted - srq->taken <= srq->capacity &&
           srq->limit <= srq->capacity && srq->is_xrc <= 1;
}

static bool fits_version(uint8_t version)
{
    return version == 0 || version == 4 || version == 6;
}

static bool fits_id(const struct uro_snapshot_id *id)
{
    return id->qpn <= NUMBER_MAX && id->state < URO_SNAPSHOT_ID_STATES &&
           fits_version(id->source_version) && fits_version(id->dest_version);
}

static bool fits_rows(const struct uro_stats_rows *rows)
{
    bool fit = true;

    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_QPS]; i++)
        fit &= fits_qp(&rows->qps[i]);
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_CQS]; i++)
        fit &= fits_cq(&rows->cqs[i]);
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_KEYS]; i++)
        fit &= fits_key(&rows->keys[i]);
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_SRQS]; i++)
        fit &= fits_srq(&rows->srqs[i]);
    for (uint32_t i = 0; i < rows->count[URO_SNAPSHOT_IDS]; i++)
        fit &= fits_id(&rows->ids[i]);
    return fit;
}

/* ---- copying ------------------------------------------------------------------- */

/* Allocates and reads the rows of one kind. Returns NULL with errno on failure. */
static void *copy_kind(int fd, const struct uro_stats_table *table, enum uro_snapshot_kind kind)
{
    const size_t size = table->count[kind] * uro_stats_table_row_size(kind);
    off_t offset = URO_STATS_TABLE_OFFSET;
    void *rows = malloc(size != 0 ? size : 1);

    for (unsigned before = 0; before < kind; before++)
        offset += (off_t)(table->capacity[before] *
                          uro_stats_table_row_size((enum uro_snapshot_kind)before));
    if (rows == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    if (read_at(fd, rows, size, offset))
        return rows;
    free(rows);
    errno = EINVAL;
    return NULL;
}

static int copy_rows(int fd, const struct uro_stats_table *table, struct uro_stats_rows *rows)
{
    rows->time = table->time;
    rows->incomplete = table->incomplete != 0;
    memcpy(rows->count, table->count, sizeof rows->count);
    rows->qps = copy_kind(fd, table, URO_SNAPSHOT_QPS);
    rows->cqs = rows->qps != NULL ? copy_kind(fd, table, URO_SNAPSHOT_CQS) : NULL;
    rows->keys = rows->cqs != NULL ? copy_kind(fd, table, URO_SNAPSHOT_KEYS) : NULL;
    rows->srqs = rows->keys != NULL ? copy_kind(fd, table, URO_SNAPSHOT_SRQS) : NULL;
    rows->ids = rows->srqs != NULL ? copy_kind(fd, table, URO_SNAPSHOT_IDS) : NULL;
    if (rows->ids != NULL)
        return 0;
    return errno == ENOMEM ? -ENOMEM : -EINVAL;
}

void uro_stats_table_free(struct uro_stats_rows *rows)
{
    free(rows->qps);
    free(rows->cqs);
    free(rows->keys);
    free(rows->srqs);
    free(rows->ids);
    *rows = (struct uro_stats_rows){ 0 };
}

int uro_stats_table_read(const struct uro_stats_question *question, struct uro_stats_rows *rows)
{
    struct uro_stats_table table, after;

    *rows = (struct uro_stats_rows){ 0 };
    if (!read_table(question->fd, &table))
        return -EINVAL;
    const unsigned version = atomic_load(&table.version);
    if ((version & 1) != 0)
        return -EINPROGRESS;
    if (version == question->version)
        return -EAGAIN;
    if (table.error != 0)
        return table.error < 0 && table.error >= -ERRNO_MAX ? table.error : -EINVAL;
    int error = fits_table(&table) ? copy_rows(question->fd, &table, rows) : -EINVAL;
    if (!read_table(question->fd, &after))
        error = -EINVAL;
    else if (atomic_load(&after.version) != version)
        error = -EINPROGRESS;
    else if (error == 0 && !fits_rows(rows))
        error = -EINVAL;
    if (error != 0)
        uro_stats_table_free(rows);
    return error;
}
