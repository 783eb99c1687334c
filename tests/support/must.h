/* SPDX-License-Identifier: BSD-3-Clause */
/* must.h - asserts for the child process of a test, because a failed assert of cmocka would run the
 * parent's tests again in the child. A failed assert prints its condition and ends the child with
 * status 1. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "# line %d: %s\n", __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Runs @body in a child process. Returns its exit status: 0 if all asserts held, or -1 if it
 * crashed. */
static inline int must_status(void (*body)(void))
{
    int status;

    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        body();
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}
