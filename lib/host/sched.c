/* SPDX-License-Identifier: BSD-3-Clause */
/* sched.c - see sched.h for the contract, limits.h for the numbers, decision 0018 for the reasons.
 *
 * Takeover. The balance counts rounds that received something.
 *
 *   state    event                                                    next
 *   any      the thread received a peer's memory access, and the      balance + 2,
 *            program did not poll an empty CQ twice before            THREAD from 8 on
 *   any      any other round that received something                  balance - 1, CALLERS at 0
 *   any      the program will wait for an event                       balance = 64, THREAD
 *
 *   CALLERS: The thread only checks at growing intervals whether the program is silent, and frames
 *   do not wake the thread. A program is silent if its last poll and its last post are older than
 *   `silence`. The thread then runs rounds until no frame moves, and arms the port.
 *   THREAD: The thread always sleeps on the port's descriptor.
 *
 * Service role. "The thread" above is the thread that has the role: the service thread, or one
 * thread of the program that waits for an event. If a thread of the program has the role, a frame
 * wakes the program directly. The program returns the role when it gets its event, and usually
 * waits again soon. Therefore the service thread takes the role only after URO_ROLE_GRACE. If other
 * threads wait for events, the service thread is woken at once.
 *
 * Send coalescing.
 *
 *   state    event                                                          next
 *   IDLE     post soon after a send; the program is expected to poll soon,  HOLDING
 *            or is in a long burst of posts
 *   HOLDING  post, under the same conditions; fewer than 32 posts wait      HOLDING
 *   HOLDING  a round of a caller                                            IDLE, all are sent
 *
 *   Posts wait only while the service thread is awake or wakes within URO_STAND_BACK_MAX. Its
 *   round sends the waiting posts if no later call does.
 *
 * Awaited reply. A program that spins on memory between its posts (ib_write_lat) polls for the ACK
 * of its WRITE. Then it only reads its memory. The peer's WRITE arrives soon after the ACK, before
 * the service thread could wake.
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
                               .interval = URO_STAND_BACK_MIN,
                               .role_interval = URO_ROLE_GRACE };
}

/* ---- send coalescing ------------------------------------------------------ */

static bool in_burst(const struct uro_sched_vars *vars)
{
    return vars->post_round_at > vars->polled_at;
}

/* Returns the time limit @usual, scaled by the cost of a send. Where a send takes longer than
 * URO_COALESCE_CALLS, the program's work between two posts of a burst also takes longer. A single
 * post does not wait longer, since no other post may follow. */
static uro_time scaled(const struct uro_sched *sched, const struct uro_sched_vars *vars,
                       uro_time usual)
{
    if (!in_burst(vars) || !sched->call_per_send || vars->send_cost <= URO_COALESCE_CALLS)
        return usual;
    return usual * vars->send_cost / URO_COALESCE_CALLS;
}

static bool polls_soon(const struct uro_sched *sched, const struct uro_sched_vars *vars,
                       uro_time now)
{
    return now - vars->polled_at < scaled(sched, vars, URO_POLLS_SOON);
}

static bool paused(const struct uro_sched *sched, const struct uro_sched_vars *vars, uro_time now)
{
    return now - vars->post_round_at >= scaled(sched, vars, URO_BURST_PAUSE);
}

/* Returns whether the program is in a long burst of posts. A program that fills many send queues
 * posts for longer than URO_POLLS_SOON. */
static bool goes_on_posting(const struct uro_sched *sched, const struct uro_sched_vars *vars,
                            uro_time now)
{
    return vars->post_burst >= URO_LONG_BURST && !paused(sched, vars, now);
}

/* Returns whether the service thread sends the waiting posts if no later call does. */
static bool thread_follows(const struct uro_sched *sched, const struct uro_sched_vars *vars,
                           uro_time now)
{
    return sched->mode != URO_PROGRESS_CALLER && vars->wake_at <= now + URO_STAND_BACK_MAX;
}

struct uro_sched_decision uro_sched_on_post(const struct uro_sched *sched,
                                            const struct uro_sched_vars *vars, uro_time now)
{
    uro_time coalesce = sched->call_per_send ? scaled(sched, vars, URO_COALESCE_CALLS)
                        : in_burst(vars)     ? URO_COALESCE_BURST
                                             : URO_COALESCE;

    if (now - vars->post_round_at < coalesce &&
        (polls_soon(sched, vars, now) || goes_on_posting(sched, vars, now)) &&
        thread_follows(sched, vars, now) && vars->held_posts < URO_COALESCE_POSTS)
        return defer;
    return run;
}

static enum uro_coalescing coalescing(const struct uro_sched_vars *vars)
{
    return vars->held_posts > 0 ? URO_COALESCING_HOLDING : URO_COALESCING_IDLE;
}

/* ---- takeover ------------------------------------------------------------- */

