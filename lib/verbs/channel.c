/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.c - completion channels, which get the events of armed completion queues. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

#include "host/waiter.h"
#include "verbs/inject.h"
#include "verbs/objects.h"
#include "verbs/wait_hook.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    if (uro_inject(context, URO_INJECT_CALL_CREATE_COMP_CHANNEL) != 0)
        return NULL;

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

/* A program that waits with poll() or epoll calls ibv_get_cq_event() only when there is an event. A
 * busy program also finds an event at each call. After this many such calls in a row, uroce assumes
 * poll() or epoll. */
#define FOUND_READY_MAX 16u

/* Returns whether the program runs the engine when it waits for an event of the channel. */
bool uro_ibv_channel_waits_here(const struct uro_ibv_channel *channel,
                                const struct uro_device *device)
{
    if (uro_device_started(device) && uro_device_engines_running(device) > 1)
        return false; /* a thread could run only one of the engines */
    return atomic_load(&channel->blocks) ||
           (uro_wait_hook_installed() && uro_device_had_waiter(device));
}

/* Records that the program found an event at once, or did not want to wait. Hands the engine to the
 * service thread if the program does not run the engine when it waits. */
static void note_ready(struct uro_ibv_channel *channel, struct uro_device *device, bool nonblocking)
{
    if (nonblocking || atomic_fetch_add(&channel->found_ready, 1) + 1 >= FOUND_READY_MAX)
        atomic_store(&channel->blocks, false);
    /* With several engines, ibv_req_notify_cq() has handed over the engines of the CQ. */
    if (uro_device_engines_running(device) == 1 && !uro_ibv_channel_waits_here(channel, device))
        uro_device_hand_over(device);
}

static bool is_nonblocking(const struct uro_ibv_channel *channel)
{
    const int flags = fcntl(channel->ibv.fd, F_GETFL);

    return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

static void collect(void *queue)
{
    uro_events_collect(queue);
}

static const void *collected(void *queue)
{
    return uro_events_collected(queue);
}

/* Waits for an event of the channel. The macros nest. NOLINTNEXTLINE(readability-function-size) */
static const struct uro_event_node *wait_for_event(struct uro_ibv_channel *channel,
                                                   struct uro_device *device)
{
    const struct uro_event_source source = { channel->events.fd, &channel->events, collect,
                                             collected };
    const struct uro_event_node *event;
    bool interrupted;

    atomic_store(&channel->found_ready, 0);
    atomic_store(&channel->blocks, true);
    uro_device_wait_begin(device);
    pthread_cleanup_push(uro_device_wait_end, device);
    event = uro_device_wait(device, &source, &interrupted);
    if (event == NULL && interrupted)
        errno = EINTR;
    else if (event == NULL)
        event = uro_events_take(&channel->events);
    pthread_cleanup_pop(1);
    return event;
}

static const struct uro_event_node *take(struct uro_ibv_channel *channel, struct uro_device *device)
{
    const struct uro_event_node *event = uro_events_try(&channel->events);

    if (!uro_device_started(device))
        return event != NULL ? event : uro_events_take(&channel->events);
    if (event != NULL) {
        note_ready(channel, device, false);
        return event;
    }
    if (!is_nonblocking(channel) && uro_device_engines_running(device) == 1)
        return wait_for_event(channel, device);
    note_ready(channel, device, true);
    return uro_events_take(&channel->events);
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
    struct uro_ibv_channel *channel = uro_ibv_channel(ibv);

    if (uro_object_dead(&channel->object)) {
        errno = EIO;
        return -1;
    }
    const struct uro_event_node *event = take(channel, uro_ibv_host(ibv->context));
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
