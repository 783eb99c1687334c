/* SPDX-License-Identifier: BSD-3-Clause */
/* sched.c - see sched.h for the contract, limits.h for the numbers, decision 0018 for the reasons.
 *
 * Takeover. The balance counts rounds that received something.
 *
 *   state    event                                                    next
 *   CALLERS  the thread received a peer's memory access, no empty     balance + 2,
 *            poll before                                              THREAD from 8 on
 *   CALLERS  any other round received                                 balance - 1
 *   any      the program will wait for an event                       balance = 64, THREAD
 *   THREAD   a caller received frames, or could have received them    balance - 1, CALLERS at 0
 *
 *   CALLERS: The thread only checks at growing intervals whether the program is silent, and frames
 *   do not wake the thread. A program is silent if its last poll and its last post are older than
 *   `silence`. The thread then runs rounds until no frame moves, and arms the port.
 *   THREAD: The thread always sleeps on the port's descriptor.
 *
 * Send coalescing.
 *
 *   state    event                                                          next
 *   IDLE     post soon after a send; the program is expected to poll soon   HOLDING
 *   HOLDING  post, under the same conditions; fewer than 32 posts wait      HOLDING
 *   HOLDING  a round of a caller                                            IDLE, all are sent
 *
 *   Posts wait only while the service thread is awake or wakes within URO_STAND_BACK_MAX. Its
 *   round sends the waiting posts if no later call does.
 *
 * Awaited reply. A program that spins on memory between its posts (ib_write_lat) polls for the ACK
 * of its WRITE, then only reads its memory. The peer's WRITE arrives soon after the ACK, sooner
 * than the service thread could wake.
 *
 *   state    event                                                          next
 *   NONE     a poll delivered a completion, no WRITE came, score above 0    AWAITED
 *   AWAITED  the WRITE came                                                 NONE, score + 1
 *   AWAITED  2 us and the time of two sends passed                          NONE, score - 4
 *   NONE     the thread received a WRITE within 200 us of a post            NONE, score + 1
 */
#include "host/sched.h"

#include "host/limits.h"

static const struct uro_sched_decision run = { .action = URO_SCHED_RUN, .receive = true };
static const struct uro_sched_decision defer = { .action = URO_SCHED_DEFER };

struct uro_sched uro_sched_init(enum uro_progress_mode mode, bool call_per_send)
{
    return (struct uro_sched){ .mode = mode,
                               .call_per_send = call_per_send,
                               .interval = URO_STAND_BACK_MIN };
}

/* ---- send coalescing ------------------------------------------------------ */

static bool in_burst(const struct uro_sched_words *words)
{
    return words->post_round_at > words->polled_at;
}

/* Returns the time limit @usual, scaled by the cost of a send. Where a send takes longer than
 * URO_COALESCE_CALLS, the program's work between two posts of a burst also takes longer. A single
 * post does not wait longer, since no other post may follow. */
static uro_time scaled(const struct uro_sched *sched, const struct uro_sched_words *words,
                       uro_time usual)
{
    if (!in_burst(words) || !sched->call_per_send || words->send_cost <= URO_COALESCE_CALLS)
        return usual;
    return usual * words->send_cost / URO_COALESCE_CALLS;
}

static bool polls_soon(const struct uro_sched *sched, const struct uro_sched_words *words,
                       uro_time now)
{
    return now - words->polled_at < scaled(sched, words, URO_POLLS_SOON);
}

static bool paused(const struct uro_sched *sched, const struct uro_sched_words *words, uro_time now)
{
    return now - words->post_round_at >= scaled(sched, words, URO_BURST_PAUSE);
}

/* Returns whether the program is in a long burst of posts. A program that fills many send queues
 * posts for longer than URO_POLLS_SOON. */
static bool goes_on_posting(const struct uro_sched *sched, const struct uro_sched_words *words,
                            uro_time now)
{
    return words->post_burst >= URO_LONG_BURST && !paused(sched, words, now);
}

