/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memif_connect.c - tests the link options of memif, the sockets of servers, and which clients
 * may connect. */
#define _GNU_SOURCE /* accept4 */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/memif/memif.h"
#include "unit/io/memif_kit.h"

static struct uro_port *server, *client, *other;

static int stop(void **state)
{
    (void)state;
    kit_close(&client);
    kit_close(&other);
    kit_close(&server);
    return 0;
}

static void start(const char *server_words, const char *client_words)
{
    server = kit_open(server_words, 0);
    client = kit_open(client_words, 0);
    assert_true(kit_meet(client, server));
}

/* ---- link options ------------------------------------------------------- */

static void expect_error(const char *words, const char *word, const char *right)
{
    const char *said = kit_refused(words);

    if (strncmp(said, "link net_memif", 14) != 0 || strstr(said, word) == NULL ||
        strstr(said, right) == NULL)
        fail_msg("%s: \"%s\" has not \"%s\" and \"%s\"", words, said, word, right);
}

static void link_options__invalid__error_names_the_valid_values(void **state)
{
    static const char *const cases[][3] = {
        { "role=emperor", "role=emperor", "server or client" },
        { "role=", "role=", "server or client" },
        { "role", "role=:", "server or client" },
        { "colour=red", "unknown option \"colour\"",
          "net_memif knows role=, socket=, socket-abstract=" },
        { "", "\"\"", "unknown option" },
        { "role=server,", "\"\"", "unknown option" },
        { "Role=server", "\"Role\"", "unknown option" },
        { "socket=", "socket=", "1 to 106" },
        { "socket-abstract=maybe", "socket-abstract=maybe", "yes or no" },
        { "zero-copy=1", "zero-copy=1", "yes or no" },
        { "id=-1", "id=-1", "number" },
        { "id=one", "id=one", "number" },
        { "id=", "id=", "number" },
        { "id=1x", "id=1x", "number" },
        { "id=4294967296", "id=4294967296", "number" },
        { "id=99999999999999999999", "id=9999", "number" },
        { "bsize=127", "bsize=127", "128 to 65536" },
        { "bsize=65537", "bsize=65537", "128 to 65536" },
        { "bsize=1e3", "bsize=1e3", "128 to 65536" },
        { "rsize=4", "rsize=4", "5 to 14" },
        { "rsize=15", "rsize=15", "5 to 14" },
        { "rsize= 9", "rsize= 9", "5 to 14" },
        { "mac=02:00:00:00:00", "mac=02:00:00:00:00", "02:00:00:00:00:01" },
        { "mac=02:00:00:00:00:01:02", "mac=", "02:00:00:00:00:01" },
        { "mac=03:00:00:00:00:01", "mac=03", "unicast" },
        { "mac=-2:00:00:00:00:01", "mac=-2", "unicast" },
        { "mac=02:00:00:00:00: 1", "mac=", "unicast" },
        { "mac=02:00:00:00:00:0g", "mac=", "unicast" },
        { "secret=1234567890123456789012345", "secret=...", "at most 24 characters" },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++)
        expect_error(cases[i][0], cases[i][1], cases[i][2]);
}

static void link_options__valid__are_accepted(void **state)
{
    static const char *const cases[] = {
        "role=master",
        "role=slave",
        "zero-copy=yes",
        "zero-copy=no,socket-abstract=yes",
        "id=4294967295,role=server",
        "bsize=128",
        "bsize=65536,rsize=5",
        "rsize=14,bsize=129",
        "secret=123456789012345678901234,role=server",
        "secret=",
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        server = kit_open(cases[i], 0);
        kit_close(&server);
    }
    client = kit_open("mac=0a:1b:2c:3D:4e:5f", 0);
    assert_memory_equal(client->mac.octets, ((uint8_t[]){ 0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f }), 6);
}

static void link_options__too_long__refused_and_the_longest_is_accepted(void **state)
{
    char many[501] = "", words[600];

    (void)state;
    memset(many, 'a', 500);
    (void)snprintf(words, sizeof words, "socket=/%.105s,role=server", many);
    server = kit_open(words, 0);
    (void)snprintf(words, sizeof words, "socket=/%.106s,role=server", many);
    expect_error(words, "socket=/aaa", "1 to 106");
    (void)snprintf(words, sizeof words, "socket=/%s", many);
    expect_error(words, "must be at most 511 characters", "");
}

