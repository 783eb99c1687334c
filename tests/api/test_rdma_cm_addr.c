/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_addr.c - tests which local address rdma_cm chooses for a destination. There are two
 * devices. The neighbour on each link is the kernel. The test has its own network namespace with
 * these interfaces and addresses:
 *
 *     uroce0, one   10.1.0.1/16 10.1.0.2/16 fd01::1/64   <->   other    10.1.0.9  fd01::9  fe80::9
 *     uroce1, two   10.1.7.1/24, gateway 10.1.7.9        <->   another  10.1.7.9           fe80::9
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

#define WAIT_MS  60000 /* a guard against hanging */
#define SHORT_MS 50

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static struct rdma_event_channel *channel;

/* Parses an address. "" is no address; "fe80::9%one" has a scope. */
static union address address_of(const char *text)
{
    const char *scope = strchr(text, '%');
    union address address;
    char plain[INET6_ADDRSTRLEN];

    memset(&address, 0, sizeof address);
    (void)snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, "%"), text);
    if (strchr(text, ':') != NULL) {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_scope_id = scope != NULL ? if_nametoindex(scope + 1) : 0;
        assert_int_equal(inet_pton(AF_INET6, plain, &address.v6.sin6_addr), 1);
    } else if (text[0] != '\0') {
        address.v4.sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, plain, &address.v4.sin_addr), 1);
    }
    return address;
}

static const char *text_of(struct sockaddr *sock)
{
    static char text[INET6_ADDRSTRLEN];
    union address *address = (union address *)sock;

    if (sock->sa_family == AF_INET)
        return inet_ntop(AF_INET, &address->v4.sin_addr, text, sizeof text);
    return inet_ntop(AF_INET6, &address->v6.sin6_addr, text, sizeof text);
}

static struct rdma_cm_id *create(enum rdma_port_space space)
{
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
    return id;
}

static int bind_to(struct rdma_cm_id *id, const char *text)
{
    union address address = address_of(text);

    return rdma_bind_addr(id, &address.any);
}

/* Starts an address resolution. Returns 0 or the errno; the result follows as an event. */
static int resolve(struct rdma_cm_id *id, const char *from, const char *to, int timeout)
{
    union address source = address_of(from), dest = address_of(to);
    int result = rdma_resolve_addr(id, from[0] != '\0' ? &source.any : NULL, &dest.any, timeout);

    return result == 0 ? 0 : errno;
}

static int status_of(enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    int status = event->status;
    rdma_ack_cm_event(event);
    return status;
}

static void is_at(struct rdma_cm_id *id, const char *device, const char *address)
{
    assert_non_null(id->verbs);
    assert_string_equal(ibv_get_device_name(id->verbs->device), device);
    assert_string_equal(text_of(rdma_get_local_addr(id)), address);
}

/* Resolves @to with a new identifier, which is bound to @own unless @own is empty. Checks the
 * device and the source address of the result. */
