/* SPDX-License-Identifier: BSD-3-Clause */
/* test_membership.c - tests IGMP and MLD with packets that scapy made, and with random octets. */
#include "base/mark.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "unit/wire/vectors.h"
#include "wire/frame.h"
#include "wire/igmp.h"
#include "wire/mld.h"
#include "wire/text.h"

/* These packets begin with the IP header. scapy made them (scapy.contrib.igmp, igmpv3,
 * scapy.layers.inet6). */
#define IGMP3_REPORT                                                                               \
    "46c00038000040000102f9e80a000001e00000169404000022001a320000000304000000ef01020303000000"     \
    "e8c8000102000000e00000fb"
#define IGMP3_GENERAL "46c000240001000001023a090a000009e0000001940400001164ec1e00000000027d0000"
#define IGMP3_SOURCES                                                                              \
    "46c0002c00010000010228fe0a000009ef0102039404000011abe93eef010203000000020a0000070a000008"
#define IGMP2_GENERAL "460000200001000001023acd0a000009e0000001940400001164ee9b00000000"
#define IGMP1_GENERAL "4500001c000100000102cfd50a000009e00000011100eeff00000000"
#define IGMP2_REPORT  "4600002000010000010229ca0a000009ef010203940400001600f8faef010203"
#define MLD2_REPORT                                                                                \
    "6000000000380001fe80000000000000000000fffe000001ff020000000000000000000000000016"             \
    "3a000502000001008f006fe00000000204000000ff0e000000000000000000000001000203000000"             \
    "ff0200000000000000000001ff000001"
#define MLD2_GENERAL                                                                               \
    "6000000000240001fe800000000000000000000000000009ff020000000000000000000000000001"             \
    "3a000502000001008200590b271000000000000000000000000000000000000000000000"
#define MLD2_SOURCES                                                                               \
    "6000000000340001fe800000000000000000000000000009ff0e0000000000000000000000010002"             \
    "3a000502000001008200e9259abc0000ff0e000000000000000000000001000200000001"                     \
    "fd000000000000000000000000000007"
#define MLD1_GENERAL                                                                               \
    "6000000000200001fe800000000000000000000000000009ff020000000000000000000000000001"             \
    "3a000502000001008200001e8001000000000000000000000000000000000000"

static uint8_t octets[256];

static uint32_t load(const char *hex)
{
    const bool v6 = hex[0] == '6';
    static const uint8_t macs[12] = { 1, 0, 0x5e, 0, 0, 22, 2, 0, 0, 0, 0, 2 };
    uint32_t length = URO_ETHER_LEN;

    memcpy(octets, macs, sizeof macs);
    uro_put_be16(octets + 12, v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4);
    for (; *hex != '\0'; hex += 2)
        octets[length++] = (uint8_t)(vector_digit(hex[0]) << 4 | vector_digit(hex[1]));
    return length;
}

static enum uro_membership_result decode(const struct uro_frame *frame,
                                         struct uro_membership_query *query)
{
    return frame->ip.v6 ? uro_mld_decode(&frame->ip, frame->body, frame->body_length, query)
                        : uro_igmp_decode(frame->body, frame->body_length, query);
}

static struct uro_gid gid(const char *text)
{
    struct uro_gid g;
    assert_true(uro_gid_parse(text, &g));
    return g;
}

