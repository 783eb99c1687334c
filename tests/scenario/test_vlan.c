/* SPDX-License-Identifier: BSD-3-Clause */
/* test_vlan.c - tests a device on a VLAN. All its frames have the VLAN tag. It drops frames without
 * a tag, or with another VLAN ID. */
#include "scene.h"
#include "scene_wire.h"
#include "wire/ether.h"
#include "wire/icmp.h"

#define REPLY_BYTES 2048u /* longest reply to an echo request */
#define VLAN        10u
#define ONLY        PACKET(.op = "RC_SEND_ONLY", .text = "a", .psn = 100, .ack_req = true)
#define ACK         PACKET(.op = "RC_ACK", .psn = 100, .msn = 1)

static void set_tag(uint8_t *frame, uint16_t tag)
{
    uro_put_be16(frame + 14, tag);
}

static void vlan__requests_and_responses__have_the_tag_with_the_service_level_as_priority(
    void **state)
{
    (void)state;
    struct scene *s = scene_rc(.vlan = VLAN, .sl = 5, .rq_psn = 100, .sq_psn = 10);

    scene_post_recv(s, 1, 8);
    scene_rx(s, 0, ONLY);
    scene_expect_tx(s, 0, ACK);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_post_send(s, SEND(.id = 2, .text = "b"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .text = "b", .psn = 10, .ack_req = true));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .msn = 1));
    scene_expect_sent(s, 2, UROCE_SUCCESS);
    assert_int_equal(scene_counter(s, "drop_vlan"), 0);
    scene_expect_mark(s, "TX.TAG");
    scene_close(s);
}

/* Tests IGMP and MLD. Neighbour requests need no test, because each scene checks them when it
 * opens. */
static void vlan__membership_reports__have_the_tag(void **state)
{
    (void)state;
    struct scene *s = scene_ud(.vlan = VLAN, .sl = 5);

    scene_attach(s, "239.1.2.3");
    scene_attach(s, "ff0e::1:2");
    scene_detach(s, "239.1.2.3");
    scene_detach(s, "ff0e::1:2");
    scene_close(s);
}

/* Copies a frame of @length bytes to @tagged, with a tag. Returns the new length. */
static uint32_t copy_tagged(uint8_t *tagged, const uint8_t *plain, uint32_t length)
{
    memcpy(tagged, plain, 12);
    uro_put_be16(tagged + 12, URO_ETHERTYPE_VLAN);
    memcpy(tagged + 16, plain + 12, length - 12);
    return length + URO_VLAN_LEN;
}

static void vlan__frames_of_another_or_no_vlan__are_counted_and_dropped(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.vlan = VLAN, .rq_psn = 100);
    uint8_t frame[SCENE_FRAME_MAX], tagged[SCENE_FRAME_MAX];
    const uint32_t length = scene_frame(s, ONLY, frame);

    scene_post_recv(s, 1, 8);
    scene_input_raw(s, frame, length);
    const uint32_t longer = copy_tagged(tagged, frame, length);
    set_tag(tagged, VLAN + 1);
    scene_input_raw(s, tagged, longer);
    set_tag(tagged, 0); /* VLAN ID 0: a priority tag */
    scene_input_raw(s, tagged, longer);
    scene_expect_silence(s, 0);
    scene_expect_no_completion(s);
    assert_int_equal(scene_counter(s, "drop_vlan"), 3);
    scene_expect_mark(s, "RX.VLAN");

    set_tag(tagged, 7 << 13 | 1 << 12 | VLAN); /* any priority and DEI are accepted */
    scene_input_raw(s, tagged, longer);
    scene_expect_tx(s, 0, ACK);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    scene_close(s);
}

