/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_af_xdp.c - tests an af_xdp port on one end of a pair of interfaces. The other end has
 * an af_packet port. */
#include "support/check.h"

#include "system/port_kit.h"

static int other; /* the other namespace */

/* Opened once: DPDK 22.11 releases the interface's queue only when the process ends. */
static struct uro_port *port;

static void af_xdp__frames_of_every_length__come_back(void **state)
{
    (void)state;
    pid_t peer = kit_echo("net_af_packet0,iface=vb", 0, false, other);
    uint32_t sequence;

    assert_int_equal(port->mtu, 1500);
    kit_meet(port);
    for (uint32_t length = KIT_FRAME_MIN; length <= 1514; length += 3) {
        kit_send(port, length, length);
        assert_int_equal(kit_receive(port, &sequence, 20), length);
        assert_int_equal(sequence, length);
    }
    kit_kill(peer);
}

static void af_xdp__each_send_is_a_system_call__packets_are_coalesced(void **state)
{
    (void)state;

    assert_true(uro_port_has(port, URO_PORT_CALL_PER_SEND));
}

static void af_xdp__both_sleep__every_frame_wakes(void **state)
{
    (void)state;
    pid_t peer = kit_echo_asleep("net_af_packet0,iface=vb", 0, false, other);
    uint32_t sequence;
    uint32_t slept = 0;

    assert_true(kit_can_wait(port));
    kit_meet(port);
    for (uint32_t n = 1; n < 1000; n++) {
        kit_send(port, n, 60 + n % 1000);
        assert_int_equal(kit_sleep_receive(port, &sequence, 10, &slept), 60 + n % 1000);
        assert_int_equal(sequence, n);
    }
    assert_true(slept > 10);
    kit_kill(peer);
}

/* A veth does not filter multicast. Therefore the test reads the interface's allmulti count. */
static void af_xdp__groups_joined__all_multicast_is_requested(void **state)
{
    (void)state;
    const struct uro_mac groups[] = { { { 0x33, 0x33, 0, 0, 0, 1 } } };

    assert_false(kit_try(-1, "ip -d link show va | grep -q 'allmulti [1-9]'"));
    uro_port_multicast(port, groups, 1);
    uro_port_multicast(port, groups, 1);
    kit_run(-1, "ip -d link show va | grep -q 'promiscuity 0 *allmulti 1 '");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(af_xdp__frames_of_every_length__come_back),
        cmocka_unit_test(af_xdp__each_send_is_a_system_call__packets_are_coalesced),
        cmocka_unit_test(af_xdp__both_sleep__every_frame_wakes),
        cmocka_unit_test(af_xdp__groups_joined__all_multicast_is_requested),
    };
    char error[URO_PORT_ERROR_MAX];
    struct uro_port_config config = { .device = "kit", .link = "net_af_xdp0,iface=va" };

    other = kit_veth(1500);
    port = kit_try_open(&config, error);
    if (port == NULL)
        kit_skip(error); /* for example: the kernel has no XDP sockets */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    uro_port_close(port);
    return failed;
}
