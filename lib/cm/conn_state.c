/* SPDX-License-Identifier: BSD-3-Clause */
/* conn_state.c - the effect of each message in each state.
 *
 * A message that does not fit the state changes nothing and is counted. A duplicate message is
 * answered again, because the first answer may have been lost.
 */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "cm/conn_inside.h"

#define TRANSPORT_RC    0u
#define TRANSPORT_UC    1u
#define TRANSPORT_OTHER 3u
#define EXTENDED_XRC    1u
#define MTU_MOST        5u
#define APR_UNSUPPORTED 2u
/* librdmacm retransmits 16 times, every 4 s; some reserve is added */
#define HALF_OPEN_MOST URO_MS(70000)
#define PKEY_DEFAULT   0x7fffu /* the default P_Key without its membership bit */

static void unexpected(struct uro_cm *cm)
{
    URO_MARK("CM.UNEXPECTED");
    uro_count(cm->counters, URO_COUNT_CM_DROP_UNEXPECTED);
}

static void keep_data(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    conn->peer.data_length = msg->data_length;
    memcpy(conn->peer.data, msg->data, msg->data_length);
}

/* ---- REQ ----------------------------------------------------------------------------------- */

/* Finds the queue pair type of a REQ. Returns false when uroce does not support the type. */
static bool type_of(const struct uro_cm_msg *msg, enum uro_qp_type *type)
{
    uint64_t transport = msg->value[URO_CM_TRANSPORT];
    bool xrc =
        transport == TRANSPORT_OTHER && msg->value[URO_CM_EXTENDED_TRANSPORT] == EXTENDED_XRC;

    URO_MARK("CM.TYPE");
    *type = xrc ? URO_QPT_XRC_TGT : transport == TRANSPORT_UC ? URO_QPT_UC : URO_QPT_RC;
    return xrc || transport == TRANSPORT_RC || transport == TRANSPORT_UC;
}

static void refuse(struct uro_cm *cm, const struct uro_cm_route *route,
                   const struct uro_cm_msg *msg, unsigned reason)
{
    uro_count(cm->counters, URO_COUNT_CM_REFUSED);
    const struct uro_conn_rej rej = { .tid = msg->tid,
                                      .peer_id = (uint32_t)msg->value[URO_CM_LOCAL_ID],
                                      .message = URO_CONN_ABOUT_REQ,
                                      .reason = reason };
    uro_conn_send_rej(cm, route, &rej);
}

/* Answers a duplicate request. */
static void repeat(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    URO_MARK("CM.REQ.AGAIN");
    uro_count(conn->cm->counters, URO_COUNT_CM_RX_DUPLICATE);
    if (conn->state == URO_CONN_REQ_RECEIVED)
        uro_conn_send_mra(conn, URO_CONN_ABOUT_REQ);
    else if (conn->state == URO_CONN_REP_SENT)
        uro_conn_send_again(conn);
    else if (conn->state == URO_CONN_TIMEWAIT)
        refuse(conn->cm, &conn->route, msg, URO_CONN_REJ_STALE);
}

/* Returns the number of retransmissions of our answer. They end within HALF_OPEN_MOST: a REQ may
 * have a forged source address, so it must not hold a connection of the pool for long. */
static uint8_t patience(uint64_t retries, uint8_t response_timeout)
{
    uint64_t most = HALF_OPEN_MOST / uro_conn_time(response_timeout) - 1;

    if (retries <= most)
        return (uint8_t)retries;
    URO_MARK("CM.PATIENCE");
    return (uint8_t)most;
}

static void read_req(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    const uint64_t *value = msg->value;

    conn->tid = msg->tid;
    conn->service_id = value[URO_CM_SERVICE_ID];
    conn->peer_psn = (uint32_t)value[URO_CM_STARTING_PSN];
    URO_MARK("CM.MTU");
    conn->path_mtu = (uint8_t)value[URO_CM_PATH_MTU];
    conn->ack_timeout = (uint8_t)value[URO_CM_LOCAL_ACK_TIMEOUT];
    conn->peer_response_timeout = (uint8_t)value[URO_CM_LOCAL_RESPONSE_TIMEOUT];
    conn->retries = patience(value[URO_CM_MAX_RETRIES], conn->peer_response_timeout);
    URO_MARK("CM.FLOW");
    conn->route.flow_label = (uint32_t)value[URO_CM_FLOW_LABEL];
    conn->route.traffic_class = (uint8_t)value[URO_CM_TRAFFIC_CLASS];
    conn->route.hop_limit = (uint8_t)value[URO_CM_HOP_LIMIT];
    conn->peer.qpn = (uint32_t)value[URO_CM_LOCAL_QPN];
    conn->peer.responder_resources = (uint8_t)value[URO_CM_RESPONDER_RESOURCES];
    conn->peer.initiator_depth = (uint8_t)value[URO_CM_INITIATOR_DEPTH];
    conn->peer.flow_control = (uint8_t)value[URO_CM_FLOW_CONTROL];
    conn->peer.retry_count = (uint8_t)value[URO_CM_RETRY_COUNT];
    conn->peer.rnr_retry_count = (uint8_t)value[URO_CM_RNR_RETRY_COUNT];
    conn->peer.srq = value[URO_CM_SRQ] != 0;
    keep_data(conn, msg);
}

