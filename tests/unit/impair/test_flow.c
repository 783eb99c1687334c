/* SPDX-License-Identifier: BSD-3-Clause */
/* test_flow.c - tests which packets are of the same flow, and the numbers of flows. */
#include "support/check.h"

#include <string.h>

#include "impair/flow.h"
#include "wire/bth.h"
#include "wire/ether.h"
#include "wire/ip.h"

static struct uro_impair_flows flows;
static struct uro_impair_plan plan;

static int start(void **state)
{
    (void)state;
    memset(&flows, 0, sizeof flows);
    uro_impair_plan_init(&plan);
    return 0;
}

/* Reads the headers of a packet over IPv4, or with @v6 over IPv6. */
static struct uro_impair_packet packet_of(uint8_t opcode, uint32_t qpn, bool v6, unsigned vlan)
{
    uint8_t head[128] = { 0 };
    struct uro_impair_packet packet;
    uint32_t at = 12;
    struct uro_ip ip = { .v6 = v6, .protocol = URO_IPPROTO_UDP, .payload_length = 64 };
    const struct uro_udp udp = { .dest_port = URO_ROCE_PORT };
    const struct uro_bth bth = { .opcode = opcode, .dest_qpn = qpn };

    if (vlan) {
        uro_put_be16(head + at, 0x8100);
        at += 4;
    }
    uro_put_be16(head + at, v6 ? 0x86dd : 0x0800);
    at += 2;
    ip.dest.octets[15] = 7;
    at += (uint32_t)uro_ip_put(head + at, &ip);
    uro_udp_encode(head + at, &udp);
    uro_bth_encode(head + at + URO_UDP_LEN, &bth);
    uro_impair_packet_read(&packet, URO_IMPAIR_TX, head, sizeof head);
    if (packet.kind != URO_IMPAIR_OTHER)
        assert_int_equal(packet.bth_at, at + URO_UDP_LEN);
    return packet;
}

static void packet__each_opcode__has_the_right_kind(void **state)
{
    static const struct {
        uint8_t opcode;
        uint32_t qpn;
        enum uro_impair_kind kind;
    } cases[] = {
        { 0x04, 9, URO_IMPAIR_REQUEST },  { 0x0c, 9, URO_IMPAIR_REQUEST }, /* READ request */
        { 0x11, 9, URO_IMPAIR_ACK },      { 0x12, 9, URO_IMPAIR_ACK }, /* response to an atomic */
        { 0x0d, 9, URO_IMPAIR_READ },     { 0x10, 9, URO_IMPAIR_READ },
        { 0x64, 9, URO_IMPAIR_DATAGRAM }, { 0x64, 1, URO_IMPAIR_CM },
        { 0x81, 9, URO_IMPAIR_CNP },      { 0xff, 9, URO_IMPAIR_OTHER },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++)
        for (unsigned form = 0; form < 4; form++) {
            const struct uro_impair_packet packet =
                packet_of(cases[i].opcode, cases[i].qpn, form & 1, form & 2);
            assert_int_equal(packet.kind, cases[i].kind);
        }
}

static void packet__no_roce__is_other(void **state)
{
    static const uint8_t arp[60] = { [12] = 0x08, 0x06 };
    uint8_t head[128] = { [12] = 0x08, 0x00, 0x45, [23] = URO_IPPROTO_UDP };
    struct uro_impair_packet packet;

    (void)state;
    uro_impair_packet_read(&packet, URO_IMPAIR_RX, arp, sizeof arp);
    assert_int_equal(packet.kind, URO_IMPAIR_OTHER);
    uro_impair_packet_read(&packet, URO_IMPAIR_RX, head, sizeof head); /* port 0 */
    assert_int_equal(packet.kind, URO_IMPAIR_OTHER);
    uro_put_be16(head + 36, URO_ROCE_PORT);
    uro_impair_packet_read(&packet, URO_IMPAIR_RX, head, sizeof head);
    assert_int_equal(packet.kind, URO_IMPAIR_REQUEST);
    for (uint32_t length = 0; length < 54; length++) {
        uro_impair_packet_read(&packet, URO_IMPAIR_RX, head, length);
        assert_int_equal(packet.kind, URO_IMPAIR_OTHER);
    }
    head[14] = 0x46; /* IPv4 with options */
    uro_impair_packet_read(&packet, URO_IMPAIR_RX, head, sizeof head);
    assert_int_equal(packet.kind, URO_IMPAIR_OTHER);
}

static struct uro_impair_flow *find(enum uro_impair_kind kind, uint32_t qpn, uint32_t peer)
{
    const struct uro_impair_packet packet = { .kind = kind, .qpn = qpn, .peer = peer };

    return uro_impair_flow_find(&flows, &plan, &packet);
}

