/* SPDX-License-Identifier: BSD-3-Clause */
/* stranger.c - the library that test_planted.py puts into a program's search path. It prints a line
 * when it is loaded. */
#include <unistd.h>

__attribute__((constructor)) static void print_line(void)
{
    static const char text[] = "the stranger's library was loaded\n";

    (void)!write(STDERR_FILENO, text, sizeof text - 1);
}
