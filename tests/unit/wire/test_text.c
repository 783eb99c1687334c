/* SPDX-License-Identifier: BSD-3-Clause */
/* test_text.c - tests the text line of each kind of frame, and of invalid frames. */
#include "support/check.h"

#include <string.h>

#include "base/rng.h"
#include "support/make_frame.h"
#include "unit/wire/vectors.h"
#include "wire/arp.h"
#include "wire/icmp.h"
#include "wire/ip.h"
#include "wire/text.h"

static char line[URO_TEXT_LINE_MAX];

static void text__every_vector__has_the_expected_line(void **state)
{
    static const char *const lines[] = {
        "10.7.0.1 > 10.7.0.2 RC_ACK qp 0x000011 psn 5107579 msn 1",
        "10.7.0.2 > 10.7.0.1 RC_SEND_ONLY qp 0x000011 psn 5107579 ack pay 16",
        "10.7.0.1 > 10.7.0.2 RC_READ_REQUEST qp 0x000011 psn 14134405 ack va 0x560d202fc5c0 "
        "rkey 0x00000542 len 100",
        "10.7.0.2 > 10.7.0.1 RC_FETCH_ADD qp 0x000018 psn 1649422 ack va 0x562bdef38000 "
        "rkey 0x00000d8c add 0x1",
        "10.7.0.1 > 10.7.0.2 RC_ATOMIC_ACK qp 0x000018 psn 1649422 msn 1 "
        "original 0xe81ba0dbb792c13f",
        "fd00:7::2 > fd00:7::1 RC_SEND_ONLY qp 0x000012 psn 7259880 ack pay 16",
        "fd00:7::1 > fd00:7::2 RC_ACK qp 0x000012 psn 7259880 msn 1",
        "10.0.17.1 > 10.0.18.1 CNP qp 0x000118 psn 0 becn",
        "192.168.0.7 > 192.168.0.7 UC_SEND_ONLY qp 0x0000d3 psn 13571856 migrated pay 18",
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(vectors); i++) {
        uint8_t octets[VECTOR_OCTETS_MAX];
        const uint32_t length = vector_frame(&vectors[i], octets);
        assert_true(uro_text_line(octets, length, line));
        assert_string_equal(line, lines[i]);
    }
}

static void text__sentence__is_printed_without_control_characters(void **state)
{
    static const uint8_t frame[] = "dddddd"
                                   "ssssss"
                                   "\x88\xb5"
                                   "uroce: QP 0x11:\x1b RTS\xff to ERR";
    static const uint8_t other[] = "dddddd"
                                   "ssssss"
                                   "\x88\xb5"
                                   "uroce";

    (void)state;
    assert_true(uro_text_is_sentence(frame, sizeof frame - 1));
    assert_true(uro_text_line(frame, sizeof frame - 1, line));
    assert_string_equal(line, "-- QP 0x11:? RTS? to ERR");
    assert_false(uro_text_is_sentence(other, sizeof other - 1));
    assert_false(uro_text_line(other, sizeof other - 1, line));
}

static void text__wrong_icrc__shows_both(void **state)
{
    uint8_t octets[VECTOR_OCTETS_MAX];
    const uint32_t length = vector_frame(&vectors[1], octets);

    (void)state;
    octets[length - 4] = 0x8d;
    assert_false(uro_text_line(octets, length, line));
    assert_string_equal(line, "10.7.0.2 > 10.7.0.1 RC_SEND_ONLY qp 0x000011 psn 5107579 ack "
                              "pay 16 !ICRC is 8d8592d6, should be 9d8592d6");
}

/* Tests a tag with all bits of its priority, and a tag that has only a priority. */
static void text__vlan_tag__is_printed_before_the_addresses(void **state)
{
    static const struct {
        uint16_t tag;
        const char *text;
    } cases[] = { { 5 << 13 | 10, "vlan 10 priority 5 10.7.0.1 > 10.7.0.2 RC_ACK" },
                  { 7 << 13 | 1 << 12 | 4094, "vlan 4094 priority 7 10.7.0.1 > 10.7.0.2 RC_ACK" },
                  { 3 << 13, "vlan 0 priority 3 10.7.0.1 > 10.7.0.2 RC_ACK" } };
    uint8_t octets[VECTOR_OCTETS_MAX], tagged[VECTOR_OCTETS_MAX + 4];
    const uint32_t length = vector_frame(&vectors[0], octets);

    (void)state;
    memcpy(tagged, octets, 12);
    memcpy(tagged + 16, octets + 12, length - 12);
    uro_put_be16(tagged + 12, URO_ETHERTYPE_VLAN);
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        uro_put_be16(tagged + 14, cases[i].tag);
        assert_true(uro_text_line(tagged, length + 4, line));
        assert_memory_equal(line, cases[i].text, strlen(cases[i].text));
    }
}

