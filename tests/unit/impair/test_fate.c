/* SPDX-License-Identifier: BSD-3-Clause */
/* test_fate.c - tests the fates of the packets of a flow. They depend only on the seed, the flow
 * and the number of the packet. Each fault is as frequent as the plan says. */
#include "support/check.h"

#include <string.h>

#include "impair/fate.h"
#include "wire/icrc.h"

#define MANY 100000u

static struct uro_impair_plan plan;

static void set_plan(const char *text)
{
    char error[URO_IMPAIR_ERROR_MAX];

    if (uro_impair_plan_parse(&plan, text, error) != 0)
        fail_msg("%s", error);
}

static struct uro_impair_flow flow_number(enum uro_impair_kind kind, uint32_t number)
{
    struct uro_impair_flow flow = { .kind = kind, .number = number };

    uro_impair_flow_plan(&flow, &plan);
    return flow;
}

static struct uro_impair_fate next(struct uro_impair_flow *flow)
{
    struct uro_impair_fate fate;

    uro_impair_fate_draw(&plan, flow, &fate);
    return fate;
}

static bool same(const struct uro_impair_fate *a, const struct uro_impair_fate *b)
{
    return a->lost == b->lost && a->duplicated == b->duplicated && a->overtaken == b->overtaken &&
           a->marked == b->marked && a->corrupted == b->corrupted && a->resummed == b->resummed &&
           a->damage == b->damage && a->delay == b->delay;
}

#define EVERYTHING                                                                                 \
    "loss:10%,duplicate:10%,reorder:10%,corrupt:10%,ce:10%,delay:1ms+-1ms,burst:1%:20%"

static void fate__same_seed__same_fates_whatever_other_flows_do(void **state)
{
    (void)state;
    set_plan(EVERYTHING);
    struct uro_impair_flow one = flow_number(URO_IMPAIR_REQUEST, 0);
    struct uro_impair_flow again = one, other = flow_number(URO_IMPAIR_REQUEST, 1);
    struct uro_impair_flow acks = flow_number(URO_IMPAIR_ACK, 0);
    unsigned other_differs = 0, acks_differ = 0;

    for (unsigned i = 0; i < 1000; i++) {
        const struct uro_impair_fate first = next(&one), others = next(&other), ack = next(&acks);
        const struct uro_impair_fate second = next(&again);
        assert_true(same(&first, &second));
        other_differs += !same(&first, &others);
        acks_differ += !same(&first, &ack);
    }
    assert_true(other_differs > 500 && acks_differ > 500);
}

static void fate__other_seed__other_fates(void **state)
{
    unsigned differs = 0;

    (void)state;
    set_plan(EVERYTHING);
    struct uro_impair_flow one = flow_number(URO_IMPAIR_REQUEST, 0);
    plan.seed = 2;
    struct uro_impair_flow other = flow_number(URO_IMPAIR_REQUEST, 0);
    for (unsigned i = 0; i < 1000; i++) {
        const struct uro_impair_fate first = next(&one), second = next(&other);
        differs += !same(&first, &second);
    }
    assert_true(differs > 500);
}

/* 10 % of 100000 packets are 10000, with a standard deviation of 95. The test allows five standard
 * deviations. The plan has a fixed seed. */
static void fate__probabilities__match_the_plan(void **state)
{
    unsigned lost = 0, duplicated = 0, overtaken = 0, corrupted = 0, marked = 0;

    (void)state;
    set_plan("loss:10%,seed:3/duplicate:10%,reorder:10%,corrupt:10%,ce:10%");
    struct uro_impair_flow flow = flow_number(URO_IMPAIR_REQUEST, 0);
    for (unsigned i = 0; i < MANY; i++) {
        const struct uro_impair_fate fate = next(&flow);
        assert_false(fate.lost && (fate.duplicated || fate.corrupted || fate.marked));
        lost += fate.lost;
        duplicated += fate.duplicated;
        overtaken += fate.overtaken;
        corrupted += fate.corrupted;
        marked += fate.marked;
    }
    assert_in_range(lost, 9525, 10475);
    assert_in_range(duplicated, 8525, 9475); /* 10 % of the packets that are not lost */
    assert_in_range(overtaken, 8525, 9475);
    assert_in_range(corrupted, 8525, 9475);
    assert_in_range(marked, 8525, 9475);
}

