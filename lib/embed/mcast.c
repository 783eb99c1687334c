/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast.c - the functions of uroce/objects.h that attach queue pairs to multicast groups. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "embed/embed.h"

/* Copies the address of the group. Returns false when the arguments are not a UD queue pair and a
 * multicast address, or the time decreases. */
static bool take_arguments(const struct uroce_qp *qp, const uint8_t from[UROCE_GID_SIZE],
                           uint64_t now, struct uro_gid *group)
{
    if (qp == NULL || from == NULL || qp->type != UROCE_UD)
        return false;
    memcpy(group->octets, from, sizeof group->octets);
    return uro_gid_is_multicast(group) && uro_embed_time_goes_on(qp->pd->engine, now);
}

int uroce_qp_attach(struct uroce_qp *qp, const uint8_t group[UROCE_GID_SIZE], uint64_t now)
{
    struct uro_gid gid;

    if (!take_arguments(qp, group, now, &gid))
        return -EINVAL;
    if (uro_mcast_find(qp->shard, qp->core, &gid) != NULL)
        return 0;
    if (uro_mcast_members(qp->shard, &gid) == URO_MCAST_MEMBERS_MAX)
        return -ENOMEM;
    struct uro_embed_member *member = uro_embed_memory(sizeof *member);
    if (member == NULL)
        return -ENOMEM;
    int error = 0;
    if (uro_mcast_members(qp->shard, &gid) == 0)
        error = uro_engine_join(qp->pd->engine->engine, &gid, now);
    if (error != 0) {
        free(member);
        return error;
    }
    (void)uro_mcast_attach(qp->shard, &member->core, qp->core, &gid);
    member->next = qp->members;
    qp->members = member;
    return 0;
}

static void detach(struct uroce_qp *qp, struct uro_embed_member **at)
{
    struct uro_embed_member *member = *at;
    struct uroce_engine *engine = qp->pd->engine;

    *at = member->next;
    if (uro_mcast_detach(qp->shard, &member->core))
        uro_engine_leave(engine->engine, &member->core.group, engine->now);
    free(member);
}

int uroce_qp_detach(struct uroce_qp *qp, const uint8_t group[UROCE_GID_SIZE], uint64_t now)
{
    struct uro_gid gid;

    if (!take_arguments(qp, group, now, &gid))
        return -EINVAL;
    for (struct uro_embed_member **at = &qp->members; *at != NULL; at = &(*at)->next)
        if (uro_gid_equal(&(*at)->core.group, &gid)) {
            detach(qp, at);
            return 0;
        }
    return -EINVAL;
}

void uro_embed_detach_all(struct uroce_qp *qp)
{
    while (qp->members != NULL)
        detach(qp, &qp->members);
}