/* Returns whether the peer reuses a queue pair that is connected here. The peer has then lost the
 * old connection. Disconnects the old connection if it is established and has the same remote
 * address. */
static bool is_stale(struct uro_cm *cm, const struct uro_cm_route *route,
                     const struct uro_cm_msg *msg)
{
    struct uro_conn *conn = uro_conn_by_peer_qpn(cm, msg->value[URO_CM_CA_GUID],
                                                 (uint32_t)msg->value[URO_CM_LOCAL_QPN]);

    if (conn == NULL)
        return false;
    URO_MARK("CM.STALE");
    if (conn->state == URO_CONN_ESTABLISHED && uro_gid_equal(&conn->route.remote, &route->remote))
        (void)!uro_conn_disconnect(conn, cm->now);
    return true;
}

/* Returns the reason for which a new request is rejected, or 0. */
static unsigned judge_req(struct uro_cm *cm, const struct uro_cm_route *route,
                          const struct uro_cm_msg *msg, enum uro_qp_type *type)
{
    uint64_t mtu = msg->value[URO_CM_PATH_MTU];

    if (!type_of(msg, type))
        return URO_CONN_REJ_BAD_TRANSPORT;
    if (!uro_gid_equal(&msg->remote_gid, &route->local) ||
        (msg->value[URO_CM_PKEY] & PKEY_DEFAULT) != PKEY_DEFAULT) /* same reason as Linux */
        return URO_CONN_REJ_BAD_GID;
    if (mtu == 0 || mtu > MTU_MOST || mtu > cm->config.path_mtu)
        return URO_CONN_REJ_BAD_MTU;
    return is_stale(cm, route, msg) ? URO_CONN_REJ_STALE : 0;
}

static void receive_req(struct uro_cm *cm, const struct uro_cm_route *route,
                        const struct uro_cm_msg *msg)
{
    uint64_t guid = msg->value[URO_CM_CA_GUID];
    uint32_t peer_id = (uint32_t)msg->value[URO_CM_LOCAL_ID];
    struct uro_conn *conn = uro_conn_by_peer(cm, guid, peer_id);
    enum uro_qp_type type;

    if (conn != NULL) {
        repeat(conn, msg);
        return;
    }
    unsigned reason = judge_req(cm, route, msg, &type);
    struct uro_listener *listener =
        uro_listen_find(cm, msg->value[URO_CM_SERVICE_ID], &route->local);
    if (reason == 0 && listener == NULL)
        reason = URO_CONN_REJ_BAD_SERVICE;
    if (reason == 0 && (conn = uro_conn_new(cm, route)) == NULL)
        reason = URO_CONN_REJ_NO_RESOURCES;
    if (reason == 0 && !uro_listen_take(listener, conn)) {
        uro_conn_free(conn);
        if (!uro_listen_overrun(listener)) {
            /* No answer, as in Linux: the peer retransmits the request, and a slot may then be
             * free. */
            uro_count(cm->counters, URO_COUNT_CM_DROP_BUSY);
            return;
        }
        reason = URO_CONN_REJ_NO_RESOURCES;
    }
    if (reason != 0) {
        URO_MARK("CM.REQ.JUDGE");
        refuse(cm, route, msg, reason);
        return;
    }
    read_req(conn, msg);
    conn->local.type = conn->peer.type = type;
    conn->state = URO_CONN_REQ_RECEIVED;
    uro_conn_set_peer(conn, guid, peer_id, conn->peer.qpn);
    uro_conn_raise(conn, URO_CONN_REQUEST, 0);
}

/* ---- the answers --------------------------------------------------------------------------- */

