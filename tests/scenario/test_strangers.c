/* SPDX-License-Identifier: BSD-3-Clause */
/* test_strangers.c - tests packets that a host other than the peer sends or forges. They must
 * change nothing but counters. */
#include <stdlib.h>
#include <string.h>

#include <uroce/connection.h>

#include "base/mark.h"
#include "base/rng.h"
#include "core/limits.h"
#include "scene.h"
#include "scene_wire.h"
#include "wire/cm_msg.h"
#include "wire/frame.h"
#include "wire/opcode.h"

#define RQ_PSN  1000u
#define SQ_PSN  5000u
#define GUESSES 200u /* guesses for each request opcode and for each syndrome */

/* The field that a stranger guessed wrong, and the counter that increases. */
struct guess {
    const char *from;
    uint32_t qpn;
    uint16_t pkey;
    const char *counter;
};

/* Opens a queue pair with a receive posted and, on RC, a SEND and a READ in flight. */
static struct scene *busy(enum uroce_qp_type type)
{
    struct scene *s = scene_rc(.type = type, .rq_psn = RQ_PSN, .sq_psn = SQ_PSN);

    scene_post_recv(s, 1, 256);
    if (type != UROCE_RC)
        return s;
    scene_post_send(s, SEND(.id = 2, .text = "a"));
    scene_post_send(s, SEND(.id = 3, .op = UROCE_RDMA_READ, .length = 8, .rkey = 0x77,
                            .remote_address = 0x1000, .at = 64));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_SEND_ONLY", .psn = SQ_PSN, .ack_req = true, .text = "a"));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_READ_REQUEST", .psn = SQ_PSN + 1, .ack_req = true,
                           .va = 0x1000, .rkey = 0x77, .dma = 8));
    return s;
}

/* Continues the transfers with the peer. The queue pair must be unchanged. */
static void goes_on(struct scene *s)
{
    scene_expect_silence(s, 0);
    scene_expect_state(s, UROCE_RTS);
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = SQ_PSN, .msn = 1));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = SQ_PSN + 1, .text = "12345678"));
    scene_expect_sent(s, 3, UROCE_SUCCESS);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = RQ_PSN, .ack_req = true, .text = "hello"));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 5);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = RQ_PSN, .msn = 1));
    scene_close(s);
}

static bool has_bytes(const struct uro_opcode *op)
{
    return op->operation == URO_SEND || op->operation == URO_WRITE ||
           op->operation == URO_ATOMIC_WRITE ||
           (op->operation == URO_READ && op->role == URO_RESPONSE);
}

/* Delivers every opcode of @service, except the CNP, with the wrong field of @guess, if any field
 * of it is wrong. All other fields are right, including the PSN and the key. */
static uint32_t throw_all(struct scene *s, enum uro_service service, const struct guess *guess)
{
    uint32_t thrown = 0;

    for (unsigned i = 0; i < 256; i++) {
        const struct uro_opcode *op = &uro_opcodes[i];
        if (op->name == NULL || op->service != service || (op->ext & URO_EXT_CNP))
            continue;
        struct scene_packet packet = { .op = op->name,
                                       .psn = op->role == URO_REQUEST ? RQ_PSN : SQ_PSN,
                                       .ack_req = true,
                                       .va = (uintptr_t)s->remote,
                                       .rkey = uroce_mr_key(s->remote_mr),
                                       .dma = 8,
                                       .swap_add = 1,
                                       .placement = 1,
                                       .length = uro_position_ends(op->position) ? 8 : 1024,
                                       .from = guess->from,
                                       .qpn = guess->qpn,
                                       .pkey = guess->pkey };
        if (!has_bytes(op))
            packet.length = 0;
        scene_rx(s, 0, &packet);
        thrown++;
    }
    return thrown;
}

static void throw_and_go_on(const struct guess *guess)
{
    struct scene *s = busy(UROCE_RC);
    uint64_t before = scene_counter(s, guess->counter);

    uint32_t thrown = throw_all(s, URO_RC, guess);
    assert_true(thrown > 15);
    assert_int_equal(scene_counter(s, guess->counter) - before, thrown);
    goes_on(s);
}

static void stranger__another_address__every_opcode_is_dropped(void **state)
{
    (void)state;
    throw_and_go_on(&(const struct guess){ .from = "10.0.0.9", .counter = "drop_address" });
}

static void stranger__another_queue_pair__every_opcode_is_dropped(void **state)
{
    (void)state;
    throw_and_go_on(&(const struct guess){ .qpn = 0x777777, .counter = "drop_qpn" });
}

