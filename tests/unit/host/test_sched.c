/* SPDX-License-Identifier: BSD-3-Clause */
/* test_sched.c - tests each decision of host/sched.h separately, in virtual time. */
#include "host/sched.h"

#include "host/limits.h"
#include "support/check.h"

#define NOW URO_MS(1000)

static struct uro_sched sched;
static struct uro_sched_vars vars;

static int begin(void **state)
{
    (void)state;
    sched = uro_sched_init(URO_PROGRESS_HYBRID, false);
    vars = (struct uro_sched_vars){ .silence = URO_SILENCE_MIN };
    return 0;
}

static enum uro_sched_action post(uro_time now)
{
    return uro_sched_on_post(&sched, &vars, now).action;
}

/* Reports a round of the thread to the scheduler. The round received @received frames, and peers
 * accessed memory @served times. */
static enum uro_sched_action thread_round(uint32_t received, uint64_t served, uro_time now)
{
    const struct uro_sched_thread_round round = { .began = now,
                                                  .ended = now,
                                                  .received = received,
                                                  .moved = received,
                                                  .served = sched.served + served };
    return uro_sched_on_thread_round(&sched, &vars, &round).action;
}

static struct uro_sched_caller_result poll_round(uint32_t received, uro_time now)
{
    const struct uro_sched_caller_round round = {
        .began = now, .ended = now, .received = received, .next = URO_TIME_NEVER
    };
    assert_true(uro_sched_on_caller(&sched, &vars, false, now).receive);
    return uro_sched_on_caller_done(&sched, &vars, &round);
}

/* ---- takeover ------------------------------------------------------------- */

static void takeover__thread_serves_peer_requests__thread_after_four(void **state)
{
    (void)state;
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(vars.takeover, URO_TAKEOVER_CALLERS);
        (void)thread_round(1, 1, NOW);
        assert_int_equal(vars.balance, 2 * i);
    }
    assert_int_equal(vars.takeover, URO_TAKEOVER_THREAD);
}

static void takeover__program_polled_an_empty_cq__thread_gets_no_credit(void **state)
{
    (void)state;
    vars.balance = 3;
    vars.empty_polls = URO_EMPTY_POLLS;
    (void)thread_round(1, 1, NOW);
    assert_int_equal(vars.balance, 2);
    assert_int_equal(vars.empty_polls, 0);
}

static void takeover__callers_receive__callers_only_at_zero(void **state)
{
    (void)state;
    vars.balance = 9;
    vars.takeover = URO_TAKEOVER_THREAD;
    for (int left = 8; left >= 0; left--) {
        assert_int_equal(vars.takeover, URO_TAKEOVER_THREAD);
        (void)poll_round(1, NOW);
        assert_int_equal(vars.balance, left);
    }
    assert_int_equal(vars.takeover, URO_TAKEOVER_CALLERS);
}

static void takeover__program_waits_for_an_event__thread_is_woken_unless_frames_do(void **state)
{
    (void)state;
    assert_int_equal(uro_sched_on_wait(&vars, true).action, URO_SCHED_RUN);
    assert_int_equal(vars.takeover, URO_TAKEOVER_THREAD);
    assert_int_equal(vars.balance, URO_BALANCE_TOP);
    assert_int_equal(uro_sched_on_wait(&vars, true).action, URO_SCHED_DEFER);
    assert_int_equal(uro_sched_on_wait(&vars, false).action, URO_SCHED_RUN);
    vars.held_posts = 1;
    assert_int_equal(uro_sched_on_wait(&vars, true).action, URO_SCHED_RUN);
}

static void thread__callers_run__checks_at_growing_intervals(void **state)
{
    (void)state;
    static const uro_time intervals[] = { URO_US(50),  URO_US(100), URO_US(200), URO_US(400),
                                          URO_US(800), URO_MS(1),   URO_MS(1) };
    vars.poll_round_at = NOW;
    for (size_t i = 0; i < URO_ARRAY_LEN(intervals); i++) {
        struct uro_sched_decision decision = uro_sched_on_thread(&sched, &vars, NOW);
        assert_int_equal(decision.action, URO_SCHED_SLEEP);
        assert_false(decision.arm);
        assert_int_equal(decision.until, NOW + intervals[i]);
    }
    assert_int_equal(uro_sched_on_thread(&sched, &vars, NOW + URO_SILENCE_MIN).action,
                     URO_SCHED_RUN);
    assert_int_equal(sched.interval, URO_STAND_BACK_MIN);
}

