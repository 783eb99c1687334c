/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the port over UDP sockets and its wake-ups. If no process has the peer's port, the kernel
 * reports an error. Each function of the port that gets this error must report it. No error may
 * remain that would prevent sleep or fill the socket buffer. */
#define _GNU_SOURCE /* struct mmsghdr */
#include "support/check.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/udp/udp.h"
#include "support/make_frame.h"
#include "support/patience.h"
#include "support/stderr_text.h"

#define ROOM           16u
#define RC_ACK         0x11
#define UDP_OPTION_GRO 104

extern uro_port_open_fn uro_udp_open;

static struct uro_port *port;
static struct uro_gid addresses[2], nobody;
#define OWN addresses[1] /* address that the tests use */
static struct stderr_capture capture;

static int start_with(bool verbose)
{
    char error[URO_PORT_ERROR_MAX];
    const struct uro_port_config config = { .device = "uroce0",
                                            .link = "udp,hub=no",
                                            .mtu = 1500,
                                            .has_mac = true,
                                            .mac = { { 2, 0, 0, 0, 0, 1 } },
                                            .addresses = addresses,
                                            .address_count = 2,
                                            .verbose = verbose };

    assert_true(uro_gid_parse("127.77.0.1", &addresses[0]));
    assert_true(uro_gid_parse("127.77.0.3", &addresses[1]));
    assert_true(uro_gid_parse("127.77.0.2", &nobody));
    port = uro_udp_open(&config, error);
    if (port == NULL)
        fail_msg("%s", error);
    assert_true(uro_port_has(port, URO_PORT_ONE_QPN_PREFIX));
    capture = capture_stderr_begin();
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_with(true);
}

static int start_quiet(void **state)
{
    (void)state;
    return start_with(false);
}

static int stop(void **state)
{
    (void)state;
    capture_stderr_end(capture);
    uro_port_close(port);
    return 0;
}

