/* SPDX-License-Identifier: BSD-3-Clause */
/* must.h - asserts for the child of a test: cmocka's would run the parent's tests again. What does not hold is the child's
 * exit status. */
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

/* What @body of a child ends with: 0 unless something does not hold, or -1 when the child crashes. */
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