static void thread__caller_is_in_a_round__waits_only_if_callers_run_the_engine(void **state)
{
    (void)state;
    vars.caller_in_round = true;
    assert_int_equal(uro_sched_on_thread(&sched, &vars, NOW).action, URO_SCHED_SLEEP);
    vars.takeover = URO_TAKEOVER_THREAD;
    assert_int_equal(uro_sched_on_thread(&sched, &vars, NOW).action, URO_SCHED_RUN);
}

static void thread__progress_is_caller__never_runs(void **state)
{
    (void)state;
    sched = uro_sched_init(URO_PROGRESS_CALLER, false);
    assert_int_equal(uro_sched_on_thread(&sched, &vars, NOW).action, URO_SCHED_SLEEP);
}

static void thread__doorbell_missed__runs_once_more(void **state)
{
    (void)state;
    vars.poll_round_at = NOW;
    sched.doorbell_missed = true;
    assert_int_equal(uro_sched_on_thread(&sched, &vars, NOW).action, URO_SCHED_RUN);
    assert_int_equal(uro_sched_on_thread(&sched, &vars, NOW).action, URO_SCHED_SLEEP);
}

static void silence__program_calls_soon_after_a_takeover__twice_the_gap(void **state)
{
    (void)state;
    vars.poll_round_at = NOW;
    (void)thread_round(0, 0, NOW + URO_US(100));
    (void)poll_round(0, NOW + URO_US(300));
    assert_int_equal(vars.silence, URO_US(600));
    (void)thread_round(0, 0, NOW + URO_MS(1));
    (void)poll_round(0, NOW + URO_MS(9)); /* the program is idle, not slow */
    assert_int_equal(vars.silence, URO_US(300));
    (void)thread_round(1, 1, NOW + URO_MS(10)); /* only the thread receives what the peer writes */
    assert_int_equal(vars.silence, URO_SILENCE_MIN);
}

static void contended_poll__newer_than_the_last_round__that_caller_is_next(void **state)
{
    (void)state;
    vars.poll_round_at = NOW;
    vars.contended_at = NOW;
    assert_int_equal(thread_round(1, 0, NOW), URO_SCHED_RUN);
    vars.contended_at = NOW + 1;
    assert_int_equal(thread_round(1, 0, NOW), URO_SCHED_DEFER);
    assert_int_equal(sched.yielded_at, NOW);
    vars.takeover = URO_TAKEOVER_THREAD;
    vars.balance = URO_BALANCE_TOP;
    assert_int_equal(thread_round(1, 0, NOW), URO_SCHED_RUN);
}

static void thread__no_work__spins_only_while_the_program_makes_no_calls(void **state)
{
    (void)state;
    vars.poll_round_at = vars.post_round_at = NOW;
    (void)thread_round(1, 0, NOW + URO_MS(3));
    assert_int_equal(thread_round(0, 0, NOW + URO_MS(3) + URO_US(99)), URO_SCHED_RUN);
    assert_int_equal(thread_round(0, 0, NOW + URO_MS(3) + URO_US(100)), URO_SCHED_SLEEP);
    (void)thread_round(1, 0, NOW + URO_MS(2));
    assert_int_equal(thread_round(0, 0, NOW + URO_MS(2)), URO_SCHED_SLEEP);
    sched.event_delivered = true; /* the woken program needs the processor */
    assert_int_equal(thread_round(1, 0, NOW + URO_MS(4)), URO_SCHED_SLEEP);
    assert_int_equal(thread_round(1, 0, NOW + URO_MS(4)), URO_SCHED_RUN);
}

static uro_time sleep_until(bool link_up, bool has_descriptor, uro_time next)
{
    const struct uro_sched_idle idle = { .now = NOW,
                                         .next = next,
                                         .link_interval = URO_LINK_CHECK_INTERVAL,
                                         .link_up = link_up,
                                         .has_descriptor = has_descriptor };
    struct uro_sched_decision decision = uro_sched_on_idle(&sched, &idle);

    assert_int_equal(decision.action, URO_SCHED_SLEEP);
    assert_int_equal(decision.arm, has_descriptor);
    return decision.until - NOW;
}

