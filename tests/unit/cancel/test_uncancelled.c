/* SPDX-License-Identifier: BSD-3-Clause */
/* test_uncancelled.c - tests the arguments that the replaced calls pass to the C library. */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/check.h"

#define MODE 0640u

int __wrap_open64(const char *path, int flags, ...);
int __wrap_openat64(int directory, const char *path, int flags, ...);

static mode_t passed; /* mode of the last call */

/* Replaces the function of the C library. uncancelled.c always passes a mode. */
int open64(const char *path, int flags, ...)
{
    va_list more;

    va_start(more, flags);
    passed = va_arg(more, mode_t);
    va_end(more);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, passed);
}

int openat64(int directory, const char *path, int flags, ...)
{
    va_list more;

    va_start(more, flags);
    passed = va_arg(more, mode_t);
    va_end(more);
    return (int)syscall(SYS_openat, directory, path, flags, passed);
}

/* Opens the root directory with @flags by both functions. The mode is always given, so that a
 * function that reads it by mistake passes it on. */
static void open_root(int flags, mode_t wanted)
{
    int fd = __wrap_open64("/", flags | O_CLOEXEC, MODE);

    assert_int_equal(passed, wanted);
    if (fd >= 0)
        assert_int_equal(close(fd), 0);
    passed = 1;
    fd = __wrap_openat64(AT_FDCWD, "/", flags | O_CLOEXEC, MODE);
    assert_int_equal(passed, wanted);
    if (fd >= 0)
        assert_int_equal(close(fd), 0);
}

static void open__without_creating_a_file__reads_no_mode(void **state)
{
    (void)state;
    open_root(O_RDONLY, 0);
    open_root(O_RDONLY | O_DIRECTORY, 0); /* O_TMPFILE contains this bit */
}

/* Neither call creates a file: the root is a directory, and O_TMPFILE needs O_WRONLY or O_RDWR. */
static void open__that_may_create_a_file__passes_the_mode(void **state)
{
    (void)state;
    open_root(O_WRONLY | O_CREAT, MODE);
    open_root(O_RDONLY | O_TMPFILE, MODE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__without_creating_a_file__reads_no_mode),
        cmocka_unit_test(open__that_may_create_a_file__passes_the_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
