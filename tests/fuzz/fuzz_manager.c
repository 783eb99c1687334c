/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_manager.c - see fuzz_manager.h. */
#include "fuzz_manager.h"

#include <string.h>

#include "wire/cm_msg.h"
#include "wire/frame.h"

#define SERVICE 0x1060001u

void fuzz_manager_open(struct managed *managed, struct stage *stage)
{
    *managed = (struct managed){ .count = 0 };
    stage_check(uroce_listener_create(stage->engine, SERVICE, -1, 4, NULL, &managed->listener) ==
                0);
}

static void let_go(struct managed *managed, const struct stage *stage, uint32_t index)
{
    stage_check(uroce_conn_close(managed->conns[index], stage->now) == 0);
    managed->conns[index] = managed->conns[--managed->count];
}

void fuzz_manager_close(struct managed *managed, struct stage *stage)
{
    fuzz_manager_listen(managed, stage);
    while (managed->count > 0)
        let_go(managed, stage, 0);
    stage_check(uroce_listener_destroy(managed->listener) == 0);
    stage_output(stage);
}

static void keep(struct managed *managed, const struct stage *stage, struct uroce_conn *conn)
{
    if (managed->count == MANAGED_CONNS)
        stage_check(uroce_conn_close(conn, stage->now) == 0);
    else
        managed->conns[managed->count++] = conn;
}

void fuzz_manager_listen(struct managed *managed, struct stage *stage)
{
    struct uroce_conn_event event;

    while (uroce_conn_event(stage->engine, &event) == 1)
        if (event.kind == UROCE_CONN_REQUEST)
            keep(managed, stage, event.conn);
}

/* Fills in fields that fit the connection of a sent message, or a new connection. */
static void describe(struct uro_cm_msg *msg, const struct stage_ids *ids)
{
    msg->value[URO_CM_LOCAL_ID] = ids != NULL && ids->remote != 0 ? ids->remote : 7;
    msg->value[URO_CM_REMOTE_ID] = ids != NULL ? ids->local : 0;
    msg->value[URO_CM_REQUEST_ID] = ids != NULL ? ids->local : 7;
    msg->value[URO_CM_SERVICE_ID] = SERVICE;
    msg->value[URO_CM_CA_GUID] = 2;
    msg->value[URO_CM_LOCAL_QPN] = STAGE_PEER;
    msg->value[URO_CM_PATH_MTU] = 1;
    msg->value[URO_CM_PKEY] = 0xffff;
    msg->value[URO_CM_MAX_RETRIES] = 3;
    msg->remote_gid = stage_gid;
    msg->local_gid = stage_peer_gid;
}

/* Returns the IDs of the message that was sent @back messages ago, or NULL. */
static const struct stage_ids *ids_of(const struct stage *stage, uint8_t back)
{
    return back < STAGE_IDS && back < stage->id_count
               ? &stage->ids[(stage->id_count - 1 - back) % STAGE_IDS]
               : NULL;
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

    (void)managed;
    if (length < 2)
        return;
    struct uro_cm_msg msg = { .kind = (enum uro_cm_kind)(octets[0] % URO_CM_KIND_COUNT),
                              .tid = octets[1] };
    describe(&msg, ids_of(stage, octets[1]));
    msg.value[URO_CM_REMOTE_QPN] = uroce_qp_number(stage->qps[STAGE_RC]);
    for (uint32_t i = 2; i + 1 < length; i += 2)
        msg.value[octets[i] % URO_CM_FIELD_COUNT] = octets[i + 1] * UINT64_C(0x0101010101010101);
    uro_bth_encode(body, &bth);
    uro_deth_encode(body + URO_BTH_LEN, &deth);
    uro_cm_encode(body + URO_BTH_LEN + URO_DETH_LEN, &msg);
    stage_packet(stage, body, sizeof body, &stage_gid);
}

static void connect_out(struct managed *managed, struct stage *stage, uint8_t how)
{
    struct uroce_conn_target target = { .address = { .sgid_index = 1 },
                                        .service_id = SERVICE,
                                        .path_mtu = 256,
                                        .ack_timeout = 14,
                                        .response_timeout = 12,
                                        .retries = how & 15 };
    const struct uroce_conn_param param = { .type = (enum uroce_qp_type)(how % STAGE_QPS),
                                            .qpn = uroce_qp_number(stage->qps[STAGE_RC]) };
    const struct uro_gid *remote = how & 1 ? &stage_gid : &stage_peer_gid;
    struct uroce_conn *conn;

    memcpy(target.address.gid, remote->octets, UROCE_GID_SIZE);
    if (uroce_conn_connect(stage->engine, &target, &param, NULL, stage->now, &conn) == 0)
        keep(managed, stage, conn);
}

/* Modifies the queue pair as the connection demands. */
static void apply(const struct uroce_conn *conn, struct stage *stage, uint8_t which)
{
    static const enum uroce_qp_state states[3] = { UROCE_INIT, UROCE_RTR, UROCE_RTS };
    struct uroce_qp_attr attr;
    unsigned mask;

    if (uroce_conn_attr(conn, states[which % 3], &attr, &mask) == 0)
        (void)!uroce_qp_modify(stage->qps[stage->chosen], &attr, mask, stage->now);
}

void fuzz_manager_act(struct managed *managed, struct stage *stage, uint8_t argument)
{
    const uint8_t which = argument >> 3;
    struct uroce_conn *conn = managed->count > 0 ? managed->conns[which % managed->count] : NULL;
    struct uroce_conn_param param;

    if ((argument & 7) == 0 || conn == NULL) {
        connect_out(managed, stage, which);
        return;
    }
    stage_check(uroce_conn_peer(conn, &param) == 0);
    param = (struct uroce_conn_param){ .type = param.type,
                                       .qpn = uroce_qp_number(stage->qps[STAGE_RC]) };
    switch (argument & 7) {
    case 1:
        (void)!uroce_conn_accept(conn, &param, NULL, stage->now);
        break;
    case 2:
        (void)!uroce_conn_reject(conn, UROCE_REJECT_CONSUMER, NULL, 0, stage->now);
        break;
    case 3:
        (void)!uroce_conn_confirm(conn, stage->now);
        break;
    case 4:
        (void)!uroce_conn_disconnect(conn, stage->now);
        break;
    case 5:
        apply(conn, stage, which);
        break;
    case 6:
        (void)!uroce_conn_established(conn, stage->now);
        break;
    default:
        let_go(managed, stage, which % managed->count);
        break;
    }
}
