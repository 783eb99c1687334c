/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ip_id.c - tests the effect of an IPv4 identification on the ICRC, compared with ICRCs of
 * whole packets. */
#include <string.h>

#include "io/udp/ip_id.h"
#include "support/check.h"
#include "wire/ether.h"
#include "wire/icrc.h"

#define PACKET_MAX 4200u

/* Makes a packet without Ethernet header and ICRC, of @length bytes. Returns its ICRC. */
static uint32_t icrc_of(uint8_t *packet, uint32_t length, uint16_t ident, bool fragmentable)
{
    const struct uro_ip ip = {
        .dont_fragment = !fragmentable,
        .identification = ident,
        .hop_limit = 64,
        .protocol = URO_IPPROTO_UDP,
        .payload_length = (uint16_t)(length - URO_IPV4_LEN + 4),
        .source = uro_gid_from_ipv4((const uint8_t[]){ 192, 0, 2, 1 }),
        .dest = uro_gid_from_ipv4((const uint8_t[]){ 192, 0, 2, 2 }),
    };

    for (uint32_t i = 0; i < length; i++)
        packet[i] = (uint8_t)(i * 7 + length);
    (void)uro_ip_put(packet, &ip);
    return uro_icrc(packet, false, length);
}

static void change__any_ip_id_of_a_batch__follows_the_packet(void **state)
{
    uint8_t buffer[URO_ETHER_LEN + PACKET_MAX] = { 0 }, *packet = buffer + URO_ETHER_LEN;

    (void)state;
    for (uint32_t length = URO_IPV4_LEN + 20; length < 120; length++)
        for (uint16_t ident = 0; ident < URO_IP_ID_BATCH; ident++) {
            uint32_t plain = icrc_of(packet, length, 0, false);
            assert_int_equal(icrc_of(packet, length, ident, false) ^ plain,
                             uro_ip_id_change(ident, length - 6));
        }
    for (uint32_t length = 250; length < PACKET_MAX; length += 251)
        assert_int_equal(icrc_of(packet, length, 0x1234, false) ^ icrc_of(packet, length, 0, false),
                         uro_ip_id_change(0x1234, length - 6));
}

static void solve__any_ident__is_found_with_df_or_without(void **state)
{
    static const uint32_t lengths[] = { 40, 41, 60, 1068, 4096, 4159 };
    uint8_t buffer[URO_ETHER_LEN + PACKET_MAX] = { 0 }, *packet = buffer + URO_ETHER_LEN;

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(lengths); i++)
        for (uint32_t ident = 0; ident < 65536; ident += 257) {
            uint32_t plain = icrc_of(packet, lengths[i], 0, false);
            for (int df = 0; df < 2; df++) {
                uint32_t foreign = icrc_of(packet, lengths[i], (uint16_t)ident, df == 0);
                uint16_t found;
                bool fragmentable;
                assert_true(
                    uro_ip_id_solve(plain ^ foreign, lengths[i] - 6, &found, &fragmentable));
                assert_int_equal(found, ident);
                assert_int_equal(fragmentable, df == 0);
            }
        }
}

/* An identification explains 2^17 of the 2^32 possible ICRC differences. */
static void solve__damaged_packet__no_ident_is_found(void **state)
{
    uint8_t buffer[URO_ETHER_LEN + PACKET_MAX] = { 0 }, *packet = buffer + URO_ETHER_LEN;
    uint32_t explained = 0;

    (void)state;
    uint32_t plain = icrc_of(packet, 1068, 77, false);
    for (uint32_t at = 33; at < 1068; at++) /* the ICRC does not cover all earlier bytes */
        for (unsigned bit = 0; bit < 8; bit++) {
            uint16_t found;
            bool fragmentable;
            packet[at] ^= (uint8_t)(1u << bit);
            uint32_t damaged = uro_icrc(packet, false, 1068);
            explained += uro_ip_id_solve(plain ^ damaged, 1062, &found, &fragmentable);
            packet[at] ^= (uint8_t)(1u << bit);
        }
    assert_in_range(explained, 0, 3);
}

static void usual__counter_of_another_sender_wraps__all_packets_are_accepted(void **state)
{
    struct uro_ip_id_history habit = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 3 * 65536; i++)
        assert_true(uro_ip_id_accept(&habit, (uint16_t)i < URO_IP_ID_BATCH));
}

static void usual__sender_changes_permanently__is_accepted_in_the_end(void **state)
{
    struct uro_ip_id_history habit = { 0 };
    uint32_t refused = 0;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        assert_true(uro_ip_id_accept(&habit, true));
    while (refused < 1000 && !uro_ip_id_accept(&habit, false))
        refused++;
    assert_int_equal(refused, 63);
    assert_true(uro_ip_id_accept(&habit, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(change__any_ip_id_of_a_batch__follows_the_packet),
        cmocka_unit_test(solve__any_ident__is_found_with_df_or_without),
        cmocka_unit_test(solve__damaged_packet__no_ident_is_found),
        cmocka_unit_test(usual__counter_of_another_sender_wraps__all_packets_are_accepted),
        cmocka_unit_test(usual__sender_changes_permanently__is_accepted_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
