/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_ports.c - addresses and ports of rdma_cm: which identifiers may share a port, which
 * ports are chosen, and which listener gets a request.
 */
#include "api/api.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define WAIT_MS   60000 /* a guard against hanging */
#define PORT      4100
#define FIRST     32768 /* first port that Linux chooses */
#define LAST      60999
#define EPHEMERAL 200

struct stage {
    struct rdma_event_channel *channel;
};

static int open_stage(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);

    assert_non_null(stage);
    stage->channel = rdma_create_event_channel();
    assert_non_null(stage->channel);
    *state = stage;
    return 0;
}

static int close_stage(void **state)
{
    struct stage *stage = *state;

    rdma_destroy_event_channel(stage->channel);
    free(stage);
    return 0;
}

static struct rdma_cm_id *make(const struct stage *stage, enum rdma_port_space space)
{
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(stage->channel, &id, NULL, space), 0);
    return id;
}

static int bind_at(struct rdma_cm_id *id, const char *text, uint16_t port)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return rdma_bind_addr(id, (struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return rdma_bind_addr(id, (struct sockaddr *)&v6);
}

static void only_its_family(struct rdma_cm_id *id)
{
    int on = 1;

    assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on), 0);
}

static struct rdma_cm_event expect(const struct stage *stage, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event, copy;

    assert_int_equal(rdma_get_cm_event(stage->channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    copy = *event;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    return copy;
}

/* Connects to an address. Expects a request at @listener, or no request when @listener is NULL. */
static void ask(const struct stage *stage, enum rdma_port_space space, const char *text,
                uint16_t port, const struct rdma_cm_id *listener)
{
    struct rdma_cm_id *id = make(stage, space);
    struct rdma_conn_param param = { .retry_count = 1, .qp_num = 7 };
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    struct sockaddr *to = (struct sockaddr *)&v4;

    if (inet_pton(AF_INET, text, &v4.sin_addr) != 1) {
        assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
        to = (struct sockaddr *)&v6;
    }
    assert_int_equal(rdma_resolve_addr(id, NULL, to, WAIT_MS), 0);
    expect(stage, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect(stage, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(rdma_connect(id, &param), 0);
    if (listener == NULL) {
        expect(stage, space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? RDMA_CM_EVENT_UNREACHABLE
                                                                     : RDMA_CM_EVENT_REJECTED);
    } else {
        struct rdma_cm_event request = expect(stage, RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_ptr_equal(request.listen_id, listener);
        assert_int_equal(rdma_get_dst_port(id), htons(port));
        assert_int_equal(rdma_get_src_port(request.id), htons(port));
        assert_int_equal(rdma_get_dst_port(request.id), rdma_get_src_port(id));
        assert_int_equal(rdma_destroy_id(request.id), 0);
        expect(stage, space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ? RDMA_CM_EVENT_UNREACHABLE
                                                                     : RDMA_CM_EVENT_REJECTED);
    }
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void wildcard__of_a_family__accepts_it_and_ipv6_accepts_both_unless_v6only(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *four = make(stage, RDMA_PS_TCP), *both = make(stage, RDMA_PS_TCP);
    struct rdma_cm_id *six = make(stage, RDMA_PS_TCP);

    assert_int_equal(bind_at(four, "0.0.0.0", PORT), 0);
    assert_int_equal(rdma_listen(four, 4), 0);
    ask(stage, RDMA_PS_TCP, "10.0.0.1", PORT, four);
    ask(stage, RDMA_PS_TCP, "fd00::1", PORT, NULL);
    assert_int_equal(bind_at(both, "::", PORT + 1), 0);
    assert_int_equal(rdma_listen(both, 4), 0);
    ask(stage, RDMA_PS_TCP, "10.0.0.1", PORT + 1, both);
    ask(stage, RDMA_PS_TCP, "fd00::1", PORT + 1, both);
    only_its_family(six);
    assert_int_equal(bind_at(six, "::", PORT + 2), 0);
    assert_int_equal(rdma_listen(six, 4), 0);
    ask(stage, RDMA_PS_TCP, "10.0.0.1", PORT + 2, NULL);
    ask(stage, RDMA_PS_TCP, "fd00::1", PORT + 2, six);
    rdma_destroy_id(four);
    rdma_destroy_id(both);
    rdma_destroy_id(six);
}

/* Identifiers at the IPv4 and the IPv6 wildcard can use the same port only if the IPv6 identifier
 * accepts only IPv6. */
static void bind__ipv4_and_ipv6_only__share_a_port(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *four = make(stage, RDMA_PS_TCP), *six = make(stage, RDMA_PS_TCP);

    assert_int_equal(bind_at(four, "0.0.0.0", PORT), 0);
    errno = 0;
    assert_int_equal(bind_at(six, "::", PORT), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    only_its_family(six);
    assert_int_equal(bind_at(six, "::", PORT), 0);
    assert_int_equal(rdma_listen(four, 4), 0);
    assert_int_equal(rdma_listen(six, 4), 0);
    ask(stage, RDMA_PS_TCP, "10.0.0.1", PORT, four);
    ask(stage, RDMA_PS_TCP, "fd00::1", PORT, six);
    rdma_destroy_id(four);
    rdma_destroy_id(six);
}

static void ipv4__v6only_cleared__shares_no_port(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *four = make(stage, RDMA_PS_TCP), *six = make(stage, RDMA_PS_TCP);
    int off = 0;

    assert_int_equal(rdma_set_option(four, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &off, sizeof off),
                     0);
    assert_int_equal(bind_at(four, "0.0.0.0", PORT), 0);
    only_its_family(six);
    errno = 0;
    assert_int_equal(bind_at(six, "::", PORT), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    rdma_destroy_id(four);
    rdma_destroy_id(six);
}

/* Writes net.ipv6.bindv6only of this network namespace. Returns false without permission. */
static bool set_bindv6only(char to)
{
    int fd = open("/proc/sys/net/ipv6/bindv6only", O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, &to, 1) == 1;

    if (fd >= 0)
        close(fd);
    return written;
}

/* net.ipv6.bindv6only applies to rdma_cm as it does to sockets. */
static void ipv6__system_default_v6only__accepts_only_ipv6(void **state)
{
    struct stage *stage = *state;

    if (unshare(CLONE_NEWNET) != 0 || !set_bindv6only('1'))
        skip();
    struct rdma_cm_id *six = make(stage, RDMA_PS_TCP);
    assert_int_equal(bind_at(six, "::", PORT), 0);
    assert_int_equal(rdma_listen(six, 4), 0);
    ask(stage, RDMA_PS_TCP, "10.0.0.1", PORT, NULL);
    ask(stage, RDMA_PS_TCP, "fd00::1", PORT, six);
    rdma_destroy_id(six);
}

static void listen__at_one_address__accepts_only_this_address(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *four = make(stage, RDMA_PS_TCP), *six = make(stage, RDMA_PS_TCP);

    assert_int_equal(bind_at(four, "10.0.0.1", PORT), 0);
    assert_int_equal(rdma_listen(four, 4), 0);
    ask(stage, RDMA_PS_TCP, "fd00::1", PORT, NULL);
    assert_int_equal(bind_at(six, "fd00::1", PORT), 0);
    assert_int_equal(rdma_listen(six, 4), 0);
    ask(stage, RDMA_PS_TCP, "10.0.0.1", PORT, four);
    ask(stage, RDMA_PS_TCP, "fd00::1", PORT, six);
    rdma_destroy_id(four);
    rdma_destroy_id(six);
}

/* The same port number is a different service in each of the four port spaces. */
static void bind__same_port_in_two_port_spaces__succeeds(void **state)
{
    static const enum rdma_port_space spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB,
                                                   RDMA_PS_IPOIB };
    struct stage *stage = *state;
    struct rdma_cm_id *listeners[4];

    for (unsigned i = 0; i < 4; i++) {
        for (unsigned j = 0; j < 4; j++)
            if (spaces[j] != RDMA_PS_IB)
                ask(stage, spaces[j], "10.0.0.1", PORT, j < i ? listeners[j] : NULL);
        listeners[i] = make(stage, spaces[i]);
        assert_int_equal(bind_at(listeners[i], "10.0.0.1", PORT), 0);
        assert_int_equal(rdma_listen(listeners[i], 4), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        rdma_destroy_id(listeners[i]);
}

static void bind__port_0__each_id_gets_another_port(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *ids[EPHEMERAL];

    for (unsigned i = 0; i < EPHEMERAL; i++) {
        ids[i] = make(stage, RDMA_PS_TCP);
        assert_int_equal(bind_at(ids[i], "10.0.0.1", 0), 0);
        uint16_t port = ntohs(rdma_get_src_port(ids[i]));
        assert_in_range(port, FIRST, LAST);
        for (unsigned j = 0; j < i; j++)
            assert_int_not_equal(rdma_get_src_port(ids[j]), htons(port));
    }
    for (unsigned i = 0; i < EPHEMERAL; i++)
        rdma_destroy_id(ids[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_stage, close_stage)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wildcard__of_a_family__accepts_it_and_ipv6_accepts_both_unless_v6only),
        TEST(bind__ipv4_and_ipv6_only__share_a_port),
        TEST(listen__at_one_address__accepts_only_this_address),
        TEST(bind__same_port_in_two_port_spaces__succeeds),
        TEST(bind__port_0__each_id_gets_another_port),
        TEST(ipv4__v6only_cleared__shares_no_port),
        /* The last test, because it leaves the namespace. */
        TEST(ipv6__system_default_v6only__accepts_only_ipv6),
    };
    return API_RUN(tests);
}
