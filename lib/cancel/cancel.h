/* SPDX-License-Identifier: BSD-3-Clause */
/* cancel.h - keeps pthread_cancel() from ending a thread in the middle of our work.
 *
 * If a thread were cancelled while it holds one of our locks, or halfway through a change, the
 * process would hang. Programs expect cancellation points only where libibverbs and librdmacm have
 * them: the waits of ibv_get_cq_event, ibv_get_async_event and rdma_get_cm_event.
 *
 * Turning cancellation off and on again takes two locked instructions, which is too slow for each
 * post and poll. So our libraries use their own system calls, which are not cancellation points:
 * uncancelled.c. The DPDK plug-in keeps the C library's calls; lib/io/dpdk/guard.c turns
 * cancellation off around DPDK's drivers.
 */
#pragma once

#include <pthread.h>

#include "base/defs.h"

static inline int uro_cancel_off(void)
{
    int was;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    return was;
}

static inline void uro_cancel_back(const int *was)
{
    int off;

    (void)pthread_setcancelstate(*was, &off);
}

/* Declares a variable: until it goes out of scope, no call is a cancellation point. May be
 * nested. */
#define URO_UNCANCELLED URO_CLEANUP(uro_cancel_back) const int uro_cancel_was = uro_cancel_off()
