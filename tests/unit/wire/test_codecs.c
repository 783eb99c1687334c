/* SPDX-License-Identifier: BSD-3-Clause */
/* test_codecs.c - tests the codecs of headers: decodes known octets, and encodes and decodes random
 * values. */
#include "base/mark.h"
#include "support/check.h"

#include "base/rng.h"
#include "wire/arp.h"
#include "wire/bth.h"
#include "wire/ether.h"
#include "wire/ext.h"
#include "wire/ip.h"

#define ROUNDS 2000

static struct uro_rng rng;

static int seed(void **state)
{
    (void)state;
    uro_rng_init_number(&rng, 20261121);
    return 0;
}

static bool coin(void)
{
    return uro_rng_u32(&rng) & 1;
}

static void random_octets(void *out, size_t length)
{
    for (size_t i = 0; i < length; i++)
        ((uint8_t *)out)[i] = (uint8_t)uro_rng_u32(&rng);
}

static void bth__known_octets__decode_and_encode_back(void **state)
{
    static const uint8_t known[URO_BTH_LEN] = { 0x0a, 0xe0, 0x12, 0x34, 0xc0, 0xab,
                                                0xcd, 0xef, 0x80, 0x01, 0x02, 0x03 };
    uint8_t out[URO_BTH_LEN];
    struct uro_bth bth;

    (void)state;
    uro_bth_decode(known, &bth);
    assert_int_equal(bth.opcode, 0x0a);
    assert_true(bth.solicited && bth.migrated && bth.fecn && bth.becn && bth.ack_req);
    assert_int_equal(bth.pad_count, 2);
    assert_int_equal(bth.version, 0);
    assert_int_equal(bth.pkey, 0x1234);
    assert_int_equal(bth.dest_qpn, 0xabcdef);
    assert_int_equal(bth.psn, 0x010203);
    uro_bth_encode(out, &bth);
    assert_memory_equal(out, known, sizeof known);
}

/* Sets one flag at a time: no two flags may share a bit. */
static void bth__each_flag__has_a_separate_bit(void **state)
{
    static const struct {
        unsigned octet;
        uint8_t bit;
        size_t field;
    } flags[] = {
        { 1, 0x80, offsetof(struct uro_bth, solicited) },
        { 1, 0x40, offsetof(struct uro_bth, migrated) },
        { 4, 0x80, offsetof(struct uro_bth, fecn) },
        { 4, 0x40, offsetof(struct uro_bth, becn) },
        { 8, 0x80, offsetof(struct uro_bth, ack_req) },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(flags); i++) {
        uint8_t out[URO_BTH_LEN];
        uint8_t expected[URO_BTH_LEN] = { 0 };
        struct uro_bth bth = { 0 };

        expected[flags[i].octet] = flags[i].bit;
        *(bool *)((uint8_t *)&bth + flags[i].field) = true;
        uro_bth_encode(out, &bth);
        assert_memory_equal(out, expected, sizeof expected);
        uro_bth_decode(expected, &bth);
        assert_true(*(bool *)((uint8_t *)&bth + flags[i].field));
        assert_int_equal(bth.solicited + bth.migrated + bth.fecn + bth.becn + bth.ack_req, 1);
    }
}

/* rule WIRE.RESERVED */
static void bth__reserved_bits__are_ignored_and_sent_as_zero(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t in[URO_BTH_LEN], out[URO_BTH_LEN];
        struct uro_bth bth;

        random_octets(in, sizeof in);
        uro_bth_decode(in, &bth);
        uro_bth_encode(out, &bth);
        in[4] &= 0xc0;
        in[8] &= 0x80;
        assert_memory_equal(out, in, sizeof in);
    }
}

static void reth__known_octets__decode_and_encode_back(void **state)
{
    static const uint8_t known[URO_RETH_LEN] = { 1, 2,  3,  4,  5,  6,  7,  8,
                                                 9, 10, 11, 12, 13, 14, 15, 16 };
    uint8_t out[URO_RETH_LEN];
    struct uro_reth reth;

    (void)state;
    uro_reth_decode(known, &reth);
    assert_true(reth.va == 0x0102030405060708);
    assert_int_equal(reth.rkey, 0x090a0b0c);
    assert_int_equal(reth.length, 0x0d0e0f10);
    uro_reth_encode(out, &reth);
    assert_memory_equal(out, known, sizeof known);
}

