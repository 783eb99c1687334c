/* SPDX-License-Identifier: BSD-3-Clause */
/* test_loop.c - queue pairs of one engine connected to each other: none of their frames leaves. */
#include <string.h>

#include "base/mark.h"
#include "core/path.h"
#include "engine/loop.h"
#include "twins.h"
#include "wire/arp.h"

static const struct uro_mac peer_mac = { { 2, 0, 0, 0, 0, 2 } };

/* ---- between two queue pairs -------------------------------------------- */

static void send__to_ourselves__arrives_at_once_and_nothing_leaves(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    twins_fill(&s->a, 0, 100);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->b, 7, URO_WC_SUCCESS);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
    assert_memory_equal(s->b.memory, s->a.memory, 100);
    assert_true(uro_mark_hit("LOOP.SAME"));
    assert_int_equal(twins_counter(s, URO_COUNT_LOOP_FRAMES), 2); /* and its acknowledgement */
    assert_int_equal(twins_counter(s, URO_COUNT_TX_ROCE), 2);
    assert_int_equal(twins_counter(s, URO_COUNT_RX_ROCE), 2);
    const uint32_t headers = 20 + 8 + 12 + 4; /* IPv4, UDP, BTH, ICRC */
    assert_int_equal(twins_counter(s, URO_COUNT_TX_BYTES), 2 * headers + 100 + 4);
    assert_int_equal(twins_counter(s, URO_COUNT_RX_BYTES), 2 * headers + 100 + 4);
    assert_int_equal(twins_counter(s, URO_COUNT_TX_FRAMES), 0);
    assert_int_equal(twins_counter(s, URO_COUNT_RX_FRAMES), 0);
    assert_true(uro_engine_next(s->engine) > s->now);
}

static void send__to_itself__one_queue_pair_is_both_ends(void **state)
{
    struct twins *s = *state;

    twins_connect_to(s, &s->a, 0, uro_gid_link_local(&twins_mac), uro_qp_number(s->a.qp));
    twins_fill(&s->a, 0, 3000);
    twins_post_recv(&s->a, 7, 4096, 4096);
    twins_post_send(s, &s->a, 1, 0, 3000);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->a, 7, URO_WC_SUCCESS);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
    assert_memory_equal(s->a.memory + 4096, s->a.memory, 3000);
}

static void send__to_another_address_of_ours_in_another_subnet__needs_no_gateway(void **state)
{
    struct twins *s = *state;

    twins_connect_to(s, &s->a, 1, twins_gid("10.9.9.9"), uro_qp_number(s->b.qp));
    twins_connect_to(s, &s->b, 2, twins_gid("10.0.0.1"), uro_qp_number(s->a.qp));
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->b, 7, URO_WC_SUCCESS);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
}

static void write_and_read__many_times_what_the_loop_holds__arrive_whole(void **state)
{
    struct twins *s = *state;
    const uint32_t length = 200001;
    struct uro_wqe wqe = { .wr_id = 1,
                           .opcode = URO_WR_RDMA_WRITE,
                           .length = length,
                           .remote_address = (uintptr_t)s->b.memory,
                           .rkey = uro_key_number(&s->b.key) };

    twins_connect(s);
    twins_fill(&s->a, 0, length);
    twins_post(s, &s->a, &wqe, 0);
    wqe.wr_id = 2;
    wqe.opcode = URO_WR_RDMA_READ;
    twins_post(s, &s->a, &wqe, TWINS_MEMORY / 2);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
    twins_expect(&s->a, 2, URO_WC_SUCCESS);
    assert_memory_equal(s->b.memory, s->a.memory, length);
    assert_memory_equal(s->a.memory + TWINS_MEMORY / 2, s->a.memory, length);
    assert_int_equal(twins_counter(s, URO_COUNT_RETRY_ROUNDS), 0); /* a full loop loses nothing */
    assert_int_equal(s->b.memory[length], 0xee);
}

