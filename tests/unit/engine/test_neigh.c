/* SPDX-License-Identifier: BSD-3-Clause */
/* test_neigh.c - tests packets of ARP, ND and echo: requests, replies, failures and new
 * attempts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mark.h"
#include "engine/engine.h"
#include "engine/neigh.h"
#include "support/check.h"
#include "wire/arp.h"
#include "wire/frame.h"
#include "wire/icmp.h"

static struct uro_neigh_entry entries[URO_NEIGH_HOPS_MAX];

static const struct uro_mac our_mac = { { 2, 0, 0, 0, 0, 1 } };
static const struct uro_mac peer_mac = { { 2, 0, 0, 0, 0, 2 } };

struct stage {
    void *memory;
    struct uro_engine *engine;
    struct uro_cq *cq;
    void *qp_memory;
    struct uro_qp *qp;
    struct uro_tx tx;
    uint8_t frame[4096];
    uint32_t length;
};

static struct uro_gid gid(const char *text)
{
    struct uro_gid g;
    assert_true(uro_gid_parse(text, &g));
    return g;
}

static void *take(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    assert_non_null(memory);
    return memory;
}

static struct stage *open_stage(void)
{
    struct stage *s = calloc(1, sizeof *s);
    struct uro_engine_config config = {
        .mac = our_mac, .mtu = 1500, .address_count = 3, .table_bits = 4
    };
    assert_non_null(s);
    config.addresses[0] = (struct uro_engine_address){ uro_gid_link_local(&our_mac), 64 };
    config.addresses[1] = (struct uro_engine_address){ gid("10.0.0.1"), 24 };
    config.addresses[2] = (struct uro_engine_address){ gid("fd00::1"), 64 };
    config.gateway4 = gid("10.0.0.254");
    s->memory = take(uro_engine_size(&config));
    assert_int_equal(uro_engine_init(s->memory, &config, 0, &s->engine), 0);
    s->cq = uro_cq_init(take(uro_cq_size(8)), 8, NULL);
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = 1,
                                      .send_cq = s->cq,
                                      .recv_cq = s->cq,
                                      .send_capacity = 4,
                                      .send_sge_max = 1,
                                      .inline_max = 16 };
    s->qp_memory = take(uro_qp_size(&init));
    s->qp = uro_qp_create(uro_engine_shard(s->engine), &init, s->qp_memory);
    struct uro_qp_attr attr = { .state = URO_QPS_INIT, .port = 1 };
    assert_int_equal(uro_engine_qp_modify(
                         s->engine, s->qp, &attr,
                         URO_ATTR_STATE | URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS, 0),
                     0);
    return s;
}

static void close_stage(struct stage *s)
{
    uro_engine_qp_destroy(s->engine, s->qp);
    uro_cq_fini(s->cq);
    free(s->cq);
    free(s->qp_memory);
    free(s->memory);
    free(s);
}

static int connect_to(struct stage *s, uint8_t sgid_index, const char *dest)
{
    struct uro_qp_attr attr = { .state = URO_QPS_RTR,
                                .path_mtu = 1024,
                                .address = { .sgid_index = sgid_index, .dest = gid(dest) } };
    int error =
        uro_engine_qp_modify(s->engine, s->qp, &attr,
                             URO_ATTR_STATE | URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN |
                                 URO_ATTR_RQ_PSN | URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR,
                             0);
    if (error != 0)
        return error;
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTS, .timeout = 10, .retry_count = 1 };
    return uro_engine_qp_modify(s->engine, s->qp, &attr,
                                URO_ATTR_STATE | URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT |
                                    URO_ATTR_RNR_RETRY | URO_ATTR_SQ_PSN | URO_ATTR_RD_ATOMIC,
                                0);
}

/* Writes the next frame that leaves at @now to s->frame. Returns false when there is none. */
static bool output(struct stage *s, uro_time now)
{
    if (uro_engine_output(s->engine, &s->tx, 1, now) == 0)
        return false;
    s->length = uro_tx_length(&s->tx);
    uro_tx_write(&s->tx, s->frame);
    return true;
}

static void input(struct stage *s, uro_time now, const uint8_t *octets, size_t length)
{
    const struct uro_pkt pkt = { .octets = octets, .length = (uint32_t)length };
    uro_engine_input(s->engine, &pkt, 1, now);
}