static void text__frames_other_than_roce__have_a_line(void **state)
{
    uint8_t octets[64] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x06 };
    struct uro_arp arp = { .request = true, .sender_mac = { { 2, 0, 0, 0, 0, 2 } } };

    (void)state;
    assert_true(uro_gid_parse("10.0.0.1", &arp.sender));
    assert_true(uro_gid_parse("10.0.0.2", &arp.target));
    uro_arp_encode(octets + 14, &arp);
    assert_true(uro_text_line(octets, sizeof octets, line));
    assert_string_equal(line, "ARP who has 10.0.0.2? tell 10.0.0.1 at 02:00:00:00:00:02");
    octets[21] = 2;
    assert_true(uro_text_line(octets, sizeof octets, line));
    assert_string_equal(line, "ARP 10.0.0.1 is at 02:00:00:00:00:02");
    assert_false(uro_text_line(octets, 41, line));
    assert_string_equal(line, "ARP !malformed");
    assert_false(uro_text_line(octets, 13, line));
    assert_string_equal(line, "13 bytes !shorter than its headers say");
    octets[12] = 0x88;
    assert_false(uro_text_line(octets, sizeof octets, line));
    assert_string_equal(line, "64 bytes !neither IPv4, IPv6 nor ARP");
}

/* Checks the text line of an IP packet with @length octets of @protocol. Writes the right checksum,
 * which must be 0 in @octets. */
