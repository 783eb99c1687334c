/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_state.c - the modify table of IBTA Vol. 1, "QP/EE state transition properties".
 *
 * To review this file, compare its table with the table of the specification, row by row. The rest
 * is a look-up.
 */
#include "core/qp_state.h"

#include <errno.h>

#include "base/mark.h"

struct transition {
    unsigned types; /* bit per type that has this transition */
    unsigned required[URO_QPT_COUNT];
    unsigned optional[URO_QPT_COUNT];
};

#define ALL      ((1u << URO_QPT_COUNT) - 1)
#define TO_RESET [URO_QPS_RESET] = { .types = ALL }
#define TO_ERR   [URO_QPS_ERR] = { .types = ALL }

/* clang-format off */
static const struct transition transitions[URO_QPS_COUNT][URO_QPS_COUNT] = {
    [URO_QPS_RESET] = {
        TO_RESET,
        [URO_QPS_INIT] = {
            .types = ALL,
            .required = {
                [URO_QPT_RC] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_QPT_UC] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_QPT_UD] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_QKEY,
                [URO_QPT_XRC_INI] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_QPT_XRC_TGT] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
            },
        },
    },
    [URO_QPS_INIT] = {
        TO_RESET, TO_ERR,
        [URO_QPS_INIT] = {
            .types = ALL,
            .optional = {
                [URO_QPT_RC] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_QPT_UC] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_QPT_UD] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_QKEY,
                [URO_QPT_XRC_INI] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_QPT_XRC_TGT] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
            },
        },
        [URO_QPS_RTR] = {
            .types = ALL,
            .required = {
                [URO_QPT_RC] = URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
                           URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR,
                [URO_QPT_UC] = URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN,
                [URO_QPT_XRC_INI] = URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN |
                             URO_ATTR_RQ_PSN,
                [URO_QPT_XRC_TGT] = URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN |
                             URO_ATTR_RQ_PSN | URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR,
            },
            .optional = {
                [URO_QPT_RC] = URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX,
                [URO_QPT_UC] = URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX,
                [URO_QPT_UD] = URO_ATTR_PKEY_INDEX | URO_ATTR_QKEY,
                [URO_QPT_XRC_INI] = URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX,
                [URO_QPT_XRC_TGT] = URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX,
            },
        },
    },
    [URO_QPS_RTR] = {
        TO_RESET, TO_ERR,
        [URO_QPS_RTS] = {
            .types = ALL,
            .required = {
                [URO_QPT_RC] = URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY |
                           URO_ATTR_SQ_PSN | URO_ATTR_RD_ATOMIC,
                [URO_QPT_UC] = URO_ATTR_SQ_PSN,
                [URO_QPT_UD] = URO_ATTR_SQ_PSN,
                [URO_QPT_XRC_INI] = URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY |
                             URO_ATTR_SQ_PSN | URO_ATTR_RD_ATOMIC,
                [URO_QPT_XRC_TGT] = URO_ATTR_TIMEOUT | URO_ATTR_SQ_PSN,
            },
            .optional = {
                [URO_QPT_RC] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
                [URO_QPT_UC] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_MIG_STATE,
                [URO_QPT_UD] = URO_ATTR_CUR_STATE | URO_ATTR_QKEY,
                [URO_QPT_XRC_INI] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                             URO_ATTR_MIG_STATE,
                [URO_QPT_XRC_TGT] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                             URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
            },
        },
    },
    [URO_QPS_RTS] = {
        TO_RESET, TO_ERR,
        [URO_QPS_RTS] = {
            .types = ALL,
            .optional = {
                [URO_QPT_RC] = URO_ATTR_CUR_STATE | URO_ATTR_ACCESS | URO_ATTR_ALT_PATH |
                           URO_ATTR_MIG_STATE | URO_ATTR_MIN_RNR,
                [URO_QPT_UC] = URO_ATTR_CUR_STATE | URO_ATTR_ACCESS | URO_ATTR_ALT_PATH |
                           URO_ATTR_MIG_STATE,
                [URO_QPT_UD] = URO_ATTR_CUR_STATE | URO_ATTR_QKEY,
                [URO_QPT_XRC_INI] = URO_ATTR_CUR_STATE | URO_ATTR_ACCESS | URO_ATTR_ALT_PATH |
                             URO_ATTR_MIG_STATE,
                [URO_QPT_XRC_TGT] = URO_ATTR_CUR_STATE | URO_ATTR_ACCESS | URO_ATTR_ALT_PATH |
                             URO_ATTR_MIG_STATE | URO_ATTR_MIN_RNR,
            },
        },
        [URO_QPS_SQD] = {
            .types = ALL,
            .optional = {
                [URO_QPT_RC] = URO_ATTR_SQD_NOTIFY,
                [URO_QPT_UC] = URO_ATTR_SQD_NOTIFY,
                [URO_QPT_UD] = URO_ATTR_SQD_NOTIFY,
                [URO_QPT_XRC_INI] = URO_ATTR_SQD_NOTIFY,
                [URO_QPT_XRC_TGT] = URO_ATTR_SQD_NOTIFY,
            },
        },
    },
    [URO_QPS_SQD] = {
        TO_RESET, TO_ERR,
        [URO_QPS_RTS] = {
            .types = ALL,
            .optional = {
                [URO_QPT_RC] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
                [URO_QPT_UC] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_MIG_STATE,
                [URO_QPT_UD] = URO_ATTR_CUR_STATE | URO_ATTR_QKEY,
                [URO_QPT_XRC_INI] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                             URO_ATTR_MIG_STATE,
                [URO_QPT_XRC_TGT] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                             URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
            },
        },
        [URO_QPS_SQD] = {
            .types = ALL,
            .optional = {
                [URO_QPT_RC] = URO_ATTR_PORT | URO_ATTR_AV | URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT |
                           URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC | URO_ATTR_DEST_RD |
                           URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX |
                           URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
                [URO_QPT_UC] = URO_ATTR_AV | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_PKEY_INDEX | URO_ATTR_MIG_STATE,
                [URO_QPT_UD] = URO_ATTR_PKEY_INDEX | URO_ATTR_QKEY,
                [URO_QPT_XRC_INI] = URO_ATTR_PORT | URO_ATTR_AV | URO_ATTR_TIMEOUT |
                             URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC |
                             URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX |
                             URO_ATTR_MIG_STATE,
                [URO_QPT_XRC_TGT] = URO_ATTR_PORT | URO_ATTR_AV | URO_ATTR_TIMEOUT |
                             URO_ATTR_DEST_RD | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                             URO_ATTR_PKEY_INDEX | URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
            },
        },
    },
    [URO_QPS_SQE] = {
        TO_RESET, TO_ERR,
        [URO_QPS_RTS] = {
            .types = 1u << URO_QPT_UC | 1u << URO_QPT_UD,
            .optional = {
                [URO_QPT_UC] = URO_ATTR_CUR_STATE | URO_ATTR_ACCESS,
                [URO_QPT_UD] = URO_ATTR_CUR_STATE | URO_ATTR_QKEY,
            },
        },
    },
    [URO_QPS_ERR] = {
        TO_RESET, TO_ERR,
    },
};
/* clang-format on */

