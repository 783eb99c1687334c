/* SPDX-License-Identifier: BSD-3-Clause */
/* test_plan.c - tests the text of a plan, and the messages for its mistakes. */
#include "support/check.h"

#include <errno.h>
#include <string.h>

#include "impair/plan.h"

static struct uro_impair_plan plan;
static char error[URO_IMPAIR_ERROR_MAX];

static int parse(const char *text)
{
    error[0] = '\0';
    return uro_impair_plan_parse(&plan, text, error);
}

static void plan__one_line__every_value(void **state)
{
    (void)state;
    assert_int_equal(parse("loss:0.5%,delay:50us+-10us,seed:7"), 0);
    assert_int_equal(plan.rule_count, 1);
    assert_int_equal(plan.seed, 7);
    const struct uro_impair_rule *rule = &plan.rules[0];
    assert_int_equal(rule->loss, URO_IMPAIR_CERTAIN / 200);
    assert_int_equal(rule->delay, URO_US(50));
    assert_int_equal(rule->jitter, URO_US(10));
    assert_int_equal(rule->distribution, URO_IMPAIR_UNIFORM);
    assert_int_equal(rule->directions, 3);
    assert_int_equal(rule->kinds, (1 << URO_IMPAIR_KINDS) - 1);
    assert_int_equal(parse("delay:1.5ms\xc2\xb1"
                           "250us:normal"),
                     0);
    assert_int_equal(plan.rules[0].delay, URO_US(1500));
    assert_int_equal(plan.rules[0].jitter, URO_US(250));
    assert_int_equal(plan.rules[0].distribution, URO_IMPAIR_NORMAL);
    assert_int_equal(plan.seed, 1);
}

static void plan__several_rules__each_matches_its_packets(void **state)
{
    (void)state;
    assert_int_equal(parse("tx,only:acks+reads,qp:17,loss:0.05/rx,every:10/seed:9"), 0);
    assert_int_equal(plan.rule_count, 2);
    assert_int_equal(plan.rules[0].directions, 1 << URO_IMPAIR_TX);
    assert_int_equal(plan.rules[0].kinds, 1 << URO_IMPAIR_ACK | 1 << URO_IMPAIR_READ);
    assert_true(plan.rules[0].has_qpn);
    assert_int_equal(plan.rules[0].qpn, 17);
    assert_int_equal(plan.rules[0].loss, URO_IMPAIR_CERTAIN / 20);
    assert_int_equal(plan.rules[1].directions, 1 << URO_IMPAIR_RX);
    assert_int_equal(plan.rules[1].every, 10);
    assert_int_equal(plan.seed, 9);
}

static void plan__file__lines_blanks_and_comments(void **state)
{
    (void)state;
    assert_int_equal(parse("# a plan\n\n  seed:3\r\nduplicate:1%  corrupt:2%:resum # both\n"
                           "burst:1%:25%:90%:0.1% reorder:1 ce:10%\n"
                           "rate:10Gbit,queue:64kB,mark:1KiB\n"
                           "down:1s+200ms:5s flap:0s+1ms\n"
                           "drop:3+7+10-12\n"),
                     0);
    assert_int_equal(plan.rule_count, 5);
    assert_int_equal(plan.rules[0].duplicate, URO_IMPAIR_CERTAIN / 100);
    assert_int_equal(plan.rules[0].corrupt, URO_IMPAIR_CERTAIN / 50);
    assert_true(plan.rules[0].resum);
    assert_int_equal(plan.rules[1].enter, URO_IMPAIR_CERTAIN / 100);
    assert_int_equal(plan.rules[1].leave, URO_IMPAIR_CERTAIN / 4);
    assert_int_equal(plan.rules[1].loss_in, URO_IMPAIR_CERTAIN / 10 * 9);
    assert_int_equal(plan.rules[1].loss_out, URO_IMPAIR_CERTAIN / 1000);
    assert_int_equal(plan.rules[1].reorder, URO_IMPAIR_CERTAIN);
    assert_int_equal(plan.rules[1].mark, URO_IMPAIR_CERTAIN / 10);
    assert_int_equal(plan.rules[2].rate, 10000000000);
    assert_int_equal(plan.rules[2].queue_bytes, 64000);
    assert_int_equal(plan.rules[2].mark_bytes, 1024);
    assert_int_equal(plan.rules[3].down.from, URO_MS(1000));
    assert_int_equal(plan.rules[3].down.length, URO_MS(200));
    assert_int_equal(plan.rules[3].down.every, URO_MS(5000));
    assert_int_equal(plan.rules[3].flap.every, 0);
    assert_int_equal(plan.rules[4].range_count, 3);
    assert_int_equal(plan.ranges[2].first, 10);
    assert_int_equal(plan.ranges[2].last, 12);
}

static void plan__off__has_no_rules(void **state)
{
    (void)state;
    assert_int_equal(parse("off"), 0);
    assert_int_equal(plan.rule_count, 0);
    assert_int_equal(parse("seed:18446744073709551615"), 0);
    assert_int_equal(plan.rule_count, 0);
    assert_true(plan.seed == UINT64_MAX);
}

