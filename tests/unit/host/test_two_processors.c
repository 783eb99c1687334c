/* SPDX-License-Identifier: BSD-3-Clause */
/* test_two_processors.c - simulates two hosts that share two processors, in virtual time. Each kind
 * of program must get its packets with few thread switches, and must not lose its processor to the
 * service thread.
 *
 * Each host has a program and a service thread over host/sched.h. A processor runs one thread, step
 * by step. The processor with the earlier time makes the next step. A woken service thread preempts
 * a program, as on Linux. A frame takes WIRE to the peer. No frame is lost, because the test is
 * about which thread runs, and when. A thread in a round holds the engine lock. A caller that finds
 * the lock taken continues without a round.
 *
 * The callers of host/sched.h in this file repeat the logic of progress.c and service.c, which have
 * their own tests: test_progress.c, test_contend.c and test_silence.c. The model leaves out atomic
 * variables and memory order, the cost of a cache line that two processors write, timers of the
 * engine, a link that goes down, and posts of several threads.
 */
#include "host/sched.h"

#include <string.h>

#include "base/rng.h"
#include "host/limits.h"
#include "support/check.h"

#define ROUND  300u          /* time of a round, ns */
#define LOOK   50u           /* time of an empty poll, or of a read of memory, ns */
#define WIRE   200u          /* time of a frame to the peer, ns */
#define SWITCH URO_US(5)     /* time to wake a thread, or to switch to it */
#define SLICE  URO_MS(3)     /* longest run of a thread while another thread waits */
#define FAR    URO_MS(10000) /* longer than any case takes */
#define JITTER                                                                                     \
    40u /* random extra time of a step, ns, so that two hosts do not run in lockstep for ever */
#define SEEDS 8u

enum program {
    SEND_AND_POLL,  /* ib_send_lat: both poll for the peer's message */
    WRITE_AND_LOOK, /* ib_write_lat: polls for the ACK, then spins on memory that the peer writes */
    SLEEP,          /* ib_send_lat -e: waits for an event */
    BURSTS,         /* the client posts 32 at a time and polls for them; the server only polls */
};

enum kind { DATA, ACK };

struct frame {
    uro_time at;
    enum kind kind;
};

struct thread {
    uro_time sleeps_until; /* 0: it can run */
    uro_time ran_since;
};

struct host {
    struct uro_sched sched;
    struct uro_sched_vars vars;
    struct thread program, service;
    struct frame inbox[256];
    uint32_t first, behind;
    uint32_t to_send, acks_to_send; /* requests and ACKs that are not sent yet */
    uint32_t completions, messages; /* delivered to the program, which has not polled them yet */
    uint64_t served;
    uint32_t rounds_of_program, rounds_of_service, wakeups;
    bool armed, waits_for_event, acked;
    bool thread_in_round;                /* the service thread has the engine lock */
    uint32_t contended;                  /* polls that found the lock taken */
    struct uro_sched_caller_round round; /* round of the program, valid if caller_in_round */
    struct uro_sched_thread_round thread_round;
    uint64_t awaits_more_than;
    uro_time awaits_until;
    uint32_t posted, turns; /* counters of the program */
};

static struct host hosts[2];
static struct thread *on[2]; /* the thread that each processor runs */
static uro_time clocks[2];
static struct uro_rng rng;
static enum program program;

static struct host *peer_of(const struct host *host)
{
    return host == &hosts[0] ? &hosts[1] : &hosts[0];
}

static void wake(struct thread *thread, uro_time now)
{
    if (thread->sleeps_until > now + SWITCH)
        thread->sleeps_until = now + SWITCH;
}

static void wake_service(struct host *host, uro_time now)
{
    if (host->vars.wake_at == 0)
        return;
    host->vars.wake_at = 0;
    wake(&host->service, now);
    host->wakeups++;
}

static void emit(struct host *host, enum kind kind, uro_time now)
{
    struct host *peer = peer_of(host);

    peer->inbox[peer->behind++ % 256] = (struct frame){ now + WIRE, kind };
    assert_true(peer->behind - peer->first <= 256);
    if (peer->armed && peer->service.sleeps_until > now) {
        peer->armed = false;
        peer->vars.wake_at = 0;
        wake(&peer->service, now);
        peer->wakeups++;
    }
}

