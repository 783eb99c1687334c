/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_state.h - the transitions of queue pairs, and the attributes of each transition. */
#pragma once

#include "base/defs.h"
#include "wire/opcode.h"

/* Values equal enum ibv_qp_state; lib/verbs/abi_asserts.c asserts it. */
enum uro_qp_state {
    URO_QPS_RESET,
    URO_QPS_INIT,
    URO_QPS_RTR,
    URO_QPS_RTS,
    URO_QPS_SQD,
    URO_QPS_SQE,
    URO_QPS_ERR,
    URO_QPS_COUNT
};

/* Returns the name of a state as in IBTA, such as "RTS", or "an unknown state". */
static inline const char *uro_qp_state_name(unsigned state)
{
    static const char *const names[URO_QPS_COUNT] = { "RESET", "INIT", "RTR", "RTS",
                                                      "SQD",   "SQE",  "ERR" };

    return state < URO_QPS_COUNT ? names[state] : "an unknown state";
}

/* Attributes of a modify, one bit each; values equal enum ibv_qp_attr_mask. */
#define URO_ATTR_STATE      (1u << 0)
#define URO_ATTR_CUR_STATE  (1u << 1)
#define URO_ATTR_SQD_NOTIFY (1u << 2)
#define URO_ATTR_ACCESS     (1u << 3)
#define URO_ATTR_PKEY_INDEX (1u << 4)
#define URO_ATTR_PORT       (1u << 5)
#define URO_ATTR_QKEY       (1u << 6)
#define URO_ATTR_AV         (1u << 7)
#define URO_ATTR_PATH_MTU   (1u << 8)
#define URO_ATTR_TIMEOUT    (1u << 9)
#define URO_ATTR_RETRY_CNT  (1u << 10)
#define URO_ATTR_RNR_RETRY  (1u << 11)
#define URO_ATTR_RQ_PSN     (1u << 12)
#define URO_ATTR_RD_ATOMIC  (1u << 13) /* max_rd_atomic: outstanding requests of ours */
#define URO_ATTR_ALT_PATH   (1u << 14)
#define URO_ATTR_MIN_RNR    (1u << 15)
#define URO_ATTR_SQ_PSN     (1u << 16)
#define URO_ATTR_DEST_RD    (1u << 17) /* max_dest_rd_atomic: outstanding requests of the peer */
#define URO_ATTR_MIG_STATE  (1u << 18)
#define URO_ATTR_CAP        (1u << 19)
#define URO_ATTR_DEST_QPN   (1u << 20)

/* The type of a queue pair. XRC has a type for each end. */
enum uro_qp_type {
    URO_QPT_RC,
    URO_QPT_UC,
    URO_QPT_UD,
    URO_QPT_XRC_INI, /* sends only */
    URO_QPT_XRC_TGT, /* receives only, into the shared receive queue that the packet names */
    URO_QPT_COUNT
};

enum uro_service uro_qp_type_service(enum uro_qp_type type);

/* Returns whether the transition exists. Writes the attributes that it requires and allows. */
bool uro_qp_state_masks(enum uro_qp_type type, enum uro_qp_state from, enum uro_qp_state to,
                        unsigned *required, unsigned *allowed);

/* Returns 0 when a queue pair of @type may go @from -> @to with exactly the attributes @given
 * (URO_ATTR_STATE is implied), or
 *   -EINVAL  no such transition, a required attribute is missing, or an extra one is given.
 * Source: IBTA Vol. 1, QP modify tables; man ibv_modify_qp. */
URO_NODISCARD int uro_qp_state_check(enum uro_qp_type type, enum uro_qp_state from,
                                     enum uro_qp_state to, unsigned given);
