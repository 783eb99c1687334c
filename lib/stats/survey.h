/* SPDX-License-Identifier: BSD-3-Clause */
/* survey.h - reads the state of all devices of a user, or of all users. */
#pragma once

#include "stats/directory.h"
#include "stats/reader.h"
#include "stats/table_reader.h"

/* A statistics file (layout.h) and its contents. */
struct uro_survey_file {
    uid_t uid;
    enum uro_stats_kind kind;
    int error; /* as uro_stats_file.error */
    bool alive;
    char name[URO_STATS_FILE_MAX];
    char directory[URO_STATS_PATH_MAX];
    struct uro_stats_page *page;
    int rows_error; /* 0: `rows` are valid; -ETIMEDOUT: the process did not answer; or another
                       error of table_reader.h; 1: not asked */
    struct uro_stats_rows rows;
    struct uro_stats_question question;
};

struct uro_survey {
    struct uro_survey_file *files; /* sorted by user, device, GUID, kind, pid and engine */
    uint32_t count;
    int error; /* 0, or why files are missing: as uro_stats_read(), or -ENOMEM */
};

#define URO_SURVEY_ROWS      (1u << 0) /* also ask the processes for their rows */
#define URO_SURVEY_ALL_USERS (1u << 1) /* of all users; for root */

/* Reads all files. If there is an error, the survey still has the files that could be read. With
 * URO_SURVEY_ROWS, the call waits about URO_STATS_TABLE_END_MS at most. */
void uro_survey_take(struct uro_survey *survey, unsigned flags);

void uro_survey_free(struct uro_survey *survey);
