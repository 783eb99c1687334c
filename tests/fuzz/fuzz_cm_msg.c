/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_cm_msg.c - gives any messages to a connection manager with a listener and an active
 * application. An input is a sequence of steps. A step has a byte for its kind, then its arguments.
 * A message has a kind, a few bytes for its fields, and IDs of existing connections, because a
 * fuzzer cannot guess 32 random bits. At the end all connections are released, and no object may
 * remain.
 */
#include <stdlib.h>
#include <string.h>

#include "cm/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t length);

#define SERVICE  UINT64_C(0x1060001)
#define CONNS    16u
#define STEPS    200u
#define FOREVER  URO_MS(10000000)
#define HOW_MANY 8u

enum step { RAW, MESSAGE, CONNECT, ACT, CLOSE, TIME, STEP_COUNT };

struct stage {
    const uint8_t *at, *end;
    uro_time now;
    struct uro_counters counters;
    struct uro_cm *cm;
    struct uro_listener listener;
    struct uro_conn *conns[CONNS];
    uint32_t count;
    struct uro_cm_msg said; /* the last message that the manager sent */
};

static void demand(bool condition)
{
    if (!condition)
        abort();
}

static uint8_t next(struct stage *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

static struct uro_gid address(uint8_t last)
{
    const uint8_t ipv4[4] = { 10, 0, 0, last };

    return uro_gid_from_ipv4(ipv4);
}

static struct uro_cm_route route_from(uint8_t peer)
{
    return (struct uro_cm_route){ .local = address(1), .remote = address(peer), .hop_limit = 64 };
}

static void keep(struct stage *s, struct uro_conn *conn)
{
    if (s->count < CONNS)
        s->conns[s->count++] = conn;
    else
        uro_conn_close(conn, s->now);
}

/* Takes the messages and events of the manager. */
static void listen_to(struct stage *s)
{
    struct uro_conn_event event;
    struct uro_cm_out out;

    while (uro_cm_output(s->cm, &out, s->now))
        demand(uro_cm_decode(out.mad, &s->said) == URO_CM_OK || out.mad[3] == 0x81);
    while (uro_conn_event(s->cm, &event))
        if (event.kind == URO_CONN_REQUEST)
            keep(s, event.conn);
}

static void raw(struct stage *s)
{
    const struct uro_cm_route route = route_from(2 + next(s) % 2);
    uint8_t mad[URO_MAD_LEN] = { 1, 7, 2, 3 };
    uint32_t at = next(s);

    mad[17] = (uint8_t)(0x10 + next(s) % 12);
    for (uint32_t i = 0; i < HOW_MANY && at + i < URO_MAD_LEN; i++)
        mad[at + i] = next(s);
    uro_cm_receive(s->cm, &route, mad, s->now);
}

/* Delivers a message whose fields fit the present state, some of them changed. */
static void message(struct stage *s)
{
    const struct uro_cm_route route = route_from(2 + next(s) % 2);
    struct uro_cm_msg msg = { .kind = (enum uro_cm_kind)(next(s) % URO_CM_KIND_COUNT) };
    struct uro_conn *conn = s->count > 0 ? s->conns[next(s) % s->count] : NULL;
    uint8_t mad[URO_MAD_LEN];

    msg.tid = next(s);
    msg.value[URO_CM_LOCAL_ID] = conn != NULL && conn->peer_id != 0 ? conn->peer_id : next(s) % 4;
    msg.value[URO_CM_REMOTE_ID] = conn != NULL ? conn->node.number : s->said.value[0];
    msg.value[URO_CM_REQUEST_ID] = next(s) % 2 ? msg.value[URO_CM_REMOTE_ID] : next(s);
    msg.value[URO_CM_SERVICE_ID] = SERVICE + (next(s) == 1);
    msg.value[URO_CM_CA_GUID] = 2 + next(s) % 2;
    msg.value[URO_CM_LOCAL_QPN] = next(s) % 4;
    msg.value[URO_CM_REMOTE_QPN] = conn != NULL ? conn->local.qpn : 0;
    msg.value[URO_CM_PATH_MTU] = 3;
    msg.value[URO_CM_PKEY] = 0xffff;
    msg.value[URO_CM_MAX_RETRIES] = next(s) % 16;
    msg.remote_gid = address(1);
    msg.local_gid = route.remote;
    for (uint32_t changes = next(s) % 4; changes > 0; changes--)
        msg.value[next(s) % URO_CM_FIELD_COUNT] = (uint64_t)next(s) << next(s) % 64;
    uro_cm_encode(mad, &msg);
    uro_cm_receive(s->cm, &route, mad, s->now);
}

static struct uro_conn_param param(struct stage *s)
{
    return (struct uro_conn_param){ .type = (enum uro_qp_type)(next(s) % URO_QPT_COUNT),
                                    .qpn = 16 + next(s),
                                    .data_length = next(s) };
}

static void connect_out(struct stage *s)
{
    const struct uro_conn_target target = { .route = route_from(2 + next(s) % 2),
                                            .service_id = SERVICE,
                                            .path_mtu = 3,
                                            .ack_timeout = next(s) % 32,
                                            .response_timeout = next(s) % 32,
                                            .retries = next(s) % 16 };
    struct uro_conn_param wanted = param(s);
    struct uro_conn *conn;

    if (wanted.data_length > URO_CM_DATA_MAX)
        wanted.data_length = URO_CM_DATA_MAX;
    if (uro_conn_connect(s->cm, &target, &wanted, s->now, &conn) == 0)
        keep(s, conn);
}

static void act(struct stage *s)
{
    struct uro_conn *conn = s->conns[next(s) % s->count];
    struct uro_conn_param answer = param(s);
    struct uro_qp_attr attr = { .state = (enum uro_qp_state)(next(s) % URO_QPS_COUNT) };
    unsigned mask;

    answer.type = conn->local.type;
    if (answer.data_length > URO_CM_DATA_MAX)
        answer.data_length = URO_CM_DATA_MAX;
    switch (next(s) % 6) {
    case 0:
        (void)!uro_conn_accept(conn, &answer, s->now);
        break;
    case 1:
        (void)!uro_conn_reject(conn, next(s), answer.data, answer.data_length, s->now);
        break;
    case 2:
        (void)!uro_conn_confirm(conn, s->now);
        break;
    case 3:
        (void)!uro_conn_disconnect(conn, s->now);
        break;
    case 4:
        (void)!uro_conn_data_arrived(conn, s->now);
        break;
    default:
        (void)!uro_conn_qp_attr(conn, &attr, &mask);
        break;
    }
}

static void let_go(struct stage *s, uint32_t index)
{
    uro_conn_close(s->conns[index], s->now);
    s->conns[index] = s->conns[--s->count];
}

static void take_step(struct stage *s)
{
    switch ((enum step)(next(s) % STEP_COUNT)) {
    case RAW:
        raw(s);
        break;
    case MESSAGE:
        message(s);
        break;
    case CONNECT:
        connect_out(s);
        break;
    case ACT:
        if (s->count > 0)
            act(s);
        break;
    case CLOSE:
        if (s->count > 0)
            let_go(s, next(s) % s->count);
        break;
    case TIME:
        s->now += URO_MS(1) << next(s) % 16;
        break;
    case STEP_COUNT:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t length)
{
    const struct uro_cm_config config = {
        .guid = 1, .connections = 2 * CONNS, .path_mtu = 3, .seed = { 1 }
    };
    struct stage s = { .at = octets, .end = octets + length };
    void *memory = aligned_alloc(64, (uro_cm_size(&config) + 63) & ~(size_t)63);

    demand(memory != NULL);
    s.cm = uro_cm_init(memory, &config, &s.counters, s.now);
    s.listener = (struct uro_listener){ .service_id = SERVICE, .any_address = true, .backlog = 8 };
    demand(uro_conn_listen(s.cm, &s.listener) == 0);
    for (uint32_t i = 0; i < STEPS && s.at < s.end; i++) {
        take_step(&s);
        listen_to(&s);
    }
    while (s.count > 0)
        let_go(&s, s.count - 1);
    uro_conn_unlisten(s.cm, &s.listener);
    for (uro_time next_due; (next_due = uro_cm_next(s.cm)) != URO_TIME_NEVER;) {
        demand(next_due < FOREVER * 4096);
        if (next_due > s.now)
            s.now = next_due;
        listen_to(&s);
        while (s.count > 0)
            let_go(&s, s.count - 1);
    }
    demand(s.cm->by_id.count == 0 && s.listener.waiting == 0);
    free(memory);
    return 0;
}
