/* SPDX-License-Identifier: BSD-3-Clause */
/* test_frame_data.c - tests which frames is_data() accepts. A port may lend such a frame with its
 * payload in memory that another process can still write. Parsing a frame in two pieces must give
 * the same result as parsing it in one piece. */
#include "support/check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "support/make_frame.h"
#include "wire/frame.h"

#define BTH_CONGESTION 4u /* octet of the BTH that the ICRC does not cover */

static uint8_t made[MADE_FRAME_MAX];
static uint8_t data[4200];

/* Returns a WRITE of 600 octets. */
static struct uro_frame plain(bool v6)
{
    struct uro_frame frame = plain_frame(v6, 0x0a, data, 600);

    frame.reth = (struct uro_reth){ .va = 0x123456789abcdef0, .rkey = 0x11223344, .length = 600 };
    return frame;
}

static uint32_t network_length(bool v6)
{
    return v6 ? URO_IPV6_LEN : URO_IPV4_LEN;
}

/* ---- frames that is_data() accepts -------------------------------------- */

/* Changes to a frame. With each of them, is_data() must reject the frame. @at counts from the
 * Ethernet header, the IP header, UDP or BTH. */
enum from { ETHER, IP, UDP, BTH };

struct change {
    const char *what;
    enum from from;
    uint8_t at;
    uint8_t value;
};

static uint8_t *place(enum from from, bool v6)
{
    uint8_t *const ip = made + URO_ETHER_LEN, *const udp = ip + network_length(v6);

    return from == ETHER ? made : from == IP ? ip : from == UDP ? udp : udp + URO_UDP_LEN;
}

static void each_refused(bool v6, const struct change *changes, size_t count)
{
    const struct uro_frame in = plain(v6);
    const uint32_t length = make_frame(&in, made);

    assert_true(uro_frame_is_data(made, length));
    for (size_t i = 0; i < count; i++) {
        uint8_t *const octet = place(changes[i].from, v6) + changes[i].at;
        const uint8_t before = *octet;
        assert_int_not_equal(before, changes[i].value);
        *octet = changes[i].value;
        if (uro_frame_is_data(made, length))
            fail_msg("v%d: %s", v6 ? 6 : 4, changes[i].what);
        *octet = before;
        assert_true(uro_frame_is_data(made, length));
    }
}

static const struct change of_both[] = {
    { "another Ethernet type", ETHER, 13, 0x06 },
    { "a UDP port beside ours", UDP, 3, 0xb8 },
    { "a UDP port of ours but for its first octet", UDP, 2, 0x13 },
    { "a UDP checksum", UDP, 7, 1 },
    { "a UDP checksum in its first octet", UDP, 6, 1 },
    { "a UDP length that is shorter", UDP, 5, 0 },
    { "a UDP length that is longer", UDP, 4, 0xff },
    { "an undefined opcode", BTH, 0, 0x1f },
    { "an opcode without payload", BTH, 0, 0x0c },
    { "an ACK", BTH, 0, 0x11 },
    { "a CNP", BTH, 0, 0x81 },
    { "a version", BTH, 1, 0x01 },
    { "a packet to QP1", BTH, 7, 1 },
};

static void is_data__plain_ipv4__is_true_and_any_change_is_false(void **state)
{
    static const struct change changes[] = {
        { "IPv4 options", IP, 0, 0x46 },
        { "another version of IP", IP, 0, 0x55 },
        { "another protocol", IP, 9, 6 },
        { "an IP length that is not the frame's", IP, 3, 0 },
        { "an IP length beyond the frame", IP, 2, 0xff },
    };

    (void)state;
    each_refused(false, changes, URO_ARRAY_LEN(changes));
    each_refused(false, of_both, URO_ARRAY_LEN(of_both));
}

