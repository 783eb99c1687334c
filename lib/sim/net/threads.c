/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c - see threads.h for the contract. The calls of host/sched.h follow progress.c and
 * service.c of lib/host. */
#include "sim/net/threads.h"

#include <inttypes.h>
#include <string.h>

#include "host/limits.h"
#include "sim/net/host.h"

#define ROUND 300u /* time of a round, ns */
#define EMPTY_ROUND                                                                                \
    URO_US(5) /* time of a round without frames; long, so that a spinning thread runs few rounds */
#define STEP           50u       /* time of a call without a round, ns */
#define WAKE           URO_US(5) /* time until a woken thread runs */
#define LOST_ONE_IN    256u      /* one wake-up in this many finds no free processor */
#define LOST_MAX       URO_MS(1) /* longest time that a thread then waits for a processor */
#define POLL_GAP_LOG   6u        /* the time between two calls of ibv_poll_cq is 300 ns << 0 .. 5 */
#define POLL_MAX_US    200u      /* longest time for which the program polls */
#define COMPUTE_MAX_US 40000u    /* longest time for which the program computes */
#define VAIN_MAX       16u       /* empty polls before the program waits for an event */
#define NEVER          URO_TIME_NEVER

static uro_time now_of(const struct sim_threads *threads)
{
    return threads->host->world->now;
}

static uint64_t count_of(const struct sim_threads *threads, enum uro_counter counter)
{
    return sim_host_count(threads->host, counter);
}

static uint64_t served(const struct sim_threads *threads)
{
    return count_of(threads, URO_COUNT_RX_WRITES) + count_of(threads, URO_COUNT_RX_READS) +
           count_of(threads, URO_COUNT_RX_ATOMICS);
}

static bool has_completions(const struct sim_threads *threads)
{
    return count_of(threads, URO_COUNT_COMPLETIONS) != threads->completions;
}

/* Returns how long a thread waits for a processor after it became runnable; mostly 0. */
static uro_time lost_time(struct sim_threads *threads)
{
    if (!threads->host->config.threads_wait || uro_rng_below(&threads->rng, LOST_ONE_IN) != 0)
        return 0;
    return uro_rng_u64(&threads->rng) % LOST_MAX;
}

/* Returns the time at which a thread that is woken now runs. */
static uro_time woken_at(struct sim_threads *threads)
{
    return now_of(threads) + WAKE + lost_time(threads);
}

static void wake_thread(struct sim_threads *threads)
{
    if (threads->vars.wake_at == 0)
        return;
    threads->vars.wake_at = 0;
    threads->armed = false;
    threads->at_once = !threads->waiter;
    uro_time wake_at = woken_at(threads);
    if (wake_at < threads->thread_at)
        threads->thread_at = wake_at;
}

void sim_threads_on_frame(struct sim_threads *threads)
{
    if (threads->frame_since == NEVER)
        threads->frame_since = now_of(threads);
    if (threads->armed)
        wake_thread(threads);
}

/* ---- the program ------------------------------------------------------------ */

/* Draws what the program does for a while. */
static void change_program(struct sim_threads *threads)
{
    static const uint32_t longest[SIM_PROGRAMS] = { POLL_MAX_US, POLL_MAX_US, COMPUTE_MAX_US };
    uro_time now = now_of(threads);

    threads->program = (enum sim_program)uro_rng_below(&threads->rng, SIM_PROGRAMS);
    threads->program_until =
        now + URO_US(sim_world_between(&threads->rng, 1, longest[threads->program]));
    threads->program_at = threads->program == SIM_PROGRAM_COMPUTES ? threads->program_until : now;
}

/* Notes the next timer of the engine. A timer in the past counts as due from now on. */
static void note_due(struct sim_threads *threads)
{
    threads->due = threads->engine->due(threads->host);
    threads->due_since = now_of(threads);
}

