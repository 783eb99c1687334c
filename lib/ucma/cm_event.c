/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_event.c - see cm_event.h for the contract. The thread that runs the round calls
 * conn_event() and resolved() with the engine lock held.
 *
 * Events of a connection that the program has not accepted yet are not reported. librdmacm has no
 * identifier for the connection, and the accept will fail.
 */
#include "ucma/cm_event.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "cm/ip_cm.h"
#include "ucma/connect_failure.h"
#include "ucma/newer.h"

#define PORT      1u
#define HOP_LIMIT 64u

int uro_cm_event_simple(struct uro_id *id, enum uro_cm_event_kind kind, int status)
{
    const struct rdma_ucm_event_resp event = { .event = kind, .status = (uint32_t)status };

    return uro_channel_raise(id, NULL, NULL, &event);
}

void uro_cm_event_path(const struct uro_id *id, const struct uro_gid *remote,
                       struct ib_uverbs_ah_attr *ah)
{
    const struct uro_conn *conn = id->conn;

    memset(ah, 0, sizeof *ah);
    memcpy(ah->grh.dgid, remote->octets, sizeof ah->grh.dgid);
    ah->grh.sgid_index =
        (uint8_t)uro_gid_index_shown(uro_device_config(id->device), id->sgid_index);
    ah->grh.hop_limit = HOP_LIMIT;
    ah->grh.traffic_class = id->tos;
    if (conn != NULL) {
        ah->grh.flow_label = conn->route.flow_label;
        ah->grh.hop_limit = conn->route.hop_limit;
        ah->grh.traffic_class = conn->route.traffic_class;
    }
    ah->is_global = 1;
    ah->port_num = PORT;
}

/* ---- data from the peer ---------------------------------------------------------------------- */

/* Returns the offset of the program's data. In a request, the header with the addresses comes
 * first. */
static uint32_t data_start(const struct uro_id *id, enum uro_conn_event_kind kind)
{
    return kind == URO_CONN_REQUEST && id->source.any.sa_family != AF_IB ? URO_IP_CM_LEN : 0;
}

static uint8_t copy_data(uint8_t *out, const struct uro_conn *conn, uint32_t start)
{
    uint32_t length = conn->peer.data_length > start ? conn->peer.data_length - start : 0;

    memcpy(out, conn->peer.data + start, length);
    return (uint8_t)length;
}

/* Fills in the parameters. The peer's responder resources are our initiator depth, and vice
 * versa. */
static void fill_conn(struct rdma_ucm_conn_param *out, const struct uro_conn *conn, uint32_t start)
{
    const struct uro_conn_param *peer = &conn->peer;

    out->qp_num = peer->qpn;
    out->private_data_len = copy_data(out->private_data, conn, start);
    out->srq = peer->srq;
    out->responder_resources = peer->initiator_depth;
    out->initiator_depth = peer->responder_resources;
    out->flow_control = peer->flow_control;
    out->retry_count = peer->retry_count;
    out->rnr_retry_count = peer->rnr_retry_count;
}

static void fill_ud(struct rdma_ucm_ud_param *out, const struct uro_id *id, uint32_t start)
{
    const struct uro_conn *conn = id->conn;

    out->qp_num = conn->peer.qpn;
    out->qkey = conn->peer.qkey;
    out->private_data_len = copy_data(out->private_data, conn, start);
    uro_cm_event_path(id, &conn->route.remote, &out->ah_attr);
}

static void fill(struct rdma_ucm_event_resp *event, const struct uro_id *id, uint32_t start)
{
    if (id->qp_type == IBV_QPT_UD)
        fill_ud(&event->param.ud, id, start);
    else
        fill_conn(&event->param.conn, id->conn, start);
}

/* ---- requests ------------------------------------------------------------------------------ */

static uint8_t type_of(const struct uro_conn *conn)
{
    static const uint8_t types[URO_QPT_COUNT] = {
        [URO_QPT_RC] = IBV_QPT_RC,
        [URO_QPT_UC] = IBV_QPT_UC,
        [URO_QPT_UD] = IBV_QPT_UD,
        [URO_QPT_XRC_INI] = IBV_QPT_XRC_SEND,
        [URO_QPT_XRC_TGT] = IBV_QPT_XRC_RECV,
    };

    return types[conn->peer.type];
}

/* Reads the addresses of a request to @listening. Returns false if the request has no addresses, or
 * a destination that is not the local address. */
/* rule CM.IP.JUDGE */
static bool read_addresses(const struct uro_id *listening, const struct uro_conn *conn,
                           struct uro_sock *source, struct uro_sock *dest)
{
    struct uro_ip_cm header = { .dest = conn->route.local, .source = conn->route.remote };
    int family = listening->source.any.sa_family == AF_IB ? AF_IB : 0;

    if (family != AF_IB && (!uro_ip_cm_decode(conn->peer.data, &header) ||
                            !uro_gid_equal(&header.dest, &conn->route.local)))
        return false;
    uro_sock_make(source, family, &header.dest, uro_sock_port(&listening->source));
    uro_sock_make(dest, family, &header.source, header.source_port);
    return true;
}

static struct uro_id *make(const struct uro_id *listening, struct uro_device *device,
                           struct uro_conn *conn)
{
    struct uro_sock source, dest;

    if (listening->qp_type != type_of(conn) || !read_addresses(listening, conn, &source, &dest))
        return NULL;
    struct uro_id *id = uro_id_new(listening->channel, 0, listening->port_space, type_of(conn));
    if (id == NULL)
        return NULL;
    id->state = URO_ID_CONNECTING;
    id->source = source;
    id->dest = dest;
    id->device = device;
    id->sgid_index = conn->route.sgid_index;
    id->remote = conn->route.remote;
    id->tos = conn->route.traffic_class;
    id->qkey = listening->qkey;
    id->conn = conn;
    conn->user = id;
    return id;
}

