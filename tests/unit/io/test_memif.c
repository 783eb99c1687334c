/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memif.c - tests two ports over shared memory: each receives the frames of the other. */
#include "support/check.h"

#include "base/rng.h"
#include "io/memif/memif.h"
#include "unit/io/memif_kit.h"

#define SMALL_RING  32u /* slots with rsize=5 */
#define JUMBO       9000u
#define JUMBO_FRAME (JUMBO + 18u)

static struct uro_port *server, *client;

static int stop(void **state)
{
    (void)state;
    kit_close(&client);
    kit_close(&server);
    return 0;
}

static void start(const char *server_words, const char *client_words, uint32_t mtu)
{
    server = kit_open(server_words, mtu);
    client = kit_open(client_words, mtu);
    assert_true(kit_meet(client, server));
}

static void connect__server_first__takes_few_polls(void **state)
{
    (void)state;
    start("role=server", "role=client", 0);
    assert_true(uro_port_has(server, URO_PORT_AWAITS_PEER) &&
                uro_port_has(client, URO_PORT_AWAITS_PEER));
    assert_false(uro_port_gone(server) || uro_port_gone(client));
    assert_memory_not_equal(&server->mac, &client->mac, sizeof client->mac);
    kit_works(client, server);
}

static void connect__client_first__connects_when_the_server_starts(void **state)
{
    (void)state;
    client = kit_open("role=client", 0);
    assert_false(uro_port_link_up(client));
    server = kit_open("role=server", 0);
    assert_true(kit_find(client, server));
    kit_works(client, server);
}

/* A program that only polls for frames also detects when its peer connects and disconnects. */
static void connect__only_by_polling_for_frames__connects(void **state)
{
    static struct kit_frame frame;

    (void)state;
    server = kit_open("role=server", 0);
    client = kit_open("role=client", 0);
    for (unsigned i = 0; i < KIT_STEPS * 16; i++)
        assert_false(kit_take(client, &frame) || kit_take(server, &frame));
    kit_works(client, server);
    kit_close(&client);
    for (unsigned i = 0; i < 4096; i++)
        assert_false(kit_take(server, &frame));
    assert_false(uro_memif_is_up(uro_memif_of(server)));
}

/* A long packet to a queue pair stays in shared memory. Short frames are copied. Frames are also
 * copied if the engine parses more than their headers. */
static void frame__data_is_shared__everything_else_is_copied(void **state)
{
    (void)state;
    start("role=server", "role=client", 0);
    struct uro_port *const ways[][2] = { { client, server }, { server, client } };
    for (unsigned way = 0; way < 2; way++) {
        for (uint32_t payload = 0; payload <= 4096; payload += 4) {
            const struct uro_tx *tx = kit_data(payload, payload);
            kit_send(ways[way][0], tx);
            kit_expect(ways[way][1], tx, uro_tx_length(tx) > 512);
        }
        struct uro_tx to_gsi = *kit_data(7, 1024);
        to_gsi.head[URO_ETHER_LEN + 20 + 8 + 7] = 1;
        kit_send(ways[way][0], &to_gsi);
        kit_expect(ways[way][1], &to_gsi, false);
        for (uint32_t length = 18; length <= URO_PORT_MTU_MEMORY + 18; length++) {
            const struct uro_tx *tx = kit_plain(length, length);
            kit_send(ways[way][0], tx);
            kit_expect(ways[way][1], tx, false);
        }
    }
}

/* The buffers of one side are smaller than a frame, so both sides split and join frames. */
static void frame__longer_than_buffers__arrives_whole(void **state)
{
    static const char *const words[] = { "role=client,bsize=128", "role=client,bsize=192,rsize=7",
                                         "role=client,bsize=4096" };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(words); i++) {
        start("role=server", words[i], JUMBO);
        struct uro_port *const ways[][2] = { { client, server }, { server, client } };
        for (unsigned way = 0; way < 2; way++) {
            for (uint32_t length = 18; length <= JUMBO_FRAME; length += 13) {
                const struct uro_tx *tx = kit_plain(length, length);
                kit_send(ways[way][0], tx);
                kit_expect(ways[way][1], tx, false);
            }
            const struct uro_tx *tx = kit_plain(1, JUMBO_FRAME);
            kit_send(ways[way][0], tx);
            kit_expect(ways[way][1], tx, false);
            tx = kit_data(2, 4096);
            kit_send(ways[way][0], tx);
            kit_expect(ways[way][1], tx, uro_tx_length(tx) <= 4096);
        }
        (void)stop(state);
    }
}