static void read_rep(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    const uint64_t *value = msg->value;
    bool xrc = conn->local.type == URO_QPT_XRC_INI;

    conn->peer_psn = (uint32_t)value[URO_CM_STARTING_PSN];
    conn->peer.qpn = (uint32_t)value[xrc ? URO_CM_LOCAL_EECN : URO_CM_LOCAL_QPN];
    conn->peer.responder_resources = (uint8_t)value[URO_CM_RESPONDER_RESOURCES];
    conn->peer.initiator_depth = (uint8_t)value[URO_CM_INITIATOR_DEPTH];
    conn->peer.flow_control = (uint8_t)value[URO_CM_FLOW_CONTROL];
    conn->peer.rnr_retry_count = (uint8_t)value[URO_CM_RNR_RETRY_COUNT];
    conn->peer.srq = value[URO_CM_SRQ] != 0;
    keep_data(conn, msg);
}

static void receive_rep(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    if (conn->state == URO_CONN_REQ_SENT) {
        read_rep(conn, msg);
        uro_conn_stop_retransmit(conn);
        uro_conn_set_peer(conn, msg->value[URO_CM_CA_GUID], (uint32_t)msg->value[URO_CM_LOCAL_ID],
                          conn->peer.qpn);
        conn->state = URO_CONN_REP_RECEIVED;
        uro_conn_raise(conn, URO_CONN_RESPONSE, 0);
    } else if (conn->state == URO_CONN_REP_RECEIVED) {
        URO_MARK("CM.REP.AGAIN");
        uro_conn_send_mra(conn, URO_CONN_ABOUT_REP);
    } else if (conn->state == URO_CONN_ESTABLISHED) {
        URO_MARK("CM.RTU.AGAIN");
        uro_conn_send_simple(conn, URO_CM_RTU);
    } else {
        unexpected(conn->cm);
    }
}

static void receive_rtu(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    if (conn->state != URO_CONN_REP_SENT) {
        unexpected(conn->cm);
        return;
    }
    URO_MARK("CM.RTU");
    keep_data(conn, msg);
    uro_conn_stop_retransmit(conn);
    conn->state = URO_CONN_ESTABLISHED;
    uro_conn_raise(conn, URO_CONN_CONFIRMED, 0);
}

/* Handles an MRA: the peer needs time, so the next retransmission is delayed. Only one MRA for each
 * copy of our message has an effect, so that a peer cannot delay the retransmission for ever. */
static void receive_mra(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    uint8_t service = (uint8_t)msg->value[URO_CM_SERVICE_TIMEOUT];

    if ((conn->state != URO_CONN_REQ_SENT && conn->state != URO_CONN_REP_SENT) || conn->extended) {
        unexpected(conn->cm);
        return;
    }
    URO_MARK("CM.MRA");
    conn->extended = true;
    uro_list_remove(&conn->send_link);
    uro_wheel_arm(&conn->cm->wheel, &conn->timer,
                  conn->cm->now + uro_conn_time(service) + uro_conn_time(conn->ack_timeout));
}

