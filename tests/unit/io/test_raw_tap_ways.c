/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests other ways in which packets of senders without uroce arrive: joined by the kernel, at a
 * shared address, through its broker, and to a group. Also tests the message if a raw socket is not
 * permitted. */
#define _GNU_SOURCE /* struct mmsghdr, unshare, syscall */
#include "raw_tap_stage.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <linux/capability.h>

#include "io/udp/udp.h"

#define PREFIX_OF(qpn) ((qpn) >> (24 - URO_QPN_PREFIX_BITS))

extern uro_port_open_fn uro_udp_open;

static struct uro_share share;

/* ---- joined by the kernel ----------------------------------------------- */

/* Sends a burst of packets whose ICRCs are right for @idents, whatever their IP headers contain. */
static void send_joined(const uint16_t *idents, uint32_t count)
{
    static uint8_t octets[8 * UDP_BYTES];
    const union uro_sock_address to = uro_sock_address_of(&own, URO_ROCE_PORT),
                                 from = uro_sock_address_of(&foreign, PORT);
    const int size = UDP_BYTES;
    struct sent sent;

    for (uint32_t i = 0; i < count; i++) {
        make(&sent, &own, idents[i], false, i);
        memcpy(octets + (size_t)i * UDP_BYTES, sent.packet + URO_IPV4_LEN + URO_UDP_LEN, UDP_BYTES);
    }
    int fd = uro_sock_make(false);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, &from.any, uro_sock_address_length(&from)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_UDP, 103, &size, sizeof size), 0); /* UDP_SEGMENT */
    assert_int_equal(
        sendto(fd, octets, (size_t)count * UDP_BYTES, 0, &to.any, uro_sock_address_length(&to)),
        count * UDP_BYTES);
    (void)close(fd);
}

/* Only the first packet has a header copy. The next packets, whose identifications follow its
 * identification, are checked in full, too. */
static void gro__packets_after_the_first__are_checked_in_full(void **state)
{
    static const uint16_t idents[] = { 62, 63, 64, 70, 66, 62 };
    static const enum verdict by_rule[][6] = {
        [URO_IP_ID_ANY] = { FULL, FULL, FULL, WEAK, FULL, FULL },
        [URO_IP_ID_PLAIN] = { FULL, FULL, REFUSED, REFUSED, REFUSED, FULL },
        [URO_IP_ID_FULL] = { FULL, FULL, FULL, REFUSED, FULL, FULL },
    };

    (void)state;
    for (uint32_t rule = 0; rule < URO_ARRAY_LEN(by_rule); rule++) {
        start_again((enum uro_ip_id_rule)rule, true);
        send_joined(idents, URO_ARRAY_LEN(idents));
        for (uint32_t i = 0; i < URO_ARRAY_LEN(idents); i++)
            assert_int_equal(verdict(), by_rule[rule][i]);
    }
}

static void gro__first_packet_is_damaged__others_are_checked_by_themselves(void **state)
{
    static const uint16_t idents[] = { 1000, 1001 };

    (void)state;
    for (int full = 0; full < 2; full++) {
        start_again(full ? URO_IP_ID_FULL : URO_IP_ID_ANY, true);
        send_joined(idents, URO_ARRAY_LEN(idents));
        assert_int_equal(verdict(), full ? REFUSED : WEAK);
        assert_int_equal(verdict(), full ? REFUSED : WEAK);
    }
}

/* ---- shared addresses --------------------------------------------------- */

static void share_address(uint32_t number)
{
    uro_raw_tap_close(sock.raw_tap);
    sock.raw_tap = NULL;
    share = (struct uro_share){ .fd = -1, .number = number };
    sock.share = &share;
    assert_true(uro_raw_tap_open(&sock, URO_IP_ID_ANY));
}

static void raw_tap__shared_address__gets_packets_of_its_qpn_prefix(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < URO_QPN_PREFIXES; number++) {
        share_address(number);
        send_one(5000, false);
        assert_int_equal(asked_of(5000),
                         number == PREFIX_OF(qpn) ? URO_RAW_TAP_SAW : URO_RAW_TAP_UNKNOWN);
    }
    sock.share = NULL;
}

/* Takes a packet for another member, which the port forwards to its broker. Sends the packet back
 * as the broker does, and returns the verdict on it. */
static enum verdict passed_verdict(int broker)
{
    static uint8_t record[URO_HUB_RECORD];
    struct uro_pkt pkt;

    assert_true(uro_rx_take(&rx, &sock));
    assert_int_equal(uro_rx_lend(&rx, &pkt, 1), 0);
    ssize_t length = recv(broker, record, sizeof record, MSG_DONTWAIT);
    assert_true(length > 0);
    assert_int_equal(send(broker, record, (size_t)length, 0), length);
    assert_true(uro_rx_take_passed(&rx, &sock));
    assert_int_equal(uro_rx_lend(&rx, &pkt, 1), 1);
    return !pkt.summed ? REFUSED : pkt.weak ? WEAK : FULL;
}

