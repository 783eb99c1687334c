/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that the MTU of a path comes from the routing table, not from ICMP messages. */
#define _GNU_SOURCE /* unshare, IP_MTU */
#include "support/check.h"

#include <errno.h>

#include "io/kernel/fib.h"
#include "io/udp/sock.h"
#include "support/own_net.h"

#define WIDE   1500 /* MTU of the loopback interface */
#define NARROW 1300 /* MTU in a forged ICMP message */

static struct uro_gid own, peer;
static int fd;

static int start_with(const char *from, const char *to)
{
    char error[URO_PORT_ERROR_MAX];

    assert_true(uro_gid_parse(from, &own) && uro_gid_parse(to, &peer));
    fd = uro_sock_bind(&own, false, error);
    return fd >= 0 ? 0 : -1;
}

static int start(void **state)
{
    (void)state;
    return start_with("127.77.0.1", "127.77.0.2");
}

static int start_ipv6(void **state)
{
    (void)state;
    return start_with("::1", "::1");
}

static int stop(void **state)
{
    (void)state;
    (void)close(fd);
    return 0;
}

/* Returns the MTU of the kernel's cached route, which also depends on ICMP messages. */
static int cached(void)
{
    const union uro_sock_address to = uro_sock_address_of(&peer, URO_ROCE_PORT);
    const bool v6 = !uro_gid_is_ipv4(&peer);
    int asks = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
    socklen_t length = sizeof mtu;

    assert_int_equal(connect(asks, &to.any, uro_sock_address_length(&to)), 0);
    assert_int_equal(
        getsockopt(asks, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &length), 0);
    (void)close(asks);
    return mtu;
}

/* Returns whether a packet of @octets bytes, headers included, can be sent, after clearing the
 * errors of earlier packets. */
static bool leaves(uint32_t octets)
{
    static uint8_t payload[2 * WIDE];
    const union uro_sock_address to = uro_sock_address_of(&peer, URO_ROCE_PORT);
    const uint32_t headers = (uro_gid_is_ipv4(&peer) ? URO_IPV4_LEN : URO_IPV6_LEN) + URO_UDP_LEN;
    struct uro_sock_report report;

    while (uro_sock_take_report(fd, &report))
        ;
    return sendto(fd, payload, octets - headers, 0, &to.any, uro_sock_address_length(&to)) > 0;
}

static void fib__forged_low_path_mtu__mtu_is_unchanged(void **state)
{
    (void)state;
    assert_true(own_net_report(&own, &peer, OWN_NET_NARROW, NARROW));
    assert_int_equal(cached(), NARROW);
    assert_int_equal(uro_fib_mtu(&own, &peer, 0), WIDE);
    assert_true(leaves(WIDE));
}

static void fib__forged_low_ipv6_path_mtu__mtu_is_unchanged(void **state)
{
    (void)state;
    assert_true(own_net_report6(&own, NARROW));
    assert_int_equal(cached(), NARROW);
    assert_int_equal(uro_fib_mtu(&own, &peer, 0), WIDE);
    assert_true(leaves(WIDE));
}

static void packet__longer_than_the_interface_mtu__is_not_sent(void **state)
{
    (void)state;
    assert_false(leaves(WIDE + 1));
    assert_int_equal(errno, EMSGSIZE);
}

static void route_mtu__no_route__is_unknown(void **state)
{
    struct uro_gid nowhere;

    (void)state;
    assert_true(uro_gid_parse("192.0.2.1", &nowhere));
    assert_int_equal(uro_fib_mtu(&own, &nowhere, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fib__forged_low_path_mtu__mtu_is_unchanged, start, stop),
        cmocka_unit_test_setup_teardown(fib__forged_low_ipv6_path_mtu__mtu_is_unchanged, start_ipv6,
                                        stop),
        cmocka_unit_test_setup_teardown(packet__longer_than_the_interface_mtu__is_not_sent, start,
                                        stop),
        cmocka_unit_test_setup_teardown(route_mtu__no_route__is_unknown, start, stop),
    };

    if (!own_net_enter())
        return 0;
    return cmocka_run_group_tests_name("io/fib", tests, NULL, NULL);
}
