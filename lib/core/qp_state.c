/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_state.c - the modify table of IBTA Vol. 1, "QP/EE state transition properties".
 *
 * To review: hold the spec table next to this one, row by row. There is no logic to read.
 */
#include "core/qp_state.h"

#include <errno.h>

#define SERVICES 3u /* RC, UC, UD; XRC has a table of its own */

struct transition {
    unsigned services; /* bit per service that has this transition */
    unsigned required[SERVICES];
    unsigned optional[SERVICES];
};

#define RC       (1u << URO_RC)
#define UC       (1u << URO_UC)
#define UD       (1u << URO_UD)
#define ALL      (RC | UC | UD)
#define TO_RESET [URO_QPS_RESET] = { .services = ALL }
#define TO_ERR   [URO_QPS_ERR] = { .services = ALL }

/* clang-format off */
/* rule QP.STATE.TABLE */
static const struct transition transitions[URO_QPS_COUNT][URO_QPS_COUNT] = {
    [URO_QPS_RESET] = {
        TO_RESET,
        [URO_QPS_INIT] = {
            .services = ALL,
            .required = {
                [URO_RC] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_UC] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_UD] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_QKEY,
            },
        },
    },
    [URO_QPS_INIT] = {
        TO_RESET, TO_ERR,
        [URO_QPS_INIT] = {
            .services = ALL,
            .optional = {
                [URO_RC] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_UC] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
                [URO_UD] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_QKEY,
            },
        },
        [URO_QPS_RTR] = {
            .services = ALL,
            .required = {
                [URO_RC] = URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
                           URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR,
                [URO_UC] = URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN,
            },
            .optional = {
                [URO_RC] = URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX,
                [URO_UC] = URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX,
                [URO_UD] = URO_ATTR_PKEY_INDEX | URO_ATTR_QKEY,
            },
        },
    },
    [URO_QPS_RTR] = {
        TO_RESET, TO_ERR,
        [URO_QPS_RTS] = {
            .services = ALL,
            .required = {
                [URO_RC] = URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY |
                           URO_ATTR_SQ_PSN | URO_ATTR_RD_ATOMIC,
                [URO_UC] = URO_ATTR_SQ_PSN,
                [URO_UD] = URO_ATTR_SQ_PSN,
            },
            .optional = {
                [URO_RC] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
                [URO_UC] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_MIG_STATE,
                [URO_UD] = URO_ATTR_CUR_STATE | URO_ATTR_QKEY,
            },
        },
    },
    [URO_QPS_RTS] = {
        TO_RESET, TO_ERR,
        [URO_QPS_RTS] = {
            .services = ALL,
            .optional = {
                [URO_RC] = URO_ATTR_CUR_STATE | URO_ATTR_ACCESS | URO_ATTR_ALT_PATH |
                           URO_ATTR_MIG_STATE | URO_ATTR_MIN_RNR,
                [URO_UC] = URO_ATTR_CUR_STATE | URO_ATTR_ACCESS | URO_ATTR_ALT_PATH |
                           URO_ATTR_MIG_STATE,
                [URO_UD] = URO_ATTR_CUR_STATE | URO_ATTR_QKEY,
            },
        },
        [URO_QPS_SQD] = {
            .services = ALL,
            .optional = {
                [URO_RC] = URO_ATTR_SQD_NOTIFY,
                [URO_UC] = URO_ATTR_SQD_NOTIFY,
                [URO_UD] = URO_ATTR_SQD_NOTIFY,
            },
        },
    },
    [URO_QPS_SQD] = {
        TO_RESET, TO_ERR,
        [URO_QPS_RTS] = {
            .services = ALL,
            .optional = {
                [URO_RC] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
                [URO_UC] = URO_ATTR_CUR_STATE | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_MIG_STATE,
                [URO_UD] = URO_ATTR_CUR_STATE | URO_ATTR_QKEY,
            },
        },
        [URO_QPS_SQD] = {
            .services = ALL,
            .optional = {
                [URO_RC] = URO_ATTR_PORT | URO_ATTR_AV | URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT |
                           URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC | URO_ATTR_DEST_RD |
                           URO_ATTR_ALT_PATH | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX |
                           URO_ATTR_MIN_RNR | URO_ATTR_MIG_STATE,
                [URO_UC] = URO_ATTR_AV | URO_ATTR_ALT_PATH | URO_ATTR_ACCESS |
                           URO_ATTR_PKEY_INDEX | URO_ATTR_MIG_STATE,
                [URO_UD] = URO_ATTR_PKEY_INDEX | URO_ATTR_QKEY,
            },
        },
    },
    [URO_QPS_SQE] = {
        TO_RESET, TO_ERR,
        [URO_QPS_RTS] = {
            .services = UC | UD,
            .optional = {
                [URO_UC] = URO_ATTR_CUR_STATE | URO_ATTR_ACCESS,
                [URO_UD] = URO_ATTR_CUR_STATE | URO_ATTR_QKEY,
            },
        },
    },
    [URO_QPS_ERR] = {
        TO_RESET, TO_ERR,
    },
};
/* clang-format on */

int uro_qp_state_check(enum uro_service service, enum uro_qp_state from, enum uro_qp_state to,
                       unsigned given)
{
    URO_ASSERT(service < SERVICES);
    URO_ASSERT(from < URO_QPS_COUNT);

    if (to >= URO_QPS_COUNT)
        return -EINVAL;

    const struct transition *t = &transitions[from][to];
    unsigned required = t->required[service];
    unsigned allowed = required | t->optional[service] | URO_ATTR_STATE;

    if ((t->services & 1u << service) == 0)
        return -EINVAL;
    if ((given & required) != required || (given & ~allowed) != 0)
        return -EINVAL;
    return 0;
}
