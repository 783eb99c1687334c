/* SPDX-License-Identifier: BSD-3-Clause */
/* umad_message.c - see umad_message.h. */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "paths/umad_message.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "paths/path_map.h"

#define FIRST_FILE "/sys/class/infiniband_mad/abi_version"

static const char hint[] =
    ": uroce has no management datagrams (umad), which this program needs. For counters run `uroce "
    "run rdma statistic show link`, to test a connection `uroce run rping` or `uroce run "
    "ibv_rc_pingpong`\n";

int uro_paths_umad_message(const char *name, int fd)
{
    static atomic_flag printed = ATOMIC_FLAG_INIT;

    if (fd >= 0 || name == NULL || strcmp(name, FIRST_FILE) != 0 || uro_paths_tree() == NULL ||
        atomic_flag_test_and_set(&printed))
        return fd;
    const int before = errno;
    char *program = program_invocation_short_name;
    char text[sizeof hint];
    memcpy(text, hint, sizeof hint);
    const struct iovec parts[] = { { program, strlen(program) }, { text, sizeof text - 1 } };
    (void)!writev(STDERR_FILENO, parts, sizeof parts / sizeof parts[0]);
    errno = before;
    return fd;
}
