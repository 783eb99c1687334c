/* SPDX-License-Identifier: BSD-3-Clause */
/* test_icmp.c - tests the Internet checksum, echo and neighbour discovery. */
#include "support/check.h"

#include <string.h>

#include "wire/icmp.h"

/* The example of RFC 1071, section 3. */
static void ip_sum__example_of_the_rfc__is_right(void **state)
{
    static const uint8_t octets[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };

    (void)state;
    assert_int_equal(uro_ip_sum_finish(uro_ip_sum(0, octets, sizeof octets)), (uint16_t)~0xddf2u);
}

/* Computes the checksum octet by octet, from its definition. */
static uint16_t naive(const uint8_t *octets, size_t length)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < length; i++) {
        sum += i % 2 == 0 ? (uint32_t)octets[i] << 8 : octets[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

static void ip_sum__any_length_and_even_pieces__agrees_with_the_definition(void **state)
{
    static uint8_t octets[70000];

    (void)state;
    for (size_t i = 0; i < sizeof octets; i++)
        octets[i] = (uint8_t)(i * i >> 3 | (i < 300 ? 0xf0 : 0));
    for (size_t length = 0; length < 300; length++) {
        assert_int_equal(uro_ip_sum_finish(uro_ip_sum(0, octets, length)), naive(octets, length));
        const size_t half = length / 2 & ~(size_t)1;
        const uint32_t first = uro_ip_sum(0, octets, half);
        assert_int_equal(uro_ip_sum_finish(uro_ip_sum(first, octets + half, length - half)),
                         naive(octets, length));
    }
    assert_int_equal(uro_ip_sum_finish(uro_ip_sum(0, octets, sizeof octets)),
                     naive(octets, sizeof octets));
    memset(octets, 0xff, sizeof octets);
    assert_int_equal(uro_ip_sum_finish(uro_ip_sum(0, octets, sizeof octets)), 0);
}

static struct uro_ip ip_of(bool v6)
{
    struct uro_ip ip = { .v6 = v6, .hop_limit = 255 };

    assert_true(uro_gid_parse(v6 ? "fe80::1" : "10.0.0.1", &ip.source));
    assert_true(uro_gid_parse(v6 ? "fe80::2" : "10.0.0.2", &ip.dest));
    return ip;
}

static void icmp__echo__reply_is_checked(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        const struct uro_ip ip = ip_of(n & 1);
        const struct uro_icmp in = { .kind = n & 2 ? URO_ICMP_ECHO_REPLY : URO_ICMP_ECHO_REQUEST,
                                     .echo_id = 0x1234,
                                     .echo_seq = 7,
                                     .echo_data = (const uint8_t *)"hello",
                                     .echo_length = 5 };
        uint8_t out[32];
        struct uro_icmp back;

        const uint32_t length = uro_icmp_encode_echo(out, &ip, &in);
        assert_int_equal(length, 13);
        assert_int_equal(out[0], (n & 1 ? (n & 2 ? 129 : 128) : (n & 2 ? 0 : 8)));
        assert_true(uro_icmp_decode(&ip, out, length, &back));
        assert_int_equal(back.kind, in.kind);
        assert_int_equal(back.echo_id, 0x1234);
        assert_int_equal(back.echo_seq, 7);
        assert_int_equal(back.echo_length, 5);
        assert_memory_equal(back.echo_data, "hello", 5);
        for (uint32_t cut = 0; cut < length; cut++)
            assert_false(uro_icmp_decode(&ip, out, cut, &back) && cut != length);
        out[12] ^= 1;
        assert_false(uro_icmp_decode(&ip, out, length, &back));
    }
}

static uint8_t message[64];

/* Decodes @length octets of `message` with a correct checksum. Returns the result of the
 * decoder. */
static bool decode(const struct uro_ip *ip, uint32_t length, struct uro_icmp *icmp)
{
    message[2] = message[3] = 0;
    const uint32_t pseudo = uro_ip_pseudo_sum(ip, URO_IPPROTO_ICMPV6, length);
    uro_put_be16(&message[2], uro_ip_sum_finish(uro_ip_sum(pseudo, message, length)));
    return uro_icmp_decode(ip, message, length, icmp);
}

static struct uro_icmp neighbor(enum uro_icmp_kind kind)
{
    struct uro_icmp icmp = { .kind = kind, .mac = { { 2, 0, 0, 0, 0, 9 } }, .override = true };

    assert_true(uro_gid_parse("fe80::2", &icmp.target));
    icmp.solicited = kind == URO_ICMP_NEIGHBOR_ADVERT;
    return icmp;
}

static void icmp__neighbor_messages__decode_reverses_encode(void **state)
{
    const struct uro_ip ip = ip_of(true);

    (void)state;
    for (int advert = 0; advert <= 1; advert++) {
        const struct uro_icmp in =
            neighbor(advert ? URO_ICMP_NEIGHBOR_ADVERT : URO_ICMP_NEIGHBOR_SOLICIT);
        struct uro_icmp back;

        uro_icmp_encode_neighbor(message, &ip, &in);
        assert_int_equal(message[0], advert ? 136 : 135);
        assert_int_equal(message[4], advert ? 0x60 : 0);
        assert_int_equal(message[24], advert ? 2 : 1);
        assert_true(uro_icmp_decode(&ip, message, URO_ND_LEN, &back));
        assert_int_equal(back.kind, in.kind);
        assert_true(uro_gid_equal(&back.target, &in.target));
        assert_true(back.has_mac);
        assert_memory_equal(&back.mac, &in.mac, sizeof in.mac);
        assert_int_equal(back.solicited, advert);
        assert_int_equal(back.override, advert);
    }
}

/* Each refused message violates one rule of RFC 4861, section 7.1. */
static void icmp__neighbor_message_that_violates_the_rfc__is_refused(void **state)
{
    struct uro_ip ip = ip_of(true);
    struct uro_icmp icmp = neighbor(URO_ICMP_NEIGHBOR_SOLICIT);

    (void)state;
    uro_icmp_encode_neighbor(message, &ip, &icmp);
    assert_true(decode(&ip, 24, &icmp)); /* the message has no option */
    assert_false(icmp.has_mac);
    assert_false(decode(&ip, 23, &icmp));
    assert_false(decode(&ip, 25, &icmp));
    assert_true(decode(&ip, 32, &icmp));
    message[25] = 0; /* an option of length 0 */
    assert_false(decode(&ip, 32, &icmp));
    message[25] = 2; /* beyond the end */
    assert_false(decode(&ip, 32, &icmp));
    message[25] = 1;
    message[24] = 14; /* another option is skipped */
    assert_true(decode(&ip, 32, &icmp));
    assert_false(icmp.has_mac);
    message[25] = 0; /* length 0, so it cannot be skipped */
    assert_false(decode(&ip, 32, &icmp));
    message[24] = 1;
    message[25] = 2; /* longer than a MAC address is */
    assert_false(decode(&ip, 40, &icmp));
    message[25] = 1;

    message[1] = 1; /* code */
    assert_false(decode(&ip, 32, &icmp));
    message[1] = 0;
    message[8] = 0xff; /* a multicast target */
    assert_false(decode(&ip, 32, &icmp));
    message[8] = 0xfe;

    ip.hop_limit = 254; /* came through a router */
    assert_false(decode(&ip, 32, &icmp));
    ip.hop_limit = 255;
    ip.source = (struct uro_gid){ { 0 } }; /* duplicate address detection names no MAC */
    assert_false(decode(&ip, 32, &icmp));
    assert_true(decode(&ip, 24, &icmp));
}

static void icmp__solicited_advertisement_to_a_group__is_refused(void **state)
{
    struct uro_ip ip = ip_of(true);
    struct uro_icmp icmp = neighbor(URO_ICMP_NEIGHBOR_ADVERT);

    (void)state;
    uro_icmp_encode_neighbor(message, &ip, &icmp);
    assert_true(decode(&ip, 32, &icmp));
    assert_true(uro_gid_parse("ff02::1", &ip.dest));
    assert_false(decode(&ip, 32, &icmp));
    message[4] = 0;
    assert_true(decode(&ip, 32, &icmp));
}

static void icmp__other_types__are_other(void **state)
{
    const struct uro_ip ip = ip_of(true);
    struct uro_icmp icmp;

    (void)state;
    memset(message, 0, sizeof message);
    message[0] = 133;
    assert_true(decode(&ip, 8, &icmp));
    assert_int_equal(icmp.kind, URO_ICMP_OTHER);
    message[0] = 8; /* ICMPv4's echo request */
    assert_true(decode(&ip, 8, &icmp));
    assert_int_equal(icmp.kind, URO_ICMP_OTHER);
}

static struct uro_icmp no_port(const struct uro_ip *ip, const uint8_t *quoted, uint32_t length)
{
    return (struct uro_icmp){ .kind = URO_ICMP_NO_PORT,
                              .source = ip->dest,
                              .dest = ip->source,
                              .quoted = quoted,
                              .quoted_length = length };
}

/* A router may truncate the quoted packet anywhere after its UDP header. */
static void icmp__port_unreachable__shows_the_packet_that_was_not_delivered(void **state)
{
    static const uint8_t quoted[] = "from the BTH on";
    uint8_t octets[URO_ICMP_NO_PORT_HEADERS + sizeof quoted];
    struct uro_icmp icmp;

    (void)state;
    for (int v6 = 0; v6 <= 1; v6++) {
        const struct uro_ip ip = ip_of(v6);
        for (uint32_t kept = 0; kept <= sizeof quoted; kept++) {
            const struct uro_icmp sent = no_port(&ip, quoted, kept);
            uint32_t length = uro_icmp_encode_no_port(octets, &ip, &sent);
            assert_true(uro_icmp_decode(&ip, octets, length, &icmp));
            assert_int_equal(icmp.kind, URO_ICMP_NO_PORT);
            assert_true(uro_gid_equal(&icmp.source, &ip.dest));
            assert_true(uro_gid_equal(&icmp.dest, &ip.source));
            assert_int_equal(icmp.quoted_length, kept);
            assert_memory_equal(icmp.quoted, quoted, kept);
        }
    }
}

/* The quoted packet has another IP version, another protocol, or another port. */
static void icmp__port_unreachable_for_other_protocol__is_other(void **state)
{
    static const struct {
        bool v6;
        uint32_t at;
    } fields[] = { { false, 8 }, { false, 17 }, { false, 31 }, { true, 14 }, { true, 51 } };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(fields); i++) {
        const struct uro_ip ip = ip_of(fields[i].v6);
        const struct uro_icmp sent = no_port(&ip, (const uint8_t *)"", 1);
        uint8_t octets[URO_ICMP_NO_PORT_HEADERS + 1];
        struct uro_icmp icmp = { 0 };
        uint32_t length = uro_icmp_encode_no_port(octets, &ip, &sent);
        octets[fields[i].at] ^= 1;
        uro_put_be16(octets + 2, 0);
        const uint32_t pseudo = ip.v6 ? uro_ip_pseudo_sum(&ip, URO_IPPROTO_ICMPV6, length) : 0;
        uro_put_be16(octets + 2, uro_ip_sum_finish(uro_ip_sum(pseudo, octets, length)));
        assert_true(uro_icmp_decode(&ip, octets, length, &icmp));
        assert_int_equal(icmp.kind, URO_ICMP_OTHER);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ip_sum__example_of_the_rfc__is_right),
        cmocka_unit_test(ip_sum__any_length_and_even_pieces__agrees_with_the_definition),
        cmocka_unit_test(icmp__echo__reply_is_checked),
        cmocka_unit_test(icmp__neighbor_messages__decode_reverses_encode),
        cmocka_unit_test(icmp__neighbor_message_that_violates_the_rfc__is_refused),
        cmocka_unit_test(icmp__solicited_advertisement_to_a_group__is_refused),
        cmocka_unit_test(icmp__other_types__are_other),
        cmocka_unit_test(icmp__port_unreachable__shows_the_packet_that_was_not_delivered),
        cmocka_unit_test(icmp__port_unreachable_for_other_protocol__is_other),
    };
    return cmocka_run_group_tests_name("wire/icmp", tests, NULL, NULL);
}
