/* SPDX-License-Identifier: BSD-3-Clause */
/* connect.c - handles the commands on connections by calls of the connection manager in lib/cm. */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "cm/ip_cm.h"
#include "ucma/command.h"

#define QPN_MASK         0xffffffu
#define RESPONSE_TIMEOUT 20u /* 4.096 us * 2^20: 4.3 s */
#define RETRIES          15u
#define HOP_LIMIT        64u
#define ACK_TIMEOUT      17u /* 0.5 s: for an ACK delay of 15 and twice a packet lifetime of 16 */
#define ACK_DELAY        15u
#define ACK_TIMEOUT_MOST 31u

/* Returns the ACK timeout code. The option ACK_TIMEOUT is a packet's lifetime plus one, and the
 * timeout must also cover the peer's delay. 0 disables the timer of the queue pair, but not the
 * timers of CM messages. */
static uint8_t ack_timeout(const struct uro_id *id)
{
    unsigned timeout = id->ack_timeout;

    if (timeout == 0)
        return ACK_TIMEOUT;
    if (timeout >= ACK_DELAY)
        timeout += ACK_DELAY >= timeout - 1;
    else
        timeout = ACK_DELAY + (timeout >= ACK_DELAY - 1);
    return (uint8_t)(timeout < ACK_TIMEOUT_MOST ? timeout : ACK_TIMEOUT_MOST);
}

static enum uro_qp_type type_of(const struct uro_id *id)
{
    switch (id->qp_type) {
    case IBV_QPT_UC:
        return URO_QPT_UC;
    case IBV_QPT_UD:
        return URO_QPT_UD;
    case IBV_QPT_XRC_SEND:
        return URO_QPT_XRC_INI;
    case IBV_QPT_XRC_RECV:
        return URO_QPT_XRC_TGT;
    default:
        return URO_QPT_RC;
    }
}

/* Reads private data. Returns false if it is too long for any message. */
static bool read_data(struct uro_conn_param *param, uint32_t start,
                      const struct rdma_ucm_conn_param *in)
{
    if (start + in->private_data_len > sizeof param->data)
        return false;
    memcpy(param->data + start, in->private_data, in->private_data_len);
    param->data_length = start + in->private_data_len;
    return true;
}

static uint8_t at_most_7(uint8_t count)
{
    return count < 7 ? count : 7;
}

/* Returns the Q_Key. Only AF_IB lets the program choose it. */
static uint32_t qkey_of(const struct uro_id *id, const struct rdma_ucm_conn_param *in)
{
    return id->source.any.sa_family == AF_IB && in->qkey != 0 ? in->qkey : id->qkey;
}

static struct uro_conn_param read_param(const struct uro_id *id,
                                        const struct rdma_ucm_conn_param *in)
{
    return (struct uro_conn_param){ .type = type_of(id),
                                    .qpn = in->qp_num & QPN_MASK,
                                    .qkey = qkey_of(id, in),
                                    .responder_resources = in->responder_resources,
                                    .initiator_depth = in->initiator_depth,
                                    .flow_control = in->flow_control,
                                    .retry_count = at_most_7(in->retry_count),
                                    .rnr_retry_count = at_most_7(in->rnr_retry_count),
                                    .srq = in->srq != 0 };
}

/* ---- the active side ----------------------------------------------------------------------- */

static struct uro_conn_target target_of(struct uro_id *id)
{
    return (struct uro_conn_target){
        .route = { .local = uro_id_local(id),
                   .remote = id->remote,
                   .sgid_index = id->sgid_index,
                   .hop_limit = HOP_LIMIT,
                   .traffic_class = id->tos },
        .service_id = uro_ip_cm_service(id->port_space, uro_sock_port(&id->dest)),
        .path_mtu = uro_id_path_mtu(id),
        .ack_timeout = ack_timeout(id),
        .response_timeout = RESPONSE_TIMEOUT,
        .retries = RETRIES,
        .user = id,
    };
}

/* Writes the header with the addresses for the peer's program. AF_IB has them in the message
 * itself. */