enum uro_service uro_qp_type_service(enum uro_qp_type type)
{
    static const enum uro_service services[URO_QPT_COUNT] = { [URO_QPT_RC] = URO_RC,
                                                              [URO_QPT_UC] = URO_UC,
                                                              [URO_QPT_UD] = URO_UD,
                                                              [URO_QPT_XRC_INI] = URO_XRC,
                                                              [URO_QPT_XRC_TGT] = URO_XRC };
    return services[type];
}

bool uro_qp_state_masks(enum uro_qp_type type, enum uro_qp_state from, enum uro_qp_state to,
                        unsigned *required, unsigned *allowed)
{
    URO_ASSERT(type < URO_QPT_COUNT);
    URO_ASSERT(from < URO_QPS_COUNT);

    *required = *allowed = 0;
    if (to >= URO_QPS_COUNT)
        return false;
    const struct transition *t = &transitions[from][to];
    *required = t->required[type];
    *allowed = *required | t->optional[type] | URO_ATTR_STATE;
    return (t->types & 1u << type) != 0;
}

int uro_qp_state_check(enum uro_qp_type type, enum uro_qp_state from, enum uro_qp_state to,
                       unsigned given)
{
    unsigned required, allowed;

    if (!uro_qp_state_masks(type, from, to, &required, &allowed))
        return -EINVAL;
    if ((given & required) == required && (given & ~allowed) == 0)
        return 0;
    URO_MARK("QP.STATE.TABLE");
    return -EINVAL;
}
