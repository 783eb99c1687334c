/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cable_port.c - tests two ends of a cable in one process. A frame that one end sends arrives
 * at the other end, or has the configured fault. */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/cable/port.h"
#include "support/patience.h"

#define WAIT_MS 1000

static char error[URO_PORT_ERROR_MAX];

static struct uro_port *open_end(const char *device, const char *link)
{
    const struct uro_port_config config = {
        .device = device, .link = link, .has_mac = true, .mtu = 1500
    };

    return uro_cable_port_open(&config, error);
}

struct pair {
    struct uro_port *one, *two;
};

/* Opens both ends; @words are the options of the first end. */
static struct pair open_pair(const char *words)
{
    char link[128];

    (void)snprintf(link, sizeof link, "cable,name=c0%s", words);
    struct pair pair = { open_end("one", link), open_end("two", "cable,name=c0") };
    assert_non_null(pair.one);
    assert_non_null(pair.two);
    return pair;
}

static void close_pair(const struct pair *pair)
{
    uro_port_close(pair->one);
    uro_port_close(pair->two);
}

/* Sends a frame of 60 bytes that begins with @number. */
static void send_frame(struct uro_port *port, uint8_t number)
{
    struct uro_tx tx = { .way = URO_TX_WIRE, .head_length = 60, .head = { number } };

    uro_port_transmit(port, &tx, 1);
}

/* Returns the first bytes of the arriving frames in order: "abc". Waits for at least @least
 * frames. */
static const char *arrived(struct uro_port *port, uint32_t least)
{
    static char text[64];
    struct uro_pkt pkts[URO_PORT_BURST];
    uint32_t count = 0;

    for (;;) {
        uint32_t now = uro_port_receive(port, pkts, URO_PORT_BURST);
        for (uint32_t i = 0; i < now; i++) {
            assert_int_equal(pkts[i].length, 60);
            assert_in_range(count, 0, sizeof text - 2);
            text[count++] = (char)pkts[i].octets[0];
        }
        uro_port_release(port, pkts, now);
        if (now == 0 && count >= least)
            break;
    }
    text[count] = '\0';
    return text;
}

static uint64_t count_of(const char *device, enum uro_cable_count which)
{
    uint64_t value = 0;

    assert_int_equal(uro_cable_port_count(device, which, &value), 0);
    return value;
}

static void cable__no_faults__frames_arrive_in_order(void **state)
{
    struct pair pair = open_pair("");

    (void)state;
    assert_true(uro_port_link_up(pair.one) && uro_port_link_up(pair.two));
    for (uint8_t number = 'a'; number <= 'f'; number++)
        send_frame(pair.one, number);
    assert_string_equal(arrived(pair.two, 6), "abcdef");
    assert_string_equal(arrived(pair.one, 0), "");
    assert_int_equal(count_of("one", URO_CABLE_SENT), 6);
    close_pair(&pair);
}

static void cable__loss_1__nothing_arrives(void **state)
{
    struct pair pair = open_pair(",loss=1");

    (void)state;
    send_frame(pair.one, 'a');
    assert_string_equal(arrived(pair.two, 0), "");
    send_frame(pair.two, 'b'); /* the other direction has no faults */
    assert_string_equal(arrived(pair.one, 1), "b");
    assert_int_equal(count_of("one", URO_CABLE_LOST), 1);
    close_pair(&pair);
}

static void cable__duplicate_1__each_frame_twice(void **state)
{
    struct pair pair = open_pair(",duplicate=1");

    (void)state;
    send_frame(pair.one, 'a');
    send_frame(pair.one, 'b');
    assert_string_equal(arrived(pair.two, 4), "aabb");
    assert_int_equal(count_of("one", URO_CABLE_DUPLICATED), 2);
    close_pair(&pair);
}

/* The frame that overtakes is not held itself. */
static void cable__reorder_1__the_next_frame_overtakes(void **state)
{
    struct pair pair = open_pair(",reorder=1,delay_us=1000000");

    (void)state;
    send_frame(pair.one, 'a');
    send_frame(pair.one, 'b');
    assert_int_equal(uro_cable_port_set("one", "reorder=0,delay_us=0", error), 0);
    send_frame(pair.one, 'c');
    assert_string_equal(arrived(pair.two, 3), "bca");
    close_pair(&pair);
}

/* No frame follows the last frame to overtake it. The last frame must arrive nevertheless. */
static void cable__reordered_last_frame__arrives(void **state)
{
    struct pair pair = open_pair(",reorder=1");

    (void)state;
    send_frame(pair.one, 'a');
    assert_string_equal(arrived(pair.two, 1), "a");
    close_pair(&pair);
}