static void idle__no_work__sleeps_until_the_earliest_of_timer_link_and_nap(void **state)
{
    (void)state;
    assert_int_equal(sleep_until(true, true, URO_TIME_NEVER), URO_LINK_CHECK_INTERVAL);
    assert_int_equal(sleep_until(true, true, NOW + 7), 7);
    assert_int_equal(sleep_until(true, true, NOW), URO_NAP_FULL);
    sched.moved_at = NOW - URO_NAP_SINCE + 1;
    assert_int_equal(sleep_until(true, false, URO_TIME_NEVER), URO_NAP_BUSY);
    sched.moved_at = NOW - URO_NAP_SINCE;
    assert_int_equal(sleep_until(true, false, URO_TIME_NEVER), URO_NAP_IDLE);
    assert_int_equal(sleep_until(false, false, URO_TIME_NEVER), URO_LINK_CHECK_INTERVAL);
}

static void caller__timer_due_long_before_the_thread_wakes__wakes_the_thread(void **state)
{
    (void)state;
    struct uro_sched_caller_round round = { .began = NOW, .ended = NOW, .next = NOW };
    vars.wake_at = NOW + URO_STAND_BACK_MAX;
    assert_false(uro_sched_on_caller_done(&sched, &vars, &round).wake_thread);
    vars.wake_at++;
    assert_true(uro_sched_on_caller_done(&sched, &vars, &round).wake_thread);
    round.next = URO_TIME_NEVER;
    assert_false(uro_sched_on_caller_done(&sched, &vars, &round).wake_thread);
}

static void contended_polls__each_32nd__yields(void **state)
{
    (void)state;
    for (uint32_t polls = 1; polls <= 96; polls++)
        assert_int_equal(uro_sched_on_contended(polls), polls == 32 || polls == 64 || polls == 96);
}

static void caller__empty_polls__yields_every_eighth_round_from_the_64th_on(void **state)
{
    uint32_t yields = 0;

    (void)state;
    for (uint32_t i = 1; i <= 80; i++) {
        bool yield = poll_round(0, NOW).yield;
        assert_int_equal(yield, i == 64 || i == 72 || i == 80);
        yields += yield;
    }
    assert_int_equal(yields, 3);
    (void)poll_round(1, NOW);
    assert_int_equal(sched.empty_rounds, 0);
}

/* ---- send coalescing ------------------------------------------------------ */

static void post__alone__leaves_at_once(void **state)
{
    (void)state;
    vars.polled_at = NOW;
    assert_int_equal(post(NOW), URO_SCHED_RUN);
}

static void post__follows_a_post_of_a_polling_program__waits(void **state)
{
    (void)state;
    vars.polled_at = vars.post_round_at = NOW;
    assert_int_equal(post(NOW + URO_COALESCE - 1), URO_SCHED_DEFER);
    assert_int_equal(post(NOW + URO_COALESCE), URO_SCHED_RUN);
    vars.polled_at = NOW - 1; /* the posts count as a burst */
    assert_int_equal(post(NOW + URO_COALESCE_BURST - 1), URO_SCHED_DEFER);
    vars.held_posts = URO_COALESCE_POSTS;
    assert_int_equal(post(NOW), URO_SCHED_RUN);
}

static void post__no_other_sender__is_sent_at_once(void **state)
{
    (void)state;
    vars.polled_at = vars.post_round_at = NOW;
    vars.wake_at = NOW + URO_STAND_BACK_MAX + 1;
    assert_int_equal(post(NOW), URO_SCHED_RUN);
    vars.wake_at = 0;
    sched.mode = URO_PROGRESS_CALLER;
    assert_int_equal(post(NOW), URO_SCHED_RUN);
}

static void post__program_does_not_poll__waits_only_in_a_long_burst(void **state)
{
    (void)state;
    vars.post_round_at = NOW;
    vars.polled_at = NOW - URO_POLLS_SOON;
    assert_int_equal(post(NOW), URO_SCHED_RUN);
    vars.post_burst = URO_LONG_BURST;
    assert_int_equal(post(NOW), URO_SCHED_DEFER);
}