/* A burst that ends with probability 1/5 has 5 packets on average, and a geometric distribution. */
static void burst__one_in_five_ends__five_packets_long(void **state)
{
    unsigned bursts = 0, lost = 0, single = 0, length = 0;

    (void)state;
    set_plan("burst:1%:20%,seed:5");
    struct uro_impair_flow flow = flow_number(URO_IMPAIR_REQUEST, 0);
    for (unsigned i = 0; i < 10 * MANY; i++) {
        const bool is_lost = next(&flow).lost;
        lost += is_lost;
        bursts += is_lost && length == 0;
        single += !is_lost && length == 1;
        length = is_lost ? length + 1 : 0;
    }
    assert_in_range(bursts, 9000, 10000); /* 1 % of the packets outside of bursts */
    assert_in_range(lost * 100 / bursts, 480, 520);
    assert_in_range(single * 100 / bursts, 18, 22);
}

static void burst__partial_loss__inside_and_outside(void **state)
{
    unsigned lost = 0;

    (void)state;
    set_plan("burst:50%:50%:40%:20%,seed:5");
    struct uro_impair_flow flow = flow_number(URO_IMPAIR_REQUEST, 0);
    for (unsigned i = 0; i < MANY; i++)
        lost += next(&flow).lost;
    assert_in_range(lost, 29000, 31000);
}

static void lost__by_number__exactly_these(void **state)
{
    char text[32] = "";

    (void)state;
    set_plan("every:5/drop:2+7-8");
    struct uro_impair_flow flow = flow_number(URO_IMPAIR_REQUEST, 3);
    for (unsigned i = 0; i < 12; i++)
        text[i] = next(&flow).lost ? '-' : '.';
    assert_string_equal(text, ".-..-.--.-..");
}

static void rule__for_other_packets__does_not_apply(void **state)
{
    (void)state;
    set_plan("rx,loss:100%/only:acks,duplicate:100%/qp:9,ce:100%");
    struct uro_impair_flow request = flow_number(URO_IMPAIR_REQUEST, 0);
    struct uro_impair_fate fate = next(&request);
    assert_true(uro_impair_fate_is_plain(&fate));
    struct uro_impair_flow ack = flow_number(URO_IMPAIR_ACK, 0);
    fate = next(&ack);
    assert_true(fate.duplicated && !fate.lost && !fate.marked);
    struct uro_impair_flow ninth = { .kind = URO_IMPAIR_REQUEST, .qpn = 9 };
    uro_impair_flow_plan(&ninth, &plan);
    assert_true(next(&ninth).marked);
    struct uro_impair_flow received = { .direction = URO_IMPAIR_RX };
    uro_impair_flow_plan(&received, &plan);
    assert_true(next(&received).lost);
}

/* ARP has no random fate, because the number of its packets depends on time. */
static void fate__of_other_protocols__is_only_the_fixed_delay(void **state)
{
    (void)state;
    set_plan("loss:100%,duplicate:100%,delay:5us+-5us");
    struct uro_impair_flow flow = flow_number(URO_IMPAIR_OTHER, 0);
    for (unsigned i = 0; i < 100; i++) {
        const struct uro_impair_fate fate = next(&flow);
        assert_true(!fate.lost && !fate.duplicated && fate.delay == URO_US(5));
    }
}

struct delays {
    uro_time least, most, mean;
    unsigned within; /* delays that differ from 1 ms by at most 100 us, per cent */
};

static struct delays delays_of(const char *text)
{
    struct delays delays = { .least = UINT64_MAX };

    set_plan(text);
    struct uro_impair_flow flow = flow_number(URO_IMPAIR_REQUEST, 0);
    for (unsigned i = 0; i < MANY; i++) {
        const uro_time delay = next(&flow).delay;
        delays.least = delay < delays.least ? delay : delays.least;
        delays.most = delay > delays.most ? delay : delays.most;
        delays.mean += delay;
        delays.within += delay + URO_US(100) >= URO_MS(1) && delay <= URO_MS(1) + URO_US(100);
    }
    delays.mean /= MANY;
    delays.within /= MANY / 100;
    return delays;
}

