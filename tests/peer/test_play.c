/* SPDX-License-Identifier: BSD-3-Clause */
/* test_play.c - tests the messages of the player for scripts that pass, and for scripts that
 * fail. */
#include "support/check.h"

#include "script/play_inside.h"
#include "virtual.h"

#define LINES_MAX 32768u

static char said[LINES_MAX];

static void keep(void *user, const char *line)
{
    const size_t used = strlen(said);

    (void)user;
    (void)snprintf(said + used, sizeof said - used, "%s\n", line);
}

static enum uro_play_result play_on(struct virtual *v, const char *text)
{
    static struct uro_script script;
    struct uro_script_problem problem;

    said[0] = '\0';
    if (!uro_script_read(&script, text, strlen(text), &problem))
        fail_msg("%u:%u: %s", problem.line, problem.column, problem.text);
    return virtual_play(v, &script, keep, NULL);
}

static enum uro_play_result play_with(struct virtual *v, const char *text)
{
    const enum uro_play_result result = play_on(v, text);

    virtual_close(v);
    return result;
}

static void holds(const char *text)
{
    if (play_with(virtual_open(), text) != URO_PLAY_HELD)
        fail_msg("%s", said);
}

/* Plays a script that must fail with the message @what. */
static void expect_output(const char *text, const char *what)
{
    assert_int_equal(play_with(virtual_open(), text), URO_PLAY_DEVIATED);
    if (strstr(said, what) == NULL)
        fail_msg("no line has \"%s\":\n%s", what, said);
}

static void expect__another_value__error_lists_every_different_field(void **state)
{
    (void)state;
    expect_output("connect $port\n"
                  "send SEND_ONLY psn=+0 ackreq\n"
                  "expect ACKNOWLEDGE psn=+1 syndrome=nak_psn msn=2..3\n",
                  "psn is");
    assert_non_null(strstr(said, "line 3: expect ACKNOWLEDGE psn=+1 syndrome=nak_psn msn=2..3: "
                                 "came 10.0.0.1 > 10.0.0.2 RC_ACK"));
    assert_non_null(strstr(said, "(+0), not "));
    assert_non_null(strstr(said, "; syndrome is 0x1f (ack), not 0x60 (nak_psn); msn is 0x1, not "
                                 "0x2..0x3"));
}

static void expect__another_packet__error_has_its_name(void **state)
{
    (void)state;
    expect_output("connect $port\nsend SEND_ONLY psn=+0 ackreq\nexpect READ_RESPONSE_ONLY\n",
                  "it is another packet");
}

static void expect__no_packet__error_has_the_time(void **state)
{
    (void)state;
    expect_output("connect $port\nexpect ACKNOWLEDGE within 300ms\n",
                  "   0.300000  line 2: expect ACKNOWLEDGE within 300ms: no such packet arrived "
                  "within 300 ms");
}

static void expect__earlier_than_after__is_an_error(void **state)
{
    (void)state;
    expect_output("connect $port\nsend SEND_ONLY psn=+0 ackreq\nexpect ACKNOWLEDGE after 1ms\n",
                  "the packet came too early, after 0 us");
}

static void expect__other_payload__error_has_the_first_difference(void **state)
{
    (void)state;
    expect_output("connect $port\n"
                  "send READ_REQUEST psn=+0 va=$va rkey=$rkey dmalen=8\n"
                  "expect READ_RESPONSE_ONLY fill=1\n",
                  "byte 0 of the payload is 0x00, not 0x1f of the pattern");
    expect_output("connect $port\n"
                  "send READ_REQUEST psn=+0 va=$va rkey=$rkey dmalen=8\n"
                  "expect READ_RESPONSE_ONLY payload=\"12345678\"\n",
                  "payload is another");
}

static void expect__missing_header__is_an_error(void **state)
{
    (void)state;
    expect_output("connect $port\nsend SEND_ONLY psn=+0 ackreq\nexpect ANY va=1\n",
                  "va is not in this packet");
}

static void expect__cm_message__fields_are_compared(void **state)
{
    (void)state;
    expect_output("send REQ port=9\nexpect REJ reason=28 message=1\n",
                  "reason is 8, not 28; message is 0, not 1");
}

static void nothing__a_packet_arrives__is_an_error(void **state)
{
    (void)state;
    expect_output("connect $port\nsend SEND_ONLY psn=+0 ackreq\nnothing 10ms\n",
                  "nothing 10ms: came 10.0");
}