static void membership__queries_of_every_version__are_read(void **state)
{
    static const struct {
        const char *hex;
        uint8_t version;
        uint32_t within;
        const char *group, *line;
    } cases[] = {
        { IGMP3_GENERAL, 3, 10000, NULL,
          "10.0.0.9 > 224.0.0.1 IGMPv3 query for all groups within 10000 ms" },
        { IGMP3_SOURCES, 3, 86400, "239.1.2.3",
          "10.0.0.9 > 239.1.2.3 IGMPv3 query for 239.1.2.3 within 86400 ms" },
        { IGMP2_GENERAL, 2, 10000, NULL,
          "10.0.0.9 > 224.0.0.1 IGMPv2 query for all groups within 10000 ms" },
        { IGMP1_GENERAL, 1, 10000, NULL,
          "10.0.0.9 > 224.0.0.1 IGMPv1 query for all groups within 10000 ms" },
        { MLD2_GENERAL, 2, 10000, NULL,
          "fe80::9 > ff02::1 MLDv2 query for all groups within 10000 ms" },
        { MLD2_SOURCES, 2, 109504, "ff0e::1:2",
          "fe80::9 > ff0e::1:2 MLDv2 query for ff0e::1:2 within 109504 ms" },
        { MLD1_GENERAL, 1, 32769, NULL,
          "fe80::9 > ff02::1 MLDv1 query for all groups within 32769 ms" },
    };
    char line[URO_TEXT_LINE_MAX];

    (void)state;
    uro_mark_clear();
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        const struct uro_gid group =
            cases[i].group != NULL ? gid(cases[i].group) : (struct uro_gid){ { 0 } };
        struct uro_membership_query query;
        struct uro_frame frame;
        const uint32_t length = load(cases[i].hex);

        assert_int_equal(uro_frame_network(octets, length, &frame), URO_FRAME_OK);
        assert_int_equal(decode(&frame, &query), URO_MEMBERSHIP_QUERY);
        assert_int_equal(query.version, cases[i].version);
        assert_int_equal(query.max_response_ms, cases[i].within);
        assert_memory_equal(&query.group, &group, sizeof group);
        assert_true(uro_text_line(octets, length, line));
        assert_string_equal(line, cases[i].line);
    }
    assert_true(uro_mark_hit("IP.ALERT"));
}

static void igmp__report__equals_that_of_scapy(void **state)
{
    const uint32_t length = load(IGMP3_REPORT);
    const struct uro_ip ip = { .dont_fragment = true,
                               .router_alert = true,
                               .traffic_class = 0xc0,
                               .hop_limit = 1,
                               .protocol = URO_IPPROTO_IGMP,
                               .payload_length = 32,
                               .source = gid("10.0.0.1"),
                               .dest = gid("224.0.0.22") };
    const struct uro_gid groups[] = { gid("239.1.2.3"), gid("232.200.0.1"), gid("224.0.0.251") };
    uint8_t out[64];

    (void)state;
    uro_mark_clear();
    size_t at = uro_ip_put(out, &ip);
    assert_int_equal(at, 24);
    uint8_t *records = out + at + URO_IGMP_REPORT_LEN;
    uro_igmp_encode_record(records, URO_MEMBERSHIP_TO_EXCLUDE, &groups[0]);
    uro_igmp_encode_record(records + 8, URO_MEMBERSHIP_TO_INCLUDE, &groups[1]);
    uro_igmp_encode_record(records + 16, URO_MEMBERSHIP_IS_EXCLUDE, &groups[2]);
    uro_igmp_encode_report(out + at, 3);
    assert_int_equal(length - URO_ETHER_LEN, 56);
    assert_memory_equal(out, octets + URO_ETHER_LEN, 56);
    assert_true(uro_mark_hit("MCAST.REPORT.FORM"));
}

static void mld__report__equals_that_of_scapy(void **state)
{
    const uint32_t length = load(MLD2_REPORT);
    const struct uro_ip ip = { .v6 = true,
                               .router_alert = true,
                               .hop_limit = 1,
                               .protocol = URO_IPPROTO_ICMPV6,
                               .payload_length = 48,
                               .source = gid("fe80::ff:fe00:1"),
                               .dest = gid("ff02::16") };
    const struct uro_gid groups[] = { gid("ff0e::1:2"), gid("ff02::1:ff00:1") };
    uint8_t out[128];

    (void)state;
    uro_mark_clear();
    size_t at = uro_ip_put(out, &ip);
    assert_int_equal(at, URO_IP_LEN_MAX);
    uro_mld_encode_record(out + at + 8, URO_MEMBERSHIP_TO_EXCLUDE, &groups[0]);
    uro_mld_encode_record(out + at + 28, URO_MEMBERSHIP_TO_INCLUDE, &groups[1]);
    uro_mld_encode_report(out + at, &ip, 2);
    assert_int_equal(length - URO_ETHER_LEN, 96);
    assert_memory_equal(out, octets + URO_ETHER_LEN, 96);
    assert_true(uro_mark_hit("MCAST.REPORT.FORM"));
}

