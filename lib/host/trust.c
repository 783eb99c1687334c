/* SPDX-License-Identifier: BSD-3-Clause */
/* trust.c - see trust.h for the contract. */
#define _GNU_SOURCE /* realpath */
#include "host/trust.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *judge(const char *directory)
{
    struct stat is;

    if (stat(directory, &is) != 0)
        return strerror(errno);
    if (is.st_uid != 0 && is.st_uid != geteuid())
        return "belongs to another user; it must be yours or root's";
    if ((is.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (is.st_mode & S_ISVTX) == 0)
        return "can be written by others; chmod go-w it";
    return NULL;
}

const char *uro_trust_path(const char *path, char *room, size_t size)
{
    char directory[PATH_MAX], whole[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);

    (void)snprintf(directory, sizeof directory, "%.*s", length, slash == NULL ? "." : path);
    if (realpath(directory, whole) == NULL)
        return strerror(errno);
    for (;;) {
        const char *wrong = judge(whole[0] != '\0' ? whole : "/");
        if (wrong != NULL) {
            (void)snprintf(room, size, "its directory %.100s %s", whole, wrong);
            return room;
        }
        char *last = strrchr(whole, '/');
        if (last == NULL || whole[1] == '\0')
            return NULL;
        *last = '\0';
    }
}
