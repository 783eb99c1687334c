/* SPDX-License-Identifier: BSD-3-Clause */
/* test_impair_port.c - tests a port with faults around an inner port of the test, in virtual
 * time. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/impair/port.h"
#include "wire/icrc.h"

#define ETHER     14u
#define HEAD      (ETHER + URO_IPV4_LEN + URO_UDP_LEN + URO_BTH_LEN)
#define PAYLOAD   8u
#define FRAME     (HEAD + PAYLOAD + 4u)
#define AT_NUMBER (FRAME - 5u) /* the last byte of the payload */
#define MANY      64u

/* ---- the inner port ------------------------------------------------------- */

static struct {
    struct uro_port port;
    uint32_t tx_free;
    uint32_t waiting; /* frames to receive */
    uint32_t lent, released, armed, disarmed, closed;
    bool down;
    bool ready; /* frames wait, so arm() returns false */
    uint8_t arrives[MANY][FRAME];
    uint8_t sent[MANY][FRAME];
    uint32_t sent_count, bursts;
} inner;

static uro_time now;

static uro_time clock_now(void)
{
    return now;
}

static uint32_t inner_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    const uint32_t count = inner.waiting < max ? inner.waiting : max;

    (void)port;
    for (uint32_t i = 0; i < count; i++)
        pkts[i] = (struct uro_pkt){ .octets = inner.arrives[i], .length = FRAME, .summed = true };
    inner.waiting -= count;
    inner.lent += count;
    return count;
}

static void inner_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)port;
    (void)pkts;
    inner.released += count;
}

static uint32_t inner_tx_free_count(struct uro_port *port)
{
    (void)port;
    return inner.tx_free;
}

static void inner_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    (void)port;
    assert_in_range(inner.sent_count + count, 0, MANY);
    assert_in_range(count, 1, inner.tx_free);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(uro_tx_length(&tx[i]), FRAME);
        uro_tx_write(&tx[i], inner.sent[inner.sent_count++]);
    }
    inner.bursts++;
}

static uint32_t inner_wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    (void)port;
    fds[0] = 7;
    return 1;
}

