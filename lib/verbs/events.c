/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c - see events.h for the contract. */
#include "verbs/events.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

int uro_events_open(struct uro_event_queue *queue)
{
    queue->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (queue->fd < 0)
        return -errno;
    pthread_mutex_init(&queue->lock, NULL);
    uro_list_init(&queue->nodes);
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
}

void uro_events_close(struct uro_event_queue *queue)
{
    close(queue->fd);
    pthread_mutex_destroy(&queue->lock);
}

void uro_events_put(struct uro_event_node *node)
{
    struct uro_event_queue *queue = node->queue;
    const uint64_t one = 1;

    if (queue == NULL)
        return;
    pthread_mutex_lock(&queue->lock);
    if (node->waiting++ == 0)
        uro_list_append(&queue->nodes, &node->link);
    /* The call does not block: that would take 2^64 events. */
    ssize_t written = write(queue->fd, &one, sizeof one);
    (void)written;
    pthread_mutex_unlock(&queue->lock);
}

/* Takes an event of the oldest node. A node with more events goes to the end of the queue. */
static struct uro_event_node *pop(struct uro_event_queue *queue)
{
    struct uro_event_node *node = NULL;

    pthread_mutex_lock(&queue->lock);
    struct uro_link *link = uro_list_pop(&queue->nodes);
    if (link != NULL) {
        node = URO_CONTAINER_OF(link, struct uro_event_node, link);
        node->taken++;
        if (--node->waiting > 0)
            uro_list_append(&queue->nodes, &node->link);
    }
    pthread_mutex_unlock(&queue->lock);
    return node;
}

/* Decrements the descriptor's count without waiting. Returns false if the count is 0. */
static bool uncount(int fd)
{
    uint64_t one;
    struct iovec into = { .iov_base = &one, .iov_len = sizeof one };

    return preadv2(fd, &into, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof one;
}

/* Restores the count to the number of queued events. A thread may be cancelled after it decremented
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
    ssize_t written = waiting > 0 ? write(queue->fd, &waiting, sizeof waiting) : 0;
    (void)written;
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
        /* No node: another thread has withdrawn the event, but has not decremented the count
         * yet. */
    } while ((node = pop(queue)) == NULL);
    return node;
}

void uro_events_withdraw(struct uro_event_node *node)
{
    struct uro_event_queue *queue = node->queue;

    if (queue == NULL)
        return;
    pthread_mutex_lock(&queue->lock);
    uro_list_remove(&node->link);
    while (node->waiting > 0 && uncount(queue->fd))
        node->waiting--;
    node->waiting = 0;
    pthread_mutex_unlock(&queue->lock);
}