static bool writes(void)
{
    return program == WRITE_AND_LOOK;
}

/* Returns the number of received frames. Sets @moved to the number of received and sent frames. */
static uint32_t round_of(struct host *host, bool receive, uro_time now, uint32_t *moved)
{
    uint32_t received = 0;

    for (; receive && host->first != host->behind; host->first++, received++) {
        struct frame *frame = &host->inbox[host->first % 256];
        if (frame->at > now)
            break;
        if (frame->kind == ACK) {
            host->completions++;
        } else {
            host->acks_to_send++;
            host->messages++;
            host->served += writes();
        }
    }
    *moved = received + host->acks_to_send + host->to_send;
    for (; host->acks_to_send > 0; host->acks_to_send--)
        emit(host, ACK, now);
    for (; host->to_send > 0; host->to_send--)
        emit(host, DATA, now);
    if (host->waits_for_event && host->messages + host->completions > 0) {
        host->waits_for_event = false;
        host->sched.event_delivered = true;
        wake(&host->program, now);
    }
    return received;
}

static uro_time end_call(struct host *host, uro_time now)
{
    struct uro_sched_caller_round *round = &host->round;

    round->ended = now;
    struct uro_sched_caller_result result =
        uro_sched_on_caller_done(&host->sched, &host->vars, round);
    if (!round->posted)
        host->vars.empty_polls = round->received > 0 ? 0 : host->vars.empty_polls + 1;
    if (result.wake_thread)
        wake_service(host, now);
    if (result.yield)
        host->program.ran_since = 0; /* so that a waiting thread gets the processor */
    host->vars.caller_in_round = false;
    return ROUND;
}

/* Runs another round of a poll that waits for the peer's WRITE. */
static uro_time await_step(struct host *host, uro_time now)
{
    uint32_t moved;

    host->round.received += round_of(host, true, now, &moved);
    if (host->served == host->awaits_more_than && now < host->awaits_until)
        return ROUND;
    uro_sched_on_reply(&host->sched, host->served != host->awaits_more_than);
    return end_call(host, now);
}

/* Makes a call that finds the lock taken. The service thread sees the posted requests when its
 * round ends. */
static uro_time call_contended(struct uro_sched_vars *vars, bool posted, uro_time now)
{
    if (!posted) {
        vars->empty_polls++;
        vars->contended_at = vars->contended_at == 0 ? now : vars->contended_at;
    }
    return LOOK;
}

/* Makes a call as progress.c does. Returns the time that it took. */
static uro_time call(struct host *host, bool posted, uro_time now)
{
    struct uro_sched_vars *vars = &host->vars;
    uint32_t moved, completed = host->completions;
    uint64_t served = host->served;

    if (host->thread_in_round) {
        host->contended += !posted;
        return call_contended(vars, posted, now);
    }
    host->round = (struct uro_sched_caller_round){
        .began = now, .posted = posted, .sends = posted || vars->held_posts > 0, .next = now + FAR
    };
    bool receive = uro_sched_on_caller(&host->sched, vars, posted, now).receive;
    vars->held_posts = 0;
    vars->caller_in_round = true;
    host->round.received = round_of(host, receive, now, &moved);
    host->rounds_of_program++;
    if (posted || uro_sched_reply(&host->sched, host->completions != completed, served,
                                  host->served) == URO_REPLY_NONE)
        return end_call(host, now);
    host->awaits_more_than = served;
    host->awaits_until = uro_sched_reply_until(vars, now + ROUND);
    return ROUND;
}

static uro_time post(struct host *host, uro_time now)
{
    host->posted++;
    host->to_send++;
    if (uro_sched_on_post(&host->sched, &host->vars, now).action == URO_SCHED_DEFER) {
        host->vars.held_posts++;
        return LOOK;
    }
    return call(host, true, now);
}

static uro_time poll(struct host *host, uint32_t *what, bool *found, uro_time now)
{
    *found = *what > 0;
    if (!*found)
        return call(host, false, now);
    --*what;
    return uro_sched_on_poll(&host->vars, now).action == URO_SCHED_RUN ? call(host, false, now)
                                                                       : LOOK;
}