/* Lent frames do not change until they are released, even while other frames are sent. */
static void frame__forwarded_while_lent__is_whole(void **state)
{
    (void)state;
    start("role=server", "role=client,bsize=256", JUMBO);
    struct uro_port *const ways[][2] = { { client, server }, { server, client } };
    for (unsigned way = 0; way < 2; way++) {
        struct uro_port *const to = ways[way][1];
        uint8_t octets[5000];
        struct uro_pkt pkt;
        struct uro_tx tx = *kit_plain(1, sizeof octets);
        uro_tx_write(&tx, octets);
        kit_send(ways[way][0], &tx);
        assert_int_equal(uro_port_receive(to, &pkt, 1), 1);
        assert_int_equal(pkt.length, sizeof octets);
        kit_send(to, kit_plain(2, 7000));
        assert_memory_equal(pkt.octets, octets, sizeof octets);
        struct uro_tx back = { .head_length = 18,
                               .payload_length = pkt.length - 18,
                               .span_count = 1,
                               .spans = { { pkt.octets + 18, pkt.length - 18 } } };
        memcpy(back.head, pkt.octets, 18);
        kit_send(to, &back);
        uro_port_release(to, &pkt, 1);
        kit_expect(ways[way][0], kit_plain(2, 7000), false);
        kit_expect(ways[way][0], kit_plain(1, sizeof octets), false);
    }
}

/* ---- rings -------------------------------------------------------------- */

static void send_burst(struct uro_port *port, uint32_t first, uint32_t count)
{
    struct uro_tx burst[URO_PORT_BURST];

    assert_true(uro_port_tx_free_count(port) >= count);
    for (uint32_t i = 0; i < count; i++) /* all frames have the body of the last frame */
        burst[i] = *kit_plain(first + i, 100 + (first + i) % 700);
    uro_port_transmit(port, burst, count);
}

static uint32_t number_of(const struct uro_pkt *pkt)
{
    assert_int_equal(pkt->length, 100 + uro_get_be32(pkt->octets + 14) % 700);
    return uro_get_be32(pkt->octets + 14);
}

static void ring__wraps_many_times__bursts_remain_in_order(void **state)
{
    struct uro_rng rng;

    (void)state;
    uro_rng_init_number(&rng, 5);
    start("role=server", "role=client,rsize=5", 0);
    struct uro_port *const ways[][2] = { { client, server }, { server, client } };
    for (unsigned way = 0; way < 2; way++) {
        struct uro_port *const to = ways[way][1];
        uint32_t sent = 0, got = 0;
        while (got < 70000) { /* the indices have 16 bits */
            struct uro_pkt pkts[URO_PORT_BURST];
            uint32_t free_slots = uro_port_tx_free_count(ways[way][0]);
            uint32_t count = uro_rng_below(&rng, free_slots + 1);
            send_burst(ways[way][0], sent, count);
            sent += count;
            count = uro_port_receive(to, pkts, 1 + uro_rng_below(&rng, URO_PORT_BURST));
            for (uint32_t i = 0; i < count; i++)
                assert_int_equal(number_of(&pkts[i]), got++);
            if (count > 0)
                uro_port_release(to, pkts, count);
        }
    }
}

static uint32_t fill(struct uro_port *port, uint32_t first)
{
    uint32_t sent = first;

    for (uint32_t free_slots; (free_slots = uro_port_tx_free_count(port)) > 0; sent += free_slots)
        send_burst(port, sent, free_slots);
    return sent;
}

/* Lent frames occupy their slots until they are released. */
static void ring__full__no_free_slot_until_frames_are_released(void **state)
{
    (void)state;
    start("role=server", "role=client,rsize=5", 0);
    struct uro_port *const ways[][2] = { { client, server }, { server, client } };
    for (unsigned way = 0; way < 2; way++) {
        struct uro_port *const from = ways[way][0], *const to = ways[way][1];
        struct uro_pkt pkts[URO_PORT_BURST];
        uint32_t got = 0, sent = fill(from, 0);
        assert_int_equal(sent, SMALL_RING);
        for (unsigned turn = 0; turn < 3; turn++) {
            assert_int_equal(uro_port_receive(to, pkts, 10), 10);
            assert_int_equal(uro_port_tx_free_count(from), 0);
            for (uint32_t i = 0; i < 10; i++)
                assert_int_equal(number_of(&pkts[i]), got++);
            uro_port_release(to, pkts, 10);
            assert_int_equal(uro_port_tx_free_count(from), 10);
            sent = fill(from, sent);
            assert_int_equal(sent - got, SMALL_RING);
        }
        assert_int_equal(uro_port_receive(to, pkts, URO_PORT_BURST), SMALL_RING);
        for (uint32_t i = 0; i < SMALL_RING; i++)
            assert_int_equal(number_of(&pkts[i]), got++);
        uro_port_release(to, pkts, SMALL_RING);
        assert_int_equal(uro_memif_of(from)->tx_dropped, 0);
    }
}

