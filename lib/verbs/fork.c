/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.c - see fork.h. Also the verbs for memory in a forked child, which do nothing: the engine
 * pins no pages. */
#include "verbs/fork.h"

#include "host/fork.h"

/* verbs.h does not declare these two functions, which are for rdma-core's own providers. */
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

/* ---- in the child --------------------------------------------------------------------------- */

static void prepare(void)
{
    uro_ibv_xrcds_lock();
    uro_ibv_contexts_lock();
    uro_ibv_pds_lock();
    uro_ibv_dms_lock();
}

static void release(void)
{
    uro_ibv_dms_unlock();
    uro_ibv_pds_unlock();
    uro_ibv_contexts_unlock();
    uro_ibv_xrcds_unlock();
}

static void in_child(void)
{
    release();
    uro_ibv_renew_dead_lock();
    uro_ibv_replace_devices();
    uro_ibv_reset_pds();
}

void uro_ibv_watch_fork(void)
{
    static const struct uro_fork_part part = { prepare, release, in_child };

    uro_fork_join(URO_FORK_INNER, &part);
}

void uro_ibv_keep_context(struct ibv_context *context)
{
    uro_ibv_context(context)->kept = true;
}