/* A ring that can hold no frame would be full for ever. */
static void link_options__ring_smaller_than_a_frame__is_refused(void **state)
{
    char error[URO_PORT_ERROR_MAX];
    const struct uro_port_config config = { .device = "kit",
                                            .link = "net_memif0,bsize=128,rsize=5",
                                            .mtu = 9000 };
    struct uro_port *port = uro_memif_open(&config, error);

    (void)state;
    assert_null(port);
    assert_non_null(strstr(error, "bsize=128"));
    assert_non_null(strstr(error, "rsize="));
    server = kit_open("bsize=320,rsize=5", 9000);
}

/* ---- sockets ------------------------------------------------------------ */

static void socket__in_use_by_another_process__error_has_the_reason(void **state)
{
    (void)state;
    int listener = memif_peer_listen(kit_name());
    const char *said = kit_refused("role=server");
    assert_non_null(strstr(said, "another process listens there"));
    assert_non_null(strstr(said, kit_name()));
    assert_non_null(strstr(said, "role=client"));
    (void)close(listener);
    server = kit_open("role=server", 0);
}

static void socket__same_id_twice__is_refused(void **state)
{
    (void)state;
    server = kit_open("role=server,id=7", 0);
    const char *said = kit_refused("id=7,role=server");
    assert_non_null(strstr(said, "id=7 already"));
    assert_non_null(strstr(said, "a different id= or socket="));
    other = kit_open("role=server,id=8", 0);
}

static char folder[] = "/tmp/uroce-memif-XXXXXX";
static char path[64];

static bool is_there(void)
{
    struct stat status;

    return lstat(path, &status) == 0;
}

static void bind_file(bool listens, int *fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    assert_int_equal(bind(*fd, (const void *)&address, sizeof address), 0);
    assert_true(!listens || listen(*fd, 4) == 0);
}

static void socket_file__left_over__is_replaced_and_removed_at_the_end(void **state)
{
    char words[128], also[128];
    int fd;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/a", folder);
    (void)snprintf(words, sizeof words, "role=server,socket=%s,socket-abstract=no", path);
    (void)snprintf(also, sizeof also, "role=client,socket=%s,socket-abstract=no", path);

    bind_file(true, &fd);
    assert_non_null(strstr(kit_refused(words), "another process listens there"));
    (void)close(fd);
    assert_true(is_there());
    start(words, also);
    kit_works(client, server);
    (void)stop(state);
    assert_false(is_there());

    FILE *file = fopen(path, "w"); /* a regular file, not a socket */
    assert_non_null(file);
    (void)fclose(file);
    (void)kit_refused(words);
    assert_true(is_there());
    (void)unlink(path);
    (void)rmdir(folder);
    assert_non_null(strstr(kit_refused(words), "No such file"));
}

/* Each failure has a message and leaves no descriptor behind. */
static void open__no_file_descriptor_left__error_has_the_reason(void **state)
{
    struct rlimit before, less;
    const unsigned used = kit_fds();

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (unsigned role = 0; role < 2; role++) {
        for (unsigned more = 0; more < 8; more++) {
            char error[URO_PORT_ERROR_MAX], link[128];
            const struct uro_port_config config = { .device = "kit", .link = link };
            int lowest = dup(0);
            (void)close(lowest);
            less = before;
            less.rlim_cur = (unsigned)lowest + more;
            (void)snprintf(link, sizeof link, "net_memif0,socket=%s,role=%s", kit_name(),
                           role == 0 ? "server" : "client");
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
            server = uro_memif_open(&config, error);
            assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
            if (server == NULL && strstr(error, "link net_memif: ") != error)
                fail_msg("\"%s\"", error);
            kit_close(&server);
            assert_int_equal(kit_fds(), used);
        }
    }
}

/* ---- which clients may connect ------------------------------------------ */