static void end__unexpected_packet_left__is_an_error(void **state)
{
    (void)state;
    expect_output("connect $port\nsend SEND_ONLY psn=+0 ackreq\nwait 1ms\n",
                  "at the end: the script does not expect 10.0.0.1 > 10.0.0.2 RC_ACK");
}

static void variable__without_value__is_an_error(void **state)
{
    (void)state;
    expect_output("connect $port\nsend WRITE_ONLY psn=+0 va=$nowhere rkey=1\n",
                  "$nowhere has no value: neither --set nor the endpoint gave one");
}

static void connect__no_listener__is_an_error(void **state)
{
    (void)state;
    expect_output("connect 9\n", "line 1: expected REP, came 10.0.0.1 > 10.0.0.2 REJ");
}

static void await__other_packets_first__are_skipped(void **state)
{
    (void)state;
    holds("connect $port\n"
          "repeat 3\n"
          "  send SEND_ONLY psn=+$i ackreq\n"
          "end\n"
          "await ACKNOWLEDGE psn=+2\n");
}

static void drop__second_ack__script_does_not_see_it(void **state)
{
    (void)state;
    holds("connect $port\n"
          "drop 2nd ACKNOWLEDGE\n"
          "repeat 3\n"
          "  send SEND_ONLY psn=+$i ackreq\n"
          "  wait 1ms\n"
          "end\n"
          "expect ACKNOWLEDGE psn=+0\n"
          "expect ACKNOWLEDGE psn=+2\n");
}

static void on__2_times__sends_two_responses(void **state)
{
    (void)state;
    holds("connect $port private=\"send=1\" local_ack_timeout=20\n"
          "on SEND_* 2 times send ACKNOWLEDGE psn=$its syndrome=rnr+1\n"
          "expect SEND_ONLY psn=+0\n"
          "send ACKNOWLEDGE psn=+0\n");
    assert_non_null(strstr(said, "rnr-nak timer 1"));
}

static void set__sum_of_variables__is_computed(void **state)
{
    (void)state;
    holds("connect $port\n"
          "set n=$psn+3-2\n"
          "send SEND_ONLY psn=$n-1 ackreq\n"
          "expect ACKNOWLEDGE psn=+0\n");
}

static void value__does_not_fit__error_has_value_and_field(void **state)
{
    (void)state;
    expect_output("connect $port\nset x=300\nsend SEND_ONLY psn=+0 ttl=$x\n",
                  "line 3: 300 does not fit ttl (8 bits)");
    expect_output("connect $port\nsend SEND_ONLY psn=+0 pad=0-1\n",
                  "line 2: -1 does not fit pad (2 bits)");
    expect_output("connect $port\nset x=16\nsend REQ port=$port path_mtu=$x\n",
                  "line 3: 16 does not fit path_mtu (4 bits)");
    expect_output("connect $port\nsend SEND_ONLY psn=+0 ackreq\nexpect ACKNOWLEDGE tos=255+1\n",
                  "line 3: 256 does not fit tos (8 bits)");
    expect_output("set x=0x10000\nconnect $x\n", "line 2: 65536 does not fit port (16 bits)");
}

static void value__of_a_psn_or_an_identifier__wraps(void **state)
{
    (void)state;
    holds("connect $port\n"
          "send SEND_ONLY psn=$psn+0x1000000 ackreq\n"
          "expect ACKNOWLEDGE psn=$psn-0x1000000 msn=0x1000000+1\n"
          "send SEND_ONLY psn=+1 qpn=$qpn+0xfffffe ackreq\n"
          "nothing 10ms\n");
}

static void qp__numbers_by_hand__need_no_connection(void **state)
{
    (void)state;
    holds("qp qpn=0x77 psn=5\nsend SEND_ONLY psn=+0 ackreq\nnothing 10ms\n");
    assert_non_null(strstr(said, "RC_SEND_ONLY qp 0x000077 psn 5 ack"));
}

static void send__to_a_group__has_the_mac_address_of_the_group(void **state)
{
    struct virtual *v = virtual_open();

    (void)state;
    assert_int_equal(play_on(v, "qp qpn=0xffffff psn=0 myqpn=0x11 peerpsn=0\n"
                                "send UD_SEND_ONLY to=239.129.2.3 length=4\n"),
                     URO_PLAY_HELD);
    assert_memory_equal(v->sent_to.octets, "\1\0\x5e\1\2\3", sizeof v->sent_to.octets);
    virtual_close(v);
}