static void expect_ip(const char *from, uint8_t protocol, const uint8_t *octets, uint32_t length,
                      const char *expected)
{
    uint8_t frame[128];
    const struct uro_ether ether = { .type =
                                         from[0] == 'f' ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    struct uro_ip ip = { .v6 = from[0] == 'f',
                         .hop_limit = protocol == URO_IPPROTO_IGMP ? 1 : 255,
                         .protocol = protocol,
                         .payload_length = (uint16_t)length };

    assert_true(uro_gid_parse(from, &ip.source) && uro_gid_parse(from, &ip.dest));
    size_t at = uro_ether_put(frame, &ether);
    at += uro_ip_put(frame + at, &ip);
    memcpy(frame + at, octets, length);
    uint32_t sum = ip.v6 ? uro_ip_pseudo_sum(&ip, protocol, length) : 0;
    sum = uro_ip_sum_finish(uro_ip_sum(sum, frame + at, length));
    uro_put_be16(frame + at + 2, (uint16_t)sum);
    (void)uro_text_line(frame, (uint32_t)(at + length), line);
    if (strstr(line, expected) == NULL)
        fail_msg("\"%s\" has no \"%s\"", line, expected);
}

static void text__icmp_and_igmp__are_printed(void **state)
{
    const uint8_t request[] = { 8, 0, 0, 0, 0, 5, 0, 9 }, reply[] = { 0, 0, 0, 0, 0, 5, 0, 9 };
    const uint8_t other[] = { 3, 1, 0, 0, 0, 0, 0, 0 }, wrong[] = { 8, 1, 0, 0, 0, 5, 0, 9 };
    const uint8_t report[] = { 0x16, 0, 0, 0, 239, 1, 2, 3 }, cut[] = { 0x11, 0, 0, 0 };
    uint8_t advert[32] = {
        136, 0, 0, 0, 0x20, [8] = 0xfe, [9] = 0x80, [23] = 7, [24] = 2, [25] = 1, [26] = 2, [31] = 7
    };

    (void)state;
    expect_ip("10.0.0.1", 1, request, sizeof request, "ICMP echo request id 5 seq 9");
    expect_ip("10.0.0.1", 1, reply, sizeof reply, "ICMP echo reply id 5 seq 9");
    expect_ip("10.0.0.1", 1, other, sizeof other, "ICMP type 3");
    expect_ip("10.0.0.1", 1, wrong, sizeof wrong, "ICMP !malformed");
    expect_ip("fe80::1", 58, advert, sizeof advert, "ICMPv6 fe80::7 is here at 02:00:00:00:00:07");
    advert[25] = 0; /* an option of length 0 */
    expect_ip("fe80::1", 58, advert, sizeof advert, "ICMPv6 !malformed");
    expect_ip("10.0.0.1", 2, report, sizeof report, "IGMP type 22");
    expect_ip("10.0.0.1", 2, cut, sizeof cut, "IGMP !malformed");
}

static void text__port_unreachable__names_the_destination(void **state)
{
    uint8_t octets[URO_ICMP_NO_PORT_HEADERS];
    struct uro_ip ip = { 0 };
    struct uro_icmp icmp = { .kind = URO_ICMP_NO_PORT };

    (void)state;
    assert_true(uro_gid_parse("10.0.0.1", &ip.source) && uro_gid_parse("10.0.0.1", &ip.dest));
    assert_true(uro_gid_parse("10.0.0.2", &icmp.source) && uro_gid_parse("10.0.0.3", &icmp.dest));
    const uint32_t length = uro_icmp_encode_no_port(octets, &ip, &icmp);
    memset(octets + 2, 0, 2); /* the checksum is computed again */
    expect_ip("10.0.0.1", 1, octets, length, "ICMP port unreachable at 10.0.0.3");
}

static void text__naks__are_printed_by_name(void **state)
{
    static const struct {
        uint8_t syndrome;
        const char *words;
    } known[] = {
        { 0x05, "credits 5" },           { 0x2e, "rnr-nak timer 14" },
        { 0x45, "reserved-syndrome 5" }, { 0x60, "nak psn-sequence" },
        { 0x62, "nak remote-access" },   { 0x7f, "nak 31" },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(known); i++) {
        uint8_t octets[VECTOR_OCTETS_MAX];
        const uint32_t length = vector_frame(&vectors[0], octets);
        octets[14 + 20 + 8 + 12] = known[i].syndrome;
        uro_put_le32(octets + length - 4, uro_icrc(octets + 14, false, length - 18));
        assert_true(uro_text_line(octets, length, line));
        assert_non_null(strstr(line, known[i].words));
    }
}

/* rule WIRE.ANY: any octets have a line that ends within its space. */
static void text__any_octets__end_within_the_line(void **state)
{
    struct uro_rng rng;
    uint8_t octets[VECTOR_OCTETS_MAX];

    (void)state;
    uro_rng_init_number(&rng, 3);
    for (int round = 0; round < 20000; round++) {
        const struct vector *vector = &vectors[uro_rng_below(&rng, URO_ARRAY_LEN(vectors))];
        uint32_t length = vector_frame(vector, octets);
        for (int i = 0; i < 3; i++)
            octets[12 + uro_rng_below(&rng, length - 12)] = (uint8_t)uro_rng_u32(&rng);
        length -= uro_rng_below(&rng, 3);
        memset(line, 0x55, sizeof line);
        uro_text_line(octets, length, line);
        assert_non_null(memchr(line, '\0', sizeof line));
    }
}

/* The longest line: two full IPv6 addresses and all headers. */
static void text__longest_line__is_not_cut(void **state)
{
    static uint8_t octets[MADE_FRAME_MAX];
    struct uro_frame frame = { .ether = {
                                   .type = URO_ETHERTYPE_IPV6, .tagged = true, .tag = 0xffff } };

    (void)state;
    memset(&frame.ip.source, 0xee, sizeof frame.ip.source);
    memset(&frame.ip.dest, 0xee, sizeof frame.ip.dest);
    frame.ip.v6 = true;
    frame.ip.traffic_class = 3;
    frame.udp.dest_port = URO_ROCE_PORT;
    frame.bth = (struct uro_bth){ .opcode = 0xb3,
                                  .solicited = true,
                                  .migrated = true,
                                  .pkey = 0x1234,
                                  .fecn = true,
                                  .becn = true,
                                  .ack_req = true,
                                  .dest_qpn = 0xffffff,
                                  .psn = 0xffffff };
    frame.op = &uro_opcodes[0xb3];
    frame.xrc_srqn = 0xffffff;
    frame.atomic = (struct uro_atomic_eth){ UINT64_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX };
    uint32_t length = make_frame(&frame, octets);
    octets[length - 1] ^= 1;
    assert_false(uro_text_line(octets, length, line));
    assert_non_null(strstr(line, " swap 0xffffffffffffffff !ICRC is "));
    assert_true(strlen(line) < URO_TEXT_LINE_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text__every_vector__has_the_expected_line),
        cmocka_unit_test(text__sentence__is_printed_without_control_characters),
        cmocka_unit_test(text__wrong_icrc__shows_both),
        cmocka_unit_test(text__vlan_tag__is_printed_before_the_addresses),
        cmocka_unit_test(text__frames_other_than_roce__have_a_line),
        cmocka_unit_test(text__icmp_and_igmp__are_printed),
        cmocka_unit_test(text__port_unreachable__names_the_destination),
        cmocka_unit_test(text__naks__are_printed_by_name),
        cmocka_unit_test(text__any_octets__end_within_the_line),
        cmocka_unit_test(text__longest_line__is_not_cut),
    };
    return cmocka_run_group_tests_name("wire/text", tests, NULL, NULL);
}
