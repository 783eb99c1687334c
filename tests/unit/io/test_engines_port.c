/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engines_port.c - tests how the engines of one device receive from a shared port, and
 * sleep. */
#include "engines_kit.h"

/* ---- receiving -------------------------------------------------------------- */

static void receive__frames_of_all_engines__each_reaches_its_engine_in_order(void **state)
{
    (void)state;
    for (uint32_t receiver = 0; receiver < ENGINES; receiver++) {
        const char *const own[ENGINES] = { "ae0", "bf", "cd" };
        arrive("1a2b3c3d1e2f00");
        assert_string_equal(received(receiver), own[receiver]);
        for (uint32_t i = 0; i < ENGINES; i++)
            assert_string_equal(received(i), i == receiver ? "" : own[i]);
    }
}

static void receive__each_engine_in_turn__order_is_kept(void **state)
{
    (void)state;
    arrive("1a2b1c2d");
    assert_string_equal(received(0), "ac"); /* puts b and d into the ring of engine 1 */
    arrive("2e1f");
    assert_string_equal(received(1), "bd"); /* frames in the ring come first */
    assert_int_equal(inner.receives, 1);
    assert_string_equal(received(1), "e");
    assert_string_equal(received(0), "f");
}

static void receive__frames_of_no_engine__first_engine(void **state)
{
    (void)state;
    arrive("4a5b");
    assert_string_equal(received(1), "");
    assert_int_equal(inner.lent, 0); /* no frame is lent, so the host does not call release() */
    assert_string_equal(received(0), "ab");
}

static void receive__frames_to_a_group__reach_all_engines(void **state)
{
    (void)state;
    arrive("1a*b3c*d");
    assert_string_equal(received(1), "bd");
    assert_string_equal(received(0), "abd");
    assert_string_equal(received(2), "bcd");
}

static void receive__sixteen_engines__each_has_its_prefix(void **state)
{
    (void)state;
    reset_inner();
    open_ports(URO_STEER_ENGINES_MAX);
    arrive("9i1a*x");
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(ports[i]->qpn_prefix, i + 1);
        arrive_one((char)('0' + i + 1), 'p');
    }
    assert_string_equal(received(15), "xp");
    assert_string_equal(received(0), "axp");
    assert_string_equal(received(8), "ixp");
    assert_string_equal(received(14), "xp");
}

static void receive__marks_of_the_inner_port__are_kept(void **state)
{
    struct uro_pkt pkts[URO_PORT_BURST];

    (void)state;
    arrive("2a");
    transmit(2, "2b");
    assert_string_equal(received(0), "");
    assert_int_equal(uro_port_receive(ports[1], pkts, URO_PORT_BURST), 2);
    assert_string_equal(letters(pkts, 2), "ba");
    assert_false(pkts[0].summed); /* nobody has checked the ICRC of a frame from this device */
    assert_true(pkts[1].summed);
    uro_port_release(ports[1], pkts, 2);
}

static void receive__few_frames_wanted__the_others_stay(void **state)
{
    struct uro_pkt pkts[2];

    (void)state;
    arrive("2a2b2c");
    for (const char *expected = "abc"; *expected != '\0'; expected++) {
        assert_int_equal(uro_port_receive(ports[1], pkts, 1), 1);
        assert_int_equal(letters(pkts, 1)[0], *expected);
        uro_port_release(ports[1], pkts, 1);
        assert_int_equal(inner.max, 1);
    }
    arrive("2d2e");
    assert_string_equal(received(0), "");
    assert_int_equal(uro_port_receive(ports[1], pkts, 1), 1);
    assert_int_equal(letters(pkts, 1)[0], 'd');
    uro_port_release(ports[1], pkts, 1);
    assert_string_equal(received(1), "e");
}

