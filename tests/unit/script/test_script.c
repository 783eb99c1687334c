/* SPDX-License-Identifier: BSD-3-Clause */
/* test_script.c - tests the syntax of scripts, and the messages for errors in scripts. */
#include <string.h>

#include "script/script.h"
#include "support/check.h"

static struct uro_script script;
static struct uro_script_problem problem;

static bool read(const char *text)
{
    return uro_script_read(&script, text, strlen(text), &problem);
}

static void good(const char *text)
{
    if (!read(text))
        fail_msg("%u:%u: %s", problem.line, problem.column, problem.text);
}

static void bad(const char *text, uint32_t line, uint32_t column, const char *why)
{
    assert_false(read(text));
    if (problem.line != line || problem.column != column || strstr(problem.text, why) == NULL)
        fail_msg("%u:%u: %s", problem.line, problem.column, problem.text);
}

static bool text_is(const struct uro_script_text *text, const char *wanted)
{
    return text->length == strlen(wanted) && memcmp(text->start, wanted, text->length) == 0;
}

static void script__title_rules_comments_blank_lines__are_parsed(void **state)
{
    (void)state;
    good("# all of it\n\ntitle A \"quoted # title\"   # not this\nrule RSP.ACK, RSP.MSN\n\n"
         "open\n  wait 5ms # a comment\r\n");
    assert_true(text_is(&script.title, "A \"quoted # title\""));
    assert_true(text_is(&script.rules, "RSP.ACK, RSP.MSN"));
    assert_true(script.open);
    assert_int_equal(script.step_count, 1);
    assert_int_equal(script.steps[0].line, 7);
    assert_int_equal(script.steps[0].time, URO_MS(5));
    assert_true(text_is(&script.steps[0].text, "wait 5ms"));
}

static void send__fields__are_parsed_in_order(void **state)
{
    const struct uro_script_field *field = script.fields;

    (void)state;
    good("send WRITE_ONLY psn=-1 va=$va+0x10-1 rkey=7 ackreq payload=\"two words\"");
    assert_int_equal(script.steps[0].subject.opcode, 0x0a);
    assert_int_equal(script.steps[0].field_count, 5);
    assert_int_equal(field[0].field, URO_FIELD_PSN);
    assert_true(field[0].value.relative && field[0].value.terms[0].minus);
    assert_int_equal(field[1].value.count, 3);
    assert_true(field[1].value.terms[0].is_name && field[1].value.terms[2].minus);
    assert_int_equal(field[1].value.terms[1].number, 16);
    assert_int_equal(field[3].value.terms[0].number, 1);
    assert_true(text_is(&field[4].text, "two words"));
}

static void packet__full_and_short_names__are_known(void **state)
{
    (void)state;
    good("send ACKNOWLEDGE\nsend ACK\nsend RDMA_WRITE_ONLY\nsend UC_SEND_FIRST\n"
         "expect READ_RESPONSE_*\nexpect ANY");
    assert_int_equal(script.steps[0].subject.opcode, 0x11);
    assert_int_equal(script.steps[1].subject.opcode, 0x11);
    assert_int_equal(script.steps[2].subject.opcode, 0x0a);
    assert_int_equal(script.steps[3].subject.opcode, 0x20);
    assert_int_equal(script.steps[4].subject.opcodes[0], 0x1e000);
    assert_int_equal(script.steps[5].subject.opcode, 0);
}

static void syndrome__class_name__is_a_range_alone_and_a_number_in_a_sum(void **state)
{
    (void)state;
    good("expect ACK syndrome=rnr\nsend ACK syndrome=rnr+12\nexpect ACK syndrome=nak_access");
    assert_int_equal(script.fields[0].value.terms[0].number, 0x20);
    assert_int_equal(script.fields[0].value.span, 0x1f);
    assert_int_equal(script.fields[1].value.span, 0);
    assert_int_equal(script.fields[2].value.terms[0].number, 0x62);
}

static void message__cm_fields__are_parsed(void **state)
{
    (void)state;
    good("send REQ pkey=0x7fff port=$port private=\"recv=1\"\nexpect REJ reason=8..9 within 2s");
    assert_int_equal(script.fields[0].field, URO_FIELD_CM + URO_CM_PKEY);
    assert_int_equal(script.steps[1].time, URO_MS(2000));
    assert_int_equal(script.fields[3].value.span, 1);
}

