/* SPDX-License-Identifier: BSD-3-Clause */
/* test_multicast.c - tests multicast groups on kernel interfaces: which frames the kernel delivers,
 * and to which ports a bridge with snooping forwards. */
#define _GNU_SOURCE
#include "support/check.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include "engine/engine.h"
#include "support/patience.h"
#include "system/port_kit.h"

#define PATIENCE 20 /* time limit of a wait, seconds */

static int other; /* the other namespace */

static uro_time now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uro_time)at.tv_sec * 1000000000u + (uro_time)at.tv_nsec;
}

static struct uro_gid gid(const char *text)
{
    struct uro_gid g;
    assert_true(uro_gid_parse(text, &g));
    return g;
}

/* ---- frames to a group arrive ------------------------------------------- */

static const struct uro_mac group4 = { { 0x01, 0x00, 0x5e, 0x01, 0x02, 0x03 } };
static const struct uro_mac group6 = { { 0x33, 0x33, 0x00, 0x01, 0x00, 0x02 } };

/* Returns a socket that sends frames from @interface of @netns. */
static int sender(int netns, const char *interface)
{
    struct sockaddr_ll to = { .sll_family = AF_PACKET };
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    assert_int_equal(setns(netns, CLONE_NEWNET), 0);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    to.sll_ifindex = (int)if_nametoindex(interface);
    assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(setns(here, CLONE_NEWNET), 0);
    close(here);
    return fd;
}

static bool arrives(struct uro_port *port, int from, const struct uro_mac *to)
{
    uint8_t frame[60] = { [6] = 2, [12] = 0x88, [13] = 0xb5 };
    const uro_time until = now() + URO_MS(1000) * patience(PATIENCE);
    struct uro_pkt pkt;
    bool found = false;

    memcpy(frame, to, sizeof *to);
    do {
        assert_int_equal(send(from, frame, sizeof frame, 0), sizeof frame);
        while (uro_port_receive(port, &pkt, 1) == 1) {
            found |= pkt.length == sizeof frame && memcmp(pkt.octets, frame, sizeof frame) == 0;
            uro_port_release(port, &pkt, 1);
        }
        sched_yield();
    } while (!found && now() < until);
    return found;
}

static void hear_groups(const char *link, int netns, const char *interface)
{
    const struct uro_mac groups[] = { group4, group6 };
    struct uro_port *port = kit_open(link, 0);

    uro_port_multicast(port, groups, 2);
    int from = sender(netns, interface);
    assert_true(kit_wait_link(port, true, PATIENCE));
    assert_true(arrives(port, from, &group4));
    assert_true(arrives(port, from, &group6));
    close(from);
    uro_port_close(port);
}

/* A macvlan delivers only frames of groups that a process joined. A veth delivers all groups. */
static void af_packet__filtering_interface__accepts_joined_groups(void **state)
{
    (void)state;
    kit_run(-1, "ip link add mv link va address 02:00:00:00:00:0a type macvlan mode bridge");
    kit_run(-1, "ip link set mv up");
    hear_groups("net_af_packet0,iface=mv", other, "vb");
    kit_run(-1, "ip link del mv");
}

static void tap__groups_joined__packets_are_accepted(void **state)
{
    (void)state;
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    if (access("/dev/net/tun", R_OK | W_OK) == 0)
        hear_groups("net_tap0,iface=tap7", here, "tap7");
    close(here);
}

/* ---- a bridge that snoops ----------------------------------------------- */

struct station {
    struct uro_port *port;
    struct uro_engine *engine;
    void *memory;
    struct uro_tx tx[URO_PORT_BURST];
};

static struct station *open_station(void)
{
    struct station *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->port = kit_open("net_af_packet0,iface=va", 1500);
    struct uro_engine_config config = { .mac = s->port->mac, .mtu = 1500, .address_count = 2 };
    config.addresses[0] = (struct uro_engine_address){ uro_gid_link_local(&s->port->mac), 64 };
    config.addresses[1] = (struct uro_engine_address){ gid("10.0.0.1"), 24 };
    s->memory = aligned_alloc(64, (uro_engine_size(&config) + 63) & ~(size_t)63);
    assert_non_null(s->memory);
    assert_int_equal(uro_engine_init(s->memory, &config, now(), &s->engine), 0);
    return s;
}

static void close_station(struct station *s)
{
    uro_port_close(s->port);
    free(s->memory);
    free(s);
}

static void turn(struct station *s)
{
    struct uro_pkt pkts[URO_PORT_BURST];

    uint32_t count = uro_port_receive(s->port, pkts, URO_PORT_BURST);
    if (count > 0) {
        uro_engine_input(s->engine, pkts, count, now());
        uro_port_release(s->port, pkts, count);
    }
    const uint32_t free_slots = uro_port_tx_free_count(s->port);
    count = free_slots > 0 ? uro_engine_output(s->engine, s->tx, free_slots, now()) : 0;
    if (count > 0)
        uro_port_transmit(s->port, s->tx, count);
    sched_yield();
}

static uint64_t counted(const struct station *s, enum uro_counter counter)
{
    return uro_engine_counters(s->engine)->value[counter];
}

/* Waits until the bridge does (@forwards) or does not list @group at its port to this side. Returns
 * false after the time limit. */
static bool bridge_forwards(struct station *s, const char *group, bool forwards)
{
    const uro_time until = now() + URO_MS(1000) * patience(PATIENCE);
    char command[256];

    do {
        turn(s);
        snprintf(command, sizeof command, "%sbridge mdb show dev br0 | grep -q 'port vb grp %s '",
                 forwards ? "" : "! ", group);
        if (kit_try(other, command))
            return true;
    } while (now() < until);
    return false;
}

