/* SPDX-License-Identifier: BSD-3-Clause */
/* test_judge.c - tests which packets are findings, and which packets are not findings because
 * another explanation is possible. */
#include "support/check.h"

#include <string.h>

#include "base/time.h"
#include "capture_kit.h"

#define RNR_CODE  20u /* 10.24 ms */
#define RNR_DELAY URO_US(10240)
#define RNR(code) URO_AETH_RNR, (code)

/* Ends the capture. Expects @count findings: one of each check, in order. */
static void expect(const enum uro_judge_check *checks, uint32_t count)
{
    struct uro_capture *capture = kit_end();
    struct uro_judge *judge = uro_judge_run(capture);

    assert_non_null(judge);
    for (uint32_t i = 0; i < judge->count && (i >= count || checks[i] == judge->findings[i].check);
         i++)
        if (i >= count)
            fail_msg("frame %u: %s: %s", judge->findings[i].packet + 1,
                     uro_judge_rules[judge->findings[i].check].id, judge->findings[i].seen);
    assert_int_equal(judge->count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(judge->findings[i].check, checks[i]);
    uro_judge_free(judge);
    uro_capture_free(capture);
}

#define EXPECT(...)                                                                                \
    expect((const enum uro_judge_check[]){ __VA_ARGS__ },                                          \
           sizeof((const enum uro_judge_check[]){ __VA_ARGS__ }) / sizeof(enum uro_judge_check))
#define EXPECT_NOTHING expect(NULL, 0)

static void judge__plain_exchange__is_clean(void **state)
{
    (void)state;
    kit_begin();
    for (uint32_t i = 0; i < 5; i++)
        kit_exchange(100 + i, 1 + i);
    EXPECT_NOTHING;
}

/* test_capture.c tests how the defects are detected. */
static void judge__packet_with_a_flaw__is_a_finding_of_the_right_check(void **state)
{
    static const struct {
        uint32_t flaws;
        enum uro_judge_check check;
    } cases[] = {
        { URO_FLAW_ICRC, URO_JUDGE_ICRC },
        { URO_FLAW_ICRC | URO_FLAW_ICRC_ORDER, URO_JUDGE_ICRC_ORDER },
        { URO_FLAW_ICRC | URO_FLAW_ICRC_PAD, URO_JUDGE_ICRC_PAD },
        { URO_FLAW_OPCODE, URO_JUDGE_OPCODE },
        { URO_FLAW_LENGTH, URO_JUDGE_LENGTH },
        { URO_FLAW_VERSION, URO_JUDGE_VERSION },
        { URO_FLAW_UDP_CHECKSUM, URO_JUDGE_UDP_CHECKSUM },
        { URO_FLAW_RESERVED, URO_JUDGE_RESERVED },
        { URO_FLAW_BECN, URO_JUDGE_BECN },
        { URO_FLAW_PAD, URO_JUDGE_PAD },
        { URO_FLAW_GSI, URO_JUDGE_GSI },
        { URO_FLAW_GROUP, URO_JUDGE_GROUP },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++) {
        kit_begin();
        kit_exchange(100, 1);
        struct uro_capture *capture = kit_end();
        capture->packets[0].flaws = cases[i].flaws;
        struct uro_judge *judge = uro_judge_run(capture);
        assert_int_equal(judge->count, 1);
        assert_int_equal(judge->findings[0].check, cases[i].check);
        uro_judge_free(judge);
        uro_capture_free(capture);
    }
}

static void judge__migreq_0__is_reported_once_with_a_count(void **state)
{
    (void)state;
    kit_begin();
    for (uint32_t i = 0; i < 3; i++) {
        struct uro_frame frame = kit_frame(KIT_A, OP_SEND_ONLY, 100 + i, 0);
        frame.bth.migrated = false;
        kit_put(&frame);
    }
    struct uro_capture *capture = kit_end();
    struct uro_judge *judge = uro_judge_run(capture);
    assert_int_equal(judge->count, 1);
    assert_int_equal(judge->findings[0].more, 2);
    uro_judge_free(judge);
    uro_capture_free(capture);
}

/* ---- responses ----------------------------------------------------------------------------- */

static void judge__ack_of_a_request_that_is_sent_later__is_a_ghost(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 101, 64);
    kit_respond(KIT_B, OP_ACK, 102, 2, SYNDROME_ACK, 0);
    kit_exchange(102, 3);
    EXPECT(URO_JUDGE_GHOST);
}