static void send_arp(struct stage *s, uro_time now, const struct uro_arp *arp)
{
    uint8_t frame[64];
    const struct uro_ether ether = { .dest = our_mac,
                                     .source = arp->sender_mac,
                                     .type = URO_ETHERTYPE_ARP };
    size_t at = uro_ether_put(frame, &ether);
    uro_arp_encode(frame + at, arp);
    input(s, now, frame, at + URO_ARP_LEN);
}

static void expect_arp_request(struct stage *s, uro_time now, const char *target)
{
    struct uro_frame frame;
    struct uro_arp arp;

    assert_true(output(s, now));
    assert_true(s->length >= 60);
    assert_int_equal(uro_frame_network(s->frame, s->length, &frame), URO_FRAME_OK);
    assert_true(uro_arp_decode(frame.body, frame.body_length, &arp));
    assert_true(arp.request);
    const struct uro_gid want = gid(target);
    assert_memory_equal(&arp.target, &want, sizeof want);
}

static void post(struct stage *s)
{
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(s->qp), 0);

    assert_non_null(wqe);
    *wqe = (struct uro_wqe){ .opcode = URO_WR_SEND, .flags = URO_SEND_INLINE | URO_SEND_SIGNALED };
    uro_wq_publish(uro_qp_send_queue(s->qp), 1);
    uro_qp_ring(uro_engine_shard(s->engine), s->qp);
}

static void neigh__new_peer__data_waits_for_resolution(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    assert_int_equal(connect_to(s, 1, "10.0.0.2"), 0);
    post(s);
    expect_arp_request(s, 0, "10.0.0.2");
    assert_false(output(s, 0));
    const struct uro_arp reply = { .sender_mac = peer_mac,
                                   .sender = gid("10.0.0.2"),
                                   .target_mac = our_mac,
                                   .target = gid("10.0.0.1") };
    send_arp(s, 10, &reply);
    assert_true(output(s, 10));
    assert_true(s->tx.icrc);
    assert_memory_equal(s->frame, &peer_mac, sizeof peer_mac);
    close_stage(s);
}

/* rule TX.NO.NEIGHBOR */
static void neigh__no_reply__nine_requests_then_retry_count_applies(void **state)
{
    struct stage *s = open_stage();
    struct uro_cqe cqe;
    uro_time now = 0;

    (void)state;
    assert_int_equal(connect_to(s, 1, "10.0.0.2"), 0);
    post(s);
    for (int i = 0; i < 9; now += URO_MS(5) << (i++))
        expect_arp_request(s, now, "10.0.0.2");
    for (; now < URO_MS(5000); now += URO_MS(5))
        while (output(s, now))
            assert_false(s->tx.icrc); /* a neighbour request; the engine drops data frames */
    uro_cq_deliver(s->cq);
    assert_int_equal(uro_cq_poll(s->cq, &cqe, 1), 1);
    assert_int_equal(cqe.status, URO_WC_RETRY_EXC_ERR);
    assert_int_equal(uro_engine_counters(s->engine)->value[URO_COUNT_TX_NO_NEIGHBOR], 2);
    close_stage(s);
}

static void neigh__other_subnet__gateway_is_resolved_or_no_route(void **state)
{
    struct stage *s = open_stage();

    (void)state;
    assert_int_equal(connect_to(s, 2, "fd99::1"), -ENETUNREACH);
    assert_int_equal(connect_to(s, 2, "10.0.0.2"), -EINVAL);
    assert_int_equal(connect_to(s, 1, "192.0.2.7"), 0);
    expect_arp_request(s, 0, "10.0.0.254");
    close_stage(s);
}

/* Delivers a neighbour discovery message from fd00::2. */
static void send_nd(struct stage *s, uro_time now, const struct uro_icmp *icmp)
{
    const struct uro_ether ether = { .dest = our_mac,
                                     .source = peer_mac,
                                     .type = URO_ETHERTYPE_IPV6 };
    const struct uro_ip ip = { .v6 = true,
                               .hop_limit = 255,
                               .protocol = URO_IPPROTO_ICMPV6,
                               .payload_length = URO_ND_LEN,
                               .source = gid("fd00::2"),
                               .dest = gid("fd00::1") };
    uint8_t out[128];

    size_t at = uro_ether_put(out, &ether);
    at += uro_ip_put(out + at, &ip);
    uro_icmp_encode_neighbor(out + at, &ip, icmp);
    input(s, now, out, at + URO_ND_LEN);
}

