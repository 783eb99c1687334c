/* SPDX-License-Identifier: BSD-3-Clause */
/* conn.c - the functions that an application calls on a connection, and the messages that they
 * send. */
#include "cm/conn.h"

#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "cm/conn_inside.h"

#define PKEY            0xffffu
#define LID_PERMISSIVE  0xffffu
#define TRANSPORT_RC    0u
#define TRANSPORT_UC    1u
#define TRANSPORT_OTHER 3u
#define EXTENDED_XRC    1u
#define ACK_DELAY       15u /* our local_ca_ack_delay, as in the device attributes */
#define MRA_SERVICE     24u /* 4.096 us * 2^24, 69 s: time for the application to respond */
#define TWO_WAYS        2u

static bool is_xrc(const struct uro_conn *conn)
{
    return conn->local.type == URO_QPT_XRC_INI || conn->local.type == URO_QPT_XRC_TGT;
}

/* Builds a message. All messages of one exchange have the transaction ID of the first message. */
void uro_conn_message(const struct uro_conn *conn, enum uro_cm_kind kind, struct uro_cm_msg *msg)
{
    memset(msg, 0, sizeof *msg);
    msg->kind = kind;
    URO_MARK("CM.TID");
    msg->tid = conn->tid;
    msg->value[URO_CM_LOCAL_ID] = conn->node.number;
    msg->value[URO_CM_REMOTE_ID] = conn->peer_id;
}

static void put_data(struct uro_cm_msg *msg, const void *data, uint32_t length)
{
    msg->data_length = length;
    if (length > 0)
        memcpy(msg->data, data, length);
}

static bool data_fits(enum uro_cm_kind kind, uint32_t length)
{
    if (length <= uro_cm_data_max(kind))
        return true;
    URO_MARK("CM.DATA");
    return false;
}

void uro_conn_send_simple(struct uro_conn *conn, enum uro_cm_kind kind)
{
    struct uro_cm_msg msg;

    uro_conn_message(conn, kind, &msg);
    uro_conn_reply(conn->cm, &conn->route, &msg);
}

void uro_conn_send_mra(struct uro_conn *conn, unsigned message)
{
    struct uro_cm_msg msg;

    uro_conn_message(conn, URO_CM_MRA, &msg);
    msg.value[URO_CM_MESSAGE] = message;
    msg.value[URO_CM_SERVICE_TIMEOUT] = MRA_SERVICE;
    uro_conn_reply(conn->cm, &conn->route, &msg);
}

