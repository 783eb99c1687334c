/* SPDX-License-Identifier: BSD-3-Clause */
/* conn.c - the functions of uroce/connection.h. */
#include <uroce/connection.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "embed/embed.h"

#define NUMBER_MAX   0xffffffu /* largest QPN */
#define RETRY_MAX    7u
#define EXPONENT_MAX 31u
#define RETRIES_MAX  15u

static_assert(UROCE_CONN_DATA_MAX == URO_CM_DATA_MAX,
              "the sizes of the longest private data are equal");
UROCE_SAME(UROCE_CONN_REQUEST, URO_CONN_REQUEST);
UROCE_SAME(UROCE_CONN_TIMEWAIT_EXIT, URO_CONN_TIMEWAIT_EXIT);
UROCE_SAME(UROCE_REJECT_NO_RESOURCES, URO_CONN_REJ_NO_RESOURCES);
UROCE_SAME(UROCE_REJECT_BAD_SERVICE, URO_CONN_REJ_BAD_SERVICE);
UROCE_SAME(UROCE_REJECT_CONSUMER, URO_CONN_REJ_CONSUMER);

static struct uro_cm *cm_of(const struct uroce_engine *engine)
{
    return uro_engine_cm(engine->engine);
}

/* Returns the address with a GID index, or NULL when there is none. */
static const struct uro_gid *own_address(const struct uroce_engine *engine, uint32_t sgid_index)
{
    const struct uro_shard_config *config = &uro_embed_shard(engine)->config;

    return sgid_index < config->gid_count ? &config->gids[sgid_index] : NULL;
}

/* ---- listening ---------------------------------------------------------- */