static bool inner_arm(struct uro_port *port)
{
    (void)port;
    inner.armed += !inner.ready;
    return !inner.ready;
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

static void inner_close(struct uro_port *port)
{
    (void)port;
    inner.closed++;
}

static const struct uro_port_ops inner_ops = {
    .datapath = { .receive = inner_receive,
                  .release = inner_release,
                  .tx_free_count = inner_tx_free_count,
                  .transmit = inner_transmit },
    .sleep = { .wait_fds = inner_wait_fds, .arm = inner_arm, .disarm = inner_disarm },
    .control = { .close = inner_close, .link_up = inner_link_up },
};

/* ---- the port under test -------------------------------------------------- */

static struct uro_port *port;
static const char *next_plan;
static char error[URO_IMPAIR_FILE_ERROR_MAX];

static bool take_change(void *context, struct uro_impair_plan *plan)
{
    char wrong[URO_IMPAIR_ERROR_MAX];

    (void)context;
    if (next_plan == NULL)
        return false;
    assert_int_equal(uro_impair_plan_parse(plan, next_plan, wrong), 0);
    next_plan = NULL;
    return true;
}

static void open_with(const char *text, struct uro_impair_port_config config)
{
    struct uro_impair_plan plan;
    char wrong[URO_IMPAIR_ERROR_MAX];

    memset(&inner, 0, sizeof inner);
    inner.port = (struct uro_port){
        .ops = &inner_ops, .mtu = 1500, .window = 9, .flags = URO_PORT_WAKES_DOWN
    };
    inner.tx_free = URO_PORT_BURST;
    now = URO_MS(1000);
    if (uro_impair_plan_parse(&plan, text, wrong) != 0)
        fail_msg("%s", wrong);
    config.plan = &plan;
    config.now = clock_now;
    config.changed = take_change;
    port = uro_impair_port_open(&inner.port, &config);
    assert_non_null(port);
}

static void open_port(const char *text)
{
    open_with(text, (struct uro_impair_port_config){ 0 });
}

static int stop(void **state)
{
    (void)state;
    uro_port_close(port);
    assert_int_equal(inner.closed, 1);
    assert_int_equal(inner.released, inner.lent);
    return 0;
}

/* Returns the payload of frame @number. Its last byte is @number. */
static const uint8_t *payload_of(char number)
{
    static uint8_t payload[PAYLOAD];

    memset(payload, 0x55, sizeof payload);
    payload[PAYLOAD - 1] = (uint8_t)number;
    return payload;
}

/* Describes an RC SEND ONLY with 8 bytes to QP 9. */
static struct uro_tx tx_of(char number)
{
    static uint32_t psn;
    struct uro_tx tx = { .way = URO_TX_WIRE,
                         .head_length = HEAD,
                         .icrc = true,
                         .network_at = ETHER,
                         .payload_length = PAYLOAD,
                         .span_count = 1,
                         .spans = { { payload_of(number), PAYLOAD } } };
    const struct uro_ip ip = { .dont_fragment = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = FRAME - ETHER - URO_IPV4_LEN };
    const struct uro_udp udp = { .dest_port = URO_ROCE_PORT, .length = ip.payload_length };
    const struct uro_bth bth = {
        .opcode = 0x04, .pkey = URO_PKEY_DEFAULT, .dest_qpn = 9, .psn = psn++
    };

    uro_put_be16(tx.head + 12, 0x0800);
    (void)uro_ip_put(tx.head + ETHER, &ip);
    uro_udp_encode(tx.head + ETHER + URO_IPV4_LEN, &udp);
    uro_bth_encode(tx.head + ETHER + URO_IPV4_LEN + URO_UDP_LEN, &bth);
    return tx;
}

static void send_tx(const struct uro_tx *tx)
{
    assert_in_range(uro_port_tx_free_count(port), 1, URO_PORT_BURST);
    uro_port_transmit(port, tx, 1);
}

/* Sends one frame for each letter, one at a time. */
static void send_frames(const char *numbers)
{
    for (; *numbers != '\0'; numbers++) {
        const struct uro_tx tx = tx_of(*numbers);
        send_tx(&tx);
    }
}

/* Returns the numbers of the frames that left since the last call. */
static const char *sent(void)
{
    static char text[MANY + 1];

    for (uint32_t i = 0; i < inner.sent_count; i++)
        text[i] = (char)inner.sent[i][AT_NUMBER];
    text[inner.sent_count] = '\0';
    inner.sent_count = inner.bursts = 0;
    return text;
}

static void arrive(const char *numbers)
{
    for (inner.waiting = 0; numbers[inner.waiting] != '\0'; inner.waiting++) {
        const struct uro_tx tx = tx_of(numbers[inner.waiting]);
        uro_tx_write(&tx, inner.arrives[inner.waiting]);
    }
}

/* Calls receive() once. Returns the numbers of the frames. */
static const char *received(void)
{
    static char text[URO_PORT_BURST + 1];
    struct uro_pkt pkts[URO_PORT_BURST];
    const uint32_t count = uro_port_receive(port, pkts, URO_PORT_BURST);

    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pkts[i].length, FRAME);
        text[i] = (char)pkts[i].octets[AT_NUMBER];
    }
    text[count] = '\0';
    if (count > 0)
        uro_port_release(port, pkts, count);
    return text;
}

static bool icrc_is_right(const uint8_t *frame)
{
    return uro_get_le32(frame + FRAME - 4) == uro_icrc(frame + ETHER, false, FRAME - ETHER - 4);
}

static uint64_t count_of(enum uro_impair_count which)
{
    return uro_impair_port_counts(port)[which];
}

/* ---- tests ---------------------------------------------------------------- */

static void port__off__passes_every_frame_unchanged(void **state)
{
    struct uro_tx burst[3] = { tx_of('a'), tx_of('a'), tx_of('a') };
    struct uro_pkt pkts[4];

    (void)state;
    open_port("off");
    assert_int_equal(port->mtu, 1500);
    assert_int_equal(port->window, 9);
    assert_true(uro_port_has(port, URO_PORT_WAKES_DOWN));
    uro_port_transmit(port, burst, 3);
    assert_int_equal(inner.bursts, 1);
    assert_string_equal(sent(), "aaa");
    arrive("xy");
    assert_int_equal(uro_port_receive(port, pkts, 4), 2);
    assert_ptr_equal(pkts[1].octets, inner.arrives[1]);
    uro_port_release(port, pkts, 2);
    assert_int_equal(inner.released, 2);
    assert_true(uro_port_next(port) == URO_TIME_NEVER);
    assert_int_equal(count_of(URO_IMPAIR_COUNT_PACKETS), 5);
}

