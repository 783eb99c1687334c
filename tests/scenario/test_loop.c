/* SPDX-License-Identifier: BSD-3-Clause */
/* test_loop.c - tests queue pairs of one engine that are connected to each other. The engine sends
 * none of their frames to the link. */
#include <string.h>

#include "base/mark.h"
#include "twins.h"
#include "wire/arp.h"
#include "wire/ether.h"
#include "wire/gid.h"

#define LOOP_FRAMES 32u /* capacity of the loop queue */

static const struct uro_mac own_mac = { TWINS_MAC };
static const struct uro_mac peer_mac = { { 2, 0, 0, 0, 0, 2 } };

/* ---- between two queue pairs -------------------------------------------- */

static void send__to_the_same_device__arrives_at_once_without_a_frame(void **state)
{
    struct twins *s = *state;
    const uint32_t headers = 20 + 8 + 12 + 4; /* IPv4, UDP, BTH, ICRC */

    twins_connect(s);
    twins_fill(&s->a, 0, 100);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(&s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->b, 7, UROCE_SUCCESS);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
    assert_memory_equal(s->b.memory, s->a.memory, 100);
    assert_true(uro_mark_hit("LOOP.SAME"));
    assert_int_equal(twins_counter(s, "loop_frames"), 2); /* the SEND and its ACK */
    assert_int_equal(twins_counter(s, "tx_roce"), 2);
    assert_int_equal(twins_counter(s, "rx_roce"), 2);
    assert_int_equal(twins_counter(s, "tx_roce_bytes"), 2 * headers + 100 + 4);
    assert_int_equal(twins_counter(s, "rx_roce_bytes"), 2 * headers + 100 + 4);
    assert_int_equal(twins_counter(s, "tx_frames"), 0);
    assert_int_equal(twins_counter(s, "rx_frames"), 0);
    assert_true(uroce_engine_next(s->engine) > s->now);
}

static void send__to_itself__one_queue_pair_is_both_ends(void **state)
{
    struct twins *s = *state;

    twins_connect_to(s, &s->a, 0, TWINS_MAC_GID, uroce_qp_number(s->a.qp));
    twins_fill(&s->a, 0, 3000);
    twins_post_recv(&s->a, 7, 4096, 4096);
    twins_post_send(&s->a, 1, 0, 3000);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->a, 7, UROCE_SUCCESS);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
    assert_memory_equal(s->a.memory + 4096, s->a.memory, 3000);
}

static void send__to_a_local_address_in_another_subnet__needs_no_gateway(void **state)
{
    struct twins *s = *state;

    twins_connect_to(s, &s->a, 1, "10.9.9.9", uroce_qp_number(s->b.qp));
    twins_connect_to(s, &s->b, 2, "10.0.0.1", uroce_qp_number(s->a.qp));
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(&s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->b, 7, UROCE_SUCCESS);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
}

static void write_and_read__much_larger_than_the_loop_buffer__arrive_whole(void **state)
{
    struct twins *s = *state;
    const uint32_t length = 200001;
    struct uroce_send send = { .wr_id = 1,
                               .opcode = UROCE_RDMA_WRITE,
                               .remote_address = (uintptr_t)s->b.memory,
                               .rkey = uroce_mr_key(s->b.mr) };

    twins_connect(s);
    twins_fill(&s->a, 0, length);
    twins_post(&s->a, &send, 0, length);
    send.wr_id = 2;
    send.opcode = UROCE_RDMA_READ;
    twins_post(&s->a, &send, TWINS_MEMORY / 2, length);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
    twins_expect(s, &s->a, 2, UROCE_SUCCESS);
    assert_memory_equal(s->b.memory, s->a.memory, length);
    assert_memory_equal(s->a.memory + TWINS_MEMORY / 2, s->a.memory, length);
    assert_int_equal(twins_counter(s, "retry_rounds"), 0); /* a full loop loses nothing */
    assert_int_equal(s->b.memory[length], 0xee);
}

static void atomic__to_the_same_device__executed_once_and_completed(void **state)
{
    struct twins *s = *state;
    uint64_t value = 40;
    const struct uroce_send send = { .wr_id = 1,
                                     .opcode = UROCE_FETCH_ADD,
                                     .compare_add = 2,
                                     .remote_address = (uintptr_t)s->b.memory,
                                     .rkey = uroce_mr_key(s->b.mr) };

    twins_connect(s);
    memcpy(s->b.memory, &value, 8);
    twins_post(&s->a, &send, 0, 8);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
    assert_memory_equal(s->a.memory, &value, 8);
    value = 42;
    assert_memory_equal(s->b.memory, &value, 8);
}

static void send__no_receive_posted__arrives_after_a_receive_is_posted(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    twins_post_send(&s->a, 1, 0, 10);
    assert_int_equal(twins_pass_time(s, URO_MS(1)), 0);
    assert_true(twins_counter(s, "rcvd_rnr_err") > 2);
    twins_expect_nothing(s, &s->a);
    twins_post_recv(&s->b, 7, 0, 200);
    assert_int_equal(twins_pass_time(s, URO_MS(2)), 0);
    twins_expect(s, &s->b, 7, UROCE_SUCCESS);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
}