/* The request may be missing in the capture, so this is only a note. */
static void judge__ack_beyond_the_last_request__is_a_note(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_respond(KIT_B, OP_ACK, 101, 2, SYNDROME_ACK, 0);
    struct uro_capture *capture = kit_end();
    struct uro_judge *judge = uro_judge_run(capture);
    assert_int_equal(judge->count, 0);
    assert_false(judge->complete);
    assert_int_equal(judge->unsent, 1);
    assert_int_equal(judge->unsent_packet, 2);
    uro_judge_free(judge);
    uro_capture_free(capture);
}

/* The host captured the ACK first. The MSN shows that the request was sent before. */
static void judge__ack_captured_before_its_request__no_finding(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_respond(KIT_B, OP_ACK, 101, 2, SYNDROME_ACK, 0);
    kit_send(KIT_A, OP_SEND_ONLY, 101, 64);
    kit_exchange(102, 3);
    struct uro_capture *capture = kit_end();
    struct uro_judge *judge = uro_judge_run(capture);
    assert_int_equal(judge->count, 0);
    assert_true(judge->complete);
    uro_judge_free(judge);
    uro_capture_free(capture);
}

/* The capture began when requests were in flight; one of them is retransmitted. */
static void judge__ack_of_requests_before_the_capture__no_finding(void **state)
{
    (void)state;
    kit_begin();
    kit_send(KIT_A, OP_SEND_ONLY, 100, 64);
    kit_respond(KIT_B, OP_ACK, 105, 70, SYNDROME_ACK, 0);
    kit_exchange(106, 71);
    EXPECT_NOTHING;
}

static void judge__msn__counts_each_message_once(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_exchange(101, 3); /* the MSN is one too high */
    kit_exchange(102, 3);
    EXPECT(URO_JUDGE_MSN);
    kit_begin();
    kit_exchange(100, 1);
    kit_exchange(101, 1); /* the MSN did not increase */
    kit_exchange(102, 2);
    EXPECT(URO_JUDGE_MSN);
}

/* A READ whose request was lost may be retransmitted in parts. The responder counts each part as a
 * message. */
static void judge__msn_of_a_read_in_parts__no_finding(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(99, 1);
    kit_rdma(KIT_A, OP_READ, 100, 0x1000, 2 * KIT_PMTU, 0);
    kit_wait(URO_MS(20));
    kit_rdma(KIT_A, OP_READ, 100, 0x1000, KIT_PMTU, 0);
    kit_respond(KIT_B, OP_RESP_ONLY, 100, 2, SYNDROME_ACK, KIT_PMTU);
    kit_rdma(KIT_A, OP_READ, 101, 0x1000 + KIT_PMTU, KIT_PMTU, 0);
    kit_respond(KIT_B, OP_RESP_ONLY, 101, 3, SYNDROME_ACK, KIT_PMTU);
    kit_send(KIT_A, OP_SEND_FIRST, 102, KIT_PMTU);
    kit_send(KIT_A, OP_SEND_LAST, 103, 1);
    kit_respond(KIT_B, OP_ACK, 103, 4, SYNDROME_ACK, 0);
    kit_exchange(104, 5);
    EXPECT_NOTHING;
}

/* The first MSN of a capture may be any number. The ACK of a retransmitted request has the newest
 * MSN. */