static void accept__endpoint_connects__connection_works(void **state)
{
    struct virtual *v = virtual_open();

    (void)state;
    v->calls = true;
    if (play_with(v, "accept 7471\nexpect SEND_ONLY psn=+0 length=64\n"
                     "send ACKNOWLEDGE psn=+0 msn=1\n") != URO_PLAY_HELD)
        fail_msg("%s", said);
    assert_non_null(strstr(said, "10.0.0.2 > 10.0.0.1 REP"));
}

static void expect__rtu__connection_is_confirmed(void **state)
{
    static const struct uro_cm_msg rtu = { .kind = URO_CM_RTU };
    static struct uro_play play;

    (void)state;
    uro_play_learn(&play, &rtu);
    assert_true(play.link.confirmed);
}

static void disconnect__connected__sends_one_dreq(void **state)
{
    const char *first;

    (void)state;
    holds("connect $port\ndisconnect\n");
    first = strstr(said, "DREQ");
    assert_non_null(first);
    assert_null(strstr(first + 1, "DREQ"));
}

static void fresh__packets_of_the_previous_connection__are_ignored(void **state)
{
    (void)state;
    holds("send REQ port=$port remote_response_timeout=14 local_response_timeout=14\n"
          "expect REP\n"
          "fresh\n"
          "wait 100ms\n"
          "connect $port\n"
          "send SEND_ONLY psn=+0 ackreq\n"
          "expect ACKNOWLEDGE psn=+0\n");
    const char *first = strstr(said, "REP");
    const char *again = first != NULL ? strstr(first + 1, "REP") : NULL;
    assert_non_null(again); /* the REP was retransmitted */
    assert_true(again < strstr(said, "RTU"));
}

static void peer__absent__is_unreachable(void **state)
{
    static struct uro_script script;
    struct uro_script_problem problem;
    struct virtual *v = virtual_open();
    static struct uro_play play;
    const struct uro_play_config config = {
        .engine = v->peer_engine,
        .address = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 2 }),
        .sgid_index = 1,
        .peer = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 99 }),
    };

    (void)state;
    assert_true(uro_script_read(&script, "wait 1s\n", 8, &problem));
    assert_int_equal(uro_play_init(&play, &script, &config, 0), 0);
    for (uro_time now = 0; play.result == URO_PLAY_RUNNING && now < URO_MS(60000);) {
        assert_true(uro_play_output(&play, v->tx, 32, now) <=
                    32); /* sends ARP requests repeatedly */
        now = uro_play_next(&play) > now ? uro_play_next(&play) : now + URO_US(1);
    }
    assert_int_equal(play.result, URO_PLAY_UNREACHED);
    uro_play_fini(&play);
    virtual_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expect__another_value__error_lists_every_different_field),
        cmocka_unit_test(expect__another_packet__error_has_its_name),
        cmocka_unit_test(expect__no_packet__error_has_the_time),
        cmocka_unit_test(expect__earlier_than_after__is_an_error),
        cmocka_unit_test(expect__other_payload__error_has_the_first_difference),
        cmocka_unit_test(expect__missing_header__is_an_error),
        cmocka_unit_test(expect__cm_message__fields_are_compared),
        cmocka_unit_test(nothing__a_packet_arrives__is_an_error),
        cmocka_unit_test(end__unexpected_packet_left__is_an_error),
        cmocka_unit_test(variable__without_value__is_an_error),
        cmocka_unit_test(connect__no_listener__is_an_error),
        cmocka_unit_test(await__other_packets_first__are_skipped),
        cmocka_unit_test(drop__second_ack__script_does_not_see_it),
        cmocka_unit_test(on__2_times__sends_two_responses),
        cmocka_unit_test(set__sum_of_variables__is_computed),
        cmocka_unit_test(value__does_not_fit__error_has_value_and_field),
        cmocka_unit_test(value__of_a_psn_or_an_identifier__wraps),
        cmocka_unit_test(qp__numbers_by_hand__need_no_connection),
        cmocka_unit_test(send__to_a_group__has_the_mac_address_of_the_group),
        cmocka_unit_test(accept__endpoint_connects__connection_works),
        cmocka_unit_test(expect__rtu__connection_is_confirmed),
        cmocka_unit_test(disconnect__connected__sends_one_dreq),
        cmocka_unit_test(fresh__packets_of_the_previous_connection__are_ignored),
        cmocka_unit_test(peer__absent__is_unreachable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
