/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_localhost.c - tests what 127.0.0.1 means for rdma_cm if the device has the address
 * 127.0.0.97. The test has its own network namespace, so that no other program has port 4791. */
#include "api/refusals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define ROCE_PORT 4791
#define WAIT_MS   60000 /* a guard against hanging */

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

/* Resolves @to and checks the address of the peer. */
static void leads(const char *to, const char *peer)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in dest = address_of(to, 7471), found;
    struct rdma_cm_event *event;
    char text[INET_ADDRSTRLEN];
    struct rdma_cm_id *id;

    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dest, WAIT_MS), 0);
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
    rdma_ack_cm_event(event);
    memcpy(&found, rdma_get_peer_addr(id), sizeof found);
    assert_string_equal(inet_ntop(AF_INET, &found.sin_addr, text, sizeof text), peer);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

static void resolve__localhost_that_no_program_has__is_the_address_of_the_device(void **state)
{
    (void)state;
    leads("127.0.0.1", "127.0.0.97");
    leads("127.0.0.97", "127.0.0.97");
    leads("127.0.0.98", "127.0.0.98"); /* only 127.0.0.1 means this machine */
}

static void resolve__localhost_of_another_program__is_that_program(void **state)
{
    const struct sockaddr_in own = address_of("127.0.0.1", ROCE_PORT);
    const int other = socket(AF_INET, SOCK_DGRAM, 0);

    (void)state;
    assert_int_equal(bind(other, (const struct sockaddr *)&own, sizeof own), 0);
    leads("127.0.0.1", "127.0.0.1");
    assert_int_equal(close(other), 0);
    leads("127.0.0.1", "127.0.0.97");
}

static void expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    rdma_ack_cm_event(event);
}

static void connect__to_an_address_without_a_program__is_recorded(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_conn_param param = { .retry_count = 1 };
    struct sockaddr_in dest = address_of("127.0.0.98", 7471);
    struct rdma_cm_id *id;

    (void)state;
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dest, WAIT_MS), 0);
    expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(rdma_connect(id, &param), 0);
    expect_event(channel, RDMA_CM_EVENT_UNREACHABLE);
    refusals_expect("rdma_connect", ETIMEDOUT, "no answer from 127.0.0.98 port 7471 in ");
    refusals_expect("rdma_connect", ETIMEDOUT,
                    "ICMP says that UDP port 4791 is closed there; start");
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

static void bind__to_localhost_that_no_program_has__is_the_address_of_the_device(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in own = address_of("127.0.0.1", 7471), found;
    char text[INET_ADDRSTRLEN];
    struct rdma_cm_id *id;

    (void)state;
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&own), 0);
    memcpy(&found, rdma_get_local_addr(id), sizeof found);
    assert_string_equal(inet_ntop(AF_INET, &found.sin_addr, text, sizeof text), "127.0.0.97");
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolve__localhost_that_no_program_has__is_the_address_of_the_device),
        cmocka_unit_test(resolve__localhost_of_another_program__is_that_program),
        cmocka_unit_test(connect__to_an_address_without_a_program__is_recorded),
        cmocka_unit_test(bind__to_localhost_that_no_program_has__is_the_address_of_the_device),
    };

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0 || system("ip link set lo up") != 0) {
        puts("NOT TESTED: a network namespace of our own needs root");
        return API_SKIPPED;
    }
    return refusals_run(__FILE__, tests, sizeof tests / sizeof tests[0]);
}
