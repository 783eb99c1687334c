/* SPDX-License-Identifier: BSD-3-Clause */
/* A library for test_plt_hook.c that calls functions of the C library. */
#include <sys/types.h>
#include <unistd.h>

long got_library_pid(void);
long got_library_pid(void)
{
    return (long)getpid();
}

long got_library_uid(void);
long got_library_uid(void)
{
    return (long)getuid();
}
