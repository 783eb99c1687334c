/* SPDX-License-Identifier: BSD-3-Clause */
/* scene.c - the stage for scenario tests. */
#include "scene.h"

#include <stdlib.h>
#include <string.h>

#include "scene_wire.h"

#define FRAME_MAX 9000u

static const struct uro_mac our_mac = { { 2, 0, 0, 0, 0, 1 } };
static const struct uro_mac peer_mac = { { 2, 0, 0, 0, 0, 2 } };
static struct uro_cqe last;

void scene_fill(uint8_t *at, uint32_t fill, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        at[i] = scene_octet(fill + i);
}

void scene_assert_filled(const uint8_t *at, uint32_t fill, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        if (at[i] != scene_octet(fill + i))
            fail_msg("octet %u is %02x, not %02x", i, at[i], scene_octet(fill + i));
}

static void *allocate(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    assert_non_null(memory);
    memset(memory, 0xee, size);
    return memory;
}

static struct uro_cq *make_cq(uint32_t capacity)
{
    return uro_cq_init(allocate(uro_cq_size(capacity)), capacity, NULL);
}

static void open_engine(struct scene *scene, const struct scene_options *options)
{
    struct uro_engine_config config = { .mac = our_mac,
                                        .mtu = options->link_mtu != 0 ? options->link_mtu : 4500,
                                        .address_count = 2,
                                        .window = options->window,
                                        .retry_7_forever = options->retry_7_forever,
                                        .table_bits = 4,
                                        .seed = { 1 } };
    config.addresses[0] = (struct uro_engine_address){ uro_gid_link_local(&our_mac), 64 };
    config.addresses[1].prefix = 24;
    assert_true(uro_gid_parse("10.0.0.1", &config.addresses[1].gid));

    scene->engine_memory = allocate(uro_engine_size(&config));
    assert_int_equal(uro_engine_init(scene->engine_memory, &config, scene->now, &scene->engine), 0);
}

static void open_memory(struct scene *scene)
{
    struct uro_shard *shard = uro_engine_shard(scene->engine);

    scene->local = allocate(SCENE_MEMORY);
    scene->remote = allocate(SCENE_MEMORY);
    scene->local_key = (struct uro_key){ .pd = 1,
                                         .access = URO_ACCESS_LOCAL_WRITE,
                                         .base = (uintptr_t)scene->local,
                                         .length = SCENE_MEMORY,
                                         .memory = scene->local };
    scene->remote_key = (struct uro_key){ .pd = 1,
                                          .access = 0xf,
                                          .base = (uintptr_t)scene->remote,
                                          .length = SCENE_MEMORY,
                                          .memory = scene->remote };
    uro_key_register(shard, &scene->local_key);
    uro_key_register(shard, &scene->remote_key);
}

static void modify(struct scene *scene, const struct uro_qp_attr *attr, unsigned mask)
{
    assert_int_equal(
        uro_engine_qp_modify(scene->engine, scene->qp, attr, mask | URO_ATTR_STATE, scene->now), 0);
}

/* The engine asks for the peer's MAC address and is told. */
static void meet(struct scene *scene)
{
    struct uro_tx tx;
    uint8_t frame[FRAME_MAX];

    assert_int_equal(uro_engine_output(scene->engine, &tx, 1, scene->now), 1);
    assert_false(tx.icrc);
    scene_input(scene, scene->now, frame, scene_arp_reply(&our_mac, &peer_mac, frame));
}

void scene_connect(struct scene *scene, const struct scene_options *options)
{
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = 1,
                                .access = options->access,
                                .path_mtu = options->mtu,
                                .dest_qpn = SCENE_QPN_PEER,
                                .rq_psn = options->rq_psn,
                                .sq_psn = options->sq_psn,
                                .max_dest_rd_atomic = options->dest_depth,
                                .max_rd_atomic = options->depth,
                                .min_rnr_timer = options->min_rnr_timer,
                                .timeout = options->timeout,
                                .retry_count = options->retry_count,
                                .rnr_retry = options->rnr_retry,
                                .address = { .sgid_index = 1, .hop_limit = 64 } };
    assert_true(uro_gid_parse("10.0.0.2", &attr.address.dest));

    if (options->stop_at == URO_QPS_RESET)
        return;
    modify(scene, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    if (options->stop_at == URO_QPS_INIT)
        return;
    attr.state = URO_QPS_RTR;
    modify(scene, &attr,
           URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
               URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR);
    meet(scene);
    if (options->stop_at == URO_QPS_RTR)
        return;
    attr.state = URO_QPS_RTS;
    modify(scene, &attr,
           URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_SQ_PSN |
               URO_ATTR_RD_ATOMIC);
}