static void atomic__to_ourselves__executed_once_and_answered(void **state)
{
    struct twins *s = *state;
    uint64_t value = 40;
    const struct uro_wqe wqe = { .wr_id = 1,
                                 .opcode = URO_WR_ATOMIC_FETCH_AND_ADD,
                                 .length = 8,
                                 .compare_add = 2,
                                 .remote_address = (uintptr_t)s->b.memory,
                                 .rkey = uro_key_number(&s->b.key) };

    twins_connect(s);
    memcpy(s->b.memory, &value, 8);
    twins_post(s, &s->a, &wqe, 0);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
    assert_memory_equal(s->a.memory, &value, 8);
    value = 42;
    assert_memory_equal(s->b.memory, &value, 8);
}

static void send__no_receive_posted__waits_and_arrives_when_there_is_one(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    twins_post_send(s, &s->a, 1, 0, 10);
    assert_int_equal(twins_pass_time(s, URO_MS(1)), 0);
    assert_true(twins_counter(s, URO_COUNT_RNR_RECEIVED) > 2);
    twins_expect_nothing(&s->a);
    twins_post_recv(&s->b, 7, 0, 200);
    assert_int_equal(twins_pass_time(s, URO_MS(2)), 0);
    twins_expect(&s->b, 7, URO_WC_SUCCESS);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
}

/* There are more frames and more room than the loop queue holds. The queue fills up but never
 * overflows, and nothing is lost. */
static void send__more_than_the_loop_holds__all_arrive_in_order(void **state)
{
    struct twins *s = *state;
    uint32_t kept;

    twins_connect(s);
    for (uint32_t i = 0; i < 100; i++) {
        twins_post_recv(&s->b, i, i, 1);
        s->a.memory[i] = (uint8_t)i;
        twins_post_send(s, &s->a, 1000 + i, i, 1);
    }
    assert_int_equal(twins_output(s, 2 * TWINS_BURST), 0);
    const struct uro_pkt *frames = uro_engine_looped(s->engine, &kept);
    assert_non_null(frames);
    assert_int_equal(kept, URO_LOOP_FRAMES);
    assert_int_equal(uro_engine_next(s->engine), s->now);
    assert_int_equal(twins_settle(s), 0);
    for (uint32_t i = 0; i < 100; i++) {
        twins_expect(&s->b, i, URO_WC_SUCCESS);
        twins_expect(&s->a, 1000 + i, URO_WC_SUCCESS);
    }
    assert_memory_equal(s->b.memory, s->a.memory, 100);
    assert_int_equal(twins_counter(s, URO_COUNT_RETRY_ROUNDS), 0);
}

/* ---- as any received frame ---------------------------------------------- */

static void kept_frame__damaged__is_refused_and_sent_again(void **state)
{
    struct twins *s = *state;
    uint32_t kept;

    twins_connect(s);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_output(s, TWINS_BURST), 0);
    const struct uro_pkt *frames = uro_engine_looped(s->engine, &kept);
    assert_int_equal(kept, 1);
    ((uint8_t *)(uintptr_t)frames[0].octets)[80] ^= 1;
    assert_int_equal(twins_settle(s), 0);
    assert_int_equal(twins_counter(s, URO_COUNT_DROP_ICRC), 1);
    twins_expect_nothing(&s->b);
    assert_int_equal(twins_pass_time(s, URO_MS(20)), 0);
    twins_expect(&s->b, 7, URO_WC_SUCCESS);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
}

static void kept_frame__its_queue_pair_is_destroyed__dropped_and_the_sender_gives_up(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_output(s, TWINS_BURST), 0);
    twins_destroy_qp(s, &s->b);
    assert_int_equal(twins_pass_time(s, URO_MS(100)), 0);
    assert_int_equal(twins_counter(s, URO_COUNT_DROP_QPN), 3);
    twins_expect(&s->a, 1, URO_WC_RETRY_EXC_ERR);
    twins_expect_nothing(&s->b);
}

