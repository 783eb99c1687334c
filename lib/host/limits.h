/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.h - the time limits and other limits of lib/host, with their units and reasons.
 * docs/decisions/0018 has the measurements.
 */
#pragma once

#include "base/time.h"

/* ---- takeover: the program or the service thread runs the engine --------- */

/* Bounds of the time without a call after which the program counts as silent. The scheduler learns
 * this time, because a program that calls soon after a takeover is slow, not silent. In a virtual
 * machine without hardware support, a call takes up to 300 us. */
#define URO_SILENCE_MIN URO_US(50)
#define URO_SILENCE_MAX                                                                            \
    URO_MS(2) /* a pause of more than half of this time counts as an absence of the program */

/* The service thread checks for silence at intervals that double from the minimum to the
 * maximum. */
#define URO_STAND_BACK_MIN URO_US(50)
#define URO_STAND_BACK_MAX URO_US(1000)

/* The takeover balance counts rounds that received something, from 0 to URO_BALANCE_TOP. The
 * service thread runs the engine from URO_BALANCE_THREAD on, until the balance is 0 again. */
#define URO_BALANCE_TOP    64
#define URO_BALANCE_THREAD 8
#define URO_BALANCE_THREAD_FOUND                                                                   \
    2 /* added when only the service thread could have received the frames */
#define URO_BALANCE_CALLER_FOUND 1 /* subtracted when a caller received the frames, or could have */

/* After this many polls in a row that found an empty CQ, the program counts as polling. */
#define URO_EMPTY_POLLS 2u

/* From URO_EMPTY_ROUNDS empty rounds in a row on, a polling caller calls sched_yield() in every
 * eighth round, since the peer may need this processor. 64 rounds take about 10 us. */
#define URO_EMPTY_ROUNDS 64u
#define URO_YIELD_EVERY  8u

/* A caller calls sched_yield() after each series of this many polls that found the engine lock
 * taken, since the thread that has the lock may need this processor. 32 polls take about 1 us. */
#define URO_CONTENDED_POLLS 32u

/* A caller runs at most this many rounds, even if other threads keep posting. */
#define URO_CALLER_ROUNDS 3u

/* The clock is read again at the end of a round that received at least this many frames. */
#define URO_LONG_ROUND 8u

/* ---- the service role of a thread that waits for an event ------------------ */

#define URO_ROLE_GRACE                                                                             \
    URO_MS(1) /* time after a wait of a program in which the role stays free for the next wait */
#define URO_ROLE_LOOK_MAX                                                                          \
    URO_MS(100) /* longest interval between two checks of the role by the service thread */
/* A thread that begins to wait checks at most this many times whether the service thread has ended
 * its round. Between the checks it yields the processor. */
#define URO_ROLE_TRIES 32u
#define URO_WAIT_LOOK                                                                              \
    URO_US(100) /* interval at which a busy waiting thread checks its descriptors */
/* A waiting thread that is later than this runs a signal handler, or has left the wait. */
#define URO_ROLE_OVERDUE URO_MS(10)

/* ---- send coalescing: posts that leave with a later call ----------------- */

/* A post waits for the next call if the last posts were sent less than this time ago. Every
 * response of a peer takes longer. */
#define URO_COALESCE 500u /* ns, after a single post */
#define URO_COALESCE_BURST                                                                         \
    1500u /* ns, between posts without a poll: about one round for four posts */
#define URO_COALESCE_CALLS                                                                         \
    URO_US(4) /* on links where each send is a system call: usual time of such a call */
#define URO_COALESCE_POSTS 32u /* maximum number of posts that wait */
#define URO_POLLS_SOON                                                                             \
    URO_US(200) /* a program that polled less than this time ago is expected to poll again */
#define URO_LONG_BURST                                                                             \
    64u /* after this many posts without a poll, the program is expected to continue posting */
#define URO_BURST_PAUSE URO_US(50) /* pause that ends a burst of posts */

/* ---- awaited reply: a poll waits for the peer's WRITE -------------------- */

#define URO_REPLY_WAIT URO_US(2) /* longest wait, in addition to the time of two sends */
#define URO_REPLY_SINCE                                                                            \
    URO_US(200)         /* a WRITE that arrives sooner after a post may be the reply to the post */
#define URO_REPLY_TOP 8 /* the reply score is -URO_REPLY_TOP .. URO_REPLY_TOP */
#define URO_REPLY_MISSED                                                                           \
    4 /* subtracted from the score: a useless wait costs more than a useful wait saves */

/* ---- the service thread's sleep ------------------------------------------ */

#define URO_SPIN URO_US(100) /* spin time after the last frame, while the program does not call */
#define URO_PROGRAM_AWAY                                                                           \
    URO_MS(2) /* after this time without a call, the program does not need the processor */
#define URO_TIME_SLICE URO_US(100) /* the shortest slice that Linux grants */

/* Sleep of the service thread between two polls of a port without a descriptor. */
#define URO_NAP_FULL  URO_US(50) /* while the link is full; also for ports with a descriptor */
#define URO_NAP_BUSY  URO_MS(1)  /* while frames are moving */
#define URO_NAP_IDLE  URO_MS(5)  /* after URO_NAP_SINCE without a frame: below 1 % of a processor */
#define URO_NAP_SINCE URO_MS(200)

/* ---- lines on stderr -------------------------------------------------------- */

#define URO_LOG_LINES  8u   /* maximum number of lines of a process in URO_LOG_PERIOD */
#define URO_LOG_TEXTS  256u /* texts that are remembered; afterwards only the rate is limited */
#define URO_LOG_PERIOD URO_MS(1000)

/* ---- a round -------------------------------------------------------------- */

#define URO_OUTPUT_BURSTS 4u /* maximum transmit bursts in a round */
#define URO_SEND_INTERRUPTED                                                                       \
    URO_US(100)                    /* a longer send was interrupted: its time does not count */
#define URO_SEND_TIMED 2u          /* only sends of at most this many frames are timed */
#define URO_LINK_STUCK URO_MS(100) /* a link that is full for this long drops frames */
/* Objects that are written for another process in one check of the link, and interval of these
 * checks until all objects are written. */
#define URO_SHOW_ROWS           1024u
#define URO_SHOW_INTERVAL       URO_MS(2)
#define URO_LINK_CHECK_INTERVAL URO_MS(100)
#define URO_LINK_DOWN_INTERVAL  URO_MS(5)
