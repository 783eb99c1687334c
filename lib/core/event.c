/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - hands out the events that wait on completion queues and queue pairs. */
#include "core/event.h"

#include "core/pair.h"
#include "core/shard.h"

bool uro_shard_event(struct uro_shard *shard, struct uro_event *event)
{
    struct uro_link *link;

    while ((link = shard->cq_events.head.next) != &shard->cq_events.head) {
        struct uro_cq *cq = URO_CONTAINER_OF(link, struct uro_cq, events);
        event->user = cq->user;
        if (cq->event_completion) {
            cq->event_completion = false;
            event->kind = URO_EVENT_COMPLETION;
            return true;
        }
        uro_list_remove(link);
        if (cq->event_error) {
            cq->event_error = false;
            event->kind = URO_EVENT_CQ_ERR;
            return true;
        }
    }
    while ((link = shard->qp_events.head.next) != &shard->qp_events.head) {
        struct uro_qp *qp = URO_CONTAINER_OF(link, struct uro_qp, event_link);
        if (qp->events == 0) {
            uro_list_remove(link);
            continue;
        }
        unsigned kind = (unsigned)__builtin_ctz(qp->events);
        qp->events &= qp->events - 1;
        *event = (struct uro_event){ .kind = (enum uro_event_kind)kind, .user = qp->user };
        return true;
    }
    return false;
}
