/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ip.c - tests that the fast parser of plain IPv4 packets agrees with the complete parser. */
#include "support/check.h"

#include <string.h>

#include "base/rng.h"
#include "wire/ip.h"

#define ROUNDS  200000u
#define PAYLOAD 16u
#define LENGTH  (URO_IPV4_LEN + URO_UDP_LEN + PAYLOAD)
#define TRAILER 6u /* octets behind the packet: short frames are padded */

static uint32_t put_packet(uint8_t out[static LENGTH], struct uro_rng *rng)
{
    const struct uro_ip ip = { .dont_fragment = uro_rng_below(rng, 2) == 0,
                               .traffic_class = (uint8_t)uro_rng_below(rng, 256),
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .identification = (uint16_t)uro_rng_below(rng, 0x10000),
                               .payload_length = URO_UDP_LEN + PAYLOAD,
                               .source = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 1 }),
                               .dest = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 2 }) };
    const struct uro_udp udp = { 0xc000, URO_ROCE_PORT, URO_UDP_LEN + PAYLOAD, 0 };

    size_t at = uro_ip_put(out, &ip);
    uro_udp_encode(out + at, &udp);
    memset(out + at + URO_UDP_LEN, 0, PAYLOAD);
    return LENGTH;
}

static void repair_sum(uint8_t *octets)
{
    memset(octets + 10, 0, 2);
    uro_put_be16(octets + 10, uro_ip_sum_finish(uro_ip_sum(0, octets, URO_IPV4_LEN)));
}

/* Parses the packet with the complete parser. Returns false when it is not a valid UDP packet with
 * checksum 0. */
static bool take_thoroughly(struct uro_reader *reader, struct uro_ip *ip, struct uro_udp *udp)
{
    if (uro_ip_take(reader, false, ip) != URO_IP_OK || ip->protocol != URO_IPPROTO_UDP)
        return false;
    const uint8_t *in = uro_take(reader, URO_UDP_LEN);
    if (in == NULL)
        return false;
    uro_udp_decode(in, udp);
    reader->end = in + udp->length;
    return udp->length >= URO_UDP_LEN && udp->length <= ip->payload_length && udp->checksum == 0;
}

/* Checks that both parsers agree. Returns whether they accept the packet. */
static bool assert_both_agree(const uint8_t *octets, uint32_t length)
{
    struct uro_reader quick = { octets, octets + length }, thorough = quick;
    const struct uro_reader untouched = quick;
    struct uro_ip ips[2];
    struct uro_udp udps[2];

    memset(ips, 0xa5, sizeof ips);
    memset(udps, 0xa5, sizeof udps);
    bool taken = uro_ip_take_plain(&quick, &ips[0], &udps[0]);
    assert_int_equal(taken, take_thoroughly(&thorough, &ips[1], &udps[1]));
    if (!taken) {
        assert_memory_equal(&quick, &untouched, sizeof quick);
        return false;
    }
    assert_memory_equal(&ips[0], &ips[1], sizeof ips[0]);
    assert_memory_equal(&udps[0], &udps[1], sizeof udps[0]);
    assert_ptr_equal(quick.pos, thorough.pos);
    assert_ptr_equal(quick.end, thorough.end);
    return true;
}

static void ip_take_plain__any_octet_changed__agrees_with_the_full_parser(void **state)
{
    (void)state;
    struct uro_rng rng;
    uint32_t taken = 0;

    uro_rng_init_number(&rng, 7);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint8_t octets[LENGTH + TRAILER] = { 0 };
        uint32_t length = put_packet(octets, &rng) + uro_rng_below(&rng, TRAILER);
        for (uint32_t changes = uro_rng_below(&rng, 3); changes > 0; changes--) {
            uint32_t at = uro_rng_below(&rng, URO_IPV4_LEN + URO_UDP_LEN);
            uint32_t value = uro_rng_below(&rng, 256), bit = uro_rng_below(&rng, 8);
            octets[at] = (uint8_t)(uro_rng_below(&rng, 2) == 0 ? value : octets[at] ^ 1u << bit);
        }
        if (uro_rng_below(&rng, 4) != 0)
            repair_sum(octets);
        taken += assert_both_agree(octets, length);
    }
    assert_in_range(taken, ROUNDS / 4, ROUNDS - ROUNDS / 4);
}

static void ip_take_plain__cut_anywhere__is_left_to_the_full_parser(void **state)
{
    (void)state;
    struct uro_rng rng;
    uint8_t octets[LENGTH];

    uro_rng_init_number(&rng, 8);
    const uint32_t length = put_packet(octets, &rng);
    for (uint32_t cut = 0; cut < length; cut++)
        assert_false(assert_both_agree(octets, cut));
    assert_true(assert_both_agree(octets, length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ip_take_plain__any_octet_changed__agrees_with_the_full_parser),
        cmocka_unit_test(ip_take_plain__cut_anywhere__is_left_to_the_full_parser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
