/* SPDX-License-Identifier: BSD-3-Clause */
/* writer.c - makes the file of a device, and ends it.
 *
 * While this process lives, it holds the lock of the file. Other processes test this lock. The
 * kernel releases it when the process ends, for whatever reason. The lock of the directory is held
 * while a file is made. Otherwise a reader could take a new file, which has no lock yet, for the
 * file of an ended process.
 */
#include "stats/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stats/total.h"

/* Maximum number of files with one PID. There is a file for each engine of the device, and
 * processes in other PID namespaces may have the same PID. */
#define NAMES 64u

/* Makes a new file in @directory. Returns its descriptor with our lock, or -errno. */
static int make_file(int directory, const struct uro_stats_device *device,
                     char name[static URO_STATS_FILE_MAX])
{
    const size_t used = uro_stats_file_name(device->name, device->guid, name);
    int fd = -1;

    for (unsigned i = 0; i < NAMES && fd < 0; i++) {
        if (i == 0)
            (void)snprintf(name + used, URO_STATS_FILE_MAX - used, "%d", (int)getpid());
        else
            (void)snprintf(name + used, URO_STATS_FILE_MAX - used, "%u%08d", i, (int)getpid());
        fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return -errno;
    }
    if (fd < 0)
        return -EEXIST;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    const int error = -errno;
    (void)unlinkat(directory, name, 0);
    (void)close(fd);
    return error;
}

static void fill(struct uro_stats_page *page, const struct uro_stats_device *device)
{
    memcpy(page->header.magic, URO_STATS_MAGIC, sizeof page->header.magic);
    page->header.layout = URO_STATS_LAYOUT;
    page->header.size = sizeof *page;
    (void)snprintf(page->header.version, sizeof page->header.version, "%s", URO_VERSION);
    page->header.pid = (int32_t)getpid();
    page->started = device->started;
    page->clock_offset = device->clock_offset;
    (void)snprintf(page->program, sizeof page->program, "%s", program_invocation_short_name);
    (void)snprintf(page->device, sizeof page->device, "%s", device->name);
    (void)snprintf(page->link, sizeof page->link, "%s", device->link);
    page->guid = device->guid;
    page->gid_count = device->gid_count < URO_STATS_GIDS ? device->gid_count : URO_STATS_GIDS;
    page->roce_v1 = device->roce_v1;
    page->engine = device->engine;
    memcpy(page->gids, device->gids, page->gid_count * sizeof *page->gids);
    if (device->ndevs != NULL)
        memcpy(page->ndevs, device->ndevs, page->gid_count * sizeof *page->ndevs);
    if (device->card != NULL)
        page->card = *device->card;
}

/* Maps the file with a descriptor of its own. A mapping keeps the lock of the descriptor that it
 * was made with, also in a forked child. Returns MAP_FAILED on failure. */
static void *map(int directory, const char *name)
{
    const int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    void *page = MAP_FAILED;

    if (fd >= 0) {
        page = mmap(NULL, sizeof(struct uro_stats_page), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, fd, 0);
        (void)close(fd);
    }
    return page;
}

/* Makes and maps the file. Returns 0, or -errno and then no file remains. */
static int open_in(struct uro_stats_writer *writer, int directory,
                   const struct uro_stats_device *device)
{
    char name[URO_STATS_FILE_MAX];
    int fd = make_file(directory, device, name);

    if (fd < 0)
        return fd;
    int error = -posix_fallocate(fd, 0, sizeof(struct uro_stats_page));
    void *page = error == 0 ? map(directory, name) : MAP_FAILED;
    if (error == 0 && page == MAP_FAILED)
        error = -errno;
    if (error != 0) {
        (void)unlinkat(directory, name, 0);
        (void)close(fd);
        return error;
    }
    fill(page, device);
    writer->fd = fd;
    writer->page = page;
    return 0;
}

int uro_stats_open(struct uro_stats_writer *writer, const struct uro_stats_device *device,
                   char problem[static URO_STATS_PROBLEM_MAX])
{
    char path[URO_STATS_PATH_MAX];
    int error = -ENOENT;

    *writer = (struct uro_stats_writer){ .fd = -1 };
    problem[0] = '\0';
    for (unsigned place = 0; place < URO_STATS_PLACES && error != 0; place++) {
        int directory = uro_stats_directory(geteuid(), place, true, path);
        if (path[0] == '\0')
            continue;
        error = directory < 0 ? directory : 0;
        if (error == 0) {
            (void)uro_stats_lock(directory, LOCK_EX);
            uro_stats_add_ended(directory);
            error = open_in(writer, directory, device);
            (void)close(directory); /* releases its lock */
        }
        const size_t used = strlen(problem);
        if (error != 0)
            (void)snprintf(problem + used, URO_STATS_PROBLEM_MAX - used, "%s%.80s: %s",
                           used > 0 ? "; " : "", path, strerror(-error));
    }
    return error;
}

void uro_stats_refuse(struct uro_stats_page *page, uint64_t time, int error, const char *call,
                      const char *text)
{
    const uint64_t newest = atomic_load(&page->refusal_count);
    struct uro_stats_refusal *refusal = &page->refusals[newest % URO_STATS_REFUSALS];

    if (newest > 0 && refusal->error == error && strcmp(refusal->text, text) == 0 &&
        strcmp(refusal->call, call) == 0) {
        refusal->time = time;
        (void)atomic_fetch_add(&refusal->repeats, 1);
        return;
    }
    const uint64_t number = atomic_fetch_add(&page->refusal_count, 1) + 1;
    refusal = &page->refusals[number % URO_STATS_REFUSALS];
    atomic_store(&refusal->number, 0);
    atomic_store(&refusal->number_again, 0);
    refusal->time = time;
    refusal->error = error;
    atomic_store(&refusal->repeats, 0);
    (void)snprintf(refusal->call, sizeof refusal->call, "%s", call);
    (void)snprintf(refusal->text, sizeof refusal->text, "%s", text);
    atomic_store(&refusal->number_again, number);
    atomic_store(&refusal->number, number);
}

void uro_stats_abandon(struct uro_stats_writer *writer)
{
    if (writer->fd >= 0)
        (void)close(writer->fd);
    writer->fd = -1;
}

void uro_stats_end(struct uro_stats_writer *writer)
{
    char path[URO_STATS_PATH_MAX];

    if (writer->fd < 0)
        return;
    atomic_store(&writer->page->header.state, URO_STATS_ENDED);
    /* A child made without the handlers of fork() may share the lock. */
    (void)flock(writer->fd, LOCK_UN);
    uro_stats_abandon(writer);
    for (unsigned place = 0; place < URO_STATS_PLACES; place++) {
        int directory = uro_stats_directory(geteuid(), place, false, path);
        if (directory < 0)
            continue;
        if (uro_stats_lock(directory, LOCK_EX)) /* otherwise the next reader adds our counters */
            uro_stats_add_ended(directory);
        (void)close(directory);
    }
}

void uro_stats_unmap(struct uro_stats_writer *writer)
{
    if (writer->page != NULL)
        (void)munmap(writer->page, sizeof *writer->page);
    writer->page = NULL;
}
