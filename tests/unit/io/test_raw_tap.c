/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests packets of senders without uroce, which may choose any IPv4 identification. If a raw socket
 * got the IP header, the ICRC is checked in full. Then damage that looks like another
 * identification is detected. */
#define _GNU_SOURCE /* struct mmsghdr, unshare */
#include "raw_tap_stage.h"

#define REST     256 /* packets of uroce senders after which a raw tap stops copying headers */
#define RC_FLUSH 0x1c

static void raw_tap__any_identification__packet_is_checked_in_full(void **state)
{
    static const uint16_t idents[] = { 64, 65, 4791, 65535 };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(idents); i++) {
        send_one(idents[i], false);
        assert_int_equal(verdict(), FULL);
    }
    for (uint16_t ident = 1; ident < 200; ident++) {
        send_one(ident, true);
        assert_int_equal(verdict(), FULL);
    }
}

/* Several packets wait at once: the copies of all of them are read. */
static void raw_tap__many_waiting_packets__are_checked_in_full(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint16_t i = 0; i < 1000; i++)
            send_one((uint16_t)(65000 + i), false);
        for (uint16_t i = 0; i < 1000; i++)
            assert_int_equal(verdict(), FULL);
    }
}

static void raw_tap__no_raw_socket__packet_is_checked_in_part(void **state)
{
    (void)state;
    start_again(URO_IP_ID_ANY, false);
    send_one(1000, false);
    assert_int_equal(verdict(), WEAK);
    send_damaged(1001);
    assert_int_equal(verdict(), WEAK);
}

static void raw_tap__damage_that_looks_like_an_ip_id__is_refused(void **state)
{
    (void)state;
    prove();
    send_damaged(1001);
    assert_int_equal(verdict(), REFUSED);
    send_one(1001, false); /* sent again */
    assert_int_equal(verdict(), FULL);
}

static void raw_tap__damaged_df__is_refused(void **state)
{
    struct sent sent;

    (void)state;
    prove();
    make(&sent, &own, 1002, false, 0);
    sent.packet[6] ^= 0x40; /* the sender has corrected the header checksum */
    uro_put_be16(sent.packet + 10, 0);
    send_made(&sent);
    assert_int_equal(verdict(), REFUSED);
}

/* The identification explains the ICRC, but the header copy belongs to a packet with another BTH or
 * port. */
static void raw_tap__header_of_another_packet__is_not_used(void **state)
{
    struct sent sent;

    (void)state;
    prove();
    send_one(1003, false);
    assert_int_equal(verdict(), FULL);
    for (uint32_t at = URO_IPV4_LEN; at < URO_IPV4_LEN + URO_UDP_LEN + URO_BTH_LEN; at++) {
        if (at >= URO_IPV4_LEN + 2 && at < URO_IPV4_LEN + URO_UDP_LEN)
            continue;
        make(&sent, &own, 1003, false, 1003);
        sent.packet[at] ^= 1;
        uint32_t icrc = uro_icrc(sent.packet, false, COVERED);
        uro_put_be16(sent.packet + 4, 1004); /* the identification of the sent packet */
        uro_put_le32(sent.packet + COVERED, icrc);
        send_made(&sent);
        assert_int_equal(verdict(), REFUSED);
    }
}

static void raw_tap__duplicate_of_the_network__is_checked_in_full(void **state)
{
    (void)state;
    prove();
    for (int gap = 0; gap < 2; gap++) {
        send_one(2000, false);
        if (gap)
            assert_int_equal(verdict(), FULL);
        send_one(2000, false);
        for (int i = gap; i < 2; i++)
            assert_int_equal(verdict(), FULL);
    }
}

/* Packets that the UDP socket does not take fill the buffer of the raw socket: the next packet has
 * no copy. */
static void raw_tap__buffer_full__one_packet_is_refused_and_the_next_accepted(void **state)
{
    struct sent sent;

    (void)state;
    prove();
    make(&sent, &own, 3000, false, 0);
    uro_put_be16(sent.packet + URO_IPV4_LEN + 4, URO_UDP_LEN - 1); /* an invalid UDP length */
    for (int i = 0; i < 25000; i++)
        send_made(&sent);
    send_one(3001, false);
    assert_int_equal(verdict(), REFUSED);
    send_one(3002, false);
    assert_int_equal(verdict(), FULL);
}

static void raw_tap__only_uroce_senders_for_long__stops_until_another_sender(void **state)
{
    (void)state;
    for (uint16_t i = 0; i < REST; i++) {
        send_one(i % URO_IP_ID_BATCH, false);
        assert_int_equal(verdict(), FULL);
    }
    start_again(URO_IP_ID_ANY,
                true); /* the raw tap does not pause, and knows no senders any more */
    send_one(4000, false);
    assert_int_equal(verdict(), FULL);

    start_again(URO_IP_ID_ANY, true);
    foreign.octets[15]++; /* from an unknown sender */
    for (uint16_t i = 0; i < REST; i++) {
        send_one(i % URO_IP_ID_BATCH, false);
        assert_int_equal(verdict(), FULL);
    }
    foreign.octets[15]++;
    send_one(4001, false);
    send_one(4002, false); /* waits in the socket while the first packet is read */
    assert_int_equal(verdict(), WEAK);
    assert_int_equal(verdict(), WEAK);
    send_one(1, false); /* the raw tap does not pause after only one packet of a uroce sender */
    assert_int_equal(verdict(), FULL);
    send_one(4003, false);
    assert_int_equal(verdict(), FULL);
    send_damaged(4004);
    assert_int_equal(verdict(), REFUSED);
}

