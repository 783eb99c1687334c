/* SPDX-License-Identifier: BSD-3-Clause */
/* test_recovery.c - tests each mode in the table at the head of core/req_recovery.c. */
#include "base/mark.h"
#include "core/req_recovery.h"
#include "support/check.h"

/* PSNs 10 to 19 are in flight, the oldest request is 3, the cursor is at request 8. */
static struct uro_recovery_view in_flight(void)
{
    return (struct uro_recovery_view){ .position = { .next = uro_psn_make(20), .cursor = 8 },
                                       .una = uro_psn_make(10),
                                       .head = 3,
                                       .ack_timeout = true };
}

static enum uro_recovery_report report(struct uro_recovery *recovery, uint32_t psn)
{
    return uro_recovery_on_gap(recovery, uro_psn_make(psn), false);
}

/* Acknowledges all PSNs before @una, which was 10. The next PSN to send is @next. */
static enum uro_recovery_step acknowledge(struct uro_recovery *recovery, uint32_t una,
                                          uint32_t next)
{
    struct uro_recovery_view view = in_flight();

    view.una = uro_psn_make(una);
    view.position.next = uro_psn_make(next);
    return uro_recovery_on_progress(recovery, &view, uro_psn_make(10));
}

static void gap__reported_again__is_known_or_ahead_until_progress(void **state)
{
    struct uro_recovery recovery = { 0 };

    (void)state;
    assert_int_equal(report(&recovery, 12), URO_RECOVERY_NEW);
    assert_int_equal(report(&recovery, 12), URO_RECOVERY_KNOWN);
    assert_int_equal(report(&recovery, 14), URO_RECOVERY_AHEAD);
    assert_int_equal(report(&recovery, 13), URO_RECOVERY_KNOWN);
    assert_int_equal(acknowledge(&recovery, 11, 10), URO_RECOVERY_STAY);
    assert_false(uro_recovery_active(&recovery));
    assert_int_equal(report(&recovery, 13), URO_RECOVERY_NEW);
    uro_recovery_on_expiry(&recovery);
    assert_int_equal(report(&recovery, 13), URO_RECOVERY_NEW);
}

static void gap__during_an_rnr_wait__is_not_new(void **state)
{
    struct uro_recovery recovery = { 0 };

    (void)state;
    assert_int_equal(uro_recovery_on_gap(&recovery, uro_psn_make(12), true), URO_RECOVERY_AHEAD);
    assert_false(recovery.gap_open);
}

static void gap__peer_has_no_reorder_buffer__goes_back(void **state)
{
    const struct uro_recovery_view view = in_flight();
    struct uro_recovery recovery = { 0 };

    (void)state;
    assert_int_equal(report(&recovery, 10), URO_RECOVERY_NEW);
    assert_int_equal(uro_recovery_on_resend(&recovery, &view), URO_RECOVERY_GO_BACK);
    assert_int_equal(recovery.mode, URO_RECOVERY_NONE);
}

/* Returns a state in which the peer has acknowledged more packets than were retransmitted. */
static struct uro_recovery learned(void)
{
    struct uro_recovery recovery = { 0 };

    assert_int_equal(report(&recovery, 10), URO_RECOVERY_NEW);
    assert_int_equal(acknowledge(&recovery, 15, 11), URO_RECOVERY_STAY);
    assert_true(recovery.peer_buffers);
    return recovery;
}

static void gap__peer_has_a_reorder_buffer__one_packet_then_the_saved_cursor(void **state)
{
    struct uro_recovery recovery = learned();
    const struct uro_recovery_view view = in_flight();

    (void)state;
    assert_int_equal(report(&recovery, 10), URO_RECOVERY_NEW);
    assert_int_equal(uro_recovery_on_resend(&recovery, &view), URO_RECOVERY_GO_BACK);
    assert_int_equal(recovery.mode, URO_RECOVERY_SINGLE);
    assert_int_equal(uro_recovery_on_single_done(&recovery, view.una), URO_RECOVERY_RESUME);
    assert_int_equal(recovery.saved.next.value, 20);
    assert_int_equal(recovery.saved.cursor, 8);
    assert_int_equal(recovery.mode, URO_RECOVERY_NONE);
    assert_true(recovery.gap_open);
}