static void post__send_is_a_system_call__waits_as_long_as_a_send_takes(void **state)
{
    (void)state;
    sched = uro_sched_init(URO_PROGRESS_HYBRID, true);
    vars.post_round_at = NOW;
    vars.polled_at = NOW - 1;
    vars.send_cost = URO_US(12);
    assert_int_equal(post(NOW + URO_US(12) - 1), URO_SCHED_DEFER);
    assert_int_equal(post(NOW + URO_US(12)), URO_SCHED_RUN);
    vars.polled_at = NOW; /* a post that is alone does not wait longer */
    assert_int_equal(post(NOW + URO_COALESCE_CALLS), URO_SCHED_RUN);
    assert_false(uro_sched_on_caller(&sched, &vars, true, NOW + 1).receive);
    assert_true(uro_sched_on_caller(&sched, &vars, false, NOW + 1).receive);
}

static void poll__finds_a_completion__runs_only_when_needed(void **state)
{
    (void)state;
    vars.poll_round_at = NOW;
    assert_int_equal(uro_sched_on_poll(&vars, NOW + URO_US(25) - 1).action, URO_SCHED_DEFER);
    assert_int_equal(uro_sched_on_poll(&vars, NOW + URO_US(25)).action, URO_SCHED_RUN);
    vars.held_posts = 1;
    assert_int_equal(uro_sched_on_poll(&vars, NOW).action, URO_SCHED_RUN);
    assert_int_equal(vars.polled_at, NOW);
}

/* ---- awaited reply -------------------------------------------------------- */

static void reply__no_ack_or_no_positive_score__is_not_awaited(void **state)
{
    (void)state;
    assert_int_equal(uro_sched_reply(&sched, true, 5, 5), URO_REPLY_NONE);
    sched.reply_score = 1;
    assert_int_equal(uro_sched_reply(&sched, true, 5, 5), URO_REPLY_AWAITED);
    assert_int_equal(uro_sched_reply(&sched, false, 5, 5), URO_REPLY_NONE);
    assert_int_equal(uro_sched_reply(&sched, true, 5, 6), URO_REPLY_NONE);
    vars.send_cost = URO_US(3);
    assert_int_equal(uro_sched_reply_until(&vars, NOW), NOW + URO_US(8));
    uro_sched_on_reply(&sched, false);
    assert_int_equal(sched.reply_score, -3);
    for (int i = 0; i < 20; i++)
        uro_sched_on_reply(&sched, true);
    assert_int_equal(sched.reply_score, 8);
}

static void reply__thread_receives_a_write_soon_after_a_post__the_score_rises(void **state)
{
    (void)state;
    vars.post_round_at = NOW;
    (void)thread_round(1, 1, NOW + URO_REPLY_SINCE - 1);
    assert_int_equal(sched.reply_score, 1);
    (void)thread_round(1, 1, NOW + URO_REPLY_SINCE);
    assert_int_equal(sched.reply_score, 1);
    vars.empty_polls = URO_EMPTY_POLLS; /* the program receives the next WRITE itself */
    (void)thread_round(1, 1, NOW);
    assert_int_equal(sched.reply_score, 1);
}

static void send_cost__is_the_last_measurement__decays_and_ignores_interruptions(void **state)
{
    (void)state;
    uro_sched_on_send(&vars, NOW, NOW + URO_US(8));
    assert_int_equal(vars.send_cost, URO_US(8));
    uro_sched_on_send(&vars, NOW, NOW + URO_SEND_INTERRUPTED);
    assert_int_equal(vars.send_cost, URO_US(8));
    uro_sched_on_send(&vars, 0, NOW);
    assert_int_equal(vars.send_cost, URO_US(7));
}

/* ---- the service role ------------------------------------------------------- */

static struct uro_sched_decision on_role(bool waiter, uro_time wake_at, uro_time returned_at,
                                         uint32_t waits)
{
    const struct uro_sched_role role = { waiter, wake_at, returned_at, waits };

    return uro_sched_on_role(&sched, &role, NOW);
}

static void role__returned_a_moment_ago__thread_leaves_the_program_alone(void **state)
{
    (void)state;
    assert_int_equal(on_role(false, 0, 0, 0).action, URO_SCHED_RUN);
    struct uro_sched_decision decision = on_role(false, 0, NOW - 1, 1);
    assert_int_equal(decision.action, URO_SCHED_SLEEP);
    assert_int_equal(decision.until, NOW - 1 + URO_ROLE_GRACE);
    assert_int_equal(on_role(false, 0, NOW - URO_ROLE_GRACE, 1).action, URO_SCHED_RUN);
}

