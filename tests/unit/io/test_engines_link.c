/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engines_link.c - tests how the engines of one device send to a shared port, and open and
 * close it. */
#include "engines_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "support/must.h"
#include "support/patience.h"

#define SLEEP_MS   10000u
#define LINK_EACH  5000u       /* frames of the link to each engine, in the test with threads */
#define LOCAL_EACH 5000u       /* frames of each engine to the next engine */
#define LOCAL      0x80000000u /* in the number of a frame from another engine */

/* ---- sending ---------------------------------------------------------------- */

static void transmit__to_a_host__leaves_by_the_link(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ENGINES; i++) {
        transmit(i, "wawbwc");
        assert_string_equal(sent(), "abc");
    }
    assert_int_equal(uro_port_tx_free_count(ports[0]), URO_PORT_BURST - 9);
}

static void transmit__to_this_device__enters_the_ring_of_the_engine(void **state)
{
    (void)state;
    transmit(0, "2a1bwc3d2e0f4g");
    assert_string_equal(sent(), "c");
    assert_string_equal(received(0), "bfg");
    assert_string_equal(received(1), "ae");
    assert_string_equal(received(2), "d");
}

static void transmit__to_a_group__leaves_and_reaches_the_other_engines(void **state)
{
    (void)state;
    transmit(1, "wa*bwc");
    assert_string_equal(sent(), "abc");
    assert_string_equal(received(0), "b");
    assert_string_equal(received(1), ""); /* the engine looped the frame itself */
    assert_string_equal(received(2), "b");
}

static void transmit__link_is_full__frames_wait_in_order(void **state)
{
    (void)state;
    inner.tx_free = 5;
    assert_int_equal(uro_port_tx_free_count(ports[0]), 5);
    inner.tx_free = 2; /* another engine was faster */
    const struct uro_tx burst[] = { tx_of('w', 'a'), tx_of('w', 'b'), tx_of('w', 'c'),
                                    tx_of('w', 'd'), tx_of('w', 'e') };
    uro_port_transmit(ports[0], burst, 5);
    assert_string_equal(sent(), "ab");
    assert_int_equal(uro_port_tx_free_count(ports[0]), 0);
    inner.tx_free = 1;
    assert_int_equal(uro_port_tx_free_count(ports[0]), 0);
    assert_string_equal(sent(), "c");
    inner.tx_free = 7;
    assert_int_equal(uro_port_tx_free_count(ports[0]), 5);
    assert_string_equal(sent(), "de");
    transmit(0, "wf");
    assert_string_equal(sent(), "f");
}

static void transmit__link_is_full__later_frames_to_engines_keep_their_order(void **state)
{
    const struct uro_tx burst[] = { tx_of('2', 'a'), tx_of('w', 'b'), tx_of('2', 'c'),
                                    tx_of('*', 'd'), tx_of('w', 'e') };

    (void)state;
    inner.tx_free = 0;
    uro_port_transmit(ports[0], burst, 5);
    assert_string_equal(received(1), "a");
    assert_int_equal(uro_port_tx_free_count(ports[0]), 0);
    assert_string_equal(received(1), "");
    inner.tx_free = 1;
    assert_int_equal(uro_port_tx_free_count(ports[0]), 0);
    assert_string_equal(sent(), "b");
    assert_string_equal(received(1), "cd");
    assert_string_equal(received(2), "d");
    inner.tx_free = 9;
    assert_int_equal(uro_port_tx_free_count(ports[0]), 7);
    assert_string_equal(sent(), "de");
    assert_string_equal(received(1), ""); /* each engine has got the group frame once */
    assert_string_equal(received(2), "");
}

static void transmit__inner_port_is_full__nothing_is_accepted(void **state)
{
    (void)state;
    inner.tx_free = 0;
    for (uint32_t i = 0; i < ENGINES; i++)
        assert_int_equal(uro_port_tx_free_count(ports[i]), 0);
    inner.tx_free = 3;
    for (uint32_t i = 0; i < ENGINES; i++)
        assert_int_equal(uro_port_tx_free_count(ports[i]), 3);
}

/* If another engine has the lock, the number of free slots is not known. So the host may send a
 * whole burst. */