static void gap__single_retransmit_not_possible__goes_back(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct uro_recovery recovery = learned();
        struct uro_recovery_view view = in_flight();

        view.rd_atomic_used = i == 0;
        view.ack_timeout = i != 1;
        if (i == 2)
            view.position.next = uro_psn_make(11);
        if (i == 3)
            recovery.single = uro_psn_make(9); /* the next packet is missing, too */
        assert_int_equal(uro_recovery_on_resend(&recovery, &view), URO_RECOVERY_GO_BACK);
        assert_int_equal(recovery.mode, URO_RECOVERY_NONE);
        assert_int_equal(recovery.peer_buffers, i != 3);
    }
}

static void single__all_acknowledged_before_the_retransmit__cursor_is_unchanged(void **state)
{
    struct uro_recovery recovery = learned();
    const struct uro_recovery_view view = in_flight();

    (void)state;
    (void)uro_recovery_on_resend(&recovery, &view);
    assert_int_equal(acknowledge(&recovery, 20, 10), URO_RECOVERY_STAY);
    assert_int_equal(recovery.mode, URO_RECOVERY_NONE);
}

static void probe__nothing_but_the_packet_is_acknowledged__the_rest_was_lost(void **state)
{
    const struct uro_recovery_view view = in_flight();
    struct uro_recovery recovery = { 0 };

    (void)state;
    assert_int_equal(uro_recovery_on_probe(&recovery, &view), URO_RECOVERY_GO_BACK);
    assert_int_equal(recovery.mode, URO_RECOVERY_PROBE);
    assert_int_equal(acknowledge(&recovery, 11, 11), URO_RECOVERY_STAY);
    assert_int_equal(recovery.mode, URO_RECOVERY_NONE);
}

static void probe__more_is_acknowledged__only_the_response_was_late(void **state)
{
    const struct uro_recovery_view view = in_flight();
    struct uro_recovery recovery = { 0 };

    (void)state;
    (void)uro_recovery_on_probe(&recovery, &view);
    (void)uro_recovery_on_probe(&recovery, &view); /* keeps the cursor that the first call saved */
    assert_int_equal(acknowledge(&recovery, 15, 11), URO_RECOVERY_RESUME);
    assert_int_equal(recovery.saved.next.value, 20);
}

static void probe__with_reads_in_flight__is_one_packet_until_none_is_answered(void **state)
{
    struct uro_recovery_view view = in_flight();
    struct uro_recovery recovery = { 0 };

    (void)state;
    view.rd_atomic_used = 2;
    assert_int_equal(uro_recovery_on_probe(&recovery, &view), URO_RECOVERY_REWIND);
    assert_int_equal(recovery.mode, URO_RECOVERY_SINGLE);
    assert_int_equal(uro_recovery_on_single_done(&recovery, view.una), URO_RECOVERY_RESUME);
    view.head += 2; /* the probed request and the next request are acknowledged */
    assert_int_equal(uro_recovery_on_probe(&recovery, &view), URO_RECOVERY_REWIND);
    assert_int_equal(uro_recovery_on_single_done(&recovery, view.una), URO_RECOVERY_RESUME);
    assert_int_equal(uro_recovery_on_probe(&recovery, &view), URO_RECOVERY_GO_BACK);
    assert_int_equal(recovery.mode, URO_RECOVERY_PROBE);
    uro_recovery_on_go_back(&recovery);
    assert_false(uro_recovery_active(&recovery));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gap__reported_again__is_known_or_ahead_until_progress),
        cmocka_unit_test(gap__during_an_rnr_wait__is_not_new),
        cmocka_unit_test(gap__peer_has_no_reorder_buffer__goes_back),
        cmocka_unit_test(gap__peer_has_a_reorder_buffer__one_packet_then_the_saved_cursor),
        cmocka_unit_test(gap__single_retransmit_not_possible__goes_back),
        cmocka_unit_test(single__all_acknowledged_before_the_retransmit__cursor_is_unchanged),
        cmocka_unit_test(probe__nothing_but_the_packet_is_acknowledged__the_rest_was_lost),
        cmocka_unit_test(probe__more_is_acknowledged__only_the_response_was_late),
        cmocka_unit_test(probe__with_reads_in_flight__is_one_packet_until_none_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
