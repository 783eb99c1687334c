/* SPDX-License-Identifier: BSD-3-Clause */
/* umad_message.h - prints why a program that needs management datagrams fails. */
#pragma once

/* Returns @fd, the result of opening @name. If libibumad failed to open its first file, and this
 * process has devices of uroce, prints one line to standard error, once in a process. Keeps errno.
 * Thread: any, also in a signal handler. */
int uro_paths_umad_message(const char *name, int fd);