static void transmit__a_whole_burst_finds_no_space__all_of_it_waits(void **state)
{
    struct uro_tx burst[URO_PORT_BURST];

    (void)state;
    inner.tx_free = 0;
    for (uint32_t i = 0; i < URO_PORT_BURST; i++)
        burst[i] = tx_of(i % 2 == 0 ? 'w' : '2', 'A' + i);
    uro_port_transmit(ports[0], burst, URO_PORT_BURST);
    assert_string_equal(sent(), "");
    inner.tx_free = URO_PORT_BURST;
    assert_int_equal(uro_port_tx_free_count(ports[0]), URO_PORT_BURST / 2);
    assert_string_equal(sent(), "ACEGIKMOQSUWY[]_");
    assert_string_equal(received(1), "BDFHJLNPRTVXZ\\^`");
}

static void transmit__ring_of_an_engine_is_full__frames_wait_in_order(void **state)
{
    (void)state;
    const uint32_t count = fill_ring(0);
    uint32_t taken = 0;
    assert_int_equal(uro_port_tx_free_count(ports[0]), 0);
    assert_false(uro_port_arm(ports[0]));
    transmit(2, "wa"); /* other engines are not affected */
    assert_string_equal(sent(), "a");
    while (taken < count) {
        const uint32_t more = receive_numbers(1, taken);
        assert_int_not_equal(more, 0);
        taken += more;
        (void)uro_port_tx_free_count(ports[0]);
    }
    assert_in_range(uro_port_tx_free_count(ports[0]), 1, URO_PORT_BURST);
    transmit(0, "2b");
    assert_string_equal(received(1), "b");
}

/* Receives all frames of the engine. Returns the number of the last frame. */
static uint32_t drain(uint32_t engine)
{
    struct uro_pkt pkts[URO_PORT_BURST];
    uint32_t count, last = UINT32_MAX;

    while ((count = uro_port_receive(ports[engine], pkts, URO_PORT_BURST)) > 0) {
        last = number_in(pkts[count - 1].octets, pkts[count - 1].length);
        uro_port_release(ports[engine], pkts, count);
    }
    return last;
}

static void transmit__to_a_group_while_one_ring_is_full__each_gets_the_frame_once(void **state)
{
    (void)state;
    (void)fill_ring(0);
    transmit(2, "*a");
    assert_int_equal(uro_port_tx_free_count(ports[2]), 0);
    assert_int_equal(receive_numbers(1, 0), URO_PORT_BURST);
    assert_in_range(uro_port_tx_free_count(ports[2]), 1, URO_PORT_BURST);
    (void)uro_port_tx_free_count(ports[2]);
    assert_string_equal(sent(), "a");
    assert_string_equal(received(0), "a");
    assert_string_equal(received(2), "");
    assert_int_equal(drain(1), 'a');
}

/* ---- the link --------------------------------------------------------------- */

static void open__values_of_the_inner_port__are_taken_over(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ENGINES; i++) {
        assert_int_equal(ports[i]->mtu, MTU);
        assert_int_equal(ports[i]->window, 9);
        assert_int_equal(ports[i]->qpn_prefix, i + 1);
        assert_memory_equal(&ports[i]->mac, &inner.port.mac, sizeof inner.port.mac);
        assert_true(uro_port_has(ports[i], URO_PORT_CALL_PER_SEND));
        /* Only the first engine sleeps on the descriptors of the link. */
        assert_int_equal(uro_port_has(ports[i], URO_PORT_WAKES_DOWN), i == 0);
        assert_true(uro_port_link_up(ports[i]));
        assert_false(uro_port_gone(ports[i]));
    }
}

static void link__state_changes__others_see_what_the_first_engine_saw(void **state)
{
    (void)state;
    inner.down = inner.gone = true;
    inner.port.mtu = 1000;
    assert_true(uro_port_link_up(ports[1]));
    assert_int_equal(ports[1]->mtu, MTU);
    assert_false(uro_port_link_up(ports[0]));
    for (uint32_t i = 0; i < ENGINES; i++) {
        assert_false(uro_port_link_up(ports[i]));
        assert_int_equal(ports[i]->mtu, 1000);
        assert_true(uro_port_gone(ports[i]));
    }
    inner.down = inner.gone = false;
    inner.port.mtu = MTU;
    assert_true(uro_port_link_up(ports[0]));
    for (uint32_t i = 0; i < ENGINES; i++) {
        assert_true(uro_port_link_up(ports[i]));
        assert_int_equal(ports[i]->mtu, MTU);
        assert_false(uro_port_gone(ports[i]));
    }
}

