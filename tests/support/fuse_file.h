/* SPDX-License-Identifier: BSD-3-Clause */
/* fuse_file.h - a file of a FUSE file system whose owner, an ordinary user in a user name space of its own, never
 * answers FLUSH: whoever closes a descriptor of it waits until the owner ends. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Returns a descriptor of the file and the process that serves it, or -1 where that cannot be. The process ends by
 * itself long after any test. */
int fuse_file_open(pid_t *daemon);
bool fuse_file_is_served(pid_t daemon);
/* Ends the process, and closes @file. */
void fuse_file_end(pid_t daemon, int file);
