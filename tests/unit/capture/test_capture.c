/* SPDX-License-Identifier: BSD-3-Clause */
/* test_capture.c - tests reading a capture: packets, their defects, flows, and pairs of flows. */
#include "support/check.h"

#include <string.h>

#include "capture_kit.h"
#include "support/make_frame.h"

static void capture__connection__has_two_flows_that_are_paired(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_SEND_FIRST, 101, KIT_PMTU);
    struct uro_capture *capture = kit_end();

    assert_int_equal(capture->count, 3);
    assert_int_equal(capture->roce_count, 3);
    assert_int_equal(capture->flow_count, 2);
    assert_int_equal(capture->flows[0].peer, 1);
    assert_int_equal(capture->flows[0].pairing, URO_PAIRED_BY_PSN);
    assert_int_equal(capture->flows[0].pmtu, KIT_PMTU);
    assert_int_equal(capture->flows[1].pmtu, 0);
    assert_int_equal(uro_capture_source_qpn(capture, &capture->packets[0]), KIT_QPN_A);
    assert_int_equal(uro_capture_source_qpn(capture, &capture->packets[1]), KIT_QPN_B);
    uro_capture_free(capture);
}

/* The PSNs of the responses fit no request. So they are probably, but not certainly, the other
 * direction of the flow. */
static void capture__responses_that_fit_no_request__are_paired_as_the_only_flows(void **state)
{
    (void)state;
    kit_begin();
    kit_send(KIT_A, OP_SEND_ONLY, 100, 64);
    kit_respond(KIT_B, OP_ACK, 5000, 1, SYNDROME_ACK, 0);
    struct uro_capture *capture = kit_end();

    assert_int_equal(capture->flows[0].pairing, URO_PAIRED_BY_ONLY);
    assert_int_equal(capture->flows[0].peer, 1);
    uro_capture_free(capture);
}

static void put_from(int side, uint8_t opcode, uint32_t qpn, uint32_t psn, uint16_t port)
{
    struct uro_frame frame = kit_frame(side, opcode, psn, 0);

    frame.bth.dest_qpn = qpn;
    frame.udp.source_port = port;
    frame.aeth = (struct uro_aeth){ SYNDROME_ACK, 1 };
    kit_put(&frame);
}

/* Two connections have the same PSNs. The UDP source port decides which flows are pairs. */
static void capture__equal_psns__are_paired_by_source_port(void **state)
{
    (void)state;
    kit_begin();
    put_from(KIT_A, OP_SEND_ONLY, 0x51, 7, 50001);
    put_from(KIT_A, OP_SEND_ONLY, 0x52, 7, 50002);
    put_from(KIT_B, OP_ACK, 0x62, 7, 50002);
    put_from(KIT_B, OP_ACK, 0x61, 7, 50001);
    struct uro_capture *capture = kit_end();

    assert_int_equal(capture->flow_count, 4);
    assert_int_equal(capture->flows[0].peer, 3);
    assert_int_equal(capture->flows[1].peer, 2);
    uro_capture_free(capture);
}

/* Two connections have the same PSNs and ports. The flows are not paired, because the pairs could
 * be wrong. */
static void capture__equal_psns_and_ports__are_not_paired(void **state)
{
    (void)state;
    kit_begin();
    put_from(KIT_A, OP_SEND_ONLY, 0x51, 7, 50001);
    put_from(KIT_A, OP_SEND_ONLY, 0x52, 7, 50001);
    put_from(KIT_B, OP_ACK, 0x62, 7, 50001);
    put_from(KIT_B, OP_ACK, 0x61, 7, 50001);
    struct uro_capture *capture = kit_end();

    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(capture->flows[i].peer, URO_CAPTURE_NONE);
    uro_capture_free(capture);
}

