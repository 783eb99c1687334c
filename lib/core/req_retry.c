/* SPDX-License-Identifier: BSD-3-Clause */
/* req_retry.c - the waits of an RC requester.
 *
 * A requester waits for at most one thing, so it has exactly one timer:
 *
 *   sent           start the ACK wait, unless one is already running
 *   progress       a packet was acknowledged: refill the budgets, restart or stop the wait
 *   RNR NAK        wait for the delay that the RNR NAK names, then send from that PSN again
 *   gap            a request or a response was lost: send again at once, retry_max times
 *   alive          responses to requests behind the gap arrive, so the responder is alive: restart
 *                  the wait, but do not refill the budgets
 *   probe expiry   an answer is much later than usual: send one packet again, which uses no retry
 *   ACK expiry     send everything outstanding again, retry_max times, then fail the QP
 *
 * No NAK reports a lost NAK, a packet that is lost a second time, or the loss of the last packet of
 * a burst. An ACK timeout is thousands of round trips long. Therefore this file measures the round
 * trip. When an answer is much later than usual, the requester sends the oldest packet again as a
 * probe. The interval doubles with each probe. If the answer was only late, the next ACK shows that
 * nothing was lost (req_recovery.c). A round trip is measured from the first transmission, even if
 * the packet was sent again. After losses the estimate may be too long, but it is never too short.
 *
 * Progress is frequent and expiry is rare, so progress mostly moves only `deadline`. A timer that
 * fires too early is armed again. With thousands of armed timers, a timer that fires and its
 * neighbours are no longer in the cache. With more than LEFT_ARMED armed timers, a requester that
 * stops waiting cancels its timer. No other file arms this timer.
 */
#include "core/req_retry.h"

#include "base/mark.h"
#include "core/limits.h"

#define LEFT_ARMED  256u /* up to this number of armed timers, no timer is cancelled after a wait */
#define RNR_FOREVER 7
/* Values of rnr_retries_left if RNR retries have no limit: since the first RNR NAK, and since
 * uro_req_retry_rnr_is_long() returned true. */
#define RNR_WAITING   6
#define RNR_REPORTED  5
#define RETRY_FOREVER 7
#define PROBE_LEAST   URO_MS(2) /* a peer may lose the processor for a time slice */
#define PROBES_MOST   16u

/* IBTA Vol. 1, "Encoding for RNR NAK timer field"; in microseconds. */
static const uint32_t rnr_delay_us[32] = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,    320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

uro_time uro_req_retry_rnr_delay(uint8_t rnr_code)
{
    URO_ASSERT(rnr_code < URO_ARRAY_LEN(rnr_delay_us));
    URO_MARK("RNR.TABLE");
    return URO_US(rnr_delay_us[rnr_code]);
}

/* rule REQ.PROBE: Sets the time of the next probe, or NEVER if no probe is due before the
 * deadline. */
static void plan_probe(struct uro_req_retry *retry, uro_time now)
{
    uro_time usual = (uro_time)retry->rtt + 4 * (uro_time)retry->rtt_var;

    retry->probe_at = URO_TIME_NEVER;
    if (retry->rtt == 0 || retry->probes == PROBES_MOST)
        return;
    uro_time due = now + ((usual > PROBE_LEAST ? usual : PROBE_LEAST) << retry->probes);
    if (due < retry->deadline)
        retry->probe_at = due;
}

static void arm_next(struct uro_req_retry *retry, struct uro_wheel *wheel)
{
    uro_time due = retry->probe_at < retry->deadline ? retry->probe_at : retry->deadline;

    if (!uro_timer_armed(&retry->timer) || retry->timer.due_tick > due >> URO_WHEEL_TICK_SHIFT)
        uro_wheel_arm(wheel, &retry->timer, due);
}

static void wait_for_ack(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now)
{
    retry->wait = URO_REQ_WAIT_ACK;
    retry->deadline = URO_TIME_NEVER;
    if (retry->config.timeout_exponent == 0)
        return;
    retry->deadline = now + (UINT64_C(4096) << retry->config.timeout_exponent);
    plan_probe(retry, now);
    arm_next(retry, wheel);
}

/* Updates rtt and rtt_var with a sample, as TCP does (RFC 6298). */
static void measure(struct uro_req_retry *retry, uro_time taken)
{
    uint32_t sample = taken == 0 ? 1 : taken > INT32_MAX ? INT32_MAX : (uint32_t)taken;

    retry->timed = false;
    if (retry->rtt == 0) {
        retry->rtt = sample;
        retry->rtt_var = sample / 2;
        return;
    }
    uint32_t error = sample > retry->rtt ? sample - retry->rtt : retry->rtt - sample;
    retry->rtt_var += error / 4 - retry->rtt_var / 4;
    retry->rtt += sample / 8 - retry->rtt / 8;
}

static void refill_budgets(struct uro_req_retry *retry)
{
    retry->retries_left = retry->config.retry_max;
    retry->rnr_retries_left = retry->config.rnr_retry_max;
}

/* Takes one retry from the budget. Returns false when the budget is used up. */
static bool take_retry(struct uro_req_retry *retry)
{
    if (retry->config.retry_7_forever && retry->config.retry_max == RETRY_FOREVER) {
        URO_MARK("REQ.RETRY.FOREVER");
        return true;
    }
    if (retry->retries_left == 0) {
        URO_MARK("REQ.RETRY.COUNT");
        return false;
    }
    retry->retries_left--;
    return true;
}

