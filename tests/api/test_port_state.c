/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_state.c - tests the state of the port of a device that is not started, as ibv_devinfo
 * prints it. The test has its own network namespace:
 *
 *     here        10.9.1.1   on an interface that is up
 *     down        10.9.2.1   on an interface that is down
 *     missing     10.9.3.1   on no interface
 *     loopback    127.0.0.9
 *     other_name  10.9.4.1   by af_packet, on an alternative name of the first interface
 */
#include "api/api.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static enum ibv_port_state state_of(const char *name)
{
    struct ibv_port_attr attr = { .state = IBV_PORT_NOP };
    struct api api = api_open_device(name);

    assert_int_equal(ibv_query_port(api.context, 1, &attr), 0);
    api_close_device(&api);
    return attr.state;
}

static void query_port__device_not_started__has_the_state_of_the_interface(void **state)
{
    (void)state;
    assert_int_equal(state_of("here"), IBV_PORT_ACTIVE);
    assert_int_equal(state_of("loopback"), IBV_PORT_ACTIVE);
    assert_int_equal(state_of("down"), IBV_PORT_DOWN);
    assert_int_equal(state_of("missing"), IBV_PORT_DOWN);
    assert_int_equal(state_of("other_name"), IBV_PORT_ACTIVE);
    assert_int_equal(system("ip link set one down && ip link set two up"), 0);
    assert_int_equal(state_of("here"), IBV_PORT_DOWN);
    assert_int_equal(state_of("down"), IBV_PORT_ACTIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_port__device_not_started__has_the_state_of_the_interface),
    };

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        puts("NOT TESTED: a network namespace of our own needs root");
        return API_SKIPPED;
    }
    if (system("ip link set lo up && ip link add one type veth peer name two && "
               "ip addr add 10.9.1.1/24 dev one && ip addr add 10.9.2.1/24 dev two && "
               "ip link property add dev one altname another && ip link set one up") != 0) {
        puts("NOT TESTED: interfaces cannot be made here");
        return API_SKIPPED;
    }
    return cmocka_run_group_tests_name("api/port_state", tests, NULL, NULL);
}
