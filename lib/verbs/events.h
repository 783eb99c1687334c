/* SPDX-License-Identifier: BSD-3-Clause */
/* events.h - a queue of events behind a descriptor: completion channels and asynchronous events.
 *
 * The descriptor is an eventfd in semaphore mode whose count is the number of waiting events, so
 * blocking, O_NONBLOCK, poll and epoll are the kernel's. The nodes stand in the objects they tell
 * about: putting an event never allocates and never fails.
 */
#pragma once

#include <pthread.h>

#include "base/list.h"

struct uro_event_queue {
    int fd;
    pthread_mutex_t lock;
    struct uro_list nodes; /* with waiting events, oldest first */
};

/* One kind of event of one object. Zero-initialised: none waits. */
struct uro_event_node {
    struct uro_link link;
    struct uro_event_queue *queue; /* set before the first put */
    void *object;                  /* for whoever takes the event */
    int type;                      /* for the same thread */
    uint32_t waiting;              /* put and not yet taken */
    uint32_t taken;                /* by uro_events_take(), since the node exists */
};

/* Returns 0 or -errno of eventfd(). */
URO_NODISCARD int uro_events_open(struct uro_event_queue *queue);
/* In a forked child: empty, as if it had just been opened, with the same descriptor, which is no
 * more the parent's. */
void uro_events_again(struct uro_event_queue *queue);
void uro_events_close(struct uro_event_queue *queue);

/* Thread: any. Queues one event and wakes a taker. */
void uro_events_put(struct uro_event_node *node);

/* Thread: any. The oldest event; waits for one unless the descriptor is O_NONBLOCK. NULL with
 * errno of readv(): EAGAIN, EINTR. A thread that is cancelled while it waits loses no event. */
const struct uro_event_node *uro_events_take(struct uro_event_queue *queue);

/* Takes back what was put and not taken: node->taken does not change afterwards. */
void uro_events_withdraw(struct uro_event_node *node);
