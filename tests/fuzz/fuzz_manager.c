/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_manager.c - see fuzz_manager.h. */
#include "fuzz_manager.h"

#include <string.h>

#include "wire/frame.h"

#define SERVICE 0x1060001u

void fuzz_manager_open(struct managed *managed, struct stage *stage)
{
    *managed = (struct managed){ .listener = {
                                     .service_id = SERVICE, .any_address = true, .backlog = 4 } };
    stage_check(uro_conn_listen(uro_engine_cm(stage->engine), &managed->listener) == 0);
}

static void let_go(struct managed *managed, const struct stage *stage, uint32_t index)
{
    uro_conn_close(managed->conns[index], stage->now);
    managed->conns[index] = managed->conns[--managed->count];
}

void fuzz_manager_close(struct managed *managed, struct stage *stage)
{
    while (managed->count > 0)
        let_go(managed, stage, 0);
    uro_conn_unlisten(uro_engine_cm(stage->engine), &managed->listener);
    stage_output(stage);
}

static void keep(struct managed *managed, const struct stage *stage, struct uro_conn *conn)
{
    if (managed->count == MANAGED_CONNS)
        uro_conn_close(conn, stage->now);
    else
        managed->conns[managed->count++] = conn;
}

void fuzz_manager_listen(struct managed *managed, struct stage *stage)
{
    struct uro_conn_event event;

    while (uro_conn_event(uro_engine_cm(stage->engine), &event))
        if (event.kind == URO_CONN_REQUEST)
            keep(managed, stage, event.conn);
}

/* Fills in fields that fit a connection of the application, or a new connection. */
static void describe(struct uro_cm_msg *msg, const struct uro_conn *conn)
{
    msg->value[URO_CM_LOCAL_ID] = conn != NULL && conn->peer_id != 0 ? conn->peer_id : 7;
    msg->value[URO_CM_REMOTE_ID] = conn != NULL ? conn->node.number : 0;
    msg->value[URO_CM_REQUEST_ID] = conn != NULL ? conn->node.number : 7;
    msg->value[URO_CM_SERVICE_ID] = SERVICE;
    msg->value[URO_CM_CA_GUID] = 2;
    msg->value[URO_CM_LOCAL_QPN] = STAGE_PEER;
    msg->value[URO_CM_REMOTE_QPN] = conn != NULL ? conn->local.qpn : 0;
    msg->value[URO_CM_PATH_MTU] = 1;
    msg->value[URO_CM_PKEY] = 0xffff;
    msg->value[URO_CM_MAX_RETRIES] = 3;
    msg->remote_gid = stage_gid;
    msg->local_gid = stage_peer_gid;
}

void fuzz_manager_message(struct managed *managed, struct stage *stage, const uint8_t *octets,
                          uint32_t length)
{
    uint8_t body[URO_BTH_LEN + URO_DETH_LEN + URO_MAD_LEN];
    const struct uro_deth deth = { .qkey = URO_CM_QKEY, .source_qpn = URO_CM_MAD_QPN };
    const struct uro_bth bth = { .opcode = (uint8_t)uro_opcode_find(URO_UD, URO_REQUEST, URO_SEND,
                                                                    URO_ONLY, 0),
                                 .pkey = 0xffff,
                                 .dest_qpn = URO_CM_MAD_QPN };

    if (length < 2)
        return;
    struct uro_cm_msg msg = { .kind = (enum uro_cm_kind)(octets[0] % URO_CM_KIND_COUNT),
                              .tid = octets[1] };
    describe(&msg, octets[1] < managed->count ? managed->conns[octets[1]] : NULL);
    for (uint32_t i = 2; i + 1 < length; i += 2)
        msg.value[octets[i] % URO_CM_FIELD_COUNT] = octets[i + 1] * UINT64_C(0x0101010101010101);
    uro_bth_encode(body, &bth);
    uro_deth_encode(body + URO_BTH_LEN, &deth);
    uro_cm_encode(body + URO_BTH_LEN + URO_DETH_LEN, &msg);
    stage_packet(stage, body, sizeof body, &stage_gid);
}

static void connect_out(struct managed *managed, struct stage *stage, uint8_t how)
{
    const struct uro_conn_target target = {
        .route = { .local = stage_gid,
                   .remote = how & 1 ? stage_gid : stage_peer_gid,
                   .hop_limit = 64 },
        .service_id = SERVICE,
        .path_mtu = 1,
        .ack_timeout = 14,
        .response_timeout = 12,
        .retries = how & 15,
    };
    const struct uro_conn_param param = { .type = (enum uro_qp_type)(how % URO_QPT_COUNT),
                                          .qpn = uro_qp_number(stage->qps[STAGE_RC]) };
    struct uro_conn *conn;

    if (uro_conn_connect(uro_engine_cm(stage->engine), &target, &param, stage->now, &conn) == 0)
        keep(managed, stage, conn);
}

/* Modifies the queue pair as the connection demands. */
static void apply(const struct uro_conn *conn, struct stage *stage, uint8_t which)
{
    static const enum uro_qp_state states[3] = { URO_QPS_INIT, URO_QPS_RTR, URO_QPS_RTS };
    struct uro_qp_attr attr = { .state = states[which % 3] };
    unsigned mask;

    if (uro_conn_qp_attr(conn, &attr, &mask) != 0)
        return;
    (void)!uro_engine_qp_modify(stage->engine, stage->qps[stage->chosen], &attr, mask, stage->now);
}

void fuzz_manager_act(struct managed *managed, struct stage *stage, uint8_t argument)
{
    const uint8_t which = argument >> 3;
    struct uro_conn *conn = managed->count > 0 ? managed->conns[which % managed->count] : NULL;

    if ((argument & 7) == 0 || conn == NULL) {
        connect_out(managed, stage, which);
        return;
    }
    const struct uro_conn_param param = { .type = conn->peer.type,
                                          .qpn = uro_qp_number(stage->qps[STAGE_RC]) };
    switch (argument & 7) {
    case 1:
        (void)!uro_conn_accept(conn, &param, stage->now);
        break;
    case 2:
        (void)!uro_conn_reject(conn, URO_CONN_REJ_CONSUMER, NULL, 0, stage->now);
        break;
    case 3:
        (void)!uro_conn_confirm(conn, stage->now);
        break;
    case 4:
        (void)!uro_conn_disconnect(conn, stage->now);
        break;
    case 5:
        apply(conn, stage, which);
        break;
    case 6:
        uro_conn_noticed(conn);
        break;
    default:
        let_go(managed, stage, which % managed->count);
        break;
    }
}
