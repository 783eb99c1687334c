/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_state.c - tests the state of the port of a device that is not started, as ibv_devinfo
 * prints it, and the events of a program that creates no object. The test has its own network
 * namespace:
 *
 *     here      10.9.1.1   on an interface that is up
 *     down      10.9.2.1   on an interface that is down
 *     missing   10.9.3.1   on no interface
 *     loopback  127.0.0.9
 */
#include "api/api.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    assert_int_equal(system("ip link set one down && ip link set two up"), 0);
    assert_int_equal(state_of("here"), IBV_PORT_DOWN);
    assert_int_equal(state_of("down"), IBV_PORT_ACTIVE);
}

static bool has_port(const char *address)
{
    char line[256];
    bool has = false;
    FILE *sockets = fopen("/proc/thread-self/net/udp", "r");

    assert_non_null(sockets);
    while (fgets(line, sizeof line, sockets) != NULL)
        has |= strstr(line, address) != NULL;
    (void)fclose(sockets);
    return has;
}

static void *take_two(void *argument)
{
    static enum ibv_event_type types[2];
    struct ibv_async_event event;

    for (unsigned i = 0; i < 2; i++) {
        if (ibv_get_async_event(argument, &event) != 0)
            return NULL;
        types[i] = event.event_type;
        ibv_ack_async_event(&event);
        if (i == 0 && system("ip link set two up") != 0)
            return NULL;
    }
    return types;
}

/* The program has no objects, like ibv_asyncwatch. */
static void async_event__program_without_objects__gets_the_events_of_the_port(void **state)
{
    struct api api = api_open_device("down");
    pthread_t thread;
    void *types;

    (void)state;
    assert_int_equal(system("ip link set two up"), 0);
    assert_int_equal(pthread_create(&thread, NULL, take_two, api.context), 0);
    while (!has_port("0102090A:12B7")) /* 10.9.2.1, port 4791 */
        (void)usleep(1000);
    assert_int_equal(system("ip link set two down"), 0);
    assert_int_equal(pthread_join(thread, &types), 0);
    assert_non_null(types);
    assert_int_equal(((enum ibv_event_type *)types)[0], IBV_EVENT_PORT_ERR);
    assert_int_equal(((enum ibv_event_type *)types)[1], IBV_EVENT_PORT_ACTIVE);
    api_close_device(&api);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_port__device_not_started__has_the_state_of_the_interface),
        cmocka_unit_test(async_event__program_without_objects__gets_the_events_of_the_port),
    };

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        puts("NOT TESTED: a network namespace of our own needs root");
        return API_SKIPPED;
    }
    if (system("ip link set lo up && ip link add one type veth peer name two && "
               "ip addr add 10.9.1.1/24 dev one && ip addr add 10.9.2.1/24 dev two && "
               "ip link set one up") != 0) {
        puts("NOT TESTED: interfaces cannot be made here");
        return API_SKIPPED;
    }
    return cmocka_run_group_tests_name("api/port_state", tests, NULL, NULL);
}
