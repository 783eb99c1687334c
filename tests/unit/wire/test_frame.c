/* SPDX-License-Identifier: BSD-3-Clause */
/* test_frame.c - frames of other implementations, and the error for each invalid frame. */
#include "base/mark.h"
#include "support/check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "support/make_frame.h"
#include "unit/wire/vectors.h"
#include "wire/frame.h"

/* Reads a frame in both steps, as the receive path does, from memory that ends where the frame
 * ends. */
static enum uro_frame_result read_frame(const uint8_t *octets, uint32_t length,
                                        struct uro_frame *frame)
{
    enum uro_frame_result result = uro_frame_network(octets, length, frame);

    if (result == URO_FRAME_OK && frame->ip.protocol == URO_IPPROTO_UDP)
        result = uro_frame_roce(frame);
    return result;
}

static void frame__every_vector__is_accepted_and_decoded_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(vectors); i++) {
        uint8_t octets[VECTOR_OCTETS_MAX];
        const uint32_t length = vector_frame(&vectors[i], octets);
        struct uro_frame frame;

        memset(&frame, 0xa5, sizeof frame);
        assert_int_equal(read_frame(octets, length, &frame), URO_FRAME_OK);
        assert_int_equal(frame.udp.dest_port, URO_ROCE_PORT);
        assert_string_equal(frame.op->name, vectors[i].opcode);
        assert_int_equal(frame.bth.dest_qpn, vectors[i].dest_qpn);
        assert_int_equal(frame.bth.psn, vectors[i].psn);
        assert_int_equal(frame.payload_length, vectors[i].payload_length);
    }
}

/* Memory checkers detect every read beyond the end. */
static void frame__cut_anywhere__is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(vectors); i++) {
        uint8_t octets[VECTOR_OCTETS_MAX];
        const uint32_t length = vector_frame(&vectors[i], octets);

        for (uint32_t cut = 0; cut < length; cut++) {
            struct uro_frame frame;
            uint8_t *exact = malloc(cut == 0 ? 1 : cut);
            assert_non_null(exact);
            memcpy(exact, octets, cut);
            assert_int_equal(read_frame(exact, cut, &frame), URO_FRAME_SHORT);
            free(exact);
        }
    }
}

