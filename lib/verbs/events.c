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

void uro_events_again(struct uro_event_queue *queue)
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
    /* Cannot block: that takes 2^64 events. */
    ssize_t written = write(queue->fd, &one, sizeof one);
    (void)written;
    pthread_mutex_unlock(&queue->lock);
}

/* The oldest node's event; a node with more to come waits its turn behind the others. */
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

const struct uro_event_node *uro_events_take(struct uro_event_queue *queue)
{
    const struct uro_event_node *node;
    uint64_t one;

    do {
        if (read(queue->fd, &one, sizeof one) < 0)
            return NULL;
        /* No node: the event was withdrawn, but we were quicker than the withdrawer's read. */
    } while ((node = pop(queue)) == NULL);
    return node;
}

/* Takes one from the descriptor's count without ever waiting for it; false when that fails. */
static bool uncount(int fd)
{
    uint64_t one;
    struct iovec into = { .iov_base = &one, .iov_len = sizeof one };

    return preadv2(fd, &into, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof one;
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
