/* SPDX-License-Identifier: BSD-3-Clause */
/* option.c - rdma_set_option(). */
#include <errno.h>
#include <string.h>

#include <rdma/ib_user_sa.h>

#include <infiniband/verbs.h>

#include "ucma/cm_event.h"

#define ACK_TIMEOUT_MOST 31u

static int set_tos(struct uro_id *id, const uint8_t *value)
{
    id->tos = *value;
    return 0;
}

static int set_reuse(struct uro_id *id, const uint8_t *value)
{
    int on;

    memcpy(&on, value, sizeof on);
    /* Other users of the port may rely on the option, so it can be cleared only before the
     * identifier has a port. */
    if (on != 0 ? id->state == URO_ID_LISTENING : id->state != URO_ID_IDLE)
        return -EINVAL;
    id->reuse = on != 0;
    return 0;
}

static int set_family_only(struct uro_id *id, const uint8_t *value)
{
    int on;

    memcpy(&on, value, sizeof on);
    if (id->state != URO_ID_IDLE && id->state != URO_ID_BOUND)
        return -EINVAL;
    id->family_only = on != 0;
    id->family_only_set = true;
    return 0;
}

static int set_ack_timeout(struct uro_id *id, const uint8_t *value)
{
    if ((id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND) || *value > ACK_TIMEOUT_MOST)
        return -EINVAL;
    id->ack_timeout = *value;
    id->ack_timeout_set = true;
    return 0;
}

static const struct {
    size_t size;
    int (*set)(struct uro_id *id, const uint8_t *value);
} options[] = {
    [RDMA_OPTION_ID_TOS] = { sizeof(uint8_t), set_tos },
    [RDMA_OPTION_ID_REUSEADDR] = { sizeof(int), set_reuse },
    [RDMA_OPTION_ID_AFONLY] = { sizeof(int), set_family_only },
    [RDMA_OPTION_ID_ACK_TIMEOUT] = { sizeof(uint8_t), set_ack_timeout },
};

static int set_of_id(struct uro_id *id, const struct rdma_ucm_set_option *in)
{
    if (in->optname >= sizeof options / sizeof options[0])
        return -ENOSYS;
    if (in->optlen != options[in->optname].size)
        return -EINVAL;
    return options[in->optname].set(id, (const uint8_t *)(uintptr_t)in->optval);
}

/* Accepts paths of the program, and reports the route as resolved. The paths have no effect: RoCE
 * has one path, which the addresses determine. */
static int set_path(struct uro_id *id, const struct rdma_ucm_set_option *in)
{
    const uint32_t primary = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    const struct ib_path_rec_data *paths = (const void *)(uintptr_t)in->optval;
    bool found = false;

    if (in->optname != RDMA_OPTION_IB_PATH)
        return -ENOSYS;
    if (in->optlen == 0 || in->optlen % sizeof *paths != 0)
        return -EINVAL;
    for (uint32_t i = 0; i < in->optlen / sizeof *paths; i++)
        found = found || paths[i].flags == primary;
    if (!found || id->state != URO_ID_RESOLVED)
        return -EINVAL;
    int error = uro_cm_event_simple(id, URO_CM_EVENT_ROUTE_RESOLVED, 0);
    if (error == 0)
        id->state = URO_ID_ROUTED;
    return error;
}

int uro_option_set(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_set_option *in = command;
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    (void)reply_size;
    if (error != 0)
        return error;
    error = -ENOSYS;
    uro_id_lock(id);
    if (in->level == RDMA_OPTION_ID)
        error = set_of_id(id, in);
    else if (in->level == RDMA_OPTION_IB)
        error = set_path(id, in);
    uro_id_unlock(id);
    return error;
}