static void capture__device_that_talks_to_itself__is_paired_by_qpn(void **state)
{
    (void)state;
    kit_begin();
    for (int side = KIT_A; side <= KIT_B; side++) {
        struct uro_frame frame = kit_frame(side, side == KIT_A ? OP_SEND_ONLY : OP_ACK, 9, 0);
        frame.ip.source = frame.ip.dest = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 1 });
        frame.aeth = (struct uro_aeth){ SYNDROME_ACK, 1 };
        kit_put(&frame);
    }
    struct uro_capture *capture = kit_end();

    assert_int_equal(uro_capture_source_qpn(capture, &capture->packets[0]), KIT_QPN_A);
    assert_int_equal(uro_capture_source_qpn(capture, &capture->packets[1]), KIT_QPN_B);
    uro_capture_free(capture);
}

/* Builds a SEND ONLY of 61 bytes, applies @change to its bytes, and returns the packet as read. */
static struct uro_capture_packet changed(void (*change)(uint8_t *octets, uint32_t *length))
{
    const struct uro_frame frame = kit_frame(KIT_A, OP_SEND_ONLY, 1, 61);
    uint8_t octets[MADE_FRAME_MAX];
    uint32_t length = make_frame(&frame, octets);

    kit_begin();
    change(octets, &length);
    kit_put_bytes(octets, length, length);
    struct uro_capture *capture = kit_end();
    const struct uro_capture_packet packet = capture->packets[0];
    uro_capture_free(capture);
    return packet;
}

#define BTH (14u + 20u + 8u)

static void new_icrc(uint8_t *octets, uint32_t length)
{
    uro_put_le32(octets + length - 4, uro_icrc(octets + 14, false, length - 4 - 14));
}

static void wrong_icrc(uint8_t *octets, uint32_t *length)
{
    octets[*length - 1] ^= 1;
}

static void turned_icrc(uint8_t *octets, uint32_t *length)
{
    const uint32_t icrc = uro_get_le32(octets + *length - 4);
    uro_put_be32(octets + *length - 4, icrc);
}

static void icrc_without_pad(uint8_t *octets, uint32_t *length)
{
    uro_put_le32(octets + *length - 4, uro_icrc(octets + 14, false, *length - 4 - 14 - 3));
}

static void unknown_opcode(uint8_t *octets, uint32_t *length)
{
    octets[BTH] = 0x1f;
    new_icrc(octets, *length);
}

static void version_1(uint8_t *octets, uint32_t *length)
{
    octets[BTH + 1] |= 1;
    new_icrc(octets, *length);
}

static void reserved_bit(uint8_t *octets, uint32_t *length)
{
    octets[BTH + 8] |= 1;
    new_icrc(octets, *length);
}

static void pad_of_2(uint8_t *octets, uint32_t *length)
{
    octets[BTH + 1] = (uint8_t)((octets[BTH + 1] & 0xcf) | 2 << 4);
    new_icrc(octets, *length);
}

static void wrong_udp_checksum(uint8_t *octets, uint32_t *length)
{
    (void)length;
    octets[BTH - 1] = 1;
}

/* The checksum field has only the sum of the pseudo-header, because a network card would compute
 * the rest. */
static void offloaded_udp_checksum(uint8_t *octets, uint32_t *length)
{
    struct uro_frame frame;

    assert_int_equal(uro_frame_network(octets, *length, &frame), URO_FRAME_OK);
    const uint32_t sum = uro_ip_pseudo_sum(&frame.ip, URO_IPPROTO_UDP, frame.udp.length);
    uro_put_be16(octets + BTH - 2, (uint16_t)~uro_ip_sum_finish(sum));
}

static void nothing(uint8_t *octets, uint32_t *length)
{
    (void)octets;
    (void)length;
}

