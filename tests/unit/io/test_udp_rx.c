/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that the port delivers every byte of the datagrams from the kernel, and copies only few
 * bytes. */
#define _GNU_SOURCE /* struct mmsghdr */
#include "support/check.h"

#include <string.h>
#include <unistd.h>

#include "io/udp/rx.h"
#include "wire/ether.h"
#include "wire/icrc.h"
#include "wire/ip.h"

#define UDP_OPTION_SEGMENT 103
#define HEADERS            (URO_ETHER_LEN + URO_IPV4_LEN + URO_UDP_LEN)
#define MIDDLE             4112u /* UDP payload of a packet between first and last, bytes */
#define MIDDLES            14u
#define MESSAGES           32u

static struct uro_rx rx;
static struct uro_sock sock;
static int sender;
static uint8_t packets[65536];

static int start(void **state)
{
    const struct uro_sock_options options = { .segments = true, .coalesces = true };
    struct uro_gid loopback;
    union uro_sock_address at;
    socklen_t size = sizeof at;

    (void)state;
    assert_true(uro_gid_parse("127.0.0.1", &loopback));
    at = uro_sock_address_of(&loopback, 0);
    int fd = uro_sock_make(false);
    sender = uro_sock_make(false);
    assert_true(fd >= 0 && sender >= 0);
    assert_int_equal(bind(fd, &at.any, uro_sock_address_length(&at)), 0);
    assert_int_equal(getsockname(fd, &at.any, &size), 0);
    assert_int_equal(connect(sender, &at.any, size), 0);
    sock = (struct uro_sock){ .fd = -1 };
    uro_sock_start(&sock, fd, &loopback, &options);
    assert_true(uro_rx_open(&rx, &(struct uro_mac){ { 2 } }, &sock, 1, URO_IP_ID_ANY));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    uro_rx_close(&rx);
    uro_sock_close(&sock);
    (void)close(sender);
    return 0;
}

/* Sends @count packets of @length bytes, in one datagram that the kernel splits. Each byte encodes
 * its position. */
static void send_packets(uint32_t count, uint32_t length)
{
    struct iovec octets = { packets, (size_t)count * length };
    _Alignas(size_t) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
    struct msghdr message = { .msg_iov = &octets,
                              .msg_iovlen = 1,
                              .msg_control = control,
                              .msg_controllen = sizeof control };
    struct cmsghdr *segment = CMSG_FIRSTHDR(&message);
    uint16_t size = (uint16_t)length;

    segment->cmsg_level = IPPROTO_UDP;
    segment->cmsg_type = UDP_OPTION_SEGMENT;
    segment->cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(segment), &size, sizeof size);
    for (uint32_t i = 0; i < octets.iov_len; i++)
        packets[i] = (uint8_t)(i * 7 + i / 251);
    assert_int_equal(sendmsg(sender, &message, 0), octets.iov_len);
}

/* Takes @count packets of @length bytes and checks them. */
static void take_packets(uint32_t count, uint32_t length)
{
    struct uro_pkt pkt;

    for (uint32_t i = 0; i < count; i++) {
        if (uro_rx_lend(&rx, &pkt, 1) == 0) {
            assert_true(uro_rx_take(&rx, &sock));
            assert_int_equal(uro_rx_lend(&rx, &pkt, 1), 1);
        }
        assert_int_equal(pkt.length, HEADERS + length);
        /* All bytes must be unchanged, even the last four. The headers are not those of the
         * sender. */
        assert_memory_equal(pkt.octets + HEADERS, packets + (size_t)i * length, length);
    }
}

static uint64_t moved_by(uint32_t first, uint32_t last)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (i == MESSAGES / 2)
            rx.moved = 0; /* the slots have the right size now */
        send_packets(1, first);
        take_packets(1, first);
        send_packets(MIDDLES, MIDDLE);
        take_packets(MIDDLES, MIDDLE);
        send_packets(2, last);
        take_packets(2, last);
    }
    return rx.moved;
}

/* The first packet of a WRITE has a RETH. The first and the last response of a READ have an
 * AETH. */
static void gro__longer_packets_between__most_bytes_are_not_copied(void **state)
{
    uint64_t whole = (uint64_t)MESSAGES / 2 * MIDDLES * MIDDLE;

    (void)state;
    assert_in_range(moved_by(MIDDLE + 16, MIDDLE), 0, whole / 100);
    assert_in_range(moved_by(MIDDLE + 4, MIDDLE + 4), 0, whole / 5);
}

static void gro__packet_size_changes__is_learned(void **state)
{
    (void)state;
    for (uint32_t length = 1040; length <= 4112; length *= 2, length -= 16) {
        for (uint32_t i = 0; i < MESSAGES; i++) {
            if (i == MESSAGES / 2)
                rx.moved = 0;
            send_packets(MIDDLES, length);
            take_packets(MIDDLES, length);
        }
        assert_int_equal(rx.moved, 0);
    }
}

static void gro__single_packets_longer_than_before__are_whole(void **state)
{
    (void)state;
    send_packets(MIDDLES, 1500);
    take_packets(MIDDLES, 1500);
    for (uint32_t length = 1501; length < 30000; length += 1499) {
        send_packets(1, length);
        take_packets(1, length);
    }
}

/* The port computes the ICRC of an IPv4 packet to find its identification. The engine must not
 * compute it again. */
static void udp_rx__ipv4_packet__icrc_is_not_computed_again(void **state)
{
    uint8_t frame[HEADERS + 64] = { 0 };
    const uint32_t covered = URO_IPV4_LEN + URO_UDP_LEN + 60;
    const struct uro_ip ip = { .dont_fragment = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = URO_UDP_LEN + 64,
                               .source = sock.address,
                               .dest = sock.address };
    union uro_sock_address from;
    socklen_t size = sizeof from;
    struct uro_pkt pkt;

    (void)state;
    assert_int_equal(getsockname(sender, &from.any, &size), 0);
    const struct uro_udp udp = { .source_port = uro_sock_port_of(&from),
                                 .dest_port = URO_ROCE_PORT,
                                 .length = URO_UDP_LEN + 64 };
    (void)uro_ip_put(frame + URO_ETHER_LEN, &ip);
    uro_udp_encode(frame + URO_ETHER_LEN + URO_IPV4_LEN, &udp);
    uint32_t icrc = uro_icrc(frame + URO_ETHER_LEN, false, covered);
    for (unsigned bit = 0; bit <= 32; bit++) {
        uro_put_le32(frame + HEADERS + 60, icrc ^ (uint32_t)(UINT64_C(0x100000000) >> bit));
        assert_int_equal(send(sender, frame + HEADERS, 64, 0), 64);
        assert_true(uro_rx_take(&rx, &sock));
        assert_int_equal(uro_rx_lend(&rx, &pkt, 1), 1);
        assert_int_equal(pkt.summed, bit == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gro__longer_packets_between__most_bytes_are_not_copied,
                                        start, stop),
        cmocka_unit_test_setup_teardown(gro__packet_size_changes__is_learned, start, stop),
        cmocka_unit_test_setup_teardown(udp_rx__ipv4_packet__icrc_is_not_computed_again, start,
                                        stop),
        cmocka_unit_test_setup_teardown(gro__single_packets_longer_than_before__are_whole, start,
                                        stop),
    };

    return cmocka_run_group_tests_name("io/udp_rx", tests, NULL, NULL);
}