static void link__down_when_opened__is_down_for_all(void **state)
{
    (void)state;
    reset_inner();
    inner.down = true;
    open_ports(ENGINES);
    for (uint32_t i = ENGINES; i-- > 0;)
        assert_false(uro_port_link_up(ports[i]));
}

static struct uro_mac mac_of(uint8_t number)
{
    return (struct uro_mac){ { 1, 0, 0x5e, 0, 0, number } };
}

/* Sets the groups of an engine: one for each letter. */
static void set_groups(uint32_t engine, const char *groups)
{
    struct uro_mac macs[MACS_MAX];
    uint32_t count = 0;

    for (; groups[count] != '\0'; count++)
        macs[count] = mac_of((uint8_t)groups[count]);
    uro_port_multicast(ports[engine], macs, count);
}

/* Checks that the inner port receives these groups, each once, in any order. */
static void has_groups(const char *groups)
{
    assert_int_equal(inner.mac_count, strlen(groups));
    for (; *groups != '\0'; groups++) {
        const struct uro_mac mac = mac_of((uint8_t)*groups);
        uint32_t found = 0;
        for (uint32_t i = 0; i < inner.mac_count; i++)
            found += memcmp(&inner.macs[i], &mac, sizeof mac) == 0;
        assert_int_equal(found, 1);
    }
}

static void multicast__lists_of_all_engines__inner_port_gets_each_group_once(void **state)
{
    (void)state;
    set_groups(0, "ab");
    has_groups("ab");
    set_groups(2, "bc");
    has_groups("abc");
    set_groups(1, "c");
    has_groups("abc");
    set_groups(0, "d");
    has_groups("bcd");
    set_groups(2, "");
    has_groups("cd");
    set_groups(1, "");
    set_groups(0, "");
    has_groups("");
    assert_int_equal(inner.multicasts, 7);
}

static void multicast__engine_was_closed__its_groups_are_gone(void **state)
{
    (void)state;
    set_groups(1, "a");
    close_engine(1);
    set_groups(2, "b");
    has_groups("b");
    ports[1] = uro_engines_port_join(ports[0], 1);
    set_groups(0, "c");
    has_groups("bc");
}

/* ---- opening and closing ----------------------------------------------------- */

static void close__first_engine_last__inner_port_is_closed_then(void **state)
{
    (void)state;
    close_engine(1);
    close_engine(2);
    assert_int_equal(inner.closed, 0);
    arrive("1a2b3c*d");
    assert_string_equal(received(0), "ad");
    transmit(0, "2ewf*g");
    assert_string_equal(sent(), "fg");
    assert_true(uro_port_arm(ports[0]));
    uro_port_disarm(ports[0]);
}

/* The inner port has no operations after its close(), so a call of it crashes. */
static void close__first_engine_first__others_have_no_link(void **state)
{
    (void)state;
    inner.tx_free = 0;
    const struct uro_tx waits = tx_of('w', 'a');
    uro_port_transmit(ports[1], &waits, 1);
    arrive("2b3c");
    set_groups(1, "a");
    close_engine(0);
    assert_int_equal(inner.closed, 1);
    assert_false(uro_port_link_up(ports[1]));
    assert_int_equal(uro_port_tx_free_count(ports[1]), URO_PORT_BURST);
    transmit(1, "wd3e*f1g");
    assert_string_equal(sent(), "");
    assert_string_equal(received(1), "");
    assert_string_equal(received(2), "ef");
    set_groups(1, "b");
    assert_true(uro_port_arm(ports[1]));
    uro_port_disarm(ports[1]);
    for (uint32_t i = 0; i < 2 * RING_SLOTS; i++) /* frames to the closed port are discarded */
        transmit(1, "1hwi");
    close_engine(1);
    transmit(2, "2j1k*lwm");
    assert_string_equal(received(2), "");
    close_engine(2);
}

