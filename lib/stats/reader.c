/* SPDX-License-Identifier: BSD-3-Clause */
/* reader.c - reads the files of all processes of a user. */
#include "stats/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "stats/directory.h"

static void visit_file(int directory, struct uro_stats_file *file, struct uro_stats_page *page,
                       uro_stats_visit *visit, void *context)
{
    memset(page, 0, sizeof page->header);
    file->page = page;
    file->kind = uro_stats_kind_of(file->name);
    if (file->kind == URO_STATS_OTHER)
        return;
    file->alive = file->kind == URO_STATS_PROCESS && !uro_stats_has_ended(directory, file->name);
    file->error = uro_stats_read_page(directory, file->name, page);
    if (file->error != -ENOENT)
        visit(context, file);
}

/* Reads the files of one directory, which is closed afterwards. */
static int read_directory(int directory, const char *path, bool own, uro_stats_visit *visit,
                          void *context)
{
    struct uro_stats_page *page = malloc(sizeof *page);

    if (own && flock(directory, LOCK_EX | LOCK_NB) == 0)
        uro_stats_add_ended(directory);
    /* Without the lock, a process that ends meanwhile may be missed or be counted twice. */
    if (own)
        (void)uro_stats_lock(directory, LOCK_SH);
    DIR *list = page == NULL ? NULL : fdopendir(directory);
    if (list == NULL) {
        free(page);
        (void)close(directory);
        return -ENOMEM;
    }
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        struct uro_stats_file file = { .directory = path, .name = entry->d_name };
        visit_file(directory, &file, page, visit, context);
    }
    (void)closedir(list);
    free(page);
    return 0;
}

int uro_stats_read(uid_t uid, uro_stats_visit *visit, void *context)
{
    char path[URO_STATS_PATH_MAX];
    int result = -ENOENT;

    for (unsigned place = 0; place < URO_STATS_PLACES; place++) {
        int directory = uro_stats_directory(uid, place, false, path);
        if (directory >= 0)
            directory = read_directory(directory, path, uid == geteuid(), visit, context);
        if (directory == 0 || (directory != -ENOENT && result != 0))
            result = directory;
    }
    return result;
}

bool uro_stats_refusal(const struct uro_stats_page *page, uint64_t number,
                       struct uro_stats_refusal *out)
{
    if (number == 0)
        return false;
    memcpy(out, &page->refusals[number % URO_STATS_REFUSALS], sizeof *out);
    return out->number == number && out->number_again == number;
}

struct sum {
    const char *device;
    uint64_t guid;
    struct uro_counters *counters;
};

static void add_counters(void *context, const struct uro_stats_file *file)
{
    const struct sum *sum = context;

    if (file->error != 0 || file->kind == URO_STATS_KEPT || file->page->guid != sum->guid ||
        strcmp(file->page->device, sum->device) != 0)
        return;
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        sum->counters->value[i] += file->page->record.counters.value[i];
}

int uro_stats_sum(uid_t uid, const char *device, uint64_t guid, struct uro_counters *sum)
{
    struct sum context = { device, guid, sum };

    memset(sum, 0, sizeof *sum);
    const int error = uro_stats_read(uid, add_counters, &context);
    return error == -ENOENT ? 0 : error;
}