static void membership__reports_of_others__are_not_queries(void **state)
{
    static const char *const reports[] = { IGMP3_REPORT, IGMP2_REPORT, MLD2_REPORT };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(reports); i++) {
        struct uro_membership_query query;
        struct uro_frame frame;

        assert_int_equal(uro_frame_network(octets, load(reports[i]), &frame), URO_FRAME_OK);
        assert_int_equal(decode(&frame, &query), URO_MEMBERSHIP_OTHER);
    }
    assert_true(uro_mld_is(143));
    assert_false(uro_mld_is(135));
}

static void repair(uint32_t length)
{
    if (octets[14] >> 4 == 4 && length >= 34) {
        const uint32_t header = (octets[14] & 15u) * 4;
        uro_put_be16(octets + 24, 0);
        if (header >= 20 && header + 14 <= length)
            uro_put_be16(octets + 24, uro_ip_sum_finish(uro_ip_sum(0, octets + 14, header)));
    }
}

static void ip__other_options_or_other_protocols__are_refused(void **state)
{
    struct uro_frame frame;
    uint32_t length = load(IGMP3_GENERAL);

    (void)state;
    static const uint8_t options4[][4] = {
        { 0x94, 4, 0, 1 }, /* another value */
        { 0x94, 3, 0, 0 }, /* another length */
        { 1, 1, 1, 1 },    /* padding only */
        { 0, 0x94, 4, 0 }, /* behind the end */
        { 0x83, 3, 4, 0 }, /* a source route */
        { 1, 0x94, 4, 0 }, /* cut off */
    };
    for (size_t i = 0; i < URO_ARRAY_LEN(options4); i++) {
        memcpy(octets + 34, options4[i], 4);
        repair(length);
        assert_int_equal(uro_frame_network(octets, length, &frame), URO_FRAME_IP_OPTIONS);
    }
    length = load(IGMP3_GENERAL);
    octets[14 + 9] = URO_IPPROTO_UDP;
    repair(length);
    assert_int_equal(uro_frame_network(octets, length, &frame), URO_FRAME_IP_OPTIONS);

    static const uint8_t options6[][6] = {
        { 1, 4, 0, 0, 0, 0 },    /* padding only */
        { 5, 2, 0, 1, 1, 0 },    /* another value */
        { 5, 2, 0, 0, 1, 1 },    /* padding longer than the header */
        { 0, 0, 5, 2, 0, 1 },    /* after padding, another value */
        { 0x1e, 4, 5, 2, 0, 0 }, /* inside another option */
    };
    length = load(MLD2_GENERAL);
    for (size_t i = 0; i < URO_ARRAY_LEN(options6); i++) {
        memcpy(octets + 56, options6[i], 6);
        assert_int_equal(uro_frame_network(octets, length, &frame), URO_FRAME_IP_OPTIONS);
    }
    for (int i = 0; i < 3; i++) {
        length = load(MLD2_GENERAL);
        octets[i == 0 ? 20 : i == 1 ? 54 : 55] += 43; /* routing, not ICMPv6, longer */
        assert_int_equal(uro_frame_network(octets, length, &frame), URO_FRAME_IP_OPTIONS);
    }
}