/* Runs a round. Returns the number of received frames. */
static uint32_t run_round(struct sim_threads *threads, bool receives, uint32_t *moved)
{
    uint64_t completions = count_of(threads, URO_COUNT_COMPLETIONS);
    uint32_t received = threads->engine->round(threads->host, receives, moved);

    if (threads->host->waiting == NULL)
        threads->frame_since = NEVER;
    else if (received > 0)
        threads->frame_since = now_of(threads);
    threads->doorbell_since = uroce_engine_rung(threads->host->engine) ? now_of(threads) : NEVER;
    threads->posted = threads->caller_again = false;
    threads->round_until = now_of(threads) + (*moved > 0 ? ROUND : EMPTY_ROUND);
    note_due(threads);
    threads->vain = *moved > 0 ? 0 : threads->vain;
    if (threads->program_at == NEVER && count_of(threads, URO_COUNT_COMPLETIONS) != completions) {
        threads->sched.event_delivered = true;
        if (threads->waiter)
            wake_thread(threads); /* no effect if the thread runs this round */
        else
            threads->program_at = woken_at(threads);
    }
    return received;
}

static void caller_round(struct sim_threads *threads, bool posted)
{
    struct uro_sched_vars *vars = &threads->vars;
    struct uro_sched_caller_round round = { .began = now_of(threads),
                                            .posted = posted,
                                            .sends = posted || vars->held_posts > 0 };
    bool receives = uro_sched_on_caller(&threads->sched, vars, posted, round.began).receive;
    uint32_t moved;

    vars->held_posts = 0;
    round.received = run_round(threads, receives, &moved);
    threads->thread_has_lock = false;
    round.ended = threads->round_until;
    round.next = threads->engine->due(threads->host);
    if (!posted)
        vars->empty_polls = round.received > 0 ? 0 : vars->empty_polls + 1;
    if (uro_sched_on_caller_done(&threads->sched, vars, &round).wake_thread ||
        uroce_engine_rung(threads->host->engine))
        wake_thread(threads);
}

static bool is_locked(const struct sim_threads *threads)
{
    return now_of(threads) < threads->round_until || threads->thread_ends;
}

static void post(struct sim_threads *threads)
{
    struct uro_sched_vars *vars = &threads->vars;

    threads->posted = true;
    if (threads->doorbell_since == NEVER)
        threads->doorbell_since = now_of(threads);
    if (uro_sched_on_post(&threads->sched, vars, now_of(threads)).action == URO_SCHED_DEFER)
        vars->held_posts++;
    else if (!is_locked(threads))
        caller_round(threads, true);
    else if (!threads->thread_has_lock)
        threads->caller_again = true;
}

static void poll(struct sim_threads *threads)
{
    struct uro_sched_vars *vars = &threads->vars;
    bool found = has_completions(threads);

    threads->completions = count_of(threads, URO_COUNT_COMPLETIONS);
    if (found && uro_sched_on_poll(vars, now_of(threads)).action != URO_SCHED_RUN)
        return;
    if (!is_locked(threads)) {
        caller_round(threads, false);
        return;
    }
    vars->empty_polls++;
    if (vars->contended_at == 0)
        vars->contended_at = now_of(threads);
}

/* Takes the service role, if the service thread sleeps. */
static bool take_role(struct sim_threads *threads)
{
    if (threads->vars.wake_at == 0 || threads->thread_ends)
        return false;
    uro_sched_on_role_taken(&threads->vars);
    threads->waiter = true;
    threads->waits++;
    threads->look_at = threads->armed ? woken_at(threads) : threads->thread_at;
    threads->vars.wake_at = 0;
    threads->armed = false;
    threads->thread_at = now_of(threads) + STEP;
    return true;
}

/* Returns the role, since the program has an event. */
static void return_role(struct sim_threads *threads)
{
    const struct uro_sched_role_end end = { .now = now_of(threads),
                                            .thread_wake_at = threads->look_at,
                                            .rung = uroce_engine_rung(threads->host->engine) };
    enum uro_role_action action = uro_sched_on_role_returned(&threads->vars, &end);

    threads->waiter = false;
    threads->returned_at = end.now;
    threads->slept = true;
    threads->armed = false;
    threads->vars.wake_at = threads->thread_at = threads->look_at;
    threads->at_once = action == URO_ROLE_WAKE;
    if (action != URO_ROLE_LEAVE)
        threads->thread_at = woken_at(threads);
    threads->program_at = end.now + STEP;
}

