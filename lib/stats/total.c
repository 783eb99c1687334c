/* SPDX-License-Identifier: BSD-3-Clause */
/* total.c - adds the counters of an ended process to the total of the device, and removes the file
 * of the process.
 *
 * No reader may see a counter decrease, or an event counted twice. The total therefore names the
 * last file that was added. rename() replaces the total, and only then is the file removed. If a
 * process is killed in between, the total names a file that still exists. The next process then
 * only removes this file.
 */
#include "stats/total.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDED_SUFFIX ".ended"
#define TOTAL_SUFFIX ".total"
#define TEMPORARY    "total.new"

/* ---- names ---------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);

    return length > tail && strcmp(name + length - tail, suffix) == 0;
}

size_t uro_stats_file_name(const char *device, uint64_t guid, char name[static URO_STATS_FILE_MAX])
{
    return (size_t)snprintf(name, URO_STATS_FILE_MAX, "%.31s-%016llx.", device,
                            (unsigned long long)guid);
}

enum uro_stats_kind uro_stats_kind_of(const char *name)
{
    const char *dot = strrchr(name, '.');

    if (name[0] == '.' || dot == NULL || strlen(name) >= URO_STATS_FILE_MAX)
        return URO_STATS_OTHER;
    if (ends_with(name, ENDED_SUFFIX))
        return URO_STATS_KEPT;
    if (ends_with(name, TOTAL_SUFFIX))
        return URO_STATS_TOTAL;
    return dot[1 + strspn(dot + 1, "0123456789")] == '\0' && dot[1] != '\0' ? URO_STATS_PROCESS
                                                                            : URO_STATS_OTHER;
}

/* ---- reading ---------------------------------------------------------------------- */

/* Terminates the string, and replaces all characters that are not printable ASCII: control
 * characters could change a terminal. */
static void clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text >= 127)
            *text = '?';
}

static int check(struct uro_stats_page *page, size_t length)
{
    struct uro_stats_header *header = &page->header;

    if (length < sizeof *header ||
        memcmp(header->magic, URO_STATS_MAGIC, sizeof header->magic) != 0)
        return -EINVAL;
    clean(header->version, sizeof header->version);
    if (header->layout != URO_STATS_LAYOUT || header->size != sizeof *page ||
        strcmp(header->version, URO_VERSION) != 0)
        return -EPROTO;
    if (length < sizeof *page)
        return -EINVAL;
    clean(page->program, sizeof page->program);
    clean(page->device, sizeof page->device);
    clean(page->link, sizeof page->link);
    clean(page->card.fw_ver, sizeof page->card.fw_ver);
    clean(page->card.hca_type, sizeof page->card.hca_type);
    clean(page->card.board_id, sizeof page->card.board_id);
    for (unsigned i = 0; i < URO_STATS_REFUSALS; i++) {
        clean(page->refusals[i].call, sizeof page->refusals[i].call);
        clean(page->refusals[i].text, sizeof page->refusals[i].text);
    }
    if (page->gid_count > URO_STATS_GIDS)
        page->gid_count = URO_STATS_GIDS;
    for (uint32_t i = 0; i < URO_STATS_GIDS; i++)
        clean(page->ndevs[i], sizeof page->ndevs[i]);
    return 0;
}

int uro_stats_read_page(int directory, const char *name, struct uro_stats_page *page)
{
    size_t length = 0;
    ssize_t got = 1;
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    while (length < sizeof *page && got > 0) {
        got = pread(fd, (uint8_t *)page + length, sizeof *page - length, (off_t)length);
        if (got > 0)
            length += (size_t)got;
    }
    const int error = got < 0 ? -errno : 0;
    (void)close(fd);
    return error != 0 ? error : check(page, length);
}

bool uro_stats_has_ended(int directory, const char *name)
{
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool ended = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (fd >= 0)
        (void)close(fd);
    return ended;
}

/* ---- old files ------------------------------------------------------------------ */

#define KEPT_MAX 16u /* maximum number of files of ended processes */
/* Maximum number of totals. With a random MAC address, each start is a new device. */
#define TOTALS_MAX 256u

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Finds the file of @kind that was changed or renamed longest ago. Returns the number of files of
 * this kind. */
static unsigned find_oldest(int directory, enum uro_stats_kind kind,
                            char oldest[static URO_STATS_FILE_MAX])
{
    struct timespec time = { 0 };
    unsigned count = 0;
    const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);

    if (list == NULL) {
        if (copy >= 0)
            (void)close(copy);
        return 0;
    }
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        struct stat is;
        if (uro_stats_kind_of(entry->d_name) != kind ||
            fstatat(directory, entry->d_name, &is, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (count++ == 0 || is_before(&is.st_ctim, &time)) {
            time = is.st_ctim;
            memcpy(oldest, entry->d_name, strlen(entry->d_name) + 1); /* fits:
                                                                         uro_stats_kind_of()
                                                                         rejects longer names */
        }
    }
    (void)closedir(list);
    return count;
}

