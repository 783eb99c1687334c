/* SPDX-License-Identifier: BSD-3-Clause */
/* test_broker.c - tests which process gets a datagram from the broker, and how often the broker
 * sends DREQs to the peers of a process that has ended. */
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/udp/broker.h"
#include "wire/ext.h"

#define MAD_AT (URO_BTH_LEN + URO_DETH_LEN)
#define PEER   "127.77.1.2"

static struct uro_broker broker;
static struct uro_listened services[] = { { .id = 0x1234 } };
static uint8_t datagram[MAD_AT + URO_MAD_LEN + URO_ICRC_LEN];
static int64_t now;

static int64_t clock_s(void)
{
    return now;
}

/* Sets up members 2 and 5; member 5 listens for a service. */
static int set_up(void **state)
{
    (void)state;
    memset(&broker, 0, sizeof broker);
    for (uint32_t share = 0; share < URO_QPN_PREFIXES; share++) {
        broker.socks[share] = -1;
        broker.members[share].fd = share == 2 || share == 5 ? 100 : -1;
    }
    broker.members[5].services = services;
    broker.members[5].service_count = URO_ARRAY_LEN(services);
    broker.clock_s = clock_s;
    broker.disconnect = uro_broker_disconnect_open();
    return broker.disconnect != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    uro_broker_disconnect_close(broker.disconnect);
    return 0;
}

static uint32_t route_to(uint32_t qpn)
{
    struct uro_cm_msg msg;

    memset(datagram, 0, sizeof datagram);
    uro_bth_encode(datagram, &(struct uro_bth){ .dest_qpn = qpn });
    return uro_broker_route(&broker, datagram, sizeof datagram, &msg);
}

static uint32_t route(const struct uro_cm_msg *message)
{
    struct uro_cm_msg msg;

    memset(datagram, 0, sizeof datagram);
    uro_bth_encode(datagram, &(struct uro_bth){ .dest_qpn = URO_CM_MAD_QPN });
    uro_cm_encode(datagram + MAD_AT, message);
    const uint32_t share = uro_broker_route(&broker, datagram, sizeof datagram, &msg);
    assert_int_equal(msg.kind, message->kind);
    return share;
}

static uint32_t id_of(uint32_t share)
{
    return share << (32 - URO_QPN_PREFIX_BITS) | 7;
}

static void route__qpn__upper_bits_select_the_member(void **state)
{
    (void)state;
    assert_int_equal(route_to(5u << (24 - URO_QPN_PREFIX_BITS) | 17), 5);
    assert_int_equal(route_to(4u << (24 - URO_QPN_PREFIX_BITS) | 17), 0); /* no member */
    assert_int_equal(route_to(17), 0);                                    /* not queue pair 1 */
}

static void route__request__goes_to_the_listener_or_to_the_first_member(void **state)
{
    struct uro_cm_msg req = { .kind = URO_CM_REQ, .value = { [URO_CM_SERVICE_ID] = 0x1234 } };

    (void)state;
    assert_int_equal(route(&req), 5);
    req.value[URO_CM_SERVICE_ID] = 0x1235;
    assert_int_equal(route(&req), 2);
}

static void route__answer__goes_to_the_owner_of_the_communication_id(void **state)
{
    struct uro_cm_msg rep = { .kind = URO_CM_REP, .value = { [URO_CM_REMOTE_ID] = id_of(5) } };

    (void)state;
    assert_int_equal(route(&rep), 5);
    rep.value[URO_CM_REMOTE_ID] = id_of(9);
    assert_int_equal(route(&rep), 2);
}

static void route__short_or_unreadable__dropped_or_to_the_first_member(void **state)
{
    struct uro_cm_msg msg;

    (void)state;
    assert_int_equal(route_to(URO_CM_MAD_QPN),
                     2); /* the datagram is not a message of connection management */
    assert_int_equal(uro_broker_route(&broker, datagram, URO_BTH_LEN - 1, &msg), 0);
    assert_int_equal(uro_broker_route(&broker, datagram, MAD_AT + URO_MAD_LEN - 1, &msg), 0);
    assert_int_equal(msg.kind, URO_CM_KIND_COUNT);
}

static void note(enum uro_cm_kind kind, uint32_t share)
{
    struct uro_gid peer;
    const struct uro_cm_msg msg = { .kind = kind,
                                    .value = { [URO_CM_LOCAL_ID] = 70,
                                               [URO_CM_REMOTE_ID] = id_of(share),
                                               [URO_CM_LOCAL_QPN] = 99 } };

    assert_true(uro_gid_parse(PEER, &peer));
    uro_broker_disconnect_note(broker.disconnect, share, &peer, &msg);
}