/* The test has one thread, which a lock that blocks would stop for ever. */
static void receive__inner_frames_are_lent__another_engine_gets_none_and_does_not_block(
    void **state)
{
    struct uro_pkt pkts[URO_PORT_BURST];

    (void)state;
    arrive("2a3b");
    assert_int_equal(uro_port_receive(ports[1], pkts, URO_PORT_BURST), 1);
    arrive("1c3d");
    assert_string_equal(received(0), "");
    assert_string_equal(received(2), "b"); /* was handed over */
    assert_string_equal(received(2), "");
    assert_int_equal(inner.receives, 1);
    assert_in_range(uro_port_tx_free_count(ports[0]), 1, URO_PORT_BURST);
    assert_string_equal(letters(pkts, 1), "a");
    assert_int_equal(inner.lent, 2);
    uro_port_release(ports[1], pkts, 1);
    assert_int_equal(inner.lent, 0);
    assert_string_equal(received(0), "c");
    assert_string_equal(received(2), "d");
}

/* Frames of a ring are lent without the lock. */
static void receive__frames_of_the_ring_are_lent__another_engine_receives(void **state)
{
    struct uro_pkt pkts[URO_PORT_BURST];

    (void)state;
    transmit(0, "2a");
    assert_int_equal(uro_port_receive(ports[1], pkts, URO_PORT_BURST), 1);
    arrive("1b");
    assert_string_equal(received(0), "b");
    assert_string_equal(letters(pkts, 1), "a");
    uro_port_release(ports[1], pkts, 1);
    assert_string_equal(received(1), "");
}

static void receive__ring_of_another_engine_is_full__frames_stay_in_the_inner_port(void **state)
{
    (void)state;
    fill_ring_from_link();
    arrive("1a2b3c2d");
    assert_string_equal(received(0), "");
    assert_string_equal(received(2), "");
    assert_int_equal(inner.next, RING_SLOTS);
    for (uint32_t taken = 0; taken < RING_SLOTS; taken += URO_PORT_BURST)
        assert_int_equal(receive_numbers(1, taken), URO_PORT_BURST);
    assert_string_equal(received(0), "a");
    assert_string_equal(received(1), "bd");
    assert_string_equal(received(2), "c");
}

/* The engine's own ring does not get frames that the engine receives itself. */
static void receive__own_ring_is_full__its_frames_come_first(void **state)
{
    (void)state;
    const uint32_t count = fill_ring(2);
    arrive("2b");
    for (uint32_t taken = 0; taken < count; taken += receive_numbers(1, taken))
        (void)uro_port_tx_free_count(ports[2]);
    assert_string_equal(received(1), "b");
}

static void receive__many_frames_of_an_engine_that_does_not_run__none_is_lost(void **state)
{
    const uint32_t count = 3 * RING_SLOTS;
    uint32_t taken = 0;

    (void)state;
    for (uint32_t i = 0; i < count; i++)
        arrive_one('2', i);
    for (uint32_t i = 0; i < count; i++)
        assert_string_equal(received(i % 2 * 2), "");
    assert_in_range(inner.next, RING_SLOTS / 2, RING_SLOTS);
    while (taken < count) {
        const uint32_t more = receive_numbers(1, taken);
        assert_int_not_equal(more, 0);
        taken += more;
    }
}

static void receive__frame_longer_than_the_mtu__is_dropped(void **state)
{
    struct uro_pkt pkts[URO_PORT_BURST];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        arrive(i == 0 ? "2a" : "*b");
        inner.arrives[inner.arrived - 1].length = FRAME_MAX;
        arrive(i == 0 ? "2c" : "*d");
        inner.arrives[inner.arrived - 1].length = FRAME_MAX + 1;
        arrive(i == 0 ? "2e" : "*f");
    }
    assert_int_equal(uro_port_receive(ports[0], pkts, URO_PORT_BURST), 3);
    uro_port_release(ports[0], pkts, 3);
    assert_int_equal(uro_port_receive(ports[1], pkts, URO_PORT_BURST), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pkts[i].length, i % 2 == 0 ? FRAME_MAX : FRAME);
        assert_int_equal(uro_get_be32(pkts[i].octets + AT_NUMBER), "aebf"[i]);
    }
    uro_port_release(ports[1], pkts, 4);
}

