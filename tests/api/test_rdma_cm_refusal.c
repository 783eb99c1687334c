/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_refusal.c - tests that refused calls of rdma_cm report their errors. */
#include "api/refusals.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>

#define WAIT_MS 60000 /* a guard against hanging */

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_cq
    *started; /* starts the device, because only a running device records refusals */

static void begin(const struct api *api, enum rdma_port_space space)
{
    started = api_cq(api, 1);
    channel = rdma_create_event_channel();
    assert_non_null(channel);
    assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
}

static void end(void)
{
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
    assert_int_equal(ibv_destroy_cq(started), 0);
}

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

static int bind_to(struct rdma_cm_id *to_bind, const char *text, uint16_t port)
{
    struct sockaddr_in address = address_of(text, port);

    return rdma_bind_addr(to_bind, (struct sockaddr *)&address);
}

static int resolve(const char *source, const char *dest)
{
    struct sockaddr_in from = { 0 }, to = address_of(dest, 1);

    if (source != NULL)
        from = address_of(source, 5);
    return rdma_resolve_addr(id, source != NULL ? (struct sockaddr *)&from : NULL,
                             (struct sockaddr *)&to, WAIT_MS);
}

static void expect_event(enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    (void)rdma_ack_cm_event(event);
}

#define refuse(result, call, number, wanted)                                                       \
    do {                                                                                           \
        assert_int_equal(result, -1);                                                              \
        assert_int_equal(errno, number);                                                           \
        refusals_expect(call, number, wanted);                                                     \
    } while (0)

static void refusal__bind__has_the_fault_of_the_address(void **state)
{
    struct rdma_cm_id *other;

    begin(*state, RDMA_PS_TCP);
    assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), 0);
    refuse(bind_to(id, "10.7.7.7", 4000), "rdma_bind_addr", EADDRNOTAVAIL,
           "no device has the address 10.7.7.7: use an address of `uroce devices`");
    assert_int_equal(bind_to(id, "10.0.0.1", 4000), 0);
    refuse(bind_to(other, "10.0.0.1", 4000), "rdma_bind_addr", EADDRINUSE,
           "port 4000 of 10.0.0.1 is taken");
    refuse(bind_to(other, "0.0.0.0", 4000), "rdma_bind_addr", EADDRNOTAVAIL,
           "port 4000 is taken at an address that the wildcard includes");
    refuse(bind_to(id, "10.0.0.1", 4001), "rdma_bind_addr", EINVAL,
           "the identifier is bound: call rdma_bind_addr once");
    assert_int_equal(rdma_destroy_id(other), 0);
    end();
}

/* Programs look for devices by binding to every address of the machine. */
static void bind__address_of_no_device_without_a_port__is_not_recorded(void **state)
{
    begin(*state, RDMA_PS_TCP);
    refuse(bind_to(id, "10.7.7.7", 4001), "rdma_bind_addr", EADDRNOTAVAIL, "no device has");
    const uint64_t number = refusals_last.number;
    assert_int_equal(bind_to(id, "10.7.7.8", 0), -1);
    refusals_expect("rdma_bind_addr", EADDRNOTAVAIL, "10.7.7.7");
    assert_int_equal(refusals_last.number, number);
    end();
}

static void refusal__resolve__has_the_fault_of_the_addresses(void **state)
{
    begin(*state, RDMA_PS_TCP);
    refuse(resolve("10.7.7.7", "10.0.0.1"), "rdma_resolve_addr", EADDRNOTAVAIL,
           "no device has the address 10.7.7.7");
    refuse(resolve(NULL, "192.168.99.1"), "rdma_resolve_addr", ENETUNREACH,
           "192.168.99.1 is in no subnet of a device, and no device has a gateway");
    assert_int_equal(resolve(NULL, "10.0.0.1"), 0);
    expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
    refuse(rdma_resolve_route(id, WAIT_MS), "rdma_resolve_route", EINVAL,
           "the identifier has a route: call rdma_resolve_route after the event ADDR_RESOLVED");
    refuse(rdma_listen(id, 1), "rdma_listen", EINVAL,
           "the identifier has a route: call rdma_listen after rdma_bind_addr");
    end();
}

static void listen__on_a_port_of_another_listener__is_reported(void **state)
{
    struct rdma_cm_id *other;
    int on = 1;

    begin(*state, RDMA_PS_TCP);
    assert_int_equal(rdma_create_id(channel, &other, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 4), 0);
    assert_int_equal(rdma_set_option(other, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 4), 0);
    assert_int_equal(bind_to(id, "10.0.0.1", 4003), 0);
    assert_int_equal(bind_to(other, "10.0.0.1", 4003), 0);
    refuse(rdma_listen(id, 1), "rdma_listen", EADDRINUSE,
           "port 4003 is taken by another identifier");
    assert_int_equal(rdma_destroy_id(other), 0);
    end();
}