/* Checks that @init is refused with @reason, and that the connected client stays connected. */
static void refused(struct uro_memif_message init, const char *reason)
{
    char said[URO_MEMIF_REASON + 1];
    const unsigned before = kit_fds();
    int control = memif_peer_connect(kit_name());
    int beside = eventfd(0, EFD_CLOEXEC);

    assert_true(control >= 0 && beside >= 0);
    (void)uro_port_link_up(server);
    assert_true(memif_peer_send(control, &init, sizeof init, &beside, 1));
    (void)uro_port_link_up(server);
    assert_true(memif_peer_ended(control, said));
    if (strcmp(said, reason) != 0)
        fail_msg("\"%s\" is not \"%s\"", said, reason);
    (void)close(control);
    (void)close(beside);
    assert_int_equal(kit_fds(), before);
    if (client != NULL)
        kit_works(client, server);
}

static void stranger__wrong_init__gets_disconnect_with_reason(void **state)
{
    const struct uro_memif_message right = memif_peer_init(5, "open sesame");
    struct uro_memif_message wrong = right;

    (void)state;
    server = kit_open("role=server,id=5,secret=open sesame", 0);
    for (unsigned connected = 0; connected < 2; connected++) {
        wrong = memif_peer_region(0, 4096);
        refused(wrong, "expected INIT first");
        wrong = right;
        uro_memif_put16(&wrong, URO_MEMIF_INIT_VERSION, 0x0201);
        refused(wrong, "this side supports version 2.0 only");
        wrong = right;
        uro_memif_put8(&wrong, URO_MEMIF_INIT_MODE, 1);
        refused(wrong, "this side supports Ethernet interfaces only");
        refused(memif_peer_init(4, "open sesame"), "the server has no interface with this id=");
        refused(memif_peer_init(5, "open sesam"), "wrong secret=");
        refused(memif_peer_init(5, "open sesames"), "wrong secret=");
        refused(memif_peer_init(5, ""), "wrong secret=");
        if (client == NULL)
            client = kit_open("role=client,id=5,secret=open sesame", 0);
        assert_true(kit_find(client, server));
        if (connected)
            refused(right, "the interface has another peer already");
    }
}

static void two_interfaces__one_socket__each_gets_the_right_peer(void **state)
{
    (void)state;
    struct uro_port *second;
    server = kit_open("role=server,id=1", 0);
    other = kit_open("role=server,id=2", 0);
    second = kit_open("role=client,id=2", 0);
    client = kit_open("role=client,id=1", 0);
    for (unsigned i = 0; i < KIT_STEPS; i++) {
        (void)kit_meet(client, server);
        (void)kit_meet(second, other);
    }
    kit_works(client, server);
    kit_works(second, other);
    kit_send(client, kit_plain(1, 100));
    static struct kit_frame frame;
    assert_false(kit_take(other, &frame));
    kit_close(&server);
    kit_works(second, other);
    assert_true(kit_sleep_until(client, false));
    assert_false(kit_meet(client, other));
    server = kit_open("role=server,id=1", 0);
    assert_true(kit_find(client, server));
    kit_works(client, server);
    kit_works(second, other);
    kit_close(&second);
}

/* The first interface that reads the socket takes the messages for all interfaces. It must wake the
 * other interface. */
static void two_interfaces__one_sleeps__wakes_when_its_client_connects(void **state)
{
    const struct uro_memif_message init = memif_peer_init(2, "");

    (void)state;
    server = kit_open("role=server,id=1", 0);
    other = kit_open("role=server,id=2", 0);
    int control = memif_peer_connect(kit_name());
    (void)uro_port_link_up(server); /* sends HELLO to the client */
    assert_true(uro_port_arm(other));
    assert_false(kit_wakes(other, 0));
    assert_true(memif_peer_send(control, &init, sizeof init, NULL, 0));
    (void)uro_port_link_up(server);
    assert_true(kit_wakes(other, 0));
    uro_port_disarm(other);
    (void)uro_port_link_up(other);
    assert_true(uro_port_arm(other));
    assert_false(kit_wakes(other, 0));
    assert_true(uro_port_arm(server));
    assert_false(kit_wakes(server, 0));
    (void)close(control);
}

