/* SPDX-License-Identifier: BSD-3-Clause */
/* virtual.c - see virtual.h. */
#include "virtual.h"

#include <assert.h>

#include "cm/ip_cm.h"

#define PD        1u
#define PD_OTHER  2u
#define CALLS_MAX 100000u /* maximum number of idle steps at one time; more means an endless loop */
#define TIME_MAX  URO_MS(300000)

enum { KEY_ALL, KEY_READ, KEY_OTHER, KEY_BUFFERS };

static void must(int error)
{
    if (error != 0) {
        (void)fprintf(stderr, "virtual endpoint: error %d\n", error);
        abort();
    }
}

static void *take(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);

    if (memory == NULL)
        abort();
    memset(memory, 0, size);
    return memory;
}

static struct uro_engine *open_engine(void **memory, uint8_t last, uro_time now)
{
    struct uro_engine_config config = { .mac = { { 2, 0, 0, 0, 0, last } },
                                        .mtu = 4500,
                                        .address_count = 2,
                                        .table_bits = 6,
                                        .reorder_buffer = URO_REORDER_DEFAULT };
    struct uro_engine *engine;

    config.seed[0] = last;
    config.connections = 64;
    config.addresses[0] = (struct uro_engine_address){ uro_gid_link_local(&config.mac), 64 };
    config.addresses[1] =
        (struct uro_engine_address){ uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, last }), 24 };
    *memory = take(uro_engine_size(&config));
    must(uro_engine_init(*memory, &config, now, &engine));
    uro_engine_link(engine, true, now);
    return engine;
}

static void register_key(struct virtual *v, unsigned which, uint32_t pd, uint32_t access)
{
    uint8_t *memory = which == KEY_BUFFERS ? v->buffers : v->region;

    v->keys[which] = (struct uro_key){ .pd = pd,
                                       .access = access,
                                       .base = (uintptr_t)memory,
                                       .length = PLAN_REGION,
                                       .memory = memory };
    uro_key_register(uro_engine_shard(v->engine), &v->keys[which]);
}

struct virtual *virtual_open(void)
{
    struct virtual *v = take(sizeof *v);

    v->engine = open_engine(&v->engine_memory, 1, v->now);
    v->peer_engine = open_engine(&v->peer_memory, 2, v->now);
    v->region = take(PLAN_REGION);
    v->buffers = take(PLAN_REGION);
    for (uint32_t i = 0; i < PLAN_REGION; i++)
        v->region[i] = v->buffers[i] = plan_byte(i);
    register_key(v, KEY_ALL, PD, 0xf);
    register_key(v, KEY_READ, PD, URO_ACCESS_REMOTE_READ);
    register_key(v, KEY_OTHER, PD_OTHER, 0xf);
    register_key(v, KEY_BUFFERS, PD, 0xf);
    v->cq = uro_cq_init(take(uro_cq_size(4096)), 4096, NULL);
    v->stream = (struct uro_listener){ .service_id = uro_ip_cm_service(URO_IP_CM_TCP, VIRTUAL_PORT),
                                       .any_address = true,
                                       .backlog = VIRTUAL_CONNS };
    v->datagram = v->stream;
    v->datagram.service_id = uro_ip_cm_service(URO_IP_CM_UDP, VIRTUAL_PORT);
    v->unreliable = v->stream;
    v->unreliable.service_id = uro_ip_cm_service(URO_IP_CM_IB, VIRTUAL_PORT);
    must(uro_conn_listen(uro_engine_cm(v->engine), &v->stream));
    must(uro_conn_listen(uro_engine_cm(v->engine), &v->datagram));
    must(uro_conn_listen(uro_engine_cm(v->engine), &v->unreliable));
    return v;
}

static void close_conn(struct virtual *v, struct virtual_conn *c)
{
    if (c->conn == NULL)
        return;
    uro_conn_close(c->conn, v->now);
    if (c->plan.group != 0) {
        (void)uro_mcast_detach(uro_engine_shard(v->engine), &c->member);
        uro_engine_leave(v->engine, &c->member.group, v->now);
    }
    uro_engine_qp_destroy(v->engine, c->qp);
    if (c->srq != NULL)
        uro_srq_destroy(uro_engine_shard(v->engine), c->srq);
    if (c->can_answer)
        uro_engine_ah_destroy(v->engine, &c->back);
    free(c->srq);
    free(c->srq_slots);
    free(c->qp_memory);
    *c = (struct virtual_conn){ 0 };
}

