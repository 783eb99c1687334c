/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memif_threads.c - interfaces that share a socket, each with a thread of its own, while their
 * clients connect and disconnect. Other connections to the socket send nothing. */
#include "support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "unit/io/memif_kit.h"

#define SIDES  2u
#define LIVES  15u
#define FRAMES 100u

static atomic_bool stopping;
static atomic_uint got[SIDES];
static atomic_uint failed;

static struct uro_port *open_side(const char *role, unsigned id)
{
    char error[URO_PORT_ERROR_MAX], link[128];
    const struct uro_port_config config = { .device = "kit", .link = link };

    (void)snprintf(link, sizeof link, "net_memif0,socket=%s,role=%s,id=%u", kit_name(), role, id);
    struct uro_port *port = uro_memif_open(&config, error);
    if (port == NULL)
        atomic_fetch_add(&failed, 1);
    return port;
}

/* Runs a server that sleeps like a device, until the test ends. */
static void *serve(void *argument)
{
    const unsigned side = *(const unsigned *)argument;
    struct uro_port *port = open_side("server", side);

    while (port != NULL && !atomic_load(&stopping)) {
        struct uro_pkt pkts[URO_PORT_BURST];
        uint32_t count = uro_port_receive(port, pkts, URO_PORT_BURST);
        if (count > 0) {
            for (uint32_t i = 0; i < count; i++)
                atomic_fetch_add(&failed, pkts[i].octets[20] != side);
            uro_port_release(port, pkts, count);
            atomic_fetch_add(&got[side], count);
            continue;
        }
        (void)uro_port_link_up(port);
        if (uro_port_arm(port))
            (void)kit_wakes(port, 100);
        uro_port_disarm(port);
    }
    if (port != NULL)
        uro_port_close(port);
    return NULL;
}

static void send_all(struct uro_port *port, unsigned side, unsigned already)
{
    const struct uro_tx tx = { .head_length = 64, .head = { [20] = (uint8_t)side } };

    for (unsigned sent = 0; sent < FRAMES;) {
        uint32_t free_slots = uro_port_tx_free_count(port);
        if (free_slots > 0)
            uro_port_transmit(port, &tx, 1), sent++;
        else
            (void)sched_yield();
    }
    while (atomic_load(&got[side]) < already + FRAMES && atomic_load(&failed) == 0)
        (void)sched_yield();
}

static void *come_and_go(void *argument)
{
    const unsigned side = *(const unsigned *)argument;

    for (unsigned life = 0; life < LIVES && atomic_load(&failed) == 0; life++) {
        struct uro_port *port = open_side("client", side);
        int stranger = memif_peer_connect(kit_name());
        while (port != NULL && !uro_port_link_up(port) && atomic_load(&failed) == 0)
            (void)sched_yield();
        if (port != NULL && atomic_load(&failed) == 0)
            send_all(port, side, life * FRAMES);
        if (port != NULL)
            uro_port_close(port);
        if (stranger >= 0)
            (void)close(stranger);
    }
    return NULL;
}

static void two_interfaces__each_with_its_thread__every_frame_arrives(void **state)
{
    static const unsigned sides[SIDES] = { 0, 1 };
    pthread_t servers[SIDES], clients[SIDES];

    (void)state;
    for (unsigned i = 0; i < SIDES; i++) {
        assert_int_equal(pthread_create(&servers[i], NULL, serve, (void *)(uintptr_t)&sides[i]), 0);
        assert_int_equal(
            pthread_create(&clients[i], NULL, come_and_go, (void *)(uintptr_t)&sides[i]), 0);
    }
    for (unsigned i = 0; i < SIDES; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
    atomic_store(&stopping, true);
    for (unsigned i = 0; i < SIDES; i++)
        assert_int_equal(pthread_join(servers[i], NULL), 0);
    assert_int_equal(atomic_load(&failed), 0);
    for (unsigned i = 0; i < SIDES; i++)
        assert_int_equal(atomic_load(&got[i]), LIVES * FRAMES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_interfaces__each_with_its_thread__every_frame_arrives),
    };
    return cmocka_run_group_tests_name("io/memif_threads", tests, NULL, NULL);
}
