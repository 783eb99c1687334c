/* SPDX-License-Identifier: BSD-3-Clause */
/* test_steer.c - tests which engines of a device get a frame. */
#include "support/check.h"

#include "core/shard.h"
#include "io/engines/steer.h"
#include "support/make_frame.h"
#include "wire/arp.h"
#include "wire/icmp.h"

#define SEND_ONLY      0x04
#define ENGINE(number) (1u << (number)) /* the first engine has number 0 */
#define HOP_LIMIT_ND   255u

static const uint8_t payload[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
static const struct uro_mac own_mac = { { 2, 0, 0, 0, 0, 1 } };
static const struct uro_mac other_mac = { { 2, 0, 0, 0, 0, 2 } };
static const struct uro_gid link_local = { { 0xfe, 0x80, [15] = 7 } };
static const struct uro_gid own_v6 = { { 0xfd, [15] = 1 } };
static const struct uro_gid all_nodes = { { 0xff, 0x02, [15] = 1 } };

static uint8_t made[MADE_FRAME_MAX];

static uint32_t qpn_of(uint32_t prefix, uint32_t number)
{
    return prefix << URO_QPN_OWN_BITS | number;
}

static uint32_t received(uint32_t length)
{
    const struct uro_pkt pkt = { .octets = made, .length = length };

    return uro_steer_received(&pkt);
}

/* Returns the engines that get a RoCE packet to @qpn. */
static uint32_t roce(bool v6, bool tagged, uint32_t qpn)
{
    struct uro_frame frame = plain_frame(v6, SEND_ONLY, payload, sizeof payload);

    frame.ether.tagged = tagged;
    frame.ether.tag = 0x6005;
    frame.bth.dest_qpn = qpn;
    return received(make_frame(&frame, made));
}

/* Calls @check for IPv4 and IPv6, each with and without a VLAN tag. */
static void each_form(void (*check)(bool v6, bool tagged))
{
    for (unsigned form = 0; form < 4; form++)
        check((form & 1) != 0, (form & 2) != 0);
}

/* Writes the Ethernet header. Returns the first byte after it. */
static uint8_t *put_ether(uint32_t type)
{
    const struct uro_ether ether = { .dest = own_mac, .source = other_mac, .type = (uint16_t)type };

    return made + uro_ether_put(made, &ether);
}

static uint32_t length_until(const uint8_t *end)
{
    return (uint32_t)(end - made);
}

/* Writes the headers of an IP packet whose payload the caller writes to the returned address. */
static uint8_t *put_ip(const struct uro_ip *ip)
{
    uint8_t *network = put_ether(ip->v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4);

    return network + uro_ip_put(network, ip);
}

static struct uro_ip ipv4(uint32_t protocol, uint32_t payload_length)
{
    static const uint8_t from[4] = { 10, 0, 0, 2 }, to[4] = { 10, 0, 0, 1 };

    return (struct uro_ip){ .hop_limit = 64,
                            .protocol = (uint8_t)protocol,
                            .payload_length = (uint16_t)payload_length,
                            .source = uro_gid_from_ipv4(from),
                            .dest = uro_gid_from_ipv4(to) };
}

static struct uro_ip ipv6(uint32_t hop_limit, const struct uro_gid *dest, uint32_t payload_length)
{
    return (struct uro_ip){ .v6 = true,
                            .hop_limit = (uint8_t)hop_limit,
                            .protocol = URO_IPPROTO_ICMPV6,
                            .payload_length = (uint16_t)payload_length,
                            .source = link_local,
                            .dest = *dest };
}

/* ---- received RoCE packets ------------------------------------------------- */

static void engine_of_prefix(bool v6, bool tagged)
{
    assert_int_equal(roce(v6, tagged, qpn_of(1, 17)), ENGINE(0));
    assert_int_equal(roce(v6, tagged, qpn_of(2, 0)), ENGINE(1));
    assert_int_equal(roce(v6, tagged, qpn_of(3, 17)), ENGINE(2));
    assert_int_equal(roce(v6, tagged, qpn_of(3, (1u << URO_QPN_OWN_BITS) - 1)), ENGINE(2));
    assert_int_equal(roce(v6, tagged, qpn_of(16, 17)), ENGINE(15));
}

static void received__roce_to_a_prefix__engine_of_the_prefix(void **state)
{
    (void)state;
    each_form(engine_of_prefix);
    for (uint32_t i = 0; i < URO_STEER_ENGINES_MAX; i++)
        assert_int_equal(roce(false, false, qpn_of(uro_steer_prefix(i), 2)), ENGINE(i));
}

static void first_engine(bool v6, bool tagged)
{
    assert_int_equal(roce(v6, tagged, 1), URO_STEER_FIRST);
    assert_int_equal(roce(v6, tagged, 0), URO_STEER_FIRST);
    assert_int_equal(roce(v6, tagged, qpn_of(0, 17)), URO_STEER_FIRST);
    assert_int_equal(roce(v6, tagged, qpn_of(17, 17)), URO_STEER_FIRST);
    assert_int_equal(roce(v6, tagged, qpn_of(63, 17)), URO_STEER_FIRST);
    assert_int_equal(roce(v6, tagged, URO_QPN_MULTICAST - 1), URO_STEER_FIRST);
}

static void received__roce_to_no_engine__first_engine(void **state)
{
    (void)state;
    each_form(first_engine);
}

static void all_engines(bool v6, bool tagged)
{
    assert_int_equal(roce(v6, tagged, URO_QPN_MULTICAST), URO_STEER_ALL);
}

static void received__roce_to_the_multicast_qpn__all_engines(void **state)
{
    (void)state;
    each_form(all_engines);
}

static void received__udp_checksum__engine_of_the_prefix_if_it_is_right(void **state)
{
    struct uro_frame frame = plain_frame(false, SEND_ONLY, payload, sizeof payload);

    (void)state;
    frame.bth.dest_qpn = qpn_of(3, 17);
    const uint32_t length = make_frame(&frame, made);
    put_udp_checksum(made, &frame);
    assert_int_equal(received(length), ENGINE(2));
    made[length - 1] ^= 1;
    assert_int_equal(received(length), URO_STEER_FIRST);
}

/* The head alone is a copy. The other bytes are in memory that another process may write to. */
static void received__only_the_head_is_copied__engine_of_the_prefix(void **state)
{
    static uint8_t data[1024], head[URO_FRAME_HEAD];
    struct uro_frame frame = plain_frame(false, SEND_ONLY, data, sizeof data);

    (void)state;
    frame.bth.dest_qpn = qpn_of(2, 17);
    const uint32_t length = make_frame(&frame, made);
    memcpy(head, made, sizeof head);
    assert_true(uro_frame_is_data(head, length));
    const struct uro_pkt pkt = { .octets = head, .indirect = made, .length = length };
    assert_int_equal(uro_steer_received(&pkt), ENGINE(1));
}

static void received__another_udp_port__first_engine(void **state)
{
    struct uro_frame frame = plain_frame(false, SEND_ONLY, payload, sizeof payload);

    (void)state;
    frame.bth.dest_qpn = qpn_of(3, 17);
    frame.udp.dest_port = URO_ROCE_PORT + 1;
    assert_int_equal(received(make_frame(&frame, made)), URO_STEER_FIRST);
    frame.udp.dest_port = 53;
    frame.udp.source_port = URO_ROCE_PORT;
    assert_int_equal(received(make_frame(&frame, made)), URO_STEER_FIRST);
}

/* Each frame is in memory of exactly its length, so that a sanitizer reports a read beyond it. */
static void received__truncated_frame__first_engine(void **state)
{
    (void)state;
    for (unsigned form = 0; form < 4; form++) {
        struct uro_frame frame = plain_frame((form & 1) != 0, SEND_ONLY, payload, sizeof payload);
        frame.ether.tagged = (form & 2) != 0;
        frame.bth.dest_qpn = qpn_of(3, 17);
        const uint32_t length = make_frame(&frame, made);
        for (uint32_t part = 0; part < length; part++) {
            uint8_t *octets = test_malloc(part + 1);
            memcpy(octets + 1, made, part);
            const struct uro_pkt pkt = { .octets = octets + 1, .length = part };
            assert_int_equal(uro_steer_received(&pkt), URO_STEER_FIRST);
            test_free(octets);
        }
        assert_int_equal(received(length), ENGINE(2));
    }
}

/* The UDP header says that the packet ends before the QPN does. */
static void received__datagram_shorter_than_a_bth__first_engine(void **state)
{
    const struct uro_ip ip = ipv4(URO_IPPROTO_UDP, URO_UDP_LEN + URO_BTH_LEN - 1);
    const struct uro_udp udp = { .dest_port = URO_ROCE_PORT, .length = ip.payload_length };
    uint8_t *body = put_ip(&ip);

    (void)state;
    uro_udp_encode(body, &udp);
    memset(body + URO_UDP_LEN, 0xff, URO_BTH_LEN);
    assert_int_equal(received(length_until(body + ip.payload_length)), URO_STEER_FIRST);
    assert_int_equal(received(length_until(body + ip.payload_length) + 40), URO_STEER_FIRST);
}

/* ---- received frames of other protocols ------------------------------------ */

static uint32_t arp(bool request, uint8_t sender, uint8_t target)
{
    const struct uro_arp message = { .request = request,
                                     .sender_mac = other_mac,
                                     .sender = uro_gid_from_ipv4((uint8_t[]){ 10, 0, 0, sender }),
                                     .target = uro_gid_from_ipv4((uint8_t[]){ 10, 0, 0, target }) };
    uint8_t *body = put_ether(URO_ETHERTYPE_ARP);

    uro_arp_encode(body, &message);
    return received(length_until(body + URO_ARP_LEN));
}

static void received__arp_request__first_engine(void **state)
{
    (void)state;
    assert_int_equal(arp(true, 2, 1), URO_STEER_FIRST);
}

static void received__arp_reply__all_engines(void **state)
{
    (void)state;
    assert_int_equal(arp(false, 2, 1), URO_STEER_ALL);
}

static void received__gratuitous_arp__all_engines(void **state)
{
    (void)state;
    assert_int_equal(arp(true, 2, 2), URO_STEER_ALL);
    assert_int_equal(arp(false, 2, 2), URO_STEER_ALL);
}

static void received__malformed_arp__first_engine(void **state)
{
    (void)state;
    (void)arp(false, 2, 1);
    assert_int_equal(received(URO_ETHER_LEN + URO_ARP_LEN - 1), URO_STEER_FIRST);
    made[URO_ETHER_LEN + 7] = 3; /* the operation of RARP */
    assert_int_equal(received(URO_ETHER_LEN + URO_ARP_LEN), URO_STEER_FIRST);
}

/* Writes a neighbour message. Returns its length. */
static uint32_t make_neighbor(enum uro_icmp_kind kind)
{
    const struct uro_ip ip = ipv6(HOP_LIMIT_ND, &all_nodes, URO_ND_LEN);
    const struct uro_icmp icmp = {
        .kind = kind, .target = link_local, .has_mac = true, .mac = other_mac, .override = true
    };
    uint8_t *body = put_ip(&ip);

    uro_icmp_encode_neighbor(body, &ip, &icmp);
    return length_until(body + URO_ND_LEN);
}

static void received__neighbor_solicitation__first_engine(void **state)
{
    (void)state;
    assert_int_equal(received(make_neighbor(URO_ICMP_NEIGHBOR_SOLICIT)), URO_STEER_FIRST);
}

static void received__neighbor_advertisement__all_engines(void **state)
{
    (void)state;
    assert_int_equal(received(make_neighbor(URO_ICMP_NEIGHBOR_ADVERT)), URO_STEER_ALL);
}

static void received__neighbor_advertisement_with_a_wrong_checksum__first_engine(void **state)
{
    (void)state;
    const uint32_t length = make_neighbor(URO_ICMP_NEIGHBOR_ADVERT);
    made[length - 1] ^= 1;
    assert_int_equal(received(length), URO_STEER_FIRST);
}

static uint32_t echo(const struct uro_ip *ip, enum uro_icmp_kind kind)
{
    const struct uro_icmp icmp = { .kind = kind,
                                   .echo_id = 7,
                                   .echo_seq = 1,
                                   .echo_data = payload,
                                   .echo_length = sizeof payload };
    uint8_t *body = put_ip(ip);

    return received(length_until(body + uro_icmp_encode_echo(body, ip, &icmp)));
}

static void received__echo_of_icmpv6__first_engine(void **state)
{
    const struct uro_ip ip = ipv6(64, &own_v6, URO_ICMP_ECHO_HEADER + sizeof payload);

    (void)state;
    assert_int_equal(echo(&ip, URO_ICMP_ECHO_REQUEST), URO_STEER_FIRST);
    assert_int_equal(echo(&ip, URO_ICMP_ECHO_REPLY), URO_STEER_FIRST);
}

static void received__icmpv4__first_engine(void **state)
{
    const struct uro_ip ip = ipv4(URO_IPPROTO_ICMP, URO_ICMP_ECHO_HEADER + sizeof payload);

    (void)state;
    assert_int_equal(echo(&ip, URO_ICMP_ECHO_REQUEST), URO_STEER_FIRST);
    assert_int_equal(echo(&ip, URO_ICMP_ECHO_REPLY), URO_STEER_FIRST);
}

static void received__port_unreachable__first_engine(void **state)
{
    const struct uro_icmp icmp = { .kind = URO_ICMP_NO_PORT,
                                   .source = own_v6,
                                   .dest = link_local,
                                   .quoted = payload,
                                   .quoted_length = sizeof payload };
    const struct uro_ip ip = ipv6(64, &own_v6, URO_ICMP_NO_PORT_HEADERS + (uint32_t)sizeof payload);
    uint8_t *body = put_ip(&ip);

    (void)state;
    assert_int_equal(received(length_until(body + uro_icmp_encode_no_port(body, &ip, &icmp))),
                     URO_STEER_FIRST);
}

static void received__mld_query__all_engines(void **state)
{
    struct uro_ip ip = ipv6(1, &all_nodes, 24);

    (void)state;
    ip.router_alert = true;
    uint8_t *body = put_ip(&ip);
    memset(body, 0, 24);
    body[0] = 130;
    body[4] = 10;
    const uint32_t pseudo = uro_ip_pseudo_sum(&ip, URO_IPPROTO_ICMPV6, 24);
    uro_put_be16(body + 2, uro_ip_sum_finish(uro_ip_sum(pseudo, body, 24)));
    assert_int_equal(received(length_until(body + 24)), URO_STEER_ALL);
}

static void received__igmp_query__all_engines(void **state)
{
    struct uro_ip ip = ipv4(URO_IPPROTO_IGMP, 8);
    static const uint8_t all_hosts[4] = { 224, 0, 0, 1 };

    (void)state;
    ip.hop_limit = 1;
    ip.router_alert = true;
    ip.dest = uro_gid_from_ipv4(all_hosts);
    uint8_t *body = put_ip(&ip);
    memset(body, 0, 8);
    body[0] = 0x11;
    body[1] = 100;
    uro_put_be16(body + 2, uro_ip_sum_finish(uro_ip_sum(0, body, 8)));
    assert_int_equal(received(length_until(body + 8)), URO_STEER_ALL);
}

static void received__another_protocol__first_engine(void **state)
{
    const struct uro_ip ip = ipv4(6, 20);
    uint8_t *body = put_ip(&ip);

    (void)state;
    memset(body, 0xff, 20);
    assert_int_equal(received(length_until(body + 20)), URO_STEER_FIRST);
    (void)put_ether(0x88cc);
    assert_int_equal(received(60), URO_STEER_FIRST);
}

/* ---- frames to send -------------------------------------------------------- */

/* Returns the targets of a RoCE packet to @qpn at @dest. */
static uint32_t sent(const struct uro_mac *dest, enum uro_tx_way way, bool v6, bool tagged,
                     uint32_t qpn)
{
    struct uro_frame frame = plain_frame(v6, SEND_ONLY, payload, sizeof payload);
    struct uro_tx tx = { .way = way, .icrc = true, .icrc_v6 = v6 };

    frame.ether.dest = *dest;
    frame.ether.tagged = tagged;
    frame.bth.dest_qpn = qpn;
    const uint32_t length = make_frame(&frame, made);
    tx.network_at = tagged ? URO_ETHER_LEN_MAX : URO_ETHER_LEN;
    tx.head_length = (uint16_t)(length - sizeof payload - URO_ICRC_LEN);
    tx.payload_length = sizeof payload;
    tx.span_count = 1;
    tx.spans[0] = (struct uro_span){ payload, sizeof payload };
    memcpy(tx.head, made, tx.head_length);
    return uro_steer_sent(&tx);
}

static void link_only(bool v6, bool tagged)
{
    assert_int_equal(sent(&other_mac, URO_TX_WIRE, v6, tagged, qpn_of(3, 17)), URO_STEER_WIRE);
    assert_int_equal(sent(&other_mac, URO_TX_WIRE, v6, tagged, 1), URO_STEER_WIRE);
    assert_int_equal(sent(&other_mac, URO_TX_WIRE, v6, tagged, URO_QPN_MULTICAST), URO_STEER_WIRE);
    /* The other host has the same MAC address. */
    assert_int_equal(sent(&own_mac, URO_TX_WIRE, v6, tagged, qpn_of(3, 17)), URO_STEER_WIRE);
}

static void sent__to_another_host__the_link(void **state)
{
    (void)state;
    each_form(link_only);
}

static void engine_of_own_prefix(bool v6, bool tagged)
{
    assert_int_equal(sent(&own_mac, URO_TX_SHARED, v6, tagged, qpn_of(1, 17)), ENGINE(0));
    assert_int_equal(sent(&own_mac, URO_TX_SHARED, v6, tagged, qpn_of(3, 17)), ENGINE(2));
    assert_int_equal(sent(&own_mac, URO_TX_SHARED, v6, tagged, qpn_of(16, 17)), ENGINE(15));
    assert_int_equal(sent(&own_mac, URO_TX_SHARED, v6, tagged, qpn_of(17, 17)), URO_STEER_FIRST);
    assert_int_equal(sent(&own_mac, URO_TX_SHARED, v6, tagged, 1), URO_STEER_FIRST);
}

static void sent__to_an_own_address__engine_of_the_prefix(void **state)
{
    (void)state;
    each_form(engine_of_own_prefix);
}

static void all_and_link(bool v6, bool tagged)
{
    static const struct uro_mac group = { { 0x33, 0x33, 0, 0, 0, 9 } };

    assert_int_equal(sent(&group, URO_TX_BOTH, v6, tagged, URO_QPN_MULTICAST),
                     URO_STEER_ALL | URO_STEER_WIRE);
    assert_int_equal(sent(&group, URO_TX_WIRE, v6, tagged, URO_QPN_MULTICAST), URO_STEER_WIRE);
}

static void sent__to_a_group__all_engines_and_the_link(void **state)
{
    (void)state;
    each_form(all_and_link);
}

static void sent__without_icrc__the_link(void **state)
{
    static const struct uro_mac broadcast = { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } };
    struct uro_tx tx = { .way = URO_TX_WIRE, .head_length = URO_ETHER_LEN + URO_ARP_LEN };

    (void)state;
    memset(tx.head, 0x0c, sizeof tx.head); /* looks like prefix 3 where a BTH would be */
    memcpy(tx.head, &broadcast, sizeof broadcast);
    assert_int_equal(uro_steer_sent(&tx), URO_STEER_WIRE);
    memcpy(tx.head, &own_mac, sizeof own_mac);
    assert_int_equal(uro_steer_sent(&tx), URO_STEER_WIRE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(received__roce_to_a_prefix__engine_of_the_prefix),
        cmocka_unit_test(received__roce_to_no_engine__first_engine),
        cmocka_unit_test(received__roce_to_the_multicast_qpn__all_engines),
        cmocka_unit_test(received__udp_checksum__engine_of_the_prefix_if_it_is_right),
        cmocka_unit_test(received__only_the_head_is_copied__engine_of_the_prefix),
        cmocka_unit_test(received__another_udp_port__first_engine),
        cmocka_unit_test(received__truncated_frame__first_engine),
        cmocka_unit_test(received__datagram_shorter_than_a_bth__first_engine),
        cmocka_unit_test(received__arp_request__first_engine),
        cmocka_unit_test(received__arp_reply__all_engines),
        cmocka_unit_test(received__gratuitous_arp__all_engines),
        cmocka_unit_test(received__malformed_arp__first_engine),
        cmocka_unit_test(received__neighbor_solicitation__first_engine),
        cmocka_unit_test(received__neighbor_advertisement__all_engines),
        cmocka_unit_test(received__neighbor_advertisement_with_a_wrong_checksum__first_engine),
        cmocka_unit_test(received__echo_of_icmpv6__first_engine),
        cmocka_unit_test(received__icmpv4__first_engine),
        cmocka_unit_test(received__port_unreachable__first_engine),
        cmocka_unit_test(received__mld_query__all_engines),
        cmocka_unit_test(received__igmp_query__all_engines),
        cmocka_unit_test(received__another_protocol__first_engine),
        cmocka_unit_test(sent__to_another_host__the_link),
        cmocka_unit_test(sent__to_an_own_address__engine_of_the_prefix),
        cmocka_unit_test(sent__to_a_group__all_engines_and_the_link),
        cmocka_unit_test(sent__without_icrc__the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