static void neigh__ipv6_peer__solicited_by_multicast_and_learned_from_the_advert(void **state)
{
    struct stage *s = open_stage();
    struct uro_frame frame;
    struct uro_icmp icmp;

    (void)state;
    assert_int_equal(connect_to(s, 2, "fd00::2"), 0);
    assert_true(output(s, 0));
    static const uint8_t group_mac[6] = { 0x33, 0x33, 0xff, 0, 0, 2 };
    assert_memory_equal(s->frame, group_mac, 6);
    assert_int_equal(uro_frame_network(s->frame, s->length, &frame), URO_FRAME_OK);
    assert_true(uro_icmp_decode(&frame.ip, frame.body, frame.body_length, &icmp));
    assert_int_equal(icmp.kind, URO_ICMP_NEIGHBOR_SOLICIT);

    const struct uro_icmp advert = { .kind = URO_ICMP_NEIGHBOR_ADVERT,
                                     .target = gid("fd00::2"),
                                     .has_mac = true,
                                     .mac = peer_mac,
                                     .solicited = true };
    send_nd(s, 1, &advert);
    post(s);
    assert_true(output(s, 1));
    assert_memory_equal(s->frame, &peer_mac, sizeof peer_mac);
    close_stage(s);
}

/* There are more new peers than slots for pending requests. Each request is sent at once, and no
 * peer is forgotten. */
static void neigh__hundred_new_peers_at_once__each_gets_a_request(void **state)
{
    static struct uro_neigh neigh;
    static struct uro_counters counters;
    struct uro_engine_config config = { .mac = our_mac, .mtu = 1500, .address_count = 1 };
    struct uro_hop *hops[100];
    struct uro_tx tx[32];
    uint32_t asked = 0;

    (void)state;
    config.addresses[0] = (struct uro_engine_address){ gid("10.0.0.1"), 24 };
    uro_neigh_init(&neigh, &config, &counters, entries);
    for (uint32_t i = 0; i < URO_ARRAY_LEN(hops); i++) {
        struct uro_gid peer = gid("10.0.0.2");
        peer.octets[15] = (uint8_t)(i + 2);
        assert_int_equal(uro_neigh_get(&neigh, 0, &peer, 0, &hops[i]), 0);
    }
    while (uro_neigh_next(&neigh, 0) == 0) {
        assert_false(uro_neigh_run(&neigh, 0));
        asked += uro_neigh_output(&neigh, tx, 32);
    }
    assert_int_equal(asked, URO_ARRAY_LEN(hops));
}

static struct uro_gid host_number(uint32_t i)
{
    struct uro_gid peer = gid("10.0.0.0");
    peer.octets[13] = (uint8_t)(1 + i / 65536);
    peer.octets[14] = (uint8_t)(i / 256);
    peer.octets[15] = (uint8_t)i;
    return peer;
}

static int get_host(struct uro_neigh *neigh, uint32_t i, struct uro_hop **hop)
{
    const struct uro_gid peer = host_number(i);
    return uro_neigh_get(neigh, 0, &peer, 0, hop);
}

static void fill_and_empty(uint32_t most)
{
    static struct uro_neigh neigh;
    static struct uro_hop *hops[URO_NEIGH_HOPS_MAX];
    static struct uro_counters counters;
    struct uro_engine_config config = { .mac = our_mac, .mtu = 1500, .address_count = 1 };
    struct uro_hop *hop;

    config.hops = most;

    config.addresses[0] = (struct uro_engine_address){ gid("10.0.0.1"), 8 };
    uro_neigh_init(&neigh, &config, &counters, entries);
    for (uint32_t i = 0; i < most; i++)
        assert_int_equal(get_host(&neigh, i, &hops[i]), 0);
    assert_int_equal(get_host(&neigh, most, &hop), -ENOMEM);
    for (uint32_t i = 0; i < most; i++) {
        assert_int_equal(get_host(&neigh, i, &hop), 0);
        assert_ptr_equal(hop, hops[i]);
        uro_neigh_put(&neigh, hop);
    }
    /* Frees every second entry, which empties buckets from the middle. New entries reuse the
     * slots. */
    for (uint32_t i = 1; i < most; i += 2)
        uro_neigh_put(&neigh, hops[i]);
    for (uint32_t i = 1; i < most; i += 2)
        assert_int_equal(get_host(&neigh, most + i, &hops[i]), 0);
    assert_int_equal(get_host(&neigh, 1, &hop), -ENOMEM);
    for (uint32_t i = 0; i < most; i++) {
        assert_int_equal(get_host(&neigh, i % 2 ? most + i : i, &hop), 0);
        assert_ptr_equal(hop, hops[i]);
        uro_neigh_put(&neigh, hop);
        uro_neigh_put(&neigh, hops[i]);
    }
    assert_false(
        uro_neigh_run(&neigh, URO_MS(100000))); /* no entry has a user, so no request is due */
    assert_int_equal(uro_neigh_next(&neigh, URO_MS(100000)), URO_TIME_NEVER);
}