static void silence(struct station *s)
{
    while (uro_engine_next(s->engine) != URO_TIME_NEVER)
        turn(s);
}

static void bridge(const char *versions)
{
    kit_run(other,
            "ip link del br0 2>/dev/null; ip link add br0 type bridge mcast_snooping 1 "
            "mcast_query_response_interval 10 mcast_last_member_interval 10 %s",
            versions);
    kit_run(other, "ip link set vb master br0; ip link set br0 up; "
                   "ip addr add 10.0.0.9/24 dev br0; ip addr add fe80::9/64 dev br0 nodad");
}

/* Returns a socket that sends to groups from the host of the bridge. */
static int group_sender(void)
{
    const struct in_addr from = { htonl(0x0a000009) };
    const int yes = 1; /* no UDP checksum, because the kernel would leave it to missing hardware */
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    assert_int_equal(setns(other, CLONE_NEWNET), 0);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof from), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &yes, sizeof yes), 0);
    assert_int_equal(setns(here, CLONE_NEWNET), 0);
    close(here);
    return fd;
}

static void send_to(int from, const char *group)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(4791) };

    inet_pton(AF_INET, group, &to.sin_addr);
    assert_int_equal(sendto(from, "RoCE", 4, 0, (struct sockaddr *)&to, sizeof to), 4);
}

/* A bridge needs some time before it considers its member list complete. */
static void bridge__packets_to_groups__arrive_for_joined_groups(void **state)
{
    const struct uro_gid group = gid("239.1.2.3");
    const uro_time until = now() + URO_MS(1000) * patience(PATIENCE);
    uint64_t others;

    (void)state;
    bridge("");
    kit_run(other, "ip link set br0 type bridge mcast_querier 1");
    struct station *s = open_station();
    assert_int_equal(uro_engine_join(s->engine, &group, now()), 0);
    assert_true(bridge_forwards(s, "239.1.2.3", true));
    int from = group_sender();
    do {
        const uint64_t ours = counted(s, URO_COUNT_DROP_LENGTH); /* too short for the engine */
        others = counted(s, URO_COUNT_DROP_IP_DEST);
        send_to(from, "239.7.7.7");
        send_to(from, "239.1.2.3");
        while (counted(s, URO_COUNT_DROP_LENGTH) == ours && now() < until)
            turn(s);
        assert_int_equal(counted(s, URO_COUNT_DROP_LENGTH), ours + 1);
    } while (counted(s, URO_COUNT_DROP_IP_DEST) != others && now() < until);
    assert_int_equal(counted(s, URO_COUNT_DROP_IP_DEST), others);
    close(from);
    close_station(s);
}

static void bridge__groups_joined_and_left__bridge_tracks_both(void **state)
{
    const struct uro_gid four = gid("239.1.2.3"), six = gid("ff0e::1:2");

    (void)state;
    bridge("mcast_igmp_version 3 mcast_mld_version 2");
    struct station *s = open_station();
    assert_true(bridge_forwards(s, "239.1.2.3", false));
    uro_engine_link(s->engine, true, now());
    assert_int_equal(uro_engine_join(s->engine, &four, now()), 0);
    assert_int_equal(uro_engine_join(s->engine, &six, now()), 0);
    assert_true(bridge_forwards(s, "239.1.2.3", true));
    assert_true(bridge_forwards(s, "ff0e::1:2", true));
    silence(s);
    kit_run(other, "ip link set br0 type bridge mcast_querier 1"); /* sends the queries */
    uro_engine_leave(s->engine, &four, now());
    uro_engine_leave(s->engine, &six, now());
    assert_true(bridge_forwards(s, "239.1.2.3", false));
    assert_true(bridge_forwards(s, "ff0e::1:2", false));
    close_station(s);
}

static void bridge__queries_of_any_version__report_of_uroce_is_accepted(void **state)
{
    static const char *const versions[] = { "mcast_igmp_version 3 mcast_mld_version 2",
                                            "mcast_igmp_version 2 mcast_mld_version 1" };
    const struct uro_gid four = gid("239.1.2.3"), six = gid("ff0e::1:2");

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(versions); i++) {
        bridge(versions[i]);
        struct station *s = open_station();
        assert_int_equal(uro_engine_join(s->engine, &four, now()), 0);
        assert_int_equal(uro_engine_join(s->engine, &six, now()), 0);
        silence(s);
        /* Without snooping, the bridge forgets its members. */
        kit_run(other, "ip link set br0 type bridge mcast_snooping 0");
        kit_run(other, "ip link set br0 type bridge mcast_snooping 1");
        assert_true(bridge_forwards(s, "239.1.2.3", false));
        assert_int_equal(counted(s, URO_COUNT_MEMBERSHIP_RX), 0);
        kit_run(other, "ip link set br0 type bridge mcast_querier 1");
        assert_true(bridge_forwards(s, "239.1.2.3", true));
        assert_true(bridge_forwards(s, "ff0e::1:2", true));
        assert_true(counted(s, URO_COUNT_MEMBERSHIP_RX) >= 2);
        assert_int_equal(counted(s, URO_COUNT_DROP_MEMBERSHIP), 0);
        close_station(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(af_packet__filtering_interface__accepts_joined_groups),
        cmocka_unit_test(tap__groups_joined__packets_are_accepted),
        cmocka_unit_test(bridge__groups_joined_and_left__bridge_tracks_both),
        cmocka_unit_test(bridge__packets_to_groups__arrive_for_joined_groups),
        cmocka_unit_test(bridge__queries_of_any_version__report_of_uroce_is_accepted),
    };

    other = kit_veth(1500);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
