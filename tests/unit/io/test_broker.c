/* SPDX-License-Identifier: BSD-3-Clause */
/* test_broker.c - which member gets a datagram, and how often the peers of an ended member get a
 * REJ. */
#include "support/check.h"

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

static void route__queue_pair_number__its_upper_bits_name_the_member(void **state)
{
    (void)state;
    assert_int_equal(route_to(5u << (24 - URO_QPN_PREFIX_BITS) | 17), 5);
    assert_int_equal(route_to(4u << (24 - URO_QPN_PREFIX_BITS) | 17), 0); /* no member */
    assert_int_equal(route_to(17), 0);                                    /* nor queue pair 1 */
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
    assert_int_equal(route_to(URO_CM_MAD_QPN), 2); /* no message of connection management */
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
    uro_broker_disconnect_begin(&broker, 2); /* another one's */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(route__queue_pair_number__its_upper_bits_name_the_member),
        TEST(route__request__goes_to_the_listener_or_to_the_first_member),
        TEST(route__answer__goes_to_the_owner_of_the_communication_id),
        TEST(route__short_or_unreadable__dropped_or_to_the_first_member),
        TEST(disconnect__silent_peer__gets_three_dreqs),
        TEST(disconnect__peer_answers__no_more_dreqs),
        TEST(disconnect__connection_that_ended__is_forgotten),
    };

    return cmocka_run_group_tests_name("io/broker", tests, NULL, NULL);
}
