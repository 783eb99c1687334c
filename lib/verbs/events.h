/* SPDX-License-Identifier: BSD-3-Clause */
/* events.h - a queue of events behind a descriptor, for completion channels and asynchronous
 * events.
 *
 * The descriptor is an eventfd in semaphore mode, whose count is the number of queued events
 * without `uncounted`. The kernel thus provides blocking, O_NONBLOCK, poll and epoll. Each object
 * contains the nodes of its events, so that putting an event never allocates and never fails.
 */
#pragma once

#include <pthread.h>

#include "base/list.h"

struct uro_event_queue {
    int fd;
    pthread_mutex_t lock;
    struct uro_list nodes; /* nodes with queued events, next first */
    bool collecting;       /* a thread will check the queue soon, so new events need no count */
    uint64_t uncounted;    /* queued events that the descriptor does not count */
};

/* One kind of event of one object. A zeroed node has no queued event. */
struct uro_event_node {
    struct uro_link link;
    struct uro_event_queue *queue; /* set before the first put */
    void *object;                  /* object of the event, for the thread that takes it */
    int type;                      /* type of the event, for the thread that takes it */
    uint32_t waiting;              /* number of queued events */
    uint32_t taken;                /* number of events taken so far */
};

/* Returns 0 or -errno of eventfd(). */
URO_NODISCARD int uro_events_open(struct uro_event_queue *queue);
/* In a forked child: empties the queue. The descriptor keeps its number, but is not shared with the
 * parent any more. */
void uro_events_reset(struct uro_event_queue *queue);
void uro_events_close(struct uro_event_queue *queue);

/* Queues one event, if the node has a queue. Wakes a waiting thread, except during
 * uro_events_collect(). Thread: any. */
void uro_events_put(struct uro_event_node *node);

/* Takes the next event. Waits for an event unless the descriptor is O_NONBLOCK. Returns NULL with
 * errno of readv(): EAGAIN, EINTR. A thread that is cancelled while it waits loses no event.
 * Thread: any. */
const struct uro_event_node *uro_events_take(struct uro_event_queue *queue);

/* Takes the next event without waiting. Returns NULL if there is none. Thread: any. */
const struct uro_event_node *uro_events_try(struct uro_event_queue *queue);

/* Stops counting new events in the descriptor. A thread that runs the engine and then takes events
 * from the queue saves two system calls this way. */
void uro_events_collect(struct uro_event_queue *queue);
/* Ends uro_events_collect(). Takes the next event, and makes the descriptor count the others.
 * Returns NULL if there is no event. */
const struct uro_event_node *uro_events_collected(struct uro_event_queue *queue);

/* Removes the queued events of the node. node->taken does not change afterwards. */
void uro_events_withdraw(struct uro_event_node *node);