/* Waits for an event: informs the scheduler, polls once more, and sleeps. */
static uro_time wait_for_event(struct host *host, uro_time now)
{
    if (uro_sched_on_wait(&host->vars, host->armed).action == URO_SCHED_RUN)
        wake_service(host, now);
    if (host->messages > 0)
        return LOOK;
    host->completions = 0;
    host->waits_for_event = true;
    host->program.sleeps_until = now + FAR;
    return LOOK;
}

static uro_time program_step(struct host *host, uro_time now)
{
    const bool is_client = host == &hosts[0];
    bool found;
    uro_time took;

    if (host->vars.caller_in_round)
        return await_step(host, now);
    if (program == BURSTS && is_client) {
        if (host->posted < 32)
            return post(host, now);
        took = poll(host, &host->completions, &found, now);
        if (found && ++host->turns % 32 == 0)
            host->posted = 0;
        return took;
    }
    if (program == WRITE_AND_LOOK && host->posted > 0 && !host->acked)
        return poll(host, &host->completions, &host->acked, now);
    if (program == WRITE_AND_LOOK) {
        found = host->messages > 0;
        host->messages -= found;
        took = LOOK;
    } else if (program == SLEEP && host->messages == 0) {
        return wait_for_event(host, now);
    } else {
        host->completions = program == BURSTS ? 0 : host->completions;
        took = poll(host, &host->messages, &found, now);
    }
    if (!found)
        return took;
    host->turns++;
    host->acked = false;
    return program == BURSTS ? took : took + post(host, now + took);
}

static uro_time end_thread_round(struct host *host, uro_time now)
{
    const bool rung = host->to_send > 0;

    host->thread_in_round = false;
    host->thread_round.ended = now;
    struct uro_sched_decision decision =
        uro_sched_on_thread_round(&host->sched, &host->vars, &host->thread_round);
    host->sched.doorbell_missed = rung && decision.action == URO_SCHED_DEFER;
    if (decision.action != URO_SCHED_SLEEP || rung || host->first != host->behind)
        return LOOK;
    const struct uro_sched_idle idle = { .now = now,
                                         .next = now + FAR,
                                         .link_interval = URO_LINK_CHECK_INTERVAL,
                                         .link_up = true,
                                         .has_descriptor = true };
    decision = uro_sched_on_idle(&host->sched, &idle);
    host->armed = decision.arm;
    host->service.sleeps_until = host->vars.wake_at = decision.until;
    return LOOK;
}

/* Runs a step of the service thread as service.c does. */
static uro_time service_step(struct host *host, uro_time now)
{
    struct uro_sched_vars *vars = &host->vars;

    if (host->thread_in_round)
        return end_thread_round(host, now);
    struct uro_sched_decision decision = uro_sched_on_thread(&host->sched, vars, now);

    vars->wake_at = 0;
    if (decision.action == URO_SCHED_SLEEP) {
        host->armed = false;
        host->service.sleeps_until = vars->wake_at = decision.until;
        return LOOK;
    }
    host->armed = false;
    if (vars->caller_in_round) { /* the program has the lock */
        host->service.sleeps_until = now + ROUND;
        return LOOK;
    }
    vars->contended_at = 0;
    host->thread_in_round = true;
    host->thread_round = (struct uro_sched_thread_round){ .began = now };
    host->thread_round.received = round_of(host, true, now, &host->thread_round.moved);
    host->thread_round.served = host->served;
    host->rounds_of_service++;
    return ROUND;
}

static struct thread *const threads[4] = { &hosts[0].program, &hosts[1].program, &hosts[0].service,
                                           &hosts[1].service };

static bool can_run(const struct thread *thread, uro_time now)
{
    return thread->sleeps_until <= now && thread != on[0] && thread != on[1];
}

static bool is_service(const struct thread *thread)
{
    return thread == threads[2] || thread == threads[3];
}

