/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests multicast over UDP sockets: the kernel returns packets of this process to this process. */
#include "support/check.h"

#include <string.h>

#include "io/udp/group.h"
#include "io/udp/share.h"

#define AT_SOURCE_QPN 17

static struct uro_gid address(const char *text)
{
    struct uro_gid gid;

    assert_true(uro_gid_parse(text, &gid));
    return gid;
}

/* If no process shares the address, each packet from our address is an echo. */
static void group__own_address_not_shared__own_packet_is_dropped(void **state)
{
    const struct uro_sock own[2] = { { .address = address("10.0.0.1") },
                                     { .address = address("fd00::1"), .v6 = true } };
    const struct uro_gid v4 = address("10.0.0.1"), v6 = address("fd00::1"),
                         no = address("10.0.0.2");
    const uint8_t packet[32] = { 0 };

    (void)state;
    assert_true(uro_group_is_echo(own, 2, &v4, packet, sizeof packet));
    assert_true(uro_group_is_echo(own, 2, &v6, packet, sizeof packet));
    assert_false(uro_group_is_echo(own, 2, &no, packet, sizeof packet));
}

/* The source QPN identifies the process that sent the packet. */
static void group__address_shared__packet_of_another_process_is_received(void **state)
{
    struct uro_share share = { .number = 5 };
    const struct uro_sock own = { .address = address("10.0.0.1"), .share = &share };
    const struct uro_gid from = address("10.0.0.1");
    uint8_t packet[32] = { 0 };

    (void)state;
    packet[AT_SOURCE_QPN] = 6 << 2;
    assert_false(uro_group_is_echo(&own, 1, &from, packet, sizeof packet));
    packet[AT_SOURCE_QPN] = 5 << 2 | 3;
    assert_true(uro_group_is_echo(&own, 1, &from, packet, sizeof packet));
    assert_true(uro_group_is_echo(&own, 1, &from, packet, AT_SOURCE_QPN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group__own_address_not_shared__own_packet_is_dropped),
        cmocka_unit_test(group__address_shared__packet_of_another_process_is_received),
    };

    return cmocka_run_group_tests_name("io/group", tests, NULL, NULL);
}