void virtual_close(struct virtual *v)
{
    for (unsigned i = 0; i < VIRTUAL_CONNS; i++)
        close_conn(v, &v->conns[i]);
    uro_cq_fini(v->cq);
    free(v->cq);
    free(v->region);
    free(v->buffers);
    free(v->engine_memory);
    free(v->peer_memory);
    free(v);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void post_recv(struct virtual *v, struct virtual_conn *c)
{
    struct uro_wq *wq = c->srq != NULL ? &c->srq->wq : uro_qp_recv_queue(c->qp);
    struct uro_rqe *rqe = uro_wq_reserve(wq, 0);

    assert(rqe != NULL);
    rqe->wr_id = 1;
    rqe->length = c->plan.size;
    rqe->sge_count = 1;
    rqe->sges[0] = (struct uro_sge){ (uintptr_t)v->buffers, c->plan.size,
                                     uro_key_number(&v->keys[KEY_BUFFERS]) };
    uro_wq_publish(wq, 1);
}

static void post(struct virtual *v, struct virtual_conn *c, enum uro_wr_opcode opcode,
                 uint32_t length)
{
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(c->qp), 0);

    assert(wqe != NULL);
    *wqe = (struct uro_wqe){ .wr_id = 2,
                             .opcode = (uint8_t)opcode,
                             .flags = URO_SEND_SIGNALED,
                             .length = length,
                             .remote_address = PLAN_REMOTE_VA,
                             .rkey = PLAN_REMOTE_RKEY,
                             .compare_add = 1,
                             .sge_count = 1 };
    wqe->sges[0] =
        (struct uro_sge){ (uintptr_t)v->buffers, length, uro_key_number(&v->keys[KEY_BUFFERS]) };
    uro_wq_publish(uro_qp_send_queue(c->qp), 1);
    uro_qp_ring(uro_engine_shard(v->engine), c->qp);
}

/* Sends back the data of a receive. */
static void echo(struct virtual *v, struct virtual_conn *c, const struct uro_cqe *cqe)
{
    const bool written = cqe->opcode == URO_WC_RECV_RDMA_WITH_IMM;
    const uint8_t *from = written ? v->region : v->buffers + c->plan.skip;
    const unsigned key = written ? KEY_ALL : KEY_BUFFERS;
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(c->qp), 0);

    assert(wqe != NULL);
    *wqe = (struct uro_wqe){ .wr_id = 3,
                             .opcode =
                                 cqe->flags & URO_WC_WITH_IMM ? URO_WR_SEND_WITH_IMM : URO_WR_SEND,
                             .flags = URO_SEND_SIGNALED,
                             .imm = cqe->imm,
                             .length = plan_echo(&c->plan, cqe->byte_len, written),
                             .sge_count = 1 };
    if (uro_qp_type(c->qp) == URO_QPT_UD) {
        wqe->to.ah = uro_ah_number(&c->back);
        wqe->to.qpn = cqe->source_qpn;
        wqe->qkey = c->plan.qkey;
    }
    wqe->sges[0] = (struct uro_sge){ (uintptr_t)from, wqe->length, uro_key_number(&v->keys[key]) };
    uro_wq_publish(uro_qp_send_queue(c->qp), 1);
    uro_qp_ring(uro_engine_shard(v->engine), c->qp);
}

/* Handles completions. Returns whether it posted a send. */
static bool completed(struct virtual *v)
{
    struct uro_cqe cqe;
    bool any = false;

    while (uro_cq_poll(v->cq, &cqe, 1) == 1)
        for (unsigned i = 0; i < VIRTUAL_CONNS; i++) {
            struct virtual_conn *c = &v->conns[i];
            if (c->conn == NULL || uro_qp_number(c->qp) != cqe.qpn || c->plan.echo == 0 ||
                cqe.status != URO_WC_SUCCESS || (cqe.opcode & URO_WC_RECV) == 0)
                continue;
            echo(v, c, &cqe);
            any = true;
        }
    return any;
}

/* Moves the queue pair to INIT, RTR and RTS with the attributes of the connection or service. */
static void raise(struct virtual *v, struct virtual_conn *c)
{
    const bool datagram = uro_qp_type(c->qp) == URO_QPT_UD;

    for (enum uro_qp_state state = URO_QPS_INIT; state <= URO_QPS_RTS; state++) {
        struct uro_qp_attr attr = { .state = state, .qkey = PLAN_QKEY, .port = 1 };
        unsigned mask = URO_ATTR_STATE;
        if (!datagram)
            must(uro_conn_qp_attr(c->conn, &attr, &mask));
        else if (state == URO_QPS_INIT)
            mask |= URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_QKEY;
        else if (state == URO_QPS_RTS)
            mask |= URO_ATTR_SQ_PSN;
        must(uro_engine_qp_modify(v->engine, c->qp, &attr, mask, v->now));
    }
}

static struct virtual_conn *conn_of(struct virtual *v, const struct uro_conn *conn)
{
    for (unsigned i = 0; i < VIRTUAL_CONNS; i++)
        if (v->conns[i].conn == conn)
            return &v->conns[i];
    return NULL;
}