/* Waits for an event, as ibv_get_cq_event() does. */
static void wait_for_event(struct sim_threads *threads)
{
    threads->program_at = NEVER;
    if (has_completions(threads))
        threads->program_at = now_of(threads) + STEP;
    else if (!take_role(threads) &&
             uro_sched_on_wait(&threads->vars, threads->armed).action == URO_SCHED_RUN)
        wake_thread(threads);
}

static void run_program(struct sim_threads *threads)
{
    uro_time now = now_of(threads);

    if (threads->program_at == NEVER || now >= threads->program_until)
        change_program(threads);
    if (threads->program == SIM_PROGRAM_COMPUTES)
        return;
    poll(threads);
    if (threads->program == SIM_PROGRAM_WAITS || ++threads->vain > VAIN_MAX) {
        wait_for_event(threads);
        return;
    }
    threads->program_at =
        now + ((uro_time)ROUND << uro_rng_below(&threads->rng, POLL_GAP_LOG)) + lost_time(threads);
}

/* ---- the service thread ------------------------------------------------------ */

static void sleep_until(struct sim_threads *threads, uro_time until, bool arm)
{
    uro_time lost = lost_time(threads);

    threads->vars.wake_at = until;
    threads->thread_at = until > NEVER - lost ? NEVER : until + lost;
    threads->armed = arm;
    threads->slept = !threads->waiter;
    threads->host->wakeups++;
}

static void end_thread_round(struct sim_threads *threads)
{
    struct sim_host *host = threads->host;
    bool rung = uroce_engine_rung(host->engine);

    if (!rung) /* a command, such as a flush of a queue pair, may have processed the doorbell */
        threads->doorbell_since = NEVER;
    threads->thread_ends = threads->thread_has_lock = false;
    threads->round.ended = now_of(threads);
    struct uro_sched_decision decision =
        uro_sched_on_thread_round(&threads->sched, &threads->vars, &threads->round);
    threads->sched.doorbell_missed = rung && decision.action == URO_SCHED_DEFER;
    threads->thread_at = now_of(threads) + STEP;
    if (threads->waiter && has_completions(threads)) {
        return_role(threads);
        return;
    }
    if (decision.action != URO_SCHED_SLEEP || rung || host->waiting != NULL)
        return;
    const struct uro_sched_idle idle = { .now = now_of(threads),
                                         .next = threads->engine->due(host),
                                         /* A simulated link reports every frame, so it is never
                                          * polled. */
                                         .link_interval = NEVER - now_of(threads),
                                         .link_up = true,
                                         .has_descriptor = true };
    decision = uro_sched_on_idle(&threads->sched, &idle);
    sleep_until(threads, decision.until, decision.arm);
}

/* Returns whether the service thread runs the engine now. If not, the thread sleeps again. */
static bool has_role(struct sim_threads *threads)
{
    const struct uro_sched_role role = { .returned_at = threads->returned_at,
                                         .waits = threads->waits };
    struct uro_sched_decision decision = uro_sched_on_role(&threads->sched, &role, now_of(threads));

    threads->slept = false;
    if (decision.action == URO_SCHED_RUN || threads->at_once)
        return true;
    sleep_until(threads, decision.until, false);
    return false;
}

/* Lets the service thread check the role, which the program has. */
static void look(struct sim_threads *threads)
{
    const struct uro_sched_role role = { .waiter = true,
                                         .wake_at = threads->vars.wake_at,
                                         .returned_at = threads->returned_at,
                                         .waits = threads->waits };
    struct uro_sched_decision decision = uro_sched_on_role(&threads->sched, &role, now_of(threads));

    /* A simulated program that waits always wakes in time. So the role is never overdue. */
    threads->look_at =
        (decision.action == URO_SCHED_RUN ? now_of(threads) + URO_ROLE_GRACE : decision.until) +
        lost_time(threads);
}

