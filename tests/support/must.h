/* SPDX-License-Identifier: BSD-3-Clause */
/* must.h - asserts for the child of a test: cmocka's would run the parent's tests again. What does not hold is the child's
 * exit status. */
#pragma once

#include <stdio.h>
#include <unistd.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "# line %d: %s\n", __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
