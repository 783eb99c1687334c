/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.h - every constant of lib/host that decides when something happens: its unit, why it is there, and the
 * measurement that chose it where there was one (docs/decisions/0018 has the figures).
 */
#pragma once

#include "base/time.h"

/* ---- takeover: the program or the service thread runs the engine --------- */

/* The program counts as silent when it has not called for this long. The value is learned between the two: a program
 * that calls soon after a takeover is slow, not silent. In a guest without hardware support a call takes up to 300 us. */
#define URO_SILENCE_MIN URO_US(50)
#define URO_SILENCE_MAX URO_MS(2) /* a gap above half of it means that the program was away */

/* The service thread checks for silence at intervals that double from the minimum to the maximum. */
#define URO_STAND_BACK_MIN URO_US(50)
#define URO_STAND_BACK_MAX URO_US(1000)

/* The takeover balance goes from 0 to the top. The thread runs the engine from URO_BALANCE_THREAD on, until the balance is
 * 0 again. Counts of rounds that received something. */
#define URO_BALANCE_TOP          64
#define URO_BALANCE_THREAD       8
#define URO_BALANCE_THREAD_FOUND 2 /* added when only the thread could have received it */
#define URO_BALANCE_CALLER_FOUND 1 /* subtracted when a caller received, or would have */

/* Polls in a row that found an empty CQ, after which the program counts as one that waits by polling. */
#define URO_EMPTY_POLLS 2u

/* A caller that polls without success calls sched_yield(), since the peer may need its processor: after this many empty
 * rounds, which take about 10 us, and then once in so many. */
#define URO_EMPTY_ROUNDS 64u
#define URO_YIELD_EVERY  8u

/* A caller that keeps finding new posts of other threads runs at most this many rounds. */
#define URO_CALLER_ROUNDS 3u

/* A round that received this many frames is long: the clock is read again at its end. */
#define URO_LONG_ROUND 8u

/* ---- send coalescing: posts that leave with a later call ----------------- */

/* A post waits for the next call when the last posts left less than this ago. No answer takes less. */
#define URO_COALESCE 500u /* ns, after a post that was alone */
#define URO_COALESCE_BURST                                                                         \
    1500u /* ns, between posts without a poll: about a round for four of them */
#define URO_COALESCE_CALLS                                                                         \
    URO_US(4)                  /* where each send is a system call: what such a call mostly takes */
#define URO_COALESCE_POSTS 32u /* posts that wait at most */
#define URO_POLLS_SOON     URO_US(200) /* a program that polled less than this ago polls again soon */
#define URO_LONG_BURST     64u         /* posts without a poll: the program goes on posting ... */
#define URO_BURST_PAUSE    URO_US(50) /* ... until it pauses for this long */

/* ---- awaited reply: a poll waits for the peer's WRITE -------------------- */

#define URO_REPLY_WAIT  URO_US(2)   /* besides the time that two sends take */
#define URO_REPLY_SINCE URO_US(200) /* a WRITE that comes this soon after a post may answer it */
#define URO_REPLY_TOP   8           /* the reply score goes from minus this to this */
#define URO_REPLY_MISSED                                                                           \
    4 /* subtracted when no WRITE came: a vain wait costs more than one saves */

/* ---- the service thread's sleep ------------------------------------------ */

#define URO_SPIN URO_US(100) /* after the last frame, while the program is away */
#define URO_PROGRAM_AWAY                                                                           \
    URO_MS(2) /* no call for this long: the program does not need the processor */
#define URO_TIME_SLICE URO_US(100) /* the shortest that Linux grants */

/* How long a port without a descriptor is left alone. */
#define URO_NAP_FULL  URO_US(50) /* the link is full */
#define URO_NAP_BUSY  URO_MS(1)  /* frames moved lately */
#define URO_NAP_IDLE  URO_MS(5)  /* none moved for URO_NAP_SINCE: below 1 % of a processor */
#define URO_NAP_SINCE URO_MS(200)

/* ---- a round -------------------------------------------------------------- */

#define URO_OUTPUT_BURSTS 4u /* transmit bursts in a round at most */
#define URO_SEND_INTERRUPTED                                                                       \
    URO_US(100) /* a send that took longer was interrupted: its time is not learned */
#define URO_SEND_TIMED          2u          /* frames: only sends of up to this many are timed */
#define URO_LINK_STUCK          URO_MS(100) /* a link that is full for this long drops frames */
#define URO_LINK_CHECK_INTERVAL URO_MS(100)
#define URO_LINK_DOWN_INTERVAL  URO_MS(5)