static void run_thread(struct sim_threads *threads)
{
    struct uro_sched_vars *vars = &threads->vars;
    uro_time now = now_of(threads);

    if (threads->thread_ends) {
        end_thread_round(threads);
        return;
    }
    if (threads->waiter && has_completions(threads)) {
        return_role(threads);
        return;
    }
    if (threads->slept && !has_role(threads))
        return;
    threads->at_once = false;
    vars->wake_at = 0;
    threads->armed = false;
    vars->caller_in_round = now < threads->round_until;
    struct uro_sched_decision decision = uro_sched_on_thread(&threads->sched, vars, now);
    if (decision.action == URO_SCHED_SLEEP) {
        sleep_until(threads, decision.until, false);
    } else if (vars->caller_in_round) { /* the thread waits for the lock */
        threads->thread_at = threads->round_until;
    } else {
        vars->contended_at = 0;
        threads->round = (struct uro_sched_thread_round){ .began = now };
        threads->round.received = run_round(threads, true, &threads->round.moved);
        threads->round.served = served(threads);
        threads->thread_has_lock = threads->thread_ends = true;
        threads->thread_at = threads->round_until;
    }
}

/* ---- the host ---------------------------------------------------------------- */

static uro_time later(uro_time a, uro_time b)
{
    return a > b ? a : b;
}

/* Returns the time limit for the oldest work that waits for a thread. Later, the run fails. */
static uro_time forgotten_at(const struct sim_threads *threads)
{
    const struct sim_host *host = threads->host;
    uro_time doorbell = uroce_engine_rung(host->engine) ? threads->doorbell_since : NEVER;
    uro_time since = threads->frame_since < doorbell ? threads->frame_since : doorbell;
    uro_time due = threads->engine->due(host);
    uro_time timer = due == threads->due ? later(due, threads->due_since) : NEVER;

    since = since < timer ? since : timer;
    if (since == NEVER)
        return NEVER;
    return later(later(since, host->tx_free), host->world->jumped_at) + SIM_THREADS_LATE;
}

/* Returns whether a command has set a timer that is due before the service thread wakes. */
static bool command_set_timer(const struct sim_threads *threads)
{
    uro_time due = threads->engine->due(threads->host);

    return due != threads->due && due < threads->vars.wake_at;
}

uro_time sim_threads_next(const struct sim_threads *threads)
{
    uro_time next =
        threads->program_at < threads->thread_at ? threads->program_at : threads->thread_at;
    uro_time forgotten = forgotten_at(threads);

    if (!threads->posted && uroce_engine_rung(threads->host->engine))
        return 0;
    if (command_set_timer(threads))
        return 0;
    if (threads->caller_again && threads->round_until < next)
        next = threads->round_until;
    if (threads->waiter && threads->look_at < next)
        next = threads->look_at;
    return next < forgotten ? next : forgotten;
}

void sim_threads_run(struct sim_threads *threads)
{
    struct sim_world *world = threads->host->world;

    if (forgotten_at(threads) <= world->now) {
        sim_world_fail(world,
                       "%c: no thread runs the engine: frame %" PRIu64 " doorbell %" PRIu64
                       " timer %" PRIu64 " of %" PRIu64 ", program %d at %" PRIu64
                       ", thread at %" PRIu64 " armed %d wake_at %" PRIu64,
                       threads->host->config.name, threads->frame_since, threads->doorbell_since,
                       threads->engine->due(threads->host), world->now, (int)threads->program,
                       threads->program_at, threads->thread_at, threads->armed,
                       threads->vars.wake_at);
        return;
    }
    if (command_set_timer(threads)) {
        note_due(threads);
        wake_thread(threads); /* as uro_device_unlock() does */
    }
    if (!threads->posted && uroce_engine_rung(threads->host->engine))
        post(threads);
    if (threads->caller_again && !is_locked(threads))
        caller_round(threads, true);
    if (threads->program_at <= world->now)
        run_program(threads);
    if (threads->waiter && threads->look_at <= world->now)
        look(threads);
    if (threads->thread_at <= world->now)
        run_thread(threads);
}

void sim_threads_init(struct sim_threads *threads, struct sim_host *host,
                      const struct sim_threads_engine *engine)
{
    const struct sim_host_config *config = &host->config;

    memset(threads, 0, sizeof *threads);
    threads->host = host;
    threads->engine = engine;
    uro_rng_init_number(&threads->rng, config->thread_seed);
    threads->sched = uro_sched_init(URO_PROGRESS_HYBRID, config->call_per_send);
    threads->vars.silence = URO_SILENCE_MIN;
    threads->program_at = threads->thread_at = host->world->now;
    threads->due = NEVER;
    threads->frame_since = threads->doorbell_since = NEVER;
}
