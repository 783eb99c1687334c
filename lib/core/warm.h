/* SPDX-License-Identifier: BSD-3-Clause */
/* warm.h - prefetches the cache lines of the next queue pairs while others have their turn:
 * thousands of queue pairs do not fit into a cache. It only saves time. */
#pragma once

#include "core/qp_private.h"
#include "core/shard.h"

#define URO_WARM_FROM 256u /* queue pairs; fewer stay in the cache */

static inline bool uro_warm_pays(const struct uro_shard *shard)
{
    return shard->qps.count >= URO_WARM_FROM;
}

static inline void uro_warm_lines(const void *from, const void *to)
{
    for (const char *at = from; at < (const char *)to; at += URO_QP_LINE)
        __builtin_prefetch(at, 1);
}

/* Prefetches the cache lines for sending requests and receiving responses. */
static inline void uro_warm_requester(const struct uro_qp *qp)
{
    uro_warm_lines(qp, &qp->attr);
    uro_warm_lines(&qp->congestion, &qp->recv);
}

/* Prefetches the cache lines for receiving requests and sending responses. */
static inline void uro_warm_responder(const struct uro_qp *qp)
{
    uro_warm_lines(qp, &qp->attr);
    uro_warm_lines(&qp->response_link, &qp->rsp.resources_oldest);
}