/* A run with other queue pair numbers has the same flows. */
static void flow__mixed_packets__are_numbered_within_each_kind(void **state)
{
    (void)state;
    struct uro_impair_flow *first = find(URO_IMPAIR_REQUEST, 900, 1);
    struct uro_impair_flow *second = find(URO_IMPAIR_REQUEST, 100, 1);
    assert_int_equal(first->number, 0);
    assert_int_equal(second->number, 1);
    assert_int_equal(find(URO_IMPAIR_REQUEST, 900, 2)->number, 2);
    assert_int_equal(find(URO_IMPAIR_ACK, 900, 1)->number, 0);
    assert_ptr_equal(find(URO_IMPAIR_REQUEST, 900, 1), first);
    const uint64_t key = first->key;
    assert_true(key != second->key);
    assert_int_equal(start(NULL), 0);
    assert_true(find(URO_IMPAIR_REQUEST, 55, 3)->key == key);
}

static struct uro_impair_flow *find_psn(enum uro_impair_kind kind, uint32_t psn)
{
    const struct uro_impair_packet packet = { .kind = kind, .qpn = 9, .psn = psn };
    struct uro_impair_flow *flow = uro_impair_flow_find(&flows, &plan, &packet);

    flow->count++;
    return flow;
}

/* A timeout that expires early must not change the numbers of new packets. */
static void flow__psn_again__is_a_repeat(void **state)
{
    (void)state;
    struct uro_impair_flow *requests = find_psn(URO_IMPAIR_REQUEST, 0xfffffe);
    assert_ptr_equal(find_psn(URO_IMPAIR_REQUEST, 0xffffff), requests);
    assert_ptr_equal(find_psn(URO_IMPAIR_REQUEST, 0), requests);
    struct uro_impair_flow *repeats = find_psn(URO_IMPAIR_REQUEST, 0xffffff);
    assert_int_equal(repeats->kind, URO_IMPAIR_REPEAT);
    assert_ptr_equal(find_psn(URO_IMPAIR_REQUEST, 0), repeats);
    assert_ptr_equal(find_psn(URO_IMPAIR_REQUEST, 5), requests);
    assert_int_equal(requests->count, 4);
    assert_int_equal(find_psn(URO_IMPAIR_ACK, 3)->kind, URO_IMPAIR_ACK);
    assert_ptr_equal(find_psn(URO_IMPAIR_ACK, 3), repeats);
    assert_int_equal(find_psn(URO_IMPAIR_READ, 3)->kind, URO_IMPAIR_READ);
    /* A new connection of the same queue pair may begin with any PSN. */
    assert_ptr_equal(find_psn(URO_IMPAIR_REQUEST, 0x800000), requests);
    assert_ptr_equal(find_psn(URO_IMPAIR_REQUEST, 0x100000), requests);
    assert_ptr_equal(find_psn(URO_IMPAIR_DATAGRAM, 7), find_psn(URO_IMPAIR_DATAGRAM, 7));
}

static void flow__more_than_the_table_holds__share_the_last_flow(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < URO_IMPAIR_FLOWS_MAX; i++)
        assert_int_equal(find(URO_IMPAIR_REQUEST, i, 1)->number, i);
    struct uro_impair_flow *rest = find(URO_IMPAIR_REQUEST, URO_IMPAIR_FLOWS_MAX, 1);
    assert_int_equal(rest->number, URO_IMPAIR_FLOWS_MAX);
    assert_ptr_equal(find(URO_IMPAIR_REQUEST, URO_IMPAIR_FLOWS_MAX + 1, 1), rest);
    assert_ptr_not_equal(find(URO_IMPAIR_ACK, 1, 1), rest);
    assert_int_equal(find(URO_IMPAIR_REQUEST, 77, 1)->number, 77);
}

static void flow__another_plan__packet_numbers_continue(void **state)
{
    char error[URO_IMPAIR_ERROR_MAX];

    (void)state;
    struct uro_impair_flow *flow = find(URO_IMPAIR_REQUEST, 5, 1);
    const uint64_t key = flow->key;
    flow->count = 10;
    assert_int_equal(flow->rules, 0);
    assert_int_equal(uro_impair_plan_parse(&plan, "loss:1%/loss:2%,seed:4", error), 0);
    uro_impair_flow_replan(&flows, &plan);
    assert_int_equal(flow->rules, 3);
    assert_int_equal(flow->count, 10);
    assert_true(flow->key != key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(packet__each_opcode__has_the_right_kind, start),
        cmocka_unit_test_setup(packet__no_roce__is_other, start),
        cmocka_unit_test_setup(flow__mixed_packets__are_numbered_within_each_kind, start),
        cmocka_unit_test_setup(flow__psn_again__is_a_repeat, start),
        cmocka_unit_test_setup(flow__more_than_the_table_holds__share_the_last_flow, start),
        cmocka_unit_test_setup(flow__another_plan__packet_numbers_continue, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
