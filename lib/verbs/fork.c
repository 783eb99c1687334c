/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.c - what programs ask before they fork: nothing is needed, the engine copies with the CPU. */
#include "verbs/objects.h"

/* Only the names are declared for rdma-core's own providers. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

int ibv_fork_init(void)
{
    return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
    (void)base, (void)size;
    return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
    (void)base, (void)size;
    return 0;
}
