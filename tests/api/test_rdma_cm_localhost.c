/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_localhost.c - tests what is recorded about a connection to an address of this
 * machine at which no program runs. The device has the address 127.0.0.97. The test has its own
 * network namespace, so that no other program has port 4791. */
#include "api/refusals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define WAIT_MS 60000 /* a guard against hanging */

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

static void expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    rdma_ack_cm_event(event);
}

/* Connects to @to, where no program runs. */
static void connect_in_vain(const char *to)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_conn_param param = { .retry_count = 1 };
    struct sockaddr_in dest = address_of(to, 7471);
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dest, WAIT_MS), 0);
    expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(rdma_connect(id, &param), 0);
    expect_event(channel, RDMA_CM_EVENT_UNREACHABLE);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

static void connect__to_an_address_without_a_program__is_recorded(void **state)
{
    (void)state;
    connect_in_vain("127.0.0.98");
    refusals_expect("rdma_connect", ETIMEDOUT, "no answer from 127.0.0.98 port 7471 in ");
    refusals_expect("rdma_connect", ETIMEDOUT,
                    "ICMP says that UDP port 4791 is closed there; start");
}

static void connect__to_localhost_that_is_not_the_device__names_the_device_address(void **state)
{
    (void)state;
    connect_in_vain("127.0.0.1");
    refusals_expect("rdma_connect", ETIMEDOUT,
                    "127.0.0.1 is not an address of this device, whose address is 127.0.0.97");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__to_an_address_without_a_program__is_recorded),
        cmocka_unit_test(connect__to_localhost_that_is_not_the_device__names_the_device_address),
    };

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0 || system("ip link set lo up") != 0) {
        puts("NOT TESTED: a network namespace of our own needs root");
        return API_SKIPPED;
    }
    return refusals_run(__FILE__, tests, sizeof tests / sizeof tests[0]);
}
