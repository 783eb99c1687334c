/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.h - what librdmacm believes to be an open /dev/infiniband/rdma_cm: a descriptor, the
 * identifiers that were made through it, and the events that wait to be fetched.
 *
 * The descriptor is an eventfd in semaphore mode that counts the events, so that blocking,
 * O_NONBLOCK, poll and epoll are the kernel's.
 *
 * Locks, outermost first:
 *     commands   uro_command_lock(): one command at a time; what only commands change
 *     engine     of an identifier's device: its state and connection, which events change too
 *     channels   uro_channel_lock(): which channels and identifiers exist, and waiting events
 */
#pragma once

#include <rdma/rdma_user_cm.h>

#include "base/list.h"
#include "base/table.h"

struct uro_id;
struct uro_mcast;

struct uro_channel {
    struct uro_table_node node; /* node.number: the descriptor */
    uint32_t epoch;             /* when it was opened; see uro_channel_dead() */
    uint32_t users;             /* the descriptor, and calls under way */
    struct uro_list ids;
    struct uro_list events;
};

struct uro_channel_event {
    struct uro_link link; /* in uro_channel.events */
    struct uro_id *id;    /* the event is about, or came through */
    struct uro_id *made;  /* of CONNECT_REQUEST: nobody's until this is fetched */
    struct uro_mcast *mcast;
    struct rdma_ucm_event_resp resp;
};

/* A new channel's descriptor, or -errno. */
URO_NODISCARD int uro_channel_open(bool nonblocking);

/* The open channel behind a descriptor, counted until uro_channel_put(); NULL when there is
 * none. */
struct uro_channel *uro_channel_get(int fd);
void uro_channel_put(struct uro_channel *channel);

/* From now on uro_channel_get() does not find it; who had it open owns that count now. */
struct uro_channel *uro_channel_forget(int fd);

/* In a forked child: the channel is the parent's, whose devices are dead here. It can only be
 * closed, and what was made through it only be destroyed. */
bool uro_channel_dead(const struct uro_channel *channel);
/* In a forked child: all channels that there are are dead. */
void uro_channel_abandon(void);

void uro_channel_lock(void);
void uro_channel_unlock(void);

static inline int uro_channel_fd(const struct uro_channel *channel)
{
    return (int)channel->node.number;
}

/* Queues an event of @id and wakes who waits. @event->uid is filled in. Returns 0 or -ENOMEM. */
URO_NODISCARD int uro_channel_raise(struct uro_id *id, struct uro_id *made, struct uro_mcast *mcast,
                                    const struct rdma_ucm_event_resp *event);

/* Waits as the descriptor says. Returns 0, or -errno of readv(). No lock is held. A thread that is
 * cancelled here loses no event, and puts the channel. */
URO_NODISCARD int uro_channel_wait(struct uro_channel *channel);

/* After uro_channel_wait(): the oldest event, the caller's to free, counted as reported; NULL when
 * it was taken back meanwhile. */
struct uro_channel_event *uro_channel_take(struct uro_channel *channel);

/* Takes back the events of @id, also the one that would introduce it, of @mcast only unless that is
 * NULL, and leaves them in @taken for the caller to free. */
void uro_channel_withdraw(struct uro_id *id, const struct uro_mcast *mcast, struct uro_list *taken);

/* @id and its waiting events go over to @to, with the identifiers that they introduce. */
void uro_channel_move(struct uro_id *id, struct uro_channel *to);