static void is_data__plain_ipv6__is_true_and_any_change_is_false(void **state)
{
    static const struct change changes[] = {
        { "an extension header", IP, 6, 0 },
        { "a fragment", IP, 6, 44 },
        { "an IP length that is not the frame's", IP, 5, 0 },
        { "an IP length beyond the frame", IP, 4, 0xff },
    };

    (void)state;
    each_refused(true, changes, URO_ARRAY_LEN(changes));
    each_refused(true, of_both, URO_ARRAY_LEN(of_both));
}

/* The receive path refuses these frames by their headers, and reads no payload. */
static void network__head_of_a_large_frame_is_wrong__is_refused(void **state)
{
    static const struct change changes[] = {
        { "a fragment", IP, 6, 0x20 },
        { "a wrong checksum", IP, 10, 0x77 },
    };
    const struct uro_frame in = plain(false);
    const uint32_t length = make_frame(&in, made);
    struct uro_frame out;

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(changes); i++) {
        uint8_t head[URO_FRAME_HEAD];
        memcpy(head, made, sizeof head);
        head[URO_ETHER_LEN + changes[i].at] ^= changes[i].value;
        assert_true(uro_frame_network(head, length, &out) != URO_FRAME_OK);
    }
}

static void is_data__vlan_tag__is_false(void **state)
{
    (void)state;
    for (int v6 = 0; v6 <= 1; v6++) {
        struct uro_frame in = plain(v6);
        in.ether.tagged = true;
        assert_false(uro_frame_is_data(made, make_frame(&in, made)));
    }
}

/* Connection managers parse all packets to QP1, whatever opcode they have. */
static void is_data__any_opcode_to_qp1__is_false(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        struct uro_frame in = plain(opcode & 1);
        in.bth.opcode = (uint8_t)opcode;
        in.op = &uro_opcodes[opcode];
        in.bth.dest_qpn = 1;
        if (in.op->name != NULL && in.op->payload)
            assert_false(uro_frame_is_data(made, make_frame(&in, made)));
        in.bth.dest_qpn = 0x010001;
        if (in.op->name != NULL && in.op->payload)
            assert_true(uro_frame_is_data(made, make_frame(&in, made)));
    }
}

/* Tests the shortest frame with its headers, padding and ICRC, and a frame that is one octet
 * shorter. */
static void is_data__too_short_for_its_headers__is_false(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        for (unsigned pad = 0; pad < 4; pad++) {
            struct uro_frame in = plain(opcode & 1);
            in.bth.opcode = (uint8_t)opcode;
            in.op = &uro_opcodes[opcode];
            in.bth.pad_count = (uint8_t)pad;
            in.payload_length = 0;
            if (in.op->name == NULL || !in.op->payload)
                continue;
            uint32_t length = make_frame(&in, made);
            assert_true(length <= URO_FRAME_HEAD);
            assert_true(uro_frame_is_data(made, length));
            length--;
            uint8_t *const ip = place(IP, in.ip.v6), *const udp = place(UDP, in.ip.v6);
            const uint16_t rest = (uint16_t)(made + length - udp);
            uro_put_be16(udp + 4, rest);
            uro_put_be16(ip + (in.ip.v6 ? 4 : 2),
                         (uint16_t)(in.ip.v6 ? rest : rest + URO_IPV4_LEN));
            assert_false(uro_frame_is_data(made, length));
        }
    }
}

/* ---- frames in two pieces ----------------------------------------------- */

/* A frame in two blocks: its first URO_FRAME_HEAD bytes, and the whole frame. Bytes that must be
 * read from one block are wrong in the other block. */
struct apart {
    uint8_t *head;
    uint8_t *whole;
    uint32_t length;
    uint32_t headers; /* up to the last extension header */
};

static struct apart take_apart(const struct uro_frame *in)
{
    struct apart apart = { .head = malloc(URO_FRAME_HEAD) };

