/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_memif.c - tests memif ports of two processes of an ordinary user, without hugepages. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/port_kit.h"

static char server[128];
static char client[128];

static void every_length_comes_back(struct uro_port *port)
{
    uint32_t sequence;

    assert_true(kit_wait_link(port, true, 20));
    kit_meet(port);
    for (uint32_t length = KIT_FRAME_MIN; length <= 9018; length += 17) {
        kit_send(port, length, length);
        assert_int_equal(kit_receive(port, &sequence, 20), length);
        assert_int_equal(sequence, length);
    }
}

static void memif__frames_of_every_length__come_back(void **state)
{
    (void)state;
    pid_t peer = kit_echo(server, 9000, true, -1);
    struct uro_port *port = kit_open(client, 9000);

    every_length_comes_back(port);
    uro_port_close(port);
    kit_kill(peer);
}

static void memif__peer_dies_and_returns__traffic_continues(void **state)
{
    (void)state;
    const char *ours[] = { client, server };
    const char *theirs[] = { server, client };
    uint32_t sequence;

    for (unsigned i = 0; i < 2; i++) {
        pid_t peer = kit_echo(theirs[i], 9000, true, -1);
        struct uro_port *port = kit_open(ours[i], 9000);

        for (uint32_t life = 0; life < 3; life++) {
            assert_true(kit_wait_link(port, true, 20));
            kit_meet(port);
            for (uint32_t n = 0; n < 100; n++) {
                kit_send(port, n, 4000);
                assert_int_equal(kit_receive(port, &sequence, 20), 4000);
            }
            kit_kill(peer);
            assert_true(kit_wait_link(port, false, 20));
            kit_send(port, 1, 4000); /* no peer receives it */
            peer = kit_echo(theirs[i], 9000, true, -1);
        }
        kit_kill(peer);
        uro_port_close(port);
    }
}

static void memif__server_closes_while_a_client_runs__opens_again(void **state)
{
    (void)state;
    pid_t peer = kit_echo(client, 1500, true, -1);
    uint32_t sequence;

    for (uint32_t life = 0; life < 20; life++) {
        struct uro_port *port = kit_open(server, 1500);
        if (life % 4 == 0) {
            kit_meet(port);
            kit_send(port, life, 1000);
            assert_int_equal(kit_receive(port, &sequence, 20), 1000);
        }
        uro_port_close(port);
    }
    kit_kill(peer);
}

static void memif__both_sleep__every_frame_wakes(void **state)
{
    (void)state;
    const char *ours[] = { client, server };
    const char *theirs[] = { server, client };

    for (unsigned i = 0; i < 2; i++) {
        pid_t peer = kit_echo_asleep(theirs[i], 1500, true, -1);
        struct uro_port *port = kit_open(ours[i], 1500);
        uint32_t sequence;
        uint32_t slept = 0;

        assert_true(kit_can_wait(port));
        assert_true(kit_wait_link(port, true, 20));
        kit_meet(port);
        for (uint32_t n = 0; n < 20000; n++) {
            kit_send(port, n, 60 + n % 1000);
            assert_int_equal(kit_sleep_receive(port, &sequence, 10, &slept), 60 + n % 1000);
            assert_int_equal(sequence, n);
        }
        assert_true(slept > 100);
        uro_port_close(port);
        kit_kill(peer);
    }
}

/* Sleeps until the link state is @up. Each step of the other side must wake this process. Returns
 * whether the link state became @up in time. */
static bool sleep_until(struct uro_port *port, bool up)
{
    for (unsigned steps = 0; steps < 100 && uro_port_link_up(port) != up; steps++) {
        bool woken = !uro_port_arm(port) || kit_wait(port, 20);
        uro_port_disarm(port);
        if (!woken)
            return false;
    }
    return uro_port_link_up(port) == up;
}

static void memif__asleep_without_a_peer__wakes_when_a_peer_connects(void **state)
{
    (void)state;
    struct uro_port *port = kit_open(server, 1500);

    assert_false(uro_port_link_up(port));
    assert_true(uro_port_arm(port));
    pid_t peer = kit_echo(client, 1500, true, -1);
    assert_true(kit_wait(port, 20));
    uro_port_disarm(port);
    assert_true(sleep_until(port, true));

    assert_true(uro_port_arm(port));
    assert_false(kit_wait(port, 0));
    kit_kill(peer);
    assert_true(kit_wait(port, 20));
    uro_port_disarm(port);
    assert_true(sleep_until(port, false));
    uro_port_close(port);
}

/* If the peer runs, the first frame must not be lost, because datagrams are not retransmitted. */
static void memif__server_is_asleep__the_first_frame_arrives(void **state)
{
    (void)state;
    pid_t peer = kit_echo_asleep(server, 1500, true, -1);
    struct uro_port *port = kit_open(client, 1500);
    uint32_t sequence;

    assert_true(kit_wait_link(port, true, 20)); /* the server listens now */
    for (uint32_t n = 0; n < 20; n++) {
        uro_port_close(port);
        port = kit_open(client, 1500);
        kit_send(port, n, 100);
        assert_int_equal(kit_receive(port, &sequence, 2), 100);
    }
    uro_port_close(port);
    kit_kill(peer);
}

/* Connects to DPDK's own driver, which assumes that all buffers are as long as its own, 2048 bytes.
 * Both sides split longer frames. */
static void with_dpdk(const char *link, const char *peer, const char *role)
{
    char words[256];
    const char *program = getenv("UROCE_DPDK_MEMIF");

    if (program == NULL)
        skip(); /* uroce was built without DPDK */
    pid_t pid = fork();
    if (pid == 0) {
        char known[256]; /* DPDK's driver has no user= */
        (void)snprintf(known, sizeof known, "%s", peer);
        *strstr(known, ",user=") = '\0';
        execl(program, program, known, role, NULL);
        _exit(127);
    }
    (void)snprintf(words, sizeof words, "%s,bsize=2048", link);
    struct uro_port *port = kit_open(words, 9000);
    every_length_comes_back(port);
    kit_kill(pid);
    assert_true(kit_wait_link(port, false, 20));
    uro_port_close(port);
}

static void memif__dpdk_serves__frames_of_every_length_come_back(void **state)
{
    (void)state;
    with_dpdk(client, server, "server");
}

static void memif__dpdk_is_the_client__frames_of_every_length_come_back(void **state)
{
    (void)state;
    with_dpdk(server, client, "client");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memif__frames_of_every_length__come_back),
        cmocka_unit_test(memif__peer_dies_and_returns__traffic_continues),
        cmocka_unit_test(memif__server_closes_while_a_client_runs__opens_again),
        cmocka_unit_test(memif__both_sleep__every_frame_wakes),
        cmocka_unit_test(memif__asleep_without_a_peer__wakes_when_a_peer_connects),
        cmocka_unit_test(memif__server_is_asleep__the_first_frame_arrives),
        cmocka_unit_test(memif__dpdk_serves__frames_of_every_length_come_back),
        cmocka_unit_test(memif__dpdk_is_the_client__frames_of_every_length_come_back),
    };

    snprintf(server, sizeof server, "net_memif0,role=server,socket=/uroce-test-%ld,user=any",
             (long)getpid());
    snprintf(client, sizeof client, "net_memif0,role=client,socket=/uroce-test-%ld,user=any",
             (long)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
