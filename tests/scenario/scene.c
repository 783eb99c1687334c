/* SPDX-License-Identifier: BSD-3-Clause */
/* scene.c - actions and checks of a scene: posts, arrivals, sends and completions. */
#include "scene.h"

#include <stdlib.h>
#include <string.h>

#include "scene_wire.h"
#include "support/in_two.h"
#include "wire/ether.h"

#define TAG_AT 12u /* behind the addresses */

const struct uro_mac scene_mac = { { 2, 0, 0, 0, 0, 1 } };
const struct uro_mac scene_peer_mac = { { 2, 0, 0, 0, 0, 2 } };
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

void scene_post_recv(struct scene *scene, uint64_t id, uint32_t length)
{
    struct uro_wq *wq = scene->srq_slots != NULL ? &scene->srq.wq : uro_qp_recv_queue(scene->qp);
    struct uro_rqe *rqe = uro_wq_reserve(wq, 0);

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
    uro_wq_publish(wq, 1);
    if (scene->srq_slots == NULL && uro_qp_state_now(scene->qp) == URO_QPS_ERR)
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
                          .swap = send->swap,
                          .xrc_srqn = send->srqn };
    if (uro_qp_type(scene->qp) == URO_QPT_UD) {
        wqe->to.ah = send->ah != 0 ? send->ah : uro_ah_number(&scene->ah);
        wqe->to.qpn = send->qpn != 0 ? send->qpn : SCENE_QPN_PEER;
        wqe->qkey = send->qkey != 0 ? send->qkey : SCENE_QKEY;
    }
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
    assert_true(at + scene->zero >= scene->now);
    scene->now = at + scene->zero;
}

static uint32_t put_tag(const struct scene *scene, const uint8_t *octets, uint32_t length,
                        uint8_t *out)
{
    memcpy(out, octets, TAG_AT);
    uro_put_be16(out + TAG_AT, URO_ETHERTYPE_VLAN);
    uro_put_be16(out + TAG_AT + 2, scene->vlan);
    memcpy(out + TAG_AT + URO_VLAN_LEN, octets + TAG_AT, length - TAG_AT);
    return length + URO_VLAN_LEN;
}

static uint32_t take_tag(const struct scene *scene, uint8_t *octets, uint32_t length)
{
    assert_int_equal(uro_get_be16(octets + TAG_AT), URO_ETHERTYPE_VLAN);
    assert_int_equal(uro_get_be16(octets + TAG_AT + 2), scene->sl << 13 | scene->vlan);
    memmove(octets + TAG_AT, octets + TAG_AT + URO_VLAN_LEN, length - TAG_AT - URO_VLAN_LEN);
    return length - URO_VLAN_LEN;
}

void scene_input_raw(struct scene *scene, const uint8_t *octets, uint32_t length)
{
    const struct uro_pkt pkt = take_in_two(octets, length);

    uro_engine_input(scene->engine, &pkt, 1, scene->now);
    drop_in_two(&pkt);
}

void scene_input(struct scene *scene, uro_time at, const uint8_t *octets, uint32_t length)
{
    uint8_t tagged[SCENE_FRAME_MAX];

    (void)at;
    if (scene->vlan == 0)
        scene_input_raw(scene, octets, length);
    else
        scene_input_raw(scene, tagged, put_tag(scene, octets, length, tagged));
}

uint32_t scene_frame(const struct scene *scene, const struct scene_packet *packet, uint8_t *out)
{
    struct scene_packet full = *packet;

    if (full.rkey == 0)
        full.rkey = uro_key_number(&scene->remote_key);
    if (full.va == 0 && !full.no_va)
        full.va = (uintptr_t)scene->remote;
    if (full.qpn == 0)
        full.qpn = uro_qp_number(scene->qp);
    if (full.from == NULL)
        full.from = "10.0.0.2";
    if (full.to == NULL)
        full.to = "10.0.0.1";
    if (full.srqn == 0)
        full.srqn = uro_srq_number(&scene->srq);
    if (full.qkey == 0)
        full.qkey = SCENE_QKEY;
    if (full.source_qpn == 0)
        full.source_qpn = SCENE_QPN_PEER;
    return scene_wire_build(&full, &scene_mac, &scene_peer_mac, out);
}

