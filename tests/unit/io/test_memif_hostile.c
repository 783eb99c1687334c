/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memif_hostile.c - tests invalid messages over a memif socket. Each message must end its
 * connection with a reason and leave no descriptor open, and the next client must connect. */
#define _GNU_SOURCE /* F_ADD_SEALS */
#include "support/check.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/memif/memif.h"
#include "unit/io/memif_kit.h"

static struct uro_port *server, *client;
static unsigned fds_before;

static int start_server(void **state)
{
    (void)state;
    server = kit_open("role=server", 0);
    fds_before = kit_fds();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    kit_close(&client);
    kit_close(&server);
    return 0;
}

/* Checks that the connection ended with @reason, that nothing remains of it, and that a good client
 * connects. */
static void ended(struct memif_peer *peer, const char *reason)
{
    kit_ended(server, peer, reason);
    for (unsigned i = 0; i < 1000000 && kit_fds() > fds_before; i++)
        (void)sched_yield(); /* a thread closes descriptors whose close() might block */
    assert_int_equal(kit_fds(), fds_before);
    assert_int_equal(kit_maps(), 0);
    client = kit_open("role=client", 0);
    assert_true(kit_find(client, server));
    kit_works(client, server);
    kit_close(&client);
    assert_true(kit_sleep_until(server, false));
}

static void say(const struct memif_peer *peer, struct uro_memif_message message, int fd)
{
    assert_true(memif_peer_send(peer->control, &message, sizeof message, &fd, fd >= 0));
}

/* ---- regions ------------------------------------------------------------ */

static void region_is_wrong(struct uro_memif_message message, int fd, const char *reason)
{
    struct memif_peer peer = kit_peer_known(server);

    say(&peer, message, fd);
    if (fd >= 0)
        (void)close(fd);
    ended(&peer, reason);
}

static void region__memory_that_may_vanish__is_refused(void **state)
{
    static const char sealed[] = "memory must be a memfd that is sealed against shrinking";

    (void)state;
    region_is_wrong(memif_peer_region(0, 4096), memif_peer_file(4096, 0), sealed);
    region_is_wrong(memif_peer_region(0, 4096), memif_peer_file(4096, F_SEAL_GROW | F_SEAL_SEAL),
                    sealed);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 4096), 0);
    fds_before++;
    region_is_wrong(memif_peer_region(0, 4096), dup(fileno(file)), sealed);
    (void)fclose(file);
    fds_before--;
    region_is_wrong(memif_peer_region(0, 4096), eventfd(0, EFD_CLOEXEC), sealed);
}

static void region__of_a_wrong_size__is_refused(void **state)
{
    static const char longer[] = "a region is longer than its file",
                      large[] = "a region is too large for descriptors";
    const uint64_t gib = 1u << 30;

    (void)state;
    region_is_wrong(memif_peer_region(0, 4097), memif_peer_file(4096, F_SEAL_SHRINK), longer);
    region_is_wrong(memif_peer_region(0, 0), memif_peer_file(4096, F_SEAL_SHRINK), longer);
    region_is_wrong(memif_peer_region(0, 8192), memif_peer_file(0, F_SEAL_SHRINK), longer);
    region_is_wrong(memif_peer_region(0, 4 * gib), memif_peer_file(4096, F_SEAL_SHRINK), longer);
    region_is_wrong(memif_peer_region(0, UINT64_MAX), memif_peer_file(4096, F_SEAL_SHRINK), large);
    /* A large region costs the sender nothing, but needs address space of this process. */
    region_is_wrong(memif_peer_region(0, 4096 * gib),
                    memif_peer_file((size_t)(4096 * gib), F_SEAL_SHRINK), large);
    region_is_wrong(memif_peer_region(0, 4096), memif_peer_file(4096, F_SEAL_SHRINK | F_SEAL_WRITE),
                    "a region could not be mapped");
}