/* A transmit of more frames than free slots loses only the excess frames. */
static void ring__sent_beyond_free_slots__is_counted(void **state)
{
    (void)state;
    start("role=server", "role=client,rsize=5", 0);
    struct uro_port *const ways[][2] = { { client, server }, { server, client } };
    for (unsigned way = 0; way < 2; way++) {
        uint32_t sent = fill(ways[way][0], 0);
        uro_port_transmit(ways[way][0], kit_plain(1, 100), 1);
        uro_port_transmit(ways[way][0], kit_plain(2, 4300), 1); /* longer than the MTU */
        assert_int_equal(uro_memif_of(ways[way][0])->tx_dropped, 2);
        for (uint32_t i = 0; i < sent; i++) {
            static struct kit_frame frame;
            assert_true(kit_take(ways[way][1], &frame));
            assert_int_equal(uro_get_be32(frame.octets + 14), i);
        }
        kit_works(client, server);
        uro_port_transmit(ways[way][0], kit_plain(2, URO_PORT_MTU_MEMORY + 19), 1);
        assert_int_equal(uro_memif_of(ways[way][0])->tx_dropped, 3);
        kit_works(client, server);
    }
}

/* ---- connecting and disconnecting --------------------------------------- */

static void peer__closes__link_goes_down_and_up_again(void **state)
{
    (void)state;
    static const char *const words[] = { "role=server", "role=client" };
    for (unsigned i = 0; i < 2; i++) {
        struct uro_port *stays = kit_open(words[i], 0), *comes;
        for (uint64_t life = 0; life < 3; life++) {
            comes = kit_open(words[1 - i], 0);
            assert_true(kit_find(i == 0 ? comes : stays, i == 0 ? stays : comes));
            kit_works(stays, comes);
            kit_send(comes, kit_data(1, 1024)); /* the receiver does not poll */
            kit_close(&comes);
            assert_true(kit_sleep_until(stays, false));
            assert_int_equal(uro_port_tx_free_count(stays), URO_PORT_BURST);
            uro_port_transmit(stays, kit_plain(1, 100), 1);
            assert_int_equal(uro_memif_of(stays)->tx_dropped, life + 1);
        }
        kit_close(&stays);
    }
}

/* A frame that arrives during a sleep ends the sleep. A frame that arrived before prevents the
 * sleep. */
static void sleep__frame_arrives__wakes(void **state)
{
    (void)state;
    start("role=server", "role=client", 0);
    struct uro_port *const ways[][2] = { { client, server }, { server, client } };
    for (unsigned i = 0; i < 200; i++) {
        struct uro_port *const from = ways[i % 2][0], *const to = ways[i % 2][1];
        assert_true(uro_port_arm(to));
        assert_false(kit_wakes(to, 0));
        kit_send(from, kit_data(i, 1024));
        assert_true(kit_wakes(to, 0));
        uro_port_disarm(to);
        kit_send(from, kit_plain(i, 100)); /* the receiver is not armed */
        assert_false(kit_wakes(to, 0));
        assert_false(uro_port_arm(to));
        uro_port_disarm(to);
        assert_false(kit_wakes(to, 0));
        kit_expect(to, kit_data(i, 1024), true);
        kit_expect(to, kit_plain(i, 100), false);
        assert_true(uro_port_arm(to));
        assert_false(kit_wakes(to, 0));
        uro_port_disarm(to);
    }
}

/* When a frame ends a sleep, the port only polls for frames. So the next sleep must end at once,
 * and the port handles the disconnect. */
static void sleep__frame_arrives_with_a_disconnect__next_sleep_ends_at_once(void **state)
{
    (void)state;
    start("role=server", "role=client", 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(uro_port_arm(server));
        kit_send(client, kit_data(i, 1024));
        if (i == 1)
            kit_close(&client);
        assert_true(kit_wakes(server, 0));
        uro_port_disarm(server);
        kit_expect(server, kit_data(i, 1024), true);
    }
    assert_true(uro_port_arm(server));
    assert_true(uro_memif_is_up(uro_memif_of(server)));
    assert_true(kit_wakes(server, 0));
    uro_port_disarm(server);
    assert_false(uro_port_arm(server));
    assert_false(uro_memif_is_up(uro_memif_of(server)));
    uro_port_disarm(server);
    assert_true(uro_port_arm(server));
    assert_false(kit_wakes(server, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(connect__server_first__takes_few_polls, stop),
        cmocka_unit_test_teardown(connect__client_first__connects_when_the_server_starts, stop),
        cmocka_unit_test_teardown(connect__only_by_polling_for_frames__connects, stop),
        cmocka_unit_test_teardown(frame__data_is_shared__everything_else_is_copied, stop),
        cmocka_unit_test_teardown(frame__longer_than_buffers__arrives_whole, stop),
        cmocka_unit_test_teardown(frame__forwarded_while_lent__is_whole, stop),
        cmocka_unit_test_teardown(ring__wraps_many_times__bursts_remain_in_order, stop),
        cmocka_unit_test_teardown(ring__full__no_free_slot_until_frames_are_released, stop),
        cmocka_unit_test_teardown(ring__sent_beyond_free_slots__is_counted, stop),
        cmocka_unit_test_teardown(peer__closes__link_goes_down_and_up_again, stop),
        cmocka_unit_test_teardown(sleep__frame_arrives__wakes, stop),
        cmocka_unit_test_teardown(sleep__frame_arrives_with_a_disconnect__next_sleep_ends_at_once,
                                  stop),
    };
    return cmocka_run_group_tests_name("io/memif", tests, NULL, NULL);
}