/* The broker forwards packets to QP 1. The kernel had joined these packets to a packet for another
 * process. */
static void raw_tap__packet_to_qp1_from_the_broker__is_checked_in_full(void **state)
{
    struct sent sent;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    share_address(PREFIX_OF(qpn) + 1);
    share.fd = pair[0];
    share.record = malloc(URO_HUB_RECORD);
    const uint32_t others = qpn;
    qpn = 1;
    send_one(5002, false);
    assert_int_equal(passed_verdict(pair[1]), FULL);
    qpn = others;
    send_one(5003, false);
    assert_int_equal(passed_verdict(pair[1]), WEAK);
    qpn = 1;
    make(&sent, &own, 5004, false, 0);
    damage(&sent);
    send_made(&sent);
    assert_int_equal(passed_verdict(pair[1]), REFUSED);
    sock.share = NULL;
    uro_share_leave(&share);
    (void)close(pair[1]);
}

/* ---- groups and ports --------------------------------------------------- */

static void raw_tap__packet_to_a_group__is_checked_in_full(void **state)
{
    static struct uro_groups groups;
    const struct uro_sock_options options = { .coalesces = true };
    struct uro_gid group;
    struct sent sent;

    (void)state;
    assert_true(uro_gid_parse("239.77.0.1", &group));
    groups.epoll = epoll_create1(EPOLL_CLOEXEC);
    uro_groups_set(&groups, &group, 1, &sock, 1, &options);
    const struct uro_sock *receiver = uro_groups_next(&groups);
    assert_non_null(receiver);
    for (uint16_t ident = 7000; ident < 7003; ident++) {
        make(&sent, &group, ident, false, 0);
        if (ident == 7001)
            damage(&sent);
        send_made(&sent);
        assert_int_equal(verdict_by(receiver), ident == 7001 ? REFUSED : FULL);
    }
    uro_groups_close(&groups);
    (void)close(groups.epoll);
}

static void set_right_to_raw_sockets(bool has)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_NET_RAW);
    data[0].effective |= (uint32_t)has << CAP_NET_RAW;
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static struct uro_port *open_port(const char *link, char error[static URO_PORT_ERROR_MAX])
{
    struct uro_gid address;

    assert_true(uro_gid_parse("127.0.0.6", &address));
    const struct uro_port_config config = {
        .device = "uroce0", .link = link, .mtu = 1500, .addresses = &address, .address_count = 1
    };
    return uro_udp_open(&config, error);
}

static void raw_tap__no_permission__ident_full_prints_the_reason(void **state)
{
    char error[URO_PORT_ERROR_MAX];

    (void)state;
    set_right_to_raw_sockets(false);
    struct uro_port *full = open_port("udp,hub=no,ident=full", error);
    assert_null(full);
    assert_string_equal(
        error,
        "link udp: ident=full needs a raw socket for 127.0.0.6: Operation not permitted; give the "
        "process CAP_NET_RAW, or use ident=any, which checks less of other senders' packets");
    struct uro_port *any = open_port("udp,hub=no", error);
    set_right_to_raw_sockets(true);
    assert_non_null(any);
    assert_null(uro_udp_of(any)->socks[0].raw_tap);
    uro_port_close(any);
    full = open_port("udp,hub=no,ident=full", error);
    assert_non_null(full);
    assert_non_null(uro_udp_of(full)->socks[0].raw_tap);
    uro_port_close(full);
}

static void ident__wrong_value__error_names_the_three_values(void **state)
{
    char error[URO_PORT_ERROR_MAX];

    (void)state;
    assert_null(open_port("udp,hub=no,ident=some", error));
    assert_string_equal(error, "link udp: ident=some: must be any, plain or full");
    assert_null(open_port("udp,hub=no,gro=some", error));
    assert_string_equal(error, "link udp: gro=some: must be yes or no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gro__packets_after_the_first__are_checked_in_full),
        TEST(gro__first_packet_is_damaged__others_are_checked_by_themselves),
        TEST(raw_tap__shared_address__gets_packets_of_its_qpn_prefix),
        TEST(raw_tap__packet_to_qp1_from_the_broker__is_checked_in_full),
        TEST(raw_tap__packet_to_a_group__is_checked_in_full),
        TEST(raw_tap__no_permission__ident_full_prints_the_reason),
        TEST(ident__wrong_value__error_names_the_three_values),
    };

    if (!own_net_enter())
        return 0;
    return cmocka_run_group_tests_name("io/raw_tap_ways", tests, NULL, NULL);
}
