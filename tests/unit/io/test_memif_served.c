/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memif_served.c - tests invalid writes of a server to the memory that its client created. The
 * connection ends with a reason, and the client finds the next server. The client ignores a changed
 * offset. */
#include "support/check.h"

#include <unistd.h>

#include "io/memif/memif.h"
#include "unit/io/memif_kit.h"

static struct uro_port *server, *client;
static int listener = -1;
static struct memif_peer peer;
static struct kit_frame frame;

/* Starts a client with small buffers, so that a ring has fewer bytes than a burst of frames. */
static int start_client(void **state)
{
    (void)state;
    listener = memif_peer_listen(kit_name());
    client = kit_open("role=client,rsize=5,bsize=1024", 0);
    peer = kit_peer_serve(client, listener);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    memif_peer_drop(&peer);
    kit_close(&client);
    kit_close(&server);
    if (listener >= 0)
        (void)close(listener);
    listener = -1;
    return 0;
}

static void ended(const char *reason)
{
    kit_ended(client, &peer, reason);
    (void)close(listener);
    listener = -1;
    server = kit_open("role=server", 0);
    assert_true(kit_find(client, server));
    kit_works(client, server);
}

static const char index_wrong[] = "a ring's index is wrong",
                  no_memory[] = "a descriptor points outside the regions",
                  no_end[] = "a frame is longer than its ring";

static void to_client(unsigned slot, struct uro_memif_desc desc)
{
    memif_peer_put(peer.to_client, slot, desc);
    atomic_store(&peer.to_client->tail, (uint16_t)(slot + 1));
}

/* A client has its own copy of the addresses of its buffers. The server sets only the length. */
static void filled__descriptor_changes_offset__same_buffer_is_read(void **state)
{
    (void)state;
    const uint32_t offset = uro_memif_slot_get(&peer.to_client->slots[0]).offset;
    memset(peer.base + offset, 0x5a, 1024);
    to_client(0, (struct uro_memif_desc){ .length = 1024, .region = 9, .offset = UINT32_MAX });
    assert_true(kit_take(client, &frame));
    assert_int_equal(frame.length, 1024);
    for (unsigned i = 0; i < 1024; i++)
        assert_int_equal(frame.octets[i], 0x5a);
    assert_true(uro_port_link_up(client));
}

static void filled__longer_than_its_buffer__ends_the_connection(void **state)
{
    static const uint32_t lengths[] = { 1025, 4096, UINT32_MAX };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(lengths); i++) {
        to_client(0, (struct uro_memif_desc){ .length = lengths[i] });
        if (kit_take(client, &frame))
            assert_int_equal(frame.length, 0);
        ended(no_memory);
        (void)stop(state);
        (void)start_client(state);
    }
}

static void filled__more_than_offered__ends_the_connection(void **state)
{
    (void)state;
    atomic_store(&peer.to_client->tail, PEER_SLOTS + 1);
    assert_false(kit_take(client, &frame));
    ended(index_wrong);
}

static void filled__chain_without_end__ends_the_connection(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PEER_SLOTS; i++)
        to_client(i, (struct uro_memif_desc){ .length = 10, .flags = URO_MEMIF_NEXT });
    assert_false(kit_take(client, &frame));
    ended(no_end);
}

static void emptied__index_beyond_sent_frames__ends_the_connection(void **state)
{
    static const uint16_t tails[] = { 2, 33, 0x8000, 0xffff };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(tails); i++) {
        kit_send(client, kit_plain(1, 100));
        atomic_store(&peer.to_server->tail, tails[i]);
        (void)uro_port_tx_free_count(client);
        ended(index_wrong);
        (void)stop(state);
        (void)start_client(state);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start_client, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(filled__descriptor_changes_offset__same_buffer_is_read),
        CASE(filled__longer_than_its_buffer__ends_the_connection),
        CASE(filled__more_than_offered__ends_the_connection),
        CASE(filled__chain_without_end__ends_the_connection),
        CASE(emptied__index_beyond_sent_frames__ends_the_connection),
    };
    return cmocka_run_group_tests_name("io/memif_served", tests, NULL, NULL);
}
