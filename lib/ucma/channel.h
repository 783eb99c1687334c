/* SPDX-License-Identifier: BSD-3-Clause */
/* channel.h - a channel, which for librdmacm is an open /dev/infiniband/rdma_cm. It has a
 * descriptor, identifiers, and the queued events of these identifiers.
 *
 * The descriptor is an eventfd in semaphore mode that counts the events. The kernel thus provides
 * blocking, O_NONBLOCK, poll and epoll.
 *
 * Locks, outermost first:
 *     commands   uro_command_lock(): one command at a time, and the state that only commands change
 *     engine     of an identifier's device: state and connection, which events change, too
 *     channels   uro_channel_lock(): lists of channels and identifiers, and queued events
 */
#pragma once

#include <rdma/rdma_user_cm.h>

#include "base/list.h"
#include "base/table.h"

struct uro_id;
struct uro_mcast;

struct uro_channel {
    struct uro_table_node node; /* node.number: the descriptor */
    uint32_t epoch;             /* epoch of its creation; see uro_channel_dead() */
    uint32_t users;             /* number of calls in progress, plus 1 for the descriptor */
    struct uro_list ids;
    struct uro_list events;
};

struct uro_channel_event {
    struct uro_link link; /* in uro_channel.events */
    struct uro_id *id;    /* identifier of the event */
    struct uro_id
        *made; /* CONNECT_REQUEST: new identifier, which the program gets with the event */
    struct uro_mcast *mcast;
    struct rdma_ucm_event_resp resp;
};

/* Creates a channel. Returns its descriptor, or -errno. */
URO_NODISCARD int uro_channel_open(bool nonblocking);

/* Returns the open channel of a descriptor, or NULL. It stays valid until uro_channel_put(). */
struct uro_channel *uro_channel_get(int fd);
void uro_channel_put(struct uro_channel *channel);

/* Removes the channel from the list, so that uro_channel_get() does not find it. The caller now
 * owns the reference of the descriptor. */
struct uro_channel *uro_channel_forget(int fd);

/* Returns whether the channel belongs to the parent of this forked child. It can then only be
 * closed, and its identifiers can only be destroyed. */
bool uro_channel_dead(const struct uro_channel *channel);
/* In a forked child: marks all channels as dead. */
void uro_channel_abandon(void);

void uro_channel_lock(void);
void uro_channel_unlock(void);

static inline int uro_channel_fd(const struct uro_channel *channel)
{
    return (int)channel->node.number;
}

/* Queues an event of @id and wakes a waiting thread. Fills in the uid and the id. Returns 0 or
 * -ENOMEM. */
URO_NODISCARD int uro_channel_raise(struct uro_id *id, struct uro_id *made, struct uro_mcast *mcast,
                                    const struct rdma_ucm_event_resp *event);

/* Waits for an event unless the descriptor is O_NONBLOCK. Returns 0, or -errno of readv(). No lock
 * is held. A thread that is cancelled here loses no event, and calls uro_channel_put(). */
URO_NODISCARD int uro_channel_wait(struct uro_channel *channel);

/* Takes the oldest event after uro_channel_wait(), and counts it as reported. The caller frees it.
 * Returns NULL if the event was withdrawn meanwhile. */
struct uro_channel_event *uro_channel_take(struct uro_channel *channel);

/* Withdraws the events of @id, and the event with which the program would get @id. @mcast: only
 * events of this group, unless NULL. Puts the events in @taken for the caller to free. */
void uro_channel_withdraw(struct uro_id *id, const struct uro_mcast *mcast, struct uro_list *taken);

/* Moves @id, its queued events and the new identifiers of these events to the channel @to. */
void uro_channel_move(struct uro_id *id, struct uro_channel *to);