/* Each message has the wrong word, and says what is wrong or what would be right. */
static void plan__mistake__is_named(void **state)
{
    static const struct {
        const char *text, *word, *right;
    } cases[] = {
        { "loss:150%", "\"loss:150%\"", "0% to 100%" },
        { "loss:1.1", "\"loss:1.1\"", "0% to 100%" },
        { "loss:-1%", "\"loss:-1%\"", "0% to 100%" },
        { "loss:", "\"loss:\"", "0% to 100%" },
        { "loss", "\"loss\"", "words are" },
        { "los:1%", "\"los:1%\"", "loss:" },
        { "loss:1%,delay:3h", "\"delay:3h\"", "ns, us, ms or s" },
        { "delay:50", "\"delay:50\"", "ns, us, ms or s" },
        { "delay:7200s", "\"delay:7200s\"", "at most 10s" },
        { "delay:99999999999999999999s", "\"delay:999", "time" },
        { "delay:50us+-60us", "\"delay:50us+-60us\"", "at most the delay" },
        { "delay:50us:flat", "\"delay:50us:flat\"", "uniform" },
        { "seed:abc", "\"seed:abc\"", "digits" },
        { "seed:18446744073709551616", "\"seed:184", "64 bits" },
        { "seed:1,seed:2", "\"seed:2\"", "second seed" },
        { "loss:1%,loss:2%", "\"loss:2%\"", "twice" },
        { "tx,rx,loss:1%", "\"rx\"", "second direction" },
        { "only:acks", "\"only:acks\"", "no fault" },
        { "only:ack,loss:1%", "\"only:ack\"", "acks" },
        { "only:other,loss:1%", "\"only:other\"", "acks" },
        { "qp:16777216,loss:1%", "\"qp:16777216\"", "16777215" },
        { "tx", "\"tx\"", "no fault" },
        { "every:0", "\"every:0\"", "from 1" },
        { "drop:0", "\"drop:0\"", "from 1" },
        { "drop:9-3", "\"drop:9-3\"", "ranges" },
        { "drop:3+", "\"drop:3+\"", "ranges" },
        { "burst:1%", "\"burst:1%\"", "two to four" },
        { "burst:1%:0%", "\"burst:1%:0%\"", "above 0" },
        { "burst:1%:2%:3%:4%:5%", "\"burst:1%", "two to four" },
        { "corrupt:1%:often", "\"corrupt:1%:often\"", "resum" },
        { "rate:0Gbit", "\"rate:0Gbit\"", "1kbit" },
        { "rate:10", "\"rate:10\"", "10Gbit" },
        { "rate:900Gbit", "\"rate:900Gbit\"", "800Gbit" },
        { "queue:64kB", "\"queue:64kB\"", "without rate" },
        { "rate:1Gbit,queue:0", "\"queue:0\"", "bytes" },
        { "down:1s", "\"down:1s\"", "1s+200ms:5s" },
        { "down:1s+0s", "\"down:1s+0s\"", "length" },
        { "down:1s+2s:1s", "\"down:1s+2s:1s\"", "interval" },
        { "off,loss:1%", "\"off\"", "beside" },
        { "", "\"\"", "write off" },
        { " / ", "\"\"", "write off" },
        { "loss:1%\nseed:7\n delay:1h\n", "line 3, \"delay:1h\"", "ns, us" },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        assert_int_equal(parse(cases[i].text), -EINVAL);
        if (strstr(error, cases[i].word) == NULL || strstr(error, cases[i].right) == NULL)
            fail_msg("%s: %s", cases[i].text, error);
    }
}

static void plan__too_much__is_refused(void **state)
{
    static char text[URO_IMPAIR_TEXT_MAX + 1];
    size_t used = 0;

    (void)state;
    for (unsigned i = 0; i <= URO_IMPAIR_RULES_MAX; i++, used += 9)
        memcpy(text + used, "loss:10%/", 10);
    assert_int_equal(parse(text), -EINVAL);
    assert_non_null(strstr(error, "at most 16"));
    used = 5;
    memcpy(text, "drop:", 6);
    for (unsigned i = 0; i <= URO_IMPAIR_RANGES_MAX; i++, used += 2)
        memcpy(text + used, i < URO_IMPAIR_RANGES_MAX ? "1+" : "1\0", 3);
    assert_int_equal(parse(text), -EINVAL);
    memset(text, ',', URO_IMPAIR_TEXT_MAX);
    assert_int_equal(parse(text), -EINVAL);
    assert_non_null(strstr(error, "4095"));
}

static void window__start_length_interval__opens_at_the_right_times(void **state)
{
    const struct uro_impair_window repeated = { 10, 5, 20 }, once = { 10, 5, 0 }, none = { 0 };

    (void)state;
    assert_false(uro_impair_window_has(&repeated, 9));
    assert_true(uro_impair_window_has(&repeated, 10));
    assert_true(uro_impair_window_has(&repeated, 14));
    assert_false(uro_impair_window_has(&repeated, 15));
    assert_true(uro_impair_window_has(&repeated, 30));
    assert_true(uro_impair_window_has(&once, 14));
    assert_false(uro_impair_window_has(&once, 30));
    assert_false(uro_impair_window_has(&none, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan__one_line__every_value),
        cmocka_unit_test(plan__several_rules__each_matches_its_packets),
        cmocka_unit_test(plan__file__lines_blanks_and_comments),
        cmocka_unit_test(plan__off__has_no_rules),
        cmocka_unit_test(plan__mistake__is_named),
        cmocka_unit_test(plan__too_much__is_refused),
        cmocka_unit_test(window__start_length_interval__opens_at_the_right_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