static void stranger__another_partition__every_opcode_is_dropped(void **state)
{
    (void)state;
    throw_and_go_on(&(const struct guess){ .pkey = 0x1234, .counter = "drop_pkey" });
}

static void stranger__another_service__every_opcode_is_dropped(void **state)
{
    static const enum uro_service others[] = { URO_UC, URO_UD, URO_XRC };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(others); i++) {
        struct scene *s = busy(UROCE_RC);
        uint32_t thrown = throw_all(s, others[i], &(const struct guess){ .qpn = 0 });
        assert_int_equal(scene_counter(s, "drop_service"), thrown);
        goes_on(s);
    }
}

/* The forged packets have the peer's address. Responses count only for requests in flight. */
static void stranger__forged_responses_with_other_psns__change_nothing(void **state)
{
    static const uint8_t syndromes[] = { 0x1f, 0x20, 0x2e, 0x60, 0x61, 0x62, 0x63, 0x40 };
    struct uro_rng rng;

    (void)state;
    struct scene *s = busy(UROCE_RC);
    uro_rng_init_number(&rng, 1);
    for (uint32_t i = 0; i < GUESSES * URO_ARRAY_LEN(syndromes); i++) {
        uint32_t psn = (SQ_PSN + 2 + uro_rng_below(&rng, (1u << 24) - 2)) & 0xffffff;
        scene_rx(s, 0,
                 PACKET(.op = "RC_ACK", .psn = psn, .syndrome = syndromes[i % sizeof syndromes]));
        scene_rx(s, 0, PACKET(.op = "RC_READ_RESPONSE_ONLY", .psn = psn, .text = "forged!!"));
    }
    assert_int_equal(scene_counter(s, "drop_ghost_ack") + scene_counter(s, "drop_stale_response"),
                     2 * GUESSES * URO_ARRAY_LEN(syndromes));
    goes_on(s);
}

/* Forged requests far ahead of the expected PSN get one NAK. Far behind it, SENDs and WRITEs get
 * one ACK, but READs and atomics get no response. All these requests change nothing else, and count
 * as far requests. */
static void stranger__forged_requests_with_other_psns__write_nothing(void **state)
{
    uint8_t before[SCENE_MEMORY / 64];
    struct uro_rng rng;

    (void)state;
    struct scene *s = scene_rc(.rq_psn = RQ_PSN, .min_rnr_timer = 12);
    uro_rng_init_number(&rng, 2);
    scene_post_recv(s, 1, 256);
    memcpy(before, s->remote, sizeof before);
    scene_rx(s, 0,
             PACKET(.op = "RC_WRITE_ONLY", .psn = RQ_PSN + 70000, .dma = 8, .text = "forged!!"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = RQ_PSN, .syndrome = 0x60));
    for (uint32_t i = 0; i < GUESSES; i++) {
        uint32_t psn = (RQ_PSN + 70000 + uro_rng_below(&rng, 1u << 22)) & 0xffffff;
        scene_rx(s, 0, PACKET(.op = "RC_WRITE_ONLY", .psn = psn, .dma = 8, .text = "forged!!"));
        scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = psn, .text = "forged!!"));
        scene_rx(s, 0, PACKET(.op = "RC_FETCH_ADD", .psn = psn, .swap_add = 1));
        scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = psn, .dma = 8));
    }
    scene_expect_silence(s, 0);
    /* So far behind the expected PSN, no responder resource has a READ or atomic that the engine
     * could repeat. */
    for (uint32_t i = 0; i < GUESSES; i++) {
        uint32_t psn = (RQ_PSN - 70000 - uro_rng_below(&rng, 1u << 22)) & 0xffffff;
        scene_rx(s, 0, PACKET(.op = "RC_FETCH_ADD", .psn = psn, .swap_add = 1));
        scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = psn, .dma = 8));
    }
    scene_expect_silence(s, 0);
    /* SENDs and WRITEs there are duplicates. Their ACK has the PSN before RQ_PSN. */
    for (uint32_t i = 0; i < GUESSES; i++) {
        uint32_t psn = (RQ_PSN - 70000 - uro_rng_below(&rng, 1u << 22)) & 0xffffff;
        scene_rx(s, 0, PACKET(.op = "RC_WRITE_ONLY", .psn = psn, .dma = 8, .text = "forged!!"));
        scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = psn, .ack_req = true, .text = "forged"));
    }
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = RQ_PSN - 1));
    scene_expect_silence(s, 0);
    assert_true(uro_mark_hit("RSP.DUP.LAST"));
    assert_int_equal(scene_counter(s, "far_request"), 1 + 8 * GUESSES);
    assert_memory_equal(before, s->remote, sizeof before);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = RQ_PSN, .ack_req = true, .text = "hello"));
    scene_expect_recv(s, 1, UROCE_SUCCESS, 5);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = RQ_PSN, .msn = 1));
    scene_expect_state(s, UROCE_RTS);
    assert_true(uro_mark_hit("RSP.FAR"));
    scene_close(s);
}

