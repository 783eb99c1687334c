/* SPDX-License-Identifier: BSD-3-Clause */
/* sched.h - decides which thread runs the engine of a device, and when.
 *
 * The functions only decide. They use no clock, no lock, no atomic variable and no system call.
 * progress.c and round.c (callers of verbs), service.c (the service thread) and waiter.c (threads
 * that wait for events) report events and carry out the decisions. sched.c has the state tables.
 *
 *   takeover         whether the calls of the program or the service thread run the engine
 *   service role     whether the service thread or a thread that waits for an event serves the
 *                    device
 *   send coalescing  whether posted requests are sent at once or by a later call
 *   awaited reply    whether a poll that received an ACK waits for the peer's WRITE
 *
 * The state is in two structs. The engine lock protects struct uro_sched, except for the members
 * that only one thread uses. struct uro_sched_vars is a copy of variables that other threads write
 * at any time. A function changes the copy. Its caller then stores the members that the function's
 * comment names.
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
    URO_SCHED_RUN,   /* run a round now */
    URO_SCHED_DEFER, /* do nothing, because a later call or another thread runs the round */
    URO_SCHED_SLEEP, /* sleep until a time, a doorbell or, with `arm`, a frame */
};

struct uro_sched_decision {
    enum uro_sched_action action;
    bool receive;   /* RUN: whether the round also receives */
    bool arm;       /* SLEEP: whether to arm the port for a wake-up first */
    uro_time until; /* SLEEP: latest time to wake */
};

/* Copies of the variables that threads write or read without the engine lock. */
struct uro_sched_vars {
    enum uro_takeover takeover;
    int balance;      /* takeover balance, 0 (callers) .. URO_BALANCE_TOP (service thread) */
    uro_time silence; /* learned time without a call after which the program counts as silent, ns */
    uro_time poll_round_at; /* end of the last round of a caller that polled */
    uro_time post_round_at; /* end of the last round of a caller that sent posted requests */
    uro_time polled_at;     /* time of the last poll that ran a round or found a completion */
    uro_time contended_at;  /* first poll that got no lock since the thread's last round; 0: none */
    uro_time wake_at;       /* time when the thread with the service role wakes; 0: it is awake */
    uro_time send_cost;     /* recent time of sending one or two frames, ns */
    uint32_t held_posts;    /* posts that wait for a later call */
    uint32_t post_burst;    /* approximate number of posts since the last poll or pause */
    uint32_t empty_polls;   /* polls in a row that found no completion and received no frame */
    bool caller_in_round;
};

struct uro_sched {
    /* Members that are constant while the device runs. */
    enum uro_progress_mode mode;
    bool call_per_send; /* property of the port: each send needs a system call */

    /* Members that the engine lock protects. */
    uint64_t served;       /* peers' WRITEs, READs and atomics when the thread last received */
    int reply_score;       /* above 0: a poll that received an ACK waits for the peer's WRITE */
    uint32_t empty_rounds; /* rounds of callers in a row that received nothing */
    bool took_over; /* the thread ran a round without being `needed`, and no caller came since */
    bool event_delivered; /* an event was delivered: a program may be waking up */

    /* Members that only the thread with the service role uses. */
    uro_time interval;   /* time between two checks for silence, ns */
    uro_time moved_at;   /* time when a round of the thread last moved a frame */
    uro_time yielded_at; /* time when the thread last yielded to a caller that could not lock */
    /* The last round of the thread ended with a yield to a caller. During the round, a post rang
     * the doorbell, but found the lock taken. The thread runs one more round for this post. */
    bool doorbell_missed;
    bool needed; /* the thread did work that no caller would do */

    /* Members that only the service thread itself uses. */
    uint32_t waits_seen;    /* value of uro_sched_role.waits at the last check of the role */
    uro_time role_interval; /* time between two checks of the role, ns */
};

/* Returns the state of a new device. */
struct uro_sched uro_sched_init(enum uro_progress_mode mode, bool call_per_send);

/* ---- events of callers, without the engine lock -------------------------- */

/* Decides about a post. RUN: send now. DEFER: a later call or the service thread sends the request.
 * Changes no member of @vars; the caller counts held_posts. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_post(const struct uro_sched *sched,
                                                          const struct uro_sched_vars *vars,
                                                          uro_time now);

/* Decides about a poll that found completions of an earlier round: DEFER or RUN. Changes polled_at,
 * empty_polls, post_burst. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_poll(struct uro_sched_vars *vars,
                                                          uro_time now);

/* Returns whether a caller that found the engine lock taken calls sched_yield(). @polls: number of
 * polls so far that found the lock taken. */
URO_NODISCARD bool uro_sched_on_contended(uint32_t polls);

/* Prepares for a program that will wait for an event. RUN: wake the service thread. @rx_armed: a
 * frame wakes the service thread already. Changes balance, takeover. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_wait(struct uro_sched_vars *vars,
                                                          bool rx_armed);

/* ---- events of callers, with the engine lock ------------------------------ */

