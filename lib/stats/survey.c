/* SPDX-License-Identifier: BSD-3-Clause */
/* survey.c - see survey.h. */
#include "stats/survey.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAP_MS    5u
#define FILES_MAX 65536u

/* ---- files --------------------------------------------------------------------- */

struct gathering {
    struct uro_survey *survey;
    uid_t uid;
};

static void copy_text(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from);
}

static struct uro_survey_file *new_file(struct uro_survey *survey)
{
    struct uro_survey_file *files = survey->files;

    /* The array is full when the count is a power of two. */
    if ((survey->count & (survey->count - 1)) == 0)
        files = realloc(files, (survey->count != 0 ? 2 * survey->count : 1) * sizeof *files);
    if (files == NULL)
        return NULL;
    survey->files = files;
    files[survey->count] = (struct uro_survey_file){ .rows_error = 1, .question = { .fd = -1 } };
    files[survey->count].page = malloc(sizeof(struct uro_stats_page));
    return files[survey->count].page != NULL ? &files[survey->count] : NULL;
}

static void add_file(void *context, const struct uro_stats_file *from)
{
    const struct gathering *gathering = context;
    struct uro_survey *survey = gathering->survey;
    struct uro_survey_file *file = survey->count < FILES_MAX ? new_file(survey) : NULL;

    if (file == NULL) {
        survey->error = -ENOMEM;
        return;
    }
    file->uid = gathering->uid;
    file->kind = from->kind;
    file->error = from->error;
    file->alive = from->alive;
    copy_text(file->name, sizeof file->name, from->name);
    copy_text(file->directory, sizeof file->directory, from->directory);
    *file->page = *from->page;
    survey->count++;
}

static void add_user(struct uro_survey *survey, uid_t uid)
{
    struct gathering gathering = { survey, uid };
    const int error = uro_stats_read(uid, add_file, &gathering);

    if (error != 0 && error != -ENOENT && survey->error == 0)
        survey->error = error;
}

/* ---- users --------------------------------------------------------------------- */

#define PREFIX "uroce-stats-"

/* Returns whether @name is "uroce-stats-UID". */
static bool is_user_directory(const char *name, uid_t *uid)
{
    const char *digits = name + sizeof PREFIX - 1;
    char *end = NULL;

    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0 || *digits < '0' || *digits > '9')
        return false;
    errno = 0;
    const unsigned long number = strtoul(digits, &end, 10);
    *uid = (uid_t)number;
    return errno == 0 && *end == '\0' && *uid == number && *uid != (uid_t)-1;
}

static bool is_known(const struct uro_survey *survey, uid_t uid)
{
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->files[i].uid == uid)
            return true;
    return uid == geteuid();
}

static void add_users_of(struct uro_survey *survey, const char *path)
{
    DIR *list = opendir(path);
    uid_t uid;

    if (list == NULL)
        return;
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list))
        if (is_user_directory(entry->d_name, &uid) && !is_known(survey, uid))
            add_user(survey, uid);
    (void)closedir(list);
}

/* ---- rows ---------------------------------------------------------------------- */

static int ask(struct uro_survey_file *file)
{
    char path[URO_STATS_PATH_MAX];
    int error = -ENOENT;

    for (unsigned place = 0; place < URO_STATS_PLACES && error == -ENOENT; place++) {
        const int directory = uro_stats_directory(file->uid, place, false, path);
        if (directory < 0)
            continue;
        if (strcmp(path, file->directory) == 0)
            error = uro_stats_table_ask(directory, file->name, file->uid, &file->question);
        (void)close(directory);
    }
    return error == 0 ? -EAGAIN : error;
}

static bool is_open(const struct uro_survey_file *file)
{
    return file->rows_error == -EAGAIN || file->rows_error == -EINPROGRESS;
}

/* Reads the rows of processes that have answered. @ms: time since the question. Returns whether
 * there are processes to wait for. */
static bool read_answers(struct uro_survey *survey, unsigned ms)
{
    bool waits = false;

    for (uint32_t i = 0; i < survey->count; i++) {
        struct uro_survey_file *file = &survey->files[i];
        if (is_open(file))
            file->rows_error = uro_stats_table_read(&file->question, &file->rows);
        if (file->rows_error == -EAGAIN)
            waits |= ms < URO_STATS_TABLE_BEGIN_MS;
        else if (file->rows_error == -EINPROGRESS)
            waits |= ms < URO_STATS_TABLE_END_MS;
        else
            uro_stats_table_forget(&file->question);
    }
    return waits;
}

static void read_rows(struct uro_survey *survey)
{
    const struct timespec nap = { .tv_nsec = NAP_MS * 1000000L };

    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->files[i].alive && survey->files[i].error == 0)
            survey->files[i].rows_error = ask(&survey->files[i]);
    for (unsigned ms = 0; read_answers(survey, ms); ms += NAP_MS)
        (void)nanosleep(&nap, NULL);
    for (uint32_t i = 0; i < survey->count; i++) {
        if (is_open(&survey->files[i]))
            survey->files[i].rows_error = -ETIMEDOUT;
        uro_stats_table_forget(&survey->files[i].question);
    }
}

/* ---- the survey ---------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const struct uro_survey_file *a = left, *b = right;
    int order = (a->uid > b->uid) - (a->uid < b->uid);

    if (order == 0)
        order = (a->error != 0) - (b->error != 0); /* `page` is valid without an error only */
    if (order == 0 && a->error == 0)
        order = strcmp(a->page->device, b->page->device);
    if (order == 0 && a->error == 0)
        order = (a->page->guid > b->page->guid) - (a->page->guid < b->page->guid);
    if (order == 0)
        order = (int)a->kind - (int)b->kind;
    if (order == 0 && a->error == 0)
        order = (a->page->header.pid > b->page->header.pid) -
                (a->page->header.pid < b->page->header.pid);
    if (order == 0 && a->error == 0)
        order = (a->page->engine > b->page->engine) - (a->page->engine < b->page->engine);
    return order != 0 ? order : strcmp(a->name, b->name);
}

void uro_survey_take(struct uro_survey *survey, unsigned flags)
{
    *survey = (struct uro_survey){ 0 };
    add_user(survey, geteuid());
    if ((flags & URO_SURVEY_ALL_USERS) != 0 && secure_getenv("UROCE_STATE_DIR") == NULL) {
        add_users_of(survey, "/dev/shm");
        add_users_of(survey, "/tmp");
    }
    if ((flags & URO_SURVEY_ROWS) != 0)
        read_rows(survey);
    if (survey->count > 0)
        qsort(survey->files, survey->count, sizeof *survey->files, compare);
}

void uro_survey_free(struct uro_survey *survey)
{
    for (uint32_t i = 0; i < survey->count; i++) {
        free(survey->files[i].page);
        uro_stats_table_free(&survey->files[i].rows);
    }
    free(survey->files);
    *survey = (struct uro_survey){ 0 };
}