/* The host tests whether these operations are NULL, so the outer port must not add them. */
static void port__inner_without_operations__has_none_either(void **state)
{
    (void)state;
    open_port("off");
    assert_false(uro_port_takes_groups(port));
    assert_false(uro_port_takes_services(port));
    assert_int_equal(uro_port_lock_service(port, NULL), 0);
    assert_false(uro_port_gone(port));
}

static void loss__by_number__the_others_pass(void **state)
{
    struct uro_tx burst[4] = { tx_of('a'), tx_of('a'), tx_of('a'), tx_of('a') };

    (void)state;
    open_port("drop:2+5");
    uro_port_transmit(port, burst, 4);
    assert_int_equal(inner.bursts, 2);
    assert_string_equal(sent(), "aaa");
    send_frames("ef");
    assert_string_equal(sent(), "f");
    arrive("uvwxyz");
    assert_string_equal(received(), "uwxz");
    assert_int_equal(count_of(URO_IMPAIR_COUNT_LOST), 4);
}

/* The host does not call release() after a receive() that returned nothing. */
static void loss__of_all_received__the_inner_frames_are_released(void **state)
{
    (void)state;
    open_port("rx,loss:100%");
    arrive("abc");
    assert_string_equal(received(), "");
    assert_int_equal(inner.released, 3);
    send_frames("x");
    assert_string_equal(sent(), "x");
}

static void line__of_frames_that_were_sent__has_their_fates(void **state)
{
    struct uro_tx burst[3] = { tx_of('a'), tx_of('a'), tx_of('a') };

    (void)state;
    open_port("tx,drop:2/tx,duplicate:100%");
    uro_port_transmit(port, burst, 3);
    assert_true(uro_impair_port_line(port, URO_IMPAIR_TX, 0)->fate.duplicated);
    const struct uro_impair_trace_line *line = uro_impair_port_line(port, URO_IMPAIR_TX, 1);
    assert_true(line->fate.lost);
    assert_int_equal(line->direction, URO_IMPAIR_TX);
    assert_int_equal(line->packet, 2);
    next_plan = "off";
    assert_string_equal(received(), "");
    uro_port_transmit(port, burst, 2);
    assert_null(uro_impair_port_line(port, URO_IMPAIR_TX, 0));
    assert_null(uro_impair_port_line(port, URO_IMPAIR_TX, 1));
}

static void line__of_frames_that_are_lent__has_their_fates(void **state)
{
    struct uro_pkt pkts[4];

    (void)state;
    open_port("rx,drop:2,delay:50us");
    arrive("ab");
    assert_string_equal(received(), "");
    next_plan = "off";
    arrive("c"); /* waits behind the first frame, although it has no delay itself */
    assert_string_equal(received(), "");
    now += URO_US(50);
    assert_int_equal(uro_port_receive(port, pkts, 4), 2);
    assert_int_equal(uro_impair_port_line(port, URO_IMPAIR_RX, 0)->fate.delay, URO_US(50));
    assert_int_equal(uro_impair_port_line(port, URO_IMPAIR_RX, 0)->packet, 1);
    assert_null(uro_impair_port_line(port, URO_IMPAIR_RX, 1));
    uro_port_release(port, pkts, 2);
    arrive("d");
    assert_int_equal(uro_port_receive(port, pkts, 4), 1);
    assert_null(uro_impair_port_line(port, URO_IMPAIR_RX, 0));
    uro_port_release(port, pkts, 1);
}

static char lost_numbers[MANY + 1];

static void note_lost(void *context, const struct uro_pkt *pkt,
                      const struct uro_impair_trace_line *line)
{
    (void)context;
    assert_true(line->fate.lost);
    assert_int_equal(line->direction, URO_IMPAIR_RX);
    lost_numbers[strlen(lost_numbers)] = (char)pkt->octets[AT_NUMBER];
}