static void decode__each_flaw__is_named(void **state)
{
    static const struct {
        void (*change)(uint8_t *octets, uint32_t *length);
        enum uro_capture_kind kind;
        uint32_t flaws;
    } cases[] = {
        { nothing, URO_CAPTURE_ROCE, 0 },
        { wrong_icrc, URO_CAPTURE_BAD, URO_FLAW_ICRC },
        { turned_icrc, URO_CAPTURE_BAD, URO_FLAW_ICRC | URO_FLAW_ICRC_ORDER },
        { icrc_without_pad, URO_CAPTURE_BAD, URO_FLAW_ICRC | URO_FLAW_ICRC_PAD },
        { unknown_opcode, URO_CAPTURE_BAD, URO_FLAW_OPCODE },
        { version_1, URO_CAPTURE_BAD, URO_FLAW_VERSION },
        { reserved_bit, URO_CAPTURE_ROCE, URO_FLAW_RESERVED },
        { pad_of_2, URO_CAPTURE_ROCE, 0 },
        { wrong_udp_checksum, URO_CAPTURE_BAD, URO_FLAW_UDP_CHECKSUM },
        { offloaded_udp_checksum, URO_CAPTURE_ROCE, 0 },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        const struct uro_capture_packet packet = changed(cases[i].change);
        if (packet.kind != cases[i].kind || packet.flaws != cases[i].flaws)
            fail_msg("case %zu: kind %u, flaws 0x%x", i, packet.kind, packet.flaws);
    }
}

/* The snapshot length of a capture may cut a frame after its headers. The payload length is then
 * that of the frame on the wire. */
static void decode__truncated_frame__headers_are_decoded_or_kind_is_cut(void **state)
{
    const struct uro_frame frame = kit_frame(KIT_A, OP_SEND_ONLY, 1, 61);
    uint8_t octets[MADE_FRAME_MAX];
    const uint32_t length = make_frame(&frame, octets);

    (void)state;
    kit_begin();
    kit_put_bytes(octets, BTH + 12, length);
    kit_put_bytes(octets, BTH + 11, length);
    kit_put_bytes(octets, 10, length);
    kit_put_bytes(octets, 0, length);
    struct uro_capture *capture = kit_end();
    assert_int_equal(capture->packets[0].kind, URO_CAPTURE_ROCE);
    assert_int_equal(capture->packets[0].payload, 61);
    assert_int_equal(capture->packets[1].kind, URO_CAPTURE_CUT);
    assert_int_equal(capture->packets[2].kind, URO_CAPTURE_OTHER);
    assert_int_equal(capture->packets[3].kind, URO_CAPTURE_OTHER);
    uro_capture_free(capture);
}

/* Puts three packets of a message into one frame, as a kernel does. The last packet is shorter.
 * @step is the difference of their identifications. @damaged is the index of the packet with a
 * wrong ICRC; 3: none. */
static void put_joined(bool v6, uint16_t step, unsigned damaged)
{
    static const uint8_t opcodes[] = { OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST };
    const uint32_t head = v6 ? BTH + 20 : BTH;
    uint8_t joined[3 * MADE_FRAME_MAX], octets[MADE_FRAME_MAX];
    uint32_t length = 0;

    for (unsigned i = 0; i < 3; i++) {
        struct uro_frame frame = kit_frame(KIT_A, opcodes[i], 1 + i, i < 2 ? KIT_PMTU : 100);
        frame.ip.identification = (uint16_t)(500 + i * step);
        if (v6) {
            frame.ether.type = URO_ETHERTYPE_IPV6;
            frame.ip.v6 = true;
            frame.ip.source = (struct uro_gid){ { 0xfd, [15] = 1 } };
            frame.ip.dest = (struct uro_gid){ { 0xfd, [15] = 2 } };
        }
        const uint32_t own = make_frame(&frame, octets), skipped = i == 0 ? 0 : head;
        octets[own - 1] ^= i == damaged;
        memcpy(joined + length, octets + skipped, own - skipped);
        length += own - skipped;
    }
    uro_put_be16(joined + head - 4, (uint16_t)(length - head + 8));
    uro_put_be16(joined + head - 2, 0);
    if (v6) {
        uro_put_be16(joined + 18, (uint16_t)(length - head + 8));
    } else {
        uro_put_be16(joined + 16, (uint16_t)(length - 14));
        uro_put_be16(joined + 24, 0);
        uro_put_be16(joined + 24, uro_ip_sum_finish(uro_ip_sum(0, joined + 14, 20)));
    }
    kit_put_bytes(joined, length, length);
}

