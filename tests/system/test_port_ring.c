/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_ring.c - tests ports of DPDK's ring driver, which return each sent frame, and the error
 * messages about invalid options. */
#define _GNU_SOURCE
#include "support/check.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "system/port_kit.h"

static void ring__frames_of_every_length__come_back(void **state)
{
    (void)state;
    struct uro_port *port = kit_open("net_ring0", 9000);
    uint32_t sequence;

    assert_int_equal(port->mtu, 9000);
    assert_false(uro_port_has(port, URO_PORT_CALL_PER_SEND));
    for (uint32_t length = KIT_FRAME_MIN; length <= 9018; length += 61) {
        kit_send(port, length, length);
        assert_int_equal(kit_receive(port, &sequence, 5), length);
        assert_int_equal(sequence, length);
    }
    uro_port_close(port);
}

/* Without zeros as padding, a card could send old bytes of the buffer after a short frame. */
static void ring__frame_shorter_than_ethernet_allows__is_padded_with_zeros(void **state)
{
    (void)state;
    static const uint8_t zeros[KIT_FRAME_MIN];
    struct uro_port *port = kit_open("net_ring9", 0);
    struct uro_tx tx = { .head_length = 42 };
    struct uro_pkt pkt;
    uint32_t sequence;

    for (uint32_t i = 1; i < 2000; i++) { /* enough frames to use every buffer */
        kit_send(port, i, 1000);
        assert_int_equal(kit_receive(port, &sequence, 5), 1000);
    }
    memset(tx.head, 0xff, tx.head_length);
    uro_port_transmit(port, &tx, 1);
    while (uro_port_receive(port, &pkt, 1) == 0)
        (void)uro_port_tx_free_count(port);
    assert_int_equal(pkt.length, KIT_FRAME_MIN);
    assert_memory_equal(pkt.octets, tx.head, tx.head_length);
    assert_memory_equal(pkt.octets + tx.head_length, zeros, KIT_FRAME_MIN - tx.head_length);
    uro_port_release(port, &pkt, 1);
    uro_port_close(port);
}

static void ring__two_ports_in_one_process__are_independent(void **state)
{
    (void)state;
    struct uro_port *a = kit_open("net_ring1", 0);
    struct uro_port *b = kit_open("net_ring2", 0);
    struct uro_pkt pkt;
    uint32_t sequence;

    kit_send(a, 1, 100);
    assert_int_equal(uro_port_receive(b, &pkt, 1), 0);
    kit_send(b, 2, 200);
    assert_int_equal(kit_receive(a, &sequence, 5), 100);
    assert_int_equal(kit_receive(b, &sequence, 5), 200);
    uro_port_close(a);
    uro_port_close(b);
}

static void ring__closed_port__opens_again(void **state)
{
    (void)state;
    uint32_t sequence;

    for (uint32_t i = 0; i < 20; i++) {
        struct uro_port *port = kit_open("net_ring3", 4096);
        kit_send(port, i, 1000);
        if (i % 2 == 0)
            assert_int_equal(kit_receive(port, &sequence, 5), 1000);
        uro_port_close(port);
    }
}

static void ring__arm_with_frames_pending__does_not_sleep(void **state)
{
    (void)state;
    struct uro_port *port = kit_open("net_ring4", 0);
    uint32_t sequence;

    assert_true(uro_port_arm(port));
    uro_port_disarm(port);
    kit_send(port, 1, 100);
    assert_false(uro_port_arm(port));
    uro_port_disarm(port);
    assert_int_equal(kit_receive(port, &sequence, 5), 100);
    uro_port_close(port);
}

/* DPDK loads every driver in its folder if it uses shared libraries. The plug-in must not do so. */
static void open__any_port__loads_no_driver_from_outside(void **state)
{
    (void)state;
    struct uro_port *port = kit_open("net_ring6", 0);
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        assert_null(strstr(line, "librte_"));
    fclose(maps);
    uro_port_close(port);
}

/* DPDK pins its caller, and all threads that the caller starts later, to one CPU. */
static void open__any_port__leaves_affinity_and_signals_alone(void **state)
{
    (void)state;
    cpu_set_t before, after;
    sigset_t mask_before = { 0 };
    sigset_t mask_after = { 0 };

    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    sigprocmask(SIG_SETMASK, NULL, &mask_before);
    struct uro_port *port = kit_open("net_ring7", 0);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    sigprocmask(SIG_SETMASK, NULL, &mask_after);
    assert_true(CPU_EQUAL(&before, &after));
    assert_memory_equal(&mask_before, &mask_after, sizeof mask_before);
    uro_port_close(port);
}

static void vhost__no_peer__waits_with_the_link_down(void **state)
{
    (void)state;
    char path[64];
    char link[128];

    snprintf(path, sizeof path, "/tmp/uroce-test-vhost-%ld", (long)getpid());
    snprintf(link, sizeof link, "net_vhost0,iface=%s", path);
    struct uro_port *port = kit_open(link, 1500);
    assert_false(uro_port_link_up(port));
    assert_true(kit_can_wait(port));
    assert_true(uro_port_arm(port));
    uro_port_disarm(port);
    kit_send(port, 1, 100); /* no peer receives it */
    uro_port_close(port);
    assert_int_equal(access(path, F_OK), -1);
}

static void explains(const char *link, const char *words)
{
    char error[URO_PORT_ERROR_MAX];
    struct uro_port_config config = { .device = "kit", .link = link };

    if (kit_try_open(&config, error) != NULL)
        fail_msg("\"%s\" was opened", link);
    if (strstr(error, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error, words);
}

static void open__wrong_options__error_has_the_option(void **state)
{
    (void)state;
    explains("memif0", "DPDK carries no such link");
    explains("", "DPDK carries no such link");
    explains("net_af_packet0", "write net_af_packet0,iface=NAME");
    explains("net_af_packet0,iface=none0", "no network interface none0");
    explains("0000:00:1f.7", "PCI");

    struct uro_port *port = kit_open("net_ring5", 0);
    explains("net_ring5", "open already");
    uro_port_close(port);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__any_port__leaves_affinity_and_signals_alone), /* starts DPDK */
        cmocka_unit_test(open__any_port__loads_no_driver_from_outside),
        cmocka_unit_test(ring__frames_of_every_length__come_back),
        cmocka_unit_test(ring__frame_shorter_than_ethernet_allows__is_padded_with_zeros),
        cmocka_unit_test(ring__two_ports_in_one_process__are_independent),
        cmocka_unit_test(ring__closed_port__opens_again),
        cmocka_unit_test(ring__arm_with_frames_pending__does_not_sleep),
        cmocka_unit_test(vhost__no_peer__waits_with_the_link_down),
        cmocka_unit_test(open__wrong_options__error_has_the_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