static void raw_tap__after_a_sender_without_uroce__continues(void **state)
{
    (void)state;
    prove();
    for (uint16_t i = 0; i < 2 * REST; i++) {
        send_one(i % URO_IP_ID_BATCH, false);
        assert_int_equal(verdict(), FULL);
    }
    send_one(4005, false);
    assert_int_equal(verdict(), FULL);
}

/* Packets of uroce senders are not stored. They cost only the filter in the kernel. */
static void raw_tap__packet_of_a_uroce_sender__header_is_not_kept(void **state)
{
    (void)state;
    send_one(URO_IP_ID_BATCH - 1, false);
    assert_int_equal(asked_of(URO_IP_ID_BATCH - 1), URO_RAW_TAP_UNKNOWN);
    send_one(URO_IP_ID_BATCH, false);
    assert_int_equal(asked_of(URO_IP_ID_BATCH), URO_RAW_TAP_SAW);
}

static void raw_tap__packet_to_another_udp_port__is_filtered_out(void **state)
{
    struct sent sent;

    (void)state;
    prove();
    make(&sent, &own, 5001, false, 5001);
    uro_put_be16(sent.packet + URO_IPV4_LEN + 2, URO_ROCE_PORT + 1);
    send_made(&sent);
    assert_int_equal(asked_of(5001), URO_RAW_TAP_DID_NOT_SEE);
}

static void ident_full__packet_not_seen_by_the_tap__is_refused(void **state)
{
    (void)state;
    start_again(URO_IP_ID_FULL, false);
    send_one(6000, false);
    assert_int_equal(verdict(), REFUSED);
    send_one(60, false);
    assert_int_equal(verdict(), FULL);
    start_again(URO_IP_ID_FULL, true);
    for (uint16_t i = 0; i < REST; i++) {
        send_one(i % URO_IP_ID_BATCH, false);
        assert_int_equal(verdict(), FULL);
    }
    send_one(6001, false); /* the raw tap did not pause */
    assert_int_equal(verdict(), FULL);
    send_damaged(6002);
    assert_int_equal(verdict(), REFUSED);
}

/* Sends a FLUSH with the ICRC of rxe, changed by @wrong. */
static void send_flush_as_rxe(uint16_t ident, bool fragmentable, uint32_t wrong)
{
    const struct uro_frame frame = {
        .op = &uro_opcodes[RC_FLUSH],
        .ether = { .type = URO_ETHERTYPE_IPV4 },
        .ip = { .dont_fragment = !fragmentable,
                .identification = ident,
                .hop_limit = 64,
                .source = foreign,
                .dest = own },
        .udp = { .source_port = PORT, .dest_port = URO_ROCE_PORT },
        .bth = { .opcode = RC_FLUSH, .dest_qpn = qpn, .psn = ident, .pkey = 0xffff },
    };
    struct sent sent;
    uint32_t covered = make_frame(&frame, sent.buffer) - URO_ETHER_LEN - URO_ICRC_LEN;

    sent.packet = sent.buffer + URO_ETHER_LEN;
    uro_put_le32(sent.packet + covered, uro_icrc_rxe_flush(sent.packet, false, covered) ^ wrong);
    assert_true(own_net_send(sent.packet, covered + URO_ICRC_LEN));
}

/* rule ICRC.FLUSH */
static void raw_tap__flush_of_rxe__is_checked_in_full(void **state)
{
    static const uint16_t idents[] = { 1, 63, 64, 4791, 65535 };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(idents); i++)
        for (int fragmentable = 0; fragmentable < 2; fragmentable++) {
            send_flush_as_rxe(idents[i], fragmentable, 0);
            assert_int_equal(verdict(), FULL);
        }
    send_flush_as_rxe(5000, false, 0x00800000);
    assert_int_equal(verdict(), REFUSED);
}

static void raw_tap__flush_of_rxe_without_a_raw_socket__is_checked_in_part(void **state)
{
    (void)state;
    start_again(URO_IP_ID_ANY, false);
    send_flush_as_rxe(5000, false, 0);
    assert_int_equal(verdict(), WEAK);
    start_again(URO_IP_ID_PLAIN, false);
    send_flush_as_rxe(5000, false, 0);
    assert_int_equal(verdict(), REFUSED);
}

static void raw_tap__ident_plain__has_no_raw_socket(void **state)
{
    (void)state;
    start_again(URO_IP_ID_PLAIN, true);
    assert_null(sock.raw_tap);
    send_one(6003, false);
    assert_int_equal(verdict(), REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(raw_tap__any_identification__packet_is_checked_in_full),
        TEST(raw_tap__many_waiting_packets__are_checked_in_full),
        TEST(raw_tap__no_raw_socket__packet_is_checked_in_part),
        TEST(raw_tap__damage_that_looks_like_an_ip_id__is_refused),
        TEST(raw_tap__damaged_df__is_refused),
        TEST(raw_tap__header_of_another_packet__is_not_used),
        TEST(raw_tap__duplicate_of_the_network__is_checked_in_full),
        TEST(raw_tap__buffer_full__one_packet_is_refused_and_the_next_accepted),
        TEST(raw_tap__only_uroce_senders_for_long__stops_until_another_sender),
        TEST(raw_tap__after_a_sender_without_uroce__continues),
        TEST(raw_tap__packet_of_a_uroce_sender__header_is_not_kept),
        TEST(raw_tap__packet_to_another_udp_port__is_filtered_out),
        TEST(ident_full__packet_not_seen_by_the_tap__is_refused),
        TEST(raw_tap__flush_of_rxe__is_checked_in_full),
        TEST(raw_tap__flush_of_rxe_without_a_raw_socket__is_checked_in_part),
        TEST(raw_tap__ident_plain__has_no_raw_socket),
    };

    if (!own_net_enter())
        return 0;
    return cmocka_run_group_tests_name("io/raw_tap", tests, NULL, NULL);
}