/* Returns whether a sleep on the port's descriptors ends within @ms. */
static bool wakes(struct uro_port *port, int ms)
{
    struct pollfd wait[URO_PORT_FDS_MAX];
    int fds[URO_PORT_FDS_MAX];
    const nfds_t count = uro_port_wait_fds(port, fds);

    for (nfds_t i = 0; i < count; i++)
        wait[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    return poll(wait, count, ms) > 0;
}

/* Only the first frame needs a system call to wake the receiver. */
static void cable__sleeper__woken_once_by_frames(void **state)
{
    struct pair pair = open_pair("");
    int fds[URO_PORT_FDS_MAX];
    uint64_t wake_ups = 0;

    (void)state;
    uro_port_disarm(pair.two);
    assert_true(uro_port_arm(pair.two));
    assert_false(wakes(pair.two, 0));
    send_frame(pair.one, 'a');
    send_frame(pair.one, 'b');
    assert_true(wakes(pair.two, 0));
    (void)uro_port_wait_fds(pair.two, fds);
    assert_int_equal(read(fds[0], &wake_ups, sizeof wake_ups), sizeof wake_ups);
    assert_int_equal(wake_ups, 1);
    assert_false(uro_port_arm(pair.two)); /* a frame waits */
    assert_string_equal(arrived(pair.two, 2), "ab");
    close_pair(&pair);
}

static void cable__sleeper__woken_when_a_delayed_frame_is_due(void **state)
{
    struct pair pair = open_pair(",delay_us=100000");

    (void)state;
    uro_port_disarm(pair.two);
    send_frame(pair.one, 'a');
    if (uro_port_arm(pair.two)) /* unless the machine was slow */
        assert_true(wakes(pair.two, (int)patience(WAIT_MS)));
    uro_port_disarm(pair.two);
    assert_false(wakes(pair.two, 0));
    assert_string_equal(arrived(pair.two, 1), "a");
    assert_int_equal(uro_cable_port_set("one", "delay_us=10000000", error), 0);
    send_frame(pair.one, 'b');
    assert_true(uro_port_arm(pair.two)); /* the frame is not due for ten seconds */
    close_pair(&pair);
}

static void cable__sleeper__woken_by_a_peer_and_by_new_faults(void **state)
{
    struct pair pair = { .one = open_end("one", "cable,name=c0") };

    (void)state;
    assert_false(wakes(pair.one, 0));
    pair.two = open_end("two", "cable,name=c0");
    assert_non_null(pair.two);
    assert_true(wakes(pair.one, 0));
    uro_port_disarm(pair.one);
    assert_int_equal(uro_cable_port_set("one", "plugged=no", error), 0);
    assert_true(wakes(pair.one, 0) && wakes(pair.two, 0));
    close_pair(&pair);
}

/* Returns which of 20 frames arrive. */
static uint32_t arrivals(const struct pair *pair)
{
    uint32_t arrivals = 0;

    for (uint8_t i = 0; i < 20; i++) {
        send_frame(pair->one, i);
        struct uro_pkt pkt;
        uint32_t count = uro_port_receive(pair->two, &pkt, 1);
        uro_port_release(pair->two, &pkt, count);
        arrivals |= count << i;
    }
    return arrivals;
}

static void cable__seed_is_set_again__faults_are_the_same(void **state)
{
    struct pair pair = open_pair(",loss=0.5,seed=5");

    (void)state;
    uint32_t first = arrivals(&pair);
    assert_int_equal(uro_cable_port_set("one", "loss=0.5", error), 0);
    assert_int_not_equal(arrivals(&pair), first); /* the sequence of faults continues */
    assert_int_equal(uro_cable_port_set("one", "seed=5", error), 0);
    assert_int_equal(arrivals(&pair), first);
    close_pair(&pair);
}

/* The child cannot use the device of the parent, and creates its own. */
static void cable__forked_child__has_separate_cables(void **state)
{
    struct pair pair = open_pair("");
    int fds[URO_PORT_FDS_MAX], status;

    (void)state;
    (void)uro_port_wait_fds(pair.one, fds);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uro_port_forked(pair.one);
        bool closed = fcntl(fds[0], F_GETFD) < 0 && fcntl(fds[1], F_GETFD) < 0;
        struct uro_port *one = open_end("one", "cable,name=c0");
        struct uro_port *two = open_end("two", "cable,name=c0");
        _exit(closed && one != NULL && two != NULL && uro_port_link_up(one) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close_pair(&pair);
}

static void cable__mtu_of_a_device_is_larger__is_9600(void **state)
{
    const struct uro_port_config config = {
        .device = "one", .link = "cable,name=c0", .has_mac = true, .mtu = 65000
    };
    struct uro_port *port = uro_cable_port_open(&config, error);

    (void)state;
    assert_non_null(port);
    assert_int_equal(port->mtu, 9600);
    uro_port_close(port);
}

static void cable__unplugged__link_down_and_frames_lost(void **state)
{
    struct pair pair = open_pair("");

    (void)state;
    assert_int_equal(uro_cable_port_set("two", "plugged=no", error), 0);
    assert_false(uro_port_link_up(pair.one) || uro_port_link_up(pair.two));
    send_frame(pair.one, 'a');
    assert_int_equal(uro_cable_port_set("two", "plugged=yes", error), 0);
    send_frame(pair.one, 'b');
    assert_string_equal(arrived(pair.two, 1), "b");
    assert_int_equal(count_of("one", URO_CABLE_NOWHERE), 1);
    close_pair(&pair);
}

static void cable__peer_leaves_and_returns__up_again(void **state)
{
    struct pair pair = open_pair("");

    (void)state;
    assert_int_equal(uro_cable_port_set("one", "loss=0", error), 0); /* the cable keeps its name */
    uro_port_close(pair.two);
    assert_false(uro_port_link_up(pair.one));
    send_frame(pair.one, 'a');
    pair.two = open_end("two", "cable,name=c0");
    assert_non_null(pair.two);
    send_frame(pair.one, 'b');
    assert_string_equal(arrived(pair.two, 1), "b");
    close_pair(&pair);
}

/* A sender that checks for free slots never overwrites a frame. */
static void cable__full__no_free_slot_until_frames_are_taken(void **state)
{
    struct pair pair = open_pair(",duplicate=1");
    uint32_t sent = 0;

    (void)state;
    while (uro_port_tx_free_count(pair.one) > 0) {
        send_frame(pair.one, 'a');
        sent++;
    }
    assert_int_equal(sent, URO_CABLE_SLOTS / 2);
    send_frame(pair.one, 'x');
    assert_int_equal(count_of("one", URO_CABLE_NOWHERE), 1);
    struct uro_pkt pkts[URO_PORT_BURST];
    assert_int_equal(uro_port_receive(pair.two, pkts, URO_PORT_BURST), URO_PORT_BURST);
    uro_port_release(pair.two, pkts, URO_PORT_BURST);
    assert_int_equal(uro_port_tx_free_count(pair.one), URO_PORT_BURST / 2);
    close_pair(&pair);
}

static void cable__one_slot_left__duplicate_does_not_fit(void **state)
{
    struct pair pair = open_pair("");

    (void)state;
    for (uint32_t i = 1; i < URO_CABLE_SLOTS; i++)
        send_frame(pair.one, 'a');
    assert_int_equal(count_of("one", URO_CABLE_NOWHERE), 0);
    assert_int_equal(uro_cable_port_set("one", "duplicate=1", error), 0);
    send_frame(pair.one, 'b');
    assert_int_equal(count_of("one", URO_CABLE_NOWHERE), 1);
    close_pair(&pair);
}

static void open__wrong_options__error_is_a_sentence(void **state)
{
    char many[2 * URO_PORT_ERROR_MAX] = "";

    (void)state;
    assert_null(open_end("one", "cable"));
    assert_non_null(strstr(error, "name=TEXT is missing"));
    assert_null(open_end("one", "cable,name=c0,loss=7"));
    assert_non_null(strstr(error, "loss=7"));

    struct pair pair = open_pair("");
    assert_null(open_end("three", "cable,name=c0"));
    assert_non_null(strstr(error, "two other devices"));
    assert_int_equal(uro_cable_port_set("three", "loss=1", error), -ENODEV);
    assert_int_equal(uro_cable_port_set("one", "loss=2", error), -EINVAL);
    assert_int_equal(uro_cable_port_set("one", "loss=0.5,name=c1", error), -EINVAL);
    memset(many, ',', sizeof many - 1);
    memcpy(many, "loss=1", strlen("loss=1"));
    assert_int_equal(uro_cable_port_set("one", many, error), -EINVAL);
    assert_string_equal(error, "link cable: the description is too long");
    send_frame(pair.one, 'a'); /* nothing was changed */
    assert_string_equal(arrived(pair.two, 1), "a");
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cable__no_faults__frames_arrive_in_order),
        cmocka_unit_test(cable__loss_1__nothing_arrives),
        cmocka_unit_test(cable__duplicate_1__each_frame_twice),
        cmocka_unit_test(cable__reorder_1__the_next_frame_overtakes),
        cmocka_unit_test(cable__reordered_last_frame__arrives),
        cmocka_unit_test(cable__sleeper__woken_once_by_frames),
        cmocka_unit_test(cable__sleeper__woken_when_a_delayed_frame_is_due),
        cmocka_unit_test(cable__sleeper__woken_by_a_peer_and_by_new_faults),
        cmocka_unit_test(cable__seed_is_set_again__faults_are_the_same),
        cmocka_unit_test(cable__forked_child__has_separate_cables),
        cmocka_unit_test(cable__mtu_of_a_device_is_larger__is_9600),
        cmocka_unit_test(cable__unplugged__link_down_and_frames_lost),
        cmocka_unit_test(cable__peer_leaves_and_returns__up_again),
        cmocka_unit_test(cable__full__no_free_slot_until_frames_are_taken),
        cmocka_unit_test(cable__one_slot_left__duplicate_does_not_fit),
        cmocka_unit_test(open__wrong_options__error_is_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