/* Returns the CA GUID in a request that an engine with the seed @seed sends to itself. */
static uint64_t guid_of_requests(uint8_t seed)
{
    struct uroce_engine_config config = { .size = sizeof config, .mtu = 1500, .seed = { seed } };
    struct uroce_conn_target target = { .path_mtu = 1024, .address = { .sgid_index = 0 } };
    const struct uro_gid own = uro_gid_link_local(&scene_mac);
    const struct uroce_conn_param param = { .type = UROCE_RC };
    static uint8_t bytes[SCENE_FRAME_MAX];
    struct uroce_buffer buffer = { bytes, sizeof bytes, 0 };
    struct uroce_packet looped;
    struct uroce_engine *engine;
    struct uroce_conn *conn;
    struct uro_frame frame;
    struct uro_cm_msg msg;

    memcpy(config.mac, scene_mac.octets, sizeof config.mac);
    memcpy(target.address.gid, own.octets, sizeof target.address.gid);
    assert_int_equal(uroce_engine_create(&config, 0, &engine), 0);
    assert_int_equal(uroce_conn_connect(engine, &target, &param, NULL, 0, &conn), 0);
    while (uroce_engine_looped(engine, &looped, 1) == 0)
        assert_in_range(uroce_engine_output(engine, &buffer, 1, 0), 0, 1);
    assert_int_equal(uro_frame_network(looped.bytes, looped.length, &frame), URO_FRAME_OK);
    assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
    assert_int_equal(uro_cm_decode(frame.payload, &msg), URO_CM_OK);
    assert_int_equal(uroce_conn_close(conn, 0), 0);
    assert_int_equal(uroce_engine_destroy(engine), 0);
    return msg.value[URO_CM_CA_GUID];
}

/* A REQ with a CA GUID and QPN that are in use ends the connection of that queue pair. So the CA
 * GUID depends on the secret seed, and not on the MAC address. */
static void stranger__with_the_local_mac_address__cannot_compute_the_cm_guid(void **state)
{
    (void)state;
    assert_true(guid_of_requests(1) != uro_guid_from_mac(&scene_mac));
    assert_true(guid_of_requests(1) != guid_of_requests(2));
    assert_true(guid_of_requests(1) == guid_of_requests(1));
    assert_true(uro_mark_hit("CM.GUID"));
}

/* The peer retransmits READs whose responses are late. So a duplicate READ may be as far behind the
 * expected PSN as the number of PSNs of all outstanding READs. */
static void far_request__of_a_peer_with_long_reads__is_not_counted(void **state)
{
    (void)state;
    const uint32_t psns = SCENE_MEMORY / 256;
    struct scene *s = scene_rc(.rq_psn = RQ_PSN, .mtu = 256, .dest_depth = 128);
    const uint32_t behind = URO_PSN_FAR + 10;

    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = RQ_PSN, .dma = SCENE_MEMORY));
    assert_true(behind < URO_PSN_FAR + 128 * psns);
    const uint32_t due = RQ_PSN + psns;
    scene_rx(s, 0, PACKET(.op = "RC_READ_REQUEST", .psn = (due - behind) & 0xffffff, .dma = 8));
    assert_int_equal(scene_counter(s, "far_request"), 0);
    scene_rx(
        s, 0,
        PACKET(.op = "RC_READ_REQUEST", .psn = (due - 128 * psns - behind) & 0xffffff, .dma = 8));
    assert_int_equal(scene_counter(s, "far_request"), 1);
    scene_to_state(s, UROCE_ERR);
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stranger__another_address__every_opcode_is_dropped),
        cmocka_unit_test(stranger__another_queue_pair__every_opcode_is_dropped),
        cmocka_unit_test(stranger__another_partition__every_opcode_is_dropped),
        cmocka_unit_test(stranger__another_service__every_opcode_is_dropped),
        cmocka_unit_test(stranger__forged_responses_with_other_psns__change_nothing),
        cmocka_unit_test(stranger__forged_requests_with_other_psns__write_nothing),
        cmocka_unit_test(stranger__with_the_local_mac_address__cannot_compute_the_cm_guid),
        cmocka_unit_test(far_request__of_a_peer_with_long_reads__is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