static void judge__first_msn_or_msn_of_a_retransmission__no_finding(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 501);
    kit_exchange(101, 502);
    kit_send(KIT_A, OP_SEND_ONLY, 100, 64);
    kit_respond(KIT_B, OP_ACK, 101, 502, SYNDROME_ACK, 0);
    kit_exchange(102, 503);
    EXPECT_NOTHING;
}

static void judge__msn_with_a_packet_missing__is_not_judged(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_exchange(102, 3);
    kit_exchange(103, 9);
    kit_exchange(104, 10);
    struct uro_capture *capture = kit_end();
    struct uro_judge *judge = uro_judge_run(capture);
    assert_int_equal(judge->count, 0);
    assert_false(judge->complete);
    assert_int_equal(judge->withheld, 1);
    uro_judge_free(judge);
    uro_capture_free(capture);
}

static void judge__nak_for_an_acknowledged_psn__is_a_finding_unless_reordered(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_exchange(101, 2);
    kit_respond(KIT_B, OP_ACK, 100, 2, SYNDROME_GAP, 0);
    EXPECT_NOTHING;
    kit_begin();
    kit_exchange(100, 1);
    kit_exchange(101, 2);
    kit_wait(URO_MS(30));
    kit_respond(KIT_B, OP_ACK, 100, 2, SYNDROME_GAP, 0);
    EXPECT(URO_JUDGE_NAK_PSN);
}

static void judge__one_gap__has_one_nak(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    for (uint32_t i = 0; i < 6; i++) {
        kit_send(KIT_A, OP_SEND_ONLY, 102 + i, 64);
        kit_respond(KIT_B, OP_ACK, 101, 1, SYNDROME_GAP, 0);
    }
    EXPECT(URO_JUDGE_NAK_AGAIN);
}

static void judge__gap_nak_for_a_request_without_receive__is_wrong(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 101, 64);
    kit_send(KIT_A, OP_SEND_ONLY, 102, 64);
    kit_respond(KIT_B, OP_ACK, 101, 1, RNR(RNR_CODE), 0);
    kit_respond(KIT_B, OP_ACK, 101, 1, SYNDROME_GAP, 0);
    EXPECT(URO_JUDGE_RNR_NAK);
}

static void judge__response_of_another_kind__is_wrong(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 101, 64);
    kit_respond(KIT_B, OP_RESP_ONLY, 101, 2, SYNDROME_ACK, 0);
    EXPECT(URO_JUDGE_RESPONSE);
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_FETCH_ADD, 101, 0);
    kit_respond(KIT_B, OP_ACK, 101, 2, SYNDROME_ACK, 0);
    EXPECT(URO_JUDGE_BARE_ACK);
}

static void judge__read_responses__opcode_and_length_must_fit_the_request(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(99, 1);
    kit_rdma(KIT_A, OP_READ, 100, 0x1000, 2 * KIT_PMTU, 0);
    kit_respond(KIT_B, OP_RESP_FIRST, 100, 2, SYNDROME_ACK, KIT_PMTU);
    kit_send(KIT_B, OP_RESP_MIDDLE, 101, KIT_PMTU);
    EXPECT(URO_JUDGE_READ_FORM);
    kit_begin();
    kit_exchange(99, 1);
    kit_rdma(KIT_A, OP_READ, 100, 0x1000, 2 * KIT_PMTU, 0);
    kit_respond(KIT_B, OP_RESP_FIRST, 100, 2, SYNDROME_ACK, KIT_PMTU);
    kit_respond(KIT_B, OP_RESP_LAST, 101, 2, SYNDROME_ACK, KIT_PMTU - 1);
    EXPECT(URO_JUDGE_READ_FORM);
}