static void kept_frame__its_sender_is_destroyed__arrives_and_the_answer_finds_nobody(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    twins_fill(&s->a, 0, 100);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_output(s, TWINS_BURST), 0);
    twins_destroy_qp(s, &s->a);
    memset(s->a.memory, 0, 100);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->b, 7, URO_WC_SUCCESS);
    assert_int_equal(s->b.memory[0], 1);
    assert_int_equal(twins_counter(s, URO_COUNT_DROP_QPN), 1);
    twins_expect_nothing(&s->a);
}

/* ---- beside the wire ---------------------------------------------------- */

static void learn_peer(struct twins *s, const char *address)
{
    uint8_t frame[64];
    const struct uro_ether ether = { .dest = twins_mac,
                                     .source = peer_mac,
                                     .type = URO_ETHERTYPE_ARP };
    const struct uro_arp arp = { .sender_mac = peer_mac,
                                 .sender = twins_gid(address),
                                 .target_mac = twins_mac,
                                 .target = twins_gid("10.0.0.1") };
    size_t at = uro_ether_put(frame, &ether);
    uro_arp_encode(frame + at, &arp);
    const struct uro_pkt pkt = { .octets = frame, .length = (uint32_t)(at + URO_ARP_LEN) };
    uro_engine_input(s->engine, &pkt, 1, s->now);
}

/* b sends to itself and a sends to a peer. The memory of a's frames must stay until they are
 * written, so the next call delivers b's frames. */
static void mixed__frames_of_both_kinds__ours_wait_until_the_others_are_written(void **state)
{
    struct twins *s = *state;
    const struct uro_wqe wqe = { .opcode = URO_WR_SEND, .length = 8, .flags = URO_SEND_INLINE };

    twins_connect_to(s, &s->a, 1, twins_gid("10.0.0.2"), 0xabc);
    twins_connect_to(s, &s->b, 1, twins_gid("10.0.0.1"), uro_qp_number(s->b.qp));
    assert_int_equal(twins_settle(s), 1);
    learn_peer(s, "10.0.0.2");
    for (uint32_t i = 0; i < 3; i++) {
        twins_post_recv(&s->b, i, 0, 8);
        twins_post(s, &s->b, &wqe, 0);
        twins_post(s, &s->a, &wqe, 0);
    }
    uint64_t before = twins_counter(s, URO_COUNT_TX_FRAMES);
    assert_int_equal(twins_output(s, TWINS_BURST), 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_memory_equal(s->tx[i].head, &peer_mac, sizeof peer_mac);
    twins_expect_nothing(&s->b);
    assert_int_equal(uro_engine_next(s->engine), s->now);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->b, 0, URO_WC_SUCCESS);
    assert_int_equal(twins_counter(s, URO_COUNT_TX_FRAMES) - before, 3);
    assert_int_equal(twins_counter(s, URO_COUNT_LOOP_FRAMES), 4); /* the ACKs were coalesced */
}

/* The hop requests both ways, as multicast will. */
static void both_ways__a_frame_to_a_group__leaves_and_arrives(void **state)
{
    struct twins *s = *state;
    struct uro_qp_attr attr;

    twins_connect(s);
    uro_qp_query(s->a.qp, &attr);
    attr.address.hop->way = URO_TX_BOTH;
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 2); /* the acknowledgement has the same hop */
    twins_expect(&s->b, 7, URO_WC_SUCCESS);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
    assert_int_equal(twins_counter(s, URO_COUNT_TX_FRAMES), 2);
    assert_int_equal(twins_counter(s, URO_COUNT_LOOP_FRAMES), 2);
}

/* ---- the hop ------------------------------------------------------------ */

static void hop__link_goes_and_comes__we_still_know_ourselves(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    uro_engine_link(s->engine, false, s->now);
    uro_engine_link(s->engine, true, s->now);
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(s, &s->a, 1, 0, 100);
    const uint32_t sent = twins_pass_time(s, URO_MS(100000));
    assert_int_equal(sent, twins_counter(s, URO_COUNT_MEMBERSHIP_TX)); /* our groups, no question */
    twins_expect(&s->b, 7, URO_WC_SUCCESS);
    assert_int_equal(twins_counter(s, URO_COUNT_ARP_TX), 0);
}