/* More frames are sent than the loop queue holds, and the caller asks for more frames. The queue
 * fills up but never overflows, and nothing is lost. */
static void send__more_than_the_loop_buffer__all_arrive_in_order(void **state)
{
    struct twins *s = *state;
    struct uroce_packet kept[2 * LOOP_FRAMES];

    twins_connect(s);
    for (uint32_t i = 0; i < 100; i++) {
        twins_post_recv(&s->b, i, i, 1);
        s->a.memory[i] = (uint8_t)i;
        twins_post_send(&s->a, 1000 + i, i, 1);
    }
    assert_int_equal(twins_output(s, 2 * TWINS_BURST), 0);
    assert_int_equal(uroce_engine_looped(s->engine, kept, 2 * LOOP_FRAMES), LOOP_FRAMES);
    assert_int_equal(uroce_engine_next(s->engine), s->now);
    assert_int_equal(twins_settle(s), 0);
    for (uint32_t i = 0; i < 100; i++) {
        twins_expect(s, &s->b, i, UROCE_SUCCESS);
        twins_expect(s, &s->a, 1000 + i, UROCE_SUCCESS);
    }
    assert_memory_equal(s->b.memory, s->a.memory, 100);
    assert_int_equal(twins_counter(s, "retry_rounds"), 0);
}

/* ---- checked like received frames ---------------------------------------- */

static void looped_frame__damaged__is_dropped_and_retransmitted(void **state)
{
    struct twins *s = *state;
    struct uroce_packet kept;

    twins_connect(s);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(&s->a, 1, 0, 100);
    assert_int_equal(twins_output(s, TWINS_BURST), 0);
    assert_int_equal(uroce_engine_looped(s->engine, &kept, 1), 1);
    ((uint8_t *)(uintptr_t)kept.bytes)[80] ^= 1;
    assert_int_equal(twins_settle(s), 0);
    assert_int_equal(twins_counter(s, "drop_icrc"), 1);
    twins_expect_nothing(s, &s->b);
    assert_int_equal(twins_pass_time(s, URO_MS(20)), 0);
    twins_expect(s, &s->b, 7, UROCE_SUCCESS);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
}

static void looped_frame__destination_qp_destroyed__sender_gives_up(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(&s->a, 1, 0, 100);
    assert_int_equal(twins_output(s, TWINS_BURST), 0);
    twins_destroy_qp(s, &s->b);
    assert_int_equal(twins_pass_time(s, URO_MS(100)), 0);
    assert_int_equal(twins_counter(s, "drop_qpn"), 3);
    twins_expect(s, &s->a, 1, UROCE_RETRY_EXC_ERR);
    twins_expect_nothing(s, &s->b);
}

static void looped_frame__sending_qp_destroyed__arrives_and_ack_is_dropped(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    twins_fill(&s->a, 0, 100);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(&s->a, 1, 0, 100);
    assert_int_equal(twins_output(s, TWINS_BURST), 0);
    twins_destroy_qp(s, &s->a);
    memset(s->a.memory, 0, 100);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->b, 7, UROCE_SUCCESS);
    assert_int_equal(s->b.memory[0], 1);
    assert_int_equal(twins_counter(s, "drop_qpn"), 1);
    twins_expect_nothing(s, &s->a);
}

/* ---- together with frames on the wire ------------------------------------ */

static void learn_peer(struct twins *s, const char *address)
{
    uint8_t frame[64];
    const struct uro_ether ether = { .dest = own_mac,
                                     .source = peer_mac,
                                     .type = URO_ETHERTYPE_ARP };
    struct uro_arp arp = { .sender_mac = peer_mac, .target_mac = own_mac };

    assert_true(uro_gid_parse(address, &arp.sender) && uro_gid_parse("10.0.0.1", &arp.target));
    size_t at = uro_ether_put(frame, &ether);
    uro_arp_encode(frame + at, &arp);
    const struct uroce_packet packet = { .bytes = frame, .length = (uint32_t)at + URO_ARP_LEN };
    assert_int_equal(uroce_engine_input(s->engine, &packet, 1, s->now), 0);
}

/* b sends to itself and a sends to a peer. The memory of a's frames must stay until they are
 * written, so the next call delivers b's frames. */