static void resume_read(uint8_t opcode)
{
    kit_begin();
    kit_exchange(99, 1);
    kit_rdma(KIT_A, OP_READ, 100, 0x1000, 3 * KIT_PMTU, 0);
    kit_respond(KIT_B, OP_RESP_FIRST, 100, 2, SYNDROME_ACK, KIT_PMTU);
    kit_send(KIT_B, OP_RESP_MIDDLE, 101, KIT_PMTU);
    kit_respond(KIT_B, OP_RESP_LAST, 102, 2, SYNDROME_ACK, KIT_PMTU);
    kit_rdma(KIT_A, OP_READ, 101, 0x1000 + KIT_PMTU, 2 * KIT_PMTU, 0);
    kit_respond(KIT_B, opcode, 101, 2, SYNDROME_ACK, KIT_PMTU);
    kit_respond(KIT_B, OP_RESP_LAST, 102, 2, SYNDROME_ACK, KIT_PMTU);
}

static void judge__resumed_read__begins_with_first(void **state)
{
    (void)state;
    resume_read(OP_RESP_MIDDLE);
    EXPECT(URO_JUDGE_DUP_READ);
    resume_read(OP_RESP_FIRST);
    EXPECT_NOTHING;
}

static void judge__reserved_syndrome__is_wrong(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 101, 64);
    kit_respond(KIT_B, OP_ACK, 101, 1, URO_AETH_RESERVED, 0, 0);
    kit_respond(KIT_B, OP_ACK, 101, 1, URO_AETH_NAK, 9, 0);
    EXPECT(URO_JUDGE_SYNDROME, URO_JUDGE_SYNDROME);
}

/* ---- requests ------------------------------------------------------------------------------ */

static void judge__message__has_full_packets_in_order(void **state)
{
    (void)state;
    kit_begin();
    kit_send(KIT_A, OP_SEND_FIRST, 100, 1000);
    EXPECT(URO_JUDGE_SEGMENT);
    kit_begin();
    kit_send(KIT_A, OP_SEND_FIRST, 100, 1024);
    kit_send(KIT_A, OP_SEND_MIDDLE, 101, 512);
    EXPECT(URO_JUDGE_SEGMENT);
    kit_begin();
    kit_send(KIT_A, OP_SEND_FIRST, 100, 1024);
    kit_send(KIT_A, OP_SEND_LAST, 101, 0);
    EXPECT(URO_JUDGE_SEGMENT);
    kit_begin();
    kit_send(KIT_A, OP_SEND_ONLY, 100, 64);
    kit_send(KIT_A, OP_SEND_LAST, 101, 64);
    EXPECT(URO_JUDGE_SEQUENCE);
    kit_begin();
    kit_send(KIT_A, OP_SEND_FIRST, 100, 1024);
    kit_send(KIT_A, OP_SEND_ONLY, 101, 64);
    EXPECT(URO_JUDGE_SEQUENCE);
    kit_begin();
    kit_send(KIT_A, OP_SEND_FIRST, 100, 1024);
    kit_send(KIT_A, OP_WRITE_LAST, 101, 64);
    EXPECT(URO_JUDGE_SEQUENCE);
}

/* Between two packets, one packet is missing in the capture. */
static void judge__packets_with_a_gap_between__no_finding(void **state)
{
    (void)state;
    kit_begin();
    kit_send(KIT_A, OP_SEND_FIRST, 100, 1024);
    kit_send(KIT_A, OP_SEND_ONLY, 102, 64);
    kit_send(KIT_A, OP_SEND_LAST, 104, 64);
    EXPECT_NOTHING;
}

static void judge__write__length_must_fit_the_reth(void **state)
{
    (void)state;
    kit_begin();
    kit_rdma(KIT_A, OP_WRITE_FIRST, 100, 0x1000, 1500, 1024);
    kit_send(KIT_A, OP_WRITE_LAST, 101, 477);
    kit_rdma(KIT_A, OP_WRITE_ONLY, 102, 0x1000, 10, 11);
    EXPECT(URO_JUDGE_WRITE_LENGTH, URO_JUDGE_WRITE_LENGTH);
    kit_begin();
    kit_rdma(KIT_A, OP_WRITE_FIRST, 100, 0x1000, 1500, 1024);
    kit_send(KIT_A, OP_WRITE_LAST, 101, 476);
    kit_rdma(KIT_A, OP_WRITE_ONLY, 102, 0x1000, 10, 10);
    EXPECT_NOTHING;
}