static void make_srq(struct virtual *v, struct virtual_conn *c)
{
    const struct uro_srq_init init = { .pd = PD, .capacity = PLAN_RECV_MAX + 1, .sge_max = 1 };

    c->srq = take(sizeof *c->srq);
    c->srq_slots = take(uro_srq_slots_size(init.capacity, init.sge_max));
    uro_srq_create(uro_engine_shard(v->engine), c->srq, &init, c->srq_slots);
}

static void make_qp(struct virtual *v, struct virtual_conn *c, enum uro_qp_type type)
{
    const struct uro_qp_init init = { .type = type,
                                      .srq = c->srq,
                                      .pd = PD,
                                      .send_cq = v->cq,
                                      .recv_cq = v->cq,
                                      .send_capacity = 64,
                                      .recv_capacity = PLAN_RECV_MAX + 1,
                                      .send_sge_max = 1,
                                      .recv_sge_max = 1 };

    c->late = URO_TIME_NEVER;
    c->qp_memory = take(uro_qp_size(&init));
    c->qp = uro_qp_create(uro_engine_shard(v->engine), &init, c->qp_memory);
}

/* Creates the address handle to the player, and joins the group of the plan, if any. */
static void make_datagram(struct virtual *v, struct virtual_conn *c)
{
    const struct uro_address address = { .dest =
                                             uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 2 }),
                                         .sgid_index = 1,
                                         .hop_limit = 64 };
    const struct uro_gid group =
        uro_gid_from_ipv4((const uint8_t[]){ 239, 192, 0, (uint8_t)c->plan.group });

    must(uro_engine_ah_create(v->engine, &c->back, PD, &address, v->now));
    c->can_answer = true;
    if (c->plan.group == 0)
        return;
    (void)uro_mcast_attach(uro_engine_shard(v->engine), &c->member, c->qp, &group);
    must(uro_engine_join(v->engine, &group, v->now));
}

/* Connects from the endpoint to the player, with the plan to send one message. */
static void call(struct virtual *v)
{
    struct virtual_conn *c = &v->conns[0];
    const struct uro_conn_target target = {
        .route = { .local = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 1 }),
                   .remote = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 2 }),
                   .sgid_index = 1,
                   .hop_limit = 64 },
        .service_id = uro_ip_cm_service(URO_IP_CM_TCP, VIRTUAL_PORT),
        .path_mtu = 3,
        .ack_timeout = 14,
        .response_timeout = 20,
        .retries = 15,
    };

    make_qp(v, c, URO_QPT_RC);
    plan_read(&c->plan, "send=1", 6);
    const struct uro_conn_param param = {
        .type = URO_QPT_RC, .qpn = uro_qp_number(c->qp), .retry_count = 7, .rnr_retry_count = 7
    };
    must(uro_conn_connect(uro_engine_cm(v->engine), &target, &param, v->now, &c->conn));
}

static void requested(struct virtual *v, struct uro_conn *conn)
{
    struct virtual_conn *c = conn_of(v, NULL);
    struct uro_conn_param answer = { .type = conn->peer.type,
                                     .qkey = PLAN_QKEY,
                                     .responder_resources = 4,
                                     .initiator_depth = 4,
                                     .rnr_retry_count = 7 };
    const uint32_t keys[3] = { uro_key_number(&v->keys[KEY_ALL]),
                               uro_key_number(&v->keys[KEY_READ]),
                               uro_key_number(&v->keys[KEY_OTHER]) };

    if (c == NULL) {
        must(uro_conn_reject(conn, URO_CONN_REJ_CONSUMER, NULL, 0, v->now));
        uro_conn_close(conn, v->now);
        return;
    }
    c->conn = conn;
    plan_read(&c->plan, (const char *)conn->peer.data + URO_IP_CM_LEN, 56);
    if (c->plan.srq != 0)
        make_srq(v, c);
    make_qp(v, c, conn->peer.type);
    raise(v, c);
    if (conn->peer.type == URO_QPT_UD)
        make_datagram(v, c);
    for (uint32_t i = 0; i < c->plan.recv; i++)
        post_recv(v, c);
    answer.qpn = uro_qp_number(c->qp);
    answer.data_length =
        (uint32_t)plan_answer((char *)answer.data, sizeof answer.data, (uintptr_t)v->region, keys);
    if (answer.type == URO_QPT_UD)
        answer.data_length = 0;
    must(uro_conn_accept(conn, &answer, v->now));
    if (c->plan.late > 0)
        c->late = v->now + URO_MS(c->plan.late);
}

