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
    URO_REQ_RETRY_RESEND, /* send again from the oldest unacknowledged PSN */
    URO_REQ_RETRY_PROBE,  /* send only the packet with that PSN; this uses no retry */
    URO_REQ_RETRY_FAIL_TIMEOUT,
    URO_REQ_RETRY_FAIL_RNR
};

struct uro_req_retry_config {
    uint8_t timeout_exponent; /* 0..31; ACK timeout is 4.096 us * 2^n, 0 = wait for ever */
    uint8_t retry_max;        /* 0..7 */
    uint8_t rnr_retry_max;    /* 0..7, 7 = for ever */
    bool retry_7_forever;     /* retry_max 7 means without limit, as in Linux rxe */
};

struct uro_req_retry {
    struct uro_req_retry_config config;
    enum uro_req_wait wait;
    uint8_t retries_left;
    uint8_t rnr_retries_left;
    bool timed;        /* a round trip is being measured */
    uro_psn timed_end; /* the measurement ends when all PSNs before this are acknowledged */
    uro_time timed_at; /* start of the measurement */
    uint32_t rtt;      /* round-trip time, ns, smoothed; 0: not measured yet */
    uint32_t rtt_var;  /* variation of rtt, ns */
    uint8_t probes;    /* probes sent since progress */
    /* time of the first RNR NAK; valid while rnr_retries_left is not rnr_retry_max */
    uint32_t rnr_since_ms;
    uro_time probe_at;      /* time of the next probe, before deadline; or NEVER */
    uro_time deadline;      /* end of the wait; progress moves it, and seldom arms the timer */
    struct uro_timer timer; /* armed at or before probe_at and deadline, during a finite wait */
};

/* Starts with full budgets and no wait. The timer must be idle. */
void uro_req_retry_init(struct uro_req_retry *retry, const struct uro_req_retry_config *config);

/* Report events. @next is the PSN behind the newest sent PSN. @una is the oldest PSN that is not
 * acknowledged. */
void uro_req_retry_on_sent(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now,
                           uro_psn next);
void uro_req_retry_on_progress(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now,
                               uro_psn una, bool outstanding);
URO_NODISCARD enum uro_req_retry_action uro_req_retry_on_rnr_nak(struct uro_req_retry *retry,
                                                                 struct uro_wheel *wheel,
                                                                 uro_time now, uint8_t rnr_code);
/* Returns the time of the first RNR NAK since the last progress, to a millisecond; 0: none. */
uro_time uro_req_retry_rnr_since(const struct uro_req_retry *retry);

/* Returns true when the peer has had no receive for URO_RNR_LONG, and the requester retries for
 * ever. Returns true only once until the next progress. */
bool uro_req_retry_rnr_is_long(struct uro_req_retry *retry, uro_time now);

/* Reports that the peer answers requests behind a gap while the gap is retransmitted. The ACK wait
 * starts again. */
void uro_req_retry_on_alive(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now);
/* Reports a NAK with a sequence error, or a response that skipped an unanswered READ or atomic. */
URO_NODISCARD enum uro_req_retry_action uro_req_retry_on_gap(struct uro_req_retry *retry,
                                                             struct uro_wheel *wheel, uro_time now);

/* Reports that the timer of @retry fired. */
URO_NODISCARD enum uro_req_retry_action uro_req_retry_on_expiry(struct uro_req_retry *retry,
                                                                struct uro_wheel *wheel,
                                                                uro_time now);

void uro_req_retry_stop(struct uro_req_retry *retry, struct uro_wheel *wheel);

/* Returns the delay that a 5-bit RNR NAK timer code stands for. */
uro_time uro_req_retry_rnr_delay(uint8_t rnr_code);