static void leads(const char *own, const char *from, const char *to, const char *device,
                  const char *source)
{
    struct rdma_cm_id *id = create(RDMA_PS_TCP);

    if (own[0] != '\0')
        assert_int_equal(bind_to(id, own), 0);
    assert_int_equal(resolve(id, from, to, WAIT_MS), 0);
    assert_int_equal(status_of(RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    is_at(id, device, source);
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void source__of_a_destination__is_in_the_smallest_subnet_or_has_a_gateway(void **state)
{
    (void)state;
    leads("", "", "10.1.0.9", "uroce0", "10.1.0.1");
    leads("", "", "10.1.7.9", "uroce1", "10.1.7.1");
    leads("", "", "192.168.1.1", "uroce1", "10.1.7.1");
    leads("", "", "fd01::9", "uroce0", "fd01::1");
    leads("", "10.1.0.2", "10.1.0.9", "uroce0", "10.1.0.2");
    leads("10.1.0.2", "", "10.1.0.9", "uroce0", "10.1.0.2");
    leads("0.0.0.0", "", "10.1.7.9", "uroce1", "10.1.7.1");
}

static void resolve_addr__own_or_loopback_address__source_is_an_address_of_a_device(void **state)
{
    (void)state;
    leads("", "", "10.1.7.1", "uroce1", "10.1.7.1");
    leads("", "", "127.0.0.1", "uroce0", "10.1.0.1");
    leads("", "127.0.0.1", "127.0.0.1", "uroce0", "10.1.0.1");
    leads("127.0.0.1", "", "127.0.0.1", "uroce0", "10.1.0.1");
    leads("", "", "0.0.0.0", "uroce0", "10.1.0.1");
    leads("", "", "::1", "uroce0", "fe80::aaff:fe00:1");
}

static void resolve_addr__link_local__uses_the_interface_of_the_scope(void **state)
{
    struct rdma_cm_id *id = create(RDMA_PS_TCP);

    (void)state;
    leads("", "", "fe80::9%one", "uroce0", "fe80::aaff:fe00:1");
    leads("", "", "fe80::9%two", "uroce1", "fe80::aaff:fe00:2");
    errno = 0;
    assert_int_equal(bind_to(id, "fe80::aaff:fe00:1%two"), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_int_equal(bind_to(id, "fe80::aaff:fe00:1%one"), 0);
    is_at(id, "uroce0", "fe80::aaff:fe00:1");
    assert_int_equal(rdma_destroy_id(id), 0);
    leads("fe80::aaff:fe00:2", "", "fe80::9", "uroce1", "fe80::aaff:fe00:2");
}

static void unreachable__no_route_fails_at_once__no_answer_times_out(void **state)
{
    struct rdma_cm_id *id = create(RDMA_PS_TCP);

    (void)state;
    assert_int_equal(resolve(id, "", "2001:db8::1", WAIT_MS), ENETUNREACH);
    assert_int_equal(rdma_destroy_id(id), 0);
    id = create(RDMA_PS_TCP);
    assert_int_equal(resolve(id, "10.1.0.2", "fd01::9", WAIT_MS), EINVAL);
    assert_int_equal(resolve(id, "", "10.1.0.77", SHORT_MS), 0);
    assert_int_equal(status_of(RDMA_CM_EVENT_ADDR_ERROR), -ETIMEDOUT);
    assert_int_equal(resolve(id, "", "10.1.0.9", WAIT_MS),
                     0); /* the identifier can be resolved again */
    assert_int_equal(status_of(RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    id = create(RDMA_PS_TCP);
    assert_int_equal(resolve(id, "10.9.9.9", "10.1.0.9", WAIT_MS), EADDRNOTAVAIL);
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void resolve_addr__group__source_is_reachable_for_other_hosts(void **state)
{
    (void)state;
    leads("", "", "239.1.2.3", "uroce0", "10.1.0.1");
    leads("", "", "ff0e::1:2", "uroce0", "fd01::1");
    leads("", "", "ff02::1:2", "uroce0", "fe80::aaff:fe00:1");
}

static void getaddrinfo__result__creates_an_endpoint(void **state)
{
    struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *found;
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
    };
    struct rdma_cm_id *id;
    char port[] = "7471", node[] = "10.1.7.9";

    (void)state;
    assert_int_equal(rdma_getaddrinfo(NULL, port, &hints, &found), 0);
    assert_int_equal(rdma_create_ep(&id, found, NULL, &attr), 0);
    assert_int_equal(rdma_listen(id, 1), 0);
    assert_int_equal(ntohs(rdma_get_src_port(id)), 7471);
    rdma_destroy_ep(id);
    rdma_freeaddrinfo(found);
    hints.ai_flags = 0;
    assert_int_equal(rdma_getaddrinfo(node, port, &hints, &found), 0);
    assert_int_equal(rdma_create_ep(&id, found, NULL, &attr), 0);
    is_at(id, "uroce1", "10.1.7.1");
    assert_int_equal(ntohs(rdma_get_dst_port(id)), 7471);
    rdma_destroy_ep(id);
    rdma_freeaddrinfo(found);
}

static int open_channel(void **state)
{
    (void)state;
    channel = rdma_create_event_channel();
    return channel == NULL;
}

static int close_channel(void **state)
{
    (void)state;
    rdma_destroy_event_channel(channel);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)
    const struct CMUnitTest tests[] = {
        TEST(source__of_a_destination__is_in_the_smallest_subnet_or_has_a_gateway),
        TEST(resolve_addr__own_or_loopback_address__source_is_an_address_of_a_device),
        TEST(resolve_addr__link_local__uses_the_interface_of_the_scope),
        TEST(unreachable__no_route_fails_at_once__no_answer_times_out),
        TEST(resolve_addr__group__source_is_reachable_for_other_hosts),
        TEST(getaddrinfo__result__creates_an_endpoint),
    };

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        puts("NOT TESTED: a network namespace of our own needs root");
        return API_SKIPPED;
    }
    if (system("ip link add one type veth peer name other && "
               "ip link add two type veth peer name another && "
               "ip addr add 10.1.0.9/16 dev other && ip addr add 10.1.7.9/24 dev another && "
               "ip addr add fd01::9/64 dev other nodad && "
               "ip addr add fe80::9/64 dev other nodad && "
               "ip addr add fe80::9/64 dev another nodad && "
               "for i in one other two another; do ip link set $i up; done") != 0) {
        puts("NOT TESTED: interfaces cannot be made here");
        return API_SKIPPED;
    }
    return API_RUN(tests);
}
