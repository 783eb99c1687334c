/* SPDX-License-Identifier: BSD-3-Clause */
/* stderr_text.h - captures what a test writes to stderr. */
#pragma once

#include "support/check.h"

#include <stdio.h>

#include <unistd.h>

struct stderr_capture {
    int file;
    int before; /* the real stderr */
};

static inline struct stderr_capture capture_stderr_begin(void)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    const struct stderr_capture capture = { .file = dup(fileno(file)),
                                            .before = dup(STDERR_FILENO) };
    (void)fclose(file);
    assert_true(capture.file >= 0 && capture.before >= 0 && dup2(capture.file, STDERR_FILENO) >= 0);
    return capture;
}

static inline void capture_stderr_end(struct stderr_capture capture)
{
    assert_true(dup2(capture.before, STDERR_FILENO) >= 0);
    (void)close(capture.before);
    (void)close(capture.file);
}

/* Returns the text so far; valid until the next call. */
static inline const char *capture_stderr_text(struct stderr_capture capture)
{
    static char text[1024];
    ssize_t length = pread(capture.file, text, sizeof text - 1, 0);

    text[length > 0 ? length : 0] = '\0';
    return text;
}
