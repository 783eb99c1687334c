/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests devices with one MAC address, as on the VLANs of an interface. librdmacm finds the
 * device of an identifier by its GUID. */
#include "api/api.h"

#include <arpa/inet.h>

#include <rdma/rdma_cma.h>

static void identifier__devices_with_one_mac__has_the_right_device(void **state)
{
    static const struct {
        const char *address, *device;
    } wanted[] = { { "10.0.0.1", "first" }, { "10.1.0.1", "second" }, { "10.2.0.1", "third" } };
    struct rdma_event_channel *channel = rdma_create_event_channel();

    (void)state;
    assert_non_null(channel);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct sockaddr_in at = { .sin_family = AF_INET };
        struct rdma_cm_id *id;
        assert_int_equal(inet_pton(AF_INET, wanted[i].address, &at.sin_addr), 1);
        assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
        assert_non_null(id->verbs);
        assert_string_equal(ibv_get_device_name(id->verbs->device), wanted[i].device);
        assert_int_equal(rdma_destroy_id(id), 0);
    }
    rdma_destroy_event_channel(channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identifier__devices_with_one_mac__has_the_right_device),
    };

    return API_RUN(tests);
}
