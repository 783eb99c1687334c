/* SPDX-License-Identifier: BSD-3-Clause */
/* hub_route.c - whose a datagram is that came to queue pair 1. Nothing is believed: who gets it
 * checks all. */
#include "hub.h"

#include "wire/ext.h"

#define MAD_AT (URO_BTH_LEN + URO_DETH_LEN)

static bool is_member(const struct hub *hub, uint32_t share)
{
    return share > 0 && share < URO_SHARES && hub->members[share].fd >= 0;
}

/* For what nobody in particular is asked: somebody has to answer. */
static uint32_t anybody(const struct hub *hub)
{
    for (uint32_t share = 1; share < URO_SHARES; share++)
        if (is_member(hub, share))
            return share;
    return 0;
}

static uint32_t who_listens(const struct hub *hub, uint64_t service)
{
    for (uint32_t share = 1; share < URO_SHARES; share++)
        for (uint32_t i = 0; is_member(hub, share) && i < hub->members[share].service_count; i++)
            if (hub->members[share].services[i].id == service)
                return share;
    return anybody(hub);
}

static uint32_t who_has(const struct hub *hub, uint64_t id)
{
    uint32_t share = (uint32_t)(id >> (32 - URO_SHARE_BITS));

    return is_member(hub, share) ? share : anybody(hub);
}

uint32_t hub_route(const struct hub *hub, const uint8_t *bth, uint32_t length,
                   struct uro_cm_msg *msg)
{
    msg->kind = URO_CM_KIND_COUNT;
    if (length < URO_BTH_LEN)
        return 0;
    uint32_t share = uro_hub_share_of(bth);
    if (share != 0)
        return is_member(hub, share) ? share : 0;
    if (uro_get_be24(bth + URO_HUB_AT_QPN) != URO_CM_MAD_QPN || length < MAD_AT + URO_MAD_LEN)
        return 0;
    if (uro_cm_decode(bth + MAD_AT, msg) != URO_CM_OK) {
        msg->kind = URO_CM_KIND_COUNT;
        return anybody(hub);
    }
    switch (msg->kind) {
    case URO_CM_REQ:
    case URO_CM_SIDR_REQ:
        return who_listens(hub, msg->value[URO_CM_SERVICE_ID]);
    case URO_CM_SIDR_REP:
        return who_has(hub, msg->value[URO_CM_REQUEST_ID]);
    case URO_CM_MRA:
    case URO_CM_REJ:
    case URO_CM_REP:
    case URO_CM_RTU:
    case URO_CM_DREQ:
    case URO_CM_DREP:
    case URO_CM_LAP:
    case URO_CM_APR:
    case URO_CM_KIND_COUNT:
        break;
    }
    return who_has(hub, msg->value[URO_CM_REMOTE_ID]);
}