void uro_req_retry_init(struct uro_req_retry *retry, const struct uro_req_retry_config *config)
{
    URO_ASSERT(!uro_timer_armed(&retry->timer));
    retry->config = *config;
    retry->wait = URO_REQ_WAIT_NOTHING;
    retry->deadline = URO_TIME_NEVER;
    retry->probe_at = URO_TIME_NEVER;
    retry->timed = false;
    retry->rtt = 0;
    retry->rtt_var = 0;
    retry->probes = 0;
    refill_budgets(retry);
}

void uro_req_retry_stop(struct uro_req_retry *retry, struct uro_wheel *wheel)
{
    uro_wheel_cancel(wheel, &retry->timer);
    retry->wait = URO_REQ_WAIT_NOTHING;
}

void uro_req_retry_on_sent(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now,
                           uro_psn next)
{
    URO_ASSERT(retry->wait !=
               URO_REQ_WAIT_RNR); /* req_transmit.c plans nothing during an RNR wait */
    if (!retry->timed) {
        retry->timed = true;
        retry->timed_end = next;
        retry->timed_at = now;
    }
    if (retry->wait == URO_REQ_WAIT_NOTHING)
        wait_for_ack(retry, wheel, now);
}

void uro_req_retry_on_progress(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now,
                               uro_psn una, bool outstanding)
{
    URO_MARK("REQ.RETRY.REFILL");
    if (retry->timed && uro_psn_diff(una, retry->timed_end) >= 0)
        measure(retry, now - retry->timed_at);
    refill_budgets(retry);
    retry->probes = 0;
    retry->wait = URO_REQ_WAIT_NOTHING;
    if (outstanding)
        wait_for_ack(retry, wheel, now);
    else if (wheel->armed > LEFT_ARMED)
        uro_wheel_cancel(wheel, &retry->timer);
}

uro_time uro_req_retry_rnr_since(const struct uro_req_retry *retry)
{
    return retry->rnr_retries_left != retry->config.rnr_retry_max ? URO_MS(retry->rnr_since_ms) : 0;
}

bool uro_req_retry_rnr_is_long(struct uro_req_retry *retry, uro_time now)
{
    if (retry->config.rnr_retry_max != RNR_FOREVER || retry->rnr_retries_left != RNR_WAITING ||
        now - URO_MS(retry->rnr_since_ms) < URO_RNR_LONG)
        return false;
    retry->rnr_retries_left = RNR_REPORTED;
    return true;
}

enum uro_req_retry_action uro_req_retry_on_rnr_nak(struct uro_req_retry *retry,
                                                   struct uro_wheel *wheel, uro_time now,
                                                   uint8_t rnr_code)
{
    if (retry->rnr_retries_left == retry->config.rnr_retry_max)
        retry->rnr_since_ms = (uint32_t)(now / URO_MS(1));
    if (retry->config.rnr_retry_max == RNR_FOREVER) {
        if (retry->rnr_retries_left == RNR_FOREVER)
            retry->rnr_retries_left = RNR_WAITING;
    } else {
        if (retry->rnr_retries_left == 0) {
            URO_MARK("REQ.RNR.COUNT");
            return URO_REQ_RETRY_FAIL_RNR;
        }
        retry->rnr_retries_left--;
    }
    URO_MARK("REQ.RNR.WAIT");
    retry->wait = URO_REQ_WAIT_RNR;
    retry->timed = false;
    retry->probe_at = URO_TIME_NEVER;
    retry->deadline = now + uro_req_retry_rnr_delay(rnr_code);
    arm_next(retry, wheel);
    return URO_REQ_RETRY_RESEND;
}

enum uro_req_retry_action uro_req_retry_on_gap(struct uro_req_retry *retry, struct uro_wheel *wheel,
                                               uro_time now)
{
    if (!take_retry(retry))
        return URO_REQ_RETRY_FAIL_TIMEOUT;
    wait_for_ack(retry, wheel, now);
    return URO_REQ_RETRY_RESEND;
}

void uro_req_retry_on_alive(struct uro_req_retry *retry, struct uro_wheel *wheel, uro_time now)
{
    if (retry->wait != URO_REQ_WAIT_ACK)
        return;
    URO_MARK("REQ.GAP.ALIVE");
    wait_for_ack(retry, wheel, now);
}

static enum uro_req_retry_action before_deadline(struct uro_req_retry *retry,
                                                 struct uro_wheel *wheel, uro_time now)
{
    enum uro_req_retry_action action = URO_REQ_RETRY_NONE;

    if (retry->deadline == URO_TIME_NEVER)
        return action;
    if (retry->probe_at <= now) {
        URO_MARK("REQ.PROBE");
        retry->probes++;
        plan_probe(retry, now);
        action = URO_REQ_RETRY_PROBE;
    }
    arm_next(retry, wheel);
    return action;
}

enum uro_req_retry_action uro_req_retry_on_expiry(struct uro_req_retry *retry,
                                                  struct uro_wheel *wheel, uro_time now)
{
    enum uro_req_wait expired = retry->wait;

    if (expired == URO_REQ_WAIT_NOTHING)
        return URO_REQ_RETRY_NONE; /* the wait ended, but its timer was left armed */
    if (retry->deadline > now)
        return before_deadline(retry, wheel, now);

    retry->wait = URO_REQ_WAIT_NOTHING;
    if (expired == URO_REQ_WAIT_RNR)
        return URO_REQ_RETRY_RESEND;
    URO_MARK("REQ.TIMEOUT");
    if (!take_retry(retry))
        return URO_REQ_RETRY_FAIL_TIMEOUT;
    return URO_REQ_RETRY_RESEND;
}
