/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_flood.c - tests that floods of management datagrams do not stop valid traffic. */
#include <stdio.h>
#include <string.h>

#include <uroce/connection.h>

#include "base/mark.h"
#include "scene.h"
#include "scene_wire.h"
#include "wire/cm_msg.h"
#include "wire/frame.h"

#define SERVICE   UINT64_C(0x1061234)
#define STRANGERS 250u /* hosts in the subnet of the scene */
#define QUESTIONS 500u /* requests of all hosts; more packets than can wait for MAC addresses */
#define AT_ONCE   200u
#define REQUESTS  2000u
#define SENDS     64u
#define BURST     32u /* burst of a port */
#define BAD_MTU   26u /* reason of a REJ, IBTA Vol. 1, 12.6.7.2 */

static void input(struct scene *s, const char *from, const struct uro_cm_msg *msg)
{
    uint8_t mad[URO_MAD_LEN];

    uro_cm_encode(mad, msg);
    scene_rx(s, s->now - s->zero,
             PACKET(.op = "UD_SEND_ONLY", .qpn = URO_CM_MAD_QPN, .qkey = URO_CM_QKEY,
                    .source_qpn = URO_CM_MAD_QPN, .from = from, .octets = mad,
                    .length = sizeof mad));
}

static struct uro_cm_msg request(uint32_t number)
{
    struct uro_cm_msg req = { .kind = URO_CM_REQ, .tid = number };

    req.value[URO_CM_LOCAL_ID] = number;
    req.value[URO_CM_SERVICE_ID] = SERVICE;
    req.value[URO_CM_CA_GUID] = 77;
    req.value[URO_CM_LOCAL_QPN] = number;
    req.value[URO_CM_PATH_MTU] = 3;
    req.value[URO_CM_PKEY] = 0xffff;
    req.value[URO_CM_MAX_RETRIES] = 15;
    req.value[URO_CM_LOCAL_RESPONSE_TIMEOUT] = 20;
    assert_true(uro_gid_parse("10.0.0.1", &req.remote_gid));
    return req;
}

/* Frames that the engine sent: the number of each CM message, and of other packets. */
struct said {
    uint32_t messages[URO_CM_KIND_COUNT];
    uint32_t packets;
    uint64_t reason; /* reason of the last REJ */
};

static void count_response(struct said *said, const uint8_t *octets, uint32_t length)
{
    struct uro_frame frame;
    struct uro_cm_msg msg;

    if (uro_frame_network(octets, length, &frame) != URO_FRAME_OK ||
        frame.ether.type == URO_ETHERTYPE_ARP || frame.udp.dest_port != URO_ROCE_PORT)
        return;
    assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
    if (frame.bth.dest_qpn != URO_CM_MAD_QPN)
        said->packets++;
    else if (uro_cm_decode(frame.payload, &msg) == URO_CM_OK) {
        said->messages[msg.kind]++;
        if (msg.kind == URO_CM_REJ)
            said->reason = msg.value[URO_CM_REASON];
    }
}

/* Calls the engine once with room for a burst. */
static uint32_t burst(struct scene *s, struct said *said)
{
    const uint32_t count = scene_burst(s, BURST);

    for (uint32_t i = 0; i < count; i++)
        count_response(said, scene_burst_frame(i), scene_burst_length(i));
    return count;
}

static void listen_to(struct scene *s, struct said *said)
{
    while (burst(s, said) > 0)
        ;
}

/* Sends requests from hosts that do not answer neighbour requests. */
static void strangers_ask(struct scene *s, struct said *said)
{
    char from[16];

    for (uint32_t i = 0; i < QUESTIONS; i++) {
        const struct uro_cm_msg req = request(i + 1);
        (void)snprintf(from, sizeof from, "10.0.0.%u", 3 + i % STRANGERS);
        input(s, from, &req);
        listen_to(s, said);
    }
}

static void requests__of_absent_hosts__other_requests_get_responses(void **state)
{
    struct scene *s = scene_rc();
    const struct uro_cm_msg dreq = { .kind = URO_CM_DREQ };
    struct said said = { 0 };

    (void)state;
    strangers_ask(s, &said);
    assert_int_equal(said.messages[URO_CM_REJ], 0);
    input(s, "10.0.0.2", &dreq);
    listen_to(s, &said);
    assert_int_equal(said.messages[URO_CM_DREP], 1);
    assert_true(uro_mark_hit("CM.CROWD"));
    scene_close(s);
}

/* The engine also sends its own retransmissions in time. */
static void requests__of_absent_hosts__local_request_is_retransmitted(void **state)
{
    struct scene *s = scene_rc();
    struct uroce_conn_target target = {
        .address = { .sgid_index = 1 }, .service_id = SERVICE, .path_mtu = 1024, .retries = 3
    };
    const struct uroce_conn_param param = { .type = UROCE_RC };
    struct said said = { 0 };
    struct uroce_conn *conn;

    (void)state;
    assert_int_equal(uroce_gid_parse("10.0.0.2", target.address.gid), 0);
    assert_int_equal(uroce_conn_connect(s->engine, &target, &param, NULL, s->now, &conn), 0);
    listen_to(s, &said);
    strangers_ask(s, &said);
    assert_int_equal(said.messages[URO_CM_REQ], 1);
    s->now += URO_MS(4); /* 2 * 1 ms + 1 ms have passed, and no neighbour entry has failed yet */
    assert_true(uroce_engine_next(s->engine) <= s->now);
    listen_to(s, &said);
    assert_int_equal(said.messages[URO_CM_REQ], 2);
    assert_int_equal(uroce_conn_close(conn, s->now), 0);
    listen_to(s, &said);
    assert_int_equal(said.messages[URO_CM_REJ], 1);
    scene_close(s);
}

