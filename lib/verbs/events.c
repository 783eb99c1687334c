/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c - see events.h for the contract. */
#include "verbs/events.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "verbs/wait_hook.h"

int uro_events_open(struct uro_event_queue *queue)
{
    queue->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (queue->fd < 0)
        return -errno;
    pthread_mutex_init(&queue->lock, NULL);
    uro_list_init(&queue->nodes);
    queue->collecting = false;
    queue->uncounted = 0;
    uro_wait_hook_add(queue->fd);
    return 0;
}

void uro_events_reset(struct uro_event_queue *queue)
{
    int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);

    if (fd >= 0) {
        (void)dup3(fd, queue->fd, O_CLOEXEC);
        (void)close(fd);
    }
    pthread_mutex_init(&queue->lock, NULL);
    uro_list_init(&queue->nodes);
    queue->collecting = false;
    queue->uncounted = 0;
}

void uro_events_close(struct uro_event_queue *queue)
{
    uro_wait_hook_remove(queue->fd);
    close(queue->fd);
    pthread_mutex_destroy(&queue->lock);
}

/* Adds to the count of the descriptor. The lock is held. The call never blocks, since the count
 * cannot reach 2^64 events. */
static void count(const struct uro_event_queue *queue, uint64_t events)
{
    ssize_t written = write(queue->fd, &events, sizeof events);

    (void)written;
}

void uro_events_put(struct uro_event_node *node)
{
    struct uro_event_queue *queue = node->queue;
    if (queue == NULL)
        return;
    pthread_mutex_lock(&queue->lock);
    if (node->waiting++ == 0)
        uro_list_append(&queue->nodes, &node->link);
    if (queue->collecting)
        queue->uncounted++;
    else
        count(queue, 1);
    pthread_mutex_unlock(&queue->lock);
}

/* Takes an event of the first node. A node with more events goes to the end of the queue. The lock
 * is held. */
static struct uro_event_node *pop(struct uro_event_queue *queue)
{
    struct uro_link *link = uro_list_pop(&queue->nodes);

    if (link == NULL)
        return NULL;
    struct uro_event_node *node = URO_CONTAINER_OF(link, struct uro_event_node, link);
    node->taken++;
    if (--node->waiting > 0)
        uro_list_append(&queue->nodes, &node->link);
    return node;
}

/* Decrements the descriptor's count without waiting. Returns false if the count is 0. */
static bool uncount(int fd)
{
    uint64_t one;
    struct iovec into = { .iov_base = &one, .iov_len = sizeof one };

    return preadv2(fd, &into, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof one;
}

/* Takes an event, and decrements the count. The lock is held. */
static const struct uro_event_node *take(struct uro_event_queue *queue)
{
    const struct uro_event_node *node = pop(queue);

    if (node == NULL)
        return NULL;
    if (queue->uncounted > 0)
        queue->uncounted--;
    else
        (void)uncount(queue->fd);
    return node;
}

const struct uro_event_node *uro_events_try(struct uro_event_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    const struct uro_event_node *node = take(queue);
    pthread_mutex_unlock(&queue->lock);
    return node;
}

void uro_events_collect(struct uro_event_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->collecting = true;
    pthread_mutex_unlock(&queue->lock);
}

const struct uro_event_node *uro_events_collected(struct uro_event_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    const struct uro_event_node *node = take(queue);
    queue->collecting = false;
    if (queue->uncounted > 0)
        count(queue, queue->uncounted);
    queue->uncounted = 0;
    pthread_mutex_unlock(&queue->lock);
    return node;
}

/* Restores the count of the descriptor. A thread may be cancelled after it decremented
 * the count and before it took the event. */
static void recount(void *argument)
{
    struct uro_event_queue *queue = argument;
    uint64_t waiting = 0;

    pthread_mutex_lock(&queue->lock);
    while (uncount(queue->fd))
        ;
    for (const struct uro_link *link = queue->nodes.head.next; link != &queue->nodes.head;
         link = link->next)
        waiting += URO_CONTAINER_OF(link, struct uro_event_node, link)->waiting;
    queue->uncounted = queue->collecting ? queue->uncounted : 0;
    if (waiting > queue->uncounted)
        count(queue, waiting - queue->uncounted);
    pthread_mutex_unlock(&queue->lock);
}

/* Waits for an event. A thread can be cancelled only here, in readv(): see cancel/uncancelled.c.
 * The macros nest. NOLINTNEXTLINE(readability-function-size) */
static bool wait_for_one(struct uro_event_queue *queue)
{
    uint64_t one;
    struct iovec into = { .iov_base = &one, .iov_len = sizeof one };
    ssize_t octets;

    pthread_cleanup_push(recount, queue);
    octets = readv(queue->fd, &into, 1);
    pthread_cleanup_pop(0);
    return octets >= 0;
}

const struct uro_event_node *uro_events_take(struct uro_event_queue *queue)
{
    const struct uro_event_node *node;

    do {
        if (!wait_for_one(queue))
            return NULL;
        /* No node: another thread has taken or withdrawn the event, but has not decremented the
         * count yet. */
        pthread_mutex_lock(&queue->lock);
        node = pop(queue);
        pthread_mutex_unlock(&queue->lock);
    } while (node == NULL);
    return node;
}

void uro_events_withdraw(struct uro_event_node *node)
{
    struct uro_event_queue *queue = node->queue;

    if (queue == NULL)
        return;
    pthread_mutex_lock(&queue->lock);
    uro_list_remove(&node->link);
    for (; node->waiting > 0 && queue->uncounted > 0; node->waiting--)
        queue->uncounted--;
    while (node->waiting > 0 && uncount(queue->fd))
        node->waiting--;
    node->waiting = 0;
    pthread_mutex_unlock(&queue->lock);
}
