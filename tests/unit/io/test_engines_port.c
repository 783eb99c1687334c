/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engines_port.c - tests the ports of the engines of one device, around an inner port of the
 * test. Frames are written as text, two characters each: the destination, and a letter that the
 * frame carries. */
#include "support/check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/shard.h"
#include "engine/engine.h"
#include "io/engines/port.h"
#include "io/engines/steer.h"
#include "support/must.h"
#include "support/patience.h"
#include "wire/ether.h"
#include "wire/icrc.h"

#define ENGINES     3u
#define HEAD        (URO_ETHER_LEN + URO_IPV4_LEN + URO_UDP_LEN + URO_BTH_LEN)
#define PAYLOAD     8u
#define FRAME       (HEAD + PAYLOAD + 4u)
#define AT_NUMBER   HEAD /* offset of the number, big endian */
#define MTU         1500u
#define FRAME_MAX   (MTU + URO_ETHER_LEN_MAX)
#define MANY        2048u
#define MACS_MAX    8u
#define RING_SLOTS  512u
#define SLEEP_MS    10000u
#define THREAD_EACH 20000u /* frames to each engine in the test with threads */

static const struct uro_mac own_mac = { { 2, 0, 0, 0, 0, 1 } };
static const struct uro_mac other_mac = { { 2, 0, 0, 0, 0, 2 } };
static const struct uro_mac group_mac = { { 1, 0, 0x5e, 0, 0, 9 } };

/* ---- the inner port ------------------------------------------------------- */

static struct {
    struct uro_port port;
    struct {
        uint32_t length;
        uint8_t octets[FRAME_MAX + 64];
    } arrives[MANY]; /* frames to receive */
    uint32_t arrived, next, lent;
    uint8_t sent[MANY][FRAME];
    uint32_t sent_count, tx_free;
    uint32_t receives, max; /* calls of receive(), and the last number that it was asked for */
    uint32_t armed, disarmed, closed, forked, multicasts, wait_fd_count;
    bool down, gone, ready; /* ready: arm() returns false */
    struct uro_mac macs[MACS_MAX];
    uint32_t mac_count;
    void (*during_receive)(void);
    int fd;
} inner;

static uint32_t inner_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    uint32_t count = inner.arrived - inner.next;

    (void)port;
    inner.receives++;
    inner.max = max;
    if (inner.lent != 0)
        fail_msg("received again before release()");
    if (count > max)
        count = max;
    for (uint32_t i = 0; i < count; i++)
        pkts[i] = (struct uro_pkt){ .octets = inner.arrives[inner.next + i].octets,
                                    .length = inner.arrives[inner.next + i].length,
                                    .summed = true };
    inner.next += count;
    inner.lent = count;
    if (inner.during_receive != NULL)
        inner.during_receive();
    return count;
}

/* Overwrites the frames, because the link uses their memory again. */
static void inner_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)port;
    if (count != inner.lent)
        fail_msg("%u of %u frames were released", count, inner.lent);
    for (uint32_t i = 0; i < count; i++) {
        if (pkts[i].octets != inner.arrives[inner.next - count + i].octets)
            fail_msg("another frame was released");
        memset(inner.arrives[inner.next - count + i].octets, 0xee, FRAME);
    }
    inner.lent = 0;
}

static uint32_t inner_tx_free_count(struct uro_port *port)
{
    (void)port;
    return inner.tx_free;
}

static void inner_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    (void)port;
    assert_in_range(count, 1, inner.tx_free);
    assert_in_range(inner.sent_count + count, 0, MANY);
    inner.tx_free -= count;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(uro_tx_length(&tx[i]), FRAME);
        uro_tx_write(&tx[i], inner.sent[inner.sent_count++]);
    }
}

static uint32_t inner_wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    (void)port;
    for (uint32_t i = 0; i < inner.wait_fd_count; i++)
        fds[i] = inner.fd;
    return inner.wait_fd_count;
}

static bool inner_arm(struct uro_port *port)
{
    (void)port;
    inner.armed++;
    return !inner.ready && inner.next == inner.arrived;
}

static void inner_disarm(struct uro_port *port)
{
    (void)port;
    inner.disarmed++;
}

static bool inner_link_up(struct uro_port *port)
{
    (void)port;
    return !inner.down;
}

static bool inner_gone(struct uro_port *port)
{
    (void)port;
    return inner.gone;
}

static void inner_multicast(struct uro_port *port, const struct uro_mac *macs, uint32_t count)
{
    (void)port;
    assert_in_range(count, 0, MACS_MAX);
    memcpy(inner.macs, macs, count * sizeof *macs);
    inner.mac_count = count;
    inner.multicasts++;
}