static void region__wrong_number_or_no_descriptor__is_refused(void **state)
{
    static const char number[] = "a region's number is too high, or was used before";
    struct memif_peer peer;

    (void)state;
    region_is_wrong(memif_peer_region(0, 4096), -1, "a region without a file descriptor");
    region_is_wrong(memif_peer_region(16, 4096), memif_peer_file(4096, F_SEAL_SHRINK), number);
    region_is_wrong(memif_peer_region(65535, 4096), memif_peer_file(4096, F_SEAL_SHRINK), number);
    peer = kit_peer_known(server);
    for (uint16_t i = 0; i < 16; i++) {
        const struct uro_memif_message region = memif_peer_region(i, PEER_MEMORY);
        assert_int_equal(kit_ask(server, peer.control, &region, peer.memory), URO_MEMIF_ACK);
    }
    say(&peer, memif_peer_region(15, PEER_MEMORY), peer.memory);
    ended(&peer, number);
}

/* ---- rings -------------------------------------------------------------- */

static struct memif_peer with_region(void)
{
    struct memif_peer peer = kit_peer_known(server);
    const struct uro_memif_message region = memif_peer_region(0, PEER_MEMORY);

    assert_int_equal(kit_ask(server, peer.control, &region, peer.memory), URO_MEMIF_ACK);
    return peer;
}

static void ring_is_wrong(unsigned at, uint64_t value, const char *reason)
{
    struct memif_peer peer = with_region();
    struct uro_memif_message ring = memif_peer_ring(true, PEER_TO_SERVER);

    if (at == URO_MEMIF_RING_OFFSET)
        uro_memif_put32(&ring, at, (uint32_t)value);
    else if (at == URO_MEMIF_RING_SLOTS_LOG2)
        uro_memif_put8(&ring, at, (uint8_t)value);
    else
        uro_memif_put16(&ring, at, (uint16_t)value);
    say(&peer, ring, peer.wakes_server);
    ended(&peer, reason);
}

static void ring__wrong_place_length_or_index__is_refused(void **state)
{
    static const char outside[] = "a ring outside its region or misaligned",
                      cookie[] = "a ring with a wrong cookie",
                      one[] = "only one ring in each direction is supported";
    const uint32_t octets = 128 + 16 * PEER_SLOTS;

    (void)state;
    ring_is_wrong(URO_MEMIF_RING_OFFSET, PEER_MEMORY, outside);
    ring_is_wrong(URO_MEMIF_RING_OFFSET, PEER_MEMORY - octets + 8, outside);
    ring_is_wrong(URO_MEMIF_RING_OFFSET, UINT32_MAX, outside);
    ring_is_wrong(URO_MEMIF_RING_OFFSET, UINT32_MAX - octets + 1, outside);
    ring_is_wrong(URO_MEMIF_RING_OFFSET, PEER_TO_SERVER + 4, outside);
    ring_is_wrong(URO_MEMIF_RING_OFFSET, PEER_MEMORY - octets, cookie); /* just inside */
    ring_is_wrong(URO_MEMIF_RING_OFFSET, PEER_BUFFERS, cookie);
    ring_is_wrong(URO_MEMIF_RING_REGION, 1, outside);
    ring_is_wrong(URO_MEMIF_RING_REGION, 16, outside);
    ring_is_wrong(URO_MEMIF_RING_REGION, 65535, outside);
    ring_is_wrong(URO_MEMIF_RING_SLOTS_LOG2, 14, outside);
    ring_is_wrong(URO_MEMIF_RING_SLOTS_LOG2, 15, "a ring is too long");
    ring_is_wrong(URO_MEMIF_RING_SLOTS_LOG2, 255, "a ring is too long");
    ring_is_wrong(URO_MEMIF_RING_INDEX, 1, one);
}

static void ring__twice_or_missing__is_refused(void **state)
{
    (void)state;
    const struct uro_memif_message connect = uro_memif_message(URO_MEMIF_CONNECT);
    for (unsigned to_server = 0; to_server < 2; to_server++) {
        const struct uro_memif_message ring =
            memif_peer_ring(to_server, to_server ? PEER_TO_SERVER : PEER_TO_CLIENT);
        struct memif_peer peer = with_region();
        assert_int_equal(kit_ask(server, peer.control, &ring, peer.wakes_server), URO_MEMIF_ACK);
        say(&peer, ring, peer.wakes_server);
        ended(&peer, "only one ring in each direction is supported");
        peer = with_region();
        assert_int_equal(kit_ask(server, peer.control, &ring, peer.wakes_server), URO_MEMIF_ACK);
        say(&peer, connect, -1);
        ended(&peer, "a ring is missing");
    }
    struct memif_peer peer = kit_peer_known(server);
    say(&peer, connect, -1);
    ended(&peer, "a ring is missing");
    peer = kit_peer_known(server);
    say(&peer, memif_peer_ring(true, 0), peer.wakes_server);
    ended(&peer, "a ring outside its region or misaligned");
}