static uint32_t put_header(const struct uro_id *id, struct uro_conn_param *param)
{
    const struct uro_ip_cm header = { .source = uro_sock_gid(&id->source),
                                      .dest = uro_sock_gid(&id->dest),
                                      .source_port = uro_sock_port(&id->source) };

    if (id->source.any.sa_family == AF_IB)
        return 0;
    uro_ip_cm_encode(param->data, &header);
    return URO_IP_CM_LEN;
}

static int start(struct uro_id *id, const struct rdma_ucm_conn_param *in)
{
    if (id->state != URO_ID_ROUTED)
        return -EINVAL;
    const struct uro_conn_target target = target_of(id);
    struct uro_conn_param param = read_param(id, in);
    if (!read_data(&param, put_header(id, &param), in))
        return -EINVAL;
    id->began = uro_device_now();
    int error = uro_conn_connect(uro_engine_cm(uro_device_engine(id->device)), &target, &param,
                                 id->began, &id->conn);
    if (error == -ENOMEM)
        uro_quota_check_bounds(id->device);
    if (error == 0)
        id->state = URO_ID_CONNECTING;
    return error;
}

int uro_connect_start(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_connect *in = command;
    struct uro_id *id;

    (void)reply_size;
    if (!in->conn_param.valid)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    if (error != 0)
        return error;
    uro_id_lock(id);
    error = start(id, &in->conn_param);
    uro_id_unlock(id);
    return error;
}

/* ---- both sides ---------------------------------------------------------------------------- */

/* Accepts a request if the command has parameters, otherwise a response. */
static int accept_either(struct uro_id *id, const struct rdma_ucm_accept *in)
{
    struct uro_conn_param param = read_param(id, &in->conn_param);
    uint64_t before = id->uid;

    if (id->conn == NULL)
        return -EINVAL;
    if (!in->conn_param.valid)
        return uro_conn_confirm(id->conn, uro_device_now());
    if (!read_data(&param, 0, &in->conn_param))
        return -EINVAL;
    id->uid = in->uid;
    id->began = uro_device_now();
    int error = uro_conn_accept(id->conn, &param, id->began);
    if (error != 0)
        id->uid = before;
    return error;
}

int uro_connect_accept(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_accept *in = command;
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    (void)reply_size;
    if (error != 0)
        return error;
    uro_id_lock(id);
    error = accept_either(id, in);
    uro_id_unlock(id);
    return error;
}

int uro_connect_reject(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_reject *in = command;
    struct uro_id *id;
    unsigned reason = in->reason == 0 ? URO_CONN_REJ_CONSUMER : in->reason;

    (void)reply_size;
    if (reason != URO_CONN_REJ_CONSUMER && reason != URO_CONN_REJ_VENDOR_OPTION)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    if (error != 0)
        return error;
    uro_id_lock(id);
    error = id->conn == NULL ? -EINVAL
                             : uro_conn_reject(id->conn, reason, in->private_data,
                                               in->private_data_len, uro_device_now());
    uro_id_unlock(id);
    return error;
}

/* Reports no error if the connection has ended already, since the peer may have been faster. */
int uro_connect_disconnect(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_disconnect *in = command;
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    (void)reply_size;
    if (error != 0)
        return error;
    uro_id_lock(id);
    error = id->conn == NULL ? -EINVAL : 0;
    if (error == 0)
        (void)!uro_conn_disconnect(id->conn, uro_device_now());
    uro_id_unlock(id);
    return error;
}

static int establish_early(struct uro_id *id, uint32_t event)
{
    if (id->conn == NULL || event != IBV_EVENT_COMM_EST)
        return -EINVAL;
    if (id->conn->state == URO_CONN_ESTABLISHED)
        return -EISCONN;
    return uro_conn_data_arrived(id->conn, uro_device_now());
}

/* Handles NOTIFY: the program received data before the event that reports the connection. */
int uro_connect_notify(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_notify *in = command;
    struct uro_id *id;
    int error = uro_id_find(channel, in->id, &id);

    (void)reply_size;
    if (error != 0)
        return error;
    uro_id_lock(id);
    error = establish_early(id, in->event);
    uro_id_unlock(id);
    return error;
}