void uro_conn_send_rej(struct uro_cm *cm, const struct uro_cm_route *route,
                       const struct uro_conn_rej *rej)
{
    struct uro_cm_msg msg = { .kind = URO_CM_REJ, .tid = rej->tid };

    msg.value[URO_CM_LOCAL_ID] = rej->local_id;
    msg.value[URO_CM_REMOTE_ID] = rej->peer_id;
    msg.value[URO_CM_MESSAGE] = rej->message;
    msg.value[URO_CM_REASON] = rej->reason;
    if (rej->reason == URO_CONN_REJ_TIMEOUT) {
        msg.value[URO_CM_INFO_LENGTH] = sizeof cm->config.guid;
        for (unsigned i = 0; i < sizeof cm->config.guid; i++)
            msg.info[i] = (uint8_t)(cm->config.guid >> (56 - 8 * i));
    } else if (rej->reason == URO_CONN_REJ_BAD_GID) {
        msg.value[URO_CM_INFO_LENGTH] = sizeof route->local;
        memcpy(msg.info, &route->local, sizeof route->local);
    }
    put_data(&msg, rej->data, rej->length);
    uro_conn_reply(cm, route, &msg);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static unsigned transport_of(enum uro_qp_type type)
{
    if (type == URO_QPT_RC)
        return TRANSPORT_RC;
    return type == URO_QPT_UC ? TRANSPORT_UC : TRANSPORT_OTHER;
}

static void put_path(const struct uro_conn *conn, struct uro_cm_msg *msg)
{
    const struct uro_cm_route *route = &conn->route;
    bool one_hop = route->hop_limit <= 1;

    msg->local_gid = route->local;
    msg->remote_gid = route->remote;
    msg->value[URO_CM_LOCAL_LID] = msg->value[URO_CM_REMOTE_LID] = one_hop ? 0 : LID_PERMISSIVE;
    msg->value[URO_CM_FLOW_LABEL] = route->flow_label;
    msg->value[URO_CM_TRAFFIC_CLASS] = route->traffic_class;
    msg->value[URO_CM_HOP_LIMIT] = route->hop_limit;
    msg->value[URO_CM_SUBNET_LOCAL] = one_hop;
    msg->value[URO_CM_LOCAL_ACK_TIMEOUT] = conn->ack_timeout;
}

static void send_req(struct uro_conn *conn, const struct uro_conn_target *target,
                     const struct uro_conn_param *param)
{
    struct uro_cm_msg msg;

    URO_MARK("CM.REQ");
    uro_conn_message(conn, URO_CM_REQ, &msg);
    msg.value[URO_CM_SERVICE_ID] = conn->service_id;
    msg.value[URO_CM_CA_GUID] = conn->cm->config.guid;
    msg.value[URO_CM_LOCAL_QPN] = param->qpn;
    msg.value[URO_CM_RESPONDER_RESOURCES] = param->responder_resources;
    msg.value[URO_CM_INITIATOR_DEPTH] = param->initiator_depth;
    msg.value[URO_CM_REMOTE_RESPONSE_TIMEOUT] = target->response_timeout;
    msg.value[URO_CM_LOCAL_RESPONSE_TIMEOUT] = target->response_timeout;
    msg.value[URO_CM_TRANSPORT] = transport_of(param->type);
    msg.value[URO_CM_EXTENDED_TRANSPORT] = is_xrc(conn) ? EXTENDED_XRC : 0;
    msg.value[URO_CM_FLOW_CONTROL] = param->flow_control;
    msg.value[URO_CM_STARTING_PSN] = conn->local_psn;
    msg.value[URO_CM_RETRY_COUNT] = param->retry_count;
    msg.value[URO_CM_RNR_RETRY_COUNT] = param->rnr_retry_count;
    msg.value[URO_CM_PKEY] = PKEY;
    msg.value[URO_CM_PATH_MTU] = conn->path_mtu;
    msg.value[URO_CM_MAX_RETRIES] = target->retries;
    msg.value[URO_CM_SRQ] = param->srq;
    put_path(conn, &msg);
    put_data(&msg, param->data, param->data_length);
    uro_cm_encode(conn->mad, &msg);
    conn->state = URO_CONN_REQ_SENT;
    uro_conn_send(
        conn, TWO_WAYS * uro_conn_time(conn->ack_timeout) + uro_conn_time(target->response_timeout),
        target->retries);
}

int uro_conn_connect(struct uro_cm *cm, const struct uro_conn_target *target,
                     const struct uro_conn_param *param, uro_time now, struct uro_conn **conn)
{
    bool datagram = param->type == URO_QPT_UD;

    cm->now = now;
    if (!data_fits(datagram ? URO_CM_SIDR_REQ : URO_CM_REQ, param->data_length))
        return -EINVAL;
    struct uro_conn *made = uro_conn_new(cm, &target->route);
    if (made == NULL)
        return -ENOMEM;
    made->active = true;
    made->owned = true;
    made->user = target->user;
    made->service_id = target->service_id;
    made->tid = uro_rng_u64(&cm->rng);
    made->path_mtu = target->path_mtu;
    made->ack_timeout = target->ack_timeout;
    made->peer_response_timeout = target->response_timeout;
    made->retries = target->retries;
    made->local = *param;
    made->peer.type = param->type;
    if (datagram)
        uro_sidr_connect(made, param);
    else
        send_req(made, target, param);
    *conn = made;
    return 0;
}

static void send_rep(struct uro_conn *conn, const struct uro_conn_param *param)
{
    struct uro_cm_msg msg;

    URO_MARK("CM.REP");
    uro_conn_message(conn, URO_CM_REP, &msg);
    msg.value[is_xrc(conn) ? URO_CM_LOCAL_EECN : URO_CM_LOCAL_QPN] = param->qpn;
    msg.value[URO_CM_STARTING_PSN] = conn->local_psn;
    msg.value[URO_CM_RESPONDER_RESOURCES] = param->responder_resources;
    msg.value[URO_CM_INITIATOR_DEPTH] = param->initiator_depth;
    msg.value[URO_CM_TARGET_ACK_DELAY] = ACK_DELAY;
    msg.value[URO_CM_FLOW_CONTROL] = param->flow_control;
    msg.value[URO_CM_RNR_RETRY_COUNT] = param->rnr_retry_count;
    msg.value[URO_CM_SRQ] = param->srq;
    msg.value[URO_CM_CA_GUID] = conn->cm->config.guid;
    put_data(&msg, param->data, param->data_length);
    uro_cm_encode(conn->mad, &msg);
    conn->state = URO_CONN_REP_SENT;
    uro_conn_send(conn, uro_conn_time(conn->peer_response_timeout), conn->retries);
}

int uro_conn_accept(struct uro_conn *conn, const struct uro_conn_param *param, uro_time now)
{
    bool datagram = conn->state == URO_CONN_SIDR_REQ_RECEIVED;

    conn->cm->now = now;
    if (conn->state != URO_CONN_REQ_RECEIVED && !datagram)
        return -EINVAL;
    if (!data_fits(datagram ? URO_CM_SIDR_REP : URO_CM_REP, param->data_length))
        return -EINVAL;
    uro_listen_done(conn);
    conn->local = *param;
    if (datagram)
        uro_sidr_reply(conn, 0, param);
    else
        send_rep(conn, param);
    return 0;
}

int uro_conn_confirm(struct uro_conn *conn, uro_time now)
{
    conn->cm->now = now;
    if (conn->state != URO_CONN_REP_RECEIVED)
        return -EINVAL;
    conn->state = URO_CONN_ESTABLISHED;
    uro_conn_send_simple(conn, URO_CM_RTU);
    return 0;
}

int uro_conn_data_arrived(struct uro_conn *conn, uro_time now)
{
    conn->cm->now = now;
    if (conn->state == URO_CONN_ESTABLISHED)
        return 0;
    if (conn->state != URO_CONN_REP_SENT)
        return -EINVAL;
    URO_MARK("CM.HEARD");
    conn->state = URO_CONN_ESTABLISHED;
    uro_conn_stop_retransmit(conn);
    uro_conn_raise(conn, URO_CONN_CONFIRMED, 0);
    return 0;
}

/* ---- ending -------------------------------------------------------------------------------- */

void uro_conn_end(struct uro_conn *conn)
{
    if (!conn->owned) /* the listener still counts a request whose event was not fetched */
        uro_listen_done(conn);
    uro_conn_stop_retransmit(conn);
    uro_conn_unset_peer(conn);
    conn->state = URO_CONN_IDLE;
    if (!conn->owned)
        uro_conn_free(conn);
}

void uro_conn_enter_timewait(struct uro_conn *conn)
{
    URO_MARK("CM.TIMEWAIT");
    uro_conn_stop_retransmit(conn);
    conn->state = URO_CONN_TIMEWAIT;
    uro_wheel_arm(&conn->cm->wheel, &conn->timer, conn->cm->now + uro_conn_time(conn->ack_timeout));
    uro_conn_linger(conn);
}

static void reject(struct uro_conn *conn, unsigned reason, const void *data, uint32_t length)
{
    bool passive = conn->state == URO_CONN_REQ_RECEIVED;
    unsigned message = URO_CONN_ABOUT_OTHER;

    if (passive)
        message = URO_CONN_ABOUT_REQ;
    else if (conn->state == URO_CONN_REP_RECEIVED)
        message = URO_CONN_ABOUT_REP;
    const struct uro_conn_rej rej = { .tid = conn->tid,
                                      .local_id = passive ? 0 : conn->node.number,
                                      .peer_id = conn->peer_id,
                                      .message = message,
                                      .reason = reason,
                                      .data = data,
                                      .length = length };
    URO_MARK("CM.REJ.SAID");
    uro_conn_send_rej(conn->cm, &conn->route, &rej);
}

int uro_conn_reject(struct uro_conn *conn, unsigned reason, const void *data, uint32_t length,
                    uro_time now)
{
    conn->cm->now = now;
    if (conn->state == URO_CONN_SIDR_REQ_RECEIVED) {
        struct uro_conn_param param = { .data_length = length };
        if (!data_fits(URO_CM_SIDR_REP, length))
            return -EINVAL;
        if (length > 0)
            memcpy(param.data, data, length);
        uro_listen_done(conn);
        uro_sidr_reply(conn, URO_CONN_SIDR_REJECTED, &param);
        return 0;
    }
    if ((conn->state != URO_CONN_REQ_RECEIVED && conn->state != URO_CONN_REP_RECEIVED) ||
        !data_fits(URO_CM_REJ, length))
        return -EINVAL;
    uro_listen_done(conn);
    reject(conn, reason, data, length);
    uro_conn_end(conn);
    return 0;
}

static void send_dreq(struct uro_conn *conn)
{
    struct uro_cm_msg msg;

    URO_MARK("CM.DREQ");
    conn->tid = uro_rng_u64(&conn->cm->rng);
    uro_conn_message(conn, URO_CM_DREQ, &msg);
    msg.value[URO_CM_REMOTE_QPN] = conn->peer_qpn;
    uro_cm_encode(conn->mad, &msg);
    conn->state = URO_CONN_DREQ_SENT;
    uro_conn_send(conn, uro_conn_time(conn->peer_response_timeout), conn->retries);
}

int uro_conn_disconnect(struct uro_conn *conn, uro_time now)
{
    conn->cm->now = now;
    if (conn->state == URO_CONN_ESTABLISHED || conn->state == URO_CONN_REP_SENT) {
        send_dreq(conn);
        return 0;
    }
    return conn->state == URO_CONN_DREQ_SENT || conn->state == URO_CONN_TIMEWAIT ? 0 : -EINVAL;
}

void uro_conn_leave(struct uro_conn *conn)
{
    URO_MARK("CM.PART");
    switch (conn->state) {
    case URO_CONN_REQ_SENT:
        reject(conn, URO_CONN_REJ_TIMEOUT, NULL, 0);
        uro_conn_end(conn);
        break;
    case URO_CONN_REQ_RECEIVED:
    case URO_CONN_REP_RECEIVED:
        reject(conn, URO_CONN_REJ_CONSUMER, NULL, 0);
        uro_conn_end(conn);
        break;
    case URO_CONN_REP_SENT:
    case URO_CONN_ESTABLISHED:
        send_dreq(conn);
        uro_conn_linger(conn);
        break;
    case URO_CONN_DREQ_SENT:
    case URO_CONN_TIMEWAIT:
    case URO_CONN_SIDR_ANSWERED:
        uro_conn_linger(conn); /* the timer of the connection ends it */
        break;
    case URO_CONN_SIDR_REQ_RECEIVED:
        uro_listen_done(conn);
        uro_sidr_reply(conn, URO_CONN_SIDR_REJECTED, &(const struct uro_conn_param){ 0 });
        uro_conn_linger(conn);
        break;
    case URO_CONN_IDLE:
    case URO_CONN_SIDR_REQ_SENT:
    case URO_CONN_STATE_COUNT:
        uro_conn_end(conn);
        break;
    }
}

void uro_conn_close(struct uro_conn *conn, uro_time now)
{
    conn->cm->now = now;
    conn->owned = false;
    conn->events = 0;
    uro_list_remove(&conn->event_link);
    uro_conn_leave(conn);
}
