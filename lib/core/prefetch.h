/* SPDX-License-Identifier: BSD-3-Clause */
/* prefetch.h - prefetches the cache lines of the queue pairs that are handled next. Thousands of
 * queue pairs do not fit into a cache. The prefetches only save time. */
#pragma once

#include "core/qp_private.h"
#include "core/shard.h"

#define URO_PREFETCH_QPS_MIN 256u /* with fewer queue pairs, all of them stay in the cache */

static inline bool uro_prefetch_useful(const struct uro_shard *shard)
{
    return shard->qps.count >= URO_PREFETCH_QPS_MIN;
}

static inline void uro_prefetch_lines(const void *from, const void *to)
{
    for (const char *line = from; line < (const char *)to; line += URO_QP_LINE)
        __builtin_prefetch(line, 1);
}

/* Prefetches the cache lines for sending requests and receiving responses. */
static inline void uro_prefetch_requester(const struct uro_qp *qp)
{
    uro_prefetch_lines(qp, &qp->attr);
    uro_prefetch_lines(&qp->congestion, &qp->recv);
}

/* Prefetches the cache lines for receiving requests and sending responses. */
static inline void uro_prefetch_responder(const struct uro_qp *qp)
{
    uro_prefetch_lines(qp, &qp->attr);
    uro_prefetch_lines(&qp->response_link, &qp->rsp.resources_oldest);
}