/* Returns whether the service thread sends the waiting posts if no later call does. */
static bool thread_follows(const struct uro_sched *sched, const struct uro_sched_words *words,
                           uro_time now)
{
    return sched->mode != URO_PROGRESS_CALLER && words->wake_at <= now + URO_STAND_BACK_MAX;
}

struct uro_sched_decision uro_sched_on_post(const struct uro_sched *sched,
                                            const struct uro_sched_words *words, uro_time now)
{
    uro_time coalesce = sched->call_per_send ? scaled(sched, words, URO_COALESCE_CALLS)
                        : in_burst(words)    ? URO_COALESCE_BURST
                                             : URO_COALESCE;

    if (now - words->post_round_at < coalesce &&
        (polls_soon(sched, words, now) || goes_on_posting(sched, words, now)) &&
        thread_follows(sched, words, now) && words->held_posts < URO_COALESCE_POSTS)
        return defer;
    return run;
}

static enum uro_coalescing coalescing(const struct uro_sched_words *words)
{
    return words->held_posts > 0 ? URO_COALESCING_HOLDING : URO_COALESCING_IDLE;
}

/* ---- takeover ------------------------------------------------------------- */

static void weigh(struct uro_sched_words *words, int change)
{
    int balance = words->balance + change;

    words->balance = balance < 0 ? 0 : balance > URO_BALANCE_TOP ? URO_BALANCE_TOP : balance;
    if (words->balance == 0)
        words->takeover = URO_TAKEOVER_CALLERS;
    else if (words->balance >= URO_BALANCE_THREAD)
        words->takeover = URO_TAKEOVER_THREAD;
}

static uro_time last_round(const struct uro_sched_words *words)
{
    return words->poll_round_at > words->post_round_at ? words->poll_round_at
                                                       : words->post_round_at;
}

/* Adapts `silence` at the first call after the thread assumed that the program was silent. */
static void learn_silence(struct uro_sched *sched, struct uro_sched_words *words, uro_time now)
{
    uro_time gap = now - last_round(words);

    sched->took_over = false;
    if (gap > URO_SILENCE_MAX / 2)
        words->silence =
            words->silence / 2 > URO_SILENCE_MIN ? words->silence / 2 : URO_SILENCE_MIN;
    else if (gap * 2 > words->silence)
        words->silence = gap * 2;
}

struct uro_sched_decision uro_sched_on_poll(struct uro_sched_words *words, uro_time now)
{
    words->empty_polls = 0;
    words->polled_at = now;
    words->post_burst = 0;
    if (coalescing(words) == URO_COALESCING_HOLDING ||
        now - words->poll_round_at >= URO_SILENCE_MIN / 2)
        return run;
    return defer;
}

struct uro_sched_decision uro_sched_on_wait(struct uro_sched_words *words, bool rx_armed)
{
    bool is_ready = words->takeover == URO_TAKEOVER_THREAD && rx_armed &&
                    coalescing(words) == URO_COALESCING_IDLE;

    words->balance = URO_BALANCE_TOP;
    words->takeover = URO_TAKEOVER_THREAD;
    return is_ready ? defer : run;
}

struct uro_sched_decision uro_sched_on_caller(struct uro_sched *sched,
                                              struct uro_sched_words *words, bool posted,
                                              uro_time now)
{
    struct uro_sched_decision decision = run;
    uint32_t before = paused(sched, words, now) ? 0 : words->post_burst + words->held_posts;

    if (sched->took_over)
        learn_silence(sched, words, now);
    words->post_burst = posted ? before + 1 : 0;
    /* Where each send is a system call, a post only transmits. Receiving is left to the next
     * poll. */
    decision.receive = !(posted && sched->call_per_send && polls_soon(sched, words, now) &&
                         thread_follows(sched, words, now));
    return decision;
}

