/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c - enumerators of the verbs API in words. */
#include "verbs/objects.h"

static const char unknown[] = "unknown";

static const char *const wc_statuses[] = {
    [IBV_WC_SUCCESS] = "success",
    [IBV_WC_LOC_LEN_ERR] = "local length error",
    [IBV_WC_LOC_QP_OP_ERR] = "local queue pair operation error",
    [IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
    [IBV_WC_LOC_PROT_ERR] = "local protection error",
    [IBV_WC_WR_FLUSH_ERR] = "work request flushed",
    [IBV_WC_MW_BIND_ERR] = "memory window bind error",
    [IBV_WC_BAD_RESP_ERR] = "bad response from the peer",
    [IBV_WC_LOC_ACCESS_ERR] = "local access error",
    [IBV_WC_REM_INV_REQ_ERR] = "request invalid to the peer",
    [IBV_WC_REM_ACCESS_ERR] = "remote access error",
    [IBV_WC_REM_OP_ERR] = "remote operation error",
    [IBV_WC_RETRY_EXC_ERR] = "no answer within the transport retries",
    [IBV_WC_RNR_RETRY_EXC_ERR] = "receiver not ready within the RNR retries",
    [IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation",
    [IBV_WC_REM_INV_RD_REQ_ERR] = "RD request invalid to the peer",
    [IBV_WC_REM_ABORT_ERR] = "aborted by the peer",
    [IBV_WC_INV_EECN_ERR] = "invalid EE context number",
    [IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
    [IBV_WC_FATAL_ERR] = "fatal error",
    [IBV_WC_RESP_TIMEOUT_ERR] = "response timed out",
    [IBV_WC_GENERAL_ERR] = "general error",
    [IBV_WC_TM_ERR] = "tag matching error",
    [IBV_WC_TM_RNDV_INCOMPLETE] = "tag matching rendezvous left to software",
};

static const char *const events[] = {
    [IBV_EVENT_CQ_ERR] = "completion queue error",
    [IBV_EVENT_QP_FATAL] = "queue pair failed",
    [IBV_EVENT_QP_REQ_ERR] = "invalid request received by the queue pair",
    [IBV_EVENT_QP_ACCESS_ERR] = "access violation by a request to the queue pair",
    [IBV_EVENT_COMM_EST] = "communication established",
    [IBV_EVENT_SQ_DRAINED] = "send queue drained",
    [IBV_EVENT_PATH_MIG] = "path migrated",
    [IBV_EVENT_PATH_MIG_ERR] = "path migration failed",
    [IBV_EVENT_DEVICE_FATAL] = "device failed",
    [IBV_EVENT_PORT_ACTIVE] = "port active",
    [IBV_EVENT_PORT_ERR] = "port down",
    [IBV_EVENT_LID_CHANGE] = "LID changed",
    [IBV_EVENT_PKEY_CHANGE] = "P_Key table changed",
    [IBV_EVENT_SM_CHANGE] = "subnet manager changed",
    [IBV_EVENT_SRQ_ERR] = "shared receive queue error",
    [IBV_EVENT_SRQ_LIMIT_REACHED] = "shared receive queue below its limit",
    [IBV_EVENT_QP_LAST_WQE_REACHED] = "last receive of the queue pair taken",
    [IBV_EVENT_CLIENT_REREGISTER] = "clients must register again",
    [IBV_EVENT_GID_CHANGE] = "GID table changed",
    [IBV_EVENT_WQ_FATAL] = "work queue failed",
};

static const char *const port_states[] = {
    [IBV_PORT_NOP] = "no state change", [IBV_PORT_DOWN] = "down",
    [IBV_PORT_INIT] = "init",           [IBV_PORT_ARMED] = "armed",
    [IBV_PORT_ACTIVE] = "active",       [IBV_PORT_ACTIVE_DEFER] = "active defer",
};

static const char *const node_types[] = {
    [0] = unknown,
    [IBV_NODE_CA] = "channel adapter",
    [IBV_NODE_SWITCH] = "switch",
    [IBV_NODE_ROUTER] = "router",
    [IBV_NODE_RNIC] = "iWARP NIC",
    [IBV_NODE_USNIC] = "usNIC",
    [IBV_NODE_USNIC_UDP] = "usNIC over UDP",
    [IBV_NODE_UNSPECIFIED] = "unspecified",
};

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return (unsigned)status < URO_ARRAY_LEN(wc_statuses) ? wc_statuses[status] : unknown;
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
    return (unsigned)event < URO_ARRAY_LEN(events) ? events[event] : unknown;
}

const char *ibv_port_state_str(enum ibv_port_state port_state)
{
    return (unsigned)port_state < URO_ARRAY_LEN(port_states) ? port_states[port_state] : unknown;
}

const char *ibv_node_type_str(enum ibv_node_type node_type)
{
    return (unsigned)node_type < URO_ARRAY_LEN(node_types) ? node_types[node_type] : unknown;
}
