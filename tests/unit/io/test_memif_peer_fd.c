/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memif_peer_fd.c - tests that a descriptor from a memif peer cannot block this process,
 * whatever its kind and whatever the peer does to it later. Processes of other users cannot pass
 * descriptors. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS, setresuid */
#include "support/check.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/memif/memif.h"
#include "support/fuse_file.h"
#include "support/patience.h"
#include "unit/io/memif_kit.h"

#define STRANGER 65534u /* ID of another user */
#define HANGS_S  10     /* time limit of the process, in case a call blocks, seconds */

static struct uro_port *server, *client;

static int start_server(void **state)
{
    (void)state;
    (void)alarm(patience(HANGS_S));
    server = kit_open("role=server", 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    kit_close(&client);
    kit_close(&server);
    return 0;
}

/* ---- doorbells ---------------------------------------------------------- */

static struct memif_peer with_region(void)
{
    struct memif_peer peer = kit_peer_known(server);
    const struct uro_memif_message region = memif_peer_region(0, PEER_MEMORY);

    assert_int_equal(kit_ask(server, peer.control, &region, peer.memory), URO_MEMIF_ACK);
    return peer;
}

/* An epoll descriptor that is always readable would keep the server awake, and reading an inotify
 * descriptor blocks. */
static void doorbell__not_an_eventfd__is_refused(void **state)
{
    sigset_t none;

    (void)state;
    (void)sigemptyset(&none);
    const int wrong[] = { inotify_init1(IN_CLOEXEC),
                          epoll_create1(EPOLL_CLOEXEC),
                          timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
                          signalfd(-1, &none, SFD_CLOEXEC),
                          memif_peer_file(4096, F_SEAL_SHRINK),
                          dup(0) };
    for (unsigned i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        const struct uro_memif_message ring = memif_peer_ring(true, PEER_TO_SERVER);
        struct memif_peer peer = with_region();
        assert_true(wrong[i] >= 0);
        assert_true(memif_peer_send(peer.control, &ring, sizeof ring, &wrong[i], 1));
        kit_ended(server, &peer, "a ring without an eventfd");
        (void)close(wrong[i]);
    }
}

static void fill(int doorbell)
{
    const uint64_t most = UINT64_MAX - 1;
    uint64_t counted;

    (void)!read(doorbell, &counted, sizeof counted);
    assert_int_equal(write(doorbell, &most, sizeof most), sizeof most);
    assert_int_equal(fcntl(doorbell, F_SETFL, 0), 0);
}

static void doorbell__full_and_blocking__server_does_not_block(void **state)
{
    (void)state;
    struct memif_peer peer = kit_peer_up(server);
    fill(peer.wakes_client);
    atomic_store(&peer.to_client->flags, 0);
    for (unsigned i = 1; i <= 300; i++) { /* more AIO results than the kernel keeps */
        kit_send(server, kit_plain(i, 100));
        assert_int_equal(atomic_load(&peer.to_client->tail), i);
        const uint16_t offered = (uint16_t)(PEER_SLOTS + i);
        memif_peer_put(peer.to_client, offered - 1u,
                       (struct uro_memif_desc){ .length = PEER_BUFFER,
                                                .offset = memif_peer_buffer(false, offered - 1u) });
        atomic_store(&peer.to_client->head, offered);
    }
    memif_peer_drop(&peer);
}

static void doorbell__full_and_blocking__client_does_not_block(void **state)
{
    int listener = memif_peer_listen(kit_name());

    (void)state;
    (void)alarm(patience(HANGS_S));
    client = kit_open("role=client", 0);
    struct memif_peer peer = kit_peer_serve(client, listener);
    fill(peer.wakes_server);
    atomic_store(&peer.to_server->flags, 0);
    kit_send(client, kit_plain(1, 100));
    assert_int_equal(atomic_load(&peer.to_server->head), 1);
    memif_peer_drop(&peer);
    (void)close(listener);
}

static void doorbell__rung__wakes_each_time(void **state)
{
    (void)state;
    client = kit_open("role=client", 0);
    assert_true(kit_find(client, server));
    struct uro_port *ports[] = { server, client };
    for (unsigned i = 0; i < 200; i++) {
        struct uro_port *sleeper = ports[i % 2];
        assert_true(uro_port_arm(sleeper));
        assert_false(kit_wakes(sleeper, 0));
        const struct uro_tx *tx = kit_plain(i, 100);
        kit_send(ports[(i + 1) % 2], tx);
        assert_true(kit_wakes(sleeper, 1000));
        uro_port_disarm(sleeper);
        kit_expect(sleeper, tx, false);
    }
}

/* ---- memory ------------------------------------------------------------- */

/* The creator of the memory could punch a hole into it later, and so remove its pages. */
static void memory__of_huge_pages__is_refused(void **state)
{
    const uint64_t size = 1u << 21;
    const struct uro_memif_message region = memif_peer_region(0, size);
    int file = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    (void)state;
    if (file < 0)
        skip(); /* this kernel has no huge pages for memfds */
    assert_int_equal(ftruncate(file, (off_t)size), 0);
    assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    struct memif_peer peer = kit_peer_known(server);
    assert_true(memif_peer_send(peer.control, &region, sizeof region, &file, 1));
    kit_ended(server, &peer, "memory must not be of huge pages");
    (void)close(file);
}

/* ---- file systems that do not answer ------------------------------------ */

/* Any call on such a file blocks, even close(). The process that serves the file keeps running. */
static void descriptor__file_system_hangs__port_does_not_wait(void **state)
{
    (void)state;
    pid_t daemon;
    int file = fuse_file_open(&daemon);
    if (file < 0)
        skip(); /* no /dev/fuse, or no name spaces for users */
    const struct uro_memif_message messages[] = { memif_peer_region(0, PEER_MEMORY),
                                                  memif_peer_ring(true, PEER_TO_SERVER) };
    for (unsigned i = 0; i < URO_ARRAY_LEN(messages); i++) {
        struct memif_peer peer = i == 0 ? kit_peer_known(server) : with_region();
        const int both[] = { file, file };
        assert_true(memif_peer_send(peer.control, &messages[i], sizeof messages[i], both, 2));
        kit_ended(server, &peer,
                  i == 0 ? "memory must be a memfd that is sealed against shrinking"
                         : "a ring without an eventfd");
        assert_true(fuse_file_is_served(daemon));
    }
    client = kit_open("role=client", 0);
    assert_true(kit_meet(client, server));
    assert_true(fuse_file_is_served(daemon));
    fuse_file_end(daemon, file);
}

/* ---- other users -------------------------------------------------------- */

/* Forks a child of another user. Returns false in the child. */
static bool is_parent(pid_t *child)
{
    *child = fork();
    assert_true(*child >= 0);
    if (*child > 0)
        return true;
    if (setresgid(STRANGER, STRANGER, STRANGER) != 0 ||
        setresuid(STRANGER, STRANGER, STRANGER) != 0)
        _exit(2);
    return false;
}

static int status_of(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Makes a process of another user connect. Returns the wait status of that process. Its exit status
 * is 0 if it was rejected because of its user, and 1 otherwise. */
static int call_as_stranger(const char *words)
{
    int go[2];
    pid_t child;

    server = kit_open(words, 0);
    assert_int_equal(pipe(go), 0);
    if (is_parent(&child)) {
        uint8_t octet;
        (void)close(go[1]);
        assert_int_equal(read(go[0], &octet, 1), 1); /* the child has connected */
        for (unsigned i = 0; i < KIT_STEPS; i++)
            (void)uro_port_link_up(server);
        (void)!read(go[0], &octet, 1);
        (void)close(go[0]);
        return status_of(child);
    }
    struct uro_memif_message first;
    int control = memif_peer_connect(kit_name_of(getppid()));
    (void)!write(go[1], "", 1);
    while (control >= 0 && !memif_peer_receive(control, &first, NULL))
        (void)sched_yield();
    if (control < 0 || uro_memif_type_of(&first) != URO_MEMIF_DISCONNECT)
        _exit(1); /* accepted */
    _exit(strcmp((const char *)first.octets + URO_MEMIF_DISCONNECT_REASON,
                 "only processes of the server's user may connect: see user=") != 0);
}

static void server__stranger_connects__is_refused_before_anything_is_read(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can change its user ID */
    assert_int_equal(call_as_stranger("role=server"), 0);
}

static void server__user_is_named__may_connect(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(WEXITSTATUS(call_as_stranger("role=server,user=65534")), 1);
    kit_close(&server);
    assert_int_equal(WEXITSTATUS(call_as_stranger("role=server,user=any")), 1);
}

/* A process of another user has bound the name first. The client must send nothing to that process,
 * in particular no secret. */
static void client__stranger_listens__sends_no_secret(void **state)
{
    int ready[2], done[2];
    pid_t child;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_true(pipe(ready) == 0 && pipe(done) == 0);
    if (is_parent(&child)) {
        uint8_t octet;
        assert_int_equal(read(ready[0], &octet, 1), 1);
        client = kit_open("role=client,secret=treasure", 0);
        assert_false(uro_port_link_up(client));
        assert_int_equal(write(done[1], "", 1), 1);
        assert_int_equal(status_of(child), 0);
        for (unsigned i = 0; i < 2; i++)
            (void)close(ready[i]), (void)close(done[i]);
        return;
    }
    uint8_t octet;
    int listener = memif_peer_listen(kit_name_of(getppid()));
    (void)!write(ready[1], "", 1);
    (void)!read(done[0], &octet, 1);
    int control = accept(listener, NULL, NULL);
    const struct uro_memif_message hello = memif_peer_hello();
    struct uro_memif_message init;
    (void)memif_peer_send(control, &hello, sizeof hello, NULL, 0);
    _exit(recv(control, &init, sizeof init, 0) > 0 ? 1 : 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(doorbell__not_an_eventfd__is_refused, start_server, stop),
        cmocka_unit_test_setup_teardown(doorbell__full_and_blocking__server_does_not_block,
                                        start_server, stop),
        cmocka_unit_test_teardown(doorbell__full_and_blocking__client_does_not_block, stop),
        cmocka_unit_test_setup_teardown(doorbell__rung__wakes_each_time, start_server, stop),
        cmocka_unit_test_setup_teardown(memory__of_huge_pages__is_refused, start_server, stop),
        cmocka_unit_test_setup_teardown(descriptor__file_system_hangs__port_does_not_wait,
                                        start_server, stop),
        cmocka_unit_test_teardown(server__stranger_connects__is_refused_before_anything_is_read,
                                  stop),
        cmocka_unit_test_teardown(server__user_is_named__may_connect, stop),
        cmocka_unit_test_teardown(client__stranger_listens__sends_no_secret, stop),
    };
    return cmocka_run_group_tests_name("io/memif_given", tests, NULL, NULL);
}