static void read_then(uint8_t opcode, uint64_t va)
{
    kit_begin();
    kit_exchange(99, 1);
    kit_rdma(KIT_A, OP_READ, 100, 0x1000, 3 * KIT_PMTU, 0);
    kit_respond(KIT_B, OP_RESP_FIRST, 100, 2, SYNDROME_ACK, KIT_PMTU);
    kit_rdma(KIT_A, opcode, 101, va, 2 * KIT_PMTU, 0);
}

static void judge__psns_of_a_read_reused__is_a_finding(void **state)
{
    (void)state;
    read_then(OP_SEND_ONLY, 0);
    EXPECT(URO_JUDGE_READ_PSN);
    read_then(OP_READ, 0x1000);
    EXPECT(URO_JUDGE_READ_RESUME);
    read_then(OP_READ, 0x1000 + KIT_PMTU);
    EXPECT_NOTHING;
}

static void judge__repeated_psn__has_the_same_request(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(99, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 100, 64);
    kit_send(KIT_A, OP_SEND_ONLY, 100, 65);
    EXPECT(URO_JUDGE_REPEAT);
}

/* Three messages without a receive; each is retransmitted after @waited. */
static void rnr_three_times(uint64_t waited)
{
    kit_begin();
    kit_exchange(99, 1);
    for (uint32_t i = 0; i < 3; i++) {
        kit_send(KIT_A, OP_SEND_ONLY, 100 + i, 64);
        kit_wait(URO_MS(2)); /* a timeout is possible */
        kit_respond(KIT_B, OP_ACK, 100 + i, 1 + i, RNR(RNR_CODE), 0);
        kit_wait(waited);
        kit_exchange(100 + i, 2 + i);
    }
}

static void judge__rnr_delay__is_kept(void **state)
{
    (void)state;
    rnr_three_times(RNR_DELAY);
    EXPECT_NOTHING;
    rnr_three_times(URO_MS(2)); /* only the third early retransmission is a proof */
    EXPECT(URO_JUDGE_RNR_WAIT);
}

/* The first repetition comes sooner than any timeout. */
static void judge__rnr_repeated_at_once__is_wrong(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(99, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 100, 64);
    kit_respond(KIT_B, OP_ACK, 100, 1, RNR(RNR_CODE), 0);
    kit_exchange(100, 2);
    EXPECT(URO_JUDGE_RNR_WAIT);
}

/* The requester may have lost the NAK, and may have retransmitted after a timeout. */
static void judge__one_early_repetition_after_a_timeout__no_finding(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(99, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 100, 64);
    kit_respond(KIT_B, OP_ACK, 100, 1, RNR(RNR_CODE), 0);
    kit_wait(URO_MS(5));
    kit_exchange(100, 2);
    EXPECT_NOTHING;
}

/* Linux rxe does this: only the refused message waits, and later messages are sent at once. */
static void judge__new_request_during_the_delay__is_wrong(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(99, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 100, 64);
    kit_respond(KIT_B, OP_ACK, 100, 1, RNR(RNR_CODE), 0);
    kit_wait(URO_MS(7));
    kit_send(KIT_A, OP_SEND_ONLY, 101, 64);
    kit_wait(RNR_DELAY - URO_MS(7));
    kit_exchange(100, 2);
    EXPECT(URO_JUDGE_RNR_WAIT);
}

static void cnps(uint32_t count, uint64_t apart)
{
    kit_begin();
    for (uint32_t i = 0; i < count; i++) {
        kit_send(KIT_B, OP_CNP, 0, 0);
        kit_wait(apart - KIT_STEP_NS);
    }
}

