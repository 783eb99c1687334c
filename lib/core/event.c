/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - hands out the events that wait on completion queues and queue pairs. */
#include "core/event.h"

#include "core/pair.h"
#include "core/shard.h"

void uro_shard_deliver(struct uro_shard *shard)
{
    struct uro_link *link = shard->cq_events.head.next;

    for (; link != &shard->cq_events.head; link = link->next)
        uro_cq_deliver(URO_CONTAINER_OF(link, struct uro_cq, events));
}

static bool take_cq_event(struct uro_shard *shard, struct uro_event *event)
{
    struct uro_link *link;

    while ((link = shard->cq_events.head.next) != &shard->cq_events.head) {
        struct uro_cq *cq = URO_CONTAINER_OF(link, struct uro_cq, events);
        event->user = cq->user;
        uro_cq_look(cq);
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
    return false;
}

static bool take_qp_event(struct uro_shard *shard, struct uro_event *event)
{
    struct uro_link *link;

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

static bool take_srq_event(struct uro_shard *shard, struct uro_event *event)
{
    struct uro_link *link = uro_list_pop(&shard->srq_events);

    if (link == NULL)
        return false;
    struct uro_srq *srq = URO_CONTAINER_OF(link, struct uro_srq, event_link);
    *event = (struct uro_event){ .kind = URO_EVENT_SRQ_LIMIT, .user = srq->user };
    return true;
}

bool uro_shard_event(struct uro_shard *shard, struct uro_event *event)
{
    return take_cq_event(shard, event) || take_qp_event(shard, event) ||
           take_srq_event(shard, event);
}
