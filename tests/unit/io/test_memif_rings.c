/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memif_rings.c - tests invalid writes of a client to shared memory, at any time. The server
 * drops the frame, or ends the connection with a reason and accepts the next client.
 * test_memif_served.c tests the writes of a server. */
#include "support/check.h"

#include <unistd.h>

#include "io/memif/memif.h"
#include "unit/io/memif_kit.h"

static struct uro_port *server, *client;
static struct memif_peer peer;

static int start_server(void **state)
{
    (void)state;
    server = kit_open("role=server", 0);
    peer = kit_peer_up(server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    memif_peer_drop(&peer);
    kit_close(&client);
    kit_close(&server);
    return 0;
}

static void ended(const char *reason)
{
    kit_ended(server, &peer, reason);
    client = kit_open("role=client", 0);
    assert_true(kit_find(client, server));
    kit_works(client, server);
}

static void still_up(void)
{
    char said[URO_MEMIF_REASON + 1];

    assert_true(uro_port_link_up(server));
    assert_false(memif_peer_ended(peer.control, said));
}

static const char index_wrong[] = "a ring's index is wrong",
                  no_memory[] = "a descriptor points outside the regions",
                  no_frame[] = "the buffers that the other side offers are too small for a frame",
                  no_end[] = "a frame is longer than its ring";

/* ---- a client that sends to a server ------------------------------------ */

static void to_server(unsigned slot, struct uro_memif_desc desc)
{
    memif_peer_put(peer.to_server, slot, desc);
    atomic_store(&peer.to_server->head, (uint16_t)(slot + 1));
}

static struct uro_memif_desc buffer(unsigned slot, uint32_t length, bool more)
{
    return (struct uro_memif_desc){ .flags = more ? URO_MEMIF_NEXT : 0,
                                    .length = length,
                                    .offset = memif_peer_buffer(true, slot) };
}

static void write_body(unsigned slot, const uint8_t *octets, uint32_t length)
{
    memcpy(peer.base + memif_peer_buffer(true, slot), octets, length);
}

static struct kit_frame frame;

/* Checks that this peer works, so that the frames below are refused for their contents. */
static void raw_peer__correct__frames_pass_both_ways(void **state)
{
    uint8_t octets[200];

    (void)state;
    memset(octets, 7, sizeof octets);
    for (unsigned i = 0; i < 3 * PEER_SLOTS; i++) {
        write_body(i, octets, sizeof octets);
        to_server(i, buffer(i, sizeof octets, false));
        assert_true(kit_take(server, &frame));
        assert_int_equal(frame.length, sizeof octets);
        assert_memory_equal(frame.octets, octets, sizeof octets);
        assert_int_equal(atomic_load(&peer.to_server->tail), i + 1);
        kit_send(server, kit_plain(i, 100));
        assert_int_equal(atomic_load(&peer.to_client->tail), i + 1);
        assert_int_equal(uro_memif_slot_get(&peer.to_client->slots[i % PEER_SLOTS]).length, 100);
        memif_peer_put(peer.to_client, i,
                       (struct uro_memif_desc){ .length = PEER_BUFFER,
                                                .offset = memif_peer_buffer(false, i) });
        atomic_store(&peer.to_client->head, (uint16_t)(PEER_SLOTS + i + 1));
    }
    still_up();
}

static void head__ahead_of_the_ring__ends_the_connection(void **state)
{
    (void)state;
    atomic_store(&peer.to_server->head, PEER_SLOTS + 1);
    assert_false(kit_take(server, &frame));
    assert_int_equal(uro_port_tx_free_count(server), URO_PORT_BURST); /* these frames are lost */
    ended(index_wrong);
}

static void head__moves_back__ends_the_connection(void **state)
{
    (void)state;
    to_server(0, buffer(0, 100, false));
    assert_true(kit_take(server, &frame));
    atomic_store(&peer.to_server->head, 0);
    assert_false(kit_take(server, &frame));
    ended(index_wrong);
}

static void descriptor__outside_of_memory__ends_the_connection(void **state)
{
    static const struct uro_memif_desc wrong[] = {
        { .length = 100, .offset = PEER_MEMORY - 99 },
        { .length = 100, .offset = PEER_MEMORY },
        { .length = 100, .offset = UINT32_MAX },
        { .length = 100, .offset = UINT32_MAX - 98 },
        { .length = UINT32_MAX, .offset = 0 },
        { .length = UINT32_MAX, .offset = 1 },
        { .length = PEER_MEMORY + 1, .offset = 0 },
        { .region = 1, .length = 100, .offset = 0 },
        { .region = 1, .length = 0, .offset = 0 },
        { .region = 16, .length = 100, .offset = 0 },
        { .region = 65535, .length = 100, .offset = 0 },
    };

    for (unsigned i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        for (unsigned chained = 0; chained < 2; chained++) {
            if (chained)
                to_server(0, buffer(0, 100, true));
            to_server(chained, wrong[i]);
            if (kit_take(server, &frame))
                assert_true(frame.length <= 100);
            ended(no_memory);
            (void)stop(state);
            (void)start_server(state);
        }
    }
}

static void descriptor__at_the_end_of_memory__is_read(void **state)
{
    (void)state;
    to_server(0, (struct uro_memif_desc){ .length = 100, .offset = PEER_MEMORY - 100 });
    assert_true(kit_take(server, &frame));
    assert_int_equal(frame.length, 100);
    to_server(1, (struct uro_memif_desc){ .length = 0, .offset = PEER_MEMORY });
    (void)kit_take(server, &frame);
    still_up();
}

/* The frame is longer than any valid frame. The engine gets the maximum length, and refuses the
 * frame. */
static void frame__too_long__is_truncated(void **state)
{
    (void)state;
    to_server(0, (struct uro_memif_desc){ .length = PEER_MEMORY, .offset = 0 });
    assert_true(kit_take(server, &frame));
    assert_int_equal(frame.length, URO_MEMIF_LONGEST);
    for (unsigned i = 1; i < PEER_SLOTS; i++)
        to_server(i, buffer(i, PEER_BUFFER, i + 1 < PEER_SLOTS));
    assert_true(kit_take(server, &frame));
    assert_int_equal(frame.length, URO_MEMIF_LONGEST);
    still_up();
    assert_int_equal(atomic_load(&peer.to_server->tail), PEER_SLOTS);
}

/* This frame looks like a packet that is as long as the frame. It is truncated and copied, too. */
static void frame__packet_too_long__is_truncated_and_copied(void **state)
{
    const uint16_t length = URO_MEMIF_LONGEST + 4;
    uint8_t octets[2000];

    (void)state;
    uro_tx_write(kit_data(1, 1024), octets);
    uro_put_be16(octets + URO_ETHER_LEN + 2, length - URO_ETHER_LEN);
    uro_put_be16(octets + URO_ETHER_LEN + URO_IPV4_LEN + 4, length - URO_ETHER_LEN - URO_IPV4_LEN);
    write_body(0, octets, sizeof octets);
    to_server(0, buffer(0, length, false));
    assert_true(uro_frame_is_data(octets, length));
    assert_true(kit_take(server, &frame));
    assert_int_equal(frame.length, URO_MEMIF_LONGEST);
    assert_false(frame.indirect);
    still_up();
}

/* The headers are checked once. A lent frame keeps its headers, even if the peer overwrites
 * them. */
static void frame__rewritten_while_lent__headers_are_unchanged(void **state)
{
    (void)state;
    struct uro_pkt pkt;
    uint8_t before[URO_FRAME_HEAD];
    const struct uro_tx *tx = kit_data(1, 1024);
    uint8_t octets[2000];
    uro_tx_write(tx, octets);
    write_body(0, octets, uro_tx_length(tx));
    to_server(0, buffer(0, uro_tx_length(tx), false));
    assert_int_equal(uro_port_receive(server, &pkt, 1), 1);
    assert_non_null(pkt.indirect);
    memcpy(before, pkt.octets, sizeof before);
    memset(peer.base + memif_peer_buffer(true, 0), 0xff, PEER_BUFFER);
    memif_peer_put(peer.to_server, 0, (struct uro_memif_desc){ .length = 7 });
    assert_memory_equal(pkt.octets, before, sizeof before);
    assert_int_equal(pkt.length, uro_tx_length(tx));
    uro_port_release(server, &pkt, 1);
    still_up();
}

/* Lent frames stay valid when the peer leaves, even if the link state is read meanwhile. */
static void frame__lent_when_the_peer_leaves__valid_until_released(void **state)
{
    (void)state;
    struct uro_pkt pkt;
    const struct uro_tx *tx = kit_data(1, 1024);
    uint8_t octets[2000], copy[2000];
    uro_tx_write(tx, octets);
    write_body(0, octets, uro_tx_length(tx));
    to_server(0, buffer(0, uro_tx_length(tx), false));
    assert_int_equal(uro_port_receive(server, &pkt, 1), 1);
    (void)close(peer.control);
    peer.control = -1;
    (void)uro_port_link_up(server);
    uro_pkt_copy(&pkt, copy, pkt.length);
    assert_memory_equal(copy, octets, pkt.length);
    uro_port_release(server, &pkt, 1);
    assert_false(uro_port_link_up(server));
}

/* The rest of the chain may arrive later. Until then the port sleeps. */
static void chain__without_its_end__port_sleeps_until_the_end_arrives(void **state)
{
    (void)state;
    to_server(0, buffer(0, 100, false));
    to_server(1, buffer(1, 300, true));
    assert_true(kit_take(server, &frame));
    for (unsigned i = 0; i < 3; i++) {
        assert_false(kit_take(server, &frame));
        assert_true(uro_port_arm(server));
        assert_int_equal(atomic_load(&peer.to_server->flags) & URO_MEMIF_NO_INTERRUPT, 0);
        uro_port_disarm(server);
    }
    to_server(2, buffer(2, 300, false));
    assert_false(uro_port_arm(server));
    uro_port_disarm(server);
    assert_true(kit_take(server, &frame));
    assert_int_equal(frame.length, 600);
    assert_true(uro_port_arm(server));
    uro_port_disarm(server);
    still_up();
}

/* A chain that one peer left incomplete does not affect the next peer. */
static void chain__incomplete_and_peer_replaced__frame_of_the_next_peer_wakes(void **state)
{
    (void)state;
    to_server(0, buffer(0, 300, true));
    assert_false(kit_take(server, &frame));
    memif_peer_drop(&peer);
    assert_false(uro_port_link_up(server));
    peer = kit_peer_up(server);
    to_server(0, buffer(0, 300, false));
    assert_false(uro_port_arm(server));
    uro_port_disarm(server);
    assert_true(kit_take(server, &frame));
}

static void chain__as_long_as_the_ring__ends_the_connection(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PEER_SLOTS; i++)
        to_server(i, buffer(i, i % 2 ? 0 : 100, true));
    assert_false(kit_take(server, &frame));
    ended(no_end);
}

