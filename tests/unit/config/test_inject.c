/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the rules of fail=: which calls fail, and the messages about wrong rules. */
#include "config/fail_rules.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "support/check.h"

static struct uro_inject_plan plan;
static char error[URO_INJECT_ERROR_MAX];

static void parse(const char *text)
{
    const char *wrong = uro_inject_parse(&plan, text, error);

    if (wrong != NULL)
        fail_msg("%s: %s", text, wrong);
}

static void expect_wrong(const char *text, const char *part)
{
    const char *wrong = uro_inject_parse(&plan, text, error);

    assert_non_null(wrong);
    if (strstr(wrong, part) == NULL)
        fail_msg("%s: %s, without \"%s\"", text, wrong, part);
}

static void rules__each_kind__are_read(void **state)
{
    (void)state;
    parse("ibv_reg_mr:3:ENOMEM,ibv_post_send:*100:SIGKILL,ibv_poll_cq:7+:IBV_EVENT_CQ_ERR,rnr:*10,"
          "ibv_alloc_pd:1");
    assert_int_equal(plan.count, 5);
    assert_int_equal(plan.rules[0].call, URO_INJECT_CALL_REG_MR);
    assert_int_equal(plan.rules[0].kind, URO_INJECT_KIND_ERROR);
    assert_int_equal(plan.rules[0].number, ENOMEM);
    assert_int_equal(plan.rules[0].first, 3);
    assert_int_equal(plan.rules[0].every, 0);
    assert_int_equal(plan.rules[1].kind, URO_INJECT_KIND_SIGNAL);
    assert_int_equal(plan.rules[1].number, SIGKILL);
    assert_int_equal(plan.rules[1].first, 100);
    assert_int_equal(plan.rules[1].every, 100);
    assert_int_equal(plan.rules[2].kind, URO_INJECT_KIND_EVENT);
    assert_int_equal(plan.rules[2].number, URO_INJECT_EVENT_CQ_ERR);
    assert_int_equal(plan.rules[2].every, 1);
    assert_int_equal(plan.rules[3].kind, URO_INJECT_KIND_RNR);
    assert_int_equal(plan.rules[4].number, ENOMEM);
}

static void matches__one_all_later_and_every_nth__are_distinguished(void **state)
{
    static const struct {
        const char *text;
        uint32_t calls; /* bit i: call i */
    } cases[] = { { "rnr:3", 1u << 3 },
                  { "rnr:3+", 0xfffffff8u },
                  { "rnr:*3", 1u << 3 | 1u << 6 | 1u << 9 | 1u << 12 | 1u << 15 | 1u << 18 |
                                  1u << 21 | 1u << 24 | 1u << 27 | 1u << 30 } };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        uint32_t calls = 0;
        parse(cases[i].text);
        for (uint32_t count = 1; count < 32; count++)
            calls |= (uint32_t)uro_inject_matches(&plan.rules[0], count) << count;
        assert_int_equal(calls, cases[i].calls);
    }
}

static void rule__wrong__message_has_the_word_and_a_remedy(void **state)
{
    (void)state;
    expect_wrong("", "no verb \"\" can fail on purpose; a rule is VERB:N:ERROR");
    expect_wrong("ibv_regmr:1", "no verb \"ibv_regmr\"");
    expect_wrong("ibv_reg_mr", "which call? 3 is the third");
    expect_wrong("ibv_reg_mr:0", "which call?");
    expect_wrong("ibv_reg_mr:x", "which call?");
    expect_wrong("ibv_reg_mr:3-", "which call?");
    expect_wrong("ibv_reg_mr:*3+", "which call?");
    expect_wrong("ibv_reg_mr:1000000001", "which call?");
    expect_wrong("ibv_reg_mr:1:ENOMEN", "\"ENOMEN\" must be an error such as ENOMEM");
    expect_wrong("ibv_reg_mr:1:SIGFOO", "\"SIGFOO\" must be an error");
    expect_wrong("ibv_reg_mr:1:IBV_EVENT_CQ_ERR", "needs a verb with a CQ: ibv_poll_cq");
    expect_wrong("ibv_poll_cq:1:IBV_EVENT_QP_FATAL", "needs a verb with a QP");
    expect_wrong("rnr:1:ENOMEM", "takes no error");
    expect_wrong("rnr:1,rnr:2,rnr:3,rnr:4,rnr:5,rnr:6,rnr:7,rnr:8,rnr:9,rnr:10,rnr:11,rnr:12,"
                 "rnr:13,rnr:14,rnr:15,rnr:16,rnr:17",
                 "more than 16 rules");
    expect_wrong("rnr:1,", "no verb \"\"");
    expect_wrong("a_name_that_is_longer_than_every_verb_of_the_library_is:1", "no verb \"a_name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules__each_kind__are_read),
        cmocka_unit_test(matches__one_all_later_and_every_nth__are_distinguished),
        cmocka_unit_test(rule__wrong__message_has_the_word_and_a_remedy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
