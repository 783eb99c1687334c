/* SPDX-License-Identifier: BSD-3-Clause */
/* test_trace.c - tests a trace of fates as text, and its replay. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "impair/trace.h"

static struct uro_impair_trace_line line;

#define LONGEST                                                                                    \
    "rx ack 4294967295 18446744073709551615 dup late mark corrupt=ffffffffffffffff "               \
    "delay=160000000000\n"

static void line__every_effect__is_read_back(void **state)
{
    static const char *const texts[] = {
        "tx request 0 17 lose\n", LONGEST,
        "rx read 3 1 resum=1f\n", "tx datagram 0 2 mark\n",
        "tx cm 0 2 late\n",       "tx cnp 0 2 delay=1\n",
    };
    char out[URO_IMPAIR_TRACE_LINE], in[URO_IMPAIR_TRACE_LINE];

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(texts); i++) {
        memcpy(in, texts[i], strlen(texts[i]));
        in[strlen(texts[i]) - 1] = '\0';
        const char *wrong = uro_impair_trace_parse(&line, in);
        if (wrong != NULL)
            fail_msg("%s: %s", in, wrong);
        assert_string_equal(uro_impair_trace_print(&line, out), texts[i]);
    }
}

static void line__wrong__is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "up request 0 1 lose",
        "tx",
        "tx requests 0 1 lose",
        "tx request x 1 lose",
        "tx request 4294967296 1 lose",
        "tx request 0 0 lose",
        "tx request 0 1",
        "tx request 0 1 ",
        "tx request 0 1 loose",
        "tx request 0 1 delay=",
        "tx request 0 1 delay=0",
        "tx request 0 1 delay=x",
        "tx request 0 1 delay=160000000001",
        "tx request 0 1 corrupt=g",
        "tx request 0 18446744073709551616 lose",
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(texts); i++)
        if (uro_impair_trace_parse(&line, texts[i]) == NULL)
            fail_msg("%s is accepted", texts[i]);
}

static void header__of_this_version__is_read_back(void **state)
{
    struct uro_impair_trace_header header = { .version = URO_IMPAIR_TRACE_VERSION,
                                              .program = "a program",
                                              .device = "uroce0" };
    char out[URO_IMPAIR_TRACE_LINE];

    (void)state;
    (void)uro_impair_trace_print_header(&header, out);
    assert_string_equal(out, "uroce-trace 1 program=a_program device=uroce0\n");
    out[strlen(out) - 1] = '\0';
    assert_null(uro_impair_trace_parse_header(&header, out));
    assert_string_equal(header.program, "a_program");
    assert_string_equal(header.device, "uroce0");
}

static void header__other__is_refused(void **state)
{
    struct uro_impair_trace_header header;

    (void)state;
    const char *wrong = uro_impair_trace_parse_header(&header, "uroce-trace 2 program=a device=b");
    assert_non_null(strstr(wrong, "another version"));
    assert_int_equal(header.version, 2);
    assert_non_null(strstr(uro_impair_trace_parse_header(&header, "#!/bin/sh"), "is not a trace"));
    assert_non_null(strstr(uro_impair_trace_parse_header(&header, ""), "is not a trace"));
    assert_non_null(
        strstr(uro_impair_trace_parse_header(&header, "uroce-trace 0 x"), "not a trace"));
    assert_non_null(uro_impair_trace_parse_header(&header, "uroce-trace 1"));
    assert_non_null(uro_impair_trace_parse_header(&header, "uroce-trace 1 program=a"));
}

/* Records a run, and sorts and replays the trace. Each packet must have the same fate again. */
static void replay__of_a_run__the_same_fates(void **state)
{
    static struct uro_impair_trace_line lines[4096];
    struct uro_impair_plan plan;
    char error[URO_IMPAIR_ERROR_MAX], text[URO_IMPAIR_TRACE_LINE];
    struct uro_impair_flow flows[3] = { { .number = 0 },
                                        { .number = 1 },
                                        { .kind = URO_IMPAIR_ACK } };
    size_t count = 0;

    (void)state;
    assert_int_equal(
        uro_impair_plan_parse(&plan, "loss:5%,duplicate:5%,delay:2us+-2us,corrupt:5%", error), 0);
    for (unsigned i = 0; i < 3; i++)
        uro_impair_flow_plan(&flows[i], &plan);
    for (unsigned i = 0; i < 3000; i++) {
        struct uro_impair_flow *flow = &flows[i % 7 % 3];
        struct uro_impair_trace_line found = { .kind = flow->kind,
                                               .number = flow->number,
                                               .packet = flow->count + 1 };
        uro_impair_fate_draw(&plan, flow, &found.fate);
        if (!uro_impair_fate_is_plain(&found.fate)) {
            (void)uro_impair_trace_print(&found, text);
            text[strlen(text) - 1] = '\0';
            assert_null(uro_impair_trace_parse(&lines[count++], text));
        }
    }
    qsort(lines, count, sizeof *lines, uro_impair_trace_compare);
    assert_int_equal(uro_impair_trace_merge(lines, count), count);

    for (unsigned i = 0; i < 3; i++) {
        flows[i].count = 0;
        flows[i].replay_at = UINT32_MAX;
        uro_impair_flow_plan(&flows[i], &plan);
    }
    struct uro_impair_flow again[3] = { flows[0], flows[1], flows[2] };
    for (unsigned i = 0; i < 2700; i++) {
        struct uro_impair_fate drawn, replayed;
        uro_impair_fate_draw(&plan, &flows[i % 3], &drawn);
        uro_impair_trace_replay(lines, count, &again[i % 3], &replayed);
        if (flows[i % 3].count > 850)
            continue; /* the recorded run had fewer packets of this flow */
        assert_int_equal(drawn.lost, replayed.lost);
        assert_int_equal(drawn.duplicated, replayed.duplicated);
        assert_int_equal(drawn.corrupted, replayed.corrupted);
        assert_true(drawn.damage == replayed.damage || !drawn.corrupted);
        assert_true(drawn.delay == replayed.delay);
    }
}

static void merge__lines_of_one_packet__are_joined(void **state)
{
    struct uro_impair_trace_line lines[4];

    (void)state;
    assert_null(uro_impair_trace_parse(&lines[0], "tx request 0 1 dup"));
    assert_null(uro_impair_trace_parse(&lines[1], "tx request 0 1 delay=5"));
    assert_null(uro_impair_trace_parse(&lines[2], "tx request 0 2 mark"));
    assert_null(uro_impair_trace_parse(&lines[3], "tx request 1 1 late"));
    assert_int_equal(uro_impair_trace_merge(lines, 4), 3);
    assert_true(lines[0].fate.duplicated && lines[0].fate.delay == 5);
    assert_true(lines[1].fate.marked && !lines[1].fate.duplicated);
    const struct uro_impair_fate only =
        uro_impair_fate_only(&lines[0].fate, URO_IMPAIR_EFFECT_DELAY);
    assert_true(!only.duplicated && only.delay == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line__every_effect__is_read_back),
        cmocka_unit_test(line__wrong__is_refused),
        cmocka_unit_test(header__of_this_version__is_read_back),
        cmocka_unit_test(header__other__is_refused),
        cmocka_unit_test(replay__of_a_run__the_same_fates),
        cmocka_unit_test(merge__lines_of_one_packet__are_joined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
