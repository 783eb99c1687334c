/* SPDX-License-Identifier: BSD-3-Clause */
/* source_tap.c - makes DPDK's tap driver read without signals. */
#define _GNU_SOURCE
#include "io/dpdk/source_tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>

void (*uro_source_tap_calm(int fd))(int)
{
    int flags = fcntl(fd, F_GETFL);
    int number = fcntl(fd, F_GETSIG);
    struct sigaction action;
    struct sigaction none = { .sa_handler = SIG_IGN };

    if (flags < 0 || number <= 0 || (flags & O_ASYNC) == 0)
        return NULL;
    if (sigaction(number, NULL, &action) != 0)
        return NULL;
    fcntl(fd, F_SETFL, flags & ~O_ASYNC);
    /* Ignoring the signal discards a pending one; the default action would end the process. */
    sigaction(number, &none, NULL);
    none.sa_handler = SIG_DFL;
    sigaction(number, &none, NULL);
    return action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN ? NULL : action.sa_handler;
}