static void receive_rej(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    int reason = (int)msg->value[URO_CM_REASON];
    enum uro_conn_state state = conn->state;

    if (state != URO_CONN_REQ_SENT && state != URO_CONN_REQ_RECEIVED &&
        state != URO_CONN_REP_SENT && state != URO_CONN_REP_RECEIVED &&
        state != URO_CONN_ESTABLISHED) {
        unexpected(conn->cm);
        return;
    }
    URO_MARK("CM.REJ");
    keep_data(conn, msg);
    uro_conn_raise(conn, state == URO_CONN_ESTABLISHED ? URO_CONN_DISCONNECTED : URO_CONN_REJECTED,
                   reason);
    uro_conn_end(conn);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Answers a DREQ, also for an unknown connection, so that the peer can finish. */
static void send_drep(struct uro_cm *cm, const struct uro_cm_route *route,
                      const struct uro_cm_msg *dreq)
{
    struct uro_cm_msg msg = { .kind = URO_CM_DREP, .tid = dreq->tid };

    URO_MARK("CM.DREP");
    msg.value[URO_CM_LOCAL_ID] = dreq->value[URO_CM_REMOTE_ID];
    msg.value[URO_CM_REMOTE_ID] = dreq->value[URO_CM_LOCAL_ID];
    uro_conn_reply(cm, route, &msg);
}

static void receive_dreq(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    uint32_t qpn = (uint32_t)msg->value[URO_CM_REMOTE_QPN];

    if (qpn != conn->local.qpn && conn->local.qpn != 0) {
        unexpected(conn->cm);
        return;
    }
    if (conn->state == URO_CONN_REQ_SENT) { /* the peer accepted and disconnected, and the REP
                                               was lost */
        URO_MARK("CM.DREQ.EARLY");
        send_drep(conn->cm, &conn->route, msg);
        return;
    }
    if (conn->state == URO_CONN_TIMEWAIT || conn->state == URO_CONN_IDLE) {
        URO_MARK("CM.DREQ.AGAIN");
        send_drep(conn->cm, &conn->route, msg);
        return;
    }
    if (conn->state != URO_CONN_ESTABLISHED && conn->state != URO_CONN_REP_SENT &&
        conn->state != URO_CONN_REP_RECEIVED && conn->state != URO_CONN_DREQ_SENT) {
        unexpected(conn->cm);
        return;
    }
    if (conn->state == URO_CONN_DREQ_SENT)
        URO_MARK("CM.DREQ.BOTH");
    send_drep(conn->cm, &conn->route, msg);
    uro_conn_enter_timewait(conn);
    uro_conn_raise(conn, URO_CONN_DISCONNECTED, 0);
}

static void receive_drep(struct uro_conn *conn, const struct uro_cm_msg *msg)
{
    (void)msg;
    if (conn->state != URO_CONN_DREQ_SENT) {
        unexpected(conn->cm);
        return;
    }
    uro_conn_enter_timewait(conn);
    uro_conn_raise(conn, URO_CONN_DISCONNECTED, 0);
}

/* Refuses a LAP, because RoCE has no alternate paths. */
static void receive_lap(struct uro_conn *conn, const struct uro_cm_msg *lap)
{
    struct uro_cm_msg msg;

    URO_MARK("CM.LAP");
    uro_conn_message(conn, URO_CM_APR, &msg);
    msg.tid = lap->tid;
    msg.value[URO_CM_STATUS] = APR_UNSUPPORTED;
    uro_conn_reply(conn->cm, &conn->route, &msg);
}

/* ---- which connection ---------------------------------------------------------------------- */

/* Returns whether a message has the addresses of the connection and, once known, the peer's ID. */
static bool from_peer(const struct uro_conn *conn, const struct uro_cm_route *route,
                      const struct uro_cm_msg *msg)
{
    uint32_t id = (uint32_t)msg->value[URO_CM_LOCAL_ID];

    if (uro_gid_equal(&conn->route.remote, &route->remote) &&
        uro_gid_equal(&conn->route.local, &route->local) &&
        (conn->peer_id == 0 || conn->peer_id == id))
        return true;
    URO_MARK("CM.FROM");
    return false;
}

static uint64_t guid_of(const struct uro_cm_msg *rej)
{
    uint64_t guid = 0;

    for (unsigned i = 0; i < sizeof guid; i++)
        guid = guid << 8 | rej->info[i];
    return guid;
}

/* Finds the connection of a message. A peer that gave up its REQ never received our ID, so its REJ
 * has only the peer's own ID. */
static struct uro_conn *find(struct uro_cm *cm, const struct uro_cm_route *route,
                             const struct uro_cm_msg *msg)
{
    struct uro_conn *conn = uro_conn_by_id(cm, (uint32_t)msg->value[URO_CM_REMOTE_ID]);

    if (conn == NULL && msg->kind == URO_CM_REJ &&
        msg->value[URO_CM_REASON] == URO_CONN_REJ_TIMEOUT) {
        URO_MARK("CM.REJ.TIMEOUT");
        conn = uro_conn_by_peer(cm, guid_of(msg), (uint32_t)msg->value[URO_CM_LOCAL_ID]);
    }
    return conn != NULL && from_peer(conn, route, msg) ? conn : NULL;
}

static void receive_stray(struct uro_cm *cm, const struct uro_cm_route *route,
                          const struct uro_cm_msg *msg)
{
    URO_MARK("CM.STRAY");
    uro_count(cm->counters, URO_COUNT_CM_DROP_UNEXPECTED);
    const struct uro_conn_rej rej = { .tid = msg->tid,
                                      .local_id = (uint32_t)msg->value[URO_CM_REMOTE_ID],
                                      .peer_id = (uint32_t)msg->value[URO_CM_LOCAL_ID],
                                      .message = URO_CONN_ABOUT_REP,
                                      .reason = URO_CONN_REJ_BAD_ID };
    if (msg->kind == URO_CM_DREQ)
        send_drep(cm, route, msg);
    else if (msg->kind == URO_CM_REP)
        uro_conn_send_rej(cm, route, &rej);
}

typedef void handler(struct uro_conn *conn, const struct uro_cm_msg *msg);

void uro_conn_receive(struct uro_cm *cm, const struct uro_cm_route *route,
                      const struct uro_cm_msg *msg)
{
    static handler *const handlers[URO_CM_KIND_COUNT] = {
        [URO_CM_MRA] = receive_mra, [URO_CM_REJ] = receive_rej,   [URO_CM_REP] = receive_rep,
        [URO_CM_RTU] = receive_rtu, [URO_CM_DREQ] = receive_dreq, [URO_CM_DREP] = receive_drep,
        [URO_CM_LAP] = receive_lap,
    };

    if (msg->kind == URO_CM_REQ) {
        receive_req(cm, route, msg);
        return;
    }
    struct uro_conn *conn = find(cm, route, msg);
    if (conn == NULL) {
        receive_stray(cm, route, msg);
        return;
    }
    if (!uro_conn_can_receive(conn)) {
        URO_MARK("CM.BUSY");
        uro_count(cm->counters, URO_COUNT_CM_DROP_BUSY);
        return;
    }
    if (handlers[msg->kind] != NULL)
        handlers[msg->kind](conn, msg);
    else
        unexpected(cm);
}

/* ---- time ---------------------------------------------------------------------------------- */

/* Fails a connection after all retransmissions were unanswered. */
static void give_up(struct uro_conn *conn)
{
    URO_MARK("CM.TIMEOUT");
    if (conn->state == URO_CONN_DREQ_SENT) { /* the connection has ended anyway */
        uro_conn_enter_timewait(conn);
        uro_conn_raise(conn, URO_CONN_DISCONNECTED, 0);
        return;
    }
    const struct uro_conn_rej rej = { .tid = conn->tid,
                                      .local_id = conn->node.number,
                                      .peer_id = conn->peer_id,
                                      .message =
                                          conn->active ? URO_CONN_ABOUT_OTHER : URO_CONN_ABOUT_REQ,
                                      .reason = URO_CONN_REJ_TIMEOUT };
    if (conn->state != URO_CONN_SIDR_REQ_SENT)
        uro_conn_send_rej(conn->cm, &conn->route, &rej);
    uro_conn_raise(conn, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    uro_conn_end(conn);
}

void uro_cm_undelivered(struct uro_cm *cm, const struct uro_gid *remote, const uint8_t *quoted,
                        uint32_t length, uro_time now)
{
    const uint32_t compared = length < URO_MAD_LEN ? length : URO_MAD_LEN;

    /* An attacker cannot guess the transaction and the ID, so the quote must have both. */
    if (length < URO_CM_OWN_ID_END)
        return;
    struct uro_conn *conn = uro_conn_by_id(cm, uro_cm_own_id(quoted));
    if (conn == NULL ||
        (conn->state != URO_CONN_REQ_SENT && conn->state != URO_CONN_SIDR_REQ_SENT) ||
        !uro_gid_equal(&conn->route.remote, remote) || memcmp(conn->mad, quoted, compared) != 0)
        return;
    cm->now = now;
    if (conn->undelivered)
        return;
    conn->undelivered = true;
    if (++conn->undelivered_count < URO_CM_UNDELIVERED_MAX) {
        uro_wheel_cancel(&cm->wheel, &conn->timer);
        uro_wheel_arm(&cm->wheel, &conn->timer, now + URO_CM_UNDELIVERED_AGAIN);
        return;
    }
    uro_conn_raise(conn, URO_CONN_UNREACHABLE, -ETIMEDOUT);
    uro_conn_end(conn);
}

void uro_conn_on_timer(struct uro_conn *conn)
{
    if (conn->state == URO_CONN_TIMEWAIT || conn->state == URO_CONN_SIDR_ANSWERED) {
        if (conn->state == URO_CONN_TIMEWAIT)
            uro_conn_raise(conn, URO_CONN_TIMEWAIT_EXIT, 0);
        uro_conn_end(conn);
        return;
    }
    const bool undelivered = conn->undelivered;
    conn->undelivered = false;
    if (conn->retries_left == 0 && !undelivered) {
        give_up(conn);
        return;
    }
    URO_MARK("CM.RETRY");
    if (conn->state == URO_CONN_SIDR_REQ_SENT)
        URO_MARK("CM.SIDR.RETRY");
    uro_count(conn->cm->counters, URO_COUNT_CM_RETRIES);
    uro_conn_send(conn, conn->interval, conn->retries_left - !undelivered);
}
