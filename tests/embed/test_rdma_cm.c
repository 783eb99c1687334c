/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm.c - tests adding and removing devices while the system's librdmacm is in use. */
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <uroce/uroce.h>

#define WAIT_MS 60000 /* a guard against hanging */

static void add(const char *device)
{
    char error[UROCE_ERROR_MAX] = "";

    assert_int_equal(uroce_device_add(device, error, sizeof error), 0);
}

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

static struct rdma_cm_id *bind_to(struct rdma_event_channel *channel, const char *text)
{
    struct sockaddr_in address = address_of(text, 7000);
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&address), 0);
    assert_non_null(id->verbs);
    return id;
}

static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    struct rdma_cm_id *id = event->id;
    rdma_ack_cm_event(event);
    return id;
}

static void channel__before_a_device_was_added__enodev(void **state)
{
    (void)state;
    assert_null(rdma_create_event_channel());
    assert_int_equal(errno, ENODEV);
}

static void remove__bound_identifiers__get_device_removal(void **state)
{
    (void)state;
    add("one:cable,name=c0;ip=10.0.0.1/24");
    add("two:cable,name=c0;ip=10.0.0.2/24");
    struct rdma_event_channel *channel = rdma_create_event_channel();
    assert_non_null(channel);
    struct rdma_cm_id *bound = bind_to(channel, "10.0.0.1"),
                      *listener = bind_to(channel, "10.0.0.2");
    assert_string_equal(ibv_get_device_name(bound->verbs->device), "one");
    assert_int_equal(rdma_listen(listener, 1), 0);

    assert_int_equal(uroce_device_remove("one"),
                     0); /* succeeds, because the device was not started */
    assert_ptr_equal(expect(channel, RDMA_CM_EVENT_DEVICE_REMOVAL), bound);
    assert_int_equal(uroce_device_remove("two"), 0);
    assert_ptr_equal(expect(channel, RDMA_CM_EVENT_DEVICE_REMOVAL), listener);
    assert_int_equal(rdma_destroy_id(bound), 0);
    assert_int_equal(rdma_destroy_id(listener), 0);
    rdma_destroy_event_channel(channel);
}

/* The new devices have the addresses of removed devices. */
static void add__after_others_were_removed__librdmacm_uses_the_new_devices(void **state)
{
    struct sockaddr_in from = address_of("10.0.0.1", 0), to = address_of("10.0.0.2", 7000);
    struct rdma_cm_id *client;

    (void)state;
    add("one:cable,name=c0;ip=10.0.0.1/24");
    add("two:cable,name=c0;ip=10.0.0.2/24");
    struct rdma_event_channel *channel = rdma_create_event_channel();
    assert_non_null(channel);
    struct rdma_cm_id *listener = bind_to(channel, "10.0.0.2");
    assert_int_equal(rdma_listen(listener, 1), 0);
    assert_int_equal(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(
        rdma_resolve_addr(client, (struct sockaddr *)&from, (struct sockaddr *)&to, WAIT_MS), 0);
    assert_ptr_equal(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED), client);
    assert_string_equal(ibv_get_device_name(client->verbs->device), "one");
    assert_string_equal(ibv_get_device_name(listener->verbs->device), "two");
    assert_int_equal(rdma_destroy_id(client), 0);
    assert_int_equal(rdma_destroy_id(listener), 0);
    rdma_destroy_event_channel(channel);
    assert_int_equal(uroce_device_remove("one"), 0);
    assert_int_equal(uroce_device_remove("two"), 0);
}

static atomic_bool stop;

/* Reads all devices, like a program that uses other devices than the added and removed devices. */
static void *look_at_devices(void *unused)
{
    struct sockaddr_in address = address_of("10.0.0.9", 0);
    struct rdma_event_channel *channel = rdma_create_event_channel();

    (void)unused;
    while (channel != NULL && !atomic_load(&stop)) {
        int count = 0;
        struct ibv_device **list = ibv_get_device_list(&count);
        for (int i = 0; list != NULL && i < count; i++)
            (void)ibv_get_device_guid(list[i]);
        ibv_free_device_list(list);
        struct rdma_cm_id *id;
        if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0 ||
            rdma_bind_addr(id, (struct sockaddr *)&address) != 0 || rdma_destroy_id(id) != 0)
            return NULL;
    }
    rdma_destroy_event_channel(channel);
    return channel != NULL ? &stop : NULL;
}

static void devices__added_and_removed_while_a_thread_lists__lists_are_consistent(void **state)
{
    pthread_t thread;
    void *result;

    (void)state;
    add("stays:cable,name=c1;ip=10.0.0.9/24");
    assert_int_equal(pthread_create(&thread, NULL, look_at_devices, NULL), 0);
    for (int i = 0; i < 200; i++) {
        add("one:cable,name=c0;ip=10.0.0.1/24");
        add("two:cable,name=c0;ip=10.0.0.2/24");
        assert_int_equal(uroce_device_remove("one"), 0);
        assert_int_equal(uroce_device_remove("two"), 0);
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    assert_int_equal(uroce_device_remove("stays"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channel__before_a_device_was_added__enodev),
        cmocka_unit_test(remove__bound_identifiers__get_device_removal),
        cmocka_unit_test(add__after_others_were_removed__librdmacm_uses_the_new_devices),
        cmocka_unit_test(add__after_others_were_removed__librdmacm_uses_the_new_devices),
        cmocka_unit_test(devices__added_and_removed_while_a_thread_lists__lists_are_consistent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
