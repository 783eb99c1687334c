/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the connection of a process to the broker of its address. The test acts as the broker. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/udp/share.h"

#define SERVICES 2000u

static struct uro_share share;
static int broker;
static uint8_t record[URO_HUB_RECORD];

static int start(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    share = (struct uro_share){ .fd = ends[0], .number = 5 };
    broker = ends[1];
    return 0;
}

static int stop(void **state)
{
    (void)state;
    uro_share_leave(&share);
    (void)close(broker);
    return 0;
}

/* Returns the kind of the next record and its number of services; -1 when there is none. */
static int next_record(uint32_t *services)
{
    struct uro_hub_header header;
    struct iovec parts[2] = { { &header, sizeof header }, { record, sizeof record } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t got = recvmsg(broker, &message, MSG_DONTWAIT);

    if (got < (ssize_t)sizeof header)
        return -1;
    *services = (uint32_t)(((size_t)got - sizeof header) / sizeof(struct uro_listened));
    return (int)header.kind;
}

static void services__broker_is_busy__are_announced_later(void **state)
{
    static const uint8_t datagram[1024];
    static struct uro_listened all[SERVICES];
    const union uro_sock_address from = { .any.sa_family = AF_INET };
    uint32_t count = 0;

    (void)state;
    for (int i = 0; i < 10000; i++)
        uro_share_pass(&share, &from, 0, datagram, sizeof datagram);
    uro_share_services(&share, all, SERVICES);
    for (int kind; (kind = next_record(&count)) >= 0;)
        assert_int_equal(kind, URO_HUB_DATAGRAM); /* the SERVICES record was dropped */
    uro_share_repeat(&share);
    assert_int_equal(next_record(&count), URO_HUB_SERVICES);
    assert_int_equal(count, SERVICES);
    uro_share_repeat(&share);
    assert_int_equal(next_record(&count), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(services__broker_is_busy__are_announced_later, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