static void neigh__table_full__entries_are_shared_and_released(void **state)
{
    (void)state;
    fill_and_empty(URO_NEIGH_HOPS_MAX);
    fill_and_empty(6);
}

static void neigh__arp_request__gets_a_reply_only_for_local_addresses(void **state)
{
    struct stage *s = open_stage();
    struct uro_frame frame;
    struct uro_arp arp;
    struct uro_arp ask = { .request = true,
                           .sender_mac = peer_mac,
                           .sender = gid("10.0.0.2"),
                           .target = gid("10.0.0.1") };

    (void)state;
    uro_mark_clear();
    send_arp(s, 0, &ask);
    assert_true(output(s, 0));
    assert_int_equal(uro_frame_network(s->frame, s->length, &frame), URO_FRAME_OK);
    assert_true(uro_arp_decode(frame.body, frame.body_length, &arp));
    assert_false(arp.request);
    assert_memory_equal(&arp.sender_mac, &our_mac, sizeof our_mac);
    ask.target = gid("10.0.0.9");
    send_arp(s, 0, &ask);
    assert_false(output(s, 0));
    close_stage(s);
    assert_true(uro_mark_hit("NEIGH.ARP.ANSWER"));
}

static void neigh__nd_solicitation__gets_a_reply_only_for_local_addresses(void **state)
{
    struct stage *s = open_stage();
    struct uro_frame frame;
    struct uro_icmp icmp;
    struct uro_icmp ask = { .kind = URO_ICMP_NEIGHBOR_SOLICIT,
                            .target = gid("fd00::1"),
                            .has_mac = true,
                            .mac = peer_mac };

    (void)state;
    uro_mark_clear();
    send_nd(s, 0, &ask);
    assert_true(output(s, 0));
    assert_memory_equal(s->frame, &peer_mac, sizeof peer_mac);
    assert_int_equal(uro_frame_network(s->frame, s->length, &frame), URO_FRAME_OK);
    assert_true(uro_icmp_decode(&frame.ip, frame.body, frame.body_length, &icmp));
    assert_int_equal(icmp.kind, URO_ICMP_NEIGHBOR_ADVERT);
    assert_true(icmp.solicited && uro_gid_equal(&icmp.target, &ask.target));
    assert_memory_equal(&icmp.mac, &our_mac, sizeof our_mac);
    assert_true(uro_mark_hit("NEIGH.ND.ANSWER"));
    ask.target = gid("fd00::9");
    send_nd(s, 0, &ask);
    assert_false(output(s, 0));
    close_stage(s);
}

static void neigh__echo_request__is_answered_with_the_same_bytes(void **state)
{
    struct stage *s = open_stage();
    struct uro_frame frame;
    struct uro_icmp icmp;
    uint8_t out[256];
    static const uint8_t text[] = "are you there?";

    (void)state;
    const struct uro_ether ether = { .dest = our_mac,
                                     .source = peer_mac,
                                     .type = URO_ETHERTYPE_IPV4 };
    const struct uro_ip ip = { .hop_limit = 64,
                               .protocol = URO_IPPROTO_ICMP,
                               .payload_length = URO_ICMP_ECHO_HEADER + sizeof text,
                               .source = gid("10.0.0.2"),
                               .dest = gid("10.0.0.1") };
    const struct uro_icmp request = { .kind = URO_ICMP_ECHO_REQUEST,
                                      .echo_id = 7,
                                      .echo_seq = 9,
                                      .echo_data = text,
                                      .echo_length = sizeof text };
    size_t at = uro_ether_put(out, &ether);
    at += uro_ip_put(out + at, &ip);
    at += uro_icmp_encode_echo(out + at, &ip, &request);
    input(s, 0, out, at);
    assert_true(output(s, 0));
    assert_int_equal(uro_frame_network(s->frame, s->length, &frame), URO_FRAME_OK);
    assert_true(uro_icmp_decode(&frame.ip, frame.body, frame.ip.payload_length, &icmp));
    assert_int_equal(icmp.kind, URO_ICMP_ECHO_REPLY);
    assert_int_equal(icmp.echo_id, 7);
    assert_int_equal(icmp.echo_seq, 9);
    assert_int_equal(icmp.echo_length, sizeof text);
    assert_memory_equal(icmp.echo_data, text, sizeof text);
    close_stage(s);
}

