/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests sends that the kernel refuses. Any host can send an ICMP packet that becomes an error of
 * the next send. Such an error must not look like a missing kernel feature, and must lose no
 * packet. */
#define _GNU_SOURCE /* struct mmsghdr, unshare */
#include "support/check.h"

#include <errno.h>

#include "io/udp/tx.h"
#include "support/make_frame.h"
#include "support/own_net.h"

#define FEW       4u
#define RC_MIDDLE 0x07
#define PAYLOAD   256u

#define NO_SOURCEROUTE 5 /* ICMP code */

#define UDP_OPTION_NO_CHECK6_TX 101

static struct uro_udp_tx tx;
static struct uro_sock sock;
static struct uro_gid own, peer;
static int receiver;
static uint8_t payload[2000];
static uint8_t traffic_class, hop_limit; /* values of the sent packets */

/* Starts a port. @to may equal @from, because loopback has only one IPv6 address. */
static int start_with(const char *from, const char *to)
{
    const struct uro_sock_options options = { .segments = true };
    char error[URO_PORT_ERROR_MAX];

    traffic_class = 0;
    hop_limit = URO_SOCK_HOP_LIMIT;
    assert_true(uro_gid_parse(from, &own) && uro_gid_parse(to, &peer));
    int fd = uro_sock_bind(&own, false, error);
    receiver = uro_gid_equal(&own, &peer) ? dup(fd) : uro_sock_bind(&peer, false, error);
    assert_true(fd >= 0 && receiver >= 0);
    sock = (struct uro_sock){ .fd = -1 };
    uro_sock_start(&sock, fd, &own, &options);
    assert_true(sock.segments);
    assert_true(uro_udp_tx_open(&tx, &sock, 1, 4096));
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_with("127.0.0.5", "127.0.0.9");
}

static int start_ipv6(void **state)
{
    (void)state;
    return start_with("::1", "::1");
}

static int stop(void **state)
{
    (void)state;
    uro_udp_tx_close(&tx);
    uro_sock_close(&sock);
    (void)close(receiver);
    return 0;
}

/* Sends @count packets to the peer as one datagram, which the kernel segments. */
static void send_packets(uint32_t count, uint32_t length)
{
    const struct uro_frame frame = {
        .op = &uro_opcodes[RC_MIDDLE],
        .ether = { .dest = { { 2 } }, .type = sock.v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 },
        .ip = { .v6 = sock.v6,
                .dont_fragment = !sock.v6,
                .traffic_class = traffic_class,
                .hop_limit = hop_limit,
                .source = own,
                .dest = peer },
        .udp = { .source_port = URO_ROCE_PORT, .dest_port = URO_ROCE_PORT },
        .bth = { .opcode = RC_MIDDLE, .dest_qpn = 17, .pkey = 0xffff },
    };
    uint8_t octets[MADE_FRAME_MAX];
    struct uro_tx frames[URO_PORT_BURST];

    frames[0] = (struct uro_tx){ .icrc = true,
                                 .network_at = URO_ETHER_LEN,
                                 .payload_length = length,
                                 .span_count = 1,
                                 .spans = { { payload, length } } };
    frames[0].head_length = (uint16_t)(make_frame(&frame, octets) - URO_ICRC_LEN);
    memcpy(frames[0].head, octets, frames[0].head_length);
    for (uint32_t i = 1; i < count; i++)
        frames[i] = frames[0];
    uro_udp_tx_send(&tx, frames, count);
    assert_int_equal(tx.first, tx.count);
}

/* Checks that traffic class and hop limit of the message are those of the sent packets. */
static void is_marked(struct msghdr *message)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
        int value = *CMSG_DATA(at); /* TOS is a byte, the other values are ints */
        if (at->cmsg_len == CMSG_LEN(sizeof value))
            memcpy(&value, CMSG_DATA(at), sizeof value);
        if (at->cmsg_type == (sock.v6 ? IPV6_TCLASS : IP_TOS))
            assert_int_equal(value, traffic_class);
        else if (at->cmsg_type == (sock.v6 ? IPV6_HOPLIMIT : IP_TTL))
            assert_int_equal(value, hop_limit);
        else
            fail();
    }
}

/* Returns the number of packets that the peer got, each with @length bytes of payload. */
static uint32_t arrived(uint32_t length)
{
    static uint8_t octets[4096];
    _Alignas(size_t) uint8_t control[96];
    struct iovec all = { octets, sizeof octets };
    struct msghdr message = { .msg_iov = &all, .msg_iovlen = 1, .msg_control = control };
    uint32_t count = 0;
    ssize_t got;

    for (;;) {
        message.msg_controllen = sizeof control;
        got = recvmsg(receiver, &message, MSG_DONTWAIT);
        if (got <= 0)
            return count;
        assert_int_equal(got, URO_BTH_LEN + length + URO_ICRC_LEN);
        assert_int_equal(message.msg_controllen, 2 * CMSG_SPACE(sizeof(int)));
        is_marked(&message);
        count++;
    }
}

static void forge(uint8_t code, uint16_t mtu)
{
    assert_true(own_net_report(&own, &peer, code, mtu));
}

