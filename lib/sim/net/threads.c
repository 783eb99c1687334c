/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c - see threads.h for the contract. The calls of host/sched.h follow progress.c and service.c of lib/host. */
#include "sim/net/threads.h"

#include <inttypes.h>
#include <string.h>

#include "host/limits.h"
#include "sim/net/host.h"

#define ROUND 300u /* time of a round, ns */
#define EMPTY_ROUND                                                                                \
    URO_US(5) /* of a round without frames: long, so that a thread that spins runs few of them */
#define STEP           50u       /* time of a call without a round, ns */
#define WAKE           URO_US(5) /* time until a woken thread runs */
#define LOST_ONE_IN    256u      /* wake-ups that find no processor */
#define LOST_MAX       URO_MS(1) /* time until the thread has a processor again */
#define POLL_GAP_LOG   6u        /* 300 ns << 0 .. 5 between two calls of ibv_poll_cq */
#define POLL_MAX_US    200u      /* longest time in which the program polls */
#define COMPUTE_MAX_US 40000u    /* and computes */
#define VAIN_MAX       16u       /* polls without work, before the program waits for an event */
#define NEVER          URO_TIME_NEVER

static uro_time now_of(const struct sim_threads *threads)
{
    return threads->host->world->now;
}

static uint64_t count_of(const struct sim_threads *threads, enum uro_counter counter)
{
    return uro_engine_counters(threads->host->engine)->value[counter];
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

/* Returns how long a thread that is due has no processor; mostly 0. */
static uro_time lost_time(struct sim_threads *threads)
{
    if (!threads->host->config.threads_wait || uro_rng_below(&threads->rng, LOST_ONE_IN) != 0)
        return 0;
    return uro_rng_u64(&threads->rng) % LOST_MAX;
}

/* Returns when a thread that is woken now runs. */
static uro_time woken_at(struct sim_threads *threads)
{
    return now_of(threads) + WAKE + lost_time(threads);
}

static void wake_thread(struct sim_threads *threads)
{
    if (threads->words.wake_at == 0)
        return;
    threads->words.wake_at = 0;
    threads->armed = false;
    uro_time at = woken_at(threads);
    if (at < threads->thread_at)
        threads->thread_at = at;
}

void sim_threads_on_frame(struct sim_threads *threads)
{
    if (threads->frame_since == NEVER)
        threads->frame_since = now_of(threads);
    if (threads->armed)
        wake_thread(threads);
}

/* ---- the program ------------------------------------------------------------ */

/* Lets the program do something else for a while. A program that finds nothing to do waits for an event. */
static void change_program(struct sim_threads *threads)
{
    static const uint32_t longest[SIM_PROGRAMS] = { POLL_MAX_US, POLL_MAX_US, COMPUTE_MAX_US };
    uro_time now = now_of(threads);

    threads->program = (enum sim_program)uro_rng_below(&threads->rng, SIM_PROGRAMS);
    threads->program_until =
        now + URO_US(sim_world_between(&threads->rng, 1, longest[threads->program]));
    threads->program_at = threads->program == SIM_PROGRAM_COMPUTES ? threads->program_until : now;
}

/* The next timer of the engine may be in the past: it counts from now on. */
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
    threads->doorbell_since = uro_engine_rung(threads->host->engine) ? now_of(threads) : NEVER;
    threads->posted = threads->caller_again = false;
    threads->round_until = now_of(threads) + (*moved > 0 ? ROUND : EMPTY_ROUND);
    note_due(threads);
    threads->vain = *moved > 0 ? 0 : threads->vain;
    if (threads->program_at == NEVER && count_of(threads, URO_COUNT_COMPLETIONS) != completions) {
        threads->sched.event_delivered = true;
        threads->program_at = woken_at(threads);
    }
    return received;
}

static void caller_round(struct sim_threads *threads, bool posted)
{
    struct uro_sched_words *words = &threads->words;
    struct uro_sched_caller_round round = { .began = now_of(threads),
                                            .posted = posted,
                                            .sends = posted || words->held_posts > 0 };
    bool receives = uro_sched_on_caller(&threads->sched, words, posted, round.began).receive;
    uint32_t moved;

    words->held_posts = 0;
    round.received = run_round(threads, receives, &moved);
    threads->thread_has_lock = false;
    round.ended = threads->round_until;
    round.next = threads->engine->due(threads->host);
    if (!posted)
        words->empty_polls = round.received > 0 ? 0 : words->empty_polls + 1;
    if (uro_sched_on_caller_done(&threads->sched, words, &round).wake_thread ||
        uro_engine_rung(threads->host->engine))
        wake_thread(threads);
}

static bool is_locked(const struct sim_threads *threads)
{
    return now_of(threads) < threads->round_until || threads->thread_ends;
}