static void inner_forked(struct uro_port *port)
{
    (void)port;
    inner.forked++;
}

/* A call of the port after this one crashes. */
static void inner_close(struct uro_port *port)
{
    inner.closed++;
    port->ops = NULL;
}

static const struct uro_port_ops inner_ops = {
    .datapath = { .receive = inner_receive,
                  .release = inner_release,
                  .tx_free_count = inner_tx_free_count,
                  .transmit = inner_transmit },
    .sleep = { .wait_fds = inner_wait_fds, .arm = inner_arm, .disarm = inner_disarm },
    .control = { .close = inner_close,
                 .forked = inner_forked,
                 .link_up = inner_link_up,
                 .gone = inner_gone,
                 .multicast = inner_multicast },
};

/* ---- the ports under test -------------------------------------------------- */

static struct uro_port *ports[URO_STEER_ENGINES_MAX]; /* NULL: closed */

static void reset_inner(void)
{
    memset(&inner, 0, sizeof inner);
    inner.port = (struct uro_port){ .ops = &inner_ops,
                                    .mac = own_mac,
                                    .mtu = MTU,
                                    .window = 9,
                                    .flags = URO_PORT_WAKES_DOWN | URO_PORT_CALL_PER_SEND };
    inner.tx_free = URO_PORT_BURST;
    inner.wait_fd_count = 1;
    inner.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

static void open_ports(uint32_t engines)
{
    ports[0] = uro_engines_port_open(&inner.port, engines);
    assert_non_null(ports[0]);
    for (uint32_t i = 1; i < engines; i++) {
        ports[i] = uro_engines_port_join(ports[0], i);
        assert_non_null(ports[i]);
    }
}

static int start(void **state)
{
    (void)state;
    reset_inner();
    open_ports(ENGINES);
    return 0;
}

static void close_engine(uint32_t engine)
{
    uro_port_close(ports[engine]);
    ports[engine] = NULL;
}

static int stop(void **state)
{
    (void)state;
    for (uint32_t i = URO_STEER_ENGINES_MAX; i-- > 0;)
        if (ports[i] != NULL)
            close_engine(i);
    assert_int_equal(inner.closed, 1);
    assert_int_equal(inner.lent, 0);
    return close(inner.fd);
}

/* Describes an RC SEND ONLY with the number @number. @to: '1' to '9', an engine of this device; '0',
 * QP 1 of this device; 'w', a host on the link; '*', a group. */
static struct uro_tx tx_of(char to, uint32_t number)
{
    static const uint8_t padding[PAYLOAD - 4];
    struct uro_tx tx = { .way = to == '*' ? URO_TX_BOTH : URO_TX_WIRE,
                         .head_length = HEAD + 4,
                         .icrc = true,
                         .network_at = URO_ETHER_LEN,
                         .payload_length = sizeof padding,
                         .span_count = 1,
                         .spans = { { padding, sizeof padding } } };
    const struct uro_ip ip = { .dont_fragment = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = FRAME - URO_ETHER_LEN - URO_IPV4_LEN };
    const struct uro_udp udp = { .dest_port = URO_ROCE_PORT, .length = ip.payload_length };
    struct uro_bth bth = { .opcode = 0x04, .pkey = URO_PKEY_DEFAULT, .dest_qpn = 9 };
    const struct uro_mac *mac = to == 'w' ? &other_mac : &own_mac;

    if (to == '*')
        bth.dest_qpn = URO_QPN_MULTICAST, mac = &group_mac;
    else if (to != 'w')
        bth.dest_qpn = to == '0' ? 1 : (uint32_t)(to - '0') << URO_QPN_OWN_BITS | 9;
    memcpy(tx.head, mac, sizeof *mac);
    uro_put_be16(tx.head + 12, URO_ETHERTYPE_IPV4);
    (void)uro_ip_put(tx.head + URO_ETHER_LEN, &ip);
    uro_udp_encode(tx.head + URO_ETHER_LEN + URO_IPV4_LEN, &udp);
    uro_bth_encode(tx.head + HEAD - URO_BTH_LEN, &bth);
    uro_put_be32(tx.head + AT_NUMBER, number);
    return tx;
}

/* Makes a frame arrive on the link. */
static void arrive_one(char to, uint32_t number)
{
    const struct uro_tx tx = tx_of(to, number);

    assert_in_range(inner.arrived, 0, MANY - 1);
    uro_tx_write(&tx, inner.arrives[inner.arrived].octets);
    inner.arrives[inner.arrived++].length = FRAME;
}

static void arrive(const char *frames)
{
    for (; *frames != '\0'; frames += 2)
        arrive_one(frames[0], (uint32_t)frames[1]);
}

static void transmit(uint32_t engine, const char *frames)
{
    struct uro_tx burst[URO_PORT_BURST];
    uint32_t count = 0;

    for (; *frames != '\0'; frames += 2)
        burst[count++] = tx_of(frames[0], (uint32_t)frames[1]);
    assert_in_range(uro_port_tx_free_count(ports[engine]), count, URO_PORT_BURST);
    uro_port_transmit(ports[engine], burst, count);
}

/* Returns the number of a whole frame. Uses no assert if it is whole, because cmocka's asserts are
 * slow. */
static uint32_t number_in(const uint8_t *octets, uint32_t length)
{
    if (length != FRAME || uro_get_le32(octets + FRAME - 4) !=
                               uro_icrc(octets + URO_ETHER_LEN, false, FRAME - URO_ETHER_LEN - 4))
        fail_msg("a frame of %u bytes is damaged", length);
    return uro_get_be32(octets + AT_NUMBER);
}

static char text[MANY + 1];

static const char *letters(const struct uro_pkt *pkts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        text[i] = (char)number_in(pkts[i].octets, pkts[i].length);
    text[count] = '\0';
    return text;
}

/* Calls receive() and release() once. Returns the letters of the frames. */
static const char *received(uint32_t engine)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    const uint32_t count = uro_port_receive(ports[engine], pkts, URO_PORT_BURST);

    (void)letters(pkts, count);
    if (count > 0)
        uro_port_release(ports[engine], pkts, count);
    return text;
}

