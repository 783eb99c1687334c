/* SPDX-License-Identifier: BSD-3-Clause */
/* hub_directory.c - the directory of the hub; see hub.h. */
#define _GNU_SOURCE /* secure_getenv */
#include "io/udp/hub.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPLACED_MOST 16 /* maximum attempts if the lock file is removed between open and lock */

/* ---- the directory ------------------------------------------------------ */

/* Returns whether no other user can rename or remove this user's files in @path. */
static bool keeps_ours(const char *path)
{
    struct stat is;

    return stat(path, &is) == 0 && S_ISDIR(is.st_mode) &&
           (is.st_uid == 0 || is.st_uid == geteuid()) &&
           ((is.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (is.st_mode & S_ISVTX) != 0);
}

static bool is_ours_alone(const char *path)
{
    struct stat is;

    return lstat(path, &is) == 0 && S_ISDIR(is.st_mode) && is.st_uid == geteuid() &&
           (is.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* Writes the parent of the hub's directory at place @number, and the name of the hub's directory in
 * this parent. Returns false if there is no such parent. */
static bool name_place(unsigned number, char parent[static 64], char name[static 32])
{
    const unsigned user = (unsigned)geteuid();
    const char *runtime = number == 0 ? secure_getenv("XDG_RUNTIME_DIR") : NULL;
    int length = 0;

    (void)snprintf(name, 32, "uroce");
    switch (number) {
    case 0:
        if (runtime == NULL || runtime[0] != '/')
            return false;
        length = snprintf(parent, 64, "%s", runtime);
        break;
    case 1:
        length = snprintf(parent, 64, "/run/user/%u", user);
        break;
    default:
        (void)snprintf(name, 32, "uroce-%u", user);
        length = snprintf(parent, 64, "%s", number == 2 ? "/tmp" : "/var/tmp");
    }
    return length > 0 && length < 64;
}

/* Returns the inode number of the calling thread's network namespace, or 0. */
static uint64_t net_number(void)
{
    struct stat is;

    if (stat("/proc/thread-self/ns/net", &is) != 0 && stat("/proc/self/ns/net", &is) != 0)
        return 0;
    return (uint64_t)is.st_ino;
}

int uro_hub_directory_find(struct uro_hub_directory *directory, unsigned number, bool make)
{
    char parent[64], name[32];

    directory->directory[0] = '\0';
    directory->net = net_number();
    if (!name_place(number, parent, name) || !keeps_ours(parent))
        return -ENOENT;
    int length = snprintf(directory->directory, sizeof directory->directory, "%s/%s", parent, name);
    if (length < 0 || (size_t)length >= sizeof directory->directory)
        return -ENOENT;
    if (make && mkdir(directory->directory, S_IRWXU) != 0 && errno != EEXIST)
        return -errno;
    if (access(directory->directory, F_OK) != 0 && errno == ENOENT)
        return -ENOENT;
    return is_ours_alone(directory->directory) ? 0 : -EPERM;
}

/* ---- names in the directory --------------------------------------------- */

bool uro_hub_directory_path(const struct uro_hub_directory *directory, const char *kind,
                            const struct uro_gid *address, const char *suffix,
                            char path[static URO_HUB_DIRECTORY_PATH_MAX])
{
    char text[URO_GID_TEXT_MAX];

    int length =
        snprintf(path, URO_HUB_DIRECTORY_PATH_MAX, "%s/%s-%" PRIu64 "-%s%s", directory->directory,
                 kind, directory->net, uro_gid_text(address, text), suffix);
    return directory->directory[0] != '\0' && length > 0 &&
           (unsigned)length < URO_HUB_DIRECTORY_PATH_MAX;
}

/* ---- locks -------------------------------------------------------------- */

/* Returns whether @path is still the path of @fd. A process removes the file of its lock before it
 * releases the lock. */
static bool is_same(int fd, const char *path)
{
    struct stat here, there;

    return fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

int uro_hub_directory_lock(const char *path, bool shared)
{
    for (int i = 0; i < REPLACED_MOST; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
        if (fd < 0)
            return -errno;
        if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
            int reason = errno;
            (void)close(fd);
            return -reason;
        }
        if (is_same(fd, path))
            return fd;
        (void)close(fd);
    }
    return -EWOULDBLOCK;
}

void uro_hub_directory_unlock(int fd, const char *path)
{
    if (is_same(fd, path))
        (void)unlink(path);
    (void)close(fd);
}

/* ---- leftover files ------------------------------------------------------- */

/* Writes @name without its suffix @end to @out, or "" when @name does not end in @end. */
static void cut_off(const char *name, const char *end, char out[static NAME_MAX + 1])
{
    size_t length = strlen(name), tail = strlen(end);

    out[0] = '\0';
    if (length > tail && strcmp(name + length - tail, end) == 0)
        (void)snprintf(out, NAME_MAX + 1, "%.*s", (int)(length - tail), name);
}

/* Removes a lock file that no process has locked. If it is the lock file of a broker, also removes
 * the broker's socket. */
static void sweep_file(int directory, const char *parent, const char *name)
{
    char path[URO_HUB_DIRECTORY_PATH_MAX + NAME_MAX], socket[NAME_MAX + 1];

    cut_off(name, ".lock", socket);
    if (socket[0] == '\0' && strncmp(name, "listen-", strlen("listen-")) != 0 &&
        strncmp(name, "users-", strlen("users-")) != 0)
        return;
    (void)snprintf(path, sizeof path, "%s/%s", parent, name);
    int fd = uro_hub_directory_lock(path, false);
    if (fd < 0)
        return;
    if (socket[0] != '\0')
        (void)unlinkat(directory, socket, 0);
    uro_hub_directory_unlock(fd, path);
}

void uro_hub_directory_sweep(const struct uro_hub_directory *directory)
{
    DIR *files = opendir(directory->directory);

    if (files == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(files)) != NULL;)
        sweep_file(dirfd(files), directory->directory, entry->d_name);
    (void)closedir(files);
}