static void atomic_eth__known_octets__decode_and_encode_back(void **state)
{
    uint8_t known[URO_ATOMIC_LEN], out[URO_ATOMIC_LEN];
    struct uro_atomic_eth atomic;

    (void)state;
    for (uint8_t i = 0; i < URO_ATOMIC_LEN; i++)
        known[i] = (uint8_t)(i + 1);
    uro_atomic_eth_decode(known, &atomic);
    assert_true(atomic.va == 0x0102030405060708);
    assert_int_equal(atomic.rkey, 0x090a0b0c);
    assert_true(atomic.swap_add == 0x0d0e0f1011121314);
    assert_true(atomic.compare == 0x15161718191a1b1c);
    uro_atomic_eth_encode(out, &atomic);
    assert_memory_equal(out, known, sizeof known);
}

static void deth__known_octets__decode_and_encode_back(void **state)
{
    static const uint8_t known[URO_DETH_LEN] = { 0x80, 1, 0, 0, 0xff, 0xab, 0xcd, 0xef };
    uint8_t out[URO_DETH_LEN];
    struct uro_deth deth;

    (void)state;
    uro_deth_decode(known, &deth);
    assert_int_equal(deth.qkey, 0x80010000);
    assert_int_equal(deth.source_qpn, 0xabcdef);
    uro_deth_encode(out, &deth);
    assert_int_equal(out[4], 0); /* reserved */
    out[4] = 0xff;
    assert_memory_equal(out, known, sizeof known);
}

static void feth__every_value__is_in_the_low_byte(void **state)
{
    (void)state;
    for (unsigned value = 0; value < 64; value++) {
        const uint8_t known[URO_FETH_LEN] = { 0, 0, 0, (uint8_t)value };
        uint8_t in[URO_FETH_LEN] = { 0xff, 0xff, 0xff, (uint8_t)(0xc0 | value) };
        uint8_t out[URO_FETH_LEN];
        struct uro_feth feth;

        uro_feth_decode(in, &feth);
        assert_int_equal(feth.placement, value & 15);
        assert_int_equal(feth.selectivity, value >> 4);
        uro_feth_encode(out, &feth);
        assert_memory_equal(out, known, sizeof known);
    }
}

static void aeth__syndromes_of_the_specification__decode(void **state)
{
    static const struct {
        uint8_t syndrome;
        enum uro_aeth_kind kind;
        uint8_t value;
    } known[] = {
        { 0x00, URO_AETH_ACK, 0 },
        { 0x1f, URO_AETH_ACK, URO_CREDITS_UNLIMITED },
        { 0x2e, URO_AETH_RNR, 14 },
        { 0x45, URO_AETH_RESERVED, 5 },
        { 0x60, URO_AETH_NAK, URO_NAK_PSN_SEQUENCE },
        { 0x61, URO_AETH_NAK, URO_NAK_INVALID_REQ },
        { 0x62, URO_AETH_NAK, URO_NAK_ACCESS },
        { 0x63, URO_AETH_NAK, URO_NAK_OPERATIONAL },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(known); i++) {
        const uint8_t in[URO_AETH_LEN] = { known[i].syndrome, 0xab, 0xcd, 0xef };
        uint8_t out[URO_AETH_LEN];
        struct uro_aeth aeth;

        uro_aeth_decode(in, &aeth);
        assert_int_equal(aeth.kind, known[i].kind);
        assert_int_equal(aeth.value, known[i].value);
        assert_int_equal(aeth.msn, 0xabcdef);
        uro_aeth_encode(out, &aeth);
        assert_memory_equal(out, in, sizeof in);
    }
}

