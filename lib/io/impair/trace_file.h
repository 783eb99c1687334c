/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_file.h - files of traces: impair/trace.h has their format.
 *
 * A trace is written in the order of the packets. uro_impair_trace_close() sorts it, so that two
 * runs with the same fates have the same file. The trace of a killed process is not sorted.
 */
#pragma once

#include "impair/trace.h"

#define URO_IMPAIR_FILE_ERROR_MAX 320u

struct uro_impair_trace_file;

/* Creates the file @path, or empties it. If another device or process writes it now, the name gets
 * ".DEVICE.PID". Returns NULL on failure, with the reason in @error. */
struct uro_impair_trace_file *uro_impair_trace_create(const char *path,
                                                      const struct uro_impair_trace_header *header,
                                                      char error[static URO_IMPAIR_FILE_ERROR_MAX]);

/* Adds a line. The first failed write ends the trace: see uro_impair_trace_error(). */
void uro_impair_trace_write(struct uro_impair_trace_file *file,
                            const struct uro_impair_trace_line *line);

/* Writes all lines to the file. */
void uro_impair_trace_flush(struct uro_impair_trace_file *file);

/* Returns the errno of a failed write once, or 0. */
int uro_impair_trace_error(struct uro_impair_trace_file *file);

/* Sorts and closes the file. NULL is allowed. */
void uro_impair_trace_close(struct uro_impair_trace_file *file);
/* In a forked child: closes the child's copy. The parent writes the lines that are in memory. */
void uro_impair_trace_abandon(struct uro_impair_trace_file *file);

/* A trace in memory, sorted and merged. */
struct uro_impair_trace {
    struct uro_impair_trace_header header;
    struct uro_impair_trace_line *lines;
    size_t count;
};

/* Reads a file. Returns 0, or -errno with the reason in @error, which has the path and the line. */
URO_NODISCARD int uro_impair_trace_load(struct uro_impair_trace *trace, const char *path,
                                        char error[static URO_IMPAIR_FILE_ERROR_MAX]);
void uro_impair_trace_free(struct uro_impair_trace *trace);

/* Writes a whole trace to @path, in place of an older file. Returns 0 or -errno. */
URO_NODISCARD int uro_impair_trace_store(const struct uro_impair_trace *trace, const char *path);
