/* SPDX-License-Identifier: BSD-3-Clause */
/* directory.h - the directory with the files of layout.h. */
#pragma once

#include <sys/types.h>

#include "base/defs.h"

#define URO_STATS_PATH_MAX 256u

/* The directories in which a user's files can be. A process uses the first one that works, so a
 * reader looks into all of them. */
#define URO_STATS_PLACES 3u

/* Opens the directory number @place of the user @uid, and with @create makes it if it is missing.
 * The directory belongs to @uid, has mode 0700 and is not a link, so no other user has made it.
 * Returns a descriptor, or
 *   -ENOENT  there is none
 *   -EACCES  the directory is a link, belongs to another user, or gives rights to other users
 *   -errno   another error of a system call
 * The function writes the name of the directory to @path, or "" if there is no such place. */
URO_NODISCARD int uro_stats_directory(uid_t uid, unsigned place, bool create,
                                      char path[static URO_STATS_PATH_MAX]);

/* Takes the lock @kind, LOCK_SH or LOCK_EX, of an open directory or file. Returns false if that
 * takes longer than 200 ms, because a process that has the lock is stopped. Closing the descriptor
 * releases the lock. */
bool uro_stats_lock(int directory, int kind);