static void lost__received_frames__are_reported(void **state)
{
    (void)state;
    memset(lost_numbers, 0, sizeof lost_numbers);
    open_with("every:2", (struct uro_impair_port_config){ .lost = note_lost });
    arrive("abcd");
    assert_string_equal(received(), "ac");
    send_frames("xy");
    assert_string_equal(lost_numbers, "bd");
}

static void delay__sent__leaves_when_due(void **state)
{
    (void)state;
    open_port("tx,delay:50us");
    send_frames("a");
    now += URO_US(20);
    send_frames("b");
    assert_string_equal(sent(), "");
    assert_int_equal(uro_port_next(port), URO_MS(1000) + URO_US(50));
    now = URO_MS(1000) + URO_US(49);
    assert_int_equal(uro_port_tx_free_count(port), URO_PORT_BURST);
    assert_string_equal(sent(), "");
    now++;
    now += 999;
    assert_string_equal(received(), "");
    assert_string_equal(sent(), "a");
    assert_int_equal(uro_port_next(port), URO_MS(1000) + URO_US(70));
    now += URO_US(20);
    (void)uro_port_tx_free_count(port);
    assert_string_equal(sent(), "b");
    assert_true(icrc_is_right(inner.sent[0]));
    assert_true(uro_port_next(port) == URO_TIME_NEVER);
}

static void delay__received__arrives_when_due(void **state)
{
    (void)state;
    open_port("rx,delay:50us");
    arrive("ab");
    assert_string_equal(received(), "");
    assert_int_equal(inner.released, 2);
    memset(inner.arrives, 0, sizeof inner.arrives); /* the link uses its memory again */
    assert_int_equal(uro_port_next(port), now + URO_US(50));
    assert_true(uro_port_arm(port));
    assert_int_equal(inner.armed, 1);
    uro_port_disarm(port);
    assert_int_equal(inner.disarmed, 1);
    now += URO_US(50);
    assert_false(uro_port_arm(port));
    assert_int_equal(inner.armed, 1);
    assert_string_equal(received(), "ab");
    assert_true(uro_port_next(port) == URO_TIME_NEVER);
}

/* A frame without delay does not overtake frames that wait. */
static void delay__then_none__order_is_kept(void **state)
{
    (void)state;
    open_port("delay:50us");
    send_frames("a");
    arrive("x");
    assert_string_equal(received(), "");
    next_plan = "off";
    arrive("y");
    assert_string_equal(received(), "");
    send_frames("b");
    assert_string_equal(sent(), "");
    now += URO_US(50);
    assert_string_equal(received(), "xy");
    assert_string_equal(sent(), "ab");
    send_frames("c");
    assert_string_equal(sent(), "c");
}

static void duplicate__each_direction__twice(void **state)
{
    (void)state;
    open_port("duplicate:100%");
    send_frames("ab");
    assert_string_equal(sent(), "aabb");
    arrive("xy");
    assert_string_equal(received(), "");
    assert_false(uro_port_arm(port));
    assert_string_equal(received(), "xxyy");
    assert_int_equal(count_of(URO_IMPAIR_COUNT_DUPLICATED), 4);
}

static void reorder__next_frame_arrives__overtakes_the_held_frame(void **state)
{
    (void)state;
    open_port("tx,reorder:100%");
    send_frames("a");
    assert_string_equal(sent(), "");
    assert_int_equal(uro_port_next(port), now + URO_MS(1));
    next_plan = "off";
    assert_string_equal(received(), "");
    send_frames("b");
    assert_string_equal(sent(), "ba");
}

static void reorder__no_next_frame__leaves_by_itself(void **state)
{
    (void)state;
    open_port("tx,reorder:100%");
    send_frames("a");
    now += URO_MS(1);
    (void)uro_port_tx_free_count(port);
    assert_string_equal(sent(), "a");
}

