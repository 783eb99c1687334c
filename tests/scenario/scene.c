/* SPDX-License-Identifier: BSD-3-Clause */
/* scene.c - actions and checks of a scene: posts, arrivals, sends and completions. */
#include "scene.h"

#include <stdlib.h>
#include <string.h>

#include "scene_wire.h"
#include "wire/bytes.h"
#include "wire/ether.h"

#define TAG_AT 12u /* offset of the VLAN tag, after the MAC addresses */

const struct uro_mac scene_mac = { { 2, 0, 0, 0, 0, 1 } };
const struct uro_mac scene_peer_mac = { { 2, 0, 0, 0, 0, 2 } };
static struct uroce_completion last;

void scene_fill(uint8_t *at, uint32_t fill, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        at[i] = scene_byte(fill + i);
}

void scene_assert_filled(const uint8_t *at, uint32_t fill, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        if (at[i] != scene_byte(fill + i))
            fail_msg("octet %u is %02x, not %02x", i, at[i], scene_byte(fill + i));
}

void scene_post_recv(struct scene *scene, uint64_t id, uint32_t length)
{
    scene_post_recv_key(scene, id, length, uroce_mr_key(scene->local_mr));
}

void scene_post_recv_key(struct scene *scene, uint64_t id, uint32_t length, uint32_t lkey)
{
    const struct uroce_sge sge = { (uintptr_t)scene->local + SCENE_MEMORY / 2 + scene->recv_used,
                                   length, lkey };

    scene->recv_used += length;
    if (scene->srq != NULL)
        assert_int_equal(uroce_srq_receive(scene->srq, id, &sge, 1), 0);
    else
        assert_int_equal(uroce_qp_receive(scene->qp, id, &sge, 1), 0);
}

const uint8_t *scene_recv_memory(const struct scene *scene, uint32_t offset)
{
    return scene->local + SCENE_MEMORY / 2 + offset;
}

static enum uroce_qp_type type_of(const struct scene *scene)
{
    for (uint32_t i = 0; i < scene->qp_count; i++)
        if (scene->qps[i].qp == scene->qp)
            return scene->qps[i].type;
    fail_msg("not a queue pair of the scene");
    return UROCE_RC;
}

