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

/* Reads the files of one directory whose names begin with @prefix. Closes the directory. */
static int read_directory(int directory, const char *path, const char *prefix, bool own,
                          uro_stats_visit *visit, void *context)
{
    struct uro_stats_page *page = malloc(sizeof *page);

    if (own && flock(directory, LOCK_EX | LOCK_NB) == 0)
        uro_stats_add_ended(directory);
    const bool locked = !own || uro_stats_lock(directory, LOCK_SH);
    DIR *list = page == NULL ? NULL : fdopendir(directory);
    if (list == NULL) {
        free(page);
        (void)close(directory);
        return -ENOMEM;
    }
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        struct uro_stats_file file = { .directory = path, .name = entry->d_name };
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            visit_file(directory, &file, page, visit, context);
    }
    (void)closedir(list);
    free(page);
    return locked ? 0 : -EBUSY;
}

static int read_all(uid_t uid, const char *prefix, uro_stats_visit *visit, void *context)
{
    char path[URO_STATS_PATH_MAX];
    int result = -ENOENT;

    for (unsigned place = 0; place < URO_STATS_PLACES; place++) {
        int directory = uro_stats_directory(uid, place, false, path);
        if (directory >= 0)
            directory = read_directory(directory, path, prefix, uid == geteuid(), visit, context);
        if (directory == -EBUSY || (directory == 0 && result != -EBUSY) ||
            (directory != -ENOENT && result != 0 && result != -EBUSY))
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

int uro_stats_read(uid_t uid, uro_stats_visit *visit, void *context)
{
    return read_all(uid, "", visit, context);
}

int uro_stats_read_device(uid_t uid, const char *device, uint64_t guid, uro_stats_visit *visit,
                          void *context)
{
    char prefix[URO_STATS_FILE_MAX];

    (void)uro_stats_file_name(device, guid, prefix);
    return read_all(uid, prefix, visit, context);
}

struct sum {
    const char *device;
    uint64_t guid;
    struct uro_counters *counters;
};

bool uro_stats_add(const struct uro_stats_file *file, const char *device, uint64_t guid,
                   struct uro_counters *sum)
{
    if (file->error != 0 || file->kind == URO_STATS_KEPT || file->page->guid != guid ||
        strcmp(file->page->device, device) != 0)
        return false;
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        sum->value[i] += file->page->record.counters.value[i];
    return true;
}

static void add_counters(void *context, const struct uro_stats_file *file)
{
    const struct sum *sum = context;

    (void)uro_stats_add(file, sum->device, sum->guid, sum->counters);
}

int uro_stats_sum(uid_t uid, const char *device, uint64_t guid, struct uro_counters *sum)
{
    struct sum context = { device, guid, sum };

    memset(sum, 0, sizeof *sum);
    const int error = uro_stats_read_device(uid, device, guid, add_counters, &context);
    return error == -ENOENT ? 0 : error;
}
