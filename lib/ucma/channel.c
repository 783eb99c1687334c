/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.c - see channel.h for the contract. */
#include "ucma/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ucma/id.h"
#include "verbs/wait_hook.h"

#define BUCKETS 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct uro_table_bucket buckets[BUCKETS];
static struct uro_table channels = { .buckets = buckets, .mask = BUCKETS - 1 };

static uint32_t epoch; /* number of calls of uro_channel_abandon() so far */

bool uro_channel_dead(const struct uro_channel *channel)
{
    return channel->epoch != epoch;
}

void uro_channel_abandon(void)
{
    epoch++;
}

void uro_channel_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void uro_channel_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

static struct uro_channel *find(int fd)
{
    struct uro_table_node *node = uro_table_find(&channels, (uint32_t)fd);

    return node == NULL ? NULL : URO_CONTAINER_OF(node, struct uro_channel, node);
}

int uro_channel_open(bool nonblocking)
{
    struct uro_channel *channel = calloc(1, sizeof *channel);

    if (channel == NULL)
        return -ENOMEM;
    int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | (nonblocking ? EFD_NONBLOCK : 0));
    if (fd < 0) {
        free(channel);
        return -errno;
    }
    channel->node.number = (uint32_t)fd;
    channel->epoch = epoch;
    channel->users = 1;
    uro_list_init(&channel->ids);
    uro_list_init(&channel->events);
    uro_channel_lock();
    struct uro_channel *left =
        find(fd); /* not NULL: a forked child closed the descriptor without librdmacm */
    if (left != NULL)
        uro_table_remove(&channels, &left->node);
    uro_table_insert(&channels, &channel->node);
    uro_channel_unlock();
    uro_wait_hook_add(fd);
    return fd;
}

struct uro_channel *uro_channel_get(int fd)
{
    uro_channel_lock();
    struct uro_channel *channel = find(fd);
    if (channel != NULL)
        channel->users++;
    uro_channel_unlock();
    return channel;
}

void uro_channel_put(struct uro_channel *channel)
{
    uro_channel_lock();
    bool last = --channel->users == 0;
    uro_channel_unlock();
    if (last)
        free(channel);
}

struct uro_channel *uro_channel_forget(int fd)
{
    uro_wait_hook_remove(fd);
    uro_channel_lock();
    struct uro_channel *channel = find(fd);
    if (channel != NULL)
        uro_table_remove(&channels, &channel->node);
    uro_channel_unlock();
    return channel;
}

/* ---- events; the lock is held --------------------------------------------------------------- */

static void announce(const struct uro_channel *channel)
{
    const uint64_t one = 1;

    /* The call never blocks, since the count cannot reach 2^64 events. */
    ssize_t written = write(uro_channel_fd(channel), &one, sizeof one);
    (void)written;
}

/* Decrements the descriptor's count. Returns false if the count is 0. */
static bool unannounce(const struct uro_channel *channel)
{
    uint64_t one;
    struct iovec into = { .iov_base = &one, .iov_len = sizeof one };

    return preadv2(uro_channel_fd(channel), &into, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof one;
}

static struct uro_channel_event *event_of(struct uro_link *link)
{
    return URO_CONTAINER_OF(link, struct uro_channel_event, link);
}

int uro_channel_raise(struct uro_id *id, struct uro_id *made, struct uro_mcast *mcast,
                      const struct rdma_ucm_event_resp *resp)
{
    struct uro_channel_event *event = calloc(1, sizeof *event);

    if (event == NULL)
        return -ENOMEM;
    event->id = id;
    event->made = made;
    event->mcast = mcast;
    event->resp = *resp;
    event->resp.uid = mcast != NULL ? mcast->uid : id->uid;
    event->resp.id = made != NULL ? made->number : id->number;
    uro_channel_lock();
    uro_list_append(&id->channel->events, &event->link);
    announce(id->channel);
    uro_channel_unlock();
    return 0;
}

/* Restores the count to the number of queued events. A thread may be cancelled after it decremented
 * the count and before it took the event. A cancelled thread does not call uro_channel_put(), so
 * this function calls it. */
static void recount(void *argument)
{
    struct uro_channel *channel = argument;

    uro_channel_lock();
    while (unannounce(channel))
        ;
    for (const struct uro_link *link = channel->events.head.next; link != &channel->events.head;
         link = link->next)
        announce(channel);
    uro_channel_unlock();
    uro_channel_put(channel);
}

/* Waits for an event. A thread can be cancelled only here, in readv(): see cancel/uncancelled.c.
 * The macros nest. NOLINTNEXTLINE(readability-function-size) */
int uro_channel_wait(struct uro_channel *channel)
{
    uint64_t one;
    struct iovec into = { .iov_base = &one, .iov_len = sizeof one };
    ssize_t octets;

    pthread_cleanup_push(recount, channel);
    octets = readv(uro_channel_fd(channel), &into, 1);
    pthread_cleanup_pop(0);
    return octets < 0 ? -errno : 0;
}

struct uro_channel_event *uro_channel_take(struct uro_channel *channel)
{
    struct uro_channel_event *event = NULL;

    uro_channel_lock();
    struct uro_link *link = uro_list_pop(&channel->events);
    if (link != NULL) {
        event = event_of(link);
        event->id->events_reported++;
        if (event->mcast != NULL)
            event->mcast->events_reported++;
    }
    uro_channel_unlock();
    return event;
}

void uro_channel_withdraw(struct uro_id *id, const struct uro_mcast *mcast, struct uro_list *taken)
{
    struct uro_channel *channel = id->channel;
    struct uro_link *next;

    uro_channel_lock();
    for (struct uro_link *link = channel->events.head.next; link != &channel->events.head;
         link = next) {
        next = link->next;
        struct uro_channel_event *event = event_of(link);
        bool about = event->id == id && (mcast == NULL || event->mcast == mcast);
        if (!about && event->made != id)
            continue;
        uro_list_remove(link);
        (void)unannounce(channel);
        uro_list_append(taken, link);
    }
    uro_channel_unlock();
}

static void change_channel(struct uro_id *id, struct uro_channel *to)
{
    uro_list_remove(&id->channel_link);
    uro_list_append(&to->ids, &id->channel_link);
    id->channel = to;
}

void uro_channel_move(struct uro_id *id, struct uro_channel *to)
{
    struct uro_channel *from = id->channel;
    struct uro_link *next;

    if (from == to) /* the loop below would not end */
        return;
    uro_channel_lock();
    for (struct uro_link *link = from->events.head.next; link != &from->events.head; link = next) {
        next = link->next;
        if (event_of(link)->id != id)
            continue;
        uro_list_remove(link);
        (void)unannounce(from);
        uro_list_append(&to->events, link);
        announce(to);
        if (event_of(link)->made != NULL)
            change_channel(event_of(link)->made, to);
    }
    change_channel(id, to);
    uro_channel_unlock();
}
