/* SPDX-License-Identifier: BSD-3-Clause */
/* table_reader.h - asks a process for the rows of table.h, and reads them.
 *
 * The file belongs to another process, and perhaps to another user. The file may be truncated,
 * and its values may change at any moment. Therefore the reader maps no page of the file, and
 * checks every value.
 */
#pragma once

#include <sys/types.h>

#include "stats/layout.h"

/* Time limits after the question: BEGIN for the beginning of the answer, and END for the whole
 * answer. A survey reports -ETIMEDOUT after either limit. */
#define URO_STATS_TABLE_BEGIN_MS 500u
#define URO_STATS_TABLE_END_MS   3000u

/* A question to a process. */
struct uro_stats_question {
    int fd; /* descriptor of the file */
    unsigned version;
};

/* A checked copy of the rows of a process. */
struct uro_stats_rows {
    uint64_t time;   /* engine's clock when the process wrote the rows */
    bool incomplete; /* the process has more objects than rows */
    uint32_t count[URO_SNAPSHOT_KINDS];
    struct uro_snapshot_qp *qps;
    struct uro_snapshot_cq *cqs;
    struct uro_snapshot_key *keys;
    struct uro_snapshot_srq *srqs;
    struct uro_snapshot_id *ids;
};

/* Asks the process with the file @name, which belongs to the user @uid, for a table. Returns 0, or
 *   -EACCES  the file belongs to another user, has several names, or is not a regular file
 *   -EPROTO  the file was written by another version of uroce
 *   -errno   of a failed system call */
URO_NODISCARD int uro_stats_table_ask(int directory, const char *name, uid_t uid,
                                      struct uro_stats_question *question);

/* Copies the rows that answer @question to @rows, which uro_stats_table_free() frees. Returns 0, or
 *   -EAGAIN       no answer yet
 *   -EINPROGRESS  the process is writing the answer
 *   -EINVAL       the rows are damaged
 *   -ENOMEM       no memory, here or in the process
 *   -ENOSPC       the process cannot store the rows, because its file system is full
 *   -errno        of a failed system call in the process */
URO_NODISCARD int uro_stats_table_read(const struct uro_stats_question *question,
                                       struct uro_stats_rows *rows);

/* Closes the file of @question. */
void uro_stats_table_forget(struct uro_stats_question *question);
void uro_stats_table_free(struct uro_stats_rows *rows);
