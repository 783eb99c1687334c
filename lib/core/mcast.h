/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast.h - which datagram queue pairs are members of which multicast groups. */
#pragma once

#include "base/list.h"
#include "wire/gid.h"

struct uro_shard;
struct uro_qp;

/* One queue pair in one group. Memory of the struct is the caller's from attach to detach. */
struct uro_mcast {
    struct uro_link link; /* in shard->groups[] */
    struct uro_qp *qp;
    struct uro_gid group;
};

/* Engine locked. @qp is a UD queue pair that is not in @group yet. True when it is the first
 * member: the host must let the group's frames in. */
bool uro_mcast_attach(struct uro_shard *shard, struct uro_mcast *member, struct uro_qp *qp,
                      const struct uro_gid *group);
/* True when it was the last member. */
bool uro_mcast_detach(struct uro_shard *shard, struct uro_mcast *member);

/* The membership of @qp in @group; NULL when there is none. */
struct uro_mcast *uro_mcast_find(const struct uro_shard *shard, const struct uro_qp *qp,
                                 const struct uro_gid *group);

uint32_t uro_mcast_members(const struct uro_shard *shard, const struct uro_gid *group);

/* Returns the member of @group behind @after, or the first member if @after is NULL. Returns NULL at the end. */
struct uro_mcast *uro_mcast_next(struct uro_shard *shard, const struct uro_mcast *after,
                                 const struct uro_gid *group);