static void close__first_engine_sleeps__others_have_no_link(void **state)
{
    (void)state;
    assert_true(uro_port_arm(ports[0]));
    close_engine(0);
    assert_string_equal(received(1), "");
    transmit(1, "3awb");
    assert_string_equal(received(2), "a");
}

static void close__full_ring__frames_of_others_no_longer_wait(void **state)
{
    (void)state;
    fill_ring_from_link();
    const struct uro_tx waits = tx_of('2', 'c');
    uro_port_transmit(ports[2], &waits, 1);
    assert_int_equal(uro_port_tx_free_count(ports[2]), 0);
    arrive("1a2b");
    assert_string_equal(received(0), "");
    close_engine(1);
    assert_string_equal(received(0), "a");
    assert_in_range(uro_port_tx_free_count(ports[2]), 1, URO_PORT_BURST);
}

static void join__after_a_close__frames_of_before_are_gone(void **state)
{
    (void)state;
    transmit(0, "2a");
    inner.tx_free = 0;
    const struct uro_tx waits = tx_of('w', 'b');
    uro_port_transmit(ports[1], &waits, 1);
    close_engine(1);
    inner.tx_free = URO_PORT_BURST;
    transmit(0, "2c");
    ports[1] = uro_engines_port_join(ports[0], 1);
    assert_int_equal(ports[1]->qpn_prefix, 2);
    assert_int_equal(uro_port_tx_free_count(ports[1]), URO_PORT_BURST);
    assert_string_equal(sent(), "");
    assert_string_equal(received(1), "");
    assert_true(uro_port_arm(ports[1]));
    uro_port_disarm(ports[1]);
    transmit(0, "2d");
    arrive("2e1f");
    assert_string_equal(received(1), "d");
    assert_string_equal(received(1), "e");
    assert_string_equal(received(0), "f");
    transmit(1, "1gwh");
    assert_string_equal(received(0), "g");
    assert_string_equal(sent(), "h");
}

static void open__no_descriptor_is_left__caller_still_owns_the_inner_port(void **state)
{
    struct rlimit before, less;

    (void)state;
    reset_inner();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (uint32_t left = 0; left < ENGINES; left++) {
        const int next = dup(0);
        assert_int_equal(close(next), 0);
        less = before;
        less.rlim_cur = (rlim_t)next + left;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
        errno = 0;
        const struct uro_port *port = uro_engines_port_open(&inner.port, ENGINES);
        const int error = errno;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_null(port);
        assert_int_equal(error, EMFILE);
        const int next_after = dup(0);
        assert_int_equal(close(next_after), 0);
        assert_int_equal(next_after, next); /* no descriptor was left open */
    }
    assert_int_equal(inner.closed, 0);
    assert_ptr_equal(inner.port.ops, &inner_ops);
    open_ports(ENGINES);
}

static void be_forked(void)
{
    int fds[ENGINES][URO_PORT_FDS_MAX];
    uint32_t counts[ENGINES];

    for (uint32_t i = 0; i < ENGINES; i++)
        counts[i] = i == 0 ? 0 : uro_port_wait_fds(ports[i], fds[i]);
    for (uint32_t i = ENGINES; i-- > 0;) {
        MUST(inner.forked == 0);
        uro_port_forked(ports[i]);
    }
    MUST(inner.forked == 1 && inner.closed == 0);
    for (uint32_t i = 0; i < ENGINES; i++)
        for (uint32_t k = 0; k < counts[i]; k++)
            MUST(fcntl(fds[i][k], F_GETFD) == -1);
    _exit(0);
}

/* The lock is held when the process forks. The child must not wait for it. */
static void forked__each_port__calls_the_inner_port_for_the_first_only(void **state)
{
    struct uro_pkt pkts[URO_PORT_BURST];

    (void)state;
    arrive("2a");
    assert_int_equal(uro_port_receive(ports[1], pkts, URO_PORT_BURST), 1);
    assert_int_equal(must_status(be_forked), 0);
    uro_port_release(ports[1], pkts, 1);
    transmit(0, "2b");
    assert_string_equal(received(1), "b");
}

/* ---- threads ------------------------------------------------------------------ */