static void weigh(struct uro_sched_vars *vars, int change)
{
    int balance = vars->balance + change;

    vars->balance = balance < 0 ? 0 : balance > URO_BALANCE_TOP ? URO_BALANCE_TOP : balance;
    if (vars->balance == 0)
        vars->takeover = URO_TAKEOVER_CALLERS;
    else if (vars->balance >= URO_BALANCE_THREAD)
        vars->takeover = URO_TAKEOVER_THREAD;
}

static uro_time last_round(const struct uro_sched_vars *vars)
{
    return vars->poll_round_at > vars->post_round_at ? vars->poll_round_at : vars->post_round_at;
}

/* Adapts `silence` at the first call after the thread assumed that the program was silent. */
static void learn_silence(struct uro_sched *sched, struct uro_sched_vars *vars, uro_time now)
{
    uro_time gap = now - last_round(vars);

    sched->took_over = false;
    if (gap > URO_SILENCE_MAX / 2)
        vars->silence = vars->silence / 2 > URO_SILENCE_MIN ? vars->silence / 2 : URO_SILENCE_MIN;
    else if (gap * 2 > vars->silence)
        vars->silence = gap * 2;
}

struct uro_sched_decision uro_sched_on_poll(struct uro_sched_vars *vars, uro_time now)
{
    vars->empty_polls = 0;
    vars->polled_at = now;
    vars->post_burst = 0;
    if (coalescing(vars) == URO_COALESCING_HOLDING ||
        now - vars->poll_round_at >= URO_SILENCE_MIN / 2)
        return run;
    return defer;
}

bool uro_sched_on_contended(uint32_t polls)
{
    return polls % URO_CONTENDED_POLLS == 0;
}

struct uro_sched_decision uro_sched_on_wait(struct uro_sched_vars *vars, bool rx_armed)
{
    bool is_ready = vars->takeover == URO_TAKEOVER_THREAD && rx_armed &&
                    coalescing(vars) == URO_COALESCING_IDLE;

    vars->balance = URO_BALANCE_TOP;
    vars->takeover = URO_TAKEOVER_THREAD;
    return is_ready ? defer : run;
}

struct uro_sched_decision uro_sched_on_caller(struct uro_sched *sched, struct uro_sched_vars *vars,
                                              bool posted, uro_time now)
{
    struct uro_sched_decision decision = run;
    uint32_t before = paused(sched, vars, now) ? 0 : vars->post_burst + vars->held_posts;

    if (sched->took_over)
        learn_silence(sched, vars, now);
    vars->post_burst = posted ? before + 1 : 0;
    /* Where each send is a system call, a post only transmits. Receiving is left to the next
     * poll. */
    decision.receive = !(posted && sched->call_per_send && polls_soon(sched, vars, now) &&
                         thread_follows(sched, vars, now));
    return decision;
}

/* Returns whether the next timer of the engine is due long before the service thread wakes. A
 * thread that only checks for silence is not woken, because callers that run the engine call in
 * time. */
static bool wakes_too_late(const struct uro_sched_vars *vars, uro_time next, uro_time now)
{
    return vars->wake_at != 0 && next != URO_TIME_NEVER &&
           (next > now ? next : now) + URO_STAND_BACK_MAX < vars->wake_at;
}