static void refusal__connect__has_the_missing_step_or_the_limit(void **state)
{
    uint8_t data[57] = { 0 };
    struct rdma_conn_param param = { .private_data = data, .private_data_len = sizeof data };

    begin(*state, RDMA_PS_TCP);
    assert_int_equal(resolve(NULL, "10.0.0.1"), 0);
    expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    refuse(rdma_connect(id, &param), "rdma_connect", EINVAL,
           "the identifier has an address, but no route: call rdma_connect once, after the event "
           "ROUTE_RESOLVED");
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
    refuse(rdma_connect(id, &param), "rdma_connect", EINVAL,
           "private_data_len is 57; at most 56 bytes fit");
    refuse(rdma_accept(id, &param), "rdma_accept", EINVAL,
           "the identifier has a route: rdma_accept needs the identifier of a CONNECT_REQUEST");
    end();
}

/* Nobody listens on the port, and nobody has the other address. */
static void connect__that_fails__is_recorded_with_the_peer(void **state)
{
    struct sockaddr_in nobody = address_of("10.0.0.77", 1);

    begin(*state, RDMA_PS_TCP);
    assert_int_equal(resolve(NULL, "10.0.0.1"), 0);
    expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(rdma_connect(id, &(struct rdma_conn_param){ .retry_count = 1 }), 0);
    expect_event(RDMA_CM_EVENT_REJECTED);
    refusals_expect("rdma_connect", ECONNREFUSED,
                    "10.0.0.1 port 1: rejected, no program listens there");
    end();
    begin(*state, RDMA_PS_TCP);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nobody, 50), 0);
    expect_event(RDMA_CM_EVENT_ADDR_ERROR);
    refusals_expect("rdma_resolve_addr", ETIMEDOUT, "10.0.0.77 was not found on the link");
    end();
}

static void refusal__accept__has_the_limit_or_the_earlier_accept(void **state)
{
    uint8_t data[197] = { 0 };
    struct rdma_conn_param param = { .private_data = data, .private_data_len = sizeof data };
    struct rdma_cm_id *listener;
    struct rdma_cm_event *event;

    begin(*state, RDMA_PS_TCP);
    assert_int_equal(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(bind_to(listener, "10.0.0.1", 1), 0);
    assert_int_equal(rdma_listen(listener, 1), 0);
    assert_int_equal(resolve(NULL, "10.0.0.1"), 0);
    expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(rdma_connect(id, &(struct rdma_conn_param){ .retry_count = 1 }), 0);
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *made = event->id;
    (void)rdma_ack_cm_event(event);
    refuse(rdma_accept(made, &param), "rdma_accept", EINVAL,
           "private_data_len is 197; at most 196 bytes fit");
    param.private_data_len = 0;
    assert_int_equal(rdma_accept(made, &param), 0);
    refuse(rdma_accept(made, &param), "rdma_accept", EINVAL,
           "no connection request waits: it was accepted or rejected before");
    assert_int_equal(rdma_destroy_id(made), 0);
    assert_int_equal(rdma_destroy_id(listener), 0);
    end();
}

static void refusal__other_calls__has_the_reason(void **state)
{
    struct sockaddr_in group = address_of("239.1.2.3", 0), host = address_of("10.0.0.2", 0);
    uint8_t tos = 1;

    begin(*state, RDMA_PS_TCP);
    assert_int_equal(bind_to(id, "10.0.0.1", 4005), 0);
    refuse(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), "rdma_join_multicast", EINVAL,
           "only identifiers of RDMA_PS_UDP or RDMA_PS_IPOIB join groups");
    refuse(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &tos, 1),
           "rdma_set_option", EINVAL, "option 1 of level 0 does not have 1 bytes");
    end();
    begin(*state, RDMA_PS_UDP);
    refuse(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), "rdma_join_multicast", EINVAL,
           "the identifier is new: bind it to an address of a device first");
    assert_int_equal(bind_to(id, "10.0.0.1", 4005), 0);
    refuse(rdma_join_multicast(id, (struct sockaddr *)&host, NULL), "rdma_join_multicast", EINVAL,
           "the address is not a multicast address");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(refusal__bind__has_the_fault_of_the_address),
        API_TEST(bind__address_of_no_device_without_a_port__is_not_recorded),
        API_TEST(refusal__resolve__has_the_fault_of_the_addresses),
        API_TEST(listen__on_a_port_of_another_listener__is_reported),
        API_TEST(refusal__connect__has_the_missing_step_or_the_limit),
        API_TEST(connect__that_fails__is_recorded_with_the_peer),
        API_TEST(refusal__accept__has_the_limit_or_the_earlier_accept),
        API_TEST(refusal__other_calls__has_the_reason),
    };

    return refusals_run(__FILE__, tests, sizeof tests / sizeof tests[0]);
}
