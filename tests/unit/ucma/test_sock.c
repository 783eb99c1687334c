/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "ucma/sock.h"

static struct uro_gid gid_of(const char *text)
{
    struct uro_gid gid;

    assert_true(uro_gid_parse(text, &gid));
    return gid;
}

static void expect_gid(const struct uro_sock *sock, const char *text)
{
    struct uro_gid gid = uro_sock_gid(sock), wanted = gid_of(text);

    assert_memory_equal(&gid, &wanted, sizeof gid);
}

static void address__made_of_a_gid__has_the_family_of_the_gid(void **state)
{
    struct uro_gid four = gid_of("10.1.2.3"), six = gid_of("fd00::1");
    struct uro_sock sock;

    (void)state;
    uro_sock_make(&sock, 0, &four, 4711);
    assert_int_equal(sock.any.sa_family, AF_INET);
    assert_int_equal(ntohl(sock.v4.sin_addr.s_addr), 0x0a010203);
    assert_int_equal(ntohs(sock.v4.sin_port), 4711);
    assert_int_equal(uro_sock_size(&sock), sizeof(struct sockaddr_in));
    expect_gid(&sock, "10.1.2.3");
    assert_true(uro_sock_fits(&sock, &four) && !uro_sock_fits(&sock, &six));

    uro_sock_make(&sock, 0, &six, 9);
    assert_int_equal(sock.any.sa_family, AF_INET6);
    assert_int_equal(uro_sock_port(&sock), 9);
    expect_gid(&sock, "fd00::1");
    assert_true(!uro_sock_fits(&sock, &four) && uro_sock_fits(&sock, &six));

    uro_sock_make(&sock, AF_IB, &four, 513);
    assert_int_equal(uro_sock_size(&sock), 48);
    assert_int_equal(uro_sock_port(&sock), 513);
    expect_gid(&sock, "10.1.2.3");
}

static void address__wildcard_or_loopback__is_recognised_in_each_family(void **state)
{
    struct uro_sock sock = { .v4.sin_family = AF_INET };

    (void)state;
    assert_true(uro_sock_is_wildcard(&sock) && !uro_sock_is_loopback(&sock));
    sock.v4.sin_addr.s_addr = htonl(0x7f000005);
    assert_true(!uro_sock_is_wildcard(&sock) && uro_sock_is_loopback(&sock));
    sock = (struct uro_sock){ .v6.sin6_family = AF_INET6 };
    assert_true(uro_sock_is_wildcard(&sock) && !uro_sock_is_loopback(&sock));
    sock.v6.sin6_addr = in6addr_loopback;
    assert_true(!uro_sock_is_wildcard(&sock) && uro_sock_is_loopback(&sock));
}

static void read__another_size_or_family__is_refused(void **state)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    struct sockaddr local = { .sa_family = AF_UNIX };
    struct uro_sock sock;

    (void)state;
    assert_int_equal(uro_sock_read(&sock, &six, sizeof six), 0);
    assert_int_equal(uro_sock_read(&sock, &six, sizeof six - 1), -EINVAL);
    assert_int_equal(uro_sock_read(&sock, &local, sizeof local), -EINVAL);
    assert_int_equal(uro_sock_read(&sock, &local, 0), -EINVAL);
    assert_int_equal(uro_sock_read(&sock, &local, sizeof sock + 1), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address__made_of_a_gid__has_the_family_of_the_gid),
        cmocka_unit_test(address__wildcard_or_loopback__is_recognised_in_each_family),
        cmocka_unit_test(read__another_size_or_family__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