static void disconnect__silent_peer__gets_three_dreqs(void **state)
{
    (void)state;
    note(URO_CM_REP, 5);
    assert_int_equal(uro_broker_disconnect_wait_ms(&broker), -1);
    uro_broker_disconnect_begin(&broker, 2); /* a connection of another member */
    assert_int_equal(uro_broker_disconnect_wait_ms(&broker), -1);
    uro_broker_disconnect_begin(&broker, 5);
    for (unsigned times = 1; times <= 3; times++) {
        assert_int_equal(uro_broker_disconnect_wait_ms(&broker), 1000);
        now++;
        uro_broker_disconnect_repeat(&broker);
    }
    assert_int_equal(uro_broker_disconnect_wait_ms(&broker), -1);
}

static void disconnect__peer_answers__no_more_dreqs(void **state)
{
    (void)state;
    note(URO_CM_REP, 5);
    uro_broker_disconnect_begin(&broker, 5);
    note(URO_CM_DREP, 5);
    assert_int_equal(uro_broker_disconnect_wait_ms(&broker), -1);
}

static void disconnect__connection_that_ended__is_forgotten(void **state)
{
    (void)state;
    note(URO_CM_REQ, 0);
    note(URO_CM_RTU, 5);
    note(URO_CM_DREQ, 5);
    uro_broker_disconnect_begin(&broker, 5);
    assert_int_equal(uro_broker_disconnect_wait_ms(&broker), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- sockets that an earlier broker has left ------------------------------------ */

/* Members of a killed broker keep their sockets until they notice that it has gone. */
static int left = -1;

int __real_bind(int fd, const struct sockaddr *name, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t length);

/* The member notices while the next broker looks for old sockets. */
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t length)
{
    const int result = __real_bind(fd, name, length);
    const int reason = errno;

    if (result != 0 && reason == EADDRINUSE && left >= 0) {
        (void)close(left);
        left = -1;
    }
    errno = reason;
    return result;
}

/* Sends a packet to a queue pair with each prefix. Returns how many did not reach their socket. */
static unsigned astray(const struct uro_broker *opened, const struct uro_gid *address)
{
    const union uro_sock_address to = uro_sock_address_of(address, URO_ROCE_PORT);
    const int from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unsigned count = 0;
    uint8_t octet;

    assert_true(from >= 0);
    for (uint32_t prefix = 1; prefix <= URO_BROKER_MEMBERS; prefix++) {
        memset(datagram, 0, sizeof datagram);
        uro_bth_encode(datagram,
                       &(struct uro_bth){ .dest_qpn = prefix << (24 - URO_QPN_PREFIX_BITS) | 17 });
        assert_int_equal(
            sendto(from, datagram, sizeof datagram, 0, &to.any, uro_sock_address_length(&to)),
            sizeof datagram);
        count +=
            recv(opened->socks[prefix], &octet, 1, MSG_DONTWAIT | MSG_TRUNC) != sizeof datagram;
    }
    (void)close(from);
    return count;
}

static void open__sockets_of_an_earlier_broker_are_left__packets_reach_their_sockets(void **state)
{
    static struct uro_broker opened;
    char directory[] = "/tmp/uroce-broker-XXXXXX", error[URO_PORT_ERROR_MAX] = "";
    struct uro_gid address;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", directory, 1), 0);
    assert_true(uro_gid_parse("127.77.1.3", &address));
    left = uro_sock_bind(&address, true, error);
    assert_true(left >= 0);
    const int result = uro_broker_open(&opened, &address, clock_s, error);
    if (result != 1 && strstr(error, "refuses the filter") != NULL) { /* qemu-user */
        print_message("skipped: %s\n", error);
        skip();
    }
    if (result != 1)
        fail_msg("%s", error);
    if (left >= 0)
        (void)close(left);
    left = -1;
    assert_int_equal(astray(&opened, &address), 0);
    uro_broker_close(&opened);
    (void)snprintf(error, sizeof error, "%s/uroce", directory);
    (void)rmdir(error);
    (void)rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__sockets_of_an_earlier_broker_are_left__packets_reach_their_sockets),
        TEST(route__qpn__upper_bits_select_the_member),
        TEST(route__request__goes_to_the_listener_or_to_the_first_member),
        TEST(route__answer__goes_to_the_owner_of_the_communication_id),
        TEST(route__short_or_unreadable__dropped_or_to_the_first_member),
        TEST(disconnect__silent_peer__gets_three_dreqs),
        TEST(disconnect__peer_answers__no_more_dreqs),
        TEST(disconnect__connection_that_ended__is_forgotten),
    };

    return cmocka_run_group_tests_name("io/broker", tests, NULL, NULL);
}