/* Returns the pending error of the socket, and clears it. */
static int pending(void)
{
    int error = 0;
    socklen_t length = sizeof error;

    assert_int_equal(getsockopt(sock.fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    return error;
}

static void all_are_sent(uint32_t count)
{
    send_packets(count, PAYLOAD);
    assert_int_equal(arrived(PAYLOAD), count);
    assert_int_equal(tx.dropped, 0);
    assert_true(sock.segments);
}

static void send__forged_icmp_reports__next_send_has_the_error(void **state)
{
    (void)state;
    forge(NO_SOURCEROUTE, 0);
    assert_int_equal(pending(), EOPNOTSUPP);
    forge(OWN_NET_NARROW, 1400);
    assert_int_equal(pending(), EMSGSIZE);
    forge(OWN_NET_NO_PORT, 0);
    assert_int_equal(pending(), ECONNREFUSED);
}

static void send__source_route_failed__gso_remains_enabled(void **state)
{
    (void)state;
    forge(NO_SOURCEROUTE, 0);
    all_are_sent(FEW);
    forge(NO_SOURCEROUTE, 0);
    all_are_sent(1);
}

static void send__low_path_mtu_of_another_peer__no_packet_is_lost(void **state)
{
    (void)state;
    forge(OWN_NET_NARROW, 1400);
    all_are_sent(1);
    forge(OWN_NET_NARROW, 1400);
    all_are_sent(FEW);
}

/* Any host can send such a message about a path. Packets that exceed the reported MTU are sent
 * nevertheless. */
static void send__forged_low_path_mtu__no_packet_is_lost(void **state)
{
    (void)state;
    forge(OWN_NET_NARROW, 600);
    send_packets(FEW, 1000);
    send_packets(1, 1000);
    assert_int_equal(arrived(1000), FEW + 1);
    assert_int_equal(tx.dropped, 0);
    assert_true(sock.segments);
}

/* A report that does not fit into the socket buffer is lost, but its error is not. */
static void report__receive_buffer_full__no_packet_is_lost(void **state)
{
    const int least = 1;
    const uint8_t junk[1000] = { 0 };
    const union uro_sock_address to = uro_sock_address_of(&own, URO_ROCE_PORT);

    (void)state;
    assert_int_equal(setsockopt(sock.fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least), 0);
    for (int i = 0; i < 100; i++)
        (void)sendto(receiver, junk, sizeof junk, 0, &to.any, uro_sock_address_length(&to));
    forge(NO_SOURCEROUTE, 0);
    assert_int_equal(recv(sock.fd, payload, 0, MSG_ERRQUEUE | MSG_DONTWAIT), -1);
    all_are_sent(FEW);
    forge(OWN_NET_NARROW, 1400);
    all_are_sent(1);
}

/* Each packet causes one more error, but the errors do not block the socket. */
static void send__port_unreachable__every_packet_is_sent(void **state)
{
    (void)state;
    (void)close(receiver);
    for (int i = 0; i < 100; i++)
        send_packets(FEW, PAYLOAD);
    assert_int_equal(tx.dropped, 0);
    assert_true(sock.segments);
    receiver = -1;
}

/* The kernel does not segment datagrams without a checksum. */
static void make_without_checksum(void)
{
    const int no = 1;

    assert_int_equal(setsockopt(sock.fd, sock.v6 ? IPPROTO_UDP : SOL_SOCKET,
                                sock.v6 ? UDP_OPTION_NO_CHECK6_TX : SO_NO_CHECK, &no, sizeof no),
                     0);
}

static void send__kernel_without_gso__later_packets_are_sent_singly(void **state)
{
    (void)state;
    make_without_checksum();
    send_packets(FEW, PAYLOAD);
    assert_int_equal(arrived(PAYLOAD), FEW);
    assert_false(sock.segments);
    send_packets(FEW, PAYLOAD);
    assert_int_equal(arrived(PAYLOAD), FEW);
    assert_int_equal(tx.dropped, 0);
}

/* The traffic class has DSCP 10 and the ECN codepoint CE. The hop limit is 7. */
static void send__kernel_without_gso__traffic_class_and_hop_limit_are_kept(void **state)
{
    (void)state;
    make_without_checksum();
    traffic_class = 43;
    hop_limit = 7;
    send_packets(FEW, PAYLOAD);
    assert_int_equal(arrived(PAYLOAD), FEW);
    assert_false(sock.segments);
}

static void send__ipv6_kernel_without_gso__traffic_class_and_hop_limit_are_kept(void **state)
{
    send__kernel_without_gso__traffic_class_and_hop_limit_are_kept(state);
}

/* The datagram exceeds the loopback MTU. Some kernels return the same error as a kernel that cannot
 * segment. */
static void send__low_path_mtu__gso_remains_enabled(void **state)
{
    (void)state;
    send_packets(FEW, 1800);
    assert_int_equal(tx.dropped, FEW);
    assert_int_equal(arrived(1800), 0);
    assert_true(sock.segments);
    tx.dropped = 0;
    all_are_sent(FEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(send__forged_icmp_reports__next_send_has_the_error, start,
                                        stop),
        cmocka_unit_test_setup_teardown(send__source_route_failed__gso_remains_enabled, start,
                                        stop),
        cmocka_unit_test_setup_teardown(send__low_path_mtu_of_another_peer__no_packet_is_lost,
                                        start, stop),
        cmocka_unit_test_setup_teardown(send__forged_low_path_mtu__no_packet_is_lost, start, stop),
        cmocka_unit_test_setup_teardown(report__receive_buffer_full__no_packet_is_lost, start,
                                        stop),
        cmocka_unit_test_setup_teardown(send__port_unreachable__every_packet_is_sent, start, stop),
        cmocka_unit_test_setup_teardown(send__kernel_without_gso__later_packets_are_sent_singly,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            send__kernel_without_gso__traffic_class_and_hop_limit_are_kept, start, stop),
        cmocka_unit_test_setup_teardown(
            send__ipv6_kernel_without_gso__traffic_class_and_hop_limit_are_kept, start_ipv6, stop),
        cmocka_unit_test_setup_teardown(send__low_path_mtu__gso_remains_enabled, start, stop),
    };

    if (!own_net_enter())
        return 0;
    return cmocka_run_group_tests_name("io/udp_tx", tests, NULL, NULL);
}