/* As with cmtime, this side has sent nothing to that host before, so its MAC address is unknown. */
static void requests__of_an_unresolved_host__all_get_responses_after_arp(void **state)
{
    struct scene *s = scene_rc();
    struct said said = { 0 };
    uint8_t frame[64];

    (void)state;
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        const struct uro_cm_msg req = request(i + 1);
        input(s, "10.0.0.3", &req);
        listen_to(s, &said);
    }
    assert_int_equal(said.messages[URO_CM_REJ], 0);
    scene_input(s, s->now, frame, scene_arp_reply(&scene_mac, &scene_peer_mac, "10.0.0.3", frame));
    listen_to(s, &said);
    assert_int_equal(said.messages[URO_CM_REJ], AT_ONCE);
    scene_close(s);
}

/* In each round, the port delivers a burst of messages, each of which needs a reply. Then the
 * engine sends two bursts. */
static void messages__endless__data_is_still_sent(void **state)
{
    struct scene *s = scene_rc();
    const struct uro_cm_msg dreq = { .kind = URO_CM_DREQ };
    struct said said = { 0 };
    uint32_t rounds = 0;

    (void)state;
    for (uint32_t i = 0; i < SENDS; i++)
        scene_post_send(s, SEND(.id = i, .length = 8, .quiet = true));
    for (; said.packets < SENDS; rounds++) {
        assert_in_range(rounds, 0, SENDS / BURST);
        for (uint32_t i = 0; i < BURST; i++)
            input(s, "10.0.0.2", &dreq);
        (void)burst(s, &said);
        (void)burst(s, &said);
    }
    assert_int_equal(said.messages[URO_CM_DREP], rounds * BURST);
    scene_close(s);
}

/* The application of a listener is slow. The backlog limits the waiting requests. Further requests
 * get no reply, or a REJ once uroce detects a flood, and leave no state. */
static void requests__endless__are_limited_by_the_backlog(void **state)
{
    struct scene *s = scene_rc();
    struct uroce_listener *listener;
    struct said said = { 0 };
    struct uroce_conn_event event;
    uint32_t waited = 0;

    (void)state;
    assert_int_equal(uroce_listener_create(s->engine, SERVICE, -1, 8, NULL, &listener), 0);
    for (uint32_t i = 1; i <= REQUESTS; i++) {
        const struct uro_cm_msg req = request(i);
        input(s, "10.0.0.2", &req);
        listen_to(s, &said);
    }
    assert_int_equal(scene_counter(s, "cm_drop_busy"), 16 * 8);
    assert_int_equal(said.messages[URO_CM_REJ], REQUESTS - 8 - 16 * 8);
    assert_true(uro_mark_hit("CM.FLOOD"));
    assert_int_equal(scene_counter(s, "cm_refused"), REQUESTS - 8 - 16 * 8);
    while (uroce_conn_event(s->engine, &event) == 1) {
        waited++;
        assert_int_equal(uroce_conn_close(event.conn, s->now), 0);
    }
    assert_int_equal(waited, 8);
    const struct uro_cm_msg good = request(REQUESTS + 1);
    input(s, "10.0.0.2", &good);
    assert_int_equal(uroce_conn_event(s->engine, &event), 1);
    assert_int_equal(uroce_conn_close(event.conn, s->now), 0);
    listen_to(s, &said);
    assert_int_equal(uroce_engine_end_connections(s->engine, s->now), 1);
    assert_int_equal(uroce_listener_destroy(listener), 0);
    scene_close(s);
}

static void cm__message_of_another_partition__is_counted_and_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    const struct uro_cm_msg req = request(1);
    uint8_t mad[URO_MAD_LEN];

    uro_cm_encode(mad, &req);
    scene_rx(s, 0,
             PACKET(.op = "UD_SEND_ONLY", .qpn = URO_CM_MAD_QPN, .qkey = URO_CM_QKEY,
                    .source_qpn = URO_CM_MAD_QPN, .pkey = 0x8001, .octets = mad,
                    .length = sizeof mad));
    assert_int_equal(scene_counter(s, "drop_pkey"), 1);
    scene_expect_silence(s, 0); /* not even a REJ */
    scene_close(s);
}

/* rule PORT.MTU */
static void requests__mtu_above_the_link__refused_until_the_mtu_fits(void **state)
{
    static const struct {
        uint32_t mtu;
        unsigned reason;
    } cases[] = { { 1103, BAD_MTU }, { 4500, UROCE_REJECT_BAD_SERVICE } };
    struct scene *s = scene_rc();
    struct said said = { 0 };

    (void)state;
    for (uint32_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        const struct uro_cm_msg req =
            request(i + 1); /* a path MTU of 1024: packets have up to 1104 bytes */
        uroce_engine_set_mtu(s->engine, cases[i].mtu);
        input(s, "10.0.0.2", &req);
        listen_to(s, &said);
        assert_int_equal(said.messages[URO_CM_REJ], i + 1);
        assert_int_equal(said.reason, cases[i].reason);
    }
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cm__message_of_another_partition__is_counted_and_dropped),
        cmocka_unit_test(requests__of_absent_hosts__other_requests_get_responses),
        cmocka_unit_test(requests__of_absent_hosts__local_request_is_retransmitted),
        cmocka_unit_test(requests__of_an_unresolved_host__all_get_responses_after_arp),
        cmocka_unit_test(messages__endless__data_is_still_sent),
        cmocka_unit_test(requests__endless__are_limited_by_the_backlog),
        cmocka_unit_test(requests__mtu_above_the_link__refused_until_the_mtu_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
