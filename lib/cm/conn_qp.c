/* SPDX-License-Identifier: BSD-3-Clause */
/* conn_qp.c - the queue pair attributes of a connection. */
#include <errno.h>

#include "base/mark.h"
#include "cm/conn_inside.h"

#define MTU_OF(code) (128u << (code))

static bool has_responder_resources(enum uro_qp_type type)
{
    return type == URO_QPT_RC || type == URO_QPT_XRC_TGT;
}

static bool knows_peer(const struct uro_conn *conn)
{
    return conn->state == URO_CONN_REQ_RECEIVED || conn->state == URO_CONN_REP_SENT ||
           conn->state == URO_CONN_REP_RECEIVED || conn->state == URO_CONN_ESTABLISHED;
}

static void to_init(const struct uro_conn *conn, struct uro_qp_attr *attr, unsigned *mask)
{
    attr->port = 1;
    attr->access = URO_ACCESS_REMOTE_WRITE;
    if (conn->local.responder_resources > 0 || conn->peer.initiator_depth > 0)
        attr->access |= URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC;
    *mask = URO_ATTR_STATE | URO_ATTR_ACCESS | URO_ATTR_PKEY_INDEX | URO_ATTR_PORT;
}

static void to_rtr(const struct uro_conn *conn, struct uro_qp_attr *attr, unsigned *mask)
{
    const struct uro_cm_route *route = &conn->route;

    attr->address = (struct uro_address){ .dest = route->remote,
                                          .sgid_index = route->sgid_index,
                                          .hop_limit = route->hop_limit,
                                          .traffic_class = route->traffic_class,
                                          .flow_label = route->flow_label };
    attr->path_mtu = MTU_OF(conn->path_mtu);
    attr->dest_qpn = conn->peer.qpn;
    attr->rq_psn = conn->local_psn;
    *mask = URO_ATTR_STATE | URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN;
    if (has_responder_resources(conn->local.type)) {
        attr->max_dest_rd_atomic = conn->peer.initiator_depth;
        attr->min_rnr_timer = 0;
        *mask |= URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR;
    }
}

static void to_rts(const struct uro_conn *conn, struct uro_qp_attr *attr, unsigned *mask)
{
    const struct uro_conn_param *peer = &conn->peer;

    attr->sq_psn = conn->peer_psn;
    *mask = URO_ATTR_STATE | URO_ATTR_SQ_PSN;
    if (conn->local.type == URO_QPT_UC)
        return;
    attr->timeout = conn->ack_timeout;
    *mask |= URO_ATTR_TIMEOUT;
    if (conn->local.type == URO_QPT_XRC_TGT)
        return;
    /* The active side chooses retry_cnt. Each side chooses the rnr_retry of its peer. */
    attr->retry_count = conn->active ? conn->local.retry_count : peer->retry_count;
    attr->rnr_retry = peer->rnr_retry_count;
    attr->max_rd_atomic = peer->responder_resources;
    *mask |= URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC;
}

int uro_conn_qp_attr(const struct uro_conn *conn, struct uro_qp_attr *attr, unsigned *mask)
{
    enum uro_qp_state state = attr->state;

    URO_MARK("CM.QP");
    *attr = (struct uro_qp_attr){ .state = state };
    if (state == URO_QPS_INIT) {
        to_init(conn, attr, mask);
        return 0;
    }
    if (!knows_peer(conn))
        return -EINVAL;
    if (state == URO_QPS_RTR)
        to_rtr(conn, attr, mask);
    else if (state == URO_QPS_RTS)
        to_rts(conn, attr, mask);
    else
        return -EINVAL;
    return 0;
}