static void membership__malformed_queries__are_refused(void **state)
{
    struct uro_membership_query query;
    struct uro_frame frame;

    (void)state;
    uro_mark_clear();
    assert_int_equal(uro_frame_network(octets, load(MLD2_GENERAL), &frame), URO_FRAME_OK);
    struct uro_ip ip = frame.ip;
    ip.router_alert = false;
    assert_int_equal(uro_mld_decode(&ip, frame.body, 28, &query), URO_MEMBERSHIP_BAD);
    ip = frame.ip;
    ip.hop_limit = 2;
    assert_int_equal(uro_mld_decode(&ip, frame.body, 28, &query), URO_MEMBERSHIP_BAD);
    octets[14 + 8 + 1] = 0xc0; /* a site-local address, fec0::9, with a correct checksum */
    uro_put_be16(octets + 14 + 48 + 2, 0x590b - 0x40);
    assert_int_equal(uro_frame_network(octets, 14 + 76, &frame), URO_FRAME_OK);
    assert_int_equal(decode(&frame, &query), URO_MEMBERSHIP_BAD);

    /* The length fits neither version. All octets behind the checksum are 0 and do not change
     * it. */
    static const uint8_t igmp[11] = { 0x11, 100, 0xee, 0x9b };
    assert_int_equal(uro_igmp_decode(igmp, 8, &query), URO_MEMBERSHIP_QUERY);
    for (uint32_t length = 9; length < 12; length++)
        assert_int_equal(uro_igmp_decode(igmp, length, &query), URO_MEMBERSHIP_BAD);
    for (uint32_t length = 0; length < 8; length++)
        assert_int_equal(uro_igmp_decode(igmp, length, &query), URO_MEMBERSHIP_BAD);
    assert_true(uro_mark_hit("MCAST.QUERY.FORM"));
}

/* Cut messages are in memory of exactly their length, so that memory checkers detect reads beyond
 * their end. The checksum must detect each changed bit of a message. */
static void membership__cut_or_changed__is_never_a_query(void **state)
{
    static const char *const queries[] = { IGMP3_GENERAL, IGMP3_SOURCES, IGMP2_GENERAL,
                                           MLD2_GENERAL,  MLD2_SOURCES,  MLD1_GENERAL };
    struct uro_membership_query query;
    struct uro_frame frame;

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(queries); i++) {
        const uint32_t length = load(queries[i]);
        for (uint32_t cut = 0; cut < length; cut++) {
            uint8_t *exact = malloc(cut > 0 ? cut : 1);
            assert_non_null(exact);
            memcpy(exact, octets, cut);
            assert_int_not_equal(uro_frame_network(exact, cut, &frame), URO_FRAME_OK);
            free(exact);
        }
        assert_int_equal(uro_frame_network(octets, length, &frame), URO_FRAME_OK);
        const uint32_t body = (uint32_t)(frame.body - octets);
        for (uint32_t bit = body * 8; bit < length * 8; bit++) {
            octets[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(decode(&frame, &query), URO_MEMBERSHIP_BAD);
            octets[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void membership__random_octets_behind_options__are_read_within_bounds(void **state)
{
    struct uro_rng rng;

    (void)state;
    uro_rng_init_number(&rng, 3);
    for (int round = 0; round < 20000; round++) {
        const bool v6 = round & 1;
        struct uro_membership_query query;
        struct uro_frame frame;
        uint32_t length = load(v6 ? MLD2_SOURCES : IGMP3_SOURCES);
        const uint32_t from = v6 ? 54 : 34;

        length = from + uro_rng_below(&rng, length - from + 1);
        for (uint32_t i = from; i < length; i++)
            if (uro_rng_below(&rng, 4) == 0)
                octets[i] = (uint8_t)uro_rng_below(&rng, 8);
        uro_put_be16(octets + (v6 ? 18 : 16), (uint16_t)(length - (v6 ? 54 : 14)));
        octets[14] = v6 ? 0x60 : (uint8_t)(0x45 + uro_rng_below(&rng, 6));
        repair(length);
        uint8_t *exact = malloc(length);
        assert_non_null(exact);
        memcpy(exact, octets, length);
        if (uro_frame_network(exact, length, &frame) == URO_FRAME_OK) {
            assert_ptr_equal(frame.body + frame.body_length, exact + length);
            if (frame.body_length > 0)
                (void)decode(&frame, &query);
        }
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(membership__queries_of_every_version__are_read),
        cmocka_unit_test(igmp__report__equals_that_of_scapy),
        cmocka_unit_test(mld__report__equals_that_of_scapy),
        cmocka_unit_test(membership__reports_of_others__are_not_queries),
        cmocka_unit_test(ip__other_options_or_other_protocols__are_refused),
        cmocka_unit_test(membership__malformed_queries__are_refused),
        cmocka_unit_test(membership__cut_or_changed__is_never_a_query),
        cmocka_unit_test(membership__random_octets_behind_options__are_read_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