static void post(struct sim_threads *threads)
{
    struct uro_sched_words *words = &threads->words;

    threads->posted = true;
    if (threads->doorbell_since == NEVER)
        threads->doorbell_since = now_of(threads);
    if (uro_sched_on_post(&threads->sched, words, now_of(threads)).action == URO_SCHED_DEFER)
        words->held_posts++;
    else if (!is_locked(threads))
        caller_round(threads, true);
    else if (!threads->thread_has_lock)
        threads->caller_again = true;
}

static void poll(struct sim_threads *threads)
{
    struct uro_sched_words *words = &threads->words;
    bool found = has_completions(threads);

    threads->completions = count_of(threads, URO_COUNT_COMPLETIONS);
    if (found && uro_sched_on_poll(words, now_of(threads)).action != URO_SCHED_RUN)
        return;
    if (!is_locked(threads)) {
        caller_round(threads, false);
        return;
    }
    words->empty_polls++;
    if (words->contended_at == 0)
        words->contended_at = now_of(threads);
}

/* Waits for an event, as ibv_get_cq_event() does. */
static void wait_for_event(struct sim_threads *threads)
{
    if (uro_sched_on_wait(&threads->words, threads->armed).action == URO_SCHED_RUN)
        wake_thread(threads);
    threads->program_at = has_completions(threads) ? now_of(threads) + STEP : NEVER;
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

    threads->words.wake_at = until;
    threads->thread_at = until > NEVER - lost ? NEVER : until + lost;
    threads->armed = arm;
    threads->host->wakeups++;
}

static void end_thread_round(struct sim_threads *threads)
{
    struct sim_host *host = threads->host;
    bool rung = uro_engine_rung(host->engine);

    if (!rung) /* a command, such as one that flushes a queue pair, may have taken the doorbell */
        threads->doorbell_since = NEVER;
    threads->thread_ends = threads->thread_has_lock = false;
    threads->round.ended = now_of(threads);
    struct uro_sched_decision decision =
        uro_sched_on_thread_round(&threads->sched, &threads->words, &threads->round);
    threads->sched.doorbell_missed = rung && decision.action == URO_SCHED_DEFER;
    threads->thread_at = now_of(threads) + STEP;
    if (decision.action != URO_SCHED_SLEEP || rung || host->waiting != NULL)
        return;
    const struct uro_sched_idle idle = { .now = now_of(threads),
                                         .next = threads->engine->due(host),
                                         /* A simulated link needs no look. */
                                         .link_interval = NEVER - now_of(threads),
                                         .link_up = true,
                                         .has_descriptor = true };
    decision = uro_sched_on_idle(&threads->sched, &idle);
    sleep_until(threads, decision.until, decision.arm);
}

static void run_thread(struct sim_threads *threads)
{
    struct uro_sched_words *words = &threads->words;
    uro_time now = now_of(threads);

    if (threads->thread_ends) {
        end_thread_round(threads);
        return;
    }
    words->wake_at = 0;
    threads->armed = false;
    words->caller_in_round = now < threads->round_until;
    struct uro_sched_decision decision = uro_sched_on_thread(&threads->sched, words, now);
    if (decision.action == URO_SCHED_SLEEP) {
        sleep_until(threads, decision.until, false);
    } else if (words->caller_in_round) { /* the thread waits for the lock */
        threads->thread_at = threads->round_until;
    } else {
        words->contended_at = 0;
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

/* Returns when the oldest work that waits for a thread counts as forgotten. */
static uro_time forgotten_at(const struct sim_threads *threads)
{
    const struct sim_host *host = threads->host;
    uro_time doorbell = uro_engine_rung(host->engine) ? threads->doorbell_since : NEVER;
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

    return due != threads->due && due < threads->words.wake_at;
}

uro_time sim_threads_next(const struct sim_threads *threads)
{
    uro_time next =
        threads->program_at < threads->thread_at ? threads->program_at : threads->thread_at;
    uro_time forgotten = forgotten_at(threads);

    if (!threads->posted && uro_engine_rung(threads->host->engine))
        return 0;
    if (command_set_timer(threads))
        return 0;
    if (threads->caller_again && threads->round_until < next)
        next = threads->round_until;
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
                       threads->words.wake_at);
        return;
    }
    if (command_set_timer(threads)) {
        note_due(threads);
        wake_thread(threads); /* as uro_device_unlock() does */
    }
    if (!threads->posted && uro_engine_rung(threads->host->engine))
        post(threads);
    if (threads->caller_again && !is_locked(threads))
        caller_round(threads, true);
    if (threads->program_at <= world->now)
        run_program(threads);
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
    threads->words.silence = URO_SILENCE_MIN;
    threads->program_at = threads->thread_at = host->world->now;
    threads->due = NEVER;
    threads->frame_since = threads->doorbell_since = NEVER;
}
