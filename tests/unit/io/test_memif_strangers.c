/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memif_strangers.c - tests that a client that stays silent, or cannot be accepted, does not
 * affect other clients of a server. */
#include "support/check.h"

#include <sys/resource.h>
#include <unistd.h>

#include "io/memif/memif.h"
#include "unit/io/memif_kit.h"

static struct uro_port *server, *client;

static int stop(void **state)
{
    (void)state;
    kit_close(&client);
    kit_close(&server);
    return 0;
}

/* Silent clients are dropped for new clients, and hold at most 16 descriptors. */
static void strangers__many_and_silent__others_connect(void **state)
{
    int silent[40];

    (void)state;
    server = kit_open("role=server", 0);
    const unsigned before = kit_fds();
    for (unsigned i = 0; i < URO_ARRAY_LEN(silent); i++) {
        silent[i] = memif_peer_connect(kit_name());
        assert_true(silent[i] >= 0);
        (void)uro_port_link_up(server);
    }
    assert_int_equal(kit_fds(), before + 40 + 16);
    client = kit_open("role=client", 0);
    assert_true(kit_meet(client, server));
    for (unsigned i = 0; i < URO_ARRAY_LEN(silent); i++)
        (void)close(silent[i]);
    (void)uro_port_link_up(server);
    kit_works(client, server);
    assert_true(uro_port_arm(server));
    assert_false(kit_wakes(server, 0));
    (void)stop(state);
    assert_int_equal(kit_fds(), before - 6); /* the descriptors of the server are closed */
}

/* The server ends a connection attempt that would wake it again and again. */
static void stranger__no_file_descriptor_left__gets_error_and_no_busy_loop(void **state)
{
    char said[URO_MEMIF_REASON + 1];
    struct rlimit before;

    (void)state;
    server = kit_open("role=server", 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (unsigned again = 0; again < 2; again++) {
        const unsigned used = kit_fds();
        int control = memif_peer_connect(kit_name());
        struct rlimit none = before;
        int lowest = dup(0);
        assert_true(control >= 0 && lowest >= 0);
        (void)close(lowest);
        none.rlim_cur = (unsigned)lowest;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        bool armed = uro_port_arm(server);
        (void)uro_port_link_up(server);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_true(armed);
        assert_false(kit_wakes(server, 0));
        assert_true(memif_peer_ended(control, said));
        assert_string_equal(said, "the server has no file descriptor left; raise its `ulimit -n`");
        (void)close(control);
        assert_int_equal(kit_fds(), used);
    }
    client = kit_open("role=client", 0);
    assert_true(kit_meet(client, server));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(strangers__many_and_silent__others_connect, stop),
        cmocka_unit_test_teardown(stranger__no_file_descriptor_left__gets_error_and_no_busy_loop,
                                  stop),
    };
    return cmocka_run_group_tests_name("io/memif_strangers", tests, NULL, NULL);
}