void scene_rx(struct scene *scene, uro_time at, const struct scene_packet *packet)
{
    uint8_t frame[SCENE_FRAME_MAX];

    move_clock(scene, at);
    scene_input(scene, at, frame, scene_frame(scene, packet, frame));
}

uint32_t scene_output(struct scene *scene, uro_time at, uint8_t *octets)
{
    struct uro_tx tx;

    move_clock(scene, at);
    if (uro_engine_output(scene->engine, &tx, 1, scene->now) == 0)
        return 0;
    uro_tx_write(&tx, octets);
    return scene->vlan == 0 ? uro_tx_length(&tx) : take_tag(scene, octets, uro_tx_length(&tx));
}

void scene_expect_tx(struct scene *scene, uro_time at, const struct scene_packet *packet)
{
    struct scene_packet full = *packet;
    uint8_t frame[SCENE_FRAME_MAX];

    if (full.qpn == 0)
        full.qpn = SCENE_QPN_PEER;
    if (full.to == NULL)
        full.to = "10.0.0.2";
    if (full.qkey == 0)
        full.qkey = SCENE_QKEY;
    if (full.source_qpn == 0)
        full.source_qpn = uro_qp_number(scene->qp);
    uint32_t length = scene_output(scene, at, frame);
    if (length == 0)
        fail_msg("expected %s psn %u, but nothing is sent", packet->op, packet->psn);
    scene_wire_compare(&full, frame, length);
}

void scene_expect_silence(struct scene *scene, uro_time at)
{
    uint8_t frame[SCENE_FRAME_MAX];
    uint32_t length = scene_output(scene, at, frame);

    if (length != 0)
        scene_wire_fail("expected silence, but sent", frame, length);
}

static void expect_completion(struct scene *scene, struct uro_cq *cq, const char *queue,
                              uint64_t id, enum uro_wc_status status)
{
    uro_engine_deliver(scene->engine);
    if (uro_cq_poll(cq, &last, 1) != 1)
        fail_msg("no %s completion; expected id %lu", queue, (unsigned long)id);
    assert_int_equal(last.wr_id, id);
    assert_int_equal(last.status, status);
}

void scene_expect_sent(struct scene *scene, uint64_t id, enum uro_wc_status status)
{
    expect_completion(scene, scene->send_cq, "send", id, status);
}

void scene_expect_recv(struct scene *scene, uint64_t id, enum uro_wc_status status, uint32_t length)
{
    expect_completion(scene, scene->recv_cq, "receive", id, status);
    if (status == URO_WC_SUCCESS)
        assert_int_equal(last.byte_len, length);
}

void scene_expect_no_completion(const struct scene *scene)
{
    uro_engine_deliver(scene->engine);
    assert_int_equal(atomic_load(&scene->send_cq->tail), atomic_load(&scene->send_cq->head));
    assert_int_equal(atomic_load(&scene->recv_cq->tail), atomic_load(&scene->recv_cq->head));
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

/* Posts and sends the burst in one call. Packets in front of the bad request are described but not
 * copied yet. */
void scene_play_bad_one_in_a_burst(struct scene *s)
{
    struct uro_tx tx[8];

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8));
    scene_post_send(s, SEND(.id = 3, .text = "c", .at = 16, .lkey = 0x99));
    scene_post_send(s, SEND(.id = 4, .text = "d", .at = 24));
    assert_int_equal(uro_engine_output(s->engine, tx, 8, s->now), 2);
    scene_expect_no_completion(s);
    scene_expect_state(s, URO_QPS_RTS);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, URO_WC_SUCCESS);
    scene_expect_sent(s, 2, URO_WC_SUCCESS);
    scene_expect_sent(s, 3, URO_WC_LOC_PROT_ERR);
    scene_expect_sent(s, 4, URO_WC_WR_FLUSH_ERR);
    scene_expect_state(s, URO_QPS_SQE);
}