static void corrupt__sent__has_the_old_icrc(void **state)
{
    uint8_t right[FRAME];
    unsigned differ = 0;

    (void)state;
    open_port("corrupt:100%");
    const struct uro_tx tx = tx_of('a');
    uro_tx_write(&tx, right);
    for (unsigned i = 0; i < 40; i++) {
        send_tx(&tx);
        assert_int_equal(inner.sent_count, 1);
        assert_false(icrc_is_right(inner.sent[0]) && memcmp(inner.sent[0], right, FRAME) == 0);
        assert_memory_equal(inner.sent[0], right, HEAD - URO_BTH_LEN);
        /* The ICRC on the wire is that of the original frame, unless the fault changes the ICRC. */
        differ += memcmp(inner.sent[0] + FRAME - 4, right + FRAME - 4, 4) != 0;
        (void)sent();
    }
    assert_in_range(differ, 1, 20);
}

static void corrupt__resummed__has_wrong_data_and_a_right_icrc(void **state)
{
    uint8_t right[FRAME];
    struct uro_pkt pkts[1];

    (void)state;
    open_port("corrupt:100%:resum");
    const struct uro_tx tx = tx_of('a');
    uro_tx_write(&tx, right);
    send_tx(&tx);
    assert_int_equal(inner.sent_count, 1);
    assert_memory_equal(inner.sent[0], right, HEAD);
    assert_memory_not_equal(inner.sent[0], right, FRAME);
    assert_true(icrc_is_right(inner.sent[0]));
    arrive("a");
    assert_string_equal(received(), "");
    assert_int_equal(uro_port_receive(port, pkts, 1), 1);
    assert_true(pkts[0].summed);
    assert_memory_not_equal(pkts[0].octets, right, FRAME);
    uro_port_release(port, pkts, 1);
}

/* The engine must check the ICRC, although the inner port has done so. */
static void corrupt__received__is_not_summed(void **state)
{
    struct uro_pkt pkts[1];

    (void)state;
    open_port("rx,corrupt:100%");
    arrive("a");
    assert_string_equal(received(), "");
    assert_int_equal(uro_port_receive(port, pkts, 1), 1);
    assert_false(pkts[0].summed);
    uro_port_release(port, pkts, 1);
}

static void mark__sent_and_received__ce(void **state)
{
    struct uro_pkt pkts[1];

    (void)state;
    open_port("ce:100%");
    send_frames("a");
    assert_int_equal(inner.sent[0][ETHER + 1] & 3, 3);
    assert_true(icrc_is_right(inner.sent[0]));
    arrive("a");
    assert_string_equal(received(), "");
    assert_int_equal(uro_port_receive(port, pkts, 1), 1);
    assert_int_equal(pkts[0].octets[ETHER + 1] & 3, 3);
    uro_port_release(port, pkts, 1);
}

static void delayed_frames__link_is_full__wait_for_the_link(void **state)
{
    (void)state;
    open_port("tx,delay:50us");
    send_frames("abc");
    now += URO_US(50);
    inner.tx_free = 0;
    assert_int_equal(uro_port_tx_free_count(port), 0);
    assert_string_equal(sent(), "");
    assert_in_range(uro_port_next(port), 0, now); /* the host then tries again soon */
    assert_true(uro_port_arm(port));
    inner.tx_free = 2;
    assert_int_equal(uro_port_tx_free_count(port), 2);
    assert_string_equal(sent(), "abc");
}

static void queue__full__accepts_no_more_frames(void **state)
{
    const struct uro_tx tx = tx_of('a');
    int fds[URO_PORT_FDS_MAX];
    struct uro_pkt pkts[URO_PORT_BURST];

    (void)state;
    open_port("delay:10s,duplicate:100%");
    for (uint32_t i = 0; i < URO_IMPAIR_PORT_SLOTS / 2; i++) {
        assert_in_range(uro_port_tx_free_count(port), 1, URO_PORT_BURST);
        uro_port_transmit(port, &tx, 1);
    }
    assert_int_equal(uro_port_tx_free_count(port), 0);
    for (uint32_t i = 0; i < URO_IMPAIR_PORT_SLOTS / 2; i++) {
        assert_int_equal(uro_port_wait_fds(port, fds), 1);
        arrive("x");
        assert_int_equal(uro_port_receive(port, pkts, URO_PORT_BURST), 0);
    }
    assert_int_equal(uro_port_wait_fds(port, fds), 0);
    inner.waiting = 1;
    assert_int_equal(uro_port_receive(port, pkts, URO_PORT_BURST), 0);
    assert_int_equal(inner.waiting, 1);
}