/* Returns the letters of the frames that left by the link since the last call. */
static const char *sent(void)
{
    for (uint32_t i = 0; i < inner.sent_count; i++)
        text[i] = (char)number_in(inner.sent[i], FRAME);
    text[inner.sent_count] = '\0';
    inner.sent_count = 0;
    return text;
}

static bool wakes(uint32_t engine)
{
    int fds[URO_PORT_FDS_MAX];
    struct pollfd polled[URO_PORT_FDS_MAX];
    const uint32_t count = uro_port_wait_fds(ports[engine], fds);

    for (uint32_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    return poll(polled, count, 0) > 0;
}

/* Fills the ring of engine 1 with frames of engine @from, numbered from 0. Returns their number. The
 * last burst of them does not fit completely. */
static uint32_t fill_ring(uint32_t from)
{
    uint32_t number = 0;

    while (uro_port_tx_free_count(ports[from]) > 0) {
        struct uro_tx burst[5];
        for (uint32_t i = 0; i < 5; i++)
            burst[i] = tx_of('2', number++);
        uro_port_transmit(ports[from], burst, 5);
        assert_in_range(number, 0, 2 * RING_SLOTS);
    }
    return number;
}

/* Receives at most a burst of frames, which must have the numbers from @first on. Returns their
 * number. */
static uint32_t receive_numbers(uint32_t engine, uint32_t first)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    const uint32_t count = uro_port_receive(ports[engine], pkts, URO_PORT_BURST);

    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(number_in(pkts[i].octets, pkts[i].length), first + i);
    if (count > 0)
        uro_port_release(ports[engine], pkts, count);
    return count;
}

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
    const uint32_t count = fill_ring(2);
    uint32_t taken = 0;
    arrive("1a2b3c2d");
    assert_string_equal(received(0), "");
    assert_string_equal(received(2), "");
    assert_int_equal(inner.next, 0);
    while (taken < count) {
        const uint32_t more = receive_numbers(1, taken);
        (void)uro_port_tx_free_count(ports[2]);
        assert_int_not_equal(more, 0);
        taken += more;
    }
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
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
        TEST(receive__frames_of_all_engines__each_reaches_its_engine_in_order),
        TEST(receive__each_engine_in_turn__order_is_kept),
        TEST(receive__frames_of_no_engine__first_engine),
        TEST(receive__frames_to_a_group__reach_all_engines),
        cmocka_unit_test_teardown(receive__sixteen_engines__each_has_its_prefix, stop),
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
        TEST(arm__other_engines__do_not_arm_the_inner_port),
        TEST(sleep__a_frame_enters_the_ring__wakes_the_engine),
        TEST(sleep__a_group_frame__wakes_all_other_engines),
        TEST(wait_fds__first_engine__has_those_of_the_inner_port),
        TEST(wait_fds__inner_port_can_only_be_polled__so_can_the_first_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
