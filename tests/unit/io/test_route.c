/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the path to a peer according to the kernel's routing table. system/test_udp_paths.py tests
 * paths with a smaller MTU, and test_fib.c tests forged ICMP messages. */
#define _GNU_SOURCE /* struct ifreq, and struct mmsghdr of udp.h */
#include "support/check.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "io/udp/udp.h"

static uint32_t carried(const char *from, const char *to)
{
    struct uro_udp_port udp = { .sock_count = 0 };
    struct uro_gid own, peer;

    assert_true(uro_gid_parse(from, &own) && uro_gid_parse(to, &peer));
    return uro_route_mtu(&udp.port, &own, &peer);
}

static void route__over_loopback__has_the_mtu_of_the_interface(void **state)
{
    struct ifreq ask = { .ifr_name = "lo" };
    int fd = uro_sock_make(false);

    (void)state;
    assert_true(fd >= 0 && ioctl(fd, SIOCGIFMTU, &ask) == 0);
    (void)close(fd);
    const uint32_t most = 65535; /* longest IPv4 packet */
    const uint32_t mtu = (uint32_t)ask.ifr_mtu < most ? (uint32_t)ask.ifr_mtu : most;
    assert_int_equal(carried("127.77.0.1", "127.77.0.2"), mtu);
}

static void route__from_an_absent_address__is_unknown(void **state)
{
    (void)state;
    assert_int_equal(carried("192.0.2.1", "127.77.0.2"), 0);
}

/* There is no route between IPv4 and IPv6 either. */
static void route__to_a_group__is_unknown(void **state)
{
    (void)state;
    assert_int_equal(carried("127.77.0.1", "239.77.0.1"), 0);
    assert_int_equal(carried("127.77.0.1", "::1"), 0);
    assert_int_equal(carried("::1", "127.77.0.1"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(route__over_loopback__has_the_mtu_of_the_interface),
        cmocka_unit_test(route__from_an_absent_address__is_unknown),
        cmocka_unit_test(route__to_a_group__is_unknown),
    };

    return cmocka_run_group_tests_name("io/route", tests, NULL, NULL);
}