static void delay__each_distribution__has_the_expected_shape(void **state)
{
    (void)state;
    struct delays found = delays_of("delay:1ms+-100us,seed:4");
    assert_in_range(found.least, URO_US(900), URO_US(901));
    assert_in_range(found.most, URO_US(1099), URO_US(1100));
    assert_in_range(found.mean, URO_US(999), URO_US(1001));

    found = delays_of("delay:1ms+-100us:normal,seed:4");
    assert_in_range(found.mean, URO_US(999), URO_US(1001));
    assert_in_range(found.within, 67, 69); /* one standard deviation */
    assert_in_range(found.most, URO_US(1350), URO_US(1600));

    found = delays_of("delay:1ms+-100us:exponential,seed:4");
    assert_in_range(found.least, URO_MS(1), URO_MS(1) + 20);
    assert_in_range(found.mean, URO_US(1099), URO_US(1101));
    assert_in_range(found.within, 62, 64); /* 1 - 1/e */
    assert_in_range(found.most, URO_US(1900), URO_US(2500));

    found = delays_of("delay:1ms+-100us:pareto,seed:4");
    assert_in_range(found.mean, URO_US(1090), URO_US(1105)); /* the longest delays are limited */
    assert_in_range(found.within, 74, 76);                   /* 1 - 1/4 */
    assert_int_equal(found.most, URO_MS(11));

    assert_int_equal(delays_of("delay:1ms").most, URO_MS(1));
}

/* 1 Gbit/s: 1250 bytes take 10 us. */
static void rate__full_queue__drops_and_marks(void **state)
{
    static struct uro_impair_links links;
    struct uro_impair_fate fate = { 0 };

    (void)state;
    set_plan("rate:1Gbit,queue:5000,mark:2000");
    const struct uro_impair_flow flow = flow_number(URO_IMPAIR_REQUEST, 0);
    for (unsigned i = 0; i < 4; i++) {
        fate = (struct uro_impair_fate){ 0 };
        uro_impair_fate_pass(&plan, &links, &flow, 1250, URO_US(3), &fate);
        assert_false(fate.lost);
        assert_int_equal(fate.delay, URO_US(10) * (i + 1));
        assert_int_equal(fate.marked, i >= 2);
    }
    uro_impair_fate_pass(&plan, &links, &flow, 1250, URO_US(3), &fate);
    assert_true(fate.lost);
    fate = (struct uro_impair_fate){ 0 };
    uro_impair_fate_pass(&plan, &links, &flow, 1250, URO_US(43), &fate);
    assert_int_equal(fate.delay, URO_US(10));
}

static void down__within_the_interval__everything_is_lost(void **state)
{
    static struct uro_impair_links links;
    struct uro_impair_fate fate = { 0 };

    (void)state;
    set_plan("down:10us+5us:100us/flap:50us+5us");
    const struct uro_impair_flow flow = flow_number(URO_IMPAIR_OTHER, 0);
    static const struct {
        unsigned at;
        bool lost, flaps;
    } cases[] = { { 9, false, false },  { 10, true, false }, { 15, false, false },
                  { 110, true, false }, { 50, true, true },  { 55, false, false } };
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        fate = (struct uro_impair_fate){ 0 };
        uro_impair_fate_pass(&plan, &links, &flow, 100, URO_US(cases[i].at), &fate);
        assert_int_equal(fate.lost, cases[i].lost);
        assert_int_equal(uro_impair_fate_flaps(&plan, URO_US(cases[i].at)), cases[i].flaps);
    }
}

/* ---- frames ---------------------------------------------------------------- */

#define NETWORK_AT 14u
#define LENGTH     (NETWORK_AT + URO_IPV4_LEN + URO_UDP_LEN + URO_BTH_LEN + 32u + 4u)