/* The peer must not choose a file that this process writes or reads for a wake-up. */
static void ring__doorbell_is_no_eventfd__is_refused(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    int both[2];
    assert_non_null(file);
    assert_int_equal(pipe2(both, O_CLOEXEC), 0);
    fds_before = kit_fds();
    const int wrong[] = { fileno(file), both[0], both[1] };
    for (unsigned i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        struct memif_peer peer = with_region();
        say(&peer, memif_peer_ring(true, PEER_TO_SERVER), wrong[i]);
        ended(&peer, "a ring without an eventfd");
    }
    (void)fclose(file);
    (void)close(both[0]);
    (void)close(both[1]);
}

/* A process with the same eventfd can make the eventfd blocking at any time. */
static void ring__blocking_eventfd__sender_does_not_wait(void **state)
{
    (void)state;
    struct memif_peer peer = kit_peer_up(server);
    assert_int_equal(fcntl(peer.wakes_server, F_SETFL, 0), 0);
    assert_true(uro_port_arm(server));
    uro_port_disarm(server);
    memif_peer_drop(&peer);
}

/* The eventfd was blocking from the start, and its counter is full. */
static void ring__full_eventfd__sender_does_not_wait(void **state)
{
    const uint64_t most = UINT64_MAX - 1;
    struct memif_peer peer = with_region();
    const struct uro_memif_message out = memif_peer_ring(true, PEER_TO_SERVER),
                                   in = memif_peer_ring(false, PEER_TO_CLIENT),
                                   connect = uro_memif_message(URO_MEMIF_CONNECT);

    (void)state;
    assert_int_equal(write(peer.wakes_client, &most, sizeof most), sizeof most);
    assert_int_equal(fcntl(peer.wakes_client, F_SETFL, 0), 0);
    assert_int_equal(kit_ask(server, peer.control, &out, -1), URO_MEMIF_ACK);
    assert_int_equal(kit_ask(server, peer.control, &in, peer.wakes_client), URO_MEMIF_ACK);
    assert_int_equal(kit_ask(server, peer.control, &connect, -1), URO_MEMIF_CONNECTED);
    atomic_store(&peer.to_client->flags, 0);
    kit_send(server, kit_plain(1, 100));
    assert_int_equal(atomic_load(&peer.to_client->tail), 1);
    memif_peer_drop(&peer);
}

/* If the port finds a change of the link before a sleep, it must report the change and not
 * sleep. */
static void link__changes_before_a_sleep__does_not_sleep(void **state)
{
    const struct uro_memif_message out = memif_peer_ring(true, PEER_TO_SERVER),
                                   in = memif_peer_ring(false, PEER_TO_CLIENT),
                                   connect = uro_memif_message(URO_MEMIF_CONNECT);
    struct memif_peer peer = with_region();

    (void)state;
    assert_int_equal(kit_ask(server, peer.control, &out, -1), URO_MEMIF_ACK);
    assert_int_equal(kit_ask(server, peer.control, &in, -1), URO_MEMIF_ACK);
    assert_true(uro_port_arm(server));
    uro_port_disarm(server);
    say(&peer, connect, -1);
    assert_false(uro_port_arm(server));
    uro_port_disarm(server);
    assert_true(uro_port_arm(server));
    uro_port_disarm(server);
    memif_peer_drop(&peer);
    assert_false(uro_port_arm(server));
    uro_port_disarm(server);
    assert_true(uro_port_arm(server));
    uro_port_disarm(server);
}

/* ---- messages ----------------------------------------------------------- */

static void message__wrong_length__ends_the_connection(void **state)
{
    static const size_t lengths[] = { 1, 2, 127, 129, 1000 };
    uint8_t octets[1000] = { URO_MEMIF_ADD_REGION };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(lengths); i++) {
        for (unsigned count = 0; count <= 2; count++) {
            struct memif_peer peer = kit_peer_known(server);
            const int fds[] = { peer.memory, peer.memory };
            assert_true(memif_peer_send(peer.control, octets, lengths[i], fds, count));
            ended(&peer, "the other side is gone");
        }
    }
}

