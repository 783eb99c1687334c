/* SPDX-License-Identifier: BSD-3-Clause */
/* stat_view.h - two surveys of the devices in succession, and the rates between them. For `uroce
 * stat` and `uroce top`. */
#pragma once

#include "core/cq.h"
#include "core/key.h"
#include "core/qp_state.h"
#include "stats/survey.h"

/* The devices and processes that are shown. */
struct uro_stat_filter {
    const char *device; /* name of the device; NULL: all devices */
    int pid;            /* process; 0: all processes */
};

struct uro_stat_view {
    struct uro_stat_filter filter;
    struct uro_survey before;
    struct uro_survey now;
    uint64_t time_before; /* time at which the counters were read, ns since 1970; 0: no survey */
    uint64_t time;
};

/* Rates per second. Negative: unknown. */
struct uro_stat_rates {
    double rx_packets;
    double tx_packets;
    double rx_bytes;
    double tx_bytes;
};

/* A device of a user, with its files: view->now.files[first .. end - 1]. */
struct uro_stat_device {
    uint32_t first;
    uint32_t end;
    uint32_t alive;     /* number of engines that run the device, in processes of the filter */
    uint32_t processes; /* number of these processes */
    uid_t uid;
    const struct uro_stats_page *page; /* page of one of the files */
    struct uro_counters counters;      /* sum of the files that pass the filter */
    struct uro_stat_rates rates;
};

/* Takes the next survey. The present survey becomes `before`. */
void uro_stat_take(struct uro_stat_view *view, bool rows);
void uro_stat_free(struct uro_stat_view *view);

/* Finds the next device that passes the filter. @device is zeroed before the first call. Returns
 * false at the end. */
bool uro_stat_next_device(const struct uro_stat_view *view, struct uro_stat_device *device);

/* Returns whether the file is of a living process that passes the filter. */
bool uro_stat_shows(const struct uro_stat_view *view, const struct uro_survey_file *file);

/* Return the rates of a process, or of a queue pair of a process. A queue pair has no rates of
 * bytes. The packets of a UD queue pair are its completed messages. */
struct uro_stat_rates uro_stat_process_rates(const struct uro_stat_view *view,
                                             const struct uro_survey_file *file);
struct uro_stat_rates uro_stat_qp_rates(const struct uro_stat_view *view,
                                        const struct uro_survey_file *file,
                                        const struct uro_snapshot_qp *qp);

/* Returns whether the file cannot be read for a reason that the user should see. */
bool uro_stat_unreadable(const struct uro_survey_file *file);

/* ---- text ------------------------------------------------------------------------ */

#define URO_STAT_NUMBER_MAX 16u

/* Writes a number in at most 5 columns, such as 9999, 12.3k or 1.20M. Negative: "-". */
const char *uro_stat_number(double value, char text[static URO_STAT_NUMBER_MAX]);

/* Writes a time in at most 5 columns, such as 120us or 1.2ms. 0: "-". */
const char *uro_stat_time(uint64_t ns, char text[static URO_STAT_NUMBER_MAX]);

/* These functions return the name of a queue pair type in at most 4 columns, the text of a reason,
 * or the name of a kind of keys. */
const char *uro_stat_type(uint8_t type);
const char *uro_stat_reason(uint8_t fail_reason);
const char *uro_stat_kind(uint8_t kind); /* enum uro_key_kind */

/* Returns the number that names the process: its pid, or a longer number if another process has the
 * same pid in another namespace. */
const char *uro_stat_pid(const struct uro_survey_file *file);

/* Copies a text, and replaces each byte that may have an effect in a terminal by '?'. */
void uro_stat_plain(const char *from, char *to, size_t size);

#define URO_STAT_REASON_MAX 512u

/* Writes the reason why a process or a file is not shown in full, and what to do. */
const char *uro_stat_rows_problem(const struct uro_survey_file *file,
                                  char text[static URO_STAT_REASON_MAX]);
const char *uro_stat_file_problem(const struct uro_survey_file *file,
                                  char text[static URO_STAT_REASON_MAX]);
/* Writes the reason why no device or process passes the filter, and what to do. */
const char *uro_stat_nothing(const struct uro_stat_filter *filter,
                             char text[static URO_STAT_REASON_MAX]);
/* Writes the reason why the survey is not complete, and what to do. */
const char *uro_stat_survey_problem(const struct uro_survey *survey,
                                    char text[static URO_STAT_REASON_MAX]);