/* A host may capture several CNPs at almost the same time. */
static void judge__cnps__too_frequent_is_a_finding(void **state)
{
    (void)state;
    cnps(200, URO_US(50));
    EXPECT_NOTHING;
    cnps(15, URO_US(11));
    EXPECT_NOTHING;
    cnps(60, URO_US(11));
    EXPECT(URO_JUDGE_CNP);
}

static void judge__cnp_without_becn__is_wrong(void **state)
{
    struct uro_frame frame = kit_frame(KIT_B, OP_CNP, 0, 0);

    (void)state;
    frame.bth.becn = false;
    kit_begin();
    kit_put(&frame);
    EXPECT(URO_JUDGE_BECN);
}

static void judge__datagrams__have_the_qpn_of_their_address(void **state)
{
    struct uro_frame frame = kit_frame(KIT_A, OP_UD_SEND_ONLY, 0, 8);

    (void)state;
    frame.ip.dest = uro_gid_from_ipv4((const uint8_t[]){ 239, 1, 1, 1 });
    kit_begin();
    kit_put(&frame);
    frame.bth.dest_qpn = URO_QPN_MULTICAST;
    kit_put(&frame);
    frame = kit_frame(KIT_A, OP_UD_SEND_ONLY, 0, 8);
    frame.bth.dest_qpn = 1;
    kit_put(&frame);
    EXPECT(URO_JUDGE_GROUP, URO_JUDGE_GSI);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judge__plain_exchange__is_clean),
        cmocka_unit_test(judge__packet_with_a_flaw__is_a_finding_of_the_right_check),
        cmocka_unit_test(judge__migreq_0__is_reported_once_with_a_count),
        cmocka_unit_test(judge__ack_of_a_request_that_is_sent_later__is_a_ghost),
        cmocka_unit_test(judge__ack_beyond_the_last_request__is_a_note),
        cmocka_unit_test(judge__ack_captured_before_its_request__no_finding),
        cmocka_unit_test(judge__ack_of_requests_before_the_capture__no_finding),
        cmocka_unit_test(judge__msn__counts_each_message_once),
        cmocka_unit_test(judge__first_msn_or_msn_of_a_retransmission__no_finding),
        cmocka_unit_test(judge__msn_of_a_read_in_parts__no_finding),
        cmocka_unit_test(judge__msn_with_a_packet_missing__is_not_judged),
        cmocka_unit_test(judge__nak_for_an_acknowledged_psn__is_a_finding_unless_reordered),
        cmocka_unit_test(judge__one_gap__has_one_nak),
        cmocka_unit_test(judge__gap_nak_for_a_request_without_receive__is_wrong),
        cmocka_unit_test(judge__response_of_another_kind__is_wrong),
        cmocka_unit_test(judge__read_responses__opcode_and_length_must_fit_the_request),
        cmocka_unit_test(judge__resumed_read__begins_with_first),
        cmocka_unit_test(judge__reserved_syndrome__is_wrong),
        cmocka_unit_test(judge__message__has_full_packets_in_order),
        cmocka_unit_test(judge__packets_with_a_gap_between__no_finding),
        cmocka_unit_test(judge__write__length_must_fit_the_reth),
        cmocka_unit_test(judge__psns_of_a_read_reused__is_a_finding),
        cmocka_unit_test(judge__repeated_psn__has_the_same_request),
        cmocka_unit_test(judge__rnr_delay__is_kept),
        cmocka_unit_test(judge__rnr_repeated_at_once__is_wrong),
        cmocka_unit_test(judge__one_early_repetition_after_a_timeout__no_finding),
        cmocka_unit_test(judge__new_request_during_the_delay__is_wrong),
        cmocka_unit_test(judge__cnps__too_frequent_is_a_finding),
        cmocka_unit_test(judge__cnp_without_becn__is_wrong),
        cmocka_unit_test(judge__datagrams__have_the_qpn_of_their_address),
    };
    return cmocka_run_group_tests_name("judge", tests, NULL, NULL);
}
