/* SPDX-License-Identifier: BSD-3-Clause */
/* async.c - asynchronous events of queue pairs, CQs, SRQs, the port and the device. */
#include <errno.h>

#include "verbs/objects.h"

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    const struct uro_device *device = uro_ibv_host(context);

    if (uro_device_dead(device) && !uro_device_removed(device)) {
        errno = EIO;
        return -1;
    }
    const struct uro_event_node *node = uro_events_take(&uro_ibv_context(context)->events);
    if (node == NULL)
        return -1;

    *event = (struct ibv_async_event){ .event_type = (enum ibv_event_type)node->type };
    if (node->object == NULL)
        event->element.port_num = URO_PORT;
    else if (node->type == IBV_EVENT_CQ_ERR)
        event->element.cq = node->object;
    else if (node->type == IBV_EVENT_SRQ_LIMIT_REACHED)
        event->element.srq = node->object;
    else
        event->element.qp = node->object;
    return 0;
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
    pthread_mutex_lock(mutex);
    ++*completed;
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(mutex);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element.cq;
    struct ibv_qp *qp = event->element.qp;
    struct ibv_srq *srq = event->element.srq;

    if (event->event_type == IBV_EVENT_CQ_ERR)
        acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
    else if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
        acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
    else if (event->event_type <= IBV_EVENT_PATH_MIG_ERR ||
             event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
        acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
}
