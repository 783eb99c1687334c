/* SPDX-License-Identifier: BSD-3-Clause */
/* test_removal.c - tests the removal of a device's interface while a program is connected over
 * it. Both sides are in this process, which has its own network namespace.
 */
#include "api/api.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define WAIT_MS 60000 /* a guard against hanging */

struct stage {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *bound, *anywhere, *client, *server, *asking;
};

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = port };

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

static struct rdma_cm_id *create(const struct stage *stage)
{
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(stage->channel, &id, NULL, RDMA_PS_TCP), 0);
    return id;
}

static struct rdma_cm_id *listen_at(const struct stage *stage, const char *text)
{
    struct sockaddr_in address = address_of(text, 0);
    struct rdma_cm_id *id = create(stage);

    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
    assert_int_equal(rdma_listen(id, 4), 0);
    return id;
}

/* Returns the identifier of the next event, which must be of @type. */
static struct rdma_cm_id *expect(const struct stage *stage, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(stage->channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    assert_int_equal(event->status, 0);
    struct rdma_cm_id *id = event->id;
    rdma_ack_cm_event(event);
    return id;
}

static struct rdma_cm_id *resolve(const struct stage *stage, const char *text, uint16_t port)
{
    struct sockaddr_in address = address_of(text, port);
    struct rdma_cm_id *id = create(stage);

    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, WAIT_MS), 0);
    expect(stage, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect(stage, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
}

/* Connects through the listener at @text. */
static void connect_to(struct stage *stage, struct rdma_cm_id *listener, const char *text,
                       struct rdma_cm_id **client, struct rdma_cm_id **server)
{
    struct rdma_conn_param param = { .retry_count = 7, .qp_num = 1 };

    *client = resolve(stage, text, rdma_get_src_port(listener));
    assert_int_equal(rdma_connect(*client, &param), 0);
    *server = expect(stage, RDMA_CM_EVENT_CONNECT_REQUEST);
    param.qp_num = 2;
    assert_int_equal(rdma_accept(*server, &param), 0);
    expect(stage, RDMA_CM_EVENT_CONNECT_RESPONSE);
    assert_int_equal(rdma_establish(*client), 0);
    expect(stage, RDMA_CM_EVENT_ESTABLISHED);
}

static void expect_async(struct ibv_context *context, enum ibv_event_type type)
{
    struct ibv_async_event event;

    assert_int_equal(ibv_get_async_event(context, &event), 0);
    assert_string_equal(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
    ibv_ack_async_event(&event);
}

static bool is_one_of(const struct rdma_cm_id *id, struct rdma_cm_id *const *ids, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Only identifiers that are bound to the device get the event. A request that the program has not
 * accepted gets no event, and commands on it fail. */
static void interface__removed__bound_ids_get_events_and_other_device_works(void **state)
{
    struct stage stage = { .channel = rdma_create_event_channel() };
    struct sockaddr_in gone = address_of("10.1.0.1", 0);
    struct rdma_conn_param param = { .retry_count = 7, .qp_num = 3 };
    struct rdma_cm_id *client, *server;

    (void)state;
    assert_non_null(stage.channel);
    stage.bound = listen_at(&stage, "10.1.0.1");
    stage.anywhere = listen_at(&stage, "0.0.0.0");
    connect_to(&stage, stage.bound, "10.1.0.1", &stage.client, &stage.server);
    stage.asking = resolve(&stage, "10.1.0.1", rdma_get_src_port(stage.bound));
    assert_int_equal(rdma_connect(stage.asking, &param), 0);
    server = expect(&stage, RDMA_CM_EVENT_CONNECT_REQUEST);

    struct ibv_context *context = stage.client->verbs;
    assert_int_equal(system("ip link del one"), 0);
    expect_async(context, IBV_EVENT_PORT_ERR);
    expect_async(context, IBV_EVENT_DEVICE_FATAL);
    struct rdma_cm_id *removed[4] = { 0 };
    for (unsigned i = 0; i < 4; i++) {
        removed[i] = expect(&stage, RDMA_CM_EVENT_DEVICE_REMOVAL);
        assert_false(is_one_of(removed[i], removed, i));
        assert_true(removed[i] == stage.bound || removed[i] == stage.client ||
                    removed[i] == stage.server || removed[i] == stage.asking);
    }

    errno = 0;
    assert_int_equal(rdma_accept(server, &param), -1);
    assert_int_equal(errno, ENXIO);
    assert_int_equal(rdma_disconnect(stage.client), -1);
    assert_int_equal(errno, ENXIO);
    rdma_destroy_id(server);
    rdma_destroy_id(stage.asking);
    rdma_destroy_id(stage.server);
    rdma_destroy_id(stage.client);
    rdma_destroy_id(stage.bound);
    client = create(&stage);
    assert_int_equal(rdma_bind_addr(client, (struct sockaddr *)&gone), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    rdma_destroy_id(client);

    client = resolve(&stage, "127.0.0.1", 1);
    assert_string_equal(ibv_get_device_name(client->verbs->device), "uroce1");
    rdma_destroy_id(client);
    connect_to(&stage, stage.anywhere, "10.2.0.1", &client, &server);
    rdma_destroy_id(client);
    rdma_destroy_id(server);
    rdma_destroy_id(stage.anywhere);
    rdma_destroy_event_channel(stage.channel);
}

static void gid__over_an_interface__has_its_index(void **state)
{
    static const char *const names[] = { "one", "two" };
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_gid_entry entry;

    (void)state;
    assert_non_null(list);
    for (int i = 0; i < 2; i++) {
        struct ibv_context *context = ibv_open_device(list[i]);
        assert_non_null(context);
        for (uint32_t gid = 0; gid <= API_GID; gid++) {
            assert_int_equal(ibv_query_gid_ex(context, API_PORT, gid, &entry, 0), 0);
            assert_int_equal(entry.ndev_ifindex, if_nametoindex(names[i]));
        }
        assert_int_equal(ibv_close_device(context), 0);
    }
    ibv_free_device_list(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gid__over_an_interface__has_its_index),
        cmocka_unit_test(interface__removed__bound_ids_get_events_and_other_device_works),
    };

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        puts("NOT TESTED: a network namespace of our own needs root");
        return API_SKIPPED;
    }
    if (system("ip link add one type veth peer name other && ip link set lo up && "
               "ip link add two type veth peer name another && "
               "for i in one other two another; do ip link set $i up; done") != 0) {
        puts("NOT TESTED: interfaces cannot be made here");
        return API_SKIPPED;
    }
    return API_RUN(tests);
}