/* Returns whether a sleep on the port's descriptors would end at once. */
static bool wakes(void)
{
    int fds[URO_PORT_FDS_MAX];
    struct pollfd looks[URO_PORT_FDS_MAX];
    uint32_t count = uro_port_wait_fds(port, fds);

    for (uint32_t i = 0; i < count; i++)
        looks[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    return poll(looks, count, 0) > 0;
}

static void send_a_packet(void)
{
    const struct uro_frame frame = {
        .op = &uro_opcodes[RC_ACK],
        .ether = { .dest = { { 2 } }, .source = port->mac, .type = URO_ETHERTYPE_IPV4 },
        .ip = { .dont_fragment = true,
                .hop_limit = URO_SOCK_HOP_LIMIT,
                .source = OWN,
                .dest = nobody },
        .udp = { .source_port = 49152, .dest_port = URO_ROCE_PORT },
        .bth = { .opcode = RC_ACK, .dest_qpn = 17, .pkey = 0xffff },
    };
    uint8_t octets[MADE_FRAME_MAX];
    struct uro_tx tx = { .icrc = true, .network_at = URO_ETHER_LEN };

    tx.head_length = (uint16_t)(make_frame(&frame, octets) - URO_ICRC_LEN);
    memcpy(tx.head, octets, tx.head_length);
    assert_true(uro_port_tx_free_count(port) > 0);
    uro_port_transmit(port, &tx, 1);
}

/* Sends a packet, and waits up to a second for the kernel's error. */
static void send_to_nobody(void)
{
    int fds[URO_PORT_FDS_MAX];

    send_a_packet();
    (void)uro_port_wait_fds(port, fds);
    struct pollfd look = { .fd = fds[1] };
    assert_int_equal(poll(&look, 1, (int)patience(1000)), 1);
}

static void told_once(void)
{
    assert_string_equal(capture_stderr_text(capture), "uroce: 127.77.0.2: Connection refused\n");
}

static void receive_nothing(void)
{
    struct uro_pkt pkts[ROOM];

    assert_int_equal(uro_port_receive(port, pkts, ROOM), 0);
    assert_false(wakes());
}

/* Receives the ICMP message for the queue pair whose packet was refused. The receive() that finds
 * the kernel's error, or the next receive(), returns this message. */
static void receive_report(void)
{
    struct uro_pkt pkts[ROOM];

    if (uro_port_receive(port, pkts, ROOM) == 0)
        assert_int_equal(uro_port_receive(port, pkts, ROOM), 1);
    uro_port_release(port, pkts, 1);
    receive_nothing();
}

/* The program polls, so a receive finds the error. The kernel reports the error only once. */
static void port_unreachable__found_by_receive__is_reported_and_cleared(void **state)
{
    (void)state;
    send_to_nobody();
    receive_report();
    told_once();
    assert_true(uro_port_arm(port));
}

static void port_unreachable__not_verbose__is_cleared(void **state)
{
    (void)state;
    send_to_nobody();
    receive_report();
    assert_string_equal(capture_stderr_text(capture), "");
}

/* The program sleeps. */
static void port_unreachable__found_before_a_sleep__is_reported_and_cleared(void **state)
{
    (void)state;
    send_to_nobody();
    (void)uro_port_arm(port);
    told_once();
    receive_report();
    assert_true(uro_port_arm(port));
}

static void port_unreachable__found_by_send__is_reported_and_the_packet_is_sent(void **state)
{
    (void)state;
    send_to_nobody();
    send_to_nobody(); /* the packet is sent, so the kernel reports its error, too */
    told_once();
    receive_report();
}

/* The kernel refuses the packet, for example because there is no route. The packet does not reach
 * the network, so no ICMP message follows. */
static void send__kernel_refuses_the_packet__one_message(void **state)
{
    (void)state;
    assert_true(uro_gid_parse("255.255.255.255", &nobody)); /* a broadcast */
    for (int i = 0; i < 3; i++)
        send_a_packet();
    assert_string_equal(capture_stderr_text(capture),
                        "uroce: 255.255.255.255: Permission denied\n");
    assert_false(wakes());
}

/* Sends from this machine to an address, or to a group on the interface of OWN. */
static void send_to(const struct uro_gid *dest)
{
    const uint8_t octets[URO_BTH_LEN + URO_ICRC_LEN] = { RC_ACK };
    const union uro_sock_address to = uro_sock_address_of(dest, URO_ROCE_PORT);
    int sender = uro_sock_make(false);
    uro_sock_set_multicast(sender, &OWN);
    assert_int_equal(
        sendto(sender, octets, sizeof octets, 0, &to.any, uro_sock_address_length(&to)),
        sizeof octets);
    (void)close(sender);
}

static void send_to_group(const char *name)
{
    struct uro_gid group;

    assert_true(uro_gid_parse(name, &group));
    send_to(&group);
}

static void receive_one(void)
{
    struct uro_pkt pkt;

    assert_int_equal(uro_port_receive(port, &pkt, 1), 1);
    uro_port_release(port, &pkt, 1);
}

/* While packets come, arm() does not look for further packets. They end the sleep at once. */
static void arm__packet_is_waiting_behind_another__the_sleep_ends_at_once(void **state)
{
    (void)state;
    send_to(&OWN);
    send_to(&OWN);
    receive_one();
    assert_true(uro_port_arm(port));
    assert_true(wakes());
    receive_one();
    for (int i = 0; i < 4; i++) {
        assert_true(uro_port_arm(port));
        receive_nothing();
    }
}

static void arm__report_is_waiting_behind_a_packet__third_call_takes_the_report(void **state)
{
    (void)state;
    send_to(&OWN);
    receive_one();
    send_to_nobody();
    for (int i = 0; i < 2; i++) {
        assert_true(uro_port_arm(port));
        assert_true(wakes());
    }
    (void)uro_port_arm(port);
    assert_false(wakes());
    told_once();
}

static void join_group(const char *name)
{
    struct uro_gid group;

    assert_true(uro_gid_parse(name, &group));
    uro_port_groups(port, &group, 1);
}

static void group__packet_to_a_joined_group__wakes_the_port(void **state)
{
    (void)state;
    join_group("239.77.0.1");
    assert_false(wakes());
    assert_true(uro_port_arm(port));
    send_to_group("239.77.0.1");
    assert_true(wakes());
    assert_false(uro_port_arm(port));
    receive_nothing(); /* the packet has the port's own source address, so it is dropped */
}

static void group__left__packet_to_the_group_does_not_wake(void **state)
{
    (void)state;
    join_group("239.77.0.1");
    join_group("239.77.0.2");
    send_to_group("239.77.0.1");
    assert_false(wakes());
    send_to_group("239.77.0.2");
    assert_true(wakes());
}

/* The kernel ends the memberships of an interface that is removed. */
static void group__interface_came_back__is_joined_again(void **state)
{
    struct uro_udp_port *udp = uro_udp_of(port);

    (void)state;
    join_group("239.77.0.1");
    for (uint32_t i = 0; i < 2; i++) {
        struct ip_mreq membership = { 0 };
        memcpy(&membership.imr_multiaddr, &udp->groups.all[0].sock.address.octets[12], 4);
        memcpy(&membership.imr_interface, &addresses[i].octets[12], 4);
        (void)setsockopt(udp->groups.all[0].sock.fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &membership,
                         sizeof membership);
    }
    send_to_group("239.77.0.1");
    assert_false(wakes());
    uro_groups_renew(&udp->groups, udp->socks, udp->sock_count, &udp->options);
    assert_int_equal(udp->groups.count, 1);
    send_to_group("239.77.0.1");
    assert_true(wakes());
}

static void groups__packets_at_each__are_polled_round_robin(void **state)
{
    struct uro_groups *groups = &uro_udp_of(port)->groups;
    struct uro_gid gids[2];

    (void)state;
    assert_true(uro_gid_parse("239.77.0.1", &gids[0]) && uro_gid_parse("239.77.0.2", &gids[1]));
    uro_port_groups(port, gids, 2);
    const struct uro_sock *first = uro_groups_next(groups);
    assert_ptr_not_equal(uro_groups_next(groups), first);
    assert_ptr_equal(uro_groups_next(groups), first);
}

/* Two processes of one machine may join a group. Each receives only packets from the interface on
 * which it joined. */
static void group__joined_by_another_process__is_joined(void **state)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    struct uro_groups *other = test_calloc(1, sizeof *other);
    struct uro_gid group;
    int all = 1;
    socklen_t size = sizeof all;

    (void)state;
    assert_true(uro_gid_parse("239.77.0.1", &group));
    uro_port_groups(port, &group, 1);
    other->epoll = udp->groups.epoll;
    uro_groups_set(other, &group, 1, udp->socks, udp->sock_count, &udp->options);
    assert_int_equal(other->count, 1);
    assert_int_equal(getsockopt(other->all[0].sock.fd, IPPROTO_IP, IP_MULTICAST_ALL, &all, &size),
                     0);
    assert_int_equal(all, 0);
    uro_groups_close(other);
    test_free(other);
}