struct scene *scene_open(const struct scene_options *options)
{
    struct scene *scene = calloc(1, sizeof *scene);

    assert_non_null(scene);
    uro_mark_clear();
    scene->now = URO_MS(1);
    scene->mtu = options->mtu;
    open_engine(scene, options);
    open_memory(scene);
    scene->send_cq = make_cq(options->cq_capacity);
    scene->recv_cq = make_cq(options->cq_capacity);
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = 1,
                                      .send_cq = scene->send_cq,
                                      .recv_cq = scene->recv_cq,
                                      .send_capacity = 64,
                                      .recv_capacity = 64,
                                      .send_sge_max = 4,
                                      .recv_sge_max = 4,
                                      .inline_max = 512,
                                      .user = scene };
    scene->qp_memory = allocate(uro_qp_size(&init));
    scene->qp = uro_qp_create(uro_engine_shard(scene->engine), &init, scene->qp_memory);
    scene_connect(scene, options);
    return scene;
}

void scene_post_recv(struct scene *scene, uint64_t id, uint32_t length)
{
    struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(scene->qp), 0);

    assert_non_null(rqe);
    rqe->wr_id = id;
    rqe->length = length;
    rqe->sge_count = 1;
    rqe->sges[0] = (struct uro_sge){
        .address = (uintptr_t)scene->local + SCENE_MEMORY / 2 + scene->recv_used,
        .length = length,
        .lkey = uro_key_number(&scene->local_key),
    };
    scene->recv_used += length;
    uro_wq_publish(uro_qp_recv_queue(scene->qp), 1);
    if (uro_qp_state_now(scene->qp) == URO_QPS_ERR)
        uro_qp_ring(uro_engine_shard(scene->engine), scene->qp);
}

const uint8_t *scene_recv_memory(const struct scene *scene, uint32_t offset)
{
    return scene->local + SCENE_MEMORY / 2 + offset;
}

void scene_post_send(struct scene *scene, const struct scene_send *send)
{
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(scene->qp), 0);
    uint32_t length = send->text != NULL ? (uint32_t)strlen(send->text) : send->length;

    assert_non_null(wqe);
    if (send->text != NULL)
        memcpy(scene->local + send->at, send->text, length);
    *wqe =
        (struct uro_wqe){ .wr_id = send->id,
                          .opcode = (uint8_t)send->op,
                          .flags = (uint8_t)(send->flags | (send->quiet ? 0 : URO_SEND_SIGNALED)),
                          .length = length,
                          .remote_address = send->remote_address,
                          .rkey = send->rkey,
                          .imm = send->imm,
                          .compare_add = send->compare_add,
                          .swap = send->swap };
    if (send->op == URO_WR_FLUSH) {
        wqe->flush = (struct uro_flush_kind){ send->placement, send->selectivity };
    } else if (send->flags & URO_SEND_INLINE) {
        memcpy(wqe->sges, scene->local + send->at, length);
    } else {
        wqe->sge_count = 1;
        wqe->sges[0] =
            (struct uro_sge){ (uintptr_t)scene->local + send->at, length,
                              send->lkey != 0 ? send->lkey : uro_key_number(&scene->local_key) };
    }
    uro_wq_publish(uro_qp_send_queue(scene->qp), 1);
    uro_qp_ring(uro_engine_shard(scene->engine), scene->qp);
}

static void move_clock(struct scene *scene, uro_time at)
{
    assert_true(at + URO_MS(1) >= scene->now);
    scene->now = at + URO_MS(1); /* a scene's zero is one millisecond after the engine's start */
}

void scene_input(struct scene *scene, uro_time at, const uint8_t *octets, uint32_t length)
{
    const struct uro_pkt pkt = { .octets = octets, .length = length };

    (void)at;
    uro_engine_input(scene->engine, &pkt, 1, scene->now);
}