/* ---- a client that a server sends to ------------------------------------ */

static void offer_all(struct uro_memif_desc desc)
{
    for (unsigned i = 0; i < PEER_SLOTS; i++)
        memif_peer_put(peer.to_client, i, desc);
}

static void offered__wrong_buffers__ends_the_connection(void **state)
{
    static const struct uro_memif_desc wrong[] = {
        { .length = 0, .offset = PEER_BUFFERS },
        { .length = 0, .offset = PEER_MEMORY },
        { .length = 2048, .offset = PEER_MEMORY - 2047 },
        { .length = UINT32_MAX, .offset = 0 },
        { .length = 2048, .offset = UINT32_MAX },
        { .length = 2048, .region = 1 },
        { .length = 2048, .region = 65535 },
        { .length = 100, .offset = PEER_BUFFERS }, /* 32 such buffers are smaller than a frame */
    };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        offer_all(wrong[i]);
        if (uro_port_tx_free_count(server) > 0)
            uro_port_transmit(server, kit_plain(1, 1000), 1);
        ended(no_frame);
        (void)stop(state);
        (void)start_server(state);
    }
}

/* The first buffer is usable, and the others are too short. No part of the frame may be
 * published. */
static void offered__one_buffer_then_a_short_one__ends_the_connection(void **state)
{
    (void)state;
    offer_all((struct uro_memif_desc){ 0 });
    memif_peer_put(peer.to_client, 0,
                   (struct uro_memif_desc){ .length = 4096, .offset = PEER_BUFFERS });
    memif_peer_put(peer.to_client, 1,
                   (struct uro_memif_desc){ .length = 100, .offset = PEER_BUFFERS });
    assert_true(uro_port_tx_free_count(server) > 0);
    uro_port_transmit(server, kit_plain(1, 4200), 1);
    assert_int_equal(atomic_load(&peer.to_client->tail), 0);
    assert_int_equal(uro_memif_of(server)->tx_dropped, 1);
    ended(no_frame);
}

