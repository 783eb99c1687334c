/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast.c - members of multicast groups, in buckets by the last octet of the group. */
#include "core/mcast.h"

#include "core/pair.h"
#include "core/shard.h"

static struct uro_list *bucket(struct uro_shard *shard, const struct uro_gid *group)
{
    return &shard->groups[group->octets[sizeof group->octets - 1] % URO_ARRAY_LEN(shard->groups)];
}

/* The first member of @group from @at on; NULL at the end. */
static struct uro_mcast *member_from(const struct uro_list *list, struct uro_link *at,
                                     const struct uro_gid *group)
{
    for (; at != &list->head; at = at->next) {
        struct uro_mcast *member = URO_CONTAINER_OF(at, struct uro_mcast, link);
        if (uro_gid_equal(&member->group, group))
            return member;
    }
    return NULL;
}

uint32_t uro_mcast_members(const struct uro_shard *shard, const struct uro_gid *group)
{
    const struct uro_list *list = bucket((struct uro_shard *)(uintptr_t)shard, group);
    struct uro_mcast *member = member_from(list, list->head.next, group);
    uint32_t count = 0;

    for (; member != NULL; member = member_from(list, member->link.next, group))
        count++;
    return count;
}

bool uro_mcast_attach(struct uro_shard *shard, struct uro_mcast *member, struct uro_qp *qp,
                      const struct uro_gid *group)
{
    bool first = uro_mcast_members(shard, group) == 0;

    *member = (struct uro_mcast){ .qp = qp, .group = *group };
    uro_list_append(bucket(shard, group), &member->link);
    return first;
}

bool uro_mcast_detach(struct uro_shard *shard, struct uro_mcast *member)
{
    uro_list_remove(&member->link);
    return uro_mcast_members(shard, &member->group) == 0;
}

struct uro_mcast *uro_mcast_find(const struct uro_shard *shard, const struct uro_qp *qp,
                                 const struct uro_gid *group)
{
    const struct uro_list *list = bucket((struct uro_shard *)(uintptr_t)shard, group);
    struct uro_mcast *member = member_from(list, list->head.next, group);

    while (member != NULL && member->qp != qp)
        member = member_from(list, member->link.next, group);
    return member;
}

struct uro_mcast *uro_mcast_next(struct uro_shard *shard, const struct uro_mcast *after,
                                 const struct uro_gid *group)
{
    const struct uro_list *list = bucket(shard, group);

    return member_from(list, after == NULL ? list->head.next : after->link.next, group);
}