int uroce_listener_create(struct uroce_engine *engine, uint64_t service_id, int sgid_index,
                          uint32_t backlog, void *user, struct uroce_listener **listener)
{
    if (engine == NULL || listener == NULL || backlog == 0)
        return -EINVAL;
    const struct uro_gid *address =
        sgid_index >= 0 ? own_address(engine, (uint32_t)sgid_index) : NULL;
    if (sgid_index >= 0 && address == NULL)
        return -EINVAL;
    struct uroce_listener *made = uro_embed_memory(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    made->engine = engine;
    made->user = user;
    made->core = (struct uro_listener){
        .service_id = service_id, .any_address = address == NULL, .backlog = backlog, .user = made
    };
    if (address != NULL)
        made->core.address = *address;
    const int error = uro_conn_listen(cm_of(engine), &made->core);
    if (error != 0) {
        free(made);
        return error;
    }
    engine->users++;
    *listener = made;
    return 0;
}

int uroce_listener_destroy(struct uroce_listener *listener)
{
    if (listener == NULL)
        return -EINVAL;
    uro_conn_unlisten(cm_of(listener->engine), &listener->core);
    listener->engine->users--;
    free(listener);
    return 0;
}

/* ---- arguments ---------------------------------------------------------- */

static bool take_param(const struct uroce_conn_param *from, struct uro_conn_param *to)
{
    if (from == NULL || (unsigned)from->type > UROCE_XRC_TGT || from->qpn > NUMBER_MAX ||
        from->flow_control > 1 || from->retry_count > RETRY_MAX ||
        from->rnr_retry_count > RETRY_MAX || from->srq > 1 || from->reserved[0] != 0 ||
        from->reserved[1] != 0 || from->data_length > UROCE_CONN_DATA_MAX)
        return false;
    *to = (struct uro_conn_param){ .type = (enum uro_qp_type)from->type,
                                   .qpn = from->qpn,
                                   .qkey = from->qkey,
                                   .responder_resources = from->responder_resources,
                                   .initiator_depth = from->initiator_depth,
                                   .flow_control = from->flow_control,
                                   .retry_count = from->retry_count,
                                   .rnr_retry_count = from->rnr_retry_count,
                                   .srq = from->srq != 0,
                                   .data_length = from->data_length };
    memcpy(to->data, from->data, from->data_length);
    return true;
}

static bool is_path_mtu(uint32_t mtu)
{
    return mtu >= URO_PATH_MTU_MIN && mtu <= URO_PATH_MTU_MAX && (mtu & (mtu - 1)) == 0;
}

static bool is_clear(const struct uroce_conn_target *target)
{
    for (size_t i = 0; i < sizeof target->reserved; i++)
        if (target->reserved[i] != 0)
            return false;
    return true;
}

static bool take_target(const struct uroce_engine *engine, const struct uroce_conn_target *from,
                        struct uro_conn_target *to)
{
    if (from == NULL || !is_path_mtu(from->path_mtu) || from->ack_timeout > EXPONENT_MAX ||
        from->response_timeout > EXPONENT_MAX || from->retries > RETRIES_MAX || !is_clear(from))
        return false;
    const struct uro_address address = uro_embed_address(&from->address);
    const struct uro_gid *local = own_address(engine, address.sgid_index);
    if (local == NULL || uro_gid_is_ipv4(local) != uro_gid_is_ipv4(&address.dest))
        return false;
    *to = (struct uro_conn_target){ .route = { .local = *local,
                                               .remote = address.dest,
                                               .sgid_index = address.sgid_index,
                                               .traffic_class = address.traffic_class,
                                               .hop_limit = address.hop_limit,
                                               .flow_label = address.flow_label },
                                    .service_id = from->service_id,
                                    .path_mtu = uro_conn_mtu_code(from->path_mtu),
                                    .ack_timeout = from->ack_timeout,
                                    .response_timeout = from->response_timeout,
                                    .retries = from->retries };
    return true;
}

/* ---- connecting --------------------------------------------------------- */

int uroce_conn_connect(struct uroce_engine *engine, const struct uroce_conn_target *target,
                       const struct uroce_conn_param *param, void *user, uint64_t now,
                       struct uroce_conn **conn)
{
    struct uro_conn_target to;
    struct uro_conn_param wanted;

    if (engine == NULL || conn == NULL || !take_target(engine, target, &to) ||
        !take_param(param, &wanted) || !uro_embed_time_goes_on(engine, now))
        return -EINVAL;
    struct uroce_conn *made = uro_embed_memory(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    to.user = made;
    const int error = uro_conn_connect(cm_of(engine), &to, &wanted, now, &made->core);
    if (error != 0) {
        free(made);
        return error;
    }
    made->engine = engine;
    made->user = user;
    engine->users++;
    *conn = made;
    return 0;
}

static bool may_call(struct uroce_conn *conn, uint64_t now)
{
    return conn != NULL && uro_embed_time_goes_on(conn->engine, now);
}

int uroce_conn_accept(struct uroce_conn *conn, const struct uroce_conn_param *param, void *user,
                      uint64_t now)
{
    struct uro_conn_param wanted;

    if (!take_param(param, &wanted) || !may_call(conn, now))
        return -EINVAL;
    const int error = uro_conn_accept(conn->core, &wanted, now);
    if (error == 0)
        conn->user = user;
    return error;
}

int uroce_conn_confirm(struct uroce_conn *conn, uint64_t now)
{
    return may_call(conn, now) ? uro_conn_confirm(conn->core, now) : -EINVAL;
}

int uroce_conn_reject(struct uroce_conn *conn, unsigned reason, const void *data, uint32_t length,
                      uint64_t now)
{
    if ((data == NULL && length > 0) || reason > UINT16_MAX || !may_call(conn, now))
        return -EINVAL;
    return uro_conn_reject(conn->core, reason, data, length, now);
}

int uroce_conn_established(struct uroce_conn *conn, uint64_t now)
{
    return may_call(conn, now) ? uro_conn_data_arrived(conn->core, now) : -EINVAL;
}

int uroce_conn_disconnect(struct uroce_conn *conn, uint64_t now)
{
    return may_call(conn, now) ? uro_conn_disconnect(conn->core, now) : -EINVAL;
}

int uroce_conn_close(struct uroce_conn *conn, uint64_t now)
{
    if (!may_call(conn, now))
        return -EINVAL;
    uro_conn_close(conn->core, now);
    conn->engine->users--;
    free(conn);
    return 0;
}

/* ---- state -------------------------------------------------------------- */

/* Gives the connection of a REQUEST to the program. Returns the listener. */
static const struct uroce_listener *take_request(struct uroce_engine *engine,
                                                 const struct uro_conn_event *from)
{
    const struct uroce_listener *listener = from->user;
    struct uroce_conn *conn = engine->spare_conn;

    engine->spare_conn = NULL;
    *conn = (struct uroce_conn){ .engine = engine, .core = from->conn };
    from->conn->user = conn;
    uro_conn_noticed(from->conn);
    engine->users++;
    return listener;
}

int uroce_conn_event(struct uroce_engine *engine, struct uroce_conn_event *event)
{
    struct uro_conn_event from;

    if (engine == NULL || event == NULL)
        return -EINVAL;
    if (engine->spare_conn == NULL)
        engine->spare_conn = uro_embed_memory(sizeof *engine->spare_conn);
    if (engine->spare_conn == NULL)
        return -ENOMEM;
    if (!uro_conn_event(cm_of(engine), &from))
        return 0;
    const struct uroce_listener *listener = NULL;
    if (from.kind == URO_CONN_REQUEST)
        listener = take_request(engine, &from);
    struct uroce_conn *conn = from.conn->user;
    *event = (struct uroce_conn_event){ .kind = (enum uroce_conn_event_kind)from.kind,
                                        .status = from.status,
                                        .conn = conn,
                                        .user = listener != NULL ? listener->user : conn->user };
    return 1;
}

int uroce_conn_peer(const struct uroce_conn *conn, struct uroce_conn_param *param)
{
    if (conn == NULL || param == NULL)
        return -EINVAL;
    const struct uro_conn_param *peer = &conn->core->peer;
    *param = (struct uroce_conn_param){ .type = (enum uroce_qp_type)peer->type,
                                        .qpn = peer->qpn,
                                        .qkey = peer->qkey,
                                        .responder_resources = peer->responder_resources,
                                        .initiator_depth = peer->initiator_depth,
                                        .flow_control = peer->flow_control,
                                        .retry_count = peer->retry_count,
                                        .rnr_retry_count = peer->rnr_retry_count,
                                        .srq = peer->srq,
                                        .data_length = peer->data_length };
    memcpy(param->data, peer->data, sizeof param->data);
    return 0;
}

int uroce_conn_target(const struct uroce_conn *conn, struct uroce_conn_target *target)
{
    if (conn == NULL || target == NULL)
        return -EINVAL;
    const struct uro_cm_route *route = &conn->core->route;
    *target = (struct uroce_conn_target){ .service_id = conn->core->service_id,
                                          .address = { .sgid_index = route->sgid_index,
                                                       .hop_limit = route->hop_limit,
                                                       .traffic_class = route->traffic_class,
                                                       .flow_label = route->flow_label } };
    if (conn->core->path_mtu != 0)
        target->path_mtu = URO_PATH_MTU_MIN / 2 << conn->core->path_mtu;
    memcpy(target->address.gid, route->remote.octets, UROCE_GID_SIZE);
    return 0;
}

int uroce_conn_attr(const struct uroce_conn *conn, enum uroce_qp_state state,
                    struct uroce_qp_attr *attr, unsigned *mask)
{
    struct uro_qp_attr found = { .state = (enum uro_qp_state)state };

    if (conn == NULL || attr == NULL || mask == NULL || state < UROCE_INIT || state > UROCE_RTS)
        return -EINVAL;
    const int error = uro_conn_qp_attr(conn->core, &found, mask);
    if (error == 0)
        uro_embed_attr(&found, attr);
    return error;
}

int uroce_engine_end_connections(struct uroce_engine *engine, uint64_t now)
{
    if (engine == NULL || !uro_embed_time_goes_on(engine, now))
        return -EINVAL;
    return uro_engine_end_connections(engine->engine, now) ? 1 : 0;
}