static void ether__tagged_or_not__decode_reverses_encode(void **state)
{
    (void)state;
    uro_mark_clear();
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t out[URO_ETHER_LEN_MAX];
        struct uro_ether in = { .tagged = coin() }, back;

        random_octets(&in.dest, sizeof in.dest);
        random_octets(&in.source, sizeof in.source);
        in.type = (uint16_t)uro_rng_u32(&rng);
        in.tag = in.tagged ? (uint16_t)uro_rng_u32(&rng) : 0;
        if (in.type == URO_ETHERTYPE_VLAN)
            continue;
        const size_t length = uro_ether_put(out, &in);
        assert_int_equal(length, in.tagged ? 18 : 14);
        struct uro_reader reader = { out, out + length };
        assert_true(uro_ether_take(&reader, &back));
        assert_ptr_equal(reader.pos, reader.end);
        assert_memory_equal(&back.dest, &in.dest, sizeof in.dest);
        assert_memory_equal(&back.source, &in.source, sizeof in.source);
        assert_int_equal(back.type, in.type);
        assert_int_equal(back.tagged, in.tagged);
        assert_int_equal(back.tag, in.tag);
        for (size_t cut = 0; cut < length; cut++) {
            reader = (struct uro_reader){ out, out + cut };
            assert_false(uro_ether_take(&reader, &back));
        }
    }
    assert_true(uro_mark_hit("WIRE.TAG"));
}

static void udp__known_octets__decode_and_encode_back(void **state)
{
    static const uint8_t known[URO_UDP_LEN] = { 0xc0, 0x12, 0x12, 0xb7, 0x00, 0x34, 0xbe, 0xef };
    uint8_t out[URO_UDP_LEN];
    struct uro_udp udp;

    (void)state;
    uro_udp_decode(known, &udp);
    assert_int_equal(udp.source_port, 0xc012);
    assert_int_equal(udp.dest_port, URO_ROCE_PORT);
    assert_int_equal(udp.length, 0x34);
    assert_int_equal(udp.checksum, 0xbeef);
    uro_udp_encode(out, &udp);
    assert_memory_equal(out, known, sizeof known);
}

static void arp__known_request__decodes_and_encodes_back(void **state)
{
    static const uint8_t known[URO_ARP_LEN] = { 0,  1, 8, 0, 6, 4, 0, 1, 2, 3, 4,  5, 6, 7,
                                                10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2 };
    uint8_t out[URO_ARP_LEN];
    struct uro_arp arp;

    (void)state;
    assert_true(uro_arp_decode(known, sizeof known, &arp));
    assert_true(arp.request);
    assert_true(uro_gid_is_ipv4(&arp.sender) && arp.sender.octets[15] == 1);
    assert_int_equal(arp.target.octets[15], 2);
    assert_int_equal(arp.sender_mac.octets[5], 7);
    uro_arp_encode(out, &arp);
    assert_memory_equal(out, known, sizeof known);
}

static void arp__not_for_ipv4_over_ethernet__is_refused(void **state)
{
    uint8_t good[URO_ARP_LEN] = { 0, 1, 8, 0, 6, 4, 0, 2 };
    struct uro_arp arp;

    (void)state;
    assert_true(uro_arp_decode(good, sizeof good, &arp));
    assert_false(arp.request);
    for (size_t cut = 0; cut < sizeof good; cut++)
        assert_false(uro_arp_decode(good, cut, &arp));
    for (size_t octet = 0; octet < 8; octet++) {
        good[octet] ^= 0x40;
        assert_false(uro_arp_decode(good, sizeof good, &arp));
        good[octet] ^= 0x40;
    }
    good[7] = 0;
    assert_false(uro_arp_decode(good, sizeof good, &arp));
    good[7] = 3;
    assert_false(uro_arp_decode(good, sizeof good, &arp));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bth__known_octets__decode_and_encode_back),
        cmocka_unit_test(bth__each_flag__has_a_separate_bit),
        cmocka_unit_test(bth__reserved_bits__are_ignored_and_sent_as_zero),
        cmocka_unit_test(reth__known_octets__decode_and_encode_back),
        cmocka_unit_test(atomic_eth__known_octets__decode_and_encode_back),
        cmocka_unit_test(deth__known_octets__decode_and_encode_back),
        cmocka_unit_test(feth__every_value__is_in_the_low_byte),
        cmocka_unit_test(aeth__syndromes_of_the_specification__decode),
        cmocka_unit_test(ether__tagged_or_not__decode_reverses_encode),
        cmocka_unit_test(udp__known_octets__decode_and_encode_back),
        cmocka_unit_test(arp__known_request__decodes_and_encodes_back),
        cmocka_unit_test(arp__not_for_ipv4_over_ethernet__is_refused),
    };
    return cmocka_run_group_tests_name("wire/codecs", tests, seed, NULL);
}