uint32_t scene_frame(const struct scene *scene, const struct scene_packet *packet, uint8_t *out)
{
    struct scene_packet full = *packet;

    if (full.rkey == 0)
        full.rkey = uro_key_number(&scene->remote_key);
    if (full.va == 0)
        full.va = (uintptr_t)scene->remote;
    if (full.qpn == 0)
        full.qpn = uro_qp_number(scene->qp);
    return scene_wire_build(&full, &our_mac, &peer_mac, out);
}

void scene_rx(struct scene *scene, uro_time at, const struct scene_packet *packet)
{
    uint8_t frame[FRAME_MAX];

    move_clock(scene, at);
    scene_input(scene, at, frame, scene_frame(scene, packet, frame));
}

void scene_expect_tx(struct scene *scene, uro_time at, const struct scene_packet *packet)
{
    struct uro_tx tx;
    uint8_t frame[FRAME_MAX];

    move_clock(scene, at);
    if (uro_engine_output(scene->engine, &tx, 1, scene->now) != 1)
        fail_msg("expected %s psn %u, but nothing is sent", packet->op, packet->psn);
    uro_tx_write(&tx, frame);
    scene_wire_compare(packet, frame, uro_tx_length(&tx));
}

void scene_expect_silence(struct scene *scene, uro_time at)
{
    struct uro_tx tx;
    uint8_t frame[FRAME_MAX];

    move_clock(scene, at);
    if (uro_engine_output(scene->engine, &tx, 1, scene->now) == 0)
        return;
    uro_tx_write(&tx, frame);
    scene_wire_fail("expected silence, but sent", frame, uro_tx_length(&tx));
}

static void expect_completion(struct uro_cq *cq, const char *queue, uint64_t id,
                              enum uro_wc_status status)
{
    if (uro_cq_poll(cq, &last, 1) != 1)
        fail_msg("no %s completion; expected id %lu", queue, (unsigned long)id);
    assert_int_equal(last.wr_id, id);
    assert_int_equal(last.status, status);
}

void scene_expect_sent(struct scene *scene, uint64_t id, enum uro_wc_status status)
{
    expect_completion(scene->send_cq, "send", id, status);
}

void scene_expect_recv(struct scene *scene, uint64_t id, enum uro_wc_status status, uint32_t length)
{
    expect_completion(scene->recv_cq, "receive", id, status);
    if (status == URO_WC_SUCCESS)
        assert_int_equal(last.byte_len, length);
}

const struct uro_cqe *scene_last(void)
{
    return &last;
}

void scene_expect_mark(struct scene *scene, const char *rule)
{
    (void)scene;
    if (!uro_mark_hit(rule))
        fail_msg("the line of rule %s did not run", rule);
}

void scene_expect_state(struct scene *scene, enum uro_qp_state state)
{
    assert_int_equal(uro_qp_state_now(scene->qp), state);
}

void scene_expect_event(struct scene *scene, enum uro_event_kind kind)
{
    struct uro_event event;

    if (!uro_engine_event(scene->engine, &event))
        fail_msg("no event, expected kind %d", (int)kind);
    assert_int_equal(event.kind, kind);
}

uint64_t scene_counter(const struct scene *scene, enum uro_counter counter)
{
    return uro_engine_counters(scene->engine)->value[counter];
}

void scene_destroy_qp(struct scene *scene)
{
    uro_engine_qp_destroy(scene->engine, scene->qp);
    free(scene->qp_memory); /* a sanitizer sees who still looks */
    scene->qp = NULL;
}

void scene_close(struct scene *scene)
{
    scene_expect_silence(scene, scene->now - URO_MS(1));
    if (uro_cq_poll(scene->send_cq, &last, 1) == 1)
        fail_msg("unexpected send completion, id %lu status %u", (unsigned long)last.wr_id,
                 last.status);
    if (uro_cq_poll(scene->recv_cq, &last, 1) == 1)
        fail_msg("unexpected receive completion, id %lu status %u", (unsigned long)last.wr_id,
                 last.status);
    if (scene->qp != NULL)
        scene_destroy_qp(scene);
    uro_key_deregister(uro_engine_shard(scene->engine), &scene->local_key);
    uro_key_deregister(uro_engine_shard(scene->engine), &scene->remote_key);
    uro_cq_fini(scene->send_cq);
    uro_cq_fini(scene->recv_cq);
    free(scene->send_cq);
    free(scene->recv_cq);
    free(scene->local);
    free(scene->remote);
    free(scene->engine_memory);
    free(scene);
}