static void message__unexpected__ends_the_connection(void **state)
{
    static const unsigned types[] = { 0,
                                      URO_MEMIF_ACK,
                                      URO_MEMIF_HELLO,
                                      URO_MEMIF_INIT,
                                      URO_MEMIF_CONNECTED,
                                      URO_MEMIF_DISCONNECT + 1,
                                      65535 };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(types); i++) {
        for (unsigned up = 0; up < 2; up++) {
            struct memif_peer peer = up ? kit_peer_up(server) : kit_peer_known(server);
            say(&peer, uro_memif_message(types[i]), peer.memory);
            ended(&peer, "unexpected message from the client");
        }
    }
    struct memif_peer peer = kit_peer_up(server);
    say(&peer, memif_peer_region(1, PEER_MEMORY), peer.memory);
    ended(&peer, "unexpected message from the client");
    peer = kit_peer_up(server);
    say(&peer, uro_memif_message(URO_MEMIF_DISCONNECT), peer.memory);
    ended(&peer, "the other side closed the connection");
}

/* One descriptor is valid. All others are closed, whatever their number. */
static void message__with_many_descriptors__none_leaks(void **state)
{
    (void)state;
    for (unsigned count = 2; count <= 8; count++) {
        struct memif_peer peer = kit_peer_known(server);
        const struct uro_memif_message region = memif_peer_region(0, PEER_MEMORY);
        const unsigned before = kit_fds();
        const int fds[] = { peer.memory, peer.memory, peer.memory, peer.memory,
                            peer.memory, peer.memory, peer.memory, peer.memory };
        assert_true(memif_peer_send(peer.control, &region, sizeof region, fds, count));
        (void)uro_port_link_up(server);
        assert_true(kit_fds() <= before);
        if (count <= 4)
            say(&peer, uro_memif_message(URO_MEMIF_CONNECT), -1);
        ended(&peer, count <= 4 ? "a ring is missing" : "the other side is gone");
    }
}

static void client__disconnects_at_any_step__nothing_leaks(void **state)
{
    (void)state;
    struct memif_peer peer = kit_peer_known(server);
    memif_peer_drop(&peer);
    (void)uro_port_link_up(server);
    assert_int_equal(kit_fds(), fds_before);
    peer = with_region();
    memif_peer_drop(&peer);
    (void)uro_port_link_up(server);
    assert_int_equal(kit_fds(), fds_before);
    peer = kit_peer_up(server);
    memif_peer_drop(&peer);
    assert_false(uro_port_link_up(server));
    assert_int_equal(kit_fds(), fds_before);
}

/* ---- servers ------------------------------------------------------------ */

/* Sends an invalid message to a client. Checks that the client disconnects and tries again
 * later. */
static void client_expects(struct uro_memif_message message, const char *reason)
{
    char said[URO_MEMIF_REASON + 1];
    int listener = memif_peer_listen(kit_name()), beside = eventfd(0, EFD_CLOEXEC);
    unsigned before = kit_fds();

    client = kit_open("role=client", 0);
    int control = accept(listener, NULL, NULL);
    assert_true(memif_peer_send(control, &message, sizeof message, &beside, 1));
    assert_false(uro_port_link_up(client));
    assert_true(memif_peer_ended(control, said));
    if (strcmp(said, reason) != 0)
        fail_msg("\"%s\" is not \"%s\"", said, reason);
    (void)close(control);
    assert_true(uro_port_arm(client) && kit_wakes(client, 1000));
    uro_port_disarm(client);
    struct memif_peer peer;
    for (unsigned i = 0; i < 100 && uro_memif_of(client)->control < 0; i++) {
        assert_true(uro_port_arm(client) && kit_wakes(client, 1000));
        uro_port_disarm(client);
    }
    peer = kit_peer_serve(client, listener);
    memif_peer_drop(&peer);
    kit_close(&client);
    assert_int_equal(kit_fds(), before);
    (void)close(beside);
    (void)close(listener);
}

