/* SPDX-License-Identifier: BSD-3-Clause */
/* sched.h - which thread runs the engine of a device, and when.
 *
 * Only decisions: no clock, no lock, no atomic variable, no system call. progress.c (callers of verbs) and service.c (the
 * service thread) report events, and do what is decided. sched.c has the tables.
 *
 *   takeover         the program's own calls run the engine, or the service thread does
 *   send coalescing  posts leave at once, or with a later call
 *   awaited reply    a poll that found an ACK waits for the peer's WRITE, or not
 *
 * The state is in two structs. struct uro_sched belongs to the holder of the engine lock and, where its comments say so, to
 * the service thread. struct uro_sched_words is a copy of what other threads write at any time; a function changes the
 * copy, and its caller stores the words that the function's comment names.
 */
#pragma once

#include "host/host.h"

enum uro_takeover {
    URO_TAKEOVER_CALLERS,
    URO_TAKEOVER_THREAD,
};

enum uro_coalescing {
    URO_COALESCING_IDLE,
    URO_COALESCING_HOLDING,
};

enum uro_reply {
    URO_REPLY_NONE,
    URO_REPLY_AWAITED,
};

enum uro_sched_action {
    URO_SCHED_RUN,   /* a round, now */
    URO_SCHED_DEFER, /* nothing: a later call, or another thread, runs the round */
    URO_SCHED_SLEEP, /* the service thread sleeps until a time, a doorbell or, with @arm, a frame */
};

struct uro_sched_decision {
    enum uro_sched_action action;
    bool receive;   /* RUN: the round receives, too */
    bool arm;       /* SLEEP: ask the port for a wake-up first */
    uro_time until; /* SLEEP: at most so long */
};

/* Words that threads write without the engine lock, or read without it. */
struct uro_sched_words {
    enum uro_takeover takeover;
    int balance;            /* who receives the frames: 0 the callers, URO_BALANCE_TOP the thread */
    uro_time silence;       /* the program counts as silent after this long; learned */
    uro_time poll_round_at; /* end of the last round of a caller that polled */
    uro_time post_round_at; /* end of the last round of a caller in which posts left */
    uro_time polled_at;     /* the last poll, with or without a round */
    uro_time
        contended_at; /* first poll without the lock since the thread's last round began; 0: none */
    uro_time wake_at; /* when the sleeping thread wakes by itself; 0: it is awake */
    uro_time send_cost;   /* how long sending one or two frames takes, lately */
    uint32_t held_posts;  /* posts that wait for a later call */
    uint32_t post_burst;  /* about so many posts since the last poll or pause */
    uint32_t empty_polls; /* polls in a row that found nothing, or the lock taken */
    bool caller_in_round;
};

struct uro_sched {
    /* Constant while the device runs. */
    enum uro_progress_mode mode;
    bool call_per_send; /* the port's: each send costs a system call */

    /* Engine lock. */
    uint64_t served;       /* requests of peers that no completion reports, when last looked at */
    int reply_score;       /* above 0: a poll that found an ACK waits for the peer's WRITE */
    uint32_t empty_rounds; /* rounds of callers in a row that received nothing */
    bool took_over;        /* the thread ran a round in vain, and no caller has since */
    bool event_delivered;  /* since the thread last decided: a program may be about to wake */

    /* The service thread's own. */
    uro_time interval; /* between two checks for silence */
    uro_time moved_at; /* when a round of the thread last moved a frame */
    uro_time
        yielded_at; /* when the thread last left the engine to a caller that polled without the lock */
    bool doorbell_missed; /* a post rang then: the thread runs once more */
    bool needed; /* the thread did what no caller would have, since callers last ran the engine */
};

/* Returns the state of a new device. */
struct uro_sched uro_sched_init(enum uro_progress_mode mode, bool call_per_send);

/* ---- events of callers, without the engine lock -------------------------- */

/* A program posted. RUN, or DEFER: a later call, or the service thread, sends it. Changes no word; the caller of this
 * function counts held_posts. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_post(const struct uro_sched *sched,
                                                          const struct uro_sched_words *words,
                                                          uro_time now);

/* A program polled and found completions that an earlier round delivered. DEFER, or RUN. Changes polled_at, empty_polls,
 * post_burst. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_poll(struct uro_sched_words *words,
                                                          uro_time now);

/* A program will wait for an event. RUN: the service thread must be woken. Changes balance, takeover. @rx_armed: a frame
 * wakes it already. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_wait(struct uro_sched_words *words,
                                                          bool rx_armed);

/* ---- events of callers, with the engine lock ------------------------------ */

/* A caller's round begins, of a post or a poll. Always RUN. Changes silence, post_burst. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_caller(struct uro_sched *sched,
                                                            struct uro_sched_words *words,
                                                            bool posted, uro_time now);

struct uro_sched_caller_round {
    uro_time began, ended;
    uro_time next; /* when the engine wants to be called */
    uint32_t received;
    bool posted; /* by a post, not a poll */
    bool sends;  /* posts left in it */
};

struct uro_sched_caller_result {
    bool wake_thread; /* it sleeps for longer than the engine can wait */
    bool yield;       /* let other threads have the processor */
};

/* It ended. Changes balance, takeover, post_round_at, poll_round_at, polled_at. */
URO_NODISCARD struct uro_sched_caller_result uro_sched_on_caller_done(
    struct uro_sched *sched, struct uro_sched_words *words,
    const struct uro_sched_caller_round *round);

/* A poll received something. @completed: a completion was delivered. @served: the count of requests of peers that no
 * completion reports, before it and now. Returns whether the poll waits for the peer's WRITE. */
URO_NODISCARD enum uro_reply uro_sched_reply(const struct uro_sched *sched, bool completed,
                                             uint64_t served_before, uint64_t served_now);
/* Until when. */
uro_time uro_sched_reply_until(const struct uro_sched_words *words, uro_time now);
/* That wait is over; the WRITE @came or not. */
void uro_sched_on_reply(struct uro_sched *sched, bool came);

/* A send ended at @ended. @began: of a send that was timed; 0 otherwise. Changes send_cost. */
void uro_sched_on_send(struct uro_sched_words *words, uro_time began, uro_time ended);

/* ---- events of the service thread ----------------------------------------- */

/* The service thread is awake. RUN, or SLEEP while callers run the engine. Changes no word. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_thread(struct uro_sched *sched,
                                                            const struct uro_sched_words *words,
                                                            uro_time now);

struct uro_sched_thread_round {
    uro_time began, ended;
    uint64_t served; /* requests of peers so far that no completion reports */
    uint32_t received;
    uint32_t moved; /* frames that came or left */
};

/* A round of it ended; engine lock held. RUN: once more. DEFER: a caller that polled without the lock is next. SLEEP: if
 * uro_sched_on_idle() says until when. Changes balance, takeover, silence, empty_polls. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_thread_round(
    struct uro_sched *sched, struct uro_sched_words *words,
    const struct uro_sched_thread_round *round);

struct uro_sched_idle {
    uro_time now;
    uro_time next;          /* when the engine wants to be called */
    uro_time link_interval; /* between two checks of the link */
    bool link_up;
    bool has_descriptor; /* the port has something to sleep on */
};

/* Nothing is left to do. Always SLEEP. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_idle(const struct uro_sched *sched,
                                                          const struct uro_sched_idle *idle);