/* Tests a device without a VLAN, which is like an interface of Linux. */
static void no_vlan__tagged_frames__only_a_priority_tag_is_accepted(void **state)
{
    (void)state;
    static const uint16_t others[] = { 1, VLAN, URO_VLAN_MAX, 7 << 13 | VLAN };
    struct scene *s = scene_rc(.rq_psn = 100);
    uint8_t frame[SCENE_FRAME_MAX], tagged[SCENE_FRAME_MAX];
    const uint32_t length = copy_tagged(tagged, frame, scene_frame(s, ONLY, frame));

    scene_post_recv(s, 1, 8);
    for (size_t i = 0; i < URO_ARRAY_LEN(others); i++) {
        set_tag(tagged, others[i]);
        scene_input_raw(s, tagged, length);
    }
    scene_expect_silence(s, 0);
    scene_expect_no_completion(s);
    assert_int_equal(scene_counter(s, "drop_vlan"), URO_ARRAY_LEN(others));
    scene_expect_mark(s, "RX.VLAN");

    set_tag(tagged, 7 << 13 | 1 << 12); /* VLAN ID 0, any priority and DEI */
    scene_input_raw(s, tagged, length);
    scene_expect_tx(s, 0, ACK);
    scene_expect_recv(s, 1, UROCE_SUCCESS, 1);
    assert_int_equal(scene_counter(s, "drop_vlan"), URO_ARRAY_LEN(others));
    scene_close(s);
}

/* Frames between our own queue pairs have the tag, too. */
static void vlan__datagram_to_the_same_device__arrives(void **state)
{
    (void)state;
    static const char *const selves[] = { "10.0.0.1", "fe80::ff:fe00:1" };

    for (int v6 = 0; v6 < 2; v6++) {
        struct scene *s = scene_ud(.vlan = VLAN, .sl = 5);

        struct uroce_ah *ah = scene_make_ah(s, selves[v6]);
        scene_post_recv(s, 9, 64);
        scene_post_send(s, SEND(.id = 1, .text = "me", .ah = ah, .qpn = uroce_qp_number(s->qp)));
        scene_expect_silence(s, 0);
        scene_expect_silence(s, 0);
        scene_expect_recv(s, 9, UROCE_SUCCESS, 42);
        assert_memory_equal(scene_recv_memory(s, 40), "me", 2);
        scene_expect_sent(s, 1, UROCE_SUCCESS);
        assert_int_equal(scene_counter(s, "drop_vlan"), 0);
        assert_int_equal(uroce_ah_destroy(ah), 0);
        scene_close(s);
    }
}

/* The limit for a reply counts the longest headers, even if the reply has shorter headers. */
static void vlan__echo_request__reply_has_the_tag_if_it_fits(void **state)
{
    (void)state;
    static const uint8_t octets[REPLY_BYTES];
    const uint32_t most = REPLY_BYTES - URO_ETHER_LEN_MAX - URO_IPV6_LEN - URO_ICMP_ECHO_HEADER;
    const struct uro_ether ether = { .dest = scene_mac,
                                     .source = scene_peer_mac,
                                     .type = URO_ETHERTYPE_IPV4 };
    struct scene *s = scene_rc(.vlan = VLAN);
    uint8_t frame[SCENE_FRAME_MAX];

    for (uint32_t length = most - 1; length <= most + 1; length++) {
        struct uro_ip ip = { .hop_limit = 64,
                             .protocol = URO_IPPROTO_ICMP,
                             .payload_length = (uint16_t)(URO_ICMP_ECHO_HEADER + length) };
        const struct uro_icmp request = { .kind = URO_ICMP_ECHO_REQUEST,
                                          .echo_data = octets,
                                          .echo_length = length };
        assert_true(uro_gid_parse("10.0.0.2", &ip.source));
        assert_true(uro_gid_parse("10.0.0.1", &ip.dest));
        size_t at = uro_ether_put(frame, &ether);
        at += uro_ip_put(frame + at, &ip);
        at += uro_icmp_encode_echo(frame + at, &ip, &request);
        scene_input(s, 0, frame, (uint32_t)at);
        assert_int_equal(scene_output(s, 0, frame), length <= most ? at : 0);
    }
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            vlan__requests_and_responses__have_the_tag_with_the_service_level_as_priority),
        cmocka_unit_test(vlan__membership_reports__have_the_tag),
        cmocka_unit_test(vlan__frames_of_another_or_no_vlan__are_counted_and_dropped),
        cmocka_unit_test(no_vlan__tagged_frames__only_a_priority_tag_is_accepted),
        cmocka_unit_test(vlan__datagram_to_the_same_device__arrives),
        cmocka_unit_test(vlan__echo_request__reply_has_the_tag_if_it_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