    apart.length = make_frame(in, made);
    assert_true(apart.length >= URO_FRAME_HEAD);
    apart.headers = apart.length - URO_ICRC_LEN - in->bth.pad_count - in->payload_length;
    apart.whole = malloc(apart.length);
    assert_non_null(apart.head);
    assert_non_null(apart.whole);
    assert_true(apart.headers <= URO_FRAME_HEAD);
    memcpy(apart.head, made, URO_FRAME_HEAD);
    memcpy(apart.whole, made, apart.length);
    assert_true(uro_frame_is_data(apart.head, apart.length));
    memset(apart.whole, 0xee, apart.headers);
    memset(apart.head + apart.headers, 0xee, URO_FRAME_HEAD - apart.headers);
    return apart;
}

static void drop_apart(const struct apart *apart)
{
    free(apart->head);
    free(apart->whole);
}

static enum uro_frame_result read_apart(const struct apart *apart, struct uro_frame *out)
{
    memset(out, 0, sizeof *out);
    assert_int_equal(uro_frame_network(apart->head, apart->length, out), URO_FRAME_OK);
    out->indirect = apart->whole + URO_ETHER_LEN;
    return uro_frame_roce(out);
}

/* Chooses random header values and a payload length. Returns false for an unknown opcode, and for
 * an opcode without payload. */
static bool choose(struct uro_frame *in, unsigned opcode, struct uro_rng *rng)
{
    *in = plain(uro_rng_below(rng, 2));
    in->bth.opcode = (uint8_t)opcode;
    in->op = &uro_opcodes[opcode];
    in->payload_length = 90 + uro_rng_below(rng, uro_rng_below(rng, 4) == 0 ? 4000 : 100);
    in->bth.pad_count = (uint8_t)(-in->payload_length & 3);
    in->bth.solicited = uro_rng_below(rng, 2);
    in->bth.dest_qpn = 2 + uro_rng_below(rng, (1u << 24) - 2);
    in->xrc_srqn = uro_rng_below(rng, 1u << 24);
    in->deth = (struct uro_deth){ uro_rng_u32(rng), uro_rng_below(rng, 1u << 24) };
    in->reth = (struct uro_reth){ uro_rng_u64(rng), uro_rng_u32(rng), uro_rng_u32(rng) };
    in->aeth.kind = URO_AETH_NAK;
    in->aeth.value = (uint8_t)uro_rng_below(rng, 32);
    in->aeth.msn = uro_rng_below(rng, 1u << 24);
    in->imm = uro_rng_u32(rng);
    in->inv_rkey = uro_rng_u32(rng);
    return in->op->name != NULL && in->op->payload;
}

static void split_frame__every_opcode_with_payload__is_read_like_a_whole_frame(void **state)
{
    struct uro_rng rng;
    unsigned opcodes = 0;

    (void)state;
    uro_rng_init_number(&rng, 11);
    for (unsigned i = 0; i < 256 * 8; i++) {
        static uint8_t again[MADE_FRAME_MAX];
        struct uro_frame in, out;
        if (!choose(&in, i % 256, &rng))
            continue;
        const struct apart apart = take_apart(&in);
        assert_int_equal(read_apart(&apart, &out), URO_FRAME_OK);
        assert_ptr_equal(out.op, in.op);
        assert_ptr_equal(out.payload, apart.whole + apart.headers);
        assert_int_equal(out.payload_length, in.payload_length);
        assert_int_equal(make_frame(&out, again), apart.length);
        assert_memory_equal(made, again, apart.length);
        drop_apart(&apart);
        opcodes++;
    }
    assert_true(opcodes > 8 * 40);
}

/* Changes one bit at a time, from the BTH to the ICRC. The ICRC must detect the change, except in
 * the octet that routers may change. */
