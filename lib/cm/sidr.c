/* SPDX-License-Identifier: BSD-3-Clause */
/* sidr.c - service ID resolution (SIDR): finds the QPN and Q_Key of a datagram service.
 *
 * A SIDR_REQ gets a SIDR_REP. The answer is kept for some time, for repetitions of the request.
 */
#include <string.h>

#include "base/mark.h"
#include "cm/conn_inside.h"

#define PKEY               0xffffu
#define STATUS_UNSUPPORTED 1u  /* the service ID is not supported */
#define ANSWER_KEPT        21u /* 4.096 us * 2^21: twice the retransmission interval of Linux */

void uro_sidr_connect(struct uro_conn *conn, const struct uro_conn_param *param)
{
    struct uro_cm_msg msg;

    uro_conn_message(conn, URO_CM_SIDR_REQ, &msg);
    msg.value[URO_CM_REQUEST_ID] = conn->node.number;
    msg.value[URO_CM_PKEY] = PKEY;
    msg.value[URO_CM_SERVICE_ID] = conn->service_id;
    msg.data_length = param->data_length;
    memcpy(msg.data, param->data, param->data_length);
    uro_cm_encode(conn->mad, &msg);
    URO_MARK("CM.SIDR.REQ");
    conn->state = URO_CONN_SIDR_REQ_SENT;
    uro_conn_send(conn, uro_conn_time(conn->peer_response_timeout), conn->retries);
}

/* Fields of a request that are copied to its response. */
struct question {
    uint64_t tid;
    uint64_t service_id;
    uint32_t request_id;
};

static void send_answer(struct uro_cm *cm, const struct uro_cm_route *route,
                        const struct question *question, unsigned status,
                        const struct uro_conn_param *param)
{
    struct uro_cm_msg msg = { .kind = URO_CM_SIDR_REP, .tid = question->tid };

    msg.value[URO_CM_REQUEST_ID] = question->request_id;
    msg.value[URO_CM_STATUS] = status;
    msg.value[URO_CM_SERVICE_ID] = question->service_id;
    msg.value[URO_CM_LOCAL_QPN] = param->qpn;
    msg.value[URO_CM_LOCAL_QKEY] = param->qkey;
    msg.data_length = param->data_length;
    memcpy(msg.data, param->data, param->data_length);
    uro_conn_reply(cm, route, &msg);
}

/* Keeps the answer for repetitions of the request. Each repetition restarts the time. */
static void keep(struct uro_conn *conn)
{
    uro_wheel_arm(&conn->cm->wheel, &conn->timer, conn->cm->now + uro_conn_time(ANSWER_KEPT));
}

void uro_sidr_reply(struct uro_conn *conn, unsigned status, const struct uro_conn_param *param)
{
    const struct question question = { conn->tid, conn->service_id, conn->peer_id };

    conn->local = *param;
    conn->status = (int)status;
    URO_MARK("CM.SIDR.REP");
    conn->state = URO_CONN_SIDR_ANSWERED;
    send_answer(conn->cm, &conn->route, &question, status, param);
    keep(conn);
}

static void receive_request(struct uro_cm *cm, const struct uro_cm_route *route,
                            const struct uro_cm_msg *msg)
{
    static const struct uro_conn_param nothing;
    uint32_t request_id = (uint32_t)msg->value[URO_CM_REQUEST_ID];
    uint64_t service_id = msg->value[URO_CM_SERVICE_ID];
    const struct question question = { msg->tid, service_id, request_id };
    /* A SIDR_REQ has no CA GUID, so the source address identifies the peer. */
    uint64_t guid = uro_gid_hash(&route->remote);
    struct uro_conn *conn = uro_conn_by_peer(cm, guid, request_id);

    if (conn != NULL) {
        URO_MARK("CM.SIDR.AGAIN");
        if (conn->state == URO_CONN_SIDR_ANSWERED) {
            send_answer(cm, route, &question, (unsigned)conn->status, &conn->local);
            keep(conn);
        }
        return;
    }
    struct uro_listener *listener = uro_listen_find(cm, service_id, &route->local);
    if (listener == NULL) {
        URO_MARK("CM.SIDR.UNSUPPORTED");
        send_answer(cm, route, &question, STATUS_UNSUPPORTED, &nothing);
        return;
    }
    conn = uro_conn_new(cm, route);
    if (conn == NULL) {
        send_answer(cm, route, &question, URO_CONN_SIDR_NO_QP, &nothing);
        return;
    }
    if (!uro_listen_take(listener, conn)) {
        URO_MARK("CM.SIDR.BACKLOG");
        uro_conn_free(conn);
        send_answer(cm, route, &question, URO_CONN_SIDR_REJECTED, &nothing);
        return;
    }
    conn->tid = msg->tid;
    conn->service_id = service_id;
    conn->state = URO_CONN_SIDR_REQ_RECEIVED;
    conn->local.type = conn->peer.type = URO_QPT_UD;
    conn->peer.data_length = msg->data_length;
    memcpy(conn->peer.data, msg->data, msg->data_length);
    uro_conn_set_peer(conn, guid, request_id, 0);
    uro_conn_raise(conn, URO_CONN_REQUEST, 0);
}

static void receive_answer(struct uro_cm *cm, const struct uro_cm_route *route,
                           const struct uro_cm_msg *msg)
{
    struct uro_conn *conn = uro_conn_by_id(cm, (uint32_t)msg->value[URO_CM_REQUEST_ID]);

    if (conn == NULL || conn->state != URO_CONN_SIDR_REQ_SENT ||
        !uro_gid_equal(&conn->route.remote, &route->remote)) {
        uro_count(cm->counters, URO_COUNT_CM_DROP_UNEXPECTED);
        return;
    }
    conn->peer.qpn = (uint32_t)msg->value[URO_CM_LOCAL_QPN];
    conn->peer.qkey = (uint32_t)msg->value[URO_CM_LOCAL_QKEY];
    conn->peer.data_length = msg->data_length;
    memcpy(conn->peer.data, msg->data, msg->data_length);
    int status = (int)msg->value[URO_CM_STATUS];
    uro_conn_end(conn);
    uro_conn_raise(conn, status == 0 ? URO_CONN_RESPONSE : URO_CONN_REJECTED, status);
}

void uro_sidr_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                      const struct uro_cm_msg *msg)
{
    if (msg->kind == URO_CM_SIDR_REQ)
        receive_request(cm, route, msg);
    else
        receive_answer(cm, route, msg);
}
