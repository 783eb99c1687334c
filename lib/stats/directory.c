/* SPDX-License-Identifier: BSD-3-Clause */
/* directory.c - chooses the directory for the files of layout.h: the directory in UROCE_STATE_DIR,
 * or one of three others.
 *
 * Every process of a user must find the same directory, also after `su` or in another terminal.
 * Therefore /dev/shm comes before XDG_RUNTIME_DIR, and TMPDIR is not used. /dev/shm is memory, so
 * that the kernel writes no counters to a disk.
 */
#include "stats/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_TRIES  200u
#define LOCK_NAP_NS 1000000L

/* Writes the name of the directory number @place to @path. Returns false if there is none. */
static bool name_place(uid_t uid, unsigned place, char path[static URO_STATS_PATH_MAX])
{
    const char *chosen = secure_getenv("UROCE_STATE_DIR");
    const char *runtime = uid == geteuid() ? secure_getenv("XDG_RUNTIME_DIR") : NULL;
    int length = 0;

    if (chosen != NULL && chosen[0] != '\0')
        length = place == 0 ? snprintf(path, URO_STATS_PATH_MAX, "%s", chosen) : 0;
    else if (place == 0)
        length = snprintf(path, URO_STATS_PATH_MAX, "/dev/shm/uroce-stats-%u", (unsigned)uid);
    else if (place == 2)
        length = snprintf(path, URO_STATS_PATH_MAX, "/tmp/uroce-stats-%u", (unsigned)uid);
    else if (runtime != NULL && runtime[0] == '/')
        length = snprintf(path, URO_STATS_PATH_MAX, "%s/uroce-stats", runtime);
    return length > 0 && length < (int)URO_STATS_PATH_MAX;
}

/* Returns a descriptor of the directory, or -errno. */
static int open_safe(const char *path, uid_t uid)
{
    struct stat is;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ELOOP || errno == ENOTDIR ? -EACCES : -errno;
    if (fstat(fd, &is) == 0 && is.st_uid == uid && (is.st_mode & (S_IRWXG | S_IRWXO)) == 0)
        return fd;
    (void)close(fd);
    return -EACCES;
}

int uro_stats_directory(uid_t uid, unsigned place, bool create,
                        char path[static URO_STATS_PATH_MAX])
{
    if (!name_place(uid, place, path)) {
        path[0] = '\0';
        return -ENOENT;
    }
    if (create && mkdir(path, 0700) != 0 && errno != EEXIST)
        return -errno;
    return open_safe(path, uid);
}

bool uro_stats_lock(int directory, int kind)
{
    const struct timespec nap = { .tv_nsec = LOCK_NAP_NS };

    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (flock(directory, kind | LOCK_NB) == 0)
            return true;
        (void)nanosleep(&nap, NULL);
    }
    return false;
}
