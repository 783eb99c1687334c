/* SPDX-License-Identifier: BSD-3-Clause */
/* fuse_file.h - a file of a FUSE file system whose server never answers FLUSH. A process that
 * closes a descriptor of the file waits until the server ends. The server runs in
 * its own user namespace. In a chroot, it needs root instead. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Returns a descriptor of the file, and its server process in @daemon. Returns -1 if the file
 * cannot be created. The process ends by itself after the time limit of the tests. */
int fuse_file_open(pid_t *daemon);
bool fuse_file_is_served(pid_t daemon);
/* Ends the process, and closes @file. */
void fuse_file_end(pid_t daemon, int file);
