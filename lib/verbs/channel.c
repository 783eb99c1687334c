/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.c - completion channels, which get the events of armed completion queues. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/objects.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct uro_ibv_channel *channel = uro_ibv_new(context, sizeof *channel);
    int error;

    if (channel == NULL)
        return NULL;
    error = uro_events_open(&channel->events);
    if (error != 0) {
        free(channel);
        errno = -error;
        return NULL;
    }
    channel->ibv.context = context;
    channel->ibv.fd = channel->events.fd;
    uro_object_add(&channel->object, context, NULL);
    return &channel->ibv;
}

int uro_ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
    struct uro_ibv_channel *channel = uro_ibv_channel(ibv);

    if (atomic_load(&channel->users) != 0)
        return EBUSY;
    uro_events_close(&channel->events);
    uro_object_remove(&channel->object);
    free(channel);
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
    struct uro_ibv_channel *channel = uro_ibv_channel(ibv);
    struct uro_device *device = uro_ibv_host(ibv->context);

    if (uro_object_dead(&channel->object)) {
        errno = EIO;
        return -1;
    }
    if (uro_device_started(device))
        uro_device_hand_over(device);
    const struct uro_event_node *event = uro_events_take(&channel->events);
    if (event == NULL)
        return -1;
    *cq = event->object;
    *cq_context = (*cq)->cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += nevents;
    pthread_cond_broadcast(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}