static void on_and_drop__counts__are_parsed(void **state)
{
    (void)state;
    good("on SEND_* 2 times send ACK psn=$its syndrome=rnr+1\non ANY send ACK\n"
         "drop 3rd ACK\ndrop ACK");
    assert_int_equal(script.steps[0].number, 2);
    assert_int_equal(script.steps[0].answer.opcode, 0x11);
    assert_true(script.steps[1].number == UINT64_MAX);
    assert_int_equal(script.steps[2].number, 3);
    assert_int_equal(script.steps[3].number, 1);
}

static void directive__unknown__message_lists_directives(void **state)
{
    (void)state;
    bad("wait 1s\n  sned SEND_ONLY", 2, 3, "\"sned\": expected connect, accept, qp, send");
}

static void packet__unknown__is_an_error(void **state)
{
    (void)state;
    bad("send", 1, 5, "expected the name of a packet");
    bad("send SEND_MAYBE", 1, 6, "\"SEND_MAYBE\": expected a packet such as SEND_ONLY");
    bad("send SEND_*", 1, 6, "one packet, not several");
    bad("on REQ send ACK", 1, 4, "a packet, not a message");
}

static void field__wrong__error_has_the_column(void **state)
{
    (void)state;
    bad("send SEND_ONLY lenght=5", 1, 16, "\"lenght=5\": expected a field of a packet");
    bad("send SEND_ONLY va=5", 1, 16, "a field that this packet has");
    bad("send REQ psn=1", 1, 10, "a field of a message");
    bad("send SEND_ONLY psn", 1, 19, "expected = and a value");
    bad("send SEND_ONLY psn=", 1, 20, "expected a number");
    bad("send SEND_ONLY psn=0x1000000", 1, 20, "a number that fits the field");
    bad("send SEND_ONLY psn=1+2+3+4", 1, 25, "\"+4\": expected + or -, a range");
    bad("send SEND_ONLY psn=$", 1, 20, "expected a number, $name");
    bad("send SEND_ONLY psn=5..3", 1, 20, "a range LOW..HIGH");
    bad("expect ACK syndrome=nak_foo", 1, 21, "expected a number");
    bad("send SEND_ONLY payload=\"open", 1, 24, "a text that ends with");
    bad("send SEND_ONLY from=10.0.0", 1, 21, "an IPv4 or IPv6 address");
    bad("send SEND_ONLY psn=99999999999999999999", 1, 20, "expected a number");
}

static void time__wrong__is_an_error(void **state)
{
    (void)state;
    bad("wait", 1, 5, "expected a time");
    bad("wait 5", 1, 6, "\"5\": expected a time such as 500us, 200ms or 2s");
    bad("expect ACK within", 1, 18, "expected a time");
    bad("wait 5ms 6ms", 1, 10, "\"6ms\": expected the end of the line");
}

static void repeat__without_end_nested_or_zero__is_an_error(void **state)
{
    (void)state;
    bad("wait 1ms\nrepeat 3\nwait 1ms\n", 2, 1, "an end for the repeat");
    bad("end", 1, 1, "a repeat before it");
    bad("repeat 2\nrepeat 2\nend\nend", 2, 1, "no repeat inside another");
    bad("repeat 0\nend", 1, 8, "a count from 1");
}

static void variables__of_the_player__cannot_be_set(void **state)
{
    (void)state;
    bad("set psn=5", 1, 5, "another name: `uroce peer` sets this variable itself");
    bad("set five", 1, 5, "expected NAME=VALUE");
    bad("qp foo=1", 1, 4, "qpn=, myqpn=, psn= or peerpsn=");
    bad("drop 3xd ACK", 1, 6, "a count");
}

static void script__too_long__is_an_error(void **state)
{
    static char text[257 * 9 + 1];

    (void)state;
    for (unsigned i = 0; i < 257; i++)
        memcpy(text + (size_t)i * 9, "wait 1ms\n", 9);
    bad(text, 257, 1, "more than 256");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(script__title_rules_comments_blank_lines__are_parsed),
        cmocka_unit_test(send__fields__are_parsed_in_order),
        cmocka_unit_test(packet__full_and_short_names__are_known),
        cmocka_unit_test(syndrome__class_name__is_a_range_alone_and_a_number_in_a_sum),
        cmocka_unit_test(message__cm_fields__are_parsed),
        cmocka_unit_test(on_and_drop__counts__are_parsed),
        cmocka_unit_test(directive__unknown__message_lists_directives),
        cmocka_unit_test(packet__unknown__is_an_error),
        cmocka_unit_test(field__wrong__error_has_the_column),
        cmocka_unit_test(time__wrong__is_an_error),
        cmocka_unit_test(repeat__without_end_nested_or_zero__is_an_error),
        cmocka_unit_test(variables__of_the_player__cannot_be_set),
        cmocka_unit_test(script__too_long__is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
