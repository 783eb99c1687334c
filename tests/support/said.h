/* SPDX-License-Identifier: BSD-3-Clause */
/* said.h - what a test writes to stderr, from said_begin() to said_end(). */
#pragma once

#include "support/check.h"

#include <stdio.h>

#include <unistd.h>

struct said {
    int file;
    int before; /* what stderr was */
};

static inline struct said said_begin(void)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    const struct said said = { .file = dup(fileno(file)), .before = dup(STDERR_FILENO) };
    (void)fclose(file);
    assert_true(said.file >= 0 && said.before >= 0 && dup2(said.file, STDERR_FILENO) >= 0);
    return said;
}

static inline void said_end(struct said said)
{
    assert_true(dup2(said.before, STDERR_FILENO) >= 0);
    (void)close(said.before);
    (void)close(said.file);
}

/* Until now; valid until the next call. */
static inline const char *said_words(struct said said)
{
    static char text[1024];
    ssize_t length = pread(said.file, text, sizeof text - 1, 0);

    text[length > 0 ? length : 0] = '\0';
    return text;
}
