/* SPDX-License-Identifier: BSD-3-Clause */
/* fail_rules.h - fail= of a device: calls of the program that fail on purpose.
 *
 *     fail=ibv_reg_mr:3:ENOMEM,ibv_post_send:*100:EAGAIN,rnr:*10
 *
 * A rule has a verb, the numbers of its calls, and the effect: an error of the call, a signal to
 * the process, or an asynchronous event. `rnr` stands for messages that find no receive.
 */
#pragma once

#include "base/defs.h"

#define URO_INJECT_RULES_MAX 16u
#define URO_INJECT_ERROR_MAX 192u
#define URO_INJECT_COUNT_MAX 1000000000u

/* X(enumerator, "name", kind of object). The object says which events the call can raise. */
#define URO_INJECT_CALLS_X(X)                                                                      \
    X(RNR, "rnr", RECEIVE)                                                                         \
    X(OPEN_DEVICE, "ibv_open_device", DEVICE)                                                      \
    X(QUERY_DEVICE, "ibv_query_device", DEVICE)                                                    \
    X(QUERY_PORT, "ibv_query_port", DEVICE)                                                        \
    X(ALLOC_PD, "ibv_alloc_pd", DEVICE)                                                            \
    X(REG_MR, "ibv_reg_mr", DEVICE)                                                                \
    X(REREG_MR, "ibv_rereg_mr", DEVICE)                                                            \
    X(ALLOC_MW, "ibv_alloc_mw", DEVICE)                                                            \
    X(BIND_MW, "ibv_bind_mw", QP)                                                                  \
    X(ALLOC_DM, "ibv_alloc_dm", DEVICE)                                                            \
    X(CREATE_AH, "ibv_create_ah", DEVICE)                                                          \
    X(CREATE_COMP_CHANNEL, "ibv_create_comp_channel", DEVICE)                                      \
    X(CREATE_CQ, "ibv_create_cq", DEVICE)                                                          \
    X(RESIZE_CQ, "ibv_resize_cq", CQ)                                                              \
    X(REQ_NOTIFY_CQ, "ibv_req_notify_cq", CQ)                                                      \
    X(POLL_CQ, "ibv_poll_cq", CQ)                                                                  \
    X(START_POLL, "ibv_start_poll", CQ)                                                            \
    X(CREATE_SRQ, "ibv_create_srq", DEVICE)                                                        \
    X(MODIFY_SRQ, "ibv_modify_srq", DEVICE)                                                        \
    X(POST_SRQ_RECV, "ibv_post_srq_recv", DEVICE)                                                  \
    X(OPEN_XRCD, "ibv_open_xrcd", DEVICE)                                                          \
    X(CREATE_QP, "ibv_create_qp", DEVICE)                                                          \
    X(MODIFY_QP, "ibv_modify_qp", QP)                                                              \
    X(QUERY_QP, "ibv_query_qp", QP)                                                                \
    X(POST_SEND, "ibv_post_send", QP)                                                              \
    X(WR_COMPLETE, "ibv_wr_complete", QP)                                                          \
    X(POST_RECV, "ibv_post_recv", QP)                                                              \
    X(ATTACH_MCAST, "ibv_attach_mcast", QP)

enum uro_inject_call {
#define X(id, name, object) URO_INJECT_CALL_##id,
    URO_INJECT_CALLS_X(X)
#undef X
        URO_INJECT_CALLS
};

enum uro_inject_kind {
    URO_INJECT_KIND_ERROR,  /* the call returns the errno `number` */
    URO_INJECT_KIND_SIGNAL, /* the process gets the signal `number` */
    URO_INJECT_KIND_EVENT,  /* IBV_EVENT_* `number` is raised, and the call continues */
    URO_INJECT_KIND_RNR
};

/* Values equal enum ibv_event_type; lib/verbs/inject.c asserts this. */
enum uro_inject_event {
    URO_INJECT_EVENT_CQ_ERR = 0,
    URO_INJECT_EVENT_QP_FATAL = 1,
    URO_INJECT_EVENT_GID_CHANGE = 18
};

struct uro_inject_rule {
    enum uro_inject_call call;
    enum uro_inject_kind kind;
    int number;
    uint32_t first; /* number of the first call that fails, from 1 */
    uint32_t every; /* interval of further calls that fail; 0: only the first fails */
};

struct uro_inject_plan {
    uint32_t count;
    struct uro_inject_rule rules[URO_INJECT_RULES_MAX];
};

/* Parses the value of fail=. Returns NULL, or the error message, for which @error has room. */
const char *uro_inject_parse(struct uro_inject_plan *plan, const char *value,
                             char error[static URO_INJECT_ERROR_MAX]);

/* Returns whether the rule makes call number @count of its verb fail. The first call is 1. */
static inline bool uro_inject_matches(const struct uro_inject_rule *rule, uint32_t count)
{
    if (count < rule->first)
        return false;
    return count == rule->first || (rule->every != 0 && (count - rule->first) % rule->every == 0);
}

/* Returns the name of a verb, such as "ibv_reg_mr". */
const char *uro_inject_name(enum uro_inject_call call);