static void hop__somebody_claims_our_address__is_not_believed(void **state)
{
    struct twins *s = *state;

    twins_connect(s);
    learn_peer(s, "10.0.0.1");
    twins_post_recv(&s->b, 7, 0, 200);
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->b, 7, URO_WC_SUCCESS);
}

/* ---- an address that other processes have, too -------------------------- */

static void shared__to_our_own_number__nothing_leaves_and_nothing_is_repeated(void **state)
{
    struct twins *s = *state;
    struct uro_wqe wqe = { .wr_id = 1,
                           .opcode = URO_WR_RDMA_READ,
                           .length = 200000,
                           .remote_address = (uintptr_t)s->b.memory,
                           .rkey = uro_key_number(&s->b.key) };

    twins_connect(s);
    twins_fill(&s->b, 0, wqe.length);
    twins_post(s, &s->a, &wqe, 0);
    assert_int_equal(twins_settle(s), 0);
    twins_expect(&s->a, 1, URO_WC_SUCCESS);
    assert_memory_equal(s->a.memory, s->b.memory, wqe.length);
    assert_true(uro_mark_hit("LOOP.SHARE"));
    assert_int_equal(twins_counter(s, URO_COUNT_TX_FRAMES), 0);
    assert_int_equal(twins_counter(s, URO_COUNT_RX_DUPLICATE), 0);
    assert_int_equal(twins_counter(s, URO_COUNT_RETRY_ROUNDS), 0);
}

static void shared__to_the_number_of_another_process__leaves(void **state)
{
    struct twins *s = *state;

    twins_connect_to(s, &s->a, 1, twins_gid("10.0.0.1"), (TWINS_SHARE + 1) << 18 | 17);
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 1);
    assert_int_equal(twins_counter(s, URO_COUNT_LOOP_FRAMES), 0);
}

static void shared__our_number_at_another_address__leaves(void **state)
{
    struct twins *s = *state;

    twins_connect_to(s, &s->a, 1, twins_gid("10.0.0.2"), uro_qp_number(s->b.qp));
    twins_post_send(s, &s->a, 1, 0, 100);
    assert_int_equal(twins_settle(s), 1);
    assert_int_equal(twins_counter(s, URO_COUNT_LOOP_FRAMES), 0);
}

int main(void)
{
#define SHARED_TEST(name) cmocka_unit_test_setup_teardown(name, twins_open_shared, twins_close)
#define LOOP_TEST(name)   cmocka_unit_test_setup_teardown(name, twins_open, twins_close)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(send__to_ourselves__arrives_at_once_and_nothing_leaves),
        LOOP_TEST(send__to_itself__one_queue_pair_is_both_ends),
        LOOP_TEST(send__to_another_address_of_ours_in_another_subnet__needs_no_gateway),
        LOOP_TEST(write_and_read__many_times_what_the_loop_holds__arrive_whole),
        LOOP_TEST(atomic__to_ourselves__executed_once_and_answered),
        LOOP_TEST(send__no_receive_posted__waits_and_arrives_when_there_is_one),
        LOOP_TEST(send__more_than_the_loop_holds__all_arrive_in_order),
        LOOP_TEST(kept_frame__damaged__is_refused_and_sent_again),
        LOOP_TEST(kept_frame__its_queue_pair_is_destroyed__dropped_and_the_sender_gives_up),
        LOOP_TEST(kept_frame__its_sender_is_destroyed__arrives_and_the_answer_finds_nobody),
        LOOP_TEST(mixed__frames_of_both_kinds__ours_wait_until_the_others_are_written),
        LOOP_TEST(both_ways__a_frame_to_a_group__leaves_and_arrives),
        LOOP_TEST(hop__link_goes_and_comes__we_still_know_ourselves),
        LOOP_TEST(hop__somebody_claims_our_address__is_not_believed),
        SHARED_TEST(shared__to_our_own_number__nothing_leaves_and_nothing_is_repeated),
        SHARED_TEST(shared__to_the_number_of_another_process__leaves),
        SHARED_TEST(shared__our_number_at_another_address__leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