/* Fills the ring of engine 1, as another thread would. */
static void fill_ring_meanwhile(void)
{
    struct uro_tx burst[URO_PORT_BURST];

    inner.during_receive = NULL;
    for (uint32_t i = 0; i < URO_PORT_BURST; i++)
        burst[i] = tx_of('2', i);
    for (uint32_t sent_count = 0; sent_count < RING_SLOTS; sent_count += URO_PORT_BURST)
        uro_port_transmit(ports[2], burst, URO_PORT_BURST);
}

static void receive__ring_is_filled_during_the_inner_receive__no_frame_is_lost(void **state)
{
    (void)state;
    arrive("2a1b");
    inner.during_receive = fill_ring_meanwhile;
    assert_string_equal(received(0), "b");
    assert_int_equal(drain(1), 'a');
}

/* The lock of the ports protects these counters. */
static uint32_t made_count; /* frames that have arrived on the link */
static uint32_t left_count; /* frames that have left by the link */
static uint32_t tx_calls;   /* calls of tx_free_count(): the link has space from time to time */

static atomic_uint errors, done_count;

/* Makes frames arrive for each engine in turn. The engines' ports lock the inner port. */
static uint32_t busy_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    const uint32_t left = ENGINES * LINK_EACH - made_count;
    const uint32_t count = max < 20 ? max : 20;

    (void)port;
    for (uint32_t i = 0; i < count && i < left; i++, made_count++) {
        const struct uro_tx tx = tx_of((char)('1' + made_count % ENGINES), made_count / ENGINES);
        uro_tx_write(&tx, inner.arrives[i].octets);
        pkts[i] = (struct uro_pkt){ .octets = inner.arrives[i].octets, .length = FRAME };
    }
    return count < left ? count : left;
}

static void busy_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)port;
    (void)pkts;
    for (uint32_t i = 0; i < count; i++)
        memset(inner.arrives[i].octets, 0xee, FRAME);
}

static uint32_t busy_tx_free_count(struct uro_port *port)
{
    (void)port;
    return tx_calls++ % 7;
}

static void busy_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    (void)port;
    uro_tx_write(tx, inner.sent[0]);
    left_count += count;
}

static bool busy_arm(struct uro_port *port)
{
    (void)port;
    return made_count == ENGINES * LINK_EACH;
}

static void busy_disarm(struct uro_port *port)
{
    (void)port;
}

static uint32_t busy_wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    (void)port;
    fds[0] = inner.fd;
    return 1;
}

static void busy_close(struct uro_port *port)
{
    (void)port;
    inner.closed++;
}

static const struct uro_port_ops busy_ops = {
    .datapath = { .receive = busy_receive,
                  .release = busy_release,
                  .tx_free_count = busy_tx_free_count,
                  .transmit = busy_transmit },
    .sleep = { .wait_fds = busy_wait_fds, .arm = busy_arm, .disarm = busy_disarm },
    .control = { .close = busy_close },
};

/* The work of the thread of an engine. */
struct work {
    pthread_t thread;
    uint32_t engine;
    uint32_t from_link, from_engine; /* frames received */
    uint32_t sent;                   /* frames to the next engine */
};

/* Checks that the frames of each sender arrive in order. */
static uint32_t receive_some(struct work *work)
{
    struct uro_port *port = ports[work->engine];
    struct uro_pkt pkts[URO_PORT_BURST];
    const uint32_t count = uro_port_receive(port, pkts, URO_PORT_BURST);

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t number = uro_get_be32(pkts[i].octets + AT_NUMBER);
        const uint32_t expected =
            (number & LOCAL) != 0 ? LOCAL | work->from_engine++ : work->from_link++;
        atomic_fetch_add(&errors, number != expected || pkts[i].length != FRAME);
    }
    if (count > 0)
        uro_port_release(port, pkts, count);
    return count;
}

/* Sends frames to the next engine, and some to the link. */
static uint32_t send_some(struct work *work)
{
    const uint32_t space = uro_port_tx_free_count(ports[work->engine]);
    const char next = (char)('1' + (work->engine + 1) % ENGINES);
    struct uro_tx burst[5];
    uint32_t count = 0;

    for (; count < 4 && count < space && work->sent < LOCAL_EACH; count++)
        burst[count] = tx_of(next, LOCAL | work->sent++);
    if (count > 0 && count < space && work->sent % 32 == 0)
        burst[count++] = tx_of('w', 0);
    if (count > 0)
        uro_port_transmit(ports[work->engine], burst, count);
    return count;
}