/* ---- sleeping --------------------------------------------------------------- */

static void arm__first_engine_sleeps__others_do_not_receive_from_the_inner_port(void **state)
{
    (void)state;
    assert_true(uro_port_arm(ports[0]));
    assert_int_equal(inner.armed, 1);
    arrive("1a2b");
    assert_string_equal(received(1), "");
    assert_string_equal(received(2), "");
    assert_int_equal(inner.receives, 0);
    uro_port_disarm(ports[0]);
    assert_int_equal(inner.disarmed, 1);
    assert_string_equal(received(1), "b");
    assert_string_equal(received(0), "a");
}

/* A program may call the first engine while its thread sleeps. */
static void arm__first_engine_receives_itself__it_gets_frames(void **state)
{
    (void)state;
    assert_true(uro_port_arm(ports[0]));
    arrive("1a2b");
    assert_string_equal(received(0), "a");
    assert_string_equal(received(1), "b");
    uro_port_disarm(ports[0]);
}

static void arm__inner_port_has_frames__fails_and_others_receive(void **state)
{
    (void)state;
    inner.ready = true;
    assert_false(uro_port_arm(ports[0]));
    arrive("2a1b");
    assert_string_equal(received(1), "a");
    assert_false(wakes(0)); /* no wake-up was requested */
    assert_string_equal(received(0), "b");
}

static void arm__frames_in_the_ring__fails(void **state)
{
    (void)state;
    transmit(1, "1a3b");
    assert_false(uro_port_arm(ports[0]));
    assert_false(uro_port_arm(ports[2]));
    assert_int_equal(inner.armed, 0);
    assert_string_equal(received(0), "a");
    assert_string_equal(received(2), "b");
    assert_true(uro_port_arm(ports[0]));
    assert_true(uro_port_arm(ports[2]));
    assert_int_equal(inner.armed, 1);
}

static void arm__frames_wait_for_space__fails(void **state)
{
    (void)state;
    inner.tx_free = 1;
    transmit(0, "wa");
    inner.tx_free = 1;
    assert_int_equal(uro_port_tx_free_count(ports[1]), 1);
    inner.tx_free = 0;
    const struct uro_tx tx = tx_of('w', 'b');
    uro_port_transmit(ports[1], &tx, 1);
    assert_false(uro_port_arm(ports[1]));
    assert_true(uro_port_arm(ports[0]));
    inner.tx_free = 2;
    assert_int_equal(uro_port_tx_free_count(ports[1]), 1);
    assert_true(uro_port_arm(ports[1]));
    assert_string_equal(sent(), "ab");
}

/* The peer may have stopped: the thread must not try for ever without sleep. */
static void arm__frames_wait_for_a_link_that_stays_full__succeeds_at_last(void **state)
{
    uint32_t refused = 0;

    (void)state;
    inner.tx_free = 0;
    const struct uro_tx tx = tx_of('w', 'a');
    uro_port_transmit(ports[1], &tx, 1);
    while (refused < 1000000 && !uro_port_arm(ports[1]))
        refused++;
    assert_in_range(refused, 1, 999999);
    inner.tx_free = 1;
    (void)uro_port_tx_free_count(ports[1]);
    assert_string_equal(sent(), "a");
}

static void arm__other_engines__do_not_arm_the_inner_port(void **state)
{
    (void)state;
    assert_true(uro_port_arm(ports[1]));
    uro_port_disarm(ports[1]);
    assert_int_equal(inner.armed + inner.disarmed, 0);
}

