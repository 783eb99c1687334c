/* SPDX-License-Identifier: BSD-3-Clause */
/* event.h - what the engine has to tell the process, fetched after each round.
 *
 * Events are bits on their objects, so none is lost and none is repeated while it waits.
 */
#pragma once

#include "base/defs.h"

struct uro_shard;
struct uro_cq;
struct uro_qp;
struct uro_srq;

enum uro_event_kind {
    URO_EVENT_COMPLETION, /* an armed CQ got a completion: wake its channel */
    URO_EVENT_CQ_ERR,     /* IBV_EVENT_CQ_ERR */
    URO_EVENT_QP_FATAL,
    URO_EVENT_QP_REQ_ERR,
    URO_EVENT_QP_ACCESS_ERR,
    URO_EVENT_COMM_EST,
    URO_EVENT_SQ_DRAINED,
    URO_EVENT_LAST_WQE,  /* in ERR, and no more receives come from its shared receive queue */
    URO_EVENT_SRQ_LIMIT, /* of an SRQ: fewer receives are left than uro_srq_arm() asked for */
};

struct uro_event {
    enum uro_event_kind kind;
    void *user; /* of the CQ, QP or SRQ, as given at its creation */
};

/* Engine locked. Lets programs see the completions that were made since the last call of this or uro_shard_event().
 * Their events stay. */
void uro_shard_deliver(struct uro_shard *shard);

/* Engine locked. Takes the next event; false when there is none. Delivers as well. */
bool uro_shard_event(struct uro_shard *shard, struct uro_event *event);