static void on_request(struct uro_device *device, struct uro_id *listening, struct uro_conn *conn)
{
    struct rdma_ucm_event_resp event = { .event = URO_CM_EVENT_CONNECT_REQUEST };
    struct uro_id *made = make(listening, device, conn);

    if (made == NULL) {
        uro_conn_close(conn, uro_device_now());
        return;
    }
    fill(&event, made, data_start(listening, URO_CONN_REQUEST));
    /* If memory runs out, the request is rejected. The identifier is destroyed with its channel. */
    if (uro_channel_raise(listening, made, NULL, &event) != 0) {
        made->conn = NULL;
        uro_conn_close(conn, uro_device_now());
    }
}

/* ---- event handlers ------------------------------------------------------------------------ */

static enum uro_cm_event_kind kind_of(const struct uro_id *id, enum uro_conn_event_kind kind)
{
    static const enum uro_cm_event_kind kinds[URO_CONN_EVENT_COUNT] = {
        [URO_CONN_RESPONSE] = URO_CM_EVENT_CONNECT_RESPONSE,
        [URO_CONN_CONFIRMED] = URO_CM_EVENT_ESTABLISHED,
        [URO_CONN_REJECTED] = URO_CM_EVENT_REJECTED,
        [URO_CONN_UNREACHABLE] = URO_CM_EVENT_UNREACHABLE,
        [URO_CONN_DISCONNECTED] = URO_CM_EVENT_DISCONNECTED,
        [URO_CONN_TIMEWAIT_EXIT] = URO_CM_EVENT_TIMEWAIT_EXIT,
    };

    if (id->qp_type == IBV_QPT_UD && kind == URO_CONN_RESPONSE)
        return URO_CM_EVENT_ESTABLISHED;
    if (id->qp_type == IBV_QPT_UD && kind == URO_CONN_REJECTED)
        return URO_CM_EVENT_UNREACHABLE;
    return kinds[kind];
}

static void conn_event(struct uro_device *device, const struct uro_conn_event *from)
{
    struct uro_id *id = from->user;

    if (from->kind == URO_CONN_REQUEST) {
        on_request(device, id, from->conn);
        return;
    }
    if (id->uid == 0)
        return;
    struct rdma_ucm_event_resp event = { .event = kind_of(id, from->kind),
                                         .status = (uint32_t)from->status };
    if (from->kind == URO_CONN_RESPONSE)
        fill(&event, id, 0);
    else if (from->kind == URO_CONN_REJECTED && id->qp_type == IBV_QPT_UD)
        event.param.ud.private_data_len = copy_data(event.param.ud.private_data, from->conn, 0);
    else if (from->kind == URO_CONN_REJECTED)
        event.param.conn.private_data_len = copy_data(event.param.conn.private_data, from->conn, 0);
    uro_connect_failure(device, id, from);
    (void)!uro_channel_raise(id, NULL, NULL, &event);
}

static void resolved(struct uro_device *device, struct uro_resolve *resolve)
{
    struct uro_id *id = resolve->user;
    bool known = resolve->status == 0;

    if (id->state != URO_ID_RESOLVING)
        return;
    id->state = known ? URO_ID_RESOLVED : URO_ID_BOUND;
    if (!known) {
        uro_engine_resolve_end(uro_device_engine(device), resolve);
        uro_resolve_failure(device, id);
    }
    (void)!uro_cm_event_simple(id, known ? URO_CM_EVENT_ADDR_RESOLVED : URO_CM_EVENT_ADDR_ERROR,
                               resolve->status);
}

const struct uro_conn_handlers uro_cm_event_handlers = { .conn_event = conn_event,
                                                         .resolved = resolved,
                                                         .removed = uro_remove_device,
                                                         .list = uro_id_list };

/* ---- events from the program ---------------------------------------------------------------- */

int uro_cm_event_write(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct uro_newer_write_cm_event *in = command;
    struct rdma_ucm_event_resp event = { .event = in->event, .status = in->status };
    struct uro_id *id;

    (void)reply_size;
    if (in->event != URO_CM_EVENT_USER && in->event != URO_CM_EVENT_INTERNAL)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    if (error != 0)
        return error;
    memcpy(&event.param, &in->param.argument, sizeof in->param.argument);
    return uro_channel_raise(id, NULL, NULL, &event);
}

/* ---- fetching ------------------------------------------------------------------------------ */

/* Lets the service threads run the engines if the program is about to sleep. */
static void hand_over(const struct uro_channel *channel)
{
    struct pollfd now = { .fd = uro_channel_fd(channel), .events = POLLIN };

    if (poll(&now, 1, 0) > 0)
        return;
    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++)
        if (uro_device_started(*device))
            uro_device_hand_over(*device);
}

/* Marks the new identifier as known to the program. */
static void mark_known(struct uro_id *made)
{
    made->known = true;
    uro_id_lock(made);
    if (made->conn != NULL)
        uro_conn_noticed(made->conn);
    uro_id_unlock(made);
}

int uro_cm_event_fetch(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_get_event *in = command;
    const size_t least = offsetof(struct rdma_ucm_event_resp, reserved);
    struct uro_channel_event *event;

    if (reply_size < least)
        return -ENOSPC;
    do {
        hand_over(channel);
        int error = uro_channel_wait(channel);
        if (error != 0)
            return error;
        uro_command_lock();
        event = uro_channel_take(channel);
        if (event != NULL && event->made != NULL)
            mark_known(event->made);
        uro_command_unlock();
    } while (event == NULL);
    int error = uro_reply(&(struct uro_reply){ in->response, reply_size }, &event->resp,
                          sizeof event->resp, least);
    free(event);
    return error;
}