/* Returns whether the next timer of the engine is due long before the service thread wakes. A
 * thread that only checks for silence is not woken: while callers run the engine, they call in
 * time. */
static bool wakes_too_late(const struct uro_sched_words *words, uro_time next, uro_time now)
{
    return words->wake_at != 0 && next != URO_TIME_NEVER &&
           (next > now ? next : now) + URO_STAND_BACK_MAX < words->wake_at;
}

struct uro_sched_caller_result uro_sched_on_caller_done(struct uro_sched *sched,
                                                        struct uro_sched_words *words,
                                                        const struct uro_sched_caller_round *round)
{
    sched->empty_rounds = round->received > 0 ? 0 : sched->empty_rounds + 1;
    if (round->received > 0)
        weigh(words, -URO_BALANCE_CALLER_FOUND);
    if (round->sends)
        words->post_round_at = round->ended;
    if (!round->posted)
        words->poll_round_at = words->polled_at = round->ended;
    return (struct uro_sched_caller_result){
        .wake_thread = wakes_too_late(words, round->next, round->began),
        .yield = !round->posted && sched->empty_rounds >= URO_EMPTY_ROUNDS &&
                 sched->empty_rounds % URO_YIELD_EVERY == 0,
    };
}

/* ---- awaited reply -------------------------------------------------------- */

static void score_reply(struct uro_sched *sched, int change)
{
    int score = sched->reply_score + change;

    sched->reply_score = score < -URO_REPLY_TOP  ? -URO_REPLY_TOP
                         : score > URO_REPLY_TOP ? URO_REPLY_TOP
                                                 : score;
}

enum uro_reply uro_sched_reply(const struct uro_sched *sched, bool completed,
                               uint64_t served_before, uint64_t served_now)
{
    return sched->reply_score > 0 && completed && served_before == served_now ? URO_REPLY_AWAITED
                                                                              : URO_REPLY_NONE;
}

uro_time uro_sched_reply_until(const struct uro_sched_words *words, uro_time now)
{
    return now + URO_REPLY_WAIT + 2 * words->send_cost;
}

void uro_sched_on_reply(struct uro_sched *sched, bool came)
{
    score_reply(sched, came ? 1 : -URO_REPLY_MISSED);
}

/* Only sends of one or two frames are timed. The value decays while there are none. */
void uro_sched_on_send(struct uro_sched_words *words, uro_time began, uro_time ended)
{
    uro_time cost = began == 0 ? words->send_cost - words->send_cost / 8 : ended - began;

    if (cost < URO_SEND_INTERRUPTED)
        words->send_cost = cost;
}

/* ---- the service thread ---------------------------------------------------- */

static bool callers_run(const struct uro_sched *sched, const struct uro_sched_words *words,
                        uro_time now)
{
    if (sched->mode == URO_PROGRESS_THREAD || sched->doorbell_missed ||
        words->takeover == URO_TAKEOVER_THREAD)
        return false;
    return sched->mode == URO_PROGRESS_CALLER || now < words->poll_round_at + words->silence ||
           now < words->post_round_at + words->silence || now < sched->yielded_at + words->silence;
}

/* Returns whether a caller is in a round: the thread then does not wait for the lock. The thread
 * does wait for a caller that holds the lock for a command. */
static bool caller_is_busy(const struct uro_sched *sched, const struct uro_sched_words *words)
{
    return sched->mode == URO_PROGRESS_HYBRID && words->takeover == URO_TAKEOVER_CALLERS &&
           words->caller_in_round;
}

struct uro_sched_decision uro_sched_on_thread(struct uro_sched *sched,
                                              const struct uro_sched_words *words, uro_time now)
{
    if (caller_is_busy(sched, words) || callers_run(sched, words, now)) {
        uro_time interval = sched->interval;
        sched->interval =
            interval * 2 < URO_STAND_BACK_MAX ? interval * 2 : (uro_time)URO_STAND_BACK_MAX;
        return (struct uro_sched_decision){ .action = URO_SCHED_SLEEP, .until = now + interval };
    }
    if (sched->interval != URO_STAND_BACK_MIN) /* callers ran the engine until now */
        sched->needed = false;
    sched->interval = URO_STAND_BACK_MIN;
    sched->doorbell_missed = false;
    return run;
}