static void neigh__link_came_back__all_peers_are_resolved_again(void **state)
{
    struct stage *s = open_stage();
    const struct uro_arp reply = { .sender_mac = peer_mac,
                                   .sender = gid("10.0.0.2"),
                                   .target_mac = our_mac,
                                   .target = gid("10.0.0.1") };

    (void)state;
    assert_int_equal(connect_to(s, 1, "10.0.0.2"), 0);
    expect_arp_request(s, 0, "10.0.0.2");
    send_arp(s, 1, &reply);
    assert_false(output(s, 1));
    uro_engine_link(s->engine, true, 2);
    expect_arp_request(s, 2, "10.0.0.2");
    close_stage(s);
}

static void neigh__multicast_group__known_at_once_and_replies_are_ignored(void **state)
{
    static struct uro_neigh neigh;
    static struct uro_counters counters;
    static const struct uro_mac mac4 = { { 1, 0, 0x5e, 1, 2, 3 } };
    static const struct uro_mac mac6 = { { 0x33, 0x33, 0xab, 0xcd, 2, 3 } };
    struct uro_engine_config config = { .mac = our_mac, .mtu = 1500, .address_count = 2 };
    const struct uro_gid group4 = gid("239.129.2.3"), group6 = gid("ff0e::1:abcd:203");
    struct uro_hop *hops[2];

    (void)state;
    uro_mark_clear();
    config.addresses[0] = (struct uro_engine_address){ gid("10.0.0.1"), 24 };
    config.addresses[1] = (struct uro_engine_address){ gid("fd00::1"), 64 };
    uro_neigh_init(&neigh, &config, &counters, entries);
    assert_int_equal(uro_neigh_get(&neigh, 0, &group6, 0, hops), -EINVAL);
    assert_int_equal(uro_neigh_get(&neigh, 1, &group4, 0, hops), -EINVAL);
    assert_int_equal(uro_neigh_get(&neigh, 0, &group4, 0, &hops[0]), 0);
    assert_int_equal(uro_neigh_get(&neigh, 1, &group6, 0, &hops[1]), 0);

    uint8_t out[URO_ARP_LEN];
    const struct uro_arp lie = { .request = true, .sender_mac = peer_mac, .sender = group4 };
    uro_arp_encode(out, &lie);
    const struct uro_frame frame = { .body = out, .body_length = sizeof out };
    assert_false(uro_neigh_arp(&neigh, &frame, 0));
    uro_neigh_forget(&neigh, 1);
    assert_int_equal(uro_neigh_next(&neigh, 1), URO_TIME_NEVER);
    assert_false(uro_neigh_run(&neigh, URO_MS(100000)));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hops[i]->state, URO_HOP_KNOWN);
        assert_int_equal(hops[i]->way, URO_TX_BOTH);
    }
    assert_memory_equal(&hops[0]->mac, &mac4, sizeof mac4);
    assert_memory_equal(&hops[1]->mac, &mac6, sizeof mac6);
    assert_true(uro_mark_hit("MCAST.HOP"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neigh__hundred_new_peers_at_once__each_gets_a_request),
        cmocka_unit_test(neigh__table_full__entries_are_shared_and_released),
        cmocka_unit_test(neigh__new_peer__data_waits_for_resolution),
        cmocka_unit_test(neigh__no_reply__nine_requests_then_retry_count_applies),
        cmocka_unit_test(neigh__other_subnet__gateway_is_resolved_or_no_route),
        cmocka_unit_test(neigh__ipv6_peer__solicited_by_multicast_and_learned_from_the_advert),
        cmocka_unit_test(neigh__arp_request__gets_a_reply_only_for_local_addresses),
        cmocka_unit_test(neigh__nd_solicitation__gets_a_reply_only_for_local_addresses),
        cmocka_unit_test(neigh__echo_request__is_answered_with_the_same_bytes),
        cmocka_unit_test(neigh__multicast_group__known_at_once_and_replies_are_ignored),
        cmocka_unit_test(neigh__link_came_back__all_peers_are_resolved_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