static void mixed__looped_and_sent_frames__looped_frames_come_last(void **state)
{
    struct twins *s = *state;
    const struct uroce_send send = { .opcode = UROCE_SEND, .flags = UROCE_INLINE };

    twins_connect_to(s, &s->a, 1, "10.0.0.2", 0xabc);
    twins_connect_to(s, &s->b, 1, "10.0.0.1", uroce_qp_number(s->b.qp));
    assert_int_equal(twins_settle(s), 1);
    learn_peer(s, "10.0.0.2");
    for (uint32_t i = 0; i < 3; i++) {
        twins_post_recv(&s->b, i, 0, 8);
        twins_post(&s->b, &send, 0, 8);
        twins_post(&s->a, &send, 0, 8);
    }
    uint64_t before = twins_counter(s, "tx_frames");
    assert_int_equal(twins_output(s, TWINS_BURST), 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_memory_equal(twins_frame(i)->bytes, &peer_mac, sizeof peer_mac);
    twins_expect_nothing(s, &s->b);
    assert_int_equal(uroce_engine_next(s->engine), s->now);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->b, 0, UROCE_SUCCESS);
    assert_int_equal(twins_counter(s, "tx_frames") - before, 3);
    assert_int_equal(twins_counter(s, "loop_frames"), 4); /* the ACKs were coalesced */
}

/* ---- the hop ------------------------------------------------------------ */

static void hop__link_down_and_up__local_address_stays_resolved(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    uroce_engine_link(s->engine, false, s->now);
    uroce_engine_link(s->engine, true, s->now);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(&s->a, 1, 0, 100);
    const uint32_t sent = twins_pass_time(s, URO_MS(100000));
    assert_int_equal(
        sent, twins_counter(s, "membership_tx")); /* membership reports, but no ARP request */
    twins_expect(s, &s->b, 7, UROCE_SUCCESS);
    assert_int_equal(twins_counter(s, "arp_tx"), 0);
}

static void hop__arp_claims_the_local_address__is_ignored(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    learn_peer(s, "10.0.0.1");
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(&s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->b, 7, UROCE_SUCCESS);
}

/* ---- an address that other processes have, too -------------------------- */

static void shared_address__to_the_local_qpn_prefix__no_frame_and_no_retransmit(void **state)
{
    struct twins *s = *state;
    const uint32_t length = 200000;
    struct uroce_send send = { .wr_id = 1,
                               .opcode = UROCE_RDMA_READ,
                               .remote_address = (uintptr_t)s->b.memory,
                               .rkey = uroce_mr_key(s->b.mr) };

    twins_connect(s);
    twins_fill(&s->b, 0, length);
    twins_post(&s->a, &send, 0, length);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(s, &s->a, 1, UROCE_SUCCESS);
    assert_memory_equal(s->a.memory, s->b.memory, length);
    assert_true(uro_mark_hit("LOOP.SHARE"));
    assert_int_equal(twins_counter(s, "tx_frames"), 0);
    assert_int_equal(twins_counter(s, "duplicate_request"), 0);
    assert_int_equal(twins_counter(s, "retry_rounds"), 0);
}

static void shared_address__to_the_qpn_prefix_of_another_process__is_sent(void **state)
{
    struct twins *s = *state;

    twins_connect_to(s, &s->a, 1, "10.0.0.1", (TWINS_SHARE + 1) << 18 | 17);
    twins_post_send(&s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 1);
    assert_int_equal(twins_counter(s, "loop_frames"), 0);
}

static void shared_address__local_qpn_prefix_at_another_address__is_sent(void **state)
{
    struct twins *s = *state;

    twins_connect_to(s, &s->a, 1, "10.0.0.2", uroce_qp_number(s->b.qp));
    twins_post_send(&s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 1);
    assert_int_equal(twins_counter(s, "loop_frames"), 0);
}

int main(void)
{
#define SHARED_TEST(name) cmocka_unit_test_setup_teardown(name, twins_open_shared, twins_close)
#define LOOP_TEST(name)   cmocka_unit_test_setup_teardown(name, twins_open, twins_close)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(send__to_the_same_device__arrives_at_once_without_a_frame),
        LOOP_TEST(send__to_itself__one_queue_pair_is_both_ends),
        LOOP_TEST(send__to_a_local_address_in_another_subnet__needs_no_gateway),
        LOOP_TEST(write_and_read__much_larger_than_the_loop_buffer__arrive_whole),
        LOOP_TEST(atomic__to_the_same_device__executed_once_and_completed),
        LOOP_TEST(send__no_receive_posted__arrives_after_a_receive_is_posted),
        LOOP_TEST(send__more_than_the_loop_buffer__all_arrive_in_order),
        LOOP_TEST(looped_frame__damaged__is_dropped_and_retransmitted),
        LOOP_TEST(looped_frame__destination_qp_destroyed__sender_gives_up),
        LOOP_TEST(looped_frame__sending_qp_destroyed__arrives_and_ack_is_dropped),
        LOOP_TEST(mixed__looped_and_sent_frames__looped_frames_come_last),
        LOOP_TEST(hop__link_down_and_up__local_address_stays_resolved),
        LOOP_TEST(hop__arp_claims_the_local_address__is_ignored),
        SHARED_TEST(shared_address__to_the_local_qpn_prefix__no_frame_and_no_retransmit),
        SHARED_TEST(shared_address__to_the_qpn_prefix_of_another_process__is_sent),
        SHARED_TEST(shared_address__local_qpn_prefix_at_another_address__is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
