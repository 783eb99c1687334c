/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast.c - datagram queue pairs join and leave multicast groups. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/datagram.h"
#include "core/limits.h"
#include "verbs/card.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"

/* The attachment of a queue pair to a group. The engine lock protects it. */
struct uro_ibv_membership {
    struct uro_mcast core;
    struct uro_ibv_membership *next; /* next group of the queue pair */
};

/* Reads the group. Returns false unless @qp is a UD queue pair and @gid is a multicast address. */
static bool group_of(const struct ibv_qp *qp, const union ibv_gid *gid, struct uro_gid *group)
{
    memcpy(group->octets, gid->raw, sizeof group->octets);
    return qp->qp_type == IBV_QPT_UD && uro_gid_is_multicast(group);
}

/* Attaches the queue pair. Returns 0 or -ENOMEM. Engine lock held. */
static int attach(struct uro_ibv_qp *qp, struct uro_ibv_membership *membership,
                  const struct uro_gid *group)
{
    struct uro_engine *engine = uro_device_engine(qp->object.device);
    const uint32_t most =
        uro_card_most(qp->object.device, URO_CARD_MAX_MCAST_QP_ATTACH, URO_MCAST_MEMBERS_MAX);
    uint32_t members = uro_mcast_members(qp->shard, group);

    if (members >= most) {
        uro_quota_warn_bound(qp->object.device, URO_BOUND_MEMBERS, most);
        return -ENOMEM;
    }
    const int error = members == 0 ? uro_engine_join(engine, group, uro_device_now()) : 0;
    if (error != 0) {
        uro_quota_warn_bound(qp->object.device, URO_BOUND_GROUPS,
                             uro_device_groups_max(qp->object.device));
        return error;
    }
    uro_mcast_attach(qp->shard, &membership->core, qp->core, group);
    membership->next = qp->memberships;
    qp->memberships = membership;
    return 0;
}

/* rule MCAST.ATTACH */
int uro_ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    struct uro_device *device = qp->object.device;
    struct uro_gid group;

    (void)lid; /* RoCE has no LIDs */
    const int lacking = uro_card_refuses(device, URO_CARD_NO_MULTICAST, "ibv_attach_mcast");
    if (lacking != 0)
        return lacking;
    if (!group_of(ibv, gid, &group))
        return uro_refuse_group(qp, "ibv_attach_mcast", &group);
    struct uro_ibv_membership *membership = uro_ibv_new(ibv->context, sizeof *membership);
    if (membership == NULL)
        return errno;
    uro_device_lock(device);
    bool already = uro_mcast_find(qp->shard, qp->core, &group) != NULL;
    int error = already ? 0 : attach(qp, membership, &group);
    uro_device_unlock(device);
    if (already || error != 0)
        free(membership);
    return -error;
}

/* Detaches the queue pair. Engine lock held. */
static void detach(struct uro_ibv_qp *qp, struct uro_ibv_membership *membership)
{
    struct uro_ibv_membership **link = &qp->memberships;

    while (*link != membership)
        link = &(*link)->next;
    *link = membership->next;
    if (uro_mcast_detach(qp->shard, &membership->core))
        uro_engine_leave(uro_device_engine(qp->object.device), &membership->core.group,
                         uro_device_now());
    free(membership);
}

int uro_ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    struct uro_device *device = qp->object.device;
    struct uro_gid group;

    (void)lid;
    if (uro_object_dead(&qp->object))
        return EIO;
    if (!group_of(ibv, gid, &group))
        return uro_refuse_group(qp, "ibv_detach_mcast", &group);
    uro_device_lock(device);
    struct uro_mcast *core = uro_mcast_find(qp->shard, qp->core, &group);
    if (core != NULL)
        detach(qp, URO_CONTAINER_OF(core, struct uro_ibv_membership, core));
    uro_device_unlock(device);
    return core != NULL ? 0 : uro_refuse_detach(qp, &group);
}

void uro_ibv_qp_leave_all(struct uro_ibv_qp *qp)
{
    while (qp->memberships != NULL)
        detach(qp, qp->memberships);
}