static void plan__changed_while_running__packet_numbers_continue(void **state)
{
    (void)state;
    open_port("off");
    send_frames("abc");
    next_plan = "drop:5";
    assert_string_equal(received(), "");
    send_frames("def");
    assert_string_equal(sent(), "abcdf");
}

static void flap__within_the_interval__link_is_down(void **state)
{
    (void)state;
    open_port("flap:1ms+1ms");
    assert_true(uro_port_link_up(port));
    now += URO_MS(1);
    assert_false(uro_port_link_up(port));
    send_frames("a");
    assert_string_equal(sent(), "");
    now += URO_MS(1);
    send_frames("b");
    assert_string_equal(sent(), "b");
    assert_true(uro_port_link_up(port));
    inner.down = true;
    inner.port.mtu = 1400;
    assert_false(uro_port_link_up(port));
    assert_int_equal(port->mtu, 1400);
}

/* ---- traces --------------------------------------------------------------- */

static const struct uro_impair_trace_header header = { .version = URO_IMPAIR_TRACE_VERSION,
                                                       .program = "test",
                                                       .device = "uroce0" };

static void make_path(char path[static 64])
{
    (void)snprintf(path, 64, "/tmp/uroce-trace-XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void trace__replayed__the_same_frames_leave(void **state)
{
    static const char plan[] = "loss:20%,duplicate:20%,corrupt:10%,seed:3";
    char path[64], first[MANY + 1];
    struct uro_impair_port_config config = { 0 };

    (void)state;
    make_path(path);
    config.trace = uro_impair_trace_create(path, &header, error);
    assert_non_null(config.trace);
    open_with(plan, config);
    send_frames("abcdefghijklmnopqrstuvwxyz");
    (void)snprintf(first, sizeof first, "%s", sent());
    assert_true(strlen(first) > 20 && strcmp(first, "abcdefghijklmnopqrstuvwxyz") != 0);
    assert_int_equal(uro_impair_port_trace_error(port), 0);
    uro_port_close(port);

    config = (struct uro_impair_port_config){ .replays = true };
    assert_int_equal(uro_impair_trace_load(&config.replay, path, error), 0);
    assert_string_equal(config.replay.header.program, "test");
    open_with("off", config);
    send_frames("abcdefghijklmnopqrstuvwxyz");
    assert_string_equal(sent(), first);
    (void)unlink(path);
}

/* An empty trace is a link without faults, not a link with the plan. */
static void trace__empty__replays_no_fault(void **state)
{
    (void)state;
    open_with("loss:100%", (struct uro_impair_port_config){ .replays = true });
    send_frames("abc");
    assert_string_equal(sent(), "abc");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, stop)
    const struct CMUnitTest tests[] = {
        TEST(port__off__passes_every_frame_unchanged),
        TEST(port__inner_without_operations__has_none_either),
        TEST(loss__by_number__the_others_pass),
        TEST(loss__of_all_received__the_inner_frames_are_released),
        TEST(line__of_frames_that_were_sent__has_their_fates),
        TEST(line__of_frames_that_are_lent__has_their_fates),
        TEST(lost__received_frames__are_reported),
        TEST(delay__sent__leaves_when_due),
        TEST(delay__received__arrives_when_due),
        TEST(delay__then_none__order_is_kept),
        TEST(duplicate__each_direction__twice),
        TEST(reorder__next_frame_arrives__overtakes_the_held_frame),
        TEST(reorder__no_next_frame__leaves_by_itself),
        TEST(corrupt__sent__has_the_old_icrc),
        TEST(corrupt__resummed__has_wrong_data_and_a_right_icrc),
        TEST(corrupt__received__is_not_summed),
        TEST(mark__sent_and_received__ce),
        TEST(delayed_frames__link_is_full__wait_for_the_link),
        TEST(queue__full__accepts_no_more_frames),
        TEST(plan__changed_while_running__packet_numbers_continue),
        TEST(flap__within_the_interval__link_is_down),
        TEST(trace__replayed__the_same_frames_leave),
        TEST(trace__empty__replays_no_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