static void sleep_until_woken(struct work *work)
{
    struct uro_port *port = ports[work->engine];
    int fds[URO_PORT_FDS_MAX];
    struct pollfd polled[URO_PORT_FDS_MAX];
    const uint32_t count = uro_port_wait_fds(port, fds);

    for (uint32_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    if (!uro_port_arm(port)) {
        (void)sched_yield();
        return;
    }
    if (poll(polled, count, (int)patience(SLEEP_MS)) != 1)
        atomic_fetch_add(&errors, 1);
    uro_port_disarm(port);
}

static void *engine_main(void *context)
{
    struct work *work = context;
    bool done = false;

    while (atomic_load(&done_count) < ENGINES && atomic_load(&errors) == 0) {
        const uint32_t moved = receive_some(work) + send_some(work);
        const bool has_all = work->from_link == LINK_EACH && work->from_engine == LOCAL_EACH &&
                             work->sent == LOCAL_EACH;
        if (has_all && !done)
            atomic_fetch_add(&done_count, 1);
        done = has_all;
        if (moved == 0 && !done && work->sent == LOCAL_EACH)
            sleep_until_woken(work);
        else if (moved == 0)
            (void)sched_yield();
    }
    return NULL;
}

static void threads__each_runs_an_engine__no_frame_and_no_wake_up_is_lost(void **state)
{
    struct work works[ENGINES] = { 0 };

    (void)state;
    reset_inner();
    inner.port.ops = &busy_ops;
    made_count = left_count = tx_calls = 0;
    atomic_store(&errors, 0);
    atomic_store(&done_count, 0);
    open_ports(ENGINES);
    for (uint32_t i = 0; i < ENGINES; i++) {
        works[i].engine = i;
        assert_int_equal(pthread_create(&works[i].thread, NULL, engine_main, &works[i]), 0);
    }
    for (uint32_t i = 0; i < ENGINES; i++)
        assert_int_equal(pthread_join(works[i].thread, NULL), 0);
    assert_int_equal(atomic_load(&errors), 0);
    for (uint32_t i = 0; i < ENGINES; i++) {
        assert_int_equal(works[i].from_link, LINK_EACH);
        assert_int_equal(works[i].from_engine, LOCAL_EACH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start_engines, stop_engines)
        TEST(transmit__to_a_host__leaves_by_the_link),
        TEST(transmit__to_this_device__enters_the_ring_of_the_engine),
        TEST(transmit__to_a_group__leaves_and_reaches_the_other_engines),
        TEST(transmit__link_is_full__frames_wait_in_order),
        TEST(transmit__link_is_full__later_frames_to_engines_keep_their_order),
        TEST(transmit__inner_port_is_full__nothing_is_accepted),
        TEST(transmit__a_whole_burst_finds_no_space__all_of_it_waits),
        TEST(transmit__ring_of_an_engine_is_full__frames_wait_in_order),
        TEST(transmit__to_a_group_while_one_ring_is_full__each_gets_the_frame_once),
        TEST(open__values_of_the_inner_port__are_taken_over),
        TEST(link__state_changes__others_see_what_the_first_engine_saw),
        cmocka_unit_test_teardown(link__down_when_opened__is_down_for_all, stop_engines),
        TEST(multicast__lists_of_all_engines__inner_port_gets_each_group_once),
        TEST(multicast__engine_was_closed__its_groups_are_gone),
        TEST(close__first_engine_last__inner_port_is_closed_then),
        TEST(close__first_engine_first__others_have_no_link),
        TEST(close__first_engine_sleeps__others_have_no_link),
        TEST(close__full_ring__frames_of_others_no_longer_wait),
        TEST(join__after_a_close__frames_of_before_are_gone),
        cmocka_unit_test_teardown(open__no_descriptor_is_left__caller_still_owns_the_inner_port,
                                  stop_engines),
        TEST(forked__each_port__calls_the_inner_port_for_the_first_only),
        TEST(receive__ring_is_filled_during_the_inner_receive__no_frame_is_lost),
        cmocka_unit_test_teardown(threads__each_runs_an_engine__no_frame_and_no_wake_up_is_lost,
                                  stop_engines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