/* rule ICRC.MASK: fields that routers change do not affect the ICRC, all other octets do. */
static void frame__one_bit_changed__only_masked_fields_pass(void **state)
{
    (void)state;
    uro_mark_clear();
    for (size_t i = 0; i < URO_ARRAY_LEN(vectors); i++) {
        uint8_t octets[VECTOR_OCTETS_MAX];
        const uint32_t length = vector_frame(&vectors[i], octets);
        const uint32_t bth = vectors[i].v6 ? 14 + 40 + 8 : 14 + 20 + 8;

        for (uint32_t bit = 8 * bth; bit < 8 * length; bit++) {
            struct uro_frame frame;
            const bool masked = bit / 8 == bth + 4;

            octets[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(read_frame(octets, length, &frame),
                             masked ? URO_FRAME_OK : URO_FRAME_ICRC);
            octets[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    assert_true(uro_mark_hit("ICRC.CHECK"));
}

static uint8_t made[MADE_FRAME_MAX];
static uint8_t data[4200];

/* Returns a SEND of 19 octets. */
static struct uro_frame plain(bool v6)
{
    return plain_frame(v6, 0x04, data, 19);
}

static struct uro_frame read_back;

static enum uro_frame_result read_made(uint32_t length)
{
    return read_frame(made, length, &read_back);
}

/* rule ICRC.PAD, WIRE.ROUNDTRIP, IP.LIBERAL: every opcode, every header with random values. */
static void frame__any_opcode_and_values__decode_reverses_encode(void **state)
{
    struct uro_rng rng;

    (void)state;
    uro_rng_init_number(&rng, 8);
    for (int round = 0; round < 6000; round++) {
        struct uro_frame in = plain(round & 1);
        in.bth.opcode = (uint8_t)uro_rng_u32(&rng);
        in.op = &uro_opcodes[in.bth.opcode];
        if (in.op->name == NULL)
            continue;
        in.payload_length = in.op->payload ? uro_rng_below(&rng, 4097) : 0;
        in.bth.pad_count = (uint8_t)(-in.payload_length & 3);
        in.bth.solicited = uro_rng_below(&rng, 2);
        in.bth.dest_qpn = uro_rng_below(&rng, 1u << 24);
        in.ip.hop_limit = (uint8_t)uro_rng_u32(&rng);
        in.ip.traffic_class = (uint8_t)uro_rng_u32(&rng);
        in.ip.identification = in.ip.v6 ? 0 : (uint16_t)uro_rng_u32(&rng);
        in.ip.dont_fragment = !in.ip.v6 && uro_rng_below(&rng, 2);
        in.udp.source_port = (uint16_t)uro_rng_u32(&rng);
        in.ether.tagged = uro_rng_below(&rng, 2);
        in.xrc_srqn = uro_rng_below(&rng, 1u << 24);
        in.deth = (struct uro_deth){ uro_rng_u32(&rng), uro_rng_below(&rng, 1u << 24) };
        in.feth.placement = (uint8_t)uro_rng_below(&rng, 16);
        in.reth = (struct uro_reth){ uro_rng_u64(&rng), uro_rng_u32(&rng), uro_rng_u32(&rng) };
        in.atomic = (struct uro_atomic_eth){ uro_rng_u64(&rng), uro_rng_u32(&rng),
                                             uro_rng_u64(&rng), uro_rng_u64(&rng) };
        in.aeth.kind = URO_AETH_NAK;
        in.aeth.value = (uint8_t)uro_rng_below(&rng, 32);
        in.aeth.msn = uro_rng_below(&rng, 1u << 24);
        in.atomic_ack = uro_rng_u64(&rng);
        in.imm = uro_rng_u32(&rng);
        in.inv_rkey = uro_rng_u32(&rng);

        static uint8_t again[MADE_FRAME_MAX];
        const uint32_t length = make_frame(&in, made);
        assert_int_equal(read_made(length), URO_FRAME_OK);
        assert_ptr_equal(read_back.op, in.op);
        assert_int_equal(read_back.payload_length, in.payload_length);
        assert_int_equal(make_frame(&read_back, again), length);
        assert_memory_equal(made, again, length);
    }
}

static void frame__ethernet_padding_and_vlan__do_not_matter(void **state)
{
    (void)state;
    uro_mark_clear();
    for (int tagged = 0; tagged <= 1; tagged++) {
        struct uro_frame in = plain(false);
        in.ether.tagged = tagged != 0;
        in.ether.tag = tagged ? 0x6064 : 0;
        const uint32_t length = make_frame(&in, made);
        memset(made + length, 0xee, 40);
        assert_int_equal(read_made(length + 40), URO_FRAME_OK);
        assert_int_equal(read_back.payload_length, 19);
        assert_int_equal(read_back.ether.tag, in.ether.tag);
    }
    assert_true(uro_mark_hit("IP.TRAILER"));
}

static void frame__other_ether_types__are_recognised(void **state)
{
    (void)state;
    struct uro_frame in = plain(false);
    uint32_t length = make_frame(&in, made);

    uro_put_be16(made + 12, 0x88cc);
    assert_int_equal(uro_frame_network(made, length, &read_back), URO_FRAME_ETHER_TYPE);
    uro_put_be16(made + 12, URO_ETHERTYPE_ARP);
    assert_int_equal(uro_frame_network(made, length, &read_back), URO_FRAME_OK);
    assert_ptr_equal(read_back.body, made + 14);
    assert_int_equal(read_back.body_length, length - 14);

    in.ether.tagged = true;
    length = make_frame(&in, made);
    uro_put_be16(made + 16, URO_ETHERTYPE_VLAN); /* a second tag */
    assert_int_equal(uro_frame_network(made, length, &read_back), URO_FRAME_ETHER_TYPE);
}

/* Changes two octets of the IPv4 header and repairs its checksum. */
static void set_v4(size_t at, uint16_t value)
{
    uint8_t *const ip = made + 14;

    uro_put_be16(ip + at, value);
    uro_put_be16(ip + 10, 0);
    uro_put_be16(ip + 10, uro_ip_sum_finish(uro_ip_sum(0, ip, (ip[0] & 15u) * 4)));
}

static void frame__invalid_ipv4_header__is_refused_with_its_result(void **state)
{
    static const struct {
        size_t at;
        uint16_t value;
        enum uro_frame_result result;
    } cases[] = {
        { 0, 0x4600, URO_FRAME_IP_OPTIONS },  { 0, 0x4400, URO_FRAME_IP_BAD },
        { 0, 0x6500, URO_FRAME_IP_BAD },      { 0, 0x4503, URO_FRAME_OK },
        { 2, 19, URO_FRAME_IP_BAD },          { 2, 2000, URO_FRAME_SHORT },
        { 2, 27, URO_FRAME_SHORT },           { 6, 0x2000, URO_FRAME_IP_FRAGMENT },
        { 6, 0x0001, URO_FRAME_IP_FRAGMENT }, { 6, 0x1000, URO_FRAME_IP_FRAGMENT },
    };

    (void)state;
    uro_mark_clear();
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        const struct uro_frame in = plain(false);
        const uint32_t length = make_frame(&in, made);
        set_v4(cases[i].at, cases[i].value);
        assert_int_equal(uro_frame_network(made, length, &read_back), cases[i].result);
    }
    const struct uro_frame in = plain(false);
    const uint32_t length = make_frame(&in, made);
    for (size_t octet = 1; octet < 20; octet++) {
        made[14 + octet] ^= 0x10;
        assert_int_equal(uro_frame_network(made, length, &read_back), URO_FRAME_IP_CHECKSUM);
        made[14 + octet] ^= 0x10;
    }
    assert_true(uro_mark_hit("IP.OPTIONS"));
}

static void frame__invalid_ipv6_header__is_refused_with_its_result(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
        enum uro_frame_result result;
    } cases[] = {
        { 0, 0x40, URO_FRAME_IP_BAD },    { 4, 0x10, URO_FRAME_SHORT },
        { 6, 0, URO_FRAME_IP_OPTIONS },   { 6, 43, URO_FRAME_IP_OPTIONS },
        { 6, 60, URO_FRAME_IP_OPTIONS },  { 6, 51, URO_FRAME_IP_OPTIONS },
        { 6, 44, URO_FRAME_IP_FRAGMENT }, { 6, 59, URO_FRAME_OK },
        { 5, 7, URO_FRAME_SHORT },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        const struct uro_frame in = plain(true);
        const uint32_t length = make_frame(&in, made);
        made[14 + cases[i].at] = cases[i].value;
        assert_int_equal(uro_frame_network(made, length, &read_back), cases[i].result);
    }
}

static void frame__impossible_source_address__is_refused(void **state)
{
    static const char *const wrong[][2] = {
        { "224.0.0.1", "10.0.0.1" },      { "239.255.255.255", "10.0.0.1" },
        { "ff02::1", "fe80::1" },         { "fe80::2", "::ffff:10.0.0.1" },
        { "::ffff:10.0.0.2", "fe80::1" },
    };

    (void)state;
    uro_mark_clear();
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        struct uro_frame in = plain(i >= 2);
        assert_true(uro_gid_parse(wrong[i][0], &in.ip.source));
        assert_true(uro_gid_parse(wrong[i][1], &in.ip.dest));
        const uint32_t length = make_frame(&in, made);
        assert_int_equal(uro_frame_network(made, length, &read_back), URO_FRAME_IP_BAD);
    }
    assert_true(uro_mark_hit("IP.ADDRESS"));
}

static void frame__udp_length__within_the_ip_packet(void **state)
{
    (void)state;
    for (int v6 = 0; v6 <= 1; v6++) {
        const struct uro_frame in = plain(v6);
        const uint32_t length = make_frame(&in, made);
        uint8_t *const udp = made + 14 + (v6 ? 40 : 20);
        const uint16_t right = uro_get_be16(udp + 4);

        uro_put_be16(udp + 4, 7);
        assert_int_equal(uro_frame_network(made, length, &read_back), URO_FRAME_UDP_LENGTH);
        uro_put_be16(udp + 4, (uint16_t)(right + 1));
        assert_int_equal(uro_frame_network(made, length, &read_back), URO_FRAME_UDP_LENGTH);
        uro_put_be16(udp + 4, (uint16_t)(right - 4));
        assert_int_equal(uro_frame_network(made, length, &read_back), URO_FRAME_OK);
        assert_int_equal(read_back.body_length, right - 8 - 4);
    }
}

static void frame__udp_checksum__zero_or_right(void **state)
{
    (void)state;
    uro_mark_clear();
    for (int v6 = 0; v6 <= 1; v6++) {
        for (uint32_t payload = 0; payload < 9; payload++) {
            struct uro_frame in = plain(v6);
            in.payload_length = payload;
            in.bth.pad_count = (uint8_t)(-payload & 3);
            const uint32_t length = make_frame(&in, made);

            assert_int_equal(read_made(length), URO_FRAME_OK);
            put_udp_checksum(made, &in);
            assert_int_equal(read_made(length), URO_FRAME_OK);
            assert_true(read_back.udp.checksum != 0);
            made[14 + (v6 ? 40 : 20) + 7] ^= 1;
            assert_int_equal(read_made(length), URO_FRAME_UDP_CHECKSUM);
        }
    }
    assert_true(uro_mark_hit("IP.UDP.CHECKSUM"));
}

/* Writes the correct ICRC to a changed frame: IPv4, without a VLAN tag. */
static void repair_icrc(uint32_t length)
{
    uro_put_le32(made + length - 4, uro_icrc(made + 14, false, length - 14 - 4));
}

static void frame__wrong_opcode_version_or_length__have_distinct_results(void **state)
{
    struct uro_frame in = plain(false);
    uint32_t length = make_frame(&in, made);
    uint8_t *const bth = made + 42;

    (void)state;
    uro_mark_clear();
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        bth[0] = (uint8_t)opcode;
        repair_icrc(length);
        const enum uro_frame_result result = read_made(length);
        if (uro_opcodes[opcode].name == NULL)
            assert_int_equal(result, URO_FRAME_OPCODE);
        else if (!uro_opcodes[opcode].payload)
            assert_int_equal(result, URO_FRAME_LENGTH);
    }
    bth[0] = 0x04;
    bth[1] |= 0x01;
    repair_icrc(length);
    assert_int_equal(read_made(length), URO_FRAME_VERSION);
    assert_true(uro_mark_hit("WIRE.TVER"));

    in.payload_length = 0; /* padding without a payload */
    in.bth.pad_count = 0;
    length = make_frame(&in, made);
    bth[1] |= 0x10;
    repair_icrc(length);
    assert_int_equal(read_made(length), URO_FRAME_LENGTH);
    assert_null(read_back.payload);
    assert_true(uro_mark_hit("WIRE.ANY"));
    assert_true(uro_mark_hit("WIRE.LENGTH"));
}