static void role__thread_waits_all_the_time__checks_at_growing_intervals(void **state)
{
    (void)state;
    assert_int_equal(on_role(true, NOW + 1, 0, 7).until, NOW + URO_ROLE_GRACE);
    assert_int_equal(on_role(true, NOW + 1, 0, 7).until, NOW + 2 * URO_ROLE_GRACE);
    for (int i = 0; i < 20; i++)
        assert_true(on_role(true, NOW + 1, 0, 7).until <= NOW + URO_ROLE_LOOK_MAX);
    assert_int_equal(on_role(true, NOW + 1, 0, 7).until, NOW + URO_ROLE_LOOK_MAX);
    assert_int_equal(on_role(true, NOW + 1, 0, 8).until, NOW + URO_ROLE_GRACE);
}

static void role__waiting_thread_is_overdue__service_thread_takes_the_role(void **state)
{
    (void)state;
    assert_int_equal(on_role(true, NOW - URO_ROLE_OVERDUE + 1, 0, 1).action, URO_SCHED_SLEEP);
    assert_int_equal(on_role(true, NOW - URO_ROLE_OVERDUE, 0, 1).action, URO_SCHED_RUN);
    assert_int_equal(on_role(true, 0, 0, 1).action, URO_SCHED_SLEEP); /* the waiter is awake */
    assert_int_equal(on_role(true, URO_TIME_NEVER, 0, 1).action, URO_SCHED_SLEEP);
}

static void role__returned__service_thread_is_woken_only_if_needed(void **state)
{
    const struct {
        struct uro_sched_role_end end;
        enum uro_role_action action;
    } cases[] = {
        { { NOW, NOW + URO_ROLE_GRACE, false, false }, URO_ROLE_LEAVE },
        { { NOW, NOW + URO_ROLE_GRACE + 1, false, false }, URO_ROLE_LOOK },
        { { NOW, NOW, true, false }, URO_ROLE_WAKE },
        { { NOW, NOW, false, true }, URO_ROLE_WAKE },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(cases); i++)
        assert_int_equal(uro_sched_on_role_returned(&vars, &cases[i].end), cases[i].action);
    assert_int_equal(vars.poll_round_at, NOW);
    assert_int_equal(vars.polled_at, NOW);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(takeover__thread_serves_peer_requests__thread_after_four),
        TEST(takeover__program_polled_an_empty_cq__thread_gets_no_credit),
        TEST(takeover__callers_receive__callers_only_at_zero),
        TEST(takeover__program_waits_for_an_event__thread_is_woken_unless_frames_do),
        TEST(thread__callers_run__checks_at_growing_intervals),
        TEST(thread__caller_is_in_a_round__waits_only_if_callers_run_the_engine),
        TEST(thread__progress_is_caller__never_runs),
        TEST(thread__doorbell_missed__runs_once_more),
        TEST(silence__program_calls_soon_after_a_takeover__twice_the_gap),
        TEST(contended_poll__newer_than_the_last_round__that_caller_is_next),
        TEST(thread__no_work__spins_only_while_the_program_makes_no_calls),
        TEST(idle__no_work__sleeps_until_the_earliest_of_timer_link_and_nap),
        TEST(caller__timer_due_long_before_the_thread_wakes__wakes_the_thread),
        TEST(caller__empty_polls__yields_every_eighth_round_from_the_64th_on),
        TEST(contended_polls__each_32nd__yields),
        TEST(post__alone__leaves_at_once),
        TEST(post__follows_a_post_of_a_polling_program__waits),
        TEST(post__no_other_sender__is_sent_at_once),
        TEST(post__program_does_not_poll__waits_only_in_a_long_burst),
        TEST(post__send_is_a_system_call__waits_as_long_as_a_send_takes),
        TEST(poll__finds_a_completion__runs_only_when_needed),
        TEST(reply__no_ack_or_no_positive_score__is_not_awaited),
        TEST(reply__thread_receives_a_write_soon_after_a_post__the_score_rises),
        TEST(role__returned_a_moment_ago__thread_leaves_the_program_alone),
        TEST(role__thread_waits_all_the_time__checks_at_growing_intervals),
        TEST(role__waiting_thread_is_overdue__service_thread_takes_the_role),
        TEST(role__returned__service_thread_is_woken_only_if_needed),
        TEST(send_cost__is_the_last_measurement__decays_and_ignores_interruptions),
    };
    return cmocka_run_group_tests_name("host/sched", tests, NULL, NULL);
}