static void decode__packets_that_a_kernel_joined__are_split(void **state)
{
    static const uint32_t payloads[] = { KIT_PMTU, KIT_PMTU, 100 };

    (void)state;
    for (unsigned way = 0; way < 3; way++) { /* IPv4 with and without increasing IDs, IPv6 */
        kit_begin();
        kit_send(KIT_A, OP_SEND_ONLY, 0, 8);
        put_joined(way == 2, way == 0, 3);
        struct uro_capture *capture = kit_end();
        assert_int_equal(capture->frame_count, 2);
        assert_int_equal(capture->split_count, 1);
        assert_int_equal(capture->count, 4);
        assert_int_equal(capture->joined_count, 0);
        for (unsigned i = 0; i < 3; i++) {
            const struct uro_capture_packet *packet = &capture->packets[1 + i];
            assert_int_equal(packet->kind, URO_CAPTURE_ROCE);
            assert_int_equal(packet->flaws, 0);
            assert_int_equal(packet->frame, 2);
            assert_int_equal(packet->psn, 1 + i);
            assert_int_equal(packet->payload, payloads[i]);
        }
        uro_capture_free(capture);
    }
}

static void decode__joined_packet_with_a_wrong_icrc__is_not_judged(void **state)
{
    (void)state;
    kit_begin();
    put_joined(false, 1, 1);
    struct uro_capture *capture = kit_end();
    assert_int_equal(capture->count, 3);
    assert_int_equal(capture->packets[0].kind, URO_CAPTURE_ROCE);
    assert_int_equal(capture->packets[1].kind, URO_CAPTURE_JOINED);
    assert_int_equal(capture->packets[1].flaws, 0);
    assert_int_equal(capture->packets[2].kind, URO_CAPTURE_ROCE);
    assert_int_equal(capture->joined_count, 1);
    uro_capture_free(capture);
}

static void decode__joined_packets_with_a_damaged_first__are_one_with_a_wrong_icrc(void **state)
{
    (void)state;
    kit_begin();
    put_joined(false, 1, 0);
    struct uro_capture *capture = kit_end();
    assert_int_equal(capture->count, 1);
    assert_int_equal(capture->packets[0].kind, URO_CAPTURE_BAD);
    assert_int_equal(capture->packets[0].flaws, URO_FLAW_ICRC);
    uro_capture_free(capture);
}

static void decode__vlan__is_another_address(void **state)
{
    struct uro_frame frame = kit_frame(KIT_A, OP_SEND_ONLY, 1, 8);

    (void)state;
    kit_begin();
    kit_put(&frame);
    frame.ether.tagged = true;
    frame.ether.tag = 3 << 13 | 10;
    kit_put(&frame);
    struct uro_capture *capture = kit_end();
    assert_int_equal(capture->flow_count, 2);
    assert_int_equal(capture->addresses[capture->packets[1].source].vlan, 10);
    uro_capture_free(capture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capture__connection__has_two_flows_that_are_paired),
        cmocka_unit_test(capture__responses_that_fit_no_request__are_paired_as_the_only_flows),
        cmocka_unit_test(capture__equal_psns__are_paired_by_source_port),
        cmocka_unit_test(capture__equal_psns_and_ports__are_not_paired),
        cmocka_unit_test(capture__device_that_talks_to_itself__is_paired_by_qpn),
        cmocka_unit_test(decode__each_flaw__is_named),
        cmocka_unit_test(decode__truncated_frame__headers_are_decoded_or_kind_is_cut),
        cmocka_unit_test(decode__packets_that_a_kernel_joined__are_split),
        cmocka_unit_test(decode__joined_packet_with_a_wrong_icrc__is_not_judged),
        cmocka_unit_test(decode__joined_packets_with_a_damaged_first__are_one_with_a_wrong_icrc),
        cmocka_unit_test(decode__vlan__is_another_address),
    };
    return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