/* Gives the processor to another thread when its current thread sleeps or another thread is due. */
static void dispatch(int processor, uro_time now)
{
    struct thread *mine = on[processor];

    for (size_t i = 4; i-- > 0;) {
        struct thread *next = threads[i];
        bool is_due = mine == NULL || mine->sleeps_until > now || now - mine->ran_since >= SLICE ||
                      (is_service(next) && !is_service(mine));
        if (!can_run(next, now) || !is_due)
            continue;
        on[processor] = next;
        next->ran_since = now;
        clocks[processor] += mine == next ? 0 : SWITCH;
        return;
    }
    if (mine != NULL && mine->sleeps_until > now)
        on[processor] = NULL;
}

static void step(void)
{
    int processor = clocks[0] <= clocks[1] ? 0 : 1;
    uro_time now = clocks[processor];

    dispatch(processor, now);
    struct thread *thread = on[processor];
    now = clocks[processor];
    if (thread == NULL) {
        clocks[processor] += LOOK;
        return;
    }
    struct host *host =
        thread == &hosts[0].program || thread == &hosts[0].service ? &hosts[0] : &hosts[1];
    clocks[processor] += is_service(thread) ? service_step(host, now) : program_step(host, now);
    clocks[processor] += uro_rng_below(&rng, JITTER);
}

/* Runs @kind from @seed until the client had @turns turns. Returns the time of the second half, in
 * which the scheduler has learned what the program does. */
static uro_time run(enum program kind, uint32_t turns, uint64_t seed)
{
    uro_time half = 0;

    program = kind;
    uro_rng_init_number(&rng, seed);
    memset(hosts, 0, sizeof hosts);
    for (int i = 0; i < 2; i++) {
        hosts[i].sched = uro_sched_init(URO_PROGRESS_HYBRID, false);
        hosts[i].vars.silence = URO_SILENCE_MIN;
        clocks[i] = FAR;
        on[i] = NULL;
    }
    if (kind != BURSTS)
        hosts[0].messages = 1; /* the client begins */
    while (hosts[0].turns < turns) {
        step();
        assert_true(clocks[0] < 2 * FAR);
        if (half != 0 || hosts[0].turns < turns / 2)
            continue;
        half = clocks[0];
        for (int i = 0; i < 2; i++)
            hosts[i].rounds_of_program = hosts[i].rounds_of_service = hosts[i].wakeups = 0;
    }
    return clocks[0] - half;
}

static void two_hosts__programs_poll__need_no_service_thread(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uro_time took = run(SEND_AND_POLL, 20000, seed);
        for (int i = 0; i < 2; i++)
            assert_true(hosts[i].rounds_of_service * 100 <= hosts[i].rounds_of_program);
        assert_true(took / 10000 < URO_US(4)); /* a round trip, of four rounds and two frames */
    }
}

static void two_hosts__programs_spin_on_memory__do_not_wait_for_a_wakeup(void **state)
{
    uint32_t contended = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_true(run(WRITE_AND_LOOK, 20000, seed) / 10000 < URO_US(5)); /* below one wake-up */
        contended += hosts[0].contended + hosts[1].contended;
    }
    assert_true(contended > 0);
}

static void two_hosts__programs_sleep__at_most_two_wakeups_per_message(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uro_time took = run(SLEEP, 2000, seed);
        /* Each of the two messages needs two wake-ups: of the service thread and of the program. */
        assert_true(took / 1000 < 9 * SWITCH);
        for (int i = 0; i < 2; i++)
            assert_true(hosts[i].wakeups <= 2 * 1000 + 10);
    }
}

static void two_hosts__program_posts_bursts__posts_are_sent_together(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        (void)run(BURSTS, 64000, seed);
        assert_true(hosts[0].rounds_of_program < 32000 / 2);
        for (int i = 0; i < 2; i++)
            assert_true(hosts[i].rounds_of_service * 50 <= hosts[i].rounds_of_program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hosts__programs_poll__need_no_service_thread),
        cmocka_unit_test(two_hosts__programs_spin_on_memory__do_not_wait_for_a_wakeup),
        cmocka_unit_test(two_hosts__programs_sleep__at_most_two_wakeups_per_message),
        cmocka_unit_test(two_hosts__program_posts_bursts__posts_are_sent_together),
    };
    return cmocka_run_group_tests_name("host/two_processors", tests, NULL, NULL);
}