static void two_interfaces__one_closes_before_accepting__client_is_disconnected(void **state)
{
    const struct uro_memif_message init = memif_peer_init(2, "");
    char said[URO_MEMIF_REASON + 1];

    (void)state;
    server = kit_open("role=server,id=1", 0);
    const unsigned before = kit_fds();
    other = kit_open("role=server,id=2", 0);
    int control = memif_peer_connect(kit_name());
    (void)uro_port_link_up(server);
    assert_true(memif_peer_send(control, &init, sizeof init, NULL, 0));
    (void)uro_port_link_up(server);
    assert_false(memif_peer_ended(control, said));
    kit_close(&other);
    assert_true(memif_peer_ended(control, said));
    (void)close(control);
    assert_int_equal(kit_fds(), before);
}

/* ---- wake-ups without work ---------------------------------------------- */

/* Descriptors of an ended connection may stay open in children or at the peer. They wake no
 * thread. */
static void connection__ended__descriptors_do_not_wake(void **state)
{
    static const char *const roles[] = { "role=server", "role=client" };
    const uint64_t one = 1;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        start("role=server", "role=client");
        struct uro_port **stays = i == 0 ? &server : &client, **goes = i == 0 ? &client : &server;
        struct uro_memif *memif = uro_memif_of(*stays);
        int control = dup(memif->control), doorbell = dup(memif->in.doorbell);
        kit_close(goes);
        assert_true(kit_sleep_until(*stays, false));
        assert_int_equal(write(doorbell, &one, sizeof one), sizeof one);
        for (unsigned looks = 0; looks < 3; looks++) {
            assert_true(uro_port_arm(*stays));
            assert_false(kit_wakes(*stays, 0));
            uro_port_disarm(*stays);
        }
        (void)close(control);
        (void)close(doorbell);
        *goes = kit_open(roles[1 - i], 0);
        assert_true(kit_find(client, server));
        kit_works(client, server);
        (void)stop(state);
    }
}

/* ---- memory ------------------------------------------------------------- */

static long faults(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* Not sanitized, because the sanitizer has no shadow memory for this address. */
__attribute__((noinline, no_sanitize_address, no_sanitize_thread)) static void touch(
    volatile uint8_t *octet)
{
    *octet = *octet;
}

static void region__of_both_sides__is_mapped_before_the_first_frame(void **state)
{
    void *probe = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(probe, MAP_FAILED);
    bool may = madvise(probe, 4096, MADV_POPULATE_WRITE) == 0;
    (void)munmap(probe, 4096);
    if (!may)
        skip(); /* Linux before 5.14 */
    start("role=server", "role=client");
    struct uro_port *const sides[] = { server, client };
    for (unsigned i = 0; i < 2; i++) {
        const struct uro_memif_region *region = &uro_memif_of(sides[i])->regions[0];
        long before = faults();
        for (size_t at = 0; at < region->size; at += 4096)
            touch(region->base + at);
        assert_in_range(faults() - before, 0, 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(link_options__invalid__error_names_the_valid_values, stop),
        cmocka_unit_test_teardown(link_options__valid__are_accepted, stop),
        cmocka_unit_test_teardown(link_options__too_long__refused_and_the_longest_is_accepted,
                                  stop),
        cmocka_unit_test_teardown(link_options__ring_smaller_than_a_frame__is_refused, stop),
        cmocka_unit_test_teardown(socket__in_use_by_another_process__error_has_the_reason, stop),
        cmocka_unit_test_teardown(socket__same_id_twice__is_refused, stop),
        cmocka_unit_test_teardown(socket_file__left_over__is_replaced_and_removed_at_the_end, stop),
        cmocka_unit_test_teardown(open__no_file_descriptor_left__error_has_the_reason, stop),
        cmocka_unit_test_teardown(stranger__wrong_init__gets_disconnect_with_reason, stop),
        cmocka_unit_test_teardown(two_interfaces__one_socket__each_gets_the_right_peer, stop),
        cmocka_unit_test_teardown(two_interfaces__one_sleeps__wakes_when_its_client_connects, stop),
        cmocka_unit_test_teardown(
            two_interfaces__one_closes_before_accepting__client_is_disconnected, stop),
        cmocka_unit_test_teardown(region__of_both_sides__is_mapped_before_the_first_frame, stop),
        cmocka_unit_test_teardown(connection__ended__descriptors_do_not_wake, stop),
    };
    return cmocka_run_group_tests_name("io/memif_connect", tests, NULL, NULL);
}
