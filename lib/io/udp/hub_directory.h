/* SPDX-License-Identifier: BSD-3-Clause */
/* hub_directory.h - the directory where the processes of one user that share an address find each
 * other.
 *
 * It holds the socket of the broker, and a file for each service that a process listens for. Only
 * the user can create or open anything in it, so no other user can take a name first or make a
 * process wait. Names contain the network namespace, because a UDP port belongs to one and a
 * directory does not.
 */
#pragma once

#include <stddef.h>

#include "base/defs.h"
#include "wire/gid.h"

#define URO_HUB_DIRECTORY_PLACES   4u
#define URO_HUB_DIRECTORY_PATH_MAX 192u

struct uro_hub_directory {
    char directory[64]; /* "": none */
    uint64_t net;       /* inode number of the calling thread's network namespace */
};

/* Examines place @number of URO_HUB_DIRECTORY_PLACES: below XDG_RUNTIME_DIR, below /run/user, in
 * /tmp and in /var/tmp. @make: creates the directory when it is missing. Returns 0, or
 *   -ENOENT  there is no directory, or its name is too long
 *   -EPERM   another user owns the directory or may write to it; @directory names it
 *   another -errno of the kernel */
URO_NODISCARD int uro_hub_directory_find(struct uro_hub_directory *directory, unsigned number,
                                         bool make);

/* Writes the path of the file @kind for @address. @suffix: "", or a suffix that makes the name
 * unique. Returns false when the path is too long. */
URO_NODISCARD bool uro_hub_directory_path(const struct uro_hub_directory *directory,
                                          const char *kind, const struct uro_gid *address,
                                          const char *suffix,
                                          char path[static URO_HUB_DIRECTORY_PATH_MAX]);

/* Creates the file and locks it until the descriptor is closed in all processes. Never waits.
 * Returns the descriptor, -EWOULDBLOCK when another process has the lock, or another -errno. */
URO_NODISCARD int uro_hub_directory_lock(const char *path, bool shared);

/* Removes the file of a lock that no other process shares, and releases the lock. */
void uro_hub_directory_unlock(int fd, const char *path);

/* Removes the files of processes that were killed. */
void uro_hub_directory_sweep(const struct uro_hub_directory *directory);