/* An IPv6 group needs an IPv6 address, and an IPv4 group an IPv4 address. */
static void group__no_address_of_its_ip_version__one_message_and_no_descriptor(void **state)
{
    struct uro_udp_port *udp = uro_udp_of(port);
    struct uro_sock own[2] = { { .fd = -1, .v6 = true }, udp->socks[0] };
    struct uro_gid v4, v6;

    (void)state;
    assert_true(uro_gid_parse("239.77.0.1", &v4) && uro_gid_parse("ff02::77:1", &v6));
    assert_true(uro_gid_parse("::1", &own[0].address));
    uro_groups_set(&udp->groups, &v4, 1, own, 2, &udp->options);
    assert_int_equal(udp->groups.count, 1);
    uro_groups_close(&udp->groups);

    int unused = dup(0);
    (void)close(unused);
    for (int i = 0; i < 2; i++)
        uro_port_groups(port, &v6, 1);
    assert_int_equal(udp->groups.count, 0);
    assert_string_equal(capture_stderr_text(capture),
                        "uroce: group ff02::77:1 over UDP: Cannot assign requested address\n");
    int epoll = udp->groups.epoll;
    udp->groups.epoll = -1; /* makes the join fail, as without memory in the kernel */
    uro_port_groups(port, &v4, 1);
    udp->groups.epoll = epoll;
    assert_int_equal(udp->groups.count, 0);
    int now = dup(0);
    (void)close(now);
    assert_int_equal(now, unused);
}

/* All slots are in use: the new group takes the slot of a group that leaves. */
static void group__replaces_another__is_joined(void **state)
{
    struct uro_groups *groups = &uro_udp_of(port)->groups;
    struct uro_gid gids[URO_PORT_GROUPS_MAX];
    char text[32];

    (void)state;
    for (uint32_t i = 0; i < URO_PORT_GROUPS_MAX; i++) {
        (void)snprintf(text, sizeof text, "239.77.1.%u", i);
        assert_true(uro_gid_parse(text, &gids[i]));
    }
    uro_port_groups(port, gids, URO_PORT_GROUPS_MAX);
    assert_int_equal(groups->count, URO_PORT_GROUPS_MAX);
    assert_true(uro_gid_parse("239.77.2.1", &gids[5]));
    uro_port_groups(port, gids, URO_PORT_GROUPS_MAX);
    assert_int_equal(groups->count, URO_PORT_GROUPS_MAX);
    assert_true(uro_gid_equal(&groups->all[groups->count - 1].sock.address, &gids[5]));
    assert_string_equal(capture_stderr_text(capture), "");
    uro_port_groups(port, gids, 0);
    assert_int_equal(groups->count, 0);
}