/* Removes the files of @kind that are older than the newest @most. */
static void remove_oldest(int directory, enum uro_stats_kind kind, unsigned most)
{
    char oldest[URO_STATS_FILE_MAX];

    while (find_oldest(directory, kind, oldest) > most)
        if (unlinkat(directory, oldest, 0) != 0)
            return;
}

/* ---- adding ---------------------------------------------------------------------- */

/* Replaces the total @name. The new file has the size of a page, but contains data only up to the
 * counters. */
static bool replace(int directory, const char *name, const struct uro_stats_page *page)
{
    const size_t size =
        offsetof(struct uro_stats_page, record.counters) + sizeof page->record.counters;
    size_t written = 0;
    int fd =
        openat(directory, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return false;
    while (written < size) {
        ssize_t now = write(fd, (const uint8_t *)page + written, size - written);
        if (now <= 0)
            break;
        written += (size_t)now;
    }
    const bool whole = written == size && ftruncate(fd, sizeof *page) == 0;
    (void)close(fd);
    return whole && renameat(directory, TEMPORARY, directory, name) == 0;
}

/* Writes the name of the total of the device to @total. Each version of uroce has its own totals,
 * so that two versions on one machine do not replace each other's totals. */
static void name_total(const char *name, char total[static URO_STATS_FILE_MAX])
{
    (void)snprintf(total, URO_STATS_FILE_MAX, "%.*s.%.24s-%u" TOTAL_SUFFIX,
                   (int)(strchr(name, '.') - name), name, URO_VERSION, URO_STATS_LAYOUT);
}

/* Adds the counters of @ended to the total of the device. Returns whether the total contains them
 * now. */
static bool add(int directory, const char *name, const struct uro_stats_page *ended,
                struct uro_stats_page *total)
{
    char path[URO_STATS_FILE_MAX];

    name_total(name, path);
    const int error = uro_stats_read_page(directory, path, total);
    if (error == -EPROTO ||
        error == -EINVAL) /* a damaged total, or a total of another version, whose counters may
                             have other meanings */
        (void)unlinkat(directory, path, 0);
    else if (error != 0 && error != -ENOENT)
        return false; /* the total is not replaced, because it may have counters */
    if (error != 0) {
        *total = *ended;
        memset(&total->record, 0, sizeof total->record);
        total->added_pid = 0;
    }
    if (total->added_pid == ended->header.pid && total->added_started == ended->started)
        return true;
    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        total->record.counters.value[i] += ended->record.counters.value[i];
    total->added_pid = ended->header.pid;
    total->added_started = ended->started;
    total->header.state = URO_STATS_ENDED;
    if (!replace(directory, path, total))
        return false;
    if (error == -ENOENT)
        remove_oldest(directory, URO_STATS_TOTAL, TOTALS_MAX);
    return true;
}

/* ---- files that are kept ----------------------------------------------------------- */

/* Keeps the file of an ended process, whose counters are part of the total. rename() sets the
 * ctime, which find_oldest() compares. */
static void keep(int directory, const char *name)
{
    char kept[URO_STATS_FILE_MAX];
    const int length = snprintf(kept, sizeof kept, "%s" ENDED_SUFFIX, name);

    if (length >= (int)sizeof kept || renameat(directory, name, directory, kept) != 0)
        (void)unlinkat(directory, name, 0);
    else
        remove_oldest(directory, URO_STATS_KEPT, KEPT_MAX);
}

/* Moves the counters of an ended process to the total. @page is memory for two pages. Keeps the
 * file if `uroce why` can show records of it. */
static void add_file(int directory, const char *name, struct uro_stats_page page[static 2])
{
    if (!uro_stats_has_ended(directory, name))
        return;
    int error = uro_stats_read_page(directory, name, &page[0]);
    if (error == -EINVAL || error == -EPROTO)
        (void)unlinkat(directory, name, 0);
    else if (error != 0 || !add(directory, name, &page[0], &page[1]))
        return;
    else if (page[0].record.recorded > 0 || page[0].refusal_count > 0)
        keep(directory, name);
    else
        (void)unlinkat(directory, name, 0);
}

void uro_stats_add_ended(int directory)
{
    struct uro_stats_page *pages = calloc(2, sizeof *pages);
    const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);

    if (list == NULL && copy >= 0)
        (void)close(copy);
    if (pages != NULL && list != NULL)
        for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list))
            if (uro_stats_kind_of(entry->d_name) == URO_STATS_PROCESS)
                add_file(directory, entry->d_name, pages);
    if (list != NULL)
        (void)closedir(list);
    free(pages);
}