/* The packets have every opcode, and 0 to 63 octets between the BTH and the ICRC. */
static void frame__roce_part_of_any_length__no_read_behind_its_end(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        for (uint32_t payload = 0; payload < 64; payload++) {
            struct uro_frame in = plain(false);
            const uint32_t least = URO_BTH_LEN + uro_ext_length(uro_opcodes[opcode].ext);

            in.payload_length = payload;
            in.bth.pad_count = 0;
            const uint32_t length = make_frame(&in, made);
            made[42] = (uint8_t)opcode;
            repair_icrc(length);
            uint8_t *exact = malloc(length);
            assert_non_null(exact);
            memcpy(exact, made, length);
            const enum uro_frame_result result = read_frame(exact, length, &read_back);
            if (uro_opcodes[opcode].name == NULL)
                assert_int_equal(result, URO_FRAME_OPCODE);
            else if (URO_BTH_LEN + payload < least)
                assert_int_equal(result, URO_FRAME_LENGTH);
            free(exact);
        }
    }
}

static void frame__shorter_than_bth_and_icrc__is_a_length_error(void **state)
{
    const struct uro_frame in = plain(false);
    const uint32_t length = make_frame(&in, made);

    (void)state;
    for (uint16_t udp = 8; udp < 8 + 12 + 4; udp++) {
        uro_put_be16(made + 14 + 20 + 4, udp);
        assert_int_equal(read_made(length), URO_FRAME_LENGTH);
    }
}