void scene_post_send(struct scene *scene, const struct scene_send *send)
{
    const uint32_t length = send->text != NULL ? (uint32_t)strlen(send->text) : send->length;
    const struct uroce_sge sge = { (uintptr_t)scene->local + send->at, length,
                                   send->lkey != 0 ? send->lkey : uroce_mr_key(scene->local_mr) };
    struct uroce_send request = { .wr_id = send->id,
                                  .opcode = send->op,
                                  .flags = send->flags | (send->quiet ? 0 : UROCE_SIGNALED),
                                  .sges = &sge,
                                  .sge_count = send->op == UROCE_LOCAL_INV ? 0 : 1,
                                  .remote_address = send->remote_address,
                                  .rkey = send->rkey,
                                  .imm = send->imm,
                                  .compare_add = send->compare_add,
                                  .swap = send->swap,
                                  .remote_srqn = send->srqn };

    if (send->text != NULL)
        memcpy(scene->local + send->at, send->text, length);
    if (type_of(scene) == UROCE_UD) {
        request.ah = send->ah != NULL ? send->ah : scene->ah;
        request.remote_qpn = send->qpn != 0 ? send->qpn : SCENE_QPN_PEER;
        request.remote_qkey = send->qkey != 0 ? send->qkey : SCENE_QKEY;
    }
    if (send->op == UROCE_FLUSH) {
        request.sge_count = 0;
        request.flush_length = length;
        request.flush_placement = send->placement;
        request.flush_selectivity = send->selectivity;
    }
    assert_int_equal(uroce_qp_send(scene->qp, &request), 0);
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

/* Passes a frame to the engine. About half of the frames are in shared memory. The last byte of a
 * frame decides this, so that each run makes the same choice. */
void scene_input_raw(struct scene *scene, const uint8_t *octets, uint32_t length)
{
    const uint32_t shared = length > 0 ? octets[length - 1] & 1u : 0;
    uint8_t *copy = malloc(length > 0 ? length : 1); /* a sanitizer reports any access behind it */

    assert_non_null(copy);
    memcpy(copy, octets, length);
    const struct uroce_packet packet = { copy, length, shared };
    assert_int_equal(uroce_engine_input(scene->engine, &packet, 1, scene->now), 0);
    free(copy);
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
        full.rkey = uroce_mr_key(scene->remote_mr);
    if (full.va == 0 && !full.no_va)
        full.va = (uintptr_t)scene->remote;
    if (full.qpn == 0)
        full.qpn = uroce_qp_number(scene->qp);
    if (full.from == NULL)
        full.from = "10.0.0.2";
    if (full.to == NULL)
        full.to = "10.0.0.1";
    if (full.srqn == 0)
        full.srqn = uroce_srq_number(scene->srq);
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
    struct uroce_buffer buffer = { octets, SCENE_FRAME_MAX, 0 };

    move_clock(scene, at);
    const int count = uroce_engine_output(scene->engine, &buffer, 1, scene->now);
    assert_in_range(count, 0, 1);
    if (count == 0)
        return 0;
    return scene->vlan == 0 ? buffer.length : take_tag(scene, octets, buffer.length);
}

static uint8_t burst[SCENE_BURST_MAX][SCENE_FRAME_MAX];
static struct uroce_buffer buffers[SCENE_BURST_MAX];

uint32_t scene_burst(struct scene *scene, uint32_t room)
{
    assert_true(room <= SCENE_BURST_MAX);
    for (uint32_t i = 0; i < room; i++)
        buffers[i] = (struct uroce_buffer){ burst[i], SCENE_FRAME_MAX, 0 };
    const int count = uroce_engine_output(scene->engine, buffers, room, scene->now);
    assert_in_range(count, 0, room);
    return (uint32_t)count;
}

const uint8_t *scene_burst_frame(uint32_t index)
{
    return burst[index];
}

uint32_t scene_burst_length(uint32_t index)
{
    return buffers[index].length;
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
        full.source_qpn = uroce_qp_number(scene->qp);
    uint32_t length = scene_output(scene, at, frame);
    if (length == 0)
        fail_msg("expected %s psn %u, but nothing is sent", packet->op, packet->psn);
    scene_wire_compare(&full, frame, length);
}

void scene_skip(struct scene *scene)
{
    assert_int_equal(scene_burst(scene, 1), 1);
}

void scene_expect_silence(struct scene *scene, uro_time at)
{
    uint8_t frame[SCENE_FRAME_MAX];
    uint32_t length = scene_output(scene, at, frame);

    if (length != 0)
        scene_wire_fail("expected silence, but sent", frame, length);
}

static void expect_completion(struct scene *scene, struct uroce_cq *cq, const char *queue,
                              uint64_t id, enum uroce_status status)
{
    uroce_engine_deliver(scene->engine);
    if (uroce_cq_poll(cq, &last, 1) != 1)
        fail_msg("no %s completion; expected id %lu", queue, (unsigned long)id);
    assert_int_equal(last.wr_id, id);
    assert_int_equal(last.status, status);
}

void scene_expect_sent(struct scene *scene, uint64_t id, enum uroce_status status)
{
    expect_completion(scene, scene->send_cq, "send", id, status);
}

void scene_expect_recv(struct scene *scene, uint64_t id, enum uroce_status status, uint32_t length)
{
    expect_completion(scene, scene->recv_cq, "receive", id, status);
    if (status == UROCE_SUCCESS)
        assert_int_equal(last.length, length);
}

void scene_expect_no_completion(const struct scene *scene)
{
    struct uroce_completion extra;

    uroce_engine_deliver(scene->engine);
    assert_int_equal(uroce_cq_poll(scene->send_cq, &extra, 1), 0);
    assert_int_equal(uroce_cq_poll(scene->recv_cq, &extra, 1), 0);
}

const struct uroce_completion *scene_last(void)
{
    return &last;
}

void scene_expect_reason(uint32_t reason, const char *text)
{
    assert_string_equal(uroce_failure_text(reason), text);
}

void scene_expect_mark(struct scene *scene, const char *rule)
{
    (void)scene;
    if (!uro_mark_hit(rule))
        fail_msg("the line of rule %s did not run", rule);
}

void scene_expect_state(struct scene *scene, enum uroce_qp_state state)
{
    assert_int_equal(uroce_qp_state(scene->qp), state);
}

void scene_expect_event(struct scene *scene, enum uroce_event_kind kind)
{
    struct uroce_event event;

    if (uroce_engine_event(scene->engine, &event) != 1)
        fail_msg("no event, expected kind %d", (int)kind);
    assert_int_equal(event.kind, kind);
}

uint64_t scene_counter(const struct scene *scene, const char *counter)
{
    uint64_t value = 0;

    assert_int_equal(uroce_engine_counter(scene->engine, counter, &value), 0);
    return value;
}

/* Posts four sends, the third with a bad key. Expects that one call sends the two packets before
 * the bad request. */
void scene_play_bad_one_in_a_burst(struct scene *s)
{
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_post_send(s, SEND(.id = 2, .text = "b", .at = 8));
    scene_post_send(s, SEND(.id = 3, .text = "c", .at = 16, .lkey = 0x99));
    scene_post_send(s, SEND(.id = 4, .text = "d", .at = 24));
    assert_int_equal(scene_burst(s, 8), 2);
    scene_expect_no_completion(s);
    scene_expect_state(s, UROCE_RTS);
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_expect_sent(s, 3, UROCE_LOC_PROT_ERR);
    scene_expect_sent(s, 4, UROCE_WR_FLUSH_ERR);
    scene_expect_state(s, UROCE_SQE);
}