static bool keeps_reports(const char *name, const struct uro_sock *own, int level, int option)
{
    struct uro_groups *groups = &uro_udp_of(port)->groups;
    struct uro_gid group;
    int keeps = 1;
    socklen_t size = sizeof keeps;

    assert_true(uro_gid_parse(name, &group));
    uro_groups_set(groups, &group, 1, own, 1, &uro_udp_of(port)->options);
    const struct uro_sock *sock = uro_groups_next(groups);
    if (sock == NULL) {
        print_message("# SKIP this machine cannot join the group %s\n", name);
        skip();
    }
    assert_int_equal(getsockopt(sock->fd, level, option, &keeps, &size), 0);
    return keeps != 0;
}

/* Any host that can send ICMP can report that a group is unreachable. The socket must not queue
 * such reports. */
static void group__icmp_errors__are_not_queued(void **state)
{
    (void)state;
    assert_false(keeps_reports("239.77.0.1", uro_udp_of(port)->socks, IPPROTO_IP, IP_RECVERR));
}

static void group_of_ipv6__icmp_errors__are_not_queued(void **state)
{
    struct uro_sock own = { .fd = -1, .v6 = true };

    (void)state;
    assert_true(uro_gid_parse("::1", &own.address));
    assert_false(keeps_reports("ff02::77:1", &own, IPPROTO_IPV6, IPV6_RECVERR));
}

/* The socket of a shared address belonged to another process before, and still has its options. */
static void gro_no__socket_had_gro_enabled__is_disabled(void **state)
{
    struct uro_sock *sock = &uro_udp_of(port)->socks[0];
    const struct uro_sock_options options = { .coalesces = false };
    int joins = 1;
    socklen_t size = sizeof joins;

    (void)state;
    if (!sock->coalesces) {
        print_message("# SKIP this kernel has no UDP GRO\n");
        skip();
    }
    uro_sock_start(sock, sock->fd, &addresses[0], &options);
    assert_int_equal(getsockopt(sock->fd, IPPROTO_UDP, UDP_OPTION_GRO, &joins, &size), 0);
    assert_int_equal(joins, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(port_unreachable__found_by_receive__is_reported_and_cleared,
                                        start, stop),
        cmocka_unit_test_setup_teardown(port_unreachable__not_verbose__is_cleared, start_quiet,
                                        stop),
        cmocka_unit_test_setup_teardown(
            port_unreachable__found_before_a_sleep__is_reported_and_cleared, start, stop),
        cmocka_unit_test_setup_teardown(
            port_unreachable__found_by_send__is_reported_and_the_packet_is_sent, start, stop),
        cmocka_unit_test_setup_teardown(send__kernel_refuses_the_packet__one_message, start, stop),
        cmocka_unit_test_setup_teardown(
            arm__packet_is_waiting_behind_another__the_sleep_ends_at_once, start, stop),
        cmocka_unit_test_setup_teardown(
            arm__report_is_waiting_behind_a_packet__third_call_takes_the_report, start, stop),
        cmocka_unit_test_setup_teardown(group__packet_to_a_joined_group__wakes_the_port, start,
                                        stop),
        cmocka_unit_test_setup_teardown(group__left__packet_to_the_group_does_not_wake, start,
                                        stop),
        cmocka_unit_test_setup_teardown(group__interface_came_back__is_joined_again, start, stop),
        cmocka_unit_test_setup_teardown(groups__packets_at_each__are_polled_round_robin, start,
                                        stop),
        cmocka_unit_test_setup_teardown(group__joined_by_another_process__is_joined, start, stop),
        cmocka_unit_test_setup_teardown(
            group__no_address_of_its_ip_version__one_message_and_no_descriptor, start, stop),
        cmocka_unit_test_setup_teardown(group__replaces_another__is_joined, start, stop),
        cmocka_unit_test_setup_teardown(group__icmp_errors__are_not_queued, start, stop),
        cmocka_unit_test_setup_teardown(group_of_ipv6__icmp_errors__are_not_queued, start, stop),
        cmocka_unit_test_setup_teardown(gro_no__socket_had_gro_enabled__is_disabled, start, stop),
    };

    return cmocka_run_group_tests_name("io/udp_port", tests, NULL, NULL);
}