static void frame__flush__either_icrc_is_accepted_and_only_for_flush(void **state)
{
    (void)state;
    uro_mark_clear();
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        struct uro_frame in = plain(false);
        in.op = &uro_opcodes[opcode];
        if (in.op->name == NULL)
            continue;
        in.bth.opcode = (uint8_t)opcode;
        in.payload_length = in.bth.pad_count = 0;
        const uint32_t length = make_frame(&in, made);
        assert_int_equal(read_made(length), URO_FRAME_OK);

        const size_t covered = length - 14 - 4;
        uro_put_le32(made + length - 4, uro_icrc_rxe_flush(made + 14, false, covered));
        assert_int_equal(read_made(length),
                         in.op->operation == URO_FLUSH ? URO_FRAME_OK : URO_FRAME_ICRC);
    }
    assert_true(uro_mark_hit("ICRC.FLUSH"));
}

/* If the link has already checked the ICRC, it reports that, and the ICRC is not computed again. */
static void frame__icrc_already_checked__is_not_computed_again(void **state)
{
    const struct uro_frame in = plain(false);
    const uint32_t length = make_frame(&in, made);
    struct uro_frame frame = { .summed = true };

    (void)state;
    made[length - 1] ^= 1;
    assert_int_equal(uro_frame_network(made, length, &frame), URO_FRAME_OK);
    assert_int_equal(uro_frame_roce(&frame), URO_FRAME_ICRC);
    frame.summed = true;
    assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
}