/* Updates the balance after the thread received frames. A polling program finds its own
 * completions, but no peer's WRITE or READ. A program that has not polled an empty CQ either is
 * assumed to spin on memory or to do nothing. */
static void learn_received(struct uro_sched *sched, struct uro_sched_words *words,
                           const struct uro_sched_thread_round *round)
{
    bool polls = words->empty_polls >= URO_EMPTY_POLLS;
    bool is_served = round->served != sched->served;

    words->empty_polls = 0;
    weigh(words, is_served && !polls ? URO_BALANCE_THREAD_FOUND : -URO_BALANCE_CALLER_FOUND);
    if (is_served) {
        if (!polls && round->began - words->post_round_at < URO_REPLY_SINCE)
            score_reply(sched, 1);
        sched->needed = true;
        words->silence = URO_SILENCE_MIN;
    }
    sched->served = round->served;
}

/* Returns whether the thread runs once more instead of sleeping. The thread does not spin after an
 * event: the program that wakes up often needs this processor. */
static bool spins(struct uro_sched *sched, const struct uro_sched_words *words,
                  const struct uro_sched_thread_round *round)
{
    uro_time now = round->began;

    if (round->moved > 0)
        sched->moved_at = now;
    if (sched->event_delivered) {
        sched->event_delivered = false;
        sched->moved_at = now - URO_SPIN;
        return false;
    }
    return round->moved > 0 ||
           (now - sched->moved_at < URO_SPIN && now - words->poll_round_at > URO_PROGRAM_AWAY &&
            now - words->post_round_at > URO_PROGRAM_AWAY);
}

/* Returns whether a caller polled while the thread had the lock. That caller then runs the engine.
 * A poll that is older than the last round of a caller does not count. */
static bool yields(struct uro_sched *sched, struct uro_sched_words *words, uro_time ended)
{
    if (words->contended_at <= words->poll_round_at ||
        words->contended_at <= words->post_round_at || words->takeover == URO_TAKEOVER_THREAD)
        return false;
    if (sched->took_over)
        learn_silence(sched, words, words->contended_at);
    sched->yielded_at = ended;
    return true;
}

struct uro_sched_decision uro_sched_on_thread_round(struct uro_sched *sched,
                                                    struct uro_sched_words *words,
                                                    const struct uro_sched_thread_round *round)
{
    if (round->received > 0)
        learn_received(sched, words, round);
    sched->took_over = !sched->needed && words->takeover == URO_TAKEOVER_CALLERS;
    bool spin = spins(sched, words, round);
    if (yields(sched, words, round->ended))
        return defer;
    return spin ? run : (struct uro_sched_decision){ .action = URO_SCHED_SLEEP };
}

static uro_time nap(const struct uro_sched *sched, uro_time now)
{
    return now - sched->moved_at < URO_NAP_SINCE ? URO_NAP_BUSY : URO_NAP_IDLE;
}

struct uro_sched_decision uro_sched_on_idle(const struct uro_sched *sched,
                                            const struct uro_sched_idle *idle)
{
    bool is_polled = idle->link_up && !idle->has_descriptor;
    uro_time until = idle->now + (is_polled ? nap(sched, idle->now) : idle->link_interval);

    if (idle->next <= idle->now)
        until = idle->now + URO_NAP_FULL; /* the link is full, and has room again soon */
    else if (idle->next < until)
        until = idle->next;
    return (struct uro_sched_decision){ .action = URO_SCHED_SLEEP,
                                        .arm = idle->has_descriptor,
                                        .until = until };
}
