/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_events.c - queues the events of engines and ports, so that a program can wait for them.
 *
 * The handlers may be called with the engine lock held, so they only queue events.
 */
#include "verbs/cq_parts.h"

/* Queues an event for every handle of a queue pair. */
static void qp_event(const struct uro_ibv_shared_qp *shared, enum uro_event_kind kind)
{
    const struct uro_link *head = &shared->handles.head;

    for (struct uro_link *link = head->next; link != head; link = link->next) {
        struct uro_ibv_qp *qp = URO_CONTAINER_OF(link, struct uro_ibv_qp, handle);
        uro_events_put(&qp->events[kind - URO_EVENT_QP_FATAL]);
    }
}

static void engine_event(struct uro_device *device, const struct uro_event *event)
{
    struct uro_ibv_cq *cq = event->user;
    struct uro_ibv_srq *srq = event->user;

    (void)device;
    switch (event->kind) {
    case URO_EVENT_COMPLETION:
        if (uro_cq_parts_take_event(cq))
            uro_events_put(&cq->completion);
        break;
    case URO_EVENT_CQ_ERR:
        if (uro_cq_parts_take_overrun(cq))
            uro_events_put(&cq->error);
        break;
    case URO_EVENT_QP_FATAL:
    case URO_EVENT_QP_REQ_ERR:
    case URO_EVENT_QP_ACCESS_ERR:
    case URO_EVENT_COMM_EST:
    case URO_EVENT_SQ_DRAINED:
    case URO_EVENT_LAST_WQE:
        qp_event(event->user, event->kind);
        break;
    case URO_EVENT_SRQ_LIMIT:
        uro_events_put(&srq->limit);
        break;
    }
}

static struct uro_event_node *node_of(struct uro_ibv_context *context, enum uro_port_event event)
{
    switch (event) {
    case URO_PORT_ACTIVE:
        return &context->port_active;
    case URO_PORT_ERR:
        return &context->port_err;
    case URO_PORT_SPEED:
        return &context->speed_change;
    case URO_PORT_GIDS:
        return &context->gid_change;
    case URO_PORT_GONE:
        return &context->device_fatal;
    }
    return NULL;
}

static void port_event(struct uro_device *device, enum uro_port_event event)
{
    struct uro_ibv_device *ibv = uro_ibv_device_of(device);

    if (ibv == NULL)
        return; /* an engine other than the first, which reports these events for all engines */
    uro_ibv_contexts_lock();
    for (struct uro_link *link = ibv->contexts.head.next; link != &ibv->contexts.head;
         link = link->next) {
        struct uro_ibv_context *context = URO_CONTAINER_OF(link, struct uro_ibv_context, link);
        uro_events_put(node_of(context, event));
    }
    uro_ibv_contexts_unlock();
}

const struct uro_event_handlers uro_ibv_event_handlers = { .engine_event = engine_event,
                                                           .port_event = port_event };