static void frame_result_text__every_result__has_a_text(void **state)
{
    (void)state;
    for (unsigned i = 0; i < URO_FRAME_RESULT_COUNT; i++)
        assert_non_null(uro_frame_result_text((enum uro_frame_result)i));
}

static int fill_data(void **state)
{
    struct uro_rng rng;

    (void)state;
    uro_rng_init_number(&rng, 5);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)uro_rng_u32(&rng);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame__every_vector__is_accepted_and_decoded_right),
        cmocka_unit_test(frame__cut_anywhere__is_refused),
        cmocka_unit_test(frame__one_bit_changed__only_masked_fields_pass),
        cmocka_unit_test(frame__any_opcode_and_values__decode_reverses_encode),
        cmocka_unit_test(frame__ethernet_padding_and_vlan__do_not_matter),
        cmocka_unit_test(frame__other_ether_types__are_recognised),
        cmocka_unit_test(frame__invalid_ipv4_header__is_refused_with_its_result),
        cmocka_unit_test(frame__invalid_ipv6_header__is_refused_with_its_result),
        cmocka_unit_test(frame__impossible_source_address__is_refused),
        cmocka_unit_test(frame__udp_length__within_the_ip_packet),
        cmocka_unit_test(frame__udp_checksum__zero_or_right),
        cmocka_unit_test(frame__wrong_opcode_version_or_length__have_distinct_results),
        cmocka_unit_test(frame__roce_part_of_any_length__no_read_behind_its_end),
        cmocka_unit_test(frame__shorter_than_bth_and_icrc__is_a_length_error),
        cmocka_unit_test(frame__flush__either_icrc_is_accepted_and_only_for_flush),
        cmocka_unit_test(frame__icrc_already_checked__is_not_computed_again),
        cmocka_unit_test(frame_result_text__every_result__has_a_text),
    };
    return cmocka_run_group_tests_name("wire/frame", tests, fill_data, NULL);
}
