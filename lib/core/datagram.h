/* SPDX-License-Identifier: BSD-3-Clause */
/* datagram.h - the packets of UD queue pairs, and their multicast groups. Each message is one
 * packet. It may go to, or come from, any queue pair. */
#pragma once

#include "base/list.h"
#include "wire/frame.h"

struct uro_qp;
struct uro_shard;
struct uro_tx;

/* Top bit of the Q_Key of a work request: requests that the Q_Key of the queue pair is sent instead
 * (IBTA Vol. 1, "Q_Key"). */
#define URO_QKEY_PRIVILEGED 0x80000000u

/* Describes the next datagram. Returns false when there is none now. */
bool uro_datagram_next(struct uro_qp *qp, struct uro_tx *tx);

/* Handles a datagram that passed the checks of receive.c. */
void uro_datagram_receive(struct uro_qp *qp, const struct uro_frame *frame);

/* ---- multicast groups; engine locked ---------------------------------------- */

/* One queue pair in one group. The caller allocates the struct, and must not free it between
 * attach and detach. */
struct uro_mcast {
    struct uro_link link; /* in shard->groups[] */
    struct uro_qp *qp;
    struct uro_gid group;
};

/* Adds @qp, a UD queue pair that is not in @group yet. Returns true for the first member: the host
 * must then receive the frames of the group. */
bool uro_mcast_attach(struct uro_shard *shard, struct uro_mcast *member, struct uro_qp *qp,
                      const struct uro_gid *group);

/* Removes a member. Returns true for the last member. */
bool uro_mcast_detach(struct uro_shard *shard, struct uro_mcast *member);

/* Returns the membership of @qp in @group, or NULL when there is none. */
struct uro_mcast *uro_mcast_find(const struct uro_shard *shard, const struct uro_qp *qp,
                                 const struct uro_gid *group);

/* Returns the number of members of @group. */
uint32_t uro_mcast_members(const struct uro_shard *shard, const struct uro_gid *group);

/* Returns the member of @group behind @after, or the first member if @after is NULL. Returns NULL
 * at the end. */
struct uro_mcast *uro_mcast_next(struct uro_shard *shard, const struct uro_mcast *after,
                                 const struct uro_gid *group);