static void sleep__a_frame_enters_the_ring__wakes_the_engine(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ENGINES; i++)
        assert_true(uro_port_arm(ports[i]));
    transmit(0, "2a");
    assert_true(wakes(1));
    assert_false(wakes(0) || wakes(2));
    uro_port_disarm(ports[1]);
    assert_false(wakes(1));
    assert_string_equal(received(1), "a");
    transmit(1, "1b");
    assert_true(wakes(0));
    uro_port_disarm(ports[0]);
    assert_string_equal(received(0), "b");
    arrive("3c");
    assert_string_equal(received(0), "");
    assert_true(wakes(2));
    uro_port_disarm(ports[2]);
    assert_string_equal(received(2), "c");
}

static void sleep__a_group_frame__wakes_all_other_engines(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ENGINES; i++)
        assert_true(uro_port_arm(ports[i]));
    transmit(1, "*a");
    assert_true(wakes(0) && wakes(2));
    assert_false(wakes(1));
}

static void wait_fds__first_engine__has_those_of_the_inner_port(void **state)
{
    int fds[URO_PORT_FDS_MAX];

    (void)state;
    assert_int_equal(uro_port_wait_fds(ports[0], fds), 2);
    assert_true(fds[0] == inner.fd || fds[1] == inner.fd);
    assert_int_equal(uro_port_wait_fds(ports[1], fds), 1);
    assert_int_not_equal(fds[0], inner.fd);
    inner.wait_fd_count = URO_PORT_FDS_MAX - 1;
    assert_int_equal(uro_port_wait_fds(ports[0], fds), URO_PORT_FDS_MAX);
}

static void wait_fds__inner_port_can_only_be_polled__so_can_the_first_engine(void **state)
{
    int fds[URO_PORT_FDS_MAX];

    (void)state;
    inner.wait_fd_count = 0;
    assert_int_equal(uro_port_wait_fds(ports[0], fds), 0);
    assert_int_equal(uro_port_wait_fds(ports[1], fds), 1);
    inner.wait_fd_count = URO_PORT_FDS_MAX; /* has no space for the descriptor of the ring */
    assert_int_equal(uro_port_wait_fds(ports[0], fds), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start_engines, stop_engines)
        TEST(receive__frames_of_all_engines__each_reaches_its_engine_in_order),
        TEST(receive__each_engine_in_turn__order_is_kept),
        TEST(receive__frames_of_no_engine__first_engine),
        TEST(receive__frames_to_a_group__reach_all_engines),
        cmocka_unit_test_teardown(receive__sixteen_engines__each_has_its_prefix, stop_engines),
        TEST(receive__marks_of_the_inner_port__are_kept),
        TEST(receive__few_frames_wanted__the_others_stay),
        TEST(receive__inner_frames_are_lent__another_engine_gets_none_and_does_not_block),
        TEST(receive__frames_of_the_ring_are_lent__another_engine_receives),
        TEST(receive__ring_of_another_engine_is_full__frames_stay_in_the_inner_port),
        TEST(receive__own_ring_is_full__its_frames_come_first),
        TEST(receive__many_frames_of_an_engine_that_does_not_run__none_is_lost),
        TEST(receive__frame_longer_than_the_mtu__is_dropped),
        TEST(arm__first_engine_sleeps__others_do_not_receive_from_the_inner_port),
        TEST(arm__first_engine_receives_itself__it_gets_frames),
        TEST(arm__inner_port_has_frames__fails_and_others_receive),
        TEST(arm__frames_in_the_ring__fails),
        TEST(arm__frames_wait_for_space__fails),
        TEST(arm__frames_wait_for_a_link_that_stays_full__succeeds_at_last),
        TEST(arm__other_engines__do_not_arm_the_inner_port),
        TEST(sleep__a_frame_enters_the_ring__wakes_the_engine),
        TEST(sleep__a_group_frame__wakes_all_other_engines),
        TEST(wait_fds__first_engine__has_those_of_the_inner_port),
        TEST(wait_fds__inner_port_can_only_be_polled__so_can_the_first_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
