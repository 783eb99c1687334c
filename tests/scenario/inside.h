/* SPDX-License-Identifier: BSD-3-Clause */
/* inside.h - access to the inside of an engine, for the few scenarios that include/uroce is not
 * enough for. tests/tidy/private-includes.txt lists these scenarios.
 */
#pragma once

#include "core/work.h"
#include "embed/embed.h"

static inline struct uro_shard *inside_shard(const struct uroce_engine *engine)
{
    return uro_engine_shard(engine->engine);
}

/* Returns the request in slot @index of the send queue. */
static inline struct uro_wqe *inside_request(const struct uroce_qp *qp, uint32_t index)
{
    return uro_wq_slot(uro_qp_send_queue(qp->core), index);
}