static void offered__too_few__no_other_buffer_is_used(void **state)
{
    (void)state;
    memif_peer_put(peer.to_client, 1,
                   (struct uro_memif_desc){ .length = 10, .offset = PEER_BUFFERS });
    atomic_store(&peer.to_client->head, 3);
    assert_int_equal(uro_port_tx_free_count(server), 1);
    uro_port_transmit(server, kit_plain(1, 4200), 1);
    assert_int_equal(atomic_load(&peer.to_client->tail), 0);
    ended(no_frame);
}

/* The shortest frame has 60 bytes. Padding must not be written where only the payload has room. */
static void offered__buffer_shorter_than_a_frame__no_write_past_its_end(void **state)
{
    (void)state;
    struct uro_tx both[2] = { { .head_length = 40 }, { .head_length = 40 } };
    memset(peer.base + PEER_BUFFERS, 0xee, PEER_MEMORY - PEER_BUFFERS);
    for (unsigned i = 1; i <= 2; i++)
        memif_peer_put(
            peer.to_client, i,
            (struct uro_memif_desc){ .length = 50, .offset = memif_peer_buffer(false, i) });
    assert_true(uro_port_tx_free_count(server) >= 2);
    uro_port_transmit(server, both, 2);
    assert_int_equal(atomic_load(&peer.to_client->tail), 3);
    assert_int_equal(uro_memif_slot_get(&peer.to_client->slots[1]).length, 50);
    assert_int_equal(uro_memif_slot_get(&peer.to_client->slots[1]).flags, URO_MEMIF_NEXT);
    assert_int_equal(uro_memif_slot_get(&peer.to_client->slots[2]).length, 10);
    assert_int_equal(peer.base[memif_peer_buffer(false, 1) + 49], 0);
    assert_int_equal(peer.base[memif_peer_buffer(false, 1) + 50], 0xee);
    assert_int_equal(peer.base[memif_peer_buffer(false, 2) + 9], 0);
    assert_int_equal(peer.base[memif_peer_buffer(false, 2) + 10], 0xee);
    still_up();
}

