/* SPDX-License-Identifier: BSD-3-Clause */
/* test_neigh_doubt.c - tests that the engine checks a packet that claims another MAC address for a
 * neighbour in use. */
#include <string.h>

#include "base/mark.h"
#include "engine/neigh.h"
#include "support/check.h"
#include "wire/arp.h"
#include "wire/frame.h"

static struct uro_neigh_entry entries[URO_NEIGH_HOPS_MAX];

#define SOLICITED_BY_UNICAST 31u /* 5 + 10 + 20 + 40 + 80 ms, as a multiple of 5 ms */

static const struct uro_mac our_mac = { { 2, 0, 0, 0, 0, 1 } };
static const struct uro_mac peer_mac = { { 2, 0, 0, 0, 0, 2 } };
static const struct uro_mac other_mac = { { 2, 0, 0, 0, 0, 3 } };
static const struct uro_mac broadcast = { { 255, 255, 255, 255, 255, 255 } };

struct stage {
    struct uro_counters counters;
    struct uro_engine_config config;
    struct uro_gid peer;
    struct uro_hop *hop;
};

static struct uro_neigh neigh;

/* Delivers an ARP packet with the peer's IP address and the MAC address @mac. */
static bool say(struct stage *s, const struct uro_mac *mac, uro_time now)
{
    uint8_t out[URO_ARP_LEN];
    const struct uro_arp arp = { .sender_mac = *mac,
                                 .sender = s->peer,
                                 .target_mac = our_mac,
                                 .target = s->config.addresses[0].gid };

    uro_arp_encode(out, &arp);
    const struct uro_frame frame = { .body = out, .body_length = sizeof out };
    return uro_neigh_arp(&neigh, &frame, now);
}

/* Returns whether a neighbour request to @mac leaves at @now. */
static bool asks(uro_time now, const struct uro_mac *mac)
{
    struct uro_tx tx[4];

    (void)!uro_neigh_run(&neigh, now);
    uint32_t count = uro_neigh_output(&neigh, tx, 4);
    assert_in_range(count, 0, 1);
    if (count == 0)
        return false;
    assert_memory_equal(tx[0].spans[0].data, mac, sizeof *mac);
    return true;
}

static void expect_hop(const struct stage *s, enum uro_hop_state state, const struct uro_mac *mac)
{
    assert_int_equal(s->hop->state, state);
    assert_memory_equal(&s->hop->mac, mac, sizeof *mac);
}

/* Opens a stage whose peer is resolved at time 0. */
static int open_stage(void **state)
{
    static struct stage stage;
    struct stage *s = &stage;

    memset(s, 0, sizeof *s);
    uro_mark_clear();
    s->config = (struct uro_engine_config){ .mac = our_mac, .mtu = 1500, .address_count = 1 };
    assert_true(uro_gid_parse("10.0.0.1", &s->config.addresses[0].gid));
    s->config.addresses[0].prefix = 24;
    assert_true(uro_gid_parse("10.0.0.2", &s->peer));
    uro_neigh_init(&neigh, &s->config, &s->counters, entries);
    assert_int_equal(uro_neigh_get(&neigh, 0, &s->peer, 0, &s->hop), 0);
    assert_true(asks(0, &broadcast));
    assert_true(say(s, &peer_mac, 0));
    *state = s;
    return 0;
}

static int close_stage(void **state)
{
    struct stage *s = *state;

    uro_neigh_put(&neigh, s->hop);
    return 0;
}

static void claim__known_host_answers__mac_is_unchanged(void **state)
{
    struct stage *s = *state;

    assert_false(say(s, &other_mac, URO_MS(1)));
    expect_hop(s, URO_HOP_KNOWN, &peer_mac);
    assert_true(asks(URO_MS(1), &peer_mac));
    assert_true(uro_mark_hit("NEIGH.DOUBT"));
    assert_int_equal(s->hop->state, URO_HOP_RESOLVING); /* frames wait */
    assert_false(say(s, &other_mac, URO_MS(2)));
    assert_true(say(s, &peer_mac, URO_MS(3)));
    expect_hop(s, URO_HOP_KNOWN, &peer_mac);
    assert_int_equal(s->counters.value[URO_COUNT_ARP_DOUBTED], 2);
    assert_false(asks(URO_MS(29999), &peer_mac));
}

static void claim__known_host_is_silent__host_that_replies_to_broadcast_is_accepted(void **state)
{
    struct stage *s = *state;
    uro_time now = URO_MS(1);

    assert_false(say(s, &other_mac, now));
    for (unsigned i = 0; i < 5; i++) {
        assert_true(asks(now, &peer_mac));
        assert_false(say(s, &other_mac, now)); /* the request was sent to another host */
        now += URO_MS(5) << i;
        assert_false(asks(now - 1, &peer_mac));
    }
    assert_int_equal(now, URO_MS(1 + 5 * SOLICITED_BY_UNICAST));
    assert_true(asks(now, &broadcast));
    assert_true(uro_mark_hit("NEIGH.MOVED"));
    assert_true(say(s, &other_mac, now));
    expect_hop(s, URO_HOP_KNOWN, &other_mac);
}

/* Repeated claims must not delay the frames again and again. */
static void claims__repeated__checked_once_a_second(void **state)
{
    struct stage *s = *state;
    unsigned asked = 0;

    for (uro_time now = URO_MS(1); now < URO_MS(3000); now += URO_MS(1)) {
        assert_false(say(s, &other_mac, now));
        if (asks(now, &peer_mac)) {
            asked++;
            assert_true(say(s, &peer_mac, now));
        }
        expect_hop(s, URO_HOP_KNOWN, &peer_mac);
    }
    assert_int_equal(asked, 3);
}

static void claim__link_down_and_up__all_peers_are_resolved_again(void **state)
{
    struct stage *s = *state;

    assert_false(say(s, &other_mac, URO_MS(1)));
    assert_true(asks(URO_MS(1), &peer_mac));
    uro_neigh_forget(&neigh, URO_MS(2));
    assert_true(asks(URO_MS(2), &broadcast));
    assert_true(say(s, &other_mac, URO_MS(3)));
    expect_hop(s, URO_HOP_KNOWN, &other_mac);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(claim__known_host_answers__mac_is_unchanged, open_stage,
                                        close_stage),
        cmocka_unit_test_setup_teardown(
            claim__known_host_is_silent__host_that_replies_to_broadcast_is_accepted, open_stage,
            close_stage),
        cmocka_unit_test_setup_teardown(claims__repeated__checked_once_a_second, open_stage,
                                        close_stage),
        cmocka_unit_test_setup_teardown(claim__link_down_and_up__all_peers_are_resolved_again,
                                        open_stage, close_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