static void confirmed(struct virtual *v, struct virtual_conn *c)
{
    for (uint32_t i = 0; i < c->plan.send; i++)
        post(v, c, URO_WR_SEND, c->plan.bytes);
    for (uint32_t i = 0; i < c->plan.write; i++)
        post(v, c, URO_WR_RDMA_WRITE, c->plan.bytes);
    for (uint32_t i = 0; i < c->plan.read; i++)
        post(v, c, URO_WR_RDMA_READ, c->plan.bytes);
    for (uint32_t i = 0; i < c->plan.faa; i++)
        post(v, c, URO_WR_ATOMIC_FETCH_AND_ADD, 8);
}

static bool take_event(struct virtual *v)
{
    struct uro_conn_event event;
    struct uro_event other;

    while (uro_engine_event(v->engine, &other))
        ;
    if (!uro_conn_event(uro_engine_cm(v->engine), &event))
        return false;
    struct virtual_conn *c = conn_of(v, event.conn);
    if (event.kind == URO_CONN_REQUEST) {
        uro_conn_noticed(event.conn);
        requested(v, event.conn);
    } else if (c != NULL && event.kind == URO_CONN_RESPONSE) {
        raise(v, c);
        must(uro_conn_confirm(c->conn, v->now));
        confirmed(v, c);
    } else if (c != NULL && event.kind == URO_CONN_CONFIRMED) {
        confirmed(v, c);
    } else if (c != NULL &&
               (event.kind == URO_CONN_DISCONNECTED || event.kind == URO_CONN_REJECTED ||
                event.kind == URO_CONN_UNREACHABLE)) {
        if (event.kind == URO_CONN_DISCONNECTED)
            must(uro_conn_disconnect(c->conn, v->now));
        close_conn(v, c);
    }
    return true;
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool post_late(struct virtual *v)
{
    bool any = false;

    for (unsigned i = 0; i < VIRTUAL_CONNS; i++)
        if (v->conns[i].conn != NULL && v->conns[i].late <= v->now) {
            v->conns[i].late = URO_TIME_NEVER;
            post_recv(v, &v->conns[i]);
            any = true;
        }
    return any;
}

static uro_time next_of(const struct virtual *v, const struct uro_play *play)
{
    uro_time next = uro_engine_next(v->engine);

    if (uro_play_next(play) < next)
        next = uro_play_next(play);
    for (unsigned i = 0; i < VIRTUAL_CONNS; i++)
        if (v->conns[i].conn != NULL && v->conns[i].late < next)
            next = v->conns[i].late;
    return next;
}

/* Moves frames from one side to the other without delay. Returns their number. */
static uint32_t carry(struct virtual *v, struct uro_play *play, bool from_player)
{
    static uint8_t frame[URO_PACKET_FRAME_MAX];
    uint32_t count = from_player
                         ? uro_play_output(play, v->tx, URO_ARRAY_LEN(v->tx), v->now)
                         : uro_engine_output(v->engine, v->tx, URO_ARRAY_LEN(v->tx), v->now);

    for (uint32_t i = 0; i < count; i++) {
        const struct uro_pkt pkt = { .octets = frame, .length = uro_tx_length(&v->tx[i]) };
        uro_tx_write(&v->tx[i], frame);
        if (from_player)
            memcpy(v->sent_to.octets, frame, sizeof v->sent_to.octets);
        if (from_player)
            uro_engine_input(v->engine, &pkt, 1, v->now);
        else
            uro_play_input(play, &pkt, 1, v->now);
    }
    return count;
}

static bool step(struct virtual *v, struct uro_play *play)
{
    bool moved = carry(v, play, true) > 0;

    moved |= carry(v, play, false) > 0;
    moved |= take_event(v);
    moved |= post_late(v);
    moved |= completed(v);
    return moved;
}

enum uro_play_result virtual_play(struct virtual *v, const struct uro_script *script,
                                  void (*print)(void *user, const char *line), void *user)
{
    const struct uro_play_config config = {
        .engine = v->peer_engine,
        .mac = { { 2, 0, 0, 0, 0, 2 } },
        .address = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 2 }),
        .sgid_index = 1,
        .peer = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 1 }),
        .port = VIRTUAL_PORT,
        .seed = 1,
        .print = print,
        .user = user,
    };
    static struct uro_play play;

    must(uro_play_init(&play, script, &config, v->now));
    if (v->calls)
        call(v);
    for (uint32_t calls = 0; play.result == URO_PLAY_RUNNING && v->now < TIME_MAX;) {
        if (step(v, &play)) {
            calls = 0;
            continue;
        }
        const uro_time next = next_of(v, &play);
        if (next > v->now) {
            v->now = next;
            calls = 0;
        } else if (++calls > CALLS_MAX) {
            break;
        }
    }
    while (step(v, &play))
        ;
    const enum uro_play_result result = play.result;
    uro_play_fini(&play);
    return result;
}