/* Makes an RC SEND ONLY with 32 bytes and a right ICRC. */
static void make_frame(uint8_t frame[static LENGTH], struct uro_impair_packet *packet)
{
    const struct uro_ip ip = { .dont_fragment = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = LENGTH - NETWORK_AT - URO_IPV4_LEN };
    const struct uro_udp udp = { .dest_port = URO_ROCE_PORT, .length = ip.payload_length };
    const struct uro_bth bth = { .opcode = 0x04, .pkey = URO_PKEY_DEFAULT, .dest_qpn = 9 };

    memset(frame, 0, LENGTH);
    uro_put_be16(frame + 12, 0x0800);
    (void)uro_ip_put(frame + NETWORK_AT, &ip);
    uro_udp_encode(frame + NETWORK_AT + URO_IPV4_LEN, &udp);
    uro_bth_encode(frame + NETWORK_AT + URO_IPV4_LEN + URO_UDP_LEN, &bth);
    uro_put_le32(frame + LENGTH - 4, uro_icrc(frame + NETWORK_AT, false, LENGTH - NETWORK_AT - 4));
    uro_impair_packet_read(packet, URO_IMPAIR_TX, frame, LENGTH);
}

static bool icrc_is_right(const uint8_t frame[static LENGTH])
{
    return uro_get_le32(frame + LENGTH - 4) ==
           uro_icrc(frame + NETWORK_AT, false, LENGTH - NETWORK_AT - 4);
}

static unsigned bits_between(const uint8_t *a, const uint8_t *b)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < LENGTH * 8; i++)
        bits += ((a[i / 8] ^ b[i / 8]) >> i % 8 & 1) != 0;
    return bits;
}

static void corrupt__any_damage__is_detected_by_the_icrc(void **state)
{
    uint8_t frame[LENGTH], before[LENGTH];
    struct uro_impair_packet packet;

    (void)state;
    make_frame(before, &packet);
    assert_true(icrc_is_right(before));
    for (uint64_t damage = 0; damage < 1000; damage++) {
        const struct uro_impair_fate fate = { .corrupted = true, .damage = damage };
        memcpy(frame, before, LENGTH);
        uro_impair_fate_corrupt(&fate, &packet, frame, LENGTH);
        assert_memory_equal(frame, before, packet.bth_at);
        assert_in_range(bits_between(frame, before), 1, 3);
        /* The ICRC does not cover FECN and BECN. */
        const bool covered = frame[packet.bth_at + 4] == before[packet.bth_at + 4];
        assert_false(icrc_is_right(frame) && covered);
    }
}

static void corrupt__resummed__only_the_payload_changes(void **state)
{
    uint8_t frame[LENGTH], before[LENGTH];
    struct uro_impair_packet packet;

    (void)state;
    make_frame(before, &packet);
    for (uint64_t damage = 0; damage < 1000; damage++) {
        const struct uro_impair_fate fate = { .corrupted = true,
                                              .resummed = true,
                                              .damage = damage };
        memcpy(frame, before, LENGTH);
        uro_impair_fate_corrupt(&fate, &packet, frame, LENGTH);
        assert_memory_equal(frame, before, packet.payload_at);
        assert_memory_not_equal(frame, before, LENGTH);
        assert_true(icrc_is_right(frame));
    }
}

static void mark__ipv4__ce_and_a_right_checksum(void **state)
{
    uint8_t frame[LENGTH];
    struct uro_impair_packet packet;

    (void)state;
    make_frame(frame, &packet);
    uro_impair_fate_mark(&packet, frame);
    assert_int_equal(frame[NETWORK_AT + 1] & 3, 3);
    assert_int_equal(uro_ip_sum_finish(uro_ip_sum(0, frame + NETWORK_AT, URO_IPV4_LEN)), 0);
    assert_true(icrc_is_right(frame));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fate__same_seed__same_fates_whatever_other_flows_do),
        cmocka_unit_test(fate__other_seed__other_fates),
        cmocka_unit_test(fate__probabilities__match_the_plan),
        cmocka_unit_test(burst__one_in_five_ends__five_packets_long),
        cmocka_unit_test(burst__partial_loss__inside_and_outside),
        cmocka_unit_test(lost__by_number__exactly_these),
        cmocka_unit_test(rule__for_other_packets__does_not_apply),
        cmocka_unit_test(fate__of_other_protocols__is_only_the_fixed_delay),
        cmocka_unit_test(delay__each_distribution__has_the_expected_shape),
        cmocka_unit_test(rate__full_queue__drops_and_marks),
        cmocka_unit_test(down__within_the_interval__everything_is_lost),
        cmocka_unit_test(corrupt__any_damage__is_detected_by_the_icrc),
        cmocka_unit_test(corrupt__resummed__only_the_payload_changes),
        cmocka_unit_test(mark__ipv4__ce_and_a_right_checksum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
