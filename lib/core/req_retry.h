/* SPDX-License-Identifier: BSD-3-Clause */
/* req_retry.h - when an RC requester waits, sends again, or gives up. */
#pragma once

#include "base/wheel.h"
#include "core/psn.h"

enum uro_req_wait {
    URO_REQ_WAIT_NOTHING,
    URO_REQ_WAIT_ACK, /* packets are outstanding */
    URO_REQ_WAIT_RNR, /* the responder had no receive and named a delay */
};

enum uro_req_retry_action {
    URO_REQ_RETRY_NONE,
    URO_REQ_RETRY_RESEND, /* from the oldest unacknowledged PSN */
    URO_REQ_RETRY_PROBE,  /* the packet with that PSN only; no retry is used up */
    URO_REQ_RETRY_FAIL_TIMEOUT,
    URO_REQ_RETRY_FAIL_RNR
};

struct uro_req_retry_config {
    uint8_t timeout_exponent; /* 0..31; ACK timeout is 4.096 us * 2^n, 0 = wait for ever */
    uint8_t retry_max;        /* 0..7 */
    uint8_t rnr_retry_max;    /* 0..7, 7 = for ever */
    bool retry_7_forever;     /* read retry_max 7 as Linux rxe does */
};

struct uro_req_retry {
    struct uro_req_retry_config config;
    enum uro_req_wait wait;
    uint8_t retries_left;
    uint8_t rnr_retries_left;
    bool timed;             /* an answer is timed: */
    uro_psn timed_end;      /* of everything before this */
    uro_time timed_at;      /* sent then */
    uint32_t rtt;           /* ns, smoothed; 0: none was timed yet */
    uint32_t rtt_var;       /* ns */
    uint8_t probes;         /* since progress */
    uro_time probe_at;      /* before deadline, or NEVER */
    uro_time deadline;      /* of the wait; moved by progress without touching the timer */
    struct uro_timer timer; /* armed at or before both while wait != NOTHING and finite */
};

/* Full budgets, no wait. The timer must be idle. */
void uro_req_retry_init(struct uro_req_retry *retry, const struct uro_req_retry_config *config);

/* Events: call each one when it happens. @next is the PSN behind what was sent, @una the oldest
 * that is not acknowledged. */
void uro_req_retry_on_sent(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now,
                           uro_psn next);
void uro_req_retry_on_progress(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now,
                               uro_psn una, bool outstanding);
URO_NODISCARD enum uro_req_retry_action uro_req_retry_on_rnr_nak(struct uro_req_retry *retry,
                                                                 struct uro_wheel *wheel,
                                                                 uro_time now, uint8_t rnr_code);
/* The peer is still answering, ahead of a gap that is being mended: the ACK wait starts again. */
void uro_req_retry_on_alive(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now);
/* A NAK sequence error, or a response that jumped over an unanswered READ or atomic. */
URO_NODISCARD enum uro_req_retry_action uro_req_retry_on_gap(struct uro_req_retry *retry,
                                                             struct uro_wheel *wheel, uro_time now);

/* The engine popped the timer of @retry. */
URO_NODISCARD enum uro_req_retry_action uro_req_retry_on_expiry(struct uro_req_retry *retry,
                                                                struct uro_wheel *wheel,
                                                                uro_time now);

void uro_req_retry_stop(struct uro_req_retry *retry, struct uro_wheel *wheel);

/* How long a 5-bit RNR NAK timer code asks to wait. */
uro_time uro_req_retry_rnr_delay(uint8_t rnr_code);
