/* SPDX-License-Identifier: BSD-3-Clause */
/* attr.c - returns the attributes with which a program moves the queue pair of an identifier to a
 * state. */
#include <errno.h>

#include <infiniband/verbs.h>

#include "core/limits.h"
#include "ucma/cm_event.h"

#define PORT 1u

/* Returns @wanted, or the limit of the device if it is lower. */
static uint8_t bounded(const struct uro_id *id, enum uro_card_number number, uint8_t wanted)
{
    const uint64_t most =
        uro_card_limit(&uro_device_config(id->device)->card, number, URO_RD_ATOMIC_MAX);

    return wanted < most ? wanted : (uint8_t)most;
}

static void from_conn(const struct uro_id *id, const struct uro_qp_attr *attr,
                      struct ib_uverbs_qp_attr *out)
{
    out->qp_access_flags = attr->access;
    out->rq_psn = attr->rq_psn;
    out->sq_psn = attr->sq_psn;
    out->dest_qp_num = attr->dest_qpn;
    out->max_rd_atomic = bounded(id, URO_CARD_MAX_QP_INIT_RD_ATOM, attr->max_rd_atomic);
    out->max_dest_rd_atomic = bounded(id, URO_CARD_MAX_QP_RD_ATOM, attr->max_dest_rd_atomic);
    out->min_rnr_timer = attr->min_rnr_timer;
    out->timeout = attr->timeout;
    out->retry_cnt = attr->retry_count;
    out->rnr_retry = attr->rnr_retry;
    if (attr->path_mtu != 0)
        out->path_mtu = uro_conn_mtu_code(attr->path_mtu);
    uro_cm_event_path(id, &id->conn->route.remote, &out->ah_attr);
}

/* Fills in the attributes of an identifier for datagrams, or of an identifier without a
 * connection. */
static void plain(const struct uro_id *id, struct ib_uverbs_qp_attr *out)
{
    out->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (id->qp_type == IBV_QPT_UD) {
        out->qp_attr_mask |= IBV_QP_QKEY;
        out->qkey = id->qkey;
    } else {
        out->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
    }
}

static int find_out(const struct uro_id *id, struct ib_uverbs_qp_attr *out)
{
    struct uro_qp_attr attr = { .state = (enum uro_qp_state)out->qp_state };
    unsigned mask;

    if (id->device == NULL)
        return -EINVAL;
    out->port_num = PORT;
    if (id->conn == NULL || id->qp_type == IBV_QPT_UD) {
        plain(id, out);
        return 0;
    }
    int error = uro_conn_qp_attr(id->conn, &attr, &mask);
    if (error != 0)
        return error;
    out->qp_attr_mask = mask;
    from_conn(id, &attr, out);
    if ((mask & IBV_QP_TIMEOUT) && id->ack_timeout_set)
        out->timeout = id->ack_timeout;
    return 0;
}

int uro_attr_init_qp(struct uro_channel *channel, const void *command, uint32_t reply_size)
{
    const struct rdma_ucm_init_qp_attr *in = command;
    struct ib_uverbs_qp_attr out = { .qp_state = in->qp_state };
    struct uro_id *id;

    if (reply_size < sizeof out)
        return -ENOSPC;
    if (in->qp_state > IBV_QPS_ERR)
        return -EINVAL;
    int error = uro_id_find(channel, in->id, &id);
    if (error != 0)
        return error;
    uro_id_lock(id);
    error = find_out(id, &out);
    uro_id_unlock(id);
    return error != 0 ? error
                      : uro_reply(&(struct uro_reply){ in->response, reply_size }, &out, sizeof out,
                                  sizeof out);
}