/* Begins the round of a caller, for a post or a poll. Always returns RUN. Changes silence,
 * post_burst. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_caller(struct uro_sched *sched,
                                                            struct uro_sched_vars *vars,
                                                            bool posted, uro_time now);

struct uro_sched_caller_round {
    uro_time began, ended;
    uro_time next; /* time of the next timer or delayed frame */
    uint32_t received;
    bool posted; /* true: the caller posted; false: the caller polled */
    bool sends;  /* the round sent posted requests */
};

struct uro_sched_caller_result {
    bool wake_thread; /* wake the service thread, which sleeps beyond the engine's next timer */
    bool yield;       /* call sched_yield() */
};

/* Ends the round of a caller. Changes balance, takeover, post_round_at, poll_round_at,
 * polled_at. */
URO_NODISCARD struct uro_sched_caller_result uro_sched_on_caller_done(
    struct uro_sched *sched, struct uro_sched_vars *vars,
    const struct uro_sched_caller_round *round);

/* Returns whether a poll that ran a round waits for the peer's WRITE. @completed: the poll
 * delivered a completion. @served_before, @served_now: number of WRITEs, READs and atomics of
 * peers, before the poll and now. */
URO_NODISCARD enum uro_reply uro_sched_reply(const struct uro_sched *sched, bool completed,
                                             uint64_t served_before, uint64_t served_now);
/* Returns the time until which such a poll waits. */
uro_time uro_sched_reply_until(const struct uro_sched_vars *vars, uro_time now);
/* Ends the wait of such a poll. @came: whether the WRITE arrived. */
void uro_sched_on_reply(struct uro_sched *sched, bool came);

/* Records a send that ended at @ended. @began: start of the send if it was timed, else 0. Changes
 * send_cost. */
void uro_sched_on_send(struct uro_sched_vars *vars, uro_time began, uro_time ended);

/* ---- events of the service thread ----------------------------------------- */

/* Decides before each round of the service thread: RUN, or SLEEP while callers run the engine.
 * Changes no member of @vars. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_thread(struct uro_sched *sched,
                                                            const struct uro_sched_vars *vars,
                                                            uro_time now);

struct uro_sched_thread_round {
    uro_time began, ended;
    uint64_t served; /* WRITEs, READs and atomics of peers so far */
    uint32_t received;
    uint32_t moved; /* frames received and sent */
};

/* Ends a round of the service thread. RUN: run another round. DEFER: a caller that found the lock
 * taken runs the next round. SLEEP: uro_sched_on_idle() returns the time to wake. Engine lock held.
 * Changes balance, takeover, silence, empty_polls. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_thread_round(
    struct uro_sched *sched, struct uro_sched_vars *vars,
    const struct uro_sched_thread_round *round);

struct uro_sched_idle {
    uro_time now;
    uro_time next;          /* time of the next timer or delayed frame */
    uro_time link_interval; /* time between two checks of the link, ns */
    bool link_up;
    bool has_descriptor; /* the port has a file descriptor to sleep on */
};

/* Returns how the service thread sleeps when it has nothing to do. Always returns SLEEP. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_idle(const struct uro_sched *sched,
                                                          const struct uro_sched_idle *idle);

/* ---- the service role ------------------------------------------------------- */

/* The state of the role when the service thread wakes. */
struct uro_sched_role {
    bool waiter;          /* a thread that waits for an event has the role */
    uro_time wake_at;     /* time when the waiting thread wakes; 0: it is awake */
    uro_time returned_at; /* time when a waiting thread last returned the role; 0: never */
    uint32_t waits;       /* number of waits with the role so far */
};

/* Decides for the service thread after it slept. RUN: take the role. SLEEP: check again later. */
URO_NODISCARD struct uro_sched_decision uro_sched_on_role(struct uro_sched *sched,
                                                          const struct uro_sched_role *role,
                                                          uro_time now);

/* Prepares for a program that waits for an event, and runs the engine while it waits. Changes
 * balance, takeover. */
void uro_sched_on_role_taken(struct uro_sched_vars *vars);

struct uro_sched_role_end {
    uro_time now;
    uro_time thread_wake_at; /* time when the service thread wakes */
    bool rung;               /* the engine's doorbell was rung, or wake_at has changed */
    bool others_wait;        /* other threads wait for events */
};

enum uro_role_action {
    URO_ROLE_LEAVE, /* the service thread wakes soon enough */
    URO_ROLE_LOOK,  /* the service thread must wake and check the role */
    URO_ROLE_WAKE,  /* the service thread must run at once */
};

/* Decides what the service thread does after a waiting thread returned the role. Changes
 * poll_round_at and polled_at, so that the program counts as calling. */
URO_NODISCARD enum uro_role_action uro_sched_on_role_returned(struct uro_sched_vars *vars,
                                                              const struct uro_sched_role_end *end);
