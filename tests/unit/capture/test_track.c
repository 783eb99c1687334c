/* SPDX-License-Identifier: BSD-3-Clause */
/* test_track.c - tests the marks of packets and the state of a flow. */
#include "support/check.h"

#include "capture_kit.h"

/* Follows the whole capture, and returns the state after it. */
static struct uro_track *followed(const struct uro_capture *capture)
{
    struct uro_track *track = uro_track_open(capture);
    struct uro_track_event event;

    assert_non_null(track);
    for (uint32_t i = 0; i < capture->count; i++)
        assert_true(uro_track_packet(track, i, &event) >= 0);
    return track;
}

static void done(struct uro_track *track, struct uro_capture *capture)
{
    uro_track_close(track);
    uro_capture_free(capture);
}

static void track__lost_packet__marks_gap_nak_and_late_request(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 102, 64);
    kit_respond(KIT_B, OP_ACK, 101, 1, SYNDROME_GAP, 0);
    kit_send(KIT_A, OP_SEND_ONLY, 101, 64);
    kit_send(KIT_A, OP_SEND_ONLY, 102, 64);
    kit_respond(KIT_B, OP_ACK, 102, 3, SYNDROME_ACK, 0);
    struct uro_capture *capture = kit_end();
    struct uro_track *track = followed(capture);

    assert_int_equal(track->marks[0], 0);
    assert_int_equal(track->marks[1], URO_TRACK_TIMED);
    assert_int_equal(track->marks[2], URO_TRACK_GAP);
    assert_int_equal(track->marks[3], URO_TRACK_NAK);
    assert_int_equal(track->marks[4], URO_TRACK_LATE);
    assert_int_equal(track->marks[5], URO_TRACK_REPEATED);
    assert_int_equal(track->related[5], 2);
    assert_int_equal(track->marks[6], 0); /* the ACK may be for any transmission of the request */
    assert_int_equal(track->related[6], 5);
    assert_false(track->incomplete);
    assert_int_equal(track->flows[0].acked_psn, 102);
    done(track, capture);
}

static void track__acknowledged_packet_that_is_missing__makes_the_capture_incomplete(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 102, 64);
    kit_respond(KIT_B, OP_ACK, 102, 3, SYNDROME_ACK, 0);
    struct uro_capture *capture = kit_end();
    struct uro_track *track = followed(capture);

    assert_true(track->incomplete);
    assert_int_equal(track->incomplete_at, 3);
    done(track, capture);
}

/* The PSNs of a READ follow from the path MTU of its responses, across the wrap. */
static void track__read__takes_a_psn_for_each_response(void **state)
{
    (void)state;
    kit_begin();
    kit_rdma(KIT_A, OP_READ, 0xffffff, 0x1000, 2 * KIT_PMTU + 1, 0);
    kit_respond(KIT_B, OP_RESP_FIRST, 0xffffff, 1, SYNDROME_ACK, KIT_PMTU);
    kit_send(KIT_B, OP_RESP_MIDDLE, 0, KIT_PMTU);
    kit_respond(KIT_B, OP_RESP_LAST, 1, 1, SYNDROME_ACK, 1);
    kit_exchange(2, 2);
    struct uro_capture *capture = kit_end();
    struct uro_track *track = followed(capture);

    assert_int_equal(track->requests[0].span, 3);
    assert_int_equal(track->related[3], 0);
    assert_int_equal(track->flows[0].holes, 0);
    assert_int_equal(track->flows[0].open_count, 0);
    assert_int_equal(track->flows[0].ended, 2);
    done(track, capture);
}

static void track__psn_far_away__is_a_new_connection(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_exchange(0x800100, 1);
    struct uro_capture *capture = kit_end();
    struct uro_track *track = followed(capture);

    assert_int_equal(track->marks[2], URO_TRACK_RESTART);
    assert_int_equal(track->flows[0].generation, 1);
    assert_int_equal(track->flows[0].start, 0x800100);
    done(track, capture);
}

/* An acknowledged PSN arrives with another request. That request is not a duplicate. */
static void track__acknowledged_psn_with_another_request__is_a_new_connection(void **state)
{
    (void)state;
    kit_begin();
    kit_exchange(100, 1);
    kit_send(KIT_A, OP_SEND_ONLY, 100, 65);
    struct uro_capture *capture = kit_end();
    struct uro_track *track = followed(capture);

    assert_int_equal(track->marks[2], URO_TRACK_RESTART);
    done(track, capture);
}

/* Both copies have the same IPv4 identification: one packet was captured on two interfaces. */
static void track__packet_captured_twice__is_a_copy(void **state)
{
    const struct uro_frame frame = kit_frame(KIT_A, OP_SEND_ONLY, 100, 64);
    struct uro_frame repeated = frame;

    (void)state;
    repeated.ip.identification = 77;
    kit_begin();
    kit_put(&frame);
    kit_put(&frame);
    kit_put(&repeated);
    struct uro_capture *capture = kit_end();
    struct uro_track *track = followed(capture);

    assert_int_equal(track->marks[1], URO_TRACK_COPY);
    assert_int_equal(track->marks[2], URO_TRACK_REPEATED);
    assert_int_equal(track->requests[0].times, 2);
    done(track, capture);
}

/* The packets have no identification, but nearly every packet is in the capture twice. */
static void track__capture_with_everything_twice__has_copies(void **state)
{
    (void)state;
    kit_begin();
    for (uint32_t i = 0; i < 10; i++) {
        struct uro_frame frame = kit_frame(KIT_A, OP_SEND_ONLY, 100 + i, 64);
        frame.ip.identification = 0;
        kit_put(&frame);
        kit_put(&frame);
    }
    struct uro_capture *capture = kit_end();
    struct uro_track *track = followed(capture);

    assert_true(track->doubled);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(track->marks[i], i % 2 ? URO_TRACK_COPY : 0);
    done(track, capture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(track__lost_packet__marks_gap_nak_and_late_request),
        cmocka_unit_test(track__acknowledged_packet_that_is_missing__makes_the_capture_incomplete),
        cmocka_unit_test(track__read__takes_a_psn_for_each_response),
        cmocka_unit_test(track__psn_far_away__is_a_new_connection),
        cmocka_unit_test(track__acknowledged_psn_with_another_request__is_a_new_connection),
        cmocka_unit_test(track__packet_captured_twice__is_a_copy),
        cmocka_unit_test(track__capture_with_everything_twice__has_copies),
    };
    return cmocka_run_group_tests_name("track", tests, NULL, NULL);
}
