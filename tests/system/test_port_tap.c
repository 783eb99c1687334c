/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_tap.c - tests TAP ports, which create a kernel interface. */
#define _GNU_SOURCE
#include "support/check.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/port_kit.h"

#define LINK "net_tap0,iface=tap7"
#define PEER "net_af_packet0,iface=tap7"

static void tap__frames_of_every_length__come_back(void **state)
{
    (void)state;
    struct uro_port *port = kit_open(LINK, 0);
    pid_t peer = kit_echo(PEER, 0, false, -1);
    uint32_t sequence;

    assert_int_equal(port->mtu, 1500);
    assert_true(kit_wait_link(port, true, 20));
    kit_meet(port);
    for (uint32_t length = KIT_FRAME_MIN; length <= 1514; length += 2) {
        kit_send(port, length, length);
        assert_int_equal(kit_receive(port, &sequence, 20), length);
        assert_int_equal(sequence, length);
    }
    for (uint32_t round = 0; round < 100; round++) {
        for (uint32_t n = 0; n < 100; n++)
            kit_send(port, n, 1000);
        for (uint32_t n = 0; n < 100; n++) {
            assert_int_equal(kit_receive(port, &sequence, 20), 1000);
            assert_int_equal(sequence, n);
        }
    }
    kit_kill(peer);
    uro_port_close(port);
}

static void tap__both_sleep__every_frame_wakes(void **state)
{
    (void)state;
    struct uro_port *port = kit_open(LINK, 0);
    pid_t peer = kit_echo_asleep(PEER, 0, false, -1);
    uint32_t sequence;
    uint32_t slept = 0;

    assert_true(kit_can_wait(port));
    kit_meet(port);
    for (uint32_t n = 1; n < 3000; n++) {
        kit_send(port, n, 60 + n % 1000);
        assert_int_equal(kit_sleep_receive(port, &sequence, 10, &slept), 60 + n % 1000);
        assert_int_equal(sequence, n);
    }
    assert_true(slept > 100);
    kit_kill(peer);
    uro_port_close(port);
}

/* A program may block all signals in all threads, and receive them in one thread with sigwait(). */
static void tap__all_signals_blocked__frames_arrive_and_no_signal_waits(void **state)
{
    (void)state;
    sigset_t all, before, pending;
    uint32_t sequence;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    struct uro_port *port = kit_open(LINK, 0);
    pid_t peer = kit_echo(PEER, 0, false, -1);
    kit_meet(port);
    for (uint32_t n = 1; n < 1000; n++) {
        kit_send(port, n, 500);
        assert_int_equal(kit_receive(port, &sequence, 20), 500);
    }
    kit_kill(peer);
    sigpending(&pending);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
        struct sigaction action;

        assert_int_equal(sigismember(&pending, number), 0);
        assert_int_equal(sigaction(number, NULL, &action), 0);
        assert_true(action.sa_handler == SIG_DFL);
    }
    assert_int_equal(sigismember(&pending, SIGIO), 0);
    sigdelset(&before, SIGCHLD);
    sigprocmask(SIG_SETMASK, &before, NULL);
    uro_port_close(port);
}

static void tap__two_ports__frames_arrive_at_both(void **state)
{
    (void)state;
    struct uro_port *a = kit_open(LINK, 0);
    struct uro_port *b = kit_open("net_tap1,iface=tap8", 0);
    pid_t peer_a = kit_echo(PEER, 0, false, -1);
    pid_t peer_b = kit_echo("net_af_packet0,iface=tap8", 0, false, -1);
    uint32_t sequence;

    assert_memory_not_equal(&a->mac, &b->mac, sizeof a->mac);
    kit_meet(a);
    kit_meet(b);
    for (uint32_t n = 1; n < 500; n++) {
        kit_send(a, n, 500);
        kit_send(b, n, 700);
        assert_int_equal(kit_receive(a, &sequence, 20), 500);
        assert_int_equal(kit_receive(b, &sequence, 20), 700);
    }
    kit_kill(peer_a);
    kit_kill(peer_b);
    uro_port_close(a);
    uro_port_close(b);
}

static void tap__without_root__error_has_the_reason(void **state)
{
    (void)state;
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        char error[URO_PORT_ERROR_MAX];
        struct uro_port_config config = { .device = "kit", .link = "net_tap3,iface=tap9" };

        kit_become_plain("net_tap");
        _exit(kit_try_open(&config, error) == NULL && strstr(error, "net_tap3") != NULL ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            tap__without_root__error_has_the_reason), /* first, to fork before DPDK starts */
        cmocka_unit_test(tap__frames_of_every_length__come_back),
        cmocka_unit_test(tap__both_sleep__every_frame_wakes),
        cmocka_unit_test(tap__all_signals_blocked__frames_arrive_and_no_signal_waits),
        cmocka_unit_test(tap__two_ports__frames_arrive_at_both),
    };

    kit_own_netns();
    if (access("/dev/net/tun", R_OK | W_OK) != 0)
        kit_skip("needs /dev/net/tun");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
