/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_vhost.c - tests vhost-user ports that sleep until an interrupt of DPDK arrives. */
#include "support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "system/port_kit.h"

#define FRAMES 1000u

static char vhost[128], vhost_client[128];
static char virtio[128], virtio_server[128];

/* Sends frames to a peer that returns them, and sleeps until each returns. */
static void exchange(struct uro_port *port)
{
    uint32_t sequence;
    uint32_t slept = 0;

    assert_true(kit_wait_link(port, true, 20));
    assert_true(kit_can_wait(port));
    kit_meet(port);
    for (uint32_t n = 1; n < FRAMES; n++) {
        kit_send(port, n, 60 + n % 1000);
        assert_int_equal(kit_sleep_receive(port, &sequence, 10, &slept), 60 + n % 1000);
        assert_int_equal(sequence, n);
    }
    assert_true(slept > FRAMES / 30);
}

static void vhost__peer_restarts__every_frame_wakes_both(void **state)
{
    (void)state;
    struct uro_port *port = kit_open(vhost, 0);

    for (unsigned life = 0; life < 3; life++) {
        const pid_t peer = kit_echo_asleep(virtio, 0, false, -1);

        exchange(port);
        kit_kill(peer);
        assert_true(kit_wait_link(port, false, 20));
    }
    uro_port_close(port);
}

static void virtio_user__peer_restarts__every_frame_wakes_both(void **state)
{
    (void)state;
    pid_t peer = kit_echo_asleep(vhost_client, 0, false, -1);
    struct uro_port *port = kit_open(virtio_server, 0); /* waits for its peer */

    exchange(port);
    kit_kill(peer);
    assert_true(kit_wait_link(port, false, 20));
    peer = kit_echo_asleep(vhost_client, 0, false, -1);
    exchange(port);
    kit_kill(peer);
    uro_port_close(port);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vhost__peer_restarts__every_frame_wakes_both),
        cmocka_unit_test(virtio_user__peer_restarts__every_frame_wakes_both),
    };
    const long id = (long)getpid();
    char path[2][64];

    for (unsigned i = 0; i < 2; i++)
        (void)snprintf(path[i], sizeof path[i], "/tmp/uroce-test-%ld-%u.sock", id, i);
    (void)snprintf(vhost, sizeof vhost, "net_vhost0,iface=%s", path[0]);
    (void)snprintf(virtio, sizeof virtio, "net_virtio_user0,path=%s", path[0]);
    (void)snprintf(virtio_server, sizeof virtio_server, "net_virtio_user0,server=1,path=%s",
                   path[1]);
    (void)snprintf(vhost_client, sizeof vhost_client, "net_vhost0,client=1,iface=%s", path[1]);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (unsigned i = 0; i < 2; i++)
        (void)unlink(path[i]);
    return failed;
}
