/* SPDX-License-Identifier: BSD-3-Clause */
/* forker.h - shared parts of the program forker. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define FORKER_BYTES   64
#define FORKER_WAIT_MS 60000 /* longest wait, in case the program hangs */

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s: %s: line %d: %s (%s)\n", forker_role, __FILE__, __LINE__,   \
                          #condition, strerror(errno));                                            \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

extern const char *forker_role; /* role of this process */
extern const char *forker_address;

/* Runs @body in a child, which then exits with 0. Returns the child's PID. */
pid_t forker_start(void (*body)(void));
void forker_expect_end(pid_t child);

/* forker_cm.c: `forker cm`. */
void forker_cm(void);
