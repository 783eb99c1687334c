/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.c - reads attribute files for librdmacm and for tools. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/objects.h"

/* verbs.h does not declare these functions, which are for rdma-core's own libraries. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* Returns the directory of sysfs: the variable SYSFS_PATH, or /sys if SYSFS_PATH is not an absolute
 * path. A set-user-ID program always gets /sys. */
const char *ibv_get_sysfs_path(void)
{
    const char *path = secure_getenv("SYSFS_PATH");

    uro_ibv_report_call(__builtin_return_address(0));
    return path != NULL && path[0] == '/' ? path : "/sys";
}

/* Reads a file, without the newline at its end. Returns the number of bytes, or -1 with errno.
 * Terminates @buf with NUL if there is space. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    char path[IBV_SYSFS_PATH_MAX * 2];
    int length = snprintf(path, sizeof path, "%s/%s", dir, file);

    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t octets = read(fd, buf, size);
    close(fd);
    if (octets > 0 && buf[octets - 1] == '\n')
        octets--;
    if (octets >= 0 && (size_t)octets < size)
        buf[octets] = '\0';
    return (int)octets;
}