static void split_frame__one_bit_changed__is_refused(void **state)
{
    struct uro_rng rng;

    (void)state;
    uro_rng_init_number(&rng, 12);
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        struct uro_frame in, out;
        if (!choose(&in, opcode, &rng))
            continue;
        in.payload_length = 95 + opcode % 4;
        in.bth.pad_count = (uint8_t)(-in.payload_length & 3);
        const struct apart apart = take_apart(&in);
        const uint32_t bth = URO_ETHER_LEN + network_length(in.ip.v6) + URO_UDP_LEN;
        for (uint32_t bit = 8 * bth; bit < 8 * apart.length; bit++) {
            uint8_t *const octet = (bit / 8 < apart.headers ? apart.head : apart.whole) + bit / 8;
            *octet ^= (uint8_t)(1 << bit % 8);
            const bool masked = bit / 8 == bth + BTH_CONGESTION;
            if (bit / 8 >= bth + 2) /* a change of an earlier byte makes another packet */
                assert_int_equal(read_apart(&apart, &out), masked ? URO_FRAME_OK : URO_FRAME_ICRC);
            *octet ^= (uint8_t)(1 << bit % 8);
        }
        assert_int_equal(read_apart(&apart, &out), URO_FRAME_OK);
        drop_apart(&apart);
    }
}

/* If is_data() and uro_frame_network() accept a head, parsing the frame finds no error but a wrong
 * ICRC. */
static void split_frame__any_header__is_refused_or_read(void **state)
{
    struct uro_rng rng;
    unsigned believed = 0;

    (void)state;
    uro_rng_init_number(&rng, 13);
    for (unsigned i = 0; i < 60000; i++) {
        struct uro_frame in, out;
        if (!choose(&in, i % 256, &rng))
            continue;
        const struct apart apart = take_apart(&in);
        for (unsigned changes = 1 + uro_rng_below(&rng, 3); changes > 0; changes--)
            apart.head[uro_rng_below(&rng, apart.headers)] ^=
                (uint8_t)(1u << uro_rng_below(&rng, 8));
        if (uro_frame_is_data(apart.head, apart.length) &&
            uro_frame_network(apart.head, apart.length, &out) == URO_FRAME_OK) {
            const enum uro_frame_result result = read_apart(&apart, &out);
            assert_true(result == URO_FRAME_OK || result == URO_FRAME_ICRC);
            believed++;
        }
        drop_apart(&apart);
    }
    assert_true(believed > 1000);
}

static void split_icrc__cut_anywhere__equals_that_of_the_whole(void **state)
{
    (void)state;
    for (int v6 = 0; v6 <= 1; v6++) {
        const struct uro_frame in = plain(v6);
        const uint32_t length = make_frame(&in, made) - URO_ETHER_LEN - URO_ICRC_LEN;
        const uint8_t *const network = made + URO_ETHER_LEN;
        const uint32_t right = uro_get_le32(network + length);
        for (uint32_t cut = network_length(v6) + URO_UDP_LEN + URO_BTH_LEN; cut <= length; cut++)
            assert_int_equal(uro_icrc_apart(network, v6, cut, network + cut, length - cut), right);
    }
}

static int fill_data(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_data__plain_ipv4__is_true_and_any_change_is_false),
        cmocka_unit_test(is_data__plain_ipv6__is_true_and_any_change_is_false),
        cmocka_unit_test(network__head_of_a_large_frame_is_wrong__is_refused),
        cmocka_unit_test(is_data__vlan_tag__is_false),
        cmocka_unit_test(is_data__any_opcode_to_qp1__is_false),
        cmocka_unit_test(is_data__too_short_for_its_headers__is_false),
        cmocka_unit_test(split_frame__every_opcode_with_payload__is_read_like_a_whole_frame),
        cmocka_unit_test(split_frame__one_bit_changed__is_refused),
        cmocka_unit_test(split_frame__any_header__is_refused_or_read),
        cmocka_unit_test(split_icrc__cut_anywhere__equals_that_of_the_whole),
    };
    return cmocka_run_group_tests_name("wire/frame_data", tests, fill_data, NULL);
}