struct uro_sched_caller_result uro_sched_on_caller_done(struct uro_sched *sched,
                                                        struct uro_sched_vars *vars,
                                                        const struct uro_sched_caller_round *round)
{
    sched->empty_rounds = round->received > 0 ? 0 : sched->empty_rounds + 1;
    if (round->received > 0)
        weigh(vars, -URO_BALANCE_CALLER_FOUND);
    if (round->sends)
        vars->post_round_at = round->ended;
    if (!round->posted)
        vars->poll_round_at = vars->polled_at = round->ended;
    return (struct uro_sched_caller_result){
        .wake_thread = wakes_too_late(vars, round->next, round->began),
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

uro_time uro_sched_reply_until(const struct uro_sched_vars *vars, uro_time now)
{
    return now + URO_REPLY_WAIT + 2 * vars->send_cost;
}

void uro_sched_on_reply(struct uro_sched *sched, bool came)
{
    score_reply(sched, came ? 1 : -URO_REPLY_MISSED);
}

/* Only sends of one or two frames are timed. Each other send lowers the value by an eighth. */
void uro_sched_on_send(struct uro_sched_vars *vars, uro_time began, uro_time ended)
{
    uro_time cost = began == 0 ? vars->send_cost - vars->send_cost / 8 : ended - began;

    if (cost < URO_SEND_INTERRUPTED)
        vars->send_cost = cost;
}

/* ---- the service thread ---------------------------------------------------- */

static bool callers_run(const struct uro_sched *sched, const struct uro_sched_vars *vars,
                        uro_time now)
{
    if (sched->mode == URO_PROGRESS_THREAD || sched->doorbell_missed ||
        vars->takeover == URO_TAKEOVER_THREAD)
        return false;
    return sched->mode == URO_PROGRESS_CALLER || now < vars->poll_round_at + vars->silence ||
           now < vars->post_round_at + vars->silence || now < sched->yielded_at + vars->silence;
}

/* Returns whether a caller is in a round. The thread does not wait for the lock of such a caller.
 * The thread waits for a caller that holds the lock for a command. */
static bool caller_is_busy(const struct uro_sched *sched, const struct uro_sched_vars *vars)
{
    return sched->mode == URO_PROGRESS_HYBRID && vars->takeover == URO_TAKEOVER_CALLERS &&
           vars->caller_in_round;
}

struct uro_sched_decision uro_sched_on_thread(struct uro_sched *sched,
                                              const struct uro_sched_vars *vars, uro_time now)
{
    if (caller_is_busy(sched, vars) || callers_run(sched, vars, now)) {
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
static void learn_received(struct uro_sched *sched, struct uro_sched_vars *vars,
                           const struct uro_sched_thread_round *round)
{
    bool polls = vars->empty_polls >= URO_EMPTY_POLLS;
    bool is_served = round->served != sched->served;

    vars->empty_polls = 0;
    weigh(vars, is_served && !polls ? URO_BALANCE_THREAD_FOUND : -URO_BALANCE_CALLER_FOUND);
    if (is_served) {
        if (!polls && round->began - vars->post_round_at < URO_REPLY_SINCE)
            score_reply(sched, 1);
        sched->needed = true;
        vars->silence = URO_SILENCE_MIN;
    }
    sched->served = round->served;
}

/* Returns whether the thread runs once more instead of sleeping. The thread does not spin after an
 * event, because the woken program often needs this processor. */
static bool spins(struct uro_sched *sched, const struct uro_sched_vars *vars,
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
           (now - sched->moved_at < URO_SPIN && now - vars->poll_round_at > URO_PROGRAM_AWAY &&
            now - vars->post_round_at > URO_PROGRAM_AWAY);
}

/* Returns whether a caller polled while the thread had the lock. That caller then runs the engine.
 * A poll that is older than the last round of a caller does not count. */
static bool yields(struct uro_sched *sched, struct uro_sched_vars *vars, uro_time ended)
{
    if (vars->contended_at <= vars->poll_round_at || vars->contended_at <= vars->post_round_at ||
        vars->takeover == URO_TAKEOVER_THREAD)
        return false;
    if (sched->took_over)
        learn_silence(sched, vars, vars->contended_at);
    sched->yielded_at = ended;
    return true;
}

struct uro_sched_decision uro_sched_on_thread_round(struct uro_sched *sched,
                                                    struct uro_sched_vars *vars,
                                                    const struct uro_sched_thread_round *round)
{
    if (round->received > 0)
        learn_received(sched, vars, round);
    sched->took_over = !sched->needed && vars->takeover == URO_TAKEOVER_CALLERS;
    bool spin = spins(sched, vars, round);
    if (yields(sched, vars, round->ended))
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

/* ---- the service role ------------------------------------------------------- */

/* Returns whether the waiting thread has slept longer than it announced. Then a signal handler runs
 * in the waiting thread, or has left the wait by longjmp(). */
static bool is_overdue(const struct uro_sched_role *role, uro_time now)
{
    return role->wake_at != 0 && now > role->wake_at && now - role->wake_at >= URO_ROLE_OVERDUE;
}

struct uro_sched_decision uro_sched_on_role(struct uro_sched *sched,
                                            const struct uro_sched_role *role, uro_time now)
{
    const uro_time grace_end = role->returned_at + URO_ROLE_GRACE;

    if (!role->waiter) {
        if (role->returned_at == 0 || now >= grace_end)
            return run;
        return (struct uro_sched_decision){ .action = URO_SCHED_SLEEP, .until = grace_end };
    }
    if (is_overdue(role, now))
        return run;
    const bool is_idle = role->waits == sched->waits_seen;
    const uro_time twice = sched->role_interval * 2;
    sched->waits_seen = role->waits;
    sched->role_interval = !is_idle                    ? (uro_time)URO_ROLE_GRACE
                           : twice < URO_ROLE_LOOK_MAX ? twice
                                                       : (uro_time)URO_ROLE_LOOK_MAX;
    return (struct uro_sched_decision){ .action = URO_SCHED_SLEEP,
                                        .until = now + sched->role_interval };
}

void uro_sched_on_role_taken(struct uro_sched_vars *vars)
{
    vars->balance = URO_BALANCE_TOP;
    vars->takeover = URO_TAKEOVER_THREAD;
}

enum uro_role_action uro_sched_on_role_returned(struct uro_sched_vars *vars,
                                                const struct uro_sched_role_end *end)
{
    vars->poll_round_at = vars->polled_at = end->now;
    if (end->rung || end->others_wait)
        return URO_ROLE_WAKE;
    return end->thread_wake_at > end->now + URO_ROLE_GRACE ? URO_ROLE_LOOK : URO_ROLE_LEAVE;
}