static void server__wrong_hello__client_disconnects_and_retries(void **state)
{
    struct uro_memif_message hello = memif_peer_hello();

    (void)state;
    client_expects(uro_memif_message(URO_MEMIF_ACK), "expected HELLO first");
    uro_memif_put16(&hello, URO_MEMIF_HELLO_MIN_VERSION, URO_MEMIF_VERSION + 1);
    client_expects(hello, "this side supports version 2.0 only");
    hello = memif_peer_hello();
    uro_memif_put16(&hello, URO_MEMIF_HELLO_MAX_VERSION, URO_MEMIF_VERSION - 1);
    client_expects(hello, "this side supports version 2.0 only");
    hello = memif_peer_hello();
    uro_memif_put8(&hello, URO_MEMIF_HELLO_MAX_SLOTS_LOG2, 9);
    client_expects(hello, "the server does not accept rings of this size; set a smaller rsize=");
    client_expects(uro_memif_message(URO_MEMIF_DISCONNECT), "the other side closed the connection");
}

static void server__message_after_connect__ends_the_connection(void **state)
{
    const struct uro_memif_message ack = uro_memif_message(URO_MEMIF_ACK);
    char said[URO_MEMIF_REASON + 1];

    (void)state;
    int listener = memif_peer_listen(kit_name());
    client = kit_open("role=client", 0);
    struct memif_peer peer = kit_peer_serve(client, listener);
    assert_true(memif_peer_send(peer.control, &ack, sizeof ack, NULL, 0));
    assert_false(uro_port_link_up(client));
    assert_true(memif_peer_ended(peer.control, said));
    assert_string_equal(said, "unexpected message from the server");
    memif_peer_drop(&peer);
    (void)close(listener);
}

/* The server sends CONNECTED in place of an ACK. A message out of order must end the connection. */
static void server__skips_a_step__client_disconnects(void **state)
{
    const struct uro_memif_message hello = memif_peer_hello(),
                                   connected = uro_memif_message(URO_MEMIF_CONNECTED);
    char said[URO_MEMIF_REASON + 1];

    (void)state;
    int listener = memif_peer_listen(kit_name());
    client = kit_open("role=client", 0);
    int control = accept(listener, NULL, NULL);
    assert_true(memif_peer_send(control, &hello, sizeof hello, NULL, 0));
    assert_true(memif_peer_send(control, &connected, sizeof connected, NULL, 0));
    assert_false(uro_port_link_up(client));
    assert_true(memif_peer_ended(control, said));
    assert_string_equal(said, "expected ACK");
    (void)close(control);
    (void)close(listener);
}

/* Both roles drop a peer that stays silent between two messages. Then another peer can connect. */
static void peer__silent__is_disconnected_after_a_second(void **state)
{
    char said[URO_MEMIF_REASON + 1];

    (void)state;
    struct memif_peer peer = with_region();
    uro_memif_of(server)->since -= 1000;
    ended(&peer, "no answer for a second");
    kit_close(&server);
    int listener = memif_peer_listen(kit_name());
    client = kit_open("role=client", 0);
    int control = accept(listener, NULL, NULL);
    uro_memif_of(client)->since -= 1000;
    (void)uro_port_link_up(client);
    assert_true(memif_peer_ended(control, said));
    assert_string_equal(said, "no answer for a second");
    (void)close(control);
    (void)close(listener);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, start_server, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(region__memory_that_may_vanish__is_refused),
        CASE(region__of_a_wrong_size__is_refused),
        CASE(region__wrong_number_or_no_descriptor__is_refused),
        CASE(ring__wrong_place_length_or_index__is_refused),
        CASE(ring__twice_or_missing__is_refused),
        CASE(ring__doorbell_is_no_eventfd__is_refused),
        CASE(ring__blocking_eventfd__sender_does_not_wait),
        CASE(ring__full_eventfd__sender_does_not_wait),
        CASE(link__changes_before_a_sleep__does_not_sleep),
        CASE(message__wrong_length__ends_the_connection),
        CASE(message__unexpected__ends_the_connection),
        CASE(message__with_many_descriptors__none_leaks),
        CASE(client__disconnects_at_any_step__nothing_leaks),
        cmocka_unit_test_teardown(server__wrong_hello__client_disconnects_and_retries, stop),
        cmocka_unit_test_teardown(server__message_after_connect__ends_the_connection, stop),
        cmocka_unit_test_teardown(server__skips_a_step__client_disconnects, stop),
        CASE(peer__silent__is_disconnected_after_a_second),
    };
    return cmocka_run_group_tests_name("io/memif_hostile", tests, NULL, NULL);
}
