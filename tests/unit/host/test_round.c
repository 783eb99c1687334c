/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests rounds of a device. Frames of a queue pair to itself must not reach the port. The port must
 * get the list of joined groups. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_port.h"
#include "host/device.h"
#include "support/must.h"

#define SENDS 40u /* more frames than the loop of the engine can hold */

static char capture[] = "/tmp/uroce_test_round_XXXXXX";

/* Blocks that a leak checker would report otherwise, because it does not search the engine's mapped
 * memory for pointers. */
static void *taken[16];
static uint32_t taken_count;

static void *take(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    MUST(memory != NULL && taken_count < URO_ARRAY_LEN(taken));
    taken[taken_count++] = memory;
    return memory;
}

static void modify(struct uro_device *device, struct uro_qp *qp, const struct uro_qp_attr *attr,
                   unsigned mask)
{
    MUST(uro_engine_qp_modify(device->engine, qp, attr, mask | URO_ATTR_STATE, uro_device_now()) ==
         0);
}

static struct uro_qp *connect_to_itself(struct uro_device *device, struct uro_cq *cq)
{
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .send_cq = cq,
                                      .recv_cq = cq,
                                      .send_capacity = SENDS,
                                      .recv_capacity = SENDS };
    struct uro_qp *qp =
        uro_qp_create(uro_engine_shard(device->engine), &init, take(uro_qp_size(&init)));
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = 1,
                                .path_mtu = 1024,
                                .dest_qpn = uro_qp_number(qp),
                                .timeout = 14,
                                .retry_count = 7,
                                .address = { .sgid_index = 1 } };

    MUST(uro_gid_parse("10.0.0.1", &attr.address.dest));
    modify(device, qp, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    attr.state = URO_QPS_RTR;
    modify(device, qp, &attr,
           URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
               URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR);
    attr.state = URO_QPS_RTS;
    modify(device, qp, &attr,
           URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_SQ_PSN |
               URO_ATTR_RD_ATOMIC);
    return qp;
}

/* Returns a locked device whose queue pair has SENDs to itself. *@cq is their CQ. */
static struct uro_device *with_sends_to_itself(const char *devices, struct uro_cq **cq)
{
    fake.link_up = false; /* so that no membership report is sent */
    MUST(setenv("UROCE_DEVICES", devices, 1) == 0);
    struct uro_device *device = uro_host_devices()[0];
    MUST(device != NULL && uro_device_start(device) == 0);
    uro_device_lock(device);
    *cq = uro_cq_init(take(uro_cq_size(2 * SENDS)), 2 * SENDS, NULL);
    struct uro_qp *qp = connect_to_itself(device, *cq);
    for (uint32_t i = 0; i < SENDS; i++) {
        *(struct uro_rqe *)uro_wq_reserve(uro_qp_recv_queue(qp), i) = (struct uro_rqe){ 0 };
        *(struct uro_wqe *)uro_wq_reserve(uro_qp_send_queue(qp), i) =
            (struct uro_wqe){ .opcode = URO_WR_SEND, .flags = URO_SEND_SIGNALED };
    }
    uro_wq_publish(uro_qp_recv_queue(qp), SENDS);
    uro_wq_publish(uro_qp_send_queue(qp), SENDS);
    uro_qp_ring(uro_engine_shard(device->engine), qp);
    return device;
}

static void talks_to_itself(void)
{
    char devices[256];
    uint32_t received;
    struct uro_cqe cqes[2 * SENDS];
    struct uro_cq *cq;

    (void)snprintf(devices, sizeof devices, "one:fake0;ip=10.0.0.1/24;pcap=%s", capture);
    struct uro_device *device = with_sends_to_itself(devices, &cq);
    uint32_t moved = uro_round_run(device, true, uro_device_now(), &received);
    MUST(received == 0);
    MUST(moved >= SENDS + 2); /* and an ACK for each time that the loop was full */
    MUST(uro_engine_counters(device->engine)->value[URO_COUNT_LOOP_FRAMES] == moved);
    MUST(uro_cq_poll(cq, cqes, 2 * SENDS) == 2 * SENDS);
    MUST(fake.sent == 0);
    uro_device_unlock(device); /* the end of the process closes the capture */
}

static void round__queue_pair_connected_to_itself__all_frames_in_one_round_and_captured_once(
    void **state)
{
    const size_t octets = 14 + 20 + 8 + 12 + 4, with_ack = octets + 4;

    (void)state;
    int fd = mkstemp(capture);
    assert_true(fd >= 0);
    assert_int_equal(must_status(talks_to_itself), 0);
    assert_int_equal(lseek(fd, 0, SEEK_END), 24 + SENDS * (16 + octets) + 2 * (16 + with_ack));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(capture), 0);
}

static void talks_to_itself_over_a_full_link(void)
{
    uint32_t received;
    struct uro_cq *cq;

    fake.tx_free_count = 1;
    struct uro_device *device = with_sends_to_itself("one:fake0;ip=10.0.0.1/24", &cq);
    const uint64_t *looped = &uro_engine_counters(device->engine)->value[URO_COUNT_LOOP_FRAMES];
    uint32_t moved = uro_round_run(device, true, uro_device_now(), &received);
    MUST(moved > 0 &&
         *looped ==
             moved -
                 1); /* the last frame is delivered in the next round, because a round is limited */
    fake.tx_free_count = 0;
    MUST(uro_round_run(device, true, uro_device_now(), &received) == 0);
    MUST(*looped == moved);
    uro_device_unlock(device);
}