static void offered__beyond_the_ring__ends_the_connection(void **state)
{
    (void)state;
    atomic_store(&peer.to_client->head, PEER_SLOTS + 1);
    (void)uro_port_tx_free_count(server);
    ended(index_wrong);
}

#define OF_SERVER(test) cmocka_unit_test_setup_teardown(test, start_server, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF_SERVER(raw_peer__correct__frames_pass_both_ways),
        OF_SERVER(head__ahead_of_the_ring__ends_the_connection),
        OF_SERVER(head__moves_back__ends_the_connection),
        OF_SERVER(descriptor__outside_of_memory__ends_the_connection),
        OF_SERVER(descriptor__at_the_end_of_memory__is_read),
        OF_SERVER(frame__too_long__is_truncated),
        OF_SERVER(frame__packet_too_long__is_truncated_and_copied),
        OF_SERVER(frame__rewritten_while_lent__headers_are_unchanged),
        OF_SERVER(frame__lent_when_the_peer_leaves__valid_until_released),
        OF_SERVER(chain__without_its_end__port_sleeps_until_the_end_arrives),
        OF_SERVER(chain__incomplete_and_peer_replaced__frame_of_the_next_peer_wakes),
        OF_SERVER(chain__as_long_as_the_ring__ends_the_connection),
        OF_SERVER(offered__wrong_buffers__ends_the_connection),
        OF_SERVER(offered__one_buffer_then_a_short_one__ends_the_connection),
        OF_SERVER(offered__too_few__no_other_buffer_is_used),
        OF_SERVER(offered__buffer_shorter_than_a_frame__no_write_past_its_end),
        OF_SERVER(offered__beyond_the_ring__ends_the_connection),
    };
    return cmocka_run_group_tests_name("io/memif_rings", tests, NULL, NULL);
}
