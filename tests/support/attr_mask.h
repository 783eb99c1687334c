/* SPDX-License-Identifier: BSD-3-Clause */
/* attr_mask.h - the attributes of a queue pair that a transition requires. */
#pragma once

#include <stdbool.h>

#include "uroce/objects.h"

/* Returns the mask of a transition to @to, without UROCE_ATTR_STATE and without optional attributes.
 * Source: man ibv_modify_qp. */
static inline unsigned attr_mask(enum uroce_qp_type type, enum uroce_qp_state to)
{
    const unsigned path =
        UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU | UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN;
    const unsigned responder = UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER;
    const unsigned requester =
        UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY | UROCE_ATTR_MAX_RD_ATOMIC;
    const bool responds = type == UROCE_RC || type == UROCE_XRC_TGT;
    const bool requests = type == UROCE_RC || type == UROCE_XRC_INI;

    if (to == UROCE_INIT)
        return UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT |
               (type == UROCE_UD ? UROCE_ATTR_QKEY : UROCE_ATTR_ACCESS);
    if (to == UROCE_RTR)
        return type == UROCE_UD ? 0 : path | (responds ? responder : 0);
    if (to == UROCE_RTS)
        return UROCE_ATTR_SQ_PSN | (responds || requests ? UROCE_ATTR_TIMEOUT : 0) |
               (requests ? requester : 0);
    return 0;
}