static void round__link_full__looped_frames_are_delivered(void **state)
{
    (void)state;
    assert_int_equal(must_status(talks_to_itself_over_a_full_link), 0);
}

static bool wanted(const uint8_t octets[6])
{
    for (uint32_t i = 0; i < fake.mac_count; i++)
        if (memcmp(&fake.macs[i], octets, 6) == 0)
            return true;
    return false;
}

/* rule MCAST.MAC */
static void joins_a_group(void)
{
    static const uint8_t nodes[6] = { 0x33, 0x33, 0, 0, 0, 1 };
    static const uint8_t mac[6] = { 0x33, 0x33, 0, 1, 0, 2 };
    struct uro_gid group;
    uint32_t received;

    MUST(setenv("UROCE_DEVICES", "one:fake0;ip=10.0.0.1/24", 1) == 0);
    struct uro_device *device = uro_host_devices()[0];
    MUST(device != NULL && uro_device_start(device) == 0);
    MUST(fake.multicasts == 1 && wanted(nodes) && !wanted(mac));
    fake_wait(&fake.reports, 1); /* report of the groups that the device joins at its start */
    uro_device_lock(device);
    MUST(uro_gid_parse("ff0e::1:2", &group));
    MUST(uro_engine_join(device->engine, &group, uro_device_now()) == 0);
    const uint32_t before = fake_read(&fake.reports);
    (void)uro_round_run(device, true, uro_device_now(), &received);
    MUST(fake.multicasts == 2 && wanted(nodes) && wanted(mac));
    MUST(fake_read(&fake.reports) == before + 1);
    (void)uro_round_run(device, true, uro_device_now(), &received);
    MUST(fake.multicasts == 2);
    uro_engine_leave(device->engine, &group, uro_device_now());
    (void)uro_round_run(device, true, uro_device_now(), &received);
    MUST(fake.multicasts == 3 && wanted(nodes) && !wanted(mac));
    uro_device_unlock(device);
}

static void round__group_joined__port_filter_is_set_before_the_report(void **state)
{
    (void)state;
    assert_int_equal(must_status(joins_a_group), 0);
}

/* The peer of a memif does not run any more, so its ring stays full. */
static void link_takes_nothing(void)
{
    uint32_t received;

    fake.link_up = true;
    MUST(setenv("UROCE_DEVICES", "one:fake0;ip=10.0.0.1/24", 1) == 0);
    struct uro_device *device = uro_host_devices()[0];
    MUST(device != NULL && uro_device_start(device) == 0);
    fake_wait(&fake.reports, 1);
    uro_device_lock(device);
    const uint64_t *lost = &uro_engine_counters(device->engine)->value[URO_COUNT_TX_STUCK];
    /* By then the engine has sent both of its membership reports. */
    uro_time now = uro_device_now() + URO_MS(60000);
    (void)uro_round_run(device, true, now, &received);
    fake.tx_free_count = 0;
    fake.sent = 0;
    fake_inject_echo(&device->port->mac);
    (void)uro_round_run(device, true, now, &received);
    MUST(received == 1);
    (void)uro_round_run(device, true, now + URO_MS(99), &received);
    MUST(fake.sent == 0 && *lost == 0); /* the frames wait for a slow peer */
    (void)uro_round_run(device, true, now + URO_MS(101), &received);
    MUST(fake.sent == 0 && *lost == 1);

    fake.tx_free_count = URO_PORT_BURST;
    fake_inject_echo(&device->port->mac);
    (void)uro_round_run(device, true, now + URO_MS(102), &received);
    MUST(fake.sent == 1 && *lost == 1);
    fake.tx_free_count = 0; /* the time limit starts again */
    fake_inject_echo(&device->port->mac);
    (void)uro_round_run(device, true, now + URO_MS(103), &received);
    (void)uro_round_run(device, true, now + URO_MS(200), &received);
    MUST(fake.sent == 1 && *lost == 1);
    _exit(0); /* the lock is still held, so no round with an earlier time can run */
}

static void round__link_full_for_long__frames_are_lost_and_timers_run(void **state)
{
    (void)state;
    assert_int_equal(must_status(link_takes_nothing), 0);
}

static void link__of_two_engines__is_up_while_both_are(void **state)
{
    static struct uro_device first, second;

    (void)state;
    first.first_engine = second.first_engine = &first;
    assert_false(uro_round_link_changed(&first, true)); /* both are up at first */
    assert_true(uro_round_link_changed(&second, false));
    assert_false(uro_round_link_changed(&second, false));
    assert_false(uro_round_link_changed(&first, false));
    assert_int_equal(first.engines_down, 2);
    assert_false(uro_round_link_changed(&second, true));
    assert_false(uro_round_link_changed(&second, true));
    assert_true(uro_round_link_changed(&first, true));
    assert_int_equal(first.engines_down, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            round__queue_pair_connected_to_itself__all_frames_in_one_round_and_captured_once),
        cmocka_unit_test(round__link_full__looped_frames_are_delivered),
        cmocka_unit_test(round__group_joined__port_filter_is_set_before_the_report),
        cmocka_unit_test(round__link_full_for_long__frames_are_lost_and_timers_run),
        cmocka_unit_test(link__of_two_engines__is_up_while_both_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
